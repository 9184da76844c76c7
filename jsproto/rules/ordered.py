"""The phases of an ordered consumer (ADR-15), which reads through one server-side consumer after another.

* A server-side consumer is asked for (CREATING). Its stream is compared with the one that was asked for before
  (COMPARING), and then its deliveries are taken (FOLLOWING).
* A consumer with any fault is left for another one: at once, after a pause, when the buffer has room, or on a new link.
* Only ENDED is for good.

Not here: when a consumer is left and how long a pause is (``client.consume.ordered``).
"""

from __future__ import annotations

from typing import Final

from jsproto.enums import IdentityEnum
from jsproto.rules.table import Table, total


class OrderedPhase(IdentityEnum):
    """Where an ordered consumer stands."""

    CREATING = "a consumer, or before the first one its stream, was asked for"
    COMPARING = "a consumer is there, and its stream is compared with the one that was asked for before"
    FOLLOWING = "messages come"
    PAUSED = "another attempt will be made when its time has come"
    FULL = "another consumer is created when there is room in the buffer"
    DOWN = "there is no link"
    ENDED = "nothing comes any more"


class OrderedStep(IdentityEnum):
    """What can happen to an ordered consumer."""

    CREATE = "a consumer is asked for"
    COMPARE = "the consumer is there, and its stream is asked for"
    FOLLOW = "the consumer is there, and its stream is the right one, or cannot be compared"
    PAUSE = "an attempt failed, and the next one has to wait"
    FILL = "the buffer has no room for another consumer's messages"
    LOSE = "the link is lost"
    END = "the application, or an error that stays, ends it"


_P, _S = OrderedPhase, OrderedStep

ORDERED: Final[Table[OrderedPhase, OrderedStep]] = total(
    OrderedPhase,
    OrderedStep,
    {
        _P.CREATING: {
            _S.CREATE: _P.CREATING, _S.COMPARE: _P.COMPARING, _S.FOLLOW: _P.FOLLOWING, _S.PAUSE: _P.PAUSED,
            _S.FILL: _P.FULL, _S.LOSE: _P.DOWN, _S.END: _P.ENDED,
        },
        _P.COMPARING: {
            _S.CREATE: _P.CREATING, _S.FOLLOW: _P.FOLLOWING, _S.PAUSE: _P.PAUSED, _S.FILL: _P.FULL,
            _S.LOSE: _P.DOWN, _S.END: _P.ENDED,
        },
        _P.FOLLOWING: {
            _S.CREATE: _P.CREATING, _S.PAUSE: _P.PAUSED, _S.FILL: _P.FULL, _S.LOSE: _P.DOWN, _S.END: _P.ENDED,
        },
        _P.PAUSED: {_S.CREATE: _P.CREATING, _S.LOSE: _P.DOWN, _S.END: _P.ENDED},
        _P.FULL: {_S.CREATE: _P.CREATING, _S.PAUSE: _P.PAUSED, _S.LOSE: _P.DOWN, _S.END: _P.ENDED},
        _P.DOWN: {_S.CREATE: _P.CREATING, _S.FILL: _P.FULL, _S.LOSE: _P.DOWN, _S.END: _P.ENDED},
    },
    ignored={
        _P.COMPARING: {_S.COMPARE},
        _P.FOLLOWING: {_S.COMPARE, _S.FOLLOW},
        _P.PAUSED: {_S.COMPARE, _S.FOLLOW, _S.PAUSE, _S.FILL},
        _P.FULL: {_S.COMPARE, _S.FOLLOW, _S.FILL},
        _P.DOWN: {_S.COMPARE, _S.FOLLOW, _S.PAUSE},
        _P.ENDED: set(_S),
    },
)  # fmt: skip
