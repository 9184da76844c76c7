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

* Messages are given out when all have come. So a snapshot needs memory for the messages that it shows.
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
from typing import TYPE_CHECKING, Any, Final, Unpack

from jsproto.client.connection.script_runner import Abandoned
from jsproto.client.read.direct import DirectBatch
from jsproto.client.read.multi import LastAnswer, checked_subjects
from jsproto.client.read.options import AnswerOptions
from jsproto.client.read.page import PAGE_BYTES, check_bounds
from jsproto.client.read.subject_list import TIMES_LISTED, SubjectList, is_literal, matcher
from jsproto.errors import (
    Error,
    IncompleteBatchError,
    LocalProtocolError,
    MessageNotFoundError,
    RemoteProtocolError,
    SnapshotError,
    StaleReadError,
    StreamRecreatedError,
    TooManyResultsError,
)
from jsproto.grammar.position import StreamPosition
from jsproto.grammar.publish_headers import ROLLUP
from jsproto.grammar.stored import StoredMsg, check_seq
from jsproto.grammar.times import instant
from jsproto.rules.position import StreamFacts, Verdict, judge
from jsproto.ticket import Live, Ticket

if TYPE_CHECKING:
    from jsproto.client.read.api import Reads
    from jsproto.grammar.config import StreamInfo
    from jsproto.grammar.times import Point

CATCH_UP_BYTES: Final = 64 * 1024  # asked for at once, at least, so that a few writers are not faster
MOST_WRITTEN: Final = 1_000_000  # messages that may be written while a snapshot is read
_AT_ONCE: Final = 4096  # messages taken at once of what was written meanwhile
_HOLDS_WRITES_BACK: Final = "2.12"  # the server that answers as of one moment
_NO_LIMIT: Final = 1 << 62


