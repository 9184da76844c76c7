"""The write buffer: encoded frames that wait to be written, how many bytes may wait, and when they leave.

Rules:

* A frame is encoded once, when it is queued. It leaves in the order of the calls.
* Up to ``pending_size`` bytes may wait: a message beyond that raises OutboundBufferLimitError.
* Bytes leave at once after ``flush()``, or when ``flush_at`` bytes wait.
* A message leaves at once if ``BURST`` seconds have passed since another one, and since bytes that left.
* Other messages, and acknowledgements, wait up to ``linger`` seconds for company.
* A closed buffer refuses messages. What it has can still be written.
* What waits is measured again when a server takes less in one message.

Not here: frames of the link itself (``link``), which link the bytes go to (``session``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import inf
from typing import Any, Final, NamedTuple, NoReturn

from jsproto.client.connection.bulk_publish import MAX_CACHED_SUBJECTS, SPLIT_WRITES_AT, BulkPublisher, Encode
from jsproto.client.connection.connect_options import ConnectOptions
from jsproto.errors import (
    ConnectionClosedError,
    Error,
    MaxPayloadError,
    OutboundBufferLimitError,
    UnsupportedByServerError,
    WrongTypeError,
)
from jsproto.grammar.batch import BATCH_PREFIX
from jsproto.grammar.columns import MessageColumns
from jsproto.grammar.config import ServerInfo
from jsproto.grammar.decimals import MAX_DIGITS
from jsproto.grammar.headers import SERVER_PREFIX
from jsproto.grammar.subjects import check_subject
from jsproto.ticket import Ticket
from jsproto.wire.bulk_encoder import encode_numbered, encode_replied, encode_run
from jsproto.wire.encoder import encode_pub
from jsproto.wire.limits import DEFAULT_MAX_PAYLOAD

BURST: Final = 0.0001  # seconds: a loop that publishes asks again within a tenth of that
_NOTHING: Final = -1  # bytes that a closed buffer takes


class DroppedMessage(NamedTuple):
    """A message that waited and is too large: ``size`` is that of headers and payload together, in bytes."""

    subject: bytes
    reply: bytes | None
    size: int


class WriteBuffer:
    """The bytes that a session has queued.

    Attributes:

    * ``size``: bytes that wait. An UNSUB that may wait for ever is not counted.
    * ``congested_at``: when ``size`` is more, publishers should wait. It is half of ``pending_size``.
    * ``is_urgent``: what waits is to leave now.
    * ``leave_at``: when what waits for company leaves, in the caller's monotonic seconds. None: nothing does.
    * ``max_payload``: bytes of headers and payload that the server takes in one message.
    * ``published``: messages that were queued.
    * ``written``: bytes that were taken to be written, of messages and subscriptions.
    """

    __slots__ = (
        "_acks", "_bulk", "_burst_ends", "_closed_by", "_completed", "_congestion", "_flush_at", "_frames", "_heads",
        "_in_burst", "_limit", "_linger", "_pending_size", "_server", "congested_at", "is_urgent", "leave_at",
        "max_payload", "published", "size", "written",
    )  # fmt: skip

    def __init__(self, options: ConnectOptions, completed: Callable[[Ticket[Any]], None]) -> None:
        """``options``: its ``pending_size``, ``flush_at`` (bytes) and ``linger`` (seconds) count here.

        ``completed`` is called with each ticket of ``sendable`` that is completed.
        """
        self.size = 0
        self._acks = 0  # of ``size``: acknowledgements, for which nobody waits
        self._in_burst = False  # a message waits for company
        self._burst_ends = -inf  # when a message that comes does not belong to those before it
        self.published = 0
        self.written = 0
        self.max_payload = DEFAULT_MAX_PAYLOAD  # until INFO says otherwise
        self._pending_size = self._limit = options.pending_size
        self.congested_at = options.pending_size // 2
        self._flush_at = options.flush_at
        self._linger = options.linger
        self._completed = completed
        self._server: ServerInfo | None = None
        self._frames: list[bytes] = []
        self.is_urgent = False
        self.leave_at: float | None = None  # looked at for each message, so no ``Timers``
        self._heads = _Heads()
        self._bulk = BulkPublisher()
        self._congestion: Ticket[None] | None = None
        self._closed_by: Error | None = None

    # -- what is queued ------------------------------------------------------------------------------------------------

    def publish(self, subject: str, payload: bytes, reply: bytes | None, headers: bytes | None) -> None:
        """See ``Session.publish``."""
        try:
            heads = self._heads[subject]
        except TypeError:  # unhashable
            heads = self._heads.__missing__(subject)  # which says that it is no str
        if type(payload) is not bytes:  # what is queued must neither change nor count otherwise
            payload = copied(payload)
        size = len(payload)
        if size > self.max_payload or headers is not None:
            size = self._check_size(size, headers)
        if self.size > self._limit:
            self.refuse()
        self.published += 1
        if headers is None and size <= SPLIT_WRITES_AT:  # most messages: one frame, formatted once
            if reply is None:
                frame = b"%b%d\r\n%b\r\n" % (heads[0], size, payload)
            else:
                frame = b"%b%b %d\r\n%b\r\n" % (heads[0], reply, size, payload)
            self._frames.append(frame)
            self.size += len(frame)
            return
        if headers is not None:
            where = heads[1] if reply is None else b"%b%b " % (heads[1], reply)
            head = b"%b%d %d\r\n%b" % (where, len(headers), size, headers)
        elif reply is not None:
            head = b"%b%b %d\r\n" % (heads[0], reply, size)
        else:
            head = b"%b%d\r\n" % (heads[0], size)
        if size > SPLIT_WRITES_AT:
            self._frames += (head, payload, b"\r\n")
        else:
            self._frames.append(b"%b%b\r\n" % (head, payload))
        self.size += len(head) + len(payload) + 2

    def publish_to_pattern(self, subject: str, payload: bytes, reply: bytes, headers: bytes | None) -> None:
        """See ``Session.publish_to_pattern``."""
        checked = check_subject(subject, wildcards=True)
        self._check_size(len(payload), headers)
        if self.size > self._limit:
            self.refuse()
        self.published += 1
        self.queue(encode_pub(checked, reply, headers, payload))

    def publish_replies(self, replies: Sequence[bytes], payload: bytes) -> None:
        """See ``Session.publish_replies``."""
        if self.size > self._limit:
            self.refuse()
        self.published += len(replies)
        end = b" %d\r\n%b\r\n" % (len(payload), payload)
        frames = b"PUB %b%b" % ((end + b"PUB ").join(replies), end)
        size = len(frames)
        self._frames.append(frames)
        self.size += size
        self._acks += size

    def publish_run(self, messages: Sequence[Any], reply: tuple[bytes, bytes], first: int) -> int:
        """See ``Session.publish_run``."""
        room = self._room()
        if isinstance(messages, MessageColumns) and room >= 0:
            count, data = messages.encoded(reply, first, self.max_payload, room)
            if count:
                self.published += count
                self.queue(data)
                return count
        encode = partial(encode_run, reply, first)
        return len(self._queue_run(messages, self.max_payload, encode, BATCH_PREFIX))

    def publish_replied(self, messages: Sequence[Any], replies: Sequence[bytes]) -> int:
        """See ``Session.publish_replied``."""
        return len(self._queue_run(messages, self.max_payload, partial(encode_replied, replies), BATCH_PREFIX))

    def publish_numbered(
        self, messages: Sequence[Any], block: tuple[bytes, bytes], first: int, subjects: set[str]
    ) -> int:
        """See ``Session.publish_numbered``."""
        largest = self.max_payload - sum(map(len, block)) - MAX_DIGITS
        queued = self._queue_run(messages, largest, partial(encode_numbered, block, first), SERVER_PREFIX)
        subjects.update(queued)
        return len(queued)

    def queue(self, frame: bytes) -> None:
        """Queue a frame that is encoded already, however much waits."""
        self._frames.append(frame)
        self.size += len(frame)

    def queue_first(self, frames: Iterable[bytes]) -> None:
        """Queue frames before all that wait."""
        frames = list(frames)
        self._frames[:0] = frames
        self.size += sum(map(len, frames))

    def queue_uncounted(self, frame: bytes) -> None:
        """Queue a frame that leaves with the next one: alone it may wait for ever."""
        self._frames.append(frame)

    # -- how much may wait ---------------------------------------------------------------------------------------------

    def sendable(self) -> Ticket[None]:
        """Completed when what waits now was taken to be written, or dropped."""
        if self._congestion is not None:
            return self._congestion
        ticket: Ticket[None] = Ticket()
        if self.size and self._limit != _NOTHING:
            self._congestion = ticket
        else:
            ticket.succeed(None)
        return ticket

    def refuse(self) -> NoReturn:
        """Raise why a message is refused.

        Raises:
            ConnectionClosedError: the buffer was closed.
            OutboundBufferLimitError: more than ``pending_size`` bytes wait.
        """
        if self._limit == _NOTHING:
            error = self._closed_by
            raise ConnectionClosedError(str(error or "the connection was closed")) from error
        raise OutboundBufferLimitError(self.size, self._pending_size)

    def learn(self, server: ServerInfo) -> list[DroppedMessage]:
        """The limits of ``server`` are in force from now on. Returns what waits and is too large for it: it is dropped.

        A server ends the link at such a message, and those after it would be lost with the link.
        """
        has_shrunk = server.max_payload < self.max_payload
        self._server = server
        self.max_payload = server.max_payload
        self._bulk.takes_headers = server.headers
        return self._drop_too_large() if has_shrunk and self._frames else []

    # -- when it leaves ------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """What was queued is to leave now."""
        self.is_urgent = bool(self._frames)

    def wants_send(self, now: float) -> bool:
        """Whether the bytes that wait are to leave at ``now``. Once they are, that stays so until they have left.

        To be called while there is ``size``, or ``is_urgent``. Pays: ``request``.
        """
        if self.is_urgent:
            return True
        if self.size < self._flush_at:
            if not self._in_burst and self.size > self._acks:
                self._in_burst = now < self._burst_ends
                if not self._in_burst:
                    self.is_urgent = True  # until it has left
                    self._burst_ends = now + BURST
                    return True
            if self.leave_at is None:
                self.leave_at = now + self._linger
            if now < self.leave_at:
                return False
        self._burst_ends = now + BURST
        return True

    def handle_timeout(self, now: float) -> None:
        """Time has passed."""
        if self.leave_at is not None and now >= self.leave_at:
            self.leave_at = None
            self.flush()

    def take(self) -> list[bytes]:
        """Everything, in order. It counts as written."""
        frames, self._frames = self._frames, []
        self.written += self.size
        self._emptied()
        return frames

    def take_before_ping(self) -> list[bytes]:
        """Everything, in order, to be written before a PING. It counts as waiting until the next ``take``."""
        frames, self._frames = self._frames, []
        return frames

    def drop(self) -> None:
        """Everything is lost with the link."""
        self._frames = []
        self._emptied()

    def close(self, error: Error | None) -> None:
        """Refuse further messages. ``error`` is why, or None if the application closed the session."""
        self._limit = _NOTHING
        self._closed_by = error

    def release(self) -> None:
        """Complete the ticket of ``sendable``."""
        congestion, self._congestion = self._congestion, None  # the caller may ask for the next one at once
        if congestion is not None:
            congestion.succeed(None)
            self._completed(congestion)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _emptied(self) -> None:
        self.size = self._acks = 0
        self._in_burst = False
        self.is_urgent = False
        self.leave_at = None
        if self._congestion is not None:
            self.release()

    def _drop_too_large(self) -> list[DroppedMessage]:
        data, at = b"".join(self._frames), 0
        self._frames = []
        dropped: list[DroppedMessage] = []
        while at < len(data):
            begin, at = at, data.index(b"\r\n", at) + 2
            verb, *words = data[begin:at].split()
            sizes = {b"PUB": 1, b"HPUB": 2}.get(verb)
            if sizes is not None:
                at += int(words[-1]) + 2
            if sizes is None or int(words[-1]) <= self.max_payload:
                self._frames.append(data[begin:at])
                continue
            self.size -= at - begin
            reply = words[1] if len(words) > 1 + sizes else None
            dropped.append(DroppedMessage(words[0], reply, int(words[-1])))
        return dropped

    def _queue_run(self, messages: Sequence[Any], largest: int, encode: Encode, reserved: str) -> Sequence[str]:
        room = self._room()
        if room < 0:
            return ()
        subjects, pieces = self._bulk.encode(messages, largest, room, encode, reserved)
        self._frames += pieces
        self.published += len(subjects)
        self.size += sum(map(len, pieces))
        return subjects

    def _room(self) -> int:
        """How many bytes may be queued. Less than 0 when the buffer is over its limit."""
        return self._limit - self.size

    def _check_size(self, size: int, headers: bytes | None) -> int:
        server = self._server
        if headers is not None and server is not None and not server.headers:
            raise UnsupportedByServerError("message headers", "2.2", server.version)
        total = size + (0 if headers is None else len(headers))
        if total > self.max_payload:
            raise MaxPayloadError(total, self.max_payload)
        return total


class _Heads(dict[str, tuple[bytes, bytes]]):
    """The first words of PUB and HPUB, by subject. One that is new is checked. Pays: ``fast-ingest-single``."""

    def __missing__(self, subject: str) -> tuple[bytes, bytes]:
        checked = check_subject(subject)
        if len(self) >= MAX_CACHED_SUBJECTS:
            self.clear()
        heads = self[subject] = (b"PUB %b " % checked, b"HPUB %b " % checked)
        return heads


def copied(payload: object) -> bytes:
    """The bytes of a bytes-like payload.

    Raises:
        WrongTypeError: it is text, or anything else.
    """
    try:
        return bytes(memoryview(payload))  # type: ignore[arg-type]
    except TypeError:
        hint = ": encode it" if isinstance(payload, str) else ""
        raise WrongTypeError(f"the payload must be bytes, not {type(payload).__name__}{hint}") from None
