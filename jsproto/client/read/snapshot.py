"""A snapshot: the last message of any number of subjects, at one sequence of the stream.

How it works, at the stream's end:

1. A server shows 1,024 subjects in one answer, and an answer shows one moment. More subjects take several answers, each
   of a moment of its own.
2. Then all messages written since the first answer are read, to the end. A subject that was overwritten meanwhile comes
   again there, with its newer message.
3. Where that read ends, the last message of each subject has been seen. So writers cost time, and nothing else.

Messages that did not fit into an answer are requested by subject, never from a sequence on. A message that is deleted
uncovers an older one of its subject.

How it works, at an earlier sequence:

1. Each answer is requested up to that sequence, together with a witness: the last message that the leader has up to
   there. A replica that lags cannot show it.
2. A subject without an answer has to be shown to be newer than that sequence.
3. Where its messages may have been overwritten, the snapshot fails. A stream that keeps too little history has no
   snapshots of its past.

Rules:

* From 2.12 on one answer about a few subjects is all (``at_once``). A script goes on only where the answer has a rest.
* Messages are given out when all have come. So a snapshot needs memory for the messages that it shows.
* It reads on inside the inputs that bring its answers. Its attributes only say how far it is: anyone may look.
* Purges, deletions and what limits drop have no sequence. A subject that loses a message to them meanwhile may show
  that message, an older one, or none.
* A rollup of the whole stream replaces the messages of all subjects. It is followed where it is read, and fails a
  snapshot at an earlier sequence.
* The stream itself is read, never a mirror of it (``direct``).

Not here: messages written after the sequence, and messages that the stream dropped before the read began.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Protocol, Unpack

from jsproto.client.connection.script_runner import Abandoned
from jsproto.client.read.direct import DirectBatch
from jsproto.client.read.feed import PAGE_BYTES, check_bounds
from jsproto.client.read.multi import MAX_SUBJECTS, LastAnswer, checked_subjects
from jsproto.client.read.past import Past, rolls_up_all
from jsproto.client.read.read_options import AnswerOptions
from jsproto.client.read.subject_list import (
    GROUP_BYTES,
    LARGEST_IN_JSON,
    TIMES_LISTED,
    SubjectList,
    is_literal,
    matcher,
)
from jsproto.errors import (
    Error,
    IncompleteBatchError,
    RemoteProtocolError,
    SnapshotError,
    StaleReadError,
    StreamRecreatedError,
    TooManyResultsError,
)
from jsproto.grammar.config import ServerInfo, StreamInfo
from jsproto.grammar.position import StreamPosition
from jsproto.grammar.stored import StoredMsg
from jsproto.grammar.times import Point
from jsproto.rules.position import StreamFacts, Verdict, judge
from jsproto.ticket import Live, Ticket

if TYPE_CHECKING:
    from jsproto.client.read.reads import Reads

CATCH_UP_BYTES: Final = 64 * 1024  # asked for at once, at least, so that a few writers are not faster
MOST_WRITTEN: Final = 1_000_000  # messages that may be written while a snapshot is read
_AT_ONCE: Final = 4096  # messages taken at once of what was written meanwhile
_HOLDS_WRITES_BACK: Final = "2.12"  # the server that answers as of one moment
_NO_LIMIT: Final = 1 << 62
_SEQ: Final = attrgetter("seq")


class SnapshotGuard(Protocol):
    """What a session demands of a snapshot."""

    def proof(self, now: float) -> Ticket[None] | None:
        """The proof of the session's position, if one is owed."""

    def doubt(self) -> None:
        """No server has come to the session's position: the next read asks the leader why."""


