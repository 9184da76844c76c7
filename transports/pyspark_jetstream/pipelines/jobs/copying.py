"""What ``mirror`` and ``replay`` have in common: from which stream to which, and messages of one as rows for another.

Rules: subject, data and headers go along. Headers that mean something to a server do not, because they would act a
second time (``Nats-Expected-...``, ``Nats-Rollup``, ...): of these only the message id goes along, with ``fast``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from jsproto_io.cli.records import BadUsage
from pyspark_jetstream.delivery import MSG_ID
from pyspark_jetstream.pipelines.jobs import arguments as args
from pyspark_jetstream.pipelines.jobs.arguments import Access, Delivery
from pyspark_jetstream.pipelines.jobs.running import Run
from pyspark_jetstream.pipelines.jobs.sinks import Sink
from pyspark_jetstream.pipelines.jobs.summary import Summary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from jsproto.grammar.config import StreamConfig

SERVERS_OWN: Final = "Nats-"


@dataclass(frozen=True, kw_only=True)
class Copy:
    """Which stretch of which stream goes where, as the options of a program say.

    ``subjects`` is what the target takes if it is made, without them what the source takes, behind ``prefix``.
    """

    source: str
    subject: str | None
    begin: str | None
    until: str | None
    target: str
    prefix: str | None
    subjects: str | None
    delivery: Delivery
    marker: str | None
    create: bool

    def prepared(
        self, run: Run, access: Access, to_servers: str | None, summary: Summary
    ) -> tuple[dict[str, str], Sink]:
        """Reach both ends and make the target, if that was asked for: how to read, with headers, and where to write.

        BadUsage, BadInput; ``summary`` is told from where to where it goes.
        """
        if self.prefix is not None:
            args.wanted_subject(self.prefix + "x", "--prefix", wildcards=False)
        place = run.reach(access)
        name = args.stream_name(self.source)
        stretch = args.stretch(name, self.subject, self.begin, self.until)
        options = {**place.options, **stretch, "includeHeaders": "true"}
        there = place if to_servers is None else run.reach(Access(to_servers, None, access.options))
        source = place.info(name)
        target = args.stream_name(self.target)
        if to_servers is None and target == name:
            raise BadUsage(f"{name} is where it comes from: choose another target")
        subjects = self._subjects(source.config)
        sink = Sink(there, target, self.delivery, args.wanted_subject(self.marker, "--marker", wildcards=False))
        if sink.required(self.create):
            sink.create(subjects, source.config.metadata if self.subjects is None else None)
        of = "" if self.subject is None else f", {self.subject}"
        summary.add("source", name, f"stream {name}{of}", label="from")
        sink.describe(summary)
        return options, sink

    def _subjects(self, source: StreamConfig) -> list[str]:
        if self.subjects is None:
            return [(self.prefix or "") + each for each in source.subjects or [source.name]]
        wanted = [each.strip() for each in self.subjects.split(",")]
        for each in wanted:
            args.wanted_subject(each, "--subjects", wildcards=True)
        return wanted


def as_messages(rows: DataFrame, prefix: str | None, delivery: Delivery) -> DataFrame:
    """Rows of a read as rows of a write."""
    subject = F.col("subject") if prefix is None else F.concat(F.lit(prefix), F.col("subject"))
    plain = F.filter("headers", lambda pair: ~pair["key"].startswith(SERVERS_OWN))
    columns = [subject.alias("subject"), F.col("data")]
    if delivery is Delivery.FAST:
        ids = F.filter("headers", lambda pair: pair["key"] == MSG_ID)
        columns.append(F.get(ids, 0)["value"].cast("string").alias("msg_id"))
    return rows.select(*columns, plain.alias("headers"), *(each for each in ("timestamp",) if each in rows.columns))
