"""Copies of a stream that answer Direct Get: replicas and mirrors, each with the lag that is set."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Final

import hypothesis.strategies as st
import pytest
from hypothesis import given

from jsproto.errors import APIError, LocalProtocolError
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.headers import encode_headers
from jsproto.server.replication.replicas import Lag
from jsproto.wire.encoder import encode_pub
from tests.marks import promise, requirement
from tests.server.harness import Reader

STOPPED: Final = Lag(seconds=float("inf"))


def replicated(**options: Any) -> Reader:
    """Stream S with two replicas besides its leader."""
    reader = Reader()
    reader.make(num_replicas=3, **options)
    return reader


def seen(reader: Reader, subject: str = "s.a", stream: str = "S", times: int = 60) -> set[Any]:
    """What many reads of the same subject gave."""
    return {reader.last(subject, stream) for _ in range(times)}


@requirement(107)
@promise("what the answering replica or mirror holds: the last writes may be missing")
@promise('`"direct"` is quick: a replica answers')
def test_every_copy_answers_and_chance_says_which() -> None:
    reader = replicated()
    one, other = reader.server.replicas("S")
    for _ in range(3):
        reader.store("s.a")
    one.lag = Lag(messages=1)
    other.lag = Lag(messages=2)
    for _ in range(3):
        reader.store("s.a")
    counts = Counter(reader.last() for _ in range(300))
    assert counts.keys() == {6, 5, 4}
    assert min(counts.values()) > 60
    assert reader.api("STREAM.MSG.GET.S", {"last_by_subj": "s.a"})["message"]["seq"] == 6
    one.lag = other.lag = Lag()
    assert seen(reader) == {6}


@requirement(107)
def test_the_same_token_gives_the_same_stale_reads() -> None:
    def reads() -> list[Any]:
        reader = replicated()
        reader.server.replicas("S")[0].lag = STOPPED
        reader.store("s.a")
        return [reader.last() for _ in range(40)]

    assert reads() == reads()
    assert set(reads()) == {1, "404 Message Not Found"}


@requirement(252)
def test_a_replica_that_lags_by_time() -> None:
    reader = replicated()
    for replica in reader.server.replicas("S"):
        replica.lag = Lag(seconds=2.0)
    reader.store("s.a")
    assert seen(reader) == {1, "404 Message Not Found"}
    reader.now = 1.9
    assert seen(reader) == {1, "404 Message Not Found"}
    reader.now = 2.0
    assert seen(reader) == {1}
    reader.store("s.a")
    reader.server.replicas("S")[0].lag = Lag()
    assert seen(reader) == {1, 2}


@requirement(254)
def test_time_alone_brings_a_copy_nearer() -> None:
    """Nobody has to ask: a consumer of a mirror gets what arrives there."""
    reader = replicated()
    reader.make("M", mirror={"name": "S"})
    server, idle = reader.server, reader.server.deadline()
    one, other = server.replicas("S")
    one.lag, other.lag, server.mirror("M").lag = Lag(seconds=2.0), Lag(seconds=3.0), Lag(seconds=1.0)
    reader.store("s.a")
    found = []
    for _ in range(3):
        when = server.deadline()
        assert when is not None
        server.handle_timeout(when)
        found.append((when, len(server.mirror("M").stream), len(one.stream), len(other.stream)))
    assert found == [(1.0, 1, 0, 0), (2.0, 1, 1, 0), (3.0, 1, 1, 1)]
    for lag in (STOPPED, Lag(messages=1)):
        one.lag = lag
        reader.store("s.a")
        other.catch_up(9.0)
        server.mirror("M").catch_up(9.0)
        assert server.deadline() == idle  # which time alone does not bring it
    one.lag, other.lag = STOPPED, Lag(messages=1, seconds=2.0)
    reader.api("STREAM.PURGE.S")
    assert server.deadline() == 2.0  # what is removed is not among the last messages


def test_a_copy_that_has_stopped_and_goes_on() -> None:
    reader = replicated()
    (one, other) = reader.server.replicas("S")
    one.lag = other.lag = STOPPED
    for _ in range(5):
        reader.store("s.a")
    reader.now = 1e9
    assert seen(reader) == {5, "404 Message Not Found"}
    one.lag = other.lag = Lag()
    assert seen(reader) == {5}
    assert len(one.stream) == 5


def test_an_older_value_is_read_though_the_leader_has_forgotten_it() -> None:
    reader = replicated(max_msgs_per_subject=1)
    reader.server.replicas("S")[0].lag = Lag(messages=1)
    reader.store("s.a", b"old")
    reader.store("s.a", b"new")
    assert len(reader.server.stream("S")) == 1
    assert seen(reader) == {1, 2}


def test_what_is_deleted_purged_or_too_old_goes_from_the_copies_too() -> None:
    reader = replicated(max_age=10)
    (one, other) = reader.server.replicas("S")
    for _ in range(4):
        reader.store("s.a")
    one.lag = Lag(seconds=1.0)
    reader.now = 0.5
    reader.api("STREAM.MSG.DELETE.S", {"seq": 4})
    reader.now = 1.0
    assert seen(reader) == {3, 4}
    reader.now = 1.5
    assert seen(reader) == {3}
    reader.api("STREAM.PURGE.S", {"keep": 1})
    assert [len(other.stream), len(one.stream)] == [1, 3]
    reader.now = 10.0
    assert seen(reader) == {"404 Message Not Found"}


def test_replicas_come_and_go_with_the_configuration() -> None:
    reader = Reader()
    reader.make()
    assert reader.server.replicas("S") == []
    reader.store("s.a")
    body: dict[str, Any] = {"name": "S", "subjects": ["s.>"], "storage": "memory", "allow_direct": True}
    assert reader.api("STREAM.UPDATE.S", body | {"num_replicas": 3})["config"]["num_replicas"] == 3
    one, other = reader.server.replicas("S")
    one.lag = other.lag = STOPPED
    reader.store("s.a")
    assert seen(reader) == {1, 2}
    reader.api("STREAM.UPDATE.S", body | {"num_replicas": 3, "max_msgs": 7})
    assert one.stream.config.max_msgs == 7
    reader.api("STREAM.UPDATE.S", body)
    assert reader.server.replicas("S") == []
    assert seen(reader) == {2}
    assert len(reader.server.stream("S").followers) == 2  # what republishes, and what schedules


# -- mirrors -----------------------------------------------------------------------------------------------------------


def mirrored() -> Reader:
    """Stream S with two messages, and stream M that mirrors it."""
    reader = Reader()
    reader.make()
    reader.store("s.a", b"1", b"NATS/1.0\r\nNats-Expected-Stream: S\r\n\r\n")
    reader.store("s.b", b"2", b"NATS/1.0\r\nNats-Msg-Id: x\r\n\r\n")
    reader.make("M", mirror={"name": "S"})
    return reader


def streams(reader: Reader, stream: str = "S", times: int = 60) -> set[bytes]:
    """Who answered."""
    headers = [reader.ask(f"DIRECT.GET.{stream}", {"seq": 1})[0][0] or b"" for _ in range(times)]
    return {header.partition(b"Nats-Stream: ")[2].partition(b"\r\n")[0] for header in headers}


@requirement(108)
def test_a_mirror_answers_for_the_stream_that_it_mirrors_under_its_own_name() -> None:
    reader = mirrored()
    assert streams(reader) == {b"S", b"M"}
    assert streams(reader, "M") == {b"M"}
    reader.api("STREAM.DELETE.S")
    assert streams(reader) == streams(reader, "M") == {b"M"}
    assert reader.read(b"", "S.s.b") == [2]
    reader.api("STREAM.DELETE.M")
    assert reader.read(b"", "S.s.b") == ["503 "]


def test_a_mirror_has_the_same_sequences_and_times_without_what_belonged_to_the_publish() -> None:
    reader = mirrored()
    reader.now = 5.0
    reader.store("s.a", b"3")
    origin, mirror = list(reader.server.stream("S")), list(reader.server.stream("M"))
    assert [stored.seq for stored in mirror] == [1, 2, 3]
    assert [(stored.timestamp, stored.payload) for stored in mirror] == [
        (stored.timestamp, stored.payload) for stored in origin
    ]
    assert [stored.header for stored in mirror] == [None, origin[1].header, None]


@requirement(253)
def test_a_mirror_that_lags() -> None:
    reader = mirrored()
    mirror = reader.server.mirror("M")
    mirror.lag = Lag(messages=2)
    for _ in range(3):
        reader.store("s.a")
    assert seen(reader) == {5, 3}
    assert seen(reader, stream="M") == {3}
    assert reader.api("STREAM.MSG.GET.M", {"last_by_subj": "s.a"})["message"]["seq"] == 3
    assert reader.api("STREAM.INFO.M")["state"]["messages"] == 3
    mirror.lag = Lag()
    assert reader.api("STREAM.INFO.M")["state"]["messages"] == 5


def test_a_mirror_says_how_far_it_is() -> None:
    reader = mirrored()
    reader.server.mirror("M").lag = STOPPED
    for _ in range(2):
        reader.store("s.a")
    assert reader.api("STREAM.INFO.M")["mirror"]["lag"] == 2
    reader.server.mirror("M").lag = Lag()
    described = reader.api("STREAM.INFO.M")["mirror"]
    assert described == {"name": "S", "lag": 0, "active": 0}


def test_a_mirror_keeps_what_its_origin_deletes() -> None:
    reader = mirrored()
    reader.api("STREAM.PURGE.S")
    assert seen(reader) == {1, "404 Message Not Found"}
    assert seen(reader, stream="M") == {1}


def test_a_mirror_has_limits_and_replicas_of_its_own() -> None:
    reader = mirrored()
    reader.make("N", mirror={"name": "S"}, max_msgs=2, num_replicas=2)
    reader.store("s.a")
    assert [stored.seq for stored in reader.server.stream("N")] == [2, 3]
    (replica,) = reader.server.replicas("N")
    assert [stored.seq for stored in replica.stream] == [2, 3]
    replica.lag = STOPPED
    reader.store("s.a")
    assert seen(reader, stream="N") == {3, 4}


def test_whoever_comes_first() -> None:
    reader = Reader()
    reader.make("M", mirror={"name": "S"}, mirror_direct=True)
    with pytest.raises(KeyError):
        reader.server.mirror("M")
    reader.make()
    reader.store("s.a")
    assert seen(reader, stream="M") == {1}
    reader.api("STREAM.DELETE.S")
    reader.make()
    reader.store("s.a")
    reader.store("s.a")
    assert [stored.seq for stored in reader.server.stream("M")] == [1, 2]


@requirement(111)
def test_whether_a_mirror_is_read_directly_is_what_its_origin_says() -> None:
    reader = Reader()
    reader.make()
    reader.make("T", allow_direct=False)
    for name, origin, asked, is_direct in (
        ("A", "S", False, True), ("B", "S", None, True), ("C", "T", True, False), ("D", "X", True, True),
        ("E", "X", None, False),
    ):  # fmt: skip
        mirror = reader.make(name, mirror={"name": origin}, mirror_direct=asked)
        assert mirror.config.mirror_direct is is_direct
        assert mirror.config.duplicate_window is None


def test_a_mirror_becomes_a_stream_and_never_another_mirror() -> None:
    reader = mirrored()
    reader.make("T")
    other = {"name": "M", "storage": "memory", "allow_direct": True, "mirror": {"name": "T"}}
    assert reader.api("STREAM.UPDATE.M", other)["error"]["err_code"] == 10055
    told = reader.api("STREAM.UPDATE.M", {"name": "M", "storage": "memory", "allow_direct": True, "subjects": ["m.>"]})
    assert "mirror" not in told["config"]
    reader.store("s.a")
    reader.store("m.a")
    assert [stored.subject for stored in reader.server.stream("M")] == [b"s.a", b"s.b", b"m.a"]
    assert streams(reader) == {b"S"}


@pytest.mark.parametrize(
    ("fields", "err_code"),
    [
        ({"subjects": ["x"]}, 10034), ({"first_seq": 2}, 10143), ({"sources": [{"name": "S"}]}, 10031),
        ({"mirror": {}}, 10142), ({"mirror": {"name": "a.b"}}, 10142),
    ],
)  # fmt: skip
def test_what_a_mirror_cannot_have(fields: dict[str, Any], err_code: int) -> None:
    reader = Reader()
    with pytest.raises(APIError) as caught:
        reader.server.add_stream(StreamConfig("M", **({"mirror": {"name": "S"}} | fields)), 0.0)
    assert caught.value.err_code == err_code


@pytest.mark.parametrize("lag", [(-1, 0.0), (0, -0.1), (0, float("nan"))])
def test_a_copy_is_never_ahead(lag: tuple[int, float]) -> None:
    with pytest.raises(LocalProtocolError):
        Lag(*lag)


# -- whatever happens --------------------------------------------------------------------------------------------------

steps = st.one_of(
    st.tuples(st.just("store"), st.sampled_from(["s.a", "s.b", "s.c"])),
    st.tuples(st.just("delete"), st.integers(1, 12)),
    st.tuples(st.just("purge"), st.sampled_from([None, "s.a", "s.*"])),
    st.tuples(st.just("wait"), st.sampled_from([0.5, 1.0, 3.0])),
    st.tuples(st.just("lag"), st.builds(Lag, st.integers(0, 3), st.sampled_from([0.0, 1.0, 2.0, float("inf")]))),
)


@promise("what the answering server holds")
@given(st.lists(steps, max_size=25), st.sampled_from([{}, {"max_msgs_per_subject": 1}, {"max_msgs": 3}]))
def test_a_copy_is_what_its_origin_was(history: list[tuple[str, Any]], limits: dict[str, int]) -> None:
    """At every moment it equals a state of its origin, never an older one than before. Without lag it is the last one.

    Limits apply to the copy with the message that exceeds them, so there it may be between two states.
    """
    reader = Reader()
    stream = reader.make(num_replicas=2, **limits)
    (replica,) = reader.server.replicas("S")
    states: list[list[int]] = [[]]

    class Witness:
        def stored(self, message: object, now: float) -> None:
            states.append([stored.seq for stored in stream])

        def removed(self, message: object, now: float) -> None:
            states.append([stored.seq for stored in stream])

    stream.followers.append(Witness())
    behind = 0
    for what, value in history:
        if what == "store":
            reader.store(value)
        elif what == "delete":
            reader.api("STREAM.MSG.DELETE.S", {"seq": value})
        elif what == "purge":
            reader.api("STREAM.PURGE.S", {} if value is None else {"filter": value})
        elif what == "wait":
            reader.now += value
        else:
            replica.lag = value
        reader.api("STREAM.INFO.S")
        held = [stored.seq for stored in replica.stream]
        if not limits:
            behind = states.index(held, behind)
    replica.lag = Lag()
    reader.api("STREAM.INFO.S")
    assert list(replica.stream) == list(stream)
    if stream.last_seq:  # else a purge may have given the origin a first sequence
        assert replica.stream.state() == stream.state()


def test_a_mirror_of_a_stream_that_was_made_again_far_away() -> None:
    reader = Reader()
    reader.make()
    mirror = reader.make("M", mirror={"name": "S"})
    for payload in (b"1", b"2"):
        reader.store("s.a", payload)
    reader.api("STREAM.DELETE.S")
    reader.make(first_seq=2**62)
    reader.store("s.a", b"far")
    assert reader.read({"seq": 1, "batch": 9, "next_by_subj": "s.a"}, "M") == [1, 2, 2**62, "204 EOB"]
    assert reader.read({"seq": 3, "next_by_subj": "s.a"}, "M") == [2**62]
    assert [mirror.used(seq) for seq in (1, 2, 3, 2**61, 2**62, 2**62 + 1)] == [1, 2, *[2**62] * 3, 2**62 + 1]
    assert reader.api("STREAM.PURGE.M", {"keep": 1})["purged"] == 2
    assert (mirror.first_seq, mirror.last_seq) == (2**62, 2**62)


def test_the_last_sequence_of_a_stream() -> None:
    reader = Reader()
    stream = reader.make(first_seq=2**64 - 1, allow_atomic=True)
    reader.store("s.a")
    full = {"code": 503, "err_code": 10077, "description": "no sequence is left"}
    member = encode_headers({"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1"})
    for header in (None, member):
        (answer,) = reader.say(encode_pub(b"s.a", b"i", header, b"x"))
        assert json.loads(answer.payload)["error"] == full
    assert (len(stream), stream.last_seq) == (1, 2**64 - 1)


def test_subjects_are_compared_with_each_other_and_so_they_are_counted() -> None:
    api = Reader().server.api
    with pytest.raises(APIError, match="a stream has at most 1000 subjects"):
        api.create(StreamConfig("S", subjects=[f"s.{number}" for number in range(1_001)]), 0.0)
    with pytest.raises(APIError, match="invalid subject"):
        api.create(StreamConfig("S", subjects=["a..b"]), 0.0)
    with pytest.raises(APIError, match=r'subject "a\.\*" overlaps with "a\.b"'):
        api.create(StreamConfig("S", subjects=["c", "a.*", "a.b"]), 0.0)
