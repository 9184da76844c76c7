"""Bugs that are planted into the library, one at a time, and the workload with which a simulation finds each.

Each mutation is a small patch of one method, of the client or of the server role.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

from jsproto.client.connection.link import Link
from jsproto.client.connection.requests import Requests
from jsproto.client.connection.session import Session
from jsproto.client.consume.ordered import OrderedConsumer
from jsproto.client.copy.target import CopyTarget
from jsproto.client.publish.fast import FastPublisher
from jsproto.client.read.consistency import ConsistentReads
from jsproto.grammar.acks import FlowGap, PubAck
from jsproto.grammar.position import StreamPosition
from jsproto.grammar.subjects import matches
from jsproto.rules.sequence_gaps import DeliverySequence
from jsproto.rules.window import AckWindow
from jsproto.server.consume.delivery_state import DeliveryState
from jsproto.server.consume.redelivery import PendingAcks
from jsproto.server.publish.fast import FastBatches
from jsproto.server.publish.staged import AtomicBatches
from jsproto.server.server import Server
from jsproto.server.session import ServerSession
from jsproto.server.store.lifetime import Lifetimes
from jsproto.server.store.stream import Stream
from tests.simulation import workloads
from tests.simulation.workloads import Workload

Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Mutation:
    """A planted bug: its name, what plants it, and what finds it."""

    name: str
    plant: Patch
    workload: Workload


def forgotten_gap(patch: pytest.MonkeyPatch) -> None:
    """The role does not report that messages of a fast batch are missing."""
    say = FastBatches._say

    def mute(self: FastBatches, to: bytes | None, message: Any) -> None:
        if not isinstance(message, FlowGap):
            say(self, to, message)

    patch.setattr(FastBatches, "_say", mute)


def gap_for_nobody(patch: pytest.MonkeyPatch) -> None:
    """The client reports one message too few of a gap."""
    receive = FastPublisher._receive_gap

    def fewer(self: FastPublisher, message: Any, gap: FlowGap, now: float) -> None:
        receive(self, message, replace(gap, first_missing=gap.first_missing + 1), now)

    patch.setattr(FastPublisher, "_receive_gap", fewer)


def ack_not_monotone(patch: pytest.MonkeyPatch) -> None:
    """A late acknowledgement takes the client's window back."""
    adopt = AckWindow.adopt

    def any_order(self: AckWindow, sequence: int, every: int, sent: int) -> bool:
        self.acked = min(self.acked, sequence)
        return adopt(self, sequence, every, sent)

    patch.setattr(AckWindow, "adopt", any_order)


def ping_that_counts(patch: pytest.MonkeyPatch) -> None:
    """The role takes a ping for a message of the batch."""
    ping = FastBatches._ping

    def counted(self: FastBatches, to: bytes | None, reply: Any, batch: Any) -> None:
        ping(self, to, reply, batch)
        batch.last += 1

    patch.setattr(FastBatches, "_ping", counted)


def lost_at_restart(patch: pytest.MonkeyPatch) -> None:
    """A restart loses the newest messages of each stream, acknowledged as they are."""
    restart = Server.restart

    def forgetful(self: Server, now: float, *, unsynced_since: float | None = None) -> None:
        for inlet in self.api.streams.values():
            inlet.stream.truncate(now - 2.0, now)
        restart(self, now, unsynced_since=unsynced_since)

    patch.setattr(Server, "restart", forgetful)


