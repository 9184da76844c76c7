"""Ordered consumers against a scripted server: whatever happens to a consumer, the next one goes on after it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jsproto.api_errors import ClusterNotAvailError, StreamNotFoundError
from jsproto.client.connection.session import Session
from jsproto.client.consume.message import Acker, JSMsg
from jsproto.client.consume.ordered import OrderedConsumer
from jsproto.client.consume.retry import CREATE_FIRST, CREATE_MOST
from jsproto.errors import (
    BadSubjectError,
    ConnectionClosedError,
    ConnectionLostError,
    JetStreamNotAvailableError,
    LocalProtocolError,
    PermissionsViolationError,
    RemoteProtocolError,
    TimeoutError,
)
from jsproto.events import (
    OrderedConsumerRecreated,
    SlowConsumer,
    StreamRecreated,
    UnexpectedMessage,
)
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.rules.ordered import OrderedPhase
from jsproto.wire.encoder import encode_msg
from jsproto.wire.frames import Msg, Pub, Unsub
from tests.client.ordering import NOBODY, Reading, known, silence
from tests.client.pushing import CREATED, Pushing, ack_subject, heartbeat, info, refusal
from tests.marks import known_fault, promise, requirement


def test_the_consumer_is_in_memory_unacknowledged_and_watched() -> None:
    reading = Reading()
    assert reading.config == {
        "name": "o_1", "deliver_subject": "_INBOX.o.1.m", "filter_subject": "s.a", "ack_policy": "none",
        "max_deliver": 1, "flow_control": True, "idle_heartbeat": 10**9, "mem_storage": True, "num_replicas": 1,
        "inactive_threshold": 300 * 10**9,
    }  # fmt: skip
    assert reading.ordered.ready().result() is None
    assert reading.ordered.phase is OrderedPhase.FOLLOWING
    for seq in range(1, 6):
        reading.push(seq)
    assert reading.take(2) == [1, 2]
    readable = reading.ordered.readable()
    assert readable.done
    assert reading.take() == [3, 4, 5]
    assert reading.ordered.last_seq == 5
    readable = reading.ordered.readable()
    assert reading.ordered.readable() is readable
    reading.push(9)
    assert readable.done
    (message,) = reading.ordered.pop_many(9, reading.h.now)
    assert message.settled


@requirement(230)
@promise("After a gap, silence, a new leader")
@pytest.mark.parametrize("v2", [False, True])
def test_a_gap_leads_to_a_consumer_that_starts_after_the_last_message(v2: bool) -> None:
    reading = Reading()
    reading.push(1, v2=v2)
    reading.push(2, v2=v2)
    old = reading.config["deliver_subject"]
    reading.push(7, skip=1, v2=v2)
    assert reading.recreated() == ["deliveries were lost: 4 where 3 was next"]
    reading.expect_creation()
    assert old.encode() not in reading.h.subs.values()
    assert (reading.config["name"], reading.config["deliver_policy"]) == ("o_2", "by_start_sequence")
    assert reading.config["opt_start_seq"] == 3
    reading.created()
    for seq in (3, 7, 8):
        reading.push(seq, v2=v2)
    assert reading.take() == [1, 2, 3, 7, 8]
    assert reading.ordered.recreated == 1


def test_nothing_is_subscribed_to_before_the_stream_is_known() -> None:
    """The consumer's deliveries wait. Else they could be those of a stream that is not the one of the answer."""
    reading = Reading(answer=False)
    reading.created(second=None)
    assert (reading.ordered.phase, reading.ordered.ready().done) == (OrderedPhase.COMPARING, False)
    assert reading.config["deliver_subject"].encode() not in reading.h.subs.values()
    reading.identify(reading.asked_for_identity(), 1)
    assert reading.ordered.ready().done
    reading.push(1)
    assert reading.take() == [1]


