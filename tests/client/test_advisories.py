"""Watching for abandoned batches: what is taken, what is passed over, how it ends."""

from __future__ import annotations

import pytest

from jsproto.client.publish.advisories import BatchAdvisories
from jsproto.errors import BadSubjectError, ConnectionClosedError, ConnectionLostError, LocalProtocolError
from jsproto.events import Disconnected, SlowConsumer, UnexpectedMessage
from jsproto.grammar.acks import Dialect
from jsproto.grammar.advisory import BatchAbandoned, encode_batch_abandoned
from jsproto.wire.frames import Msg, Sub, Unsub
from tests.harness import Harness
from tests.marks import requirement

SUBJECT = b"$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.S"


def abandoned(batch_id: str, stream: str = "S", reason: str = "timeout") -> BatchAbandoned:
    return BatchAbandoned(stream, batch_id, reason, "x", 0)


def tell(harness: Harness, advisory: BatchAbandoned, dialect: Dialect = "released") -> None:
    harness.deliver(SUBJECT, encode_batch_abandoned(advisory, dialect))


def test_all_batches_of_a_stream_in_order_and_in_both_spellings() -> None:
    harness = Harness()
    advisories = harness.js.batch_advisories("S")
    assert harness.sent() == [Sub(SUBJECT, None, b"1")]
    readable = advisories.readable()
    assert advisories.readable() is readable
    told = [abandoned("a"), abandoned("b", reason="large"), abandoned("c", reason="tired")]
    tell(harness, told[0])
    tell(harness, told[1], "draft")
    assert readable in harness.completed
    assert readable.result() is None
    tell(harness, told[2])
    assert advisories.pending == 3
    assert advisories.readable().done
    assert advisories.pop_many(2) == told[:2]
    assert advisories.pop_many(9) == told[2:]
    assert not advisories.readable().done
    assert harness.events() == []


@requirement(97)
def test_one_batch() -> None:
    harness = Harness()
    advisories = harness.js.batch_advisories("S", "b")
    for batch_id in ("a", "b", "c"):
        tell(harness, abandoned(batch_id))
    assert advisories.pop_many(9) == [abandoned("b")]
    assert (advisories.stream, advisories.batch_id, advisories.dropped) == ("S", "b", 0)


def test_what_is_no_such_advisory_is_told_and_passed_over() -> None:
    harness = Harness()
    advisories = harness.js.batch_advisories("S")
    for junk in (b"", b"{}", b'{"type":"io.nats.jetstream.advisory.v1.stream_action"}'):
        harness.deliver(SUBJECT, junk)
    tell(harness, abandoned("a", stream="T"))
    events = harness.events()
    assert [type(event) for event in events] == [UnexpectedMessage] * 4
    assert events[-1] == UnexpectedMessage(SUBJECT.decode(), "an advisory about another stream")
    assert advisories.pending == 0


def test_a_slow_reader_loses_advisories_and_is_told() -> None:
    harness = Harness()
    advisories = BatchAdvisories(harness.session, "S", pending_limit=1)
    for batch_id in "abc":
        tell(harness, abandoned(batch_id))
    assert advisories.dropped == 2
    assert harness.events() == [SlowConsumer(SUBJECT.decode(), 1)]
    assert advisories.pop_many(9) == [abandoned("a")]
    tell(harness, abandoned("d"))
    tell(harness, abandoned("e"))
    assert harness.events() == [SlowConsumer(SUBJECT.decode(), 3)]


def test_close() -> None:
    harness = Harness()
    advisories = harness.js.batch_advisories("S")
    tell(harness, abandoned("a"))
    assert advisories.pop_many(1) == [abandoned("a")]
    waiting = advisories.readable()
    advisories.close()
    advisories.close()
    assert harness.sent(Unsub) == [Unsub(b"1", None)]
    assert isinstance(waiting.error, ConnectionClosedError)
    assert waiting in harness.completed  # whoever waits is woken
    assert isinstance(advisories.readable().error, ConnectionClosedError)


def test_what_was_under_way_at_the_end_is_passed_over() -> None:
    harness = Harness()
    advisories = harness.js.batch_advisories("S")
    tell(harness, abandoned("a"))
    advisories.close()
    assert advisories.readable().done  # still to be taken
    late = encode_batch_abandoned(abandoned("b"))
    advisories.receive(Msg(SUBJECT, b"1", None, None, late), harness.now)  # a carrier may have it queued
    assert advisories.pop_many(9) == [abandoned("a")]


def test_the_end_of_the_connection() -> None:
    harness = Harness()
    advisories = harness.js.batch_advisories("S")
    waiting = advisories.readable()
    harness.session.receive_eof(harness.now)
    assert isinstance(waiting.error, ConnectionLostError)
    assert advisories.error is waiting.error
    harness.drain()
    assert harness.completed.count(waiting) == 1
    assert [type(event) for event in harness.events()] == [Disconnected]


def test_a_carrier_that_lives_on_keeps_watching() -> None:
    harness = Harness()
    advisories = harness.js.batch_advisories("S")
    waiting = advisories.readable()
    advisories.link_lost(ConnectionLostError("for a moment"), harness.now)
    advisories.link_restored(harness.now)
    assert advisories.error is None
    tell(harness, abandoned("a"))
    assert waiting.result() is None


def test_impossible_arguments() -> None:
    harness = Harness()
    with pytest.raises(BadSubjectError):
        harness.js.batch_advisories("S.>")
    with pytest.raises(LocalProtocolError, match="at least 1"):
        BatchAdvisories(harness.session, "S", pending_limit=0)
    assert harness.sent() == []
