"""A snapshot: the last message of any number of subjects, as of one sequence of the stream.

A server answers for 1,024 subjects at once, so a snapshot is read in groups, all up to the same sequence. Any replica
may answer a group, and one that has not got there yet would answer with older messages and not say so. Therefore each
group is asked for together with a witness: the subject of the last message that the leader has up to that sequence.
An answer that ends with the witness was given by a replica that has everything up to there; any other is dropped and
asked for again.

Rules: a group is given out only when it is whole, was answered in one piece and has shown the witness. A group that
does not fit into ``page_bytes`` is split. Every subject that the stream listed must come, unless it is newer than that
sequence: a server states the sequence first and lists the subjects then. One that does not come is taken for newer if
the stream has removed nothing since the snapshot began; else it may have been overwritten or deleted, and the snapshot
fails (streams that keep too little history cannot be read as of a moment that is over).

Not here: what is written after the sequence, and what the stream had forgotten before the snapshot began.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from jsproto.client.backlog import Backlog
from jsproto.client.direct import ASK_AGAIN, PAGE_BYTES, DirectBatch
from jsproto.client.gets import check_seq
from jsproto.client.multi import MAX_SUBJECTS, checked_subjects
from jsproto.errors import IncompleteBatchError, LocalProtocolError, MessageNotFoundError, SnapshotError
from jsproto.grammar.headers import last_value
from jsproto.grammar.stored import StoredMsg
from jsproto.outbox import Outbox
from jsproto.ticket import Ticket
from jsproto.timers import Timer

if TYPE_CHECKING:
    from jsproto.client.reading import Reads
    from jsproto.grammar.config import StreamInfo, StreamState
    from jsproto.grammar.times import Point

GROUP: Final = MAX_SUBJECTS - 1  # and the witness
GROUP_BYTES: Final = 256 * 1024  # of subjects in one request
LONGEST_WAIT: Final = 0.5  # seconds between two questions to replicas that are behind
TRIES: Final = 4  # of a group whose answers break off
_NO_LIMIT: Final = 1 << 62


class Snapshot(DirectBatch):
    """One snapshot being read: group by group, in each group in the order of the stream."""

    __slots__ = (
        "_done", "_group", "_removed", "_required", "_size", "_subjects", "_tries", "_up_to_seq", "_waited", "_witness",
    )  # fmt: skip

    def __init__(
        self,
        outbox: Outbox,
        stream: str,
        subjects: Sequence[str],
        *,
        up_to_seq: int,
        witness: tuple[str, int],
        required: Collection[str],
        removed: int,
        api_subject: str,
        info_subject: str,
        inbox: str,
        now: float,
        page_bytes: int = PAGE_BYTES,
        timeout: float = 5.0,
    ) -> None:
        """Ask ``api_subject`` for the last messages of ``subjects``, none of which has a wildcard, up to ``up_to_seq``.

        ``witness``: subject and sequence of the last message up to there. ``required``: subjects that must come, unless
        the stream, which tells its state at ``info_subject``, has still ``removed`` that many messages.
        """
        self._subjects = subjects
        self._up_to_seq = up_to_seq
        self._witness = witness
        self._required = required
        self._removed = removed
        self._done = 0  # subjects that have been answered for
        self._size = GROUP
        self._group: Sequence[str] = ()
        self._tries = 0
        self._waited = 0.0
        super().__init__(
            outbox, stream, api_subject=api_subject, info_subject=info_subject, inbox=inbox, now=now,
            page_messages=MAX_SUBJECTS, page_bytes=page_bytes, timeout=timeout,
        )  # fmt: skip

    @property
    def up_to_seq(self) -> int:
        """As of which sequence it is."""
        return self._up_to_seq

    @property
    def num_pending(self) -> int:
        """Subjects that were not answered for yet."""
        return len(self._subjects) - self._done

    def _fields(self) -> dict[str, Any]:
        asked = [*self._group] if self._witness[0] in self._group else [*self._group, self._witness[0]]
        body: dict[str, Any] = {"multi_last": asked, "up_to_seq": self._up_to_seq}
        if len(self._group) > 1:
            body["max_bytes"] = self._page_bytes
        return body

    def _ask(self, now: float) -> None:
        if not self.num_pending:
            self._finish()
            return
        self._floor = 0
        self._buffer = Backlog()
        self._group = self._next_group()
        super()._ask(now)
        if len(self._group) == 1:
            self._page_room = _NO_LIMIT

    def _next_group(self) -> Sequence[str]:
        group = self._subjects[self._done : self._done + self._size]
        room = GROUP_BYTES
        for at, subject in enumerate(group):
            room -= len(subject)
            if room < 0 and at:
                return group[:at]
        return group

    def _again(self, text: str, now: float) -> None:
        self._tries += 1
        if self._tries == TRIES:
            self._fail(IncompleteBatchError(text, self.last_seq))
        else:
            self._resume(now)

    def _resume(self, now: float) -> None:
        self._ask(now)

    def _page_over(self, header: bytes, now: float) -> None:
        self._timers.clear()
        self._reply = b""
        if self._pending(header):
            if len(self._group) == 1:
                raise IncompleteBatchError(f"the server does not send all of {self._group[0]}", self.last_seq)
            self._size = max(1, min(self._page_count, len(self._group)) // 2)
            self._ask(now)
        elif self._page_seq != self._witness[1]:
            self._wait(now)
        else:
            self._take_group(now)

    def _pending(self, header: bytes) -> int:
        # 2.11 counts one too few at the end of a cut page
        return super()._pending(self._buffer.last_header if self._buffer else header)

    def _wait(self, now: float) -> None:
        """The replica that answered is behind."""
        if self._waited >= self._timeout:
            subject, seq = self._witness
            raise SnapshotError(
                f"message {seq} of {subject} was not shown within {self._timeout:g} s: the replicas that answer are "
                f"behind, or it was overwritten or deleted meanwhile",
                self._up_to_seq,
            )
        delay = min(ASK_AGAIN * 2**self._behind, LONGEST_WAIT)
        self._behind += 1
        self._waited += delay
        self._ask_at(now + delay)

    def _take_group(self, now: float) -> None:
        if self._witness[0] not in self._group:
            self._buffer.drop_last()
        if self._missing() is None:
            self._give_group(now)
        elif self._ask_state(now):
            self._timers.set(Timer.PAGE, now + self._timeout)

    def _missing(self) -> str | None:
        """A subject of the group that should have come and did not."""
        if not self._required:
            return None
        shown = {subject_of(header) for header in self._buffer.headers()}
        return next((name for name in self._group if name in self._required and name not in shown), None)

    def _approve(self, state: StreamState, now: float) -> None:
        if messages_removed(state) != self._removed:
            text = f"{self._missing()} was overwritten or deleted while the snapshot was read"
            raise SnapshotError(text, self._up_to_seq)
        self._give_group(now)

    def _give_group(self, now: float) -> None:
        self._timers.clear()
        self._checked = b""
        self._ready.add_all(self._buffer)
        self._done += len(self._group)
        self._size = min(2 * self._size, GROUP)
        self._tries, self._behind, self._waited = 0, 0, 0.0
        if self._has_room:
            self._ask(now)
        else:
            self._waiting = True
        if self._readable is not None:
            self._tell()


def subject_of(header: bytes) -> str:
    """The subject in the header block of a stored message; empty when there is none."""
    return (last_value(header, b"Nats-Subject") or b"").decode("utf-8", "surrogateescape")


def messages_removed(state: StreamState) -> int:
    """How many of a stream's messages are gone for whatever reason, its first ones included: it never falls."""
    return state.last_seq - state.messages


