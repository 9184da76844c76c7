"""The part of publishing, and of watching batches, that never waits, for threads and for event loops.

Rules: those of ``_state.shared``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from jsproto.client.publish.advisories import BatchAdvisories
from jsproto.client.publish.fast import FastPublisher
from jsproto.client.publish.pipelined import Failure, PipelinedPublisher
from jsproto.errors import Error, LocalProtocolError, OutboundBufferLimitError
from jsproto.grammar.acks import PubAck
from jsproto.grammar.advisory import BatchAbandoned
from jsproto.grammar.columns import MessageColumns
from jsproto.grammar.headers import HeadersLike
from jsproto.ticket import Ticket
from jsproto_io._state.common import MAX_CHUNK, MAX_POP, OutgoingMessage, check_iterable, ended, waiting

if TYPE_CHECKING:
    from jsproto_io._state.shared import ConnectionBase


class Hand:
    """What one call of ``publish_many`` has taken from its caller and holds back.

    These are ``messages``, then those of ``rest`` from ``place`` on. Without a ``rest`` they came from an iterator, and
    nobody else has them.
    """

    __slots__ = ("is_left", "messages", "place", "rest")

    def __init__(self, rest: Sequence[OutgoingMessage] | None) -> None:
        self.messages: Sequence[OutgoingMessage] = ()
        self.rest = rest
        self.place = 0
        self.is_left = False  # the call has ended

    def all(self) -> list[OutgoingMessage]:
        """All of them."""
        return [*self.messages, *(self.rest or ())[self.place :]]


class PublishesSome(ABC):
    """Publishes the part of a hand that finds room, and keeps what is in the hands of calls that were interrupted.

    A message leaves the hand after the core has it: an interrupt in between may double it, and keeps it.
    """

    _connection: ConnectionBase
    _core: FastPublisher | PipelinedPublisher
    _hands: dict[Hand, None]  # of the calls that run or were interrupted, oldest first

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

    def _publish_some(self, hand: Hand, now: float) -> None:
        """Publish from the front of ``hand.messages`` what finds room."""
        core, messages = self._core, hand.messages
        before = core.sequence
        try:
            taken = core.publish_many(messages, now)
        except OutboundBufferLimitError:
            return
        except BaseException:
            hand.messages = messages[core.sequence - before :]  # those before a bad one are published
            raise
        hand.messages = () if taken == len(messages) else messages[taken:]

    def _take_in_hand(self, messages: object) -> Hand:
        """The hand of a call that begins. A list or columns are taken as a whole, others as they are pulled."""
        for hand in tuple(self._hands):
            if hand.is_left and hand.rest is not None:
                self._hands.pop(hand, None)
        if isinstance(messages, list | tuple | MessageColumns):
            hand = Hand(messages)
        else:
            check_iterable(messages)
            hand = Hand(None)
        self._hands[hand] = None
        return hand

    def _put_down(self, hand: Hand) -> None:
        """The end of a call. What it has not published is kept."""
        if hand.rest is not None:
            hand.rest, hand.place = hand.rest[hand.place :], 0  # a list may be changed from now on
        hand.is_left = True
        if not (hand.messages or hand.rest):
            self._hands.pop(hand, None)

    def _check_hands(self) -> None:
        """LocalProtocolError: what was taken from an iterator would be forgotten by whoever goes on."""
        left = sum(len(hand.messages) for hand in tuple(self._hands) if hand.is_left and hand.rest is None)
        if left:
            raise LocalProtocolError(
                f"publish_many was interrupted with {left} messages of an iterator in hand: publish what "
                "take_unpublished() gives back"
            )

    @property
    def unacknowledged(self) -> list[OutgoingMessage]:
        """The messages that are not known to be stored, in order: what another batch or publisher would begin with.

        * First those that were published. Some may be stored: only ``Nats-Msg-Id`` headers keep a second copy out of
          the stream. With the gap mode "ok", messages that events reported as refused or lost are not among them.
        * Then those that ``publish_many`` took and did not publish. Of a list or columns that is all the rest, until
          the next call. The rest of an iterator is in the iterator.

        Each is a tuple, of columns as well. Failures that an AsyncPublishError holds are not among them.
        """

        def look() -> list[OutgoingMessage]:
            unpublished = (message for hand in tuple(self._hands) for message in hand.all())
            return [*self._core.unacknowledged, *unpublished]

        return self._connection._look(look)

    def take_unpublished(self) -> list[OutgoingMessage]:
        """Take back what ``publish_many`` took and did not publish, to go on with the same batch or publisher.

        If the call ended with a LocalProtocolError, the first one is the one that was refused.
        """
        left = [hand for hand in tuple(self._hands) if hand.is_left and self._hands.pop(hand, hand) is None]
        return [message for hand in left for message in hand.all()]


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


class PipelinedPublisherBase(PublishesSome):
    """The state of a pipelined publisher."""

    _core: PipelinedPublisher

    def __init__(self, core: PipelinedPublisher, connection: ConnectionBase) -> None:
        self._core = core
        self._connection = connection
        self._hands = {}

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

    def _room_ticket(self, now: float) -> Ticket[None] | None:
        """The ticket to wait for before publishing again. None: there is room."""
        if self._core.error is None and self._connection._session.congested:
            return self._connection._session.sendable()
        ticket = self._core.ready()
        return None if ticket.done and ticket.error is None else ticket

    def take_failures(self) -> list[Failure]:
        """The failed messages of ``publish_many`` since the last call, or flush, each with its error.

        They are in the order of their failures.
        """
        return self._connection._look(self._core.take_failures)

    @property
    def sequence(self) -> int:
        """How many messages were published."""
        return self._core.sequence

    @property
    def pending(self) -> int:
        """How many messages wait for an answer."""
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
        """Why publishing has ended. None: it can."""
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
