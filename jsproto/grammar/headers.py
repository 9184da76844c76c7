"""Message headers: a block of lines, ``NATS/1.0`` first, an empty line last (ADR-4).

Rules: names keep their case and are compared with it, lines keep their order, a name may occur again. A name is
printable ASCII except the colon. A value is any text without CR, LF and NUL, and blanks around it are not part of it. A
status is only ever what stands in the first line. A header called ``Status`` is data. Blocks stay bytes until somebody
asks. ``Headers`` refuses what is unsendable, which rules injection out. A malformed block that was received raises
RemoteProtocolError when it is read: that concerns its message alone, and the connection lives.

Values are UTF-8. Other bytes come out as surrogate escapes and go back unchanged.

Not here: what single headers mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from jsproto.errors import BadHeaderError, RemoteProtocolError

LINE_END: Final = b"\r\n"

SERVER_PREFIX: Final = "Nats-"
"""How the names of headers begin that mean something to servers."""

STREAM_IDENTITY: Final = "Nats-Stream-Identity"
"""In the answer to a reset: what tells a stream from all others (FACTS.md F4.17)."""

STATUS_START: Final = b"NATS/1.0 "
"""How a header block with a status begins. One without has its first line end before the blank."""

FIRST_LINE: Final = b"NATS/1.0\r\n"
"""The first line of a header block without a status."""

_END: Final = 2 * LINE_END
_STATUS: Final = re.compile(rb"NATS/1\.0[ \t]++([0-9]{3})(?:[ \t]++([^\r\n\0]*+))?\r\n")
_RAW_NAME: Final = re.compile(rb"[!-9;-~]++")
_NAME: Final = re.compile(r"[!-9;-~]++")
# No line end, NUL, half of a surrogate pair (one that stands for a byte aside), and no blanks around it.
_SURROGATES: Final = r"\ud800-\udc7f\udd00-\udfff"
_BAD: Final = rf"\r\n\0{_SURROGATES}"
_VALUE: Final = re.compile(rf"(?![ \t])[^{_BAD}]*+(?<![ \t])")
_SURROGATE: Final = re.compile(f"[{_SURROGATES}]")
_OUTER_BLANKS: Final = ("\n ", "\n\t", " \n", "\t\n")
# A line as nearly all are, and then the next one. What is no such line goes to the end, as a field without a name.
_PLAIN_LINE: Final = re.compile(r"(?:\ANATS/1\.0|(?!\A))\r\n([!-9;-~]++): (?! )([^\r\n\t\0]*+)(?<! )|(?s:.++)")
_MAPPINGS: Final = (dict, Mapping)  # dict by name too, because it is the quick one to ask for


class Headers:
    """Header lines in their order, read-only. Every one of them can be sent.

    A name that occurs again counts again in ``len``, iteration and ``items``. ``[]`` and ``get`` give its first value.
    """

    __slots__ = ("_fields",)

    def __init__(self, fields: HeadersLike | Iterable[tuple[str, str]] = ()) -> None:
        """``fields``: pairs of name and value, or a mapping with a value, or several, for each name.

        BadHeaderError for unsendable ones.
        """
        self._fields: tuple[tuple[str, str], ...]
        if isinstance(fields, Headers):
            self._fields = fields._fields
            return
        self._fields = tuple(_pairs(fields) if isinstance(fields, _MAPPINGS) else fields)
        for name, value in self._fields:
            try:
                if _NAME.fullmatch(name) is not None and _VALUE.fullmatch(value) is not None:
                    continue
            except TypeError:  # not a str
                pass
            raise BadHeaderError(_complaint(name, value))

    @classmethod
    def of(cls, headers: HeadersLike | None) -> Headers:
        """Headers from whatever the public verbs accept. BadHeaderError for unsendable ones."""
        if isinstance(headers, Headers):
            return headers
        if headers is None:
            return cls()
        if not isinstance(headers, _MAPPINGS):
            raise BadHeaderError(f"headers must be a mapping of names to values, not {type(headers).__name__}")
        return cls(headers)

    @classmethod
    def parse(cls, raw: bytes) -> Headers:
        """The headers of a block, whatever its status. RemoteProtocolError when it is malformed."""
        if raw.endswith(_END):
            headers = cls.parse_plain(raw, len(raw) - len(_END))
            if headers is not None:
                return headers
        status_line(raw)
        lines = raw.split(b"\r\n")
        breaks = len(lines) - 1
        if lines[-1] or lines[-2]:
            raise RemoteProtocolError("a header block does not end with an empty line", raw[-256:])
        if raw.count(b"\r") != breaks or raw.count(b"\n") != breaks or b"\0" in raw:
            raise RemoteProtocolError("a header block contains a lone CR or LF, or NUL", raw)
        fields: list[tuple[str, str]] = []
        for line in lines[1:-2]:
            name, colon, value = line.partition(b":")
            if not colon or _RAW_NAME.fullmatch(name) is None:
                raise RemoteProtocolError("a header line is not a name, a colon and a value", line)
            fields.append((name.decode(), value.strip(b" \t").decode("utf-8", "surrogateescape")))
        headers = cls()
        headers._fields = tuple(fields)  # nothing to check: what could be read can be sent
        return headers

    @classmethod
    def parse_plain(cls, raw: bytes, end: int) -> Headers | None:
        """The headers of a block whose first line has the version alone, and whose last line ends before ``end``. None:
        ``parse`` must look at it.

        One regular expression finds plain lines, at a third of the price of looking at them. Pays:
        ``direct-get-headers``.
        """
        try:
            fields = _PLAIN_LINE.findall(raw[:end].decode())
        except UnicodeDecodeError:
            return None
        if not fields or not fields[-1][0]:
            return None
        headers = object.__new__(cls)
        headers._fields = tuple(fields)  # nothing to check: what could be read can be sent
        return headers

    def __repr__(self) -> str:
        return f"Headers({list(self._fields)!r})"

    def __eq__(self, other: object) -> bool:
        return self._fields == other._fields if isinstance(other, Headers) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, _ in self._fields])

    def __contains__(self, name: object) -> bool:
        return name in [known for known, _ in self._fields]

    def __getitem__(self, name: str) -> str:
        for known, value in self._fields:
            if known == name:
                return value
        raise KeyError(name)

    def get(self, name: str, default: str | None = None) -> str | None:
        """The first value of ``name``, else ``default``."""
        for known, value in self._fields:
            if known == name:
                return value
        return default

    def get_last(self, name: str, default: str | None = None) -> str | None:
        """The last value of ``name``, else ``default``. Where a server appends its own it is the server's."""
        for known, value in reversed(self._fields):
            if known == name:
                return value
        return default

    def get_all(self, name: str) -> list[str]:
        """All values of ``name``, in their order."""
        return [value for known, value in self._fields if known == name]

    def items(self) -> Sequence[tuple[str, str]]:
        """All names and values, in their order."""
        return self._fields


