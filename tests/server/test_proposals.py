"""A stream whose leader waits for its replicas: what is accepted is stored later, and checked against until then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from jsproto.grammar.config import StreamConfig
from jsproto.grammar.headers import encode_headers
from jsproto.server.store.context import ServerContext
from jsproto.server.store.stream import Publication
from tests.server.harness import Inlet, Reader
from tests.server.test_atomic import STAGED, member

DELAY: Final = 0.5


def late(delay: float = DELAY, **options: Any) -> Inlet:
    """Stream S with three replicas, which agree after ``DELAY``."""
    context = ServerContext(b"token", apply_delay=delay)
    return Inlet(context=context, **({"num_replicas": 3} | options))


def expects(last: int, subject: str = "") -> dict[str, str]:
    named = {"Nats-Expected-Last-Subject-Sequence-Subject": subject} if subject else {}
    return {"Nats-Expected-Last-Subject-Sequence": str(last)} | named


def batch(inlet: Inlet, *members: tuple[str, Mapping[str, str]], name: str = "b1") -> Any:
    """Publish a batch. Returns the answers to its last message."""
    answers: list[Any] = STAGED
    for sequence, (subject, headers) in enumerate(members, 1):
        ends = "1" if sequence == len(members) else None
        answers = inlet.publish(subject, headers=member(sequence, ends, name) | dict(headers))
        assert sequence == len(members) or answers == STAGED
    return answers


def test_a_message_is_stored_and_acknowledged_when_the_replicas_agree() -> None:
    inlet = late()
    assert inlet.publish(payload=b"1") == []
    inlet.now += 0.1
    assert inlet.publish(payload=b"2") == []
    assert inlet.payloads == []
    assert inlet.advance(0.39) == []
    assert inlet.advance(0.01) == [{"seq": 1}]
    assert inlet.payloads == [b"1"]
    assert inlet.advance(0.1) == [{"seq": 2}]
    assert inlet.inlet.deadline() is None


def test_a_batch_is_stored_whole() -> None:
    inlet = late()
    assert batch(inlet, ("s.a", {}), ("s.b", {})) == []
    assert batch(inlet, ("s.c", {})) == []  # the id is free again
    assert len(inlet.stream) == 0
    assert inlet.advance(DELAY) == [{"seq": 2, "batch": "b1", "count": 2}, {"seq": 3, "batch": "b1", "count": 1}]


@pytest.mark.parametrize("options", [{"num_replicas": 1}, {"delay": 0.0}])
def test_one_replica_and_no_delay_store_at_once(options: dict[str, Any]) -> None:
    inlet = late(**options)
    assert inlet.publish() == [{"seq": 1}]
    assert batch(inlet, ("s.b", {})) == [{"seq": 2, "batch": "b1", "count": 1}]


# -- what waits is checked against -------------------------------------------------------------------------------------


def test_a_subject_that_is_in_flight_refuses_what_expects_something_of_it() -> None:
    inlet = late()
    inlet.publish("s.a")
    assert inlet.publish("s.a", headers=expects(0)) == [10164]
    assert batch(inlet, ("s.b", {}), ("s.a", expects(0))) == [10164]
    assert batch(inlet, ("s.b", expects(0, "s.a"))) == [10164]
    assert inlet.publish("s.b", headers=expects(0)) == []
    assert inlet.publish("s.a") == []  # it expects nothing
    assert inlet.advance(DELAY) == [{"seq": 1}, {"seq": 2}, {"seq": 3}]
    assert inlet.publish("s.a", headers=expects(3)) == []
    assert inlet.publish("s.a", headers=expects(1)) == [10164]
    assert inlet.advance(DELAY) == [{"seq": 4}]
    assert inlet.publish("s.a", headers=expects(3)) == [10071]


def test_two_that_expect_something_of_one_subject_exclude_each_other() -> None:
    inlet = late()
    assert batch(inlet, ("s.b", expects(0, "s.a"))) == []
    assert batch(inlet, ("s.c", expects(0, "s.a"))) == [10164]
    assert inlet.publish("s.a", headers=expects(0)) == [10164]
    assert inlet.publish("s.d", headers=expects(0, "s.x")) == []


def test_a_pattern_misses_what_is_in_flight() -> None:
    """So two inserts that nothing else guards both see an empty range."""
    inlet = late()
    inlet.publish("s.p.1")
    assert inlet.publish("s.p.2", headers=expects(0, "s.p.>")) == []
    assert inlet.advance(DELAY) == [{"seq": 1}, {"seq": 2}]
    assert inlet.publish("s.p.3", headers=expects(1, "s.p.>")) == [10071]
    prompt = Inlet()
    prompt.publish("s.p.1")
    assert prompt.publish("s.p.2", headers=expects(0, "s.p.>")) == [10071]


def test_inserts_that_are_all_guarded_by_one_pattern_exclude_each_other() -> None:
    inlet = late()
    assert inlet.publish("s.p.1", headers=expects(0, "s.p.>")) == []
    assert inlet.publish("s.p.2", headers=expects(0, "s.p.>")) == [10164]


def test_the_last_sequence_counts_what_waits() -> None:
    inlet = late()
    inlet.publish()
    batch(inlet, ("s.b", {}), ("s.c", {}))
    assert inlet.publish(headers={"Nats-Expected-Last-Sequence": "0"}) == [10071]
    assert inlet.publish(headers={"Nats-Expected-Last-Sequence": "3"}) == []
    assert batch(inlet, ("s.b", {"Nats-Expected-Last-Sequence": "4"})) == []


def test_an_id_that_is_in_flight_is_refused_and_then_a_duplicate() -> None:
    inlet = late()
    inlet.publish(headers={"Nats-Msg-Id": "one"})
    assert inlet.publish(headers={"Nats-Msg-Id": "one"}) == [10158]
    assert batch(inlet, ("s.b", {"Nats-Msg-Id": "one"})) == [10158]
    inlet.advance(DELAY)
    assert inlet.publish(headers={"Nats-Msg-Id": "one"} | expects(0)) == [{"seq": 1, "duplicate": True}]
    assert batch(inlet, ("s.b", {"Nats-Msg-Id": "one"})) == [10201]
    assert inlet.publish(headers={"Nats-Expected-Last-Msg-Id": "two"}) == [10070]
    assert inlet.publish(headers={"Nats-Expected-Last-Msg-Id": "one"}) == []


def test_room_is_counted_with_what_waits() -> None:
    inlet = late(discard="new", max_msgs=2)
    inlet.publish("s.a")
    assert batch(inlet, ("s.b", {}), ("s.c", {})) == [10077]
    assert inlet.publish("s.b") == []
    assert inlet.publish("s.c") == [10077]
    assert inlet.advance(DELAY) == [{"seq": 1}, {"seq": 2}]
    once = late(discard="new", discard_new_per_subject=True, max_msgs_per_subject=1)
    once.publish("s.a")
    assert once.publish("s.a") == [10077]
    small = late(discard="new", max_bytes=inlet.stream.stored_bytes)
    assert [small.publish("s.a"), small.publish("s.b"), small.publish("s.c")] == [[], [], [10077]]


def test_what_was_accepted_finds_room() -> None:
    inlet = late(discard="new", max_msgs=1)
    inlet.publish("s.a")
    inlet.stream.append(Publication(b"s.b", None, b""), inlet.now)
    assert inlet.advance(DELAY) == [{"seq": 2}]


def test_a_counter_goes_on_from_what_waits() -> None:
    inlet = late(allow_msg_counter=True)
    for by in ("1", "2", "3"):
        assert inlet.publish(payload=b"", headers={"Nats-Incr": by}) == []
    assert inlet.advance(DELAY) == [{"seq": 1, "val": "1"}, {"seq": 2, "val": "3"}, {"seq": 3, "val": "6"}]
    assert inlet.payloads[-1] == b'{"val":"6"}'


def test_size_and_seal_are_looked_at_at_once() -> None:
    inlet = late(max_msg_size=3)
    assert inlet.publish(payload=b"long") == [10054]
    inlet.stream.config.sealed = True
    assert inlet.publish(payload=b"x") == [10109]


# -- what ends the wait ------------------------------------------------------------------------------------------------


def test_a_fast_batch_lets_all_that_waits_be_stored_first() -> None:
    inlet = late()
    inlet.publish(payload=b"1")
    inlet.publish(payload=b"2", reply="r.id.1.ok.1.2.$FI")
    assert inlet.payloads == [b"1", b"2"]


def test_what_waits_is_lost_with_the_leader() -> None:
    inlet = late()
    inlet.publish(headers={"Nats-Msg-Id": "one"})
    batch(inlet, ("s.b", {}))
    inlet.inlet.lead(inlet.now)
    assert inlet.advance(10.0) == []
    assert len(inlet.stream) == 0
    assert inlet.publish(headers={"Nats-Msg-Id": "one"}) == []
    assert inlet.advance(DELAY) == [{"seq": 1}]


# -- in a server -------------------------------------------------------------------------------------------------------


def server(**options: Any) -> Reader:
    reader = Reader(apply_delay=DELAY)
    reader.make(num_replicas=3, **options)
    return reader


def test_replicas_store_later_than_the_leader() -> None:
    reader = server()
    reader.store("s.a")
    assert reader.server.deadline() == DELAY
    reader.now = DELAY
    reader.server.handle_timeout(DELAY)
    assert reader.api("STREAM.MSG.GET.S", {"last_by_subj": "s.a"})["message"]["seq"] == 1
    assert {reader.last() for _ in range(40)} == {1, "404 Message Not Found"}
    reader.now = 2 * DELAY
    reader.server.handle_timeout(reader.now)
    assert {reader.last() for _ in range(40)} == {1}


def test_a_mirror_does_not() -> None:
    reader = Reader(apply_delay=DELAY)
    reader.make("S")
    reader.make("M", mirror={"name": "S"}, mirror_direct=True)
    reader.store("s.a")
    assert reader.server.stream("M").last_seq == 1


def test_a_purge_comes_after_what_waits() -> None:
    reader = server()
    reader.store("s.a")
    assert reader.api("STREAM.PURGE.S") == {"success": True, "purged": 1}
    assert reader.server.api.streams["S"].proposals.deadline() is None


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_a_lost_leader_and_a_restart_lose_what_waits(storage: str) -> None:
    reader = server(storage=storage)
    reader.store("s.a")
    reader.server.lose_leader("S")
    reader.server.handle_timeout(1.0)
    reader.server.elect_leader("S", 2.0)
    assert reader.server.stream("S").last_seq == 0
    reader.now = 2.0
    reader.store("s.a")
    reader.server.restart(2.1)
    reader.server.handle_timeout(9.0)
    assert "S" not in reader.server.api.streams or reader.server.stream("S").last_seq == 0


def test_a_stream_that_is_deleted_stores_nothing_more() -> None:
    reader = server()
    stream = reader.server.stream("S")
    reader.store("s.a", header=encode_headers({"X": "1"}))
    reader.api("STREAM.DELETE.S")
    reader.server.handle_timeout(9.0)
    assert stream.last_seq == 0


def test_fewer_replicas_keep_the_order() -> None:
    reader = server()
    reader.store("s.a", b"1")
    reader.server.api.streams["S"].update(StreamConfig("S", subjects=["s.>"], storage="memory", num_replicas=1))
    reader.store("s.a", b"2")
    assert [stored.payload for stored in reader.server.stream("S")] == [b"1", b"2"]
