"""A fast-ingest batch that may lose messages, against a scripted server: refusals, losses and lost links.

Servers acknowledge nothing while they refuse, so none of these may close the window for good; and without a link
nobody waits for ever.
"""

from __future__ import annotations

from typing import Any

import pytest

from jsproto.client.publish.fast import SERVER_IDLE_LIMIT
from jsproto.errors import (
    BatchGapError,
    BatchLostError,
    BatchMessageError,
    BatchStalledError,
    ConnectionLostError,
    LocalProtocolError,
)
from jsproto.events import FlowRateChanged, GapReported, MessageRefused, UnexpectedMessage
from jsproto.wire.frames import Pub, Sub
from tests.client.test_fast import TOO_BIG, WRONG_SEQUENCE, Batch, operations, reconnecting, started
from tests.marks import known_fault, promise, requirement


def refuse(batch: Batch, sequence: int) -> None:
    batch.say({"type": "err", "seq": sequence, "error": WRONG_SEQUENCE}, sequence)


def test_gap_ok_refused_messages_make_room() -> None:
    """Nothing is acknowledged before something is stored again; a second publisher begins with a rate of 1."""
    batch = started(1, gap="ok", ack_timeout=2.0)
    batch.fill(1)
    for sequence in range(1, 2_000):
        assert batch.fast.room == 0
        ready = batch.fast.ready()
        refuse(batch, sequence)
        assert ready.result() is None
        assert batch.fast.room == 1
        batch.fill(1)
        batch.h.advance(0.01)
    assert batch.fast.error is None
    assert (batch.fast.acked, batch.fast.sequence) == (0, 2_001)
    batch.ack(2_001, 2)
    assert (batch.fast.acked, batch.fast.room) == (2_001, 4)


@pytest.mark.parametrize("again", [0, 1, 2, 3])
def test_gap_ok_an_old_acknowledgement_takes_no_room_away(again: int) -> None:
    """Pings are answered with the last one, and a new leader begins with it."""
    batch = started(2, gap="ok")
    batch.fill(3)
    batch.ack(2, 2)
    batch.fill(2)
    for sequence in (4, 5, 6):
        refuse(batch, sequence)
    for _ in range(again):
        batch.ack(2, 2)
    assert (batch.fast.acked, batch.fast.sequence, batch.fast.room) == (2, 6, 3)
    batch.ack(4, 2)
    assert batch.fast.room == 4  # 5 and 6 are refused, so none is under way


def test_gap_ok_what_is_told_twice_makes_room_once() -> None:
    batch = started(10, gap="ok")
    batch.fill(19)
    refuse(batch, 12)
    assert batch.fast.room == 1
    refuse(batch, 12)
    batch.error(TOO_BIG, 12)
    batch.say({"type": "gap", "last_seq": 12, "seq": 13}, 13)  # what was too large never reached the batch
    assert batch.fast.room == 1
    batch.say({"type": "gap", "last_seq": 11, "seq": 15}, 15)
    assert batch.fast.room == 4
    refuse(batch, 16)
    refuse(batch, 15)
    batch.ack(13, 10)
    assert (batch.fast.acked, batch.fast.room) == (13, 13 + 3 + 20 - 20)
    refuse(batch, 13)  # it was acknowledged
    assert batch.fast.room == 16


def test_gap_ok_lost_messages_make_room() -> None:
    """A new leader reports what never reached it, and may refuse the message that told it so."""
    batch = started(10, gap="ok", max_outstanding_acks=1)
    batch.fill(9)
    batch.say({"type": "gap", "last_seq": 2, "seq": 10}, 10)
    refuse(batch, 10)
    assert batch.fast.room == 9
    batch.fill(9)
    ready = batch.fast.ready()
    assert not ready.done
    refuse(batch, 11)
    assert ready.done


@promise("Memory is bounded whatever the peer sends.")
def test_gap_ok_what_others_refused_is_not_kept_though_one_before_them_waits() -> None:
    batch = started(10, gap="ok")
    batch.fast.publish_many([("e.a", b"%d" % number) for number in range(2, 21)], batch.h.now)
    for sequence in range(2, 5_000):
        refuse(batch, sequence)
        batch.fast.publish("e.b", b"refused", now=batch.h.now)
        assert sum(len(run) for _, run in batch.fast._sent._runs) <= 2 * 20
    assert batch.fast.unacknowledged[0] == ("e.a", b"1", None)
    assert len(batch.fast.unacknowledged) == 20
    assert (batch.fast.acked, batch.fast.error) == (0, None)


