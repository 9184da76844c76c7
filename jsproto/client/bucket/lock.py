"""A lock on a key of a bucket: one holder at a time, for as long as the server has its key. The machine.

How it works: the holder creates the key with a time to live, and renews it. All writes are conditional on the key's
last revision, so of several writers one wins. Whoever waits follows the key by a watch.

Rules:

* The token is the revision that acquired the lock. A later holder has a greater one.
* A write of the same bucket is fenced: it is stored only while the last revision of the lock's key is the holder's.
* The holder counts its time from before each request, by its own clock. So it stops before the server does.
* A write without an answer may be stored. The next one is refused then, the key is read, and its nonce tells.
* A refusal after which the key has another nonce, or none, is LockLostError. A lock that was lost stays lost: each verb
  says so, ``release`` too, until it is acquired again.
* Removals without a marker show in no watch. So the key is tried again when it must have expired.
* A lock that is kept alive is renewed after each third of its time.
* What was asked for while the caller has gone is given back. Without an answer it expires.

Not here: who waits for a second lock at the same time (no order, no queue), locks over several keys.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from jsproto.api_errors import StreamWrongLastSequenceError
from jsproto.client.bucket.entries import last_entry, of_bucket
from jsproto.client.bucket.watch import Watch, WatchPlan, open_watch
from jsproto.client.bucket.writes import NOT_TAKEN, TRIES, KeyMessage, key_message, not_taken
from jsproto.errors import (
    ConnectionLostError,
    Error,
    KeyWrongLastSequenceError,
    LocalProtocolError,
    LockLostError,
    LockTimeoutError,
    NoStreamResponseError,
    TimeoutError,
)
from jsproto.grammar.bucket_keys import KeySpace, KeyValueEntry
from jsproto.grammar.lock_holder import LockHolder, parse_holder
from jsproto.outbox import Conversation
from jsproto.ticket import Live, Readable, Ticket
from jsproto.timers import Timer, Timers

if TYPE_CHECKING:
    from jsproto.client.jetstream import JetStream
    from jsproto.grammar.acks import PubAck
    from jsproto.grammar.headers import HeadersLike

Compose: TypeAlias = Callable[[int], KeyMessage]
"""Given the last revision of the lock's key: a message that is stored if that is its last revision."""

LockKind: TypeAlias = Literal["lock", "election"]

LOOK_AGAIN: Final = 1.0  # seconds until a key that should have expired is tried again
_AT_ONCE: Final = 64  # entries taken at once
_NEVER: Final = float("-inf")