def ids_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A new leader does not know the ids of messages."""
    elect = Server.elect_leader

    def forgetful(self: Server, name: str, now: float) -> None:
        self.stream(name)._ids.clear()
        elect(self, name, now)

    patch.setattr(Server, "elect_leader", forgetful)


def lost_link_acknowledges(patch: pytest.MonkeyPatch) -> None:
    """A lost link completes the publishes that wait for an answer, as if they had one."""

    def link_lost(self: Requests, error: Any, now: float) -> None:
        for token, request in list(self._open.items()):
            if request.subject.startswith("$JS."):
                continue
            del self._open[token]
            self._deadlines.set(token, None)
            request.ticket.succeed(PubAck("S", 1))
            self._outbox.completed(request.ticket)
        original(self, error, now)

    original = Requests.link_lost
    patch.setattr(Requests, "link_lost", link_lost)


def batch_with_a_hole(patch: pytest.MonkeyPatch) -> None:
    """The role takes whatever member of an atomic batch comes next."""
    take = AtomicBatches._take

    def any_member(self: AtomicBatches, message: Any, headers: Any, now: float) -> None:
        take(self, message, replace(headers, sequence=len(self._open[headers.batch_id]) + 1), now)

    patch.setattr(AtomicBatches, "_take", any_member)


def gap_not_noticed(patch: pytest.MonkeyPatch) -> None:
    """An ordered consumer does not notice that a delivery is missing."""
    patch.setattr(DeliverySequence, "_compare", lambda self, next_one: None)


def double_delivery_after_reset(patch: pytest.MonkeyPatch) -> None:
    """A consumer that is set back delivers again what waited for an acknowledgement."""
    patch.setattr(PendingAcks, "clear", lambda self: None)


def ordered_goes_back(patch: pytest.MonkeyPatch) -> None:
    """An ordered consumer begins one message too early after a gap."""
    create = OrderedConsumer._create

    def too_early(self: OrderedConsumer[Any], now: float) -> None:
        self._count.stream_seq = max(self._count.stream_seq - 1, 0)
        create(self, now)

    patch.setattr(OrderedConsumer, "_create", too_early)


def never_redelivered(patch: pytest.MonkeyPatch) -> None:
    """The role forgets the messages that nobody acknowledged."""

    def forget(self: PendingAcks, now: float) -> list[int]:
        self.check_at = None
        return []

    patch.setattr(PendingAcks, "expire", forget)


def ack_of_one_is_ack_of_all(patch: pytest.MonkeyPatch) -> None:
    """An acknowledgement settles all messages before it, under each policy."""
    acknowledge = DeliveryState.acknowledge

    def up_to(self: DeliveryState, stream_seq: int, consumer_seq: int, now: float) -> bool:
        self._policy = "all"
        return acknowledge(self, stream_seq, consumer_seq, now)

    patch.setattr(DeliveryState, "acknowledge", up_to)


def wildcard_interest(patch: pytest.MonkeyPatch) -> None:
    """A subscription with wildcards wakes a push consumer."""

    def is_subscribed(self: Server, subject: str, queue: str | None = None) -> bool:
        return any(matches(one.pattern, subject) for one in self._subscriptions())

    patch.setattr(Server, "is_subscribed", is_subscribed)


def ttl_off_by_one(patch: pytest.MonkeyPatch) -> None:
    """A message lives for a second too long."""
    add = Lifetimes.add
    patch.setattr(Lifetimes, "add", lambda self, seq, header, now: add(self, seq, header, now + 1))


def pong_that_does_not_count(patch: pytest.MonkeyPatch) -> None:
    """The role forgets that a client answered its PING."""
    receive = ServerSession._receive

    def forgetful(self: ServerSession, frame: Any, now: float) -> None:
        before = self.outstanding_pings
        receive(self, frame, now)
        self.outstanding_pings = before

    patch.setattr(ServerSession, "_receive", forgetful)


def never_stale(patch: pytest.MonkeyPatch) -> None:
    """The client does not notice that a link is dead."""
    end = Link._end

    def stay(self: Link, error: Any, *args: Any, **options: Any) -> None:
        if type(error).__name__ != "StaleConnectionError":
            end(self, error, *args, **options)

    patch.setattr(Link, "_end", stay)


def not_subscribed_again(patch: pytest.MonkeyPatch) -> None:
    """The client does not subscribe again on a new link."""
    opened = Session._opened

    def forgetful(self: Session, *args: Any) -> None:
        subscribed, self._subscribed = self._subscribed, {}
        opened(self, *args)
        self._subscribed = subscribed

    patch.setattr(Session, "_opened", forgetful)


def stale_read(patch: pytest.MonkeyPatch) -> None:
    """A consistent session believes each replica."""
    patch.setattr(ConsistentReads, "_is_recent", lambda self, read, found: True)
    patch.setattr(ConsistentReads, "_floor", lambda self, read: 0)


def copied_twice(patch: pytest.MonkeyPatch) -> None:
    """A copy goes on one message too early."""
    position = CopyTarget.position

    def early(self: CopyTarget, stream: str) -> StreamPosition:
        found = position(self, stream)
        return StreamPosition(stream, max(0, found.seq - 1), found.identity)

    patch.setattr(CopyTarget, "position", early)


def stored_out_of_order(patch: pytest.MonkeyPatch) -> None:
    """The role stores a message of a fast batch that comes late."""
    in_order = FastBatches._in_order

    def any_order(self: FastBatches, to: bytes | None, reply: Any, batch: Any) -> bool:
        return reply.sequence <= batch.last or in_order(self, to, reply, batch)

    patch.setattr(FastBatches, "_in_order", any_order)


def duplicate_taken(patch: pytest.MonkeyPatch) -> None:
    """The role remembers each message id for a moment only."""
    duplicate_of = Stream.duplicate_of

    def briefly(self: Stream, msg_id: bytes, now: float) -> int | None:
        return duplicate_of(self, msg_id, now + 119.0)

    patch.setattr(Stream, "duplicate_of", briefly)


MUTATIONS: Final = (
    Mutation("forgotten gap", forgotten_gap, workloads.FAST_GAPS),
    Mutation("gap for nobody", gap_for_nobody, workloads.FAST_GAPS),
    Mutation("ack not monotone", ack_not_monotone, workloads.FAST_REORDERED),
    Mutation("ping that counts", ping_that_counts, workloads.FAST_GAPS),
    Mutation("stored out of order", stored_out_of_order, workloads.FAST_REORDERED),
    Mutation("lost at a restart", lost_at_restart, workloads.PUBLISH),
    Mutation("ids forgotten", ids_forgotten, workloads.PUBLISH),
    Mutation("duplicate taken", duplicate_taken, workloads.PUBLISH),
    Mutation("lost link acknowledges", lost_link_acknowledges, workloads.PUBLISH),
    Mutation("batch with a hole", batch_with_a_hole, workloads.ATOMIC),
    Mutation("gap not noticed", gap_not_noticed, workloads.ORDERED),
    Mutation("ordered goes back", ordered_goes_back, workloads.ORDERED),
    Mutation("double delivery after a reset", double_delivery_after_reset, workloads.RESET),
    Mutation("never redelivered", never_redelivered, workloads.WORKERS),
    Mutation("ack of one is ack of all", ack_of_one_is_ack_of_all, workloads.WORKERS),
    Mutation("wildcard interest", wildcard_interest, workloads.INTEREST),
    Mutation("TTL off by one", ttl_off_by_one, workloads.TTL),
    Mutation("PONG that does not count", pong_that_does_not_count, workloads.IDLE),
    Mutation("never stale", never_stale, workloads.STALE),
    Mutation("not subscribed again", not_subscribed_again, workloads.NEWS),
    Mutation("stale read", stale_read, workloads.SESSION),
    Mutation("copied twice", copied_twice, workloads.COPY),
)
