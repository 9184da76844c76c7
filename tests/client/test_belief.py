"""Each step of the table of ``rules.belief``, taken by a real read on a bare outbox, which then reads on to its end.

After the step an honest server answers. Then the read has all messages, each once and in order. Where the step ends the
read, it has what it should have and the error that it should have. A pair that the table ignores cannot happen.

Then walks of any length over the table: servers die, lag and answer twice, messages are lost, links come and go.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.client.read.direct import DirectBatch
from jsproto.client.read.leader import Provable
from jsproto.client.read.multi import LastAnswer, LastMessages
from jsproto.errors import (
    APIError,
    ConnectionLostError,
    Error,
    IncompleteBatchError,
    NoRespondersError,
    OutboundBufferLimitError,
    RemoteProtocolError,
    StreamRolledBackError,
    TimeoutError,
)
from jsproto.events import Event
from jsproto.grammar.api import ApiSubjects
from jsproto.grammar.config import ServerInfo, StreamInfo
from jsproto.grammar.position import StreamPosition
from jsproto.outbox import Conversation, Outbox
from jsproto.rules.belief import BELIEF, LEADS_TO, Fact, Phase, Verdict
from jsproto.rules.position import Verdict as PositionVerdict
from jsproto.ticket import Ticket
from jsproto.wire.frames import Msg, MsgRun, Pub
from tests.client.replicas import DIRECT, LEADER, NO_RESULTS, NOT_FOUND, STATE, Stream
from tests.client.test_direct import CREATED, end, stored
from tests.client.test_multi import end as end_of_many
from tests.harness import INFO

NOBODY: Final = b"NATS/1.0 503\r\n\r\n"
ALL: Final = list(range(1, 10))
Step: TypeAlias = tuple[Phase, Fact]


class Wire(Outbox):
    """What a read asks. Attributes: ``pubs`` (not answered yet), ``is_full`` (no room), ``events``, ``is_old``."""

    def __init__(self, version: str) -> None:
        self.pubs: list[Pub] = []
        self.is_full = False
        self.events: list[Event] = []
        self.is_old = version < "2.12"
        self._server = ServerInfo.from_json(json.dumps({**INFO, "version": version}).encode())

    @property
    def server(self) -> ServerInfo | None:
        return self._server

    @property
    def closed_error(self) -> Error | None:
        return None

    def publish(self, subject: str, payload: bytes, reply: bytes | None = None, headers: bytes | None = None) -> None:
        if self.is_full:
            raise OutboundBufferLimitError(0, 0)
        self.pubs.append(Pub(subject.encode(), reply, headers, payload))

    def subscribe(self, subject: str, conversation: Conversation, queue: str | None = None) -> int:
        return 1

    def unsubscribe(self, sid: int, max_msgs: int | None = None) -> None:
        pass

    def completed(self, ticket: Ticket[Any]) -> None:
        ticket.wake()

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def flush(self) -> None:
        pass

    def rearm(self, conversation: Conversation) -> None:
        pass


class Session:
    """A guard that owes one proof."""

    def __init__(self) -> None:
        self.is_owed = True

    def floor(self) -> int:
        return 0

    def owes(self) -> bool:
        return self.is_owed

    def prove(self, read: Provable, now: float) -> None:
        self.is_owed = False

    def heard(self, info: StreamInfo, now: float) -> tuple[PositionVerdict, StreamPosition]:
        return PositionVerdict.SAME, StreamPosition("DG", 0)

    def stale(self, least: int, come_to: int) -> Error:
        return IncompleteBatchError("stale", come_to)


class Stage:
    """A read of a stream of nine messages, three to a page, and the servers' side of it."""

    def __init__(
        self, version: str = "2.15.1", *, kind: str = "stream", subjects: list[str] | None = None, **options: Any
    ) -> None:
        self.stream = Stream(f"k.{seq}" for seq in ALL)
        self.stream.created, self.stream.config = CREATED, {"allow_direct": True}
        self.wire = Wire(version)
        self.now = 100.0
        self.got: list[int] = []
        self.reply = self.question = b""
        keywords: dict[str, Any] = {
            "api": ApiSubjects(),
            "inbox": "_INBOX.a",
            "now": self.now,
            "timeout": 1.0,
            **options,
        }
        self.read: DirectBatch
        if kind == "stream":
            self.read = DirectBatch(self.wire, "DG", **{"page_messages": 3, "seq": 1, **keywords})
        elif kind == "last":
            self.read = LastMessages(
                self.wire, "DG", subjects or [">"], **{"page_messages": 3, "up_to_seq": 9, **keywords}
            )
        else:
            self.read = LastAnswer(self.wire, "DG", subjects or [">"], **keywords)
        self.look()

    def look(self) -> list[Pub]:
        """What is asked, and where the answers are to go."""
        pubs, self.wire.pubs = self.wire.pubs, []
        for pub in pubs:
            if pub.subject == DIRECT:
                self.reply = pub.reply or b""
            else:
                self.question = pub.reply or b""
        return pubs

    def send(self, header: bytes | None, where: bytes | None = None, payload: bytes = b"x") -> Stage:
        """Of the page."""
        self.look()
        self.read.receive(Msg(self.reply if where is None else where, b"1", None, header, payload), self.now)
        return self

    def message(self, seq: int, last: int, **fields: Any) -> Stage:
        return self.send(stored(seq, last=last, pending=9 - seq, subject=f"k.{seq}", **fields))

    def end(self, last: int, pending: int) -> Stage:
        return self.send(end(last=last, pending=pending), payload=b"")

    def say(self, body: dict[str, Any] | bytes, header: bytes | None = None) -> Stage:
        """The leader says."""
        self.look()
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.read.receive(Msg(self.question, b"1", None, header, payload), self.now)
        return self

    def state(self, last_seq: int = 9, first_seq: int = 1, **fields: Any) -> Stage:
        state = {"first_seq": first_seq, "last_seq": last_seq, "messages": max(last_seq - first_seq + 1, 0)}
        config = {"name": "DG", "allow_direct": True}
        return self.say({"config": config, "created": CREATED, "state": state, **fields})

    def leader(self, seq: int | None, subject: str | None = None) -> Stage:
        if seq is None:
            return self.say({"error": {"code": 404, "err_code": 10037, "description": "no message found"}})
        time = "2026-11-20T20:36:46.910548879Z"
        return self.say({"message": {"subject": subject or f"k.{seq}", "seq": seq, "time": time}})

    def take(self) -> Stage:
        self.got += [each.seq for each in self.read.pop_many(99, self.now)]
        return self

    def wait(self, seconds: float) -> Stage:
        until = self.now + seconds
        while (when := self.read.deadline()) is not None and when <= until:
            self.now = max(self.now, when)
            self.read.handle_timeout(self.now)
        self.now = until
        self.read.handle_timeout(self.now)
        return self

    def block(self) -> Stage:
        self.wire.is_full = True
        return self

    def lose(self) -> Stage:
        self.read.link_lost(ConnectionLostError("gone"), self.now)
        self.look()
        return self

    def restore(self) -> Stage:
        self.read.link_restored(self.now)
        return self

    def finish(self) -> list[int]:
        """An honest server answers from now on."""
        self.wire.is_full = False
        for _ in range(100):
            self.take()
            if self.read.finished or self.read.error is not None:
                return self.got
            if self.read.phase is Phase.PROOF:
                self.read.proved(None, self.now)
            if self.read.phase in (Phase.DOWN, Phase.IDLE):
                self.restore()
            if not self.wire.pubs and self.read.phase is not Phase.FULL:
                self.answer_open()
            for pub in self.look():
                self.answer(pub)
            self.take()
            self.wait(0.6)
        raise AssertionError("the read does not end")

    def answer_open(self) -> None:
        """What was asked before has an answer, too: the leader's. Pages fall silent."""
        if self.read.phase in (Phase.HELD, Phase.WHOLE, Phase.WHY, Phase.OTHER, Phase.STATE, Phase.LAST, Phase.COPY):
            self.say(self.stream.info({}))

    def answer(self, pub: Pub) -> None:
        if pub.subject == DIRECT:
            for block in self.stream.page(json.loads(pub.payload), self.stream.last_seq):
                self.send(block, pub.reply or b"", b"x" if b"\r\nNats-Sequence" in block else b"")
        else:
            message = Msg(pub.reply or b"", b"1", None, None, json.dumps(self.stream.leader(pub)).encode())
            self.read.receive(message, self.now)


