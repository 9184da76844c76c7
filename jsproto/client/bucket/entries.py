"""Reading entries of a bucket: one key, or many at one moment. The scripts.

Rules:

* A key without a value is an error where one key is asked for, and left out where many are.
* Up to ``MAX_SUBJECTS`` keys take one request, and more of them a snapshot. Both show one moment.
* An answer of any replica may be older than what was written last (``ReadLevel``).

Not here: the requests (``client.read``), keys by a pattern (``listing``).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from jsproto.api_errors import StreamNotFoundError
from jsproto.client.read.multi import MAX_SUBJECTS
from jsproto.errors import (
    BucketNotFoundError,
    DirectReadsDisabledError,
    Error,
    IncompleteBatchError,
    KeyDeletedError,
    KeyNotFoundError,
    MessageNotFoundError,
    NoRespondersError,
    TimeoutError,
)
from jsproto.grammar.bucket_keys import KeySpace, KeyValueEntry, stored_entry
from jsproto.ticket import Ticket

if TYPE_CHECKING:
    from jsproto.client.jetstream import JetStream
    from jsproto.client.read.consistent_session import ConsistentSession
    from jsproto.client.read.multi import LastMessages
    from jsproto.client.read.snapshot import Snapshot
    from jsproto.grammar.config import StreamInfo
    from jsproto.grammar.stored import StoredMsg

T = TypeVar("T")

_AT_ONCE: Final = 512  # entries taken at once


def of_bucket(bucket: str, asked: Ticket[T]) -> Generator[Ticket[Any], Any, T]:
    """The answer to a question about a bucket's stream. A stream that is missing is a bucket that is."""
    try:
        answer: T = yield asked
    except StreamNotFoundError as error:
        raise BucketNotFoundError(bucket) from error
    return answer


def unanswered(
    js: JetStream, keys: KeySpace, error: NoRespondersError, timeout: float | None
) -> Generator[Ticket[Any], Any, NoReturn]:
    """Raise ``error``, of a question that found no responder: the stream has no leader now, or there is none.

    Raises:
        BucketNotFoundError: there is none.
        DirectReadsDisabledError: it allows no Direct Get, and that is what was asked.
    """
    info: StreamInfo | None = None
    try:
        info = yield js.stream_info(keys.stream, now=js.session.now, timeout=timeout)
    except StreamNotFoundError:
        raise BucketNotFoundError(keys.bucket) from error
    except Error:
        pass
    if info is not None and type(error) is NoRespondersError and not info.config.allow_direct:
        raise DirectReadsDisabledError(keys.bucket, error.subject) from error
    raise error


def of_read(js: JetStream, keys: KeySpace, asked: Ticket[T], timeout: float | None) -> Generator[Ticket[Any], Any, T]:
    """The answer to a read by Direct Get.

    Raises:
        BucketNotFoundError, DirectReadsDisabledError: see ``unanswered``.
        NoRespondersError: nobody leads the stream.
        TimeoutError: no answer came, or answers broke off.
    """
    try:
        answer = yield from of_bucket(keys.bucket, asked)
    except NoRespondersError as error:
        yield from unanswered(js, keys, error, timeout)
    except IncompleteBatchError as error:
        raise TimeoutError(f"bucket {keys.bucket}: {error}") from error
    return answer


def entry(
    js: JetStream, keys: KeySpace, key: str, revision: int | None, asked: Ticket[StoredMsg], timeout: float | None
) -> Generator[Ticket[Any], Any, KeyValueEntry]:
    """The value of ``key`` in the message that was ``asked`` for, as its last one or by its ``revision``.

    Raises:
        KeyNotFoundError: there is none, or it is of another key.
        KeyDeletedError: it is a marker.
        BucketNotFoundError: there is no bucket.
    """
    try:
        message = yield from of_read(js, keys, asked, timeout)
    except MessageNotFoundError as error:
        text = "it has no value" if revision is None else f"there is no revision {revision}"
        raise KeyNotFoundError(keys.bucket, key, text, revision or 0) from error
    if message.subject != keys.subject(key):
        text = f"revision {revision} is of {keys.key(message.subject)!r:.200}"
        raise KeyNotFoundError(keys.bucket, key, text, message.seq)
    found = stored_entry(keys, message)
    if found.is_marker:
        raise KeyDeletedError(keys.bucket, key, found.operation, found.revision)
    return found


def last_entry(
    js: JetStream, keys: KeySpace, key: str, timeout: float | None
) -> Generator[Ticket[Any], Any, KeyValueEntry | None]:
    """The last revision of ``key``, a marker too, by the leader. None: it has none."""
    asked = js.get_msg(keys.stream, subject=keys.subject(key), level="leader", now=js.session.now, timeout=timeout)
    try:
        return stored_entry(keys, (yield from of_bucket(keys.bucket, asked)))
    except MessageNotFoundError:
        return None


def entries(
    js: JetStream,
    asks: JetStream | ConsistentSession,
    keys: KeySpace,
    wanted: Mapping[str, str],
    now: float,
    timeout: float | None,
) -> Generator[Ticket[Any], Any, dict[str, KeyValueEntry]]:
    """The values of many keys, by key. ``wanted``: the keys, by subject. ``asks``: a session asks for a few only.

    Raises:
        Error: as ``of_read``.
    """
    if not wanted:
        return {}
    if len(wanted) <= MAX_SUBJECTS or asks is not js:
        read: Snapshot | LastMessages = asks.get_last_msgs_for(keys.stream, wanted, now=now, timeout=timeout)
    else:
        read = yield from read_snapshot(js, keys, wanted, now, timeout)
    found = yield from read_entries(js, keys, read, timeout)
    return {entry.key: entry for entry in found if not entry.is_marker}


def read_entries(
    js: JetStream, keys: KeySpace, read: Snapshot | LastMessages, timeout: float | None
) -> Generator[Ticket[Any], Any, list[KeyValueEntry]]:
    """All that is ``read``, markers included. Errors as of ``entries``."""
    found: list[KeyValueEntry] = []
    try:
        while (messages := read.pop_many(_AT_ONCE, js.session.now)) or not read.finished:
            found += [stored_entry(keys, each) for each in messages if not keys.hides(each.subject)]
            if not messages:
                yield from of_read(js, keys, read.readable(), timeout)
    finally:
        read.close(js.session.now)
    return found


def read_snapshot(
    js: JetStream, keys: KeySpace, wanted: Iterable[str], now: float, timeout: float | None
) -> Generator[Ticket[Any], Any, Snapshot]:
    """A snapshot of the subjects ``wanted``. Errors as of ``of_read``."""
    asked = js.snapshot(keys.stream, wanted, now=now, timeout=timeout)
    try:
        return (yield from of_read(js, keys, asked, timeout))
    except BaseException:
        js.session.abandon(asked, js.session.now)
        raise
