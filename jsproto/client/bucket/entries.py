"""Reading entries of a bucket: one key, or many at one moment. The scripts.

Rules:

* A key without a value is an error where one key is asked for, and left out where many are.
* Up to ``MAX_SUBJECTS`` keys take one request, and more of them a snapshot. Both show one moment.
* An answer of any replica may be older than what was written last (``ReadLevel``).

Not here: the requests (``client.read``), keys by a pattern (``listing``).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from jsproto.api_errors import StreamNotFoundError
from jsproto.client.read.multi import MAX_SUBJECTS
from jsproto.errors import BucketNotFoundError, KeyDeletedError, KeyNotFoundError, MessageNotFoundError
from jsproto.grammar.bucket_keys import KeySpace, KeyValueEntry, stored_entry
from jsproto.ticket import Ticket

if TYPE_CHECKING:
    from jsproto.client.jetstream import JetStream
    from jsproto.client.read.snapshot import Snapshot
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


def entry(
    keys: KeySpace, key: str, revision: int | None, asked: Ticket[StoredMsg]
) -> Generator[Ticket[Any], Any, KeyValueEntry]:
    """The value of ``key`` in the message that was ``asked`` for, as its last one or by its ``revision``.

    Raises:
        KeyNotFoundError: there is none, or it is of another key.
        KeyDeletedError: it is a marker.
        BucketNotFoundError: there is no bucket.
    """
    try:
        message = yield from of_bucket(keys.bucket, asked)
    except MessageNotFoundError as error:
        raise KeyNotFoundError(keys.bucket, key) from error
    if message.subject != keys.subject(key):
        raise KeyNotFoundError(keys.bucket, key, f"revision {revision} is of {keys.key(message.subject)!r:.200}")
    found = stored_entry(keys, message)
    if found.is_marker:
        raise KeyDeletedError(keys.bucket, key, found.operation, found.revision)
    return found


def entries(
    js: JetStream, keys: KeySpace, wanted: Mapping[str, str], now: float, timeout: float | None
) -> Generator[Ticket[Any], Any, dict[str, KeyValueEntry]]:
    """The values of many keys, by key. ``wanted``: the keys, by subject.

    Raises:
        BucketNotFoundError: there is no bucket.
        NoRespondersError: the bucket allows no Direct Get.
    """
    if not wanted:
        return {}
    if len(wanted) <= MAX_SUBJECTS:
        read: Any = js.get_last_msgs_for(keys.stream, wanted, now=now, timeout=timeout)
    else:
        read = yield from _snapshot(js, keys, wanted, now, timeout)
    found: dict[str, KeyValueEntry] = {}
    try:
        while (messages := read.pop_many(_AT_ONCE, js.session.now)) or not read.finished:
            for message in messages:
                each = stored_entry(keys, message)
                if not each.is_marker:
                    found[wanted[message.subject]] = each
            if not messages:
                yield from of_bucket(keys.bucket, read.readable())
    finally:
        read.close(js.session.now)
    return found


def _snapshot(
    js: JetStream, keys: KeySpace, wanted: Mapping[str, str], now: float, timeout: float | None
) -> Generator[Ticket[Any], Any, Snapshot]:
    asked = js.snapshot(keys.stream, wanted, now=now, timeout=timeout)
    try:
        return (yield from of_bucket(keys.bucket, asked))
    except BaseException:
        js.session.abandon(asked, js.session.now)
        raise