# -- how a phase is come to --------------------------------------------------------------------------------------------


def second(**options: Any) -> Stage:
    """The second page is asked for, with message 3 as its anchor."""
    stage = Stage(**options).message(1, 0).message(2, 1).message(3, 2).end(3, 6).take()
    assert stage.read.phase is Phase.ASKED
    return stage


def opened(**options: Any) -> Stage:
    return second(**options).message(3, 0).message(4, 3)


def held(**options: Any) -> Stage:
    return second(**options).message(4, 0)


def whole() -> Stage:
    return held().end(4, 5)


def old(**options: Any) -> Stage:
    """A server that may drop messages in the middle of a page."""
    return Stage("2.11.9", if_dropped="error", **options)


def state(**options: Any) -> Stage:
    return second(**options).send(NOT_FOUND)


def next_message(**options: Any) -> Stage:
    return state(**options).state(9)


def strict_next() -> Stage:
    return next_message(if_dropped="error")


def last() -> Stage:
    return strict_next().leader(None)


def overdue() -> Stage:
    """Three times somebody answered without message 4, which the leader has."""
    stage = next_message()
    for _ in range(3):
        stage.leader(4).wait(0.1).send(NOT_FOUND).state(9)
    return stage


def no_leader(stage: Stage) -> Stage:
    return stage.say({"error": {"code": 503, "err_code": 10008, "description": "temporarily unavailable"}})