@pytest.mark.parametrize("answer", ["no responders", "not permitted"])
def test_a_stream_that_nobody_tells_of_is_followed_all_the_same(answer: str) -> None:
    reading = Reading(answer=None)
    asked = reading.asked_for_identity()
    if answer == "no responders":
        reading.h.reply_to(asked, None, NOBODY)
    else:
        reading.h.feed(b"-ERR 'Permissions Violation for Publish to \"$JS.API.STREAM.INFO.S\"'\r\n")
    reading.expect_creation()
    reading.created(second=None)
    assert reading.ordered.ready().result() is None
    reading.push(1)
    reading.status(heartbeat(1))
    assert reading.take() == [1]
    assert reading.h.asked() == []
    reading.h.advance(3.0)
    if answer == "no responders":  # perhaps it has one now
        _, (what, _, asked) = reading.h.asked()
        assert what == "STREAM.INFO.S"
        reading.identify(asked, 1)
    reading.expect_creation()
    assert reading.config["opt_start_seq"] == 2


def test_what_a_consumer_has_delivered_to_nobody_is_asked_for_again() -> None:
    reading = Reading(ConsumerConfig(filter_subject="s.a", deliver_policy="new"), answer=False)
    delivered = {"consumer_seq": 2, "stream_seq": 900}
    reading.h.reply_to(reading.request, info("o_1", reading.config, delivered=delivered, num_pending=0))
    reading.identify(reading.asked_for_identity(), 1)
    reading.push(901, skip=2)
    assert reading.recreated() == ["deliveries were lost: 3 where 1 was next"]
    reading.expect_creation()
    assert "opt_start_seq" not in reading.config


@pytest.mark.parametrize("place", [1, 2, 3])
@pytest.mark.parametrize("answer", ["none", "refusal", "not found"])
def test_until_the_first_consumer_is_followed_any_error_ends_it(place: int, answer: str) -> None:
    """The stream is asked for (1), then the consumer (2), then the stream again (3)."""
    reading = Reading(answer=None)
    ready = reading.ordered.ready()
    asked = reading.asked_for_identity()
    if place > 1:
        reading.identify(asked, 1)
        reading.expect_creation()
        asked = reading.request
    if place > 2:
        reading.created(second=None)
        asked = reading.asked_for_identity()
    reading.h.advance(59.9)
    assert not ready.done
    if answer == "none":
        reading.h.advance(0.1)
        assert isinstance(ready.error, TimeoutError)
    else:
        reading.h.reply_to(asked, refusal(404, 10059) if answer == "not found" else refusal(503, 10008))
        assert isinstance(ready.error, StreamNotFoundError if answer == "not found" else ClusterNotAvailError)
    assert asked.reply is not None
    reading.ordered.answered(Msg(asked.reply, b"1", None, None, b"{}"), reading.h.now)  # it is late
    deleted = [what for what, _, _ in reading.h.asked()]
    assert deleted == ([] if place == 1 else ["CONSUMER.DELETE.S.o_1"])


@pytest.mark.parametrize("policy", [{}, {"deliver_policy": "new"}])
def test_a_stream_that_is_made_again_meanwhile_is_read_from_its_first_message(policy: dict[str, Any]) -> None:
    """Between the creation of the first consumer, which is at message 20, and the answer about its stream."""
    reading = Reading(ConsumerConfig(filter_subject="s.a", **policy), answer=False)
    reading.created(at=20, second=2)
    (told,) = [event for event in reading.h.events() if isinstance(event, StreamRecreated)]
    assert told == StreamRecreated("S", 0)
    reading.expect_creation()
    assert reading.config["deliver_policy"] == "all"
    reading.created(at=0, second=2)
    assert reading.ordered.ready().done
    reading.push(1)
    assert reading.take() == [1]


@pytest.mark.parametrize("phase", sorted({*OrderedPhase} - {OrderedPhase.ENDED}, key=str), ids=str)
def test_a_drain_of_the_connection_ends_it_wherever_it_stands(phase: OrderedPhase) -> None:
    options = {"max_reconnect_attempts": 9, "reconnect_time_wait": 0.1}
    reading = Reading(answer=False, pending_msgs_limit=2, session=options)
    if phase is not OrderedPhase.CREATING:
        reading.created(second=None if phase is OrderedPhase.COMPARING else 1)
    if phase is OrderedPhase.PAUSED:
        reading.push(7, skip=1)
        reading.expect_creation()
        reading.h.advance(5.0)
    elif phase is OrderedPhase.FULL:
        for seq in (1, 2, 3):
            reading.push(seq)
    elif phase is OrderedPhase.DOWN:
        reading.h.lose()
    assert reading.ordered.phase is phase
    reading.h.session.drain(reading.h.now)
    assert isinstance(reading.ordered.error, ConnectionClosedError)


