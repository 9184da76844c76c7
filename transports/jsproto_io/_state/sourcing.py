"""The part of sourcing from a consumer that never waits, for threads and for event loops.

Rules: those of ``_state.shared``.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from functools import partial
from typing import Any

from jsproto.client.consume.message import ConsumerMsg
from jsproto.client.consume.sourcing import SourcingConsumer
from jsproto.errors import Error, LocalProtocolError
from jsproto.grammar.consumer import ConsumerInfo
from jsproto.grammar.position import StreamPosition
from jsproto.ticket import Ticket
from jsproto_io._state.common import MAX_POP, warn_unclosed
from jsproto_io._state.consuming import ConsumerNames
from jsproto_io._state.shared import ConnectionBase


def leave(core: SourcingConsumer[Any], now: float) -> None:
    """End it, so that another program can be the sourcing end."""
    core.unsubscribe(now)


class SourcingSubscriptionBase(ConsumerNames):
    """The state of the sourcing end of a consumer."""

    _core: SourcingConsumer[Any]
    _connection: ConnectionBase

    def __init__(self, core: SourcingConsumer[Any]) -> None:
        self._core = core
        self._taken: deque[Any] = deque()

    def __del__(self) -> None:
        # A dropped subscription would keep others from the consumer. See BatchReaderBase.
        if self._core.error is None:
            warn_unclosed(f"subscription of consumer {self.consumer!r}", self)
        self._connection._pending_closes.append(partial(leave, self._core))

    def _take_ready(self, now: float) -> Ticket[None] | None:
        """Take the received messages. Without any, a ticket to wait for."""
        self._taken.extend(self._core.pop_many(MAX_POP, now))
        return None if self._taken else self._core.readable()

    def _confirm(self, seq: int, now: float) -> None:
        with suppress(IndexError):
            following = self._taken[0].metadata.sequence.stream
            if seq >= following:
                raise LocalProtocolError(f"{seq} cannot be confirmed: message {following} was not handed out yet")
        self._core.confirm(seq, now)

    def _restart(self, position: int, now: float) -> None:
        self._core.restart(position, now)
        self._taken.clear()

    @property
    def position(self) -> int:
        """The stream sequence up to which all is confirmed."""
        return self._core.position

    def position_of(self, message: ConsumerMsg) -> StreamPosition:
        """What a sink keeps where it stores its messages, when ``message`` is the last one: ``position`` of next time.

        ``bytes(position)`` is one line, and ``parse_position`` reads it.
        """
        return self._core.position_of(message)

    @property
    def identity(self) -> str | None:
        """What tells the stream from one that is made anew under its name. None before servers of 2.15."""
        return self._core.identity

    @property
    def info(self) -> ConsumerInfo | None:
        """The consumer, as the server described it when it was claimed last."""
        return self._core.info

    @property
    def awaits_confirm(self) -> bool:
        """Whether the server waits, and what came is all handed out: only ``confirm`` brings more."""
        return self._core.awaits_confirm and not self._taken

    @property
    def pending_msgs(self) -> int:
        """How many messages were received and not yet taken."""
        return self._core.pending_msgs + len(self._taken)

    @property
    def error(self) -> Error | None:
        """Why it ended. None: it lives."""
        return self._core.error
