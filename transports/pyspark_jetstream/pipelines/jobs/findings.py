"""What an audit asks of the messages of a stream, as queries: everything of one read of it.

Rules: nothing is sorted as a whole. What is collected is bounded, whatever the stream holds: the largest gaps, the
first duplicates, the busiest subjects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as F

from jsproto.grammar.publish_headers import MSG_ID
from pyspark_jetstream.options import MARKER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BUCKET: Final = 250_000  # sequences that are sorted together
MOST_SHOWN: Final = 1_000  # gaps, duplicates
BINS: Final = 80
OTHERS: Final = "all others"


class Gap(NamedTuple):
    """Sequences that are missing."""

    first: int
    last: int

    @property
    def missing(self) -> int:
        """How many."""
        return self.last - self.first + 1


class Duplicate(NamedTuple):
    """A message id that was stored more than once."""

    msg_id: str
    times: int
    first_seq: int
    last_seq: int
    seconds: float


class Share(NamedTuple):
    """What one subject, or a group of them, has of a stream. Times are microseconds since the epoch."""

    subject: str
    messages: int
    bytes: int
    smallest: int
    largest: int
    first: int
    last: int

    @property
    def rate(self) -> float:
        """Messages a second, between its first and its last."""
        return (self.messages - 1) / ((self.last - self.first) / 1e6) if self.last > self.first else 0.0


@dataclass
class Findings:
    """Everything that was found."""

    messages: int = 0
    bytes: int = 0
    markers: int = 0
    with_id: int = 0
    subjects: int = 0
    first: int = 0  # microseconds since the epoch
    last: int = 0
    missing: int | None = None  # None: not looked for
    gaps: int = 0
    largest_gaps: list[Gap] = field(default_factory=list)
    repeated_ids: int = 0
    repeated: int = 0  # messages beyond the first of each id
    duplicates: list[Duplicate] = field(default_factory=list)
    shares: list[Share] = field(default_factory=list)
    bin_seconds: float = 1.0
    bins: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # subject -> messages and bytes in each bin
    sizes: list[tuple[int, int]] = field(default_factory=list)  # below 2**n bytes, messages


def prepared(rows: DataFrame, tokens: int | None) -> DataFrame:
    """The few columns that are looked at, out of a read with headers and bookkeeping."""
    subject = F.col("subject") if tokens is None else F.substring_index("subject", ".", tokens)
    ids = F.filter("headers", lambda pair: pair["key"] == MSG_ID)
    return rows.select(
        "seq",
        subject.alias("subject"),
        F.length("data").cast("bigint").alias("size"),
        F.unix_micros("timestamp").alias("at"),
        F.get(ids, 0)["value"].cast("string").alias("msg_id"),
        F.col("subject").contains(f".{MARKER}.").alias("marker"),
    )


def find(rows: DataFrame, lo: int, hi: int, top: int, *, gaps: bool) -> Findings:
    """Everything about ``rows`` (``prepared``), which are those of the sequences from ``lo`` to before ``hi``."""
    found = Findings()
    _totals(rows, found)
    if gaps:
        _gaps(rows, found, lo, hi)
    if found.with_id:
        _duplicates(rows, found)
    real = rows.where("NOT marker")
    shares = real.groupBy("subject").agg(
        F.count(F.lit(1)), F.sum("size"), F.min("size"), F.max("size"), F.min("at"), F.max("at")
    )
    found.shares = [Share(*row) for row in shares.orderBy(F.desc("count(1)"), "subject").limit(top).collect()]
    _bins(real, found)
    exponent = F.ceil(F.log2(F.greatest(F.col("size") + 1, F.lit(1)))).cast("int").alias("exponent")
    found.sizes = sorted((row[0], row[1]) for row in real.groupBy(exponent).count().collect())
    return found


def _totals(rows: DataFrame, found: Findings) -> None:
    real = F.when(~F.col("marker"), 1)
    row = rows.agg(
        F.count(real),
        F.sum(F.when(~F.col("marker"), F.col("size"))),
        F.count(F.when(F.col("marker"), 1)),
        F.count("msg_id"),
        F.count_distinct(F.when(~F.col("marker"), F.col("subject"))),
        F.min("at"),
        F.max("at"),
    ).first()
    assert row is not None
    values: Sequence[Any] = [value or 0 for value in row]
    found.messages, found.bytes, found.markers, found.with_id, found.subjects, found.first, found.last = values


def _gaps(rows: DataFrame, found: Findings, lo: int, hi: int) -> None:
    """Neighbours are compared inside buckets of sequences, and the edges of the buckets here."""
    found.missing = hi - lo - found.messages - found.markers
    if not found.missing:
        return
    bucketed = rows.select("seq", F.expr(f"(seq - {lo}) div {BUCKET}").alias("bucket"))
    before = F.lag("seq").over(Window.partitionBy("bucket").orderBy("seq"))
    inner = bucketed.withColumn("before", before).where("seq - before > 1").selectExpr("before + 1", "seq - 1")
    edges = bucketed.groupBy("bucket").agg(F.min("seq"), F.max("seq")).orderBy("bucket").collect()
    marks = [(lo - 1, lo - 1), *((row[1], row[2]) for row in edges), (hi, hi)]
    outer = [Gap(left[1] + 1, right[0] - 1) for left, right in pairwise(marks) if right[0] - left[1] > 1]
    found.gaps = inner.count() + len(outer)
    inner = inner.toDF("first", "last")
    largest = inner.orderBy(F.expr("first - last"), "first").limit(MOST_SHOWN).collect()
    both = [*(Gap(row[0], row[1]) for row in largest), *outer]
    found.largest_gaps = sorted(both, key=lambda gap: (-gap.missing, gap.first))[:MOST_SHOWN]


def _duplicates(rows: DataFrame, found: Findings) -> None:
    by_id = rows.where("msg_id IS NOT NULL").groupBy("msg_id")
    seconds = ((F.max("at") - F.min("at")) / 1e6).alias("seconds")
    times = F.count(F.lit(1)).alias("times")
    repeated = by_id.agg(times, F.min("seq").alias("first"), F.max("seq"), seconds).where("times > 1")
    totals = repeated.agg(F.count(F.lit(1)), F.sum(F.col("times") - 1)).first()
    assert totals is not None
    found.repeated_ids, found.repeated = totals[0], totals[1] or 0
    if found.repeated_ids:
        found.duplicates = [Duplicate(*row) for row in repeated.orderBy("first").limit(MOST_SHOWN).collect()]


def _bins(rows: DataFrame, found: Findings) -> None:
    """How many messages, and bytes, came when: of the busiest subjects, and of all others together."""
    width = max((found.last - found.first) // BINS + 1, 1)
    found.bin_seconds = width / 1e6
    busiest = [share.subject for share in found.shares[:7]]
    name = F.when(F.col("subject").isin(busiest), F.col("subject")).otherwise(F.lit(OTHERS)).alias("name")
    number = F.expr(f"cast((at - {found.first}) div {width} as int)").alias("bin")
    counts = rows.groupBy(name, number).agg(F.count(F.lit(1)), F.sum("size")).collect()
    for each in [*busiest, OTHERS]:
        mine = {row[1]: (row[2], row[3]) for row in counts if row[0] == each}
        if mine:
            found.bins[each] = [mine.get(place, (0, 0)) for place in range(BINS)]