def test_a_heartbeat_shows_what_was_lost_last() -> None:
    reading = Reading()
    reading.push(1)
    reading.status(heartbeat(1, 1))
    assert reading.recreated() == []
    reading.status(heartbeat(2, 5))
    assert reading.recreated() == ["deliveries were lost: 3 where 2 was next"]
    reading.expect_creation()
    assert reading.config["opt_start_seq"] == 2


def test_a_count_that_starts_again_is_another_ones_doing() -> None:
    reading = Reading()
    for seq in (1, 2, 3):
        reading.push(seq)
    reading.count = 0
    reading.push(1)
    assert reading.recreated() == ["it counts anew: 1 where 4 was next"]
    reading.expect_creation()
    assert reading.config["opt_start_seq"] == 4
    reading.created()
    reading.status(heartbeat(0))
    reading.push(4)
    assert reading.take() == [1, 2, 3, 4]


@promise("After a gap, silence, a new leader")
@known_fault("an ordered consumer stalls, or makes one consumer after the other without end")
def test_silence_leads_to_another_consumer_and_then_to_patience() -> None:
    reading = Reading()
    reading.push(1)
    reading.h.advance(2.9)
    assert reading.recreated() == []
    reading.h.advance(0.1)
    assert reading.recreated() == ["nothing came for 3 s"]
    pauses = []
    for _ in range(9):
        reading.expect_creation()
        start = reading.h.now
        reading.h.advance(5.0)  # no answer
        assert reading.ordered.phase is OrderedPhase.PAUSED
        deadline = reading.ordered.deadline()
        assert deadline is not None
        pauses.append(round(deadline - start - 5.0, 6))
        reading.h.advance(pauses[-1])
    assert pauses[:4] == [CREATE_FIRST, 2 * CREATE_FIRST, 4 * CREATE_FIRST, 8 * CREATE_FIRST]
    assert pauses[-2:] == [CREATE_MOST, CREATE_MOST]
    reading.expect_creation()
    reading.created()
    reading.status(heartbeat(0))
    reading.h.advance(3.0)
    assert reading.ordered.recreated == 2
    reading.expect_creation()  # at once: the one before had worked
    assert reading.config["opt_start_seq"] == 2


@promise("After a gap, silence, a new leader")
@known_fault("an ordered consumer stalls, or makes one consumer after the other without end")
@pytest.mark.parametrize(
    ("answer", "header"),
    [(refusal(503, 10008), None), (None, NOBODY)],
    ids=["unavailable", "nobody"],
)
def test_what_may_pass_is_tried_again(answer: dict[str, Any] | None, header: bytes | None) -> None:
    reading = Reading()
    reading.push(1, skip=1)
    reading.expect_creation()
    reading.h.reply_to(reading.request, answer, header)
    assert reading.ordered.phase is OrderedPhase.PAUSED
    reading.h.advance(CREATE_FIRST)
    reading.expect_creation()
    reading.created()
    reading.push(1)
    assert reading.take() == [1]


def test_what_the_server_refuses_for_good_ends_it() -> None:
    reading = Reading()
    reading.push(1)
    reading.push(2, skip=1)
    reading.expect_creation()
    readable = reading.ordered.readable()
    assert readable.done
    assert reading.take() == [1]
    readable = reading.ordered.readable()
    reading.h.reply_to(reading.request, refusal(404, 10059))
    assert isinstance(readable.error, StreamNotFoundError)
    assert readable.error.about == "stream S"
    assert reading.ordered.phase is OrderedPhase.ENDED
    assert isinstance(reading.ordered.ready().error, StreamNotFoundError)
    assert reading.ordered.deadline() is None
    reading.h.sent()
    assert reading.h.subs.keys() <= {b"1", b"2"}


@pytest.mark.parametrize(
    ("answer", "header", "error"),
    [
        (refusal(503, 10008), None, Exception),
        (refusal(404, 10059), None, StreamNotFoundError),
        (None, NOBODY, JetStreamNotAvailableError),
        ({"name": "o_1"}, None, RemoteProtocolError),
    ],
    ids=["unavailable", "stream", "nobody", "junk"],
)
def test_the_first_consumer_is_there_or_there_is_an_error(
    answer: dict[str, Any] | None, header: bytes | None, error: type[Exception]
) -> None:
    reading = Reading(answer=False)
    ready = reading.ordered.ready()
    reading.h.reply_to(reading.request, answer, header)
    assert isinstance(ready.error, error)
    assert isinstance(reading.ordered.error, error)


