"""The store: sequences, limits, ids, and a model that says the same in fewer words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.api_errors import StreamStoreFailedError
from jsproto.grammar.config import StreamConfig, StreamState
from jsproto.grammar.headers import encode_headers
from jsproto.server.store.context import ServerContext
from jsproto.server.store.stream import Publication, Stream

SECOND = 1_000_000_000


def stream(**fields: Any) -> Stream:
    return Stream(
        StreamConfig("S", **{"subjects": ["s.>"], "storage": "memory", **fields}),
        ServerContext(b"t", epoch=SECOND),
        1.0,
    )


def message(subject: str = "s.a", payload: bytes = b"x", **headers: str) -> Publication:
    block = encode_headers({name.replace("_", "-"): value for name, value in headers.items()}) if headers else None
    return Publication(subject.encode(), block, payload)


def sequences(store: Stream) -> list[int]:
    return [stored.seq for stored in store]


def fill(store: Stream, *subjects: str) -> None:
    for subject in subjects:
        store.append(message(subject), 2.0)


def test_a_new_stream_is_empty() -> None:
    store = stream()
    assert store.state() == StreamState()
    assert store.created == 2 * SECOND
    assert (len(store), store.last_of(b"s.a"), store.get(1), store.deadline()) == (0, 0, None, None)
    assert store.config.subjects == ["s.>"]
    assert not stream(subjects=None, mirror={"name": "M"}).config.subjects


def test_messages_are_kept_as_they_came() -> None:
    store = stream()
    assert store.append(message("s.a", b"one", X="1"), 3.0) == 1
    assert store.append(message("s.b", b"two"), 4.0) == 2
    stored = store.get(1)
    assert stored is not None
    assert (stored.subject, stored.header, stored.payload) == (b"s.a", b"NATS/1.0\r\nX: 1\r\n\r\n", b"one")
    assert (stored.timestamp, stored.arrived) == (4 * SECOND, 3.0)
    assert (store.last_of(b"s.a"), store.last_of(b"s.b"), store.count_of(b"s.b")) == (1, 2, 1)
    state = store.state()
    assert (state.first_seq, state.last_seq, state.first_ts, state.last_ts) == (1, 2, 4 * SECOND, 5 * SECOND)
    assert (state.messages, state.num_subjects, state.num_deleted) == (2, 2, None)
    assert state.bytes == store.stored_bytes == (3 + 18 + 3 + 16) + (3 + 3 + 16)


def test_sizes_on_disk() -> None:
    store = stream(storage="file")
    assert store.size(message()) == 3 + 1 + 30
    assert store.size(message(X="1")) == 3 + 18 + 1 + 34


def test_the_first_sequence_can_be_chosen() -> None:
    store = stream(first_seq=100)
    assert store.state().first_seq == 100
    assert store.append(message(), 1.0) == 100


def test_removing() -> None:
    store = stream()
    fill(store, "s.a", "s.b", "s.a", "s.c")
    assert store.remove(1)
    assert not store.remove(1)
    assert (store.first_seq, sequences(store)) == (2, [2, 3, 4])
    assert store.remove(3)
    assert store.last_of(b"s.a") == 0
    state = store.state()
    assert (state.messages, state.num_deleted, state.num_subjects) == (2, 1, 2)
    assert store.purge() == 2
    state = store.state()
    assert (state.first_seq, state.last_seq, state.messages, state.bytes, state.num_subjects) == (5, 4, 0, 0, None)
    assert state.last_ts is not None
    assert store.append(message(), 9.0) == 5


def test_skipping() -> None:
    store = stream()
    store.skip(10**15)
    assert (store.first_seq, store.last_seq) == (10**15 + 1, 10**15)
    store.skip(5)
    assert store.last_seq == 10**15
    first = store.append(message(), 3.0)
    store.skip(10**18)
    last = store.append(message(), 3.0)
    assert (first, last, store.state().num_deleted) == (10**15 + 1, 10**18 + 1, 10**18 - 10**15 - 1)
    store.remove(first)  # which does not count up to the next one
    assert store.first_seq == last


@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        ({"subject": "s.a"}, [2, 4]),
        ({"subject": "s.*", "keep": 2}, [4, 5]),
        ({"before": 3}, [3, 4, 5]),
        ({"keep": 9}, [1, 2, 3, 4, 5]),
        ({"subject": "s.a", "before": 4}, [2, 4, 5]),
    ],
)
def test_purging(arguments: dict[str, Any], left: list[int]) -> None:
    store = stream()
    fill(store, "s.a", "s.b", "s.a", "s.c", "s.a")
    assert store.purge(**arguments) == 5 - len(left)
    assert sequences(store) == left


@pytest.mark.parametrize("is_empty", [False, True])
def test_purging_to_after_the_end_moves_the_end(is_empty: bool) -> None:
    store = stream()
    fill(store, "s.a", "s.b")
    if is_empty:
        store.purge()
    assert store.purge(before=9) == (0 if is_empty else 2)
    state = store.state()
    assert (state.first_seq, state.last_seq, state.messages, state.num_deleted) == (9, 8, 0, None)
    assert store.append(message(), 9.0) == 9
    assert store.purge("s.*", before=20) == 1
    assert store.append(message(), 9.0) == 10


def test_a_rollup_replaces_what_was_there() -> None:
    store = stream(allow_rollup_hdrs=True)
    fill(store, "s.a", "s.b", "s.a")
    store.append(message("s.a", Nats_Rollup="SUB"), 1.0)
    assert sequences(store) == [2, 4]
    store.append(message("s.c", Nats_Rollup="all"), 1.0)
    assert sequences(store) == [5]


def test_old_messages_make_room() -> None:
    store = stream(max_msgs=2)
    fill(store, "s.a", "s.b", "s.c")
    assert sequences(store) == [2, 3]
    store = stream(max_bytes=2 * 20 + 5)
    fill(store, "s.a", "s.b", "s.c")
    assert sequences(store) == [2, 3]
    store.append(message(payload=b"x" * 100), 1.0)
    assert sequences(store) == []
    store = stream(max_msgs_per_subject=1)
    fill(store, "s.a", "s.b", "s.a")
    assert sequences(store) == [2, 3]


def test_new_limits_apply_at_once() -> None:
    store = stream()
    fill(store, "s.a", "s.a", "s.a", "s.b", "s.c")
    store.update(StreamConfig("S", subjects=["s.>"], storage="memory", max_msgs_per_subject=1))
    assert sequences(store) == [3, 4, 5]
    store.update(StreamConfig("S", subjects=["s.>"], storage="memory", max_msgs=2))
    assert sequences(store) == [4, 5]


@pytest.mark.parametrize(
    ("fields", "words"),
    [({"max_msgs": 2}, "maximum messages exceeded"), ({"max_bytes": 41}, "maximum bytes exceeded")],
)
def test_a_full_stream_refuses_what_is_new(fields: dict[str, Any], words: str) -> None:
    store = stream(discard="new", **fields)
    fill(store, "s.a", "s.b")
    with pytest.raises(StreamStoreFailedError, match=words) as caught:
        fill(store, "s.c")
    assert (caught.value.code, caught.value.err_code) == (503, 10077)
    assert (sequences(store), store.last_seq) == ([1, 2], 2)


def test_a_full_stream_takes_what_replaces_a_message() -> None:
    store = stream(discard="new", max_msgs=2, max_bytes=41, max_msgs_per_subject=1)
    fill(store, "s.a", "s.b", "s.a")
    assert sequences(store) == [2, 3]
    with pytest.raises(StreamStoreFailedError, match="maximum bytes"):
        store.append(message(payload=b"longer"), 1.0)


def test_a_full_subject_refuses_what_is_new() -> None:
    store = stream(discard="new", discard_new_per_subject=True, max_msgs_per_subject=1, allow_rollup_hdrs=True)
    fill(store, "s.a", "s.b")
    with pytest.raises(StreamStoreFailedError, match="maximum messages per subject exceeded"):
        fill(store, "s.a")
    store.append(message("s.a", Nats_Rollup="sub"), 1.0)
    assert sequences(store) == [2, 3]


def test_messages_grow_old() -> None:
    store = stream(max_age=0.1)
    store.append(message(), 10.0)
    store.append(message(), 10.05)
    assert store.deadline() == 10.1
    store.expire(10.09)
    assert len(store) == 2
    store.expire(10.1)
    assert sequences(store) == [2]
    store.expire(20.0)
    assert (store.deadline(), len(store), store.first_seq) == (None, 0, 3)


def test_ids_are_remembered_for_a_while() -> None:
    store = stream(duplicate_window=10)
    store.append(message(Nats_Msg_Id="one"), 1.0)
    assert store.last_msg_id == b"one"
    store.append(message(), 2.0)
    assert store.last_msg_id == b""
    assert store.duplicate_of(b"one", 10.9) == 1
    assert store.duplicate_of(b"two", 10.9) is None
    store.append(message(Nats_Msg_Id="one"), 10.9)  # stored unchecked: the newer one counts
    assert store.duplicate_of(b"one", 11.0) == 3
    assert store.duplicate_of(b"one", 20.9) is None


LIMITS = st.sampled_from([-1, 1, 2, 3, 7])


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.binary(max_size=9)), max_size=30),
    LIMITS,
    LIMITS,
    st.sampled_from([-1, 30, 60, 200]),
)
def test_the_store_is_a_list_that_forgets(
    messages: list[tuple[str, bytes]], max_msgs: int, per_subject: int, max_bytes: int
) -> None:
    store = stream(max_msgs=max_msgs, max_msgs_per_subject=per_subject, max_bytes=max_bytes)
    model: list[tuple[int, str, bytes]] = []
    for seq, (subject, payload) in enumerate(messages, 1):
        assert store.append(message(f"s.{subject}", payload), float(seq)) == seq
        model.append((seq, subject, payload))
        mine = [entry for entry in model if entry[1] == subject]
        if 0 < per_subject < len(mine):
            model.remove(mine[0])
        while 0 < max_msgs < len(model) or 0 < max_bytes < sum(19 + len(entry[2]) for entry in model):
            model.pop(0)
        assert [(entry.seq, entry.subject.decode()[2:], entry.payload) for entry in store] == model
        assert store.stored_bytes == sum(19 + len(entry[2]) for entry in model)
        assert store.first_seq == (model[0][0] if model else seq + 1)
        for letter in "abc":
            assert store.last_of(b"s." + letter.encode()) == max((e[0] for e in model if e[1] == letter), default=0)
