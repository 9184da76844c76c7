"""The sourcing end of a consumer against a scripted server: claims, resets, answers, and what goes wrong."""

from __future__ import annotations

import pickle
from contextlib import suppress
from typing import Any

import pytest

from jsproto.api_errors import ConsumerNotFoundError
from jsproto.client.consume.message import Acker, JSMsg
from jsproto.client.consume.resuming import ANSWER_WITHIN, ResumingBuffer
from jsproto.client.consume.sourcing import SourcingConsumer
from jsproto.errors import (
    APIError,
    ConfigMismatchError,
    ConnectionClosedError,
    ConnectionLostError,
    LocalProtocolError,
    OutboundBufferLimitError,
    PermissionsViolationError,
    SourceBusyError,
    SourcePositionError,
    SourceScheduleError,
    TimeoutError,
)
from jsproto.events import (
    ConsumerRestarted,
    SchedulePassedOver,
    SlowConsumer,
    SourceBusy,
    SourceReset,
    SourceSkipped,
    StreamRecreated,
    UnexpectedMessage,
)
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.grammar.headers import Headers
from jsproto.grammar.position import StreamPosition
from jsproto.grammar.times import format_timestamp
from jsproto.rules.position import ELECTION
from jsproto.rules.sourcing_phases import SourcingPhase
from jsproto.wire.encoder import encode_msg
from jsproto.wire.frames import Msg, Pub
from tests.client.pushing import CREATED, Pushing, ack_subject, heartbeat, info, refusal
from tests.marks import promise, requirement

FLOW = b"NATS/1.0 100 FlowControl Request\r\n\r\n"
OWN = "_INBOX.o.d.m"
CONFIG = ConsumerConfig(ack_policy="flow_control")


class Sourcing:
    """A sourcing end, and the server's side of its consumer."""

    def __init__(self, *, run: bool = True, session: dict[str, Any] | None = None, **options: Any) -> None:
        self.h = Pushing(**(session or {}))
        inner = self.h.session
        acker = Acker(inner, inner.requests, JSMsg, wants_acks=False)
        self.config: dict[str, Any] = {"ack_policy": "flow_control"}
        self.machine = SourcingConsumer(
            inner, acker, api=self.h.js.api, inbox="_INBOX.o", consumer="C", stream="S", subject="C", now=self.h.now,
            **{"config": CONFIG, **options},
        )  # fmt: skip
        if run:
            self.claim(deliver=OWN)
            self.reset()

    def expect(self, verb: str) -> tuple[dict[str, Any], Pub]:
        """The one request under way."""
        ((asked, body, pub),) = self.h.asked()
        assert asked == f"CONSUMER.{verb}.S.C"
        return body, pub

    def claim(self, deliver: str = "old", floor: int = 0, **config: Any) -> None:
        """The server describes the consumer."""
        _, pub = self.expect("INFO")
        self.config = {"ack_policy": "flow_control", "deliver_subject": deliver, **config}
        self.h.reply_to(pub, info("C", self.config, ack_floor={"consumer_seq": floor, "stream_seq": floor}))

    def look_up(self) -> Pub:
        """The one request under way is for the stream."""
        ((asked, _, pub),) = self.h.asked()
        assert asked == "STREAM.INFO.S"
        return pub

    def reset(
        self, floor: int = 0, identity: str | None = None, payload: bytes = b"", *, is_proved: bool = True
    ) -> None:
        """The server has reset the consumer. ``is_proved``: it has the message at the position, if it is asked."""
        asked = self.h.asked()
        if [what for what, _, _ in asked] == ["STREAM.INFO.S"]:  # the stream is beyond the position
            self.h.reply_to(asked[0][2], kept("limits"))
            asked = self.h.asked()
        pub = next(pub for what, _, pub in asked if what == "CONSUMER.RESET.S.C")
        assert (pub.payload, pub.header) == (payload, b"NATS/1.0\r\nNats-Stream-Identity: \r\n\r\n")
        header = None if identity is None else b"NATS/1.0\r\nNats-Stream-Identity: %b\r\n\r\n" % identity.encode()
        body = info("C", self.config, ack_floor={"consumer_seq": 0, "stream_seq": floor})
        self.h.reply_to(pub, body | {"reset_seq": floor + 1}, header)
        if is_proved and self.machine.phase is SourcingPhase.PROVING:
            self.show(self.machine.received)

    def again(self) -> None:
        """The consumer is claimed again, and reset."""
        self.claim(OWN)
        self.reset()

    def look_at(self) -> tuple[dict[str, Any], Pub]:
        """The one request under way is for a message of the stream."""
        ((asked, body, pub),) = self.h.asked()
        assert asked == "STREAM.MSG.GET.S"
        return body, pub

    def show(self, seq: int | None, time: int = CREATED) -> dict[str, Any]:
        """The server shows a message of the stream, or that there is none. Returns: what was asked."""
        body, pub = self.look_at()
        found = {"message": {"subject": "s.a", "seq": seq, "time": format_timestamp(time)}}
        self.h.reply_to(pub, refusal(404, 10037) if seq is None else found)
        return body

    def message(self, consumer_seq: int, stream_seq: int, payload: bytes | None = None) -> None:
        reply = ack_subject("C", consumer_seq, stream_seq)
        self.h.push(OWN, reply, b"%d" % stream_seq if payload is None else payload)

    def messages(self, *numbers: int) -> None:
        """Messages with the same numbers in the consumer and the stream, at once."""
        sid = self.h.sid(OWN)
        self.h.feed(b"".join(encode_msg(b"s.a", sid, ack_subject("C", n), None, b"%d" % n) for n in numbers))

    def flow(self, subject: str = "$JS.FC.S.C.1") -> None:
        self.h.push(OWN, subject.encode(), b"", FLOW)

    def beat(self, last: int | str, stalled: str | None = None) -> None:
        self.h.push(OWN, None, b"", heartbeat(last, 0, stalled))

    def take(self, most: int = 100) -> list[int]:
        return [int(message.data) for message in self.machine.pop_many(most, self.h.now)]

    def confirm(self, seq: int) -> None:
        self.machine.confirm(seq, self.h.now)

    def answers(self) -> list[tuple[str, int, int] | str]:
        """What was answered since the last call: the subject, and both sequences unless it was empty."""
        found: list[tuple[str, int, int] | str] = []
        for pub in self.h.published():
            subject = pub.subject.decode()
            if subject.startswith("$JS.FC.") and pub.header is None:
                found.append(subject)
            elif pub.header is not None and subject.startswith("$JS.FC."):
                headers = Headers.parse(pub.header)
                found.append((subject, int(headers["Nats-Last-Consumer"]), int(headers["Nats-Last-Stream"])))
            assert pub.payload == b"" or not subject.startswith("$JS.FC.")
        return found

    def told(self, *kinds: type) -> list[Any]:
        return [event for event in self.h.events() if isinstance(event, kinds)]


