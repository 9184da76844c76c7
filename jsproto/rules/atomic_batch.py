"""The life of one atomic batch (ADR-50). This file does not know our role.

The members of a batch are staged, none is in the stream, until the commit stores all of them or none. The first is a
request: its answer tells whether the stream takes batches at all. A refused member ends the batch, unless the batch
never came to know of it (nobody took the message, or it is too large): then its place is free for another, and the
batch is where it was. A pair that is absent from the table is not a step: what arrived is stale, duplicate or forged.

Not here: which member asks for an answer, sequences, limits, timers.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class AtomicPhase(Enum):
    """Where a batch stands."""

    IDLE = "nothing was sent"
    STARTING = "the first message is out, its answer is not here"
    OPEN = "messages are staged"
    COMMITTING = "the commit is out, its answer is not here"
    COMMITTED = "ended: all of it is stored"
    FAILED = "ended with an error"
    DISCARDED = "the sender walked away without commit; the server will forget the batch"


class AtomicStep(Enum):
    """What can happen to a batch."""

    START = "the first message is sent"
    ACCEPT = "the answer to a message: it is staged"
    REFUSE = "a message did not reach the batch: its sequence is free again"
    COMMIT = "the commit is sent"
    FINISH = "the commit is acknowledged: all is stored"
    FAIL = "an error of the server, a wrong answer or none, silence for too long, a lost link"
    DISCARD = "the sender walks away"


_P, _S = AtomicPhase, AtomicStep

ATOMIC: Final[dict[tuple[AtomicPhase, AtomicStep], AtomicPhase]] = {
    (_P.IDLE, _S.START): _P.STARTING,
    (_P.IDLE, _S.COMMIT): _P.COMMITTING,
    (_P.IDLE, _S.FAIL): _P.FAILED,
    (_P.IDLE, _S.DISCARD): _P.DISCARDED,
    (_P.STARTING, _S.ACCEPT): _P.OPEN,
    (_P.STARTING, _S.FAIL): _P.FAILED,
    (_P.STARTING, _S.DISCARD): _P.DISCARDED,
    (_P.OPEN, _S.ACCEPT): _P.OPEN,
    (_P.OPEN, _S.REFUSE): _P.OPEN,
    (_P.OPEN, _S.COMMIT): _P.COMMITTING,
    (_P.OPEN, _S.FAIL): _P.FAILED,
    (_P.OPEN, _S.DISCARD): _P.DISCARDED,
    (_P.COMMITTING, _S.REFUSE): _P.OPEN,
    (_P.COMMITTING, _S.FINISH): _P.COMMITTED,
    (_P.COMMITTING, _S.FAIL): _P.FAILED,
    (_P.COMMITTING, _S.DISCARD): _P.DISCARDED,
}

ENDED: Final = frozenset({_P.COMMITTED, _P.FAILED, _P.DISCARDED})
