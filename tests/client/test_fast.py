"""The fast-ingest publisher against a scripted server; the bytes are those of released servers."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest

from jsproto.api_errors import BatchPublishDisabledError, BatchPublishUnknownBatchIDError
from jsproto.client.publish.fast import SERVER_IDLE_LIMIT, FastPublisher
from jsproto.errors import (
    APIError,
    BatchClosedError,
    BatchExpiredError,
    BatchGapError,
    BatchLostError,
    BatchMessageError,
    BatchStalledError,
    BatchTruncatedError,
    BatchUnknownError,
    ConnectionClosedError,
    ConnectionLostError,
    JetStreamNotAvailableError,
    LocalProtocolError,
    MaxPayloadError,
    NoStreamResponseError,
    OutboundBufferLimitError,
    TimeoutError,
    UnsupportedByServerError,
)
from jsproto.events import FlowRateChanged, GapReported, MessageRefused, UnexpectedMessage
from jsproto.rules.fast_batch import FastPhase
from jsproto.wire.encoder import encode_msg
from jsproto.wire.frames import Msg, Pub, Sub, Unsub
from tests.harness import Harness
from tests.marks import known_fault, promise, requirement

WRONG_SEQUENCE = {"code": 400, "err_code": 10071, "description": "wrong last sequence: 2"}
UNKNOWN = {"code": 400, "err_code": 10208, "description": "batch publish ID unknown"}
TOO_BIG = {"code": 400, "err_code": 10054, "description": "message size exceeds maximum allowed"}
DISABLED = {"code": 400, "err_code": 10205, "description": "batch publish is disabled"}


class Batch:
    """A publisher and the server's side of its conversation."""

    def __init__(self, harness: Harness | None = None, **options: Any) -> None:
        self.h = harness or Harness()
        self.fast: FastPublisher = self.h.js.fast_publisher(batch_id="b1", **options)
        self.gap = options.get("gap", "fail")
        self.flow = options.get("flow", 500)

    def reply(self, sequence: int, operation: int = 1) -> bytes:
        inbox = next(sub for sub in self.h.subs.values() if sub.endswith(b".b1.>"))
        return b"%b%d.%b.%d.%d.$FI" % (inbox[:-1], self.flow, self.gap.encode(), sequence, operation)

    def say(self, body: dict[str, Any] | bytes, sequence: int, operation: int = 1) -> None:
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.h.deliver(self.reply(sequence, operation), payload)

    def ack(self, sequence: int, msgs: int) -> None:
        self.say({"type": "ack", "seq": sequence, "msgs": msgs}, max(sequence, 1))

    def pub_ack(self, count: int, sequence: int, operation: int = 1, batch: str = "b1") -> None:
        self.say({"stream": "S", "seq": count, "batch": batch, "count": count}, sequence, operation)

    def error(self, error: dict[str, Any], sequence: int, operation: int = 1) -> None:
        self.say({"error": error, "stream": "S", "seq": 0}, sequence, operation)

    def start(self, msgs: int = 10) -> Batch:
        self.fast.publish("e.a", b"1", now=self.h.now)
        self.h.sent()
        self.ack(0, msgs)
        self.h.events()
        return self

    def fill(self, count: int) -> list[Pub]:
        for _ in range(count):
            self.fast.publish("e.a", b"x", now=self.h.now)
        return self.h.published()


def started(msgs: int = 10, **options: Any) -> Batch:
    return Batch(**options).start(msgs)


def operations(pubs: list[Pub]) -> list[tuple[int, int]]:
    tokens = [pub.reply.split(b".") for pub in pubs if pub.reply is not None]
    return [(int(token[-3]), int(token[-2])) for token in tokens]


# -- starting ----------------------------------------------------------------------------------------------------------


@requirement(43)
def test_the_first_message_opens_an_inbox_and_starts_the_batch() -> None:
    batch = Batch(flow=100, gap="ok")
    assert batch.fast.room == 1
    assert batch.fast.publish("e.a", b"one", {"K": "v"}, now=batch.h.now) == 1
    sub, pub = batch.h.sent()
    assert isinstance(sub, Sub)
    assert isinstance(pub, Pub)
    inbox = sub.subject.removesuffix(b".b1.>")
    assert inbox.startswith(b"_INBOX.")
    assert pub == Pub(b"e.a", inbox + b".b1.100.ok.1.0.$FI", b"NATS/1.0\r\nK: v\r\n\r\n", b"one")


@requirement(53)
def test_nothing_follows_the_first_message_before_it_is_answered() -> None:
    batch = Batch()
    batch.fast.publish("e.a", now=batch.h.now)
    assert batch.fast.room == 0
    assert batch.fast.publish_many([("e.a", b"")], batch.h.now) == 0
    with pytest.raises(LocalProtocolError, match="wait for ready"):
        batch.fast.publish("e.a", now=batch.h.now)
    with pytest.raises(LocalProtocolError, match="wait for ready"):
        batch.fast.commit(batch.h.now)
    ready = batch.fast.ready()
    assert batch.fast.ready() is ready
    batch.h.sent()
    batch.ack(0, 10)
    assert ready.result() is None
    assert ready in batch.h.completed
    assert (batch.fast.room, batch.fast.flow, batch.fast.acked, batch.fast.acks) == (19, 10, 0, 1)
    assert batch.h.events() == [FlowRateChanged("b1", 0, 10, 0)]
    assert batch.fast.ready().done


