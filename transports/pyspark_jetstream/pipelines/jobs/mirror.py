"""``mirror``: its options, and the job. What it promises is said in ``pyspark_jetstream.pipelines.mirror``."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from pyspark.sql import DataFrame

from jsproto_io.cli.records import BadInput, BadUsage
from pyspark_jetstream.pipelines.jobs import arguments as args
from pyspark_jetstream.pipelines.jobs.arguments import Access, Delivery, new_app
from pyspark_jetstream.pipelines.jobs.copying import Copy, as_messages
from pyspark_jetstream.pipelines.jobs.running import FORMAT, started
from pyspark_jetstream.pipelines.jobs.summary import Summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

app = new_app()

VIEW: Final = "messages"


@app.command(
    epilog="Example: mirror ORDERS COPIES --prefix copies. --create-stream --checkpoint state. " + args.EPILOG,
    no_args_is_help=True,
)
def mirror(
    source: args.Source,
    target: args.Target,
    servers: args.Servers = None,
    store: args.Store = None,
    to_servers: args.ToServers = None,
    subject: args.Subject = None,
    begin: args.From = None,
    until: args.Until = None,
    prefix: args.Prefix = None,
    sql: Annotated[
        str | None,
        typer.Option(
            help="A query over the view 'messages' (subject, data, stream, seq, timestamp, headers), which gives "
            "subject and data, and if you like headers and msg_id.",
            metavar="QUERY",
            show_default=False,
        ),
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(
            help="Or: a Python file and the function in it that makes one DataFrame of the other.",
            metavar="FILE:NAME",
            show_default=False,
        ),
    ] = None,
    create_stream: args.Create = False,
    subjects: Annotated[
        str | None,
        typer.Option(
            help="With --create-stream: what TARGET takes, comma-separated. Default: what the source takes.",
            metavar="LIST",
            show_default=False,
        ),
    ] = None,
    delivery: args.Deliver = Delivery.FAST,
    marker: args.Marker = None,
    checkpoint: args.Checkpoint = None,
    follow: args.Follow = False,
    user: args.User = None,
    password: args.Password = None,
    token: args.Token = None,
    nats: args.Nats = None,
    as_json: args.Json = False,
    verbose: args.Verbose = False,
) -> None:
    """Copy a stream into another one, as it is or by a query of yours.

    Once, up to now; or, with --checkpoint, what is new since the last run; or, with --follow, until Ctrl-C.

    What is read again is the same again. When Spark runs a task or a micro-batch again, fast stores its rows again,
    fastDedup stores nothing more within the duplicate window of TARGET, and atomic stores nothing more at all; for the
    last two a query must not shuffle.
    """
    summary = Summary("mirror")
    with started(summary, as_json=as_json, verbose=verbose) as run:
        access = Access.of(servers, store, user, password, token, nats).required()
        if sum(each is not None for each in (sql, python, prefix)) > 1:
            raise BadUsage("--sql, --python and --prefix exclude each other")
        if follow and checkpoint is None:
            raise BadUsage("--follow needs --checkpoint, or the next run would begin anew")
        if checkpoint is not None and until is not None:
            raise BadUsage("--checkpoint and --until exclude each other")
        transform = _function(python) if python is not None else None
        copy = Copy(
            source=source, subject=subject, begin=begin, until=until, target=target, prefix=prefix, subjects=subjects,
            delivery=delivery, marker=marker, create=create_stream,
        )  # fmt: skip
        options, sink = copy.prepared(run, access, to_servers, summary)
        spark = run.spark()
        if checkpoint is None:
            rows = spark.read.format(FORMAT).options(**options).load()
        else:
            options = {**options} if begin is not None else {**options, "startingOffsets": "earliest"}
            rows = spark.readStream.format(FORMAT).options(**options).load()
        messages = _transformed(spark, rows, sql, transform, prefix, delivery)
        summary.begin()
        if checkpoint is None:
            count = sink.write(run, messages, summary)
        else:
            count = sink.follow(run, messages, checkpoint, summary, follow=follow, as_many=False)
        summary.add_rate(count)
        run.tell(summary)


def _transformed(
    spark: SparkSession,
    rows: DataFrame,
    sql: str | None,
    transform: Callable[[DataFrame], Any] | None,
    prefix: str | None,
    delivery: Delivery,
) -> DataFrame:
    if sql is not None:
        rows.createOrReplaceTempView(VIEW)
        return spark.sql(sql)
    if transform is not None:
        made = transform(rows)
        if not isinstance(made, DataFrame):
            raise BadInput(f"--python: the function gave {type(made).__name__}, not a DataFrame")
        return made
    return as_messages(rows, prefix, delivery).drop("timestamp")


def _function(text: str) -> Callable[[DataFrame], Any]:
    path, colon, name = text.rpartition(":")
    if not colon or not path or not name:
        raise BadUsage(f"--python takes FILE:NAME, not {text!r}")
    try:
        found = runpy.run_path(path).get(name)
    except Exception as error:
        raise BadUsage(f"--python {path}: {type(error).__name__}: {error}") from None
    if not callable(found):
        raise BadUsage(f"--python {path}: there is no function {name!r}")
    return found
