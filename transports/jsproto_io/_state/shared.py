"""The half of the facade that never waits: the same for threads and for event loops.

Rules: what is here asks the core, as one input, and returns at once. What is taken from a buffer of the core is stored
within that input, so that an interrupted or cancelled wait loses no message.

Not here: the verbs that wait (``_blocking.connection`` and ``_aio.connection``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn, TypeAlias, TypeVar

from jsproto.client.connection.session import Session
from jsproto.client.connection.subscription import Subscription
from jsproto.client.publish.fast import FastPublisher
from jsproto.client.read.consistent_batch import SessionBatch, SessionLastMsgs
from jsproto.client.read.direct import DirectBatch
from jsproto.client.read.snapshot import Snapshot
from jsproto.errors import ConnectionLostError, Error, ForkedError, LocalProtocolError, OutboundBufferLimitError
from jsproto.grammar.acks import PubAck
from jsproto.grammar.columns import StoredColumns, stored_columns
from jsproto.grammar.config import ServerInfo
from jsproto.grammar.headers import Headers, HeadersLike
from jsproto.grammar.stored import StoredMsg
from jsproto.rules.fast_batch import FastPhase
from jsproto.ticket import Ticket
from jsproto.wire.frames import Msg
from jsproto_io._state.common import MAX_POP, EventCallback, EventDispatcher, OutgoingMessage
from jsproto_io._state.forks import register

T = TypeVar("T")


class ConnectionBase(ABC):
    """The session, and what is known of it."""

    def __init__(self, session: Session, event_cb: EventCallback | None, now: Callable[[], float]) -> None:
        self._session = session
        self._now = now  # monotonic seconds
        self._dispatcher = EventDispatcher(event_cb)
        self._pending_closes: deque[Callable[[float], None]] = deque()  # ends what was dropped without being closed
        self._serving: set[Any] = set()  # the subscriptions whose callbacks may get another message
        self._closes_when_served = False  # drain() was called in a callback
        self._pipelined: dict[tuple[float, int], Any] = {}  # what publish_async() uses, by timeout and most pending
        self._failure: BaseException | None = None  # the defect, or the fork, that made the state worthless
        register(self)

    @abstractmethod
    def _call(self, verb: Callable[[float], T], *, coalesce: bool = False) -> T:
        """Call ``verb(now)`` on the core, as one input, then let its outputs take effect.

        ``coalesce``: it only queues bytes, so do no more while none are due.
        """

    def _release(self, verb: Callable[[float], None]) -> None:
        """``_call`` for what gives something up: where everything is lost, now or already, nothing is left to say."""
        try:
            self._call(verb)
        except Exception:
            if self._failure is None:
                raise

    def _run_pending_closes(self) -> None:
        """Put in what objects that were dropped left to do. The state is locked."""
        while self._pending_closes:
            self._pending_closes.popleft()(self._now())

    def _disown(self, error: ForkedError) -> None:
        """This is a child process's copy: no verb does anything."""
        self._failure = error
        with suppress(Exception):  # another thread may have been within the session
            self._session.abort(str(error), self._now())

    @property
    def _is_disowned(self) -> bool:
        return isinstance(self._failure, ForkedError)

    def _refuse(self) -> NoReturn:
        if isinstance(self._failure, ForkedError):
            raise self._failure.with_traceback(None)
        raise ConnectionLostError(f"the connection failed: {self._failure!r}") from self._failure

    @property
    def _must_abort(self) -> bool:
        """How to close when the session wants it: gently after a close of our own, else without ceremony."""
        session = self._session
        return session.error is not None or session.connected.error is not None or not session.closed

    def new_inbox(self) -> str:
        """A subject that nobody else uses."""
        return self._call(lambda now: self._session.new_inbox())

    @property
    def server_info(self) -> ServerInfo | None:
        """What the server said of itself in its last INFO."""
        return self._session.server

    @property
    def connected_url(self) -> str | None:
        """The server's address, without credentials."""
        return self._session.url

    @property
    def max_payload(self) -> int:
        """The largest message, headers and payload together, in bytes, that the server takes."""
        return self._session.max_payload

    @property
    def is_connected(self) -> bool:
        """Whether there is a link to a server now; without one it is dialled again, unless ``is_closed``."""
        return self._session.is_connected

    @property
    def is_closed(self) -> bool:
        """Whether it has ended, by ``close()`` or by an error."""
        return self._session.closed


class MessageBase:
    """A received message, decoded when asked."""

    __slots__ = ("_raw",)

    def __init__(self, raw: Msg) -> None:
        self._raw = raw

    def __repr__(self) -> str:
        return f"<Message {self.subject!r} {len(self.data)} bytes>"

    @property
    def subject(self) -> str:
        """The subject it was sent to."""
        return self._raw.subject.decode("utf-8", "surrogateescape")

    @property
    def reply(self) -> str | None:
        """Where the sender expects an answer; None when it expects none."""
        return self._raw.reply.decode("utf-8", "surrogateescape") if self._raw.reply else None

    @property
    def data(self) -> bytes:
        """The payload."""
        return self._raw.payload

    @property
    def headers(self) -> Headers:
        """The headers, empty when it has none. RemoteProtocolError when the block is malformed."""
        return Headers() if self._raw.header is None else Headers.parse(self._raw.header)


