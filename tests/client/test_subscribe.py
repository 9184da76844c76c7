"""The subscribe workflow against a scripted server: what it asks, in which order, and what it makes of the answers."""

from __future__ import annotations

from typing import Any

import pytest

from jsproto.api_errors import ConsumerAlreadyExistsError, ConsumerNotFoundError, StreamNotFoundError
from jsproto.client.consume.message import JSMsg
from jsproto.client.consume.priority import Priority
from jsproto.client.consume.push import PushConsumer
from jsproto.client.consume.subscribe import BoundConsumer, SubscriptionSpec
from jsproto.errors import (
    APIError,
    ConfigMismatchError,
    ConnectionLostError,
    DuplicateSubscriptionError,
    FilterMismatchError,
    FlowControlAckError,
    LocalProtocolError,
    NoMatchingStreamError,
    NoQueueError,
    PermissionsViolationError,
    PullConsumerError,
    PushConsumerError,
    QueueFlowControlError,
    QueueHeartbeatError,
    QueueRequiredError,
    RemoteProtocolError,
    TimeoutError,
    WrongQueueError,
)
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.ticket import Ticket
from jsproto.wire.frames import Pub, Sub, Unsub
from tests.client.pushing import Pushing, info, refusal
from tests.marks import known_fault, promise, requirement

NOT_FOUND = refusal(404, 10014)
TAKEN = refusal(400, 10148)
PUSHING = {"ack_policy": "explicit", "deliver_policy": "all", "deliver_subject": "dlv"}


class Workflow:
    """One run of it."""

    def __init__(self, subject: str | None = "s.a", **keywords: Any) -> None:
        self.h = Pushing()
        how = {name: keywords.pop(name) for name in ("delete_consumer", "raw") if name in keywords}
        wanted = SubscriptionSpec(subject, **{"stream": "S", **keywords})
        self.ticket: Ticket[Any]
        if wanted.pull:
            self.ticket = self.h.js.bind_pull(wanted, now=self.h.now)
        else:
            self.ticket = self.h.js.subscribe(wanted, now=self.h.now, message_class=JSMsg, **how)

    def expect(self, what: str, answer: dict[str, Any] | None = None) -> dict[str, Any]:
        """The next request is for ``what``; answer it. Returns its body."""
        (asked,) = self.h.asked()
        assert asked[0] == what
        if answer is not None:
            self.h.reply_to(asked[2], answer)
        return asked[1]

    def create(self, what: str, **fields: Any) -> dict[str, Any]:
        """The next request creates a consumer; it is created. Returns its configuration."""
        (asked,) = self.h.asked()
        assert asked[0] == what
        config: dict[str, Any] = asked[1]["config"]
        self.h.reply_to(asked[2], info(config["name"], config, **fields))
        return config

    @property
    def error(self) -> Exception | None:
        return self.ticket.error


@requirement(184, 197)
@known_fault("the consumer is there before anybody listens")
def test_the_stream_is_found_by_the_subject_and_the_consumer_is_made_for_it() -> None:
    flow = Workflow(stream=None)
    assert flow.expect("STREAM.NAMES", {"streams": ["S"], "total": 1}) == {"offset": 0, "subject": "s.a"}
    frames = flow.h.sent()
    sub = next(frame for frame in frames if isinstance(frame, Sub))
    request = next(frame for frame in frames if isinstance(frame, Pub))
    assert frames.index(sub) < frames.index(request)  # or the server would take the deliver subject for unused
    assert request.subject.startswith(b"$JS.API.CONSUMER.CREATE.S.")
    assert request.subject.endswith(b".s.a")
    assert sub.subject.decode() in request.payload.decode()
    name = request.subject.split(b".")[5].decode()
    flow.h.reply_to(request, info(name, {}))
    push = flow.ticket.result()
    assert isinstance(push, PushConsumer)
    assert (push.owned, push.consumer, push.stream, push.subject) == (True, name, "S", "s.a")


@requirement(184)
@known_fault("of several streams the first one is taken")
@pytest.mark.parametrize("streams", [None, [], ["A", "B"]])
def test_a_subject_must_be_of_one_stream(streams: list[str] | None) -> None:
    flow = Workflow(stream=None)
    flow.expect("STREAM.NAMES", {"streams": streams, "total": len(streams or ())})
    assert isinstance(flow.error, NoMatchingStreamError)
    assert (flow.error.subject, flow.error.streams) == ("s.a", tuple(streams or ()))
    assert flow.h.sent() == []


