"""A bucket at one revision: all keys that match, with their values.

How it works: a snapshot of the stream (``client.read.snapshot``). It goes up to what the leader has, so it shows all
that was acknowledged before.

Not here: a few keys by their names (``entries``), what changes afterwards (``watch``).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jsproto.client.bucket.entries import read_entries, read_snapshot
from jsproto.grammar.bucket_keys import KeySpace, KeyValueEntry
from jsproto.ticket import Ticket

if TYPE_CHECKING:
    from jsproto.client.jetstream import JetStream


class BucketSnapshot(Mapping[str, KeyValueEntry]):
    """The entries of a bucket at one revision, by key, in the order of their revisions.

    Attributes:

    * ``bucket``: its name.
    * ``revision``: what was written up to there is shown, and nothing else. ``watch(since=revision + 1)`` goes on.
    * ``markers``: the revisions of the markers of deleted keys, by key.
    """

    __slots__ = ("_entries", "bucket", "markers", "revision")

    def __init__(
        self, bucket: str, revision: int, entries: Mapping[str, KeyValueEntry], markers: Mapping[str, int]
    ) -> None:
        self.bucket = bucket
        self.revision = revision
        self.markers = markers
        self._entries = entries

    def __repr__(self) -> str:
        return f"<BucketSnapshot of {self.bucket} at revision {self.revision}: {len(self)} keys>"

    def __getitem__(self, key: str) -> KeyValueEntry:
        return self._entries[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def snapshot(
    js: JetStream, keys: KeySpace, patterns: Sequence[str], now: float, timeout: float | None
) -> Generator[Ticket[Any], Any, BucketSnapshot]:
    """The keys that match one of ``patterns``, of subjects.

    Raises:
        BucketNotFoundError: there is no bucket.
        NoRespondersError: the bucket allows no Direct Get.
        SnapshotError: the bucket is written faster than it can be read.
    """
    read = yield from read_snapshot(js, keys, patterns, now, timeout)
    found: dict[str, KeyValueEntry] = {}
    markers: dict[str, int] = {}
    for entry in (yield from read_entries(js, keys, read, timeout)):
        if entry.is_marker:
            markers[entry.key] = entry.revision
        else:
            found[entry.key] = entry
    return BucketSnapshot(keys.bucket, read.up_to_seq or 0, found, markers)
