"""The life of one fast-ingest batch (ADR-50), as its sender sees it.

* The first message is answered before the second may follow: the answer says that the server knows the feature, and
  the rate.
* A batch in gap mode ``fail`` that loses a message is broken, and stops sending. The terminal acknowledgement says how
  much was stored.
* In gap mode ``ok`` a loss is only reported, so steps leave it out.
* An ignored input is stale, duplicate or forged.

The client steps this table. In the server role a batch is in the list of open ones, or it is gone. The server role
answers each message at once, so it lacks the phases in which a sender waits.

Not here: the window (``window``), the reply subjects and the messages (``grammar``), timers.
"""

from __future__ import annotations

from typing import Final

from jsproto.enums import IdentityEnum
from jsproto.rules.table import Table, total


class FastPhase(IdentityEnum):
    """Where a batch stands."""

    IDLE = "nothing was sent"
    STARTING = "the first message is out, its answer is not here"
    OPEN = "messages flow inside the window"
    BROKEN = "a message was lost or refused in gap mode fail: only the terminal acknowledgement can follow"
    COMMITTING = "the commit is out, its answer is not here"
    COMMITTED = "ended with the acknowledgement that the sender wanted"
    FAILED = "ended with an error"
    ABANDONED = "the sender gave the batch up, and the server will forget it"


class FastStep(IdentityEnum):
    """What can happen to a batch."""

    START = "the first message is sent"
    COMMIT = "the commit is sent"
    ACCEPT = "the server grants a rate"
    BREAK = "a gap or a refused message, in gap mode fail"
    FINISH = "a terminal acknowledgement of all that the sender wanted to be stored"
    FAIL = "a terminal acknowledgement of less, an error that ends the batch, a timeout, a lost link"
    ABANDON = "the sender gives the batch up"


_P, _S = FastPhase, FastStep

FAST: Final[Table[FastPhase, FastStep]] = total(
    FastPhase,
    FastStep,
    {
        _P.IDLE: {
            _S.START: _P.STARTING, _S.COMMIT: _P.COMMITTING, _S.FAIL: _P.FAILED, _S.ABANDON: _P.ABANDONED,
        },
        _P.STARTING: {_S.ACCEPT: _P.OPEN, _S.FAIL: _P.FAILED, _S.ABANDON: _P.ABANDONED},
        _P.OPEN: {
            _S.ACCEPT: _P.OPEN, _S.BREAK: _P.BROKEN, _S.COMMIT: _P.COMMITTING, _S.FAIL: _P.FAILED,
            _S.ABANDON: _P.ABANDONED,
        },
        _P.BROKEN: {_S.ACCEPT: _P.BROKEN, _S.FAIL: _P.FAILED, _S.ABANDON: _P.ABANDONED},
        _P.COMMITTING: {
            _S.ACCEPT: _P.COMMITTING, _S.BREAK: _P.COMMITTING, _S.FINISH: _P.COMMITTED, _S.FAIL: _P.FAILED,
            _S.ABANDON: _P.ABANDONED,
        },
    },
    ignored={
        _P.IDLE: {_S.ACCEPT, _S.BREAK, _S.FINISH},
        _P.STARTING: {_S.START, _S.COMMIT, _S.BREAK, _S.FINISH},
        _P.OPEN: {_S.START, _S.FINISH},
        _P.BROKEN: {_S.START, _S.COMMIT, _S.BREAK, _S.FINISH},
        _P.COMMITTING: {_S.START, _S.COMMIT},
        _P.COMMITTED: set(_S),
        _P.FAILED: set(_S),
        _P.ABANDONED: set(_S),
    },
)  # fmt: skip

ENDED: Final = frozenset({_P.COMMITTED, _P.FAILED, _P.ABANDONED})
"""The phases that nothing leaves."""

CLOSED: Final = ENDED | {_P.COMMITTING}
"""The phases in which nobody waits for room: the commit is out, or the batch has ended."""