def paused() -> Stage:
    return no_leader(no_leader(state()).send(NOT_FOUND))


def full() -> Stage:
    return Stage().message(1, 0).message(2, 1).message(3, 2).end(3, 6)


def owed(**options: Any) -> Stage:
    return Stage(guard=Session(), **options)


STAGES: Final[dict[Phase, Callable[[], Stage]]] = {
    Phase.ASKED: second,
    Phase.OPEN: opened,
    Phase.HELD: held,
    Phase.WHOLE: whole,
    Phase.WHY: lambda: second().send(NOBODY),
    Phase.OTHER: lambda: second().message(3, 0, time=47),
    Phase.STATE: state,
    Phase.NEXT: next_message,
    Phase.LAST: last,
    Phase.COPY: lambda: overdue().leader(4),
    Phase.PROOF: owed,
    Phase.PAUSED: paused,
    Phase.FULL: full,
    Phase.DOWN: lambda: opened().lose(),
    Phase.IDLE: lambda: full().lose(),
}

# -- what happens there ------------------------------------------------------------------------------------------------

ODD: Final = (b"Nats-Sequence: ", b"Nats-Sequence:")
"""How a server might write a header, and none does: such a message is looked at alone."""

CAUSES: Final[dict[Fact, Callable[[Stage], object]]] = {
    Fact.ANCHOR: lambda stage: stage.message(3, 0),
    Fact.OTHER_ANCHOR: lambda stage: stage.message(3, 0, time=47),
    Fact.DOUBTFUL: lambda stage: stage.message(4, 0),
    Fact.MIRROR: lambda stage: stage.message(3, 0, stream="DG2"),
    Fact.MESSAGE: lambda stage: stage.send(stored(5, last=4, pending=4).replace(*ODD)),
    Fact.BROKEN: lambda stage: stage.message(9, 7),
    Fact.END: lambda stage: stage.end(4, 5),
    Fact.NOTHING: lambda stage: stage.send(NOT_FOUND),
    Fact.NOBODY: lambda stage: stage.send(NOBODY, payload=b""),
    Fact.NO_LEADER: no_leader,
    Fact.GONE: lambda stage: stage.say({"error": {"code": 404, "err_code": 10059}}),
    Fact.FORBIDDEN: lambda stage: stage.state(config={"name": "DG"}),
    Fact.ALLOWED: lambda stage: stage.state(),
    Fact.LAGS: lambda stage: stage.state(1),
    Fact.ENDS: lambda stage: stage.state(stage.read.last_seq),
    Fact.GOES_ON: lambda stage: stage.state(9),
    Fact.AHEAD: lambda stage: stage.leader(4),
    Fact.SILENCE: lambda stage: stage.wait(1.0),
    Fact.PROVED: lambda stage: stage.read.proved(None, stage.now),
    Fact.UNPROVED: lambda stage: stage.read.proved(TimeoutError("no proof"), stage.now),
    Fact.DUE: lambda stage: stage.wait(0.1),
    Fact.ROOM: lambda stage: stage.take(),
    Fact.LINK_LOST: lambda stage: stage.lose(),
    Fact.LINK_RESTORED: lambda stage: stage.restore(),
}
ASKED_LEADER: Final = {
    Phase.HELD, Phase.WHOLE, Phase.WHY, Phase.OTHER, Phase.STATE, Phase.NEXT, Phase.LAST, Phase.COPY,
}  # fmt: skip