@known_fault("publishing is slow: a write, or a round trip, for each message")
def test_publish_many_starts_alone_then_fills_the_window() -> None:
    batch = Batch(max_outstanding_acks=1)
    messages = [("e.a", b"%d" % n) for n in range(20)]
    assert batch.fast.publish_many([], batch.h.now) == 0
    assert batch.fast.publish_many(messages, batch.h.now) == 1
    batch.h.sent()
    batch.ack(0, 5)
    assert batch.fast.publish_many(messages[1:], batch.h.now) == 4
    assert operations(batch.h.published()) == [(2, 1), (3, 1), (4, 1), (5, 1)]
    assert batch.fast.publish_many(messages[5:], batch.h.now) == 0
    batch.ack(5, 5)
    assert batch.fast.publish_many([("e.b", b"y", {"A": "b"}), ("e.b", b"z", None)], batch.h.now) == 2
    first, second = batch.h.published()
    assert (first.header, second.header) == (b"NATS/1.0\r\nA: b\r\n\r\n", None)


@requirement(55)
def test_every_message_repeats_the_rate_asked_for_and_the_gap_mode() -> None:
    batch = Batch(flow=100, gap="ok")
    batch.fast.publish("e.a", now=batch.h.now)
    batch.h.sent()
    batch.ack(0, 5)  # the rate in force is another
    batch.fast.publish_many([("e.a", b"")] * 2, batch.h.now)
    batch.fast.publish("e.a", now=batch.h.now)
    batch.fast.ping(batch.h.now)
    batch.fast.commit(batch.h.now)
    replies = [pub.reply for pub in batch.h.published() if pub.reply is not None]
    assert [reply.split(b".b1.")[1] for reply in replies] == [
        b"100.ok.2.1.$FI", b"100.ok.3.1.$FI", b"100.ok.4.1.$FI", b"100.ok.4.4.$FI", b"100.ok.5.3.$FI",
    ]  # fmt: skip


@requirement(62, 63, 77)
@known_fault("any number of outstanding acknowledgements is taken")
@pytest.mark.parametrize(
    "options",
    [{"gap": "maybe"}, {"flow": 0}, {"flow": 65_536}, {"max_outstanding_acks": 0}, {"max_outstanding_acks": 4},
     {"ack_timeout": 0.0}, {"batch_id": "x" * 65}, {"batch_id": "a.b"}],
)  # fmt: skip
def test_impossible_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(LocalProtocolError):
        Harness().js.fast_publisher(**options)


def test_a_server_that_is_too_old_is_sent_nothing() -> None:
    batch = Batch(Harness(info={"version": "2.12.8", "api_lvl": 3}))
    with pytest.raises(UnsupportedByServerError, match=r"2\.14") as caught:
        batch.fast.publish("e.a", now=batch.h.now)
    with pytest.raises(UnsupportedByServerError):
        batch.fast.commit(batch.h.now, "e.a")
    assert caught.value.found == "2.12.8"
    assert batch.h.sent() == []
    unknown = Batch(Harness(info={"version": "built-here"}))
    assert unknown.fast.publish("e.a", now=unknown.h.now) == 1


def test_a_plain_ack_for_the_first_message_means_an_old_server_stored_it() -> None:
    batch = Batch()
    batch.fast.publish("e.a", now=batch.h.now)
    ready = batch.fast.ready()
    batch.h.sent()
    batch.say(b'{"stream":"S", "seq":7}', 1, 0)
    assert isinstance(ready.error, UnsupportedByServerError)
    assert "7" in str(ready.error)
    with pytest.raises(UnsupportedByServerError):
        batch.fast.publish("e.a", now=batch.h.now)
    assert [type(frame) for frame in batch.h.sent()] == [Unsub]


@requirement(54)
def test_an_error_for_the_first_message_is_the_error_of_the_batch() -> None:
    batch = Batch()
    batch.fast.publish("e.a", now=batch.h.now)
    batch.h.sent()
    batch.error(DISABLED, 1, 0)
    assert isinstance(batch.fast.ready().error, BatchPublishDisabledError)
    assert batch.fast.phase is FastPhase.FAILED


def test_a_refusal_of_the_first_message_in_flow_form() -> None:
    batch = Batch()
    batch.fast.publish("e.a", now=batch.h.now)
    batch.h.sent()
    batch.say({"type": "err", "seq": 1, "error": WRONG_SEQUENCE}, 1, 0)
    assert isinstance(batch.fast.error, APIError)


@requirement(89)
def test_a_first_message_refused_after_its_first_ack() -> None:
    batch = started()
    batch.error(WRONG_SEQUENCE, 1, 0)
    assert isinstance(batch.fast.error, APIError)
    assert batch.fast.error.err_code == 10071


@known_fault("503 on the inbox of a batch is dropped")
@pytest.mark.parametrize(("jetstream", "error"), [(True, NoStreamResponseError), (False, JetStreamNotAvailableError)])
def test_no_stream_behind_the_subject(jetstream: bool, error: type[Exception]) -> None:
    batch = Batch(Harness(info={"jetstream": jetstream}))
    batch.fast.publish("e.a", now=batch.h.now)
    batch.h.sent()
    batch.h.deliver(batch.reply(1, 0), b"", b"NATS/1.0 503\r\nNats-Subject: e.a\r\n\r\n")
    assert type(batch.fast.error) is error


def test_a_start_without_an_answer() -> None:
    batch = Batch(ack_timeout=2.0)
    batch.fast.publish("e.a", now=batch.h.now)
    ready = batch.fast.ready()
    batch.h.advance(1.9)
    assert not ready.done
    batch.h.advance(0.2)
    assert isinstance(ready.error, BatchStalledError)
    assert isinstance(ready.error, TimeoutError)


