"""The facade for event loops, continued: what the verbs of ``JetStream`` have in common.

Rules: those of ``_aio.connection``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from jsproto.client.jetstream import JetStream as CoreJetStream
from jsproto.grammar.times import seconds
from jsproto.ticket import Ticket
from jsproto_io._state.common import Timeout

if TYPE_CHECKING:
    from jsproto_io._aio.connection import Connection

T = TypeVar("T")


class Asks:
    """A ``JetStream`` that asks: the core's, and the connection on which it waits."""

    _core: CoreJetStream
    _connection: Connection

    async def _asked(
        self, verb: Callable[..., Ticket[T]], *arguments: object, timeout: Timeout | None, **keywords: Any
    ) -> T:
        """The answer to a verb of the core. ``timeout``: None is that of ``jetstream()``.

        Reads and publishes of one message do without: the row ``kv-get`` counts two calls less for each.
        """
        limit = seconds(timeout, default=self._core.timeout)
        asked = partial(verb, *arguments, timeout=limit, **keywords)
        return await self._connection._ask(lambda now: asked(now=now), limit)
