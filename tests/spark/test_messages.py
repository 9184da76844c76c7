"""Rows of Arrow's as messages: the same bytes, and the same objects, as messages of lists have."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.grammar.columns import MessageColumns
from jsproto.wire.bulk_encoder import encode_run, pub_head
from pyspark_jetstream import messages as module
from pyspark_jetstream.messages import Chunk, RowMessages
from tests.client.test_fast import Batch
from tests.harness import Harness

pytestmark = pytest.mark.spark

REPLIES = [(b"r.", b".1.$FI"), (b"%d", b"")]
SUBJECTS = st.sampled_from(["e.a", "e.b", "\xe4.%d", "e." + "c" * 200])
PAYLOADS = st.sampled_from([b"", b"%d", b"\0\r\n", b"x" * 70]) | st.sampled_from([b"y" * 1_100, b"z" * 3_000])


@st.composite
def chunks(draw: st.DrawFn) -> tuple[Chunk, MessageColumns]:
    """The same rows in chunks of Arrow's, each a slice of something larger, and in lists."""
    alike = draw(st.booleans())
    chunks = draw(st.lists(st.lists(st.tuples(SUBJECTS, PAYLOADS), max_size=12), min_size=1, max_size=4))
    if alike:
        chunks = [[("e.a", b"same")] * len(chunk) for chunk in chunks]
    rows = [row for chunk in chunks for row in chunk]
    subjects, payloads = [subject for subject, _ in rows], [payload for _, payload in rows]
    longest = max(map(len, payloads), default=0)
    arrow: Any = pa.chunked_array([pa.array(["?", *(subject for subject, _ in chunk)])[1:] for chunk in chunks])
    if alike and draw(st.booleans()):
        arrow = "e.a"
    data = pa.chunked_array(
        [pa.array([b"?", *(payload for _, payload in chunk), b"?"], pa.binary())[1:-1] for chunk in chunks]
    )
    return Chunk(arrow, data, longest), MessageColumns(subjects, payloads)


def encoded(messages: MessageColumns, reply: tuple[bytes, bytes], first: int) -> bytes:
    if not messages:
        return b""
    lines = [pub_head(subject.encode()) for subject in messages.subjects]
    return b"".join(encode_run(reply, first, lines, [*map(len, messages.payloads)], messages.payloads))


PLACES = st.integers(-50, 50) | st.none()


@given(
    chunks(),
    st.lists(
        st.tuples(
            PLACES, PLACES, st.sampled_from(REPLIES), st.sampled_from([1, 6, 95, 996, 10**18 - 2]),
            st.sampled_from([0, 60, 1_000, 4_000, 2**40]),
        ),
        max_size=5,
    ),
    st.sampled_from([1, 3, 4_096]),
    st.sampled_from([1, 100, 2_000, 2**20]),
)  # fmt: skip
def test_rows_are_encoded_as_lists_of_them(
    chunk: tuple[Chunk, MessageColumns], asked: list[Any], block_rows: int, block_bytes: int
) -> None:
    """However they are sliced, whatever they were encoded for before, and wherever a block ends."""
    arrow, plain = chunk
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK_ROWS", block_rows)
        patch.setattr(module, "BLOCK_BYTES", block_bytes)
        for start, stop, reply, first, most in asked:
            rows, same = arrow.messages[start:stop], plain[start:stop]
            assert [*rows] == [*same]
            count, data = rows.encoded(reply, first, arrow.longest, most)
            assert data == encoded(same[:count], reply, first)
            if same:
                assert len(encoded(same[: count - 1], reply, first)) <= most
            if count < len(same):
                assert len(data) > most
            if same:
                again, rest = rows[1:].encoded(reply, first + 1, arrow.longest, 2**40)  # of the same block, mostly
                assert rest == encoded(same[1:], reply, first + 1)
                assert again == len(same) - 1
                assert rows.encoded(reply, first, arrow.longest - 1, most) == (0, b"")


@given(chunks())
def test_rows_are_a_sequence_of_pairs(chunk: tuple[Chunk, MessageColumns]) -> None:
    rows, plain = chunk[0].messages, chunk[1]
    assert len(rows) == len(plain)
    assert [*rows] == [*plain]
    assert [*rows.subjects] == [*plain.subjects]
    assert [*rows.payloads] == [*plain.payloads]
    assert [*rows[::-1]] == [*plain[::-1]]
    assert [*rows[1:-1:3]] == [*plain[1:-1:3]]
    for place in range(-len(plain), len(plain)):
        assert rows[place] == plain[place]
    for place in (len(plain), -len(plain) - 1):
        with pytest.raises(IndexError):
            rows[place]


def test_a_block_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks: list[int] = []
    encode = Chunk._encode

    def counted(chunk: Chunk, start: int, *others: Any) -> None:
        blocks.append(start)
        encode(chunk, start, *others)

    monkeypatch.setattr(Chunk, "_encode", counted)
    count = 2 * module.BLOCK_ROWS + 5
    data = pa.chunked_array([[b"%d" % number for number in range(count)]])
    messages = Chunk("e.a", data, 4).messages
    for at in range(0, count, 100):
        assert messages[at : at + 100].encoded((b"r.", b""), 7 + at, 4, 2**40)[0] == min(100, count - at)
    assert blocks == [0, module.BLOCK_ROWS, 2 * module.BLOCK_ROWS]
    blocks.clear()
    large = pa.chunked_array([[bytes(module.BLOCK_BYTES // 8)] * 16 + [bytes(2 * module.BLOCK_BYTES)] * 2])
    assert Chunk("e.a", large, 2 * module.BLOCK_BYTES).messages.encoded((b"", b""), 1, 2**40, 2**40)[0] == 18
    assert len(blocks) > 4  # of not much more than BLOCK_BYTES
    assert blocks[-2:] == [16, 17]


@pytest.mark.parametrize("size", [1_000, 5_000])
def test_few_objects_are_made_of_what_has_no_room(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """However often the rest is published again, and when each row is larger than the room."""
    made = 0
    objects = RowMessages._objects

    def counted(rows: RowMessages, column: pa.ChunkedArray) -> list[Any]:
        nonlocal made
        made += len(rows)
        return objects(rows, column)

    monkeypatch.setattr(RowMessages, "_objects", counted)
    rows = Chunk("e.a", pa.chunked_array([[bytes(size)] * 100]), size).messages
    batch = Batch(Harness(pending_size=3_000)).start(200)
    done = rounds = 0
    while done < len(rows):
        done += batch.fast.publish_many(rows[done:], batch.h.now)
        rounds += 1
        batch.h.sent()
    assert rounds >= 25
    assert made <= rounds


@given(chunks(), st.sampled_from([1, 4, 50]), st.sampled_from([400, 2_097_152]))
def test_rows_are_published_as_a_list_of_them(
    chunk: tuple[Chunk, MessageColumns], rate: int, pending_size: int
) -> None:
    """With what is kept of them, and in a second batch."""
    outcomes = []
    for rows in (chunk[0].messages, [*chunk[1]]):
        for _ in range(2):
            batch = Batch(Harness(pending_size=pending_size)).start(rate)
            done = 0
            sent: list[Any] = []
            while done < len(rows):
                count = batch.fast.publish_many(rows[done:], batch.h.now)
                unknown = batch.fast.unacknowledged
                assert unknown[len(unknown) - count :] == [*rows[done : done + count]]
                done += count
                sent += batch.h.published()
                if not batch.fast.room:
                    batch.ack(batch.fast.sequence, rate)
            outcomes.append((sent, batch.fast.sequence))
    assert all(outcome == outcomes[0] for outcome in outcomes)
