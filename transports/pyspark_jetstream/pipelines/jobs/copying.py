"""What ``mirror`` and ``replay`` have in common: messages of one stream as rows for another.

Rules: subject, data and headers go along. Headers that mean something to a server do not, because they would act a
second time (``Nats-Expected-...``, ``Nats-Rollup``, ...): of these only the message id goes along, with ``fast``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from jsproto_io.cli.records import BadUsage
from pyspark_jetstream.delivery import MSG_ID
from pyspark_jetstream.pipelines.jobs import arguments as args
from pyspark_jetstream.pipelines.jobs.arguments import Access, Bound, Delivery, bounds
from pyspark_jetstream.pipelines.jobs.running import Place, Run
from pyspark_jetstream.pipelines.jobs.sinks import Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from jsproto.grammar.config import StreamInfo

SERVERS_OWN: Final = "Nats-"


def read_options(
    place: Place, stream: str, subject: str | None, begin: str | None, until: str | None
) -> dict[str, str]:
    """The data source's, for a stretch of a stream with headers."""
    stretch = bounds(stream, Bound.of(begin, "--from"), Bound.of(until, "--until"))
    options = {**place.options, "stream": stream, "includeHeaders": "true", **stretch}
    wanted = args.wanted_subject(subject, "--subject", wildcards=True)
    return options if wanted is None else {**options, "subject": wanted}


def as_messages(rows: DataFrame, prefix: str | None, delivery: Delivery) -> DataFrame:
    """Rows of a read as rows of a write."""
    subject = F.col("subject") if prefix is None else F.concat(F.lit(prefix), F.col("subject"))
    plain = F.filter("headers", lambda pair: ~pair["key"].startswith(SERVERS_OWN))
    columns = [subject.alias("subject"), F.col("data")]
    if delivery is Delivery.FAST:
        ids = F.filter("headers", lambda pair: pair["key"] == MSG_ID)
        columns.append(F.get(ids, 0)["value"].cast("string").alias("msg_id"))
    return rows.select(*columns, plain.alias("headers"), *(each for each in ("timestamp",) if each in rows.columns))


def checked_prefix(prefix: str | None) -> str | None:
    """BadUsage when a subject cannot begin with it."""
    if prefix is not None:
        args.wanted_subject(prefix + "x", "--prefix", wildcards=False)
    return prefix


def other_place(run: Run, place: Place, servers: str | None, access: Access) -> Place:
    """Where the target is: on servers of its own, if it has some."""
    return place if servers is None else run.reach(Access(servers, None, access.options))


def sink_for(
    place: Place,
    source: StreamInfo,
    target: str,
    prefix: str | None,
    subjects: str | None,
    delivery: Delivery,
    marker: str | None,
    *,
    create: bool,
    same: bool,
) -> Sink:
    """The target, made if that was asked for: with ``subjects``, or those of the source behind ``prefix``. BadUsage."""
    name = args.stream_name(target)
    if same and name == source.config.name:
        raise BadUsage(f"{name} is where it comes from: choose another target")
    wanted = [each.strip() for each in subjects.split(",")] if subjects is not None else None
    for each in wanted or ():
        args.wanted_subject(each, "--subjects", wildcards=True)
    if wanted is None:
        wanted = [(prefix or "") + each for each in source.config.subjects or [source.config.name]]
    sink = Sink(place, name, delivery, args.wanted_subject(marker, "--marker", wildcards=False))
    if sink.required(create):
        sink.create(wanted, source.config.metadata if subjects is None else None)
    return sink
