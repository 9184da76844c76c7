"""How far one consumer is: what it delivered, what is acknowledged, and what waits for that.

Rules: a sequence of a consumer is given to each delivery, redeliveries included. The ack floor is the highest pair of
sequences up to which everything is acknowledged. Under the ack policy ``none`` a delivery acknowledges itself. Under
``all`` an acknowledgement settles everything up to its message, under ``explicit`` its message alone. What the stream
keeps for its consumers is released with the acknowledgement. Acknowledgements of what was never delivered in this way
move the ack floor under ``all`` alone.

Not here: how acknowledgements are written (``acks``), when a message is due again (``redelivery``), which message comes
next (``cursor``), and what is reported (``recorded``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jsproto.grammar.consumer import ConsumerConfig
from jsproto.grammar.subjects import contains
from jsproto.server.consume.acks import Acknowledgement, nak_delay
from jsproto.server.consume.cursor import Cursor
from jsproto.server.consume.recorded import Pair, RecordedState
from jsproto.server.consume.redelivery import PendingAcks
from jsproto.server.store.context import ServerContext
from jsproto.server.store.stream import Stored, Stream

_SECOND: Final = 1_000_000_000
_NO_NUMBER: Final = 2**64 - 1
"""What servers read where an ack subject has no number."""


class DeliveryState:
    """The delivery state of one consumer.

    Attributes, sequences and moments in the caller's seconds: ``consumer_seq`` (of the last delivery),
    ``delivered_at`` (when that was), ``floor_consumer`` and ``floor_stream`` (the ack floor), ``acked_at`` (the last
    acknowledgement), ``pending`` (the messages that wait for theirs), ``recorded`` (what is written down).
    """

    __slots__ = (
        "_controls_flow",
        "_cursor",
        "_filters",
        "_policy",
        "_stream",
        "acked_at",
        "consumer_seq",
        "delivered_at",
        "floor_consumer",
        "floor_stream",
        "pending",
        "recorded",
    )  # fmt: skip

    def __init__(self, stream: Stream, config: ConsumerConfig, cursor: Cursor) -> None:
        """Nothing is delivered yet. ``cursor`` is the consumer's place in ``stream``, which this moves on."""
        self.consumer_seq = 0
        self.delivered_at: float | None = None
        self.acked_at: float | None = None
        self.floor_consumer, self.floor_stream = 0, cursor.next_seq - 1
        self.pending = PendingAcks(config.ack_wait or 0, config.backoff or (), config.max_deliver or 0)
        self._stream = stream
        self._policy = config.ack_policy
        self._filters = config.filters
        self._controls_flow = bool(config.flow_control)
        self._cursor = cursor
        is_on_disk = stream.config.storage == "file" and not config.mem_storage
        self.recorded = RecordedState(config.ack_policy, self.floor_stream, is_on_disk=is_on_disk)

    def filter(self, filters: list[str]) -> None:
        """Take messages of other subjects from now on."""
        self._filters = filters
        self._cursor.filter(filters)

    @property
    def stream_seq(self) -> int:
        """The stream sequence up to which messages were delivered, or passed over."""
        return self._cursor.next_seq - 1

    @property
    def delivered_pair(self) -> Pair:
        """The last delivery, as it is reported."""
        return self.recorded.delivered if self.recorded.is_reported else Pair(self.consumer_seq, self.stream_seq)

    def reset(self, seq: int | None) -> None:
        """Nothing is delivered yet. The stream sequence ``seq`` comes next, None for the one after the ack floor.

        Under the retention ``interest`` what is passed over is released, under ``workqueue`` it stays.
        """
        seq = self.floor_stream + 1 if seq is None else seq
        is_new = seq != self._cursor.next_seq or len(self.pending) > 0
        if is_new and seq == self.floor_stream + 1 and self._policy in ("all", "flow_control"):
            self._cursor.reset(seq, is_new=False)
            self._cursor.pending += len(self.pending)
        else:
            self._cursor.reset(seq, is_new=is_new)
        self.pending.clear()
        self.recorded.reset(seq - 1)
        self.consumer_seq = self.floor_consumer = 0
        self.floor_stream = self.stream_seq
        self.delivered_at = self.acked_at = None
        if self._stream.config.retention == "interest":
            for stored in list(self._stream):
                self._stream.settled(stored.seq)

    def saved(self, context: ServerContext) -> dict[str, Any]:
        """How far it is, as JSON: moments in nanoseconds since 1970."""
        return {
            "consumer_seq": self.consumer_seq,
            "floor_consumer": self.floor_consumer,
            "floor_stream": self.floor_stream,
            "delivered_at": None if self.delivered_at is None else context.timestamp(self.delivered_at),
            "acked_at": None if self.acked_at is None else context.timestamp(self.acked_at),
            "cursor": self._cursor.saved(),
            "recorded": self.recorded.saved(),
            **self.pending.saved(context),
        }

    def restore(self, saved: Mapping[str, Any], context: ServerContext) -> None:
        """Go on where ``saved`` says."""
        delivered_at, acked_at = saved["delivered_at"], saved["acked_at"]
        self.consumer_seq = saved["consumer_seq"]
        self.floor_consumer, self.floor_stream = saved["floor_consumer"], saved["floor_stream"]
        self.delivered_at = None if delivered_at is None else context.seconds(delivered_at)
        self.acked_at = None if acked_at is None else context.seconds(acked_at)
        self._cursor.restore(saved["cursor"])
        self.recorded.restore(saved["recorded"])
        self.pending.restore(saved, context, self._stream.get)

    def delivered(self, stored: Stored, deliveries: int, now: float) -> None:
        """``stored`` was delivered now, for the ``deliveries``-th time."""
        self.consumer_seq += 1
        self.delivered_at = now
        self.recorded.deliver(self.consumer_seq, stored.seq)
        if deliveries > 1:
            self.pending.delivered_again(stored.seq, now)
            return
        self._cursor.delivered(stored)
        if self._policy == "none":
            self.floor_consumer, self.floor_stream = self.consumer_seq, stored.seq
            self._stream.settled(stored.seq)
        else:
            self.pending.delivered(stored, self.consumer_seq, now)

    def purged(self, subject: str | None, now: float) -> None:
        """The stream was purged at ``now``: of all messages, or of those of the pattern ``subject``.

        What went counts as acknowledged, without a word. What waits in the queue for redelivery leaves it (FACTS.md
        F5.21). A purge of other subjects changes nothing.
        """
        first, is_wider = self._after_purge(subject)
        if first < 0:
            return
        self._cursor.next_seq = max(self._cursor.next_seq, first)
        if self.floor_stream < first:
            self.floor_stream = first - 1
            for seq, outstanding in self.pending.all():
                if seq < first or (is_wider and self._stream.get(seq) is None):
                    self.floor_consumer = max(self.floor_consumer, outstanding.consumer_seq)
                    self.acked_at = now
                    self.pending.remove(seq)
                    self.recorded.acknowledge(outstanding.consumer_seq, seq)
        if not len(self.pending):
            self.floor_consumer, self.floor_stream = self.consumer_seq, self.stream_seq
            self.pending.clear()
        self.pending.leave_queue(now)
        outstanding_seqs = {seq: outstanding.consumer_seq for seq, outstanding in self.pending.all()}
        floor = Pair(self.floor_consumer, self.floor_stream)
        self.recorded.replace(Pair(self.consumer_seq, self.stream_seq), floor, outstanding_seqs)

    def _after_purge(self, subject: str | None) -> tuple[int, bool]:
        """The first sequence that is left, and whether the filters take more than was purged. -1: they take less."""
        stream = self._stream
        if subject is not None and not any(contains(subject, pattern) for pattern in self._filters):
            takes_more = not self._filters or any(contains(pattern, subject) for pattern in self._filters)
            return (stream.state().first_seq, True) if takes_more else (-1, False)
        if subject is None:
            return stream.state().first_seq, False
        left = next((stored.seq for stored in stream.matching(subject.encode(), 0)), 0)
        return left or stream.last_seq + 1, False

    def acknowledge(self, stream_seq: int, consumer_seq: int, now: float) -> bool:
        """A client is done with a message. Returns whether it gets an answer.

        A message that was not delivered yet changes nothing. Where bytes are controlled it counts (FACTS.md F5.22).
        Nor is sequence 0 answered where acknowledged messages go.
        """
        stream_seq, consumer_seq = (_NO_NUMBER if seq < 0 else seq for seq in (stream_seq, consumer_seq))
        if stream_seq >= self._cursor.next_seq and not self._controls_flow:
            return False
        if self._policy != "all":
            self._settle_one(stream_seq, consumer_seq, now)
        elif stream_seq <= self.floor_stream or consumer_seq <= self.floor_consumer:
            return stream_seq > 0
        else:
            self.settle_up_to(stream_seq, consumer_seq, now)
        self._stream.settled(stream_seq)
        return stream_seq > 0 or self._stream.config.retention == "limits"

    def settle(self, stream_seq: int, now: float) -> None:
        """One outstanding message is done with, because it is gone from the stream.

        Under the ack policy ``all`` those before it are, too.
        """
        outstanding = self.pending.get(stream_seq)
        assert outstanding is not None
        if self._policy == "all":
            self.settle_up_to(stream_seq, outstanding.consumer_seq, now)
            return
        self._settle_one(stream_seq, outstanding.consumer_seq, now)

    def _settle_one(self, stream_seq: int, consumer_seq: int, now: float) -> None:
        outstanding = self.pending.remove(stream_seq)
        if outstanding is not None:
            consumer_seq = outstanding.consumer_seq
            self._move_floor(consumer_seq, stream_seq)
        self.acked_at = now
        self.recorded.acknowledge(consumer_seq, stream_seq)

    def give_up(self, seq: int) -> None:
        """Stop delivering an outstanding message. The written ack floor does not move."""
        outstanding = self.pending.get(seq)
        assert outstanding is not None
        self.pending.give_up(seq)
        self.recorded.deliver(outstanding.consumer_seq, seq, is_last=True)
        self._move_floor(outstanding.consumer_seq, seq)

    def forget(self, seq: int, now: float) -> None:
        """A message that was given up is gone from the stream."""
        self.pending.remove(seq)
        self.acked_at = now

    def in_progress(self, seq: int, now: float) -> None:
        """A client works on a message. If it is outstanding its wait starts anew."""
        outstanding = self.pending.get(seq)
        if outstanding is not None:
            self.pending.in_progress(seq, now)
            self.recorded.deliver(outstanding.consumer_seq, seq)

    def _move_floor(self, consumer_seq: int, stream_seq: int) -> None:
        """The message of this pair is no longer outstanding."""
        if not len(self.pending):
            self.floor_consumer, self.floor_stream = self.consumer_seq, self.stream_seq
        elif consumer_seq == self.floor_consumer + 1:
            self.floor_consumer, self.floor_stream = consumer_seq, stream_seq
            following = self.pending.after(stream_seq)
            if following is not None:
                self.floor_consumer, self.floor_stream = following.consumer_seq - 1, following.stored.seq - 1

    def wants(self, seq: int) -> bool:
        """Whether the message with the stream sequence ``seq`` is still to be delivered or acknowledged."""
        if self._filters:
            stored = self._stream.get(seq)
            if stored is None or not self._cursor.takes(stored.subject):
                return False
        is_open = seq > self.floor_stream
        if self._policy == "explicit":
            is_open = is_open and (seq >= self._cursor.next_seq or seq in self.pending)
        return is_open or self.pending.was_repeated(seq)

    def settle_up_to(self, stream_seq: int, consumer_seq: int, now: float) -> None:
        """All messages up to this pair of sequences are done with. A pair below the ack floor changes nothing."""
        if stream_seq <= self.floor_stream or consumer_seq <= self.floor_consumer:
            return
        self.floor_consumer, self.floor_stream = consumer_seq, stream_seq
        self.acked_at = now
        self.recorded.acknowledge(consumer_seq, stream_seq)
        for outstanding in self.pending.remove_up_to(stream_seq):
            self._stream.settled(outstanding.stored.seq)

    def answer_flow_control(self, consumer_seq: int, stream_seq: int, now: float) -> None:
        """A client has stored everything up to this pair. A pair that was not delivered yet changes nothing.

        This is stricter than nats-server, which then deletes messages (FACTS.md F4.6).
        """
        if 0 < consumer_seq <= self.consumer_seq and 0 < stream_seq < self._cursor.next_seq:
            self.settle_up_to(stream_seq, consumer_seq, now)

    def redeliver(self, nak: Acknowledgement, now: float) -> bool:
        """A client wants a message again: at once, or after the delay that it says.

        Returns False, with nothing changed, when that message is not pending.
        """
        seq = nak.stream_seq
        outstanding = self.pending.get(seq)
        if outstanding is None or not self.floor_consumer < nak.consumer_seq <= self.consumer_seq + 1:
            return False
        delay = nak_delay(nak.argument)
        if delay is None:
            self.pending.queue(seq)
        else:
            self.pending.postpone(seq, now + delay / _SECOND)
            self.recorded.deliver(outstanding.consumer_seq, seq)
        return True
