"""The part of a copy that never waits, for threads and for event loops.

Rules: those of ``_state.shared``.
"""

from __future__ import annotations

from typing import Any, Final

from jsproto.client.consume.sourcing import SourcingConsumer
from jsproto.client.copy.copier import MAX_ATOMIC, Copier, CopyGoal, CopyRetry, CopyStep, Taken
from jsproto.client.copy.target import CopyDelivery, CopyTarget, check_copy
from jsproto.client.jetstream import JetStream
from jsproto.client.publish.fast import FastPublisher
from jsproto.errors import Error, LocalProtocolError
from jsproto.events import CopyRestarted
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.grammar.copies import filter_text
from jsproto.grammar.jsack import parse_jsack
from jsproto.ticket import Ticket
from jsproto.wire.frames import RawMsg
from jsproto_io._state.shared import ConnectionBase

ALL: Final = 1_000_000  # messages: more than a buffer has


class StreamCopyBase:
    """The state of one copy, and what it asks the core."""

    _source: SourcingConsumer[Any] | None  # while it is claimed

    def __init__(
        self,
        connection: ConnectionBase,
        to: tuple[JetStream, ConnectionBase],
        names: tuple[str, str, str],
        config: ConsumerConfig | None,
        delivery: CopyDelivery,
        marker: str | None,
        prefix: str,
        limit: float,
    ) -> None:
        """``names``: of the source, its consumer and the target. ``limit``: seconds for an answer."""
        self.stream, self.consumer, self.target = names
        check_copy(self.target, delivery, marker, prefix)
        if config is not None and not isinstance(config, ConsumerConfig):
            raise LocalProtocolError(f"config is a ConsumerConfig, not {type(config).__name__}")
        if limit <= 0:
            raise LocalProtocolError("the timeout of a copy must be greater than 0 seconds")
        self._connection = connection
        self._to_core, self._to_connection = to
        self._config = config
        self._marker = marker
        self._prefix = prefix
        self._limit = limit
        self._copied = 0
        self._restarts = 0
        self._source = None
        self._copier: Copier | None = None
        self._confirmed: tuple[int, str | None] = (0, None)  # position and identity that were confirmed last
        self._last: RawMsg | None = None  # the message that was taken last
        self._retry = CopyRetry(self.target)
        self._goal: CopyGoal | None = None  # of a run that ends
        self._is_running = self._stopped = False

    def __repr__(self) -> str:
        state = f"{'at work' if self._is_running else 'not running'}, {self._copied} copied, position {self.position}"
        return f"<StreamCopy of consumer {self.consumer} of stream {self.stream} to stream {self.target}: {state}>"

    # -- what can be asked ---------------------------------------------------------------------------------------------

    @property
    def copied(self) -> int:
        """How many copies the target has acknowledged to this object. After a failure some more may be stored."""
        return self._copied

    @property
    def position(self) -> int:
        """The stream sequence of the source up to which all is stored in the target. 0: empty, or unknown yet."""
        return 0 if self._copier is None else self._copier.position

    @property
    def identity(self) -> str | None:
        """The identity of the source whose sequence ``position`` is. None before servers of 2.15."""
        return None if self._copier is None else self._copier.identity

    @property
    def lag(self) -> int | None:
        """How many messages of the consumer wait to be stored, by the last one that was taken. None: unknown yet.

        A consumer that is paused goes on counting, so its lag grows.
        """
        source = self._source
        if source is None:
            return None
        if self._last is not None:
            waiting = parse_jsack(self._last[1]).num_pending
        elif source.info is not None:
            waiting = source.info.num_pending
        else:
            return None
        under_way = 0 if self._copier is None else self._copier.under_way
        return waiting + under_way

    @property
    def restarts(self) -> int:
        """How often the copy has begun again after a failure."""
        return self._restarts

    def stop(self) -> None:
        """Make the run at work return after what was taken is stored and confirmed. Any thread may call it.

        Outside a run it is ignored.
        """
        self._stopped = self._is_running
        source = self._source
        if source is not None and not self._connection.is_closed:
            self._connection._call(lambda now: source.wake())

    # -- for the facades -----------------------------------------------------------------------------------------------

    def _find_target(self, now: float) -> Ticket[CopyTarget]:
        return self._to_core.copy_target(self.target, self.stream, marker=self._marker, now=now, timeout=self._limit)

    def _begin_run(self, until_caught_up: bool) -> None:
        if self._is_running:
            raise LocalProtocolError("this copy is run already: another object can copy at the same time")
        self._is_running, self._stopped = True, False
        self._goal = CopyGoal() if until_caught_up else None

    def _end_run(self) -> None:
        self._is_running = self._stopped = False

    def _begin(self, target: CopyTarget, consumer: ConsumerConfig) -> Copier:
        self._copier = copier = Copier(self.stream, target, self._prefix, filter_text(consumer.filters))
        self._confirmed, self._last = (copier.position, copier.identity), None
        return copier

    def _take(self, source: SourcingConsumer[Any], now: float) -> Taken:
        """The messages that are there. None are there when the run is to end."""
        raws = [] if self._is_over(source) else source.pop_raws(ALL if self._marker is None else MAX_ATOMIC, now)
        if raws:
            self._last = raws[-1]
        return Taken(raws, source.identity)

    def _take_or_wait(self, source: SourcingConsumer[Any], now: float) -> tuple[Taken, Ticket[None] | None]:
        """``_take``. Without any, the ticket to wait for, until nothing is waited for any more."""
        taken = self._take(source, now)
        if taken.raws or self._stopped:
            return taken, None
        if self._goal is None or not self._goal.is_reached(source):
            return taken, source.news()
        if self._goal.gives_up(source, now):
            return taken, None
        return taken, Ticket() if source.pending_msgs else source.news()

    def _is_over(self, source: SourcingConsumer[Any]) -> bool:
        """Whether the run has stopped taking."""
        return self._stopped or (self._goal is not None and self._goal.is_reached(source))

    def _confirm(self, copier: Copier, source: SourcingConsumer[Any], now: float) -> None:
        self._confirmed = copier.position, copier.identity
        source.confirm(copier.position, now)

    def _stored(self, copier: Copier, source: SourcingConsumer[Any]) -> None:
        """Confirm what is stored, if that is more than before."""
        self._copied += copier.take_stored()
        if (copier.position, copier.identity) != self._confirmed:
            self._connection._call(lambda now: self._confirm(copier, source, now))

    def _next_step(
        self, copier: Copier, source: SourcingConsumer[Any], batch: FastPublisher, acked: int, *, waited: bool
    ) -> CopyStep:
        return copier.next_step(acked, batch.flow, awaits_confirm=source.awaits_confirm, waited=waited)

    def _failed(self, error: Error) -> float:
        """What failed with ``error`` begins again after so many seconds. Raises ``error`` if it would fail again."""
        if self._connection.is_closed or self._to_connection.is_closed:
            raise error
        now = self._connection._now()
        pause = self._retry.failed(error, self.position, now)
        self._restarts += 1
        restarted = CopyRestarted(self.stream, self.target, self.position, error)
        self._connection._call(lambda _: self._connection._session.emit(restarted))
        return pause
