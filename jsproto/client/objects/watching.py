"""Watching a bucket of objects: its present descriptions, the end of them, and then what changes.

How it works: an ordered consumer delivers the description of each object, and goes on with what is new. It survives
lost links and restarts (``consume.ordered``).

Rules:

* The end of the present ones is one None, also where there is none. ``updates_only`` has no end.
* They end at the message that was the stream's last one when the consumer was followed, or before a later one. At a
  message after which the consumer had no more. Or where the server says that nothing is left.
* An object that changes meanwhile may come twice, or with its newer description alone.
* A description that cannot be read is left out. What is renamed leaves no marker under its old name.

Not here: lists (``listing``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jsproto.client.consume.message import ConsumerMsg
from jsproto.client.consume.subscribe import SubscriptionSpec
from jsproto.client.objects.describing import Place, Script, of_store
from jsproto.client.objects.object_options import ObjectWatchOptions
from jsproto.errors import Error, RemoteProtocolError
from jsproto.grammar.object_info import ObjectInfo, ObjectSpace, read_info
from jsproto.ticket import Live, Ticket

if TYPE_CHECKING:
    from jsproto.client.consume.ordered import OrderedConsumer


class ObjectWatch(Live):
    """The descriptions of one watcher. Made by ``ObjectStore.watch``. Attribute: ``bucket``, its name."""

    __slots__ = ("_end", "_ignores_deletes", "_ordered", "_space", "_waits_for_end", "bucket")

    def __init__(
        self, ordered: OrderedConsumer[ConsumerMsg], space: ObjectSpace, *, has_end: bool, ignores_deletes: bool
    ) -> None:
        """``ordered`` delivers descriptions."""
        self.bucket = space.bucket
        self._space = space
        self._ordered = ordered
        self._ignores_deletes = ignores_deletes
        self._waits_for_end = has_end
        self._end = ordered.end_seen

    def pop_many(self, most: int, now: float) -> list[ObjectInfo | None]:
        """Take up to ``most`` descriptions, oldest first, and None where the present ones end."""
        taken: list[ObjectInfo | None] = []
        for message in self._ordered.pop_many(most, now):
            ack = message.metadata
            seq = ack.sequence.stream
            if self._end is not None and seq > self._end:
                self._end_here(taken)
            try:
                info = read_info(self._space, message.subject, message.data, seq, ack.timestamp)
            except RemoteProtocolError:
                pass
            else:
                if not (self._ignores_deletes and info.deleted):
                    taken.append(info)
            if seq == self._end or not ack.num_pending:
                self._end_here(taken)
        if self._has_end:
            self._end_here(taken)
        return taken

    def readable(self) -> Ticket[None]:
        """Completed when something can be taken. It may turn out to be left out.

        The ticket fails with:
            Error: why the watch ended. No description will come.
        """
        if self._has_end:
            ticket: Ticket[None] = Ticket()
            ticket.succeed(None)
            return ticket
        return self._ordered.readable()

    def unsubscribe(self, now: float) -> None:
        """End it. What was received can still be taken."""
        self._ordered.unsubscribe(now)

    def abandon(self, now: float) -> None:
        """As in ``Live``."""
        self.unsubscribe(now)

    @property
    def error(self) -> Error | None:
        """Why it ended, None while it lives."""
        return self._ordered.error

    @property
    def pending_msgs(self) -> int:
        """Messages that were received and not taken."""
        return self._ordered.pending_msgs

    @property
    def _has_end(self) -> bool:
        """Whether the present descriptions end without a further message."""
        return self._waits_for_end and self._ordered.is_idle and not self._ordered.pending_msgs

    def _end_here(self, taken: list[ObjectInfo | None]) -> None:
        """The present descriptions end, unless they have ended."""
        if self._waits_for_end:
            self._waits_for_end = False
            taken.append(None)


def open_watch(place: Place, asked: ObjectWatchOptions, asked_at: float) -> Script[ObjectWatch]:
    """A watcher.

    Raises:
        BucketNotFoundError: there is no bucket.
    """
    js, space, _ = place
    config: dict[str, Any] = {"deliver_policy": "new" if asked["updates_only"] else "last_per_subject"}
    spec = SubscriptionSpec(space.all_meta, space.stream, options=config)
    ticket = js.subscribe_ordered(spec, now=asked_at, message_class=ConsumerMsg, if_missed="skip")
    try:
        ordered = yield from of_store(space.bucket, ticket)
    except BaseException:
        js.session.abandon(ticket, js.session.now)
        raise
    return ObjectWatch(ordered, space, has_end=not asked["updates_only"], ignores_deletes=asked["ignore_deletes"])
