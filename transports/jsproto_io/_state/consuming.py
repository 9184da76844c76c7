"""The half of consuming that never waits: the same for threads and for event loops.

Rules: as of ``_state.shared``. Messages that were taken from the core and reach nobody go back to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from jsproto.client.consume.message import ConsumerMsg
from jsproto.client.consume.pull import Fetch, PullConsumer
from jsproto.errors import ConnectionClosedError
from jsproto.grammar.consumer import ConsumerConfig, ConsumerOptions
from jsproto.ticket import Ticket
from jsproto_io._state.common import Timeout, seconds

if TYPE_CHECKING:
    from jsproto_io._state.shared import ConnectionBase

D = TypeVar("D", bound=ConsumerMsg)

MAX_PULL_POP: Final = 64  # messages taken from a buffer that refills itself; it counts them as dealt with


def consumer_config(config: ConsumerConfig | None, options: ConsumerOptions) -> ConsumerConfig:
    """A configuration from what ``create_consumer`` was given."""
    if config is None:
        return ConsumerConfig.from_options(**options)
    return config.updated(**options) if options else config


class PullSubscriptionBase(Generic[D]):
    """A consumer that is pulled from, and what has come of it."""

    _connection: ConnectionBase

    def __init__(self, core: PullConsumer[D], timeout: float) -> None:
        self._core = core
        self._timeout = timeout
        self._taken: deque[D] = deque()  # of the stream of messages: for whichever iterator is first

    def __del__(self) -> None:
        # One that was dropped would keep its inbox, and what has come. See BatchReaderBase.
        self._connection._pending_closes.append(self._core.unsubscribe)

    def _begin(
        self, batch: int, expires: float, max_bytes: int | None, heartbeat: Timeout | None
    ) -> Callable[[float], Fetch]:
        """The input that begins a fetch."""
        beat = seconds(heartbeat, "heartbeat")

        def begin(now: float) -> Fetch:
            self._connection._run_pending_closes()
            return self._core.fetch(batch, now=now, expires=expires, max_bytes=max_bytes, heartbeat=beat)

        return begin

    def _begin_no_wait(self, batch: int, patience: float, max_bytes: int | None) -> Callable[[float], Fetch]:
        """The same for what is there already."""

        def begin(now: float) -> Fetch:
            self._connection._run_pending_closes()
            return self._core.fetch_no_wait(batch, now=now, patience=patience, max_bytes=max_bytes)

        return begin

    def _start(
        self,
        max_msgs: int | None,
        max_bytes: int | None,
        threshold: int | None,
        expires: Timeout,
        heartbeat: Timeout | None,
    ) -> Callable[[float], int]:
        """The input that begins a stream of messages."""
        limit, beat = seconds(expires, "expires"), seconds(heartbeat, "heartbeat")
        assert limit is not None

        def start(now: float) -> int:
            self._connection._run_pending_closes()
            return self._core.start(
                now=now, max_msgs=max_msgs, max_bytes=max_bytes, threshold=threshold, expires=limit, heartbeat=beat
            )

        return start

    def _acknowledge(self, messages: Iterable[ConsumerMsg]) -> Callable[[float], int]:
        """The input that acknowledges all of ``messages``."""
        listed = list(messages)
        return lambda now: self._core.acker.ack_many(listed)

    @property
    def stream(self) -> str:
        """The stream that the consumer reads."""
        return self._core.stream

    @property
    def consumer(self) -> str:
        """The consumer's name."""
        return self._core.consumer

    @property
    def pending_msgs(self) -> int:
        """Messages that have come and were not taken yet."""
        return self._core.pending_msgs

    @property
    def pending_bytes(self) -> int:
        """The bytes of those, payloads and headers."""
        return self._core.pending_bytes

    @property
    def dropped(self) -> int:
        """Messages that nobody had asked for and that found no room; they will be delivered again."""
        return self._core.dropped


class PullMessagesBase(Generic[D]):
    """What has come of a stream of messages, for one of those who share it."""

    def __init__(self, subscription: PullSubscriptionBase[D], max_msgs: int | None, started: int) -> None:
        self._core = subscription._core
        self._started = started
        self._pending_closes = subscription._connection._pending_closes
        self._taken = subscription._taken
        self._closed = False
        self._most = MAX_PULL_POP if max_msgs is None else max(min(MAX_PULL_POP, max_msgs // 4), 1)

    def _take_ready(self, now: float) -> Ticket[None] | None:
        """Take what has come; a ticket to wait for when that is nothing."""
        if self._closed:
            raise ConnectionClosedError("this stream of messages was closed")
        self._taken.extend(self._core.pop_many(self._most, now))
        return None if self._taken else self._core.readable()

    def __del__(self) -> None:
        # A loop that was left in the middle would keep its messages, and its subscription busy. See BatchReaderBase.
        if not self._closed:
            self._pending_closes.append(partial(_stop, self._core, self._taken, self._started))

    def _stop(self, now: float) -> None:
        if not self._closed:
            self._closed = True
            taken, self._taken = self._taken, deque()  # what was taken is for the others
            _stop(self._core, taken, self._started, now)


def _stop(core: PullConsumer[D], taken: deque[D], started: int, now: float) -> None:
    """Leave the stream of messages. The last one asks for no more, and gives back what nobody has looked at."""
    if not core.stop(now, started):
        return
    left: list[D] = []
    while taken:
        with suppress(IndexError):  # another thread was quicker: a message is for one of both
            left.append(taken.popleft())
    core.put_back(left)