class Lock(Conversation, Live):
    """One lock, free or held. Made by ``Bucket.lock``.

    Attributes: ``name`` (its key), ``bucket``, ``ttl`` (seconds), ``token`` (of the last acquisition, 0 before), and
    ``revision`` (the key's last one, as far as it is known, 0 while it is another's).

    In each verb ``now`` is monotonic seconds, and ``timeout`` seconds for each question, that of the JetStream if None.

    The verbs raise:
        LocalProtocolError: it is not held, or an argument cannot be.

    The tickets fail with:
        MessageTTLDisabledError: the bucket allows no time to live.
        UnsupportedByServerError: the server is older than 2.11.
        ValueTooLargeError: its key needs more bytes than ``max_value_size``.
        BucketNotFoundError: there is no bucket.
        NoStreamResponseError: it has no leader just now. For ``acquire`` that is as no answer.
        TimeoutError, ConnectionLostError: no answer came. What was asked for may be done. Of ``acquire`` it is a
            LockTimeoutError.
    """

    __slots__ = (
        "_asked", "_change", "_expires_at", "_hears", "_holder", "_is_acquiring", "_is_leaving", "_is_lost", "_js",
        "_keeps_alive", "_keys", "_kind", "_renewal", "_seen", "_timers", "_value", "_watch", "bucket", "name",
        "revision", "token", "ttl",
    )  # fmt: skip

    def __init__(
        self, js: JetStream, keys: KeySpace, name: str, holder: LockHolder, *, keep_alive: bool, kind: LockKind = "lock"
    ) -> None:
        """``holder``: who is to have it, with a nonce of its own. ``kind``: what its errors call it.

        Raises:
            LocalProtocolError: ``name`` is no key, or an owner cannot be.
        """
        keys.subject(name)
        self._value = holder.encode()
        self._js = js
        self._keys = keys
        self._holder = holder
        self._keeps_alive = keep_alive
        self.bucket = keys.bucket
        self.name = name
        self.ttl = holder.ttl
        self.token = 0
        self.revision = 0
        self._kind: LockKind = kind
        self._expires_at = _NEVER
        self._is_acquiring = self._is_leaving = self._is_lost = self._hears = False
        self._asked: Ticket[PubAck] | None = None  # what would acquire it, under way
        self._watch: Watch | None = None  # of its key, while it is waited for
        self._seen = (0, 0.0)  # a revision of another holder, and when it was seen first
        self._renewal: Ticket[None] | None = None
        self._change = Readable(js.session.completed)
        self._timers = Timers()

    @property
    def owner(self) -> str:
        """The text that tells others who has it."""
        return self._holder.owner

    @property
    def subject(self) -> str:
        """The subject under which the stream has the key."""
        return self._keys.subject(self.name)

    def is_held(self, now: float) -> bool:
        """Whether it is held for sure, if this clock runs as fast as the server's."""
        return now < self._expires_at

    # -- verbs ---------------------------------------------------------------------------------------------------------

    def acquire(self, *, now: float, ends_at: float | None = None, timeout: float | None = None) -> Ticket[Lock]:
        """Acquire it. ``ends_at``: until when to wait for other holders, None for ever. One try is made in any case.

        The ticket fails with:
            LockTimeoutError: another holder has it, or no answer came.

        Raises:
            LocalProtocolError: it is held, or is being acquired.
        """
        if self._is_acquiring or self.is_held(now):
            state = "being acquired" if self._is_acquiring else "held"
            raise LocalProtocolError(f"{self._kind} {self.name!r:.200} is {state} by this object")
        self._is_acquiring, self._is_leaving = True, False
        return self._js.session.scripts.bring(self._acquire(now, float("inf") if ends_at is None else ends_at, timeout))

    def renew(self, *, now: float, timeout: float | None = None) -> Ticket[None]:
        """Begin its time anew. Calls at the same time share one renewal.

        The ticket fails with:
            LockLostError: it has expired, or another one has it.
        """
        self.check()
        if self._renewal is None or self._renewal.done:
            self._js.session.note(now)
            self._renewal = self._js.session.run(self._renew(timeout))
        return self._renewal

    def release(self, *, now: float, timeout: float | None = None) -> Ticket[None]:
        """Let another one have it, unless it is free already. It counts as free from now on.

        The ticket fails with:
            LockLostError: it was lost before, which a verb may have told already.
        """
        self._is_leaving, self._expires_at = True, _NEVER
        self._set(Timer.LOCK_RENEW, None)
        self._js.session.note(now)
        return self._js.session.run(self._release(timeout))

    def put(self, key: str, value: bytes, *, now: float, timeout: float | None = None) -> Ticket[int]:
        """Store a value while the lock is held, whatever the key has. The ticket takes its revision.

        The ticket fails with:
            LockLostError: the lock was lost. Nothing was stored.
        """
        return self._fenced(key, value, None, now, timeout)

    def delete(self, key: str, *, now: float, timeout: float | None = None) -> Ticket[int]:
        """Delete a key while the lock is held. Otherwise as ``put``."""
        return self._fenced(key, b"", {"KV-Operation": "DEL"}, now, timeout)

    def settled(self, token: int) -> Generator[Ticket[Any], Any, int]:
        """A script: the key's last revision, once no renewal is under way.

        Raises:
            LockLostError: the lock was lost, or what holds it now is a later acquisition than that of ``token``.
            LocalProtocolError: it was released.
        """
        yield from self._renewed()
        if token != self.token:
            raise LockLostError(self.bucket, self.name, token, self._kind)
        self.check()
        return self._held_revision()

    def confirm(self, timeout: float | None) -> Generator[Ticket[Any], Any, None]:
        """A script: read ``revision`` from the leader, after a condition on it was refused.

        Raises:
            LockLostError: the lock was lost.
        """
        found = yield from last_entry(self._js, self._keys, self.name, timeout)
        is_mine = found is not None and not found.is_marker and not self._is_anothers(found)
        self.revision = found.revision if found is not None and is_mine else 0
        if not is_mine:
            self._is_lost, self._expires_at = True, _NEVER
            self._set(Timer.LOCK_RENEW, None)
        self._held_revision()

    def holder(self, *, now: float, timeout: float | None = None) -> Ticket[LockHolder | None]:
        """Who has the lock, by the leader of the bucket. None: it is free."""
        self._js.session.note(now)
        return self._js.session.run(self._read_holder(timeout))

    def abandon(self, now: float) -> None:
        """As in ``Live``."""
        self.release(now=now)

    # -- time ----------------------------------------------------------------------------------------------------------

    def handle_timeout(self, now: float) -> None:
        """Look at the key again, or renew it."""
        for timer in self._timers.expired(now):
            if timer is Timer.LOCK_LOOK:
                self._change.notify()
            else:
                self._timers.set(Timer.LOCK_RENEW, now + self.ttl / 3)
                self.renew(now=now, timeout=self.ttl / 3)

    def deadline(self) -> float | None:
        """When one of the two is due."""
        return self._timers.next()

    def _set(self, timer: Timer, when: float | None) -> None:
        if when is None:
            self._timers.stop(timer)
        else:
            self._timers.set(timer, when)
        self._js.session.rearm(self)

    # -- acquiring -----------------------------------------------------------------------------------------------------

    def _acquire(self, now: float, ends_at: float, timeout: float | None) -> Generator[Ticket[Any], Any, Lock]:
        session, last, tries = self._js.session, 0, 0
        try:
            while True:
                tries += 1
                try:
                    if (yield from self._attempt(last, now, timeout)):  # pragma: no branch (3.11 traces one of two)
                        return self
                    found = yield from last_entry(self._js, self._keys, self.name, timeout)
                    last = yield from self._freed(found, ends_at, tries)
                except LockTimeoutError:
                    raise
                except (TimeoutError, ConnectionLostError, NoStreamResponseError) as error:
                    if session.now >= ends_at:
                        raise LockTimeoutError(self.bucket, self.name, None, self._kind) from error
                now = session.now
        except BaseException:
            if self._asked is not None and not self._asked.done:  # the caller has gone
                session.run(self._give_back(self._asked, timeout))
            raise
        finally:
            self._is_acquiring = False
            self._set(Timer.LOCK_LOOK, None)
            if self._watch is not None:
                self._watch.unsubscribe(session.now)
            self._asked = self._watch = None

    def _attempt(self, last: int, now: float, timeout: float | None) -> Generator[Ticket[Any], Any, bool]:
        """Write the key if its last revision is ``last``. Whether that has acquired the lock."""
        message = self._claim(last)
        self._asked = self._send(message, now, timeout)
        try:
            ack: PubAck = yield self._asked
        except StreamWrongLastSequenceError:
            return False
        except NOT_TAKEN as error:
            yield from not_taken(self._js, self._keys, message, error, timeout)
        self._is_lost = False
        self._hold(ack.seq, now)
        self.token = ack.seq
        return True

    def _freed(self, found: KeyValueEntry | None, ends_at: float, tries: int) -> Generator[Ticket[Any], Any, int]:
        """Wait until the key may be free: the revision that is to be its last one then. ``found``: what it has."""
        session = self._js.session
        is_free = found is None or not self._is_anothers(found)
        if session.now >= ends_at and (not is_free or tries >= TRIES):
            owner = "" if found is None else parse_holder(found.value).owner
            raise LockTimeoutError(self.bucket, self.name, owner, self._kind)
        if found is None or is_free:
            return 0 if found is None else found.revision
        if self._watch is None:
            plan = WatchPlan.of(self._keys, (self.name,))
            self._watch = yield from open_watch(self._js, self._keys, plan, session.now)
        watch, until = self._watch, self._lapses_at(found)
        while True:
            entries = [entry for entry in watch.pop_many(_AT_ONCE, session.now) if entry is not None]
            if entries:
                latest = entries[-1]
                if not self._is_anothers(latest):
                    return latest.revision
                until = self._lapses_at(latest)
            elif session.now >= min(until, ends_at):
                return 0
            else:
                change = self._change.ticket(is_ready=False)
                self._set(Timer.LOCK_LOOK, min(until, ends_at))
                if not self._hears:
                    self._hears = True
                    session.run(self._hear(watch))
                yield from of_bucket(self.bucket, change)

    def _hear(self, watch: Watch) -> Generator[Ticket[Any], Any, None]:
        """Tell when ``watch`` has something, or has ended."""
        try:
            yield watch.readable()
        except Error as error:
            self._hears = False
            self._change.fail(error)
        else:
            self._hears = False  # whoever is woken may want to hear more at once
            self._change.notify()

    def _lapses_at(self, entry: KeyValueEntry) -> float:
        """When another holder's key must have expired, if this is the last time that it was renewed."""
        now = self._js.session.now
        if entry.revision != self._seen[0]:
            self._seen = (entry.revision, now)
        return max(self._seen[1] + (parse_holder(entry.value).ttl or self.ttl), now + LOOK_AGAIN)

    def _is_anothers(self, entry: KeyValueEntry) -> bool:
        return not entry.is_marker and parse_holder(entry.value).nonce != self._holder.nonce

    def _give_back(self, asked: Ticket[PubAck], timeout: float | None) -> Generator[Ticket[Any], Any, None]:
        """Release what was asked for, if it is granted: the caller has gone."""
        ack: PubAck = yield asked
        yield self._send(self._remove(ack.seq), self._js.session.now, timeout)

    # -- holding -------------------------------------------------------------------------------------------------------

    def _hold(self, revision: int, asked_at: float) -> None:
        self.revision = revision
        if not self._is_leaving:
            self._expires_at = asked_at + self.ttl
            self._set(Timer.LOCK_RENEW, asked_at + self.ttl / 3 if self._keeps_alive else None)

    def check(self) -> None:
        """LocalProtocolError unless it was acquired, and not released since."""
        if not self.revision and not self._is_lost:
            first = "acquire it" if self._kind == "lock" else "win a campaign"
            raise LocalProtocolError(f"{self._kind} {self.name!r:.200} is not held: {first} first")

    def _renew(self, timeout: float | None) -> Generator[Ticket[Any], Any, None]:
        revision, asked_at = yield from self._conditionally(self._claim, timeout)
        self._hold(revision, asked_at)

    def _release(self, timeout: float | None) -> Generator[Ticket[Any], Any, None]:
        yield from self._renewed()
        if self.revision or self._is_lost:
            try:
                yield from self._conditionally(self._remove, timeout)
            finally:
                self.revision = 0

    def _fenced(
        self, key: str, value: bytes, headers: HeadersLike | None, now: float, timeout: float | None
    ) -> Ticket[int]:
        self.check()
        if key == self.name:
            raise LocalProtocolError(f"key {key!r:.200} is that of the {self._kind} itself")
        self._keys.target(key)

        def compose(last: int) -> KeyMessage:
            return key_message(
                self._js, self._keys, key, value, headers, expected_last_subject_seq=last,
                expected_last_subject_seq_subject=self.subject,
            )  # fmt: skip

        self._js.session.note(now)
        return self._js.session.run(self._write(compose, timeout))

    def _write(self, compose: Compose, timeout: float | None) -> Generator[Ticket[Any], Any, int]:
        yield from self._renewed()
        revision, _ = yield from self._conditionally(compose, timeout)
        return revision

    def _held_revision(self) -> int:
        """``revision``. LockLostError while it is another's."""
        if not self.revision:
            raise LockLostError(self.bucket, self.name, self.token, self._kind)
        return self.revision

    def _renewed(self) -> Generator[Ticket[Any], Any, None]:
        """Wait for the end of a renewal that is under way: the revision that it makes is unknown before."""
        if self._renewal is not None and not self._renewal.done:
            try:
                yield self._renewal
            except Error:
                return  # which is its caller's

    def _conditionally(self, compose: Compose, timeout: float | None) -> Generator[Ticket[Any], Any, tuple[int, float]]:
        """Publish a message while the key is this holder's. The revision that it made, and when it was asked for.

        Raises:
            LockLostError: the key is no longer this holder's.
            KeyWrongLastSequenceError: the server contradicts itself again and again.
        """
        for _ in range(TRIES):
            message, now = compose(self._held_revision()), self._js.session.now
            try:
                ack: PubAck = yield self._send(message, now, timeout)
            except StreamWrongLastSequenceError:
                yield from self.confirm(timeout)
            except NOT_TAKEN as error:
                yield from not_taken(self._js, self._keys, message, error, timeout)
            else:
                return ack.seq, now
        raise KeyWrongLastSequenceError(self.bucket, self.name, None)

    def _read_holder(self, timeout: float | None) -> Generator[Ticket[Any], Any, LockHolder | None]:
        found = yield from last_entry(self._js, self._keys, self.name, timeout)
        return None if found is None or found.is_marker else parse_holder(found.value)

    # -- requests ------------------------------------------------------------------------------------------------------

    def _claim(self, last: int) -> KeyMessage:
        """Write the key, or write it anew."""
        return key_message(self._js, self._keys, self.name, self._value, expected_last_subject_seq=last, ttl=self.ttl)

    def _remove(self, last: int) -> KeyMessage:
        """Remove the key. Its marker lives as long as the key would have."""
        return key_message(
            self._js, self._keys, self.name, b"", {"KV-Operation": "PURGE"}, rollup="sub",
            expected_last_subject_seq=last, ttl=self.ttl,
        )  # fmt: skip

    def _send(self, message: KeyMessage, now: float, timeout: float | None) -> Ticket[PubAck]:
        return self._js.publish(message.target, message.value, headers=message.headers, now=now, timeout=timeout)
