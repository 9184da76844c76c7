"""A stored message as Direct Get delivers it (ADR-31): the user's headers in front, the server's after them.

Rules: parsing costs at delivery only what paging needs (two sequences and the pending count). Everything else is parsed
when asked. The server appends its headers, so the last one of a name is the server's: a stored header called
``Nats-Sequence`` is harmless. The user's headers are what stands before the server's block.

Not here: the end-of-batch status (``client.read.direct``), replies without headers (``no_hdr``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any, Final, NamedTuple

from jsproto.errors import LocalProtocolError, RemoteProtocolError
from jsproto.grammar.bodies import MAX_UINT64, decode_json
from jsproto.grammar.consecutive import joined
from jsproto.grammar.decimals import MAX_DIGITS
from jsproto.grammar.headers import FIRST_LINE, LINE_END, NO_HEADERS, Headers, last_value
from jsproto.grammar.times import Moment, as_datetime, parse_timestamp, parse_timestamps

SERVER_BLOCK: Final = b"\r\nNats-Stream: "
_STREAM: Final = b"\r\nNats-Stream:"
_SUBJECT: Final = b"\r\nNats-Subject:"
_TIME: Final = b"\r\nNats-Time-Stamp:"
# The end of the block as every measured server writes it; anything else takes the slow way, with the same result.
_PAGED = re.compile(
    rb"\r\nNats-Sequence: ([0-9]{1,20}+)\r\nNats-Time-Stamp: [^\r\n]++"
    rb"\r\nNats-Num-Pending: ([0-9]{1,20}+)\r\nNats-Last-Sequence: ([0-9]{1,20}+)\r\n\r\n"
)
_ENDED = re.compile(
    rb"NATS/1\.0 204 EOB\r\nNats-Num-Pending: ([0-9]{1,20}+)\r\nNats-Last-Sequence: ([0-9]{1,20}+)\r\n"
    rb"(?:Nats-UpTo-Sequence: ([0-9]{1,20}+)\r\n)?\r\n"
)
FIRST_END: Final = len(FIRST_LINE) - len(LINE_END)
_BREAK: Final = re.compile(r"[\r\n\0]")
END: Final = b"\r\n\r\n"
LAST_SEQUENCE: Final = b"\r\nNats-Last-Sequence: "
ENDING: Final = LAST_SEQUENCE + b"%d" + END
"""How the header block of a reply ends in a batch: with the sequence of the reply before it."""
_ENDING: Final = re.compile(rb"%b[^\r]++%b\Z" % (LAST_SEQUENCE, END))

_SEQUENCE: Final = b"\r\nNats-Sequence: "
_FEW: Final = 32  # messages; to compare fewer at once costs more than to look at each


def number(header: bytes, name: bytes) -> int | None:
    """The last value of ``name`` as a number, or None when it is absent. RemoteProtocolError for anything else."""
    value = last_value(header, name)
    if value is None:
        return None
    if not value.isdigit() or len(value) > MAX_DIGITS:
        raise RemoteProtocolError(f"{name.decode()} is not a number", value)
    return int(value)


def paging(header: bytes) -> tuple[int, int | None, int | None]:
    """Of a Direct Get reply: its sequence, the messages pending after it, the sequence before it in the batch.

    The last two are None outside a batch. RemoteProtocolError for a missing sequence.
    """
    at = header.rfind(_SEQUENCE)
    match = _PAGED.fullmatch(header, at) if at >= 0 else None
    if match is not None:
        sequence, pending, last = match.groups()
        return int(sequence), int(pending), int(last)
    found = number(header, b"Nats-Sequence")
    if found is None:
        raise RemoteProtocolError("a Direct Get reply without Nats-Sequence", header)
    return found, number(header, b"Nats-Num-Pending"), number(header, b"Nats-Last-Sequence")


class PageEnd(NamedTuple):
    """What the end of a page says: messages left, the last sequence sent, and up to which sequence it holds."""

    pending: int | None
    last_seq: int | None
    up_to: int | None


def page_end(header: bytes) -> PageEnd:
    """Of the end of a batch, or of its last reply. None: it does not say so. RemoteProtocolError for no number."""
    match = _ENDED.fullmatch(header)
    if match is not None:
        pending, last, up_to = match.groups()
        return PageEnd(int(pending), int(last), None if up_to is None else int(up_to))
    names = (b"Nats-Num-Pending", b"Nats-Last-Sequence", b"Nats-UpTo-Sequence")
    return PageEnd(*(number(header, name) for name in names))


def answerer(header: bytes) -> str:
    """The stream that sent a Direct Get reply: a mirror names itself (FACTS.md F3.3).

    RemoteProtocolError when the reply lacks it.
    """
    return _own(header, _STREAM).decode("utf-8", "surrogateescape")


def stored_at(header: bytes) -> int:
    """When the message of a Direct Get reply was stored, in nanoseconds since the epoch. RemoteProtocolError."""
    try:
        return parse_timestamp(_own(header, _TIME))
    except ValueError as error:
        raise RemoteProtocolError(f"Nats-Time-Stamp: {error}", header) from None


def subjects_of(headers: Iterable[bytes]) -> list[str]:
    """The subjects of Direct Get replies, as ``StoredMsg.subject`` has them.

    Raises:
        RemoteProtocolError: a reply does not say its subject.
    """
    subjects = []
    for header in headers:
        _, found, rest = header.rpartition(_SUBJECT)
        value, end, _ = rest.partition(b"\r\n")
        if not found or not end:
            raise RemoteProtocolError("a Direct Get reply without Nats-Subject", header)
        subjects.append(value.strip(b" \t").decode("utf-8", "surrogateescape"))
    return subjects


def _own(header: bytes, field: bytes) -> bytes:
    """``headers.last_value``, cheaper: ``field`` is how its line begins, with CRLF and colon."""
    _, found, rest = header.rpartition(field)
    value, end, _ = rest.partition(b"\r\n")
    if not found or not end:
        raise RemoteProtocolError(f"a Direct Get reply without {field[2:-1].decode()}", header)
    return value.strip(b" \t")


def next_sequences(headers: Sequence[bytes], previous: int) -> Sequence[int]:
    """The sequences of replies that follow ``previous`` in a page, and each other, as far as ``headers`` say so.

    Sequences that rise by one are complete. Elsewhere a reply says which one was before it. It ends before the first
    one that breaks the order, or is written otherwise than servers do: then ``paging`` says what it is. Where the
    sequences are complete, it takes half of looking at each to see whether they all are what they must be then.
    """
    run = range(previous + 1, previous + 1 + len(headers))
    if len(run) >= _FEW and _are(headers, run):
        return run
    sequences: list[int] = []
    for header in headers:
        _, found, rest = header.rpartition(_SEQUENCE)
        digits = rest.partition(b"\r\n")[0]
        if not found or not digits.isdigit() or len(digits) > MAX_DIGITS:
            break
        sequence = int(digits)
        follows = header.endswith(ENDING % previous) or (sequence == previous + 1 and _ENDING.search(rest))
        if sequence <= previous or not follows:
            break
        sequences.append(sequence)
        previous = sequence
    return sequences


def _are(headers: Sequence[bytes], run: range) -> bool:
    """Whether ``headers`` have these sequences and follow each other. False, too, for numbers of several lengths."""
    last = b"%d" % run[-1]
    if len(last) > MAX_DIGITS or b"%b%b\r\n" % (_SEQUENCE, last) not in headers[-1]:
        return False
    ending = ENDING % (run[0] - 1)
    endings = b"".join(map(itemgetter(slice(-len(ending), None)), headers))
    if endings != joined(LAST_SEQUENCE, range(run[0] - 1, run[-1]), END):
        return False
    own, length = joined(_SEQUENCE, run, b"\r\n"), len(b"%b%d\r\n" % (_SEQUENCE, run[0]))
    at = headers[0].rfind(_SEQUENCE)  # where it is in all of them if their subjects are equally long
    if b"".join(map(itemgetter(slice(at, at + length)), headers)) == own:
        return b"".join(headers).count(_SEQUENCE) == len(headers)
    places = map(bytes.rfind, headers, repeat(_SEQUENCE))
    return b"".join([header[at : at + length] for header, at in zip(headers, places, strict=True)]) == own


def stored_header(user: bytes, stream: str, subject: str, seq: int, time: str) -> bytes:
    """The header block of a Direct Get's reply: that of ``user``, as it was stored, and the server's lines after it.

    RemoteProtocolError when one of them would break the block.
    """
    lines = (stream, subject, time)
    if not user.startswith(b"NATS/1.0") or not user.endswith(b"\r\n\r\n") or any(_BREAK.search(line) for line in lines):
        raise RemoteProtocolError(f"message {seq} has headers, or a subject or a time, that cannot be", user)
    own = f"Nats-Stream: {stream}\r\nNats-Subject: {subject}\r\nNats-Sequence: {seq}\r\nNats-Time-Stamp: {time}\r\n\r\n"
    try:
        return user[:-2] + own.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a surrogate pair: JSON can say it
        raise RemoteProtocolError(f"message {seq} has a subject or a time that cannot be", user) from None


class FieldsAsked:
    """What the messages of one read share. Attribute: ``yes`` (one of them was asked for its subject or its time)."""

    __slots__ = ("yes",)

    def __init__(self) -> None:
        self.yes = False


class StoredMsg:
    """A message of a stream.

    Attributes: ``seq`` (stream sequence), ``data`` (bytes). The rest is parsed when it is asked for, and raises
    RemoteProtocolError when the server's part of the header block is malformed.
    """

    __slots__ = ("_fields", "_header", "data", "seq")  # with one more it would take a quarter more memory

    _fields: tuple[str, int | None] | FieldsAsked | None
    """Subject and time, if they were found already. Else who is to hear that one of them is looked at.

    The time is nanoseconds since the epoch, None if the header block has to be asked for it.
    """

    def __init__(self, header: bytes, data: bytes, seq: int) -> None:
        self._header = header
        self._fields = None
        self.data = data
        self.seq = seq

    def __repr__(self) -> str:
        return f"<StoredMsg {self.seq} {self.subject!r} {len(self.data)} bytes>"

    @property
    def num_pending(self) -> int | None:
        """Messages that match after it, None outside a batch."""
        return number(self._header, b"Nats-Num-Pending")

    @property
    def subject(self) -> str:
        """The subject it was published to."""
        fields = self._fields
        if type(fields) is tuple:
            return fields[0]
        if fields is not None:
            fields.yes = True  # type: ignore[union-attr]
        return _own(self._header, _SUBJECT).decode("utf-8", "surrogateescape")

    @property
    def stream(self) -> str:
        """The stream that answered: a mirror names itself (FACTS.md F3.3)."""
        return _own(self._header, _STREAM).decode("utf-8", "surrogateescape")

    @property
    def timestamp(self) -> int:
        """When it was stored, in nanoseconds since the epoch. Both the servers' and the draft's format."""
        fields = self._fields
        if type(fields) is tuple:
            if type(fields[1]) is int:
                return fields[1]
        elif fields is not None:
            fields.yes = True  # type: ignore[union-attr]
        return stored_at(self._header)

    @property
    def time(self) -> Moment:
        """The same moment as a datetime, in UTC and to the microsecond."""
        return as_datetime(self.timestamp)

    def json(self) -> Any:
        """The payload as JSON.

        Raises:
            NotJSONError: it is none.
        """
        return decode_json(self.data, self.subject)

    @property
    def headers(self) -> Headers:
        """The user's headers alone."""
        header = self._header
        end = header.rfind(SERVER_BLOCK)
        if end == FIRST_END and header.startswith(FIRST_LINE):
            return NO_HEADERS
        if end < 0:
            raise RemoteProtocolError("a Direct Get reply without Nats-Stream", header)
        headers = Headers.parse_plain(header, end)
        return Headers.parse(header[:end] + END) if headers is None else headers

    @property
    def raw_headers(self) -> bytes:
        """The whole header block as it came, the server's part included."""
        return self._header


