"""Heartbeats: how often a consumer shows that it lives, and the alarm when it is silent (ADR-15).

Rules:

* A consumer that this library creates for one subscriber sends heartbeats. So does a pull request that waits long.
* Any message or status is a sign of life.
* A silence of ``HEARTBEATS_MISSED`` intervals is an alarm, unless the caller sets another number.
* One silence is one alarm. The next sign of life ends the silence.

Not here: what follows from an alarm (``pull``, ``push``, ``ordered``).
"""

from __future__ import annotations

from typing import Final

from jsproto.errors import LocalProtocolError
from jsproto.timers import Timer, Timers

DEFAULT_HEARTBEAT: Final = 5.0  # seconds
HEARTBEAT_FROM: Final = 10.0  # seconds; a pull request that waits as long asks for heartbeats by default
HEARTBEATS_MISSED: Final = 3.0  # intervals without a sign of life until the alarm


def of_intervals(name: str, value: object) -> float:
    """How many intervals of silence are an alarm. LocalProtocolError unless that is a number above 0."""
    if not isinstance(value, int | float) or not value > 0:
        raise LocalProtocolError(f"{name} is a number greater than 0, not {value!r:.100}")
    return value


class SilenceWatch:
    """The alarm of one consumer. It keeps ``Timer.HEARTBEAT`` of the machine's ``timers`` armed while it runs.

    Attributes: ``heard_at`` (monotonic seconds of the last sign of life, which the machine writes).
    """

    __slots__ = ("_alarmed_at", "_timers", "heard_at")

    def __init__(self, timers: Timers, now: float = 0.0) -> None:
        """Begin at rest. ``now``: monotonic seconds."""
        self.heard_at = now
        self._alarmed_at: float | None = None  # ``heard_at`` of the last alarm
        self._timers = timers

    @property
    def is_running(self) -> bool:
        """Whether the timer is armed."""
        return Timer.HEARTBEAT in self._timers

    def start(self, now: float, patience: float) -> None:
        """Begin: ``patience`` seconds of silence from ``now`` on are an alarm."""
        self.heard_at = now
        self._alarmed_at = None
        self._timers.set(Timer.HEARTBEAT, now + patience)

    def extend(self, now: float, patience: float) -> None:
        """Expect a sign of life within ``patience`` seconds from ``now`` on. It begins if it is at rest."""
        if self.is_running:
            self._timers.set(Timer.HEARTBEAT, now + patience)
        else:
            self.start(now, patience)

    def stop(self) -> None:
        """Disarm the timer."""
        self._timers.stop(Timer.HEARTBEAT)

    def is_silent(self, now: float, patience: float) -> bool:
        """The timer was due: whether the last sign of life is ``patience`` seconds old. The timer is armed again."""
        heard_until = self.heard_at + patience
        is_silent = now >= heard_until
        self._timers.set(Timer.HEARTBEAT, now + patience if is_silent else heard_until)
        return is_silent

    def is_new_silence(self) -> bool:
        """Whether this silence has yet to raise its alarm. The call counts as its alarm."""
        is_new = self._alarmed_at != self.heard_at
        self._alarmed_at = self.heard_at
        return is_new
