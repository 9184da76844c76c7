"""What a read of many messages believes: a table of verdicts, by what it waits for and what has happened.

A read by Direct Get is answered by whichever server is quicker: the stream's leader, a replica that lags, a mirror with
a part of the stream. So each answer is weighed before it is believed. Four automata are coupled in it:

* *This table*: what the read waits for (``Phase``), what has happened (``Fact``), and what follows (``Verdict``). A
  verdict leads to one phase (``LEADS_TO``), so a read has one state, and that is the phase.
* *The page* (``client.read.feed``): which messages continue it. Messages in order never step the table. It sees the
  first one of a page, its end, and what is out of order.
* *The pauses* (``client.read.retry``): how often mirrors and replicas that lag have answered in a row, and how long the
  read goes on. The table says LATER or MIRRORED, the pauses say DUE or TIME_OVER.
* *The session* (``client.read.known_streams``), if there is one: its position is proved before a page is asked for.

Numbers do not stand here. Pure functions (``client.read.facts``, ``client.read.plans``) make a fact of them: whether
a sequence continues the page, whether an end is proved, whether the leader has come far enough.

A page is closed in two steps: it is counted (COUNT, EMPTY, REST, RESUME, TAKE_COPY), then its end is judged (CLOSED).
A fact that stands under a phase's ignored ones cannot happen there, or is an answer to what was asked before.

Not here: the refusal of a subject and the end of the connection. They end a read in each phase alike.
"""

from __future__ import annotations

from typing import Final

from jsproto.enums import IdentityEnum
from jsproto.rules.table import Table, Verdicts, followed, total


class Phase(IdentityEnum):
    """What a read waits for."""

    ASKED = "the first message of a page"
    OPEN = "further messages of the page"
    HELD = "further messages, and the leader's word on where the page begins"
    WHOLE = "the leader's word on a page that has ended"
    CLOSED = "nothing: the page is counted, and what comes next is judged at once"
    WHY = "the leader's word on why nobody answers"
    OTHER = "the leader's word on an anchor with another time"
    STATE = "the leader's word on how far the stream goes"
    NEXT = "the leader's next message"
    LAST = "the leader's state, after it had no next message"
    COPY = "the leader's state, before its own copy is taken"
    PROOF = "the proof of the session's position"
    PAUSED = "the time to ask again"
    FULL = "the reader, to take what has come"
    DOWN = "a link, to ask for the rest of a page"
    IDLE = "a link, with no page under way"
    ENDED = "nothing: all is there, or the read has failed"


class Fact(IdentityEnum):
    """What has happened."""

    FIRST = "the stream sends the first message of a page, and nothing can be missing before it"
    DOUBTFUL = "the stream sends the first message of a page, and something may be missing before it"
    ANCHOR = "the page begins with the last message received"
    OTHER_ANCHOR = "the page begins with the sequence received last, and another time"
    MIRROR = "a mirror sends the page"
    MESSAGE = "a message that continues the page"
    BROKEN = "a message, or the end, shows that one before it did not arrive, or a page that has begun has no end"
    END = "the page ends in order"
    DOUBTFUL_END = "the page ends in order, and a server before 2.12 may have dropped messages in its middle"
    NOTHING = "whoever answers has no such message"
    NOBODY = "no server answers Direct Gets of the stream"
    WRONG = "what came is not as the protocol has it, or speaks against the read"

    ALL = "all that is wanted has come"
    MORE = "there is more to ask for"
    PROVEN = "the page shows that the stream, or the answer, ends here"
    UNPROVEN = "the page is the last one, or so it says"
    UNSHOWN = "of many subjects nothing came at all"
    REST = "the rest of a page is to be asked for"
    EMPTY_TWICE = "a page broke off, and nothing came of it, for the second time in a row"

    NO_LEADER = "the stream has no leader just now, or no API answers any more"
    GONE = "the leader's API knows no such stream"
    FORBIDDEN = "the stream allows no Direct Gets"
    ALLOWED = "the stream allows Direct Gets: a server that has it is about to stop, or has died"
    LAGS = "whoever answered has not come as far as the read has to"
    ENDS = "the leader has nothing more"
    GOES_ON = "the leader's stream goes further"
    UNSURE = "the leader has no next message, and may have dropped some meanwhile"
    AHEAD = "the leader has a message that replicas will show soon"
    OVERDUE = "the leader has a message that no replica showed, several times in a row"

    SILENCE = "nothing came for the time of a page"
    BLOCKED = "a request found no room in the write buffer"
    OWED = "the session's position is to be proved before a page is asked for"
    PROVED = "the session's position is proved"
    UNPROVED = "the session's position is lost, or could not be proved"
    DUE = "the pause is over"
    TIME_OVER = "the read has been told to ask again for too long"
    ROOM = "the reader has taken half of what came"
    LINK_LOST = "the link is gone"
    LINK_RESTORED = "there is a link again"


