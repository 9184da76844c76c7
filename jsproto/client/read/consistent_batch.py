"""Reads of many messages under a session's guarantees: they do not end before what the session knows of.

A replica that lags ends a batch at its own end and cannot tell. So where a batch ends before the session's token, the
leader is asked for the next message; only when it has none was that the end. What a lagging replica of the stream does
send is right: it has the beginning of the stream, without holes of its own. A mirror may have holes, and is not read.

Rules:

* What is taken counts as read. Nothing is asked while nobody takes.
* A read of several parts is of one stream: at the end the leader says whether it was made after the first message.
* Last messages are a snapshot, which asks nobody who is behind the token (``snapshot``).

Not here: single reads, and how an answer proves anything (``consistency``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any

from jsproto.client.read.direct import PAGE_BYTES, is_younger
from jsproto.client.read.multi import checked_few
from jsproto.client.read.single import check_seq
from jsproto.client.read.snapshot import Snapshot
from jsproto.errors import Error, MessageNotFoundError, StreamRecreatedError
from jsproto.grammar.stored import StoredMsg
from jsproto.grammar.subjects import check_name
from jsproto.ticket import Ticket

if TYPE_CHECKING:
    from jsproto.client.read.consistency import ConsistentSession, SessionLevel
    from jsproto.client.read.direct import DirectBatch
    from jsproto.grammar.config import StreamInfo


class SessionBatch:
    """A stream from a sequence on, to its end, and not before the session's token; the verbs of ``DirectBatch``.

    Attributes: ``stream``, ``finished``, ``error``.
    """

    __slots__ = (
        "_asking", "_extra", "_first", "_inner", "_is_pieced", "_last", "_left", "_level", "_max_bytes", "_owner",
        "_received", "_subject", "_timeout", "error", "finished", "stream",
    )  # fmt: skip

    def __init__(
        self, owner: ConsistentSession, stream: str, *, now: float, seq: int, subject: str | None, batch: int | None,
        max_bytes: int | None, level: SessionLevel | None, timeout: float | None,
    ) -> None:  # fmt: skip
        """The keywords are those of ``ConsistentSession.get_batch``."""
        check_seq(seq)
        self.stream = stream
        self.error: Error | None = None
        self.finished = False
        self._owner = owner
        self._subject = subject
        self._left = batch
        self._level = level
        self._max_bytes = max_bytes
        self._timeout = timeout
        self._last = seq - 1
        self._received = 0
        self._extra: deque[StoredMsg] = deque()  # from the leader
        self._first: StoredMsg | None = None
        self._is_pieced = False  # the leader gave a part of it
        self._asking: Ticket[None] | None = None
        self._inner = self._direct(seq, now)

    @property
    def last_seq(self) -> int:
        """The sequence of the last message received; 0 before the first."""
        return max(self._inner.last_seq, self._received)

    @property
    def num_pending(self) -> int | None:
        """Messages behind it, as the replica said that answered last: it may not know of all. None before that."""
        return self._inner.num_pending

    @property
    def up_to_seq(self) -> None:
        """None: it goes to the end."""
        return None

    def pop_many(self, most: int, now: float) -> list[StoredMsg]:
        """Take up to ``most`` received messages, in order."""
        extra = self._extra
        messages = [extra.popleft() for _ in range(min(most, len(extra)))] or self._inner.pop_many(most, now)
        if messages:
            self._first = self._first or messages[0]
            self._last = self._received = messages[-1].seq
            self._owner.observe(self.stream, self._last)
            if self._left is not None:
                self._left -= len(messages)
        elif self._inner.finished and self._asking is None and most:
            is_over = self._left == 0 or self._last >= self._owner.token[self.stream].floor
            if is_over and not self._is_pieced:
                self.finished = True
            else:
                self._asking = self._owner.js.session.run(self._end(now) if is_over else self._ask_leader(now))
        return messages

    def readable(self) -> Ticket[None]:
        """Completed when a message can be taken or none will come any more; fails with why the read broke off."""
        if self._asking is not None:
            return self._asking
        if self.finished or self._extra:
            ticket: Ticket[None] = Ticket()
            ticket.succeed(None)
            return ticket
        return self._inner.readable()

    def close(self, now: float) -> None:
        """Stop reading: what is buffered is dropped, what is under way is ignored."""
        self._extra.clear()
        self.finished = True
        self._inner.close(now)

    def _ask_leader(self, now: float) -> Generator[Ticket[Any], Any, None]:
        """Whether there is more than the replica had; its next message if so, and on with what is behind it."""
        try:
            message: StoredMsg = yield self._owner.next_of_leader(
                self.stream, self._last + 1, self._subject, now, self._timeout
            )
        except MessageNotFoundError:
            yield from self._end(now)
            return
        except Error as error:
            self.error = error
            raise
        self._is_pieced = True
        if not self.finished:
            self._extra.append(message)
            self._received = message.seq
            if self._left != 1:
                self._inner = self._direct(message.seq + 1, self._owner.now)
            self._asking = None

    def _end(self, now: float) -> Generator[Ticket[Any], Any, None]:
        """It is over, if all its parts are of one stream."""
        try:
            if self._is_pieced and self._first is not None:
                yield from check_identity(self._owner, self.stream, self._first, now, self._timeout)
        except Error as error:
            self.error = error
            raise
        self.finished = True

    def _direct(self, seq: int, now: float) -> DirectBatch:
        left = None if self._left is None else self._left - len(self._extra)
        return self._owner.direct_batch(
            self.stream, now=now, level=self._level, seq=seq, subject=self._subject, batch=left,
            max_bytes=self._max_bytes, timeout=self._timeout,
        )  # fmt: skip


class SessionLastMsgs(Snapshot):
    """The last message of each of some subjects, as of one sequence: the session's token, or later.

    No more than MAX_SUBJECTS subjects may match: TooManyResultsError.
    """

    __slots__ = ("_owner",)

    def __init__(
        self, owner: ConsistentSession, stream: str, subjects: str | Iterable[str], *, now: float,
        max_bytes: int | None, timeout: float,
    ) -> None:  # fmt: skip
        """The keywords are those of ``ConsistentSession.get_last_msgs_for``."""
        self._owner = owner
        super().__init__(
            owner.js, check_name(stream), checked_few(subjects), now=now, at_once=True,
            least=owner.token[stream].floor, page_bytes=PAGE_BYTES if max_bytes is None else max_bytes, timeout=timeout,
        )  # fmt: skip

    def pop_many(self, most: int, now: float) -> list[StoredMsg]:
        """Take up to ``most`` messages, in the order of the stream. The session has read what was taken."""
        messages = super().pop_many(most, now)
        if messages:
            self._owner.observe(self.stream, messages[-1].seq)
        return messages


def check_identity(
    owner: ConsistentSession, stream: str, first: StoredMsg, now: float, timeout: float | None
) -> Generator[Ticket[Any], Any, None]:
    """StreamRecreatedError when the stream was made after ``first``, a message of it, was stored."""
    info: StreamInfo = yield owner.js.stream_info(stream, now=now, timeout=timeout)
    if is_younger(info, first.timestamp):
        raise StreamRecreatedError(stream)
