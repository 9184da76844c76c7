"""Headers of many messages: what is sent, and what is refused, is the same as one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jsproto.client.connection.bulk_publish import LONGEST_LINE, SPLIT_WRITES_AT
from jsproto.errors import BadHeaderError, Error, LocalProtocolError, OutboundBufferLimitError
from jsproto.grammar.batch import BATCH_PREFIX, behind, encode_unbatched
from jsproto.grammar.columns import MessageColumns
from jsproto.grammar.headers import SERVER_PREFIX, Headers, encode_headers, encode_values
from tests.client.test_atomic import opened
from tests.client.test_fast import Batch
from tests.harness import Harness


class Text(str):
    """A str that is equal to any other, and is written otherwise than it looks."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return True

    def __str__(self) -> str:
        return "other"


class Odd(str):
    """A str that is equal to nothing."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return False


good_values = st.sampled_from(
    ["", "1", "22", "a b", "ä", "\udc80", "\U0001f600", "%d", "a:b", "\x0b", "\x85", "\u2028"]
)
bad_values: Any = st.sampled_from(
    [" 1", "1 ", "\t", "1\r", "\n", "a\nb", "\0", "\ud800", "\udd00", Text("v"), 1, b"1", None]
)
names = st.sampled_from(["A", "B", "a", "Trace-Id", "Nats-Msg-Id", "Nats-Batch", "%s", "!~"])
bad_names: Any = st.sampled_from(["", "a b", "a:b", "ä", "a\r", "Nats-Batch-Id", "Nats-Batch-Sequence", Text("A"), 1])
several = st.lists(good_values, max_size=3)
odd_headers: Any = st.one_of(
    st.none(),
    st.dictionaries(names, good_values | several, max_size=3),
    st.dictionaries(names, good_values, max_size=2).map(Headers),
    st.dictionaries(names, good_values, max_size=2).map(MappingProxyType),
    st.just(Headers([("A", "1"), ("A", "2")])),
    st.dictionaries(names | bad_names, good_values | bad_values, max_size=2),
    st.sampled_from([[("A", "1")], "A", 1, {"A": "x" * 1_010}, {"A": "x" * 1_030}]),
)  # fmt: skip


@st.composite
def many_headers(draw: st.DrawFn) -> list[Any]:
    """The headers of some messages: mostly with the same names, sometimes one of them is another."""
    count = draw(st.integers(1, 6))
    shared = draw(st.lists(names, min_size=1, max_size=3, unique=True))
    found: list[Any] = [{name: draw(good_values) for name in shared} for _ in range(count)]
    match draw(st.integers(0, 3)):
        case 0:
            found = [found[0]] * count
        case 1:
            found = [Headers(each) for each in found]
        case 2:
            found = [None] * count
        case _:
            pass
    for _ in range(draw(st.sampled_from([0, 0, 1, 3]))):
        found[draw(st.integers(0, count - 1))] = draw(odd_headers)
    return found


def is_plain(headers: Any, reserved: str, room: int) -> bool:
    """Whether a run takes a message with these headers, and a payload that leaves so much room."""
    if headers is None:
        return True
    try:
        block = encode_headers(headers)
    except BadHeaderError:
        return False
    is_small = len(block) <= room and len(behind(block)) - 2 <= SPLIT_WRITES_AT
    return is_small and not any(name.startswith(reserved) for name in Headers.of(headers))


def rows_of(headers: Sequence[Any], payloads: Sequence[bytes]) -> list[tuple[Any, ...]]:
    """Messages with these headers: those without have two parts or three."""
    rows = enumerate(zip(headers, payloads, strict=True))
    return [("e.a", data) if own is None and at % 2 else ("e.a", data, own) for at, (own, data) in rows]


@given(many_headers(), st.sampled_from([1, 8, 998]), st.sampled_from([0, 1, 2]), st.booleans())
@example([{"A": "1"}] * 2 + [{"A": "1", "B": "2"}], 1, 0, False)
@example([Headers([("A", "1")]), Headers([("A", "1"), ("A", "2")])], 1, 0, False)
@example([{"A": Text("v")}, {"A": "w"}, {"A": Text("v")}], 1, 0, True)
@example([{Odd("A"): "1"}, {"A": "2"}], 1, 0, False)
@example([{1: "1"}, {1: "2"}], 1, 0, False)
@example([{"A": "1"}, {"A": "2 "}], 1, 0, False)
@example([{"A": "1"}, {"A": ["2", "3"]}], 1, 0, False)
@example([{"A": "1"}, {"A": "\ud800"}], 1, 0, True)
@example([Headers({"A": "1", "B": "2"}), Headers({"A": "1", "B": "3"})], 998, 2, False)
@example([{"A": "x" * 1_030}] * 2, 1, 0, False)
@example([{"A": "x" * 1_000}] * 2 + [None], 1, 2, False)
@example([{"A": "1", "B": "2"}, {"B": "2", "A": "1"}], 1, 0, False)
@example([{}, None, {"A": "1"}, {}], 1, 0, False)
@example([{}, {"": "1"}], 1, 0, False)
@example([{"": "1"}, {}], 1, 0, True)
def test_runs_with_headers_are_queued_as_publish_would(
    headers: list[Any], first: int, sizes: int, columns: bool
) -> None:
    payloads = [bytes(at * sizes) for at in range(len(headers))]
    messages: Any = MessageColumns(["e.a"] * len(headers), payloads, headers) if columns else rows_of(headers, payloads)
    replies = [b"r%%.%d" % number for number in range(first, first + len(headers))]
    runs: list[tuple[str, int, Callable[[Harness], int], Callable[[int, Any], tuple[Any, Any]]]] = [
        (
            BATCH_PREFIX, 1_100,
            lambda h: h.session.publish_run(messages, (b"r%.", b""), first),
            lambda at, own: (replies[at], None if own is None else encode_unbatched(own)),
        ),
        (
            BATCH_PREFIX, 1_100,
            lambda h: h.session.publish_replied(messages, replies),
            lambda at, own: (replies[at], None if own is None else encode_unbatched(own)),
        ),
        (
            SERVER_PREFIX, 1_100 - len(b"NATS/1.0\r\nN: %\r\n\r\n") - 20,
            lambda h: h.session.publish_numbered(messages, (b"NATS/1.0\r\nN: %", b"\r\n\r\n"), first, set()),
            lambda at, own: (None, b"NATS/1.0\r\nN: %%%d\r\n%b" % (first + at, behind(encode_headers(own or {})))),
        ),
    ]  # fmt: skip
    for reserved, room, run, parts in runs:
        at_once, one_by_one = (Harness(info={"max_payload": 1_100}) for _ in range(2))
        taken = run(at_once)
        plain = [is_plain(own, reserved, room - len(data)) for own, data in zip(headers, payloads, strict=True)]
        assert taken == [*plain, False].index(False)
        for at in range(taken):
            one_by_one.session.publish("e.a", payloads[at], *parts(at, headers[at]))
        data = [b"".join(each.session.data_to_send()) for each in (at_once, one_by_one)]
        assert data[0] == data[1]


@given(
    st.dictionaries(
        names | bad_names,
        good_values | bad_values | st.lists(good_values | bad_values | several, min_size=3, max_size=3),
        max_size=3,
    )
)
@example({"A": "1", "B": ["1", "22", "1"], "C": ["x"] * 3})
@example({"A": [["1", "2"], ["3"], []]})
def test_columns_of_headers_are_published_as_the_headers_of_each(columns: dict[Any, Any]) -> None:
    try:
        messages = MessageColumns(["e.a"] * 3, [b"1", b"22", b"333"], columns)
    except LocalProtocolError:
        return
    rows = [*messages]
    outcomes: list[Any] = []
    for some in (messages, rows, [list(row) for row in rows]):
        outcomes.append(publish_all(some))
    outcomes.append(publish_each(rows))
    assert all(outcome == outcomes[0] for outcome in outcomes)


def publish_all(messages: Sequence[Any]) -> tuple[Any, ...]:
    """What a fast-ingest batch sends of ``messages``, and what it raises."""
    batch = Batch(Harness()).start(100)
    failed = ""
    try:
        assert batch.fast.publish_many(messages, batch.h.now) == len(messages)
    except LocalProtocolError as error:
        failed = f"{type(error)} {error}"
    return batch.h.published(), failed, batch.fast.sequence


def publish_each(messages: Sequence[Any]) -> tuple[Any, ...]:
    """The same, one call for each."""
    batch = Batch(Harness()).start(100)
    failed = ""
    try:
        for message in messages:
            batch.fast.publish(*message, now=batch.h.now)
    except LocalProtocolError as error:
        failed = f"{type(error)} {error}"
    return batch.h.published(), failed, batch.fast.sequence


@given(many_headers())
def test_a_batch_is_given_headers_as_one_by_one(headers: list[Any]) -> None:
    rows = rows_of(headers, [b"x"] * len(headers))
    whole = [message if len(message) == 3 else (*message, None) for message in rows]
    assert publish_all(rows) == publish_all(MessageColumns(*zip(*whole, strict=True))) == publish_each(rows)


@given(many_headers())
def test_an_atomic_batch_is_given_headers_as_one_by_one(headers: list[Any]) -> None:
    rows = rows_of(headers, [b"x"] * len(headers))
    outcomes = []
    for way in ("many", "columns", "each"):
        batch, failed = opened(), ""
        try:
            if way == "each":
                for message in rows:
                    batch.atomic.add(*message, now=batch.h.now)
            else:
                columns = MessageColumns(["e.a"] * len(rows), [b"x"] * len(rows), headers)
                batch.atomic.add_many(rows if way == "many" else columns, batch.h.now)
        except Error as error:
            failed = f"{type(error)} {error}"
        outcomes.append((batch.sent(), failed, batch.atomic.sequence))
    assert outcomes[0] == outcomes[1] == outcomes[2]


@given(st.lists(good_values | bad_values.filter(lambda value: type(value) is str), min_size=1, max_size=4))
def test_many_values_are_encoded_as_each(values: list[str]) -> None:
    try:
        expected: Any = [encode_headers({"A": value})[len(b"NATS/1.0\r\nA: ") : -4] for value in values]
    except BadHeaderError:
        with pytest.raises(BadHeaderError):
            encode_values(values)
    else:
        assert encode_values(values) == expected


def test_a_server_without_headers_gets_none() -> None:
    harness = Harness(info={"headers": False})
    rows = [("e.a", b"1", None), ("e.a", b"2"), ("e.a", b"3", {"A": "1"}), ("e.a", b"4")]
    assert harness.session.publish_run(rows, (b"r.", b""), 1) == 2
    assert [pub.payload for pub in harness.published()] == [b"1", b"2"]
    assert harness.session.publish_run(rows[2:], (b"r.", b""), 1) == 0


def test_headers_count_where_room_is_short() -> None:
    rows = [("e.a", b"x", {"A": "v" * 500})] * 100
    harness = Harness(pending_size=20_000, linger=9.0)
    assert 20_000 // 8_000 < harness.session.publish_run(rows, (b"r.", b""), 1) < 20_000 // 500
    for _ in range(100):
        harness.session.publish_run(rows, (b"r.", b""), 1)
    assert 20_000 < harness.session._write_buffer.size < 20_000 + LONGEST_LINE
    with pytest.raises(OutboundBufferLimitError):
        harness.session.publish("e.a", b"x")
