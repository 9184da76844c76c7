"""Markers of the sink ``atomic``: what they hold, and what a task may do when it finds them.

* The marker of a partition is the last message of an atomic batch, on ``markerSubject.$spark.QUERY.PARTITION``. It says
  how many rows of a micro-batch are stored, which ones (``digest``), and how far each task of the source has got
  (``runs``).
* The marker of the whole, on ``markerSubject.$spark.QUERY.all``, is stored by the driver's commit: all is stored.
* A stream drops messages in the order of their age. So a marker of an earlier micro-batch proves that no marker of this
  one has gone. Without any, the target may be another one, or the markers be elsewhere.
* A server's delete marker (``Nats-Marker-Reason``) says that there is none.
* Markers have no TTL of ``never``. They would hold the front of the stream, which tells readers what they have lost.
* An open verdict refuses rows: the error says what to do.

Not here: which rows a marker covers (``repetition``), reading and storing markers (``atomic_batches``).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from jsproto.grammar.config import StreamConfig
from jsproto.grammar.subjects import overlaps
from pyspark_jetstream.option_fields import OptionError
from pyspark_jetstream.options import MARKER, WriteOptions

VERSION: Final = 2
WHOLE: Final = "all"
"""What stands for the partition in the subject of the marker of the whole."""


class WriteError(RuntimeError):
    """A task could not store its rows. The message says which and why."""


@dataclass(frozen=True)
class TaskId:
    """Which rows these are: of a query (or a job), its micro-batch, and the partition of that.

    ``in_turn``: micro-batches come one after the other, and each has a marker of the whole. A job's version may jump.
    """

    query: str
    batch: int
    partition: int
    in_turn: bool = True

    def __str__(self) -> str:
        return f"{self.query}.{self.batch}.{self.partition}"


class Run(NamedTuple):
    """How far a task of the source has got: all rows before sequence ``seq``, and the first ``rows`` of that one."""

    seq: int
    rows: int


class MarkerError(ValueError):
    """A message is no marker. The message says why."""


@dataclass(frozen=True)
class Marker:
    """How far a partition has got, or (with no rows) that a micro-batch is stored as a whole.

    Attributes:
        ``rows``: how many rows of the try that wrote it were stored then.
        ``digest``: of those rows. None: they were counted by an older release, or only ``runs`` tell which they were.
        ``runs``: of each task of the source, the one under way last. None: the rows have no names.
        ``is_old``: written by a release that counted rows.
    """

    batch: int
    rows: int = 0
    digest: str | None = None
    runs: dict[int, Run] | None = None
    is_old: bool = False

    def __bytes__(self) -> bytes:
        """As it is stored."""
        found: dict[str, Any] = {"v": VERSION, "batch": self.batch}
        if self.rows:
            found["rows"] = self.rows
        if self.digest is not None:
            found["digest"] = self.digest
        if self.runs is not None:
            found["runs"] = [[task, *run] for task, run in self.runs.items()]
        return json.dumps(found).encode()


def decode_marker(data: bytes) -> Marker:
    """What ``bytes(marker)`` wrote, or an older release. MarkerError."""
    try:
        found = json.loads(data)
        version, batch, rows = found.get("v", 1), _count(found["batch"]), _count(found.get("rows", 0))
        if version == 1:
            return Marker(batch, rows, is_old=True)
        if version == VERSION:
            digest, runs = found.get("digest"), found.get("runs")
            if digest is not None and not isinstance(digest, str):
                raise TypeError
            by_task = (
                None if runs is None else {_number(task): Run(_count(seq), _count(of_it)) for task, seq, of_it in runs}
            )
            if rows and digest is None and not by_task:
                raise ValueError
            return Marker(batch, rows, digest, by_task)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise MarkerError(
            "is no marker: who else writes there? Delete it, and the marker before it counts again. Or take a new "
            "checkpointLocation, or for a job another txnAppId: that stores all rows again"
        ) from None
    raise MarkerError(
        f"is a marker of version {version}: this release knows versions 1 and {VERSION}, take a newer one"
    )


def _number(value: object) -> int:
    if type(value) is not int:
        raise ValueError
    return value


def _count(value: object) -> int:
    if (count := _number(value)) < 0:
        raise ValueError
    return count


# -- subjects and streams ----------------------------------------------------------------------------------------------


def marker_subject(options: WriteOptions, task: TaskId) -> str:
    """Where the markers of a partition are."""
    return f"{options.marker_subject}.{MARKER}.{task.query}.{task.partition}"


def whole_subject(options: WriteOptions, query: str) -> str:
    """Where the marker of the whole is."""
    return f"{options.marker_subject}.{MARKER}.{query}.{WHOLE}"


def any_marker(options: WriteOptions, query: str = "*") -> str:
    """What matches the markers of a query, or of all."""
    return f"{options.marker_subject}.{MARKER}.{query}.*"


def check_keeps_markers(config: StreamConfig, options: WriteOptions) -> None:
    """OptionError for a stream that hands markers out, or takes no second one, or puts them elsewhere."""
    stream = f"stream {options.stream}"
    if config.retention in ("interest", "workqueue"):
        text = f"{stream} keeps only what consumers wait for (retention {config.retention}), so it would lose the"
        way = "write into a stream with retention limits, and let this one take it from there (sources, filter_subject)"
        raise OptionError(f"{text} markers of delivery atomic: {way}")
    if config.discard_new_per_subject and (config.max_msgs_per_subject or 0) > 0:
        raise OptionError(
            f"{stream} refuses further messages of a subject (discard_new_per_subject), so it would refuse the markers "
            "of delivery atomic: write into a stream without it"
        )
    moved = None if config.subject_transform is None else config.subject_transform.get("src") or ">"
    if moved is not None and overlaps(moved, any_marker(options)):
        raise OptionError(
            f"{stream} changes the subjects of markers (subject_transform of {moved}): give a markerSubject that it "
            "leaves alone"
        )


# -- what a task may do ------------------------------------------------------------------------------------------------


class Verdict(StrEnum):
    """What the markers say to a task of a micro-batch."""

    BEGIN = "begin"  # nothing of its partition is stored
    GO_ON = "go on"  # as far as the marker of the partition says
    COMPARE = "compare"  # all is stored: the same rows may come again, and no other
    AHEAD = "ahead"
    GAP = "gap"
    UNPROVED = "unproved"


class Found(NamedTuple):
    """What a task finds.

    Attributes:
        ``own``: the micro-batch of the marker of its partition. None: there is none.
        ``whole``: the micro-batch of the marker of the whole. None: there is none.
        ``has_older``: the query has some marker of an earlier micro-batch.
    """

    own: int | None
    whole: int | None
    has_older: bool


def judge(task: TaskId, found: Found) -> Verdict:
    """What the markers say. The first line that fits counts.

    | found | verdict |
    |---|---|
    | a marker of a later micro-batch | AHEAD: an old checkpoint, or a task left over |
    | the marker of this whole | COMPARE |
    | the partition's marker of this micro-batch | GO_ON |
    | micro-batches come in turn, and the marker of the whole is older than the one before | GAP |
    | they come in turn, this is not the first, and no marker is older | UNPROVED |
    | else | BEGIN |
    """
    own, whole, batch = found.own, found.whole, task.batch
    if max(-1 if own is None else own, -1 if whole is None else whole) > batch:
        return Verdict.AHEAD
    if whole == batch:
        return Verdict.COMPARE
    if own == batch:
        return Verdict.GO_ON
    if task.in_turn and whole is not None and whole < batch - 1:
        return Verdict.GAP
    if task.in_turn and batch and whole is None and own is None and not found.has_older:
        return Verdict.UNPROVED
    return Verdict.BEGIN


def refusal(verdict: Verdict, task: TaskId, found: Found, options: WriteOptions) -> str:
    """What an error says of a verdict that lets no row be stored."""
    whole = whole_subject(options, task.query)
    if verdict is Verdict.AHEAD:
        done = max(each for each in (found.own, found.whole) if each is not None)
        if not task.in_turn:
            return (
                f"rows of {task}: version {done} of {task.query} is stored, or a part of it: give a higher txnVersion"
            )
        return (
            f"rows of {task}: the stream has micro-batch {done} of this query, or a part of it. The checkpoint is an "
            "older one, or this task is left over from an earlier run. Go on with the newest checkpoint, or with a new "
            "checkpointLocation"
        )
    way = (
        f"If nothing of micro-batch {task.batch} is stored, say so: publish "
        f"{bytes(Marker(task.batch - 1)).decode()} to {whole}. Or take a new checkpointLocation"
    )
    if verdict is Verdict.GAP:
        return (
            f"rows of {task}: the last micro-batch that the stream has as a whole is {found.whole}, and not "
            f"{task.batch - 1}: it lost messages, or the query wrote elsewhere meanwhile. {way}"
        )
    return (
        f"rows of {task}: the stream has no marker of this query ({any_marker(options, task.query)}), so a part of "
        f"micro-batch {task.batch} may have been stored: the stream dropped its markers or was made anew, or the query "
        f"wrote with another markerSubject, delivery or stream before. {way}"
    )