def test_the_first_consumer_has_its_time() -> None:
    reading = Reading(answer=False)
    ready = reading.ordered.ready()
    reading.h.advance(59.9)
    assert not ready.done
    reading.h.advance(0.1)
    assert isinstance(ready.error, TimeoutError)


def test_the_first_consumer_needs_its_link() -> None:
    reading = Reading(answer=False, session={"max_reconnect_attempts": 9, "reconnect_time_wait": 0.1})
    ready = reading.ordered.ready()
    reading.h.lose()
    assert isinstance(ready.error, ConnectionLostError)


def test_a_junk_answer_later_on_is_passed_over_and_tried_again() -> None:
    reading = Reading()
    reading.push(1, skip=1)
    reading.expect_creation()
    reading.h.reply_to(reading.request, {"name": 3})
    assert reading.ordered.phase is OrderedPhase.PAUSED


@promise("After a gap, silence, a new leader")
def test_a_lost_link_leads_to_another_consumer_on_the_next_one() -> None:
    reading = Reading(session={"max_reconnect_attempts": 9, "reconnect_time_wait": 0.1})
    reading.push(1)
    reading.h.lose()
    assert reading.ordered.phase is OrderedPhase.DOWN
    assert reading.ordered.deadline() is None
    reading.h.advance(60.0)  # silence is no alarm now
    reading.h.connect()
    assert reading.recreated() == ["the link was lost"]
    reading.expect_creation()
    assert reading.config["opt_start_seq"] == 2
    reading.created()
    reading.push(2)
    assert reading.take() == [1, 2]


def test_a_lost_session_ends_it() -> None:
    reading = Reading()
    readable = reading.ordered.readable()
    reading.h.lose()
    assert isinstance(readable.error, ConnectionLostError)
    reading.ordered.anchor_restored(reading.h.now)
    reading.ordered.anchor_lost(ConnectionLostError("again"), reading.h.now)
    assert reading.ordered.phase is OrderedPhase.ENDED


@promise("An ordered reader pauses instead.")
def test_a_full_buffer_pauses_the_reading() -> None:
    reading = Reading(pending_msgs_limit=4)
    for seq in range(1, 6):
        reading.push(seq)
    events = reading.h.events()
    assert [type(event) for event in events] == [SlowConsumer, OrderedConsumerRecreated]
    assert reading.ordered.phase is OrderedPhase.FULL
    assert (reading.ordered.dropped, reading.ordered.last_seq) == (1, 4)
    assert not [asked for asked in reading.h.asked() if ".CREATE." in asked[0]]
    assert reading.take(1) == [1]
    assert reading.ordered.phase is OrderedPhase.FULL
    assert reading.take(1) == [2]
    reading.expect_creation()
    assert reading.config["opt_start_seq"] == 5
    reading.created()
    reading.push(5)
    assert reading.take() == [3, 4, 5]


def test_a_message_larger_than_the_buffer_is_taken_alone() -> None:
    reading = Reading(pending_bytes_limit=10)
    name, deliver = reading.config["name"], reading.config["deliver_subject"]
    reading.h.push(deliver, ack_subject(name, 1), b"1" * 30, b"NATS/1.0\r\nK: v\r\n\r\n")
    assert reading.ordered.pending_bytes == 48
    reading.h.push(deliver, ack_subject(name, 2), b"2")
    assert reading.ordered.phase is OrderedPhase.FULL
    assert len(reading.take()) == 1
    reading.expect_creation()


def test_a_message_that_found_no_room_is_waited_for_until_it_fits() -> None:
    reading = Reading(pending_bytes_limit=10)
    name, deliver = reading.config["name"], reading.config["deliver_subject"]
    for seq, payload in enumerate((b"1", b"2", b"3" * 9), 1):
        reading.h.push(deliver, ack_subject(name, seq), payload)
    assert reading.ordered.phase is OrderedPhase.FULL  # though the buffer is nearly empty
    assert not [asked for asked in reading.h.asked() if ".CREATE." in asked[0]]
    assert reading.take(1) == [1]
    reading.expect_creation()
    assert reading.config["opt_start_seq"] == 3
    assert reading.ordered.recreated == 1