@pytest.mark.parametrize("streams", ["S", [1]])
def test_a_junk_list_of_streams(streams: Any) -> None:
    flow = Workflow(stream=None)
    flow.expect("STREAM.NAMES", {"streams": streams, "total": len(streams or ())})
    assert isinstance(flow.error, RemoteProtocolError)


@requirement(185, 198, 199)
def test_what_a_new_push_consumer_is_like() -> None:
    flow = Workflow("s.*")
    config = flow.create(f"CONSUMER.CREATE.S.{_name(flow)}.s.*")
    inbox = config.pop("deliver_subject")
    assert inbox.startswith("_INBOX.")
    assert config == {
        "name": config["name"], "ack_policy": "explicit", "filter_subject": "s.*", "idle_heartbeat": 5 * 10**9
    }  # fmt: skip
    flow = Workflow(durable="D", options={"idle_heartbeat": 0.0, "ack_policy": "all", "deliver_subject": "mine"})
    flow.expect("CONSUMER.INFO.S.D", NOT_FOUND)
    assert flow.create("CONSUMER.CREATE.S.D.s.a") == {
        "name": "D", "durable_name": "D", "ack_policy": "all", "filter_subject": "s.a", "deliver_subject": "mine"
    }  # fmt: skip


def _name(flow: Workflow) -> str:
    """The name that the workflow chose: its request is still to be looked at."""
    flow.h.session.flush()
    flow.h.drain()
    (pub,) = [frame for frame in flow.h.frames if isinstance(frame, Pub)]
    return pub.subject.split(b".")[5].decode()


def test_a_stream_without_a_subject_is_subscribed_to_whole() -> None:
    flow = Workflow(None)
    config = flow.create(f"CONSUMER.CREATE.S.{_name(flow)}")
    assert "filter_subject" not in config
    assert flow.ticket.result().subject == "S"
    flow = Workflow(None, options={"filter_subjects": ["s.a", "s.b"]})
    assert flow.create(f"CONSUMER.CREATE.S.{_name(flow)}")["filter_subjects"] == ["s.a", "s.b"]


@requirement(187)
def test_a_queue_without_a_name_meets_at_its_own() -> None:
    flow = Workflow(queue="Q")
    flow.expect("CONSUMER.INFO.S.Q", NOT_FOUND)
    config = flow.create("CONSUMER.CREATE.S.Q.s.a")
    assert (config["name"], config["durable_name"], config["deliver_group"]) == ("Q", "Q", "Q")
    assert "idle_heartbeat" not in config
    push = flow.ticket.result()
    assert not push.owned
    flow = Workflow(queue="Q", durable="D", delete_consumer=True)
    flow.expect("CONSUMER.INFO.S.D", NOT_FOUND)
    flow.create("CONSUMER.CREATE.S.D.s.a")
    push = flow.ticket.result()
    assert push.owned


def test_an_existing_consumer_is_joined_as_it_is() -> None:
    flow = Workflow(durable="D", options={"ack_wait": 7.0})
    config = {**PUSHING, "filter_subject": "s.a", "ack_wait": 7 * 10**9, "idle_heartbeat": 10**9}
    flow.expect("CONSUMER.INFO.S.D", info("D", config))
    push = flow.ticket.result()
    assert [frame.subject for frame in flow.h.sent() if isinstance(frame, Sub)] == [b"dlv"]
    assert not push.owned
    assert push.unsubscribe(flow.h.now).result() is None
    assert [type(frame) for frame in flow.h.sent()] == [Unsub]


@requirement(186)
def test_a_consumer_that_must_be_there() -> None:
    flow = Workflow(consumer="C")
    flow.expect("CONSUMER.INFO.S.C", NOT_FOUND)
    assert isinstance(flow.error, ConsumerNotFoundError)
    flow = Workflow(durable="C")
    flow.expect("CONSUMER.INFO.S.C", refusal(404, 10059))
    assert isinstance(flow.error, StreamNotFoundError)


@requirement(186)
@pytest.mark.parametrize("name", ["consumer", "durable"])
def test_a_look_up_that_fails_is_an_error(name: str) -> None:
    """It is not taken for a consumer that is not there, so nothing is created."""
    denied, late = Workflow(**{name: "C"}), Workflow(**{name: "C"})
    denied.expect("CONSUMER.INFO.S.C")
    deny(denied, "CONSUMER.INFO.S.C")
    assert isinstance(denied.error, PermissionsViolationError)
    late.expect("CONSUMER.INFO.S.C")
    late.h.advance(60.0)
    assert isinstance(late.error, TimeoutError)
    assert denied.h.asked() == late.h.asked() == []


