"""Atomic batches in the server role (ADR-50): members are staged, the commit accepts all of them or none.

Rules, those of nats-server 2.15.1, and of older releases where they differ (FACTS.md F1)
 * Nothing is in the stream before the commit. There every member is checked under the state that the members before it
   will have made.
 * A batch that is refused, at whatever member, is gone, and its id is free at once.
 * A member that fits no open batch is answered with ``incomplete``.
 * A batch is dropped with an advisory when it is silent for too long. So it is after a gap, too many members, an end
   without members, or a demand for a higher API level.
 * A batch that fails at its commit, or has an unknown commit header, is dropped without an advisory.

Not here: the headers (``grammar.batch``), which message is a member (``server.inlet``), when what is accepted is stored
(``proposals``).
"""

from __future__ import annotations

from jsproto.errors import APIError
from jsproto.grammar.advisory import AbandonReason
from jsproto.grammar.batch import (
    BATCH_COMMIT,
    BATCH_SEQUENCE,
    BatchCommit,
    BatchHeaders,
    BatchProblem,
    parse_batch_headers,
)
from jsproto.grammar.headers import appended
from jsproto.grammar.publish_headers import EXPECTED_LAST_MSG_ID, MSG_ID
from jsproto.outbox import Conversation, Outbox
from jsproto.server.publish.checks import check_account, check_level, check_open, check_size
from jsproto.server.publish.proposals import Proposals
from jsproto.server.publish.replies import PublishReplies
from jsproto.server.store.context import Release, ServerContext
from jsproto.server.store.refusals import refusal
from jsproto.server.store.stream import Publication, Stream
from jsproto.timers import Deadlines
from jsproto.wire.frames import Msg

_FIRST: Release = (2, 12, 0)
_FULL_SINCE: Release = (2, 14, 0)  # eob, an error of its own for too many batches, an advisory for the level
_EOB_UNCOUNTED_SINCE: Release = (2, 14, 1)


class _Abandoned(Exception):
    """The batch is dropped: the sender gets ``error``, and an advisory says the ``reason``, if there is one."""

    def __init__(self, error: APIError, reason: AbandonReason | None = None) -> None:
        self.error = error
        self.reason = reason


