"""Every machine of the client, in every phase, meets everything that can happen: the product of phases and inputs.

A phase is reached by inputs, too. Whatever comes then, in whatever order: nothing raises but a verb at a caller's
mistake, the session lives and serves what is beside the machine, and every wait ends with the session.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.client.connection.session import Session
from jsproto.client.connection.subscription import Subscription
from jsproto.client.consume.message import Acker, JSMsg
from jsproto.client.consume.ordered import OrderedConsumer
from jsproto.client.consume.push import PushConsumer
from jsproto.client.consume.sourcing import SourcingConsumer
from jsproto.client.publish.atomic import AtomicBatch
from jsproto.client.publish.fast import FastPublisher
from jsproto.client.publish.pipelined import PipelinedPublisher
from jsproto.client.read.consistent_session import ConsistentSession
from jsproto.errors import BatchExpiredError, Error, UnsupportedByServerError
from jsproto.grammar.consumer import ConsumerConfig, ConsumerInfo
from jsproto.rules import atomic_batch, fast_batch
from jsproto.rules.atomic_batch import AtomicPhase
from jsproto.rules.fast_batch import FastPhase, FastStep
from jsproto.rules.ordered import OrderedPhase
from jsproto.rules.sourcing_phases import SourcingPhase
from jsproto.rules.table import IGNORED, Table
from tests.effort import share
from tests.stateful.product import (
    ANSWERS,
    CONSUMER,
    INPUTS,
    LINKS,
    TOO_LARGE,
    Input,
    World,
    answered,
    beaten,
    error,
    verb,
)

Verb: TypeAlias = Callable[[World, Any], None]

FINE: Final = "fine"
CONDITIONS: Final = (FINE, "link lost", "outbox full")


@dataclass(frozen=True)
class Machine:
    """One kind of machine.

    ``state``: the name of the phase it is in. ``phases``: by the name of a phase, the inputs and verbs that lead there;
    what follows a colon tells two ways apart. ``check``: what is always true of it. ``options`` are those of the world,
    ``inputs`` those that only this machine meets.
    """

    name: str
    make: Callable[[World], Any]
    verbs: Mapping[str, Verb]
    state: Callable[[Any], str]
    phases: Mapping[str, tuple[str, ...]]
    check: Callable[[Any], None] = field(default=lambda machine: None)
    options: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Input] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


class Walk:
    """One machine on its way, which begins in a phase and under a condition."""

    def __init__(self, machine: Machine, phase: str, condition: str) -> None:
        self.kind = machine
        self.world = World(**machine.options)
        self.machine = machine.make(self.world)
        self.world.look()
        for name in machine.phases[phase]:
            self.take(name)
        assert machine.state(self.machine) == phase.partition(":")[0]
        if condition != FINE:
            self.take(condition)

    def take(self, name: str) -> None:
        """One input, or one verb."""
        try:
            given = INPUTS.get(name) or self.kind.inputs.get(name)
            if given is not None:
                given(self.world)
            else:
                self.kind.verbs[name](self.world, self.machine)
            self.kind.check(self.machine)
        except Exception as error:
            error.add_note(f"the input was: {name}")
            raise

    def end(self) -> None:
        """What is beside the machine lives, and every wait ends."""
        self.world.check()
        self.kind.check(self.machine)
        self.world.end()
        self.kind.check(self.machine)


# -- publishing --------------------------------------------------------------------------------------------------------


def ended_if_failed(ended: frozenset[Any]) -> Callable[[Any], None]:
    """A batch with an error has ended, and one that has ended waits for nothing."""

    def check(batch: Any) -> None:
        if batch.error is not None:
            assert batch.phase in ended
        if batch.phase in ended:
            assert batch.deadline() is None
            assert batch.ready().done

    return check


def fast(gap: Any) -> Machine:
    def make(world: World) -> FastPublisher:
        return FastPublisher(world.session, inbox="_INBOX.b", batch_id="b1", gap=gap, flow=10, ack_timeout=3.0)

    phases = {
        "IDLE": (),
        "IDLE: the first message was refused here": ("publish too much",),
        "STARTING": ("publish",),
        "OPEN": ("publish", "flow ack 1 (newest)", "publish"),
        "OPEN: the window is closed": ("publish", "flow ack 1 (newest)", "publish many", "ready"),
        "COMMITTING": ("publish", "flow ack 1 (newest)", "publish", "commit"),
        "COMMITTING: a message": ("publish", "flow ack 1 (newest)", "publish", "commit a message"),
        "COMMITTING: the only message": ("commit a message",),
        "COMMITTED": ("publish", "flow ack 1 (newest)", "publish", "commit", "batch ack 2 (newest)"),
        "FAILED": ("publish", "switched off 1 (newest)"),
        "ABANDONED": ("publish", "abandon"),
    }
    if gap == "fail":
        phases["BROKEN"] = ("publish", "flow ack 1 (newest)", "publish", "publish", "flow gap 2 (newest)")
    expires = (BatchExpiredError,)
    return Machine(
        f"fast batch, gap {gap}",
        make,
        {
            "publish": verb(lambda batch, world: batch.publish("e.a", b"1", now=world.now), *expires),
            "publish with headers": verb(lambda batch, world: batch.publish("e.b", b"1", {"a": "b"}, now=world.now)),
            "publish too much": verb(lambda batch, world: batch.publish("e.a", TOO_LARGE, now=world.now)),
            "publish to no subject": verb(lambda batch, world: batch.publish("e a", now=world.now)),
            "publish many": verb(lambda batch, world: batch.publish_many([("e.a", b"")] * 30, world.now)),
            "publish no message": verb(lambda batch, world: batch.publish_many([("e.a", b""), 7], world.now)),
            "commit": verb(lambda batch, world: batch.commit(world.now)),
            "commit a message": verb(lambda batch, world: batch.commit(world.now, "e.z", b"last")),
            "commit too much": verb(lambda batch, world: batch.commit(world.now, "e.a", TOO_LARGE)),
            "ping": verb(lambda batch, world: batch.ping(world.now)),
            "ready": verb(lambda batch, world: batch.ready()),
            "look": verb(lambda batch, world: (batch.room, batch.unacknowledged, batch.ack, batch.flow)),
            "abandon": verb(lambda batch, world: batch.abandon(world.now)),
        },
        lambda batch: batch.phase.name,
        phases,
        ended_if_failed(fast_batch.ENDED),
    )


def make_atomic(world: World) -> AtomicBatch:
    return AtomicBatch(world.session, inbox="_INBOX.b", batch_id="b1", ack_every=3, ack_timeout=3.0, max_messages=8)


OPEN_BATCH: Final = ("add", "empty 1 (newest)", "add")
ATOMIC: Final = Machine(
    "atomic batch",
    make_atomic,
    {
        "add": verb(lambda batch, world: batch.add("e.a", b"1", now=world.now)),
        "add with headers": verb(lambda batch, world: batch.add("e.b", b"1", {"Nats-Msg-Id": "1"}, now=world.now)),
        "add a bad header": verb(lambda batch, world: batch.add("e.b", b"1", {"Nats-Batch-Id": "1"}, now=world.now)),
        "add too much": verb(lambda batch, world: batch.add("e.a", TOO_LARGE, now=world.now)),
        "add to no subject": verb(lambda batch, world: batch.add("e a", now=world.now)),
        "add many": verb(lambda batch, world: batch.add_many([("e.a", b"")] * 5, world.now)),
        "add no message": verb(lambda batch, world: batch.add_many([("e.a", b""), 7], world.now)),
        "commit": verb(lambda batch, world: batch.commit(world.now, "e.z", b"last")),
        "commit too much": verb(lambda batch, world: batch.commit(world.now, "e.a", TOO_LARGE)),
        "commit what is there": verb(lambda batch, world: batch.commit_eob(world.now)),
        "ready": verb(lambda batch, world: batch.ready()),
        "look": verb(lambda batch, world: (batch.waiting, batch.sequences, batch.ack)),
        "discard": verb(lambda batch, world: batch.discard(world.now)),
    },
    lambda batch: batch.phase.name,
    {
        "IDLE": (),
        "IDLE: the first message was refused here": ("add too much",),
        "STARTING": ("add", "ready"),
        "OPEN": OPEN_BATCH,
        "OPEN: an answer is awaited": (*OPEN_BATCH, "add", "ready"),
        "COMMITTING": (*OPEN_BATCH, "commit"),
        "COMMITTED": (*OPEN_BATCH, "commit", "batch ack 3 (newest)"),
        "FAILED": ("add", "switched off 1 (newest)"),
        "DISCARDED": (*OPEN_BATCH, "discard"),
    },
    ended_if_failed(atomic_batch.ENDED),
)


def make_pipelined(world: World) -> PipelinedPublisher:
    return PipelinedPublisher(world.session, inbox="_INBOX.p", timeout=2.0, max_pending=4)


def pipelined_state(publisher: PipelinedPublisher) -> str:
    if publisher.error is not None:
        return "ended"
    return "idle" if not publisher.pending else "open" if publisher.room else "full"


PIPELINED: Final = Machine(
    "pipelined publisher",
    make_pipelined,
    {
        "publish": verb(lambda publisher, world: publisher.publish("e.a", b"1", now=world.now)),
        "publish too much": verb(lambda publisher, world: publisher.publish("e.a", TOO_LARGE, now=world.now)),
        "publish to no subject": verb(lambda publisher, world: publisher.publish("e a", now=world.now)),
        "publish many": verb(lambda publisher, world: publisher.publish_many([("e.a", b"")] * 9, world.now)),
        "publish no message": verb(lambda publisher, world: publisher.publish_many([("e.a", b""), 7], world.now)),
        "ready": verb(lambda publisher, world: publisher.ready()),
        "answered": verb(lambda publisher, world: publisher.answered()),
        "take failures": verb(lambda publisher, world: publisher.take_failures()),
        "close": verb(lambda publisher, world: publisher.close(world.now)),
    },
    pipelined_state,
    {
        "idle": ("publish", "publish ack 1 (newest)"),
        "open": ("publish", "answered"),
        "full": ("publish", "publish many", "ready", "answered"),
        "ended": ("publish", "close"),
    },
)


# -- reading -----------------------------------------------------------------------------------------------------------

READ_VERBS: Final[dict[str, Verb]] = {
    "take one": verb(lambda read, world: read.pop_many(1, world.now)),
    "take all": verb(lambda read, world: read.pop_many(99, world.now)),
    "readable": verb(lambda read, world: read.readable()),
    "look": verb(lambda read, world: (read.last_seq, read.up_to_seq, read.num_pending)),
    "close": verb(lambda read, world: read.close(world.now)),
}


def read_state(read: Any) -> str:
    if read.error is not None:
        return "failed"
    return "finished" if read.finished else "reading"


READ_PHASES: Final = {
    "reading": ("readable", "stored message 1 (newest)"),
    "failed": ("readable", "413 Too Many Results 1 (newest)"),
}
DIRECT: Final = Machine(
    "direct batch",
    lambda world: world.js.get_batch("S", now=world.now, timeout=2.0),
    {**READ_VERBS, "take columns": verb(lambda read, world: read.pop_columns(9, world.now))},
    read_state,
    {**READ_PHASES, "finished": ("close",)},
)
LAST_MESSAGES: Final = Machine(
    "last messages",
    lambda world: world.js.get_last_msgs_for("S", "e.>", now=world.now, up_to_seq=3, timeout=2.0),
    {**READ_VERBS, "take columns": verb(lambda read, world: read.pop_columns(9, world.now))},
    read_state,
    {**READ_PHASES, "finished": ("close",)},
)


class Snapshots:
    """A snapshot, from the ticket on."""

    def __init__(self, world: World) -> None:
        self.ticket = world.js.snapshot("S", "e.>", now=world.now, timeout=2.0)
        self.error = None
        world.keep(self.ticket)

    def pop_many(self, most: int, now: float) -> object:
        return None if self.failed or not self.ticket.done else self.ticket.result().pop_many(most, now)

    @property
    def failed(self) -> bool:
        return self.ticket.error is not None


SNAPSHOT: Final = Machine(
    "snapshot",
    Snapshots,
    {"take one": READ_VERBS["take one"], "take all": READ_VERBS["take all"]},
    lambda read: "failed" if read.failed else "there" if read.ticket.done else "reading",
    {
        "reading": (),
        "failed": ("stream gone 1 (newest)",),
    },
)


def consistent_state(session: ConsistentSession) -> str:
    if session.closed:
        return "closed"
    return next((read.phase.name for read in session._reads._reads), "idle")


CONSISTENT: Final = Machine(
    "consistent session",
    lambda world: world.js.consistent_session(timeout=2.0),
    {
        "see": verb(lambda session, world: session.observe("S", 9)),
        "get": verb(lambda session, world: session.get_msg("S", 3, now=world.now)),
        "get last": verb(lambda session, world: session.get_last_msg("S", "e.a", now=world.now)),
        "ask the leader": verb(lambda session, world: session.get_msg("S", 3, now=world.now, level="leader")),
        "get of no stream": verb(lambda session, world: session.get_msg("S S", 3, now=world.now)),
        "publish": verb(lambda session, world: session.publish("e.a", b"1", now=world.now)),
        "publish too much": verb(lambda session, world: session.publish("e.a", TOO_LARGE, now=world.now)),
        "close": verb(lambda session, world: session.close()),
    },
    consistent_state,
    {
        "idle": ("see",),
        "DIRECT": ("see", "get last"),
        "STATE": ("see", "ask the leader"),
        "LEADER": ("ask the leader",),
        "PAUSE": ("see", "get last", "404 Message Not Found 1 (newest)"),
        "closed": ("get", "close"),
    },
)

# -- consuming ---------------------------------------------------------------------------------------------------------


def consuming_verbs(*documented: type[Error]) -> dict[str, Verb]:
    return {
        "take one": verb(lambda consumer, world: consumer.pop_many(1, world.now)),
        "take all": verb(lambda consumer, world: consumer.pop_many(99, world.now)),
        "readable": verb(lambda consumer, world: consumer.readable()),
        "unsubscribe": verb(lambda consumer, world: consumer.unsubscribe(world.now), *documented),
        "drain": verb(lambda consumer, world: world.session.drain(world.now, [consumer]), *documented),
        "acknowledge": verb(lambda consumer, world: [message.ack() for message in consumer.pop_many(9, world.now)]),
    }


def consuming_state(consumer: Any) -> str:
    return "ended" if consumer.error is not None else "buffered" if consumer.pending_msgs else "open"


SUBSCRIPTION: Final = Machine(
    "subscription",
    lambda world: Subscription(world.session, "e.>", pending_msgs_limit=3),
    {
        "take one": verb(lambda subscription, world: subscription.pop_many(1)),
        "take all": verb(lambda subscription, world: subscription.pop_many(99)),
        "readable": verb(lambda subscription, world: subscription.readable()),
        "unsubscribe": verb(lambda subscription, world: subscription.unsubscribe()),
        "unsubscribe after 2": verb(lambda subscription, world: subscription.unsubscribe(2)),
        "unsubscribe after none": verb(lambda subscription, world: subscription.unsubscribe(0)),
        "drain": verb(lambda subscription, world: subscription.drain(world.now)),
    },
    consuming_state,
    {
        "open": ("readable",),
        "buffered": ("delivery 1 of C", "delivery 1 of C", "delivery 1 of C", "delivery 1 of C"),
        "ended": ("readable", "unsubscribe"),
    },
)


def make_push(world: World) -> PushConsumer[JSMsg]:
    config = ConsumerConfig(name="C", deliver_subject="dlv", ack_policy="explicit", idle_heartbeat=1.0)
    push = PushConsumer(
        world.js, world.js.acker(config, JSMsg), deliver_subject="dlv", queue=None, created=True, now=world.now,
        stream="S", subject="e.>", consumer="C", idle_heartbeat=1.0, heartbeats_missed=2.0, pending_msgs_limit=5,
    )  # fmt: skip
    push.bound(ConsumerInfo("S", "C", config), owned=True, now=world.now)
    return push


PUSH: Final = Machine(
    "push consumer",
    make_push,
    consuming_verbs(),
    consuming_state,
    {
        "open": ("readable",),
        "buffered": ("delivery 1 of C", "delivery 2 of C", "flow control"),
        "ended": ("delivery 1 of C", "unsubscribe"),
    },
)


def make_pull(world: World) -> Any:
    return world.js.pull_consumer(ConsumerInfo("S", "C", ConsumerConfig(name="C", ack_policy="explicit")), JSMsg)


def pull_state(consumer: Any) -> str:
    if consumer.error is not None:
        return "ended"
    if consumer._fetches:
        return "fetching"
    return "streaming" if consumer._stream.prefetch is not None else "idle"


PULL: Final = Machine(
    "pull consumer",
    make_pull,
    {
        **consuming_verbs(),
        "fetch": verb(lambda consumer, world: consumer.fetch(3, now=world.now, expires=1.0).done),
        "fetch with heartbeats": verb(
            lambda consumer, world: consumer.fetch(3, now=world.now, expires=2.0, heartbeat=0.5).done
        ),
        "fetch what is there": verb(
            lambda consumer, world: consumer.fetch_no_wait(3, now=world.now, patience=1.0).done
        ),
        "fetch nothing": verb(lambda consumer, world: consumer.fetch(0, now=world.now, expires=1.0)),
        "start": verb(lambda consumer, world: consumer.start(now=world.now, max_msgs=4, expires=2.0, heartbeat=0.5)),
        "stop": verb(lambda consumer, world: consumer.stop(world.now)),
    },
    pull_state,
    {
        "idle": (),
        "fetching": ("fetch", "delivery 1 of C", "fetch what is there"),
        "streaming": ("start", "readable", "delivery 1 of C"),
        "ended": ("fetch", "unsubscribe"),
    },
)


def make_ordered(world: World) -> OrderedConsumer[JSMsg]:
    session = world.session
    return OrderedConsumer(
        session, Acker(session, session.requests, JSMsg, wants_acks=False), api=world.js.api, inbox="_INBOX.o",
        config=ConsumerConfig(filter_subject="e.a"), timeout=2.0, now=world.now, stream="S", subject="e.a",
        idle_heartbeat=1.0, pending_msgs_limit=2,
    )  # fmt: skip


CREATING: Final = ("stream 1 (newest)",)
FOLLOWING: Final = (*CREATING, "consumer 1 (newest)", "stream 1 (newest)")
ORDERED: Final = Machine(
    "ordered consumer",
    make_ordered,
    {**consuming_verbs(), "ready": verb(lambda consumer, world: consumer.ready())},
    lambda consumer: consumer.phase.name,
    {
        "CREATING": ("ready",),
        "CREATING: its stream is known": CREATING,
        "CREATING: another one": (*FOLLOWING, "delivery 4 of o_1"),
        "COMPARING": (*CREATING, "consumer 1 (newest)"),
        "COMPARING: another one": (*FOLLOWING, "delivery 4 of o_1", "consumer 1 (newest)"),
        "FOLLOWING": FOLLOWING,
        "FOLLOWING: another one": (*FOLLOWING, "delivery 4 of o_1", "consumer 1 (newest)", "stream 1 (newest)"),
        "PAUSED": (*FOLLOWING, "delivery 4 of o_1", "unavailable 1 (newest)"),
        "FULL": (*FOLLOWING, "delivery 1 of o_1", "delivery 2 of o_1", "delivery 3 of o_1"),
        "DOWN": (*FOLLOWING, "link lost"),
        "ENDED": (*FOLLOWING, "unsubscribe"),
    },
)


FLOW_CONSUMER: Final[dict[str, Any]] = CONSUMER | {
    "config": {"durable_name": "C", "name": "C", "deliver_subject": "_INBOX.c.d.m", "ack_policy": "flow_control"}
}


def described(identity: bytes = b"", **changes: Any) -> Input:
    """The consumer that is sourced, as an answer to the newest request describes it."""
    body = json.dumps(FLOW_CONSUMER | changes).encode()
    return answered("newest", body, b"NATS/1.0\r\nNats-Stream-Identity: %b\r\n\r\n" % identity if identity else None)


def refused(code: int, err_code: int) -> Input:
    """The newest request is refused."""
    return answered("newest", json.dumps({"error": error(code, err_code)}).encode(), None)


def make_source(world: World) -> SourcingConsumer[JSMsg]:
    session = world.session
    return SourcingConsumer(
        session, Acker(session, session.requests, JSMsg, wants_acks=False), api=world.js.api, inbox="_INBOX.c",
        consumer="C", config=ConsumerConfig(ack_policy="flow_control"), stream="S", subject="S", now=world.now,
        pending_msgs_limit=2,
    )  # fmt: skip


def not_beyond(source: SourcingConsumer[JSMsg]) -> None:
    """What is confirmed was received."""
    assert source.position <= source.received


CLAIMED: Final = ("consumer found", "stream 1 (newest)")
RUNNING: Final = (*CLAIMED, "consumer reset")
AGAIN: Final = (*RUNNING, "delivery 1 of C", "heartbeat 7", *CLAIMED)
HELD: Final = (*AGAIN, "made anew")
SOURCE: Final = Machine(
    "sourcing consumer",
    make_source,
    {
        **consuming_verbs(),
        "ready": verb(lambda source, world: source.ready()),
        "confirm all": verb(lambda source, world: source.confirm(source.received, world.now)),
        "confirm 1": verb(lambda source, world: source.confirm(1, world.now)),
        "restart": verb(lambda source, world: source.restart(source.position, world.now)),
        "fail": verb(lambda source, world: source.fail(Error("the sink is fenced"))),
    },
    lambda source: source.phase.name,
    {
        "CLAIMING": ("ready",),
        "CLAIMING: elsewhere": ("consumer elsewhere",),
        "RESETTING": CLAIMED,
        "PROVING": (*AGAIN, "consumer reset"),
        "RUNNING": RUNNING,
        "RUNNING: asked": (*RUNNING, "delivery 1 of C", "delivery 2 of C", "flow control", "take one"),
        "HOLDING": HELD,
        "PAUSED": ("busy",),
        "FULL": (*RUNNING, "delivery 1 of C", "delivery 2 of C", "delivery 3 of C"),
        "DOWN": (*RUNNING, "delivery 1 of C", "link lost"),
        "ENDED": (*RUNNING, "unsubscribe"),
    },
    check=not_beyond,
    inputs={
        "consumer found": described(),
        "consumer elsewhere": described(config=FLOW_CONSUMER["config"] | {"deliver_subject": "old"}),
        "consumer of a group": described(config=FLOW_CONSUMER["config"] | {"deliver_group": "g"}),
        "consumer reset": described(b"A", reset_seq=1),
        "consumer reset ahead": described(b"A", reset_seq=6, ack_floor={"consumer_seq": 0, "stream_seq": 5}),
        "made anew": described(b"B", reset_seq=1),
        "busy": refused(400, 10013),
        "not found": refused(404, 10014),
        "stalled after 0": beaten(0, "$JS.FC.S.C.2"),
        "stalled after 1": beaten(1, "$JS.FC.S.C.2"),
        "asked in vain": beaten(2, "$JS.FC.S.C.1"),
    },
)


# -- the link ----------------------------------------------------------------------------------------------------------


def link_state(session: Session) -> str:
    return "NONE" if session._link is None else session._link.phase.name


LINK_VERBS: Final[dict[str, Verb]] = {
    "publish": verb(lambda session, world: session.publish_message("e.a", b"1")),
    "publish too much": verb(lambda session, world: session.publish_message("e.a", TOO_LARGE)),
    "publish with headers": verb(
        lambda session, world: session.publish_message("e.a", b"1", headers={"a": "b"}), UnsupportedByServerError
    ),
    "request": verb(lambda session, world: session.request("e.a", now=world.now)),
    "ping": verb(lambda session, world: session.ping(world.now)),
    "wait for room": verb(lambda session, world: session.sendable()),
    "drain": verb(lambda session, world: session.drain(world.now, [])),
    "flush": verb(lambda session, world: session.flush()),
    "close": verb(lambda session, world: session.close(world.now)),
}
DIALLED: Final = ("request", "ping", "link lost", "dialled")
LINK: Final = Machine(
    "link",
    lambda world: world.session,
    LINK_VERBS,
    link_state,
    {
        "OPEN": ("request", "ping"),
        "NONE": ("link lost",),
        "EXPECT_INFO": DIALLED,
        "EXPECT_PONG": (*DIALLED, "INFO {}"),
    },
    options={"may_end": True},
    inputs=LINKS,
)
SECURE_LINK: Final = Machine(
    "link with TLS",
    lambda world: world.session,
    LINK_VERBS,
    link_state,
    {
        "EXPECT_INFO": DIALLED,
        "EXPECT_TLS": (*DIALLED, "INFO {'tls_available': True}"),
        "EXPECT_PONG": (*DIALLED, "INFO {'tls_available': True}", "TLS begins"),
    },
    options={"may_end": True, "tls": True, "info": {"tls_available": True}},
    inputs=LINKS,
)

MACHINES: Final = (
    fast("fail"), fast("ok"), ATOMIC, PIPELINED, DIRECT, LAST_MESSAGES, SNAPSHOT, CONSISTENT, SUBSCRIPTION, PUSH, PULL,
    ORDERED, SOURCE, LINK, SECURE_LINK,
)  # fmt: skip
PAIRS: Final = [(machine, phase) for machine in MACHINES for phase in machine.phases]


@pytest.fixture(scope="module", autouse=True)
def no_machine_steps_what_its_table_ignores() -> Iterator[None]:
    """A fast batch asks before it steps, and a link may meet anything when it is closed: those are left out."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in (("publish.atomic", "ATOMIC"), ("consume.ordered", "ORDERED"),
                             ("consume.sourcing", "SOURCING"), ("read.consistency", "CONSISTENT_READ")):  # fmt: skip
            place = import_module(f"jsproto.client.{module}")
            patch.setattr(place, name, StepsAlone(getattr(place, name)))
        yield


