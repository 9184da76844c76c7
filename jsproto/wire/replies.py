"""Replies to Direct Gets of a page, one behind the other: the frames and the fields of their header blocks at once.

Rules: one regular expression splits them, in two thirds of the time of frames first and fields afterwards. It finds
what servers write for messages without headers of the user's. Both sizes of each control line are compared with what
was found, so nothing in a payload or a header block can pass for a frame. What does not fit ends the row, and is read
the general way, as the same frames.

Not here: what the fields hold, and whether the messages follow each other (``grammar.columns``).
"""

from __future__ import annotations

import re
from operator import add
from typing import Final

from jsproto.grammar.columns import SERVER_PART
from jsproto.wire.frames import MsgRun
from jsproto.wire.limits import MAX_SIZE_DIGITS

_BLOCK: Final = rb"NATS/1\.0\r\n[^\r]++" + SERVER_PART
_FIRST: Final = re.compile(_BLOCK)
_NEXT: Final = re.compile(rb"\r\nHMSG ([^\r]++)\r\n(%b)" % _BLOCK)  # what is between two of them is a payload
_COLUMNS: Final = _NEXT.groups + 1
_VERB: Final = b"HMSG "
_BESIDES: Final = len(b"\r\n" + _VERB + b"\r\n")  # bytes of a message that are in none of the columns
_LARGEST: Final = 1_024  # bytes of header block and payload; to look through more costs more than it saves


def take_replies(
    row: MsgRun, head: bytes, text: bytes | memoryview, longest: int, max_payload: int
) -> tuple[MsgRun, int]:
    """The message of ``row`` and those that follow it in ``text``; and how many bytes of ``text`` these take.

    It is ``row`` itself when there are none. ``text`` begins where the payload of the first message ends; ``head`` is
    how all control lines begin. ``longest`` and ``max_payload``: bytes of a control line and of a message, at most.
    """
    first = _FIRST.fullmatch(row.headers[0])
    if first is None or len(row.headers[0]) + len(row.payloads[0]) > _LARGEST:
        return row, 0
    parts = _NEXT.split(text)
    if parts[0] or len(parts) == 1:
        return row, 0
    columns = [parts[place::_COLUMNS] for place in range(1, _COLUMNS + 1)]
    lines, headers, payloads = columns[0], columns[1], columns[-1]
    rest, digits = payloads[-1], lines[-1].rpartition(b" ")[2]  # of the last one, which may go on behind its payload
    size = int(digits) - len(headers[-1]) if digits.isdigit() and len(digits) <= MAX_SIZE_DIGITS else 0
    payloads[-1] = rest[:size]
    count = len(lines) if rest.startswith(b"\r\n", size) else len(lines) - 1  # or it is not whole
    if not count:
        return row, 0
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
        return row, 0
    behind = len(rest) - len(payloads[-1]) + _BESIDES * (len(lines) - count)
    for column in (lines, headers, payloads):
        behind += sum(map(len, column[count:]))
    for column, value in zip(columns[1:], (*row.headers, *first.groups(), *row.payloads), strict=True):
        del column[count:]
        column.insert(0, value)
    _, _, subjects, sequences, times, _ = columns
    fields = subjects, sequences, times
    return MsgRun(row.subject, row.sid, row.reply, headers, payloads, fields), len(text) - behind
