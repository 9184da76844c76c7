"""``replay``: its options, and the job. What it promises is said in ``pyspark_jetstream.pipelines.replay``."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from jsproto_io.cli.records import BadUsage
from pyspark_jetstream.pipelines.jobs import arguments as args
from pyspark_jetstream.pipelines.jobs.arguments import Access, Delivery, new_app
from pyspark_jetstream.pipelines.jobs.copying import Copy, as_messages
from pyspark_jetstream.pipelines.jobs.pacing import FORMAT as PACED
from pyspark_jetstream.pipelines.jobs.pacing import SPEED, PacedDataSource
from pyspark_jetstream.pipelines.jobs.running import FORMAT, started
from pyspark_jetstream.pipelines.jobs.summary import Summary

app = new_app()

SMALL_PAGES: Final = {"batchSize": "1000", "maxBytes": "262144"}
"""What waits for its time waits on the server rather than in a socket, which would be shut for being slow."""


@app.command(
    epilog="Example: replay ORDERS TEST --prefix test. --create-stream --from 2026-11-21 --speed 60. " + args.EPILOG,
    no_args_is_help=True,
)
def replay(
    source: args.Source,
    target: args.Target,
    servers: args.Servers = None,
    store: args.Store = None,
    to_servers: args.ToServers = None,
    subject: args.Subject = None,
    begin: args.From = None,
    until: args.Until = None,
    speed: Annotated[
        str, typer.Option(help="original, full, or how many times faster than it was.", metavar="original|full|N")
    ] = "original",
    prefix: args.Prefix = None,
    create_stream: args.Create = False,
    delivery: args.Deliver = Delivery.FAST,
    marker: args.Marker = None,
    user: args.User = None,
    password: args.Password = None,
    token: args.Token = None,
    nats: args.Nats = None,
    as_json: args.Json = False,
    verbose: args.Verbose = False,
) -> None:
    """Publish a stretch of a stream once more, into another stream: at its own pace, faster, or at full speed.

    At its own pace, or a multiple of it, the order of all messages and the time between them is kept, by one task. At
    full speed many tasks read and write, and the order is kept within each.

    When Spark runs a task again, fast stores its rows again, fastDedup stores nothing more within the duplicate window
    of TARGET, and atomic, at full speed only, stores nothing more at all.
    """
    summary = Summary("replay")
    with started(summary, as_json=as_json, verbose=verbose) as run:
        access = Access.of(servers, store, user, password, token, nats).required()
        factor = _factor(speed)
        if factor is not None and delivery is Delivery.ATOMIC:
            raise BadUsage("--delivery atomic needs --speed full: it stores a thousand messages at a time")
        copy = Copy(
            source=source, subject=subject, begin=begin, until=until, target=target, prefix=prefix, subjects=None,
            delivery=delivery, marker=marker, create=create_stream,
        )  # fmt: skip
        options, sink = copy.prepared(run, access, to_servers, summary)
        summary.add("speed", speed, "as fast as it goes" if factor is None else f"{factor:g} times the original")
        spark = run.spark()
        if factor is not None:
            options = {**options, **SMALL_PAGES}
        messages = as_messages(spark.read.format(FORMAT).options(**options).load(), prefix, delivery)
        summary.begin()
        if factor is None:
            count = sink.write(run, messages.drop("timestamp"), summary)
        else:
            spark.dataSource.register(PacedDataSource)
            paced = {SPEED: str(factor)}
            count = sink.write(run, messages.coalesce(1), summary, form=PACED, more=paced)
        summary.add_rate(count)
        run.tell(summary)


def _factor(speed: str) -> float | None:
    """How many times faster; None: as fast as it goes. BadUsage."""
    if speed == "full":
        return None
    try:
        factor = 1.0 if speed == "original" else float(speed)
    except ValueError:
        factor = 0.0
    if not 0 < factor < float("inf"):
        raise BadUsage(f"--speed takes original, full or a number above 0, not {speed!r}")
    return factor
