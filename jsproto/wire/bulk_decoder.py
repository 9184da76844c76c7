"""Many messages of a server at once: the quick reader of MSG and HMSG, for the client role.

Rules

* The messages are those that ``wire.decoder`` alone would return, which reads all that is out of the ordinary.
* Messages that follow each other may come as one frame, where the caller allows it: a ``DeliveryRun``, a ``MsgRun`` or
  a ``PlainRun``.
* Sizes are compared with what was found, which keeps bytes inside a payload or a header block from passing for a frame.
* Searching is bounded: each ``feed`` searches its bytes at most ``_SEARCHES`` times.

How it works, from the quickest way to the slowest:

1. ``_take_equal``: messages of a consumer with one subject and equal lengths are cut by their places. It is tried where
   the first two are such. Pays: 550 instead of 850 ns of CPU for a message (``core-deliver``).
2. ``_take_consumer_run``: one regular expression splits small messages of consumers into columns. Each check is made
   for a whole column. Pays: 650 instead of 1,500 ns of CPU for a message of mixed size (``core-deliver``).
3. ``_take_plain_run``: the same for small messages of payload alone, which publish acknowledgements are. Pays:
   ``async-publish``.
4. ``_take_page``: the same for replies to Direct Gets, with the server's header fields as columns of their own, for
   subscriptions that want fields. Pays: 1,260 instead of 1,430 ns for a message of mixed size on its way to the reader
   of columns (``read`` of ``python -m tests.bench.spark``).
5. ``_take_same_head``: HMSG frames whose control lines differ in their sizes alone. A line that was read before is
   looked up. Pays: 800 instead of 2,300 ns (``core-direct-get``).
6. ``_take_each``: one match for each message. Pays: 1,150 instead of 4,300 ns (``core-parse-msg``).

Not here: any other frame, and what is wrong with a frame (``wire.decoder``). What fields hold (``grammar.columns``).
"""

from __future__ import annotations

import re
from collections.abc import Container
from itertools import groupby
from operator import add, itemgetter
from struct import iter_unpack
from typing import Final

from jsproto.grammar.columns import SERVER_PART
from jsproto.grammar.jsack import ACK_PREFIX
from jsproto.wire.frames import DeliveryRun, Frame, Msg, MsgRun, PlainRun, RawMsg
from jsproto.wire.limits import MAX_SIZE_DIGITS, Limits

_CR: Final = 13
_LF: Final = 10

_SHORT: Final = 512  # bytes: less than that mostly holds too few messages for a search
_FEW: Final = 8  # messages: after a search that found fewer, the rest is taken one by one
_SMALL: Final = 1_024  # bytes of header block and payload: a search through more costs more than it saves
_SEARCHES: Final = 16  # in the bytes of one feed
_PLACES: Final = 2  # bytes compared for each message: more cost more than they save
MAX_LINES: Final = 10_000  # control lines whose sizes are kept

# One message as servers write it.
_MESSAGE: Final = re.compile(
    rb"(?:MSG|(H)MSG) ([^ \t\r\n]++) ([^ \t\r\n]++) (?:([^ \t\r\n]*+) )?(?(1)([0-9]{1,9}+) )([0-9]{1,9}+)\r\n"
)

# Messages of consumers, one after the other, then the rest. A split takes a third of the time of a match for each. Its
# words may hold tabs and line ends, which are looked for afterwards, in all of them together.
_LONGEST_WORD: Final = 512
_CONSUMER_RUN: Final = re.compile(
    rb"(?s)(?:MSG|(H)MSG) ([^ ]{1,%d}+) ([^ ]{1,%d}+) (\$JS\.ACK\.[^ ]{1,%d}+) (?(1)([0-9]++) )([0-9]++)\r\n"
    rb"(?(1)(NATS/1\.0\r\n(?:[^\r]++\r\n)*+\r\n))([^\r]{0,%d}+)\r\n|(.+)"
    % (_LONGEST_WORD, _LONGEST_WORD, _LONGEST_WORD, _SMALL)
)
_COLUMNS: Final = _CONSUMER_RUN.groups + 1  # one more for what is between two messages: nothing
_LONGEST_LINE: Final = 4 * _LONGEST_WORD  # bytes
_CONSTANT: Final = len(b"MSG    \r\n\r\n")  # bytes of a message that are in no column, one more with headers
_DIGITS: Final = [b"%d" % number for number in range(_SMALL + 1)]  # cheaper to look up than to write

