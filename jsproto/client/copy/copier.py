"""One copy from a consumer to a stream: which message has which place, what is stored, and what comes next.

* Messages are handed on in the order in which the consumer delivers them.
* The copy confirms to the consumer what the target has acknowledged, and that alone.
* By fast ingest, all of a batch that was acknowledged is stored. The end of a batch is acknowledged by a commit alone.
* By atomic batches, a batch is stored with the marker that says up to where, or not at all.
* The target refuses a copy, or a marker, if something else was stored in between: by another copy, or by late bytes of
  an earlier one. Then the target is looked up again.
* A run that ends has a goal: the last message that the source had when it began. It leaves out what is published later,
  so that it ends under traffic.
* After ``MAX_FENCES`` such refusals in a row, with nothing stored meanwhile, somebody else is at work.

Not here: what waits (the drivers), what the target has at first (``target``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jsproto.api_errors import StreamWrongLastSequenceError
from jsproto.backoff import Backoff
from jsproto.client.copy.columns import CopyColumns, CopyForm, sequences_of
from jsproto.client.copy.target import CopyTarget
from jsproto.enums import IdentityEnum
from jsproto.errors import BatchMessageError, CopyFencedError, CopyTargetError, Error
from jsproto.grammar.consumer import ConsumerInfo
from jsproto.grammar.copies import UNFILTERED, CopyOrigin
from jsproto.grammar.headers import Headers
from jsproto.grammar.jsack import parse_jsack
from jsproto.grammar.position import StreamPosition
from jsproto.grammar.publish_headers import EXPECTED_LAST_SUBJECT_SEQUENCE
from jsproto.rules.passing import passes
from jsproto.wire.frames import RawMsg

if TYPE_CHECKING:
    from jsproto.client.consume.sourcing import SourcingConsumer

LINGER: Final = 0.05  # seconds: so long a batch stays open for the next message
ACK_WAIT: Final = 1.0  # seconds for an acknowledgement that is due
MAX_ATOMIC: Final = 999  # copies in an atomic batch: the marker is one more
MAX_FENCES: Final = 5
SETTLE_WITHIN: Final = 3.0  # seconds; a server asks after one without messages
_FIRST_PAUSE: Final = 0.1  # seconds
_LONGEST_PAUSE: Final = 5.0


class CopyStep(IdentityEnum):
    """What a copy by fast ingest does when nothing is there to be taken."""

    AWAIT_ACK = "an acknowledgement is due by itself"
    AWAIT_MSGS = "more messages may come for this batch"
    COMMIT = "the batch has to end: only that brings the acknowledgement of what was sent"


class Taken(NamedTuple):
    """Messages that were taken from the consumer, in order, and the identity of the stream that they are of."""

    raws: Sequence[RawMsg]
    identity: str | None


class Copier:
    """The places of messages in both streams, since the target was looked up.

    Attributes:
        stream: the name of the source.
        target: the name of the target.
        position: the stream sequence up to which all is stored in the target. 0: nothing is.
        identity: that of the stream which the copies are of. None: it is not known.
    """

    def __init__(self, stream: str, target: CopyTarget, prefix: str = "", filters: str = UNFILTERED) -> None:
        """``prefix``: text before each subject of a copy. ``filters``: the ``filter_text`` of the consumer.

        Raises:
            CopyTargetError: the target has copies by other filters.
        """
        target.check_filters(filters)
        self._filters = filters
        self.stream = stream
        self.target = target.name
        stored = target.position(stream)
        self.position, self.identity = stored.seq, stored.identity
        self._form = CopyForm(prefix, target.check, keeps_ttl=target.keeps_ttl)
        self._last_seq = target.last_seq  # of the target, or of its marker, once all that was sent is stored
        self._marked = stored  # what the marker of the batch says
        self._sent: deque[tuple[int, Sequence[int]]] = deque()  # batch sequence of the last one, stream sequences
        self._identity = stored.identity  # of the stream that the messages of the batch are of
        self._sequence = 0  # in the batch
        self._acked = 0  # in the batch
        self._stored = 0

    @property
    def under_way(self) -> int:
        """How many copies were handed on, and are not acknowledged."""
        return self._sequence - self._acked

    def take_stored(self) -> int:
        """How many copies were acknowledged since the last call."""
        stored, self._stored = self._stored, 0
        return stored

    # -- fast ingest ---------------------------------------------------------------------------------------------------

    def begin_batch(self) -> None:
        """The next messages are the first ones of a batch."""
        self._sent.clear()
        self._sequence = self._acked = 0

    def columns(self, taken: Taken) -> CopyColumns:
        """What to publish in the batch for these messages."""
        raws, identity = taken
        self._identity = identity
        seqs = sequences_of(raws)
        columns = CopyColumns(
            self._form, (self.stream, self._filters, identity), raws, seqs, self._last_seq + self._sequence
        )
        self._sequence += len(raws)
        self._sent.append((self._sequence, seqs))
        return columns

    def acknowledged(self, count: int) -> int:
        """``count`` messages of the batch are stored. Returns ``position``, which may be confirmed."""
        sent = self._sent
        self._stored += count - self._acked
        self._acked = count
        while sent:
            last, seqs = sent[0]
            first = last - len(seqs)
            if count <= first:
                break
            self.position, self.identity = seqs[min(count, last) - first - 1], self._identity
            if count < last:
                break
            sent.popleft()
        return self.position

    def committed(self, count: int) -> int:
        """The batch has ended, and ``count`` messages are stored. Returns ``position``."""
        position = self.acknowledged(count)
        self._last_seq += count
        self.begin_batch()
        return position

    def next_step(self, acked: int, flow: int, *, awaits_confirm: bool, waited: bool) -> CopyStep:
        """What to do without messages.

        ``acked`` and ``flow``: of the batch. ``awaits_confirm``: the consumer delivers no more before it has an answer.
        ``waited``: that was waited for in vain.
        """
        if waited:
            return CopyStep.COMMIT
        if self._sequence - acked >= flow:
            return CopyStep.AWAIT_ACK
        return CopyStep.COMMIT if awaits_confirm else CopyStep.AWAIT_MSGS

    # -- atomic batches ------------------------------------------------------------------------------------------------

    def batch(self, taken: Taken, marker: str) -> list[tuple[str, bytes] | tuple[str, bytes, Headers]]:
        """The messages of an atomic batch: the copies, and the marker. ``marker``: its subject."""
        form, (raws, identity) = self._form, taken
        form.lines([raw[0] for raw in raws])  # which checks them
        messages: list[tuple[str, bytes] | tuple[str, bytes, Headers]] = []
        for subject, _, header, payload in raws:
            lines = form.kept(header)
            text = form.subject(subject)
            if text == marker:
                raise CopyTargetError(self.target, f"a copy has the marker's subject {marker}: choose another marker")
            if lines:
                messages.append((text, payload, Headers.parse(b"NATS/1.0\r\n%b\r\n" % lines)))
            else:
                messages.append((text, payload))
        last = parse_jsack(raws[-1][1])
        self._marked = StreamPosition(self.stream, last.sequence.stream, identity, last.timestamp)
        fence = Headers({EXPECTED_LAST_SUBJECT_SEQUENCE: str(self._last_seq)})
        messages.append((marker, bytes(CopyOrigin(self._marked, self._filters)), fence))
        self._sequence = len(raws)
        return messages

    def committed_marker(self, seq: int) -> int:
        """The batch of ``batch`` is stored, and its marker has the sequence ``seq``. Returns ``position``."""
        self.position, self.identity, self._last_seq = self._marked.seq, self._marked.identity, seq
        self._stored += self._sequence
        self._sequence = 0
        return self.position


class CopyRetry:
    """How often a copy may begin again, and after which pause."""

    def __init__(self, target: str) -> None:
        """``target``: the name of the stream that is written to."""
        self._target = target
        self._backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        self._fences = 0
        self._position = -1

    def failed(self, error: Error, position: int, now: float) -> float:
        """The copy has failed with everything up to ``position`` stored. Returns the seconds until it begins again.

        Raises:
            CopyFencedError: somebody else writes to the target.
            Error: ``error`` itself, if the copy would fail in the same way.
        """
        if position > self._position >= 0:
            self._backoff.reset()
            self._fences = 0
        self._position = position
        if is_fence(error):
            self._fences += 1
            if self._fences > MAX_FENCES:
                raise CopyFencedError(self._target) from error
        elif not passes(error):
            raise error
        pause = self._backoff.failed(now)
        assert pause is not None  # this series never gives up
        return pause


class CopyGoal:
    """Where a run ends, from the first time that it is asked for.

    Of a stream that is made anew meanwhile, that is the end which the new one has then.
    """

    def __init__(self) -> None:
        self._identity: str | None = None
        self._seq: int | None = None
        self._late_at: float | None = None

    def is_reached(self, source: SourcingConsumer[Any]) -> bool:
        """Whether the sink has taken what the stream had. Never, where the stream may not be asked for."""
        if source.facts is not None and (self._seq is None or self._identity != source.identity):
            self._identity, self._seq = source.identity, source.facts.last_seq
        return self._seq is not None and source.taken >= self._seq

    def is_settled(self, source: SourcingConsumer[Any], info: ConsumerInfo) -> bool:
        """Whether the consumer has heard that this is stored, or that there is nothing more. ``info``: as it is now."""
        if not (info.num_pending or source.pending_msgs) and (source.schedule is not None or not info.num_ack_pending):
            return True
        is_heard = source.schedule is not None or info.ack_floor.stream_seq >= (self._seq or 0)
        return self.is_reached(source) and is_heard

    def gives_up(self, source: SourcingConsumer[Any], now: float) -> bool:
        """Whether to stop waiting for the consumer to ask: under a steady stream of messages it stays silent."""
        if self._late_at is None and source.received > (self._seq or 0):
            self._late_at = now + SETTLE_WITHIN
        return self._late_at is not None and now >= self._late_at


def is_fence(error: BaseException | None) -> bool:
    """Whether the target has another last sequence than the copy knows."""
    if isinstance(error, StreamWrongLastSequenceError):
        return True
    return isinstance(error, BatchMessageError) and is_fence(error.__cause__)