class Verdict(IdentityEnum):
    """What a read does."""

    ASK = "ask for a page"
    PROVE = "have the session's position proved"
    OPEN = "take the messages that follow the anchor"
    BEGIN = "keep the message, and those that follow it"
    HOLD = "keep the message, give nothing out, and ask the leader for its state"
    GIVE = "keep the message"
    KEEP = "keep the message for the time that the leader has answered"
    KEEP_END = "keep the end for the time that the leader has answered"
    RELEASE = "give out what was held"
    ASK_WHOLE = "keep the end, and ask the leader for its state"
    COUNT = "give out what was held, and count the page"
    EMPTY = "close the page, which has nothing"
    REST = "drop what is held, or count what came"
    RESUME = "drop what is held, or count what came before the link was lost"
    ASK_WHY = "close the page, and ask the leader for its state"
    ASK_OTHER = "drop the page, and ask the leader for its state"
    ASK_STATE = "ask the leader for its state"
    ASK_NEXT = "ask the leader for its next message"
    ASK_LAST = "ask the leader for its state once more"
    ASK_COPY = "keep the leader's message, and ask it for its state"
    TAKE_COPY = "give out the leader's message"
    MIRRORED = "drop the page, and ask again at once, or after a pause"
    LATER = "drop what is held, and ask again at once, or after a pause"
    BRIEFLY = "drop what is held, and ask again in a moment"
    WAIT = "ask as soon as the reader has room"
    BREAK = "wait for a link, then ask for the rest"
    REST_IDLE = "wait for a link, then for the reader"
    FINISH = "end: all is there"
    REFUSE = "fail: nobody answers Direct Gets of the stream"
    FAIL = "fail: what happened is the error"


_P, _F, _V = Phase, Fact, Verdict

LEADS_TO: Final[dict[Verdict, Phase]] = {
    _V.ASK: _P.ASKED,
    _V.PROVE: _P.PROOF,
    **dict.fromkeys((_V.OPEN, _V.BEGIN, _V.GIVE, _V.RELEASE), _P.OPEN),
    **dict.fromkeys((_V.HOLD, _V.KEEP), _P.HELD),
    **dict.fromkeys((_V.KEEP_END, _V.ASK_WHOLE), _P.WHOLE),
    **dict.fromkeys((_V.COUNT, _V.EMPTY, _V.REST, _V.RESUME, _V.TAKE_COPY), _P.CLOSED),
    _V.ASK_WHY: _P.WHY,
    _V.ASK_OTHER: _P.OTHER,
    _V.ASK_STATE: _P.STATE,
    _V.ASK_NEXT: _P.NEXT,
    _V.ASK_LAST: _P.LAST,
    _V.ASK_COPY: _P.COPY,
    **dict.fromkeys((_V.MIRRORED, _V.LATER, _V.BRIEFLY), _P.PAUSED),
    _V.WAIT: _P.FULL,
    _V.BREAK: _P.DOWN,
    _V.REST_IDLE: _P.IDLE,
    **dict.fromkeys((_V.FINISH, _V.REFUSE, _V.FAIL), _P.ENDED),
}
"""The phase after each verdict."""