@known_fault("an ordered consumer stalls, or makes one consumer after the other without end")
def test_recreating_waits_for_room_in_the_buffer() -> None:
    reading = Reading(pending_msgs_limit=4)
    for seq in range(1, 4):
        reading.push(seq)
    reading.push(9, skip=1)
    assert reading.ordered.phase is OrderedPhase.FULL
    assert reading.take(2) == [1, 2]
    reading.expect_creation()


def test_what_is_not_its_consumers_is_not_counted() -> None:
    reading = Reading()
    deliver = reading.config["deliver_subject"]
    reading.push(1)
    reading.h.push(deliver, ack_subject("other", 2))
    reading.h.push(deliver, None)
    reading.h.push(deliver, b"$JS.ACK.S.o_1.1.x.y.5.5")
    assert [type(event) for event in reading.h.events()] == [UnexpectedMessage] * 3
    reading.push(2)
    assert reading.take() == [1, 2]
    assert reading.ordered.recreated == 0


def test_a_status_leads_to_another_consumer() -> None:
    reading = Reading()
    reading.status(b"NATS/1.0 404 No Messages\r\n\r\n")
    reading.status(b"NATS/1.0 what\r\n\r\n")
    assert [type(event) for event in reading.h.events()] == [UnexpectedMessage]
    reading.status(b"NATS/1.0 409 Consumer Deleted\r\n\r\n")
    assert reading.recreated() == ["status 409 Consumer Deleted"]


def test_where_a_policy_starts_is_kept_even_before_the_first_message() -> None:
    reading = Reading(ConsumerConfig(filter_subject="s.a", deliver_policy="new"), answer=False)
    assert reading.config["deliver_policy"] == "new"
    reading.created(at=41)
    reading.h.advance(3.0)
    reading.expect_creation()
    assert (reading.config["deliver_policy"], reading.config["opt_start_seq"]) == ("by_start_sequence", 42)


def test_a_start_by_time_is_not_repeated() -> None:
    config = ConsumerConfig(filter_subject="s.a", deliver_policy="by_start_time", opt_start_time=10**18)
    reading = Reading(config, answer=False)
    reading.created(at=5)
    reading.push(9, skip=2)
    reading.expect_creation()
    assert reading.config["opt_start_seq"] == 6
    assert "opt_start_time" not in reading.config


def test_the_last_of_each_subject_is_asked_for_again_until_all_have_come() -> None:
    reading = Reading(ConsumerConfig(filter_subject="s.a", deliver_policy="last_per_subject"), answer=False)
    reading.created(at=3, pending=3)
    reading.push(4, pending=2)
    reading.push(9, skip=1, pending=0)
    reading.expect_creation()
    assert reading.config["deliver_policy"] == "last_per_subject"
    reading.created(at=3, pending=3)
    reading.push(4, pending=2)  # came before
    reading.push(7, pending=1)
    reading.push(9, pending=0)
    reading.push(10, skip=1)
    assert reading.take() == [4, 7, 9]
    reading.expect_creation()
    assert (reading.config["deliver_policy"], reading.config["opt_start_seq"]) == ("by_start_sequence", 10)
    empty = Reading(ConsumerConfig(filter_subject="s.a", deliver_policy="last_per_subject"), answer=False)
    empty.created(pending=0)
    empty.push(5)
    empty.push(6, skip=1)
    empty.expect_creation()
    assert empty.config["opt_start_seq"] == 6


def test_a_delivery_that_does_not_say_what_is_pending_is_none() -> None:
    reading = Reading(ConsumerConfig(filter_subject="s.a", deliver_policy="last_per_subject"))
    reply = ack_subject(reading.config["name"], 1, 4, pending=2).removesuffix(b"2") + b"x"
    reading.h.push(reading.config["deliver_subject"], reply)
    assert [type(event) for event in reading.h.events()] == [UnexpectedMessage]
    reading.push(4, pending=1)
    assert reading.take() == [4]


