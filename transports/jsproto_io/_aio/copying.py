"""The facade for event loops, continued: the copy of a stream in another one.

Rules: those of ``_aio.connection``. ``jsproto.client.copy`` decides, and this waits.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from jsproto.api_errors import ConsumerNotFoundError
from jsproto.client.copy.copier import ACK_WAIT, LINGER, Copier, CopyStep, Taken
from jsproto.client.copy.target import CopyDelivery
from jsproto.errors import BatchError, Error, TimeoutError
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.ticket import Ticket
from jsproto_io._aio.sourcing import SourcingSubscription
from jsproto_io._state.copying import StreamCopyBase

if TYPE_CHECKING:
    from jsproto_io._aio.connection import Connection, FastPublisher, JetStream

SETTLED_EVERY: Final = 0.5  # seconds between two questions whether a consumer has all that it waits for


class StreamCopy(StreamCopyBase):
    """One copy of a stream. Made by ``JetStream.copy()``."""

    _connection: Connection

    def __init__(
        self,
        js: JetStream,
        to: JetStream,
        names: tuple[str, str, str],
        config: ConsumerConfig | None,
        delivery: CopyDelivery,
        marker: str | None,
        prefix: str,
        limit: float,
    ) -> None:
        super().__init__(js._connection, (to._core, to._connection), names, config, delivery, marker, prefix, limit)
        self._js = js
        self._to = to

    async def run(self, *, until_caught_up: bool = False) -> int:
        """Copy until ``stop()``, or an error that stays. What passes by is waited for (event CopyRestarted).

        Args:
            until_caught_up: return once all is stored that the source had when the run began, whatever is published
                meanwhile. Without traffic the consumer has heard of that by then. With traffic it is waited for up to
                3 s, and what it has not heard of stays in a work queue until the next run.

        Returns:
            How many copies were acknowledged meanwhile.

        Raises:
            CopyTargetError: the target cannot be copied to, or is not a copy of this stream by the consumer's filters.
            SourcePositionError: the source came back shorter, and has other messages than the target has copies of.
            SourceScheduleError: a schedule of the source holds back the acknowledgements, and the consumer has stalled.
            CopyFencedError: another program writes to the target.
            SourceBusyError: another program sources from the consumer.
            ConsumerNotFoundError: there is no such consumer, and no ``config``.
            ConfigMismatchError: the consumer has another ack policy, or a deliver group.
            BatchMessageError: the target refuses a message, for example because it is full. The refusal of the first
                one of a batch is the APIError itself.
            MaxPayloadError: a copy is larger than the target's server takes.
            ConnectionClosedError, ConnectionLostError: one of the connections has ended. That of the target is missed
                when there is something to copy.
            PermissionsViolationError: a user may not do what the copy needs.
            LocalProtocolError: a run is at work already.
            APIError: a server refuses.
        """
        before = self.copied
        self._begin_run(until_caught_up)
        try:
            while not self._stopped:
                try:
                    await self._run_once()
                    break
                except Error as error:
                    pause = self._failed(error)
                with suppress(TimeoutError):
                    await self._connection._wait(Ticket[None](), pause)
        finally:
            self._end_run()
        return self.copied - before

    async def _run_once(self) -> None:
        target = await self._to._connection._ask(self._find_target)
        try:
            found = (await self._js.consumer_info(self.stream, self.consumer)).config
        except ConsumerNotFoundError:
            if self._config is None:
                raise
            found = self._config
        copier = self._begin(target, found)
        source = await self._js.source(
            self.stream, self.consumer, config=self._config, position=target.position(self.stream),
            timeout=self._limit,
        )  # fmt: skip
        async with source:
            self._source = source._core
            try:
                while (taken := await self._first(source)).raws:
                    if self._marker is None:
                        await self._copy_fast(copier, source, taken)
                    else:
                        await self._copy_atomic(copier, source, taken, self._marker)
            finally:
                self._source = None

    async def _copy_fast(self, copier: Copier, source: SourcingSubscription, taken: Taken) -> None:
        """Copy in one batch, until no message comes for a while."""
        copier.begin_batch()
        try:
            async with self._to.fast_publisher() as batch:
                while taken.raws:
                    await batch.publish_many(copier.columns(taken))
                    copier.acknowledged(batch.acked)
                    self._stored(copier, source._core)
                    taken = await self._more(copier, source, batch)
                ack = await batch.commit()
        except BatchError as error:
            copier.acknowledged(max(error.acked, 0 if error.ack is None else error.ack.count or 0))
            with suppress(Error):
                self._stored(copier, source._core)
            raise
        copier.committed(ack.count or 0)
        self._stored(copier, source._core)

    async def _copy_atomic(self, copier: Copier, source: SourcingSubscription, taken: Taken, marker: str) -> None:
        """Copy these in one batch."""
        ack = await self._to.publish_batch(copier.batch(taken, marker))
        copier.committed_marker(ack.seq)
        self._stored(copier, source._core)

    async def _first(self, source: SourcingSubscription) -> Taken:
        """Wait for messages. None come when the run is to end."""
        connection, core, goal = self._connection, source._core, self._goal
        while True:
            taken, news = connection._call(partial(self._take_or_wait, core))
            if news is None:
                return taken
            if goal is not None and core.is_acknowledged:
                info = await self._js.consumer_info(self.stream, self.consumer)
                if goal.is_settled(core, info):
                    return taken
            with suppress(TimeoutError):
                await connection._wait(news, None if goal is None else SETTLED_EVERY)

    async def _more(self, copier: Copier, source: SourcingSubscription, batch: FastPublisher) -> Taken:
        """The next messages of the batch. Empty: it is time for the commit."""
        connection, core, waited = self._connection, source._core, False
        while True:
            taken = connection._call(partial(self._take, core))
            if taken.raws or self._is_over(core):
                return taken
            acked = batch.acked
            step = self._next_step(copier, core, batch._core, acked, waited=waited)
            if step is CopyStep.COMMIT:
                return taken
            waited = False
            try:
                if step is CopyStep.AWAIT_ACK:
                    await self._wait_for_ack(batch, acked)
                else:
                    await connection._wait(connection._call(lambda now: core.readable()), LINGER)
            except TimeoutError:
                waited = True
            copier.acknowledged(batch.acked)
            self._stored(copier, core)

    async def _wait_for_ack(self, batch: FastPublisher, acked: int) -> None:
        """Wait for the first acknowledgement of more than ``acked`` messages, or the batch's error."""
        connection = self._to._connection
        await connection._wait(connection._call(lambda now: batch._core.progress(acked)), ACK_WAIT)
        if batch.error is not None:
            raise batch.error