# -- the window --------------------------------------------------------------------------------------------------------


@requirement(56, 79)
def test_the_window_follows_the_rate_up_and_down() -> None:
    batch = started(1, flow=4)
    batch.ack(1, 2)
    assert batch.fast.room == 1 + 2 * 2 - 1
    batch.fill(4)
    assert batch.fast.room == 0
    batch.ack(3, 4)
    assert (batch.fast.sequence, batch.fast.acked) == (5, 3)
    assert batch.fast.room == 3 + 8 - 5
    batch.ack(5, 1)
    assert batch.fast.room == 2
    assert batch.h.events() == [
        FlowRateChanged("b1", 1, 2, 1), FlowRateChanged("b1", 3, 4, 2), FlowRateChanged("b1", 5, 1, 4),
    ]  # fmt: skip


@promise("Messages run ahead of the server's acknowledgements by a bounded window.")
def test_a_server_cannot_raise_the_rate_above_what_was_asked() -> None:
    batch = started(10, flow=4)
    assert batch.fast.flow == 4


@requirement(57)
@known_fault("acknowledgements move backwards")
def test_acks_never_move_backwards_and_lies_change_nothing() -> None:
    batch = started(10)
    batch.fill(15)
    batch.ack(10, 10)
    room = batch.fast.room
    for sequence, msgs in ((5, 10), (17, 10), (12, 0)):
        batch.ack(sequence, msgs)
    batch.say(b"no json", 3)
    batch.say({"type": "ack", "seq": "x", "msgs": 1}, 3)
    assert (batch.fast.acked, batch.fast.room) == (10, room)
    assert [type(event) for event in batch.h.events()] == [UnexpectedMessage] * 5


@requirement(51, 58)
@known_fault("no ping unless the caller sends it")
def test_a_closed_window_flushes_pings_and_opens_again() -> None:
    batch = started(1, ack_timeout=10.0, max_outstanding_acks=1)
    batch.ack(1, 1)
    batch.h.sent()
    batch.fast.publish("e.a", b"x", now=batch.h.now)
    assert batch.h.session.wants_send(batch.h.now)  # nobody flushed: the stall did
    assert batch.fast.room == 0
    ready = batch.fast.ready()
    batch.h.sent()
    batch.h.advance(1.1)
    assert operations(batch.h.published()) == [(2, 4)]
    batch.ack(2, 1)
    assert ready.result() is None


@requirement(77)
@pytest.mark.parametrize("number", [1, 2, 3, None])
def test_how_many_acknowledgements_may_be_outstanding(number: int | None) -> None:
    batch = started(10, **({} if number is None else {"max_outstanding_acks": number}))
    assert batch.fast.sequence + batch.fast.room == 10 * (2 if number is None else number)


@requirement(78)
@pytest.mark.parametrize("seconds", [1.5, 30.0])
def test_how_long_a_stall_may_last(seconds: float) -> None:
    batch = started(1, ack_timeout=seconds, max_outstanding_acks=1)
    batch.ack(1, 1)
    batch.fill(1)
    ready = batch.fast.ready()
    batch.h.advance(seconds - 0.01)
    assert not ready.done
    batch.h.advance(0.02)
    assert isinstance(ready.error, BatchStalledError)
    assert f"{seconds:g} s" in str(ready.error)


def test_a_rate_that_closes_the_window_is_watched() -> None:
    batch = started(4, ack_timeout=10.0, max_outstanding_acks=1)
    batch.fill(2)
    batch.ack(0, 2)  # the rate fell: the window was open and is closed now
    assert batch.fast.room == 0
    ready = batch.fast.ready()
    batch.h.advance(10.1)
    assert isinstance(ready.error, BatchStalledError)


def test_an_ack_that_leaves_the_window_closed_is_progress_but_a_pings_answer_is_not() -> None:
    batch = started(4, ack_timeout=5.0, max_outstanding_acks=1)
    batch.fill(3)
    batch.h.advance(3.0)
    batch.ack(3, 1)  # the rate fell: 3 + 1 is still the last one sent
    batch.h.advance(4.0)
    assert batch.fast.error is None
    batch.ack(3, 1)  # the answer to a ping
    batch.h.advance(1.5)
    error = batch.fast.error
    assert isinstance(error, BatchStalledError)
    assert (error.acked, error.sequence, error.batch_id) == (3, 4, "b1")
    assert batch.h.session.deadline() is not None  # the link's keep-alive alone
    with pytest.raises(BatchStalledError):
        batch.fast.publish("e.a", now=batch.h.now)


def test_a_start_that_was_lost_is_noticed_by_the_answer_to_a_ping() -> None:
    """Such as under a leader that stands still until there is another."""
    batch = Batch()
    batch.fast.publish("e.a", b"1", now=batch.h.now)
    batch.h.sent()
    batch.h.advance(5.0)
    assert operations(batch.h.published()) == [(1, 4)]
    batch.error(UNKNOWN, 1, 4)
    assert isinstance(batch.fast.error, BatchUnknownError)
    assert batch.fast.unacknowledged == [("e.a", b"1", None)]


# -- committing --------------------------------------------------------------------------------------------------------


@requirement(44, 50, 80)
def test_commit_without_storing() -> None:
    batch = started()
    batch.fill(3)
    ticket = batch.fast.commit(batch.h.now)
    (pub,) = batch.h.published()
    assert (pub.subject, pub.payload, operations([pub])) == (b"e.a", b"", [(5, 3)])
    batch.ack(4, 10)
    assert (batch.fast.acked, ticket.done) == (4, False)  # a flow acknowledgement of all is not the last word
    batch.pub_ack(4, 5, 3)
    assert ticket.result().count == 4
    assert batch.fast.acked == 4
    assert batch.fast.phase is FastPhase.COMMITTED
    assert [type(frame) for frame in batch.h.sent()] == [Unsub]