class AtomicBatches(Conversation):
    """The open atomic batches of one stream."""

    __slots__ = ("_answers", "_context", "_deadlines", "_open", "_proposals", "_stream")

    def __init__(self, stream: Stream, context: ServerContext, outbox: Outbox, proposals: Proposals) -> None:
        """``proposals``: takes what a commit has accepted."""
        self._stream = stream
        self._proposals = proposals
        self._context = context
        self._answers = PublishReplies(stream, context, outbox)
        self._open: dict[str, list[Publication]] = {}
        self._deadlines: Deadlines[str] = Deadlines()

    def __len__(self) -> int:
        return len(self._open)

    def receive(self, message: Msg, now: float) -> None:
        """A member of a batch. A message without a batch id is passed over."""
        self.handle_timeout(now)
        headers = parse_batch_headers(message.header)
        if headers is None:
            return
        headers = self._in_release(headers, _publication(message))
        try:
            self._admit(message, headers)
        except APIError as error:
            self._answers.refuse(message.reply, error)
            return
        try:
            self._take(message, headers, now)
        except _Abandoned as end:
            self._drop(headers.batch_id)
            self._answers.refuse(message.reply, end.error)
            if end.reason is not None:
                self._answers.abandoned(headers.batch_id, end.reason, now)

    def handle_timeout(self, now: float) -> None:
        """Give up the batches that were silent for too long."""
        for batch_id in self._deadlines.due(now):
            self._drop(batch_id)
            self._answers.abandoned(batch_id, "timeout", now)

    def deadline(self) -> float | None:
        """When the next batch will have been silent for too long, in monotonic seconds. None: no batch is open."""
        return self._deadlines.next()

    def forget(self) -> None:
        """Drop all batches without a word: they are switched off, or another server leads the stream now."""
        for batch_id in list(self._open):
            self._drop(batch_id)

    def _admit(self, message: Msg, headers: BatchHeaders) -> None:
        """Find or open the batch. An APIError leaves everything as it is."""
        context = self._context
        check_open(self._stream)
        check_size(self._stream, _publication(message))
        check_account(self._stream, self._stream.size(_publication(message)))
        if not self._stream.config.allow_atomic:
            raise refusal(10174)
        if headers.problem is not None:
            has_sequence = bool(_publication(message).value(BATCH_SEQUENCE))
            if has_sequence and headers.problem is BatchProblem.MISSING_SEQUENCE and context.release <= _FULL_SINCE:
                raise refusal(10199, context.limits.atomic_messages)
            raise refusal(headers.problem)
        if headers.batch_id in self._open:
            return
        if headers.sequence != 1:
            self._check_length(headers)
            raise refusal(10176)
        limits = context.limits
        if len(self._open) >= limits.atomic_per_stream or context.atomic_open >= limits.atomic_total:
            raise refusal(10210 if context.release >= _FULL_SINCE else 10176)
        self._open[headers.batch_id] = []
        context.atomic_open += 1

    def _take(self, message: Msg, headers: BatchHeaders, now: float) -> None:
        batch = self._open[headers.batch_id]
        if headers.commit is BatchCommit.INVALID:
            raise _Abandoned(refusal(10200))
        member = _publication(message)
        if self._context.release > _FIRST:
            try:
                member = check_level(member, self._context.api_level)
            except APIError as error:
                raise _Abandoned(error, "unsupported" if self._context.release >= _FULL_SINCE else None) from None
        self._deadlines.set(headers.batch_id, now + self._context.limits.idle)
        end_of_batch = headers.commit is BatchCommit.EOB
        if headers.sequence != len(batch) + 1 or (end_of_batch and not batch):
            raise _Abandoned(refusal(10176), "incomplete")
        try:
            self._check_length(headers)
        except APIError as error:
            reason: AbandonReason = "incomplete" if self._context.dialect == "draft" else "large"  # (FACTS.md F1.21)
            raise _Abandoned(error, reason) from None
        if end_of_batch:
            last = batch[-1]
            batch[-1] = Publication(last.subject, appended(last.header, BATCH_COMMIT.encode(), b"1"), last.payload)
        else:
            batch.append(member)
        if headers.commit is not BatchCommit.NONE:
            self._commit(message.reply, headers.batch_id, batch, now)
        elif self._answers.acknowledges:
            self._answers.send(message.reply, b"")

    def _commit(self, reply: bytes | None, batch_id: str, batch: list[Publication], now: float) -> None:
        staged, accepted = self._proposals.stage(), list[Publication]()
        for member in batch:
            if member.value(EXPECTED_LAST_MSG_ID):
                raise _Abandoned(refusal(10177, EXPECTED_LAST_MSG_ID))
            if member.value(MSG_ID) and self._context.release == _FIRST:
                raise _Abandoned(refusal(10177, MSG_ID))
            try:
                checked = staged.check(member, now)
            except APIError as error:
                raise _Abandoned(error) from None
            if checked.original is not None:
                raise _Abandoned(refusal(10201))
            accepted.append(checked.message)
        self._drop(batch_id)

        def stored(seq: int) -> None:
            if self._answers.acknowledges:
                self._answers.pub_ack(reply, seq, batch=batch_id, count=len(accepted))

        self._proposals.propose(staged, accepted, stored, now)

    def _check_length(self, headers: BatchHeaders) -> None:
        """The message that ends a batch without being stored does not count, except in 2.14.0.

        Without that one the sequence 0 is below zero, which servers take for a large number (FACTS.md F1.30).
        """
        limit = self._context.limits.atomic_messages
        is_uncounted = headers.commit is BatchCommit.EOB and self._context.release >= _EOB_UNCOUNTED_SINCE
        if not 0 <= headers.sequence - is_uncounted <= limit:
            raise refusal(10199, limit)

    def _in_release(self, headers: BatchHeaders, message: Publication) -> BatchHeaders:
        """``headers`` with the commit as the release understands it (FACTS.md F1.6, F1.18)."""
        if self._context.release >= _FULL_SINCE:
            return headers
        commit = BatchCommit.INVALID if headers.commit is BatchCommit.EOB else headers.commit
        if self._context.release == _FIRST:
            commit = BatchCommit.STORE if message.value(BATCH_COMMIT) else BatchCommit.NONE
        return BatchHeaders(headers.batch_id, headers.sequence, commit, headers.problem)

    def _drop(self, batch_id: str) -> None:
        del self._open[batch_id]
        self._deadlines.set(batch_id, None)
        self._context.atomic_open -= 1


def _publication(message: Msg) -> Publication:
    return Publication(message.subject, message.header, message.payload)
