"""The parts of the facade for event loops that differ from that for threads. Each facade has them written by hand.

Rules
 * The names are those of ``_blocking.extras``.
 * A callback runs in a task of its own, one message at a time, in order. It may be a coroutine function.

Not here: what both facades do in the same way. ``_blocking`` is generated from it.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextvars import ContextVar
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from jsproto.errors import Error, WrongTypeError
from jsproto.grammar.columns import MessageColumns
from jsproto.grammar.stored import StoredMsg
from jsproto_io._aio.consuming import JSMsg
from jsproto_io._aio.taking import Iterates, Served, Takes
from jsproto_io._state.common import OutgoingMessage
from jsproto_io._state.shared import BatchReaderBase
from jsproto_io._state.subscribing import PushSubscriptionBase, is_program_exit

if TYPE_CHECKING:
    from jsproto_io._aio.connection import Connection

A = TypeVar("A")
T = TypeVar("T")

Messages: TypeAlias = Iterable[OutgoingMessage] | AsyncIterable[OutgoingMessage]
MessageCallback: TypeAlias = Callable[[JSMsg], object]
SERVING: Final[ContextVar[object]] = ContextVar("SERVING", default=None)
"""The subscription whose callback the present task runs."""


async def collect_messages(messages: Messages, most: int | None) -> Sequence[OutgoingMessage]:
    """The messages as a sequence. Of an iterable, one more than ``most`` at the most: an excess shows."""
    if isinstance(messages, MessageColumns):
        return messages
    if not isinstance(messages, AsyncIterable):
        return list(messages if most is None else islice(messages, max(most, 0) + 1))
    taken: list[OutgoingMessage] = []
    async for message in messages:
        taken.append(message)
        if most is not None and len(taken) > most:
            if isinstance(messages, AsyncGenerator):
                await messages.aclose()  # event loops complain about generators that are not closed
            break
    return taken


async def call_back(callback: Callable[[T], object], argument: T) -> None:
    """Call ``callback`` with ``argument``, and await what it returns if that can be awaited."""
    done = callback(argument)
    if inspect.isawaitable(done):
        await done


async def call_function(fn: Callable[[A], Awaitable[T]], argument: A) -> T:
    """What ``fn`` comes to. WrongTypeError if it returns nothing to be awaited."""
    done = fn(argument)
    if not inspect.isawaitable(done):
        raise WrongTypeError(f"here a function is async: {fn!r:.100} returned {done!r:.100}, which cannot be awaited")
    return await done


class BatchIterator(BatchReaderBase):
    """Iterates over the messages of a read."""

    _connection: Connection

    def __aiter__(self) -> AsyncIterator[StoredMsg]:
        return self

    async def __anext__(self) -> StoredMsg:
        while True:
            try:
                return self._taken.popleft()
            except IndexError:
                if self._finished:
                    raise StopAsyncIteration from None
                readable = self._connection._call(self._take_ready)
            if readable is not None:
                await self._connection._wait(readable)


class CallsBack(Served, Takes[Any]):
    """Calls a callback with the messages of a subscription."""

    _connection: Connection

    @property
    def _is_calling(self) -> bool:
        """Whether the present task runs its callback."""
        return SERVING.get() is self

    def _serve(self, callback: Callable[[Any], object], *, acknowledge: bool = False) -> None:
        """Call ``callback`` with each message from now on."""
        self._begin_serving()
        wanted = acknowledge and self._core.acker.wants_acks
        self._connection._start_task(lambda: self._run(callback, wanted))

    async def _run(self, callback: Callable[[Any], object], acknowledge: bool) -> None:
        SERVING.set(self)
        ended: BaseException | None = None
        session, taken = self._connection._session, self._taken
        try:
            while not (self._stopped or session.closed):
                message = taken.popleft() if taken else await self._next(None)
                try:
                    done = callback(message)
                    if done is not None and inspect.isawaitable(done):
                        await done
                    if acknowledge:
                        await message.ack()
                except BaseException as error:  # it may be the cancellation of another task, not of this one
                    if is_program_exit(error) or self._connection._is_cancelled(error):
                        raise
                    self._report_callback_error(error)
            ended = self._core.error
        except Error as error:
            ended = error
        except BaseException as error:
            ended = error
            raise
        finally:
            closes = self._end_serving(ended)
        if closes:
            await self._connection.close()


class PushIterator(CallsBack, PushSubscriptionBase, Iterates[JSMsg]):
    """Iterates over the messages of a subscription, or calls a callback with them."""

    _connection: Connection

    def __aiter__(self) -> AsyncIterator[JSMsg]:
        self._check_no_callback()
        return self
