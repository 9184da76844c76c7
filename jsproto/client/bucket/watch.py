"""Watching a bucket: its present entries, the end of them, and then what changes.

How it works: an ordered consumer delivers the last message of each key, and goes on with what is new. It survives lost
links and restarts (``consume.ordered``).

Where the present entries end: at the message that was the stream's last one when the consumer was followed, or before a
later one. At a message after which the consumer had no more. Or where the server says that nothing is left.

Rules:

* The end of the present entries is one None, also where there is no entry. ``updates_only`` has none.
* A key that changes meanwhile may come twice among the present entries, or with its newer value alone.
* What limits overwrite or drop is no loss: a bucket keeps that many revisions.
* A filter that another one contains is left out, because servers refuse filters that overlap.

Not seen by any watcher: markers that are purged or expire while the link is lost, and revisions that go without a
marker. The watcher still has those keys then.

Not here: what is kept of the entries (``listing``).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Unpack

from jsproto.client.bucket.bucket_options import WatchOptions
from jsproto.client.bucket.entries import of_bucket
from jsproto.client.consume.message import ConsumerMsg
from jsproto.client.consume.subscribe import SubscriptionSpec
from jsproto.errors import Error, LocalProtocolError
from jsproto.grammar.bucket_keys import KeySpace, KeyValueEntry, delivered_entry
from jsproto.grammar.options import checked
from jsproto.grammar.subjects import contains
from jsproto.ticket import Live, Ticket

if TYPE_CHECKING:
    from jsproto.client.consume.ordered import OrderedConsumer
    from jsproto.client.jetstream import JetStream

ALL: Final = ">"


@dataclass(frozen=True, slots=True)
class WatchPlan:
    """What to watch, checked. ``patterns``: of subjects. ``config``: fields of the consumer."""

    patterns: Sequence[str]
    config: dict[str, Any]
    has_end: bool
    ignores_deletes: bool

    @classmethod
    def of(cls, keys: KeySpace, filters: Sequence[str], /, **options: Unpack[WatchOptions]) -> WatchPlan:
        """What ``filters`` and ``options`` mean. Without any filter: all keys.

        Raises:
            LocalProtocolError: a filter or an option cannot be, or options contradict each other.
        """
        asked = checked(WatchOptions, options)
        history, updates_only, since = asked["history"], asked["updates_only"], asked["since"]
        if updates_only and (history or since is not None):
            raise LocalProtocolError("updates_only leaves out what history and since are to show")
        config: dict[str, Any] = {"headers_only": True} if asked["meta_only"] else {}
        if since is not None:
            config |= {"deliver_policy": "by_start_sequence", "opt_start_seq": since}
        else:
            config["deliver_policy"] = "new" if updates_only else "all" if history else "last_per_subject"
        wanted = list(dict.fromkeys(map(keys.pattern, filters or [ALL])))
        patterns = [each for each in wanted if not any(contains(wide, each) for wide in wanted if wide != each)]
        return cls(patterns, config, not updates_only, asked["ignore_deletes"])

    def subscription(self, stream: str) -> SubscriptionSpec:
        """The subscription to a consumer of the stream."""
        if len(self.patterns) == 1:
            return SubscriptionSpec(self.patterns[0], stream, options=self.config)
        return SubscriptionSpec(None, stream, options={**self.config, "filter_subjects": self.patterns})


class Watch(Live):
    """The entries of one watcher. Made by ``Bucket.watch``.

    Attributes: ``bucket``, its name, and ``subject``, what the watcher subscribed to.
    """

    __slots__ = ("_end", "_ignores_deletes", "_keys", "_ordered", "_waits_for_end", "bucket", "subject")

    def __init__(self, ordered: OrderedConsumer[ConsumerMsg], keys: KeySpace, plan: WatchPlan) -> None:
        """``ordered`` delivers what ``plan`` asks for."""
        self.bucket = keys.bucket
        self.subject = ", ".join(plan.patterns)
        self._keys = keys
        self._ordered = ordered
        self._ignores_deletes = plan.ignores_deletes
        self._waits_for_end = plan.has_end
        self._end = ordered.end_seen

    def pop_many(self, most: int, now: float) -> list[KeyValueEntry | None]:
        """Take the entries of up to ``most`` messages, oldest first, and None where the present entries end."""
        taken: list[KeyValueEntry | None] = []
        for message in self._ordered.pop_many(most, now):
            ack = message.metadata
            seq = ack.sequence.stream
            if self._waits_for_end and self._end is not None and seq > self._end:
                self._waits_for_end = False
                taken.append(None)
            entry = delivered_entry(self._keys, message.subject, message._raw[2], message.data, ack)
            if not (self._ignores_deletes and entry.is_marker):
                taken.append(entry)
            if self._waits_for_end and (seq == self._end or not ack.num_pending):
                self._waits_for_end = False
                taken.append(None)
        if self._has_end:
            self._waits_for_end = False
            taken.append(None)
        return taken

    def readable(self) -> Ticket[None]:
        """Completed when something can be taken. It may turn out to be left out.

        The ticket fails with:
            Error: why the watch ended. No entry will come.
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
        """Whether the present entries end without a further message."""
        return self._waits_for_end and self._ordered.is_idle and not self._ordered.pending_msgs


def open_watch(js: JetStream, keys: KeySpace, plan: WatchPlan, now: float) -> Generator[Ticket[Any], Any, Watch]:
    """A watcher of what ``plan`` says.

    Raises:
        BucketNotFoundError: there is no bucket.
    """
    asked = js.subscribe_ordered(plan.subscription(keys.stream), now=now, message_class=ConsumerMsg, if_missed="skip")
    try:
        ordered = yield from of_bucket(keys.bucket, asked)
    except BaseException:
        js.session.abandon(asked, js.session.now)
        raise
    return Watch(ordered, keys, plan)
