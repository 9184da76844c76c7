"""The facade for event loops, continued: atomic batches.

Rules: as of ``_aio.connection``.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self

from jsproto.client.publish.atomic import AtomicBatch as CoreAtomicBatch
from jsproto.errors import BatchMessageError
from jsproto.grammar.acks import PubAck
from jsproto.grammar.headers import HeadersLike
from jsproto_io._state.atomic import AtomicBatchBase

if TYPE_CHECKING:
    from jsproto_io._aio.connection import Connection


class AtomicBatch(AtomicBatchBase):
    """One atomic batch: stored whole, or not at all. Made by ``JetStream.atomic_batch()``.

    As a context manager it discards the batch when the block is left without a commit: nothing is stored. A message
    that the stream did not take (too large for it, or on a subject of no stream) raises BatchMessageError where its
    answer was asked for, and the batch stays open without it. Any other error ends the batch and is raised by every
    verb from then on: APIError (or the subclass that fits) when the server says no, BatchExpiredError when it was
    silent for so long that the server has forgotten it; BatchClosedError after its end. Threads or tasks may
    share it: what one adds while another waits for an answer follows when that is here, and what is added behind a
    commit raises BatchClosedError.
    """

    def __init__(self, core: CoreAtomicBatch, connection: Connection) -> None:
        super().__init__(core, connection._pending_closes)
        self._connection = connection

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.discard()

    async def add(self, subject: str, payload: bytes = b"", *, headers: HeadersLike | None = None) -> int:
        """Add one message; returns its sequence in the batch. All subjects must be of one stream.

        Waits for the server's answer where one is asked for (``ack_first``, ``ack_every``). With nothing sent and no
        sequence spent: LocalProtocolError for a message that cannot be in this batch (BadSubjectError, BadHeaderError,
        MaxPayloadError, BatchFullError; a repeated Nats-Msg-Id; a check of an expected sequence that the batch itself
        has changed), UnsupportedByServerError.
        """
        verb = partial(self._add_one, subject, payload, headers)
        while (added := self._connection._call(verb, coalesce=True)) is None:
            await self._make_room()
        sequence, answered = added
        if answered is not None:
            await self._connection._wait(answered)
        return sequence

    async def commit(
        self, subject: str | None = None, payload: bytes = b"", *, headers: HeadersLike | None = None
    ) -> PubAck:
        """Store the batch and wait for its acknowledgement: ``count`` messages, the last one as ``seq``.

        With a ``subject`` this message is the last one of the batch; without, the batch is stored as it is
        (``commit_eob``), and behind either commit nothing is sent: asking again (after a wait that was given up) gives
        the same answer. BatchMessageError when this message was not taken, and the batch is still open.
        BatchStalledError or BatchLostError when no answer came: then it is not known whether all of it is stored or
        nothing.
        """
        verb = partial(self._commit_now, subject, payload, headers)
        await self._connection._make_room()
        while (committed := self._connection._call(verb)) is None:
            await self._make_room()
        return await self._connection._wait(committed)

    async def commit_eob(self) -> PubAck:
        """Store the batch as it is, without a further message; otherwise as ``commit``.

        UnsupportedByServerError before nats-server 2.14, with the batch as it was.
        """
        return await self.commit()

    async def discard(self) -> None:
        """Walk away without commit: nothing is stored. Nothing happens when it has ended."""
        self._connection._release(self._core.discard)

    async def _make_room(self) -> None:
        """Wait for the answer to a message of somebody else, who is told what it says, and for the connection."""
        await self._connection._make_room()
        with suppress(BatchMessageError):
            await self._connection._wait(self._connection._call(lambda now: self._core.ready()))
