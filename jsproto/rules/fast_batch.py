"""The life of one fast-ingest batch (ADR-50). This file does not know our role.

Both sides of a batch go through the same phases: the client as it sends and hears, the server as it receives and
answers. The first message is answered before the second may follow (the client must learn whether the feature is
there and how fast it may go). A batch in gap mode ``fail`` that loses a message is broken: nothing more may be
sent, and the terminal acknowledgement says how much was stored. In gap mode ``ok`` a loss is only reported, so it
is not a step here. A pair that is absent from the table is not a step: what arrived is stale, duplicate or forged.

Not here: the window (``windows``), the reply subjects and the messages (``grammar``), timers.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class FastPhase(Enum):
    """Where a batch stands."""

    IDLE = "nothing was sent"
    STARTING = "the first message is out, its answer is not here"
    OPEN = "messages flow inside the window"
    BROKEN = "a message was lost or refused in gap mode fail: only the terminal acknowledgement can follow"
    COMMITTING = "the commit is out, its answer is not here"
    COMMITTED = "ended with the acknowledgement the sender wanted"
    FAILED = "ended with an error"
    ABANDONED = "the sender walked away; the server will forget the batch"


class FastStep(Enum):
    """What can happen to a batch."""

    START = "the first message is sent"
    COMMIT = "the commit is sent"
    ACCEPT = "the server grants a rate"
    BREAK = "a gap or a refused message, in gap mode fail"
    FINISH = "a terminal acknowledgement that says what the sender wants to hear"
    FAIL = "a terminal acknowledgement that does not, an error that ends the batch, a timeout, a lost link"
    ABANDON = "the sender walks away"


_P, _S = FastPhase, FastStep

FAST: Final[dict[tuple[FastPhase, FastStep], FastPhase]] = {
    (_P.IDLE, _S.START): _P.STARTING,
    (_P.IDLE, _S.COMMIT): _P.COMMITTING,
    (_P.IDLE, _S.FAIL): _P.FAILED,
    (_P.IDLE, _S.ABANDON): _P.ABANDONED,
    (_P.STARTING, _S.ACCEPT): _P.OPEN,
    (_P.STARTING, _S.FAIL): _P.FAILED,
    (_P.STARTING, _S.ABANDON): _P.ABANDONED,
    (_P.OPEN, _S.ACCEPT): _P.OPEN,
    (_P.OPEN, _S.BREAK): _P.BROKEN,
    (_P.OPEN, _S.COMMIT): _P.COMMITTING,
    (_P.OPEN, _S.FAIL): _P.FAILED,
    (_P.OPEN, _S.ABANDON): _P.ABANDONED,
    (_P.BROKEN, _S.ACCEPT): _P.BROKEN,
    (_P.BROKEN, _S.FAIL): _P.FAILED,
    (_P.BROKEN, _S.ABANDON): _P.ABANDONED,
    (_P.COMMITTING, _S.ACCEPT): _P.COMMITTING,
    (_P.COMMITTING, _S.BREAK): _P.COMMITTING,
    (_P.COMMITTING, _S.FINISH): _P.COMMITTED,
    (_P.COMMITTING, _S.FAIL): _P.FAILED,
    (_P.COMMITTING, _S.ABANDON): _P.ABANDONED,
}

ENDED: Final = frozenset({_P.COMMITTED, _P.FAILED, _P.ABANDONED})
