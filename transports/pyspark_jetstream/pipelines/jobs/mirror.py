"""``mirror``: its options, and the job. What it promises is said in ``pyspark_jetstream.pipelines.mirror``."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import attrs
from pyspark.sql import DataFrame

from jsproto_io.cli.records import BadInput, BadUsage
from pyspark_jetstream.options import EARLIEST, ReadMode
from pyspark_jetstream.pipelines.jobs import arguments as args
from pyspark_jetstream.pipelines.jobs.arguments import Continuation, SourceAccess, option
from pyspark_jetstream.pipelines.jobs.copying import Copy, as_messages
from pyspark_jetstream.pipelines.jobs.running import FORMAT, Run, new_program
from pyspark_jetstream.pipelines.jobs.summary import Summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VIEW: Final = "messages"


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


def _subjects(text: str) -> list[str]:
    return [args.checked_filter(each.strip(), "--subjects") for each in text.split(",")]


@attrs.frozen(kw_only=True)
class Query:
    """What becomes of the messages, and which subjects these then have."""

    sql: str | None = option(
        "A query over the view 'messages' (subject, data, stream, seq, timestamp, headers, and origin but with fast), "
        "which gives subject and data, and if you like headers, msg_id and origin.", "QUERY",
    )  # fmt: skip
    python: Callable[[DataFrame], Any] | None = option(
        "Or: a Python file and the function in it that makes one DataFrame of the other.", "FILE:NAME", parse=_function
    )
    subjects: list[str] | None = option(
        "With --create-stream: what TARGET takes, comma-separated. Default: what the source takes.", "LIST",
        parse=_subjects,
    )  # fmt: skip

    def of(self, spark: SparkSession, rows: DataFrame, copy: Copy) -> DataFrame:
        """The rows to write. BadInput."""
        if self.sql is not None:
            rows.createOrReplaceTempView(VIEW)
            return spark.sql(self.sql)
        if self.python is None:
            return as_messages(rows, copy.prefix, copy.delivery).drop("timestamp")
        made = self.python(rows)
        if not isinstance(made, DataFrame):
            raise BadInput(f"--python: the function gave {type(made).__name__}, not a DataFrame")
        return made


@attrs.frozen(kw_only=True)
class Reading:
    """How the source is read."""

    read_mode: ReadMode = option(
        "sourcing: empty a work queue, whose messages go when Spark has committed them. Needs --checkpoint.",
        default=ReadMode.DIRECT, kind=ReadMode,
    )  # fmt: skip
    consumer: str | None = option("With sourcing: the consumer to acknowledge. It is made if it is not there.", "NAME")

    def __attrs_post_init__(self) -> None:
        if (self.consumer is None) is (self.read_mode is ReadMode.SOURCING):
            raise BadUsage("--consumer and --read-mode sourcing go together")

    def options(self, copy: Copy, checkpoint: str | None) -> dict[str, str]:
        """The data source's options for it. BadUsage."""
        if self.consumer is not None:
            if checkpoint is None:
                raise BadUsage("--read-mode sourcing needs --checkpoint: what is not remembered cannot be acknowledged")
            if copy.begin is not None:
                raise BadUsage("--from and --read-mode sourcing exclude each other: the consumer says where to begin")
            return {"readMode": self.read_mode.value, "consumer": self.consumer}
        return {} if checkpoint is None or copy.begin is not None else {"startingOffsets": EARLIEST}


def mirror(
    run: Run, summary: Summary, copy: Copy, query: Query, reading: Reading, continuation: Continuation,
    access: SourceAccess,
) -> None:  # fmt: skip
    """Copy a stream into another one, as it is or by a query of yours.

    Once, up to now. With --checkpoint, what is new since the last run. With --follow, until Ctrl-C.

    What is read again is the same again. When Spark runs a task or a micro-batch again, fast stores its rows again.
    By fastDedup nothing more is stored within the duplicate window of TARGET. By atomic nothing more is stored at all.
    For the last two a query keeps the column origin, and does not shuffle: else atomic fails where rows come again
    otherwise than they were.

    With --read-mode sourcing STREAM is a work queue, or has retention interest. Its messages go when they are copied.
    """
    if sum(each is not None for each in (query.sql, query.python, copy.prefix)) > 1:
        raise BadUsage("--sql, --python and --prefix exclude each other")
    checkpoint = continuation.checkpoint
    if checkpoint is not None and copy.until is not None:
        raise BadUsage("--checkpoint and --until exclude each other")
    more = reading.options(copy, checkpoint)
    options, sink = copy.prepared(run, access, summary, query.subjects)
    options |= more
    spark = run.spark()
    if checkpoint is None:
        rows = spark.read.format(FORMAT).options(**options).load()
    else:
        rows = spark.readStream.format(FORMAT).options(**options).load()
    messages = query.of(spark, rows, copy)
    summary.begin()
    if checkpoint is None:
        count = sink.write(run, messages, summary)
    else:
        count = sink.follow(run, messages, checkpoint, summary, follow=continuation.follow, as_many=False)
    summary.add_rate(count)
    run.tell(summary)


app = new_program(mirror, "mirror ORDERS COPIES --prefix copies. --create-stream --checkpoint state")
