"""The part of the facade that never waits, for threads and for event loops.

Rules
 * A call is one input to the core, and returns at once.
 * What is taken from a buffer of the core is stored within that input. So a wait that is interrupted or given up keeps
   its messages.

Not here: the verbs that wait (``_blocking.connection`` and ``_aio.connection``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NoReturn, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from jsproto._lend import lend
from jsproto.client.connection.requests import RetryPolicy
from jsproto.client.connection.session import Session
from jsproto.client.connection.statistics import Statistics
from jsproto.client.connection.subscription import Drainable, Subscription
from jsproto.client.publish.fast import FastPublisher
from jsproto.client.read.consistent_batch import SessionBatch, SessionLastMsgs
from jsproto.client.read.direct import DirectBatch
from jsproto.client.read.snapshot import Snapshot
from jsproto.errors import ConnectionLostError, ForkedError, LocalProtocolError, OutboundBufferLimitError
from jsproto.grammar.acks import PubAck
from jsproto.grammar.bodies import decode_json
from jsproto.grammar.columns import StoredColumns, stored_columns
from jsproto.grammar.config import ServerInfo
from jsproto.grammar.headers import NO_HEADERS, Headers, HeadersLike
from jsproto.grammar.stored import StoredMsg
from jsproto.rules.fast_batch import CLOSED, FastPhase
from jsproto.ticket import Ticket
from jsproto.wire.frames import Msg
from jsproto_io._state.batch import BatchBase
from jsproto_io._state.common import (
    MAX_POP,
    EventCallback,
    EventDispatcher,
    ended,
    waiting,
    warn_unclosed,
)
from jsproto_io._state.publishing import PublishesSome
from jsproto_io._state.subscribing import ServedBase

T = TypeVar("T")


class ConnectionBase(ABC):
    """The session of a connection, and its state.

    A driver's ``__init__`` ends with ``forks.register(self)``: from then on it is whole.
    """

    def __init__(self, session: Session, event_cb: EventCallback | None, now: Callable[[], float]) -> None:
        self._session = session
        self._now = now  # monotonic seconds
        self._dispatcher = EventDispatcher(event_cb)
        self._pending_closes: deque[Callable[[float], None]] = (
            deque()
        )  # the ends of objects that were dropped without close()
        self._serving: set[Any] = set()  # the subscriptions whose callbacks may get another message
        self._closes_when_served = False  # drain() was called in a callback
        self._takers: WeakKeyDictionary[Any, object] = WeakKeyDictionary()  # who takes messages, by iterator
        self._pipelined: dict[
            tuple[float, RetryPolicy, int], Any
        ] = {}  # the publishers of publish_async(), by timeout, retries and max_pending
        self._failure: BaseException | None = None  # the defect, or the fork, after which no verb works

    def __repr__(self) -> str:
        return f"<Connection {self._session.state}>"

    @abstractmethod
    def _call(self, verb: Callable[[float], T], *, coalesce: bool = False) -> T:
        """Call ``verb(now)`` on the core, as one input, then drain its outputs.

        ``coalesce``: the verb nearly always only queues bytes. A drain waits only for what would come too late.
        """

    @abstractmethod
    def _who_calls(self) -> object:
        """Who calls: two calls of one caller give the same."""

    @abstractmethod
    def _is_at_work(self, who: object) -> bool:
        """Whether this caller, of ``_who_calls``, still lives."""

    def _has_takers(self, drained: Iterable[Drainable]) -> bool:
        """Whether others have yet to take all that was drained, or may be about to acknowledge the last of it."""
        me = self._who_calls()
        iterators = {found() for found in self._takers.keyrefs()} - {None, *self._serving}
        takers = {self._takers.get(iterator) for iterator in iterators} - {None, me}
        return any(map(self._is_at_work, takers)) or any(each.is_awaited for each in drained)

    def _release(self, verb: Callable[[float], None]) -> None:
        """``_call`` for a verb that gives something up. After the connection has failed, its errors are ignored."""
        try:
            self._call(verb)
        except Exception:
            if self._failure is None:
                raise

    def _look(self, look: Callable[[], T]) -> T:
        """``_call`` for a look at the core that still works after the connection has failed."""
        return look() if self._failure is not None else self._call(lambda now: look(), coalesce=True)

    def _run_pending_closes(self) -> None:
        """Close the objects that were dropped without ``close()``. The state is locked."""
        while self._pending_closes:
            self._pending_closes.popleft()(self._now())

    def _disown(self, error: ForkedError) -> None:
        """End this copy in a child process: every verb raises ``error``."""
        self._failure = error
        with suppress(Exception):  # another thread may have been changing the session
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
        """How to close the link: gently after ``close()``, abruptly after an error."""
        session = self._session
        return session.error is not None or session.connected.error is not None or not session.closed

    def new_inbox(self) -> str:
        """A subject for answers to this client alone."""
        return self._call(lambda now: self._session.new_inbox())

    @property
    def server_info(self) -> ServerInfo | None:
        """The server's last INFO. None: there was no link yet."""
        return self._session.server

    @property
    def connected_url(self) -> str | None:
        """The server's URL, freed of credentials. None: there was no link yet."""
        return self._session.url

    @property
    def max_payload(self) -> int:
        """The largest message that the server takes, headers and payload together, in bytes."""
        return self._session.max_payload

    @property
    def stats(self) -> Statistics:
        """What was sent and received since the beginning, over all links, in messages and bytes.

        ``in_bytes`` and ``out_bytes`` count the protocol around messages, and ``pending_bytes`` wait to be written.
        ``reconnects`` counts links after the first, ``errors_received`` what servers reported (``-ERR``).
        """
        return self._session.stats

    @property
    def is_connected(self) -> bool:
        """Whether there is a link to a server now. Without one it is dialled again, unless ``is_closed``."""
        return self._session.is_connected

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended, by ``close()`` or by an error."""
        return self._session.closed


class MessageBase:
    """A received message, decoded on demand."""

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
        """The subject on which the sender expects an answer. None: it expects none."""
        return self._raw.reply.decode("utf-8", "surrogateescape") if self._raw.reply else None

    @property
    def data(self) -> bytes:
        """The payload, in bytes."""
        return self._raw.payload

    def json(self) -> Any:
        """The payload as JSON.

        Raises:
            NotJSONError: it is none.
        """
        return decode_json(self.data, self.subject)

    @property
    def headers(self) -> Headers:
        """The headers, empty for a plain message.

        Raises:
            RemoteProtocolError: the header block is malformed.
        """
        return NO_HEADERS if self._raw.header is None else Headers.parse(self._raw.header)


class SubscriptionBase(ServedBase):
    """The state of a subscription."""

    _core: Subscription

    def __init__(self, core: Subscription, pending_closes: deque[Callable[[float], None]]) -> None:
        self._core = core
        self._pending_closes = pending_closes
        self._taken: deque[Any] = deque()

    def __repr__(self) -> str:
        group = "" if self._core.queue is None else f", queue group {self._core.queue!r}"
        state = f"{waiting(self.pending_msgs, self.dropped)}{ended(self._core.error)}"
        return f"<Subscription {self.subject!r}{group}: {state}>"

    def __del__(self) -> None:
        # A dropped subscription would fill its buffer for ever. See BatchReaderBase.
        core = self._core
        if core.error is None and not (self._stopped or self._ends_later):
            warn_unclosed(f"subscription to {core.subject!r}", self)
        self._pending_closes.append(lambda now: core.unsubscribe())

    def _unsubscribe_core(self, now: float) -> None:
        self._core.unsubscribe()

    @property
    def pending_msgs(self) -> int:
        """How many messages were received and not yet taken."""
        return self._core.pending_msgs + len(self._taken)

    @property
    def pending_bytes(self) -> int:
        """The bytes of those messages, without up to 512 messages at the front."""
        return self._core.pending_bytes

    @property
    def dropped(self) -> int:
        """How many messages were lost because the application was too slow."""
        return self._core.dropped


class FastPublisherBase(BatchBase, PublishesSome):
    """The state of a fast-ingest batch."""

    _core: FastPublisher

    def __init__(self, core: FastPublisher, pending_closes: deque[Callable[[float], None]]) -> None:
        self._core = core
        self._pending_closes = pending_closes
        self._hands = {}

    def __del__(self) -> None:
        # A batch that was left in the middle would be kept alive until the connection ends. See BatchReaderBase.
        if self._core.phase in (FastPhase.STARTING, FastPhase.OPEN):
            warn_unclosed(f"fast-ingest batch {self.batch_id!r}", self)
        self._pending_closes.append(self._core.abandon)

    def _publish_one(self, subject: str, payload: bytes, headers: HeadersLike | None, now: float) -> int | None:
        """Publish. None: there is no room. It tries first, because there nearly always is."""
        try:
            return self._core.publish(subject, payload, headers, now=now)
        except OutboundBufferLimitError:
            return None
        except LocalProtocolError:
            if self._core.room:
                raise
            return None  # the window is closed, or the batch has ended: ready() says which

    def _commit(
        self, subject: str | None, payload: bytes, headers: HeadersLike | None, now: float
    ) -> Ticket[PubAck] | None:
        """Commit. None: the batch has broken since there was room, and ready() will say why."""
        return None if self._core.phase is FastPhase.BROKEN else self._core.commit(now, subject, payload, headers)

    @property
    def _chunk_limit(self) -> int:
        """How many messages find room now, or else after the next acknowledgement."""
        return self._core.room or self._core.flow

    @property
    def _is_full(self) -> bool:
        """A hint: nothing finds room now, but may later."""
        return not self._core.room and not self._is_over

    @property
    def _is_over(self) -> bool:
        """Whether ``ready()`` fails at once: the commit is out, or the batch has ended."""
        return self._core.phase in CLOSED

    @property
    def _is_committing(self) -> bool:
        """Whether a commit was sent, perhaps acknowledged. The wait for room is over."""
        return self._core.phase in (FastPhase.COMMITTING, FastPhase.COMMITTED)

    @property
    def acked(self) -> int:
        """The highest acknowledged batch sequence. With the gap mode "fail" all messages up to it are stored. With "ok"
        they are stored, or were reported as refused or lost.
        """
        return self._core.acked

    @property
    def acks(self) -> int:
        """How many flow acknowledgements were received."""
        return self._core.acks

    @property
    def flow(self) -> int:
        """The messages for each acknowledgement that the server wants now."""
        return self._core.flow


StoredBatch: TypeAlias = DirectBatch | SessionBatch | SessionLastMsgs | Snapshot
"""What delivers stored messages."""


class BatchReaderBase:
    """The received messages of a Direct Get."""

    def __init__(self, core: StoredBatch, pending_closes: deque[Callable[[float], None]]) -> None:
        self._core = core
        self._pending_closes = pending_closes
        self._taken: deque[StoredMsg] = deque()
        self._finished = False

    def __repr__(self) -> str:
        state = "at its end" if self._finished and not self._taken else f"read up to sequence {self.last_seq}"
        return f"<{type(self).__name__} of stream {self._core.stream}: {state}>"

    @property
    def last_seq(self) -> int:
        """The stream sequence of the last message received, taken or not. 0: none was."""
        return self._core.last_seq

    @property
    def num_pending(self) -> int | None:
        """How many matching messages were still to come, by the server's last answer. None: there was none."""
        return self._core.num_pending

    @property
    def up_to_seq(self) -> int | None:
        """The stream sequence at which last messages are read. None: for other reads, and until it is known."""
        return self._core.up_to_seq

    def __del__(self) -> None:
        # A dropped reader would keep its page for ever. The garbage collector may call this in any thread at any
        # moment, even while that one holds the lock. So the next drain closes it.
        if not self._finished:
            self._pending_closes.append(self._core.close)

    def _take_ready(self, now: float) -> Ticket[None] | None:
        """Take the received messages. Without any, a ticket to wait for. None at the end, too.

        ``_finished``: what was taken is all.
        """
        messages = self._core.pop_many(MAX_POP, now)
        self._taken.extend(messages)
        if messages or self._taken:  # other threads may have taken these already, and there may be more
            self._finished = len(messages) < MAX_POP and self._core.finished
            return None
        self._finished = self._core.finished
        return None if self._finished else self._core.readable()

    def _take_columns(self, most: int, now: float) -> StoredColumns | Ticket[None] | None:
        """Take the received messages as columns. Without any, a ticket to wait for. None at the end."""
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


lend(ConnectionBase, to=__package__)
