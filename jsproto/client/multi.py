"""Direct Get of many subjects (ADR-31): the last message of each of them, as of one point of the stream.

Rules: the first page says up to which sequence it was made, and the others are asked for up to the same one and behind
the last message received: so no message comes twice and none is left out, whatever is published meanwhile. A first
page that breaks off before it has said that cannot be continued, unless the caller gave the point.

Not here: more subjects than a server answers at once, and replicas that are behind (``snapshot``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from jsproto.client.direct import PAGE_BYTES, PAGE_MESSAGES, DirectBatch
from jsproto.client.gets import check_seq
from jsproto.errors import IncompleteBatchError, LocalProtocolError
from jsproto.grammar.stored import number
from jsproto.grammar.subjects import check_subject
from jsproto.grammar.times import Instant, format_timestamp, instant
from jsproto.outbox import Outbox

MAX_SUBJECTS: Final = 1024
"""Subjects that a server answers for at once (ADR-31): more are a 413."""


def checked_subjects(subjects: str | Iterable[str]) -> list[str]:
    """The subjects, each once, in their order; LocalProtocolError for none, or one that cannot be."""
    wanted = [subjects] if isinstance(subjects, str) else list(dict.fromkeys(subjects))
    for subject in wanted:
        check_subject(subject, wildcards=True)
    if not wanted:
        raise LocalProtocolError("a read of the last messages needs at least one subject")
    return wanted


class LastMessages(DirectBatch):
    """One read of the last message of each subject that matches, in the order of the stream."""

    __slots__ = ("_subjects", "_up_to_seq", "_up_to_time")

    def __init__(
        self,
        outbox: Outbox,
        stream: str,
        subjects: str | Iterable[str],
        *,
        api_subject: str,
        inbox: str,
        now: float,
        batch: int | None = None,
        up_to_seq: int | None = None,
        up_to_time: Instant | None = None,
        page_messages: int = PAGE_MESSAGES,
        page_bytes: int = PAGE_BYTES,
        timeout: float = 5.0,
    ) -> None:
        """Ask ``api_subject`` for the last message of each of ``subjects`` (wildcards allowed).

        ``batch``: at most so many in all. ``up_to_seq``: as of that sequence; ``up_to_time``: as of that time, without
        a message stored just then; else as of now. The others are those of ``DirectBatch``. LocalProtocolError for
        impossible values, more than MAX_SUBJECTS among them. When wildcards match more the read fails with
        TooManyResultsError.
        """
        self._subjects = checked_subjects(subjects)
        if len(self._subjects) > MAX_SUBJECTS:
            raise LocalProtocolError(
                f"a server answers for at most {MAX_SUBJECTS} subjects at once, not {len(self._subjects)}; a snapshot "
                f"reads any number"
            )
        if up_to_seq is not None:
            check_seq(up_to_seq, "up_to_seq")
            if up_to_time is not None:
                raise LocalProtocolError("give up_to_seq or up_to_time, not both")
        self._up_to_seq = up_to_seq
        self._up_to_time = None if up_to_time is None else format_timestamp(instant(up_to_time))
        super().__init__(
            outbox, stream, api_subject=api_subject, inbox=inbox, now=now, batch=batch, page_messages=page_messages,
            page_bytes=page_bytes, timeout=timeout,
        )  # fmt: skip

    @property
    def up_to_seq(self) -> int | None:
        """As of which sequence it is; None until the first page is whole."""
        return self._up_to_seq

    def _fields(self) -> dict[str, Any]:
        body: dict[str, Any] = {"multi_last": self._subjects, "batch": self._page_asked, "max_bytes": self._page_bytes}
        if self._floor:
            body["seq"] = self._floor + 1
        if self._up_to_seq is not None:
            body["up_to_seq"] = self._up_to_seq
        elif self._up_to_time is not None:
            body["up_to_time"] = self._up_to_time
        return body

    def _resume(self, now: float) -> None:
        if self._floor and self._up_to_seq is None and self._up_to_time is None:
            text = "the first page broke off before the server had said up to which sequence it is"
            self._fail(IncompleteBatchError(text, self.last_seq))
        else:
            super()._resume(now)

    def _page_over(self, header: bytes, now: float) -> None:
        if self._up_to_seq is None:
            self._up_to_seq = number(header, b"Nats-UpTo-Sequence")
            if self._up_to_seq is None and self._page_count:
                raise IncompleteBatchError("the first page does not say up to which sequence it is", self.last_seq)
        super()._page_over(header, now)

    def _pending(self, header: bytes) -> int:
        # At the end of a page 2.11 counts one too few, but not with its last message (server fact, section 3).
        said = super()._pending(header)
        last = self._last_header if self._page_count else None
        return said if last is None else max(said, number(last, b"Nats-Num-Pending") or 0)