@requirement(189, 190, 191, 192, 193, 194, 195, 196)
@promise("An existing consumer is never changed.")
@pytest.mark.parametrize(
    ("found", "keywords", "error"),
    [
        ({**PUSHING, "deliver_subject": ""}, {}, PullConsumerError),
        ({**PUSHING, "deliver_group": "g"}, {}, QueueRequiredError),
        ({**PUSHING, "deliver_group": "g"}, {"queue": "q"}, WrongQueueError),
        (PUSHING, {"queue": "q"}, NoQueueError),
        ({**PUSHING, "deliver_group": "q", "idle_heartbeat": 10**9}, {"queue": "q"}, QueueHeartbeatError),
        (
            {**PUSHING, "deliver_group": "q", "idle_heartbeat": 10**9, "flow_control": True},
            {"queue": "q"}, QueueFlowControlError,
        ),
        ({**PUSHING, "filter_subject": "s.b"}, {}, FilterMismatchError),
        ({**PUSHING, "filter_subjects": ["s.a", "s.b"]}, {}, FilterMismatchError),
        (PUSHING, {"options": {"max_deliver": 3, "ack_policy": "none"}}, ConfigMismatchError),
        (PUSHING, {"pull": True}, PushConsumerError),
        ({**PUSHING, "ack_policy": "flow_control"}, {}, FlowControlAckError),
        ({**PUSHING, "ack_policy": "flow_control"}, {"raw": True}, FlowControlAckError),
        (
            {**PUSHING, "ack_policy": "flow_control", "deliver_group": "q"}, {"queue": "q"}, FlowControlAckError,
        ),
    ],
)  # fmt: skip
def test_what_is_there_must_fit(found: dict[str, Any], keywords: dict[str, Any], error: type[Exception]) -> None:
    flow = Workflow(durable="D", **keywords)
    flow.expect("CONSUMER.INFO.S.D", info("D", found))
    assert type(flow.error) is error
    assert flow.h.sent() == []
    if error is ConfigMismatchError:
        assert isinstance(flow.error, ConfigMismatchError)
        assert flow.error.fields == ("ack_policy", "max_deliver")
        assert "ack_policy, max_deliver" in str(flow.error)


@requirement(188)
def test_only_one_may_subscribe_but_a_group_may_share() -> None:
    flow = Workflow(durable="D")
    flow.expect("CONSUMER.INFO.S.D", info("D", PUSHING, push_bound=True))
    assert isinstance(flow.error, DuplicateSubscriptionError)
    flow = Workflow(queue="Q")
    flow.expect("CONSUMER.INFO.S.Q", info("Q", {**PUSHING, "deliver_group": "Q"}, push_bound=True))
    assert flow.ticket.result().consumer == "Q"
    (sub,) = [frame for frame in flow.h.sent() if isinstance(frame, Sub)]
    assert (sub.subject, sub.queue) == (b"dlv", b"Q")


@requirement(202)
@promise("An existing consumer is never changed.")
def test_who_loses_the_race_joins_the_group_on_its_subject() -> None:
    flow = Workflow(queue="Q")
    flow.expect("CONSUMER.INFO.S.Q", NOT_FOUND)
    ((_, body, create),) = flow.h.asked()
    flow.h.reply_to(create, TAKEN)
    flow.expect("CONSUMER.INFO.S.Q", info("Q", {**PUSHING, "deliver_group": "Q"}, push_bound=True))
    push = flow.ticket.result()
    flow.h.sent()
    assert b"dlv" in flow.h.subs.values()
    assert body["config"]["deliver_subject"].encode() not in flow.h.subs.values()
    assert not push.owned


@requirement(202)
@promise("An existing consumer is never changed.")
@pytest.mark.parametrize("bound", [True, False])
def test_who_loses_the_race_alone_is_refused(bound: bool) -> None:
    flow = Workflow(durable="D")
    flow.expect("CONSUMER.INFO.S.D", NOT_FOUND)
    flow.expect("CONSUMER.CREATE.S.D.s.a", refusal(400, 10013))
    flow.expect("CONSUMER.INFO.S.D", info("D", PUSHING, push_bound=bound))
    assert isinstance(flow.error, DuplicateSubscriptionError)