class Snapshot(Live):
    """The last messages of subjects, in the order of the stream. Its verbs are those of ``DirectBatch``.

    Attribute: ``stream``, its name.
    """

    __slots__ = (
        "_at_once",
        "_began",
        "_closed",
        "_js",
        "_last_seq",
        "_least",
        "_list",
        "_max_bytes",
        "_most",
        "_read",
        "_ready",
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
    ) -> None:
        """Read the last message of each of ``subjects`` (wildcards allowed).

        * ``at``: up to that sequence (an int), or before that time (a datetime). None: up to the leader's last sequence
          now, or later.
        * ``most``: at most so many messages, the first in the order of the stream.
        * ``at_once``: what the server that answers has, without a question to the leader.
        * ``least``: a sequence that the answer must have reached.
        * ``max_bytes``: of one page, 8 MiB when None. ``timeout``: seconds for each step.

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
        self._began = now
        self._list = SubjectList(js, stream, wanted, now=lambda: self._now, timeout=timeout)
        self._closed = False
        self._read: DirectBatch | None = None
        self._ready: deque[StoredMsg] = deque()
        self._up_to_seq: int | None = None
        self._last_seq = 0
        script = self._read_now() if at is None else self._read_at(at)
        self._work: Ticket[None] = js.session.run(script)

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
        """As in ``Live``."""
        self.close(now)

    def whole(self) -> Generator[Ticket[Any], Any, Snapshot]:
        """A script: wait until all messages are there."""
        try:
            yield self._work
        except Abandoned:
            self.close(self._now)
            raise
        return self

    # -- as of now -----------------------------------------------------------------------------------------------------

    def _read_now(self) -> Generator[Ticket[Any], Any, None]:
        info: StreamInfo | None = None
        if not self._at_once:
            info = yield self._state()
        least = info.state.last_seq if info is not None else self._least
        created = info.created if info is not None else None
        server = self._js.session.server
        shows_one_moment = server is None or not server.is_before(_HOLDS_WRITES_BACK)
        shown: dict[str, StoredMsg] = {}
        moments: list[int] = []  # each answer is as of this sequence, or of a later one
        oldest = _NO_LIMIT  # when the oldest message that was shown was stored
        room = self._max_bytes
        refused = 0
        groups: deque[Sequence[str]] = deque([self._wanted])
        if not self._list.fits_one_request:
            groups = deque(self._list.in_groups((yield from self._list.names())))
        while groups:
            group = groups.popleft()
            is_whole = shows_one_moment and not moments and not groups and self._list.listed_at is None
            most = self._most if is_whole else None
            answer = self._answer(group, least=max([least, *moments]), created=created, batch=most, max_bytes=room)
            try:
                yield from self._wait_for(answer)
            except TooManyResultsError:
                refused += 1
                if self._at_once or refused > TIMES_LISTED:
                    raise
                groups = deque(self._list.in_groups((yield from self._list.names())))
                continue
            messages = self._messages_of(answer, group)
            created = answer.created
            if created is None:
                oldest = min([oldest, answer.witnessed_at or oldest, *(each.timestamp for each in messages)])
            shown.update((each.subject, each) for each in messages)
            assert answer.up_to_seq is not None  # it has ended
            moments.append(answer.up_to_seq)
            if answer.rest and not messages:  # a witness took all the room
                if room >= _NO_LIMIT:
                    raise RemoteProtocolError(f"an answer shows nothing, and says that {answer.rest} are left")
                room *= 2
            if answer.rest and len(messages) != most:
                names = group if all(map(is_literal, group)) else (yield from self._list.names())
                groups.extendleft(reversed(self._list.in_groups([name for name in names if name not in shown])))
        if self._list.listed_at is not None:
            moments.append(self._list.listed_at)
        up_to = max(least, *moments)
        if len(moments) > 1 or self._list.listed_at is not None or not shows_one_moment:
            rollups = info is None or bool(info.config.allow_rollup_hdrs)
            up_to = yield from self._catch_up(shown, min(moments), up_to, rollups)
            yield from self._check_identity(created, oldest)
        self._give(shown, up_to)

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
            draw=self._js.session.draw, now=self._now,
            seq=begun + 1, subject=alone, at_least=up_to,
            max_bytes=max(self._max_bytes, CATCH_UP_BYTES), timeout=self._timeout,
        )  # fmt: skip
        self._read = read
        count = 0
        while messages := (yield from self._next_of(read)):
            count += len(messages)
            for each in messages:
                if rollups and _rolls_up_all(each):
                    for name in [name for name, old in shown.items() if old.seq < each.seq]:
                        del shown[name]
                if is_wanted(each.subject):
                    shown[each.subject] = each
            if count > MOST_WRITTEN:
                read.close(self._now)
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
        info: StreamInfo = yield self._state()
        up_to = yield from self._sequence_at(at, info)
        if not up_to:
            self._give({}, 0)
            return
        witness = yield from self._last_until(up_to)
        self._check_gap(info, witness[1], up_to)
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
            shown.update((each.subject, each) for each in self._messages_of(answer, group))
        now: StreamInfo = yield self._state()
        self._check_same(now, info.created)
        yield from self._check_rollup(now, up_to)
        first_seqs = info.state.first_seq, now.state.first_seq
        yield from self._explain(
            [name for name in names if name not in shown], now, first_seqs[0] < first_seqs[1], up_to
        )
        self._give(shown, up_to)

    def _check_gap(self, info: StreamInfo, last: int, up_to: int) -> None:
        """Check that a replica that lags cannot show what was overwritten. ``last``: the sequence of the witness.

        Replicas of streams on disk show nothing up to a sequence that they have not reached. Those in memory do.

        Raises:
            SnapshotError: a replica that has come to ``last`` only might answer.
        """
        config = info.config
        forgets = (config.max_msgs_per_subject or 0) > 0 or config.allow_rollup_hdrs
        if last < up_to and forgets and config.storage == "memory" and (config.num_replicas or 1) > 1:
            raise SnapshotError(
                f"message {up_to} is gone, and a replica in memory does not say that it has not come so far", up_to
            )

    def _check_rollup(self, info: StreamInfo, up_to: int) -> Generator[Ticket[Any], Any, None]:
        """SnapshotError where the stream begins with a rollup of all subjects that is newer than ``up_to``."""
        if not info.config.allow_rollup_hdrs or info.state.first_seq <= up_to or not info.state.messages:
            return
        try:
            first: StoredMsg = yield self._js.get_msg(
                self.stream, info.state.first_seq, level="leader", now=self._now, timeout=self._timeout
            )
        except MessageNotFoundError:
            return  # dropped just now: deletions have no sequence
        if _rolls_up_all(first):
            raise SnapshotError(f"message {first.seq} has replaced all messages before it", up_to)

    def _explain(
        self, missing: list[str], info: StreamInfo, is_dropping: bool, up_to: int
    ) -> Generator[Ticket[Any], Any, None]:
        """Show that subjects which did not come are newer, or gone.

        ``is_dropping``: the stream lost its first messages meanwhile.

        Raises:
            SnapshotError: it cannot be shown of one.
        """
        config, state = info.config, info.state
        if not missing or state.messages == state.last_seq:
            return  # nothing was ever removed: what did not come is newer
        kept = config.max_msgs_per_subject or 0
        counts = yield from self._list.counts()
        for name in missing:
            count = counts.get(name, 0)
            if not count:
                continue
            is_doubtful = is_dropping or 0 < kept <= count
            if not is_doubtful and config.allow_rollup_hdrs:
                is_doubtful = yield from self._was_rolled_up(name)
            if is_doubtful:
                limit = f"; max_msgs_per_subject is {kept}" if kept else ""
                raise SnapshotError(f"{name} may have been overwritten since, or before it was read{limit}", up_to)

    def _was_rolled_up(self, name: str) -> Generator[Ticket[Any], Any, bool]:
        """Whether the first message of a subject took the place of those before it, or is gone again."""
        try:
            first: StoredMsg = yield self._js.get_msg(
                self.stream, subject=name, next=True, level="leader", now=self._now, timeout=self._timeout
            )
        except MessageNotFoundError:
            return True
        return ROLLUP in first.headers

    def _sequence_at(self, at: Point, info: StreamInfo) -> Generator[Ticket[Any], Any, int]:
        """The last sequence that belongs to the snapshot."""
        if not isinstance(at, int) and info.ts is not None and instant(at) > info.ts:
            raise LocalProtocolError("at is later than the server's clock: nobody knows the stream of then yet")
        last_seq = info.state.last_seq
        if isinstance(at, int):
            check_seq(at, "at")
            if at > last_seq:
                raise LocalProtocolError(f"the stream ends at sequence {last_seq}: nobody knows it at {at} yet")
            return at
        try:
            first: StoredMsg = yield self._js.get_msg(
                self.stream, start_time=at, level="leader", now=self._now, timeout=self._timeout
            )
        except MessageNotFoundError:
            return last_seq
        return first.seq - 1

    def _last_until(self, seq: int) -> Generator[Ticket[Any], Any, tuple[str, int]]:
        """Subject and sequence of the leader's last message up to ``seq``. The sequence is 0 without one."""
        low, subject, high = 0, "", seq
        step = 0
        while low < high:  # (high, seq] is empty: first by steps that double, then by halves
            guess = (low + high + 1) // 2 if low else max(high - step, 1)
            found: StoredMsg | None
            try:
                found = yield self._js.get_msg(
                    self.stream, guess, next=True, level="leader", now=self._now, timeout=self._timeout
                )
            except MessageNotFoundError:
                found = None
            if found is not None and found.seq < guess:
                raise RemoteProtocolError(f"message {found.seq} where the next from {guess} on was asked for")
            if found is not None and found.seq <= seq:
                low, subject = found.seq, found.subject
            else:
                high = guess - 1
                step = 2 * step + 1
        return subject, low

    # -- steps of both -------------------------------------------------------------------------------------------------

    def _state(self) -> Ticket[StreamInfo]:
        self._check_open()
        return self._js.subjects(self.stream, None, now=self._now, timeout=self._timeout)

    @property
    def _now(self) -> float:
        return max(self._began, self._js.session.now)

    def _check_open(self) -> None:
        """IncompleteBatchError, which ends the script, when this was closed."""
        if self._closed:
            raise IncompleteBatchError("the reader was closed", 0)

    def _answer(self, group: Sequence[str], **options: Unpack[AnswerOptions]) -> LastAnswer:
        """Ask for the last messages of ``group``."""
        self._check_open()
        answer = LastAnswer(
            self._js.session, self.stream, group, api=self._js.api, inbox=self._js.session.new_inbox(),
            draw=self._js.session.draw, now=self._now,
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

    def _messages_of(self, answer: LastAnswer, group: Sequence[str]) -> list[StoredMsg]:
        """The messages of an answer about ``group``.

        Raises:
            RemoteProtocolError: one is of another subject.
        """
        messages = answer.pop_many(_NO_LIMIT, self._now)
        is_asked = matcher(group)
        for each in messages:
            if not is_asked(each.subject):
                raise RemoteProtocolError(f"the last message of {each.subject}, which was not asked for")
        return messages

    def _next_of(self, read: DirectBatch) -> Generator[Ticket[Any], Any, list[StoredMsg]]:
        """The next messages of ``read``. Empty at its end."""
        while not (messages := read.pop_many(_AT_ONCE, self._now)) and not read.finished:
            yield from self._wait_for(read)
        return messages

    def _give(self, shown: dict[str, StoredMsg], up_to: int) -> None:
        self._up_to_seq = up_to
        if not self._closed:
            messages = sorted(shown.values(), key=lambda each: each.seq)
            self._ready.extend(messages[: self._most])
            self._last_seq = self._ready[-1].seq if self._ready else 0


def _rolls_up_all(message: StoredMsg) -> bool:
    """Whether it replaced all messages before it, of any subject."""
    return ROLLUP.encode() in message.raw_headers and (message.headers.get(ROLLUP) or "").lower() == "all"