class StepsAlone(dict[Any, Any]):
    """A table of which nobody asks for a pair that is ignored."""

    def __getitem__(self, pair: object) -> object:
        after = super().__getitem__(pair)
        assert after is not IGNORED, pair
        return after


def walk(machine: Machine, phase: str, condition: str, names: list[str]) -> None:
    """These inputs, from this phase on."""
    way = Walk(machine, phase, condition)
    try:
        for name in names:
            way.take(name)
        way.end()
    except Exception as error:
        error.add_note(f"the way was: {machine.name}, {phase}, {condition}, {names}")
        raise


def inputs_of(machine: Machine) -> tuple[str, ...]:
    return (*INPUTS, *machine.inputs, *machine.verbs)


def walk_each(machine: Machine, phase: str, condition: str, names: Sequence[str]) -> None:
    """Each of these inputs, from this phase on. No answer comes without a link."""
    for name in names:
        if not (condition == "link lost" and name in ANSWERS):
            walk(machine, phase, condition, [name])


@pytest.mark.parametrize("condition", [FINE, *(pytest.param(each, marks=pytest.mark.slow) for each in CONDITIONS[1:])])
@pytest.mark.parametrize(("machine", "phase"), PAIRS, ids=str)
def test_every_input_in_every_phase(machine: Machine, phase: str, condition: str) -> None:
    """A quick run takes a part of the inputs, another one for each phase.

    Where something is wrong besides, so does any run with an effort below 4.
    """
    names = share(inputs_of(machine), len(phase), whole_at=1 if condition == FINE else 4)
    walk_each(machine, phase, condition, names)