@requirement(49)
def test_commit_with_a_last_message() -> None:
    batch = started()
    ticket = batch.fast.commit(batch.h.now, "e.z", b"last", {"A": "1"})
    (pub,) = batch.h.published()
    assert (pub.subject, pub.payload, operations([pub])) == (b"e.z", b"last", [(2, 2)])
    assert pub.header == b"NATS/1.0\r\nA: 1\r\n\r\n"
    batch.pub_ack(2, 2, 2)
    assert ticket.result().seq == 2


@requirement(49)
def test_a_batch_of_one_message() -> None:
    batch = Batch()
    ticket = batch.fast.commit(batch.h.now, "e.a", b"only")
    assert operations(batch.h.published()) == [(1, 2)]
    batch.pub_ack(1, 1, 2)
    assert ticket.result().batch == "b1"


def test_a_batch_of_one_message_on_an_old_server() -> None:
    batch = Batch()
    ticket = batch.fast.commit(batch.h.now, "e.a", b"only")
    batch.h.sent()
    batch.say(b'{"stream":"S", "seq":7}', 1, 2)
    assert isinstance(ticket.error, UnsupportedByServerError)


@known_fault("a server's error at the commit shows as a wrong count")
def test_a_batch_of_one_message_refused() -> None:
    batch = Batch()
    ticket = batch.fast.commit(batch.h.now, "e.a", b"only")
    batch.h.sent()
    batch.error(WRONG_SEQUENCE, 1, 2)
    assert isinstance(ticket.error, APIError)


@promise("None: nothing more is stored, and asking again (after a wait that was given up) gives the same answer")
def test_committing_again_gives_the_same_answer() -> None:
    batch = started()
    ticket = batch.fast.commit(batch.h.now)
    assert batch.fast.commit(batch.h.now) is ticket
    assert operations(batch.h.published()) == [(2, 3)]
    assert batch.fast.ack is None
    batch.pub_ack(1, 2, 3)
    assert batch.fast.commit(batch.h.now).result() is ticket.result() is batch.fast.ack
    assert [type(frame) for frame in batch.h.sent()] == [Unsub]


@requirement(50)
@known_fault("where a ping goes, and that the caller may send one")
def test_an_empty_batch_cannot_be_committed_or_pinged() -> None:
    batch = Batch()
    with pytest.raises(LocalProtocolError, match="nothing was published"):
        batch.fast.commit(batch.h.now)
    with pytest.raises(LocalProtocolError, match="nothing was published"):
        batch.fast.ping(batch.h.now)
    assert batch.h.sent() == []


def test_after_the_commit_every_verb_is_refused() -> None:
    batch = started(1, max_outstanding_acks=1)
    ready = batch.fast.ready()
    batch.fast.commit(batch.h.now)
    batch.h.sent()
    assert isinstance(ready.error, BatchClosedError)
    for verb in (
        lambda: batch.fast.publish("e.a", now=batch.h.now),
        lambda: batch.fast.publish_many([("e.a", b"")], batch.h.now),
        lambda: batch.fast.commit(batch.h.now, "e.a"),
        lambda: batch.fast.ready().result(),
    ):
        with pytest.raises(BatchClosedError, match="committing"):
            verb()
    batch.fast.ping(batch.h.now)
    assert operations(batch.h.published()) == [(2, 3)]  # a lost commit is asked for again
    batch.pub_ack(1, 2, 3)
    with pytest.raises(BatchClosedError, match="committed"):
        batch.fast.ping(batch.h.now)


@requirement(68)
@promise('with `gap="fail"` an error carries what was acknowledged')
@promise("A `BatchError` carries the last acknowledged sequence.")
@known_fault("a gap in mode fail is not acted on")
def test_a_commit_that_stored_fewer_fails_with_what_was_stored() -> None:
    batch = started()
    batch.fill(3)
    ticket = batch.fast.commit(batch.h.now)
    batch.h.sent()
    batch.pub_ack(2, 5, 3)
    assert isinstance(ticket.error, BatchTruncatedError)
    assert ticket.error.ack is not None
    assert ticket.error.ack.count == 2


@pytest.mark.parametrize(("subject", "asks_again"), [(None, 3), ("e.a", 4)])
def test_a_commit_without_an_answer_asks_again_then_fails(subject: str | None, asks_again: int) -> None:
    batch = started(ack_timeout=10.0)
    ticket = batch.fast.commit(batch.h.now, subject)
    batch.h.sent()
    batch.h.advance(1.0)
    assert operations(batch.h.published()) == [(2, asks_again)]
    batch.ack(1, 10)  # progress: slow, but alive
    batch.h.advance(9.5)
    assert not ticket.done
    batch.ack(1, 10)  # none: 2.14.0 never answers a refused commit
    batch.h.advance(0.6)
    assert isinstance(ticket.error, BatchStalledError)


def test_a_refused_commit_message_fails_the_commit_in_both_modes() -> None:
    for gap in ("ok", "fail"):
        batch = started(gap=gap)
        ticket = batch.fast.commit(batch.h.now, "e.a", b"last")
        batch.h.sent()
        batch.say({"type": "err", "seq": 2, "error": WRONG_SEQUENCE}, 2, 2)
        assert not ticket.done
        batch.pub_ack(1, 2, 2)
        error = ticket.error
        assert isinstance(error, BatchMessageError)
        assert (error.message_sequence, error.ack and error.ack.count) == (2, 1)


