"""Many messages to publish, as the bytes of PUB or HPUB, formatted at once: cheaper than a format for each.

Rules: the subjects come as ``line`` makes them, which is worth keeping for each. Messages that have one subject and one
size cost least. What may be published, and how much of it, is for the caller to see to.

Not here: single messages (``encoder``).
"""

from __future__ import annotations

from collections.abc import Sequence


def line(subject: bytes) -> bytes:
    """How the control line of a message to ``subject``, which was checked, begins: as a format, without fields."""
    return b"PUB %b " % subject.replace(b"%", b"%%")


def encode_run(lines: Sequence[bytes], payloads: Sequence[bytes], reply: bytes, first: int) -> bytes:
    """Messages whose replies count up: ``reply`` is a format with a ``%d``, ``first`` is the first one's number."""
    numbers = range(first, first + len(payloads))
    sizes = [*map(len, payloads)]
    if _alike(lines) and _alike(sizes):
        form = b"%b%b %d\r\n%%b\r\n" % (lines[0], reply, sizes[0])
        return _filled(form * len(lines), numbers, payloads)
    form = (reply + b" %d\r\n%b\r\n").join([*lines, b""])
    return _filled(form, numbers, sizes, payloads)


def encode_numbered(lines: Sequence[bytes], payloads: Sequence[bytes], block: bytes, first: int) -> list[bytes]:
    """Messages without replies that are numbered in their header blocks, in a few pieces.

    ``block`` is a format with a ``%d``, ``first`` is the first one's number.
    """
    pieces: list[bytes] = []
    at = 0
    while at < len(payloads):  # as many as have numbers of one length, and so header blocks
        number = first + at
        numbers = range(number, min(first + len(payloads), 10 ** len(str(number))))
        run, size = slice(at, at + len(numbers)), len(block % number)
        totals = [size + len(payload) for payload in payloads[run]]
        if _alike(lines[run]) and _alike(totals):
            form = b"H%b%d %d\r\n%b%%b\r\n" % (lines[at], size, totals[0], block)
            pieces.append(_filled(form * len(numbers), numbers, payloads[run]))
        else:
            behind = b"%d %%d\r\n%b%%b\r\n" % (size, block)
            form = b"H%b%b" % ((behind + b"H").join(lines[run]), behind)
            pieces.append(_filled(form, totals, numbers, payloads[run]))
        at = run.stop
    return pieces


def _alike(values: Sequence[object]) -> bool:
    return values.count(values[0]) == len(values)


def _filled(form: bytes, *columns: Sequence[object]) -> bytes:
    """``form``, which has all fields of all messages, filled with one column for each field of a message."""
    width = len(columns)
    fields: list[object] = [None] * (width * len(columns[0]))
    for place, column in enumerate(columns):
        fields[place::width] = column
    return form % tuple(fields)
