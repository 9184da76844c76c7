"""A streaming read that empties a work queue: it acknowledges what Spark has committed, by a consumer's flow control.

Rules:
* The consumer delivers to the driver, by default without payloads, and so says which messages there are. Tasks read
  them by Direct Gets. The stream keeps a message until it is acknowledged, so what is read again is the same.
* A micro-batch ends with a message that was delivered. Its offset holds the tasks, and how many messages each has.
* A micro-batch is confirmed when Spark has it in its log: when it is where the next one begins (``start``), or by
  ``commit``. Confirmations stop at what was delivered.
* What goes from the stream before it is read is data loss. A server takes a delivered message that goes for an
  acknowledgement of all before it (FACTS.md F4.40), so messages are counted.
* The consumer is made for a query without a checkpoint. One that is gone later is data loss. So is one that has
  acknowledged more than Spark has committed. So is a stream that came back shorter under the driver.
* A schedule is no row. It ends the query before it is acknowledged.

Not here: flow control and its answers (``jsproto.client.consume.sourcing``), tasks (``source``, ``ranges``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, pairwise
from time import monotonic, sleep
from typing import Any, Final

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from jsproto import sourcing_consumer
from jsproto.api_errors import (
    ConsumerNotFoundError,
    ConsumerWQConsumerNotUniqueError,
    ConsumerWQMultipleUnfilteredError,
)
from jsproto.client.consume.sourcing import unfit
from jsproto.errors import Error, SourcePositionError, SourceScheduleError
from jsproto.errors import TimeoutError as NoAnswerError
from jsproto.grammar.config import StreamInfo
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.grammar.jsack import parse_jsack
from jsproto.grammar.position import StreamPosition
from jsproto_io.sync import JetStream, SourcingSubscription
from pyspark_jetstream.offsets import (
    SplitPlan,
    Task,
    check_streams,
    decode_offset,
    decode_tasks,
    encode_sourced_offset,
)
from pyspark_jetstream.option_fields import OptionError
from pyspark_jetstream.options import ReadOptions
from pyspark_jetstream.planning import (
    Range,
    begin_at,
    end_position,
    first_of,
    look_up,
    next_at_leader,
    position_at,
    report_loss,
)
from pyspark_jetstream.source import HAS_LIMITS, StreamReads
from pyspark_jetstream.sparse import filtered

MAX_ACK_PENDING: Final = 100_000  # messages under way, of a consumer that is made here
RETENTIONS: Final = ("workqueue", "interest")
EVERYTHING: Final = ">"
_SHARED: Final = (ConsumerWQConsumerNotUniqueError, ConsumerWQMultipleUnfilteredError)
GATHER_WITHIN: Final = 0.05  # seconds for another message, where there is none to wait for
SETTLE_WITHIN: Final = 5.0  # seconds; a server asks for an answer after one of silence
SETTLE_PAUSE: Final = 0.05  # seconds


class StalledConsumerError(RuntimeError):
    """A consumer delivers nothing, although its stream has messages for it. The message names both."""


class ConsumerEnd:
    """The driver's end of the consumer: claimed when it is needed, and again when it was lost.

    Attributes:
        ``begin``: after which position the next micro-batch begins. What is up to it Spark has committed.
        ``end``: the end of the stream when that was last looked up.

    Pickling leaves the claim out.
    """

    def __init__(self, options: ReadOptions) -> None:
        assert options.consumer is not None
        self._options = options
        self._stream, self._consumer = options.streams[0], options.consumer
        self.begin = self.end = StreamPosition(self._stream, 0)
        self._name = f"consumer {self._consumer} of stream {self._stream}"
        self._source: SourcingSubscription | None = None
        self._identity: str | None = None  # of the stream, when the consumer was claimed
        self._waiting: deque[tuple[int, int]] = deque()  # what was delivered after ``begin``: sequences, and times
        self._taken = 0  # the last sequence that was delivered since the claim
        self._nothing_before = 0  # what was not taken up to this sequence does not match

    def __reduce__(self) -> tuple[type[ConsumerEnd], tuple[ReadOptions]]:
        return ConsumerEnd, (self._options,)

    def hold(self, js: JetStream, since: StreamPosition | None) -> None:
        """Be the sourcing end, take what was delivered, and confirm what is up to ``since``.

        ``since``: up to where Spark has committed. None: there is no checkpoint, so the consumer says where to begin.
        Raises: OptionError, DataLossError, SourceBusyError, SourceScheduleError, or the errors of the connection.
        """
        source = self._source
        if source is None or source.error is not None:
            if source is not None and isinstance(source.error, SourcePositionError):
                report_loss(self._options, str(source.error))
            self.leave()
            try:
                source = self._claim(js, since)
            except BaseException:
                self.leave()
                raise
        elif since is not None:
            self._move(since)
        while source.pending_msgs:
            self._take(source, source.pending_msgs)
        if source._core.schedule is not None:
            raise SourceScheduleError(self._stream, *source._core.schedule)
        self._confirm(source)

    def commit(self, until: StreamPosition) -> None:
        """Confirm what is up to ``until``, if this is still the sourcing end."""
        if self._source is not None and until.identity == self.begin.identity:
            self._move(until)
            self._confirm(self._source)

    def _move(self, to: StreamPosition) -> None:
        if to.identity == self.begin.identity and to.seq > self.begin.seq:
            self.begin = to

    def waiting(self, most: int | None, until: int | None) -> list[tuple[int, int]]:
        """The sequences and times of the next messages: at most so many, and up to sequence ``until``."""
        found = list(islice(self._waiting, most))
        return found if until is None else found[: bisect_left(found, (until + 1,))]

    def is_whole(self, js: JetStream) -> bool:
        """Whether the stream is still as it was when it was claimed. If not, the claim ends. DataLossError."""
        now = self._looked_up(js, self.begin)
        if now.identity != self.begin.identity or now.seq < self.begin.seq:
            self.leave()
            return False
        return True

    def has_more(self, js: JetStream, until: int | None) -> bool:
        """Whether the stream has a message, up to sequence ``until``, that was not taken yet.

        An idle query asks this a hundred times a second. The consumer does not know at once what was stored.
        """
        self.end = end_position(look_up(js, self._stream))
        if self.end.identity != self.begin.identity or self.end.seq < self.begin.seq:
            self.leave()  # to claim it again tells what is wrong
            return True
        at = max(self._taken, self.begin.seq, self._nothing_before)
        if at >= self.end.seq:
            return False
        following = next_at_leader(js, self._stream, self._options.subject, at + 1)
        if following is None:
            self._nothing_before = self.end.seq
        return following is not None and (until is None or following.seq <= until)

    @property
    def awaits_confirm(self) -> bool:
        """Whether the server waits for a confirmation before it delivers more."""
        return self._source is not None and self._source.awaits_confirm

    def wait(self, limit: float) -> bool:
        """Wait for a message. Returns: whether one may have come within ``limit`` seconds."""
        source = self._source
        if source is None:
            return True
        try:
            self._take(source, 1, limit)
        except NoAnswerError:
            return False
        except Error:
            if source.error is None:
                raise  # else it is claimed again, which tells what is wrong
        return True

    def stalled(self) -> StalledConsumerError:
        """The error of a consumer that delivers nothing."""
        limit = self._options.connection.request_timeout
        what = f"{self._name} has delivered nothing for {limit:g} s, although the stream has messages"
        return StalledConsumerError(f"{what}: is it paused?")

    def settle(self, js: JetStream) -> None:
        """Wait until the server knows what is confirmed: it asks for that after a second of silence."""
        until = monotonic() + SETTLE_WITHIN
        while monotonic() < until:
            if js.consumer_info(self._stream, self._consumer).ack_floor.stream_seq >= self.begin.seq:
                return
            sleep(SETTLE_PAUSE)
            self.hold(js, self.begin)

    def leave(self) -> None:
        """End the claim. What was not confirmed is delivered again to the next one."""
        source, self._source = self._source, None
        self._waiting.clear()
        self._taken = self._nothing_before = 0
        if source is not None:
            source.unsubscribe()

    # -- claims --------------------------------------------------------------------------------------------------------

    def _claim(self, js: JetStream, since: StreamPosition | None) -> SourcingSubscription:
        """Be the sourcing end from now on. Nothing that was delivered before counts. Errors: as ``hold``."""
        options = self._options
        info = look_up(js, self._stream)
        if info.config.retention not in RETENTIONS:
            what = f"readMode=sourcing is for streams with retention workqueue or interest, and {self._stream} has "
            raise OptionError(f"{what}{info.config.retention}: leave it out")
        begin = position_at(js, info, first_of(info) - 1) if since is None else self._looked_up(js, since)
        is_made = self._find(js, info, is_new=since is None or since.identity != begin.identity)
        source = js.source(self._stream, self._consumer, timeout=options.connection.request_timeout)
        self._source, self._identity = source, source.identity
        assert source.info is not None
        floor = source.info.ack_floor.stream_seq
        if floor > begin.seq:
            if since is not None and not is_made:
                report_loss(options, f"{self._name} has acknowledged {floor}, but {begin.seq + 1} was to be read next")
            begin = replace(position_at(js, info, floor), identity=begin.identity)
        self.begin = self._looked_up(js, begin)  # nothing is confirmed of a stream that was made anew meanwhile
        return source

    def _looked_up(self, js: JetStream, since: StreamPosition) -> StreamPosition:
        """Where to begin, when ``since`` was wanted. Other consumers may take what a filter leaves. DataLossError."""
        front = self._options.subject in (None, EVERYTHING)
        begin, info = begin_at(js, look_up(js, self._stream), since, self._options, front=front)
        self.end = end_position(info)
        return begin

    def _find(self, js: JetStream, stream: StreamInfo, *, is_new: bool) -> bool:
        """Look at the consumer, or make it. Returns: whether it was made. OptionError, DataLossError."""
        subject = None if self._options.subject == EVERYTHING else self._options.subject
        try:
            config = js.consumer_info(self._stream, self._consumer).config
        except ConsumerNotFoundError:
            if not is_new:
                report_loss(self._options, f"{self._name} is gone, and its stream may have dropped messages since")
            inbox = js._connection.new_inbox()  # until it is claimed
            wanted = sourcing_consumer(
                self._consumer, inbox, stream=stream.config, filter_subject=subject, headers_only=True,
                max_ack_pending=MAX_ACK_PENDING,
            )  # fmt: skip
            try:
                js.create_consumer(self._stream, wanted)
            except _SHARED:
                what = f"stream {self._stream} has other consumers: make consumer {self._consumer} of it yourself"
                raise OptionError(f"{what}, with sourcing=True") from None
            return True
        self._check(config, subject)
        return False

    def _check(self, config: ConsumerConfig, subject: str | None) -> None:
        """OptionError when it delivers other messages than those that are read, or acknowledges otherwise."""
        if fields := unfit(config):
            raise OptionError(f"{self._name} cannot be sourced from: its {' and '.join(fields)} must be another")
        if config.deliver_policy == "last_per_subject":
            raise OptionError(f"{self._name} delivers the last message of each subject, and not all")
        filters = [each for each in config.filters if each != EVERYTHING]
        if filters != [each for each in (subject,) if each is not None]:
            has, wants = ", ".join(filters) or EVERYTHING, subject or EVERYTHING
            raise OptionError(f"{self._name} delivers {has}, and option subject says {wants}: they must be the same")

    # -- messages ------------------------------------------------------------------------------------------------------

    def _take(self, source: SourcingSubscription, most: int, timeout: float | None = None) -> None:
        """Wait up to ``timeout`` seconds for a message, and take up to ``most`` of those that are there."""
        for message in source.next_msgs(most, timeout=timeout):
            ack = parse_jsack(message.reply.encode())
            self._taken = max(self._taken, ack.sequence.stream)
            self._waiting.append((ack.sequence.stream, ack.timestamp))

    def _confirm(self, source: SourcingSubscription) -> None:
        """Confirm what is up to ``begin``, as far as it was delivered."""
        while self._waiting and self._waiting[0][0] <= self.begin.seq:
            self._waiting.popleft()
        seq = min(self.begin.seq, self._taken)
        if source.identity == self._identity and seq > source.position:  # else the stream was made anew
            source.confirm(seq)


class JetStreamSourcingReader(StreamReads):
    """A streaming read that acknowledges."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        super().__init__(schema, options)
        if not HAS_LIMITS:
            raise OptionError("readMode=sourcing needs Spark 4.2 or later, which says what it has committed")
        self._stream, self._consumer = options.streams[0], options.consumer or ""
        self._end = ConsumerEnd(options)
        self._initial: dict[str, Any] | None = None
        self._until: StreamPosition | None = None  # AvailableNow: where this run ends

    def initialOffset(self) -> dict[str, Any]:
        """Where a query without a checkpoint begins: after what the consumer has acknowledged."""
        if self._initial is None:
            self._client.request(lambda js: self._end.hold(js, None))
            self._initial = self._encoded(self._end.begin, [])
        return self._initial

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        """Where the next micro-batch ends: with what was delivered, or as far as a limit allows.

        Spark has committed what is before ``start``. What is on its way here is waited for: a while, and in a run that
        ends (AvailableNow) until it is here.
        """
        since, most = self._position(start), getattr(limit, "max_rows", None)
        return self._client.request(lambda js: self._latest(js, start, since, most))

    def _latest(self, js: JetStream, start: dict[str, Any], since: StreamPosition, most: int | None) -> dict[str, Any]:
        end = self._end
        while True:
            end.hold(js, since)
            if self._until is not None and self._until.identity != end.begin.identity:
                self._until = end.end
            until = None if self._until is None else self._until.seq
            found = end.waiting(most, until)
            if found:
                is_all = until is None or len(found) == most or end.awaits_confirm or not end.wait(GATHER_WITHIN)
                if is_all and end.is_whole(js):
                    seq, time = found[-1]
                    tasks = split_messages([each for each, _ in found], self.split_plan)
                    return self._encoded(StreamPosition(self._stream, seq, end.begin.identity, time), tasks)
            elif until is None:
                if not end.has_more(js, None) or not end.wait(GATHER_WITHIN):
                    return start
            elif not end.has_more(js, until):
                end.settle(js)
                return start
            elif not end.wait(self.options.connection.request_timeout):
                raise end.stalled()

    def prepareForTriggerAvailableNow(self) -> None:
        """This run ends where the stream ends now."""
        self._until = end_position(self._client.request(lambda js: look_up(js, self._stream)))

    def reportLatestOffset(self) -> dict[str, Any]:
        """The end of the stream as last seen, for the query's progress."""
        return self._encoded(self._end.end, [])

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a micro-batch. OptionError, DataLossError, SourceBusyError in the driver."""
        since, until = self._position(start), self._position(end)
        tasks = decode_tasks(end)
        return self._client.request(lambda js: self._planned(js, since, until, tasks)) if since != until else []

    def _planned(
        self, js: JetStream, since: StreamPosition, until: StreamPosition, tasks: Sequence[Task]
    ) -> list[InputPartition]:
        self._end.hold(js, since)
        if until.identity != self._end.begin.identity:  # planned before the stream was made anew: nothing is there
            return []
        whole = Range(tasks[0].lo, until.seq + 1, until)
        kind = filtered(js, look_up(js, self._stream), self.options.subject, whole)
        return [self.partition(replace(kind, lo=task.lo, hi=task.hi, count=task.messages)) for task in tasks]

    def commit(self, end: dict[str, Any]) -> None:
        """Acknowledge the micro-batch: the server is told when it asks."""
        self._end.commit(self._position(end))

    def stop(self) -> None:
        """Let another program be the sourcing end. Spark does not always call this."""
        self._end.leave()
        super().stop()

    def _encoded(self, position: StreamPosition, tasks: Sequence[Task]) -> dict[str, Any]:
        return encode_sourced_offset(position, self._consumer, tasks)

    def _position(self, offset: dict[str, Any]) -> StreamPosition:
        positions = decode_offset(offset, self._consumer)
        check_streams(positions, self.options.streams)
        return positions[self._stream]


def split_messages(seqs: Sequence[int], plan: SplitPlan) -> list[Task]:
    """The tasks of these messages, of about as many each. ``seqs``: the sequences, in order, at least one."""
    parts = min(max(plan.min_partitions, -(-len(seqs) // plan.max_records_per_partition)), len(seqs))
    edges = [len(seqs) * number // parts for number in range(parts + 1)]
    return [Task(seqs[lo], seqs[hi - 1] + 1, hi - lo) for lo, hi in pairwise(edges)]