def over() -> Stage:
    """Nobody has a leader for the whole time."""
    stage = state()
    while stage.read.error is None:
        no_leader(stage)
        if stage.read.phase is Phase.PAUSED:
            stage.wait(0.5)
        stage.send(NOT_FOUND)
    return stage


def silent_twice() -> Stage:
    return second().wait(1.0).wait(1.0)


def shown_nothing() -> Stage:
    return Stage(kind="last", subjects=["k.*"]).send(NO_RESULTS)


def pointless() -> Stage:
    """The end of a page of many subjects does not say up to which sequence it is."""
    return Stage(kind="last").message(1, 0).send(end_of_many(last=1, pending=8, up_to=None))


OTHERS: Final[dict[Step, Callable[[], Stage]]] = {
    (Phase.ASKED, Fact.FIRST): lambda: Stage().message(1, 0),
    (Phase.ASKED, Fact.END): lambda: Stage().end(0, 0),
    (Phase.ASKED, Fact.OWED): owed,
    (Phase.OPEN, Fact.DOUBTFUL_END): lambda: old().message(1, 0).message(3, 1).end(3, 6),
    (Phase.HELD, Fact.DOUBTFUL_END): lambda: old().message(2, 0).message(4, 2).end(4, 5),
    (Phase.CLOSED, Fact.ALL): lambda: Stage(batch=2).message(1, 0).message(2, 1).end(2, 7),
    (Phase.CLOSED, Fact.MORE): full,
    (Phase.CLOSED, Fact.PROVEN): lambda: Stage(seq=8).message(8, 0).message(9, 8).end(9, 0),
    (Phase.CLOSED, Fact.UNPROVEN): state,
    (Phase.CLOSED, Fact.UNSHOWN): shown_nothing,
    (Phase.CLOSED, Fact.LAGS): lambda: Stage(kind="last").send(NOT_FOUND),
    (Phase.CLOSED, Fact.REST): lambda: opened().message(9, 7),
    (Phase.CLOSED, Fact.EMPTY_TWICE): silent_twice,
    (Phase.CLOSED, Fact.WRONG): pointless,
    (Phase.NEXT, Fact.ENDS): lambda: next_message().leader(None),
    (Phase.NEXT, Fact.UNSURE): last,
    (Phase.NEXT, Fact.OVERDUE): lambda: overdue().leader(4),
    (Phase.LAST, Fact.ENDS): lambda: Stage(kind="answer").send(NO_RESULTS).leader(None).state(9, first_seq=10),
    (Phase.COPY, Fact.ENDS): lambda: overdue().leader(4).state(9, first_seq=10),
    (Phase.PAUSED, Fact.TIME_OVER): over,
    (Phase.ASKED, Fact.BLOCKED): lambda: full().block().take(),
    (Phase.HELD, Fact.BLOCKED): lambda: second().block().message(4, 0),
    (Phase.WHOLE, Fact.BLOCKED): lambda: old().message(1, 0).message(3, 1).block().end(3, 6),
    (Phase.WHY, Fact.BLOCKED): lambda: second().block().send(NOBODY),
    (Phase.OTHER, Fact.BLOCKED): lambda: second().block().message(3, 0, time=47),
    (Phase.STATE, Fact.BLOCKED): lambda: second().block().send(NOT_FOUND),
    (Phase.NEXT, Fact.BLOCKED): lambda: state().block().state(9),
    (Phase.LAST, Fact.BLOCKED): lambda: strict_next().block().leader(None),
    (Phase.COPY, Fact.BLOCKED): lambda: overdue().block().leader(4),
}  # fmt: skip
"""Steps with a way of their own."""

