"""What a server writes down of one consumer, which is what CONSUMER.INFO reports.

Rules, those of nats-server 2.15.1 (FACTS.md F5.31):

* What is delivered and acknowledged is written down beside the state that delivery goes by. The two can differ.
* A delivery up to the written ack floor is left out, and so is an acknowledgement of what is already settled.
* What is passed over is left out, until a purge writes down everything.
* A consumer in memory has an empty record before its first delivery. Then the other state is reported.

Not here: the state that delivery goes by (``delivery_state``), and when a message comes again (``redelivery``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Pair(NamedTuple):
    """A consumer sequence, and a stream sequence."""

    consumer: int
    stream: int


class RecordedState:
    """The written state of one consumer.

    Attributes: ``delivered`` and ``floor``, the last delivery and the ack floor.
    """

    __slots__ = ("_is_on_disk", "_pending", "_policy", "delivered", "floor")

    def __init__(self, policy: str | None, stream_seq: int, *, is_on_disk: bool) -> None:
        """Nothing is delivered. ``policy``: the ack policy. ``stream_seq``: the sequence before the first one."""
        self._policy = policy
        self._is_on_disk = is_on_disk
        self.reset(stream_seq)

    def reset(self, stream_seq: int) -> None:
        """Nothing is delivered any more. ``stream_seq``: the sequence before the next one."""
        self.delivered = self.floor = Pair(0, stream_seq)
        self._pending: dict[int, int] = {}

    @property
    def is_reported(self) -> bool:
        """Whether ``delivered`` is what a server reports."""
        return self._is_on_disk or self.delivered != (0, 0)

    def deliver(self, consumer_seq: int, stream_seq: int, *, is_last: bool = False) -> None:
        """Write down a delivery, or a new wait. ``is_last``: it is over, because the message is given up."""
        if consumer_seq <= self.floor.consumer:
            return
        delivered = Pair(max(consumer_seq, self.delivered.consumer), max(stream_seq, self.delivered.stream))
        if self._policy == "none":
            self.floor = delivered
        elif stream_seq > self.delivered.stream:
            self._pending[stream_seq] = consumer_seq
        if is_last:
            self._pending.pop(stream_seq, None)
        self.delivered = delivered

    def acknowledge(self, consumer_seq: int, stream_seq: int) -> None:
        """Write down an acknowledgement."""
        if consumer_seq <= self.floor.consumer or stream_seq not in self._pending:
            return
        if self._policy != "explicit":
            self.floor = Pair(consumer_seq, stream_seq)
            self._pending = {seq: first for seq, first in self._pending.items() if seq > stream_seq}
            return
        consumer_seq = min(consumer_seq, self._pending.pop(stream_seq))
        if not self._pending:
            self.floor = self.delivered
        elif consumer_seq == self.floor.consumer + 1:
            self.floor = Pair(consumer_seq, stream_seq)
            following = min((seq for seq in self._pending if seq > stream_seq), default=None)
            if following is not None:
                self.floor = Pair(self._pending[following] - 1, following - 1)

    def replace(self, delivered: Pair, floor: Pair, pending: Mapping[int, int]) -> None:
        """Write down everything, the consumer sequences of outstanding messages by their stream sequences as well.

        What contradicts itself, or is older than what was written, is dropped.
        """
        is_sound = floor.consumer <= delivered.consumer and floor.stream <= delivered.stream
        is_sound = is_sound and all(floor.stream < seq <= delivered.stream for seq in pending)
        if is_sound and delivered.consumer >= self.delivered.consumer and floor.stream >= self.floor.stream:
            self.delivered, self.floor, self._pending = delivered, floor, dict(pending)

    def saved(self) -> dict[str, Any]:
        """The state, as JSON."""
        return {"delivered": self.delivered, "floor": self.floor, "pending": list(self._pending.items())}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Become what ``saved`` says."""
        self.delivered, self.floor = Pair(*saved["delivered"]), Pair(*saved["floor"])
        self._pending = dict(saved["pending"])
