"""Putting an object: its chunks, then its description, then the chunks of the object that it replaces go.

How it goes: the present description is read, and the chunks are sent under a new ``nuid``. The leader counts them. Then
the description is stored, if the one that was read is still there. Otherwise the new one is what this put replaces.

Rules:

* The caller gives a chunk when ``ready()`` says so. A few are kept until they are known to be stored.
* After a fault the leader is asked how many are stored, and the rest is sent again. Message ids keep chunks out that
  the old link still brings.
* The description is stored after the count was right. So no reader sees half an object.
* Each put removes what it has replaced. The last of several puts at the same time wins.
* A put that fails removes its chunks. If it cannot, the error says so: ObjectChunksLeftError.
* A put that is given up does the same in the background, and the event ``ObjectChunksLeft`` tells what is left. Once
  the description was sent, it goes on to its end instead.
* Where it is unknown whether the description is stored, chunks stay.

Not here: how chunks travel (``sending``), and cutting a source into chunks (the drivers). An outage that is longer than
the stream remembers message ids (two minutes) may double what the old link brings even later: then the count is wrong.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final, TypeVar, Unpack

from jsproto.backoff import Backoff
from jsproto.client.connection.pause import Pause
from jsproto.client.objects.describing import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    Place,
    Script,
    count_chunks,
    is_passing,
    keep_asking,
    named,
    present,
    purge_chunks,
    store,
)
from jsproto.client.objects.object_options import PutOptions
from jsproto.client.objects.sending import AcknowledgedSender, FastSender, Sender
from jsproto.enums import IdentityEnum
from jsproto.errors import (
    BucketNotFoundError,
    ConnectionLostError,
    Error,
    LocalProtocolError,
    ObjectChangedError,
    ObjectChunksLeftError,
    ObjectDamagedError,
    ObjectExistsError,
)
from jsproto.events import ObjectChunksLeft
from jsproto.grammar.object_info import ObjectInfo, digest_text
from jsproto.grammar.object_store_config import BATCHED_SINCE, ObjectStoreConfig
from jsproto.grammar.options import checked
from jsproto.grammar.times import seconds
from jsproto.ticket import Live, Readable, Ticket

T = TypeVar("T")

NUID_LENGTH: Final = 22  # characters, as other clients have it
CLEAN_FOR: Final = 5.0  # seconds for which a put that failed tries to remove its chunks


class PutPhase(IdentityEnum):
    """Where a put stands."""

    BEGIN = "the present description is read"
    SENDING = "chunks are taken and sent"
    INTERRUPTED = "a fault has ended the sending: there is a pause"
    COUNTING = "the leader is asked how many chunks are stored"
    CHECKING = "all are acknowledged, and the leader is asked whether it has as many"
    PUBLISHING = "the description is stored"
    PURGING = "what was replaced is removed"
    DONE = "the object is there"
    ABANDONED = "it has failed, or was given up"


_REVOCABLE: Final = frozenset(
    {PutPhase.BEGIN, PutPhase.SENDING, PutPhase.INTERRUPTED, PutPhase.COUNTING, PutPhase.CHECKING}
)


class Put(Live):
    """One put. Made by ``ObjectStore.put``.

    Attributes:
     * ``nuid``: names its chunks.
     * ``chunk_size``: bytes of a chunk, at most.
     * ``phase``: a ``PutPhase``.
     * ``size``: bytes that were given so far.
    """

    __slots__ = (
        "_batched", "_chunks", "_digest", "_ended", "_info", "_kept", "_max_bytes", "_mtime", "_place", "_readable",
        "_sender", "_sent", "_settings", "_stored", "_ticket", "_wanted", "chunk_size", "nuid", "phase", "size",
    )  # fmt: skip

    def __init__(
        self, place: Place, config: ObjectStoreConfig, name: str, mtime: int | None, now: float,
        **options: Unpack[PutOptions],
    ) -> None:  # fmt: skip
        """``mtime``: nanoseconds since the epoch. Errors: as ``ObjectStore.put``."""
        asked = checked(PutOptions, options)
        session = place.js.session
        place.space.meta(name)  # checks it
        self._settings: Any = asked
        self.chunk_size = asked["chunk_size"]
        if self.chunk_size >= session.max_payload:
            raise LocalProtocolError(
                f"chunk_size must be less than {session.max_payload}, which a message may have, not {self.chunk_size}"
            )
        self._settings["resume_for"] = seconds(asked["resume_for"])
        server = session.server
        self._batched = config.batched and not (server is not None and server.is_before(BATCHED_SINCE))
        self._max_bytes = config.max_bytes
        self._place = place
        self._mtime = mtime
        self.nuid = (session.draw() + session.draw()).decode()[:NUID_LENGTH]
        self.phase = PutPhase.BEGIN
        self.size = 0
        self._info = ObjectInfo(
            place.space.bucket, name, asked["description"] or "", asked["headers"] or {}, asked["metadata"] or {},
            nuid=self.nuid, max_chunk_size=self.chunk_size,
        )  # fmt: skip
        self._digest = sha256()
        self._chunks = 0  # given so far
        self._kept: deque[bytes] = deque()  # the last of them, which may not be stored
        self._stored = 0  # those before
        self._sent = 0
        self._sender: Sender | None = None
        self._wanted: Ticket[bytes | None] | None = None  # a chunk, or None for the end
        self._ended = False
        self._readable = Readable(session.completed)
        self._ticket: Ticket[ObjectInfo] = session.scripts.bring(self._run(now))

    # -- verbs ---------------------------------------------------------------------------------------------------------

    def ready(self) -> Ticket[None]:
        """A ticket that is completed when a chunk may be given, or the end. It fails with why the put has failed."""
        return self._readable.ticket(self._wanted is not None, self._ticket.error)

    def offer(self, chunk: bytes, now: float) -> Ticket[None] | None:
        """``add`` the chunk if one is asked for. Otherwise what to wait for, as ``ready`` has it."""
        if self._wanted is None:
            return self.ready()
        self.add(chunk, now)
        return None

    def add(self, chunk: bytes, now: float) -> None:
        """Give the next chunk: 1 to ``chunk_size`` bytes.

        Raises:
            LocalProtocolError: it has another size, or is not asked for (wait for ``ready()``).
        """
        if not 0 < len(chunk) <= self.chunk_size:
            raise LocalProtocolError(f"a chunk has 1 to {self.chunk_size} bytes, not {len(chunk)}")
        wanted = self._wanted
        if wanted is None:
            raise LocalProtocolError("no chunk is asked for: wait for ready()")
        self._digest.update(chunk)
        self.size += len(chunk)
        self._chunks += 1
        self._kept.append(chunk)
        self._give(wanted, chunk, now)

    def finish(self, now: float) -> Ticket[ObjectInfo]:
        """All chunks were given. The ticket takes the description once the object is there.

        The ticket fails with what ``ObjectStore.put`` says.
        """
        self._ended = True
        if self._wanted is not None:
            self._give(self._wanted, None, now)
        return self._ticket

    def abandon(self, now: float) -> None:
        """As in ``Live``: ``give_up``."""
        self.give_up(now)

    def give_up(self, now: float) -> Ticket[int | None]:
        """Give it up: chunks that were sent are removed. No effect once the description was sent, or after the end.

        The ticket takes how many are left, None if that is unknown.
        """
        session = self._place.js.session
        if self.phase in _REVOCABLE:
            session.abandon(self._ticket, now)
            self.phase = PutPhase.ABANDONED
            return session.run(self._clean_up())
        nothing: Ticket[int | None] = Ticket()
        nothing.succeed(0)
        return nothing

    # -- the script ----------------------------------------------------------------------------------------------------

    def _run(self, now: float) -> Script[ObjectInfo]:
        try:
            found = yield from self._keep_asking(lambda: present(self._place, self._info.name, self._place.now))
            old = None if found is None else found.info
            self._judge(old)
            yield from self._send_all()
            yield from self._check()
            info, old = yield from self._publish(old)
            yield from self._purge(old)
        except Error as error:
            failed = yield from self._failed(named(self._info.bucket, error, self._info.name, self._max_bytes))
            self._readable.fail(failed)
            raise failed from error.__cause__ if failed is error else error
        self.phase = PutPhase.DONE
        return info

    def _judge(self, found: ObjectInfo | None) -> None:
        """Check what the caller has asked of the present object."""
        asked, bucket, name = self._settings, self._place.space.bucket, self._info.name
        revision = 0 if found is None else found.revision
        if asked["create"] and found is not None and not found.deleted:
            raise ObjectExistsError(bucket, name, found.nuid, revision)
        wanted = asked["if_revision"]
        if wanted is not None and wanted != revision:
            nuid = "" if found is None else found.nuid
            raise ObjectChangedError(bucket, name, "", nuid, revision, f"the revision is {revision}, not {wanted}")

    def _send_all(self) -> Script[None]:
        """Send chunks until the caller has no more, whatever happens in between."""
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE, give_up=self._settings["resume_for"])
        is_whole = True
        while True:
            before = self._stored
            try:
                if not is_whole:
                    yield from self._count()
                yield from self._send()
                return
            except Error as error:
                if not is_passing(error):
                    raise
                if self._sender is not None:
                    self._sender.abandon(self._place.now)
                    self._sender = None
                if self._stored > before:
                    backoff.reset()
                pause = backoff.failed(self._place.now)
                if pause is None:
                    raise
                is_whole = False
            self.phase = PutPhase.INTERRUPTED
            yield Pause(self._place.js.session, self._place.now + pause).over

    def _count(self) -> Script[None]:
        """Learn which chunks are stored, and go on after them."""
        self.phase = PutPhase.COUNTING
        stored = yield from count_chunks(self._place, self.nuid)
        if not self._stored <= stored <= self._chunks:
            raise self._damaged(stored, self._chunks)
        self._forget(stored)

    def _send(self) -> Script[None]:
        """Send the chunks that are kept, and then what the caller gives."""
        self.phase = PutPhase.SENDING
        js, space, _ = self._place
        session, subject = js.session, space.chunks(self.nuid)
        sender: Sender = FastSender(js, subject, self.chunk_size) if self._batched else AcknowledgedSender(js, subject)
        self._sender = sender
        first = sent = self._stored
        while True:
            yield sender.ready()
            self._forget(first + sender.stored)
            at = sent - self._stored
            if at < len(self._kept):
                chunk: bytes | None = self._kept[at]
            else:
                chunk = yield from self._ask()
            if chunk is None:
                break
            while session.congested:  # others have written meanwhile
                yield session.sendable()
            yield sender.ready()  # it may have broken meanwhile
            if not session.is_connected:  # what waits for the next link would come before the count
                raise ConnectionLostError("the link was lost")
            sender.send(chunk, f"{self.nuid}.{sent}", session.now)
            sent += 1
            self._sent = max(self._sent, sent)
        yield from sender.finish(session.now)
        self._sender = None
        self._forget(sent)

    def _ask(self) -> Script[bytes | None]:
        """The next chunk of the caller. None: there is none."""
        if self._ended:
            return None
        wanted: Ticket[bytes | None] = Ticket()
        self._wanted = wanted
        self._readable.notify()
        chunk: bytes | None = yield wanted
        return chunk

    def _give(self, wanted: Ticket[bytes | None], chunk: bytes | None, now: float) -> None:
        session = self._place.js.session
        self._wanted = None
        session.note(now)
        wanted.succeed(chunk)
        session.completed(wanted)

    def _forget(self, stored: int) -> None:
        """So many chunks are stored."""
        while self._stored < stored:
            self._kept.popleft()
            self._stored += 1

    def _check(self) -> Script[None]:
        self.phase = PutPhase.CHECKING
        if self._chunks:
            stored = yield from self._keep_asking(lambda: count_chunks(self._place, self.nuid))
            if stored != self._chunks:
                raise self._damaged(stored, self._chunks)

    def _publish(self, old: ObjectInfo | None) -> Script[tuple[ObjectInfo, ObjectInfo | None]]:
        self.phase = PutPhase.PUBLISHING
        info = self._info
        info = ObjectInfo(
            info.bucket, info.name, info.description, info.headers, info.metadata, self.size, self._chunks, self.nuid,
            digest_text(self._digest.digest()), self.chunk_size,
        )  # fmt: skip
        return (yield from store(self._place, info, old, self._mtime, self._judge, self._settings["resume_for"]))

    def _purge(self, old: ObjectInfo | None) -> Script[None]:
        """Remove what this put has replaced. The object is there, whatever comes of it."""
        self.phase = PutPhase.PURGING
        if old is None or not old.nuid or old.deleted or old.link is not None:
            return
        try:
            yield from purge_chunks(self._place, old.nuid, self._settings["resume_for"])
        except Error as error:
            self._tell(old.nuid, error)

    def _keep_asking(self, ask: Callable[[], Script[T]]) -> Script[T]:
        return keep_asking(self._place, ask, self._settings["resume_for"])

    # -- failing -------------------------------------------------------------------------------------------------------

    def _failed(self, error: Error) -> Script[Error]:
        """What the put fails with, after its chunks are removed if they can be."""
        is_unknown = self.phase is PutPhase.PUBLISHING and is_passing(error)
        self.phase = PutPhase.ABANDONED
        if is_unknown:
            return self._left(None, f"its description may be stored ({error})")
        left = yield from self._remove()
        return error if left == 0 else self._left(left, str(error))

    def _left(self, chunks: int | None, why: str) -> Error:
        return ObjectChunksLeftError(self._place.space.bucket, self._info.name, self.nuid, chunks, why)

    def _remove(self) -> Script[int | None]:
        """Remove the chunks of this put. Returns how many are left, None if that is unknown."""
        if not self._sent:
            return 0
        sender, self._sender = self._sender, None
        try:
            if sender is not None:  # what is under way comes before the purge. A batch that broke stores no more
                yield from _settled(sender, self._place.now)
            try:  # noqa: SIM105 (contextlib is not for the core)
                yield from purge_chunks(self._place, self.nuid, CLEAN_FOR)
            except Error:
                pass  # the count tells
            return (yield from count_chunks(self._place, self.nuid))
        except BucketNotFoundError:
            return 0  # they have gone with it
        except Error:
            return None

    def _clean_up(self) -> Script[int | None]:
        """What is done after the caller has gone."""
        left = yield from self._remove()
        if left != 0:
            self._tell(self.nuid, None)
        return left

    def _tell(self, nuid: str, error: Error | None) -> None:
        self._place.js.session.emit(ObjectChunksLeft(self._place.space.bucket, self._info.name, nuid, error))

    def _damaged(self, stored: int, wanted: int) -> Error:
        text = f"{wanted} chunks were sent, and the stream has {stored}"
        return ObjectDamagedError(self._place.space.bucket, self._info.name, text)


def _settled(sender: Sender, now: float) -> Script[None]:
    """Wait for what a sender has under way, whatever comes of it."""
    try:  # noqa: SIM105 (contextlib is not for the core)
        yield from sender.finish(now)
    except Error:
        pass  # the purge is for whatever was stored
    sender.abandon(now)
