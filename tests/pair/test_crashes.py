"""A fault of one machine ends that machine alone: what waits for it fails with InternalError."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jsproto.client.connection.requests import Requests
from jsproto.client.connection.session import Session
from jsproto.client.connection.subscription import Subscription
from jsproto.client.consume.message import Acker, JSMsg
from jsproto.client.consume.ordered import OrderedConsumer
from jsproto.client.consume.pull import PullConsumer
from jsproto.client.consume.push import PushConsumer
from jsproto.client.consume.resuming import _Anchor
from jsproto.client.consume.sourcing import SourcingConsumer
from jsproto.client.consume.work import ConsumerWork
from jsproto.client.publish.advisories import BatchAdvisories
from jsproto.client.publish.atomic import AtomicBatch
from jsproto.client.publish.fast import FastPublisher
from jsproto.client.publish.pipelined import PipelinedPublisher
from jsproto.client.publish.tracing import TraceCollector
from jsproto.client.read.consistency import ConsistentReads
from jsproto.client.read.direct import DirectBatch
from jsproto.client.read.known_streams import KnownStreams
from jsproto.client.read.multi import LastAnswer
from jsproto.errors import InternalError, PermissionsViolationError
from jsproto.events import ConversationFailed
from jsproto.grammar.session_token import SessionToken
from jsproto.outbox import Conversation
from jsproto.ticket import Ticket
from tests.pair.verbs import VERBS, Wire, prepared

INPUTS = ("receive", "receive_many", "receive_plain", "receive_run")


def broken(monkeypatch: pytest.MonkeyPatch, kind: type[Conversation], *names: str) -> None:
    """From now on these methods of ``kind`` have a bug."""

    def fail(*_: object) -> Any:
        raise ZeroDivisionError("a bug")

    for name in names:
        if hasattr(kind, name):
            monkeypatch.setattr(kind, name, fail)


def check_others(wire: Wire, other: Subscription, *names: str) -> None:
    """The link lives, and others on it go on. The machines that have failed are told, each once."""
    told = [event.name for event in wire.events if isinstance(event, ConversationFailed)]
    assert told == [*names]
    assert not wire.client.closed
    wire.client.publish_message("other", b"1")
    wire.client.flush()
    wire.run_until(other.readable())


def ahead(wire: Wire) -> object:
    publisher = wire.js.async_publisher()
    ticket = publisher.publish("s.a", b"x", now=wire.now)
    wire.client.flush()
    return wire.run_until(ticket)


def listen(wire: Wire) -> object:
    subscription = Subscription(wire.client, "core")
    wire.client.publish_message("core", b"1")
    wire.client.flush()
    return wire.run_until(subscription.readable())


def watch(wire: Wire) -> object:
    advisories = wire.js.batch_advisories("S")
    wire.client.publish_message("$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.S", b"1")
    wire.client.flush()
    return wire.run_until(advisories.readable())


def trace(wire: Wire) -> object:
    collector = TraceCollector(wire.client, inbox="traces")
    wire.client.publish_message(collector.subject, b"{}")
    wire.client.flush()
    return wire.run_until(collector.complete())


@pytest.mark.parametrize(
    ("kind", "verb"),
    [
        (PullConsumer, VERBS["pull"]), (PullConsumer, VERBS["messages"]), (PushConsumer, VERBS["subscribe"]),
        (OrderedConsumer, VERBS["ordered"]), (_Anchor, VERBS["ordered"]), (SourcingConsumer, VERBS["source"]),
        (FastPublisher, VERBS["fast"]), (AtomicBatch, VERBS["atomic"]), (DirectBatch, VERBS["get_batch"]),
        (LastAnswer, VERBS["snapshot"]), (ConsistentReads, VERBS["session"]), (PipelinedPublisher, ahead),
        (Subscription, listen), (BatchAdvisories, watch), (TraceCollector, trace), (Requests, VERBS["publish"]),
    ],
)  # fmt: skip
def test_what_waits_for_it_fails(
    kind: type[Conversation], verb: Callable[[Wire], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = prepared()
    other = Subscription(wire.client, "other")
    with monkeypatch.context() as patch:
        broken(patch, kind, *INPUTS)
        with pytest.raises(InternalError, match=f"{kind.__name__} has failed.*ZeroDivisionError: a bug") as caught:
            verb(wire)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert wire.now < 1.5
    if kind is Subscription:
        other = Subscription(wire.client, "other")
    check_others(wire, other, kind.__name__)
    VERBS["publish"](wire)


@pytest.mark.parametrize("name", ["handle_timeout", "deadline"])
def test_time_that_passes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wire = prepared()
    other = Subscription(wire.client, "other")
    pull = wire.js.pull_consumer(wire.run_until(wire.js.consumer_info("S", "d", now=wire.now)), JSMsg)
    wire.run_until(wire.js.purge_stream("S", now=wire.now))
    fetch = pull.fetch(1, now=wire.now, expires=20.0, heartbeat=5.0)
    wire.exchange()
    broken(monkeypatch, PullConsumer, name)
    wire.client.handle_timeout(wire.now + 16)
    wire.exchange()
    assert fetch.done.error is not None
    assert isinstance(pull.error, InternalError)
    check_others(wire, other, *["PullConsumer"] * (2 if name == "deadline" else 1))  # it is asked while it ends, too


@pytest.mark.parametrize("name", ["link_lost", "link_restored"])
def test_a_link_that_goes_and_comes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wire = prepared()
    broken_one, other = Subscription(wire.client, "broken"), Subscription(wire.client, "other")
    other_lost: list[object] = []
    monkeypatch.setattr(PullConsumer, name, lambda *_: other_lost.append(1))
    wire.js.pull_consumer(wire.run_until(wire.js.consumer_info("S", "d", now=wire.now)), JSMsg)
    with monkeypatch.context() as patch:
        broken(patch, Subscription, name)
        wire.lose_link()
        wire.advance(5.0)
    assert isinstance(broken_one.error, InternalError)
    assert other_lost
    assert isinstance(other.error, InternalError)
    check_others(wire, Subscription(wire.client, "other"), "Subscription", "Subscription")


def test_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = prepared()
    other = Subscription(wire.client, "other")
    wire.denied.append("$JS.API.INFO")
    broken(monkeypatch, Subscription, "denied")
    with pytest.raises(PermissionsViolationError):
        wire.run_until(wire.js.account_info(now=wire.now))
    assert isinstance(other.error, InternalError)


def test_a_machine_that_fails_when_it_is_to_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = prepared()
    other = Subscription(wire.client, "other")
    pull = wire.js.pull_consumer(wire.run_until(wire.js.consumer_info("S", "d", now=wire.now)), JSMsg)
    pull.fetch(1, now=wire.now, expires=1.0)
    broken(monkeypatch, PullConsumer, *INPUTS, "crashed")
    wire.exchange()
    check_others(wire, other, "PullConsumer", "PullConsumer")


def test_a_proof_that_a_session_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = prepared()
    other = Subscription(wire.client, "other")
    known = KnownStreams(wire.js, SessionToken({"S": (0, 3)}))
    ticket = known.prove("S", wire.now, 5.0)
    broken(monkeypatch, KnownStreams, "handle_timeout")
    wire.client.handle_timeout(wire.now + 6.0)
    wire.exchange()
    assert isinstance(ticket.error, InternalError)
    check_others(wire, other, "KnownStreams")


def test_workers_are_told() -> None:
    wire = prepared()
    info = wire.run_until(wire.js.consumer_info("S", "d", now=wire.now))
    pull = wire.js.pull_consumer(info, JSMsg)
    work: ConsumerWork[JSMsg] = wire.js.consume(pull, info.config, now=wire.now)
    ticket = work.take(wire.now)
    assert isinstance(ticket, Ticket)
    error = InternalError("ConsumerWork", ZeroDivisionError("a bug"))
    work.crashed(error, wire.now)
    assert work.error is error
    Acker(wire.client, wire.client.requests, JSMsg).crashed(error, wire.now)  # nobody waits for it


def test_an_answer_that_breaks_its_decoder() -> None:
    wire = prepared()
    other = Subscription(wire.client, "other")

    def decode(_: object) -> object:
        raise KeyError("x")

    asked = wire.client.requests.request("$JS.API.INFO", b"", timeout=5, now=wire.now, decode=decode)
    beside = wire.js.account_info(now=wire.now)
    with pytest.raises(InternalError, match=r"the answer from \$JS.API.INFO has failed.*KeyError"):
        wire.run_until(asked)
    wire.run_until(beside)
    check_others(wire, other, "Requests")


def test_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = prepared()
    other = Subscription(wire.client, "other")
    monkeypatch.setattr("jsproto.client.consume.subscribe.PushConsumer", lambda *_, **__: 1 / 0)
    with pytest.raises(InternalError, match="_subscribe has failed"):
        VERBS["subscribe"](wire)
    check_others(wire, other, "_subscribe")


def test_a_fault_of_the_link_is_not_a_conversations(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = prepared()

    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    link: Any = wire.client._link
    monkeypatch.setattr(type(link), "receive", fail)
    with pytest.raises(ZeroDivisionError):
        wire.client.receive_data(b"PING\r\n", wire.now)


def test_what_came_with_the_message_of_a_broken_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = prepared()
    session: Session = wire.client
    first, second = (Subscription(session, name) for name in ("one", "two"))
    real = Subscription.receive

    def fail(self: Subscription, message: Any, now: float) -> None:
        if self is first:
            raise ZeroDivisionError("a bug")
        real(self, message, now)

    monkeypatch.setattr(Subscription, "receive", fail)
    monkeypatch.setattr(Subscription, "receive_plain", lambda *_: 0)
    sids = {conversation: sid for sid, conversation in session._routes.items()}
    one, two = sids[first], sids[second]
    header = b"NATS/1.0\r\nA: b\r\n\r\n"
    session.receive_data(
        b"".join(
            b"HMSG %b %b %d %d\r\n%bx\r\n" % (subject, sid, len(header), len(header) + 1, header)
            for subject, sid in ((b"two", two), (b"one", one), (b"one", one), (b"two", two))
        ),
        wire.now,
    )
    assert second.pending_msgs == 2
    assert isinstance(first.error, InternalError)
    session.receive_data(b"".join(b"MSG %b %b 1\r\nx\r\n" % (b"two", two) for _ in range(3)), wire.now)
    assert second.pending_msgs == 5


def test_many_messages_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = prepared()
    session: Session = wire.client
    other = Subscription(session, "other")
    pull = wire.js.pull_consumer(wire.run_until(wire.js.consumer_info("S", "d", now=wire.now)), JSMsg)
    fetch = pull.fetch(50, now=wire.now, expires=2.0)
    plain = Subscription(session, "plain")
    sids = {conversation: sid for sid, conversation in session._routes.items()}
    pulled, plainly, beside = sids[pull], sids[plain], sids[other]
    wire.exchange()
    reply = b"$JS.ACK.S.d.1.%d.%d.1700000000000000000.9"
    delivered = b"".join(b"MSG s.a %b %b 1\r\nx\r\n" % (pulled, reply % (seq, seq)) for seq in range(9, 29))
    mixed = b"".join(b"MSG a.b %b 1\r\nx\r\n" % sid for sid in [plainly, beside] * 50)
    monkeypatch.setattr(Subscription, "in_any_order", True)
    real = Subscription.receive_plain

    def fail(self: Subscription, run: Any, now: float) -> int:
        if self is plain:
            raise ZeroDivisionError("a bug")
        return real(self, run, now)

    monkeypatch.setattr(Subscription, "receive_plain", fail)
    broken(monkeypatch, PullConsumer, *INPUTS)
    for _ in range(2):  # the second time nobody is there
        session.receive_data(delivered, wire.now)
        session.receive_data(mixed, wire.now)
    wire.exchange()
    assert isinstance(pull.error, InternalError)
    assert fetch.done.done  # it had got something
    assert isinstance(plain.error, InternalError)
    assert other.pending_msgs == 100
    check_others(wire, other, "PullConsumer", "Subscription")