def test_gap_ok_a_refusal_is_progress_though_the_window_stays_closed() -> None:
    batch = started(10, gap="ok", ack_timeout=5.0, max_outstanding_acks=1)
    batch.fill(9)
    batch.ack(0, 1)  # the rate fell: nine must be answered before the next
    for sequence in range(2, 9):
        batch.h.advance(4.0)
        refuse(batch, sequence)
        assert batch.fast.room == 0
    assert batch.fast.error is None
    batch.h.advance(5.1)
    assert isinstance(batch.fast.error, BatchStalledError)


# -- without a link ----------------------------------------------------------------------------------------------------


def test_gap_ok_refusals_that_went_with_the_link_are_not_waited_for() -> None:
    batch = reconnecting(gap="ok", max_outstanding_acks=1).start(4)
    batch.fill(3)
    refuse(batch, 2)
    batch.fill(1)
    assert batch.fast.room == 0
    batch.h.lose()  # with what was said of 3, 4 and 5
    batch.h.connect()
    batch.h.sent()
    ready = batch.fast.ready()
    batch.ack(0, 4)  # said of something before, late
    assert not ready.done
    batch.say({"type": "ack", "seq": 0, "msgs": 4}, 5, 4)
    assert ready.result() is None
    assert (batch.fast.acked, batch.fast.room) == (0, 4)
    assert [message[1] for message in batch.fast.unacknowledged] == [b"1", b"x", b"x", b"x"]  # but 2, which was told
    batch.fill(4)
    batch.say({"type": "ack", "seq": 0, "msgs": 4}, 9, 4)  # another ping: now every answer would have come
    assert batch.fast.room == 0


@promise('With `gap="ok"` losses are events')
@promise('With `gap="ok"` a fast-ingest batch asks the server for its position')
@pytest.mark.parametrize("commits", [False, True])
@pytest.mark.parametrize(("ack_timeout", "idle", "until"), [(3.0, 0.0, 3.0), (60.0, 0.0, 10.0), (60.0, 4.0, 6.0)])
def test_gap_ok_waits_for_a_link_no_longer_than_for_an_answer_or_the_server_knows_the_batch(
    ack_timeout: float, idle: float, until: float, commits: bool
) -> None:
    batch = reconnecting(gap="ok", ack_timeout=ack_timeout).start(10)
    waits: list[Any] = [batch.fast.commit(batch.h.now)] if commits else []
    batch.h.sent()
    batch.h.advance(idle if not commits else 0.0)
    until = until if not commits else min(ack_timeout, SERVER_IDLE_LIMIT)
    batch.h.lose()
    if not commits:
        waits.append(batch.fast.ready())
    batch.h.advance(until - 0.01)
    assert not waits[0].done
    batch.h.advance(0.02)
    error = waits[0].error
    assert isinstance(error, BatchLostError)
    assert isinstance(error.__cause__, ConnectionLostError)
    assert "the connection was lost: the server closed the connection; " in str(error)
    assert batch.fast.deadline() is None


def test_gap_ok_a_commit_without_a_link_waits_no_longer_for_it() -> None:
    batch = reconnecting(gap="ok", ack_timeout=3.0).start(10)
    batch.h.lose()
    batch.h.advance(2.0)
    ticket = batch.fast.commit(batch.h.now)
    batch.fast.ping(batch.h.now)
    batch.h.advance(1.1)
    assert isinstance(ticket.error, BatchLostError)
    batch = reconnecting(gap="ok", ack_timeout=3.0).start(10)
    batch.h.lose()
    ticket = batch.fast.commit(batch.h.now)
    batch.h.advance(2.0)
    batch.h.connect()
    assert operations(batch.h.published()) == [(2, 3)] * 2  # the one that waited, and the question
    batch.pub_ack(1, 2, 3)
    assert ticket.result().count == 1


@pytest.mark.parametrize("noticed", [False, True])
def test_gap_ok_does_not_trust_a_batch_after_a_long_outage(noticed: bool) -> None:
    batch = reconnecting(gap="ok").start(10)
    ready = batch.fast.ready()
    batch.h.lose()
    batch.h.now += SERVER_IDLE_LIMIT
    if noticed:
        batch.h.session.handle_timeout(batch.h.now)
    else:
        batch.h.session._server_pool.handle_timeout(batch.h.now)  # the link is back before anybody looks at the clock
    batch.h.connect()
    assert isinstance(batch.fast.error, BatchLostError)
    assert "silent for 10.0 s" in str(batch.fast.error)
    assert ready.done
    batch.h.advance(2.0)  # a link that lasts is dialled again at once
    batch.h.lose()
    batch.h.connect()  # an ended batch has no part in it


def test_progress_is_told_once_for_each_change() -> None:
    batch = started(10)
    batch.fill(10)
    progress = batch.fast.progress(0)
    assert not progress.done
    assert batch.fast.progress(0) is progress
    batch.ack(10, 10)
    assert progress.done
    assert batch.fast.progress(0).done
    progress = batch.fast.progress(10)
    assert not progress.done
    batch.fast.abandon(batch.h.now)
    assert progress.done
    assert batch.fast.progress(10).done