def test_no_room_to_ask_is_no_end() -> None:
    reading = Reading(session={"pending_size": 2_000})
    session = reading.h.session
    reading.push(1)
    session.publish("other", bytes(3_000))
    name = reading.config["name"]
    reading.ordered.receive(Msg(b"s.a", b"1", ack_subject(name, 3), None, b"3"), reading.h.now)
    assert reading.ordered.phase is OrderedPhase.PAUSED
    reading.h.sent()
    reading.h.advance(CREATE_FIRST)
    reading.expect_creation()
    assert reading.config["opt_start_seq"] == 2


def test_its_end_deletes_the_consumer_and_leaves_what_is_buffered() -> None:
    for verb in ("unsubscribe", "drain"):
        reading = Reading()
        reading.push(1)
        assert getattr(reading.ordered, verb)(reading.h.now).result() is None
        assert getattr(reading.ordered, verb)(reading.h.now).result() is None
        frames = reading.h.sent()
        assert sum(isinstance(frame, Unsub) for frame in frames) == 2
        assert [f.subject for f in frames if isinstance(f, Pub)] == [b"$JS.API.CONSUMER.DELETE.S.o_1"]
        assert reading.take() == [1]
        with pytest.raises(ConnectionClosedError):
            reading.ordered.readable().result()


def test_draining_the_session_ends_it() -> None:
    reading = Reading()
    ticket = reading.h.session.drain(reading.h.now)
    reading.h.sent()
    reading.h.feed(b"PONG\r\n")
    assert ticket.done
    assert reading.ordered.phase is OrderedPhase.ENDED


def test_late_answers_change_nothing() -> None:
    reading = Reading()
    first = reading.request
    reading.push(1, skip=1)
    reading.expect_creation()
    reading.h.reply_to(first, refusal(404, 10059))
    assert reading.ordered.phase is OrderedPhase.CREATING


@pytest.mark.parametrize(
    "options", [{"pending_msgs_limit": 0}, {"config": ConsumerConfig(filter_subject="a b")}], ids=["limit", "filter"]
)
def test_impossible_options(options: dict[str, Any]) -> None:
    with pytest.raises((LocalProtocolError, BadSubjectError)):
        Reading(**options)
    h = Pushing()
    session = h.session
    with pytest.raises(LocalProtocolError):
        OrderedConsumer(
            session, Acker(session, session.requests, JSMsg), api=h.js.api, inbox="_INBOX.o", config=ConsumerConfig(),
            timeout=5.0, now=h.now, stream="S", subject="S", idle_heartbeat=0.0,
        )  # fmt: skip
    assert h.sent() == []


@pytest.mark.parametrize(("only", "named"), [("s.>", ""), ("s.a", ".s.a"), (None, "")])
def test_a_carrier_that_cannot_publish_to_patterns_leaves_them_out(only: str | None, named: str) -> None:
    class Pedantic:
        """A carrier with nothing but what an outbox must have."""

        def __init__(self, session: Session) -> None:
            self._session = session

        def __getattr__(self, name: str) -> Any:
            return getattr(self._session, name)

    h = Pushing()
    OrderedConsumer(
        Pedantic(h.session), Acker(h.session, h.session.requests, JSMsg, wants_acks=False), api=h.js.api,
        inbox="_INBOX.o", config=ConsumerConfig(filter_subject=only), timeout=5.0, now=h.now, stream="S", subject="S",
    )  # fmt: skip
    ((_, _, pub),) = h.asked()
    h.reply_to(pub, {"config": {"name": "S"}, "created": "2026-11-20T21:06:13Z"})
    ((what, body, _),) = h.asked()
    assert what == f"CONSUMER.CREATE.S.o_1{named}"
    assert body["config"].get("filter_subject") == only


@pytest.mark.parametrize("refused", ['Publish to "$JS.API.CONSUMER.CREATE.S.o_1.s.a"', 'Subscription to "_INBOX.o.*"'])
def test_what_may_not_be_asked_or_received_ends_it(refused: str) -> None:
    reading = Reading(answer=False)
    ready = reading.ordered.ready()
    reading.h.feed(b"-ERR 'Permissions Violation for Publish to \"other\"'\r\n")
    assert not ready.done
    reading.h.feed(f"-ERR 'Permissions Violation for {refused}'\r\n".encode())
    assert isinstance(ready.error, PermissionsViolationError)
    later = Reading()
    later.h.feed(b"-ERR 'Permissions Violation for Subscription to \"_INBOX.o.1.m\"'\r\n")
    assert isinstance(later.ordered.error, PermissionsViolationError)