def test_a_refused_commit_without_a_last_word() -> None:
    batch = started(gap="ok")
    ticket = batch.fast.commit(batch.h.now, "e.a", b"last")
    batch.h.sent()
    batch.say({"type": "err", "seq": 2, "error": WRONG_SEQUENCE}, 2, 2)
    batch.h.advance(11.0)
    assert isinstance(ticket.error, BatchMessageError)


def test_a_batch_of_one_message_is_not_pinged() -> None:
    """Released servers would open one for the ping, and report as lost what they have stored (FACTS.md F2.12)."""
    batch = Batch()
    ticket = batch.fast.commit(batch.h.now, "e.a", b"only")
    batch.fast.ping(batch.h.now)
    batch.h.advance(9.9)
    assert operations(batch.h.published()) == [(1, 2)]
    assert not ticket.done
    batch.h.advance(0.2)
    assert isinstance(ticket.error, BatchStalledError)


@known_fault("a server's error at the commit shows as a wrong count")
def test_a_refused_commit_that_stores_nothing() -> None:
    batch = started()
    ticket = batch.fast.commit(batch.h.now)
    batch.h.sent()
    batch.error({"code": 503, "err_code": 10077, "description": "maximum messages exceeded"}, 2, 3)
    assert isinstance(ticket.error, APIError)
    assert ticket.error.err_code == 10077


def test_a_commit_of_an_unknown_batch() -> None:
    batch = started()
    ticket = batch.fast.commit(batch.h.now)
    batch.h.sent()
    batch.error(UNKNOWN, 2, 3)
    assert isinstance(ticket.error, BatchUnknownError)
    assert isinstance(ticket.error.__cause__, BatchPublishUnknownBatchIDError)


# -- gap mode fail -----------------------------------------------------------------------------------------------------


@requirement(44, 60, 67)
@promise('with `gap="fail"` an error carries what was acknowledged')
@promise("A `BatchError` carries the last acknowledged sequence.")
@known_fault("a gap in mode fail is not acted on")
@known_fault("a batch that died, by a gap or by silence, takes nothing and says why")
def test_gap_fail_stops_at_the_notice_and_ends_with_the_count() -> None:
    batch = started()
    batch.fill(4)
    ready = batch.fast.ready()
    assert ready.done
    batch.say({"type": "gap", "last_seq": 3, "seq": 5}, 5)
    assert batch.h.events() == [GapReported("b1", 3, 4)]
    assert batch.fast.room == 0
    assert batch.fast.publish_many([("e.a", b"")], batch.h.now) == 0
    with pytest.raises(LocalProtocolError, match="wait for ready"):
        batch.fast.publish("e.a", now=batch.h.now)
    ready = batch.fast.ready()
    assert operations(batch.h.published()) == [(6, 3)]  # asks for the last word
    batch.ack(2, 10)  # late, but true
    batch.pub_ack(2, 5)
    error = ready.error
    assert isinstance(error, BatchGapError)
    assert (error.first_missing, error.last_missing, error.acked) == (3, 4, 2)
    assert str(error) == "messages 3 to 4 of the batch were lost"
    assert error.ack is not None
    assert error.ack.count == 2
    for verb in (lambda: batch.fast.publish("e.a", now=batch.h.now), lambda: batch.fast.commit(batch.h.now)):
        with pytest.raises(BatchGapError):
            verb()


def test_gap_fail_at_the_commit() -> None:
    batch = started()
    batch.fill(2)
    ticket = batch.fast.commit(batch.h.now)
    batch.h.sent()
    batch.say({"type": "gap", "last_seq": 2, "seq": 4}, 4, 3)
    batch.say({"type": "err", "seq": 3, "error": WRONG_SEQUENCE}, 3)  # the first cause counts
    batch.pub_ack(1, 4, 3)
    assert isinstance(ticket.error, BatchGapError)
    assert ticket.error.ack is not None


@promise('with `gap="fail"` an error carries what was acknowledged')
@promise("A `BatchError` carries the last acknowledged sequence.")
def test_gap_fail_without_a_last_word() -> None:
    batch = started(ack_timeout=10.0)
    batch.fill(4)
    batch.say({"type": "gap", "last_seq": 3, "seq": 5}, 5)
    batch.h.sent()
    batch.h.advance(1.0)
    assert operations(batch.h.published()) == [(6, 3)]
    batch.h.advance(9.1)
    assert isinstance(batch.fast.error, BatchGapError)
    assert batch.fast.error.ack is None


def test_gap_fail_where_the_server_has_forgotten_the_batch() -> None:
    batch = started()
    batch.fill(4)
    batch.say({"type": "gap", "last_seq": 3, "seq": 5}, 5)
    batch.error(UNKNOWN, 6, 3)
    assert isinstance(batch.fast.error, BatchGapError)


@requirement(73)
def test_a_refused_message_breaks_the_batch() -> None:
    batch = started()
    batch.fill(3)
    batch.say({"type": "err", "seq": 3, "error": WRONG_SEQUENCE}, 3)
    (refused,) = batch.h.events()
    assert isinstance(refused, MessageRefused)
    assert (refused.sequence, refused.error.err_code) == (3, 10071)
    batch.say({"type": "err", "seq": 4, "error": WRONG_SEQUENCE}, 4)  # the first one counts
    batch.pub_ack(2, 3)
    error = batch.fast.error
    assert isinstance(error, BatchMessageError)
    assert error.message_sequence == 3
    assert isinstance(error.__cause__, APIError)