# Messages without reply and header, one after the other, then the rest. Otherwise as ``_CONSUMER_RUN``.
_PLAIN_RUN: Final = re.compile(
    rb"(?s)MSG ([^ ]{1,%d}+) ([^ ]{1,%d}+) ([0-9]++)\r\n([^\r]{0,%d}+)\r\n|(.+)"
    % (_LONGEST_WORD, _LONGEST_WORD, _SMALL)
)
_PLAIN_COLUMNS: Final = _PLAIN_RUN.groups + 1
_PLAIN_CONSTANT: Final = len(b"MSG   \r\n\r\n")

# Replies to Direct Gets. What stands between two of them is a payload.
_BLOCK: Final = rb"NATS/1\.0\r\n[^\r]++" + SERVER_PART
_FIRST_BLOCK: Final = re.compile(_BLOCK)
_NEXT_REPLY: Final = re.compile(rb"\r\nHMSG ([^\r]++)\r\n(%b)" % _BLOCK)
_REPLY_COLUMNS: Final = _NEXT_REPLY.groups + 1
_VERB: Final = b"HMSG "
_REPLY_CONSTANT: Final = len(b"\r\n" + _VERB + b"\r\n")  # bytes of a reply that are in no column

_TWO_SIZES: Final = 2 * MAX_SIZE_DIGITS + len(b" \r\n")