def test_a_race_that_is_over_before_we_look_is_an_error() -> None:
    flow = Workflow(durable="D")
    flow.expect("CONSUMER.INFO.S.D", NOT_FOUND)
    flow.expect("CONSUMER.CREATE.S.D.s.a", TAKEN)
    flow.expect("CONSUMER.INFO.S.D", NOT_FOUND)
    assert isinstance(flow.error, ConsumerAlreadyExistsError)


def test_a_refused_creation_leaves_no_subscription() -> None:
    flow = Workflow(durable="D")
    flow.expect("CONSUMER.INFO.S.D", NOT_FOUND)
    flow.expect("CONSUMER.CREATE.S.D.s.a", refusal(400, 10999))
    assert type(flow.error) is APIError
    flow.h.sent()
    assert len(flow.h.subs) == 1  # that of the answers


# -- pull consumers ----------------------------------------------------------------------------------------------------


@requirement(180, 186, 198)
def test_a_pull_consumer_is_found_or_created() -> None:
    flow = Workflow(pull=True, durable="D", stream=None)
    flow.expect("STREAM.NAMES", {"streams": ["S"], "total": 1})
    flow.expect("CONSUMER.INFO.S.D", info("D", {"ack_policy": "explicit"}))
    bound = flow.ticket.result()
    assert isinstance(bound, BoundConsumer)
    assert (bound.info.name, bound.created) == ("D", False)
    flow = Workflow(pull=True, consumer="D")  # for a pull consumer a name is no promise that it is there
    flow.expect("CONSUMER.INFO.S.D", NOT_FOUND)
    assert flow.create("CONSUMER.CREATE.S.D.s.a") == {
        "name": "D", "durable_name": "D", "ack_policy": "explicit", "filter_subject": "s.a"
    }  # fmt: skip
    assert flow.ticket.result().created
    flow = Workflow(pull=True)
    assert "durable_name" not in flow.create(f"CONSUMER.CREATE.S.{_name(flow)}.s.a")


@pytest.mark.parametrize(
    "keywords",
    [{"durable": "D"}, {"options": {"durable_name": "D"}}, {"base": ConsumerConfig(durable_name="D", ack_policy=None)}],
)
@pytest.mark.parametrize("pull", [True, False])
def test_a_durable_has_its_name_by_either_argument(keywords: dict[str, Any], pull: bool) -> None:
    flow = Workflow(pull=pull, **keywords)
    flow.expect("CONSUMER.INFO.S.D", NOT_FOUND)
    config = flow.create("CONSUMER.CREATE.S.D.s.a")
    assert (config["name"], config["durable_name"]) == ("D", "D")
    assert flow.ticket.done


@requirement(202)
def test_who_loses_the_race_for_a_pull_consumer_shares_it() -> None:
    flow = Workflow(pull=True, durable="D")
    flow.expect("CONSUMER.INFO.S.D", NOT_FOUND)
    flow.expect("CONSUMER.CREATE.S.D.s.a", TAKEN)
    flow.expect("CONSUMER.INFO.S.D", info("D", {"ack_policy": "explicit"}))
    assert not flow.ticket.result().created
    flow = Workflow(pull=True, durable="D")
    flow.expect("CONSUMER.INFO.S.D", NOT_FOUND)
    flow.expect("CONSUMER.CREATE.S.D.s.a", TAKEN)
    flow.expect("CONSUMER.INFO.S.D", NOT_FOUND)
    assert isinstance(flow.error, ConsumerAlreadyExistsError)


def test_a_place_in_a_priority_group_must_be_there() -> None:
    grouped = {"priority_groups": ["g"], "priority_policy": "overflow"}
    flow = Workflow(pull=True, durable="D", place=Priority("x"))
    flow.expect("CONSUMER.INFO.S.D", info("D", {"ack_policy": "explicit"} | grouped))
    assert isinstance(flow.error, ConfigMismatchError)
    flow = Workflow(pull=True, durable="D", place=Priority("x"), options=grouped)
    flow.expect("CONSUMER.INFO.S.D", NOT_FOUND)
    assert isinstance(flow.error, ConfigMismatchError)
    assert flow.h.asked() == []  # nothing is created in vain
    flow = Workflow(pull=True, durable="D", place=Priority("g", 5), options=grouped)
    flow.expect("CONSUMER.INFO.S.D", NOT_FOUND)
    assert flow.create("CONSUMER.CREATE.S.D.s.a")["priority_groups"] == ["g"]
    assert flow.ticket.result().created


# -- what cannot be ----------------------------------------------------------------------------------------------------


