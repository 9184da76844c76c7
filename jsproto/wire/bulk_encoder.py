"""Many messages to publish, as the bytes of PUB or HPUB, joined at once: cheaper than a format for each.

Rules: the caller has checked the subjects, and how much may be published.

How it works: bytes that a run shares are one constant between the columns, so messages of one subject and one size cost
least. Numbers that share all but their last three digits go together. One join makes the bytes of a group. Pays:
``core-publish-many``.

Not here: single messages (``encoder``), the numbers (``grammar.consecutive``).
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import add
from typing import NamedTuple, TypeAlias

from jsproto.grammar.consecutive import by_thousands, side_by_side
from jsproto.grammar.headers import FIRST_LINE, LINE_END

Column: TypeAlias = bytes | Sequence[bytes]  # what all messages have at one place, or each its own


class HeaderLines(NamedTuple):
    """The header lines of many messages (``bulk_headers``), between the first line and the end of their blocks.

    * ``columns``: what the lines of each message are made of, one after the other.
    * ``sizes``: bytes of them, for each message.
    * ``given``: which messages have headers. None: all.
    """

    columns: Sequence[Column]
    sizes: Sequence[int]
    given: Sequence[bool] | None = None

    def part(self, run: slice) -> HeaderLines:
        """Those of some messages."""
        columns, sizes, given = self
        return HeaderLines(
            [_part(column, run) for column in columns], sizes[run], None if given is None else given[run]
        )


def pub_head(subject: bytes) -> bytes:
    """How the control line of a message to ``subject``, which was checked, begins."""
    return b"PUB %b " % subject


def encode_run(
    reply: tuple[bytes, bytes],
    first: int,
    lines: Column,
    sizes: Sequence[int],
    payloads: Sequence[bytes],
    headers: HeaderLines | None = None,
) -> list[bytes]:
    """Messages whose replies count up from ``first``, in a few pieces.

    ``reply``: the bytes before and after the number. ``lines``: ``pub_head`` of their subjects, or of the one that all
    have. ``sizes``: those of ``payloads``, in bytes. ``headers``: None when all are plain.
    """
    before, after = reply
    pieces = []
    for run, high, numbers in by_thousands(first, len(payloads)):
        where = (_part(lines, run), before + high, numbers)
        some = None if headers is None else headers.part(run)
        pieces.append(_messages(where, after + b" ", sizes[run], payloads[run], some))
    return pieces


def encode_replied(
    replies: Sequence[bytes],
    lines: Column,
    sizes: Sequence[int],
    payloads: Sequence[bytes],
    headers: HeaderLines | None = None,
) -> list[bytes]:
    """Messages each with a reply of its own, the first ones of ``replies``. Otherwise as ``encode_run``.

    Pays: ``async-publish``.
    """
    return [_messages((lines, replies[: len(payloads)]), b" ", sizes, payloads, headers)]


def encode_numbered(
    block: tuple[bytes, bytes],
    first: int,
    lines: Column,
    sizes: Sequence[int],
    payloads: Sequence[bytes],
    headers: HeaderLines | None = None,
) -> list[bytes]:
    """Messages that lack replies, with the number in their header blocks: ``block`` is the bytes before and after it.

    Lines of ``headers`` come last in the block. Otherwise as ``encode_run``.
    """
    before, after = block
    after, end = after[: -len(LINE_END)], after[-len(LINE_END) :]
    pieces = []
    for run, high, numbers in by_thousands(first, len(payloads)):
        size = sum(map(len, (before, high, numbers[0], after, end)))
        some = None if headers is None else headers.part(run)._replace(given=None)  # each has a block
        ends, more = _header_ends(b"", size, sizes[run], some)
        block_columns = (before + high, numbers, after, *more, end)
        pieces.append(_interleave(len(numbers), (b"H", _part(lines, run), *ends, *block_columns, payloads[run])))
    return pieces


def encode_counting(
    reply: tuple[bytes, bytes],
    first: int,
    lines: Column,
    block: Sequence[bytes],
    firsts: Sequence[int],
    texts: Sequence[bytes],
    sizes: Sequence[int],
    payloads: Sequence[bytes],
    headers: HeaderLines | None = None,
) -> list[bytes]:
    """Messages with replies and header blocks, in which numbers count up from ``first`` and from ``firsts``.

    ``texts``: what follows the last of these numbers, in each message, all of one length. ``block``: the bytes before,
    between and after the numbers and this text, two more than ``firsts``. Lines of ``headers`` come first in the
    block, before all of these. Otherwise as ``encode_run``. Pays: ``copy``.
    """
    before, after = reply
    *befores, before_text, end = block
    constant = len(FIRST_LINE) + sum(map(len, block)) + len(texts[0])
    pieces = []
    for run, ((high, numbers), *inner) in side_by_side((first, *firsts), len(payloads)):
        size = constant + sum([len(shared) + len(rest[0]) for shared, rest in inner])
        ends, more = _header_ends(after + b" ", size, sizes[run], None if headers is None else headers.part(run))
        columns: list[Column] = [b"H", _part(lines, run), before + high, numbers, *ends, FIRST_LINE, *more]
        for text, (shared, rest) in zip(befores, inner, strict=True):
            columns += (text + shared, rest)
        pieces.append(_interleave(len(numbers), [*columns, before_text, texts[run], end, payloads[run]]))
    return pieces


def _messages(
    where: Sequence[Column], after: bytes, sizes: Sequence[int], payloads: Sequence[bytes], headers: HeaderLines | None
) -> bytes:
    """Messages whose control lines begin with ``where`` and ``after``."""
    count = len(payloads)
    if headers is None:
        return _interleave(count, (*where, _ends(b"%b%%d\r\n" % after.replace(b"%", b"%%"), 0, sizes), payloads))
    given = headers.given
    ends, columns = _header_ends(after, len(FIRST_LINE) + len(LINE_END), sizes, headers)
    if given is None:
        return _interleave(count, (b"H", *where, *ends, FIRST_LINE, *columns, LINE_END, payloads))
    verbs, starts, stops = ([text if has else b"" for has in given] for text in (b"H", FIRST_LINE, LINE_END))
    return _interleave(count, (verbs, *where, *ends, starts, *columns, stops, payloads))


def _header_ends(
    before: bytes, size: int, sizes: Sequence[int], headers: HeaderLines | None
) -> tuple[Sequence[Column], Sequence[Column]]:
    """The ends of the control lines of messages with header blocks, and the columns of ``headers``.

    ``before``: what is before the sizes. ``size``: bytes of a header block before ``headers`` are added.
    """
    if headers is None:
        return (before, _ends(b"%d %%d\r\n" % size, size, sizes)), ()
    columns, lines, given = headers
    if given is None and all_equal(sizes):
        each = lines[:1] if all_equal(lines) else lines
        ends = {more: b"%d %d\r\n" % (size + more, size + more + sizes[0]) for more in {*each}}
        return (before, ends[lines[0]] if len(ends) == 1 else [*map(ends.__getitem__, lines)]), columns
    blocks = [size + more for more in lines]
    first = _ends(b"%d ", 0, blocks)
    if given is not None:
        blocks = [block if has else 0 for block, has in zip(blocks, given, strict=True)]
        first = [b"%d " % block if block else b"" for block in blocks]
    return (before, first, _ends(b"%d\r\n", 0, [*map(add, blocks, sizes)])), columns


def _ends(form: bytes, more: int, sizes: Sequence[int]) -> Column:
    """The ends of control lines: ``form`` with each size, and ``more``."""
    if all_equal(sizes):
        return form % (more + sizes[0])
    texts = {size: form % (more + size) for size in set(sizes)}
    return [*map(texts.__getitem__, sizes)]


def all_equal(values: Sequence[object]) -> bool:
    """Whether all are the same. There must be some."""
    return values[0] == values[-1] and values.count(values[0]) == len(values)


def _part(column: Column, run: slice) -> Column:
    return column if isinstance(column, bytes) else column[run]


def _interleave(count: int, columns: Sequence[Column]) -> bytes:
    """Of each of ``count`` messages what it has in every column and the end, one message after the other."""
    merged: list[Column] = [LINE_END]  # of the message before
    for column in columns:
        if isinstance(column, bytes) and isinstance(merged[-1], bytes):
            merged[-1] += column
        else:
            merged.append(column)
    width = len(merged)
    pieces = [column if isinstance(column, bytes) else b"" for column in merged] * count
    for place, column in enumerate(merged):
        if not isinstance(column, bytes):
            pieces[place::width] = column
    pieces[0] = pieces[0].removeprefix(LINE_END)
    pieces.append(LINE_END)
    return b"".join(pieces)
