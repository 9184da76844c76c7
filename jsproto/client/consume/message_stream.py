"""The stream of messages of a pull consumer, which asks for more by itself. Several readers may share it.

Rules:

* It asks for more when what is buffered and under way has fallen to the threshold, as much as fits.
* It saves polling: a request waits at the server until it is served or expires.
* A request that outlives its time was lost. It is made again.
* A refusal that passes by itself is followed by a pause. What stays, or lasts too long, ends the stream.
* It ends with the last reader that shares it.

Not here: how much is asked for, and the threshold (``prefetch``), the ledger of requests (``pull_requests``).
"""

from __future__ import annotations

from jsproto.client.connection.message_buffer import MessageBuffer
from jsproto.client.consume.prefetch import Prefetch
from jsproto.client.consume.pull_requests import ANSWER_GRACE, PullRequest, PullRequests
from jsproto.client.consume.retry import PULL_ROOM
from jsproto.errors import (
    Error,
    LocalProtocolError,
    MessageSizeError,
    NoRespondersError,
    OutboundBufferLimitError,
)
from jsproto.outbox import Outbox
from jsproto.rules.status import ConsumerStatus, Meaning
from jsproto.ticket import Readable, Ticket
from jsproto.timers import Timer, Timers


class MessageStream:
    """Keeps ``buffer`` filled while it is on.

    Attributes:

    * ``prefetch``: how much it asks for, or None while it is off.
    * ``error``: why it ended last.
    * ``readers``: the ticket of those that wait for a message.
    """

    __slots__ = (
        "_buffer", "_joined", "_outbox", "_requests", "_sharers", "_timers", "error", "prefetch", "readers",
    )  # fmt: skip

    def __init__(self, outbox: Outbox, requests: PullRequests, buffer: MessageBuffer, timers: Timers) -> None:
        """The stream is off. It arms ``PULL_AGAIN`` and ``PULL_OVERDUE`` of ``timers``."""
        self.prefetch: Prefetch | None = None
        self.error: Error | None = None
        self.readers = Readable(outbox.completed)
        self._outbox = outbox
        self._requests = requests
        self._buffer = buffer
        self._timers = timers
        self._joined = 0
        self._sharers: set[int] = set()  # by what ``join`` returned

    @property
    def heartbeat(self) -> float:
        """Seconds between the heartbeats that are due now. 0 when heartbeats are off."""
        return self.prefetch.heartbeat if self.prefetch is not None and self._requests.msgs else 0.0

    # -- its readers ---------------------------------------------------------------------------------------------------

    def join(self, prefetch: Prefetch, now: float) -> int:
        """Switch it on, or share it. Returns a number for ``leave``."""
        self._joined += 1
        self._sharers.add(self._joined)
        if self.prefetch is None:
            self.error = None
            self.prefetch = prefetch
            self.request_more(now)
            if self.heartbeat and Timer.HEARTBEAT not in self._timers:  # fetches that were given up have asked
                self._requests.expect_heartbeats(now, self.heartbeat)
            self._expect_ends()
        return self._joined

    def leave(self, joined: int | None) -> bool:
        """One reader leaves, or all of them (None). True if it was the last one. Then the caller ends the stream."""
        if joined is None:
            self._sharers.clear()
        else:
            self._sharers.discard(joined)
        if self._sharers:
            self.readers.notify()  # the reader that leaves may wait for the ticket, as the others do
        return not self._sharers

    def readable(self) -> Ticket[None]:
        """The ticket of ``PullConsumer.readable``."""
        return self.readers.ticket(bool(self._buffer), self.error)

    # -- asking --------------------------------------------------------------------------------------------------------

    def request_more(self, now: float) -> bool:
        """Ask for more if it has fallen to its threshold. Whether a timer may have changed."""
        prefetch, requests = self.prefetch, self._requests
        if prefetch is None or not requests.linked or Timer.PULL_AGAIN in self._timers:
            return False
        requests.make_room(now)
        buffer = self._buffer
        held = buffer.size + requests.bytes if prefetch.max_bytes else len(buffer) + requests.msgs
        if not prefetch.wants_more(held):
            return False
        lost_at = now + prefetch.expires + ANSWER_GRACE
        try:
            requests.send(prefetch.request(held), lost_at, now=now, heartbeat=prefetch.heartbeat)
        except OutboundBufferLimitError:
            self._timers.set(Timer.PULL_AGAIN, now + PULL_ROOM)
        except LocalProtocolError as error:
            self.end(error)
        else:
            self._timers.bring_forward(Timer.PULL_OVERDUE, lost_at)
        return True

    def request_lost(self, now: float) -> None:
        """A request must have ended by ``now``: forget it, because its sum may be in the way of others."""
        self._requests.forget_overdue(now)
        self._expect_ends()
        self.request_more(now)

    def _expect_ends(self) -> None:
        overdue = self._requests.next_overdue()
        if self.prefetch is not None and overdue is not None:
            self._timers.bring_forward(Timer.PULL_OVERDUE, overdue)

    # -- what comes ----------------------------------------------------------------------------------------------------

    def request_ended(self, request: PullRequest, status: ConsumerStatus, now: float) -> bool:
        """``status`` has ended a request of the stream. Whether another is made after a pause."""
        prefetch, kind = self.prefetch, type(status.error)
        if prefetch is None:
            return False
        if status.meaning is Meaning.HIDDEN:
            prefetch.served()
        elif self._requests.lost_pin(request, status):
            pass
        elif kind is MessageSizeError and request.max_bytes < prefetch.max_bytes:
            prefetch.whole = True  # the message may fit when all the room is free
        elif kind is MessageSizeError and status.pending_bytes != request.max_bytes:
            pass  # it ended full
        elif status.meaning is Meaning.RETRY or kind is NoRespondersError:
            pause = prefetch.refused(now)
            if pause is not None:
                self._timers.set(Timer.PULL_AGAIN, now + pause)
                return True
            self.end(status.error)
        else:
            self.end(status.error)
        self.request_more(now)
        return False

    def silent(self, now: float) -> None:
        """Heartbeats are overdue: what was asked for is lost, so ask again."""
        self._requests.clear()
        self.request_more(now)

    # -- its end -------------------------------------------------------------------------------------------------------

    def end(self, error: Error) -> None:
        """Switch it off. A reader that waits gets ``error``."""
        self.prefetch = None
        self._sharers.clear()
        self.error = error
        self._timers.clear()
        self.readers.fail(error)