def test_an_oversized_message_breaks_the_batch_though_the_server_keeps_it_open() -> None:
    batch = started()
    batch.fill(2)
    batch.error(TOO_BIG, 2)
    assert operations(batch.h.published()) == [(4, 3)]
    batch.pub_ack(1, 4, 3)
    assert isinstance(batch.fast.error, BatchMessageError)


@known_fault("503 on the inbox of a batch is dropped")
def test_a_message_nobody_took_breaks_the_batch() -> None:
    batch = started()
    batch.fill(3)
    batch.ack(2, 10)
    batch.h.deliver(batch.reply(2), b"", b"NATS/1.0 503\r\n\r\n")  # acknowledged since: stale
    assert batch.fast.phase is FastPhase.OPEN
    batch.h.deliver(batch.reply(3), b"", b"NATS/1.0 503\r\n\r\n")
    batch.pub_ack(2, 4, 3)
    assert isinstance(batch.fast.error, BatchGapError)
    assert batch.fast.error.first_missing == 3


def test_a_batch_that_breaks_fails_at_once_where_nobody_wants_to_know_what_is_stored() -> None:
    batch = started()
    batch.fast.asks_for_end = False
    batch.fill(3)
    batch.ack(2, 10)
    batch.h.published()
    batch.h.deliver(batch.reply(3), b"", b"NATS/1.0 503\r\n\r\n")
    assert isinstance(batch.fast.error, BatchGapError)
    assert batch.h.published() == []


def test_the_server_ends_the_batch_without_a_reason() -> None:
    batch = started()
    batch.fill(3)
    batch.pub_ack(2, 3)
    assert isinstance(batch.fast.error, BatchTruncatedError)
    assert batch.fast.error.ack is not None


@known_fault("the last word does not wake who waits for room")
def test_the_last_word_wakes_whoever_waits_for_room() -> None:
    batch = started(1, max_outstanding_acks=1)
    batch.ack(1, 1)
    batch.fill(1)
    ready = batch.fast.ready()
    assert not ready.done
    batch.pub_ack(1, 2)
    assert ready in batch.h.completed
    assert isinstance(ready.error, BatchTruncatedError)


@known_fault("error codes of fast ingest that mean something else by now")
def test_switched_off_midway() -> None:
    batch = started()
    batch.fill(3)
    batch.error(DISABLED, 3)
    assert isinstance(batch.fast.error, BatchPublishDisabledError)


def test_the_last_word_cannot_be_asked_for() -> None:
    batch = Batch(Harness(pending_size=200, linger=9.0)).start(100)
    assert batch.fast.publish_many([("e.a", b"x" * 50)] * 3, batch.h.now) == 2
    gap = b'{"type":"gap","last_seq":2,"seq":3}'
    message = encode_msg(batch.reply(3), next(iter(batch.h.subs)), None, None, gap)
    batch.h.session.receive_data(message, batch.h.now)  # while nothing can be written
    assert operations(batch.h.published()) == [(2, 1), (3, 1)]
    batch.h.advance(1.0)
    assert operations(batch.h.published()) == [(4, 3)]
    batch.pub_ack(1, 4, 3)
    assert isinstance(batch.fast.error, BatchGapError)
    assert str(batch.fast.error) == "message 2 of the batch was lost"


# -- lies and leftovers ------------------------------------------------------------------------------------------------


def test_what_does_not_fit_changes_nothing() -> None:
    batch = started()
    batch.fill(4)
    before = (batch.fast.phase, batch.fast.acked, batch.fast.room)
    batch.say({"type": "gap", "last_seq": 3, "seq": 2}, 3)  # backwards (2.15.1 says so before it ends a batch)
    batch.say({"type": "gap", "last_seq": 9, "seq": 12}, 3)  # never sent
    batch.say({"type": "err", "seq": 9, "error": WRONG_SEQUENCE}, 3)
    batch.pub_ack(2, 3, batch="other")
    batch.pub_ack(9, 3)
    batch.say({"stream": "S", "seq": 9}, 3)
    prefix = batch.reply(1).rsplit(b".", 3)[0]
    for token in (b"x", b"0", b"99", b"9" * 30):
        batch.h.deliver(prefix + b"." + token + b".1.$FI", json.dumps({"error": UNKNOWN}).encode())
        batch.h.deliver(prefix + b"." + token + b".1.$FI", b"", b"NATS/1.0 503\r\n\r\n")
    batch.h.deliver(prefix.rsplit(b".", 2)[0] + b".x", json.dumps({"error": UNKNOWN}).encode())
    assert (batch.fast.phase, batch.fast.acked, batch.fast.room) == before
    assert {type(event) for event in batch.h.events()} == {UnexpectedMessage}


def test_answers_before_anything_is_open() -> None:
    batch = Batch()
    batch.fast.publish("e.a", now=batch.h.now)
    batch.h.sent()
    batch.say({"type": "gap", "last_seq": 1, "seq": 2}, 1)
    batch.say({"type": "err", "seq": 2, "error": WRONG_SEQUENCE}, 1)
    assert batch.fast.phase is FastPhase.STARTING


# -- idling, abandoning, the end of the link ---------------------------------------------------------------------------


@requirement(51, 59)
@known_fault("after 11 s of silence add() goes on saying yes to messages that are never stored")
@known_fault("no ping unless the caller sends it")
def test_a_silent_batch_is_kept_alive() -> None:
    batch = started()
    batch.h.advance(26.0)
    assert operations(batch.h.published()) == [(1, 4)] * 5
    batch.fast.publish("e.a", now=batch.h.now)
    batch.h.sent()
    batch.h.advance(4.9)
    assert batch.h.published() == []


