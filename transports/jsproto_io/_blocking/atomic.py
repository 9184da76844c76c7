"""The facade for threads, continued: atomic batches.

Rules: as of ``_blocking.connection``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Self

from jsproto.client.publish.atomic import AtomicBatch as CoreAtomicBatch
from jsproto.errors import BatchMessageError
from jsproto.grammar.acks import PubAck
from jsproto.grammar.columns import MessageColumns
from jsproto.grammar.headers import HeadersLike
from jsproto_io._state.atomic import AtomicBatchBase
from jsproto_io._state.common import OutgoingMessage

if TYPE_CHECKING:
    from jsproto_io._blocking.connection import Connection


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
        super().__init__(core, connection._orphans)
        self._connection = connection

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.discard()

    def add(self, subject: str, payload: bytes = b"", *, headers: HeadersLike | None = None) -> int:
        """Add one message; returns its sequence in the batch. All subjects must be of one stream.

        Waits for the server's answer where one is asked for (``ack_first``, ``ack_every``). With nothing sent and no
        sequence spent: LocalProtocolError for a message that cannot be in this batch (BadSubjectError, BadHeaderError,
        MaxPayloadError, BatchFullError; a repeated Nats-Msg-Id; a check of an expected sequence that the batch itself
        has changed), UnsupportedByServerError.
        """
        verb = partial(self._add_one, subject, payload, headers)
        while (added := self._connection._call(verb, lazily=True)) is None:
            self._make_room()
        sequence, answered = added
        if answered is not None:
            self._connection._wait(answered)
        return sequence

    def commit(self, subject: str | None = None, payload: bytes = b"", *, headers: HeadersLike | None = None) -> PubAck:
        """Store the batch and wait for its acknowledgement: ``count`` messages, the last one as ``seq``.

        With a ``subject`` this message is the last one of the batch; without, the batch is stored as it is
        (``commit_eob``), and behind either commit nothing is sent: asking again (after a wait that was given up) gives
        the same answer. BatchMessageError when this message was not taken, and the batch is still open.
        BatchStalledError or BatchLostError when no answer came: then it is not known whether all of it is stored or
        nothing.
        """
        verb = partial(self._commit_now, subject, payload, headers)
        self._connection._make_room()
        while (committed := self._connection._call(verb)) is None:
            self._make_room()
        return self._connection._wait(committed)

    def commit_eob(self) -> PubAck:
        """Store the batch as it is, without a further message; otherwise as ``commit``.

        UnsupportedByServerError before nats-server 2.14, with the batch as it was.
        """
        return self.commit()

    def discard(self) -> None:
        """Walk away without commit: nothing is stored. Nothing happens when it has ended."""
        self._connection._release(self._core.discard)

    def _make_room(self) -> None:
        """Wait for the answer to a message of somebody else, who is told what it says, and for the connection."""
        self._connection._make_room()
        with suppress(BatchMessageError):
            self._connection._wait(self._connection._call(lambda now: self._core.ready()))


def collected(messages: Iterable[OutgoingMessage], most: int | None) -> Sequence[OutgoingMessage]:
    """The messages at hand; of those that are more than ``most`` only one, so that it can be told."""
    if isinstance(messages, MessageColumns):
        return messages
    return list(messages if most is None else islice(messages, max(most, 0) + 1))