@requirement(266)
def test_a_consumer_is_created_claimed_reset_and_only_then_subscribed_to() -> None:
    s = Sourcing(run=False)
    assert not s.machine.ready().done
    _, look = s.expect("INFO")
    s.h.reply_to(look, refusal(404, 10014))
    body, create = s.expect("CREATE")
    assert body["action"] == "create"
    assert body["config"]["durable_name"] == body["config"]["name"] == "C"
    assert body["config"]["deliver_subject"] == OWN
    s.h.reply_to(create, info("C", body["config"]))
    assert OWN.encode() not in s.h.subs.values()
    s.reset(identity="ID")
    assert s.machine.phase is SourcingPhase.RUNNING
    assert s.machine.ready().result() is None
    assert s.machine.identity == "ID"
    assert s.h.sid(OWN)


def test_a_first_claim_has_its_time() -> None:
    s = Sourcing(run=False, within=3.0)
    for _ in range(2):  # attempts are repeated until then
        s.claim("old")
        _, update = s.expect("CREATE")
        s.h.reply_to(update, refusal(400, 10013))
        s.h.advance(1.0)
    s.h.advance(2.0)
    with pytest.raises(SourceBusyError, match="consumer C of stream S"):
        s.machine.ready().result()
    assert s.machine.phase is SourcingPhase.ENDED
    assert s.h.subs == {}


def test_a_server_that_does_not_answer_a_first_claim() -> None:
    s = Sourcing(run=False, within=3.0)
    s.expect("INFO")
    s.h.advance(3.0)
    with pytest.raises(TimeoutError, match="could not be claimed in time"):
        s.machine.ready().result()


def test_a_claim_after_the_first_has_no_end() -> None:
    s = Sourcing(within=3.0)
    s.h.advance(2.0)
    s.beat(0)
    s.h.advance(2.0)
    assert s.machine.error is None


def test_a_sink_learns_that_only_a_confirmation_helps() -> None:
    s = Sourcing()
    s.messages(1, 2)
    assert not s.machine.awaits_confirm
    s.flow()
    assert not s.machine.awaits_confirm
    assert s.take(1) == [1]
    assert not s.machine.awaits_confirm
    assert s.take() == [2]
    assert s.machine.awaits_confirm
    s.confirm(1)
    assert s.answers() == [("$JS.FC.S.C.1", 1, 1)]
    assert not s.machine.awaits_confirm
    s.flow("$JS.FC.S.C.2")
    assert s.machine.awaits_confirm
    s.confirm(2)
    assert not s.machine.awaits_confirm


def test_the_verb_of_the_core() -> None:
    h = Pushing()
    machine = h.js.source("S", "C", position=7, now=h.now, message_class=JSMsg)
    assert (machine.stream, machine.consumer, machine.position) == ("S", "C", 7)
    assert [asked for asked, _, _ in h.asked()] == ["CONSUMER.INFO.S.C"]


def test_who_is_in_the_way_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(SourceBusyError("S", "C")))
    assert (error.stream, error.consumer, str(error)) == ("S", "C", str(SourceBusyError("S", "C")))


