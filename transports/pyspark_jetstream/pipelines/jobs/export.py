"""``export``: its options, and the job. What it promises is said in ``pyspark_jetstream.pipelines.export``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import attrs
from pyspark.sql import Observation
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from jsproto_io.cli.records import BadUsage
from pyspark_jetstream.pipelines.jobs import arguments as args
from pyspark_jetstream.pipelines.jobs.arguments import (
    Bound,
    Selection,
    SourceAccess,
    bounds,
    option,
    positional,
    switch,
)
from pyspark_jetstream.pipelines.jobs.rows import from_messages, schema_in
from pyspark_jetstream.pipelines.jobs.running import FORMAT, Run, new_program
from pyspark_jetstream.pipelines.jobs.summary import Summary

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameWriter, SparkSession

    from jsproto.grammar.config import StreamInfo

MOST_FOLDERS: Final = 2_000
UNCOMMITTED: Final = "_temporary"  # where Hadoop's committers keep what tasks write until the job is committed
EXCLUDED: Final = "spark.sql.adaptive.optimizer.excludedRules"
LEAVES_OUT: Final = "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"
"""Where nothing is to be written this rule drops the rest of the plan, and with it the counting of rows."""
FRONT: Final = "nats_"  # before our own columns where the message's have names of their own


class Format(StrEnum):
    """What to write."""

    PARQUET = "parquet"
    JSON = "json"
    CSV = "csv"


class Data(StrEnum):
    """What becomes of the message."""

    BINARY = "binary"
    TEXT = "text"
    BASE64 = "base64"
    COLUMNS = "columns"


class Mode(StrEnum):
    """What to do with a folder that is there."""

    ERROR = "error"
    APPEND = "append"
    OVERWRITE = "overwrite"


TIMES: Final = {"hour": "yyyy-MM-dd'T'HH", "day": "yyyy-MM-dd", "month": "yyyy-MM", "year": "yyyy"}


@attrs.frozen
class Exported:
    """What is exported: a stretch of a stream, or a bucket.

    Attributes: ``name`` (of the stream or the bucket), ``options`` (of the data source).
    """

    name: str
    bucket: bool
    options: dict[str, str]

    @property
    def stream(self) -> str:
        """The stream that it is in."""
        return f"KV_{self.name}" if self.bucket else self.name

    @property
    def kind(self) -> str:
        """What it is called."""
        return "bucket" if self.bucket else "stream"

    @property
    def data(self) -> str:
        """The column with the message."""
        return "value" if self.bucket else "data"

    @property
    def subject(self) -> str:
        """The column with the subject."""
        return "key" if self.bucket else "subject"

    @property
    def order(self) -> str:
        """The column to sort by."""
        return "revision" if self.bucket else "seq"


# -- arguments ---------------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class ExportArguments(Selection):
    """What to export."""

    names: list[str] = positional(
        "The stream and the folder to make. With --bucket the folder alone.", "STREAM FOLDER", kind=list[str]
    )
    bucket: str | None = option("A key-value bucket instead of a stream.", "NAME", parse=args.stream_name)
    at: Bound | None = option(
        "The bucket before this. Default: now.", "SEQ|TIME", parse=partial(Bound.of, option="--at")
    )
    keys: str | None = option(
        "Only keys that match. Wildcards are allowed.", "KEYS", parse=partial(args.checked_filter, option="--keys")
    )
    deleted: bool = switch("--deleted", "Deleted keys of a bucket too.")
    headers: bool = switch("--headers", "A column of the headers.")

    @property
    def folder(self) -> str:
        """Where to."""
        return self.names[-1]

    def exported(self) -> Exported:
        """What that is. BadUsage."""
        return self._stream() if self.bucket is None else self._bucket(self.bucket)

    def _stream(self) -> Exported:
        if len(self.names) != 2:
            raise BadUsage("give a stream and a folder, such as: export ORDERS orders")
        if self.at is not None or self.keys is not None:
            raise BadUsage("--at and --keys are for --bucket: use --until and --subject")
        stream = args.stream_name(self.names[0])
        headers = {"includeHeaders": "true"} if self.headers else {}
        return Exported(stream, False, {**self.of(stream), **headers})

    def _bucket(self, bucket: str) -> Exported:
        if len(self.names) != 1:
            raise BadUsage("with --bucket give the folder alone")
        if any(each is not None for each in (self.subject, self.begin, self.until)) or self.headers:
            raise BadUsage("a bucket is exported as of one moment: --at, and --keys to choose")
        keys = {} if self.keys is None else {"kvKeys": self.keys}
        return Exported(bucket, True, {"kvBucket": bucket, **bounds(f"KV_{bucket}", None, self.at), **keys})


def _folders(text: str) -> list[str]:
    wanted = [each.strip().replace("key", "subject") for each in text.split(",") if each.strip() != "none"]
    for each in wanted:
        if each != "subject" and each not in TIMES:
            raise BadUsage(f"--by takes subject, hour, day, month, year or none, not {each!r}")
    return wanted


@attrs.frozen(kw_only=True)
class Layout:
    """How files and folders are written."""

    kind: Format = option("What to write.", default=Format.PARQUET, kind=Format, name="--format")
    by: list[str] | None = option(
        "Folders by: subject (of a bucket: key), hour, day, month, year, or none. Default: subject,day of a stream, "
        "none of a bucket.", "LIST", parse=_folders,
    )  # fmt: skip
    tokens: int | None = option("A folder for the first N tokens of subjects.", "N", kind=int, min=1)
    data: Data | None = option(
        "The message as binary (default for parquet), text (default for json and csv), base64, or the columns of its "
        "JSON object.", kind=Data,
    )  # fmt: skip
    schema: str | None = option(
        "The columns of --data columns: 'id INT, name STRING'. Default: what ingest left with the stream.", "DDL"
    )
    mode: Mode = option("If the folder is there already.", default=Mode.ERROR, kind=Mode)


# -- the plan ----------------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Plan:
    """What a run writes, as far as that is known before Spark is started.

    Attributes:
        ``folder``: where to, as it was given.
        ``target``: the same as an absolute path, or a URL.
        ``by``: what folders are made of.
        ``columns``: those of the messages. None: Spark parses ``schema``, or a message is one column.
    """

    exported: Exported
    deleted: bool
    folder: str
    target: str
    mode: Mode
    kind: Format
    data: Data
    by: list[str]
    tokens: int | None
    schema: str | None
    columns: StructType | None = None

    @classmethod
    def of(cls, wanted: ExportArguments, layout: Layout) -> Self:
        """The plan of what the arguments say. BadUsage."""
        exported, kind, folder = wanted.exported(), layout.kind, wanted.folder
        data = layout.data or (Data.BINARY if kind is Format.PARQUET else Data.TEXT)
        if data is Data.BINARY and kind is not Format.PARQUET:
            raise BadUsage(f"--format {kind.value} has no binary: use --data text, base64 or columns")
        if wanted.headers and kind is Format.CSV:
            raise BadUsage("--format csv has no place for --headers")
        by = _usual_folders(exported, layout.tokens) if layout.by is None else layout.by
        if layout.tokens is not None and "subject" not in by:
            raise BadUsage("--tokens needs --by subject")
        target = folder if "://" in folder else os.path.abspath(folder)
        return cls(
            exported=exported, deleted=wanted.deleted, folder=folder, target=target, kind=kind, data=data, by=by,
            mode=_mode(layout.mode, folder, target), tokens=layout.tokens, schema=layout.schema,
        )  # fmt: skip

    def for_stream(self, info: StreamInfo) -> Self:
        """The plan for this stream, with the columns that ``ingest`` left with it. BadUsage when it cannot be."""
        subjects = info.state.num_subjects or 0
        if "subject" in self.by and self.tokens is None and subjects > MOST_FOLDERS:
            many = f"{self.exported.name} has {subjects:,} subjects, and each would be a folder"
            raise BadUsage(f"{many}: add --tokens N or --by day")
        if self.data is not Data.COLUMNS or self.schema is not None:
            return self
        columns = schema_in(info.config.metadata)
        if columns is None:
            raise BadUsage("--data columns: which ones? ingest has left none with this stream, so give --schema")
        return attrs.evolve(self, columns=columns)

    @property
    def prefix(self) -> str:
        """What is put before the names of our own columns."""
        return FRONT if self.data is Data.COLUMNS else ""


def _usual_folders(exported: Exported, tokens: int | None) -> list[str]:
    if exported.bucket:
        return [] if tokens is None else ["subject"]
    return ["subject", "day"]


def _mode(mode: Mode, folder: str, target: str) -> Mode:
    """How to write to ``folder``, which may be there already. BadUsage."""
    if mode is not Mode.ERROR or "://" in folder or not os.path.exists(target):
        return mode
    held = set(os.listdir(target)) if os.path.isdir(target) else {"a file"}
    if held - {UNCOMMITTED}:
        raise BadUsage(f"{folder} is there already: choose another folder, or --mode append or overwrite")
    return Mode.OVERWRITE if held else Mode.APPEND  # a run that failed left it


# -- the run -----------------------------------------------------------------------------------------------------------


def export(run: Run, summary: Summary, wanted: ExportArguments, layout: Layout, access: SourceAccess) -> None:
    """Write a stream, or a bucket as it was at a moment, to Parquet, JSON or CSV files.

    What is stored after the run began is not in it. Every message of the range is in the files once, whatever tasks
    are run again. A bucket's keys are all of one moment.
    """
    plan = Plan.of(wanted, layout)
    exported = plan.exported
    place = run.reach(access)
    plan = plan.for_stream(place.info(exported.stream))
    spark = run.spark()
    if plan.data is Data.COLUMNS and plan.columns is None:
        plan = attrs.evolve(plan, columns=_parsed(str(plan.schema)))
    rows = spark.read.format(FORMAT).options(**place.options, **exported.options).load()
    if exported.bucket and not plan.deleted:
        rows = rows.where("operation = 'PUT'")
    seen = Observation()
    size = F.sum(F.length(exported.data)).alias("bytes")
    table, parts = _table(rows.observe(seen, F.count(F.lit(1)).alias("rows"), size), plan)
    summary.add("source", exported.name, f"{exported.kind} {exported.name}", label="from")
    summary.add("server", place.text)
    summary.begin()
    with _whole_plans(spark):
        run.do(f"to {plan.folder}", lambda: _writer(table, parts, plan).save(plan.target))
    count = int(seen.get["rows"])
    summary.add("rows", count)
    summary.add_bytes("bytes", int(seen.get["bytes"] or 0))
    folders = f", by {' + '.join(parts)}" if parts else ""
    summary.add("to", plan.folder, f"{plan.folder} ({plan.kind.value}{folders})")
    if "://" not in plan.folder:
        _measure(summary, Path(plan.target))
    summary.add_rate(count)
    run.tell(summary)


app = new_program(export, "export ORDERS orders --from 2026-11-01 --by subject,day")


def _writer(table: DataFrame, parts: Sequence[str], plan: Plan) -> DataFrameWriter:
    """What writes the table, sorted within the files of each folder."""
    if parts:
        table = table.hint("rebalance", *parts).sortWithinPartitions(*parts, plan.prefix + plan.exported.order)
    writer = table.write.format(plan.kind.value).mode(plan.mode.value).partitionBy(*parts)
    return writer.option("header", "true") if plan.kind is Format.CSV else writer


@contextmanager
def _whole_plans(spark: SparkSession) -> Iterator[None]:
    """Count rows also where there are none."""
    before = spark.conf.get(EXCLUDED, None)
    spark.conf.set(EXCLUDED, LEAVES_OUT if not before else f"{before},{LEAVES_OUT}")
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(EXCLUDED)
        else:
            spark.conf.set(EXCLUDED, before)


def _parsed(schema: str) -> StructType:
    """Columns as DDL, which takes a running Spark."""
    found = StructType.fromDDL(schema)
    if not isinstance(found, StructType):
        raise BadUsage(f"--schema takes columns, such as 'id INT, name STRING', not {schema!r}")
    return found


def _table(rows: DataFrame, plan: Plan) -> tuple[DataFrame, list[str]]:
    """What is written, and which of its columns are folders. BadUsage."""
    exported, front = plan.exported, plan.prefix
    own = [name for name in rows.columns if plan.data is not Data.COLUMNS or name != exported.data]
    rows = rows.withColumns({exported.data: _form(F.col(exported.data), plan.data)})
    parts: list[str] = []
    for each in plan.by:
        if each == "subject" and plan.tokens is None:
            parts.append(front + exported.subject)
            continue
        if each == "subject":
            name, value = f"{exported.subject}_prefix", F.substring_index(exported.subject, ".", plan.tokens or 1)
        else:
            name, value = each, F.date_format("timestamp", TIMES[each])
        rows = rows.withColumns({name: value})
        parts.append(front + name)
        own.append(name)
    if plan.columns is None:
        return rows, parts
    renamed = {name: front + name for name in own}
    taken = set(renamed.values()) & set(plan.columns.names)
    if taken:
        raise BadUsage(f"--data columns: the message has a column {min(taken)!r} as well")
    rows = rows.withColumnsRenamed(renamed).withColumnsRenamed({exported.data: "data"})
    return from_messages(rows, plan.columns, list(renamed.values())), parts


def _form(data: Column, form: Data) -> Column:
    if form is Data.BINARY:
        return data
    if form is Data.BASE64:
        return F.base64(data)
    text = data.cast("string")
    reason = F.lit("a message is not UTF-8: use --data base64, or binary with parquet")
    return F.when(F.is_valid_utf8(text), text).otherwise(F.raise_error(reason).cast("string"))


_HIDDEN: Final = re.compile(r"[._]")


def _measure(summary: Summary, target: Path) -> None:
    files = [path for path in target.rglob("*") if path.is_file() and not _HIDDEN.match(path.name)]
    summary.add("files", len(files), f"{len(files):,} in {len({path.parent for path in files}):,} folders")
    summary.add_bytes("files_bytes", sum(path.stat().st_size for path in files))
