"""Direct Get of many subjects (ADR-31): the last message of each of them.

* ``LastMessages`` reads the stream up to a sequence or a time that the caller gives, page by page. Messages that were
  overwritten since are left out. A replica that lags answers with what it has.
* ``LastAnswer`` is one answer. From 2.12 on a server holds writes back while it gives one. So the answer shows exactly
  the state at the sequence that its end names.

These are constructors: the machine is ``paged_read``, and what they want is in ``plans``. Where the leader has
no message at all, ``LastAnswer`` asks it for its state: that names the sequence at which the stream is empty.

Not here: more subjects than a server answers at once, and answers put together (``snapshot``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from jsproto.client.read.direct import DirectBatch
from jsproto.client.read.feed import PAGE_MESSAGES
from jsproto.client.read.paged_read import PagedRead
from jsproto.client.read.plans import MAX_SUBJECTS, AnswerPlan, LastPlan
from jsproto.errors import LocalProtocolError
from jsproto.grammar.api import ApiSubjects
from jsproto.grammar.fields import check_count
from jsproto.grammar.stored import check_seq
from jsproto.grammar.subjects import check_subject
from jsproto.grammar.times import Instant, instant
from jsproto.outbox import Outbox

__all__ = ["MAX_SUBJECTS", "LastAnswer", "LastMessages", "checked_few", "checked_subjects"]


class CheckedSubjects(list[str]):
    """Subjects that were checked: a verb that is given them does not look at them again."""

    __slots__ = ()


def checked_subjects(subjects: str | Iterable[str]) -> CheckedSubjects:
    """The subjects, each once, in their order.

    Raises:
        LocalProtocolError: there is none, or one is no subject.
    """
    if isinstance(subjects, CheckedSubjects):
        return subjects
    if not isinstance(subjects, Iterable):
        raise LocalProtocolError(f"subjects are a subject, or several, not {subjects!r:.100}")
    wanted = CheckedSubjects([subjects] if isinstance(subjects, str) else dict.fromkeys(subjects))
    for subject in wanted:
        check_subject(subject, wildcards=True)
    if not wanted:
        raise LocalProtocolError("a read of the last messages needs at least one subject")
    return wanted


def checked_few(subjects: str | Iterable[str]) -> CheckedSubjects:
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

    __slots__ = ()

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
        if up_to_seq is not None:
            check_seq(up_to_seq, "up_to_seq")
            if up_to_time is not None:
                raise LocalProtocolError("give up_to_seq or up_to_time, not both")
        elif up_to_time is None:
            raise LocalProtocolError("give up_to_seq or up_to_time: without, several pages would show several states")
        check_count("page_messages", page_messages)
        point = None if up_to_time is None else instant(up_to_time)
        PagedRead.__init__(
            self, outbox, stream, LastPlan(subjects, from_seq=seq, up_to_seq=up_to_seq, up_to_time=point), api=api,
            inbox=inbox, draw=draw, now=now, batch=batch, page_messages=page_messages, max_bytes=max_bytes,
            timeout=timeout,
        )  # fmt: skip


class LastAnswer(LastMessages):
    """One answer about the last messages of subjects, whole or not at all."""

    __slots__ = ("_answer",)

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
        on_end: Callable[[], None] | None = None,
    ) -> None:
        """``least``: a sequence that the server has to have reached. ``shows``: subject and sequence of its witness.

        * The witness is a message that the server has to have. It is requested as well, and given out only if it is
          wanted.
        * ``created``: when the stream was created, if that is known (nanoseconds since the epoch).
        * ``on_end``: called once, when the answer has come, or the read has failed or was closed.

        The others are those of ``LastMessages``. A server that lags is asked again until ``timeout`` is over: then the
        read fails with IncompleteBatchError.
        """
        if up_to_seq is not None:
            check_seq(up_to_seq, "up_to_seq")
        self._answer = AnswerPlan(subjects, up_to_seq=up_to_seq, least=least, shows=shows)
        PagedRead.__init__(
            self, outbox, stream, self._answer, api=api, inbox=inbox, draw=draw, now=now, batch=batch,
            at_least=max(least, up_to_seq or 0), page_messages=MAX_SUBJECTS + 1, max_bytes=max_bytes, timeout=timeout,
            created=created, on_end=on_end,
        )  # fmt: skip

    @property
    def rest(self) -> int:
        """How many more messages there are than fitted into the answer."""
        return self._answer.rest

    @property
    def created(self) -> int | None:
        """When the stream was created: nanoseconds since the epoch, as its leader said. None: nobody asked it."""
        return self._leader.created

    @property
    def witnessed_at(self) -> int | None:
        """When the witness was stored, as the leader said: nanoseconds since the epoch. None: without one."""
        return self._answer.witnessed_at
