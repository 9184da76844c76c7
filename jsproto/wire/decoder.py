"""Bytes to frames, incrementally, for both roles: the general reader.

Rules

* ``feed`` never raises, whatever the bytes. The first offence becomes ``error``, which is final. The frames before it
  are still returned.
* The same bytes give the same messages and the same error however they are cut.
* A control line is split at blanks and tabs only, on bytes. Its verb is read in any letter case.
* A control line ends with CRLF, or with a bare LF, as servers take it. A CR anywhere else in the arguments is an error.
* A size is 1 to 9 ASCII digits and is checked on the control line, before a body that is too large arrives.
* CRLF follows a body. Anything else is an error, since the framing is lost.
* Time is linear in the number of bytes. Of an unfinished line only new bytes are searched, and an unfinished message is
  left alone until its last byte is here. The payload of a large one is copied once.
* Memory is bounded by the limits, and by what one ``feed`` takes.
* A line whose beginning rules out every verb is refused at once, so a peer that talks TLS learns it soon.

Not here: whole messages of servers by the thousand (``bulk_decoder``). Which frames fit the phase of a link
(``rules.link``). What subjects, header blocks and JSON hold (``grammar``): a message with a strange subject or header
block is a message, and the connection lives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from functools import partial
from typing import Final, Literal, NamedTuple, TypeAlias

from jsproto.errors import MAX_QUOTED, RemoteProtocolError
from jsproto.wire.bulk_decoder import BulkDecoder
from jsproto.wire.frames import Connect, Err, Frame, Info, Msg, Ok, Ping, Pong, Pub, Sub, Unsub
from jsproto.wire.limits import CLIENT_LIMITS, MAX_SIZE_DIGITS, SERVER_LIMITS, Limits

Role: TypeAlias = Literal["client", "server"]

_BLANKS: Final = b" \t"

_EMPTY_REPLY: Final = re.compile(rb"[^ \t]++ [^ \t]++  [0-9]++(?: [0-9]++)?")
_FIRST_WORD: Final = re.compile(rb"[^ \t]*+")
_PIECE: Final = 4_096  # bytes in which an unfinished small frame nearly always ends
_MUCH: Final = 16_384  # bytes: the rest of an unfinished frame is cut off so many. A message with more payload is large
_NO_END: Final = "a message that does not end with CRLF"
_ENOUGH_FOR_A_VERB: Final = len(b"CONNECT\r") + 1


class _Broken(Exception):
    """Why reading ends. It stays inside this module."""


class _Head(NamedTuple):
    """The control line of a message: its sizes in bytes, and the call that makes a frame of header block and body."""

    build: Callable[[bytes | None, bytes], Frame]
    header: int | None
    total: int


class _Large:
    """A large message under way: control line and header block are here, and the payload comes in pieces.

    Attribute: ``missing`` (bytes until its end, CRLF included).
    """

    __slots__ = ("_beginning", "_build", "_pieces", "missing")

    def __init__(self, head: _Head, beginning: bytes) -> None:
        size = head.header or 0
        self._beginning = beginning
        self.missing = head.total - size + 2
        self._build = partial(head.build, None if head.header is None else beginning[len(beginning) - size :])
        self._pieces: list[bytearray | memoryview] = []

    def add(self, data: bytes, position: int) -> int:
        """Take what it has of ``data``, from ``position`` on. Returns where that ends."""
        piece, pieces = memoryview(data)[position : position + self.missing], self._pieces
        self.missing -= len(piece)
        if len(piece) >= _MUCH:
            pieces.append(piece)
        elif pieces and isinstance(last := pieces[-1], bytearray):  # compact, however small the pieces are
            last += piece
        else:
            pieces.append(bytearray(piece))
        return position + len(piece)

    @property
    def size(self) -> int:
        """Bytes that are here of it."""
        return len(self._beginning) + sum(map(len, self._pieces))

    def kept(self) -> bytes:
        """All that is here of it."""
        return b"".join((self._beginning, *self._pieces))

    def frame(self) -> Frame:
        """The whole message."""
        *others, last = self._pieces
        if len(last) < 2:
            last = bytearray().join((others.pop(), last))
        if bytes(last[-2:]) != b"\r\n":
            raise _Broken(_NO_END)
        return self._build(b"".join((*others, memoryview(last)[:-2])))


class Decoder:
    """Reads the bytes of the other side. ``role`` is the own one: a client reads what servers send.

    Attribute: ``error`` (why reading has ended, None while all is well). Its ``data`` is the beginning of the offending
    frame.
    """

    __slots__ = ("_beginnings", "_bulk", "_large", "_max_payload", "_need", "_tail", "_verbs", "_watch", "error")

    def __init__(self, role: Role, limits: Limits | None = None) -> None:
        self.error: RemoteProtocolError | None = None
        if limits is None:
            limits = CLIENT_LIMITS if role == "client" else SERVER_LIMITS
        self._bulk = BulkDecoder(limits) if role == "client" else None
        self._max_payload = limits.max_payload
        readers = _FROM_SERVERS if role == "client" else _FROM_CLIENTS
        self._verbs = {
            verb: (read, limits.json_line if verb in _JSON_VERBS else limits.control_line)
            for verb, read in readers.items()
        }
        self._beginnings = _BEGINNINGS[role]
        self._tail = bytearray()  # the unfinished frame: compact however small the pieces it came in
        self._large: _Large | None = None  # the message under way, if it is large: then the tail is empty
        self._need = 0  # how long the tail must get before it is worth another look; 0: until its line ends
        self._watch = 0  # how long an unfinished line may get before it is checked again

    @property
    def pending(self) -> int:
        """Bytes kept of an unfinished frame."""
        return len(self._tail) if self._large is None else self._large.size

    def set_max_payload(self, size: int) -> None:
        """Accept messages of at most ``size`` bytes from now on, header blocks included."""
        self._max_payload = size
        if self._bulk is not None:
            self._bulk.max_payload = size

    def allow_runs(self, with_fields: Container[bytes] = ()) -> None:
        """From now on messages that follow each other may come as one ``MsgRun``, ``DeliveryRun`` or ``PlainRun``.

        How many come as one depends on how the bytes are cut. ``with_fields``: the ids of the subscriptions whose plain
        replies to Direct Gets are to come with ``MsgRun.fields``. It may change at any time. The server role reads
        messages one by one.
        """
        if self._bulk is not None:
            self._bulk.runs = with_fields

    def feed(self, data: bytes) -> list[Frame]:
        """Take ``data`` and return the frames that it completes, in order. Never raises."""
        tail = self._tail
        frames: list[Frame] = []
        position, end = 0, len(data)
        if len(tail) + end < self._need:
            tail += data
            return []
        bulk = self._bulk
        # An unfinished frame is finished with a piece, so that the rest need not be copied. Where messages come as
        # runs, a small message by itself costs more than the copy.
        apart = tail and end >= _MUCH and (bulk is None or bulk.runs is None)
        if apart and (piece := self._need - len(tail) if self._need else _PIECE) < end:
            frames = self.feed(data[:piece])
            if self.error is not None:
                return frames
            if len(tail) <= piece:
                position = piece - len(tail)
                tail.clear()
                self._need = 0
            else:  # its line goes on
                data = data[piece:]
        large = self._large
        if large is not None and (position := self._go_on(large, data, position, frames)) == end:
            return frames
        if tail:
            if not self._need and b"\n" not in data:
                tail += data
                if len(tail) > self._watch:
                    self._check_unfinished_line()
                return []
            data = b"".join((tail, data))
            end = len(data)
            tail.clear()
            self._need = 0
        elif self.error is not None:
            return []
        if bulk is not None:
            bulk.begin(end)
        try:
            while position < end:
                if bulk is not None:
                    position = bulk.take(data, position, frames)
                    if position == end:  # most input is whole messages
                        break
                following = self._take(data, position, frames)
                if following < 0:
                    break
                position = following
        except _Broken as broken:
            self._fail(str(broken), data[position : position + MAX_QUOTED])
            return frames
        tail += data[position:]
        if tail and not self._need:
            self._check_unfinished_line()
        return frames

    def _take(self, data: bytes, position: int, frames: list[Frame]) -> int:
        """One frame of any kind. Returns where it ends, or -1 when it is unfinished: then ``_need`` is set.

        Of a large message that is unfinished all of ``data`` is taken.
        """
        newline = data.find(b"\n", position)
        if newline < 0:
            return -1
        line = data[position:newline].removesuffix(b"\r")
        word = _FIRST_WORD.match(line)
        assert word is not None  # it matches nothing, too
        verb = word[0].upper()
        known = self._verbs.get(verb)
        if known is None:
            raise _Broken("an unknown verb")
        read, line_limit = known
        if len(line) > len(verb) + 1 + line_limit:
            raise _Broken("a control line that is too long")
        frame = read(line[len(verb) + 1 :])
        body = newline + 1
        if not isinstance(frame, _Head):
            frames.append(frame)
            return body
        build, header, total = frame
        if total > self._max_payload:
            raise _Broken(f"a message of {total} bytes, at most {self._max_payload} are taken")
        if header is not None and header > total:
            raise _Broken("a header block that is larger than its message")
        split, end = body + (header or 0), body + total
        if end + 2 > len(data):
            if end - split <= _MUCH:
                self._need = end + 2 - position
            elif split > len(data):
                self._need = split - position
            else:
                self._large = _Large(frame, data[position:split])
                return self._large.add(data, split)
            return -1
        if data[end : end + 2] != b"\r\n":
            raise _Broken(_NO_END)
        frames.append(build(None if header is None else data[body:split], data[split:end]))
        return end + 2

    def _go_on(self, large: _Large, data: bytes, position: int, frames: list[Frame]) -> int:
        """More of the large message under way. Returns where it ends. Nothing is left of ``data`` after an error."""
        position = large.add(data, position)
        if not large.missing:
            self._large = None
            try:
                frames.append(large.frame())
            except _Broken as broken:
                self._fail(str(broken), large.kept())
                return len(data)
        return position

    def _check_unfinished_line(self) -> None:
        """Refuse a bad line early: an error in its beginning is an error of all of it."""
        tail = self._tail
        head = bytes(tail[:_ENOUGH_FOR_A_VERB])
        word = _FIRST_WORD.match(head)
        assert word is not None  # it matches nothing, too
        verb = word[0].upper()
        if len(verb) == len(head):  # the verb itself may go on
            self._watch = len(tail)
            if verb not in self._beginnings:
                self._fail("an unknown verb", bytes(tail[:MAX_QUOTED]))
        elif (known := self._verbs.get(verb)) is None:
            self._fail("an unknown verb", bytes(tail[:MAX_QUOTED]))
        else:
            self._watch = len(verb) + 1 + known[1]
            if len(tail) - tail.endswith(b"\r") > self._watch:
                self._fail("a control line that is too long", bytes(tail[:MAX_QUOTED]))

    def _fail(self, why: str, data: bytes) -> None:
        self.error = RemoteProtocolError(why, data)
        self._tail.clear()


# -- control lines by verb: each reader takes the arguments ----------------------------------------------


def _split(arguments: bytes, least: int, most: int) -> list[bytes]:
    if b"\r" in arguments:
        raise _Broken("a CR that does not end the line")
    words = [word for word in arguments.replace(b"\t", b" ").split(b" ") if word]
    if not least <= len(words) <= most:
        raise _Broken("a wrong number of arguments")
    return words


def _number(digits: bytes) -> int:
    # bytes.isdigit() is ASCII only, and int() alone takes signs, underscores and any number of digits.
    if len(digits) > MAX_SIZE_DIGITS or not digits.isdigit():
        raise _Broken("a number that is not 1 to 9 digits")
    return int(digits)


def _read_delivery(arguments: bytes, sizes: int) -> _Head:
    words = _split(arguments, 2 + sizes, 3 + sizes)
    reply = b"" if _EMPTY_REPLY.fullmatch(arguments) else None
    if len(words) == 3 + sizes:
        reply = words[2]
    numbers = [_number(digits) for digits in words[-sizes:]]
    return _Head(partial(Msg, words[0], words[1], reply), numbers[0] if sizes == 2 else None, numbers[-1])


def _read_publish(arguments: bytes, sizes: int) -> _Head:
    words = _split(arguments, 1 + sizes, 2 + sizes)
    reply = words[1] if len(words) == 2 + sizes else None
    numbers = [_number(digits) for digits in words[-sizes:]]
    return _Head(partial(Pub, words[0], reply), numbers[0] if sizes == 2 else None, numbers[-1])


def _read_sub(arguments: bytes) -> Sub:
    words = _split(arguments, 2, 3)
    return Sub(words[0], words[1] if len(words) == 3 else None, words[-1])


def _read_unsub(arguments: bytes) -> Unsub:
    words = _split(arguments, 1, 2)
    return Unsub(words[0], _number(words[1]) if len(words) == 2 else None)


def _read_err(arguments: bytes) -> Err:
    text = arguments.strip(_BLANKS)
    if len(text) > 1 and text.startswith(b"'") and text.endswith(b"'"):
        text = text[1:-1]
    return Err(text)


def _read_bare(arguments: bytes, frame: Frame) -> Frame:
    if arguments.strip(_BLANKS):
        raise _Broken("a wrong number of arguments")
    return frame


_Reader: TypeAlias = Callable[[bytes], Frame | _Head]

_JSON_VERBS: Final = frozenset({b"INFO", b"CONNECT"})
_FROM_BOTH: Final[dict[bytes, _Reader]] = {
    b"PING": partial(_read_bare, frame=Ping()),
    b"PONG": partial(_read_bare, frame=Pong()),
}
_FROM_SERVERS: Final[dict[bytes, _Reader]] = {
    **_FROM_BOTH,
    b"INFO": Info,
    b"MSG": partial(_read_delivery, sizes=1),
    b"HMSG": partial(_read_delivery, sizes=2),
    b"+OK": partial(_read_bare, frame=Ok()),
    b"-ERR": _read_err,
}
_FROM_CLIENTS: Final[dict[bytes, _Reader]] = {
    **_FROM_BOTH,
    b"CONNECT": Connect,
    b"PUB": partial(_read_publish, sizes=1),
    b"HPUB": partial(_read_publish, sizes=2),
    b"SUB": _read_sub,
    b"UNSUB": _read_unsub,
}


def _beginnings(verbs: dict[bytes, _Reader]) -> frozenset[bytes]:
    """Everything a line may consist of before its first blank or its LF."""
    return frozenset((verb + b"\r")[:length] for verb in verbs for length in range(1, len(verb) + 2))


_BEGINNINGS: Final = {"client": _beginnings(_FROM_SERVERS), "server": _beginnings(_FROM_CLIENTS)}
