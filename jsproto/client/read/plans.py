"""What reads of many messages want: the fields of their requests, and what an end must show.

``paged_read`` has the machine, which is the same for all of them:

* ``StreamPlan``: a stream from a sequence, or a time, on.
* ``LastPlan``: the last message of each of many subjects, up to a point, page by page.
* ``AnswerPlan``: one answer about the last messages of subjects, whole or not at all.

An empty answer does not say which server sent it: it may be a mirror that holds a part of the stream. So a request for
many subjects is repeated with a *witness*: the subject of a message that the stream's leader has.

Rule: the plan of a stream is a constant. Plans of many subjects change: their witness, the point that they show, and
what was left.

Not here: sessions, whose demands come on top (``consistent_batch``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args

from jsproto.client.read.facts import Finding
from jsproto.client.read.feed import Feed
from jsproto.client.read.read_buffer import NONE
from jsproto.errors import RemoteProtocolError
from jsproto.grammar.columns import StoredColumns
from jsproto.grammar.config import StreamState
from jsproto.grammar.stored import PageEnd, StoredMsg, number, subjects_of
from jsproto.grammar.subjects import matches
from jsproto.grammar.times import format_timestamp
from jsproto.rules.belief import Fact, Phase

IfDropped: TypeAlias = Literal["skip", "error"]
IF_DROPPED: Final = get_args(IfDropped)
"""What a read does about messages that limits, or a purge, took from where it was to begin, or to go on."""

LAGS_ALLOWED: Final = 3  # answers in a row without a message of the leader: then its copy is taken

MAX_SUBJECTS: Final = 1024
"""Subjects that a server answers for at once (ADR-31): more are a 413."""

NOTHING_MATCHES: Final = "No Results"
"""What a 404 says when no subject matches; else a message was overwritten while it was looked for."""


class Plan(Protocol):
    """What the machine asks of a plan. ``feed`` has the position of the read, and its page.

    * ``parses_ahead``: whether many messages are likely to come in a row.
    * ``holds_pages``: whether a page is given out only when it is whole, and its middle is not doubted.
    * ``is_filtered``: whether holes in the sequences may be messages that do not match.
    * ``up_to_seq``: the sequence of the stream that is shown. None while unknown, or where there is none.
    """

    __slots__ = ()

    parses_ahead: bool
    holds_pages: bool
    is_filtered: bool
    up_to_seq: int | None

    def begin(self, feed: Feed, max_bytes: int) -> None:
        """A page is about to be asked for: set its anchor, change its size, hold it. ``max_bytes``: of a whole page."""

    def fields(self, feed: Feed) -> dict[str, Any]:
        """What the page is to hold."""

    def next_fields(self, feed: Feed) -> dict[str, Any]:
        """What the leader is asked for: a message that the next server that answers must have."""

    def may_begin(self, sequence: int, feed: Feed) -> bool:
        """Whether nothing can be wrong with the message that a page begins with."""

    def dropped(self, first_seq: int, feed: Feed) -> int:
        """The sequence that should come next, if the stream begins after it and none may be missed. Else 0."""

    def refuses(self, feed: Feed, end: PageEnd, last: bytes | None) -> Finding | None:
        """Why the page that ends so is not taken. ``last``: the header block before its end."""

    def release(self, feed: Feed, end: PageEnd, last: bytes | None) -> int:
        """Give out what was held of the page. Returns how many messages are left, as its end says."""

    def counted(self, feed: Feed, pending: int) -> None:
        """A page, or a part of it, has come, and its sender said that ``pending`` messages are left."""

    def ended(self, feed: Feed, pending: int, showed: bool, proves: bool) -> Finding:
        """What comes after the page. ``showed``: it had a message. ``proves``: the end is to be believed of it."""

    def emptied(self, feed: Feed, description: str) -> Finding:
        """What comes after an answer that has no message. ``description``: of its status."""

    def judge_message(self, message: StoredMsg, feed: Feed, lags: int) -> Finding:
        """The leader has the next message. ``lags``: how often in a row nobody else showed it."""

    def judge_end(self) -> Finding:
        """The leader has no next message."""

    def judge_state(self, state: StreamState, phase: Phase, feed: Feed) -> Finding:
        """The leader has told its state, and is as far as it has to be."""


class StreamPlan(Plan):
    """A stream from a sequence, or a time, on."""

    __slots__ = (
        "_from_first", "_if_dropped", "_proves_itself", "_start_time", "_subject", "holds_pages", "is_filtered",
    )  # fmt: skip

    parses_ahead = True
    up_to_seq: int | None = None

    def __init__(
        self, *, from_first: bool, start_time: str | None, subject: str | None, if_dropped: IfDropped, holds_back: bool,
        proves_itself: bool = False,
    ) -> None:  # fmt: skip
        """``from_first``: no sequence was asked for. ``holds_back``: limits drop nothing of a page while it is sent.

        ``proves_itself``: as in ``DirectBatch``.
        """
        self._proves_itself = proves_itself
        self._from_first = from_first
        self._start_time = start_time
        self._subject = subject
        self.is_filtered = subject is not None
        self._if_dropped = if_dropped
        self.holds_pages = if_dropped == "error" and not holds_back

    def begin(self, feed: Feed, max_bytes: int) -> None:
        if self.holds_pages:
            feed.hold()
        feed.set_anchor(max_bytes)

    def fields(self, feed: Feed) -> dict[str, Any]:
        body = self._beginning(feed, feed.seq + (not feed.is_anchored))
        body["batch"] = feed.asked + feed.is_anchored
        body["max_bytes"] = feed.room
        if self._subject is not None:
            body["next_by_subj"] = self._subject
        return body

    def next_fields(self, feed: Feed) -> dict[str, Any]:
        return self._beginning(feed, feed.seq + 1) | {"next_by_subj": self._subject or ">"}

    def _beginning(self, feed: Feed, seq: int) -> dict[str, Any]:
        by_time = self._start_time is not None and not feed.seq
        return {"start_time": self._start_time} if by_time else {"seq": seq}

    def may_begin(self, sequence: int, feed: Feed) -> bool:
        if feed.tail is not None:
            return self._proves_itself
        return self._if_dropped == "skip" or self._from_first or sequence == feed.seq + 1

    def dropped(self, first_seq: int, feed: Feed) -> int:
        begins_anywhere = feed.start[1] is None and self._from_first
        if self._if_dropped == "skip" or begins_anywhere or first_seq <= feed.start[0] + 1:
            return 0
        return feed.start[0] + 1

    def refuses(self, feed: Feed, end: PageEnd, last: bytes | None) -> Finding | None:
        return None

    def release(self, feed: Feed, end: PageEnd, last: bytes | None) -> int:
        feed.release()
        return end.pending or 0

    def counted(self, feed: Feed, pending: int) -> None:
        pass

    def ended(self, feed: Feed, pending: int, showed: bool, proves: bool) -> Finding:
        if feed.left == 0:
            return Finding(Fact.ALL)
        if (feed.count and pending) or (showed and feed.is_full):  # what came meanwhile may not be counted by the end
            return Finding(Fact.MORE)
        return Finding(Fact.PROVEN if showed and proves else Fact.UNPROVEN)

    def emptied(self, feed: Feed, description: str) -> Finding:
        return Finding(Fact.UNPROVEN)

    def judge_message(self, message: StoredMsg, feed: Feed, lags: int) -> Finding:
        if message.seq <= feed.seq:
            raise RemoteProtocolError(f"message {message.seq} where those after {feed.seq} were asked for")
        if lags < LAGS_ALLOWED:
            return _only_with_leader(message)
        return Finding(Fact.OVERDUE, copy=message)

    def judge_end(self) -> Finding:
        return Finding(Fact.ENDS if self._if_dropped == "skip" else Fact.UNSURE)

    def judge_state(self, state: StreamState, phase: Phase, feed: Feed) -> Finding:
        return Finding(Fact.ENDS if state.last_seq <= feed.seq or not state.messages else Fact.GOES_ON)


class LastPlan(Plan):
    """The last message of each subject that matches, up to a point, in the order of the stream."""

    __slots__ = (
        "_from_seq", "_pending_reported", "_subjects", "_up_to_time", "up_to_seq", "witness", "witnessed_at",
    )  # fmt: skip

    parses_ahead = False  # mostly the answers are few
    holds_pages = False
    is_filtered = True

    def __init__(
        self, subjects: Sequence[str], *, from_seq: int = 1, up_to_seq: int | None = None, up_to_time: int | None = None
    ) -> None:
        """``from_seq``: only last messages from this sequence on. ``up_to_time``: nanoseconds since the epoch."""
        self._subjects = subjects
        self._from_seq = from_seq
        self._up_to_time = up_to_time
        self.up_to_seq = up_to_seq
        self.witness: str | None = None
        self.witnessed_at: int | None = None
        self._pending_reported = 0  # messages that some replica, or the leader, said were left

    def begin(self, feed: Feed, max_bytes: int) -> None:
        # No message of the page before shows that the stream is the same: the leader does.
        if self.witness is not None:
            feed.hold()
            feed.asked += 1

    def fields(self, feed: Feed) -> dict[str, Any]:
        asked = [*self._subjects]
        if self.witness is not None and self.witness not in asked:
            asked.append(self.witness)
        body: dict[str, Any] = {"multi_last": asked, "batch": feed.asked, "max_bytes": feed.room}
        if (seq := max(feed.seq + 1, self._from_seq)) > 1:
            body["seq"] = seq
        if self.up_to_seq is not None:
            body["up_to_seq"] = self.up_to_seq
        elif self._up_to_time is not None:
            body["up_to_time"] = format_timestamp(self._up_to_time)
        return body

    def next_fields(self, feed: Feed) -> dict[str, Any]:
        return {"seq": self._from_seq, "next_by_subj": ">"}

    def may_begin(self, sequence: int, feed: Feed) -> bool:
        return feed.tail is None

    def dropped(self, first_seq: int, feed: Feed) -> int:
        return 0

    def refuses(self, feed: Feed, end: PageEnd, last: bytes | None) -> Finding | None:
        if feed.count and end.up_to is None:
            raise RemoteProtocolError("the end of a page does not say up to which sequence it is")
        return None

    def release(self, feed: Feed, end: PageEnd, last: bytes | None) -> int:
        if self.up_to_seq is None and feed.count:  # an end alone does not say which server sent it
            self.up_to_seq = end.up_to
        self.give(feed)
        return _left_after(end, last, feed)

    def give(self, feed: Feed) -> None:
        """Give out what was held, without a witness that was not wanted."""
        if self.witness is None:
            feed.release()
            return
        wanted = [
            each
            for each in feed.into.pop_messages(len(feed.into))
            if each.subject != self.witness or any(matches(subject, each.subject) for subject in self._subjects)
        ]
        del wanted[feed.left if feed.left is not None else len(wanted) :]
        if wanted:
            seqs, data = [each.seq for each in wanted], [each.data for each in wanted]
            feed.into.add(StoredColumns(NONE, seqs, NONE, data, [each.raw_headers for each in wanted]))
        feed.count = len(wanted)
        feed.release()
        self.witness = None

    def counted(self, feed: Feed, pending: int) -> None:
        self._pending_reported = max(pending, self._pending_reported - feed.count)

    def ended(self, feed: Feed, pending: int, showed: bool, proves: bool) -> Finding:
        # What comes later belongs to a later point. The end of the stream is not the end of this read.
        if feed.left == 0:
            return Finding(Fact.ALL)
        if feed.count and pending:
            return Finding(Fact.MORE)
        if showed and not self._pending_reported:
            return Finding(Fact.PROVEN)
        return self.emptied(feed, NOTHING_MATCHES)

    def emptied(self, feed: Feed, description: str) -> Finding:
        if description != NOTHING_MATCHES:
            return Finding(Fact.LAGS, "a message was overwritten while the server looked for it")
        if feed.seq:
            self._pending_reported = 1
            return Finding(Fact.LAGS, "the rest was overwritten or deleted, or whoever answers does not have it")
        return Finding(Fact.UNSHOWN)

    def judge_message(self, message: StoredMsg, feed: Feed, lags: int) -> Finding:
        if self._is_beyond(message):
            return Finding(Fact.ENDS)
        self.witness, self.witnessed_at = message.subject, message.timestamp
        return _only_with_leader(message)

    def _is_beyond(self, message: StoredMsg) -> bool:
        """Whether nothing at all was there yet, since this is the first message of the stream."""
        if self.up_to_seq is not None:
            return message.seq > self.up_to_seq
        return self._up_to_time is not None and message.timestamp >= self._up_to_time

    def judge_end(self) -> Finding:
        return Finding(Fact.ENDS)

    def judge_state(self, state: StreamState, phase: Phase, feed: Feed) -> Finding:
        return Finding(Fact.GOES_ON)


class AnswerPlan(LastPlan):
    """One answer about the last messages of subjects. Attribute: ``rest`` (how many more there are)."""

    __slots__ = ("_least", "_must_show", "rest")

    def __init__(
        self, subjects: Sequence[str], *, up_to_seq: int | None, least: int, shows: tuple[str, int] | None
    ) -> None:
        """``least``: a sequence that the server has to have reached. ``shows``: subject and sequence of its witness."""
        super().__init__(subjects, up_to_seq=up_to_seq)
        self._least = least
        self._must_show = shows
        self.rest = 0

    def begin(self, feed: Feed, max_bytes: int) -> None:
        feed.restart()
        if self._must_show is not None:
            self.witness = self._must_show[0]
        feed.asked = (feed.left or MAX_SUBJECTS + 1) + (self.witness is not None)
        feed.room = max_bytes
        feed.hold()

    def refuses(self, feed: Feed, end: PageEnd, last: bytes | None) -> Finding | None:
        if not feed.count:  # nothing matches, or so it says
            return None
        up_to = end.up_to
        if up_to is None:
            raise RemoteProtocolError("the end of an answer does not say up to which sequence it is")
        if up_to < self._least:
            text = f"whoever answers has come to sequence {up_to} only, not to {self._least}"
            return Finding(Fact.LAGS, text, come_to=up_to)
        if self._must_show is not None and feed.seq != self._must_show[1] and not _left_after(end, last, feed):
            return Finding(Fact.LAGS, "message {1} of {0} is not shown".format(*self._must_show))
        return None

    def release(self, feed: Feed, end: PageEnd, last: bytes | None) -> int:
        if feed.count:
            self._check_subjects(feed)
            self.rest = _left_after(end, last, feed)
            self.up_to_seq = end.up_to
        self.give(feed)
        return self.rest

    def _check_subjects(self, feed: Feed) -> None:
        """Check that each message of the answer was asked for.

        Raises:
            RemoteProtocolError: one was not.
        """
        asked = {*self._subjects, self.witness}
        if ">" in asked:
            return
        for subject in {*subjects_of(feed.into.headers())} - asked:
            if not any(matches(pattern, subject) for pattern in self._subjects):
                raise RemoteProtocolError(f"the last message of {subject}, which was not asked for")

    def ended(self, feed: Feed, pending: int, showed: bool, proves: bool) -> Finding:
        return Finding(Fact.ALL) if showed else super().ended(feed, pending, showed, proves)

    def judge_end(self) -> Finding:
        return Finding(Fact.UNSURE)

    def judge_state(self, state: StreamState, phase: Phase, feed: Feed) -> Finding:
        if state.messages:
            return Finding(Fact.LAGS, f"the stream has {state.messages} messages, and nobody shows one")
        if self.up_to_seq is None:
            self.up_to_seq = state.last_seq
        return Finding(Fact.ENDS)


def _only_with_leader(message: StoredMsg) -> Finding:
    return Finding(Fact.AHEAD, f"message {message.seq} is with the leader, and nobody else shows it")


def _left_after(end: PageEnd, last: bytes | None, feed: Feed) -> int:
    """What is left after a page of many subjects, as its end, and its ``last`` message, say.

    At the end of a page 2.11 counts one too few, but not with its last message (FACTS.md F3.11).
    """
    said = end.pending or 0
    return max(said, number(last, b"Nats-Num-Pending") or 0) if feed.count and last is not None else said