class SubscriptionBase:
    """What has come for a subscription."""

    def __init__(self, core: Subscription, pending_closes: deque[Callable[[float], None]]) -> None:
        self._core = core
        self._pending_closes = pending_closes
        self._taken: deque[Msg] = deque()

    def __del__(self) -> None:
        # A subscription that nobody reads would fill its buffer for ever. See BatchReaderBase.
        core = self._core
        self._pending_closes.append(lambda now: core.unsubscribe())

    def _take_ready(self, now: float) -> Ticket[None] | None:
        """Take what has come; a ticket to wait for when that is nothing."""
        self._taken.extend(self._core.pop_many(MAX_POP))
        return None if self._taken else self._core.readable()

    @property
    def subject(self) -> str:
        """What was subscribed to."""
        return self._core.subject

    @property
    def pending_msgs(self) -> int:
        """Messages that have come and were not taken yet."""
        return self._core.pending_msgs + len(self._taken)

    @property
    def dropped(self) -> int:
        """Messages lost because the application was too slow."""
        return self._core.dropped


class FastPublisherBase:
    """How far a batch has got."""

    def __init__(self, core: FastPublisher, pending_closes: deque[Callable[[float], None]]) -> None:
        self._core = core
        self._pending_closes = pending_closes

    def __del__(self) -> None:
        # A batch that was left in the middle would be kept alive until the connection ends. See BatchReaderBase.
        self._pending_closes.append(self._core.abandon)

    def _publish_one(self, subject: str, payload: bytes, headers: HeadersLike | None, now: float) -> int | None:
        """Publish, or None when there is no room. Asked in this order because there nearly always is."""
        try:
            return self._core.publish(subject, payload, headers, now=now)
        except OutboundBufferLimitError:
            return None
        except LocalProtocolError:
            if self._core.room:
                raise
            return None  # the window is closed, or the batch has ended: ready() knows

    @property
    def _chunk_limit(self) -> int:
        """How many messages find room at once: now, or else when the next acknowledgement comes."""
        return self._core.room or self._core.flow

    def _publish_some(self, chunk: Sequence[OutgoingMessage], now: float) -> int:
        """Publish of ``chunk`` what there is room for; returns how many."""
        try:
            return self._core.publish_many(chunk, now)
        except OutboundBufferLimitError:
            return 0

    @property
    def _is_committing(self) -> bool:
        """Whether a commit was sent, perhaps acknowledged: there is no room any more to wait for."""
        return self._core.phase in (FastPhase.COMMITTING, FastPhase.COMMITTED)

    @property
    def batch_id(self) -> str:
        """Its name on the server."""
        return self._core.batch_id

    @property
    def sequence(self) -> int:
        """The sequence of the last message published; 0 before the first."""
        return self._core.sequence

    @property
    def acked(self) -> int:
        """The highest acknowledged sequence. Gap mode "fail": all up to it are stored; "ok": stored or reported."""
        return self._core.acked

    @property
    def acks(self) -> int:
        """How many flow acknowledgements came."""
        return self._core.acks

    @property
    def flow(self) -> int:
        """Messages for each acknowledgement, as the server wants it now."""
        return self._core.flow

    @property
    def unacknowledged(self) -> list[OutgoingMessage]:
        """The published messages that are not known to be stored, in order: what another batch would begin with.

        Some of them may be stored all the same: only ``Nats-Msg-Id`` headers keep a second copy out of the stream. Gap
        mode "ok": without those that events told of as refused or lost.
        """
        return self._core.unacknowledged

    @property
    def ack(self) -> PubAck | None:
        """The acknowledgement of the commit, once the batch is committed; None before."""
        return self._core.ack

    @property
    def error(self) -> Error | None:
        """Why it failed; None while it has not."""
        return self._core.error


StoredBatch: TypeAlias = DirectBatch | SessionBatch | SessionLastMsgs | Snapshot
"""What delivers stored messages."""


class BatchReaderBase:
    """What has come of a Direct Get."""

    def __init__(self, core: StoredBatch, pending_closes: deque[Callable[[float], None]]) -> None:
        self._core = core
        self._pending_closes = pending_closes
        self._taken: deque[StoredMsg] = deque()
        self._finished = False

    @property
    def last_seq(self) -> int:
        """The sequence of the last message that came, taken or not; 0 before the first."""
        return self._core.last_seq

    @property
    def num_pending(self) -> int | None:
        """Messages that match and did not come yet, as the server said last; None before it said anything."""
        return self._core.num_pending

    @property
    def up_to_seq(self) -> int | None:
        """The sequence as of which last messages are read; None for other reads, and until it is known."""
        return self._core.up_to_seq

    def __del__(self) -> None:
        # A reader that was left in the middle would keep its page for ever. Any thread may get here at any moment, so
        # the next one that holds the state closes it.
        if not self._finished:
            self._pending_closes.append(self._core.close)

    def _take_ready(self, now: float) -> Ticket[None] | None:
        """Take what has come; a ticket to wait for when that is nothing and more will come."""
        messages = self._core.pop_many(MAX_POP, now)
        self._taken.extend(messages)
        if messages or self._taken:  # other threads may have had these already, and there may be more
            return None
        self._finished = self._core.finished
        return None if self._finished else self._core.readable()

    def _take_columns(self, most: int, now: float) -> StoredColumns | Ticket[None] | None:
        """Take what has come; a ticket to wait for when that is nothing; None at the end."""
        core = self._core
        if isinstance(core, DirectBatch):
            columns = core.pop_columns(most, now)
        else:
            columns = stored_columns([(each.raw_headers, each.data, each.seq) for each in core.pop_many(most, now)])
        if columns.seqs:
            return columns
        self._finished = self._core.finished
        return None if self._finished else self._core.readable()

    def _close(self, now: float) -> None:
        self._finished = True
        self._taken.clear()
        self._core.close(now)
