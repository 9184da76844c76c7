"""One bucket of keys and values (ADR-8): the verbs.

Rules:

* A verb either sends its request or raises LocalProtocolError with nothing sent.
* Revisions are sequences of the stream. Each write makes one, a deletion too.
* Values are bytes. None of these verbs keeps anything: every call asks the server.
* A mirror is read itself, and written through its origin. What is written shows when it has come back.

Not here: the scripts (``entries``, ``writes``, ``watch``, ``listing``), and what transactions do (``transaction``).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Unpack

from jsproto.api_errors import StreamNameExistError
from jsproto.client.bucket.attempts import TRIES, Attempts
from jsproto.client.bucket.bucket_options import KeyOptions, WatchOptions
from jsproto.client.bucket.bucket_snapshot import BucketSnapshot, snapshot
from jsproto.client.bucket.entries import entries, entry
from jsproto.client.bucket.listing import OLD_MARKER, key_names, present, purge_deletes
from jsproto.client.bucket.lock import Lock, LockKind
from jsproto.client.bucket.manage import read_config, space_of, status
from jsproto.client.bucket.transaction import Isolation, Transaction
from jsproto.client.bucket.watch import Watch, WatchPlan, open_watch, patterns_of
from jsproto.client.bucket.writes import KeyMessage, create, key_message, written
from jsproto.client.read.consistent_session import ConsistentSession
from jsproto.client.read.single import ReadLevel
from jsproto.errors import BucketExistsError, LocalProtocolError
from jsproto.grammar.acks import PubAck
from jsproto.grammar.bodies import MAX_UINT64
from jsproto.grammar.bucket_config import BucketConfig, BucketStatus
from jsproto.grammar.bucket_keys import KeySpace, KeyValueEntry, key_list
from jsproto.grammar.config import StreamInfo
from jsproto.grammar.headers import HeadersLike
from jsproto.grammar.lock_holder import LockHolder
from jsproto.grammar.options import explained, of_flag, of_range, or_none
from jsproto.grammar.publish_headers import PublishOptions
from jsproto.grammar.times import SECOND, Duration, nanoseconds
from jsproto.ticket import Ticket

if TYPE_CHECKING:
    from jsproto.client.jetstream import JetStream

_of_last: Final = of_range(0, MAX_UINT64)
_of_last_or_none: Final = or_none(_of_last)


class Bucket:
    """The keys of one bucket. Made by ``JetStream.bucket`` and ``JetStream.create_bucket``.

    Example:

        bucket = wait(js.create_bucket("MENU", now=now()))
        revision = wait(bucket.put("tea", b"3.00", now=now()))
        entry = wait(bucket.get("tea", now=now()))

    Attributes: ``space`` (where its keys are) and ``config`` (what the bucket was like when it was bound).

    In each verb ``now`` is monotonic seconds, and ``timeout`` seconds for each question, that of the JetStream if None.

    The tickets fail with:
        BucketNotFoundError: there is no bucket.
        ValueTooLargeError: a write has more bytes with its headers than ``max_value_size``.
        NoRespondersError: its stream has no leader now. A write may be tried again.
        TimeoutError: no answer came in time. What was to be written may be stored.
    """

    __slots__ = ("_asks", "_js", "config", "space")

    def __init__(self, js: JetStream, space: KeySpace, config: BucketConfig) -> None:
        """``space`` and ``config`` are of one bucket (``manage``)."""
        self._js = js
        self._asks: JetStream | ConsistentSession = js  # what reads and writes by key
        self.space = space
        self.config = config

    # -- reads ---------------------------------------------------------------------------------------------------------

    def get(
        self,
        key: str,
        *,
        now: float,
        revision: int | None = None,
        level: ReadLevel | None = None,
        timeout: float | None = None,
    ) -> Ticket[KeyValueEntry]:
        """Read the value of a key: the last one, or that of a ``revision``.

        * ``level``: who answers. None: any replica, or the leader where the bucket allows no Direct Get.

        The ticket fails with:
            KeyNotFoundError: the key has no value, or the revision is of another one. KeyDeletedError: it was deleted.
        """
        subject = self.space.subject(key)
        if level is None and not self.config.direct:
            level = "leader"
        asked = self._asks.get_msg(
            self.space.stream, revision, subject=subject if revision is None else None, level=level, now=now,
            timeout=timeout,
        )  # fmt: skip
        return self._js.session.run(entry(self._js, self.space, key, revision, asked, timeout))

    def get_many(
        self, keys: Iterable[str], *, now: float, timeout: float | None = None
    ) -> Ticket[dict[str, KeyValueEntry]]:
        """Read the values of many keys at one moment. Keys without a value are missing.

        The ticket fails with:
            DirectReadsDisabledError: the bucket allows no Direct Get.

        Raises:
            UnsupportedByServerError: the server is older than 2.11.
        """
        wanted = {self.space.subject(key): key for key in key_list(keys)}
        self._js.need_batches()
        return self._js.session.scripts.bring(entries(self._js, self._asks, self.space, wanted, now, timeout))

    # -- writes --------------------------------------------------------------------------------------------------------

    def put(self, key: str, value: bytes, *, now: float, timeout: float | None = None) -> Ticket[int]:
        """Store a value, whatever the key has. The ticket takes its revision."""
        return self._write(key, value, now=now, timeout=timeout)

    def create(
        self, key: str, value: bytes, *, now: float, ttl: Duration | None = None, timeout: float | None = None
    ) -> Ticket[int]:
        """Store a value if the key has none. The ticket takes its revision.

        * ``ttl``: how long it lives, in seconds or as a timedelta, rounded up to whole seconds.

        The ticket fails with:
            KeyExistsError: it has one.
            KeyWrongLastSequenceError: others create and delete it all the time. Or the bucket is a mirror that lags.
            MessageTTLDisabledError: the bucket allows no time to live.
        """

        def message(last: int) -> KeyMessage:
            return key_message(self._js, self.space, key, value, expected_last_subject_seq=last, ttl=ttl)

        send = partial(self._send, timeout=timeout)
        return self._js.session.run(create(self._js, self.space, message, send(message(0), now), send, timeout))

    def update(self, key: str, value: bytes, last: int, *, now: float, timeout: float | None = None) -> Ticket[int]:
        """Store a value if the last revision of the key is ``last``, 0 for none. The ticket takes its revision.

        The ticket fails with:
            KeyWrongLastSequenceError: it is another one.
        """
        return self._write(key, value, now=now, timeout=timeout, expected_last_subject_seq=_of_last("last", last))

    def delete(self, key: str, *, now: float, last: int | None = None, timeout: float | None = None) -> Ticket[int]:
        """Delete a key, and keep its history. The ticket takes the revision of the marker.

        * ``last``: only if that is the last revision of the key.

        The ticket fails with:
            KeyWrongLastSequenceError: it is another one.
        """
        return self._write(
            key,
            b"",
            now=now,
            timeout=timeout,
            headers={"KV-Operation": "DEL"},
            expected_last_subject_seq=_of_last_or_none("last", last),
        )

    def purge(
        self,
        key: str,
        *,
        now: float,
        last: int | None = None,
        ttl: Duration | None = None,
        timeout: float | None = None,
    ) -> Ticket[int]:
        """Delete a key with its history. Arguments and errors as of ``delete`` and ``create``.

        * ``ttl``: how long the marker stays. None: until ``purge_deletes``.
        """
        return self._write(
            key, b"", now=now, timeout=timeout, headers={"KV-Operation": "PURGE"},
            expected_last_subject_seq=_of_last_or_none("last", last), rollup="sub", ttl=ttl,
        )  # fmt: skip

    def purge_deletes(
        self, *, now: float, older_than: Duration = OLD_MARKER, timeout: float | None = None
    ) -> Ticket[int]:
        """Remove the markers of deleted keys. The ticket takes how many revisions that were, history included.

        * ``older_than``: seconds, or a timedelta, by the server's clock. Of a younger marker the history is removed.
        """
        age = nanoseconds(older_than, "older_than")
        return self._js.session.scripts.bring(purge_deletes(self._js, self.space, age, now, timeout))

    # -- several keys at once ------------------------------------------------------------------------------------------

    def transaction(self, isolation: Isolation = "snapshot", *, timeout: float | None = None) -> Transaction:
        """Begin a transaction over keys of this bucket. Errors as of ``Transaction``."""
        return Transaction(self._js, self, isolation, timeout=timeout)

    def attempts(
        self,
        isolation: Isolation = "snapshot",
        *,
        tries: int = TRIES,
        chance: Callable[[], float] | None = None,
        timeout: float | None = None,
    ) -> Attempts:
        """Transactions that are tried again after conflicts. See ``Attempts``.

        ``chance``: None, by the session's token.
        """
        return Attempts(self._js, self, isolation, tries=tries, chance=chance or self._chance, timeout=timeout)

    def _chance(self) -> float:
        return int(self._js.session.draw(), 16) / 2.0**64

    # -- many entries --------------------------------------------------------------------------------------------------

    def keys(self, *filters: str, now: float) -> Ticket[list[str]]:
        """The keys that have a value and match one of ``filters``, in the order of their revisions. None: all keys.

        Raises:
            LocalProtocolError: a filter cannot be one.
        """
        plan = self._plan(filters, meta_only=True)
        return self._js.session.scripts.bring(key_names(self._js, self.space, plan, now))

    def history(self, *filters: str, now: float) -> Ticket[list[KeyValueEntry]]:
        """All revisions that the bucket keeps of the keys that match, oldest first, markers included.

        Raises:
            LocalProtocolError: a filter cannot be one.
        """
        plan = self._plan(filters, history=True)
        return self._js.session.scripts.bring(present(self._js, self.space, plan, now))

    @explained(WatchOptions)
    def watch(self, *filters: str, now: float, **options: Unpack[WatchOptions]) -> Ticket[Watch]:
        """Watch the keys that match one of ``filters``, or all keys. See ``Watch``.

        Raises:
            LocalProtocolError: a filter or an option cannot be, or options contradict each other.
        """
        plan = self._plan(filters, **options)
        return self._js.session.scripts.bring(open_watch(self._js, self.space, plan, now))

    def snapshot(self, *filters: str, now: float, timeout: float | None = None) -> Ticket[BucketSnapshot]:
        """The keys that match one of ``filters``, or all, with their values, at one revision.

        ``timeout``: seconds for each step.

        The ticket fails with:
            DirectReadsDisabledError: the bucket allows no Direct Get.
            SnapshotError: the bucket is written faster than it can be read.

        Raises:
            LocalProtocolError: a filter cannot be one.
            UnsupportedByServerError: the server is older than 2.11.
        """
        patterns = patterns_of(self.space, filters)
        self._js.need_batches()
        return self._js.session.scripts.bring(snapshot(self._js, self.space, patterns, now, timeout))

    # -- coordination --------------------------------------------------------------------------------------------------

    def lock(
        self, name: str, *, ttl: Duration, owner: str = "", keep_alive: bool = False, kind: LockKind = "lock"
    ) -> Lock:
        """A lock on the key ``name``, which is free until it is acquired. See ``Lock``.

        * ``ttl``: how long it lives without a renewal, in seconds or as a timedelta, 1 s or more.
        * ``owner``: a text that tells others who has it. ``keep_alive``: whether it is renewed by itself.
        * ``kind``: what errors call it.

        Raises:
            LocalProtocolError: an argument cannot be, or the bucket is a mirror, which lags behind.
        """
        if self.config.mirror is not None:
            raise LocalProtocolError(
                f"bucket {self.space.bucket} is a mirror, which may lag: take {kind}s of its origin"
            )
        holder = LockHolder(owner, self._js.session.draw().decode(), nanoseconds(ttl, "ttl", SECOND) / SECOND)
        return Lock(self._js, self.space, name, holder, keep_alive=of_flag("keep_alive", keep_alive), kind=kind)

    def status(self, *, now: float, timeout: float | None = None) -> Ticket[BucketStatus]:
        """What the bucket is like now, and how much it holds."""
        asked = self._js.stream_info(self.space.stream, now=now, timeout=timeout)
        return self._js.session.run(status(self.space.bucket, asked))

    def _plan(self, filters: Sequence[str], **options: Unpack[WatchOptions]) -> WatchPlan:
        return WatchPlan.of(self.space, filters, asks_leader=self.config.replicas > 1, **options)

    def _write(
        self,
        key: str,
        value: bytes,
        *,
        now: float,
        timeout: float | None,
        headers: HeadersLike | None = None,
        **options: Unpack[PublishOptions],
    ) -> Ticket[int]:
        """Publish one revision of a key."""
        message = key_message(self._js, self.space, key, value, headers, **options)
        asked = self._send(message, now, timeout)
        return self._js.session.run(written(self._js, self.space, message, asked, timeout))

    def _send(self, message: KeyMessage, now: float, timeout: float | None) -> Ticket[PubAck]:
        return self._asks.publish(message.target, message.value, now=now, timeout=timeout, headers=message.headers)


def new_bucket(
    js: JetStream, name: str, asked: Ticket[StreamInfo], keys: KeyOptions
) -> Generator[Ticket[Any], Any, Bucket]:
    """A script: ``bind_bucket`` to the stream that is to be created. BucketExistsError where another one is there."""
    try:
        return (yield from bind_bucket(js, name, asked, keys))
    except StreamNameExistError as error:
        raise BucketExistsError(name) from error


def bind_bucket(
    js: JetStream, name: str, asked: Ticket[StreamInfo], keys: KeyOptions
) -> Generator[Ticket[Any], Any, Bucket]:
    """A script: the bucket of the stream that was ``asked`` about, or created. Errors as of ``read_config``."""
    config = yield from read_config(name, asked)
    return Bucket(js, space_of(config, js.api.prefix, keys), config)
