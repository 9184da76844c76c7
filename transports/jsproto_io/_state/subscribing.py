"""The half of subscribing to consumers that never waits: the same for threads and for event loops.

Rules: as of ``_state.shared``.
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
from jsproto_io._state.common import MAX_POP

if TYPE_CHECKING:
    from jsproto_io._state.shared import ConnectionBase

D = TypeVar("D", bound=ConsumerMsg)
Pushed: TypeAlias = PushConsumer[D] | OrderedConsumer[D]

ORDERLY_ENDS: Final = (ConnectionClosedError,)
"""What a subscription, or its connection, ends with by a verb of the application."""
_PROGRAM_EXITS: Final = (GeneratorExit, KeyboardInterrupt, SystemExit)


def is_program_exit(error: BaseException) -> bool:
    """Whether ``error`` ends the whole program: GeneratorExit, KeyboardInterrupt or SystemExit, alone or in a group."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(_PROGRAM_EXITS) is not None
    return isinstance(error, _PROGRAM_EXITS)


class PushSubscriptionBase:
    """What has come from a consumer."""

    _connection: ConnectionBase

    def __init__(self, core: Pushed[Any]) -> None:
        self._core = core
        self._taken: deque[Any] = deque()
        self._served: Ticket[None] | None = None  # completed when the callback has had the last message
        # The callback is to get no more; nor is it on a closed connection, where what it does would be done again.
        self._stopped = False

    def __del__(self) -> None:
        # One that nobody reads would fill its buffer for ever. See BatchReaderBase.
        self._connection._pending_closes.append(partial(_unsubscribe_and_keep_consumer, self._core))

    def _take_ready(self, now: float) -> Ticket[None] | None:
        """Take what has come; a ticket to wait for when that is nothing. What was taken before is dealt with."""
        self._taken.extend(self._core.pop_many(MAX_POP, now))
        return None if self._taken else self._core.readable()

    def _begin_serving(self) -> None:
        self._served = Ticket()
        self._connection._serving.add(self)

    def _check_no_callback(self) -> None:
        if self._served is not None:
            raise LocalProtocolError("this subscription has a callback, which gets the messages")

    def _report_callback_error(self, error: BaseException) -> None:
        self._emit(CallbackFailed(self.subject, error))

    def _end_serving(self, error: BaseException | None) -> bool:
        """The callback gets no more; ``error`` is why, unless the application wanted it.

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
        if self._core.error is None and not self._stopped:  # nobody would take what goes on coming
            self._core.unsubscribe(now)
        if self._served is not None:
            self._served.succeed(None)
            self._connection._session.completed(self._served)

    @property
    def subject(self) -> str:
        """What was subscribed to; the stream's name when that was all of it."""
        return self._core.subject

    @property
    def stream(self) -> str:
        """The stream's name."""
        return self._core.stream

    @property
    def consumer(self) -> str:
        """The consumer's name; an ordered subscription has another one whenever it is made anew."""
        return self._core.consumer

    @property
    def pending_msgs(self) -> int:
        """Messages that have come and were not taken yet."""
        return self._core.pending_msgs + len(self._taken)

    @property
    def pending_bytes(self) -> int:
        """Bytes that have come and were not taken yet, but for those of the next few messages."""
        return self._core.pending_bytes

    @property
    def dropped(self) -> int:
        """Messages that found no room because the application was slow; an ordered subscription reads them again."""
        return self._core.dropped

    @property
    def error(self) -> Error | None:
        """Why it ended; None while it lives."""
        return self._core.error


def _unsubscribe_and_keep_consumer(core: Pushed[Any], now: float) -> None:
    """End it, and leave its consumer to the server: nobody has said that it is not wanted any more."""
    if core.error is None:
        if isinstance(core, PushConsumer):
            core.owned = False
        core.unsubscribe(now)