_ASKING: Final = {_F.SILENCE: _V.REST, _F.BLOCKED: _V.BRIEFLY, _F.LINK_LOST: _V.BREAK, _F.WRONG: _V.FAIL}
"""Of a question under way."""
_LEADER: Final = {**_ASKING, _F.NO_LEADER: _V.LATER, _F.GONE: _V.FAIL}
"""Of a question to the leader under way."""

_STEPS: Final[dict[Phase, dict[Fact, Verdict]]] = {
    _P.ASKED: {
        **_ASKING, _F.FIRST: _V.BEGIN, _F.DOUBTFUL: _V.HOLD, _F.ANCHOR: _V.OPEN, _F.OTHER_ANCHOR: _V.ASK_OTHER,
        _F.MIRROR: _V.MIRRORED, _F.BROKEN: _V.REST, _F.END: _V.COUNT, _F.NOTHING: _V.EMPTY, _F.NOBODY: _V.ASK_WHY,
        _F.OWED: _V.PROVE,
    },
    _P.OPEN: {
        _F.MESSAGE: _V.GIVE, _F.BROKEN: _V.REST, _F.END: _V.COUNT, _F.DOUBTFUL_END: _V.ASK_WHOLE,
        _F.WRONG: _V.FAIL, _F.SILENCE: _V.REST, _F.LINK_LOST: _V.BREAK,
    },
    _P.HELD: {
        **_LEADER, _F.MESSAGE: _V.KEEP, _F.BROKEN: _V.REST, _F.END: _V.KEEP_END, _F.DOUBTFUL_END: _V.KEEP_END,
        _F.LAGS: _V.LATER, _F.ENDS: _V.RELEASE, _F.GOES_ON: _V.RELEASE,
    },
    _P.WHOLE: {**_LEADER, _F.LAGS: _V.LATER, _F.ENDS: _V.COUNT, _F.GOES_ON: _V.COUNT},
    _P.CLOSED: {
        _F.ALL: _V.FINISH, _F.PROVEN: _V.FINISH, _F.MORE: _V.WAIT, _F.UNPROVEN: _V.ASK_STATE, _F.UNSHOWN: _V.ASK_NEXT,
        _F.LAGS: _V.LATER, _F.REST: _V.ASK, _F.EMPTY_TWICE: _V.FAIL, _F.WRONG: _V.FAIL,
    },
    _P.WHY: {**_LEADER, _F.GONE: _V.REFUSE, _F.FORBIDDEN: _V.REFUSE, _F.ALLOWED: _V.LATER},
    _P.OTHER: _LEADER,
    _P.STATE: {**_LEADER, _F.LAGS: _V.LATER, _F.ENDS: _V.FINISH, _F.GOES_ON: _V.ASK_NEXT},
    _P.NEXT: {
        **_LEADER, _F.AHEAD: _V.LATER, _F.OVERDUE: _V.ASK_COPY, _F.ENDS: _V.FINISH, _F.UNSURE: _V.ASK_LAST,
    },
    _P.LAST: {**_LEADER, _F.LAGS: _V.LATER, _F.ENDS: _V.FINISH, _F.GOES_ON: _V.FINISH},
    _P.COPY: {**_LEADER, _F.LAGS: _V.LATER, _F.ENDS: _V.TAKE_COPY, _F.GOES_ON: _V.TAKE_COPY},
    _P.PROOF: {_F.PROVED: _V.ASK, _F.UNPROVED: _V.FAIL, _F.LINK_LOST: _V.BREAK},
    _P.PAUSED: {_F.DUE: _V.ASK, _F.TIME_OVER: _V.FAIL, _F.LINK_LOST: _V.REST_IDLE},
    _P.FULL: {_F.ROOM: _V.ASK, _F.LINK_LOST: _V.REST_IDLE},
    _P.DOWN: {_F.LINK_RESTORED: _V.RESUME},
    _P.IDLE: {_F.LINK_RESTORED: _V.WAIT},
}  # fmt: skip

