"""Publishing records by fast ingest, with the number of acknowledged ones known at every moment.

Rules
 * An ``Ingest`` is filled in as the work goes on. So after any exception the caller can report what was acknowledged.
 * A bad record ends the batch with a commit: what came before it is acknowledged, and the next run can continue there.
 * Every other error leaves the batch uncommitted.

Not here: reading files (``records``), and what is shown (``report``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from jsproto.api_errors import StreamNotFoundError
from jsproto.client.publish.fast import NEEDED_VERSION
from jsproto.errors import BatchError, UnsupportedByServerError
from jsproto.events import Event, FlowRateChanged, GapReported, MessageRefused
from jsproto_io.cli.records import BadInput, BadUsage, Record
from jsproto_io.sync import Connection, JetStream

if TYPE_CHECKING:
    from jsproto.grammar.acks import PubAck
    from jsproto.grammar.config import StreamInfo
    from jsproto_io.cli.plan import IngestPlan

SAMPLE_EVERY: Final = 250  # messages between two samples of the clock
MAX_SAMPLES: Final = 2_000


@dataclass(slots=True)
class Meter:
    """The costs of one direction: wall-clock and CPU seconds, bytes, and samples of its progress.

    ``samples`` are (seconds since the start, messages until then). There are at most ``MAX_SAMPLES``: in a long run
    they are further apart.
    """

    samples: list[tuple[float, int]] = field(default_factory=list)
    seconds: float = 0.0
    cpu: float = 0.0
    bytes: int = 0
    _wall: float = 0.0
    _cpu: float = 0.0
    _apart: float = 0.002  # seconds between samples

    def start(self) -> None:
        """Start the clocks."""
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        self.samples.append((0.0, 0))

    def sample(self, messages: int) -> bool:
        """Add a sample. False: the last one is too young for another."""
        seconds = time.perf_counter() - self._wall
        if seconds - self.samples[-1][0] < self._apart:
            return False
        self.samples.append((seconds, messages))
        if len(self.samples) > MAX_SAMPLES:
            del self.samples[1::2]
            self._apart *= 2
        return True

    def stop(self, messages: int) -> None:
        """Stop the clocks, with ``messages`` in all."""
        self.seconds, self.cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        self.samples.append((self.seconds, messages))


@dataclass(slots=True)
class Ingest:
    """What was published, and what the server answered. Sequences are batch sequences, unless their names say stream.

    ``on_event`` is to be the connection's ``event_cb``: it collects flow rates, gaps and refusals.
    """

    sent: int = 0
    acked: int = 0
    acks: int = 0
    ack: PubAck | None = None
    first_stream_seq: int | None = None  # None: not known, others may have published in between
    flow: list[FlowRateChanged] = field(default_factory=list)
    lost: list[GapReported] = field(default_factory=list)
    refused: list[MessageRefused] = field(default_factory=list)
    meter: Meter = field(default_factory=Meter)

    def on_event(self, event: Event) -> None:
        """Keep an event about the batch."""
        if isinstance(event, FlowRateChanged):
            self.flow.append(event)
        elif isinstance(event, GapReported):
            self.lost.append(event)
        elif isinstance(event, MessageRefused):
            self.refused.append(event)

    @property
    def missing(self) -> int:
        """How many of the acknowledged messages the server left out (gap mode ``ok``)."""
        return len(self.refused) + sum(gap.last_missing - gap.first_missing + 1 for gap in self.lost)


def publish(
    nc: Connection,
    records: Iterable[Record],
    result: Ingest,
    on_progress: Callable[[int], None],
    *,
    live: bool = False,
    gap: Literal["fail", "ok"] = "fail",
    flow: int = 500,
) -> None:
    """Publish ``records`` as one batch and commit it. ``result`` is kept up to date.

    Args:
        nc: an open connection.
        records: what to publish.
        result: the counts so far.
        on_progress: called now and then with the number of acknowledged records.
        live: the source is still being written, so records leave one by one.
        gap: "fail" or "ok", as in ``JetStream.fast_publisher``.
        flow: messages for each acknowledgement, as in ``JetStream.fast_publisher``.

    Raises:
        BadInput: a record is damaged or too large. The records before it are committed.
        Error: otherwise as in ``FastPublisher.publish_many`` and ``commit``.
    """
    meter, limit = result.meter, nc.max_payload
    with nc.jetstream().fast_publisher(gap=gap, flow=flow) as batch:

        def messages() -> Iterator[tuple[str, bytes]]:
            for count, (line, subject, payload) in enumerate(records, 1):
                if len(payload) > limit:
                    raise BadInput(f"line {line}: {len(payload):,} bytes, but the server takes at most {limit:,}")
                meter.bytes += len(payload)
                yield subject, payload
                if (live or not count % SAMPLE_EVERY) and meter.sample(batch.acked):
                    on_progress(batch.acked)

        meter.start()
        bad: BadInput | None = None
        try:
            try:
                if live:
                    for subject, payload in messages():
                        batch.publish(subject, payload)
                else:
                    batch.publish_many(messages())
            except BadInput as error:
                bad = error
            if batch.sequence:
                result.ack = batch.commit()
        except BatchError as error:
            if error.ack is not None:  # the server's final acknowledgement
                result.acked = error.ack.count or 0
            raise
        finally:
            result.sent, result.acked, result.acks = (
                batch.sequence,
                max(result.acked, batch.acked),
                batch.acks,
            )
            meter.stop(result.acked)
            on_progress(result.acked)
        if bad is not None:
            raise bad


def prepare_stream(js: JetStream, name: str, subject: str, *, create: bool, allow_batched: bool) -> StreamInfo:
    """Stream ``name``, ready for fast ingest to ``subject`` (wildcards allowed): found, created or changed.

    Raises:
        BadUsage: it would have to be created or changed, and the options do not allow that.
    """
    try:
        info = js.stream_info(name)
    except StreamNotFoundError:
        if not create:
            raise BadUsage(f"there is no stream {name}: add --create-stream to make it") from None
        return js.create_stream(name, subjects=[subject], allow_batched=True, allow_direct=True)
    if info.config.allow_batched:
        return info
    if not allow_batched:
        raise BadUsage(f"stream {name} has allow_batched off: add --allow-batched to switch it on")
    return js.update_stream(name, allow_batched=True)


def ingest(
    nc: Connection,
    records: Iterable[Record],
    result: Ingest,
    on_progress: Callable[[int], None],
    plan: IngestPlan,
    *,
    live: bool,
) -> None:
    """Publish ``records`` to the streams of their subjects. With ``plan.stream``, look at that stream first.

    The other arguments are those of ``publish``.

    Raises:
        UnsupportedByServerError: the server has no fast ingest.
        BadUsage: the stream is not ready, or the records were stored in another stream.
        Error: otherwise as in ``publish``.
    """
    before, stream, pattern = None, plan.stream, plan.template.pattern
    server = nc.server_info
    if server is not None and server.is_before(NEEDED_VERSION):  # else the error would blame the stream
        raise UnsupportedByServerError("fast ingest", NEEDED_VERSION, server.version)
    if stream is not None:
        info = prepare_stream(nc.jetstream(), stream, pattern, create=plan.create, allow_batched=plan.allow_batched)
        before = info.state.last_seq
    publish(nc, records, result, on_progress, live=live, gap=plan.gap, flow=plan.flow)
    ack = result.ack
    if ack is None:
        return
    if stream is not None and ack.stream != stream:
        raise BadUsage(f"subject {pattern} belongs to stream {ack.stream}, not {stream}: that is where it was stored")
    stored = result.acked - result.missing
    if before is not None and ack.seq - before == stored:
        result.first_stream_seq = before + 1