class Snapshot(Live):
    """The last messages of subjects, in the order of the stream. Its verbs are those of ``DirectBatch``.

    Example:

        read = wait(js.snapshot("ORDERS", ["orders.>"], now=now()))
        while (found := read.pop_many(100, now())) or not read.finished:
            if not found:
                wait(read.readable())

    Attribute: ``stream``, its name.
    """

    __slots__ = (
        "_at_once",
        "_closed",
        "_first",
        "_js",
        "_last_seq",
        "_least",
        "_list",
        "_max_bytes",
        "_most",
        "_read",
        "_ready",
        "_shows_one_moment",
        "_timeout",
        "_up_to_seq",
        "_wanted",
        "_work",
        "stream",
    )  # fmt: skip

    def __init__(
        self,
        js: Reads,
        stream: str,
        subjects: str | Iterable[str],
        *,
        now: float,
        at: Point | None = None,
        most: int | None = None,
        at_once: bool = False,
        least: int = 0,
        max_bytes: int | None = None,
        timeout: float = 5.0,
        guard: SnapshotGuard | None = None,
    ) -> None:
        """Read the last message of each of ``subjects`` (wildcards allowed).

        * ``at``: up to that sequence (an int), or before that time (a datetime). None: up to the leader's last sequence
          now, or later.
        * ``most``: at most so many messages, the first in the order of the stream.
        * ``at_once``: what the server that answers has, without a question to the leader.
        * ``least``: a sequence that the answer must have reached.
        * ``max_bytes``: of one page, 8 MiB when None. ``timeout``: seconds for each step.
        * ``guard``: what a session demands besides.

        The read fails with:
            SnapshotError: the stream keeps too little history, or is written faster than it can be read.
            TooManyResultsError: ``at_once``, and more than ``MAX_SUBJECTS`` subjects match.
            StaleReadError: no server reached ``least`` within ``timeout``.
            StreamRecreatedError: the stream was deleted and created anew between two answers.
            LocalProtocolError: ``at`` is no sequence, or after the stream's last one.
            Error: as ``DirectBatch`` and ``JetStream.get_msg``.

        Raises:
            LocalProtocolError: an argument is out of its range.
        """
        self.stream = stream
        self._js = js
        self._wanted = wanted = checked_subjects(subjects)
        check_bounds(most, max_bytes, timeout)
        self._most = most
        self._at_once = at_once
        self._least = least
        self._max_bytes = PAGE_BYTES if max_bytes is None else max_bytes
        self._timeout = timeout
        js.session.note(now)
        self._closed = False
        self._read: DirectBatch | None = None
        self._ready: deque[StoredMsg] = deque()
        self._up_to_seq: int | None = None
        self._last_seq = 0
        self._list: SubjectList
        self._first: LastAnswer  # set where one answer may be all
        self._work: Ticket[None] = Ticket()
        self._shows_one_moment = _holds_writes_back(js.session.server)
        if at_once and at is None and guard is None and not least and self._fits_one_answer:
            self._read = self._first = LastAnswer(
                js.session, stream, wanted, api=js.api, inbox=js.session.new_inbox(), draw=js.session.draw, now=now,
                batch=most, max_bytes=max_bytes, timeout=timeout, on_end=self._first_ended,
            )  # fmt: skip
        else:
            script = self._read_now() if at is None else self._read_at(at)
            self._begin(script if guard is None else self._guarded(script, guard))

    # -- the verbs -----------------------------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether all messages came and were taken."""
        return self._closed or (self._work.done and self._work.error is None and not self._ready)

    @property
    def error(self) -> Error | None:
        """Why it cannot be had. None while it is read, and after a success."""
        return self._work.error

    @property
    def up_to_seq(self) -> int | None:
        """The sequence of the stream that it shows. None while it is read."""
        return self._up_to_seq

    @property
    def num_pending(self) -> int | None:
        """Messages that were not taken yet. None while it is read."""
        return len(self._ready) if self._work.done else None

    @property
    def last_seq(self) -> int:
        """The sequence of its last message. 0 before there is one."""
        return self._last_seq

    def pop_many(self, most: int, now: float) -> list[StoredMsg]:
        """Take up to ``most`` messages, in the order of the stream."""
        ready = self._ready
        return [ready.popleft() for _ in range(min(most, len(ready)))]

    def readable(self) -> Ticket[None]:
        """Completed when all messages are there. Fails with why they cannot be had."""
        return self._work

    def close(self, now: float) -> None:
        """Stop reading. Messages that were not taken are dropped."""
        self._closed = True
        self._ready.clear()
        if self._read is not None:
            self._read.close(now)

    def abandon(self, now: float) -> None:
        self.close(now)

    def whole(self) -> Generator[Ticket[Any], Any, Snapshot]:
        """A script: wait until all messages are there."""
        try:
            yield self._work
        except Abandoned:
            self.close(self._js.session.now)
            raise
        return self

    # -- one answer ----------------------------------------------------------------------------------------------------

    @property
    def _fits_one_answer(self) -> bool:
        """Whether one request can ask for what is wanted, and its answer is as of one moment."""
        wanted, most = self._wanted, min(GROUP_BYTES, self._js.session.max_payload // 2)
        is_small = len(wanted) <= MAX_SUBJECTS and LARGEST_IN_JSON * sum(map(len, wanted)) <= most
        return is_small and self._shows_one_moment

    def _first_ended(self) -> None:
        """The first answer has come, has failed or was closed. It is all, unless it has a rest: a script reads that."""
        first = self._first
        if first.error is not None:
            self._work.fail(first.error)
        elif first.rest:
            self._begin(self._read_now(first))
            return
        else:
            self._give(first.pop_many(_NO_LIMIT, self._js.session.now), first.up_to_seq)
            self._work.succeed(None)
        self._js.session.completed(self._work)

    def _begin(self, script: Generator[Ticket[Any], Any, None]) -> None:
        """Read by a script."""
        self._list = SubjectList(self._js, self.stream, self._wanted, timeout=self._timeout)
        self._js.session.scripts.run(script, self._work)

    def _guarded(
        self, script: Generator[Ticket[Any], Any, None], guard: SnapshotGuard
    ) -> Generator[Ticket[Any], Any, None]:
        """``script``, once the session's position is proved."""
        proof = guard.proof(self._js.session.now)
        if proof is not None:
            yield proof
        try:
            yield from script
        except StaleReadError:
            guard.doubt()
            raise

    # -- as of now -----------------------------------------------------------------------------------------------------

    def _read_now(self, first: LastAnswer | None = None) -> Generator[Ticket[Any], Any, None]:
        """``first``: the first answer, if it has come."""
        info: StreamInfo | None = None
        if not self._at_once:
            info = yield self._state()
        least = self._least if info is None else info.state.last_seq
        shown = _Shown(least, self._max_bytes, None if info is None else info.created)
        groups: deque[Sequence[str]] = deque([self._wanted])
        if not self._list.fits_one_request:
            groups = yield from self._groups()
        refused = 0
        while groups:
            group = groups.popleft()
            try:
                groups.extendleft((yield from self._read_group(group, shown, first, is_last=not groups)))
                first = None
            except TooManyResultsError:
                refused += 1
                if self._at_once or refused > TIMES_LISTED:
                    raise
                groups = yield from self._groups()
        if self._list.listed_at is None and len(shown.moments) == 1 and self._shows_one_moment:
            self._give(shown.parts[0], max(least, *shown.moments))
            return
        if self._list.listed_at is not None:
            shown.moments.append(self._list.listed_at)
        by_subject = shown.by_subject()
        rollups = info is None or bool(info.config.allow_rollup_hdrs)
        up_to = yield from self._catch_up(by_subject, min(shown.moments), max(least, *shown.moments), rollups)
        yield from self._check_identity(shown.created, shown.oldest())
        self._give(by_subject.values(), up_to)

    def _groups(self) -> Generator[Ticket[Any], Any, deque[Sequence[str]]]:
        """All that is wanted, by name."""
        return deque(self._list.in_groups((yield from self._list.names())))

    def _read_group(
        self, group: Sequence[str], shown: _Shown, answer: LastAnswer | None, *, is_last: bool
    ) -> Generator[Ticket[Any], Any, list[Sequence[str]]]:
        """Ask for ``group``. Returns what did not fit into the answer, in groups, the last one first.

        ``answer``: where it has come already. ``is_last``: no other group is to come.
        """
        is_whole = is_last and not shown.moments and self._list.listed_at is None and self._shows_one_moment
        most = self._most if is_whole else None
        if answer is None:
            answer = self._answer(
                group, least=max([shown.least, *shown.moments]), created=shown.created, batch=most, max_bytes=shown.room
            )
            yield from self._wait_for(answer)
        messages = answer.pop_many(_NO_LIMIT, self._js.session.now)
        shown.add(answer, messages)
        if not answer.rest:
            return []
        if not messages:
            shown.make_room(answer.rest)
        if len(messages) == most:
            return []
        names = group if all(map(is_literal, group)) else (yield from self._list.names())
        by_subject = shown.by_subject()
        return self._list.in_groups([name for name in names if name not in by_subject])[::-1]

    def _catch_up(
        self, shown: dict[str, StoredMsg], begun: int, up_to: int, rollups: bool
    ) -> Generator[Ticket[Any], Any, int]:
        """Read the messages written after ``begun``. Returns the sequence that ``shown`` is complete up to.

        ``rollups``: a message, of any subject, may replace all before it.
        """
        alone = self._wanted[0] if len(self._wanted) == 1 and not rollups else None
        is_wanted = matcher(self._wanted)
        read = DirectBatch(
            self._js.session, self.stream, api=self._js.api, inbox=self._js.session.new_inbox(),
            draw=self._js.session.draw, now=self._js.session.now,
            seq=begun + 1, subject=alone, at_least=up_to,
            max_bytes=max(self._max_bytes, CATCH_UP_BYTES), timeout=self._timeout,
        )  # fmt: skip
        self._read = read
        count = 0
        while messages := (yield from self._next_of(read)):
            count += len(messages)
            for each in messages:
                if rollups and rolls_up_all(each):
                    for name in [name for name, old in shown.items() if old.seq < each.seq]:
                        del shown[name]
                if is_wanted(each.subject):
                    shown[each.subject] = each
            if count > MOST_WRITTEN:
                read.close(self._js.session.now)
                raise SnapshotError("the stream is written faster than it can be read", read.last_seq)
        return max(up_to, read.last_seq)

    def _check_identity(self, created: int | None, oldest: int) -> Generator[Ticket[Any], Any, None]:
        """The stream has to be the one that was ``created`` then, was listed, and had a message of ``oldest``."""
        now: StreamInfo = yield self._state()
        for made in {None, created, self._list.created}:
            self._check_same(now, made, oldest)

    def _check_same(self, now: StreamInfo, created: int | None, oldest: int | None = None) -> None:
        """StreamRecreatedError unless ``now`` is of the stream that was ``created`` then, and had a message of then."""
        identity = None if created is None else str(created)
        if judge(StreamPosition(self.stream, 0, identity, oldest), StreamFacts.of(now)) is Verdict.RECREATED:
            raise StreamRecreatedError(self.stream)

    # -- as of an earlier sequence -------------------------------------------------------------------------------------

    def _read_at(self, at: Point) -> Generator[Ticket[Any], Any, None]:
        past = Past(self._js, self.stream, self._list, timeout=self._timeout)
        info: StreamInfo = yield self._state()
        up_to = yield from past.sequence_at(at, info)
        if not up_to:
            self._give((), 0)
            return
        witness = yield from past.last_until(up_to)
        past.check_gap(info, witness[1], up_to)
        names = yield from self._list.names()
        shown: dict[str, StoredMsg] = {}
        groups = deque(self._list.in_groups(names) if witness[1] else ())
        while groups:
            group = groups.popleft()
            alone = len(group) == 1
            answer = self._answer(
                group, up_to_seq=up_to, shows=witness, created=info.created,
                max_bytes=_NO_LIMIT if alone else self._max_bytes,
            )  # fmt: skip
            try:
                yield from self._wait_for(answer)
            except IncompleteBatchError as error:
                if self._closed or error.__cause__ is not None:  # the connection has ended
                    raise
                raise SnapshotError(str(error), up_to) from error
            if answer.rest and not alone:
                half = len(group) // 2
                groups.extendleft([group[half:], group[:half]])
                continue
            shown.update((each.subject, each) for each in answer.pop_many(_NO_LIMIT, self._js.session.now))
        now: StreamInfo = yield self._state()
        self._check_same(now, info.created)
        yield from past.check_rollup(now, up_to)
        first_seqs = info.state.first_seq, now.state.first_seq
        yield from past.explain(
            [name for name in names if name not in shown], now, first_seqs[0] < first_seqs[1], up_to
        )
        self._give(shown.values(), up_to)

    # -- steps of both -------------------------------------------------------------------------------------------------

    def _state(self) -> Ticket[StreamInfo]:
        self._check_open()
        return self._js.subjects(self.stream, None, now=self._js.session.now, timeout=self._timeout)

    def _check_open(self) -> None:
        """IncompleteBatchError, which ends the script, when this was closed."""
        if self._closed:
            raise IncompleteBatchError("the reader was closed", 0)

    def _answer(self, group: Sequence[str], **options: Unpack[AnswerOptions]) -> LastAnswer:
        """Ask for the last messages of ``group``."""
        self._check_open()
        answer = LastAnswer(
            self._js.session, self.stream, group, api=self._js.api, inbox=self._js.session.new_inbox(),
            draw=self._js.session.draw, now=self._js.session.now,
            timeout=self._timeout, **options,
        )  # fmt: skip
        self._read = answer
        return answer

    def _wait_for(self, read: DirectBatch) -> Generator[Ticket[Any], Any, None]:
        """Wait until ``read`` has a message or has ended. Fails as it does, or when this is closed.

        Raises:
            StaleReadError: the servers had not come to what this has to show at least.
        """
        try:
            yield read.readable()
        except IncompleteBatchError:
            if read.come_to is not None and read.come_to < self._least:
                raise StaleReadError(self.stream, self._least, read.come_to) from None
            raise
        self._check_open()

    def _next_of(self, read: DirectBatch) -> Generator[Ticket[Any], Any, list[StoredMsg]]:
        """The next messages of ``read``. Empty at its end."""
        while not (messages := read.pop_many(_AT_ONCE, self._js.session.now)) and not read.finished:
            yield from self._wait_for(read)
        return messages

    def _give(self, messages: Iterable[StoredMsg], up_to: int | None) -> None:
        self._up_to_seq = up_to
        if not self._closed:
            in_order = sorted(messages, key=_SEQ)
            self._ready.extend(in_order[: self._most])
            self._last_seq = self._ready[-1].seq if self._ready else 0


class _Shown:
    """What answers have shown, one after the other.

    Attributes:

    * ``parts``: the messages of each answer. ``moments``: each is as of this sequence, or of a later one.
    * ``created``: when the stream was created, in nanoseconds since the epoch. None while nobody has said.
    * ``least``: the sequence that all have to have come to. ``room``: bytes of the next answer.
    """

    __slots__ = ("_unnamed", "created", "least", "moments", "parts", "room")

    def __init__(self, least: int, room: int, created: int | None) -> None:
        self.least = least
        self.room = room
        self.created = created
        self.parts: list[list[StoredMsg]] = []
        self.moments: list[int] = []
        self._unnamed: list[tuple[int | None, list[StoredMsg]]] = []  # of servers that did not say of which stream

    def add(self, answer: LastAnswer, messages: list[StoredMsg]) -> None:
        """An answer has come."""
        assert answer.up_to_seq is not None  # it has ended
        self.parts.append(messages)
        self.moments.append(answer.up_to_seq)
        self.created = answer.created
        if self.created is None:
            self._unnamed.append((answer.witnessed_at, messages))

    def make_room(self, rest: int) -> None:
        """A witness took all the room of an answer, and ``rest`` messages are left.

        Raises:
            RemoteProtocolError: nothing limited the answer.
        """
        if self.room >= _NO_LIMIT:
            raise RemoteProtocolError(f"an answer shows nothing, and says that {rest} are left")
        self.room *= 2

    def by_subject(self) -> dict[str, StoredMsg]:
        """The latest message that was shown of each subject."""
        return {each.subject: each for part in self.parts for each in part}

    def oldest(self) -> int:
        """When the oldest message was stored that came before the leader said when the stream was created."""
        times = [_NO_LIMIT]
        for witnessed_at, messages in self._unnamed:
            times += [witnessed_at or _NO_LIMIT, *(each.timestamp for each in messages)]
        return min(times)


def _holds_writes_back(server: ServerInfo | None) -> bool:
    """Whether an answer is as of one moment."""
    return server is None or not server.is_before(_HOLDS_WRITES_BACK)
