"""What ``mirror`` and ``replay`` have in common: from which stream to which, and messages of one as rows for another.

Rules: subject, data and headers go along, and the row's name, where the delivery makes use of it. Headers that mean
something to a server do not, because they would act a second time (``Nats-Expected-...``, ``Nats-Rollup``). Of these
the message id alone goes along, with ``fast``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import attrs
from pyspark.sql import functions as F

from jsproto.grammar.publish_headers import MSG_ID
from jsproto_io.cli.records import BadUsage
from pyspark_jetstream.options import Delivery
from pyspark_jetstream.pipelines.jobs import arguments as args
from pyspark_jetstream.pipelines.jobs.arguments import Access, Destination, Source, option, positional
from pyspark_jetstream.pipelines.jobs.running import Run
from pyspark_jetstream.pipelines.jobs.sinks import Sink
from pyspark_jetstream.pipelines.jobs.summary import Summary
from pyspark_jetstream.schema import ORIGIN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SERVERS_OWN: Final = "Nats-"


def _prefix(text: str) -> str:
    args.checked_subject(f"{text}x", "--prefix")
    return text


@attrs.frozen(kw_only=True)
class Copy(Source, Destination):
    """Which messages of which stream go where."""

    target: str = positional("The stream to write to.", "TARGET", parse=args.stream_name)
    to_servers: str | None = option("The servers of TARGET, if they are others.", "URL")
    prefix: str | None = option("Put this before each subject, such as 'copies.'.", "TEXT", parse=_prefix)

    def prepared(
        self, run: Run, access: Access, summary: Summary, subjects: Sequence[str] | None = None
    ) -> tuple[dict[str, str], Sink]:
        """Reach both ends, and make the target if that was asked for.

        Returns: the options of reading, with headers, and where to write. ``summary`` gets both ends. ``subjects`` is
        what a new target takes: without them what the source takes, with the prefix. Raises: BadUsage, BadInput.
        """
        place = run.reach(access)
        named = {} if self.delivery is Delivery.FAST else {"includeOrigin": "true"}
        options = {**place.options, **self.of(self.source), "includeHeaders": "true", **named}
        there = place if self.to_servers is None else run.reach(access, self.to_servers)
        config = place.info(self.source).config
        if self.to_servers is None and self.target == self.source:
            raise BadUsage(f"{self.source} is where it comes from: choose another target")
        sink = Sink(there, self.target, self.delivery, self.marker)
        if sink.required(self.create_stream):
            prefixed = [(self.prefix or "") + each for each in config.subjects or [config.name]]
            sink.create(subjects or prefixed, config.metadata if subjects is None else None)
        of = "" if self.subject is None else f", {self.subject}"
        summary.add("source", self.source, f"stream {self.source}{of}", label="from")
        sink.describe(summary)
        return options, sink


def as_messages(rows: DataFrame, prefix: str | None, delivery: Delivery) -> DataFrame:
    """Rows of a read as rows of a write."""
    subject = F.col("subject") if prefix is None else F.concat(F.lit(prefix), F.col("subject"))
    plain = F.filter("headers", lambda pair: ~pair["key"].startswith(SERVERS_OWN))
    columns = [subject.alias("subject"), F.col("data")]
    if delivery is Delivery.FAST:
        ids = F.filter("headers", lambda pair: pair["key"] == MSG_ID)
        columns.append(F.get(ids, 0)["value"].cast("string").alias("msg_id"))
    return rows.select(
        *columns, plain.alias("headers"), *(each for each in ("timestamp", ORIGIN) if each in rows.columns)
    )
