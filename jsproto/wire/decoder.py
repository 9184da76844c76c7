"""Bytes to frames, incrementally, for both roles.

Rules

* ``feed`` never raises, whatever the bytes. The first thing that does not fit becomes ``error``, which is
  final; the frames before it are still returned.
* The same bytes give the same frames and the same error however they are cut.
* A control line is split at blanks and tabs only, on bytes; its verb is read in any letter case. It ends with
  CRLF; a bare LF is taken too, as servers take it, and a CR anywhere else among the arguments is an error.
* A size is 1 to 9 ASCII digits and is checked on the control line: no body that is too large is kept.
* The two bytes behind a body are CRLF, or the connection is lost: framing cannot be trusted any more.
* Time is linear in the number of bytes and memory bounded by the limits: of an unfinished line only what is
  new is searched, and an unfinished message is left alone until its last byte is here.
* A line that can no longer become a known verb is refused at once: a peer that talks TLS is told in time.

Not here: which frames fit the phase of a link (``rules.link``), what subjects, header blocks and JSON may
hold (``grammar``): a message with a strange subject or header block is a message, and the connection lives.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from itertools import groupby
from operator import add, itemgetter
from struct import iter_unpack
from typing import Final, Literal, NamedTuple, TypeAlias

from jsproto.errors import MAX_QUOTED, RemoteProtocolError
from jsproto.grammar.jsack import ACK_PREFIX
from jsproto.wire.frames import (
    Connect,
    DeliveryRun,
    Err,
    Frame,
    Info,
    Msg,
    MsgRun,
    Ok,
    Ping,
    Pong,
    Pub,
    RawMsg,
    Sub,
    Unsub,
)
from jsproto.wire.limits import CLIENT_LIMITS, MAX_SIZE_DIGITS, SERVER_LIMITS, Limits
from jsproto.wire.replies import take_replies

Role: TypeAlias = Literal["client", "server"]

_CR: Final = 13
_LF: Final = 10
_BLANKS: Final = b" \t"

# A delivered message as servers write it. What does not match is read the general way, with the same result.
_DELIVERY: Final = re.compile(
    rb"(?:MSG|(H)MSG) ([^ \t\r\n]++) ([^ \t\r\n]++) (?:([^ \t\r\n]*+) )?(?(1)([0-9]{1,9}+) )([0-9]{1,9}+)\r\n"
)
# Messages as consumers deliver them, one behind the other; then the rest. To split at them all at once takes a third of
# the time of a match for each, and gives columns, which are checked as a whole: words may hold what they must not.
_SMALL: Final = 1_024  # bytes of header block and payload; to look through more costs more than it saves
_LONGEST_WORD: Final = 512
_DELIVERED: Final = re.compile(
    rb"(?s)(?:MSG|(H)MSG) ([^ ]{1,%d}+) ([^ ]{1,%d}+) (\$JS\.ACK\.[^ ]{1,%d}+) (?(1)([0-9]++) )([0-9]++)\r\n"
    rb"(?(1)(NATS/1\.0\r\n(?:[^\r]++\r\n)*+\r\n))([^\r]{0,%d}+)\r\n|(.+)"
    % (_LONGEST_WORD, _LONGEST_WORD, _LONGEST_WORD, _SMALL)
)
_COLUMNS: Final = _DELIVERED.groups + 1  # with what is between two messages: nothing
_LONGEST_LINE: Final = 4 * _LONGEST_WORD  # bytes, at most
_LEAST: Final = len(b"MSG    \r\n\r\n")  # bytes of a message besides what is found; of one with headers one more
_DIGITS: Final = [b"%d" % number for number in range(_SMALL + 1)]  # to look up is cheaper than to read a number
_PLACES: Final = 2  # to compare for each message that is alike: more cost more than they save
_FEW: Final = 8  # messages; where fewer come at once, it is not worth looking for more
_SHORT: Final = 256  # bytes that hold fewer, mostly
_LOOKS: Final = 16  # at all that was fed: what interrupts the messages more often must not have it searched each time
_TWO_SIZES: Final = 2 * MAX_SIZE_DIGITS + 3  # with the blank between them and CRLF
_EMPTY_REPLY: Final = re.compile(rb"[^ \t]++ [^ \t]++  [0-9]++(?: [0-9]++)?")
MAX_LINES: Final = 10_000  # kept of a row
_FIRST_WORD: Final = re.compile(rb"[^ \t]*+")
_PIECE: Final = 4_096  # bytes, of _MUCH, in which what was begun nearly always ends
_MUCH: Final = 16_384
_ENOUGH_FOR_A_VERB: Final = len(b"CONNECT\r") + 1


class _Broken(Exception):
    """Why reading ends; never leaves this module."""


class _Head(NamedTuple):
    """The control line of a message: its sizes, and what makes the frame of header block and body."""

    build: Callable[[bytes | None, bytes], Frame]
    header: int | None
    total: int


class Decoder:
    """Reads what the other side sends; ``role`` is ours: a client reads what servers send.

    ``error`` is why nothing can be read any more, None while all is well; its ``data`` is the beginning of the frame
    that does not fit. ``rows`` may be set: then messages with one beginning come as one ``MsgRun`` where they follow
    each other, and those of a consumer as one ``DeliveryRun``; how many of them depends on how the bytes are cut. With
    ``fields``, too, a row of plain replies to Direct Gets has those of its header blocks.
    """

    __slots__ = (
        "_beginnings", "_control_line", "_head", "_is_client", "_lines", "_looks", "_max_payload", "_need", "_tail",
        "_verbs", "_watch", "error", "fields", "rows",
    )  # fmt: skip

    def __init__(self, role: Role, limits: Limits | None = None) -> None:
        self.error: RemoteProtocolError | None = None
        self.rows = self.fields = False
        self._is_client = role == "client"
        if limits is None:
            limits = CLIENT_LIMITS if self._is_client else SERVER_LIMITS
        self._control_line = limits.control_line
        self._max_payload = limits.max_payload
        readers = _FROM_SERVERS if self._is_client else _FROM_CLIENTS
        self._verbs = {
            verb: (read, limits.json_line if verb in _JSON_VERBS else limits.control_line)
            for verb, read in readers.items()
        }
        self._beginnings = _BEGINNINGS[role]
        self._tail = bytearray()  # the unfinished frame: compact however small the pieces it came in
        self._need = 0  # how long the tail must get before it is worth another look; 0: until its line ends
        self._head = b""  # how the control lines of a row begin
        self._lines: dict[bytes, tuple[int, int]] = {}  # CRLF and control line: sizes of header block and message
        self._looks = 0  # how often more may be searched of what was fed
        self._watch = 0  # how long an unfinished line may get before it is checked again

    @property
    def pending(self) -> int:
        """Bytes kept of an unfinished frame."""
        return len(self._tail)

    def set_max_payload(self, size: int) -> None:
        """Accept messages of at most ``size`` bytes from now on, header blocks included."""
        self._max_payload = size

    def feed(self, data: bytes) -> list[Frame]:
        """Take ``data`` and return the frames that it completes, in order. Never raises."""
        tail = self._tail
        frames: list[Frame] = []
        position, end = 0, len(data)
        if len(tail) + end < self._need:
            tail += data
            return []
        # To finish what was begun does not take all of it: so much is not copied. Where rows are wanted, a small
        # message by itself costs more than that.
        apart = tail and end >= _MUCH and (self._need > _MUCH or not self.rows)
        if apart and (piece := self._need - len(tail) if self._need else _PIECE) < end:
            frames = self.feed(data[:piece])
            if self.error is not None:
                return frames
            if len(tail) <= piece:
                position = piece - len(tail)
                tail.clear()
                self._need = 0
            else:  # it is a large one
                data = data[piece:]
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
        at_once = self.rows and end >= _SHORT and self._max_payload >= _SMALL and self._control_line >= _LONGEST_LINE
        self._looks = _LOOKS * at_once
        try:
            while position < end:
                if self._looks:
                    self._looks -= 1
                    position = self._take_many(data, position, frames)
                elif self._is_client:
                    position = self._take_deliveries(data, position, frames)
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

    def _take_many(self, data: bytes, position: int, frames: list[Frame]) -> int:
        """Messages of a consumer where one comes first, or what else ``_take_deliveries`` takes.

        Returns where the first frame begins that is none.
        """
        first = _DELIVERY.match(data, position)
        if first is None or not (first[4] or b"").startswith(ACK_PREFIX):
            return self._take_deliveries(data, position, frames)
        behind = self._take_alike(data, first, frames)
        return behind if behind > position else self._take_delivered(data, position, frames)

    def _take_delivered(self, data: bytes, position: int, frames: list[Frame]) -> int:
        """The hottest path: small messages of consumers in a row, or what else ``_take_deliveries`` takes.

        Returns where the first frame begins that is none.
        """
        parts = _DELIVERED.split(data[position:] if position else data)
        left = 0  # bytes behind what is taken
        if (rest := parts[-2]) is not None:
            left = len(rest)
            del parts[-_COLUMNS:]
        if len(parts) > 1:  # the last one may hold CRLF, and go on behind it
            size = len(parts[-4] or b"")
            if parts[-6:-4] != [b"%d" % size if size else None, b"%d" % (size + len(parts[-3]))]:
                left += sum(map(len, filter(None, parts[-_COLUMNS:]))) + (_LEAST + 1 if size else _LEAST)
                del parts[-_COLUMNS:]
        subjects, sids, replies, digits = parts[2::_COLUMNS], parts[3::_COLUMNS], parts[4::_COLUMNS], parts[6::_COLUMNS]
        headers, payloads = parts[7::_COLUMNS], parts[8::_COLUMNS]
        one_sid = len(sids) > 1 and sids.count(sids[0]) == len(sids)
        words = b"".join(subjects) + b"".join(replies) + (sids[0] if one_sid else b"".join(sids))
        sizes = [len(payload) for payload in payloads]
        odd = False
        if headers.count(None) < len(headers):
            header_sizes = [len(header or b"") for header in headers]
            sizes = [*map(add, sizes, header_sizes)]
            odd = max(sizes) > _SMALL or parts[5::_COLUMNS] != [
                _DIGITS[size] if size else None for size in header_sizes
            ]
        odd = odd or digits != [_DIGITS[size] for size in sizes]
        if odd or b"\t" in words or b"\n" in words or b"\r" in words:
            return self._take_deliveries(data, position, frames)  # not what it looked like
        raws = [*zip(subjects, replies, headers, payloads, strict=True)]
        if one_sid:
            frames.append(DeliveryRun(sids[0], raws, sum(sizes)))
        else:
            for sid, row in groupby(zip(sids, raws, sizes, strict=True), itemgetter(0)):
                _, some, lengths = zip(*row, strict=True)
                delivered = DeliveryRun(sid, list(some), sum(lengths))
                frames.append(delivered if len(delivered.raws) > 1 else delivered.message(0))
        position = len(data) - left
        return position if len(raws) >= _FEW else self._take_deliveries(data, position, frames)

    def _take_alike(self, data: bytes, first: re.Match[bytes], frames: list[Frame]) -> int:
        """Many messages of a consumer in a row with one subject and equal lengths of everything: cut by their places.

        ``first`` is what begins them. Returns where the first frame begins that is none.
        """
        position = first.start()
        has_header, subject, sid, _, header_digits, digits = first.groups()
        # Places within each message; the reply alone goes on differently.
        reply_at, reply_end, body = (place - position for place in (first.start(4), first.end(4), first.end()))
        split, end = body + int(header_digits or 0), body + int(digits)
        length = end + 2
        count = (len(data) - position) // length
        if count * _PLACES < body or split > end or end - body > self._max_payload or body > self._control_line:
            return position
        if not data.startswith(b"\r\n", position + end):
            return position
        for place in (*range(reply_at + len(ACK_PREFIX)), *range(reply_end, body), end, end + 1):
            column = data[position + place : position + count * length : length]
            if column != column[:1] * count:
                count -= len(column.lstrip(column[:1]))
                if count * _PLACES < body:
                    return position
        header = f"{split - body}s" if has_header else ""
        cut = f"{reply_at}x{reply_end - reply_at}s{body - reply_end}x{header}{end - split}s2x"
        rows = iter_unpack(cut, memoryview(data)[position : position + count * length])
        raws: list[RawMsg]
        if has_header:
            raws = [(subject, reply, header, payload) for reply, header, payload in rows]
        else:
            raws = [(subject, reply, None, payload) for reply, payload in rows]
        replies = b"".join([raw[1] for raw in raws])
        if any(blank in replies for blank in (b" ", b"\t", b"\r", b"\n")):
            return position
        frames.append(DeliveryRun(sid, raws, count * (end - body)))
        return position + count * length

    def _take_deliveries(self, data: bytes, position: int, frames: list[Frame]) -> int:
        """The hot path: whole, plain messages in a row. Returns where the first frame begins that is none."""
        match_at, append, new = _DELIVERY.match, frames.append, object.__new__
        line_limit, max_payload = self._control_line, self._max_payload
        last = len(data) - 2
        while (match := match_at(data, position)) is not None:
            has_header, subject, sid, reply, header_digits, digits = match.groups()
            body = match.end()
            size = int(digits)
            end = body + size
            if end > last or size > max_payload or body - position > line_limit:
                break
            if data[end] != _CR or data[end + 1] != _LF:
                break
            message = new(Msg)
            message.subject = subject
            message.sid = sid
            message.reply = reply
            if has_header is None:
                message.header = None
                message.payload = data[body:end]
                append(message)
                position = end + 2
            else:
                split = body + int(header_digits)
                if split > end:
                    break
                message.header = header = data[body:split]
                message.payload = data[split:end]
                append(message)
                head = data[position : match.start(5)]
                position = end + 2
                if data.startswith(head, position):
                    row, size = MsgRun(subject, sid, reply, [header], [message.payload]), 0
                    if self.fields and self._looks:
                        self._looks -= 1
                        row, size = take_replies(row, head, memoryview(data)[end:], line_limit, max_payload)
                    position = end + size + 2 if size else self._take_row(data, end, head, row)
                    if len(row.headers) > 1:
                        frames[-1:] = [row] if self.rows else row.messages()
        return position

    def _take_row(self, data: bytes, end: int, head: bytes, row: MsgRun) -> int:
        """More messages whose control lines are ``head`` and two sizes. Returns where the first one begins that is not.

        ``end`` is where the first message of the row ends, but for CRLF.
        """
        headers, payloads = row.headers, row.payloads
        head = b"\r\n" + head  # one comparison for how a message ends and how the next one begins
        at, longest, max_payload = len(head), self._control_line + 4, self._max_payload
        lines = self._lines  # the same ones come again and again
        if head != self._head or len(lines) > MAX_LINES:
            self._head = head
            lines.clear()
        line, length, header_size, size = b"\0", 0, 0, 0  # of the message before; none yet
        while True:
            if not data.startswith(line, end):
                line = data[end : end + length]  # mostly it is as long as the one before
                sizes = lines.get(line)
                if sizes is None:
                    if not data.startswith(head, end):
                        break
                    body = data.find(b"\r\n", end + at, end + at + _TWO_SIZES) + 2
                    line = data[end:body]  # nothing when it does not end there
                    sizes = lines.get(line) or _two_sizes(line[at:-2])
                    if sizes is None or len(line) > longest:
                        break
                    lines[line] = sizes
                    length = len(line)
                header_size, size = sizes
                if size > max_payload:
                    break
            body = end + length
            split = body + header_size
            end = body + size
            headers.append(data[body:split])
            payloads.append(data[split:end])
        if not data.startswith(b"\r\n", end):  # what was taken last does not end as it must, or is not whole
            headers.pop()
            payloads.pop()
            end -= length + size
        return end + 2

    def _take(self, data: bytes, position: int, frames: list[Frame]) -> int:
        """One frame of any kind. Returns where it ends, -1 when it is unfinished; then ``_need`` is set."""
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
        end = body + total
        if end + 2 > len(data):
            self._need = end + 2 - position
            return -1
        if data[end : end + 2] != b"\r\n":
            raise _Broken("a message that does not end with CRLF")
        split = body + (header or 0)
        frames.append(build(None if header is None else data[body:split], data[split:end]))
        return end + 2

    def _check_unfinished_line(self) -> None:
        """Refuse a line that cannot become good; what is wrong with its beginning is wrong with all of it."""
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


def _two_sizes(text: bytes) -> tuple[int, int] | None:
    """Of header block and message, as servers write them; else None."""
    header, _, total = text.partition(b" ")
    if not (header.isdigit() and total.isdigit() and len(header) <= MAX_SIZE_DIGITS and len(total) <= MAX_SIZE_DIGITS):
        return None
    sizes = int(header), int(total)
    return sizes if sizes[0] <= sizes[1] else None


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
