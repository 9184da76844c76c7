"""Worlds in memory: one stream with replicas that lag, mirrors of all kinds, writers, and a client that reads.

What happens to the stream, to its copies and to the link happens between any two messages of the protocol. Whoever
answers a request is drawn. Paging is made small (``small_pages``), so that few messages make many pages.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from unittest.mock import patch

from jsproto.client.connection.connect_options import connect_options
from jsproto.client.connection.session import Session
from jsproto.client.jetstream import JetStream
from jsproto.errors import Error, LocalProtocolError
from jsproto.grammar.acks import PubAck
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.stored import StoredMsg
from jsproto.server.replication.replicas import Lag
from jsproto.server.server import Server
from jsproto.server.session import ServerSession
from jsproto.server.store.stream import Publication, Stream
from tests.worlds.checker import (
    Scene,
    Span,
    WrongAnswerError,
    check_as_of,
    check_batch,
    check_last_of_each,
    check_one,
    check_weak,
)
from tests.worlds.truth import Life, Witness

TOKEN: Final = bytes(range(16))
EPOCH: Final = 1_700_000_000_000_000_000
TIMEOUT: Final = 2.0
LONGEST: Final = 120.0  # seconds that a read may take
MOST_STEPS: Final = 20_000
SUBJECTS_AT_ONCE: Final = 6  # of one request
LISTED_AT_ONCE: Final = 5  # subjects in one page of a list
_SMALL: Final = {
    "MAX_SUBJECTS": SUBJECTS_AT_ONCE, "GROUP": SUBJECTS_AT_ONCE - 1, "SUBJECTS_AT_ONCE": LISTED_AT_ONCE,
}  # fmt: skip


@contextmanager
def small_pages() -> Iterator[None]:
    """Client and server with limits of a few subjects, instead of 1,024 and 100,000."""
    with patch.multiple("jsproto.server.read.direct", MAX_SUBJECTS=SUBJECTS_AT_ONCE):
        patches = [
            patch.object(module, name, value)
            for key, module in list(sys.modules.items())
            if key.startswith(("jsproto.client.", "jsproto.server."))
            for name, value in _SMALL.items()
            if hasattr(module, name)
        ]
        for one in patches:
            one.start()
        try:
            yield
        finally:
            for one in patches:
                one.stop()


@dataclass(frozen=True)
class Event:
    """Something that happens: ``what``, and two numbers that say where and how much."""

    what: str
    one: int = 0
    other: int = 0


@dataclass(frozen=True)
class Read:
    """One read: the verb, its arguments in words that any world can read, and what happens meanwhile.

    ``events``: after how many steps of the protocol each happens. ``take``: how many messages are taken at once.
    """

    verb: str
    keywords: Mapping[str, Any] = field(default_factory=dict)
    session: str = ""  # its level; empty without one
    events: Sequence[tuple[int, Event]] = ()
    take: int = 100


@dataclass(frozen=True)
class Plan:
    """A world: the options of the stream, those of its mirrors, what happens first, the reads, and who answers."""

    stream: Mapping[str, Any] = field(default_factory=dict)
    mirrors: Sequence[tuple[str, Mapping[str, Any], Mapping[str, Any]]] = ()
    before: Sequence[Event] = ()
    then: Sequence[Event] = ()
    reads: Sequence[Read] = ()
    turns: Sequence[int] = (0,)


class World:
    """A world in which reads happen. Attributes: ``errors``: how often reads ended in which error, or in none."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.now = 0.0
        self.server = Server(token=TOKEN, epoch=EPOCH)
        self.server.choose = self._choose
        self.turns = 0
        self.written = 0
        self.client = Session(connect_options(max_reconnect_attempts=-1, reconnect_time_wait=0.1), token=TOKEN)
        self.js = JetStream(self.client, timeout=TIMEOUT)
        self.errors: list[tuple[str, str]] = []
        self.link: ServerSession | None = None
        self.down: deque[bytes] = deque()
        self.up: deque[bytes] = deque()
        self.witnesses: list[Witness] = []
        self.mirrors: dict[str, Life] = {}
        self.create()
        for event in plan.before:
            self.happen(event)
        for name, options, mirror in plan.mirrors:
            origin: Any = {"name": "S", **mirror}
            config = StreamConfig.from_options(
                name, storage="memory", allow_direct=True, mirror_direct=True, mirror=origin, **options
            )
            self.mirrors[name] = Witness(self.server.add_stream(config, self.now)).life
        for event in plan.then:
            self.happen(event)
        while not self.client.connected.done:
            self.step()
        self.session = self.js.consistent_session(mirrors={"S": "M"}, timeout=TIMEOUT)
        self.floor = 0
        self._session_life = 1  # which life the session knows

    # -- what happens --------------------------------------------------------------------------------------------------

    @property
    def stream(self) -> Stream | None:
        inlet = self.server.api.streams.get("S")
        return None if inlet is None else inlet.stream

    def create(self) -> None:
        config = StreamConfig.from_options(
            "S", subjects=["s.>"], storage="memory", allow_direct=True, **self.plan.stream
        )
        self.witnesses.append(Witness(self.server.add_stream(config, self.now)))

    @property
    def lives(self) -> list[Life]:
        """Of the stream S, the present one last."""
        return [witness.life for witness in self.witnesses]

    def happen(self, event: Event) -> None:
        """Let something happen."""
        self.now += 1e-5
        one, other, stream = event.one, event.other, self.stream
        if event.what == "wait":
            self.now += one / 10
            self.server.handle_timeout(self.now)
        elif event.what == "lag":
            followers = [*(self.server.replicas("S") if stream is not None else ())]
            followers += [one.mirror for one in self.server.api.replica_sets.values() if one.mirror is not None]
            if followers:
                follower = followers[one % len(followers)]
                follower.lag = (Lag(), Lag(seconds=0.3), Lag(seconds=float("inf")), Lag(messages=1), Lag(messages=5))[
                    other
                ]
                follower.catch_up(self.now)
        elif event.what == "cut":
            self.cut()
        elif stream is None:
            self.create()
        else:
            stream.expire(self.now)
            self.witnesses[-1].deletes = event.what in ("delete", "purge", "purge_seq")
            self._change(stream, event)

    def _change(self, stream: Stream, event: Event) -> None:
        one, other = event.one, event.other
        if event.what == "write":
            for number in range(other):
                self.write(stream, f"s.{one + number}")
        elif event.what == "overwrite":
            for _ in range(other):
                self.write(stream, f"s.{one}")
        elif event.what == "own":
            self.session.record(PubAck("S", self.write(stream, f"s.{one}")))
            self.floor = stream.last_seq
        elif event.what == "delete":
            stream.remove(stream.last_seq - one if other else stream.first_seq + one)
        elif event.what == "purge":
            stream.purge(None if other % 2 else f"s.{one}", keep=other // 2)
        elif event.what == "purge_seq":
            self.lives[-1].moved |= stream.first_seq + one > stream.last_seq
            stream.purge(before=stream.first_seq + one)
        elif event.what == "recreate":
            self.server.api.delete("S", self.now)
            self.lives[-1].end()
            if other:
                self.create()
        else:
            raise AssertionError(event)

    def write(self, stream: Stream, subject: str) -> int:
        self.written += 1
        self.now += 1e-5  # no two messages are of the same time
        payload = b"%d of life %d" % (self.written, len(self.lives))
        return stream.append(Publication(subject.encode(), None, payload), self.now)

    def _choose(self, members: int) -> int:
        turns = self.plan.turns
        self.turns += 1
        return turns[self.turns % len(turns)] % members

    # -- the protocol --------------------------------------------------------------------------------------------------

    def cut(self) -> None:
        """The link breaks."""
        if self.link is None:
            return
        self.link.receive_eof()
        self.link = None
        self.up.clear()
        self.down.clear()
        self.client.receive_eof(self.now, "the link broke")

    def step(self) -> None:
        """Let one message travel, or else time pass until somebody does something."""
        if self.client.connect_to is not None:
            self.link = self.server.connect(self.now)
            self.client.connection_made(self.now)
        elif self.link is not None and self.up:
            self.link.receive_data(self.up.popleft(), self.now)
        elif self.link is not None and self.down:
            self.client.receive_data(self.down.popleft(), self.now)
        else:
            deadlines = (self.client.deadline(), self.server.deadline())
            self.now = max(self.now, min(when for when in deadlines if when is not None))
        self.settle()

    def settle(self) -> None:
        """Send what is to be sent, and do what is due."""
        when = self.server.deadline()
        if when is not None and when <= self.now:
            self.server.handle_timeout(self.now)
        when = self.client.deadline()
        if when is not None and when <= self.now:
            self.client.handle_timeout(self.now)
        if self.link is not None:
            self.client.flush()
            if self.client.wants_send(self.now) and (data := b"".join(self.client.data_to_send())):
                self.up.append(data)
            for data in self.link.data_to_send():
                cut = len(data) // 2 if len(data) > 300 else 0
                self.down += [part for part in (data[:cut], data[cut:]) if part]
        for ticket in self.client.take_completed():
            ticket.wake()
        self.client.events()

    # -- reading -------------------------------------------------------------------------------------------------------

    def scene(self, began: Scene | None = None, *, is_session: bool = False) -> Scene:
        """The scene of a read that begins now, or that began so and ends now."""
        if began is None:
            stream = self.stream
            copies = [] if stream is None else [stream, *(one.stream for one in self.server.replicas("S"))]
            spans = []
            if copies:
                life, last = self.lives[-1], min(copy.last_seq for copy in copies)
                spans.append(Span(life, life.since(last), last, life.count, life.last_seq, life.count))
            mirrors = {
                name: Span(life, life.count, 0, life.count, 0, life.count) for name, life in self.mirrors.items()
            }
            return Scene("S", spans, mirrors, self.floor if is_session else 0)
        spans = [_until_now(span) for span in began.spans]
        later = self.lives[self.lives.index(spans[0].life) + 1 :] if spans else self.lives[self._lives_before :]
        spans += [Span(life, 0, 0, 0, 0, life.count) for life in later]
        mirrors = {name: _until_now(span) for name, span in began.mirrors.items()}
        return Scene("S", spans, mirrors, began.floor)

    def read(self, read: Read) -> None:
        """Do a read, and check what comes of it; WrongAnswerError."""
        self._lives_before = len(self.lives)
        is_session = bool(read.session)
        if is_session and len(self.lives) != self._session_life:
            self.session.forget("S")
            self.floor = 0
            self._session_life = len(self.lives)
        began = self.scene(is_session=is_session)
        keywords = self._keywords(read)
        self._events = deque(read.events)
        self._wait = self._events[0][0] if self._events else 0
        self._until, self._steps = self.now + LONGEST, 0
        calm = self._calm() if not read.events else False
        messages: list[StoredMsg] = []
        error: Error | None = None
        up_to: int | None = None
        try:
            if read.verb in ("get_msg", "get_last_msg"):
                messages.append(self._one(read, keywords))
            else:
                up_to = self._many(read, keywords, messages)
        except Error as failed:
            error = failed
        while self._events:  # the next read is of a world in which all has happened
            self.happen(self._events.popleft()[1])
        scene = self.scene(began)
        if is_session and scene.lives_on and messages and read.session != "mirror":
            self.floor = max(self.floor, *(message.seq for message in messages))
        name = "none" if error is None else type(error).__name__
        self.errors.append((("session " if is_session else "") + read.verb, name))
        if isinstance(error, LocalProtocolError):
            return
        try:
            self._check(scene, read, keywords, messages, error, up_to)
        except WrongAnswerError as wrong:
            asked = {name: value for name, value in keywords.items() if value is not None}
            seqs = [message.seq for message in messages]
            raise WrongAnswerError(f"{read.session} {read.verb}({asked}) gave {seqs}, {error!r}: {wrong}") from None
        if calm and name not in (
            "none",
            "MessageNotFoundError",
            "TooManyResultsError",
            "MessagesDroppedError",
            "SnapshotError",
        ):
            raise WrongAnswerError(f"{read.session} {read.verb}({keywords}) failed in a calm world: {error!r}")

    def _calm(self) -> bool:
        stream = self.stream
        return (
            stream is not None and not self.mirrors and self.link is not None
            and all(len(one.stream) == len(stream) and one.stream.last_seq == stream.last_seq and one.lag == Lag()
                    for one in self.server.replicas("S"))
        )  # fmt: skip

    def _keywords(self, read: Read) -> dict[str, Any]:
        """The arguments, in numbers of this world."""
        asked = dict(read.keywords)
        last = self.lives[-1].last_seq
        for name in ("seq", "up_to_seq", "at"):
            if name in asked:
                number = asked[name]
                asked[name] = max(1, number if number > 0 else last + number)
        for name in ("start_time", "at_time", "up_to_time"):
            if name in asked:
                seq = max(1, asked[name] if asked[name] > 0 else last + asked[name])
                message = self.lives[-1].messages.get(seq)
                asked[name] = EPOCH if message is None else message.timestamp or 0
        if "at_time" in asked:  # microseconds are all that a datetime has
            asked["at_time"] = -(-asked["at_time"] // 1000) * 1000
        return asked

    def _tick(self) -> None:
        """One step, and what happens after it."""
        self._steps += 1
        if self._steps > MOST_STEPS or self.now > self._until:
            raise WrongAnswerError(
                f"a read does not end: {self._steps} steps, now {self.now - self._until + LONGEST:g} s"
            )
        while self._events and not self._wait:
            self.happen(self._events.popleft()[1])
            self._wait = self._events[0][0] if self._events else 0
        self._wait -= self._wait > 0
        self.step()

    def _one(self, read: Read, keywords: dict[str, Any]) -> StoredMsg:
        if read.session:
            reads: Any = self.session
            keywords = keywords | {"level": read.session}
        else:
            reads = self.js
        ticket = getattr(reads, read.verb)("S", **keywords, now=self.now, timeout=TIMEOUT)
        self.settle()
        while not ticket.done:
            self._tick()
        message: StoredMsg = ticket.result()
        return message

    def _many(self, read: Read, keywords: dict[str, Any], messages: list[StoredMsg]) -> int | None:
        """Fill ``messages``; the sequence as of which they are, if that is said."""
        keywords = dict(keywords)
        if read.session:
            reads: Any = self.session
            keywords["level"] = read.session
        else:
            reads = self.js
        if "at_time" in keywords:
            keywords["at"] = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=keywords.pop("at_time") // 1000)
        arguments = () if read.verb == "get_batch" else (keywords.pop("subjects"),)
        batch = getattr(reads, read.verb)("S", *arguments, **keywords, now=self.now, timeout=TIMEOUT)
        self.settle()
        if read.verb == "snapshot":
            while not batch.done:
                self._tick()
            batch = batch.result()
        while True:
            messages += batch.pop_many(read.take, self.now)
            ticket = batch.readable()
            if not ticket.done:
                self._tick()
            elif ticket.error is not None:
                raise ticket.error
            elif batch.finished and not (more := batch.pop_many(read.take, self.now)):
                up_to: int | None = batch.up_to_seq
                return up_to
            elif batch.finished:
                messages += more

    def _check(
        self, scene: Scene, read: Read, keywords: dict[str, Any], messages: list[StoredMsg], error: Error | None,
        up_to: int | None,
    ) -> None:  # fmt: skip
        asked = dict(keywords)
        asked.pop("max_bytes", None)
        if read.verb in ("get_msg", "get_last_msg"):
            if read.session == "mirror":
                if messages:
                    self._check_of_mirror(scene, messages[0], asked)
                return
            answer = messages[0] if error is None else error
            assert isinstance(answer, StoredMsg | Error)
            check_one(
                scene, answer, seq=asked.get("seq"), subject=asked.get("subject"), following=asked.get("next", False),
                start_time=asked.get("start_time"), level=read.session or asked.get("level", "direct"),
                is_session=bool(read.session),
            )  # fmt: skip
        elif read.verb == "get_batch":
            check_batch(scene, messages, error, **asked)
        elif "at" in asked or "at_time" in asked:
            at = asked.get("at") or _last_before(scene, asked["at_time"], up_to)
            check_as_of(scene, messages, error, subjects=asked["subjects"], at=at)
        elif "up_to_seq" in asked or "up_to_time" in asked:
            check_weak(scene, messages)
        else:
            check_last_of_each(
                scene, messages, error, subjects=asked["subjects"], up_to=up_to, batch=asked.get("batch"),
                is_snapshot=read.verb == "snapshot",
            )  # fmt: skip

    def _check_of_mirror(self, scene: Scene, message: StoredMsg, asked: dict[str, Any]) -> None:
        """A mirror, or the stream, has it, and nothing newer is known that is still there."""
        check_weak(scene, [message])
        subject = asked.get("subject")
        if subject is None or asked.get("next") or not scene.lives_on or message.subject != subject:
            return
        span = scene.spans[0]
        known = [
            seq
            for seq in span.life.matching(subject, message.seq + 1, scene.floor)
            if span.life.stays(seq, span.low, span.high)
        ]
        if known:
            raise WrongAnswerError(f"{message!r} is older than {known[-1]}, which the session knows")


def _until_now(span: Span) -> Span:
    return Span(span.life, span.low, span.last, span.began, span.leader_last, span.life.count)


def _last_before(scene: Scene, time: int, said: int | None) -> int:
    """The last sequence before a time; what they ``said`` where that time was not over yet when they began."""
    if not scene.spans:
        return 0
    span = scene.spans[0]
    before = [seq for seq, message in span.life.messages.items() if (message.timestamp or 0) < time]
    known = max((seq for seq in before if span.life.is_known(seq, span.began)), default=0)
    at_most = max(before, default=0)
    return min(max(known, said or 0), at_most)