STEPS: Final = [step for step, verdict in BELIEF.items() if verdict is not None]
ENDS: Final[dict[Step, type[Error]]] = {
    **{(phase, Fact.GONE): APIError for phase in ASKED_LEADER},
    **{(phase, Fact.WRONG): RemoteProtocolError for phase in Phase},
    (Phase.WHY, Fact.GONE): NoRespondersError,
    (Phase.WHY, Fact.FORBIDDEN): NoRespondersError,
    (Phase.PROOF, Fact.UNPROVED): TimeoutError,
    (Phase.CLOSED, Fact.EMPTY_TWICE): IncompleteBatchError,
    (Phase.PAUSED, Fact.TIME_OVER): IncompleteBatchError,
}
AFTER: Final[dict[str, str]] = {
    "ASKED FIRST": "OPEN 1.00 s 1",
    "ASKED DOUBTFUL": "HELD state 1.00 s 1 2 3 (4)",
    "ASKED ANCHOR": "OPEN 1.00 s 1 2 3",
    "ASKED OTHER_ANCHOR": "OTHER state 1.00 s 1 2 3",
    "ASKED MIRROR": "ASKED page 1.00 s 1 2 3",
    "ASKED BROKEN": "ASKED page 1.00 s 1 2 3",
    "ASKED END": "STATE state 1.00 s",
    "ASKED NOTHING": "STATE state 1.00 s 1 2 3",
    "ASKED NOBODY": "WHY state 1.00 s 1 2 3",
    "ASKED WRONG": "ENDED  1 2 3",
    "ASKED SILENCE": "ASKED page 1.00 s 1 2 3",
    "ASKED BLOCKED": "PAUSED 0.02 s 1 2 3",
    "ASKED OWED": "PROOF ",
    "ASKED LINK_LOST": "DOWN  1 2 3",
    "OPEN MESSAGE": "OPEN 1.00 s 1 2 3 4 5",
    "OPEN BROKEN": "ASKED page 1.00 s 1 2 3 4",
    "OPEN END": "FULL  1 2 3 (4)",
    "OPEN DOUBTFUL_END": "WHOLE state 1.00 s (3)",
    "OPEN WRONG": "ENDED  1 2 3 4",
    "OPEN SILENCE": "ASKED page 1.00 s 1 2 3 4",
    "OPEN LINK_LOST": "DOWN  1 2 3 4",
    "HELD MESSAGE": "HELD 1.00 s 1 2 3 (5)",
    "HELD BROKEN": "ASKED page 1.00 s 1 2 3",
    "HELD END": "WHOLE 1.00 s 1 2 3 (4)",
    "HELD DOUBTFUL_END": "WHOLE 1.00 s (4)",
    "HELD WRONG": "ENDED  1 2 3",
    "HELD NO_LEADER": "ASKED page 1.00 s 1 2 3",
    "HELD GONE": "ENDED  1 2 3",
    "HELD LAGS": "ASKED page 1.00 s 1 2 3",
    "HELD ENDS": "OPEN 1.00 s 1 2 3 4",
    "HELD GOES_ON": "OPEN 1.00 s 1 2 3 4",
    "HELD SILENCE": "ASKED page 1.00 s 1 2 3",
    "HELD BLOCKED": "PAUSED 0.02 s 1 2 3",
    "HELD LINK_LOST": "DOWN  1 2 3 (4)",
    "WHOLE WRONG": "ENDED  1 2 3",
    "WHOLE NO_LEADER": "ASKED page 1.00 s 1 2 3",
    "WHOLE GONE": "ENDED  1 2 3",
    "WHOLE LAGS": "ASKED page 1.00 s 1 2 3",
    "WHOLE ENDS": "FULL  1 2 3 (4)",
    "WHOLE GOES_ON": "FULL  1 2 3 (4)",
    "WHOLE SILENCE": "ASKED page 1.00 s 1 2 3",
    "WHOLE BLOCKED": "PAUSED 0.02 s",
    "WHOLE LINK_LOST": "DOWN  1 2 3 (4)",
    "CLOSED WRONG": "ENDED  1",
    "CLOSED ALL": "ENDED  1 2",
    "CLOSED MORE": "FULL  (3)",
    "CLOSED PROVEN": "ENDED  8 9",
    "CLOSED UNPROVEN": "STATE state 1.00 s 1 2 3",
    "CLOSED UNSHOWN": "NEXT message 1.00 s",
    "CLOSED REST": "ASKED page 1.00 s 1 2 3 4",
    "CLOSED EMPTY_TWICE": "ENDED page  1 2 3",
    "CLOSED LAGS": "ASKED page 1.00 s",
    "WHY WRONG": "ENDED  1 2 3",
    "WHY NO_LEADER": "ASKED page 1.00 s 1 2 3",
    "WHY GONE": "ENDED  1 2 3",
    "WHY FORBIDDEN": "ENDED  1 2 3",
    "WHY ALLOWED": "ASKED page 1.00 s 1 2 3",
    "WHY SILENCE": "ASKED page 1.00 s 1 2 3",
    "WHY BLOCKED": "PAUSED 0.02 s 1 2 3",
    "WHY LINK_LOST": "DOWN  1 2 3",
    "OTHER WRONG": "ENDED  1 2 3",
    "OTHER NO_LEADER": "ASKED page 1.00 s 1 2 3",
    "OTHER GONE": "ENDED  1 2 3",
    "OTHER SILENCE": "ASKED page 1.00 s 1 2 3",
    "OTHER BLOCKED": "PAUSED 0.02 s 1 2 3",
    "OTHER LINK_LOST": "DOWN  1 2 3",
    "STATE WRONG": "ENDED  1 2 3",
    "STATE NO_LEADER": "ASKED page 1.00 s 1 2 3",
    "STATE GONE": "ENDED  1 2 3",
    "STATE LAGS": "ASKED page 1.00 s 1 2 3",
    "STATE ENDS": "ENDED  1 2 3",
    "STATE GOES_ON": "NEXT message 1.00 s 1 2 3",
    "STATE SILENCE": "ASKED page 1.00 s 1 2 3",
    "STATE BLOCKED": "PAUSED 0.02 s 1 2 3",
    "STATE LINK_LOST": "DOWN  1 2 3",
    "NEXT WRONG": "ENDED  1 2 3",
    "NEXT NO_LEADER": "ASKED page 1.00 s 1 2 3",
    "NEXT GONE": "ENDED  1 2 3",
    "NEXT ENDS": "ENDED  1 2 3",
    "NEXT UNSURE": "LAST state 1.00 s 1 2 3",
    "NEXT AHEAD": "ASKED page 1.00 s 1 2 3",
    "NEXT OVERDUE": "COPY state 1.00 s 1 2 3",
    "NEXT SILENCE": "ASKED page 1.00 s 1 2 3",
    "NEXT BLOCKED": "PAUSED 0.02 s 1 2 3",
    "NEXT LINK_LOST": "DOWN  1 2 3",
    "LAST WRONG": "ENDED  1 2 3",
    "LAST NO_LEADER": "ASKED page 1.00 s 1 2 3",
    "LAST GONE": "ENDED  1 2 3",
    "LAST LAGS": "ASKED page 1.00 s 1 2 3",
    "LAST ENDS": "ENDED ",
    "LAST GOES_ON": "ENDED  1 2 3",
    "LAST SILENCE": "ASKED page 1.00 s 1 2 3",
    "LAST BLOCKED": "PAUSED 0.02 s 1 2 3",
    "LAST LINK_LOST": "DOWN  1 2 3",
    "COPY WRONG": "ENDED  1 2 3",
    "COPY NO_LEADER": "PAUSED 0.08 s 1 2 3",
    "COPY GONE": "ENDED  1 2 3",
    "COPY LAGS": "PAUSED 0.08 s 1 2 3",
    "COPY ENDS": "FULL  1 2 3 (4)",
    "COPY GOES_ON": "FULL  1 2 3 (4)",
    "COPY SILENCE": "ASKED page 1.00 s 1 2 3",
    "COPY BLOCKED": "PAUSED 0.02 s 1 2 3",
    "COPY LINK_LOST": "DOWN  1 2 3",
    "PROOF PROVED": "ASKED page 1.00 s",
    "PROOF UNPROVED": "ENDED ",
    "PROOF LINK_LOST": "DOWN ",
    "PAUSED DUE": "ASKED page 0.92 s 1 2 3",
    "PAUSED TIME_OVER": "ENDED  1 2 3",
    "PAUSED LINK_LOST": "IDLE  1 2 3",
    "FULL ROOM": "ASKED page 1.00 s 1 2 3",
    "FULL LINK_LOST": "IDLE  1 2 3",
    "DOWN LINK_RESTORED": "ASKED page 1.00 s 1 2 3 4",
    "IDLE LINK_RESTORED": "FULL  (3)",
}
"""After each step: what a read waits for, its last request, until when, what it has given out, and what it holds."""