def kept(
    retention: str = "workqueue", *, messages: int = 3, first: int = 1, last: int = 9, last_time: int = CREATED
) -> dict[str, Any]:
    """A stream of which ``first`` is the first message, as the server describes it."""
    state: dict[str, Any] = {
        "messages": messages,
        "bytes": 9,
        "first_seq": first,
        "last_seq": last,
        "consumer_count": 1,
    }
    state["last_ts"] = format_timestamp(last_time)
    config = {"name": "S", "retention": retention}
    return {"config": config, "created": "2026-11-20T21:06:13Z", "state": state}


@pytest.mark.parametrize("first", [1, 5, 7])
def test_what_a_work_queue_kept_though_it_was_acknowledged_comes_again(first: int) -> None:
    s = Sourcing(run=False, position=8)
    s.claim(OWN, floor=7)
    s.h.reply_to(s.look_up(), kept(first=first))
    s.reset(first - 1, payload=b'{"seq":%d}' % first)
    s.message(1, first)
    s.message(2, 9)
    assert s.take() == [9]
    s.flow()
    assert s.answers() == [("$JS.FC.S.C.1", 1, first)]  # it is stored: the server deletes it


@pytest.mark.parametrize(
    "answer",
    [kept(first=8), kept("limits"), kept("interest"), kept(messages=0), refusal(404, 10059), {"config": 1}, {}],
)
def test_a_reset_is_plain_where_nothing_was_kept_or_nobody_says_so(answer: Any) -> None:
    s = Sourcing(run=False)
    s.claim(OWN, floor=7)
    s.h.reply_to(s.look_up(), answer or None)
    s.reset(7)
    assert s.machine.phase is SourcingPhase.RUNNING


def test_a_stream_that_may_not_be_looked_up() -> None:
    s = Sourcing(run=False)
    s.claim(OWN, floor=7)
    s.look_up()
    for _ in range(2):  # the second time it is not asked for any more
        s.h.feed(b"-ERR 'Permissions Violation for Publish to \"$JS.API.STREAM.INFO.S\"'\r\n")
    s.reset(7)
    assert s.machine.phase is SourcingPhase.RUNNING


def test_what_a_shared_work_queue_has_is_left_to_the_others() -> None:
    s = Sourcing(run=False)
    s.claim(OWN, floor=7, sourcing=True)
    s.reset(7)
    assert s.machine.phase is SourcingPhase.RUNNING


def test_a_consumer_of_another_owner_is_waited_for() -> None:
    s = Sourcing(run=False)
    for _ in range(3):
        s.claim("old")
        body, update = s.expect("CREATE")
        assert (body["action"], body["config"]["deliver_subject"]) == ("update", OWN)
        s.h.reply_to(update, refusal(400, 10013))
        assert s.machine.phase is SourcingPhase.PAUSED
        s.h.advance(1.0)
    assert len(s.told(SourceBusy)) == 1
    s.claim(OWN)
    s.reset()
    assert s.machine.phase is SourcingPhase.RUNNING


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal(404, 10014), ConsumerNotFoundError),
        (refusal(400, 10000), APIError),
        (info("C", {"ack_policy": "explicit"}), ConfigMismatchError),
        (info("C", {"ack_policy": "flow_control", "deliver_group": "G"}), ConfigMismatchError),
    ],
)
def test_what_cannot_be_sourced_ends_it(answer: dict[str, Any], error: type[Exception]) -> None:
    s = Sourcing(run=False, config=None)
    _, look = s.expect("INFO")
    s.h.reply_to(look, answer)
    assert s.machine.phase is SourcingPhase.ENDED
    with pytest.raises(error, match="C"):
        s.machine.ready().result()
    with pytest.raises(error):
        s.machine.readable().result()


@requirement(266)
def test_the_answer_to_a_reset_confirms_what_the_consumer_is_like() -> None:
    """One that was made anew since it was looked up is not subscribed to."""
    s = Sourcing(run=False, config=None)
    s.claim(deliver=OWN)
    s.config = {"ack_policy": "explicit"}
    s.reset()
    assert s.machine.phase is SourcingPhase.ENDED
    with pytest.raises(ConfigMismatchError, match="C"):
        s.machine.ready().result()
    assert OWN.encode() not in s.h.subs.values()


@pytest.mark.parametrize("bad", [{"config": ConsumerConfig()}, {"position": -1}])
def test_bad_arguments(bad: dict[str, Any]) -> None:
    with pytest.raises(LocalProtocolError):
        Sourcing(run=False, **bad)


def test_answers_have_what_is_stored_and_come_once() -> None:
    s = Sourcing()
    s.messages(1, 2, 3, 4, 5)
    s.flow()
    assert s.take(3) == [1, 2, 3]
    assert s.answers() == []
    for wrong in (4, -1):  # not taken, or below the position
        with pytest.raises(LocalProtocolError):
            s.confirm(wrong)
    s.confirm(2)
    s.confirm(2)
    assert s.answers() == [("$JS.FC.S.C.1", 2, 2)]
    with pytest.raises(LocalProtocolError):
        s.confirm(1)
    s.flow()  # the same request
    s.confirm(3)
    assert s.answers() == []
    s.flow("$JS.FC.S.C.2")
    assert s.answers() == [("$JS.FC.S.C.2", 3, 3)]
    assert s.take() == [4, 5]
    s.beat(5, "$JS.FC.S.C.3")
    s.confirm(5)
    assert s.answers() == [("$JS.FC.S.C.3", 5, 5)]


