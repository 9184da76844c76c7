"""The facade for event loops, continued: counters.

Rules: those of ``_aio.connection``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from jsproto.errors import MessageNotFoundError
from jsproto.grammar.counters import CounterEntry, counter_value, parse_counter
from jsproto.grammar.subjects import check_name
from jsproto_io._state.common import Timeout

if TYPE_CHECKING:
    from jsproto_io._aio.connection import JetStream


class Counts:
    """The verb of ``JetStream`` that counts."""

    def counter(self, stream: str) -> Counter:
        """The counters of a stream with ``allow_msg_counter`` and ``allow_direct`` (ADR-49). Each subject is one.

        Args:
            stream: the stream's name.
        """
        return Counter(cast("JetStream", self), check_name(stream))


class Counter:
    """The counters of one stream, one for each subject. Made by ``JetStream.counter()``.

    Example:

        counter = js.counter("HITS")
        await counter.add("hits.home", 2)
        hits = await counter.get("hits.home")
        print(hits.value)

    Values are whole numbers of any size, below or above 0. A counter without a message stands at 0.
    """

    def __init__(self, js: JetStream, stream: str) -> None:
        self._js = js
        self._stream = stream

    def __repr__(self) -> str:
        return f"<Counter of stream {self._stream}>"

    async def add(
        self, subject: str, value: int = 1, *, msg_id: str | None = None, timeout: Timeout | None = None
    ) -> int:
        """Add to a counter, and return what it stands at then.

        Args:
            subject: the counter.
            value: what is added, less than 0 to subtract.
            msg_id: with one, an increment that is sent twice within the duplicate window of the stream counts once. For
                the second one the value is read.
            timeout: seconds, or a timedelta. None: that of ``jetstream()``.

        Raises:
            MessageIncrDisabledError: the stream does not count.
            LocalProtocolError: ``value`` is no int. Nothing was sent.
            UnsupportedByServerError: the server is older than 2.12. Nothing was sent.
        """
        ack = await self._js.publish(subject, incr=value, msg_id=msg_id, timeout=timeout)
        if ack.value is None and ack.duplicate:
            return await self.value(subject, timeout=timeout)
        return counter_value(ack.value)

    async def get(self, subject: str, *, timeout: Timeout | None = None) -> CounterEntry:
        """Read a counter: its value, what was added last, and the part of each source in it.

        Args:
            subject: the counter.
            timeout: seconds, or a timedelta. None: that of ``jetstream()``.

        Raises:
            MessageNotFoundError: nothing was added to it.
            RemoteProtocolError: the stream has something else there.
        """
        return parse_counter(await self._js.get_last_msg(self._stream, subject, timeout=timeout))

    async def value(self, subject: str, *, timeout: Timeout | None = None) -> int:
        """Read what a counter stands at. 0: nothing was added to it.

        Args:
            subject: the counter.
            timeout: seconds, or a timedelta. None: that of ``jetstream()``.
        """
        try:
            return (await self.get(subject, timeout=timeout)).value
        except MessageNotFoundError:
            return 0

    async def sum(self, subjects: str | Iterable[str]) -> int:
        """Add up the counters of ``subjects``, any number of them, as they were at one moment (``snapshot``).

        Args:
            subjects: one or more. Wildcards are allowed.
        """
        total = 0
        async for message in await self._js.snapshot(self._stream, subjects):
            total += parse_counter(message).value
        return total

    @property
    def stream(self) -> str:
        """The name of the stream."""
        return self._stream
