"""What has come and was not taken: the same messages in the same order, however they came and are taken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.client.read.read_buffer import NONE, ReadBuffer
from jsproto.errors import RemoteProtocolError
from jsproto.grammar.columns import StoredColumns, stored_columns
from jsproto.wire.encoder import encode_msg
from tests.client.test_direct import Read, stored


def parts(first: int, count: int) -> list[tuple[bytes, bytes, int]]:
    return [
        (
            b"NATS/1.0\r\nNats-Stream: S\r\nNats-Subject: s.%d\r\nNats-Sequence: %d\r\nNats-Time-Stamp: T%d\r\n"
            b"Nats-Num-Pending: 1\r\nNats-Last-Sequence: %d\r\n\r\n" % (seq, seq, seq, seq - 1),
            b"%d" % seq,
            seq,
        )
        for seq in range(first, first + count)
    ]


def some(first: int, count: int, known: bool) -> StoredColumns:
    """Messages of which subjects and times are known, or not."""
    found = stored_columns(parts(first, count))
    return found if known else found._replace(subjects=NONE, timestamps=NONE)


lots = st.lists(st.tuples(st.integers(1, 6), st.booleans()), max_size=6)
pops = st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=12)


@given(lots, pops)
def test_what_comes_is_what_is_taken(came: list[tuple[int, bool]], taken: list[tuple[int, bool]]) -> None:
    backlog = ReadBuffer()
    left: list[tuple[bytes, bytes, int]] = []
    for count, known in came:
        other = ReadBuffer()
        other.add(some(len(left) + 1, count, known))
        backlog.add_all(other)
        left += parts(len(left) + 1, count)
    assert [*backlog.headers()] == [header for header, _, _ in left]
    for most, in_columns in taken:
        expected, left = left[:most], left[most:]
        if in_columns:
            columns = backlog.pop_columns(most)
            assert [*map(list, columns)] == [*map(list, stored_columns(expected))]
        else:
            messages = backlog.pop_messages(most)
            assert [(each.raw_headers, each.data, each.seq) for each in messages] == expected
        assert len(backlog) == len(left)


def test_all_are_dropped() -> None:
    backlog = ReadBuffer()
    backlog.add(some(1, 3, True))
    backlog.pop_messages(1)
    backlog.clear()
    backlog.add(some(7, 2, True))
    assert not backlog.pop_messages(0)
    assert [*backlog.pop_columns(9).seqs] == [7, 8]
    assert not backlog


def test_a_message_without_time() -> None:
    backlog = ReadBuffer()
    backlog.add(StoredColumns(NONE, [1], NONE, [b""], [parts(1, 1)[0][0].replace(b"Time-Stamp", b"X")]))
    with pytest.raises(RemoteProtocolError, match="Nats-Time-Stamp"):
        backlog.pop_columns(1)


def test_a_reader_who_looks_at_fields_gets_them_parsed_from_then_on() -> None:
    read = Read(page_messages=20)
    read.requests()
    first, *more = [
        encode_msg(read.reply, b"1", None, stored(seq, last=seq - 1, pending=9), b"") for seq in range(1, 10)
    ]
    read.h.feed(first)
    assert [message.data for message in read.direct.pop_many(1, read.h.now)] == [b""]
    assert not read.direct.pop_many(1, read.h.now)
    assert not read.h.session._with_fields
    read.h.feed(more[0])
    assert [message.subject for message in read.direct.pop_many(1, read.h.now)] == ["foo.A"]
    assert not read.direct.pop_many(1, read.h.now)
    assert read.h.session._with_fields == {b"1"}
    read.h.feed(b"".join(more[1:]))
    messages = read.direct.pop_many(10, read.h.now)
    assert {type(message._fields) for message in messages} == {tuple}  # they were found already
    assert {message.subject for message in messages} == {"foo.A"}
    assert [message.seq for message in messages] == [*range(3, 10)]
