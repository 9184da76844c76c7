"""Lists of a bucket: what a watcher sees up to the end of the present entries, and then the watcher ends. The scripts.

Rules:

* A list has the entries in the order of their revisions.
* Markers are old or young by the server's clock. An old one is removed, and of a young one the history before it.
* Only what is not newer than the marker is removed: a value that was put meanwhile stays.

Not here: values of many keys (``entries``).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final

from jsproto.client.bucket.entries import of_bucket
from jsproto.client.bucket.watch import WatchPlan, open_watch
from jsproto.grammar.bucket_keys import KeySpace, KeyValueEntry
from jsproto.ticket import Ticket

if TYPE_CHECKING:
    from jsproto.client.jetstream import JetStream

OLD_MARKER: Final = 1800.0  # seconds
_AT_ONCE: Final = 512  # entries taken at once
_TOGETHER: Final = 64  # purges under way


def present(
    js: JetStream, keys: KeySpace, plan: WatchPlan, now: float
) -> Generator[Ticket[Any], Any, list[KeyValueEntry]]:
    """The present entries. Errors as of ``open_watch``, and why the watcher ended."""
    watch = yield from open_watch(js, keys, plan, now)
    found: list[KeyValueEntry] = []
    try:
        while True:
            for entry in watch.pop_many(_AT_ONCE, js.session.now):
                if entry is None:
                    return found
                found.append(entry)
            yield watch.readable()
    finally:
        watch.unsubscribe(js.session.now)


def key_names(js: JetStream, keys: KeySpace, plan: WatchPlan, now: float) -> Generator[Ticket[Any], Any, list[str]]:
    """The keys that have a value. ``plan`` shows markers: one may follow the value that it deletes."""
    found: dict[str, bool] = {}
    for entry in (yield from present(js, keys, plan, now)):
        found.pop(entry.key, None)
        if not entry.is_marker:
            found[entry.key] = True
    return list(found)


def purge_deletes(
    js: JetStream, keys: KeySpace, older_than: int, now: float, timeout: float | None
) -> Generator[Ticket[Any], Any, int]:
    """Remove markers that are older than so many nanoseconds. Returns how many revisions that were, history included.

    Raises:
        BucketNotFoundError: there is no bucket.
    """
    info = yield from of_bucket(keys.bucket, js.stream_info(keys.stream, now=now, timeout=timeout))
    stored = keys.as_stored()
    entries = yield from present(js, stored, WatchPlan.of(stored, (), meta_only=True), js.session.now)
    latest = {entry.key: entry for entry in entries}
    markers = [entry for entry in latest.values() if entry.is_marker]
    begin = (info.ts or info.state.last_ts or 0) - older_than
    removed = 0
    for first in range(0, len(markers), _TOGETHER):
        asked = []
        for marker in markers[first : first + _TOGETHER]:
            is_old = marker.timestamp <= begin
            if is_old or info.config.max_msgs_per_subject != 1:
                asked.append(
                    js.purge_stream(
                        keys.stream, subject=stored.subject(marker.key), seq=marker.revision + is_old,
                        now=js.session.now, timeout=timeout,
                    )
                )  # fmt: skip
        for each in asked:
            removed += yield from of_bucket(keys.bucket, each)
    return removed