def test_holes_in_the_stream() -> None:
    s = Sourcing()
    sid = s.h.sid(OWN)
    s.h.feed(b"".join(encode_msg(b"s.a", sid, ack_subject("C", n, 3 * n), None, b"%d" % n) for n in range(1, 40)))
    s.flow()
    assert s.take() == list(range(1, 40))
    s.confirm(16)  # which was deleted, or is of another subject
    assert s.answers() == [("$JS.FC.S.C.1", 5, 15)]


def test_what_the_sink_has_is_passed_over_and_answered() -> None:
    s = Sourcing(position=3)
    s.message(1, 2)
    s.message(2, 3)
    s.flow()
    assert s.answers() == [("$JS.FC.S.C.1", 2, 3)]
    s.message(3, 4)
    assert s.take() == [4]
    assert s.machine.received == 4


def test_acknowledged_by_somebody_else() -> None:
    s = Sourcing(run=False, position=3)
    s.claim(OWN)
    s.reset(floor=7)
    assert s.told(SourceSkipped) == [SourceSkipped("S", "C", 4, 7)]


@requirement(259)
def test_reset_by_somebody_else_is_not_answered_by_a_reset() -> None:
    s = Sourcing()
    s.messages(1, 2, 3, 4)
    assert s.take() == [1, 2, 3, 4]
    s.flow()
    s.confirm(2)
    assert s.answers() == [("$JS.FC.S.C.1", 2, 2)]
    s.flow("$JS.FC.S.C.2")
    for number in (1, 2, 3):
        s.message(number, number + 2)  # from 3 on
    assert s.take() == [5]
    s.confirm(3)
    assert s.answers() == [("$JS.FC.S.C.2", 1, 3)]
    s.beat(0, "$JS.FC.S.C.3")  # and once more
    assert s.answers() == ["$JS.FC.S.C.3"]
    s.message(1, 4)
    s.messages()
    assert s.take() == []
    assert len(s.told(ConsumerRestarted)) == 2
    assert s.machine.resets == 0


def test_gaps_lead_to_a_reset_and_then_to_pauses() -> None:
    s = Sourcing()
    s.message(1, 1)
    s.message(3, 3)
    assert s.told(SourceReset)
    assert OWN.encode() not in s.h.subs.values()
    s.again()
    s.message(1, 1)
    s.beat(7)
    assert s.machine.phase is SourcingPhase.PAUSED
    assert s.h.published() == []
    s.h.advance(0.2)
    s.claim(OWN)
    s.reset()
    s.message(1, 1)
    s.message(2, 2)
    assert s.take() == [1, 2]
    s.beat(2)
    s.message(3, 2)  # a consumer that delivers once does not go back
    s.again()
    s.beat("x")
    assert s.told(UnexpectedMessage)
    s.h.push(OWN, b"_INBOX.x", b"")
    assert s.told(UnexpectedMessage)


def test_a_late_delivery_from_before_a_reset_is_not_the_first_one_after_it() -> None:
    s = Sourcing(run=False, position=4)
    s.claim(OWN)
    s.reset(floor=4)
    s.message(1, 2)  # which was acknowledged, under the numbers before
    s.message(2, 6)  # the first one after the reset, 5, was lost
    assert s.take() == []
    s.claim(OWN)
    s.reset(floor=4)
    s.message(1, 2)
    s.messages()
    s.message(1, 5)
    s.message(2, 6)
    assert s.take() == [5, 6]
    assert s.told(ConsumerRestarted) == []


def test_an_answer_without_effect_leads_to_a_reset() -> None:
    s = Sourcing()
    s.messages(1, 2)
    s.take()
    s.flow()
    s.confirm(2)
    s.beat(2, "$JS.FC.S.C.1")
    s.beat(2)
    s.beat(2, "$JS.FC.S.C.2")
    s.beat(2, "$JS.FC.S.C.2")
    assert s.answers() == [("$JS.FC.S.C.1", 2, 2)]
    assert s.machine.phase is SourcingPhase.CLAIMING


def test_a_stalled_consumer_with_nothing_delivered_is_answered_empty() -> None:
    s = Sourcing()
    s.beat(0, "$JS.FC.S.C.1")
    assert s.answers() == ["$JS.FC.S.C.1"]
    s.beat(0, "bad subject")
    assert s.told(UnexpectedMessage)


