"""The facade for event loops, continued: callbacks that work on the messages of a pull consumer.

Rules: those of ``_aio.connection``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from jsproto.client.consume.schedule import Job
from jsproto.client.consume.work import ConsumerWork
from jsproto.errors import Error, LocalProtocolError
from jsproto.grammar.times import seconds
from jsproto.ticket import Ticket
from jsproto_io._aio.contexts import Managed
from jsproto_io._aio.engine import ends
from jsproto_io._aio.workers import Workers
from jsproto_io._state.common import Timeout
from jsproto_io._state.consume_context import ConsumeContextBase

if TYPE_CHECKING:
    from jsproto_io._aio.connection import Connection
    from jsproto_io._aio.consuming import JSMsg, PullSubscription

JobCallback: TypeAlias = Callable[["JSMsg"], object]
ErrorCallback: TypeAlias = Callable[["JSMsg", BaseException], object]


class ConsumeContext(ConsumeContextBase["JSMsg"], Workers, Managed):
    """Callbacks at work. Made by ``PullSubscription.consume()``.

    Example:

        async with sub.consume(print, concurrency=4) as work:
            while not work.finished:
                await sleep(0.01)

    As a context manager it stops at the end of the block. It goes on when it is dropped.
    """

    _connection: Connection

    def __init__(
        self,
        subscription: PullSubscription,
        core: ConsumerWork[JSMsg],
        callback: JobCallback,
        on_error: ErrorCallback | None,
    ) -> None:
        super().__init__(core)
        self._subscription = subscription  # keeps the subscription alive
        self._connection = subscription._connection
        self._callback = callback
        self._on_error = on_error

    @ends
    async def stop(self, *, timeout: Timeout | None = None) -> None:
        """Take no more messages, and wait until the callbacks that run have ended. The subscription can be used again.

        What was received and not worked on is given back by a nak, so that other clients get it at once. That counts as
        a delivery. With a ``key`` it is given back after the last callback has ended, so that no message overtakes an
        earlier one of its key. In a callback this does not wait.

        Args:
            timeout: seconds, or a timedelta. None: as long as the callbacks take.

        Raises:
            TimeoutError: callbacks still run. They may end later.
        """
        self._connection._release(self._core.stop)
        await self._wait_for_end(timeout)

    @ends
    async def drain(self, *, timeout: Timeout | None = None) -> None:
        """Ask for no more messages, and wait until all that were received are worked off. Otherwise as ``stop``.

        A message whose key waits for an earlier one to come again is given back by a nak.
        """
        self._connection._release(self._core.drain)
        await self._wait_for_end(timeout)

    async def wait_closed(self, *, timeout: Timeout | None = None) -> None:
        """Wait until it has ended: by ``stop`` or ``drain``, with the subscription, or by an error.

        Raises:
            TimeoutError: it has not ended in time.
            ConsumerDeletedError, ConsumerNotFoundError, StreamNotFoundError: why it has ended by itself.
            LocalProtocolError: one of its callbacks calls this.
            Error: otherwise as in the iteration over ``messages()``.
        """
        if self._is_calling:
            raise LocalProtocolError("a callback of consume() cannot wait for its own end")
        await self._wait_for_end(timeout)
        if self._core.error is not None:
            raise self._core.error.with_traceback(None)

    async def _wait_for_end(self, timeout: Timeout | None) -> None:
        limit = seconds(timeout)
        if not self._is_calling:
            await self._connection._wait(self._core.closed, limit)

    async def _callback_ended(self) -> None:
        """Wait until the callbacks have had the last message, unless one of them calls this."""
        if not self._is_calling:
            await self._connection._wait(self._core.closed, self._connection._session.options.timeout)

    async def _leave_block(self, error: BaseException | None) -> None:
        try:
            await self.stop()
        except Error:
            if error is None and not self._connection.is_closed:
                raise

    # -- one worker ----------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        connection, core = self._connection, self._core
        ticket: Ticket[None] | None = None
        try:
            found = connection._call(core.take)
            while found is not None:
                if isinstance(found, Ticket):
                    ticket = found
                    with suppress(Error):  # take() knows what has ended
                        await connection._wait(ticket)
                    ticket = None
                    found = connection._call(core.take)
                else:
                    if found.brings_worker:
                        self._bring_worker()
                    found = await self._do(found)
        except Error:  # the connection has failed
            pass
        finally:
            closes = self._leave(ticket)
        if closes:
            await connection.close()

    def _bring_worker(self) -> None:
        try:
            self._start_worker()
        except RuntimeError:  # no more threads, or the connection ends: the others go on
            self._leave(None)

    async def _do(self, job: Job[JSMsg]) -> Job[JSMsg] | Ticket[None] | None:
        """Work on one message. Returns what ``take`` does."""
        connection, core = self._connection, self._core
        found: Job[JSMsg] | Ticket[None] | None = None
        is_finished = False
        try:
            error = await self._run_callback(job.message)
            found = await connection._call_with_room(lambda now: core.finish_and_take(job, now, error), coalesce=True)
            is_finished = True
        except Error as failure:  # it could not be acknowledged
            self._report(job.message, failure)
        finally:
            if not is_finished:
                connection._release(partial(core.abandon, job))
        if not is_finished:
            return connection._call(core.take)
        if not isinstance(found, Job) or connection._session.has_news:
            self._drain_outputs()
        return found

    async def _run_callback(self, message: JSMsg) -> BaseException | None:
        """Call the callback. Returns what it raised, unless that ends the worker."""
        try:
            await self._call_callback(self._callback, message)
        except BaseException as error:  # it may be the cancellation of another task, not of this one
            if self._ends_worker(error):
                raise
            self._report(message, error)
            if self._on_error is not None:
                await self._run_on_error(self._on_error, message, error)
            return error
        return None

    async def _run_on_error(self, on_error: ErrorCallback, message: JSMsg, error: BaseException) -> None:
        try:
            await self._call_callback(on_error, message, error)
        except BaseException as failure:
            if self._ends_worker(failure):
                raise
            self._report(message, failure)
