"""The facade for event loops, continued: following a message from server to server.

Rules: those of ``_aio.connection``.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from jsproto.client.publish.tracing import TraceCollector as CoreTraceCollector
from jsproto.errors import TimeoutError
from jsproto.grammar.headers import Headers, HeadersLike
from jsproto.grammar.publish_headers import TRACE_DEST
from jsproto.grammar.times import seconds
from jsproto.grammar.trace import TRACE_ONLY, Trace
from jsproto_io._aio.contexts import Managed
from jsproto_io._state.common import Timeout
from jsproto_io._state.tracing import TraceCollectorBase

if TYPE_CHECKING:
    from jsproto_io._aio.connection import Connection


class TraceCollector(TraceCollectorBase, Managed):
    """The reports of servers about one message (ADR-41). Made by ``Connection.trace()``.

    Publish the message with ``trace=collector.subject``, or with ``send``, then ``collect``. As a context manager it
    closes at the end.
    """

    def __init__(self, core: CoreTraceCollector, connection: Connection) -> None:
        super().__init__(core, connection._pending_closes)
        self._connection = connection

    async def _leave_block(self, error: BaseException | None) -> None:
        await self.close()

    async def send(self, subject: str, payload: bytes = b"", *, headers: HeadersLike | None = None) -> None:
        """Publish a message that is traced, and neither delivered nor stored.

        Args:
            subject: where to publish, without wildcards.
            payload: the bytes of the message.
            headers: a mapping of names to a value, or to several.

        Raises, with nothing sent:
            LocalProtocolError: as in ``Connection.publish``.
        """
        pairs = [*Headers.of(headers).items(), (TRACE_DEST, self.subject), (TRACE_ONLY, "true")]
        await self._connection.publish(subject, payload, headers=Headers(pairs))

    async def collect(self, *, timeout: Timeout | None = None) -> Trace:
        """Wait until all servers that the message has passed have reported.

        A server that is too old to trace does not report. Then the trace is what came within ``timeout``, and it is not
        ``is_complete``.

        Args:
            timeout: seconds, or a timedelta. None: the connection's ``timeout``.

        Returns:
            The trace. ``print`` shows it, one step of the message in each line.

        Raises:
            ConnectionLostError: the link broke.
            ConnectionClosedError: it was closed before.
            PermissionsViolationError: this user may not subscribe to its inbox.
        """
        limit = seconds(timeout, default=self._connection._session.options.timeout)
        with suppress(TimeoutError):
            await self._connection._wait(self._connection._call(lambda now: self._core.complete()), limit)
        return self.trace

    async def close(self) -> None:
        """Listen no more. ``trace`` stays as it is."""
        self._connection._release(lambda now: self._core.close())
