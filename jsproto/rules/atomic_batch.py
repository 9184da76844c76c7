"""The life of one atomic batch (ADR-50), as its sender sees it.

* The members of a batch are staged. None is in the stream until the commit stores all of them, or none.
* The first member is a request: its answer tells whether the stream takes batches at all.
* A refused member ends the batch. The exception is a member that failed to reach it, because streams left it or it is
  too large: its sequence is free again and the batch stays open.
* An ignored input is stale, duplicate or forged.

The client steps this table. In the server role a batch is in the list of open ones, or it is gone. The server role
answers each member at once, so it lacks the phases in which a sender waits.

Not here: which member asks for an answer, sequences, limits, timers.
"""

from __future__ import annotations

from typing import Final

from jsproto.enums import IdentityEnum
from jsproto.rules.table import Table, total


class AtomicPhase(IdentityEnum):
    """Where a batch stands."""

    IDLE = "nothing was sent"
    STARTING = "the first message is out, its answer is not here"
    OPEN = "messages are staged"
    COMMITTING = "the commit is out, its answer is not here"
    COMMITTED = "ended: all of it is stored"
    FAILED = "ended with an error"
    DISCARDED = "the sender gave the batch up without a commit, and the server will forget it"


class AtomicStep(IdentityEnum):
    """What can happen to a batch."""

    START = "the first message is sent"
    ACCEPT = "the answer to a message: it is staged"
    REFUSE = "a message did not reach the batch: its sequence is free again"
    COMMIT = "the commit is sent"
    FINISH = "the commit is acknowledged: all is stored"
    FAIL = "an error of the server, a wrong answer or none, silence for too long, a lost link"
    DISCARD = "the sender gives the batch up"


_P, _S = AtomicPhase, AtomicStep

ATOMIC: Final[Table[AtomicPhase, AtomicStep]] = total(
    AtomicPhase,
    AtomicStep,
    {
        _P.IDLE: {
            _S.START: _P.STARTING, _S.COMMIT: _P.COMMITTING, _S.FAIL: _P.FAILED, _S.DISCARD: _P.DISCARDED,
        },
        _P.STARTING: {_S.ACCEPT: _P.OPEN, _S.FAIL: _P.FAILED, _S.DISCARD: _P.DISCARDED},
        _P.OPEN: {
            _S.ACCEPT: _P.OPEN, _S.REFUSE: _P.OPEN, _S.COMMIT: _P.COMMITTING, _S.FAIL: _P.FAILED,
            _S.DISCARD: _P.DISCARDED,
        },
        _P.COMMITTING: {
            _S.REFUSE: _P.OPEN, _S.FINISH: _P.COMMITTED, _S.FAIL: _P.FAILED, _S.DISCARD: _P.DISCARDED,
        },
    },
    ignored={
        _P.IDLE: {_S.ACCEPT, _S.REFUSE, _S.FINISH},
        _P.STARTING: {_S.START, _S.REFUSE, _S.COMMIT, _S.FINISH},
        _P.OPEN: {_S.START, _S.FINISH},
        _P.COMMITTING: {_S.START, _S.ACCEPT, _S.COMMIT},
        _P.COMMITTED: set(_S),
        _P.FAILED: set(_S),
        _P.DISCARDED: set(_S),
    },
)  # fmt: skip

ENDED: Final = frozenset({_P.COMMITTED, _P.FAILED, _P.DISCARDED})
"""The phases that nothing leaves."""

CLOSED: Final = ENDED | {_P.COMMITTING}
"""The phases in which nobody waits for room: the commit is out, or the batch has ended."""
