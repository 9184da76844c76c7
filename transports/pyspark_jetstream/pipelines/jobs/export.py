"""``export``: its options, and the job. What it promises is said in ``pyspark_jetstream.pipelines.export``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from pyspark.sql import Observation
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from jsproto_io.cli.records import BadUsage
from pyspark_jetstream.pipelines.jobs import arguments as args
from pyspark_jetstream.pipelines.jobs.arguments import Access, Bound, bounds, new_app
from pyspark_jetstream.pipelines.jobs.rows import from_messages, schema_in
from pyspark_jetstream.pipelines.jobs.running import FORMAT, started
from pyspark_jetstream.pipelines.jobs.summary import Summary

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

app = new_app()

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


@dataclass
class What:
    """What is exported: a stretch of a stream, or a bucket."""

    name: str
    bucket: bool
    options: dict[str, str]

    @property
    def stream(self) -> str:
        """The stream that it is in."""
        return f"KV_{self.name}" if self.bucket else self.name

    @property
    def data(self) -> str:
        """The column with the message."""
        return "value" if self.bucket else "data"

    @property
    def subject(self) -> str:
        """The column with the subject."""
        return "key" if self.bucket else "subject"


@app.command(
    epilog="Example: export ORDERS orders --from 2026-11-01 --by subject,day. " + args.EPILOG, no_args_is_help=True
)
def export(
    names: Annotated[
        list[str],
        typer.Argument(
            help="The stream and the folder to make; with --bucket the folder alone.", metavar="STREAM FOLDER"
        ),
    ],
    bucket: Annotated[
        str | None, typer.Option(help="A key-value bucket instead of a stream.", metavar="NAME", show_default=False)
    ] = None,
    servers: args.Servers = None,
    store: args.Store = None,
    subject: args.Subject = None,
    begin: args.From = None,
    until: args.Until = None,
    at: Annotated[
        str | None,
        typer.Option(help="The bucket as of before this. Default: now.", metavar="SEQ|TIME", show_default=False),
    ] = None,
    keys: Annotated[
        str | None, typer.Option(help="Only keys that match; wildcards.", metavar="KEYS", show_default=False)
    ] = None,
    deleted: Annotated[bool, typer.Option("--deleted", help="Deleted keys of a bucket too.")] = False,
    kind: Annotated[Format, typer.Option("--format", help="What to write.")] = Format.PARQUET,
    by: Annotated[
        str | None,
        typer.Option(
            help="Folders by: subject (of a bucket: key), hour, day, month, year; or none. "
            "Default: subject,day of a stream, none of a bucket.",
            metavar="LIST",
            show_default=False,
        ),
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option(min=1, help="A folder for the first N tokens of subjects.", metavar="N", show_default=False),
    ] = None,
    data: Annotated[
        Data | None,
        typer.Option(
            help="The message as binary (default for parquet), text (default for json and csv), base64, or the columns "
            "of its JSON object.",
            show_default=False,
        ),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            help="The columns of --data columns: 'id INT, name STRING'. Default: what ingest left with the stream.",
            metavar="DDL",
            show_default=False,
        ),
    ] = None,
    headers: Annotated[bool, typer.Option("--headers", help="A column of the headers.")] = False,
    mode: Annotated[Mode, typer.Option(help="If the folder is there already.")] = Mode.ERROR,
    user: args.User = None,
    password: args.Password = None,
    token: args.Token = None,
    nats: args.Nats = None,
    as_json: args.Json = False,
    verbose: args.Verbose = False,
) -> None:
    """Write a stream, or a bucket as it was at a moment, to Parquet, JSON or CSV files.

    What is stored after the run began is not in it. Every message of the range is in the files once, whatever tasks
    are run again. A bucket's keys are all as of one moment.
    """
    summary = Summary("export")
    with started(summary, as_json=as_json, verbose=verbose) as run:
        access = Access.of(servers, store, user, password, token, nats).required()
        what, folder = _what(names, bucket, subject, begin, until, at, keys, headers)
        form = data or (Data.BINARY if kind is Format.PARQUET else Data.TEXT)
        if form is Data.BINARY and kind is not Format.PARQUET:
            raise BadUsage(f"--format {kind.value} has no binary: use --data text, base64 or columns")
        if headers and kind is Format.CSV:
            raise BadUsage("--format csv has no place for --headers")
        folders = _folders(by, bucket, tokens)
        target = folder if "://" in folder else os.path.abspath(folder)
        if mode is Mode.ERROR and "://" not in folder and os.path.exists(target):
            held = set(os.listdir(target)) if os.path.isdir(target) else {"a file"}
            if held - {UNCOMMITTED}:
                raise BadUsage(f"{folder} is there already: choose another folder, or --mode append or overwrite")
            mode = Mode.OVERWRITE if held else Mode.APPEND  # a run that failed left it
        place = run.reach(access)
        info = place.info(what.stream)
        subjects = info.state.num_subjects or 0
        if "subject" in folders and tokens is None and subjects > MOST_FOLDERS:
            raise BadUsage(
                f"{what.name} has {subjects:,} subjects, and each would be a folder: add --tokens N or --by day"
            )
        columns = _columns(schema, info.config.metadata) if form is Data.COLUMNS else None
        spark = run.spark()
        rows = spark.read.format(FORMAT).options(**place.options, **what.options).load()
        if what.bucket and not deleted:
            rows = rows.where("operation = 'PUT'")
        if columns is None and form is Data.COLUMNS:
            columns = _parsed(str(schema))
        seen = Observation()
        size = F.sum(F.length(what.data)).alias("bytes")
        rows = rows.observe(seen, F.count(F.lit(1)).alias("rows"), size)
        table, parts = _table(rows, what, form, columns, folders, tokens)
        summary.add("source", what.name, f"{'bucket' if what.bucket else 'stream'} {what.name}", label="from")
        summary.add("server", place.text)
        summary.begin()
        if parts:
            order = "revision" if what.bucket else "seq"
            names_now = [*parts, order if form is not Data.COLUMNS else FRONT + order]
            table = table.hint("rebalance", *parts).sortWithinPartitions(*names_now)
        writer = table.write.format(kind.value).mode(mode.value).partitionBy(*parts)
        if kind is Format.CSV:
            writer = writer.option("header", "true")
        with _whole_plans(spark):
            run.do(f"to {folder}", lambda: writer.save(target))
        count = int(seen.get["rows"])
        summary.add("rows", count)
        summary.add_bytes("bytes", int(seen.get["bytes"] or 0))
        summary.add("to", folder, f"{folder} ({kind.value}{', by ' + ', '.join(parts) if parts else ''})")
        if "://" not in folder:
            _measure(summary, Path(target), kind)
        summary.add_rate(count)
        run.tell(summary)


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


def _what(
    names: Sequence[str],
    bucket: str | None,
    subject: str | None,
    begin: str | None,
    until: str | None,
    at: str | None,
    keys: str | None,
    headers: bool,
) -> tuple[What, str]:
    if bucket is not None:
        if len(names) != 1:
            raise BadUsage("with --bucket give the folder alone")
        if subject is not None or begin is not None or until is not None or headers:
            raise BadUsage("a bucket is exported as of one moment: --at, and --keys to choose")
        moment = Bound.of(at, "--at")
        options = {"kvBucket": args.stream_name(bucket), **bounds(f"KV_{bucket}", None, moment)}
        if keys is not None:
            options["kvKeys"] = str(args.wanted_subject(keys, "--keys", wildcards=True))
        return What(bucket, True, options), names[0]
    if len(names) != 2:
        raise BadUsage("give a stream and a folder, such as: export ORDERS orders")
    if at is not None or keys is not None:
        raise BadUsage("--at and --keys are for --bucket: use --until and --subject")
    stream = args.stream_name(names[0])
    options = args.stretch(stream, subject, begin, until)
    if headers:
        options["includeHeaders"] = "true"
    return What(stream, False, options), names[1]


def _folders(by: str | None, bucket: str | None, tokens: int | None) -> list[str]:
    if by is None:
        by = "none" if bucket is not None and tokens is None else "subject" if bucket is not None else "subject,day"
    wanted = [each.strip().replace("key", "subject") for each in by.split(",") if each.strip() != "none"]
    for each in wanted:
        if each != "subject" and each not in TIMES:
            raise BadUsage(f"--by takes subject, hour, day, month, year or none, not {each!r}")
    if tokens is not None and "subject" not in wanted:
        raise BadUsage("--tokens needs --by subject")
    return wanted


def _columns(schema: str | None, metadata: dict[str, str] | None) -> StructType | None:
    if schema is not None:
        return None  # Spark parses it
    found = schema_in(metadata)
    if found is None:
        raise BadUsage("--data columns: which ones? ingest has left none with this stream, so give --schema")
    return found


def _parsed(schema: str) -> StructType:
    """Columns as DDL, which takes a running Spark."""
    found = StructType.fromDDL(schema)
    if not isinstance(found, StructType):
        raise BadUsage(f"--schema takes columns, such as 'id INT, name STRING', not {schema!r}")
    return found


def _table(
    rows: DataFrame, what: What, form: Data, columns: StructType | None, folders: Sequence[str], tokens: int | None
) -> tuple[DataFrame, list[str]]:
    """What is written, and which of its columns are folders."""
    front = FRONT if form is Data.COLUMNS else ""
    parts: list[str] = []
    own = [name for name in rows.columns if form is not Data.COLUMNS or name != what.data]
    rows = rows.withColumns({what.data: _form(F.col(what.data), form)})
    for each in folders:
        if each == "subject" and tokens is None:
            parts.append(front + what.subject)
            continue
        name = f"{what.subject}_prefix" if each == "subject" else each
        value = (
            F.substring_index(what.subject, ".", tokens or 1)
            if each == "subject"
            else F.date_format("timestamp", TIMES[each])
        )
        rows = rows.withColumns({name: value})
        parts.append(front + name)
        own.append(name)
    if columns is None:
        return rows, parts
    renamed = {name: front + name for name in own}
    taken = set(renamed.values()) & set(columns.names)
    if taken:
        raise BadUsage(f"--data columns: the message has a column {min(taken)!r} as well")
    rows = rows.withColumnsRenamed(renamed).withColumnsRenamed({what.data: "data"})
    return from_messages(rows, columns, list(renamed.values())), parts


def _form(data: Column, form: Data) -> Column:
    if form is Data.BINARY:
        return data
    if form is Data.BASE64:
        return F.base64(data)
    text = data.cast("string")
    reason = F.lit("a message is not UTF-8: use --data base64, or binary with parquet")
    return F.when(F.is_valid_utf8(text), text).otherwise(F.raise_error(reason).cast("string"))


_HIDDEN: Final = re.compile(r"[._]")


def _measure(summary: Summary, target: Path, kind: Format) -> None:
    files = [path for path in target.rglob("*") if path.is_file() and not _HIDDEN.match(path.name)]
    summary.add("files", len(files), f"{len(files):,} in {len({path.parent for path in files}):,} folders")
    summary.add_bytes("files_bytes", sum(path.stat().st_size for path in files))