class BulkDecoder:
    """Reads the MSG and HMSG frames at the front of bytes. It belongs to one ``Decoder``.

    Attributes: ``max_payload`` is bytes of a message, header block included. ``runs`` is None where every message is to
    be a ``Msg``. Otherwise frames may be runs, and it holds the ids of the subscriptions whose runs have ``fields``.
    """

    __slots__ = ("_head", "_lines", "_longest_line", "_searches", "max_payload", "runs")

    def __init__(self, limits: Limits) -> None:
        self.max_payload = limits.max_payload
        self.runs: Container[bytes] | None = None
        self._longest_line = limits.control_line
        self._head = b""  # CRLF, and how the control lines in ``_lines`` begin
        self._lines: dict[bytes, tuple[int, int]] = {}  # CRLF and control line -> sizes of header block and message
        self._searches = 0  # how many are left

    def begin(self, size: int) -> None:
        """``size`` bytes come next: ``take`` may search them."""
        may_search = self.max_payload >= _SMALL and self._longest_line >= _LONGEST_LINE
        self._searches = _SEARCHES if self.runs is not None and size >= _SHORT and may_search else 0

    def take(self, data: bytes, position: int, frames: list[Frame]) -> int:
        """Append the messages that begin at ``position`` to ``frames``. Returns where the next frame begins.

        It stops before the first frame that is something other than a message, is incomplete, or is written otherwise
        than servers write it.
        """
        if self._searches:
            self._searches -= 1
            first, second = _first_of_run(data, position)
            if first is not None and second is not None:
                if first[4] is not None and first.group(1, 2, 5, 6) == second.group(1, 2, 5, 6):
                    after = self._take_equal(data, first, frames)
                    if after > position:
                        return after
                if int(first[6]) <= _SMALL and int(second[6]) <= _SMALL:
                    take_run = self._take_plain_run if first[4] is None else self._take_consumer_run
                    return take_run(data, position, frames)
        return self._take_each(data, position, frames)

    def _take_equal(self, data: bytes, first: re.Match[bytes], frames: list[Frame]) -> int:
        """``take`` where many messages of a consumer have one subject, and equal lengths of everything.

        ``first`` is the first of them. Each byte that must be equal in all control lines is compared as a column of the
        data. Then one format cuts all messages.
        """
        position = first.start()
        has_header, subject, sid, _, header_digits, digits = first.groups()
        # Places within each message. The reply alone goes on differently.
        reply_at, reply_end, body = (place - position for place in (first.start(4), first.end(4), first.end()))
        split, end = body + int(header_digits or 0), body + int(digits)
        length = end + 2
        count = (len(data) - position) // length
        if count * _PLACES < body or end - body > self.max_payload or body > self._longest_line:
            return position
        if split > end or not data.startswith(b"\r\n", position + end):
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

    def _take_consumer_run(self, data: bytes, position: int, frames: list[Frame]) -> int:
        """``take`` where messages of a consumer come first: a ``DeliveryRun`` for each subscription in a row."""
        parts = _CONSUMER_RUN.split(data[position:] if position else data)
        left = 0  # bytes after what is taken
        if (rest := parts[-2]) is not None:
            left = len(rest)
            del parts[-_COLUMNS:]
        if len(parts) > 1:  # the payload of the last one may hold CRLF and go on after it
            size = len(parts[-4] or b"")
            if parts[-6:-4] != [b"%d" % size if size else None, b"%d" % (size + len(parts[-3]))]:
                left += sum(map(len, filter(None, parts[-_COLUMNS:]))) + (_CONSTANT + 1 if size else _CONSTANT)
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
            return self._take_each(data, position, frames)
        raws = [*zip(subjects, replies, headers, payloads, strict=True)]
        if one_sid:
            frames.append(DeliveryRun(sids[0], raws, sum(sizes)))
        else:
            for sid, row in groupby(zip(sids, raws, sizes, strict=True), itemgetter(0)):
                _, some, lengths = zip(*row, strict=True)
                run = DeliveryRun(sid, list(some), sum(lengths))
                frames.append(run if len(run.raws) > 1 else run.message(0))
        position = len(data) - left
        return position if len(raws) >= _FEW else self._take_each(data, position, frames)

    def _take_plain_run(self, data: bytes, position: int, frames: list[Frame]) -> int:
        """``take`` where messages of payload alone come first: they become a ``PlainRun``."""
        parts = _PLAIN_RUN.split(data[position:] if position else data)
        left = 0  # bytes after what is taken
        if (rest := parts[-2]) is not None:
            left = len(rest)
            del parts[-_PLAIN_COLUMNS:]
        if len(parts) > 1 and parts[-4] != b"%d" % len(parts[-3]):  # the payload of the last one may hold CRLF
            left += sum(map(len, parts[-_PLAIN_COLUMNS:-2])) + _PLAIN_CONSTANT
            del parts[-_PLAIN_COLUMNS:]
        subjects, sids, digits, payloads = [parts[place::_PLAIN_COLUMNS] for place in range(1, 5)]
        words = b"".join(subjects) + b"".join(sids)
        odd = digits != [_DIGITS[len(payload)] for payload in payloads]
        if odd or b"\t" in words or b"\n" in words or b"\r" in words:
            return self._take_each(data, position, frames)
        if sids:
            if sids.count(sids[0]) == len(sids):
                sids = sids[:1] * len(sids)  # one object is enough
            run = PlainRun(sids, subjects, payloads)
            frames.append(run if len(sids) > 1 else run.message(0))
        position = len(data) - left
        return position if len(sids) >= _FEW else self._take_each(data, position, frames)

    def _take_each(self, data: bytes, position: int, frames: list[Frame]) -> int:
        """``take``, message by message. HMSG frames with one beginning become a ``MsgRun``."""
        match_at, append, new = _MESSAGE.match, frames.append, object.__new__
        longest_line, max_payload, runs = self._longest_line, self.max_payload, self.runs
        last = len(data) - 2
        while (match := match_at(data, position)) is not None:
            has_header, subject, sid, reply, header_digits, digits = match.groups()
            body = match.end()
            size = int(digits)
            end = body + size
            if end > last or size > max_payload or body - position > longest_line:
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
                    run, size = MsgRun(subject, sid, reply, [header], [message.payload]), 0
                    if self._searches and runs is not None and sid in runs:
                        self._searches -= 1
                        run, size = self._take_page(run, head, memoryview(data)[end:])
                    position = end + size + 2 if size else self._take_same_head(data, end, head, run)
                    if len(run.headers) > 1:
                        frames[-1:] = [run] if runs is not None else run.messages()
        return position

    def _take_same_head(self, data: bytes, end: int, head: bytes, run: MsgRun) -> int:
        """Add to ``run`` the messages whose control lines are ``head`` and two sizes. Returns where they end.

        ``end`` is where the payload of the first message of ``run`` ends.
        """
        headers, payloads = run.headers, run.payloads
        head = b"\r\n" + head  # one comparison for how a message ends and how the next one begins
        at, longest, max_payload = len(head), self._longest_line + len(b"\r\n\r\n"), self.max_payload
        lines = self._lines  # the same ones come again and again
        if head != self._head or len(lines) > MAX_LINES:
            self._head = head
            lines.clear()
        line, length, header_size, size = b"\0", 0, 0, 0  # of the message before: none yet
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

    def _take_page(self, run: MsgRun, head: bytes, text: memoryview) -> tuple[MsgRun, int]:
        """The message of ``run`` and the replies that follow it in ``text``, and how many bytes of ``text`` these take.

        Returns ``run`` itself and 0 for an empty one. ``text`` begins where the payload of the first message ends. All
        control lines begin with ``head``. One expression splits the replies that servers write for messages that lack
        headers of the user's. Both sizes of each control line are then compared with what was found.
        """
        first = _FIRST_BLOCK.fullmatch(run.headers[0])
        if first is None or len(run.headers[0]) + len(run.payloads[0]) > _SMALL:
            return run, 0
        parts = _NEXT_REPLY.split(text)
        if parts[0] or len(parts) == 1:
            return run, 0
        columns = [parts[place::_REPLY_COLUMNS] for place in range(1, _REPLY_COLUMNS + 1)]
        lines, headers, payloads = columns[0], columns[1], columns[-1]
        rest, digits = payloads[-1], lines[-1].rpartition(b" ")[2]  # of the last one, which may go on after its payload
        size = int(digits) - len(headers[-1]) if digits.isdigit() and len(digits) <= MAX_SIZE_DIGITS else 0
        payloads[-1] = rest[:size]
        count = len(lines) if rest.startswith(b"\r\n", size) else len(lines) - 1  # or it is not whole
        if not count:
            return run, 0
        longest, max_payload = self._longest_line, self.max_payload
        header_sizes, sizes = [*map(len, headers[:count])], [*map(len, payloads[:count])]
        form = head.removeprefix(_VERB).replace(b"%", b"%%") + b"%d %d"
        if len(set(sizes)) == 1:  # then there are few lines
            by_header = {header: form % (header, header + sizes[0]) for header in set(header_sizes)}
            expected = [*map(by_header.__getitem__, header_sizes)]
            largest = max(by_header) + sizes[0]
        else:
            totals = [*map(add, header_sizes, sizes)]
            expected = [*map(form.__mod__, zip(header_sizes, totals, strict=True))]
            largest = max(totals)
        if lines[:count] != expected or largest > max_payload or len(_VERB + form % (largest, largest)) > longest:
            messages = zip(expected, lines, headers, payloads, strict=False)
            odd = (
                place
                for place, (said, line, header, payload) in enumerate(messages)
                if line != said or len(_VERB + line) > longest or len(header) + len(payload) > max_payload
            )
            count = next(odd, count)
        if not count:
            return run, 0
        left = len(rest) - len(payloads[-1]) + _REPLY_CONSTANT * (len(lines) - count)
        for column in (lines, headers, payloads):
            left += sum(map(len, column[count:]))
        for column, value in zip(columns[1:], (*run.headers, *first.groups(), *run.payloads), strict=True):
            del column[count:]
            column.insert(0, value)
        _, _, subjects, sequences, times, _ = columns
        fields = subjects, sequences, times
        return MsgRun(run.subject, run.sid, run.reply, headers, payloads, fields), len(text) - left


def _first_of_run(data: bytes, position: int) -> tuple[re.Match[bytes] | None, re.Match[bytes] | None]:
    """The first two messages, where mostly more of them follow: both of one consumer, or of payload alone."""
    first = _MESSAGE.match(data, position)
    if first is None:
        return None, None
    has_header, _, sid, reply = first.group(1, 2, 3, 4)
    if has_header if reply is None else not reply.startswith(ACK_PREFIX):
        return None, None
    second = _MESSAGE.match(data, first.end() + int(first[6]) + 2)
    if second is None or (second.group(1, 4) != (None, None) if reply is None else second[3] != sid):
        return None, None
    return first, second


def _two_sizes(text: bytes) -> tuple[int, int] | None:
    """The sizes of header block and message, or None when they are written otherwise than servers write them."""
    header, _, total = text.partition(b" ")
    if not (header.isdigit() and total.isdigit() and len(header) <= MAX_SIZE_DIGITS and len(total) <= MAX_SIZE_DIGITS):
        return None
    sizes = int(header), int(total)
    return sizes if sizes[0] <= sizes[1] else None
