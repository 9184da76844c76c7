"""Writing a DataFrame into a stream, and counting what became of its rows.

Rules:
* Rows are counted where they go into the sink, without reading anything twice.
* The stored messages are what the stream has grown by, as its leader says, less the sink's markers.
* The number is right while this sink is the only writer, and the stream keeps the markers.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Observation
from pyspark.sql import functions as F

from jsproto.api_errors import StreamNotFoundError
from jsproto.grammar.config import StreamInfo
from jsproto.grammar.session_token import SessionToken
from jsproto.grammar.subjects import overlaps
from jsproto_io.cli.records import BadUsage
from pyspark_jetstream.options import MARKER, Delivery
from pyspark_jetstream.pipelines.jobs.arguments import PROMISES
from pyspark_jetstream.pipelines.jobs.running import FORMAT, Place, Run
from pyspark_jetstream.pipelines.jobs.summary import Summary
from pyspark_jetstream.planning import covers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame


def markers(marker: str | None) -> str:
    """The subjects of the markers that begin with ``marker``."""
    return f"{marker}.{MARKER}.*.*"


def _takes(subjects: Sequence[str], marker: str | None) -> bool:
    return any(covers(each, markers(marker)) for each in subjects)


@dataclass
class Sink:
    """Where rows go, and how."""

    place: Place
    stream: str
    delivery: Delivery
    marker: str | None
    run_id: str | None = None

    def existing(self) -> StreamInfo | None:
        """The stream, if it is there."""
        try:
            return self.place.js.stream_info(self.stream)
        except StreamNotFoundError:
            return None

    def required(self, create: bool) -> bool:
        """Whether the stream has to be made. BadUsage when that was not asked for."""
        existing = self.existing()
        if existing is not None:
            if self.delivery is Delivery.ATOMIC:
                self._choose_marker(existing.config.subjects or [self.stream], lambda _: False)
            return False
        if not create:
            raise BadUsage(f"there is no stream {self.stream}: add --create-stream to make it")
        return True

    def create(self, subjects: Sequence[str], metadata: dict[str, str] | None = None) -> None:
        """Make the stream, so that it takes these subjects and the markers, and answers reads."""
        subjects = list(subjects)
        if self.delivery is Delivery.ATOMIC:
            self._choose_marker(subjects, lambda each: not any(overlaps(taken, markers(each)) for taken in subjects))
            if not _takes(subjects, self.marker):
                subjects.append(markers(self.marker))
        self.place.js.create_stream(
            self.stream,
            subjects=subjects,
            allow_direct=True,
            allow_batched=True,
            allow_atomic=True,
            metadata=metadata or {},
        )

    def _choose_marker(self, subjects: Sequence[str], fits: Callable[[str], bool]) -> None:
        """Unless it was given: the first token of the subjects, if markers can follow it."""
        if self.marker is None:
            first = subjects[0].partition(".")[0]
            own = f"{self.stream}_markers"
            can = first not in ("*", ">") and (fits(first) or _takes(subjects, first))
            self.marker = first if can else own

    def options(self) -> dict[str, str]:
        """Those of the data source."""
        options = {**self.place.options, "stream": self.stream, "delivery": self.delivery.value}
        if self.delivery is Delivery.ATOMIC and self.marker is not None:
            options["markerSubject"] = self.marker
        if self.delivery is Delivery.FAST_DEDUP and self.run_id is not None:
            options["msgIdPrefix"] = self.run_id
        return options

    # -- writing -------------------------------------------------------------------------------------------------------

    def write(
        self,
        run: Run,
        rows: DataFrame,
        summary: Summary,
        *,
        label: str = "rows out",
        form: str = FORMAT,
        more: dict[str, str] | None = None,
    ) -> int:
        """Store all rows, and add what became of them to ``summary``. Returns how many there were."""
        before = self.place.end(self.stream) - 1
        seen = Observation()
        watched = rows.observe(seen, F.count(F.lit(1)).alias("rows"), F.sum(F.length("data")).alias("bytes"))
        writer = watched.write.format(form).options(**self.options(), **(more or {})).mode("append")
        try:
            run.do(f"into {self.stream}", writer.save, lambda: self.place.end(self.stream) - 1 - before)
        except BaseException:
            with suppress(Exception):  # the first error is the one to tell
                grown = self.place.end(self.stream) - 1 - before
                summary.note = f"; stream {self.stream} has grown by {grown:,}" if grown else ""
            raise
        count = int(seen.get["rows"])
        summary.add("rows", count, label=label)
        summary.add_bytes("bytes", int(seen.get["bytes"] or 0))
        self.account(summary, count, before)
        return count

    def follow(
        self, run: Run, rows: DataFrame, checkpoint: str, summary: Summary, *, follow: bool, as_many: bool
    ) -> int:
        """Store the rows of an endless DataFrame, or what there is of it now. Returns how many it has read.

        ``as_many``: each row that was read is written, so ``summary`` gets what is missing or too much.
        """
        before = self.place.end(self.stream) - 1
        writer = rows.writeStream.format(FORMAT).options(**self.options()).option("checkpointLocation", checkpoint)
        query = writer.start() if follow else writer.trigger(availableNow=True).start()
        read = run.stream(f"into {self.stream}", query, lambda: self.place.end(self.stream) - 1, follow=follow)
        summary.add("rows", read, label="rows in")
        if as_many:
            self.account(summary, read, before)
        else:
            last = self.place.end(self.stream) - 1
            summary.add("stored", self._stored(before, last), label="messages stored")
        return read

    def account(self, summary: Summary, rows: int, before: int) -> None:
        """Say what became of ``rows``."""
        last = self.place.end(self.stream) - 1
        stored = self._stored(before, last)
        summary.add("stored", stored, label="messages stored")
        if last > before:
            summary.add("sequences", [before + 1, last], f"{before + 1:,} to {last:,}")
        if stored >= rows:
            summary.add("stored_twice", stored - rows)
        else:
            summary.add("duplicates_dropped", rows - stored)

    def describe(self, summary: Summary, *, own_ids: bool = False) -> None:
        """Say where rows go, and with which promise."""
        summary.add("stream", self.stream, label="into stream")
        summary.add("server", self.place.text)
        promise = PROMISES[self.delivery]
        if own_ids:
            promise = "each message id once within the duplicate window"
        summary.add("delivery", self.delivery.value, f"{self.delivery.value}: {promise}")

    def _stored(self, before: int, last: int) -> int:
        """How many messages are after ``before``, up to ``last``, without markers.

        The read of the markers is consistent: a replica may not have the last of them yet.
        """
        if self.delivery is not Delivery.ATOMIC or last <= before:
            return last - before
        with (
            self.place.js.consistent_session(token=SessionToken({self.stream: (last, 0)})) as session,
            session.get_batch(self.stream, seq=before + 1, subject=markers(self.marker)) as reader,
        ):
            return last - before - sum(message.seq <= last for message in reader)