SHORT: Final = {
    (Phase.STATE, Fact.ENDS), (Phase.NEXT, Fact.ENDS), (Phase.NEXT, Fact.UNSURE), (Phase.LAST, Fact.GOES_ON),
}  # fmt: skip
"""The leader says that there is nothing more, and is believed."""


class Recorder(dict[Step, Verdict | None]):
    """The table, and which steps were looked up in it."""

    def __init__(self) -> None:
        super().__init__(BELIEF)
        self.taken: list[Step] = []

    def __getitem__(self, step: Step) -> Verdict | None:
        self.taken.append(step)
        return super().__getitem__(step)


def play(step: Step) -> Stage:
    """Bring a read to the step, and make it happen."""
    phase, fact = step
    if (way := OTHERS.get(step)) is not None:
        return way()
    stage = STAGES[phase]()
    assert stage.read.phase is phase
    if fact is Fact.WRONG:
        stage.say(b"{") if phase in ASKED_LEADER else stage.send(None)
    else:
        CAUSES[fact](stage)
    return stage


def seen(stage: Stage) -> str:
    """What the read waits for then, what it asks, for how long, and what it has given out."""
    kinds = {DIRECT: "page", STATE: "state", LEADER: "message"}
    asked = [kinds[pub.subject] for pub in stage.wire.pubs]
    when = stage.read.deadline()
    pause = "" if when is None else f"{when - stage.now:.2f} s"
    given = [each.seq for each in stage.read.pop_many(99, stage.now)] if stage.read.phase is not Phase.FULL else []
    stage.got += given
    held = [f"({stage.read.last_seq})"] if stage.read.last_seq != (stage.got or [0])[-1] else []
    return " ".join([stage.read.phase.name, *asked[-1:], pause, *map(str, stage.got), *held])


