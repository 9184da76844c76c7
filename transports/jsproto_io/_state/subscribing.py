"""The part of subscribing to consumers that never waits, for threads and for event loops.

Rules: those of ``_state.shared``.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from jsproto.client.consume.message import ConsumerMsg
from jsproto.client.consume.ordered import OrderedConsumer
from jsproto.client.consume.push import PushConsumer
from jsproto.errors import ConnectionClosedError, Error, LocalProtocolError
from jsproto.events import CallbackFailed, SubscriptionFailed
from jsproto.ticket import Ticket
from jsproto_io._state.common import MAX_POP, warn_unclosed
from jsproto_io._state.consuming import ConsumerNames

if TYPE_CHECKING:
    from jsproto_io._state.shared import ConnectionBase

D = TypeVar("D", bound=ConsumerMsg)
Pushed: TypeAlias = PushConsumer[D] | OrderedConsumer[D]

ORDERLY_ENDS: Final = (ConnectionClosedError,)
"""The errors of a subscription, or connection, that the application itself has ended."""
_PROGRAM_EXITS: Final = (GeneratorExit, KeyboardInterrupt, SystemExit)


def is_program_exit(error: BaseException) -> bool:
    """Whether ``error`` ends the whole program: GeneratorExit, KeyboardInterrupt or SystemExit, alone or in a group."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(_PROGRAM_EXITS) is not None
    return isinstance(error, _PROGRAM_EXITS)


class ServedBase:
    """The state of a subscription that may have a callback."""

    _core: Any
    _connection: ConnectionBase
    _served: Ticket[None] | None = None  # completed when the callback has had the last message
    # The callback gets no more messages. On a closed connection neither: its messages would be delivered again.
    _stopped = False
    _ends_later = False  # a finalizer has begun to end it, while it is dropped

    def _unsubscribe_core(self, now: float) -> None:
        """End the subscription of a callback that has failed."""
        self._core.unsubscribe(now)

    def _begin_serving(self) -> None:
        self._served = Ticket()
        self._connection._serving.add(self)

    def _check_no_callback(self) -> None:
        if self._served is not None:
            raise LocalProtocolError("this subscription has a callback, which gets the messages")

    def _report_callback_error(self, error: BaseException) -> None:
        self._emit(CallbackFailed(self.subject, error))

    def _end_serving(self, error: BaseException | None) -> bool:
        """End the callback. ``error`` is why, unless the application wanted it.

        Returns whether the connection is to be closed now, because a callback has drained it.
        """
        connection = self._connection
        wanted = isinstance(error, ORDERLY_ENDS) or (connection._session.closed and not isinstance(error, Error))
        if error is not None and not wanted:
            self._emit(SubscriptionFailed(self.subject, error))
        connection._release(self._finish_serving)
        return connection._closes_when_served and not connection._serving

    def _emit(self, event: CallbackFailed | SubscriptionFailed) -> None:
        self._connection._release(lambda now: self._connection._session.emit(event))

    def _finish_serving(self, now: float) -> None:
        self._connection._serving.discard(self)
        if self._core.error is None and not self._stopped:  # no caller would take the next messages
            self._unsubscribe_core(now)
        if self._served is not None:
            self._served.succeed(None)
            self._connection._session.completed(self._served)

    @property
    def subject(self) -> str:
        """The subject of the subscription, or the stream's name if there was no subject."""
        return str(self._core.subject)


class PushSubscriptionBase(ServedBase, ConsumerNames):
    """The state of a push subscription."""

    _core: Pushed[Any]

    def __init__(self, core: Pushed[Any]) -> None:
        self._core = core
        self._taken: deque[Any] = deque()

    def __del__(self) -> None:
        # A dropped subscription would fill its buffer for ever. See BatchReaderBase.
        if self._ends_later:
            return
        if self._core.error is None and not self._stopped:
            warn_unclosed(f"subscription to {self.subject!r}", self)
        self._connection._pending_closes.append(partial(_unsubscribe_and_keep_consumer, self._core))

    def _take_ready(self, now: float) -> Ticket[None] | None:
        """Take the received messages. Without any, a ticket to wait for. Messages taken before count as consumed."""
        self._taken.extend(self._core.pop_many(MAX_POP, now))
        return None if self._taken else self._core.readable()

    @property
    def pending_msgs(self) -> int:
        """How many messages were received and not yet taken."""
        return self._core.pending_msgs + len(self._taken)

    @property
    def pending_bytes(self) -> int:
        """The bytes of those messages, without up to 512 messages at the front."""
        return self._core.pending_bytes

    @property
    def dropped(self) -> int:
        """How many messages found no room: the application was slow. An ordered subscription reads them again."""
        return self._core.dropped

    @property
    def error(self) -> Error | None:
        """Why the subscription ended. None: it lives."""
        return self._core.error


def _unsubscribe_and_keep_consumer(core: Pushed[Any], now: float) -> None:
    """End the subscription of a dropped object. Its consumer stays, since somebody may want it."""
    if core.error is None:
        if isinstance(core, PushConsumer):
            core.owned = False
        core.unsubscribe(now)
