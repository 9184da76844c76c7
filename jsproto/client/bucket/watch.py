"""Watching a bucket: its present entries, the end of them, and then what changes.

How it works: an ordered consumer delivers the last message of each key, and goes on with what is new. It survives lost
links and restarts (``consume.ordered``).

Where the present entries end:

* At the message that was the stream's last one when the consumer was followed, or before a later one.
* Of a bucket with replicas the leader is asked which message that is among those watched. A consumer counts what its
  own server has.
* Of another bucket also at a message after which the consumer had no more, or where the server says that nothing is
  left.

Rules:

* The end of the present entries is one None, also where there is no entry. ``updates_only`` has none.
* A key that changes meanwhile may come twice among the present entries, or with its newer value alone.
* What limits overwrite or drop is no loss: a bucket keeps that many revisions.
* A filter that another one contains is left out, because servers refuse filters that overlap.
* Keys that are reserved are not shown.

What goes without a marker, or with one that is removed before it came, is seen by ``track_keys`` alone:

* Known keys are compared with the stream's subjects after each gap, once what came meanwhile has been sent.
* A watcher that was behind for ``LAG`` seconds counts as one with a gap.
* A key that is gone is an entry "PURGE" of revision 0, stored when that was noticed.
* A list that fails is asked for again at the next heartbeat. A user who may not ask for it has no such watcher.

Not here: what is kept of the entries (``listing``), which keys are gone (``known_keys``).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Unpack

from jsproto.api_errors import StreamNotFoundError
from jsproto.client.bucket.bucket_options import WatchOptions
from jsproto.client.bucket.entries import of_bucket
from jsproto.client.bucket.known_keys import KnownKeys
from jsproto.client.consume.message import ConsumerMsg
from jsproto.client.consume.subscribe import SubscriptionSpec
from jsproto.client.read.subject_list import SubjectList
from jsproto.errors import (
    BucketNotFoundError,
    Error,
    LocalProtocolError,
    MessageNotFoundError,
    PermissionsViolationError,
)
from jsproto.grammar.bucket_keys import KeySpace, KeyValueEntry, delivered_entry
from jsproto.grammar.options import checked
from jsproto.grammar.subjects import contains
from jsproto.ticket import Live, Ticket

if TYPE_CHECKING:
    from jsproto.client.consume.ordered import OrderedConsumer
    from jsproto.client.jetstream import JetStream
    from jsproto.grammar.stored import StoredMsg

ALL: Final = ">"
LAG: Final = 5.0  # seconds


@dataclass(frozen=True, slots=True)
class WatchPlan:
    """What to watch, checked. ``patterns``: of subjects. ``config``: fields of the consumer."""

    patterns: Sequence[str]
    config: dict[str, Any]
    has_end: bool
    ignores_deletes: bool
    tracks_keys: bool
    asks_leader: bool
    """Whether the end of the present entries is the leader's to tell."""

    @classmethod
    def of(
        cls, keys: KeySpace, filters: Sequence[str], /, asks_leader: bool = False, **options: Unpack[WatchOptions]
    ) -> WatchPlan:
        """What ``filters`` and ``options`` mean. Without any filter: all keys.

        Raises:
            LocalProtocolError: a filter or an option cannot be, or options contradict each other.
        """
        asked = checked(WatchOptions, options)
        history, updates_only, since = asked["history"], asked["updates_only"], asked["since"]
        if updates_only and (history or since is not None):
            raise LocalProtocolError("updates_only leaves out what history and since are to show")
        if asked["track_keys"] and asked["ignore_deletes"]:
            raise LocalProtocolError("ignore_deletes leaves out what track_keys is to show")
        config: dict[str, Any] = {"idle_heartbeat": asked["heartbeat"]}
        if asked["meta_only"]:
            config["headers_only"] = True
        if since is not None:
            config |= {"deliver_policy": "by_start_sequence", "opt_start_seq": since}
        else:
            config["deliver_policy"] = "new" if updates_only else "all" if history else "last_per_subject"
        return cls(
            patterns_of(keys, filters), config, not updates_only, asked["ignore_deletes"], asked["track_keys"],
            asks_leader and not updates_only,
        )  # fmt: skip

    def subscription(self, stream: str) -> SubscriptionSpec:
        """The subscription to a consumer of the stream."""
        if len(self.patterns) == 1:
            return SubscriptionSpec(self.patterns[0], stream, options=self.config)
        return SubscriptionSpec(None, stream, options={**self.config, "filter_subjects": self.patterns})


def patterns_of(keys: KeySpace, filters: Sequence[str]) -> list[str]:
    """The subjects that ``filters`` match, or all. None contains another one.

    Raises:
        LocalProtocolError: a filter cannot be.
    """
    wanted = list(dict.fromkeys(map(keys.pattern, filters or [ALL])))
    return [each for each in wanted if not any(contains(wide, each) for wide in wanted if wide != each)]


