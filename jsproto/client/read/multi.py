"""Direct Get of many subjects (ADR-31): the last message of each of them.

* ``LastMessages`` reads the stream up to a sequence or a time that the caller gives, page by page. Messages that were
  overwritten since are left out. A replica that lags answers with what it has.
* ``LastAnswer`` is one answer. From 2.12 on a server holds writes back while it gives one. So the answer shows exactly
  the state at the sequence that its end names.

An empty answer does not say which server sent it: it may be a mirror that holds a part of the stream. So the request is
repeated with a witness: the subject of a message that the stream's leader has. Where the leader has no message either,
``LastAnswer`` asks it for its state: that names the sequence at which the stream is empty.

Not here: more subjects than a server answers at once, and answers put together (``snapshot``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from jsproto.client.read.direct import DirectBatch
from jsproto.client.read.page import PAGE_MESSAGES
from jsproto.client.read.read_buffer import NONE, ReadBuffer
from jsproto.errors import LocalProtocolError, RemoteProtocolError
from jsproto.grammar.api import ApiSubjects
from jsproto.grammar.bodies import dumps
from jsproto.grammar.columns import StoredColumns
from jsproto.grammar.config import StreamState
from jsproto.grammar.stored import StoredMsg, check_seq, number
from jsproto.grammar.subjects import check_subject, matches
from jsproto.grammar.times import Instant, format_timestamp, instant
from jsproto.outbox import Outbox

MAX_SUBJECTS: Final = 1024
"""Subjects that a server answers for at once (ADR-31): more are a 413."""

NOTHING_MATCHES: Final = "No Results"
"""What a 404 says when no subject matches; else a message was overwritten while it was looked for."""


def checked_subjects(subjects: str | Iterable[str]) -> list[str]:
    """The subjects, each once, in their order.

    Raises:
        LocalProtocolError: there is none, or one is no subject.
    """
    if not isinstance(subjects, Iterable):
        raise LocalProtocolError(f"subjects are a subject, or several, not {subjects!r:.100}")
    wanted = [subjects] if isinstance(subjects, str) else list(dict.fromkeys(subjects))
    for subject in wanted:
        check_subject(subject, wildcards=True)
    if not wanted:
        raise LocalProtocolError("a read of the last messages needs at least one subject")
    return wanted


def checked_few(subjects: str | Iterable[str]) -> list[str]:
    """``checked_subjects``, at most ``MAX_SUBJECTS``.

    Raises:
        LocalProtocolError: there is none, one is no subject, or they are too many.
    """
    wanted = checked_subjects(subjects)
    if len(wanted) > MAX_SUBJECTS:
        raise LocalProtocolError(
            f"a server answers for at most {MAX_SUBJECTS} subjects at once, not {len(wanted)}; a snapshot reads any "
            f"number"
        )
    return wanted


class LastMessages(DirectBatch):
    """One read of the last message of each subject that matches, up to a point, in the order of the stream."""

    __slots__ = (
        "_from_seq", "_pending_reported", "_subjects", "_up_to_seq", "_up_to_time", "_witness", "_witnessed_at",
    )  # fmt: skip
    _NEEDS_POINT = True
    _COUNTS_LATE = False  # what comes later belongs to a later point
    _PARSES_AHEAD = False  # mostly the answers are few

    def __init__(
        self,
        outbox: Outbox,
        stream: str,
        subjects: Sequence[str],
        *,
        api: ApiSubjects,
        inbox: str,
        draw: Callable[[], bytes] = bytes,
        now: float,
        seq: int = 1,
        batch: int | None = None,
        up_to_seq: int | None = None,
        up_to_time: Instant | None = None,
        page_messages: int = PAGE_MESSAGES,
        max_bytes: int | None = None,
        timeout: float = 5.0,
    ) -> None:
        """Ask for the last message of each of ``subjects`` (``checked_few``, wildcards allowed).

        * ``seq``: only last messages from this sequence on.
        * ``batch``: at most so many messages in all.
        * ``up_to_seq``: the messages are the last ones up to that sequence.
        * ``up_to_time``: they are the last ones before that time: nanoseconds since the epoch, or a datetime.

        The others are those of ``DirectBatch``.

        The read fails as ``DirectBatch``, and with:
            TooManyResultsError: wildcards match more than ``MAX_SUBJECTS`` subjects.

        Raises:
            LocalProtocolError: an argument is out of its range, or not exactly one of ``up_to_seq`` and ``up_to_time``
                is given.
        """
        self._subjects = subjects
        if up_to_seq is not None:
            check_seq(up_to_seq, "up_to_seq")
            if up_to_time is not None:
                raise LocalProtocolError("give up_to_seq or up_to_time, not both")
        elif up_to_time is None and self._NEEDS_POINT:
            raise LocalProtocolError("give up_to_seq or up_to_time: without, several pages would show several states")
        self._up_to_seq = up_to_seq
        self._up_to_time = None if up_to_time is None else instant(up_to_time)
        self._witness: str | None = None
        self._witnessed_at: int | None = None
        self._from_seq = seq
        self._pending_reported = 0  # messages that some replica, or the leader, said were left
        super().__init__(
            outbox, stream, api=api, inbox=inbox, draw=draw, now=now, batch=batch, page_messages=page_messages,
            max_bytes=max_bytes, timeout=timeout,
        )  # fmt: skip

    @property
    def up_to_seq(self) -> int | None:
        """The sequence of the stream that it shows. None until the first page with messages is whole."""
        return self._up_to_seq

    def _fields(self) -> dict[str, Any]:
        asked = [*self._subjects]
        if self._witness is not None and self._witness not in asked:
            asked.append(self._witness)
        body: dict[str, Any] = {"multi_last": asked, "batch": self._page.asked, "max_bytes": self._page.room}
        if (seq := max(self._floor + 1, self._from_seq)) > 1:
            body["seq"] = seq
        if self._up_to_seq is not None:
            body["up_to_seq"] = self._up_to_seq
        elif self._up_to_time is not None:
            body["up_to_time"] = format_timestamp(self._up_to_time)
        return body

    def _set_anchor(self) -> None:
        """No message of the page before shows that the stream is the same: the leader does."""
        if self._witness is not None:
            self._incoming = ReadBuffer()
            self._page.asked += 1

    def _count_page(self, pending: int) -> None:
        self._pending_reported = max(pending, self._pending_reported - self._page.count)
        super()._count_page(pending)

    def _is_end(self, showed_everything: bool) -> bool:
        """Whether no server said that there is more. The end of the stream is not the end of this read."""
        return not self._pending_reported

    def _page_ended(self, header: bytes, now: float) -> None:
        said = number(header, b"Nats-UpTo-Sequence")
        if said is None and self._page.count:
            raise RemoteProtocolError("the end of a page does not say up to which sequence it is", header)
        if self._up_to_seq is None and self._page.count:  # an end alone does not say which server sent it
            self._up_to_seq = said
        if self._witness is not None:
            self._give_without_witness()
        super()._page_ended(header, now)

    def _give_without_witness(self) -> None:
        """Give out what was requested together with a witness, without the witness."""
        wanted = [
            each
            for each in self._incoming.pop_messages(len(self._incoming))
            if each.subject != self._witness or any(matches(subject, each.subject) for subject in self._subjects)
        ]
        del wanted[self._left if self._left is not None else len(wanted) :]
        self._incoming = self._ready
        self._page.count = len(wanted)
        if wanted:
            seqs, data = [each.seq for each in wanted], [each.data for each in wanted]
            self._ready.add(StoredColumns(NONE, seqs, NONE, data, [each.raw_headers for each in wanted]))
        self._witness = None

    def _pending_after(self, header: bytes) -> int:
        # At the end of a page 2.11 counts one too few, but not with its last message (FACTS.md F3.11).
        said = super()._pending_after(header)
        last = self._last_header if self._page.count else None
        return said if last is None else max(said, number(last, b"Nats-Num-Pending") or 0)

    # -- an empty answer -----------------------------------------------------------------------------------------------

    def _receive_no_message(self, description: str, now: float) -> None:
        if self._page.is_open:
            self._retry_page(f"the page ended with {description!r}", now)
        elif description != NOTHING_MATCHES:
            self._close_page(now)
            self._retry_later("a message was overwritten while the server looked for it", now)
        else:
            super()._receive_no_message(description, now)

    def _ask_whether_ended(self, now: float) -> None:
        """Ask the leader for a message that the next server that answers must have."""
        if self._floor:
            self._pending_reported = 1
            self._retry_later("the rest was overwritten or deleted, or whoever answers does not have it", now)
        else:
            self._ask_leader(self._api.stream_msg_get(self.stream), dumps(self._any_message()), now)

    def _any_message(self) -> dict[str, Any]:
        return {"seq": self._from_seq, "next_by_subj": ">"}

    def _receive_leaders_copy(self, message: StoredMsg, now: float) -> None:
        if self._is_beyond(message):
            self._finish()
            return
        self._witness, self._witnessed_at = message.subject, message.timestamp
        self._retry_later(f"message {message.seq} is with the leader, and nobody else shows it", now)

    def _is_beyond(self, message: StoredMsg) -> bool:
        """Whether nothing at all was there yet, since this is the first message of the stream."""
        if self._up_to_seq is not None:
            return message.seq > self._up_to_seq
        return self._up_to_time is not None and message.timestamp >= self._up_to_time


class LastAnswer(LastMessages):
    """One answer about the last messages of subjects, whole or not at all.

    Attributes:

    * ``rest``: how many more messages there are than fitted into the answer.
    """

    __slots__ = ("_least", "_must_show", "rest")
    _NEEDS_POINT = False

    def __init__(
        self,
        outbox: Outbox,
        stream: str,
        subjects: Sequence[str],
        *,
        api: ApiSubjects,
        inbox: str,
        draw: Callable[[], bytes] = bytes,
        now: float,
        batch: int | None = None,
        up_to_seq: int | None = None,
        least: int = 0,
        shows: tuple[str, int] | None = None,
        created: int | None = None,
        max_bytes: int | None = None,
        timeout: float = 5.0,
    ) -> None:
        """``least``: a sequence that the server has to have reached. ``shows``: subject and sequence of its witness.

        * The witness is a message that the server has to have. It is requested as well, and given out only if it is
          wanted.
        * ``created``: when the stream was created, if that is known (nanoseconds since the epoch).

        The others are those of ``LastMessages``. A server that lags is asked again until ``timeout`` is over: then the
        read fails with IncompleteBatchError.
        """
        self._least = least
        self._must_show = shows
        self.rest = 0
        super().__init__(
            outbox, stream, subjects, api=api, inbox=inbox, draw=draw, now=now, batch=batch, up_to_seq=up_to_seq,
            page_messages=MAX_SUBJECTS + 1, max_bytes=max_bytes, timeout=timeout,
        )  # fmt: skip
        self._created = created

    @property
    def created(self) -> int | None:
        """When the stream was created: nanoseconds since the epoch, as its leader said. None: nobody asked it."""
        return self._created

    @property
    def witnessed_at(self) -> int | None:
        """When the witness was stored, as the leader said: nanoseconds since the epoch. None: without one."""
        return self._witnessed_at

    def _begin_page(self) -> None:
        self._floor = 0
        self._tail = None
        if self._must_show is not None:
            self._witness = self._must_show[0]
        super()._begin_page()
        self._page.asked = (self._left or self._page_messages) + (self._witness is not None)
        self._page.room = self._max_bytes
        self._incoming = ReadBuffer()

    def _resume(self, now: float) -> None:
        self._ask(now)

    def _page_ended(self, header: bytes, now: float) -> None:
        up_to, pending = number(header, b"Nats-UpTo-Sequence"), self._pending_after(header)
        if not self._page.count:
            super()._page_ended(header, now)  # nothing matches, or so it says
        elif up_to is None:
            raise RemoteProtocolError("the end of an answer does not say up to which sequence it is", header)
        elif up_to < self._least:
            self._close_page(now)
            reason = f"whoever answers has come to sequence {up_to} only, not to {self._least}"
            self._retry_lagging(up_to, reason, now)
        elif self._must_show is not None and not pending and self._floor != self._must_show[1]:
            self._close_page(now)
            self._retry_later("message {1} of {0} is not shown".format(*self._must_show), now)
        else:
            self.rest = pending
            self._up_to_seq = up_to
            if self._witness is not None:
                self._give_without_witness()
            else:
                self._ready.add_all(self._incoming)
                self._incoming = self._ready
            self._finish()

    # -- an empty stream -----------------------------------------------------------------------------------------------

    def _receive_no_next(self, now: float) -> None:
        self._ask_leader(self._api.stream_info(self.stream), b"", now)

    def _must_reach(self) -> int:
        return max(self._least, self._up_to_seq or 0)

    def _receive_state(self, state: StreamState, now: float) -> None:
        if state.messages:
            self._retry_later(f"the stream has {state.messages} messages, and nobody shows one", now)
            return
        if self._up_to_seq is None:
            self._up_to_seq = state.last_seq
        self._finish()
