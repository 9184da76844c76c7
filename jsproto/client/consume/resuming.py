"""What an ordered consumer and the sourcing end have in common: a reading that outlives its subscriptions.

* One subscription after another receives it. When anything is wrong with one, it is left, and the next one begins
  after what was received.
* One more subscription, the anchor, stays from the beginning to the end. It hears the answers of the API and the news
  of the link.
* The first attempt at another subscription is made at once. The next ones follow after growing pauses (``retry``). A
  message or heartbeat ends the series of attempts.
* After a full buffer the next subscription waits until half of the buffer has been taken.

Not here: when a subscription is left, and how the next one begins (``ordered``, ``sourcing``).
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from jsproto.client.connection.message_buffer import BufferOptions
from jsproto.client.connection.requests import is_no_responders
from jsproto.client.connection.subscription import Drainable
from jsproto.client.consume.message import Acker, ConsumerMsg
from jsproto.client.consume.push_buffer import PushBuffer
from jsproto.client.consume.retry import create_backoff
from jsproto.errors import (
    APIError,
    ConnectionClosedError,
    Error,
    JetStreamNotAvailableError,
    PermissionsViolationError,
)
from jsproto.grammar.api import ApiSubjects, decode_response
from jsproto.grammar.fields import Json
from jsproto.outbox import Outbox
from jsproto.ticket import Ticket
from jsproto.wire.frames import Msg

D = TypeVar("D", bound=ConsumerMsg)

ANSWER_WITHIN: Final = 5.0  # seconds for an answer of the API: the leader that was asked may be gone
_SERVER_ERRORS: Final = range(500, 600)  # codes that may pass by themselves, unlike all others


class ResumingBuffer(PushBuffer[D]):
    """A ``PushBuffer`` that one subscription after another fills."""

    __slots__ = (
        "_anchor", "_answer_to", "_api", "_awaited", "_backoff", "_deliver", "_floor", "_has_tried", "_inbox", "_ready",
        "_sid",
    )  # fmt: skip

    def __init__(
        self,
        outbox: Outbox,
        acker: Acker[D],
        *,
        api: ApiSubjects,
        inbox: str,
        stream: str,
        consumer: str,
        subject: str,
        patience: float,
        now: float,
        limits: BufferOptions,
    ) -> None:
        """Nothing is subscribed to yet. ``inbox``: a subject that nothing else uses. The others: as ``PushBuffer``."""
        super().__init__(
            outbox, acker, stream=stream, consumer=consumer, subject=subject, patience=patience, now=now, limits=limits
        )
        self._api = api
        self._inbox = inbox
        self._deliver = ""  # the subject of the present subscription
        self._floor = 0  # up to which what came by the subscriptions before was kept
        self._has_tried = False  # to begin again, since the last sign of life
        self._backoff = create_backoff()
        self._awaited = 0  # bytes of the message that found no room in the buffer
        self._sid: int | None = None
        self._answer_to = b""  # where the answer to the request under way comes
        self._ready: Ticket[None] | None = Ticket()  # None: it was ready, or has ended
        self._anchor = 0

    # -- the application's verbs ---------------------------------------------------------------------------------------

    def ready(self) -> Ticket[None]:
        """Completed when messages can come for the first time.

        The ticket fails with:
            Error: why that cannot be, or why this ended.
        """
        if self._ready is not None:
            return self._ready
        ticket: Ticket[None] = Ticket()
        if self.error is not None:
            ticket.fail(self.error)
        else:
            ticket.succeed(None)
        return ticket

    def unsubscribe(self, now: float) -> Ticket[None]:
        """End it. What is buffered can still be taken. The ticket is complete: the server is not waited for."""
        self._end(ConnectionClosedError("the subscription was closed"))
        ticket: Ticket[None] = Ticket()
        ticket.succeed(None)
        return ticket

    def abandon(self, now: float) -> None:
        self.unsubscribe(now)

    def drain(self, now: float) -> Ticket[None]:
        """The same as ``unsubscribe``: what is not here yet can be read another time."""
        return self.unsubscribe(now)

    def end_interest(self) -> None:
        """First half of a drain."""
        self._end(ConnectionClosedError("the subscription was drained"))

    def end_drain(self, now: float, closing: bool) -> None:
        """Second half of a drain: nothing is left to do."""

    def crashed(self, error: Error, now: float) -> None:
        """It ends with ``error``."""
        self._end(error)

    # -- what a subclass decides ---------------------------------------------------------------------------------------

    def answered(self, message: Msg, now: float) -> None:
        """The API has answered a request."""
        raise NotImplementedError

    def denied(self, violation: PermissionsViolationError, now: float) -> None:
        """The server does not permit a subscription or a request."""
        raise NotImplementedError

    def anchor_lost(self, error: Error, now: float) -> None:
        """The link is gone."""
        raise NotImplementedError

    def anchor_restored(self, now: float) -> None:
        """There is a new link."""
        raise NotImplementedError

    def _end(self, error: Error) -> None:
        """Leave the present subscription for good, and ``_conclude``. After the end it does nothing."""
        raise NotImplementedError

    # -- for subclasses ------------------------------------------------------------------------------------------------

    def _hold_anchor(self) -> None:
        """Subscribe to what outlives the subscriptions."""
        self._anchor = self._outbox.subscribe(f"{self._inbox}.*", _Anchor(self))

    def _body(self, message: Msg, about: str) -> Json:
        """The body of an answer of the API, which was asked ``about`` something.

        Raises: Error: what it says, or that there is no JetStream.
        """
        if is_no_responders(message):
            raise JetStreamNotAvailableError(self._api.prefix)
        return decode_response(message.payload, about=about)

    def _overflow(self, size: int, now: float) -> None:
        super()._overflow(size, now)
        self._awaited = size

    def _half_full(self) -> bool:
        """Whether another subscription had better wait for room: half of the buffer, or the size of the message that
        overflowed it.
        """
        return self._buffer.half_full(self._awaited)

    def _works(self) -> None:
        """A sign of life: the next failure begins a new series of attempts."""
        if self._has_tried:
            self._has_tried = False
            self._backoff.reset()

    def _is_there(self) -> None:
        """Messages can come."""
        ready, self._ready = self._ready, None
        if ready is not None:
            ready.succeed(None)
            self._outbox.completed(ready)

    def _leave(self) -> None:
        """End the present subscription, and all timers."""
        self._timers.clear()
        self._outbox.rearm(self)
        sid, self._sid = self._sid, None
        if sid is not None:
            self._outbox.unsubscribe(sid)

    def _conclude(self, error: Error) -> None:
        """There is no subscription any more, and there will be none."""
        self._outbox.unsubscribe(self._anchor)
        self._finish(error)
        ready, self._ready = self._ready, None
        if ready is not None:
            ready.fail(error)
            self._outbox.completed(ready)


class _Anchor(Drainable):
    """The subscription that outlives the others: API answers, news of the link, and a drain at any time."""

    __slots__ = ("_owner", "error")

    def __init__(self, owner: ResumingBuffer[Any]) -> None:
        self._owner = owner
        self.error = None

    def end_interest(self) -> None:
        """First half of a drain."""
        self._owner.end_interest()

    def end_drain(self, now: float, closing: bool) -> None:
        """Second half of a drain: nothing is left to do."""

    def receive(self, message: Msg, now: float) -> None:
        """An answer of the API."""
        self._owner.answered(message, now)

    def denied(self, violation: PermissionsViolationError, now: float) -> None:
        """The server does not permit a subscription or a request."""
        self._owner.denied(violation, now)

    def crashed(self, error: Error, now: float) -> None:
        """The owner has failed: it ends with ``error``."""
        self._owner.crashed(error, now)

    def link_lost(self, error: Error, now: float) -> None:
        """The link is gone."""
        self._owner.anchor_lost(error, now)

    def link_restored(self, now: float) -> None:
        """There is a new one."""
        self._owner.anchor_restored(now)


def stays(error: Error) -> bool:
    """Whether the next attempt would fail in the same way: it is an API error, and no server error (5xx)."""
    return isinstance(error, APIError) and error.code not in _SERVER_ERRORS