@requirement(66, 69, 74)
@known_fault("a refused message ends the batch in mode ok")
def test_gap_ok_reports_and_goes_on() -> None:
    batch = started(gap="ok")
    batch.fill(4)
    batch.say({"type": "gap", "last_seq": 2, "seq": 4}, 4)
    batch.say({"type": "err", "seq": 4, "error": WRONG_SEQUENCE}, 4)
    batch.error(TOO_BIG, 5)
    batch.h.deliver(batch.reply(5), b"", b"NATS/1.0 503\r\n\r\n")
    gap, refused, too_big, nobody = batch.h.events()
    assert gap == GapReported("b1", 2, 3)
    assert isinstance(refused, MessageRefused)
    assert isinstance(too_big, MessageRefused)
    assert isinstance(nobody, UnexpectedMessage)
    assert (batch.fast.acked, batch.fast.flow) == (0, 10)  # informational only
    ticket = batch.fast.commit(batch.h.now)
    batch.h.sent()
    batch.pub_ack(3, 6, 3)
    assert ticket.result().count == 3


@promise("Both dialects of ADR-50's acknowledgements are understood")
def test_the_draft_dialect_means_the_same() -> None:
    batch = started(gap="ok")
    batch.fill(9)
    batch.say({"last_seq": 1, "seq": 4}, 4)
    batch.say({"seq": 5, "ack_msgs": 5}, 5)
    batch.say({"seq": 6, "error": WRONG_SEQUENCE}, 6)
    gap, rate, refused = batch.h.events()
    assert gap == GapReported("b1", 2, 3)
    assert rate == FlowRateChanged("b1", 5, 5, 10)
    assert isinstance(refused, MessageRefused)


def test_the_drafts_terminal_acknowledgement_holds_the_error() -> None:
    batch = started()
    batch.fill(3)
    batch.say({"stream": "S", "seq": 2, "batch": "b1", "count": 2, "error": WRONG_SEQUENCE}, 3)
    error = batch.fast.error
    assert isinstance(error, BatchMessageError)
    assert (error.message_sequence, error.ack and error.ack.count) == (3, 2)


@requirement(72)
def test_gap_ok_asks_and_goes_on_over_a_new_link() -> None:
    batch = reconnecting(gap="ok").start(10)
    batch.fill(14)
    batch.ack(10, 10)
    batch.h.lose()
    assert batch.fast.room == 0
    ready = batch.fast.ready()
    with pytest.raises(LocalProtocolError, match="wait for ready"):
        batch.fast.publish("e.a", now=batch.h.now)
    batch.h.now += 2.0
    batch.h.connect()
    sub, ping = batch.h.sent()
    assert isinstance(sub, Sub)
    assert isinstance(ping, Pub)
    assert operations([ping]) == [(15, 4)]
    batch.say({"type": "gap", "last_seq": 13, "seq": 16}, 15, 4)
    batch.say({"type": "ack", "seq": 15, "msgs": 10}, 15, 4)
    assert ready.result() is None
    assert batch.fast.publish("e.a", now=batch.h.now) == 16
    assert GapReported("b1", 13, 15) in batch.h.events()
    batch.h.advance(5.0)  # the keep-alive goes on too
    assert (16, 4) in operations(batch.h.published())


def test_gap_ok_commits_over_a_new_link() -> None:
    batch = reconnecting(gap="ok").start(10)
    ticket = batch.fast.commit(batch.h.now)
    batch.h.sent()
    batch.h.lose()
    batch.h.connect()
    assert operations(batch.h.published()) == [(2, 3)]
    batch.pub_ack(1, 2, 3)
    assert ticket.result().count == 1


def test_gap_ok_does_not_ask_after_a_batch_of_one_message() -> None:
    """Whether it was stored cannot be asked: if it was, there is no batch any more."""
    batch = reconnecting(gap="ok")
    ticket = batch.fast.commit(batch.h.now, "e.a", b"only")
    batch.h.sent()
    batch.h.lose()
    assert isinstance(ticket.error, BatchLostError)
    batch.h.connect()
    assert batch.h.published() == []


def test_gap_ok_notices_that_the_commit_message_was_lost() -> None:
    batch = reconnecting(gap="ok").start(10)
    ticket = batch.fast.commit(batch.h.now, "e.a", b"last")
    batch.h.sent()
    batch.h.lose()
    batch.h.connect()
    assert operations(batch.h.published()) == [(2, 4)]
    batch.say({"type": "gap", "last_seq": 2, "seq": 3}, 2, 4)
    assert isinstance(ticket.error, BatchGapError)
    assert batch.fast.unacknowledged == [("e.a", b"1", None), ("e.a", b"last", None)]
