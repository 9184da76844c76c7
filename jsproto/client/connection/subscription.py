"""A core NATS subscription: messages are buffered until the application takes them.

Rules:

* The buffer is bounded by messages and bytes. Messages beyond that are dropped and counted.
* The application gets one event each time the buffer fills up. Core NATS promises delivery at most once.
* After the end buffered messages can still be taken. Then ``readable()`` fails with why the subscription ended.

Not here: JetStream consumers, acks, statuses.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Unpack

from jsproto.client.connection.message_buffer import BufferOptions
from jsproto.errors import ConnectionClosedError, Error, PermissionsViolationError, WrongTypeError
from jsproto.events import SlowConsumer
from jsproto.grammar.options import checked
from jsproto.outbox import Conversation
from jsproto.ticket import Live, Readable, Ticket
from jsproto.wire.frames import Msg, PlainRun

if TYPE_CHECKING:
    from jsproto.client.connection.session import Session


def _size(message: Msg) -> int:
    return len(message.payload) + (0 if message.header is None else len(message.header))


class Drainable(Conversation, Live):
    """What can be ended so that everything the server had sent, or was sending, is delivered first."""

    __slots__ = ()

    error: Error | None

    @property
    def is_awaited(self) -> bool:
        """Whether a caller waited when the drain began that has yet to ask again: it may be about to acknowledge."""
        return False

    def end_interest(self) -> None:
        """First half of a drain: the server is to stop sending. Messages under way still arrive."""
        raise NotImplementedError

    def end_drain(self, now: float, closing: bool) -> Ticket[None] | None:
        """Second half: a PONG has followed everything that was under way.

        ``closing``: the connection ends with the drain. The drain waits for the ticket. It may be called once more with
        it.
        """
        raise NotImplementedError


class Subscription(Drainable):
    """One subscription and its buffer.

    Attributes:

    * ``subject`` and ``queue``: what was subscribed to, in which queue group.
    * ``dropped``: messages lost to a full buffer.
    * ``pending_msgs`` and ``pending_bytes``: messages, and their bytes, that can be taken.
    * ``error``: why it ended, None while it lives.
    """

    __slots__ = (
        "_buffer", "_full", "_limit", "_max_bytes", "_max_msgs", "_readable", "_received", "_session", "_sid",
        "dropped", "error", "pending_bytes", "queue", "subject",
    )  # fmt: skip

    def __init__(
        self,
        session: Session,
        subject: str,
        *,
        queue: str | None = None,
        **options: Unpack[BufferOptions],
    ) -> None:
        """Subscribe to ``subject`` (wildcards allowed), in the queue group ``queue`` if given.

        Raises:
            LocalProtocolError: an option cannot be.
        """
        limits = checked(BufferOptions, options)
        self.subject = subject
        self.queue = queue
        self.dropped = 0
        self.pending_bytes = 0
        self.error: Error | None = None
        self._session = session
        self._max_msgs = limits["pending_msgs_limit"]
        self._max_bytes = limits["pending_bytes_limit"]
        self._buffer: deque[Msg] = deque()
        self._full = False
        self._limit: int | None = None
        self._received = 0
        self._readable = Readable(session.completed)
        self._sid = session.subscribe(subject, self, queue)

    @property
    def pending_msgs(self) -> int:
        """Messages in the buffer."""
        return len(self._buffer)

    def receive(self, message: Msg, now: float) -> None:
        """A message."""
        self._received += 1
        size = _size(message)
        if len(self._buffer) >= self._max_msgs or self.pending_bytes + size > self._max_bytes:
            self.dropped += 1
            if not self._full:
                self._full = True
                self._session.emit(SlowConsumer(self.subject, self.dropped))
        else:
            self._buffer.append(message)
            self.pending_bytes += size
            self._readable.notify()
        if self._received == self._limit:
            self._session.forget(self._sid)
            self._end(ConnectionClosedError(f"the subscription ended after {self._limit} messages"))

    def receive_plain(self, run: PlainRun, now: float) -> int:
        """Many messages: all of them, where none is dropped and none is the last one."""
        count, size = len(run.payloads), sum(map(len, run.payloads))
        is_full = len(self._buffer) + count > self._max_msgs or self.pending_bytes + size > self._max_bytes
        if is_full or self._limit is not None:
            return 0
        self._received += count
        self._buffer.extend(run.messages())
        self.pending_bytes += size
        self._readable.notify()
        return count

    def denied(self, violation: PermissionsViolationError, now: float) -> None:
        """The server refused the subscription. The message that was refused is another conversation's."""
        if violation.operation == "subscribe":
            self._session.unsubscribe(self._sid)
            self._end(violation)

    def link_lost(self, error: Error, now: float) -> None:
        """The next message comes on a new link. If the session has ended, the subscription has too."""
        if self._session.closed:
            self._end(error)

    def crashed(self, error: Error, now: float) -> None:
        """It ends with ``error``."""
        self._end(error)

    def link_restored(self, now: float) -> None:
        """The new server has yet to learn how many messages were left."""
        if self._limit is not None:
            self._session.unsubscribe(self._sid, self._limit - self._received)

    def pop_many(self, most: int) -> list[Msg]:
        """Take up to ``most`` buffered messages, oldest first. Empty when all were taken."""
        buffer = self._buffer
        if len(buffer) <= most:
            messages = list(buffer)
            buffer.clear()
            self.pending_bytes = 0
        else:
            messages = [buffer.popleft() for _ in range(most)]
            self.pending_bytes -= sum(map(_size, messages))
        self._full = False
        return messages

    def readable(self) -> Ticket[None]:
        """Completed when a message can be taken. Fails with why the subscription ended."""
        return self._readable.ticket(bool(self._buffer), self.error)

    def unsubscribe(self, max_msgs: int | None = None) -> None:
        """End it: at once, or when ``max_msgs`` messages have come in all."""
        if max_msgs is not None and type(max_msgs) is not int:
            raise WrongTypeError(f"max_msgs is a number of messages, or None, not {max_msgs!r:.100}")
        if self.error is not None:
            return
        if max_msgs is not None and max_msgs > self._received:
            self._limit = max_msgs
            self._session.unsubscribe(self._sid, max_msgs)
        else:
            self._session.unsubscribe(self._sid)
            self._end(ConnectionClosedError("the subscription was closed"))

    def abandon(self, now: float) -> None:
        self.unsubscribe()

    def drain(self, now: float) -> Ticket[None]:
        """End it. The ticket completes when all that the server had sent is buffered, to be taken still."""
        return self._session.drain(now, [self])

    def end_interest(self) -> None:
        """First half of a drain: the server is to stop sending. Messages under way still arrive."""
        if self.error is None:
            self._session.end_interest(self._sid)

    def end_drain(self, now: float, closing: bool) -> None:
        """Second half: a PONG has followed everything that was under way."""
        self._session.forget(self._sid)
        self._end(ConnectionClosedError("the subscription was drained"))

    def _end(self, error: Error) -> None:
        if self.error is not None:
            return
        self.error = error
        self._readable.fail(error)