def test_silence_and_requests_without_an_answer() -> None:
    s = Sourcing()
    s.h.advance(3.0)
    s.expect("INFO")
    s.h.advance(ANSWER_WITHIN)
    assert s.machine.phase is SourcingPhase.PAUSED
    s.h.advance(0.2)
    _, look = s.expect("INFO")
    s.h.reply_to(look, None, b"NATS/1.0 503\r\n\r\n")
    s.h.advance(0.5)
    s.claim(OWN)
    s.reset()
    s.h.push(OWN, None, b"", b"NATS/1.0 409 Consumer Deleted\r\n\r\n")
    assert s.machine.phase is SourcingPhase.PAUSED
    s.machine.answered(Msg(b"_INBOX.o.1", b"1", None, None, b""), s.h.now)  # to a request that was given up


def test_a_stream_that_was_made_anew_is_read_when_the_old_one_is_confirmed() -> None:
    s = Sourcing(run=False, identity="A")
    s.claim(OWN)
    s.reset(identity="A")
    s.messages(1, 2)
    s.h.advance(3.0)
    s.claim(OWN)
    s.reset(identity="B")
    assert s.machine.phase is SourcingPhase.HOLDING
    assert s.take() == [1, 2]
    s.confirm(2)
    assert s.told(StreamRecreated) == [StreamRecreated("S", 2)]
    s.claim(OWN)
    s.reset(identity="B")
    assert (s.machine.position, s.machine.identity) == (0, "B")
    s.messages(1)
    assert s.take() == [1]


def test_the_link_is_lost() -> None:
    s = Sourcing(session={"max_reconnect_attempts": -1, "reconnect_time_wait": 0.01})
    s.messages(1)
    s.flow()
    s.h.lose()
    assert s.machine.phase is SourcingPhase.DOWN
    assert s.take() == [1]
    s.confirm(1)
    s.h.advance(1.0)
    s.h.connect()
    s.claim(OWN)
    s.reset()
    s.message(1, 1)
    assert s.take() == []
    s.beat(1, "$JS.FC.S.C.1")
    assert s.answers() == [("$JS.FC.S.C.1", 1, 1)]
    s.machine.anchor_restored(s.h.now)


def test_the_connection_ends() -> None:
    s = Sourcing()
    s.h.lose()
    with pytest.raises(ConnectionLostError):
        raise s.machine.error or AssertionError
    s.machine.anchor_lost(ConnectionLostError(""), s.h.now)


def test_what_is_denied() -> None:
    s = Sourcing()
    s.machine.denied(PermissionsViolationError("no", "publish", "elsewhere"), s.h.now)
    assert s.machine.error is None
    s.h.feed(b"-ERR 'Permissions Violation for Publish to \"$JS.API.CONSUMER.RESET.S.C\"'\r\n")
    assert isinstance(s.machine.error, PermissionsViolationError)


def test_a_full_buffer_is_emptied_before_more_is_asked_for() -> None:
    s = Sourcing(pending_msgs_limit=4)
    for number in range(1, 6):
        s.message(number, number)
    assert s.machine.phase is SourcingPhase.FULL
    assert len(s.told(SlowConsumer)) == 1
    assert s.machine.received == 4
    assert s.take(1) == [1]
    assert s.machine.phase is SourcingPhase.FULL
    assert s.take(2) == [2, 3]
    s.claim(OWN)
    s.reset()
    for number in range(1, 6):
        s.message(number, number)
    assert s.take() == [4, 5]


def test_more_at_once_than_the_buffer_takes() -> None:
    s = Sourcing(pending_msgs_limit=4)
    s.message(1, 1)
    s.messages(*range(2, 40))
    assert s.machine.phase is SourcingPhase.FULL
    assert s.take() == [1, 2, 3, 4]


def test_a_sink_that_lost_something_begins_again() -> None:
    s = Sourcing()
    s.messages(1, 2, 3, 4)
    assert s.take(3) == [1, 2, 3]
    s.confirm(1)
    with pytest.raises(LocalProtocolError):
        s.machine.restart(4, s.h.now)
    s.machine.restart(2, s.h.now)
    s.machine.restart(2, s.h.now)  # while it is claimed
    s.claim(OWN)
    s.reset(is_proved=False)
    assert s.show(3) == {"seq": 3}  # which came, though it is wanted again
    s.messages(1, 2, 3)
    assert s.take() == [3]


def test_the_end() -> None:
    s = Sourcing()
    s.messages(1, 2)
    s.flow()
    assert s.take(1) == [1]
    assert s.machine.unsubscribe(s.h.now).done
    assert s.answers() == []
    assert OWN.encode() not in s.h.subs.values()
    assert s.take() == [2]
    s.confirm(2)
    assert (s.machine.position, s.answers()) == (2, [])
    with pytest.raises(ConnectionClosedError):
        s.machine.restart(2, s.h.now)
    with pytest.raises(ConnectionClosedError):
        s.machine.ready().result()
    assert s.machine.drain(s.h.now).done
    s.machine.end_interest()
    s.machine.anchor_lost(ConnectionLostError(""), s.h.now)
    assert s.machine.phase is SourcingPhase.ENDED
    s.machine.end_drain(s.h.now, closing=True)


def test_a_sink_that_is_fenced_ends_it() -> None:
    s = Sourcing(run=False)
    error = APIError(400, 10071, "wrong last sequence")
    s.machine.fail(error)
    with pytest.raises(APIError):
        s.machine.ready().result()


