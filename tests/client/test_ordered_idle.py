"""An ordered reading knows when all that the stream had was delivered, and passes over what is of no use."""

from __future__ import annotations

from jsproto.events import MessagesMissed, StreamRolledBack
from jsproto.grammar.consumer import ConsumerConfig
from tests.client.ordering import Reading, known, silence, told
from tests.client.pushing import heartbeat

LAST = ConsumerConfig(filter_subject="s.a", deliver_policy="last_per_subject")


def beat(last_stream: bytes, count: int = 0) -> bytes:
    return heartbeat(count).replace(b"\r\n\r\n", b"\r\nNats-Last-Stream: " + last_stream + b"\r\n\r\n")


def test_a_consumer_that_has_nothing_is_idle_at_once() -> None:
    reading = Reading(answer=False)
    reading.created(pending=0)
    assert reading.ordered.is_idle
    assert reading.ordered.end_seen == 0


def test_whoever_waits_when_another_consumer_has_nothing_is_woken() -> None:
    reading = known()
    assert not reading.ordered.is_idle
    assert reading.take() == [1, 2, 3]
    waits = reading.ordered.readable()
    silence(reading)
    reading.created(pending=0)
    assert waits.done
    assert reading.ordered.is_idle


def test_a_heartbeat_tells() -> None:
    reading = Reading(answer=False)
    reading.last_seq = 7
    reading.created(at=0)
    assert reading.ordered.end_seen == 7
    waits = reading.ordered.readable()
    reading.status(heartbeat(0))
    reading.status(beat(b"6"))
    assert (reading.ordered.is_idle, waits.done) == (False, False)
    reading.status(beat(b"junk"))
    assert not reading.ordered.is_idle
    reading.status(beat(b"7"))
    assert (reading.ordered.is_idle, waits.done) == (True, True)
    waits = reading.ordered.readable()
    reading.status(beat(b"7"))
    assert not waits.done  # told once


def test_messages_that_came_before_tell_too() -> None:
    """Another consumer delivers the last message of each subject again, and nothing of that is new."""
    reading = Reading(LAST, answer=False)
    reading.last_seq = 9
    reading.created(at=0)
    reading.push(3, pending=1)
    assert reading.take() == [3]
    silence(reading)
    reading.created(at=0)
    waits = reading.ordered.readable()
    reading.push(3, pending=0)
    assert (reading.ordered.is_idle, waits.done, reading.take()) == (True, True, [])


def test_a_stream_whose_end_nobody_tells() -> None:
    reading = Reading(answer=None)
    assert reading.ordered.end_seen is None


def test_what_was_dropped_is_passed_over() -> None:
    reading = known(if_missed="skip")
    silence(reading)
    reading.last_seq = 20
    reading.created(at=7, second=None)
    reading.identify(reading.asked_for_identity(), 1, first_seq=8)
    reading.push(9)  # and a hole
    assert told(reading, MessagesMissed) == []
    assert reading.take() == [1, 2, 3, 9]


def test_a_stream_that_came_back_shorter_is_told_all_the_same() -> None:
    reading = known(if_missed="skip")
    silence(reading)
    reading.created(second=None)
    reading.identify(reading.asked_for_identity(), 1, last_seq=2)
    reading.doubt()
    reading.created(second=None)
    reading.identify(reading.asked_for_identity(), 1, last_seq=2)
    assert told(reading, StreamRolledBack) == [StreamRolledBack("S", 3)]
