"""Fast-ingest batches in the server role (ADR-50): messages are stored as they come, acknowledged now and then.

Rules, those of nats-server 2.15.1 (FACTS.md F2)
 * Every answer goes to the reply subject of the message that caused it.
 * The first message is answered with the rate. After that ``AckPace`` says when to acknowledge.
 * A gap is reported. In mode ``fail`` it ends the batch with a publish acknowledgement of what is stored.
 * A sequence that was there before is reported and ends the batch in the same way, in either mode.
 * A message that fails a check is reported and, in mode ``fail``, ends the batch. If it is the first one, the error
   alone is the answer.
 * Duplicates count and are not stored.
 * A batch that is silent for too long is forgotten without a word.
 * The count of the final acknowledgement is the highest batch sequence.

The draft of ADR-50 differs:
 * It has one form for all flow messages, and other error codes.
 * The error of mode ``fail`` is inside the final acknowledgement.
 * A sequence that goes back is not reported.
 * A batch that is forgotten is announced by an advisory.

Older releases differ:
 * Before 2.15.1 they do not report a sequence that goes back, and take a ping with sequence 1 for a start.
 * Before 2.14.3 a commit gets no final acknowledgement when its message fails a check or is a duplicate.

Not here: the reply subjects (``grammar.fast``), the bytes of answers (``grammar.acks``), replication (``lead`` is what
a new leader does).
"""

from __future__ import annotations

from jsproto.errors import APIError
from jsproto.grammar.acks import FlowAck, FlowError, FlowGap, FlowMessage, encode_flow
from jsproto.grammar.fast import FastOp, FastProblem, FastReply, parse_fast_reply
from jsproto.outbox import Conversation, Outbox
from jsproto.rules.window import AckPace
from jsproto.server.publish.checks import Staged, check_account, check_last_msg_id, check_level, check_open, check_size
from jsproto.server.publish.replies import PublishReplies
from jsproto.server.store.context import ServerContext
from jsproto.server.store.refusals import refusal
from jsproto.server.store.stream import Publication, Stream
from jsproto.timers import Deadlines
from jsproto.wire.frames import Msg


class _Batch:
    """One open batch. ``last`` is the highest sequence that arrived, ``stored`` the highest that is in the stream.

    ``stream_seq`` is where the latter is; ``reply`` is the reply subject it came with. ``lost`` counts messages that
    were refused when they were stored. ``ends``: it takes no more messages.
    """

    __slots__ = ("ends", "gap_ok", "last", "lost", "pace", "reply", "stored", "stream_seq")

    def __init__(self, gap_ok: bool, pace: AckPace) -> None:
        self.gap_ok = gap_ok
        self.pace = pace
        self.last = 0
        self.stored = 0
        self.stream_seq = 0
        self.lost = 0
        self.ends = False
        self.reply: bytes | None = None


