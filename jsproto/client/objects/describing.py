"""Descriptions of objects: reading one, storing one in the place of another. The scripts.

Rules:

* A description is stored under the revision that was seen. Where there is another one by now, that is judged anew.
* A message id tells whether one whose answer did not come was stored. So it is sent again with the same bytes. Where
  the server has forgotten the id, the present description is compared with the bytes.
* What passes by itself is tried again, with growing pauses.
* The leader is asked where something depends on it: any replica may show an object that was replaced.

Not here: what is judged (``put``, ``object_store``), chunks (``put``, ``get``).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from jsproto.api_errors import (
    StreamDuplicateMessageConflictError,
    StreamNotFoundError,
    StreamSealedError,
    StreamStoreFailedError,
    StreamWrongLastSequenceError,
)
from jsproto.backoff import Backoff
from jsproto.client.connection.pause import Pause
from jsproto.errors import (
    BatchMessageError,
    BucketNotFoundError,
    Error,
    MessageNotFoundError,
    ObjectDamagedError,
    ObjectNotFoundError,
    ObjectStoreFullError,
    ObjectStoreSealedError,
    OutboundBufferLimitError,
    RemoteProtocolError,
)
from jsproto.grammar.object_info import ObjectInfo, ObjectSpace, info_json, read_info
from jsproto.rules.passing import passes
from jsproto.ticket import Ticket

if TYPE_CHECKING:
    from jsproto.client.jetstream import JetStream
    from jsproto.client.read.single import ReadLevel
    from jsproto.grammar.acks import PubAck
    from jsproto.grammar.stored import StoredMsg

T = TypeVar("T")
Script: TypeAlias = Generator[Ticket[Any], Any, T]
Judge: TypeAlias = Callable[[ObjectInfo | None], None]
"""Raises the error of a verb that may not go on: given the present description, deleted or not, or None."""

FIRST_PAUSE: Final = 0.05  # seconds
LONGEST_PAUSE: Final = 1.0
_FULL: Final = "maximum bytes exceeded"  # a failure to store has other reasons as well, such as a broken disk


class Described(NamedTuple):
    """A description, and the bytes that it was read from."""

    info: ObjectInfo
    data: bytes


class Place(NamedTuple):
    """Where the verbs of a bucket work. ``timeout``: seconds for each question."""

    js: JetStream
    space: ObjectSpace
    timeout: float | None

    @property
    def now(self) -> float:
        """Monotonic seconds, of what the script goes on with."""
        return self.js.session.now


def named(bucket: str, error: Error, name: str = "", max_bytes: int | None = None) -> Error:
    """The error of a bucket that an answer about its stream is. Any other error as it is.

    ``name``: of the object that is stored, if one is. ``max_bytes``: of the bucket, if that is known.
    """
    cause = error.__cause__ if isinstance(error, BatchMessageError) else error
    if isinstance(cause, StreamNotFoundError):
        error = BucketNotFoundError(bucket)
    elif isinstance(cause, StreamSealedError):
        error = ObjectStoreSealedError(bucket)
    elif isinstance(cause, StreamStoreFailedError) and name and _FULL in cause.description:
        error = ObjectStoreFullError(bucket, name, max_bytes, cause.description)
    else:
        return error
    error.__cause__ = cause
    return error


def is_passing(error: Error) -> bool:
    """Whether the same may be tried again after a pause: also where there was no room, or an id is in process."""
    cause = error.__cause__ if isinstance(error, BatchMessageError) else error
    if isinstance(cause, OutboundBufferLimitError | StreamDuplicateMessageConflictError):
        return True
    return isinstance(cause, Error) and passes(cause)


def of_store(bucket: str, asked: Ticket[T]) -> Script[T]:
    """The answer to a question about a bucket. A stream that is missing, or sealed, is a bucket that is."""
    try:
        answer: T = yield asked
    except Error as error:
        raise named(bucket, error) from error.__cause__
    return answer


def present(
    place: Place, name: str, asked_at: float, *, level: ReadLevel | None = "leader"
) -> Script[Described | None]:
    """The present description of ``name``, or the marker of a deleted object. None: there was never one.

    Raises:
        BucketNotFoundError: there is no bucket.
        ObjectDamagedError: it cannot be read.
    """
    js, space, timeout = place
    asked = js.get_msg(space.stream, subject=space.meta(name), level=level, now=asked_at, timeout=timeout)
    try:
        message: StoredMsg = yield from of_store(space.bucket, asked)
    except MessageNotFoundError:
        return None
    return describe(space, message)


def describe(space: ObjectSpace, message: StoredMsg) -> Described:
    """What a stored message describes. ObjectDamagedError if that cannot be read."""
    try:
        info = read_info(space, message.subject, message.data, message.seq, message.timestamp)
    except RemoteProtocolError as error:
        name = space.name(message.subject) or message.subject
        raise ObjectDamagedError(space.bucket, name, f"its description is no JSON: {error}") from error
    return Described(info, message.data)


def existing(place: Place, name: str, asked_at: float, *, level: ReadLevel | None = "leader") -> Script[ObjectInfo]:
    """The description of an object that exists.

    Raises:
        ObjectNotFoundError: there is none. Otherwise as ``present``.
    """
    found = yield from present(place, name, asked_at, level=level)
    if found is None or found.info.deleted:
        raise ObjectNotFoundError(place.space.bucket, name, 0 if found is None else found.info.revision)
    return found.info


def store(
    place: Place, info: ObjectInfo, old: ObjectInfo | None, mtime: int | None, judge: Judge, patience: float
) -> Script[tuple[ObjectInfo, ObjectInfo | None]]:
    """Store ``info`` in the place of ``old``. Returns it, with its revision, and what it has replaced.

    ``mtime``: nanoseconds since the epoch. ``patience``: seconds for which failures that pass are tried again.

    Raises:
        Error: that of ``judge``, or why it could not be stored. One that is passing says that it may be stored.
    """
    js, space, timeout = place
    body, subject = info_json(info, mtime), space.meta(info.name)
    msg_id = f"{info.nuid}.{js.session.draw().decode()}"
    backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE, give_up=patience)
    while True:
        revision = 0 if old is None else old.revision
        try:
            try:
                ack: PubAck = yield js.publish(
                    subject, body, now=place.now, timeout=timeout, msg_id=msg_id, rollup="sub",
                    expected_last_subject_seq=revision,
                )  # fmt: skip
                return replace(info, revision=ack.seq, timestamp=mtime or 0), old
            except StreamWrongLastSequenceError as error:
                found = yield from present(place, info.name, place.now)
                if found is not None and found.data == body:  # the answer to an earlier attempt was lost
                    return found.info, old
                if (0 if found is None else found.info.revision) != revision:
                    old = None if found is None else found.info
                    judge(old)
                    continue
                conflict: Error = error  # another one is on its way through the cluster
        except Error as error:
            if not is_passing(error):
                raise named(space.bucket, error, info.name) from error.__cause__
            conflict = error
        pause = backoff.failed(place.now)
        if pause is None:
            raise conflict
        yield Pause(js.session, place.now + pause).over


def keep_asking(place: Place, ask: Callable[[], Script[T]], patience: float) -> Script[T]:
    """Ask until there is an answer that is more than "not now", or ``patience`` seconds are over."""
    backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE, give_up=patience)
    while True:
        try:
            return (yield from ask())
        except Error as error:
            pause = backoff.failed(place.now) if is_passing(error) else None
            if pause is None:
                raise
        yield Pause(place.js.session, place.now + pause).over


def purge_chunks(place: Place, nuid: str, patience: float) -> Script[int]:
    """Remove the chunks of a put. Returns how many that were."""
    js, space, timeout = place
    subject = space.chunks(nuid)

    def purge() -> Script[int]:
        asked = js.purge_stream(space.stream, subject=subject, now=place.now, timeout=timeout)
        return (yield from of_store(space.bucket, asked))

    return (yield from keep_asking(place, purge, patience))


def count_chunks(place: Place, nuid: str) -> Script[int]:
    """How many chunks of a put the leader has."""
    js, space, timeout = place
    subject = space.chunks(nuid)
    asked = js.stream_subjects(space.stream, subject, now=place.now, timeout=timeout)
    counts = yield from of_store(space.bucket, asked)
    return counts.get(subject, 0)