_PAGE: Final = {
    _F.FIRST, _F.DOUBTFUL, _F.ANCHOR, _F.OTHER_ANCHOR, _F.MIRROR, _F.MESSAGE, _F.BROKEN, _F.END, _F.DOUBTFUL_END,
    _F.NOTHING, _F.NOBODY,
}  # fmt: skip
_BEGUN: Final = {_F.FIRST, _F.DOUBTFUL, _F.ANCHOR, _F.OTHER_ANCHOR, _F.MIRROR, _F.NOTHING, _F.NOBODY}
_JUDGED: Final = {_F.ALL, _F.MORE, _F.PROVEN, _F.UNPROVEN, _F.UNSHOWN, _F.REST, _F.EMPTY_TWICE}
_STATE: Final = {_F.LAGS, _F.ENDS, _F.GOES_ON}
_MESSAGE: Final = {_F.UNSURE, _F.AHEAD, _F.OVERDUE}
_NO_STATE: Final = {_F.NO_LEADER, _F.GONE}
_WHY: Final = {_F.FORBIDDEN, _F.ALLOWED}
_SAID: Final = {*_NO_STATE, *_STATE, *_MESSAGE, *_WHY}
_PROOF: Final = {_F.OWED, _F.PROVED, _F.UNPROVED}
_WAIT: Final = {_F.DUE, _F.TIME_OVER, _F.ROOM}
_ASKS: Final = {_F.SILENCE, _F.BLOCKED}
_QUIET: Final = {*_PAGE, *_JUDGED, *_SAID, *_ASKS, _F.WRONG}
"""What cannot happen while nothing is asked, and nothing judged."""
_OF_LEADER: Final = {*_PAGE, *_JUDGED, *_PROOF, *_WAIT, _F.LINK_RESTORED}
"""What cannot happen while the leader is asked."""

BELIEF: Final[Verdicts[Phase, Fact, Verdict]] = total(
    Phase,
    Fact,
    _STEPS,
    ignored={
        _P.ASKED: {
            _F.MESSAGE, _F.DOUBTFUL_END, *_JUDGED, *_SAID, _F.PROVED, _F.UNPROVED, *_WAIT, _F.LINK_RESTORED,
        },
        _P.OPEN: {*_BEGUN, *_JUDGED, *_SAID, _F.BLOCKED, *_PROOF, *_WAIT, _F.LINK_RESTORED},
        _P.HELD: {*_BEGUN, *_JUDGED, *_MESSAGE, *_WHY, *_PROOF, *_WAIT, _F.LINK_RESTORED},
        _P.WHOLE: {*_OF_LEADER, *_MESSAGE, *_WHY},
        _P.CLOSED: {
            *_PAGE, *_NO_STATE, *_WHY, *_MESSAGE, _F.ENDS, _F.GOES_ON, *_ASKS, *_PROOF, *_WAIT, _F.LINK_LOST,
            _F.LINK_RESTORED,
        },
        _P.WHY: {*_OF_LEADER, *_STATE, *_MESSAGE},
        _P.OTHER: {*_OF_LEADER, *_STATE, *_MESSAGE, *_WHY},
        _P.STATE: {*_OF_LEADER, *_MESSAGE, *_WHY},
        _P.NEXT: {*_OF_LEADER, _F.LAGS, _F.GOES_ON, *_WHY},
        _P.LAST: {*_OF_LEADER, *_MESSAGE, *_WHY},
        _P.COPY: {*_OF_LEADER, *_MESSAGE, *_WHY},
        _P.PROOF: {*_QUIET, _F.OWED, *_WAIT, _F.LINK_RESTORED},
        _P.PAUSED: {*_QUIET, *_PROOF, _F.ROOM, _F.LINK_RESTORED},
        _P.FULL: {*_QUIET, *_PROOF, _F.DUE, _F.TIME_OVER, _F.LINK_RESTORED},
        _P.DOWN: {*_QUIET, *_PROOF, *_WAIT, _F.LINK_LOST},
        _P.IDLE: {*_QUIET, *_PROOF, *_WAIT, _F.LINK_LOST},
        _P.ENDED: set(Fact),
    },
)  # fmt: skip
"""What a read does, by what it waits for and what has happened."""

BELIEF_PHASES: Final[Table[Phase, Fact]] = followed(BELIEF, LEADS_TO)
"""The phases that follow."""