def snapshot(
    js: Reads,
    stream: str,
    subjects: str | Iterable[str],
    at: Point | None,
    now: float,
    page_bytes: int,
    timeout: float,
) -> Generator[Ticket[Any], Any, Snapshot]:
    """Choose the sequence, list the subjects, find the witness; then read."""
    wanted = checked_subjects(subjects)
    state = (yield js.subjects(stream, None, now=now, timeout=timeout)).state
    up_to_seq: int = state.last_seq
    if at is not None:
        up_to_seq = yield from _sequence_at(js, stream, at, up_to_seq, now, timeout)
    names: dict[str, None] = {}
    required: set[str] = set()
    for pattern in wanted:
        if "*" not in pattern and ">" not in pattern:
            names[pattern] = None
            continue
        listed, last_seq = yield from _listed(js, stream, pattern, now, timeout)
        if at is None and not names and last_seq:
            up_to_seq = last_seq  # the list is of that, or a little later
        if last_seq == up_to_seq:
            required.update(listed)
        names.update(dict.fromkeys(listed))
    witness = yield from _last_until(js, stream, up_to_seq, now, timeout)
    return Snapshot(
        js.session, stream, [*names] if witness[1] else [], up_to_seq=up_to_seq, witness=witness, required=required,
        removed=messages_removed(state), api_subject=js.api.direct_get(stream), info_subject=js.api.stream_info(stream),
        inbox=js.session.new_inbox(), now=now, page_bytes=page_bytes, timeout=timeout,
    )  # fmt: skip


