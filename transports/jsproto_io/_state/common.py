"""The parts that the drivers share and the core must not have: entropy, logging, texts of the operating system.

Rules: nothing here knows how a loop or a thread waits, and nothing here decides anything of the protocol.

Not here: the verbs (``_state.shared``, ``_blocking``, ``_aio``), sockets (``sync``, ``asyncio``, ``trio``).
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import warnings
from collections import deque
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from dataclasses import fields
from datetime import timedelta
from functools import cache
from typing import Final, TypeAlias

from jsproto.client.connection.connect_options import connect_options
from jsproto.client.connection.session import Session
from jsproto.errors import Error, LocalProtocolError, WrongTypeError
from jsproto.events import (
    CallbackFailed,
    Connected,
    ConsumerNotDeleted,
    ConsumerSilent,
    Disconnected,
    Event,
    EventsDropped,
    MessageTooLarge,
    ServerReportedError,
    SlowConsumer,
    StreamRecreated,
    SubscriptionFailed,
    SweepFailed,
)
from jsproto.grammar.config import StreamConfig, StreamOptions, of_stream_config
from jsproto.grammar.headers import HeadersLike
from jsproto_io._state.connecting import ConnectKeywords, DurabilityWarning
from jsproto_io._state.credentials import signing
from jsproto_io._state.tls import SecureSession

EventCallback: TypeAlias = Callable[[Event], object]
OutgoingMessage: TypeAlias = tuple[str, bytes] | tuple[str, bytes, HeadersLike | None]
Timeout: TypeAlias = float | timedelta

MAX_EVENTS: Final = 10_000  # events that wait for a slow callback
MAX_POP: Final = 512  # messages of one pop_many() on a buffer of the core
MAX_CHUNK: Final = 512  # messages of one chunk of an iterable: a little more than the flow of a batch
READ_SIZE: Final = 1_048_576  # bytes of one recv(): large, so that its fixed cost is small (direct-get, bench.objects)
KEPT_BUFFER: Final = 4 * 1024 * 1024  # bytes: the C library keeps freed buffers of up to this size
MAX_BURST: Final = 1_048_576  # bytes that a loop sends before other tasks have their turn
SLOW_PULL: Final = 0.001  # seconds for a chunk: a slower iterable gets smaller chunks

DIAL_ERRORS: Final = (OSError, UnicodeError)  # what dialling raises; UnicodeError: a host that cannot be a name
MAX_SLEEP: Final = 3600.0  # seconds; operating systems refuse to sleep for years

WARNINGS: Final = (
    CallbackFailed, ConsumerNotDeleted, ConsumerSilent, EventsDropped, MessageTooLarge, ServerReportedError,
    SlowConsumer, StreamRecreated, SubscriptionFailed, SweepFailed,
)  # fmt: skip
"""Events that are logged as warnings."""

_log = logging.getLogger("jsproto_io")
_log.addHandler(logging.NullHandler())


def new_session(
    servers: str | Sequence[str], options: ConnectKeywords, entropy: Callable[[int], bytes] = os.urandom
) -> Session:
    """A session which can sign and begin TLS."""
    keep_buffers()
    return SecureSession(connect_options(servers, **signing(options)), token=entropy(16))


@cache
def keep_buffers() -> None:
    """Make glibc keep freed buffers of up to ``KEPT_BUFFER`` bytes. Without glibc it has no effect.

    How it works: glibc maps a buffer that is larger than any freed one before, and unmaps it at once. These system
    calls and page faults cost more than the contents of a read (benchmark row direct-get). It raises its limit after
    one large buffer was freed.
    """
    bytes(KEPT_BUFFER)


def clamp_sleep(wanted: float) -> float:
    """The seconds to sleep when ``wanted`` may be any number. To wake up early is harmless."""
    return max(0.0, min(wanted, MAX_SLEEP))


def check_iterable(messages: object) -> None:
    """WrongTypeError for what no messages to publish can be taken from."""
    if not isinstance(messages, Iterable | AsyncIterable):
        raise WrongTypeError(f"messages must be some messages to publish, not {messages!r:.100}")


def stream_config(config: StreamConfig | str, options: StreamOptions) -> StreamConfig:
    """The configuration from the arguments of ``create_stream``."""
    if isinstance(config, str):
        return StreamConfig.from_options(config, **options)
    of_stream_config("config", config)
    return config.updated(**options) if options else config


def warn_of_async_persistence(config: StreamConfig) -> None:
    """Warn of ``persist_mode="async"`` where the application creates the stream (FACTS.md F6.5).

    There is no warning of a configuration that is refused: LocalProtocolError says why.
    """
    if config.persist_mode == "async":
        config.check()
        warnings.warn(
            f"stream {config.name} acknowledges messages before they are on disk (persist_mode='async'), and has one"
            " replica: a crash of the server, its machine or its disk loses acknowledged messages",
            DurabilityWarning,
            stacklevel=3,  # the caller of the verb that calls this
        )


def warn_unclosed(what: str, source: object) -> None:
    """Warn of an object that was dropped without being closed, as the standard library does of its sockets.

    After a defect has ended the connection there is no warning: nothing could be closed.
    """
    if getattr(getattr(source, "_connection", source), "_failure", None) is None:
        warnings.warn(f"unclosed {what}", ResourceWarning, source=source, stacklevel=3)


def waiting(messages: int, dropped: int = 0) -> str:
    """How many messages wait to be taken, for a repr."""
    return f"{messages} waiting" + (f", {dropped} dropped" if dropped else "")


def ended(error: Error | None) -> str:
    """Why an object has ended, for a repr. Empty while it lives."""
    return "" if error is None else f", ended: {error}"


def reason(error: BaseException) -> str:
    """One line for why dialling, or a connection, failed."""
    if isinstance(error.__cause__, BaseExceptionGroup):  # trio.open_tcp_stream: one error for each address of a name
        error = error.__cause__.exceptions[0]
    if isinstance(error, socket.gaierror) and error.strerror:
        return error.strerror
    if isinstance(error, TimeoutError) and not error.errno:
        return "timed out"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__


def next_chunk(size: int, took: float, whole: bool) -> int:
    """How many messages to pull from an iterable next, after a chunk of ``size`` that took ``took`` seconds.

    A fast iterable gets larger chunks. A slow one gets smaller chunks, and so do messages so large that the ``whole``
    chunk overflowed. So a message does not wait long for those after it.
    """
    return min(2 * size, MAX_CHUNK) if whole and took < SLOW_PULL else max(size // 2, 1)


class EventDispatcher:
    """Logs events and gives them to the application's callback: in order, one at a time, from any thread.

    A callback may call any verb, and may raise: neither disturbs the connection. Of the events that wait for a slow
    callback, the newest ``MAX_EVENTS`` are kept. The event EventsDropped reports how many were dropped.

    Attributes:
        waiting: the events that are still to be delivered.
    """

    def __init__(self, callback: EventCallback | None) -> None:
        if callback is not None and not callable(callback):
            raise LocalProtocolError(f"event_cb must be callable, or None, not {type(callback).__name__}")
        self._callback = callback
        self.waiting: deque[Event] = deque()
        self._dropped = 0  # events dropped so far
        self._reported_dropped = 0  # of those, how many EventsDropped has reported
        self._dispatching = threading.Lock()

    def add(self, events: Iterable[Event]) -> None:
        """Queue ``events``. The caller holds the state, so that they are in the order of their occurrence."""
        self.waiting.extend(events)
        while len(self.waiting) > MAX_EVENTS:
            self.waiting.popleft()
            self._dropped += 1

    def dispatch(self) -> None:
        """Deliver the queued events, unless another thread is delivering: then that one does."""
        while self.waiting and self._dispatching.acquire(blocking=False):
            try:
                while self.waiting:
                    unreported = self._dropped - self._reported_dropped
                    if unreported:
                        self._reported_dropped += unreported
                        self._deliver(EventsDropped(unreported))
                    self._deliver(self.waiting.popleft())
            finally:
                self._dispatching.release()

    def _deliver(self, event: Event) -> None:
        if _log.isEnabledFor(level := _log_level(event)):
            _log.log(level, "%s", _format_event(event))
        if self._callback is not None:
            try:
                self._callback(event)
            except Exception:
                _log.exception("event_cb failed on %s", type(event).__name__)


def _log_level(event: Event) -> int:
    if isinstance(event, WARNINGS) or (isinstance(event, Disconnected) and event.error):
        return logging.WARNING
    return logging.DEBUG


def _format_event(event: Event) -> str:
    """An event in one line, without the server's INFO, which may hold a nonce."""
    if isinstance(event, Connected):
        return f"Connected(url={event.url!r}, version={event.server.version!r})"
    words = [f"{field.name}={getattr(event, field.name)!r}" for field in fields(event) if field.name != "server"]
    return f"{type(event).__name__}({', '.join(words)})"


def log_crash(bug: BaseException) -> None:
    """Log a defect of this library (or of code patched into it), once and with its traceback."""
    if isinstance(bug, Exception):  # else it is Ctrl-C or the like, which reaches the caller
        _log.error("the connection failed: %s", type(bug).__name__, exc_info=bug)