def test_a_lost_link_after_the_end_changes_nothing() -> None:
    reading = Reading(session={"max_reconnect_attempts": 9, "reconnect_time_wait": 0.1})
    reading.ordered.unsubscribe(reading.h.now)
    reading.ordered.anchor_lost(ConnectionLostError("gone"), reading.h.now)
    assert reading.ordered.phase is OrderedPhase.ENDED


# -- a stream that is made again ---------------------------------------------------------------------------------------


def test_a_stream_that_is_the_same_is_read_on_once_that_is_known() -> None:
    reading = known()
    silence(reading)
    assert reading.config["opt_start_seq"] == 4
    reading.created(second=None)
    comparing = reading.ordered.phase
    assert reading.config["deliver_subject"].encode() not in reading.h.subs.values()
    reading.identify(reading.asked_for_identity(), 1)
    assert (comparing, reading.ordered.phase) == (OrderedPhase.COMPARING, OrderedPhase.FOLLOWING)
    reading.push(4)
    assert reading.take() == [1, 2, 3, 4]
    assert not [event for event in reading.h.all_events if isinstance(event, StreamRecreated)]


@pytest.mark.parametrize(
    ("policy", "again"),
    [
        ({}, {"deliver_policy": "all"}),
        ({"deliver_policy": "new"}, {"deliver_policy": "all"}),
        ({"deliver_policy": "last_per_subject"}, {"deliver_policy": "all"}),
        ({"deliver_policy": "by_start_sequence", "opt_start_seq": 1}, {"deliver_policy": "all"}),
        (
            {"deliver_policy": "by_start_time", "opt_start_time": CREATED},
            {"deliver_policy": "by_start_time", "opt_start_time": "2026-11-21T13:37:36.024729669Z"},
        ),
    ],
)
@pytest.mark.parametrize("count", [0, 3])
def test_a_stream_that_was_made_again_is_read_from_its_first_message(
    policy: dict[str, Any], again: dict[str, Any], count: int
) -> None:
    reading = known(ConsumerConfig(filter_subject="s.a", **policy), count=count)
    silence(reading)
    reading.created(at=20, second=2)  # it has as many messages already, and would skip them
    assert not [event for event in reading.h.events() if isinstance(event, StreamRecreated)]
    reading.doubt()
    left = reading.config["name"]
    reading.created(at=20, second=2)
    (told,) = [event for event in reading.h.events() if isinstance(event, StreamRecreated)]
    assert told == StreamRecreated("S", count)
    assert reading.ordered.last_seq == 0
    asked = reading.h.asked()
    assert [what for what, _, _ in asked] == [f"CONSUMER.DELETE.S.{left}", "CONSUMER.CREATE.S.o_4.s.a"]
    _, body, reading.request = asked[1]
    reading.config = body["config"]
    starts = ("deliver_policy", "opt_start_seq", "opt_start_time")
    assert {name: reading.config[name] for name in starts if name in reading.config} == again
    reading.created(at=0, second=2)
    for seq in range(1, 5):
        reading.push(seq)
    assert reading.take() == [*range(1, count + 1), 1, 2, 3, 4]
    silence(reading)
    assert reading.config["opt_start_seq"] == 5
    reading.created(second=2)
    reading.push(5)
    assert reading.take() == [5]


@promise("A stream that was deleted and created again is read from its first message (event `StreamRecreated`)")
def test_a_full_buffer_of_the_old_stream_skips_nothing_of_the_new_one() -> None:
    reading = known(pending_bytes_limit=10)
    silence(reading)
    reading.created(at=3, second=2)
    reading.doubt()
    reading.created(at=3, second=2)
    _, body, reading.request = reading.h.asked()[-1]
    reading.config = body["config"]
    reading.created(at=0, second=2)
    reading.h.push(reading.config["deliver_subject"], ack_subject("o_4", 1, 1), b"000000001")  # finds no room
    assert reading.ordered.phase is OrderedPhase.FULL
    assert reading.ordered.last_seq == 0  # none of the new one was kept
    assert reading.take() == [1, 2, 3]
    reading.expect_creation()
    assert reading.config.get("opt_start_seq") == 1


