"""Flow control of a push consumer: what the server wants answered when the application gets there (ADR-15).

Rules:

* A marker is a reply subject in the flow of messages. It comes in a flow-control request, or in a heartbeat as stalled.
* A marker is answered when the application has taken all messages before it and asks for more.
* A heartbeat repeats a marker that the server still waits for. The marker that was answered last is passed over on the
  same link.
* An answer that finds a full outbox is sent when the application asks again.

Not here: reading markers from statuses, the buffer (``push_buffer``).
"""

from __future__ import annotations

from collections import deque

from jsproto.errors import LocalProtocolError, OutboundBufferLimitError
from jsproto.events import UnexpectedMessage
from jsproto.outbox import Outbox


class FlowControl:
    """The markers of one consumer that are to be answered.

    Attributes:

    * ``taken``: how many messages the application has taken. The buffer's owner counts it.
    * ``markers``, to look at: how many messages come before each marker, and the subject to answer.
    """

    __slots__ = ("_answered", "_outbox", "_subscribed", "markers", "taken")

    def __init__(self, outbox: Outbox, subscribed: str) -> None:
        """``subscribed``: what was subscribed to, for events."""
        self.taken = 0
        self.markers: deque[tuple[int, bytes]] = deque()
        self._outbox = outbox
        self._subscribed = subscribed
        self._answered = b""

    def mark(self, subject: bytes, buffered: int) -> None:
        """Answer ``subject`` after the ``buffered`` messages that came before it."""
        if subject != self._answered and all(subject != marked for _, marked in self.markers):
            self.markers.append((self.taken + buffered, subject))

    def answer_reached(self, most: int) -> int:
        """Answer what the application has reached. Of ``most`` messages, how many come before the next marker."""
        markers = self.markers
        while markers and markers[0][0] <= self.taken:
            subject = markers[0][1]
            try:
                self._outbox.publish(subject.decode(), b"")
            except OutboundBufferLimitError:
                return most  # the application asks again, or the server repeats the marker
            except (LocalProtocolError, UnicodeDecodeError) as error:  # no subject, or nobody to send it to
                reason = f"flow control cannot be answered: {error}"
                self._outbox.emit(UnexpectedMessage(self._subscribed, reason))
            else:
                self._outbox.flush()
            self._answered = subject
            markers.popleft()
        return min(most, markers[0][0] - self.taken) if markers else most

    def has_answered(self, subject: str) -> bool:
        """Whether ``subject`` is that of the last answer: if it is refused, the server waits for it for ever."""
        return self._answered == subject.encode("utf-8", "surrogateescape")

    def link_restored(self) -> None:
        """The last answer may have been lost with the link: let the server ask for it again."""
        self._answered = b""

    def clear(self) -> None:
        """Drop the answer: the consumer is left."""
        self.markers.clear()