def _sequence_at(
    js: Reads, stream: str, at: Point, last_seq: int, now: float, timeout: float
) -> Generator[Ticket[Any], Any, int]:
    """The last sequence that belongs to the snapshot."""
    if isinstance(at, int):
        check_seq(at, "at")
        if at > last_seq:
            raise LocalProtocolError(f"the stream ends at sequence {last_seq}: nobody knows it at {at} yet")
        return at
    try:
        first: StoredMsg = yield js.get_msg(stream, start_time=at, level="leader", now=now, timeout=timeout)
    except MessageNotFoundError:
        return last_seq
    return first.seq - 1


def _listed(
    js: Reads, stream: str, pattern: str, now: float, timeout: float
) -> Generator[Ticket[Any], Any, tuple[list[str], int]]:
    """The subjects that match, and the last sequence shortly before they did (0: they came in several lists).

    A list that is too long comes in pages of sorted names. One name of the last page is asked for again: when it is
    not there any more, names have moved up and one may have been missed.
    """
    while True:
        info: StreamInfo = yield js.subjects(stream, pattern, now=now, timeout=timeout)
        names = set(info.state.subjects or ())
        total = info.extra.get("total", len(names))
        if len(names) >= total:
            return sorted(names), info.state.last_seq
        last, offset, whole = max(names), len(names), True
        while whole and offset < total:
            info = yield js.subjects(stream, pattern, offset - 1, now=now, timeout=timeout)
            page = info.state.subjects or {}
            whole = bool(page) and min(page) <= last < max(page)
            names.update(page)
            offset += len(page) - 1
            last, total = max(page, default=last), info.extra.get("total", total)
        if whole:
            return sorted(names), 0


def _last_until(
    js: Reads, stream: str, seq: int, now: float, timeout: float
) -> Generator[Ticket[Any], Any, tuple[str, int]]:
    """Subject and sequence of the last message that the leader has up to ``seq``; the sequence is 0 without one."""
    low, subject, high = 0, "", seq
    step = 0
    while low < high:  # nothing is in (high, seq]; first by steps that double, then by halves
        guess = (low + high + 1) // 2 if low else max(high - step, 1)
        found: StoredMsg | None
        try:
            found = yield js.get_msg(stream, guess, next=True, level="leader", now=now, timeout=timeout)
        except MessageNotFoundError:
            found = None
        if found is not None and found.seq <= seq:
            low, subject = found.seq, found.subject
        else:
            high = guess - 1
            step = 2 * step + 1
    return subject, low
