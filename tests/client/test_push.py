"""Push consumers against a scripted server: statuses, flow control, gaps, silence, bounds, ends."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.api_errors import ConsumerNotFoundError
from jsproto.client.consume.message import JSMsg
from jsproto.client.consume.push import CHECK_AFTER, DRAIN_TIMEOUT, PushConsumer
from jsproto.client.consume.subscribe import SubscriptionSpec
from jsproto.errors import (
    ConfigMismatchError,
    ConflictError,
    ConnectionClosedError,
    ConnectionLostError,
    ConsumerDeletedError,
    LocalProtocolError,
    NoRespondersError,
    PermissionsViolationError,
    StatusError,
    TimeoutError,
)
from jsproto.events import (
    ConsumerNotDeleted,
    ConsumerRestarted,
    ConsumerSilent,
    DeliveriesLost,
    SlowConsumer,
    UnexpectedMessage,
)
from jsproto.outbox import Conversation
from jsproto.timers import Timer
from jsproto.wire.encoder import PONG
from jsproto.wire.frames import Msg, Pub
from tests.client.pushing import Pushing, ack_subject, heartbeat, info, refusal
from tests.marks import known_fault, promise, requirement

FLOW_CONTROL = b"NATS/1.0 100 FlowControl Request\r\n\r\n"


class Subscribed:
    """A subscription to a consumer ``D`` that it created, or found when ``found``."""

    def __init__(
        self, *, found: bool = False, queue: str | None = None, session: dict[str, Any] | None = None,
        options: dict[str, Any] | None = None, **keywords: Any,
    ) -> None:  # fmt: skip
        self.h = Pushing(**(session or {}))
        options = {"idle_heartbeat": 1.0} if options is None and queue is None else options or {}
        wanted = SubscriptionSpec("s.a", "S", durable="D", queue=queue, options=options)
        ticket = self.h.js.subscribe(wanted, now=self.h.now, message_class=JSMsg, **keywords)
        ((_, _, look),) = self.h.asked()
        if found:
            config = {"ack_policy": "explicit", "deliver_subject": "dlv", "idle_heartbeat": 10**9}
            self.h.reply_to(look, info("D", config))
            self.deliver = "dlv"
        else:
            self.h.reply_to(look, refusal(404, 10014))
            ((_, body, create),) = self.h.asked()
            self.h.reply_to(create, info("D", body["config"]))
            self.deliver = body["config"]["deliver_subject"]
        self.push: PushConsumer[JSMsg] = ticket.result()
        self.h.sent()

    def message(self, consumer_seq: int, payload: bytes = b"x", **keywords: Any) -> None:
        self.h.push(self.deliver, ack_subject("D", consumer_seq, **keywords), payload)

    def status(self, header: bytes, reply: bytes | None = None) -> None:
        self.h.push(self.deliver, reply, b"", header)

    def take(self, most: int = 1000) -> list[bytes]:
        return [message.data for message in self.push.pop_many(most, self.h.now)]

    def answered(self) -> list[bytes]:
        """Flow control subjects answered since the last call."""
        pubs = self.h.published()
        assert all(pub == Pub(pub.subject, None, None, b"") for pub in pubs if pub.subject.startswith(b"$JS.FC"))
        return [pub.subject for pub in pubs if pub.subject.startswith(b"$JS.FC")]


# -- messages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("v2", [False, True])
def test_messages_come_in_order_and_can_be_acknowledged(v2: bool) -> None:
    s = Subscribed()
    readable = s.push.readable()
    assert s.push.readable() is readable
    for n in range(1, 6):
        s.message(n, b"%d" % n, v2=v2)
    assert readable.result() is None
    assert s.push.readable().done
    assert (s.push.pending_msgs, s.push.pending_bytes) == (5, 5)
    first, second = s.push.pop_many(2, s.h.now)
    assert (first.data, second.data, s.push.pending_bytes) == (b"1", b"2", 3)
    assert first.metadata.sequence.stream == 1
    first.ack()
    assert s.push.acker.ack_many([first, second]) == 1
    assert [pub.payload for pub in s.h.published()] == [b"+ACK", b"+ACK"]
    assert s.take() == [b"3", b"4", b"5"]
    assert s.take() == []


@requirement(205)
def test_what_is_no_message_of_jetstream_is_passed_over() -> None:
    for queue in (None, "Q"):
        s = Subscribed(queue=queue)
        s.h.push(s.deliver, None, b"plain")
        s.h.push(s.deliver, b"_INBOX.reply", b"plain")
        assert [type(event) for event in s.h.events()] == [UnexpectedMessage] * 2
        s.message(1)
        assert s.take() == [b"x"]


@requirement(229)
@promise("every message at most once, in order, until a server is killed")
@promise("every message at most once, in order, until a server is killed: messages may then")
def test_gaps_and_restarts_are_told() -> None:
    s = Subscribed()
    s.message(1)
    s.message(4)
    s.status(heartbeat(6))
    s.message(1)
    s.status(heartbeat(1))
    assert s.h.events() == [
        DeliveriesLost("S", "D", 2, 3), DeliveriesLost("S", "D", 5, 6), ConsumerRestarted("S", "D", 7, 1)
    ]  # fmt: skip
    assert len(s.take()) == 3


@requirement(228)
@promise("every message at most once, in order, until a server is killed")
@promise("every message at most once, in order, until a server is killed: messages may then")
def test_nobody_in_a_queue_group_looks_for_gaps() -> None:
    s = Subscribed(queue="Q")
    for n in (3, 9, 5):
        s.message(n)
    s.status(heartbeat(77))
    assert s.h.events() == []
    assert len(s.take()) == 3


def test_a_consumer_that_was_there_may_be_anywhere() -> None:
    s = Subscribed(found=True)
    s.message(900)
    s.message(902)
    assert s.h.events() == [DeliveriesLost("S", "D", 901, 901)]


# -- statuses ----------------------------------------------------------------------------------------------------------


@requirement(231)
@known_fault("flow control is answered by a timer")
def test_flow_control_is_answered_when_it_is_reached() -> None:
    s = Subscribed()
    s.message(1, b"1")
    s.message(2, b"2")
    s.status(FLOW_CONTROL, b"$JS.FC.S.D.a")
    s.message(3, b"3")
    s.status(FLOW_CONTROL, b"$JS.FC.S.D.b")
    assert s.push.pending_msgs == 3
    assert s.take(1) == [b"1"]
    assert s.take() == [b"2"]  # what follows the marker was not asked for yet
    assert s.answered() == []
    assert s.take() == [b"3"]
    assert s.answered() == [b"$JS.FC.S.D.a"]
    assert s.take() == []
    assert s.answered() == [b"$JS.FC.S.D.b"]
    s.push.readable()
    s.status(FLOW_CONTROL, b"$JS.FC.S.D.c")
    assert s.answered() == [b"$JS.FC.S.D.c"]  # it is waited for


@requirement(233, 235, 236)
def test_what_is_stalled_is_answered_once() -> None:
    s = Subscribed()
    s.message(1)
    s.status(heartbeat(1, stalled="$JS.FC.S.D.a"))
    s.status(FLOW_CONTROL, b"$JS.FC.S.D.a")
    assert s.answered() == []
    assert s.take() == [b"x"]
    assert s.take() == []
    assert s.answered() == [b"$JS.FC.S.D.a"]
    s.push.readable()
    s.status(heartbeat(1, stalled="$JS.FC.S.D.a"))
    assert s.answered() == []
    s.status(heartbeat(1, stalled="$JS.FC._.hash.S.D.b"))
    assert s.answered() == [b"$JS.FC._.hash.S.D.b"]


def test_an_answer_may_have_been_lost_with_the_link() -> None:
    s = Subscribed(session={"max_reconnect_attempts": 9, "reconnect_time_wait": 0.1})
    s.push.readable()
    s.status(FLOW_CONTROL, b"$JS.FC.S.D.a")
    assert s.answered() == [b"$JS.FC.S.D.a"]
    s.h.lose()
    s.h.advance(1.0)
    s.h.connect()
    s.h.sent()
    s.status(heartbeat(0, stalled="$JS.FC.S.D.a"))
    assert s.answered() == [b"$JS.FC.S.D.a"]


def test_an_answer_waits_for_room() -> None:
    s = Subscribed(session={"pending_size": 1_000})
    session = s.h.session
    s.push.readable()
    session.publish("other", bytes(2_000))
    s.push.receive(_status(s, FLOW_CONTROL, b"$JS.FC.S.D.a"), s.h.now)
    assert s.answered() == []
    s.status(heartbeat(0, stalled="$JS.FC.S.D.a"))
    assert s.answered() == [b"$JS.FC.S.D.a"]


def _status(s: Subscribed, header: bytes, reply: bytes) -> Any:
    from jsproto.wire.frames import Msg

    return Msg(s.deliver.encode(), b"9", reply, header, b"")


def test_flow_control_to_nowhere_is_passed_over() -> None:
    s = Subscribed()
    s.push.readable()
    for subject in ("a..b", "\udcff"):
        s.status(b"NATS/1.0 100 Idle Heartbeat\r\nNats-Consumer-Stalled: " + subject.encode("utf-8", "surrogateescape")
                 + b"\r\n\r\n")  # fmt: skip
    assert [type(event) for event in s.h.events()] == [UnexpectedMessage] * 2
    assert s.h.published() == []


@requirement(221)
@pytest.mark.parametrize(
    "header",
    [
        b"NATS/1.0 100 Idle Heartbeat\r\n\r\n",
        b"NATS/1.0 404 No Messages\r\n\r\n",
        b"NATS/1.0 408 Request Timeout\r\n\r\n",
    ],
)
def test_statuses_are_hidden(header: bytes) -> None:
    s = Subscribed()
    s.status(header)
    assert s.h.events() == []
    assert s.take() == []
    assert s.push.error is None


@pytest.mark.parametrize(
    "header",
    [b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: x\r\n\r\n", b"NATS/1.0 ???\r\n\r\n",
     b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 111111111111111111111111\r\n\r\n"],
)  # fmt: skip
def test_malformed_statuses_change_nothing(header: bytes) -> None:
    s = Subscribed()
    s.status(header)
    assert [type(event) for event in s.h.events()] == [UnexpectedMessage]
    assert s.push.error is None


@requirement(238, 240, 241)
@pytest.mark.parametrize(
    ("header", "error"),
    [
        (b"NATS/1.0 409 Consumer Deleted\r\n\r\n", ConsumerDeletedError),
        (b"NATS/1.0 409 Whatever\r\n\r\n", ConflictError),
        (b"NATS/1.0 503\r\n\r\n", NoRespondersError),
        (b"NATS/1.0 777 Unheard Of\r\n\r\n", StatusError),
    ],
)
def test_statuses_that_are_errors_end_it(header: bytes, error: type[Exception]) -> None:
    s = Subscribed()
    s.message(1)
    s.status(header)
    assert s.take() == [b"x"]
    with pytest.raises(error):
        s.push.readable().result()


@requirement(222)
def test_raw_statuses_are_given_out_and_nothing_is_done_about_them() -> None:
    s = Subscribed(raw=True)
    s.status(heartbeat(7, stalled="$JS.FC.S.D.a"))
    s.status(FLOW_CONTROL, b"$JS.FC.S.D.b")
    s.message(5)
    s.h.push(s.deliver, None, b"plain")
    s.h.advance(60.0)
    first, *rest = s.push.pop_many(9, s.h.now)
    assert first.headers["Nats-Last-Consumer"] == "7"
    assert len(rest) == 3
    for message in (first, *rest):  # what is no delivery is nothing to acknowledge
        message.ack()
        message.in_progress()
    s.push.acker.ack_many([first, *rest])
    assert [pub.subject.startswith(b"$JS.ACK.") for pub in s.h.published()] == [True]
    assert s.answered() == []
    assert s.h.events() == []


def silences(s: Subscribed) -> list[float]:
    """How long each silence was that was told since the last call."""
    return [event.seconds for event in s.h.events() if isinstance(event, ConsumerSilent)]


# -- silence -----------------------------------------------------------------------------------------------------------


@requirement(223, 224, 225)
@promise("A consumer that pushes is looked for when it is silent for three heartbeats")
@promise("Three heartbeats missed are the event `ConsumerSilent`")
@known_fault("two heartbeats missed are an alarm, or none is told at all")
def test_three_heartbeats_missed_are_an_alarm_once() -> None:
    s = Subscribed()
    s.h.advance(2.0)
    s.status(heartbeat(0))
    s.h.advance(2.5)
    s.message(1)
    s.h.advance(2.9)
    assert s.h.events() == []
    s.h.advance(0.1)
    assert silences(s) == [pytest.approx(3.0)]
    ((what, _, look),) = s.h.asked()
    assert what == "CONSUMER.INFO.S.D"
    s.h.reply_to(look, info("D", {"deliver_subject": s.deliver}))
    s.h.advance(3.0)  # still silent: looked after, not told again
    ((_, _, look),) = s.h.asked()
    assert s.h.events() == []
    s.h.advance(5.0)  # no answer
    s.h.asked()
    s.message(2)
    s.h.advance(3.0)
    assert silences(s) == [pytest.approx(3.0)]
    assert s.push.error is None


@requirement(224)
def test_how_many_heartbeats_is_a_choice() -> None:
    s = Subscribed(heartbeats_missed=5.0)
    s.h.advance(4.9)
    assert s.h.events() == []
    s.h.advance(0.1)
    assert len(s.h.events()) == 1


@promise("A consumer that pushes is looked for when it is silent for three heartbeats")
@known_fault("whoever waits for a consumer that is not there waits for ever, or for long")
@pytest.mark.parametrize(("queue", "options"), [("D", None), (None, {"idle_heartbeat": 0.0})])
def test_without_heartbeats_silence_is_no_alarm_but_the_consumer_is_looked_for(queue: Any, options: Any) -> None:
    s = Subscribed(queue=queue, options=options)
    readable = s.push.readable()
    s.h.advance(CHECK_AFTER - 1)
    s.message(1)
    s.h.advance(CHECK_AFTER - 1)
    assert s.h.asked() == []
    s.h.advance(1)
    ((what, _, look),) = s.h.asked()
    assert what == "CONSUMER.INFO.S.D"
    s.h.reply_to(look, info("D", {"deliver_subject": s.deliver}))
    s.h.advance(CHECK_AFTER)
    ((_, _, look),) = s.h.asked()
    assert s.h.events() == []
    assert s.take() == [b"x"]
    readable = s.push.readable()
    s.h.reply_to(look, refusal(404, 10014))
    assert isinstance(readable.error, ConsumerNotFoundError)
    assert s.push.deadline() is None


def test_who_may_not_look_for_a_consumer_without_heartbeats_looks_once() -> None:
    for queue, looks in (("D", 1), (None, 2)):
        s = Subscribed(queue=queue, session={"max_reconnect_attempts": -1})
        for _ in range(2):
            s.h.advance(CHECK_AFTER)
            if s.h.asked():
                looks -= 1
                s.h.feed(b"-ERR 'Permissions Violation for Publish to \"$JS.API.CONSUMER.INFO.S.D\"'\r\n")
        assert looks == 0
        assert s.push.error is None
        s.h.lose()
        s.h.connect()
        assert (s.push.deadline() is None) == (queue is not None)


def test_a_consumer_that_delivers_elsewhere_ends_it() -> None:
    s = Subscribed()
    s.h.advance(3.0)
    ((_, _, look),) = s.h.asked()
    s.h.reply_to(look, info("D", {"deliver_subject": "somewhere.else"}))
    with pytest.raises(ConfigMismatchError, match="deliver_subject"):
        s.push.readable().result()
    s.push.unsubscribe(s.h.now)
    assert s.h.asked() == []  # it is somebody else's now


@known_fault("whoever waits for a consumer that is not there waits for ever, or for long")
def test_a_consumer_that_is_gone_ends_it() -> None:
    s = Subscribed()
    readable = s.push.readable()
    s.h.advance(3.0)
    ((_, _, look),) = s.h.asked()
    s.h.reply_to(look, refusal(404, 10014))
    assert isinstance(readable.error, ConsumerNotFoundError)
    assert s.push.deadline() is None
    assert s.push.unsubscribe(s.h.now).done  # there is nothing to delete


@requirement(226)
@promise("Three heartbeats missed are the event `ConsumerSilent`")
@known_fault("a missed heartbeat is told although the link was down")
def test_silence_does_not_count_while_the_link_is_down() -> None:
    s = Subscribed(session={"max_reconnect_attempts": 99, "reconnect_time_wait": 0.1})
    s.h.advance(2.0)
    s.h.lose()
    s.h.advance(60.0)
    s.h.events()
    s.h.connect()
    s.h.events()
    s.h.advance(2.9)
    assert s.h.events() == []
    s.h.advance(0.1)
    assert [type(event) for event in s.h.events()] == [ConsumerSilent]


def test_a_lost_session_ends_it() -> None:
    s = Subscribed()
    readable = s.push.readable()
    s.h.lose()
    assert isinstance(readable.error, ConnectionLostError)
    assert s.push.unsubscribe(s.h.now).done


def test_a_link_that_is_lost_before_the_consumer_is_there() -> None:
    h = Pushing(max_reconnect_attempts=9, reconnect_time_wait=0.1)
    ticket = h.js.subscribe(SubscriptionSpec("s.a", "S"), now=h.now, message_class=JSMsg)
    h.lose()
    assert isinstance(ticket.error, ConnectionLostError)
    h.connect()
    assert h.session.deadline() is None or len(h.subs) <= 1


# -- bounds ------------------------------------------------------------------------------------------------------------


@promise("A subscriber that is pushed more than `pending_msgs_limit`")
@known_fault("slow consumers are counted wrongly, or not told")
@given(st.lists(st.integers(0, 30)), st.integers(1, 5), st.integers(1, 60))
def test_the_buffer_is_bounded_by_both_limits(sizes: list[int], most: int, most_bytes: int) -> None:
    s = Subscribed(pending_msgs_limit=most, pending_bytes_limit=most_bytes)
    for number, size in enumerate(sizes, 1):
        s.message(number, b"x" * size)
    kept = s.take()
    assert len(kept) + s.push.dropped == len(sizes)
    assert len(kept) <= most
    assert sum(map(len, kept)) <= max(most_bytes, len(kept[0]) if kept else 0)
    slow = [event for event in s.h.events() if isinstance(event, SlowConsumer)]
    assert len(slow) == (s.push.dropped > 0)
    s.message(len(sizes) + 1)
    assert s.h.events() == []  # what was dropped had come: no gap
    assert s.take() == [b"x"]


def test_no_buffer_at_all_is_a_mistake() -> None:
    h = Pushing()
    h.js.subscribe(SubscriptionSpec("s.a", "S"), now=h.now, message_class=JSMsg)
    impossible: list[dict[str, Any]] = [{"pending_msgs_limit": 0}, {"pending_bytes_limit": 0}]
    for limits in impossible:
        with pytest.raises(LocalProtocolError):
            h.js.subscribe(SubscriptionSpec("s.a", "S"), now=h.now, message_class=JSMsg, **limits)


# -- ends --------------------------------------------------------------------------------------------------------------


def test_unsubscribing_waits_for_the_deletion() -> None:
    s = Subscribed()
    s.message(1)
    ticket = s.push.unsubscribe(s.h.now)
    assert s.push.unsubscribe(s.h.now) is ticket
    ((what, _, delete),) = s.h.asked()
    assert what == "CONSUMER.DELETE.S.D"
    assert not ticket.done
    s.h.reply_to(delete, {"success": True})
    assert ticket.result() is None
    assert s.take() == [b"x"]
    with pytest.raises(ConnectionClosedError):
        s.push.readable().result()


@promise("That is done no later than ``DRAIN_TIMEOUT`` seconds from now.")
def test_unsubscribing_tells_why_a_consumer_cannot_be_deleted() -> None:
    s = Subscribed()
    ticket = s.push.unsubscribe(s.h.now)
    s.h.advance(5.0)
    assert isinstance(ticket.error, TimeoutError)
    s = Subscribed()
    ticket = s.push.unsubscribe(s.h.now)
    ((_, _, delete),) = s.h.asked()
    s.h.reply_to(delete, refusal(404, 10014))
    assert ticket.result() is None  # somebody else did it


@requirement(200, 201)
def test_a_consumer_that_was_there_stays() -> None:
    for s in (Subscribed(found=True), Subscribed(queue="Q"), Subscribed(delete_consumer=False)):
        assert s.push.unsubscribe(s.h.now).done
        assert s.h.asked() == []
    s = Subscribed(queue="Q", delete_consumer=True)
    s.push.unsubscribe(s.h.now)
    assert len(s.h.asked()) == 1


def drain(s: Subscribed, *under_way: int) -> None:
    ticket = s.push.drain(s.h.now)
    subs = dict(s.h.subs)
    s.h.sent()
    s.h.subs = subs
    for number in under_way:
        s.message(number)
    s.h.subs.pop(s.h.sid(s.deliver))
    s.h.feed(PONG)
    assert ticket.result() is None


@requirement(203)
def test_draining_deletes_when_all_was_dealt_with() -> None:
    s = Subscribed()
    s.message(1)
    drain(s, 2)
    assert s.take(1) == [b"x"]
    assert s.take(1) == [b"x"]
    assert s.h.asked() == []
    assert s.take(1) == []
    ((what, _, delete),) = s.h.asked()
    assert what == "CONSUMER.DELETE.S.D"
    s.h.reply_to(delete, {"success": True})
    assert s.take(1) == []
    assert s.h.asked() == []
    assert s.h.events() == []
    assert s.push.deadline() is None
    assert isinstance(s.push.readable().error, ConnectionClosedError)


def test_draining_deletes_at_once_when_the_application_waits_already() -> None:
    s = Subscribed()
    readable = s.push.readable()
    ticket = s.push.drain(s.h.now)
    s.h.sent()
    s.h.feed(PONG)
    assert isinstance(readable.error, ConnectionClosedError)
    ((_, _, delete),) = s.h.asked()
    assert not ticket.done
    s.h.reply_to(delete, {"success": True})
    assert ticket.result() is None


@requirement(203)
@promise("every end has its deadline")
@promise("That is done no later than ``DRAIN_TIMEOUT`` seconds from now.")
@known_fault("a drain hangs, or loses what is buffered")
def test_draining_deletes_in_the_end_whoever_does_not_take_the_rest() -> None:
    s = Subscribed()
    s.message(1)
    drain(s)
    s.h.advance(DRAIN_TIMEOUT)
    assert len(s.h.asked()) == 1
    s.h.advance(5.0)
    (event,) = s.h.events()
    assert isinstance(event, ConsumerNotDeleted)
    assert isinstance(event.error, TimeoutError)
    assert s.take() == [b"x"]
    s.push.drain(s.h.now)
    assert Timer.DRAINED not in s.push._timers


def test_draining_the_session_waits_for_the_deletion() -> None:
    s = Subscribed()
    s.message(1)
    ticket = s.h.session.drain(s.h.now)
    s.h.sent()
    s.h.feed(PONG)
    ((what, _, delete),) = s.h.asked()
    assert what == "CONSUMER.DELETE.S.D"
    assert not ticket.done
    s.h.reply_to(delete, {"success": True})
    assert ticket.done


@known_fault("a drain hangs, or loses what is buffered")
def test_a_link_that_is_lost_ends_a_drain() -> None:
    s = Subscribed(session={"max_reconnect_attempts": 9, "reconnect_time_wait": 0.1})
    s.message(1)
    ticket = s.push.drain(s.h.now)
    s.h.sent()
    s.h.lose()
    assert isinstance(ticket.error, ConnectionLostError)
    assert s.take() == [b"x"]
    with pytest.raises(ConnectionClosedError):
        s.push.readable().result()
    s.h.connect()


def test_drainable_is_an_interface() -> None:
    from jsproto.client.connection.subscription import Drainable
    from jsproto.client.consume.push_buffer import PushBuffer

    drainable: Any = Drainable()
    assert isinstance(drainable, Conversation)
    for verb, arguments in (("end_interest", ()), ("end_drain", (0.0, False))):
        with pytest.raises(NotImplementedError):
            getattr(drainable, verb)(*arguments)
    s = Subscribed()
    with pytest.raises(NotImplementedError):
        PushBuffer._inspect(s.push, Msg(b"s", b"1", None, None, b""), b"", 0.0)
    for verb in ("_broken", "_silent", "_refused"):
        with pytest.raises(NotImplementedError):
            getattr(PushBuffer, verb)(s.push, None, 0.0)
    PushBuffer._handle_timer(s.push, Timer.DRAINED, 0.0)


def test_unsubscribing_in_the_middle_of_a_drain() -> None:
    s = Subscribed()
    ticket = s.push.drain(s.h.now)
    deletion = s.push.unsubscribe(s.h.now)
    ((_, _, delete),) = s.h.asked()
    s.h.reply_to(delete, {"success": True})
    s.h.feed(PONG)
    assert deletion.done
    assert ticket.done
    assert "closed" in str(s.push.error)


def test_what_may_not_be_received_ends_it() -> None:
    s = Subscribed()
    s.h.feed(b"-ERR 'Permissions Violation for Publish to \"other\"'\r\n")
    assert s.push.error is None
    s.h.feed(f"-ERR 'Permissions Violation for Subscription to \"{s.deliver}\"'\r\n".encode())
    assert isinstance(s.push.error, PermissionsViolationError)


def test_a_consumer_that_comes_too_late_is_not_listened_to() -> None:
    s = Subscribed()
    s.push.unsubscribe(s.h.now)
    assert s.push.info is not None
    s.push.bound(s.push.info, owned=False, now=s.h.now)
    s.push.link_restored(s.h.now)
    assert Timer.HEARTBEAT not in s.push._timers