@st.composite
def ways(draw: st.DrawFn) -> tuple[Machine, str, str, list[str]]:
    machine, phase = draw(st.sampled_from(PAIRS))
    names = st.one_of(st.sampled_from([*machine.verbs]), st.sampled_from([*INPUTS, *machine.inputs]))
    return machine, phase, draw(st.sampled_from(CONDITIONS)), draw(st.lists(names, max_size=12))


@given(ways())
def test_every_way_through_the_phases(way: tuple[Machine, str, str, list[str]]) -> None:
    walk(*way)


def without(pair: tuple[FastPhase, FastStep], entry: str) -> Table[FastPhase, FastStep]:
    table = dict(fast_batch.FAST)
    if entry == "missing":
        del table[pair]
    else:
        table[pair] = IGNORED
    return table


@pytest.mark.parametrize("gap", ["fail", "ok"])
@pytest.mark.parametrize(("entry", "error"), [("missing", KeyError), ("ignored", AssertionError)])
def test_a_batch_that_cannot_fail_before_its_first_message_would_be_noticed(
    gap: str, entry: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = without((FastPhase.IDLE, FastStep.FAIL), entry)
    monkeypatch.setattr("jsproto.client.publish.fast.FAST", table)
    machine = fast(gap)
    with pytest.raises(error):
        walk_each(machine, "IDLE: the first message was refused here", FINE, inputs_of(machine))


@pytest.mark.parametrize(
    ("machine", "phases"),
    [(fast("fail"), FastPhase), (ATOMIC, AtomicPhase), (ORDERED, OrderedPhase), (SOURCE, SourcingPhase)],
    ids=str,
)
def test_every_phase_of_a_table_is_met(machine: Machine, phases: Any) -> None:
    assert {name.partition(":")[0] for name in machine.phases} == {phase.name for phase in phases}
