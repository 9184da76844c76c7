"""``replay``: its options, and the job. What it promises is said in ``pyspark_jetstream.pipelines.replay``."""

from __future__ import annotations

from typing import Final

import attrs

from jsproto_io.cli.records import BadUsage
from pyspark_jetstream.options import Delivery
from pyspark_jetstream.pipelines.jobs.arguments import SourceAccess, option
from pyspark_jetstream.pipelines.jobs.copying import Copy, as_messages
from pyspark_jetstream.pipelines.jobs.pacing import FORMAT as PACED
from pyspark_jetstream.pipelines.jobs.pacing import SPEED, PacedDataSource
from pyspark_jetstream.pipelines.jobs.running import FORMAT, Run, new_program
from pyspark_jetstream.pipelines.jobs.summary import Summary

SMALL_PAGES: Final = {"batchSize": "1000", "maxBytes": "262144"}
"""What waits for its time waits on the server rather than in a socket, which would be shut for being slow."""


def _factor(speed: str) -> float | None:
    """How many times faster than it was. None: as fast as possible. BadUsage."""
    if speed == "full":
        return None
    try:
        factor = 1.0 if speed == "original" else float(speed)
    except ValueError:
        factor = 0.0
    if not 0 < factor < float("inf"):
        raise BadUsage(f"--speed takes original, full or a number above 0, not {speed!r}")
    return factor


def _check_speed(_: object, field: object, speed: str) -> None:
    _factor(speed)


@attrs.frozen(kw_only=True)
class Pace:
    """How fast it goes."""

    speed: str = option(
        "original, full, or how many times faster than it was.", "original|full|N", "original", check=_check_speed
    )

    @property
    def factor(self) -> float | None:
        """How many times faster than it was. None: as fast as possible."""
        return _factor(self.speed)


def replay(run: Run, summary: Summary, copy: Copy, pace: Pace, access: SourceAccess) -> None:
    """Publish a stretch of a stream once more, into another stream: at its own pace, faster, or at full speed.

    At its own pace, or a multiple of it, the order of all messages and the time between them is kept, by one task. At
    full speed many tasks read and write, and the order is kept within each.

    When Spark runs a task again, fast stores its rows again. By fastDedup nothing more is stored within the
    duplicate window of TARGET. By atomic, at full speed only, nothing more is stored at all.
    """
    factor = pace.factor
    if factor is not None and copy.delivery is Delivery.ATOMIC:
        raise BadUsage("--delivery atomic needs --speed full: it stores a thousand messages at a time")
    options, sink = copy.prepared(run, access, summary)
    summary.add("speed", pace.speed, "as fast as it goes" if factor is None else f"{factor:g} times the original")
    spark = run.spark()
    if factor is not None:
        options = {**options, **SMALL_PAGES}
    messages = as_messages(spark.read.format(FORMAT).options(**options).load(), copy.prefix, copy.delivery)
    summary.begin()
    if factor is None:
        count = sink.write(run, messages.drop("timestamp"), summary)
    else:
        spark.dataSource.register(PacedDataSource)
        count = sink.write(run, messages.coalesce(1), summary, form=PACED, more={SPEED: str(factor)})
    summary.add_rate(count)
    run.tell(summary)


app = new_program(replay, "replay ORDERS TEST --prefix test. --create-stream --from 2026-11-21 --speed 60")
