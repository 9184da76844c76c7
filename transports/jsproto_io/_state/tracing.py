"""The part of following a message that never waits, for threads and for event loops.

Rules: those of ``_state.shared``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from jsproto.client.publish.tracing import TraceCollector
from jsproto.grammar.trace import Trace


class TraceCollectorBase:
    """The reports that were received."""

    def __init__(self, core: TraceCollector, pending_closes: deque[Callable[[float], None]]) -> None:
        self._core = core
        self._pending_closes = pending_closes

    def __repr__(self) -> str:
        trace = self._core.trace
        state = "complete" if trace.is_complete else "not complete"
        return f"<TraceCollector {self.subject}: {len(trace.events)} reports, {state}>"

    def __del__(self) -> None:
        core = self._core  # a dropped one would stay subscribed. See BatchReaderBase.
        self._pending_closes.append(lambda now: core.close())

    @property
    def subject(self) -> str:
        """Where the reports arrive: the keyword ``trace`` of a publish."""
        return self._core.subject

    @property
    def trace(self) -> Trace:
        """What was reported until now."""
        return self._core.trace
