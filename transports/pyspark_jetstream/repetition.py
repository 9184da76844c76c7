"""Which rows of a task are stored already, and which are not: what a marker says to the rows that come.

* Rows with names are known by them, whatever has vanished before: a run of the marker says how far its task has got.
* Rows without names are known by their number, and only if the digest of as many rows is that of the marker.
* Other rows are refused, before one of them is stored: ``OtherRowsError``. So are names of tasks that the marker cannot
  have: then the micro-batch was planned anew.
* Names end where rows come out of their order, or have none. From there on the digest counts.
* A marker holds its digest only if all its runs were passed. Else the digest would prove too little.

Not here: what a marker holds (``markers``), storing rows (``atomic_batches``), what names are (``origins``).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from pyspark_jetstream.digests import RowsDigest
from pyspark_jetstream.markers import Marker, Run
from pyspark_jetstream.messages import Row, RowMessages
from pyspark_jetstream.origins import Segment
from pyspark_jetstream.schema import MAX_RUNS

WAYS_OUT: Final = (
    "Rows must come again as they were: keep the column origin (includeOrigin) from the source to the sink, or sort "
    "them (sortWithinPartitions), and make no values that change (uuid, rand). Or take a new checkpointLocation, or "
    "for a job a higher txnVersion: that stores all rows again"
)


class OtherRowsError(ValueError):
    """Rows are not those that the marker has counted. The message says how that was seen."""


class Piece(NamedTuple):
    """Rows, one after the other. ``segment``: their names. None: they have none."""

    rows: Sequence[Row]
    segment: Segment | None = None

    def between(self, start: int, stop: int) -> Piece:
        """Some of them."""
        segment = self.segment
        return Piece(self.rows[start:stop], None if segment is None else segment.between(start, stop))


def pieces_of(chunk: Sequence[Row]) -> Sequence[Piece]:
    """The rows of a chunk, cut where names come from another task. One piece if names do not tell how far."""
    segments = chunk.segments if isinstance(chunk, RowMessages) else None
    if segments is None or len(segments) > MAX_RUNS or not _are_in_order(segments):
        return [Piece(chunk)]
    found, start = [], 0
    for segment in segments:
        stop = start + len(segment.seqs)
        found.append(Piece(chunk[start:stop], segment))
        start = stop
    return found


def _are_in_order(segments: Sequence[Segment]) -> bool:
    last: dict[int, int] = {}
    for segment in segments:
        if segment.task is None or not segment.rises or segment.seqs[0] < last.get(segment.task, 0):
            return False
        last[segment.task] = segment.seqs[-1]
    return True


class Repetition:
    """How far a try has come through the rows of its task.

    Attributes:
        ``rows``: how many have come.
        ``is_named``: all of them have names, in order.
    """

    __slots__ = ("_digest", "_passed", "_seen", "is_named", "rows")

    def __init__(self, *, is_named: bool) -> None:
        """``is_named``: rows are to have names."""
        self.rows = 0
        self.is_named = is_named
        self._digest = RowsDigest()
        self._seen: dict[int, Run] = {}  # how far each task of the source has come in this try
        self._passed: Marker | None = None  # all that this marker covers has come

    def copy(self) -> Repetition:
        """The same, which goes on by itself."""
        found = Repetition.__new__(Repetition)
        found.rows, found.is_named, found._passed = self.rows, self.is_named, self._passed
        found._digest, found._seen = self._digest.copy(), dict(self._seen)
        return found

    def missing(self, pieces: Sequence[Piece], marker: Marker | None) -> list[Piece]:
        """The rows that are to be stored of those that come next. OtherRowsError.

        ``marker``: what is stored of this micro-batch. None: nothing.
        """
        return [missing for piece in pieces if (missing := self._missing(piece, marker)).rows]

    def _missing(self, piece: Piece, marker: Marker | None) -> Piece:
        segment, count = piece.segment, len(piece.rows)
        task = None if segment is None else segment.task
        before = None if task is None else self._seen.get(task)
        self.is_named = self.is_named and segment is not None and (before is None or before.seq <= segment.seqs[0])
        if marker is None:
            skipped = 0
            self._digest.add(piece.rows)
        elif self.is_named and marker.runs is not None:
            assert segment is not None
            assert task is not None
            skipped = self._stored(task, segment.seqs, before, marker.runs)
            self._digest.add(piece.rows)
        else:
            skipped = self._compared(piece.rows, marker)
        self.rows += count
        if self.is_named:
            assert segment is not None
            assert task is not None
            self._seen[task] = _last(segment, before)
        return piece.between(skipped, count)

    def _stored(self, task: int, seqs: Sequence[int], before: Run | None, runs: Mapping[int, Run]) -> int:
        """How many rows at the front are stored, by their names."""
        run = runs.get(task)
        if run is None:
            if runs and [*runs][-1] not in self._seen:
                text = f"row {self.rows} comes from another range of the source than those that are stored"
                raise OtherRowsError(f"{text}: the micro-batch was planned anew")
            return 0
        begin, end = bisect_left(seqs, run.seq), bisect_right(seqs, run.seq)
        seen = before.rows if before is not None and before.seq == run.seq else 0
        return min(end, begin + max(run.rows - seen, 0))

    def _compared(self, rows: Sequence[Row], marker: Marker) -> int:
        """How many rows at the front are stored, by their number and the digest of all rows up to there."""
        if self._passed == marker:
            self._digest.add(rows)
            return 0
        ahead = marker.rows - self.rows
        if ahead < 0 or (marker.digest is None and not marker.is_old):
            raise OtherRowsError(f"{marker.rows} rows are stored, which others can tell by their names")
        skipped = min(ahead, len(rows))
        self._digest.add(rows[:skipped])
        if skipped == ahead:
            if not marker.is_old and self._digest.text != marker.digest:
                raise OtherRowsError(f"the first {marker.rows} rows are not those that are stored")
            self._passed = marker
        self._digest.add(rows[skipped:])
        return skipped

    def marker(self, batch: int, before: Marker | None) -> Marker:
        """What is to be stored with the rows that were missing. ``before``: the marker that it replaces."""
        if not self.is_named:
            return Marker(batch, self.rows, self._digest.text)
        stored = (before.runs if before is not None else None) or {}
        are_passed = all(task in self._seen and self._seen[task] >= run for task, run in stored.items())
        runs = {task: max(run, stored.get(task, run)) for task, run in {**stored, **self._seen}.items()}
        if not are_passed:
            return Marker(batch, self.rows, None, runs)
        return Marker(batch, self.rows, self._digest.text, runs if len(runs) <= MAX_RUNS else None)

    def stored(self, marker: Marker) -> None:
        """``marker`` was stored, with the rows that were missing."""
        self._passed = marker if marker.digest is not None else None

    def finish(self, marker: Marker | None) -> None:
        """There are no more rows. OtherRowsError."""
        is_known = marker is None or self._passed == marker or (self.is_named and marker.runs is not None)
        if not is_known:
            raise OtherRowsError(f"{marker.rows if marker else 0} rows are stored, and only {self.rows} come")


def _last(segment: Segment, before: Run | None) -> Run:
    """How far its task has come with a segment."""
    seq = segment.seqs[-1]
    rows = len(segment.seqs) - bisect_left(segment.seqs, seq)
    if rows == len(segment.seqs) and before is not None and before.seq == seq:
        rows += before.rows
    return Run(seq, rows)
