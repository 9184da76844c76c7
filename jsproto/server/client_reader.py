"""Bytes of a client to frames, as nats-server's parser takes them.

Rules (FACTS.md F7):

* A verb is read letter by letter, in any case. The first letter that fits no verb ends the link with ``UNKNOWN``.
* The rest of a line after PING, PONG and ``+OK`` is passed over. INFO is read as JSON and passed over.
* Blanks before the arguments are passed over. The next byte begins them, even if it is the end of the line.
* A CR among the arguments costs them their last byte, which at the end of a line is the CR.
* What publishes is told to the ``terms`` when its control line is complete, before its payload is there.
* An error ends the reading. ``error`` is what ``-ERR`` says then, empty where a server says nothing.
* The same bytes give the same frames however they are cut. nats-server differs there for a CR among the arguments.
* Memory is bounded by a line, and by one message.

Not here: what the frames do (``session``). The decoder of ``jsproto.wire`` is stricter, and reads both roles.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from jsproto.wire.frames import Connect, Frame, Ping, Pong, Pub, Sub, Unsub
from jsproto.wire.limits import MAX_CONTROL_LINE, MAX_SIZE_DIGITS

UNKNOWN: Final = b"Unknown Protocol Operation"
TOO_LONG: Final = b"maximum control line exceeded"
TOO_LARGE: Final = b"Maximum Payload Violation"

_LINE_ENDS_ARE_BLANKS: Final = bytes.maketrans(b"\r\n", b"  ")
_NOT_BLANK: Final = re.compile(rb"[^ \t]")
_PLAIN: Final = re.compile(rb"(H?)PUB ([^ \t\r\n]+) (?:([^ \t\r\n]+) )?(?:([0-9]{1,9}) )?([0-9]{1,9})\r\n")
_PASSED_OVER: Final[dict[bytes, Frame | None]] = {b"PING": Ping(), b"PONG": Pong(), b"+OK": None}
_WITHOUT_BLANK: Final = (b"CONNECT", b"INFO")
_VERBS: Final = (b"PUB", b"HPUB", b"SUB", b"UNSUB", b"HMSG", b"-ERR", *_WITHOUT_BLANK, *_PASSED_OVER)
_LONGEST_VERB: Final = max(map(len, _VERBS))


class Terms(Protocol):
    """What a reader asks of its session."""

    headers: bool

    def begins(self, subject: bytes) -> None:
        """The client begins to publish to ``subject``."""


class _Broken(Exception):
    """Why reading ends: the words of ``-ERR``, or none."""


class _Head(NamedTuple):
    """The control line of a message. ``header`` and ``size`` are bytes, the latter with the header."""

    subject: bytes
    reply: bytes | None
    header: int
    size: int


class ClientReader:
    """Reads what one client sends.

    Attributes: ``error`` (the words with which the link ends, None while all is well) and ``start`` (the first byte of
    the unreadable rest).
    """

    __slots__ = ("_head", "_max_payload", "_tail", "_terms", "error", "start")

    def __init__(self, terms: Terms, max_payload: int) -> None:
        """``max_payload``: bytes of a message."""
        self.error: bytes | None = None
        self.start = b""
        self._terms = terms
        self._max_payload = max_payload
        self._head: _Head | None = None  # of the message whose payload comes next
        self._tail = bytearray()  # an unfinished line or payload

    @property
    def pending(self) -> int:
        """Bytes kept of an unfinished line or message."""
        return len(self._tail)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Take ``data``, and read one frame after the other, each when it is asked for. Never raises."""
        if self.error is not None:
            return
        if self._tail:
            self._tail += data
            if self._head is not None and len(self._tail) <= self._head.size:
                return
            data = bytes(self._tail)
            self._tail.clear()
        position = 0
        try:
            while position < len(data):
                if self._head is None:
                    frame, following = self._line(data, position)
                else:
                    frame, following = self._payload(data, position, self._head)
                if following < 0:
                    break
                position = following
                if frame is not None:
                    yield frame
        except _Broken as broken:
            self.error = broken.args[0]
            self.start = data[position : position + 1]

    def _payload(self, data: bytes, position: int, head: _Head) -> tuple[Frame | None, int]:
        """The message whose payload begins at ``position``, and where it ends. -1: it is unfinished."""
        end = position + head.size
        ending = data[end : end + 2]
        if not b"\r\n".startswith(ending):
            raise _Broken(UNKNOWN)
        if len(ending) < 2:
            self._tail += data[position:]
            return None, -1
        self._head = None
        split = position + head.header
        return Pub(head.subject, head.reply, data[position:split] or None, data[split:end]), end + 2

    def _line(self, data: bytes, position: int) -> tuple[Frame | None, int]:
        """The frame of the line at ``position``, if it has one, and where the line ends. -1: it is unfinished."""
        plain = _PLAIN.match(data, position)
        if plain is not None and plain.end() - position <= MAX_CONTROL_LINE:
            has_header, subject, reply, header, size = plain.groups()
            if has_header and header is None and reply is not None:
                reply, header = None, reply
            if bool(has_header) == (header is not None):
                self._begin(subject, reply, header, size)
                return None, plain.end()
        verb = self._verb(data, position)
        if verb is None:
            self._tail += data[position:]
            return None, -1
        begin = position + len(verb)
        if verb in _PASSED_OVER:
            end = data.find(b"\n", begin)
            if end < 0:
                self._tail += verb
                return None, -1
            return _PASSED_OVER[verb], end + 1
        if verb not in _WITHOUT_BLANK and data[begin : begin + 1] not in (b" ", b"\t", b""):
            raise _Broken(UNKNOWN)
        found = _NOT_BLANK.search(data, begin)
        if found is None:
            self._tail += data[position : begin + 1]
            return None, -1
        first = found.start()
        end = data.find(b"\n", first + 1)
        is_unfinished = end < 0
        arguments = data[first:] if is_unfinished else data[first:end]
        if b"\r" in arguments[1:]:
            arguments = arguments[:-1]
        if len(arguments) > MAX_CONTROL_LINE:
            raise _Broken(TOO_LONG)
        if is_unfinished:
            self._tail += data[position : begin + 1] + data[first:]
            return None, -1
        return self._read(verb, arguments), end + 1

    def _verb(self, data: bytes, position: int) -> bytes | None:
        """The verb at ``position``. None: it is unfinished."""
        word = data[position : position + _LONGEST_VERB].upper()
        for verb in _VERBS:
            if word.startswith(verb):
                return verb
        if any(verb.startswith(word) for verb in _VERBS):
            return None
        raise _Broken(UNKNOWN)

    def _read(self, verb: bytes, arguments: bytes) -> Frame | None:
        match verb:
            case b"PUB":
                self._publish(_words(arguments, 2, 3), 1)
            case b"HPUB":
                if not self._terms.headers:
                    raise _Broken(b"")
                self._publish(_words(arguments, 3, 4), 2)
            case b"HMSG":
                self._head = _Head(b"", None, 0, 0)  # what is meant for other servers is a message to nobody
            case b"SUB":
                words = _words(arguments.translate(_LINE_ENDS_ARE_BLANKS), 2, 3)
                return Sub(words[0], words[1] if len(words) == 3 else None, words[-1])
            case b"UNSUB":
                words = _words(arguments.translate(_LINE_ENDS_ARE_BLANKS), 1, 2)
                most = _size(words[1]) if len(words) == 2 else -1
                return Unsub(words[0], most if most > 0 else None)
            case b"CONNECT":
                return Connect(arguments)
            case b"INFO":
                _check_info(arguments)
            case _:  # -ERR
                raise _Broken(b"")
        return None

    def _publish(self, words: list[bytes], sizes: int) -> None:
        reply = words[1] if len(words) == 2 + sizes else None
        self._begin(words[0], reply, words[-2] if sizes == 2 else None, words[-1])

    def _begin(self, subject: bytes, reply: bytes | None, header: bytes | None, size: bytes) -> None:
        """The control line of a message is complete."""
        of_header, of_all = 0 if header is None else _size(header), _size(size)
        if header is not None and not self._terms.headers:
            raise _Broken(b"")
        if of_header < 0 or of_all < of_header:
            raise _Broken(b"")
        if of_all > self._max_payload:
            raise _Broken(TOO_LARGE)
        self._terms.begins(subject)
        self._head = _Head(subject, reply, of_header, of_all)


def _words(arguments: bytes, least: int, most: int) -> list[bytes]:
    words = [word for word in arguments.replace(b"\t", b" ").split(b" ") if word]
    if not least <= len(words) <= most:
        raise _Broken(b"")
    return words


def _size(digits: bytes) -> int:
    """A number of up to nine digits. -1: it is none."""
    return int(digits) if digits.isdigit() and len(digits) <= MAX_SIZE_DIGITS else -1


def _check_info(arguments: bytes) -> None:
    try:
        body = json.loads(arguments.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise _Broken(b"") from None
    if not isinstance(body, dict | None):
        raise _Broken(b"")