@requirement(181, 182, 183, 234)
@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"subject": None}, "needs a subject"),
        ({"subject": "a b"}, "subject"),
        ({"stream": "a.b"}, "a.b"),
        ({"queue": "a b"}, "a b"),
        ({"durable": "a.b"}, "a.b"),
        ({"durable": "a", "consumer": "b"}, "not both"),
        ({"options": {"filter_subject": "a"}}, "filter_subject follows"),
        ({"options": {"filter_subjects": ["a"]}}, "filter_subjects follows"),
        ({"options": {"durable_name": "a"}, "durable": "b"}, "durable and durable_name are the same, not 'b' and 'a'"),
        ({"base": ConsumerConfig(durable_name="a"), "options": {"durable_name": "b"}}, "are the same"),
        ({"options": {"durable_name": "a"}, "consumer": "c"}, "not both"),
        ({"base": ConsumerConfig(max_waiting=3)}, "pull consumers"),
        ({"options": {"nonsense": "a"}}, "nonsense"),
        ({"options": {"max_waiting": 3}}, "pull consumers"),
        ({"queue": "q", "options": {"idle_heartbeat": 1.0}}, "queue group"),
        ({"queue": "q", "options": {"flow_control": True}}, "queue group"),
        ({"options": {"flow_control": True, "idle_heartbeat": 0.0}}, "needs idle heartbeats"),
        ({"options": {"ack_policy": "flow_control"}}, "ack_policy 'flow_control' is for streams that source"),
        ({"base": ConsumerConfig(ack_policy="flow_control")}, "ack_policy 'flow_control'"),
        ({"pull": True, "options": {"ack_policy": "flow_control"}}, "ack_policy 'flow_control'"),
        ({"pull": True, "options": {"ack_policy": "none"}}, "ack_policy 'none'"),
        ({"pull": True, "options": {"ack_policy": "all"}}, "ack_policy 'all'"),
        ({"pull": True, "options": {"flow_control": True}}, "flow_control is for push"),
        ({"pull": True, "options": {"deliver_subject": "a"}}, "deliver_subject is for push"),
    ],
)
def test_what_cannot_be_is_refused_at_once(keywords: dict[str, Any], words: str) -> None:
    with pytest.raises(LocalProtocolError, match=words):
        SubscriptionSpec(**{"subject": "a", **keywords})


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"options": {"ack_wait": 1.0, "ack_policy": "none"}}, "settles ack_policy, ack_wait itself"),
        ({"base": ConsumerConfig(max_deliver=2, ack_policy="all")}, "settles ack_policy, max_deliver itself"),
        ({"base": ConsumerConfig(max_deliver=2)}, "settles max_deliver itself"),
        ({"queue": "q"}, "neither a queue nor a name"),
        ({"durable": "q"}, "neither a queue nor a name"),
    ],
)
def test_what_an_ordered_consumer_cannot_have(keywords: dict[str, Any], words: str) -> None:
    h = Pushing()
    with pytest.raises(LocalProtocolError, match=words):
        h.js.subscribe_ordered(SubscriptionSpec("s.a", "S", **keywords), now=h.now, message_class=JSMsg)
    assert h.sent() == []


def test_an_ordered_consumer_finds_its_stream() -> None:
    h = Pushing()
    ticket = h.js.subscribe_ordered(SubscriptionSpec("s.>"), now=h.now, message_class=JSMsg)
    ((what, body, names),) = h.asked()
    assert (what, body) == ("STREAM.NAMES", {"offset": 0, "subject": "s.>"})
    h.reply_to(names, {"streams": ["S"], "total": 1})
    stream = {"config": {"name": "S"}, "created": "2026-11-20T21:06:13Z"}
    ((what, _, asked),) = h.asked()
    assert what == "STREAM.INFO.S"
    h.reply_to(asked, stream)
    ((what, body, create),) = h.asked()
    assert what == f"CONSUMER.CREATE.S.{body['config']['name']}.s.>"
    h.reply_to(create, info(body["config"]["name"], body["config"]))
    ((what, _, asked),) = h.asked()
    assert what == "STREAM.INFO.S"
    assert not ticket.done
    h.reply_to(asked, stream)
    assert ticket.result().stream == "S"


# -- without the right to look -----------------------------------------------------------------------------------------


def deny(flow: Workflow, what: str) -> None:
    flow.h.sent()
    flow.h.feed(f"-ERR 'Permissions Violation for Publish to \"$JS.API.{what}\"'\r\n".encode())


