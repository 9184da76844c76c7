"""How an atomic batch ends: by time, a lost link, a discard; and what comes too late."""

from __future__ import annotations

import pytest

from jsproto.client.publish.atomic import AtomicBatch
from jsproto.errors import (
    BadSubjectError,
    BatchClosedError,
    BatchExpiredError,
    BatchLostError,
    BatchStalledError,
    ConnectionClosedError,
    Error,
    LocalProtocolError,
    MaxPayloadError,
    TimeoutError,
)
from jsproto.events import UnexpectedMessage
from jsproto.rules.atomic_batch import AtomicPhase
from jsproto.wire.frames import Unsub
from tests.client.test_atomic import Batch, opened
from tests.harness import Harness
from tests.marks import known_fault, promise, requirement

# -- silence: rows 27, 28 ----------------------------------------------------------------------------------------------


@known_fault("a batch that died, by a gap or by silence, takes nothing and says why")
def test_a_batch_that_was_silent_for_too_long_is_refused_at_the_next_verb() -> None:
    batch = opened(3)
    batch.h.now += 10.0  # and nobody was called: the application slept in one thread
    with pytest.raises(BatchExpiredError, match=r"silent for 10\.0 s.*nothing of the batch is stored") as caught:
        batch.add()
    assert (caught.value.batch_id, caught.value.sequence, caught.value.acked) == ("b1", 3, 1)
    assert batch.ended(caught.value)
    assert batch.h.published() == []


@requirement(28)
@pytest.mark.parametrize("verb", ["commit", "commit_eob", "add"])
def test_a_batch_expires_by_itself(verb: str) -> None:
    batch = opened(3)
    batch.h.advance(9.0)
    batch.add()
    batch.h.advance(9.9)
    assert batch.atomic.error is None
    batch.h.advance(0.2)
    assert isinstance(batch.atomic.error, BatchExpiredError)
    with pytest.raises(BatchExpiredError):
        getattr(batch, verb)()
    assert batch.ended(batch.atomic.error)


@requirement(28)
@pytest.mark.parametrize("verb", ["commit", "commit_eob"])
def test_a_commit_of_a_batch_that_was_silent_for_too_long_is_refused(verb: str) -> None:
    batch = opened(3)
    batch.h.now += 11.0
    with pytest.raises(BatchExpiredError):
        getattr(batch, verb)()


def test_the_idle_limit_can_be_another() -> None:
    h = Harness()
    batch = Batch(h)
    batch.atomic = AtomicBatch(h.session, inbox="_INBOX.x", batch_id="b1", idle_limit=0.3)
    batch.add()
    batch.say()
    h.advance(0.2)
    batch.add()
    h.advance(0.31)
    assert isinstance(batch.atomic.error, BatchExpiredError)
    with pytest.raises(LocalProtocolError):
        AtomicBatch(h.session, inbox="_INBOX.x", batch_id="b1", idle_limit=0)
    with pytest.raises(BadSubjectError):
        AtomicBatch(h.session, inbox="_INBOX .x", batch_id="b1")


def test_a_commit_under_way_does_not_expire() -> None:
    batch = opened(3, ack_timeout=30.0)
    commit = batch.commit()
    batch.h.advance(20.0)
    assert not commit.done
    batch.pub_ack(4, 4)
    assert commit.result().count == 4


def test_no_answer_to_the_first_message() -> None:
    batch = Batch(ack_timeout=2.0)
    batch.add()
    ready = batch.atomic.ready()
    batch.h.advance(1.9)
    assert not ready.done
    batch.h.advance(0.1)
    assert isinstance(ready.error, BatchStalledError)
    assert isinstance(ready.error, TimeoutError)
    assert "nothing of the batch is stored" in str(ready.error)
    assert batch.ended(ready.error)


def test_no_answer_to_a_later_message() -> None:
    batch = opened(ack_every=2, ack_timeout=2.0)
    batch.add()
    batch.h.advance(2.0)
    assert isinstance(batch.atomic.error, BatchStalledError)


@promise("It is not known whether all of it is stored or nothing.")
def test_no_answer_to_a_commit_leaves_open_whether_it_is_stored() -> None:
    batch = opened(3, ack_timeout=2.0)
    commit = batch.commit()
    batch.h.advance(2.0)
    assert isinstance(commit.error, BatchStalledError)
    assert "not known" in str(commit.error)
    assert batch.ended(commit.error)


@known_fault("ack_first, ack_every and the timeout: shape and defaults")
def test_the_default_timeout_is_that_of_the_context() -> None:
    batch = Batch()
    batch.add()
    batch.sent()
    assert batch.atomic.deadline() == batch.h.now + 5.0


