"""The phases of one read in a consistent session: who is asked, until an answer proves that it is recent.

* A replica is asked first (DIRECT), or the leader at once.
* The leader is asked in two questions: how far it is (STATE), then for the message (LEADER).
* Where the session's position is doubtful, the leader is asked about that first (PROOF).
* An answer that proves too little leads to a pause, or from a replica to the leader. After a pause the read begins
  again where it began.

Not here: what an answer proves, and how many attempts a phase has (``client.read.consistency``).
"""

from __future__ import annotations

from typing import Final

from jsproto.enums import IdentityEnum
from jsproto.rules.table import Table, total


class ReadPhase(IdentityEnum):
    """What a read waits for."""

    DIRECT = "the answer of any replica"
    STATE = "the leader, to say how far it is"
    LEADER = "the leader's answer"
    PROOF = "the leader's word that the session's position still holds"
    PAUSE = "the time to ask again"
    ENDED = "nothing: it has its answer, or has failed"


class ReadStep(IdentityEnum):
    """What can happen to a read."""

    PROVE = "something is to be asked, and the session's position is to be proved before"
    ASK_REPLICA = "the pause or the proof is over, and a replica is asked first"
    ASK_LEADER = "the leader is asked how far it is"
    CONFIRM = "the leader is far enough, or nothing is demanded of it"
    WAIT = "nothing was sent, or the answer proves too little: ask again later"
    END = "the answer is good, the time is over, or the session ends"


_P, _S = ReadPhase, ReadStep

CONSISTENT_READ: Final[Table[ReadPhase, ReadStep]] = total(
    ReadPhase,
    ReadStep,
    {
        _P.DIRECT: {_S.PROVE: _P.PROOF, _S.ASK_LEADER: _P.STATE, _S.WAIT: _P.PAUSE, _S.END: _P.ENDED},
        _P.STATE: {_S.PROVE: _P.PROOF, _S.CONFIRM: _P.LEADER, _S.WAIT: _P.PAUSE, _S.END: _P.ENDED},
        _P.LEADER: {_S.PROVE: _P.PROOF, _S.WAIT: _P.PAUSE, _S.END: _P.ENDED},
        _P.PROOF: {_S.ASK_REPLICA: _P.DIRECT, _S.ASK_LEADER: _P.STATE, _S.END: _P.ENDED},
        _P.PAUSE: {_S.ASK_REPLICA: _P.DIRECT, _S.ASK_LEADER: _P.STATE, _S.END: _P.ENDED},
    },
    ignored={
        _P.DIRECT: {_S.ASK_REPLICA, _S.CONFIRM},
        _P.STATE: {_S.ASK_REPLICA, _S.ASK_LEADER},
        _P.LEADER: {_S.ASK_REPLICA, _S.ASK_LEADER, _S.CONFIRM},
        _P.PROOF: {_S.PROVE, _S.CONFIRM, _S.WAIT},
        _P.PAUSE: {_S.PROVE, _S.CONFIRM, _S.WAIT},
        _P.ENDED: set(_S),
    },
)