@requirement(60)
@known_fault("after 11 s of silence add() goes on saying yes to messages that are never stored")
@known_fault("after 10 s of silence one message is reported good before the error")
@known_fault("a batch that died, by a gap or by silence, takes nothing and says why")
def test_a_batch_that_could_not_be_kept_alive_is_not_trusted() -> None:
    for verb in ("publish", "publish_many", "commit", "handle_timeout"):
        batch = started()
        batch.h.now += SERVER_IDLE_LIMIT  # nobody called handle_timeout
        if verb == "handle_timeout":
            batch.h.advance(0.0)
        else:
            calls = {
                "publish": lambda b: b.fast.publish("e.a", now=b.h.now),
                "publish_many": lambda b: b.fast.publish_many([("e.a", b"")], b.h.now),
                "commit": lambda b: b.fast.commit(b.h.now),
            }
            with pytest.raises(BatchExpiredError, match="10"):
                calls[verb](batch)
        assert isinstance(batch.fast.error, BatchExpiredError)
        assert batch.h.published() == []


def test_a_batch_that_expired_while_the_window_was_closed_is_not_pinged() -> None:
    batch = started(1, max_outstanding_acks=1, ack_timeout=30.0)
    batch.h.now += 20.0
    batch.h.session.handle_timeout(batch.h.now)
    assert isinstance(batch.fast.error, BatchExpiredError)
    assert batch.h.published() == []


def test_what_comes_after_the_end_is_passed_over() -> None:
    batch = started()
    message = Msg(batch.reply(1), b"2", None, None, b'{"type":"ack","seq":1,"msgs":1}')
    batch.fast.abandon(batch.h.now)
    batch.fast.receive(message, batch.h.now)
    (event,) = batch.h.events()
    assert isinstance(event, UnexpectedMessage)
    assert "ended" in event.reason


def test_abandoning() -> None:
    batch = started(1, max_outstanding_acks=1)
    ready = batch.fast.ready()
    batch.fast.abandon(batch.h.now)
    batch.fast.abandon(batch.h.now)
    assert isinstance(ready.error, BatchClosedError)
    assert [type(frame) for frame in batch.h.sent()] == [Unsub]
    with pytest.raises(BatchClosedError, match="abandoned"):
        batch.fast.publish("e.a", now=batch.h.now)
    assert isinstance(batch.fast.ready().error, BatchClosedError)


def test_abandoning_before_the_start_and_while_committing() -> None:
    batch = Batch()
    batch.fast.abandon(batch.h.now)
    assert batch.h.sent() == []
    batch = started()
    ticket = batch.fast.commit(batch.h.now)
    batch.fast.abandon(batch.h.now)
    assert isinstance(ticket.error, BatchClosedError)


@requirement(72)
def test_the_end_of_the_link_ends_the_batch_with_what_was_acknowledged() -> None:
    batch = started()
    batch.fill(12)
    batch.ack(10, 10)
    ticket = batch.fast.commit(batch.h.now)
    batch.h.session.receive_eof(batch.h.now)
    error = ticket.error
    assert isinstance(error, BatchLostError)
    assert (error.acked, error.sequence) == (10, 13)
    batch.fast.link_lost(error, batch.h.now)  # again: harmless
    assert batch.fast.error is error


def test_no_batch_on_a_closed_session() -> None:
    batch = Batch()
    batch.h.session.close(batch.h.now)
    with pytest.raises(ConnectionClosedError):
        batch.fast.publish("e.a", now=batch.h.now)


# -- the outbox refuses ------------------------------------------------------------------------------------------------


@promise("nothing sent and no sequence spent:", of="jsproto_io.sync:FastPublisher")
@known_fault("a message that was not sent spends no sequence")
def test_a_refused_message_spends_no_sequence() -> None:
    batch = started()
    with pytest.raises(MaxPayloadError):
        batch.fast.publish("e.a", b"x" * 1_048_577, now=batch.h.now)
    with pytest.raises(LocalProtocolError):
        batch.fast.publish("e a", now=batch.h.now)
    with pytest.raises(LocalProtocolError):
        batch.fast.publish("e.a", b"", {"K": "a\r\nb"}, now=batch.h.now)
    assert batch.fast.sequence == 1
    with pytest.raises(LocalProtocolError):
        batch.fast.publish_many([("e.a", b"1"), ("e..a", b"2"), ("e.a", b"3")], batch.h.now)
    with pytest.raises(LocalProtocolError):
        batch.fast.publish_many([("e..a", b"2")], batch.h.now)
    assert batch.fast.sequence == 2
    assert operations(batch.h.published()) == [(2, 1)]


def test_a_refused_first_message_starts_nothing() -> None:
    batch = Batch()
    with pytest.raises(LocalProtocolError):
        batch.fast.publish("e a", now=batch.h.now)
    with pytest.raises(MaxPayloadError):
        batch.fast.publish("e.a", b"x" * 1_048_577, now=batch.h.now)
    assert batch.fast.phase is FastPhase.IDLE
    assert batch.fast.publish("e.b", now=batch.h.now) == 1
    assert batch.h.published()[0].subject == b"e.b"


def test_a_refused_first_message_and_the_end_of_the_link() -> None:
    batch = Batch()
    with pytest.raises(MaxPayloadError):
        batch.fast.commit(batch.h.now, "e.a", b"x" * 1_048_577)
    batch.h.session.receive_eof(batch.h.now)
    assert batch.fast.phase is FastPhase.IDLE
    with pytest.raises(ConnectionLostError):
        batch.fast.publish("e.a", now=batch.h.now)