@promise("Early and repeated calls of `handle_timeout` are harmless.")
@promise("Early and repeated calls are harmless.", of="jsproto:BatchAdvisories")
def test_time_that_passes_early_or_twice_is_harmless() -> None:
    batch = opened(2, ack_timeout=12.0, ack_every=3)
    batch.atomic.handle_timeout(batch.h.now)
    batch.add()
    batch.atomic.handle_timeout(batch.h.now + 12.0)  # both timers at once: one end
    assert isinstance(batch.atomic.error, BatchExpiredError)
    batch.atomic.handle_timeout(batch.h.now + 12.0)
    assert batch.ended(batch.atomic.error)


# -- junk --------------------------------------------------------------------------------------------------------------


@promise("Never raises, whatever the message holds.")
@pytest.mark.parametrize(
    ("body", "header"),
    [
        (b"junk", None),
        (b"[]", None),
        (b'{"stream":1}', None),
        (b'{"error":1}', None),
        (b"", b"junk"),
        (b'{"stream":"S","seq":1,"batch":"b1","count":1}', None),  # an acknowledgement before there is a commit
        (b'{"stream":"S","seq":1,"batch":"other","count":1}', None),
    ],
)
def test_junk_is_told_and_changes_nothing(body: bytes, header: bytes | None) -> None:
    batch = Batch()
    batch.add()
    batch.say(body, header)
    assert isinstance(batch.h.events()[-1], UnexpectedMessage)
    assert batch.atomic.waiting
    batch.say()
    assert batch.atomic.phase is AtomicPhase.OPEN


def test_an_empty_answer_is_no_commit() -> None:
    batch = opened(2)
    commit = batch.commit()
    batch.say()
    assert not commit.done
    assert isinstance(batch.h.events()[-1], UnexpectedMessage)


def test_an_answer_that_nobody_waits_for() -> None:
    batch = opened(2)
    batch.say()
    batch.say(INCOMPLETE_ANSWER)
    assert [type(event) for event in batch.h.events()] == [UnexpectedMessage] * 2
    assert batch.atomic.phase is AtomicPhase.OPEN


INCOMPLETE_ANSWER = {"error": {"code": 400, "err_code": 10176, "description": "incomplete"}, "stream": "S", "seq": 0}


# -- ends --------------------------------------------------------------------------------------------------------------


@requirement(40)
@promise("End the batch without a commit: nothing is stored.")
@promise("nothing is stored, the server forgets the batch")
@pytest.mark.parametrize("messages", [0, 1, 3])
def test_a_discarded_batch_says_nothing_to_the_server(messages: int) -> None:
    batch = opened(messages) if messages else Batch()
    batch.atomic.discard(batch.h.now)
    assert [type(frame) for frame in batch.h.sent()] == [Unsub] * bool(messages)
    assert batch.ended(None, AtomicPhase.DISCARDED)


def test_discarding_ends_the_waits() -> None:
    batch = Batch()
    batch.add()
    ready = batch.atomic.ready()
    batch.atomic.discard(batch.h.now)
    assert isinstance(ready.error, BatchClosedError)
    other = opened(2)
    commit = other.commit()
    other.atomic.discard(other.h.now)
    assert isinstance(commit.error, BatchClosedError)
    assert commit in other.h.session.take_completed()


def test_a_lost_link_ends_the_batch() -> None:
    batch = opened(3)
    batch.h.lose("reset")
    assert isinstance(batch.atomic.error, BatchLostError)
    assert "reset; nothing of the batch is stored" in str(batch.atomic.error)
    assert isinstance(batch.atomic.error.__cause__, Error)
    with pytest.raises(BatchLostError):
        batch.add()
    assert batch.atomic.deadline() is None


@promise("It is not known whether all of it is stored or nothing.")
def test_a_lost_link_with_the_commit_under_way_leaves_open_whether_it_is_stored() -> None:
    batch = opened(3)
    commit = batch.commit()
    batch.h.lose("reset")
    assert isinstance(commit.error, BatchLostError)
    assert "not known" in str(commit.error)
    batch.atomic.link_lost(commit.error, batch.h.now)
    assert batch.atomic.error is commit.error


def test_a_lost_link_before_the_first_message() -> None:
    batch = Batch()
    with pytest.raises(MaxPayloadError):
        batch.atomic.add("e.a", bytes(1048576), now=batch.h.now)
    batch.h.lose()
    assert isinstance(batch.atomic.error, BatchLostError)


def test_a_closed_session_takes_no_batch() -> None:
    h = Harness()
    h.session.close(h.now)
    batch = Batch(h)
    for verb in (batch.add, batch.commit):
        with pytest.raises(ConnectionClosedError):
            verb()