def stored_messages(
    headers: Sequence[bytes],
    data: Iterable[bytes],
    seqs: Iterable[int],
    subjects: Sequence[bytes] = (),
    times: Sequence[bytes] = (),
    asked: FieldsAsked | None = None,
) -> list[StoredMsg]:
    """A StoredMsg of each header block, payload and sequence, at two thirds of the price of calling the class.

    ``subjects`` and ``times``: as ``StoredColumns`` have them. Where they lack it, ``asked`` hears if one is looked at.
    """
    messages = [*map(object.__new__, repeat(StoredMsg, len(headers)))]
    for message, header, payload, seq in zip(messages, headers, data, seqs, strict=True):
        message._header = header
        message._fields = asked
        message.data = payload
        message.seq = seq
    if subjects:
        names = [subjects[0].decode("utf-8", "surrogateescape")] * len(subjects)
        if subjects.count(subjects[0]) < len(subjects):
            names = [subject.decode("utf-8", "surrogateescape") for subject in subjects]
        stamps: Iterable[int | None] = parse_timestamps(times) or repeat(None, len(names))
        for message, fields in zip(messages, zip(names, stamps, strict=True), strict=True):
            message._fields = fields
    return messages


def check_seq(seq: object, name: str = "seq") -> None:
    """Check a sequence.

    Raises:
        LocalProtocolError: it is not the sequence of a message, 1 to 2**64-1.
    """
    if type(seq) is not int or not 1 <= seq <= MAX_UINT64:
        raise LocalProtocolError(f"{name} must be a stream sequence, and those start at 1, not {seq!r:.100}")