def test_no_room_to_send() -> None:
    s = Sourcing(session={"pending_size": 1024})
    s.messages(1)
    assert s.take() == [1]
    s.flow()
    with suppress(OutboundBufferLimitError):
        for _ in range(10):
            s.h.session.publish_message("x", b"x" * 900)
    s.confirm(1)
    s.machine.restart(1, s.h.now)
    assert s.machine.phase.name == "PAUSED"
    assert s.answers() == []
    s.h.advance(0.2)
    s.claim(OWN)
    s.reset()
    assert s.machine.phase is SourcingPhase.RUNNING


def test_what_reads_on_decides_how() -> None:
    s = Sourcing()
    for verb, arguments in (
        ("answered", (None, 0.0)),
        ("denied", (None, 0.0)),
        ("anchor_lost", (None, 0.0)),
        ("anchor_restored", (0.0,)),
        ("_end", (None,)),
    ):
        with pytest.raises(NotImplementedError):
            getattr(ResumingBuffer, verb)(s.machine, *arguments)


def test_news_are_messages_acknowledgements_and_a_call_of_the_application() -> None:
    s = Sourcing()
    news, readable = s.machine.news(), s.machine.readable()
    assert s.machine.is_acknowledged
    s.messages(1, 2)
    assert news.done
    assert readable.done
    assert s.machine.news().done  # as long as there is a message
    raws = s.machine.pop_raws(10, s.h.now)
    assert [raw[3] for raw in raws] == [b"1", b"2"]
    news, readable = s.machine.news(), s.machine.readable()
    s.flow()
    assert s.machine.is_acknowledged  # of what is confirmed
    s.confirm(1)
    assert s.machine.is_acknowledged
    assert news.done
    news = s.machine.news()
    s.confirm(2)
    assert not s.machine.is_acknowledged
    assert not news.done
    s.flow("$JS.FC.S.C.2")
    assert s.machine.is_acknowledged
    assert news.done
    assert not readable.done
    news = s.machine.news()
    s.machine.wake()
    assert news.done
    news = s.machine.news()
    s.machine.unsubscribe(s.h.now)
    for ticket in (news, readable, s.machine.news()):
        with pytest.raises(ConnectionClosedError):
            ticket.result()


def prove(s: Sourcing, identity: str | None = None, **state: Any) -> None:
    """The consumer is claimed and reset, and the stream in this state."""
    s.claim(OWN)
    s.h.reply_to(s.look_up(), kept("limits", **state))
    s.reset(identity=identity, is_proved=False)


@promise("Two answers, 4 s apart, are to say so.")
@promise("Before, a `SourcePositionError` ends the copy.")
@pytest.mark.parametrize(("identity", "given"), [("ID", "ID"), (None, None), ("ID", None), (None, "ID")])
def test_a_stream_that_ends_before_the_position_is_not_read(identity: str | None, given: str | None) -> None:
    s = Sourcing(run=False, position=100, identity=identity, within=0.5)
    prove(s, given, last=99)
    assert s.machine.phase is SourcingPhase.PAUSED
    assert len(s.told(SourceReset)) == 1
    s.h.advance(ELECTION)  # longer than a claim may take, because one answer is not enough
    prove(s, given, last=99)
    assert isinstance(s.machine.error, SourcePositionError)
    assert (s.machine.error.stream, s.machine.error.position, s.machine.error.last_seq) == ("S", 100, 99)
    assert s.machine.phase.name == "ENDED"
    assert OWN.encode() not in s.h.subs.values()


@promise("Two answers, 4 s apart, are to say so.")
@pytest.mark.parametrize("within", [None, 5.0])
def test_one_answer_of_an_old_leader_does_not_end_it(within: float | None) -> None:
    s = Sourcing(run=False, position=100, within=within)
    prove(s, last=99)
    s.h.advance(ELECTION)
    prove(s, last=100)
    assert s.machine.phase is SourcingPhase.RUNNING
    s.h.advance(2.0)
    assert s.machine.error is None


POSITION = StreamPosition("S", 8, "ID", CREATED)


@promise("Nothing is acknowledged that the target does not have.")
@promise("A stream that is not the one of the position ends this with `SourcePositionError`")
@pytest.mark.parametrize(
    ("state", "answers", "phase"),
    [
        ({"last": 8, "last_time": CREATED}, [], "RUNNING"),
        ({"last": 8, "last_time": CREATED + 1}, [], "PAUSED"),
        ({"last": 9}, [(8, CREATED)], "RUNNING"),
        ({"last": 9}, [(8, CREATED + 1)], "PAUSED"),
        ({"last": 9}, [(None, 0), (9, CREATED + 1)], "RUNNING"),
        ({"last": 9}, [(None, 0), (None, 0)], "RUNNING"),
        ({"last": 9}, [(None, 0), (7, CREATED + 1)], "PAUSED"),
        ({"first": 9, "last": 9}, [], "RUNNING"),
    ],
)
def test_the_message_at_the_position_proves_it(
    state: dict[str, Any], answers: list[tuple[int | None, int]], phase: str
) -> None:
    s = Sourcing(run=False, position=POSITION)
    for _ in range(2):
        prove(s, "ID", **state)
        for answer in answers:
            assert OWN.encode() not in s.h.subs.values()
            s.show(*answer)
        assert s.machine.phase is SourcingPhase[phase]
        if phase == "RUNNING":
            assert s.told(SourceSkipped) == []
            return
        s.h.advance(ELECTION)
        phase = "ENDED"
    with pytest.raises(SourcePositionError, match=r"it has another message there.*begin with a new target"):
        raise s.machine.error or AssertionError