def _pairs(headers: Mapping[str, str | Sequence[str]]) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for name, value in headers.items():
        if isinstance(value, str):
            pairs.append((name, value))
        else:
            pairs += [(name, each) for each in _several(value)]
    return pairs


def _several(values: object) -> Iterable[Any]:
    """The values of one name. Anything but a sequence of them becomes a single one, for ``Headers`` to refuse."""
    return values if isinstance(values, Sequence) and not isinstance(values, bytes) else (values,)


def _complaint(name: object, value: object) -> str:
    """The reason that makes this header unsendable."""
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        return f"a header name must be printable ASCII without blanks and colons: {name!r:.100}"
    if not isinstance(value, str):
        return f"the value of header {name} must be a str, not {type(value).__name__}"
    found = re.search(f"[{_BAD}]", value)
    where = "begin or end with a blank" if found is None else f"contain {found[0]!r}"
    return f"the value of header {name} must not {where}: {value!r:.200}"


NO_HEADERS: Final = Headers()
"""What messages without headers have. Nothing can change it, so one is enough."""

HeadersLike: TypeAlias = Headers | Mapping[str, str | Sequence[str]]
"""What the public verbs accept as headers: a value, or several, for each name."""


def status_line(raw: bytes) -> tuple[int, str] | None:
    """Status and description in the first line of a block, or None.

    Only the first line is looked at. RemoteProtocolError for anything but ``NATS/1.0``, alone or with a status of three
    digits.
    """
    if raw.startswith(FIRST_LINE):
        return None
    found = _STATUS.match(raw)
    if found is None:
        raise RemoteProtocolError(
            "a header block does not begin with NATS/1.0 and, if any, a status of three digits", raw
        )
    code, description = found.groups(b"")
    return int(code), description.rstrip(b" \t").decode("utf-8", "replace")


