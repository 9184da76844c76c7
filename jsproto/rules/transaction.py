"""The life of one transaction over keys of a bucket, as its client sees it.

* Reads come first, one at a time. They show one moment. Nothing is sent to be stored before the commit.
* The commit stores all writes, or none. A key that has another revision than expected makes it a conflict.
* An answer that is lost leaves open which. The same messages are sent again then, until an answer tells.
* What was refused as a conflict by then is looked at: it may be the transaction itself that has changed the keys.
* An ignored input comes too late, or too early.

Not here: what is sent, which errors are which step (``client.bucket.commit``).
"""

from __future__ import annotations

from typing import Final

from jsproto.enums import IdentityEnum
from jsproto.rules.table import Table, total


class TransactionPhase(IdentityEnum):
    """Where a transaction stands."""

    OPEN = "keys may be read, and writes are collected"
    READING = "a read is under way"
    COMMITTING = "what is missing is read, then the messages are out, and their answer is not here"
    DECIDING = "an answer was lost: the same messages are sent again"
    COMMITTED = "ended: all of it is stored, or there was nothing to store"
    CONFLICT = "ended: a key was changed by others, and nothing is stored"
    FAILED = "ended: it was given up or refused, and nothing is stored"
    UNKNOWN = "ended: nobody can tell whether it is stored, or under which revisions"


class TransactionStep(IdentityEnum):
    """What can happen to a transaction."""

    READ = "a read is sent"
    READ_ENDED = "the read has ended, with an answer or without"
    COMMIT = "the application commits"
    STORED = "an answer, or a message that was found, says that all of it is stored"
    CHANGED = "a key has another revision than expected, and this transaction has not made it"
    REFUSED = "the server refuses for another reason, or nobody has taken the messages in time"
    LOST = "the answer to the messages does not come"
    UNKNOWABLE = "what would tell is gone, or does not come in time"
    DISCARD = "the application gives it up before the commit"


_P, _S = TransactionPhase, TransactionStep

TRANSACTION: Final[Table[TransactionPhase, TransactionStep]] = total(
    TransactionPhase,
    TransactionStep,
    {
        _P.OPEN: {
            _S.READ: _P.READING, _S.COMMIT: _P.COMMITTING, _S.STORED: _P.COMMITTED, _S.CHANGED: _P.CONFLICT,
            _S.DISCARD: _P.FAILED,
        },
        _P.READING: {_S.READ_ENDED: _P.OPEN, _S.DISCARD: _P.FAILED},
        _P.COMMITTING: {
            _S.STORED: _P.COMMITTED, _S.CHANGED: _P.CONFLICT, _S.REFUSED: _P.FAILED, _S.LOST: _P.DECIDING,
        },
        _P.DECIDING: {
            _S.STORED: _P.COMMITTED, _S.CHANGED: _P.CONFLICT, _S.UNKNOWABLE: _P.UNKNOWN,
        },
    },
    ignored={
        _P.OPEN: {_S.READ_ENDED, _S.REFUSED, _S.LOST, _S.UNKNOWABLE},
        _P.READING: {_S.READ, _S.COMMIT, _S.STORED, _S.CHANGED, _S.REFUSED, _S.LOST, _S.UNKNOWABLE},
        _P.COMMITTING: {_S.READ, _S.READ_ENDED, _S.COMMIT, _S.UNKNOWABLE, _S.DISCARD},
        _P.DECIDING: {_S.READ, _S.READ_ENDED, _S.COMMIT, _S.REFUSED, _S.LOST, _S.DISCARD},
        _P.COMMITTED: set(_S),
        _P.CONFLICT: set(_S),
        _P.FAILED: set(_S),
        _P.UNKNOWN: set(_S),
    },
)  # fmt: skip

ENDED: Final = frozenset({_P.COMMITTED, _P.CONFLICT, _P.FAILED, _P.UNKNOWN})
"""The phases that nothing leaves."""