def test_what_retention_took_after_the_position_is_told() -> None:
    s = Sourcing(run=False, position=POSITION)
    prove(s, "ID", first=20, last=30)
    assert s.told(SourceSkipped) == [SourceSkipped("S", "C", 9, 19)]
    s = Sourcing(run=False, position=POSITION, config=CONFIG.updated(filter_subject="s.a"))
    s.claim(OWN, filter_subject="s.a")  # others may have had what is gone
    s.h.reply_to(s.look_up(), kept("workqueue", first=20, last=30))
    s.reset()
    assert s.told(SourceSkipped) == []


@pytest.mark.parametrize("denied", ["STREAM.INFO.S", "STREAM.MSG.GET.S"])
def test_who_may_not_look_goes_on_unproven(denied: str) -> None:
    s = Sourcing(run=False, position=POSITION)
    s.claim(OWN)
    if denied == "STREAM.MSG.GET.S":
        s.h.reply_to(s.look_up(), kept("limits"))
        s.reset(is_proved=False)
        s.look_at()
    for _ in range(2):
        s.h.feed(b"-ERR 'Permissions Violation for Publish to \"$JS.API.%b\"'\r\n" % denied.encode())
    if denied == "STREAM.INFO.S":
        s.reset()
        assert s.machine.facts is None
    assert s.machine.phase is SourcingPhase.RUNNING


@pytest.mark.parametrize("verb", ["look_up", "look_at"])
@pytest.mark.parametrize("answer", [None, refusal(503, 10008), refusal(403, 10039), {"config": 1}, {}])
def test_a_question_about_the_stream_without_a_good_answer(verb: str, answer: Any) -> None:
    s = Sourcing(run=False, position=POSITION)
    s.claim(OWN)
    if verb == "look_up":
        pub = s.look_up()
    else:
        s.h.reply_to(s.look_up(), kept("limits"))
        s.reset(is_proved=False)
        _, pub = s.look_at()
    if answer is None:
        s.h.advance(ANSWER_WITHIN)
    else:
        s.h.reply_to(pub, answer)
    if answer is None or answer == refusal(503, 10008):  # it may come the next time
        assert s.machine.phase is SourcingPhase.PAUSED
        s.h.advance(0.2)
        s.again()
    elif verb == "look_up":
        s.reset()
    assert s.machine.phase is SourcingPhase.RUNNING


def test_what_was_received_is_proved_on_the_next_link() -> None:
    s = Sourcing(session={"max_reconnect_attempts": -1, "reconnect_time_wait": 0.01}, run=False)
    s.claim(OWN)
    s.reset(identity="ID")
    s.messages(1, 2, 3)
    assert s.take(1) == [1]  # the others are in the buffer
    s.h.lose()
    for _ in range(2):
        s.h.advance(ELECTION)
        if s.h.session.connect_to is not None:
            s.h.connect()
        prove(s, "ID")
        assert s.show(3, CREATED + 1) == {"seq": 3}
    with pytest.raises(SourcePositionError):
        raise s.machine.error or AssertionError
    assert s.take() == [2, 3]  # which came before
    s.confirm(3)
    assert s.answers() == []


def test_a_message_that_goes_back_leads_to_a_proof() -> None:
    s = Sourcing()
    s.messages(1, 2, 3)
    s.message(4, 3)  # a consumer of a stream that came back shorter goes on counting
    prove(s)
    assert s.show(3, CREATED + 1) == {"seq": 3}
    assert s.machine.phase is SourcingPhase.PAUSED
    assert s.take() == [1, 2, 3]


def test_a_delivery_without_a_time_proves_nothing() -> None:
    s = Sourcing()
    s.h.push(OWN, b"$JS.ACK.S.C.1.1.1.then.0", b"1")
    assert s.take() == [1]
    s.h.advance(3.0)
    prove(s)
    assert s.machine.phase is SourcingPhase.RUNNING


def test_what_a_sink_keeps() -> None:
    s = Sourcing(run=False)
    s.claim(OWN)
    s.reset(identity="ID")
    s.messages(1, 2)
    first, _ = s.machine.pop_many(2, s.h.now)
    assert s.machine.position_of(first) == StreamPosition("S", 1, "ID", CREATED)
    again = Sourcing(run=False, position=s.machine.position_of(first), identity="ID").machine
    assert (again.position, again.identity) == (1, "ID")


SCHEDULE = b"NATS/1.0\r\nA: b\r\nNats-Schedule: @every 1h\r\n\r\n"


