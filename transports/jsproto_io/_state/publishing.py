"""The part of publishing, and of watching batches, that never waits, for threads and for event loops.

Rules: those of ``_state.shared``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from jsproto.client.publish.advisories import BatchAdvisories
from jsproto.client.publish.pipelined import Failure, PipelinedPublisher
from jsproto.errors import AsyncPublishError, Error, LocalProtocolError, OutboundBufferLimitError
from jsproto.grammar.acks import PubAck
from jsproto.grammar.advisory import BatchAbandoned
from jsproto.grammar.headers import HeadersLike
from jsproto.ticket import Ticket
from jsproto_io._state.common import MAX_CHUNK, MAX_POP, OutgoingMessage, ended, waiting

if TYPE_CHECKING:
    from jsproto_io._state.shared import ConnectionBase


class PublishesSome(ABC):
    """Publishes the part of a chunk that finds room."""

    @property
    @abstractmethod
    def sequence(self) -> int:
        """The sequence of the last message published. 0: none was."""

    @property
    @abstractmethod
    def _chunk_limit(self) -> int:
        """A hint, 1 or more: how many messages find room now, or else when there is room again."""

    @property
    @abstractmethod
    def _is_full(self) -> bool:
        """A hint: nothing finds room now, but may later."""

    @abstractmethod
    def _publish_some(self, chunk: Sequence[OutgoingMessage], now: float) -> int:
        """Publish the part of ``chunk`` that finds room. Returns how many messages that is."""


class PendingAckBase:
    """Whether the acknowledgement of one message has arrived."""

    __slots__ = ("_publisher", "_ticket")

    def __init__(self, ticket: Ticket[PubAck], publisher: Any) -> None:
        self._ticket = ticket
        self._publisher = publisher  # keeps the publisher alive

    def __repr__(self) -> str:
        return f"<PendingAck {self._ticket!r}>"

    @property
    def done(self) -> bool:
        """Whether the message is acknowledged or has failed."""
        return self._ticket.done


class PipelinedPublisherBase:
    """The state of a pipelined publisher."""

    def __init__(self, core: PipelinedPublisher, connection: ConnectionBase) -> None:
        self._core = core
        self._connection = connection

    def __repr__(self) -> str:
        core = self._core
        numbers = f"{core.sequence} published, {core.pending} pending, {core.acked} acknowledged, {core.failed} failed"
        return f"<PipelinedPublisher {numbers}{ended(core.error)}>"

    def __del__(self) -> None:
        # Its PendingAcks keep it alive, so nothing waits for an answer any more. See BatchReaderBase.
        self._connection._pending_closes.append(self._core.close)

    def _publish_one(
        self, subject: str, payload: bytes, headers: HeadersLike | None, now: float
    ) -> Ticket[PubAck] | None:
        """Publish. None: there is no room."""
        try:
            return self._core.publish(subject, payload, headers, now=now)
        except OutboundBufferLimitError:
            return None
        except LocalProtocolError:
            if self._core.room or self._core.error is not None:
                raise
            return None

    @property
    def _chunk_limit(self) -> int:
        """How many messages find room now, or may once there is room."""
        return max(self._core.room, 0) or MAX_CHUNK

    @property
    def _is_full(self) -> bool:
        """A hint: nothing finds room now, but may later."""
        return self._core.error is None and not self._core.room

    def _publish_some(self, chunk: Sequence[OutgoingMessage], now: float) -> int:
        """Publish the part of ``chunk`` that finds room. Returns how many messages that is."""
        try:
            return self._core.publish_many(chunk, now)
        except OutboundBufferLimitError:
            return 0

    def _room_ticket(self, now: float) -> Ticket[None] | None:
        """The ticket to wait for before publishing again. None: there is room."""
        if self._core.error is None and self._connection._session.congested:
            return self._connection._session.sendable()
        ticket = self._core.ready()
        return None if ticket.done and ticket.error is None else ticket

    def _raise_failures(self, now: float) -> None:
        """AsyncPublishError when there are failures that were not reported yet."""
        failed, failures = self._core.unreported, self._core.take_failures()
        if failed:
            error = AsyncPublishError(failed, failures)
            raise error from (failures[0][1] if failures else None)

    def take_failures(self) -> list[Failure]:
        """The failed messages of ``publish_many`` since the last call, or flush, each with its error.

        They are in the order of their failures. The first ones are kept, as many as may be without an acknowledgement.
        """
        return self._connection._call(lambda now: self._core.take_failures())

    @property
    def sequence(self) -> int:
        """How many messages were published."""
        return self._core.sequence

    @property
    def pending(self) -> int:
        """How many messages are without an answer."""
        return self._core.pending

    @property
    def acked(self) -> int:
        """How many messages were acknowledged."""
        return self._core.acked

    @property
    def failed(self) -> int:
        """How many messages failed."""
        return self._core.failed

    @property
    def error(self) -> Error | None:
        """Why nothing can be published any more. None: it can."""
        return self._core.error


class BatchAdvisoriesBase:
    """The received reports of abandoned batches."""

    def __init__(self, core: BatchAdvisories, pending_closes: deque[Callable[[float], None]]) -> None:
        self._core = core
        self._pending_closes = pending_closes
        self._taken: deque[BatchAbandoned] = deque()

    def __repr__(self) -> str:
        which = "all batches" if self.batch_id is None else f"batch {self.batch_id}"
        return f"<BatchAdvisories of {which} of stream {self.stream}: {waiting(self.pending, self.dropped)}>"

    def __del__(self) -> None:
        core = self._core  # a dropped one would stay subscribed. See BatchReaderBase.
        self._pending_closes.append(lambda now: core.close())

    def _take_ready(self, now: float) -> Ticket[None] | None:
        """Take the received advisories. Without any, a ticket to wait for."""
        self._taken.extend(self._core.pop_many(MAX_POP))
        return None if self._taken else self._core.readable()

    @property
    def stream(self) -> str:
        """The name of the watched stream."""
        return self._core.stream

    @property
    def batch_id(self) -> str | None:
        """The watched batch. None: all batches of the stream."""
        return self._core.batch_id

    @property
    def pending(self) -> int:
        """How many advisories were received and not yet taken."""
        return self._core.pending + len(self._taken)

    @property
    def dropped(self) -> int:
        """How many advisories were lost because the application was too slow."""
        return self._core.dropped