@requirement(267)
def test_a_durable_pull_consumer_that_may_not_be_looked_up_is_created_or_counts_as_existing() -> None:
    flow = Workflow(pull=True, durable="D")
    deny(flow, "CONSUMER.INFO.S.D")
    flow.create("CONSUMER.CREATE.S.D.s.a")
    assert flow.ticket.result().created
    flow = Workflow(pull=True, durable="D", place=Priority("g", min_pending=5))
    deny(flow, "CONSUMER.INFO.S.D")
    deny(flow, "CONSUMER.CREATE.S.D.s.a")
    bound = flow.ticket.result()
    assert (bound.info.stream_name, bound.info.name, bound.created) == ("S", "D", False)
    assert (bound.info.config.priority_groups, bound.info.config.priority_policy) == (["g"], "overflow")
    for pull, durable in ((True, None), (False, "D")):
        flow = Workflow(pull=pull, durable=durable)
        if not pull:
            deny(flow, "CONSUMER.INFO.S.D")
        else:
            deny(flow, f"CONSUMER.CREATE.S.{_name(flow)}.s.a")
        assert isinstance(flow.error, PermissionsViolationError)
    flow = Workflow(pull=True, durable="D")  # that it is not there is known
    flow.expect("CONSUMER.INFO.S.D", NOT_FOUND)
    deny(flow, "CONSUMER.CREATE.S.D.s.a")
    assert isinstance(flow.error, PermissionsViolationError)


@requirement(267)
@promise("`pull_subscribe_bind` needs no right to look up the consumer.")
@pytest.mark.parametrize("why", ["denied", "no answer", "no leader", "no JetStream"])
def test_a_pull_consumer_that_must_exist_needs_no_look_up(why: str) -> None:
    harness = Pushing()
    for place, policy in (
        (Priority(), None),
        (Priority("g"), "pinned_client"),
        (Priority("g", priority=1), "prioritized"),
    ):
        ticket = harness.js.find_pull("S", "D", place, now=harness.now)
        ((what, _, pub),) = harness.asked()
        assert what == "CONSUMER.INFO.S.D"
        if why == "denied":
            harness.feed(b"-ERR 'Permissions Violation for Publish to \"$JS.API.CONSUMER.INFO.S.D\"'\r\n")
        elif why == "no answer":
            harness.advance(5)
        elif why == "no leader":
            harness.reply_to(pub, refusal(503, 10008))
        else:
            harness.reply_to(pub, None, b"NATS/1.0 503\r\n\r\n")
        found = ticket.result()
        assert (found.name, found.config.ack_policy, found.config.priority_policy) == ("D", "explicit", policy)
        harness.js.pull_consumer(found, JSMsg, priority=place)


@requirement(186)
def test_what_a_look_up_says_counts() -> None:
    harness = Pushing()
    for answer, kind in ((refusal(404, 10014), ConsumerNotFoundError), (refusal(500, 10000), APIError)):
        ticket = harness.js.find_pull("S", "D", Priority(), now=harness.now)
        ((_, _, pub),) = harness.asked()
        harness.reply_to(pub, answer)
        assert isinstance(ticket.error, kind)
    ticket = harness.js.find_pull("S", "D", Priority(), now=harness.now)
    ((_, _, pub),) = harness.asked()
    harness.reply_to(pub, info("D", {"ack_policy": "none"}))
    assert ticket.result().config.ack_policy == "none"
    ticket = harness.js.find_pull("S", "D", Priority(), now=harness.now)
    harness.lose()
    assert isinstance(ticket.error, ConnectionLostError)


@pytest.mark.parametrize(
    "wrong",
    [
        {"pending_msgs_limit": None}, {"pending_msgs_limit": 0}, {"pending_bytes_limit": "5"},
        {"pending_bytes_limit": 5.5}, {"heartbeats_missed": None}, {"heartbeats_missed": 0},
        {"heartbeats_missed": float("nan")}, {"if_missed": "what"},
    ],
    ids=repr,
)  # fmt: skip
def test_a_wrong_value_is_refused_before_anything_is_sent(wrong: dict[str, Any]) -> None:
    harness = Pushing()
    for verb in (harness.js.subscribe, harness.js.subscribe_ordered):
        with pytest.raises(LocalProtocolError):
            verb(SubscriptionSpec("s.a"), now=harness.now, message_class=JSMsg, **wrong)
    assert harness.published() == []
    with pytest.raises(LocalProtocolError, match="config is a ConsumerConfig, not dict"):
        SubscriptionSpec("s.a", base={})  # type: ignore[arg-type]
