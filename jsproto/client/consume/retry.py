"""The pauses of this room between attempts that fail.

Rules:

* A pull request that was refused is sent again after 0.05 s. Each further pause is twice as long, up to 1 s.
* A stream of messages gives up when its requests have been refused for 10 s. A cluster elects a leader in less.
* A fetch gives up at its own end.
* An ordered consumer makes the first attempt at another consumer at once. The second one follows after 0.1 s. Each
  further pause is twice as long, up to 5 s. It does not give up. The sourcing end of a consumer does the same.
* After a full outbox the pause is constant, because only this side is slow.

Not here: which refusals pass by themselves (``rules.status``), and the timers of the machines that pause.
"""

from __future__ import annotations

from typing import Final

from jsproto.backoff import Backoff

PULL_FIRST: Final = 0.05  # seconds
PULL_MOST: Final = 1.0
PULL_GIVE_UP: Final = 10.0
CREATE_FIRST: Final = 0.1
CREATE_MOST: Final = 5.0
PULL_ROOM: Final = 0.05  # until a pull request that found no room in the outbox is tried again
PROGRESS_ROOM: Final = 0.02  # until a report of work in progress that found no room in the outbox is tried again


def fetch_backoff() -> Backoff:
    """The pauses of one fetch. It ends at its own time."""
    return Backoff(PULL_FIRST, PULL_MOST)


def prefetch_backoff() -> Backoff:
    """The pauses of a stream of messages. Refusals further apart than two of the longest pauses are two series."""
    return Backoff(PULL_FIRST, PULL_MOST, give_up=PULL_GIVE_UP, lapse=2 * PULL_MOST)


def create_backoff() -> Backoff:
    """The pauses between attempts at creating the consumer of an ordered reading, or claiming one that is sourced."""
    return Backoff(CREATE_FIRST, CREATE_MOST)