def last_value(raw: bytes, name: bytes) -> bytes | None:
    """The last value of ``name``, found by a search, or None when it is absent, or cut off by its end."""
    field = b"\r\n%b:" % name
    start = raw.rfind(field)
    if start < 0:
        return None
    end = raw.find(b"\r\n", start + 2)
    return None if end < 0 else raw[start + len(field) : end].strip(b" \t")


def first_value(raw: bytes, name: bytes) -> bytes | None:
    """The first value of ``name``, found by a search, as servers find it: blanks after it belong to it.

    None when it is absent, or cut off by the end of the block.
    """
    field = b"\r\n%b:" % name
    start = raw.find(field)
    if start < 0:
        return None
    end = raw.find(b"\r\n", start + 2)
    return None if end < 0 else raw[start + len(field) : end].lstrip(b" ")


def without(raw: bytes, name: bytes) -> bytes | None:
    """The block freed of the lines called ``name``, or None if those were all."""
    lines = raw.split(b"\r\n")
    kept = [lines[0], *(line for line in lines[1:] if not line.startswith(b"%b:" % name))]
    return b"\r\n".join(kept) if any(kept[1:]) else None


def appended(raw: bytes | None, name: bytes, value: bytes) -> bytes:
    """The block with one more line, the last."""
    block = b"NATS/1.0\r\n\r\n" if raw is None else raw
    return b"%b%b: %b\r\n\r\n" % (block[:-2], name, value)


def encode_headers(headers: HeadersLike, status: tuple[int, str] | None = None) -> bytes:
    """The block of ``headers``, with a status in the server role. BadHeaderError for unsendable ones."""
    # Joined, never formatted: that takes the characters of a str subclass, whatever it does when it is formatted.
    parts = ["NATS/1.0\r\n"] if status is None else [_first_line(*status)]
    for name, value in Headers.of(headers).items():
        parts += (name, ": ", value, "\r\n")
    parts.append("\r\n")
    return "".join(parts).encode("utf-8", "surrogateescape")


def encode_values(values: Sequence[str]) -> list[bytes]:
    """Many values as bytes, one or more. They are checked, and encoded, as one text of lines.

    BadHeaderError when one of them is unsendable, TypeError when one is something other than a str.
    """
    text = "\n".join(values)
    is_good = "\r" not in text and "\0" not in text and (text.isascii() or _SURROGATE.search(text) is None)
    if is_good and (" " in text or "\t" in text):
        lines = f"\n{text}\n"
        is_good = not any(blank in lines for blank in _OUTER_BLANKS)
    encoded = text.encode("utf-8", "surrogateescape").split(b"\n") if is_good else []
    if len(encoded) != len(values):
        raise BadHeaderError("one of many values contains what a header cannot, or begins or ends with a blank")
    return encoded


def _first_line(code: int, description: str) -> str:
    if not 100 <= code <= 999:
        raise BadHeaderError(f"a status has three digits: {code}")
    if _VALUE.fullmatch(description) is None:
        raise BadHeaderError(f"the description of a status must be one line without outer blanks: {description!r:.200}")
    return f"NATS/1.0 {code}" + (" " if description else "") + description + "\r\n"
