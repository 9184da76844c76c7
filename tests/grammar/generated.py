"""Hypothesis strategies of stored messages: the header blocks of a page of Direct Get, some of them damaged."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis.strategies import DrawFn

TIMES = [b"2026-11-20T20:36:46.910548879Z", b"2026-11-20T20:36:46.91Z", b"2026-11-20T20:36:46Z"]


def block(seq: int, last: int, user: bytes = b"", subject: bytes = b"foo.A", time: bytes = TIMES[0]) -> bytes:
    """The header block of message ``seq``, which follows ``last``, as a server writes it."""
    return (
        b"NATS/1.0\r\n%bNats-Stream: DG\r\nNats-Subject: %b\r\nNats-Sequence: %d\r\nNats-Time-Stamp: %b\r\n"
        b"Nats-Num-Pending: 3\r\nNats-Last-Sequence: %d\r\n\r\n" % (user, subject, seq, time, last)
    )


# Where the numbers are few or many, or get another digit.
firsts = st.sampled_from([0, 7, 997, 999, 1_000, 1_001, 1_998, 9_997, 54_321, 10**19 - 2, 10**20 - 3, 10**20 + 5])
odd = st.sampled_from(
    [
        b"", b"\r\n", b"\r\n\r\n", b" ", b"\t", b"\r", b"\n", b"0", b"+", b"-1", b"1001", b"NATS/1.0\r\n",
        b"\r\nNats-Sequence: ", b"\r\nNats-Sequence: 1001\r\n", b"\r\nNats-Last-Sequence: 1000\r\n\r\n",
        b"\r\nNats-Subject: X\r\n", b"\r\nNats-Num-Pending: 1\r\n", b"\r\nNats-Time-Stamp: X", block(1_001, 1_000),
    ]
)  # fmt: skip


@st.composite
def pages(draw: DrawFn) -> tuple[list[bytes], int]:
    """Header blocks, and the sequence before the first one. What is wrong with them may be anything, or nothing."""
    previous = last = draw(firsts)
    blocks: list[bytes] = []
    for _ in range(draw(st.integers(1, 6))):
        seq = last + draw(st.sampled_from([1, 1, 1, 1, 1, 1, 1, 4, 0]))
        imitation = block(seq, last)[len(b"NATS/1.0\r\n") : -2]
        user = draw(st.sampled_from([b"", b"", b"", b"X: 1\r\n", b"Nats-Sequence: %d\r\n" % seq, imitation]))
        subject = draw(st.sampled_from([b"foo.A", b"foo.A", b"foo.long"]))
        blocks.append(block(seq, last, user, subject, draw(st.sampled_from(TIMES))))
        last = seq
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        number = draw(st.integers(0, len(blocks) - 1))
        chosen = blocks[number]
        lines = [at for at in range(len(chosen)) if chosen.startswith(b"\r\n", at)]
        place = draw(st.one_of(st.sampled_from([0, len(chosen), *lines]), st.integers(0, len(chosen))))
        length = draw(st.sampled_from([0, 0, 1, 2, 4, 25, 1_000]))
        blocks[number] = chosen[:place] + draw(odd) + chosen[place + length :]
        if number and draw(st.booleans()):  # the end of one stands in the next one
            blocks[number - 1] += blocks[number][:place]
            blocks[number] = blocks[number][place:]
    return blocks, previous
