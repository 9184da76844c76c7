"""The facade for event loops, continued: atomic batches.

Rules: those of ``_aio.connection``.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Unpack

from jsproto.client.publish.atomic import AtomicBatch as CoreAtomicBatch
from jsproto.errors import BatchMessageError
from jsproto.grammar.acks import PubAck
from jsproto.grammar.headers import HeadersLike
from jsproto_io._aio.contexts import Managed
from jsproto_io._state.atomic import AtomicBatchBase
from jsproto_io._state.keywords import PublishKeywords, merged_headers

if TYPE_CHECKING:
    from jsproto_io._aio.connection import Connection


class AtomicBatch(AtomicBatchBase, Managed):
    """One atomic batch (ADR-50): stored whole, or not at all. Made by ``JetStream.atomic_batch()``.

    Example:

        async with js.atomic_batch() as batch:
            await batch.add("orders.anna", b"tea")
            await batch.add("orders.anna", b"cake")
            ack = await batch.commit()
        print(ack.count)

    As a context manager it discards the batch when the block is left without a commit: nothing is stored. Tasks may
    share it: what one adds while another waits for an answer follows after that answer.

    The verbs raise:
        BatchMessageError: the stream did not take a message (it is too large, or its subject is of no stream). The verb
            that asked for its answer raises it, and the batch stays open without the message.
        APIError: the server refused the batch. This and the next error end the batch, and every later verb raises them.
        BatchExpiredError: the batch was silent for so long that the server has forgotten it.
        BatchClosedError: the batch has ended, or a commit is under way.
    """

    def __init__(self, core: CoreAtomicBatch, connection: Connection) -> None:
        super().__init__(core, connection._pending_closes)
        self._connection = connection

    async def _leave_block(self, error: BaseException | None) -> None:
        await self.discard()

    async def add(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        headers: HeadersLike | None = None,
        **options: Unpack[PublishKeywords],
    ) -> int:
        """Add one message. All subjects must be of one stream.

        Waits for the server's answer where one is asked for (``ack_first``, ``ack_every``). The other keywords are
        those of ``JetStream.publish``, without ``expected_last_msg_id``, which servers refuse in a batch.

        Args:
            subject: where to publish, without wildcards.
            payload: the bytes of the message.
            headers: a mapping of names to a value, or to several.

        Returns:
            The sequence of the message in the batch, from 1 on.

        Raises, with nothing sent and no sequence spent:
            BadSubjectError: ``subject`` cannot be published to.
            BadHeaderError: a header cannot be sent.
            MaxPayloadError: headers and payload have more than ``max_payload`` bytes together.
            BatchFullError: the batch has ``max_messages`` messages.
            LocalProtocolError: a ``Nats-Msg-Id`` is repeated, or an expected sequence was changed by the batch itself,
                or a keyword has a value that it does not take.
            UnsupportedByServerError: the server is too old.
        """
        if options:
            headers = merged_headers(self._connection._session, subject, payload, headers, options)
        verb = partial(self._add_one, subject, payload, headers)
        while (added := self._connection._call(verb, coalesce=True)) is None:
            await self._make_room()
        sequence, answered = added
        if answered is not None:
            await self._connection._wait(answered)
        return sequence

    async def commit(
        self,
        subject: str | None = None,
        payload: bytes = b"",
        *,
        headers: HeadersLike | None = None,
        **options: Unpack[PublishKeywords],
    ) -> PubAck:
        """Store the batch and wait for its acknowledgement.

        The other keywords are those of ``add``, for the last message. After a commit nothing is sent: asking again
        (after a wait that was given up) gives the same answer.

        Args:
            subject: where to publish a last message. None: the batch is stored as it is, as with ``commit_eob``.
            payload: the bytes of the last message.
            headers: the headers of the last message.

        Returns:
            The acknowledgement: ``count`` messages are stored, the last one as ``seq``.

        Raises:
            BatchMessageError: the last message was not taken. The batch is still open.
            BatchStalledError: no answer came in time. It is not known whether all of it is stored or nothing.
            BatchLostError: the link broke before the answer came. It is not known whether all of it is stored or
                nothing.
        """
        headers = merged_headers(self._connection._session, subject, payload, headers, options)
        verb = partial(self._commit_now, subject, payload, headers)
        await self._connection._make_room()
        while (committed := self._connection._call(verb)) is None:
            await self._make_room()
        return await self._connection._wait(committed)

    async def commit_eob(self) -> PubAck:
        """Store the batch as it is, without a further message. Otherwise as ``commit``.

        Raises:
            UnsupportedByServerError: the server is older than 2.14. The batch is as it was.
        """
        return await self.commit()

    async def discard(self) -> None:
        """End the batch without a commit: nothing is stored. No effect after the end."""
        self._connection._release(self._core.discard)

    async def _make_room(self) -> None:
        """Wait for room in the connection, and for the answer to another caller's message, without its error."""
        await self._connection._make_room()
        with suppress(BatchMessageError):
            await self._connection._wait(self._connection._call(lambda now: self._core.ready()))
