"""The verbs of ``JetStream`` that read: one message or many, from which server.

Rules: a verb that asks for what no server would answer is refused with LocalProtocolError, and nothing is sent.

Not here: what is sent and how it is checked (``single``, ``direct``, ``multi``).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Unpack

from jsproto._lend import lend
from jsproto.client.connection.questions import not_available
from jsproto.client.connection.requests import Question
from jsproto.client.connection.session import Session
from jsproto.client.read.direct import DirectBatch
from jsproto.client.read.multi import LastMessages, checked_few
from jsproto.client.read.read_options import BatchOptions, LastOptions, PageOptions, SnapshotOptions
from jsproto.client.read.single import (
    LEVELS,
    ReadLevel,
    direct_data,
    direct_message,
    direct_request,
    leader_message,
    no_direct_get,
    selection,
)
from jsproto.client.read.snapshot import Snapshot
from jsproto.client.read.subject_list import SubjectList
from jsproto.errors import UnsupportedByServerError
from jsproto.grammar.api import ApiSubjects, decode_response
from jsproto.grammar.bodies import MAX_UINT64, dumps
from jsproto.grammar.config import StreamInfo
from jsproto.grammar.fields import checked_word
from jsproto.grammar.options import checked, explained, of_flag, of_range
from jsproto.grammar.stored import StoredMsg
from jsproto.grammar.subjects import check_name, check_subject
from jsproto.grammar.times import Duration, Instant, seconds
from jsproto.ticket import Ticket
from jsproto.wire.frames import Msg
from jsproto.wire.limits import HARD_MAX_PAYLOAD


class Reads:
    """What ``JetStream`` reads."""

    session: Session
    api: ApiSubjects
    timeout: float

    def get_msg(
        self,
        stream: str,
        seq: int | None = None,
        *,
        now: float,
        subject: str | None = None,
        next: bool = False,
        start_time: Instant | None = None,
        level: ReadLevel | None = None,
        timeout: float | None = None,
    ) -> Ticket[StoredMsg]:
        """Read one message: that of ``seq``, the last one of ``subject``, the ``next`` one, or that of a time (2.11).

        Arguments and errors: as the drivers' ``get_msg``. LocalProtocolError is raised: the arguments choose no
        message, or contradict each other. All others come with the ticket.
        """
        body = selection(seq, subject, next, start_time)
        if level is None:
            return self._request(self._direct(stream, body), now, timeout, self._of_leader(stream, body))
        checked_word("level", level, LEVELS)
        question = self._of_leader if level == "leader" else self._direct
        return self._request(question(stream, body), now, timeout)

    def get_last_msg(
        self,
        stream: str,
        subject: str,
        *,
        now: float,
        level: ReadLevel | None = None,
        timeout: float | None = None,
    ) -> Ticket[StoredMsg]:
        """Read the last message of ``subject``, as ``get_msg`` does."""
        return self.get_msg(stream, now=now, subject=subject, level=level, timeout=timeout)

    def get_data(
        self,
        stream: str,
        seq: int | None = None,
        *,
        now: float,
        subject: str | None = None,
        next: bool = False,
        start_time: Instant | None = None,
        timeout: float | None = None,
    ) -> Ticket[bytes]:
        """Read the payload of one message alone, by Direct Get. Arguments and errors are those of ``get_msg``.

        From 2.12 on the server sends nothing else (``no_hdr``), so the answer does not say which message it was.
        """
        body = {**selection(seq, subject, next, start_time), "no_hdr": True}
        where, payload = direct_request(self.api, stream, body)
        return self.session.requests.request(
            where, payload, timeout=self._limit(timeout), now=now, decode=partial(direct_data, stream, body),
            no_responders=partial(no_direct_get, stream),
        )  # fmt: skip

    @explained(BatchOptions, PageOptions)
    def get_batch(
        self,
        stream: str,
        *,
        now: float,
        at_least: int = 0,
        proves_itself: bool = False,
        timeout: Duration | None = None,
        **options: Unpack[BatchOptions],
    ) -> DirectBatch:
        """Read a stream from a sequence, or a time, on. ``DirectBatch`` has how the read fails.

        ``at_least``: a sequence. Before it the end is believed of the stream's leader alone. ``proves_itself``: as in
        ``DirectBatch``. ``timeout``: seconds of silence, or a timedelta.

        Raises:
            UnsupportedByServerError: the server is older than 2.11.
            LocalProtocolError: an argument is out of its range.
        """
        self.need_batches()
        return DirectBatch(
            self.session, check_name(stream), api=self.api, inbox=self.session.new_inbox(),
            draw=self.session.draw, now=now, at_least=of_range(0, MAX_UINT64)("at_least", at_least),
            proves_itself=of_flag("proves_itself", proves_itself),
            timeout=seconds(timeout, default=self.timeout), **options,
        )  # fmt: skip

    @explained(LastOptions, PageOptions)
    def get_last_msgs_for(
        self,
        stream: str,
        subjects: str | Iterable[str],
        *,
        now: float,
        timeout: Duration | None = None,
        **options: Unpack[LastOptions],
    ) -> LastMessages | Snapshot:
        """Read the last message of each of up to 1,024 subjects, in the order of the stream.

        With ``up_to_seq`` or ``up_to_time`` up to there, see ``LastMessages``. Else what the server that answers has,
        see ``Snapshot``. ``timeout``: seconds, or a timedelta.

        Raises:
            UnsupportedByServerError: the server is older than 2.11.
            LocalProtocolError: an argument is out of its range.
        """
        self.need_batches()
        few, asked, limit = checked_few(subjects), checked(LastOptions, options), seconds(timeout, default=self.timeout)
        if asked["up_to_seq"] is None and asked["up_to_time"] is None:
            return Snapshot(
                self, check_name(stream), few, now=now, most=asked["batch"], at_once=True,
                max_bytes=asked["max_bytes"], timeout=limit,
            )  # fmt: skip
        return LastMessages(
            self.session, check_name(stream), few, api=self.api, inbox=self.session.new_inbox(),
            draw=self.session.draw, now=now, timeout=limit, **asked,
        )  # fmt: skip

    @explained(SnapshotOptions, PageOptions)
    def snapshot(
        self,
        stream: str,
        subjects: str | Iterable[str],
        *,
        now: float,
        timeout: Duration | None = None,
        **options: Unpack[SnapshotOptions],
    ) -> Ticket[Snapshot]:
        """Read the last message of any number of subjects, at one sequence or time. The ticket takes the ``Snapshot``.

        ``timeout``: seconds for each step, or a timedelta.

        Raises:
            UnsupportedByServerError: the server is older than 2.11.
            LocalProtocolError: an argument is out of its range.
        """
        self.need_batches()
        read = Snapshot(
            self, check_name(stream), subjects, now=now, timeout=seconds(timeout, default=self.timeout),
            **checked(SnapshotOptions, options),
        )  # fmt: skip
        return self.session.scripts.bring(read.whole())

    def subjects(
        self, stream: str, pattern: str | None, offset: int = 0, *, now: float, timeout: float | None = None
    ) -> Ticket[StreamInfo]:
        """The stream's state with its subjects that match ``pattern`` and their counts, from the ``offset``-th on.

        ``state.subjects`` has at most 100,000 of them, and ``extra["total"]`` says how many there are. None: no
        subjects.
        """
        payload = b"" if pattern is None else dumps({"subjects_filter": pattern, "offset": offset})
        return self.session.requests.request(
            self.api.stream_info(stream), payload, timeout=self._limit(timeout), now=now,
            decode=partial(_long_info, stream),
            no_responders=not_available,
        )  # fmt: skip

    def stream_subjects(
        self, stream: str, filter: str = ">", *, now: float, timeout: float | None = None
    ) -> Ticket[dict[str, int]]:
        """The subjects of a stream that match ``filter``, sorted, and how many messages each has.

        As the drivers' verb. BadSubjectError, for a ``filter`` that is none, is raised. ``timeout``: of each page.
        """
        check_name(stream)
        check_subject(filter, wildcards=True)
        self.session.note(now)
        listed = SubjectList(self, stream, [filter], timeout=self._limit(timeout))
        return self.session.run(listed.counts())

    def need_batches(self) -> None:
        """Check that the server has Direct Get in batches.

        Raises:
            UnsupportedByServerError: it is older than 2.11.
        """
        server = self.session.server
        if server is not None and server.is_before("2.11"):
            raise UnsupportedByServerError("Direct Get in batches", "2.11", server.version)

    def _direct(self, stream: str, body: dict[str, Any]) -> Question:
        """What asks any replica or mirror for one message."""
        where, payload = direct_request(self.api, stream, body)
        return Question(where, payload, partial(direct_message, stream, body), partial(no_direct_get, stream))

    def _of_leader(self, stream: str, body: dict[str, Any]) -> Question:
        """What asks the leader for one message."""
        where = self.api.stream_msg_get(stream)
        return Question(where, dumps(body), partial(leader_message, stream, body), not_available)

    def _request(
        self, question: Question, now: float, timeout: float | None, fallback: Question | None = None
    ) -> Ticket[StoredMsg]:
        where, payload, decode, no_responders = question
        return self.session.requests.request(
            where, payload, timeout=self._limit(timeout), now=now, decode=decode, no_responders=no_responders,
            fallback=fallback,
        )  # fmt: skip

    def _limit(self, timeout: float | None) -> float:
        return self.timeout if timeout is None else timeout


def _long_info(stream: str, message: Msg) -> StreamInfo:
    return StreamInfo.from_json(decode_response(message.payload, HARD_MAX_PAYLOAD, f"stream {stream}"))


lend(Reads, to="jsproto.client.read")