class Watch(Live):
    """The entries of one watcher. Made by ``Bucket.watch``.

    Attributes: ``bucket``, its name, and ``subject``, what the watcher subscribed to.
    """

    __slots__ = (
        "_behind_since", "_compared", "_end", "_generation", "_gone", "_ignores_deletes", "_is_exact", "_js", "_keys",
        "_known", "_ordered", "_plan", "_waits_for_end", "bucket", "subject",
    )  # fmt: skip

    def __init__(
        self, js: JetStream, ordered: OrderedConsumer[ConsumerMsg], keys: KeySpace, plan: WatchPlan, end: int | None
    ) -> None:
        """``ordered`` delivers what ``plan`` asks for. ``end``: the last of the present ones. None: nobody has told."""
        self.bucket = keys.bucket
        self.subject = ", ".join(plan.patterns)
        self._js = js
        self._keys = keys
        self._plan = plan
        self._ordered = ordered
        self._ignores_deletes = plan.ignores_deletes
        self._waits_for_end = plan.has_end
        self._is_exact = end is not None
        self._end = ordered.end_seen if end is None else end
        self._known = KnownKeys() if plan.tracks_keys else None
        self._gone: list[KeyValueEntry] = []
        self._compared: tuple[int, int] | None = (ordered.recreated, ordered.generation)  # the gap that was dealt with
        self._generation = ordered.generation
        self._behind_since: float | None = None
        ordered.reader = self

    def pop_many(self, most: int, now: float) -> list[KeyValueEntry | None]:
        """Take the entries of up to ``most`` messages, oldest first, and None where the present entries end."""
        keys, known = self._keys, self._known
        taken: list[KeyValueEntry | None] = [*self._gone]
        self._gone.clear()
        for message in self._ordered.pop_many(most, now):
            ack = message.metadata
            seq = ack.sequence.stream
            if self._waits_for_end and self._end is not None and seq > self._end:
                self._waits_for_end = False
                taken.append(None)
            subject = message.subject
            if not keys.hides(subject):
                entry = delivered_entry(keys, subject, message._raw[2], message.data, ack)
                is_new = known is None or known.takes(subject, seq, not entry.is_marker)
                if is_new and not (self._ignores_deletes and entry.is_marker):
                    taken.append(entry)
            if known is not None:
                self._keep_up(ack.num_pending, now)
            if self._waits_for_end and (seq == self._end or not (ack.num_pending or self._is_exact)):
                self._waits_for_end = False
                taken.append(None)
        if self._has_end:
            self._waits_for_end = False
            taken.append(None)
        return taken

    def readable(self) -> Ticket[None]:
        """Completed when something can be taken. It may turn out to be left out.

        The ticket fails with:
            BucketNotFoundError: the bucket was deleted.
            Error: why the watch ended. No entry will come.
        """
        if self._gone or self._has_end:
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
        return self._ordered.pending_msgs + len(self._gone)

    @property
    def _has_end(self) -> bool:
        """Whether the present entries end without a further message."""
        ordered = self._ordered
        if not self._waits_for_end or ordered.pending_msgs:
            return False
        return ordered.come_to >= (self._end or 0) if self._is_exact else ordered.is_idle

    # -- what is gone --------------------------------------------------------------------------------------------------

    def rested(self) -> None:
        """As in ``OrderedReader``: the present entries may end here, and after a gap the keys are compared."""
        known, ordered = self._known, self._ordered
        if self._has_end:
            ordered.wake()
        gap = ordered.recreated, ordered.generation
        if known is None or self._compared == gap:
            return
        self._compared = gap
        if self._generation != ordered.generation:
            self._generation = ordered.generation
            known.forget_revisions()
        self._js.session.run(self._compare(known))

    def ended(self, error: Error) -> Error:
        """As in ``OrderedReader``."""
        if not isinstance(error, StreamNotFoundError):
            return error
        missing = BucketNotFoundError(self.bucket)
        missing.__cause__ = error
        return missing

    def _keep_up(self, pending: int, now: float) -> None:
        """A message was taken, and so many were to come when it was sent."""
        if pending:
            self._behind_since = now if self._behind_since is None else self._behind_since
            return
        since, self._behind_since = self._behind_since, None
        if since is not None and now - since >= LAG:
            self._compared = None
        self.rested()

    def _compare(self, known: KnownKeys) -> Generator[Ticket[Any], Any, None]:
        js, keys = self._js, self._keys
        listed = SubjectList(js, keys.stream, self._plan.patterns, timeout=js.timeout)
        try:
            names = yield from listed.counts()
        except PermissionsViolationError as error:
            self._ordered.crashed(error, js.session.now)
        except Error:
            self._compared = None
        else:
            for subject in known.compare(names, listed.listed_at or 0):
                gone = KeyValueEntry(keys.bucket, keys.key(subject), b"", 0, listed.listed_on or 0, "PURGE", 0)
                self._gone.append(gone)
            if self._gone:
                self._ordered.wake()


def open_watch(js: JetStream, keys: KeySpace, plan: WatchPlan, now: float) -> Generator[Ticket[Any], Any, Watch]:
    """A watcher of what ``plan`` says.

    Raises:
        BucketNotFoundError: there is no bucket.
    """
    asked = js.subscribe_ordered(plan.subscription(keys.stream), now=now, message_class=ConsumerMsg, if_missed="skip")
    try:
        ordered = yield from of_bucket(keys.bucket, asked)
        end = None
        if plan.asks_leader and ordered.end_seen is not None:
            end = yield from _end_of(js, keys, plan, ordered.end_seen)
    except BaseException:
        js.session.abandon(asked, js.session.now)
        raise
    return Watch(js, ordered, keys, plan, end)


def _end_of(js: JetStream, keys: KeySpace, plan: WatchPlan, end: int) -> Generator[Ticket[Any], Any, int | None]:
    """The last of the present messages, ``end`` at most, as the leader says. 0: there is none. None: nobody says."""
    asked = [js.get_msg(keys.stream, subject=each, level="leader", now=js.session.now) for each in plan.patterns]
    last = 0
    for each in asked:
        try:
            message: StoredMsg = yield from of_bucket(keys.bucket, each)
        except MessageNotFoundError:
            continue
        except PermissionsViolationError:
            return None
        last = max(last, message.seq)
    return min(last, end) if last >= plan.config.get("opt_start_seq", 0) else 0
