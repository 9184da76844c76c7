"""Transactions over keys of one bucket: what is read, what is to be written, and what the commit has to check.

How it works: the first read shows one moment of the bucket. Writes are kept here. The commit sends them with the
revisions that they rest on, and the server stores all of them, or none (``commit``).

Rules:

* Later reads show the moment of the first one. A key that has changed since ends the transaction as a conflict.
* Every written key is checked at the revision that was read. One that was not read is looked up at the commit.
* ``snapshot`` isolation checks the written keys, and those of ``guard``. ``serializable`` checks all that was read.
* The guard of a lock checks the lock's last revision at the commit, so renewals before it are no conflict. One after a
  conflict asks the lock whether it is lost, or was renewed meanwhile.
* A key that is not written is checked by a marker of the reserved key ``GUARD_KEY``, which carries the check.
* One key that is written without a read, and one other check: that is one message, which carries that check alone.
* Without a write nothing is sent. What was read is of one moment anyhow.
* A key is written once, with the last value that it was given.
* One verb at a time: the next one waits for the read before it.

Not promised: a list or a pattern of keys cannot be checked, so new keys that match one are no conflict. A read may be
older than the newest write, until a commit checks it. Removals without a marker have no revision.

Not here: trying again (``Attempts`` of ``transact``), what becomes of a lost answer (``commit``).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from jsproto.api_errors import StreamWrongLastSequenceError
from jsproto.client.bucket.commit import Commit, TransactionMessage
from jsproto.client.bucket.entries import of_read, unanswered
from jsproto.client.bucket.lock import Lock
from jsproto.client.bucket.writes import present_revision
from jsproto.client.connection.write_buffer import copied
from jsproto.client.publish.publish_options import MAX_MESSAGES
from jsproto.client.read.multi import MAX_SUBJECTS, CheckedSubjects
from jsproto.client.read.snapshot import Snapshot
from jsproto.errors import (
    Error,
    KeyDeletedError,
    KeyExistsError,
    KeyNotFoundError,
    LocalProtocolError,
    LockLostError,
    NoStreamResponseError,
    TransactionConflictError,
    TransactionTooLargeError,
    UnsupportedByServerError,
)
from jsproto.grammar.bucket_keys import GUARD_KEY, KeyValueEntry, Operation, key_list, stored_entry
from jsproto.grammar.fields import checked_word
from jsproto.grammar.headers import FIRST_LINE, LINE_END, encode_headers
from jsproto.grammar.publish_headers import publish_headers
from jsproto.grammar.stored import check_seq
from jsproto.grammar.times import Duration
from jsproto.rules.transaction import TRANSACTION, TransactionPhase, TransactionStep
from jsproto.ticket import Ticket

if TYPE_CHECKING:
    from jsproto.client.bucket.bucket import Bucket
    from jsproto.client.jetstream import JetStream
    from jsproto.grammar.stored import StoredMsg

Isolation: TypeAlias = Literal["snapshot", "serializable"]
"""What a transaction is safe from. "snapshot": lost updates. "serializable": write skew as well."""

ISOLATIONS: Final = ("snapshot", "serializable")
GUARDS_SINCE: Final = "2.14.4"  # before, servers compare all checks of other keys with one of them
_ALL: Final = 1 << 62
_CHECK: Final = b"Nats-Expected-Last-Subject-Sequence: %d\r\n"
_CHECK_OTHER: Final = _CHECK + b"Nats-Expected-Last-Subject-Sequence-Subject: %b\r\n"
_MARKER: Final = b"KV-Operation: DEL\r\n"

_P, _S = TransactionPhase, TransactionStep


class _Write(NamedTuple):
    """What a key is to be. ``lines``: headers besides the check."""

    key: str
    value: bytes
    operation: Operation
    lines: bytes


class Transaction:
    """One transaction. Made by ``Bucket.transaction`` and ``Attempts``.

    Attributes:

    * ``phase``: a ``TransactionPhase``.
    * ``error``: why it has ended without being stored, as far as it is known. None before, and after a success.
    * ``revisions``: once it is stored, the revision of each key that it has written.
    * ``passed``: after a conflict, guards that cannot hold any more: subjects with the revisions that were given.

    In each verb ``now`` is monotonic seconds.

    The verbs raise:
        LocalProtocolError: a key or a value cannot be, a read is under way, or the transaction has ended.
        TransactionConflictError: it has ended as a conflict.

    The tickets fail with:
        TransactionConflictError: a key has changed since the first read, or has another revision than was given.
        DirectReadsDisabledError: the bucket allows no Direct Get.
        BucketNotFoundError: there is none. NoRespondersError: nobody leads it.
        StaleReadError: no replica had come to what is to be read in time.
        TimeoutError: no answer came in time.
    """

    __slots__ = (
        "_config", "_given", "_guards", "_js", "_keys", "_least", "_locks", "_names_conflicts", "_seen",
        "_serializable", "_timeout", "_up_to", "_writes", "error", "passed", "phase", "revisions",
    )  # fmt: skip

    phase: TransactionPhase

    def __init__(
        self, js: JetStream, bucket: Bucket, isolation: Isolation, *, least: int = 0, names_conflicts: bool = True,
        timeout: float | None = None,
    ) -> None:  # fmt: skip
        """``least``: the revision that the first read has to show. ``timeout``: seconds for each answer.

        * ``names_conflicts``: whether a conflict is followed by a read that says which keys.

        Raises:
            UnsupportedByServerError: the server is older than 2.11.
            LocalProtocolError: ``isolation`` is no level, or the bucket is a mirror.
        """
        checked_word("isolation", isolation, ISOLATIONS)
        if bucket.config.mirror is not None:
            raise LocalProtocolError(f"bucket {bucket.space.bucket} is a mirror: a transaction is of its origin")
        js.need_batches()
        self._js = js
        self._keys = bucket.space
        self._config = bucket.config
        self._serializable = isolation == "serializable"
        self._least = least
        self._names_conflicts = names_conflicts
        self._timeout = self._js.timeout if timeout is None else timeout
        self._up_to: int | None = None  # the revision that its reads show
        self._seen: dict[str, StoredMsg | None] = {}  # by subject, as all below: what was read
        self._given: dict[str, int] = {}  # revisions that were given
        self._guards: dict[str, str] = {}  # keys to check, though nothing writes them
        self._locks: dict[str, tuple[Lock, int]] = {}  # guards whose revision the lock knows, with their tokens
        self._writes: dict[str, _Write] = {}
        self.phase = _P.OPEN
        self.error: Error | None = None
        self.passed: set[tuple[str, int]] = set()
        self.revisions: dict[str, int] = {}

    @property
    def bucket(self) -> str:
        """The name of its bucket."""
        return self._keys.bucket

    # -- reads ---------------------------------------------------------------------------------------------------------

    def get(self, key: str, *, now: float) -> Ticket[KeyValueEntry]:
        """Read the value of a key. One that this transaction writes has that value, and the revision 0.

        The ticket fails with:
            KeyNotFoundError: the key has no value. KeyDeletedError: it was deleted.
        """
        subject = self._opened(key)
        return self._js.session.scripts.bring(self._get(key, subject, now))

    def get_many(self, keys: Iterable[str], *, now: float) -> Ticket[dict[str, KeyValueEntry]]:
        """Read the values of many keys. Keys without a value are missing."""
        wanted = {self._opened(key): key for key in key_list(keys)}
        return self._js.session.scripts.bring(self._get_many(wanted, now))

    def guard_lock(self, lock: Lock) -> None:
        """Have the commit check that a lock of this bucket is held.

        Raises:
            LocalProtocolError: it is of another bucket, not acquired, or the transaction writes its key.
        """
        self._check_open()
        lock.check()
        if lock.bucket != self.bucket:
            raise LocalProtocolError(f"the lock is of bucket {lock.bucket}, the transaction of bucket {self.bucket}")
        if lock.subject in self._writes:
            raise self._is_guarded_lock(lock.name)
        self._locks[lock.subject] = lock, lock.token
        self._guards[lock.subject] = lock.name

    def guard(self, key: str, revision: int | None = None, *, now: float) -> Ticket[None]:
        """Have the commit check a key that is not written: it must have its present revision, or the one given.

        * ``revision``: 0, the key has neither a value nor a marker. None: the present one, which is read.
        """
        subject = self._opened(key)
        if revision:
            check_seq(revision, "revision")
        return self._js.session.scripts.bring(self._guard(key, subject, revision, now))

    # -- writes --------------------------------------------------------------------------------------------------------

    def put(self, key: str, value: bytes, *, ttl: Duration | None = None) -> None:
        """Give a key a value. ``ttl``: how long it lives, in seconds or as a timedelta, rounded up to whole seconds.

        Raises:
            LocalProtocolError: a ``ttl`` in a bucket with history, where the value before would come back.
        """
        if ttl is not None and self._config.history != 1:
            raise LocalProtocolError("a put with a ttl needs a bucket with history=1: else the value before comes back")
        subject = self._opened(key)
        self._writes[subject] = self._write(key, subject, value, "PUT", ttl)

    def create(self, key: str, value: bytes, *, now: float, ttl: Duration | None = None) -> Ticket[None]:
        """Give a key a value, which must have none. ``ttl``: as in ``put``.

        The ticket fails with:
            KeyExistsError: it has one.
        """
        subject = self._opened(key)
        write = self._write(key, subject, value, "PUT", ttl)
        return self._js.session.scripts.bring(self._create(subject, write, now))

    def delete(self, key: str) -> None:
        """Delete a key, and keep its history."""
        subject = self._opened(key)
        self._writes[subject] = self._write(key, subject, b"", "DEL", None)

    def purge(self, key: str, *, ttl: Duration | None = None) -> None:
        """Delete a key with its history. ``ttl``: how long the marker stays."""
        subject = self._opened(key)
        self._writes[subject] = self._write(key, subject, b"", "PURGE", ttl)

    # -- the end -------------------------------------------------------------------------------------------------------

    def commit(self, *, now: float) -> Ticket[dict[str, int]]:
        """Store all writes, or none. The ticket takes the revision of each key.

        The ticket fails with, besides what reads do:
            TransactionConflictError: a key has another revision than expected. Nothing is stored.
            LockLostError: a lock that it guards was lost. Nothing is stored.
            TransactionUnknownError: the answer was lost, and what became of it cannot be known.
            TransactionsDisabledError: the bucket allows no atomic batches.
            TransactionTooLargeError: more than 1,000 messages, or one that is too large.
            UnsupportedByServerError: the server is too old for several keys (2.12.1), or several guards (2.14.4).
            NoStreamResponseError: nobody leads the stream.
            APIError: the server refuses.
        """
        self._check_open()
        return self._js.session.run(self._commit(now))

    def discard(self) -> None:
        """Give it up: nothing is stored. No effect after the commit has begun."""
        self._step(_S.DISCARD)

    # -- scripts -------------------------------------------------------------------------------------------------------

    def _get(self, key: str, subject: str, now: float) -> Generator[Ticket[Any], Any, KeyValueEntry]:
        if subject not in self._writes:
            yield from self._look([subject], now)
        entry = self._shown(key, subject)
        if entry is None:
            raise KeyNotFoundError(self._keys.bucket, key)
        if entry.is_marker:
            raise KeyDeletedError(self._keys.bucket, key, entry.operation, entry.revision)
        return entry

    def _get_many(self, wanted: Mapping[str, str], now: float) -> Generator[Ticket[Any], Any, dict[str, KeyValueEntry]]:
        yield from self._look([subject for subject in wanted if subject not in self._writes], now)
        shown = {key: self._shown(key, subject) for subject, key in wanted.items()}
        return {key: entry for key, entry in shown.items() if entry is not None and not entry.is_marker}

    def _guard(self, key: str, subject: str, revision: int | None, now: float) -> Generator[Ticket[Any], Any, None]:
        if revision is None:
            yield from self._look([subject], now)
        else:
            known = self._revision(subject)
            self._given[subject] = revision
            if known not in (None, revision):
                raise self._conflict({subject: known or 0}, known)
        self._guards[subject] = key

    def _create(self, subject: str, write: _Write, now: float) -> Generator[Ticket[Any], Any, None]:
        if subject not in self._writes:
            yield from self._look([subject], now)
        entry = self._shown(write.key, subject)
        if entry is not None and not entry.is_marker:
            raise KeyExistsError(self._keys.bucket, write.key, entry.revision)
        self._writes[subject] = write

    def _look(self, subjects: Iterable[str], now: float) -> Generator[Ticket[Any], Any, None]:
        """Read the keys that were not read yet, as they were at the first read."""
        unseen = CheckedSubjects([subject for subject in subjects if subject not in self._seen])
        if not unseen:
            return
        self._step(_S.READ)
        try:
            up_to, found = yield from self._read(unseen, self._least, now)
        finally:
            self._step(_S.READ_ENDED)
        if self._up_to is None:
            self._up_to = self._least = up_to
        for subject in unseen:
            message = self._seen[subject] = found.get(subject)
            revision = 0 if message is None else message.seq
            if revision > self._up_to or self._given.get(subject, revision) != revision:
                raise self._conflict({subject: revision}, revision)

    def _read(
        self, subjects: CheckedSubjects, least: int, now: float
    ) -> Generator[Ticket[Any], Any, tuple[int, dict[str, StoredMsg]]]:
        """The last messages of ``subjects``, at the revision that is returned with them."""
        keys, session = self._keys, self._js.session
        read = Snapshot(
            self._js, keys.stream, subjects, now=now, at_once=len(subjects) <= MAX_SUBJECTS, least=least,
            timeout=self._timeout,
        )  # fmt: skip
        try:
            yield from of_read(self._js, keys, read.readable(), self._timeout)
            messages = read.pop_many(_ALL, session.now)
        finally:
            read.close(session.now)
        return read.up_to_seq or 0, {message.subject: message for message in messages}

    def _commit(self, now: float) -> Generator[Ticket[Any], Any, dict[str, int]]:
        if not self._writes:
            self._step(_S.STORED)
            return {}
        self._js.session.note(now)
        self._step(_S.COMMIT)
        checked = {**dict.fromkeys(self._seen if self._serializable else ()), **self._guards}
        guards = [subject for subject in checked if subject not in self._writes]
        unread = [subject for subject in self._writes if self._revision(subject) is None]
        try:
            if not len(self._writes) == len(guards) == 1:
                yield from self._look(unread, now)
            for subject, (lock, token) in self._locks.items():
                self._given[subject] = yield from lock.settled(token)
            commit = Commit(self._js, self._config, self._messages(guards), self._step, self._timeout)
            try:
                first = yield from commit.run(self._js.session.now)
            except NoStreamResponseError as error:
                yield from unanswered(self._js, self._keys, error, self._timeout)
        except StreamWrongLastSequenceError as error:
            raise (yield from self._refused([*self._writes, *guards], error)) from error
        except Error as error:
            self._step(_S.REFUSED)
            self.error = error
            raise
        self.revisions = {write.key: first + place for place, write in enumerate(self._writes.values())}
        return self.revisions

    def _refused(
        self, checked: Iterable[str], error: StreamWrongLastSequenceError
    ) -> Generator[Ticket[Any], Any, Error]:
        """What the commit ends with after a conflict: LockLostError where a lock is the reason."""
        for lock, _ in self._locks.values():
            try:
                yield from lock.confirm(self._timeout)
            except LockLostError as lost:
                self._step(_S.CHANGED)
                self.error = lost
                return lost
            except Error:
                pass  # the conflict is certain, and the lock learns more at its next verb
        present = present_revision(error)
        return self._conflict((yield from self._changed(checked, present)), present)

    def _changed(self, checked: Iterable[str], present: int | None) -> Generator[Ticket[Any], Any, dict[str, int]]:
        """The present revisions of those ``checked`` that have others than expected, as far as a read tells."""
        if not self._names_conflicts and self._given.keys() <= self._locks.keys():
            return {}
        subjects = CheckedSubjects(checked)
        try:
            _, found = yield from self._read(subjects, present or self._least, self._js.session.now)
        except Error:
            return {}
        revisions = {subject: found[subject].seq if subject in found else 0 for subject in subjects}
        return {
            subject: revision
            for subject, revision in revisions.items()
            if self._revision(subject) not in (None, revision)
        }

    # -- inside --------------------------------------------------------------------------------------------------------

    def _messages(self, guards: list[str]) -> list[TransactionMessage]:
        """The messages of the commit: what is written, then markers with the other checks."""
        server, bucket = self._js.session.server, self._keys.bucket
        if len(guards) > 1 and server is not None and server.is_before(GUARDS_SINCE):
            raise UnsupportedByServerError(
                f"a transaction that checks {len(guards)} keys which it does not write", GUARDS_SINCE, server.version
            )
        checks = [_CHECK_OTHER % (self._revision(subject), subject.encode()) for subject in guards]
        messages: list[TransactionMessage] = []
        for subject, write in self._writes.items():
            expected = self._revision(subject)
            check = checks.pop() if expected is None else _CHECK % expected
            target = self._keys.target(write.key)
            messages.append(TransactionMessage(write.key, target, subject, write.value, write.lines + check, expected))
        guard = self._keys.guard_target
        messages += [TransactionMessage(GUARD_KEY, guard, guard, b"", _MARKER + check, None) for check in checks]
        if len(messages) > MAX_MESSAGES:
            text = f"the transaction has {len(messages)} messages, {len(checks)} of them guards"
            raise TransactionTooLargeError(bucket, f"{text}: a server takes {MAX_MESSAGES}")
        return messages

    def _write(self, key: str, subject: str, value: bytes, operation: Operation, ttl: Duration | None) -> _Write:
        """A write, whose value and ``ttl`` were checked."""
        if subject in self._locks:
            raise self._is_guarded_lock(key)
        value = copied(value)
        if operation == "PUT" and ttl is None:
            return _Write(key, value, operation, b"")
        headers = publish_headers(
            subject, value, self._js.session.server, ttl=ttl, rollup="sub" if operation == "PURGE" else None,
            headers=None if operation == "PUT" else {"KV-Operation": operation},
        )  # fmt: skip
        lines = b"" if headers is None else encode_headers(headers)[len(FIRST_LINE) : -len(LINE_END)]
        return _Write(key, value, operation, lines)

    def _shown(self, key: str, subject: str) -> KeyValueEntry | None:
        """What a key has in this transaction, a marker included. None: it has nothing."""
        write = self._writes.get(subject)
        if write is not None:
            return KeyValueEntry(self._keys.bucket, key, write.value, 0, 0, write.operation, len(write.value))
        message = self._seen[subject]
        return None if message is None else stored_entry(self._keys, message, key)

    def _revision(self, subject: str) -> int | None:
        """The revision that the commit expects of a key. None: it is not known yet."""
        if subject in self._given or subject not in self._seen:
            return self._given.get(subject)
        message = self._seen[subject]
        return 0 if message is None else message.seq

    def _opened(self, key: str) -> str:
        """The subject of a key, in a transaction that goes on."""
        self._check_open()
        return self._keys.subject(key)

    @staticmethod
    def _is_guarded_lock(key: str) -> LocalProtocolError:
        return LocalProtocolError(f"key {key!r:.200} is that of a lock that is guarded: it cannot be written as well")

    def _check_open(self) -> None:
        """Raise why nothing can be read, written or committed now."""
        if self.error is not None:
            raise self.error.with_traceback(None)
        if self.phase is _P.READING:
            raise LocalProtocolError("a read of the transaction is under way: wait for it")
        if self.phase is not _P.OPEN:
            raise LocalProtocolError(f"the transaction is {self.phase.name.lower()}: begin a new one")

    def _conflict(self, changed: Mapping[str, int], revision: int | None) -> TransactionConflictError:
        """``changed``: the present revisions of keys, as far as they are known. ``revision``: that the server tells."""
        self._step(_S.CHANGED)
        self.passed = {
            (subject, given)
            for subject, given in self._given.items()
            if 0 < given < changed.get(subject, 0) and subject not in self._locks
        }
        note = "the revision that was given to guard() is past" if self.passed else ""
        keys = [self._keys.key(subject) for subject in changed]
        self.error = error = TransactionConflictError(self._keys.bucket, keys, revision, note)
        return error

    def _step(self, step: TransactionStep) -> None:
        self.phase = TRANSACTION[self.phase, step] or self.phase