def test_where_new_messages_begin_is_known_even_if_the_stream_was_empty() -> None:
    reading = known(ConsumerConfig(filter_subject="s.a", deliver_policy="new"), count=0)
    silence(reading)
    assert (reading.config["deliver_policy"], reading.config["opt_start_seq"]) == ("by_start_sequence", 1)


@pytest.mark.parametrize("answer", [refusal(503, 10008), None])
def test_a_stream_that_cannot_be_compared_now_is_compared_later(answer: dict[str, Any] | None) -> None:
    reading = known()
    silence(reading)
    reading.created(second=None)
    if answer is None:
        reading.h.reply_to(reading.asked_for_identity(), None, NOBODY)
    else:
        reading.h.reply_to(reading.asked_for_identity(), answer)
    assert reading.h.asked()[0][0] == "CONSUMER.DELETE.S.o_2"  # without anybody to notice that it is there
    reading.h.advance(CREATE_FIRST)
    reading.expect_creation()
    reading.created(second=None)
    reading.asked_for_identity()
    reading.h.advance(5.0)
    reading.h.advance(CREATE_MOST)
    reading.expect_creation()
    reading.created(second=None)
    late = reading.asked_for_identity()
    reading.identify(late, 1)
    reading.identify(late, 7)  # once is enough
    reading.push(4)
    assert reading.take() == [1, 2, 3, 4]


def test_a_stream_that_is_gone_when_it_is_to_be_compared_ends_it() -> None:
    reading = known()
    silence(reading)
    reading.created(second=None)
    reading.h.reply_to(reading.asked_for_identity(), refusal(404, 10059))
    assert isinstance(reading.ordered.error, StreamNotFoundError)
    again = known()
    silence(again)
    again.created(second=None)
    again.asked_for_identity()
    again.ordered.unsubscribe(again.h.now)
    assert again.h.asked()[0][0] == "CONSUMER.DELETE.S.o_2"


def test_who_may_not_ask_for_the_stream_any_more_reads_on_without_comparing() -> None:
    reading = known()
    silence(reading)
    reading.created(second=None)
    reading.asked_for_identity()
    reading.h.feed(b"-ERR 'Permissions Violation for Publish to \"$JS.API.STREAM.INFO.S\"'\r\n")
    assert reading.ordered.phase is OrderedPhase.FOLLOWING
    reading.h.feed(b"-ERR 'Permissions Violation for Publish to \"$JS.API.STREAM.INFO.S\"'\r\n")  # once more
    reading.push(4)
    silence(reading)
    reading.created(second=None)
    assert reading.h.asked() == []  # it is not asked for again
    reading.push(5)
    assert reading.take() == [1, 2, 3, 4, 5]


def test_no_room_to_ask_for_the_stream_is_no_end() -> None:
    reading = known()
    silence(reading)
    session = reading.h.session
    created = info("o_2", reading.config, delivered={"consumer_seq": 0, "stream_seq": 3})
    session._write_buffer.size, pending = 10**9, session._write_buffer.size
    assert reading.request.reply is not None
    reading.ordered.answered(Msg(reading.request.reply, b"1", None, None, json.dumps(created).encode()), reading.h.now)
    session._write_buffer.size = pending
    assert reading.ordered.phase is OrderedPhase.PAUSED
    reading.h.advance(CREATE_FIRST)
    reading.expect_creation()
    assert reading.ordered.error is None


def test_a_burst_that_finds_no_room_is_taken_one_by_one() -> None:
    reading = Reading(pending_msgs_limit=2)
    deliver, name = reading.config["deliver_subject"], reading.config["name"]
    texts = [encode_msg(b"s.a", reading.h.sid(deliver), ack_subject(name, n), None, b"%d" % n) for n in range(1, 5)]
    reading.h.feed(texts[0])
    reading.h.feed(b"".join(texts[1:]))
    assert reading.take() == [1, 2]
    assert reading.ordered.dropped == 1


def test_a_burst_of_what_comes_again_is_looked_at_one_by_one() -> None:
    config = ConsumerConfig(filter_subject="s.a", deliver_policy="last_per_subject")
    reading = Reading(config, answer=False)
    reading.created(pending=3)
    raws = [(b"s.a", ack_subject("o_1", n, pending=3 - n), None, b"%d" % n) for n in (1, 2, 3)]
    assert reading.ordered.receive_many(raws, 3, reading.h.now) == 0