@promise("A message schedule is no job. It is passed over and stays (event `SchedulePassedOver`)")
@pytest.mark.parametrize("first", [1, 3])
def test_a_schedule_is_not_handed_on(first: int) -> None:
    """What comes after it is handed on, and not acknowledged."""
    s = Sourcing()
    for number in range(1, 6):
        header = b"NATS/1.0\r\nNats-Scheduler: s.x\r\nNats-Schedule-Next: purge\r\n\r\n"  # made by a schedule
        if number in (first, 4):
            header = SCHEDULE
        s.h.push(OWN, ack_subject("C", number), b"%d" % number, header)
    s.flow()
    assert s.take() == [number for number in range(1, 6) if number not in (first, 4)]
    told = s.told(SchedulePassedOver)
    assert told == [SchedulePassedOver("S", "C", seq, "s.a") for seq in (first, 4)]
    s.confirm(5)
    assert s.machine.schedule == (first, "s.a")
    assert s.answers() == ([] if first == 1 else [("$JS.FC.S.C.1", 2, 2)])


@promise("Until it is gone nothing that comes after it is acknowledged")
def test_a_schedule_that_comes_again_is_not_acknowledged_either() -> None:
    """The sink has all up to 3, and message 2 is a schedule that it passed over."""
    s = Sourcing(position=3)
    s.h.push(OWN, ack_subject("C", 1, 1), b"1")
    s.h.push(OWN, ack_subject("C", 2, 2), b"2", SCHEDULE)
    s.h.push(OWN, ack_subject("C", 3, 3), b"3")
    s.flow()
    assert s.answers() == [("$JS.FC.S.C.1", 1, 1)]
    assert s.take() == []
    assert s.machine.schedule == (2, "s.a")


def test_a_schedule_that_stalls_the_consumer_ends_it() -> None:
    s = Sourcing(run=False)
    s.claim(OWN, max_ack_pending=5)
    s.reset()
    s.h.push(OWN, ack_subject("C", 1), b"1", SCHEDULE)
    s.messages(2, 3, 4, 5)
    assert s.take() == [2, 3, 4, 5]
    s.confirm(5)
    for attempt in (1, 2):
        for number in (1, 2):
            s.beat(5, f"$JS.FC.S.C.{attempt}{number}")
            if number == 1:  # the empty answer has opened the window of bytes, and nothing comes
                s.beat(5)
        if attempt == 1:  # it may be gone by now
            assert s.machine.error is None
            s.claim(OWN, max_ack_pending=5)
            s.reset()
            s.h.push(OWN, ack_subject("C", 1), b"1", SCHEDULE)
            for number in range(2, 6):
                s.h.push(OWN, ack_subject("C", number), b"%d" % number)
    error = s.machine.error
    assert isinstance(error, SourceScheduleError)
    assert (error.stream, error.seq, error.subject) == ("S", 1, "s.a")
    assert all(isinstance(answer, str) for answer in s.answers())  # which opens the window, and acknowledges nothing


def test_a_stream_made_anew_may_end_before_the_position() -> None:
    s = Sourcing(run=False, position=100, identity="OLD")
    s.claim(OWN)
    s.h.reply_to(s.look_up(), kept("limits", last=5))
    s.reset(identity="NEW")
    assert s.told(StreamRecreated)
    s.claim(OWN)
    s.reset(identity="NEW")
    assert s.machine.phase is SourcingPhase.RUNNING
    assert (s.machine.position, s.machine.identity) == (0, "NEW")


@requirement(259)
def test_a_reset_ahead_by_others_says_what_was_skipped() -> None:
    s = Sourcing()
    s.messages(1, 2)
    s.message(1, 7)
    assert s.told(ConsumerRestarted, SourceSkipped) == [
        ConsumerRestarted("S", "C", 3, 1), SourceSkipped("S", "C", 3, 6),
    ]  # fmt: skip
    assert s.take() == [1, 2, 7]


@pytest.mark.parametrize(
    "wrong",
    [
        {"position": -1}, {"position": "7"}, {"position": True}, {"identity": b"ID"},
        {"position": StreamPosition("OTHER", 1)}, {"position": StreamPosition("S", 1, "A"), "identity": "B"},
    ],
)  # fmt: skip
def test_a_position_that_is_none(wrong: Any) -> None:
    with pytest.raises(LocalProtocolError):
        Sourcing(run=False, **wrong)


@promise("Until it is gone nothing that comes after it is acknowledged")
def test_a_schedule_beside_a_quiet_queue_is_waited_for() -> None:
    """The server asks each second, because something is not acknowledged. It would deliver more."""
    s = Sourcing()
    s.h.push(OWN, ack_subject("C", 1), b"1", SCHEDULE)
    s.messages(2, 3)
    s.take()
    s.confirm(3)
    for number in range(20):
        s.beat(3, f"$JS.FC.S.C.{number}")
    assert s.answers() == [f"$JS.FC.S.C.{number}" for number in range(20)]
    assert s.machine.phase is SourcingPhase.RUNNING
    s.message(4, 4)
    assert s.take() == [4]
