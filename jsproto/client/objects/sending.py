"""Two ways for chunks to reach the stream: by fast ingest, or with an acknowledgement for each.

Rules:

* A bounded number of bytes is under way, whatever the size of a chunk.
* Each chunk has a message id: one that is sent again, on another link, is stored once.
* ``stored`` counts chunks from the first one on. By fast ingest those that are stored are a prefix: it ends at a gap.
* Acknowledgements say where each chunk is. Where they do not rise the order is lost, which is an error.
* A message that nobody took is not sent again: those behind it would overtake it.

Not here: which chunk is next, and what happens after a failure (``put``).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

from jsproto.client.publish.pipelined import PipelinedPublisher
from jsproto.errors import RemoteProtocolError
from jsproto.ticket import Ticket

if TYPE_CHECKING:
    from collections.abc import Generator

    from jsproto.client.jetstream import JetStream
    from jsproto.grammar.acks import PubAck

IN_FLIGHT: Final = 4 * 1024 * 1024
"""Bytes that may be without an acknowledgement."""
_OUTSTANDING: Final = 2  # acknowledgements of fast ingest that may be missing


class Sender(Protocol):
    """What sends chunks."""

    @property
    def stored(self) -> int:
        """How many chunks are known to be stored."""

    def ready(self) -> Ticket[None]:
        """Completed when a chunk may be sent. It fails with why none may."""

    def send(self, chunk: bytes, msg_id: str, now: float) -> None:
        """Send a chunk. Any Error: it failed, or one before it."""

    def finish(self, now: float) -> Generator[Ticket[Any], Any, None]:
        """Wait until all are stored. Any Error: not all are."""

    def abandon(self, now: float) -> None:
        """Give it up. No effect after the end."""


class FastSender:
    """Chunks by one batch of fast ingest."""

    def __init__(self, js: JetStream, subject: str, chunk_size: int) -> None:
        flow = max(IN_FLIGHT // (_OUTSTANDING * chunk_size), 1)
        self._batch = js.fast_publisher(flow=min(flow, 500), max_outstanding_acks=_OUTSTANDING)
        self._batch.asks_for_end = False
        self._subject = subject
        self.ready = self._batch.ready
        self.abandon = self._batch.abandon

    @property
    def stored(self) -> int:
        """As in ``Sender``."""
        return self._batch.acked

    def send(self, chunk: bytes, msg_id: str, now: float) -> None:
        """As in ``Sender``."""
        self._batch.publish(self._subject, chunk, {"Nats-Msg-Id": msg_id}, now=now)

    def finish(self, now: float) -> Generator[Ticket[Any], Any, None]:
        """As in ``Sender``."""
        if self._batch.sequence:
            yield self._batch.ready()  # the first answer, without which there is no batch to be committed
            yield self._batch.commit(now)


class AcknowledgedSender:
    """Chunks with an acknowledgement for each."""

    def __init__(self, js: JetStream, subject: str) -> None:
        session = js.session
        self._publisher = PipelinedPublisher(
            session, inbox=session.new_inbox(), draw_many=session.draw_many, timeout=js.timeout,
            max_pending_bytes=IN_FLIGHT,
        )  # fmt: skip
        self._subject = subject
        self._open: deque[Ticket[PubAck]] = deque()
        self._last = 0  # where the last chunk is that is stored
        self._stored = 0
        self.ready = self._publisher.ready
        self.abandon = self._publisher.close

    @property
    def stored(self) -> int:
        """As in ``Sender``."""
        return self._stored

    def send(self, chunk: bytes, msg_id: str, now: float) -> None:
        """As in ``Sender``."""
        self._settle()
        self._open.append(self._publisher.publish(self._subject, chunk, {"Nats-Msg-Id": msg_id}, now=now))

    def finish(self, now: float) -> Generator[Ticket[Any], Any, None]:
        """As in ``Sender``."""
        yield self._publisher.answered()
        self._settle()
        self._publisher.close(now)

    def _settle(self) -> None:
        """Look at the answers that have come, in the order of the chunks."""
        while self._open and self._open[0].done:
            seq = self._open.popleft().result().seq
            if seq <= self._last:
                raise RemoteProtocolError(f"a chunk is stored as {seq}, and the one before it as {self._last}")
            self._last = seq
            self._stored += 1