def test_a_full_outbox_takes_what_it_can() -> None:
    batch = Batch(Harness(pending_size=300)).start(100)
    messages = [("e.a", b"x" * 100)] * 10
    taken = batch.fast.publish_many(messages, batch.h.now)
    assert 0 < taken < 10
    assert batch.h.session.congested
    with pytest.raises(OutboundBufferLimitError):
        batch.fast.publish_many(messages, batch.h.now)
    with pytest.raises(OutboundBufferLimitError):
        batch.fast.publish("e.a", b"", now=batch.h.now)
    batch.fast.ping(batch.h.now)  # what waits keeps the batch alive: not an error
    assert len(batch.h.published()) == taken


# -- new links, new leaders, another try -------------------------------------------------------------------------------


def reconnecting(**options: Any) -> Batch:
    return Batch(Harness(max_reconnect_attempts=-1, reconnect_time_wait=1.0), **options)


@requirement(72)
@pytest.mark.parametrize("starting", [True, False])
def test_what_cannot_be_asked_ends_with_the_link(starting: bool) -> None:
    batch = reconnecting(gap="ok" if starting else "fail")
    batch.fast.publish("e.a", b"1", now=batch.h.now)
    batch.h.sent()
    if not starting:
        batch.ack(0, 10)
        batch.fill(11)
        batch.ack(10, 10)
    batch.h.lose()
    error = batch.fast.error
    assert isinstance(error, BatchLostError)
    assert error.acked == (0 if starting else 10)
    batch.h.connect()
    assert batch.h.published() == []


def test_a_batch_that_saw_no_loss_is_left_alone() -> None:
    batch = started(gap="ok")
    batch.fast.link_restored(batch.h.now)
    assert batch.h.published() == []


def test_a_new_leader_acknowledges_off_the_raster() -> None:
    batch = started(10, max_outstanding_acks=1)
    batch.fill(9)
    batch.ack(7, 4)
    assert (batch.fast.acked, batch.fast.room) == (7, 1)
    batch.ack(4, 10)  # the old leader, late
    assert (batch.fast.acked, batch.fast.room) == (7, 1)


@requirement(70)
def test_the_last_word_is_asked_for_until_there_is_a_leader() -> None:
    batch = started()
    batch.fill(5)
    batch.ack(3, 10)
    batch.h.deliver(batch.reply(5), b"", b"NATS/1.0 503\r\n\r\n")
    assert operations(batch.h.published()) == [(7, 3)]
    for _ in range(4):
        batch.h.deliver(batch.reply(7, 3), b"", b"NATS/1.0 503\r\n\r\n")
        batch.h.advance(1.0)
        assert operations(batch.h.published()) == [(7, 3)]
    batch.say({"type": "gap", "last_seq": 5, "seq": 7}, 7, 3)
    batch.pub_ack(4, 7, 3)
    error = batch.fast.error
    assert isinstance(error, BatchGapError)
    assert (error.acked, error.ack and error.ack.count) == (3, 4)


@requirement(90)
@promise("Another batch begins with `batch.unacknowledged`")
@promise("The messages that are not known to be stored, in order", of="jsproto_io.sync:FastPublisher")
@promise("The published messages that are not known to be stored, in order")
@known_fault("memory grows with what is not acknowledged")
def test_what_is_not_known_to_be_stored_is_kept_for_another_try() -> None:
    batch = started(4)
    assert batch.fast.unacknowledged == [("e.a", b"1", None)]
    messages: list[Any] = [("e.a", b"%d" % n) for n in range(2, 6)]
    assert batch.fast.publish_many([*messages, ("bad subject", b"")][:4], batch.h.now) == 4
    with pytest.raises(LocalProtocolError):
        batch.fast.publish_many([("e.b", b"6", {"K": "v"}), ("bad subject", b"")], batch.h.now)
    batch.h.sent()
    assert [message[1] for message in batch.fast.unacknowledged] == [b"1", b"2", b"3", b"4", b"5", b"6"]
    batch.ack(4, 4)
    assert batch.fast.unacknowledged == [("e.a", b"5"), ("e.b", b"6", {"K": "v"})]
    batch.pub_ack(5, 6)
    assert batch.fast.unacknowledged == [("e.b", b"6", {"K": "v"})]
    again = Batch(batch.h)
    assert again.fast.publish_many(batch.fast.unacknowledged, batch.h.now) == 1


def test_after_a_commit_nothing_is_left() -> None:
    batch = started()
    batch.fill(3)
    batch.fast.commit(batch.h.now, "e.a", b"last")
    batch.h.sent()
    batch.pub_ack(5, 5, 2)
    assert batch.fast.unacknowledged == []


def test_a_ping_that_finds_no_room_is_tried_again_later() -> None:
    batch = Batch(Harness(pending_size=5_000)).start()
    batch.h.sent()
    fast, now = batch.fast, batch.h.now
    with suppress(OutboundBufferLimitError):
        while True:
            batch.h.session.publish("fill", b"x" * 1_000)
    moments: list[float] = []
    while fast.error is None and len(moments) < 10:
        deadline = fast.deadline()
        assert deadline is not None
        moments.append(deadline - now)
        fast.handle_timeout(deadline)
    assert moments == [5.0, 6.0, 7.0, 8.0, 9.0, 10.0]
    assert isinstance(fast.error, BatchExpiredError)