@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step[0].name}-{step[1].name}")
def test_each_step_leads_to_the_end(step: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Recorder()
    monkeypatch.setattr("jsproto.client.read.paged_read.BELIEF", table)
    stage = play(step)
    assert step in table.taken
    verdict = BELIEF[step]
    assert verdict is not None
    assert seen(stage) == AFTER[f"{step[0].name} {step[1].name}"]
    got = stage.finish()
    error = ENDS.get(step)
    if LEADS_TO[verdict] is Phase.ENDED and error is not None:
        assert isinstance(stage.read.error, error)
        assert got == ALL[: len(got)]
        assert stage.read.last_seq == len(got)
    elif step[0] is Phase.OTHER or step[1] is Fact.OTHER_ANCHOR:
        if stage.read.error is not None:  # its anchor was that of another stream, and the leader says so
            assert isinstance(stage.read.error, StreamRolledBackError)
            assert got == ALL[:3]
        else:
            assert got == ALL
    else:
        assert stage.read.error is None
        assert got == wanted(step)
    assert stage.read.phase is Phase.ENDED


def wanted(step: Step) -> list[int]:
    """What a read has that took the step."""
    if step in SHORT:
        return ALL[:3]
    return {
        (Phase.LAST, Fact.ENDS): [],
        (Phase.CLOSED, Fact.ALL): ALL[:2], (Phase.CLOSED, Fact.PROVEN): ALL[7:],
        (Phase.OPEN, Fact.DOUBTFUL_END): [1, 3, *ALL[3:]], (Phase.HELD, Fact.DOUBTFUL_END): [2, 4, *ALL[4:]],
    }.get(step, ALL)  # fmt: skip


# -- walks -------------------------------------------------------------------------------------------------------------


class Walk(Stage):
    """What may happen to a read, among servers that tell nothing but the truth, each of what it knows."""

    def __init__(self, applied: int, **options: Any) -> None:
        self.applied = applied  # how far the replica is that answers next
        self.blocks: list[bytes] = []  # of the page that is asked for
        self.late: list[tuple[bytes, bytes]] = []  # of earlier ones
        self.asked: Pub | None = None  # of the leader
        super().__init__(**options)

    def look(self) -> list[Pub]:
        pubs = super().look()
        for pub in pubs:
            if pub.subject != DIRECT:
                self.asked = pub
                continue
            self.late += [(self.reply, block) for block in self.blocks[:1]]
            self.blocks = self.stream.page(json.loads(pub.payload), self.applied, old=self.wire.is_old)
        return pubs

    def next_block(self, times: int = 1) -> None:
        """What comes next of the page, so often. 0: it is lost."""
        self.look()
        if self.blocks:
            block = self.blocks.pop(0)
            for _ in range(times):
                self.send(block, self.reply, b"x" if b"\r\nNats-Sequence" in block else b"")

    def late_block(self) -> None:
        self.look()
        if self.late:
            where, block = self.late.pop()
            self.send(block, where)

    def all_at_once(self) -> None:
        self.look()
        if self.blocks:
            blocks, self.blocks = self.blocks, []
            payloads = [b"x" if b"\r\nNats-Sequence" in block else b"" for block in blocks]
            self.read.receive_run(MsgRun(self.reply, b"1", None, blocks, payloads), self.now)

    def dies(self) -> None:
        """Whoever answered is gone, and nobody else is there just now."""
        self.look()
        self.blocks.clear()
        self.send(NOBODY, payload=b"")

    def told(self, times: int = 1) -> None:
        self.look()
        if self.asked is not None:
            asked, self.asked = self.asked, None
            for _ in range(times):
                self.answer(asked)

    def link(self) -> None:
        """It is lost, and comes back."""
        self.look()
        self.blocks.clear()
        self.asked = None
        self.lose().restore()

    def room(self) -> None:
        self.wire.is_full = not self.wire.is_full


EVENTS: Final[list[Callable[[Walk], object]]] = [
    Walk.next_block, Walk.next_block, Walk.next_block, lambda walk: walk.next_block(0), lambda walk: walk.next_block(2),
    Walk.late_block, Walk.all_at_once, Walk.dies, Walk.told, Walk.told, lambda walk: walk.told(2), Walk.link, Walk.room,
    lambda walk: no_leader(walk), lambda walk: walk.wait(0.02), lambda walk: walk.wait(0.6), Walk.take,
]  # fmt: skip


@given(
    events=st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 9)), max_size=60),
    version=st.sampled_from(["2.11.9", "2.15.1"]), strict=st.booleans(), seq=st.sampled_from([None, 1]),
    batch=st.none() | st.integers(1, 9), large=st.booleans(), is_owed=st.booleans(),
)  # fmt: skip
def test_a_walk_loses_nothing(
    events: list[tuple[Callable[[Walk], object], int]], version: str, strict: bool, seq: int | None, batch: int | None,
    large: bool, is_owed: bool,
) -> None:  # fmt: skip
    walk = Walk(
        9, version=version, if_dropped="error" if strict else "skip", seq=seq, batch=batch, timeout=1.0,
        at_least=9, page_messages=9 if large else 2, guard=Session() if is_owed else None,
    )  # fmt: skip
    for event, walk.applied in events:
        event(walk)
        if walk.read.phase is Phase.PROOF:
            walk.read.proved(None, walk.now)
        walk.take()
    got = walk.finish()
    assert got == ALL[: len(got)]
    if walk.read.error is None:
        assert got == ALL[:batch]
    else:
        assert isinstance(walk.read.error, (IncompleteBatchError, NoRespondersError))
        assert walk.read.last_seq == len(got)
