"""The part of consuming that never waits, for threads and for event loops.

Rules: those of ``_state.shared``. Messages that were taken from the core and not given to a caller go back to it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from jsproto.client.consume.consume_options import ConsumeOptions, FetchOptions, PrefetchOptions
from jsproto.client.consume.fetch import Fetch
from jsproto.client.consume.message import ConsumerMsg
from jsproto.client.consume.ordered import OrderedConsumer
from jsproto.client.consume.pull import PullConsumer
from jsproto.client.consume.push import PushConsumer
from jsproto.client.consume.sourcing import SourcingConsumer
from jsproto.client.consume.subscribe import one_name
from jsproto.client.consume.work import ConsumerWork
from jsproto.client.jetstream import JetStream as CoreJetStream
from jsproto.errors import ConnectionClosedError, WrongTypeError
from jsproto.grammar.consumer import ConsumerConfig, ConsumerOptions, of_consumer_config
from jsproto.grammar.options import named
from jsproto.ticket import Ticket
from jsproto_io._state.common import ended, waiting, warn_unclosed

if TYPE_CHECKING:
    from jsproto_io._state.shared import ConnectionBase

D = TypeVar("D", bound=ConsumerMsg)

MAX_PULL_POP: Final = 64  # messages of one pop_many() on a prefetch buffer, which counts them as consumed


def consumer_config(
    config: ConsumerConfig | None, options: ConsumerOptions, durable: str | None = None
) -> ConsumerConfig:
    """The configuration from the arguments of ``create_consumer``, where ``durable`` is ``durable_name``."""
    if config is not None:
        of_consumer_config("config", config)
    if durable is not None:
        known = None if config is None else config.durable_name
        options["durable_name"] = one_name(durable, options.get("durable_name", known))
    if config is None:
        return ConsumerConfig.from_options(**options)
    return config.updated(**options) if options else config


def listed(messages: Iterable[D]) -> list[D]:
    """``messages`` as a list. WrongTypeError for what cannot be iterated over."""
    if not isinstance(messages, Iterable):
        raise WrongTypeError(f"messages must be some messages of a consumer, not {messages!r:.100}")
    return list(messages)


class ConsumerNames:
    """The names of a subscription's consumer and stream."""

    _core: PullConsumer[Any] | PushConsumer[Any] | OrderedConsumer[Any] | SourcingConsumer[Any]

    def __repr__(self) -> str:
        where = f"consumer {self.consumer} of stream {self.stream}"
        return f"<{type(self).__name__} {where}: {waiting(self.pending_msgs)}{ended(self._core.error)}>"

    @property
    @abstractmethod
    def pending_msgs(self) -> int:
        """How many messages were received and not yet taken."""

    @property
    def stream(self) -> str:
        """The name of the consumer's stream."""
        return self._core.stream

    @property
    def consumer(self) -> str:
        """The consumer's name. An ordered subscription changes it whenever it creates a new consumer."""
        return self._core.consumer


class PullSubscriptionBase(ConsumerNames, Generic[D]):
    """The state of a pull subscription."""

    _core: PullConsumer[D]
    _connection: ConnectionBase

    def __init__(self, core: PullConsumer[D], timeout: float) -> None:
        self._core = core
        self._timeout = timeout
        self._taken: deque[D] = deque()  # of ``messages()``: for the next iterator that asks

    def __del__(self) -> None:
        # A dropped subscription would keep its inbox and its messages. See BatchReaderBase.
        if self._core.error is None:
            warn_unclosed(f"subscription of consumer {self.consumer!r}", self)
        self._connection._pending_closes.append(self._core.unsubscribe)

    def _begin(self, batch: int, expires: float, options: FetchOptions) -> Callable[[float], Fetch]:
        """The input that begins a fetch."""
        asked = named(FetchOptions, options)

        def begin(now: float) -> Fetch:
            self._connection._run_pending_closes()
            return self._core.fetch(batch, now=now, expires=expires, **asked)

        return begin

    def _begin_no_wait(self, batch: int, patience: float, max_bytes: int | None) -> Callable[[float], Fetch]:
        """The input that begins a fetch of the messages that are there already."""

        def begin(now: float) -> Fetch:
            self._connection._run_pending_closes()
            return self._core.fetch_no_wait(batch, now=now, patience=patience, max_bytes=max_bytes)

        return begin

    def _start(self, options: PrefetchOptions) -> Callable[[float], int]:
        """The input that begins ``messages()``."""
        asked = named(PrefetchOptions, options)

        def start(now: float) -> int:
            self._connection._run_pending_closes()
            return self._core.start(now=now, **asked)

        return start

    def _consume(
        self, js: CoreJetStream, config: ConsumerConfig, options: ConsumeOptions
    ) -> Callable[[float], ConsumerWork[D]]:
        """The input that begins ``consume()``."""
        asked = named(ConsumeOptions, options)

        def start(now: float) -> ConsumerWork[D]:
            self._connection._run_pending_closes()
            return js.consume(self._core, config, now=now, **asked)

        return start

    def _acknowledge(self, messages: Iterable[ConsumerMsg]) -> Callable[[float], int]:
        """The input that acknowledges all of ``messages``."""
        taken = listed(messages)
        return lambda now: self._core.acker.ack_many(taken)

    @property
    def pending_msgs(self) -> int:
        """How many messages were received and not yet taken."""
        return self._core.pending_msgs

    @property
    def pending_bytes(self) -> int:
        """The bytes of those messages, payloads and headers."""
        return self._core.pending_bytes

    @property
    def dropped(self) -> int:
        """How many messages came unrequested and found no room. They will be delivered again."""
        return self._core.dropped


class PullMessagesBase(Generic[D]):
    """The received messages of ``messages()``, for one of the iterators that share them."""

    def __init__(self, subscription: PullSubscriptionBase[D], max_msgs: int | None, started: int) -> None:
        self._core = subscription._core
        self._started = started
        self._pending_closes = subscription._connection._pending_closes
        self._taken = subscription._taken
        self._closed = False
        self._most = MAX_PULL_POP if max_msgs is None else max(min(MAX_PULL_POP, max_msgs // 4), 1)

    def __repr__(self) -> str:
        core = self._core
        state = "closed" if self._closed else waiting(core.pending_msgs + len(self._taken))
        return f"<PullMessages consumer {core.consumer} of stream {core.stream}: {state}{ended(core.error)}>"

    def _take_ready(self, now: float) -> Ticket[None] | None:
        """Take the received messages. Without any, a ticket to wait for."""
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
            taken, self._taken = self._taken, deque()  # its messages are for the other iterators
            _stop(self._core, taken, self._started, now)


def _stop(core: PullConsumer[D], taken: deque[D], started: int, now: float) -> None:
    """End one iterator. The last one ends the requests, and gives back the messages that no caller has taken."""
    if not core.stop(now, started):
        return
    left: list[D] = []
    while taken:
        with suppress(IndexError):  # another thread was quicker: a message is for one of both
            left.append(taken.popleft())
    core.put_back(left)
