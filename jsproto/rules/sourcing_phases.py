"""The phases of the sourcing end of a flow-control consumer, which takes what a stream has and acknowledges it.

* The consumer is looked up, and made to deliver here (CLAIMING). That is refused while another owner is at work.
* It is asked to begin again after what is acknowledged (RESETTING), and only then subscribed to (RUNNING).
* Where the stream's state leaves the position unproved, a message of it is looked at before that (PROVING).
* A stream that was made anew is read when all that came from the old one is confirmed (HOLDING).
* Whatever is wrong, the consumer is reset or claimed again: at once, after a pause, when the buffer has room, or on a
  new link.
* Only ENDED is for good.

Not here: when a consumer is left and how long a pause is (``client.consume.sourcing``).
"""

from __future__ import annotations

from typing import Final

from jsproto.enums import IdentityEnum
from jsproto.rules.table import Table, total


class SourcingPhase(IdentityEnum):
    """Where a sourcing end stands."""

    CLAIMING = "the consumer is asked for, and made to deliver here"
    RESETTING = "the consumer was asked to begin again after what is acknowledged"
    PROVING = "a message is asked for that proves the position"
    HOLDING = "the stream was made anew, and what came from the old one is not all confirmed"
    RUNNING = "messages come"
    PAUSED = "the consumer will be claimed again when the time has come"
    FULL = "the consumer is reset when there is room in the buffer"
    DOWN = "there is no link"
    ENDED = "nothing comes any more, and nothing is acknowledged"


class SourcingStep(IdentityEnum):
    """What can happen to a sourcing end."""

    CLAIM = "the consumer is asked for"
    RESET = "the consumer delivers here, and is asked to begin again"
    HOLD = "the answer is about another stream than before"
    PROVE = "the consumer has begun again, and the position is to be proved"
    RUN = "the consumer has begun again, and the position holds"
    PAUSE = "an attempt failed, and the next one has to wait"
    FILL = "a message found no room in the buffer"
    LOSE = "the link is lost"
    END = "the application, its sink, or an error that stays, ends it"


_P, _S = SourcingPhase, SourcingStep

SOURCING: Final[Table[SourcingPhase, SourcingStep]] = total(
    SourcingPhase,
    SourcingStep,
    {
        _P.CLAIMING: {
            _S.CLAIM: _P.CLAIMING, _S.RESET: _P.RESETTING, _S.PAUSE: _P.PAUSED, _S.LOSE: _P.DOWN, _S.END: _P.ENDED,
        },
        _P.RESETTING: {
            _S.CLAIM: _P.CLAIMING, _S.HOLD: _P.HOLDING, _S.PROVE: _P.PROVING, _S.RUN: _P.RUNNING, _S.PAUSE: _P.PAUSED,
            _S.LOSE: _P.DOWN, _S.END: _P.ENDED,
        },
        _P.PROVING: {
            _S.CLAIM: _P.CLAIMING, _S.PROVE: _P.PROVING, _S.RUN: _P.RUNNING, _S.PAUSE: _P.PAUSED, _S.LOSE: _P.DOWN,
            _S.END: _P.ENDED,
        },
        _P.HOLDING: {_S.CLAIM: _P.CLAIMING, _S.LOSE: _P.DOWN, _S.END: _P.ENDED},
        _P.RUNNING: {
            _S.CLAIM: _P.CLAIMING, _S.PAUSE: _P.PAUSED, _S.FILL: _P.FULL, _S.LOSE: _P.DOWN, _S.END: _P.ENDED,
        },
        _P.PAUSED: {_S.CLAIM: _P.CLAIMING, _S.LOSE: _P.DOWN, _S.END: _P.ENDED},
        _P.FULL: {_S.CLAIM: _P.CLAIMING, _S.PAUSE: _P.PAUSED, _S.LOSE: _P.DOWN, _S.END: _P.ENDED},
        _P.DOWN: {_S.CLAIM: _P.CLAIMING, _S.END: _P.ENDED},
    },
    ignored={
        _P.CLAIMING: {_S.HOLD, _S.PROVE, _S.RUN, _S.FILL},
        _P.RESETTING: {_S.RESET, _S.FILL},
        _P.PROVING: {_S.RESET, _S.HOLD, _S.FILL},
        _P.HOLDING: {_S.RESET, _S.HOLD, _S.PROVE, _S.RUN, _S.PAUSE, _S.FILL},
        _P.RUNNING: {_S.RESET, _S.HOLD, _S.PROVE, _S.RUN},
        _P.PAUSED: {_S.RESET, _S.HOLD, _S.PROVE, _S.RUN, _S.PAUSE, _S.FILL},
        _P.FULL: {_S.RESET, _S.HOLD, _S.PROVE, _S.RUN, _S.FILL},
        _P.DOWN: {_S.RESET, _S.HOLD, _S.PROVE, _S.RUN, _S.PAUSE, _S.FILL, _S.LOSE},
        _P.ENDED: set(_S),
    },
)  # fmt: skip