class FastBatches(Conversation):
    """The open fast-ingest batches of one stream."""

    __slots__ = ("_answers", "_context", "_deadlines", "_open", "_stream")

    def __init__(self, stream: Stream, context: ServerContext, outbox: Outbox) -> None:
        self._stream = stream
        self._context = context
        self._answers = PublishReplies(stream, context, outbox)
        self._open: dict[str, _Batch] = {}
        self._deadlines: Deadlines[str] = Deadlines()

    def __len__(self) -> int:
        return len(self._open)

    def receive(self, message: Msg, now: float) -> None:
        """A message of a batch. One without a fast-ingest reply subject is passed over."""
        self.handle_timeout(now)
        reply = parse_fast_reply(message.reply or b"")
        if reply is None:
            return
        publication = Publication(message.subject, message.header, message.payload)
        try:
            batch, reply = self._admit(publication, reply)
        except APIError as error:
            self._answers.refuse(message.reply, error)
            return
        try:
            publication = check_level(publication, self._context.api_level)
        except APIError as error:
            self._drop(reply.batch_id)
            self._answers.refuse(message.reply, error)
            return
        self._deadlines.set(reply.batch_id, now + self._context.limits.idle)
        if reply.operation is FastOp.PING:
            self._ping(message.reply, reply, batch)
        elif not batch.ends and self._in_order(message.reply, reply, batch):
            self._take(message.reply, reply, batch, publication, now)

    def handle_timeout(self, now: float) -> None:
        """Forget the batches that were silent for too long."""
        for batch_id in self._deadlines.due(now):
            self._drop(batch_id)
            if self._context.dialect == "draft":
                self._answers.abandoned(batch_id, "timeout", now)

    def deadline(self) -> float | None:
        """When the next batch will have been silent for too long, in monotonic seconds. None: no batch is open."""
        return self._deadlines.next()

    def forget(self) -> None:
        """Drop all batches without a word: they are switched off."""
        for batch_id in list(self._open):
            self._drop(batch_id)

    def lead(self, now: float) -> None:
        """Become the leader of the stream, which knows only what is stored, and say so to each publisher.

        The acknowledgement goes to the reply subject of the last message stored, and the rate starts over.
        """
        for batch_id, batch in self._open.items():
            batch.pace = AckPace(batch.pace.maximum, len(self._open), batch.stored)
            batch.last = batch.stored
            self._deadlines.set(batch_id, now + self._context.limits.idle)
            self._acknowledge(batch.reply, batch)

    def _admit(self, publication: Publication, reply: FastReply | FastProblem) -> tuple[_Batch, FastReply]:
        """Find or open the batch. An APIError leaves everything as it is."""
        check_open(self._stream)
        check_size(self._stream, publication)
        check_account(self._stream, self._stream.size(publication))
        if not self._stream.config.allow_batched:
            raise refusal(10205)
        if isinstance(reply, FastProblem):
            raise refusal(reply)
        batch = self._open.get(reply.batch_id)
        if batch is not None:
            return batch, reply
        if reply.sequence != 1 or (reply.operation is FastOp.PING and self._context.release >= (2, 15, 1)):
            raise refusal(10208)
        limits = self._context.limits
        if len(self._open) >= limits.fast_per_stream or self._context.fast_open >= limits.fast_total:
            raise refusal(10211)
        self._context.fast_open += 1
        batch = _Batch(reply.gap == "ok", AckPace(reply.flow, len(self._open) + 1))
        self._open[reply.batch_id] = batch
        return batch, reply

    def _ping(self, to: bytes | None, reply: FastReply, batch: _Batch) -> None:
        """Report what is missing up to the sequence of the ping, then acknowledge what is there."""
        if reply.sequence > batch.last:
            self._say(to, FlowGap(batch.last + 1, reply.sequence + 1))
            if not batch.gap_ok:
                if self._end(to, reply.batch_id, batch):
                    return
            else:
                batch.last = batch.stored = reply.sequence
                batch.pace.due(batch.last, len(self._open))
        self._acknowledge(to, batch)

    def _in_order(self, to: bytes | None, reply: FastReply, batch: _Batch) -> bool:
        """Whether the message can be taken, perhaps after a gap. If not, the batch has ended."""
        expected = batch.last + 1
        if reply.sequence > expected or (reply.sequence < expected and self._reports_steps_back()):
            self._say(to, FlowGap(expected, reply.sequence))
        if reply.sequence < expected or (reply.sequence > expected and not batch.gap_ok):
            self._end(to, reply.batch_id, batch)
            return False
        batch.last = reply.sequence
        return True

    def _reports_steps_back(self) -> bool:
        return self._context.dialect == "released" and self._context.release >= (2, 15, 1)

    def _take(self, to: bytes | None, reply: FastReply, batch: _Batch, publication: Publication, now: float) -> None:
        commits = reply.operation is FastOp.COMMIT
        if reply.operation is FastOp.COMMIT_EOB:
            batch.last -= 1
            self._skip(batch)
            self._end(to, reply.batch_id, batch)
            return
        batch.ends = commits
        if reply.sequence == 1 and not commits and self._answers.acknowledges:
            self._acknowledge(to, batch)
        try:
            checked = Staged(self._stream).check(publication, now)
        except APIError as error:
            self._refused(to, reply, batch, error)
            return
        if checked.original is not None:
            self._duplicate(to, reply, batch, checked.original)
            return
        try:
            check_last_msg_id(self._stream, publication)  # later than of a message alone
        except APIError as error:
            self._answers.error(to, error)
            batch.lost += 1
            return
        batch.stream_seq = self._stream.append(checked.message, now)
        batch.stored = batch.last
        batch.reply = to
        if commits:
            self._finish(to, reply.batch_id, batch)
        elif batch.pace.due(batch.last, len(self._open)):
            self._acknowledge(to, batch)

    def _duplicate(self, to: bytes | None, reply: FastReply, batch: _Batch, original: int) -> None:
        """The message is stored already: it counts, and a commit is a commit."""
        batch.stored = batch.last
        if batch.pace.due(batch.last, len(self._open)):
            self._acknowledge(to, batch)
        if reply.operation is not FastOp.COMMIT:
            return
        if reply.sequence == 1 and reply.gap == "fail":
            self._drop(reply.batch_id)
            self._answers.pub_ack(to, original, duplicate=True, batch=reply.batch_id, count=1)
        elif self._answers_failed_commits():
            self._finish(to, reply.batch_id, batch)

    def _refused(self, to: bytes | None, reply: FastReply, batch: _Batch, error: APIError) -> None:
        """The message failed a check. Here the gap mode of the message itself decides, not that of the first one."""
        commits = reply.operation is FastOp.COMMIT
        draft = self._context.dialect == "draft"
        if reply.gap == "fail" and not draft and reply.sequence == 1:
            self._drop(reply.batch_id)
            if not commits or self._answers_failed_commits():
                self._answers.error(to, error)
            return
        if reply.gap == "ok" or not draft:
            self._say(to, FlowError(reply.sequence, error))
        if reply.gap == "ok" and not commits:
            return
        batch.last -= 1
        self._skip(batch)
        if commits and not self._answers_failed_commits():
            self._drop(reply.batch_id)
        elif draft:
            self._finish(to, reply.batch_id, batch, error if reply.gap == "fail" else None)
        else:
            self._end(to, reply.batch_id, batch)

    def _answers_failed_commits(self) -> bool:
        return self._context.release >= (2, 14, 3)

    def _skip(self, batch: _Batch) -> None:
        """What came last is not stored, and counts as if it were. It does not after a message that was lost."""
        if not batch.lost:
            batch.stored = batch.last

    def _end(self, to: bytes | None, batch_id: str, batch: _Batch) -> bool:
        """End a batch with what is stored. One whose last message was refused takes no more, and gets no answer.

        Returns whether it has ended (FACTS.md F2.30).
        """
        batch.ends = True
        if batch.last != batch.stored:
            return False
        self._finish(to, batch_id, batch)
        return True

    def _finish(self, to: bytes | None, batch_id: str, batch: _Batch, error: APIError | None = None) -> None:
        """The batch ends with what is stored."""
        self._drop(batch_id)
        self._answers.pub_ack(to, batch.stream_seq, batch=batch_id, count=batch.last, error=error)

    def _acknowledge(self, to: bytes | None, batch: _Batch) -> None:
        self._say(to, FlowAck(batch.pace.acked, batch.pace.every))

    def _say(self, to: bytes | None, message: FlowMessage) -> None:
        self._answers.send(to, encode_flow(message, self._context.dialect))

    def _drop(self, batch_id: str) -> None:
        del self._open[batch_id]
        self._deadlines.set(batch_id, None)
        self._context.fast_open -= 1
