"""What the drivers share and the core must not hold: entropy, logging, the operating system's words for a failure.

Rules: nothing here knows a loop or a thread library's way to wait, and nothing here decides anything of the protocol.

Not here: the verbs (``_state.shared``, ``_blocking``, ``_aio``), sockets (``sync``, ``asyncio``, ``trio``).
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from datetime import timedelta
from functools import cache
from typing import Final, TypeAlias, overload

from jsproto.client.connection.options import connect_options
from jsproto.client.connection.session import Session
from jsproto.errors import LocalProtocolError
from jsproto.events import (
    CallbackFailed,
    Connected,
    ConsumerNotDeleted,
    ConsumerSilent,
    Disconnected,
    Event,
    EventsDropped,
    ServerReportedError,
    SlowConsumer,
    StreamRecreated,
    SubscriptionFailed,
)
from jsproto.grammar.config import StreamConfig, StreamOptions
from jsproto.grammar.headers import HeadersLike
from jsproto_io import ConnectKeywords, DurabilityWarning
from jsproto_io._state.credentials import signing
from jsproto_io._state.tls import SecureSession

EventCallback: TypeAlias = Callable[[Event], object]
OutgoingMessage: TypeAlias = tuple[str, bytes] | tuple[str, bytes, HeadersLike | None]
Timeout: TypeAlias = float | timedelta

MAX_EVENTS: Final = 10_000  # kept for a callback that is slower than what happens
MAX_POP: Final = 512  # messages taken from a buffer of the core at once
MAX_CHUNK: Final = 512  # messages pulled from an iterable at once: what a server acknowledges at once, and a bit
KEPT_BUFFER: Final = 4 * 1024 * 1024  # bytes: buffers of up to this size are used again
MAX_BURST: Final = 1_048_576  # bytes sent in a loop; then others have their turn, whoever always has more waits
SLOW_PULL: Final = 0.001  # seconds; an iterable that needs longer for a chunk is given smaller ones

DIAL_ERRORS: Final = (OSError, UnicodeError)  # what dialling raises; UnicodeError: a host that cannot be a name
MAX_SLEEP: Final = 3600.0  # seconds; operating systems refuse to sleep for years

WARNINGS: Final = (
    CallbackFailed, ConsumerNotDeleted, ConsumerSilent, EventsDropped, ServerReportedError, SlowConsumer,
    StreamRecreated, SubscriptionFailed,
)  # fmt: skip
"""Events that whoever only logs should see."""

_log = logging.getLogger("jsproto_io")
_log.addHandler(logging.NullHandler())


def new_session(servers: str | Sequence[str], options: ConnectKeywords) -> Session:
    """A session with the operating system's entropy, that can sign and begin TLS."""
    keep_buffers()
    return SecureSession(connect_options(servers, **signing(options)), token=os.urandom(16))


@cache
def keep_buffers() -> None:
    """Have the C library keep what is freed, where it is glibc; elsewhere this does nothing.

    glibc maps a buffer that is larger than any it has seen freed so, and gives it back at once: system calls and page
    faults that cost more than what a read, or a batch of a thousand messages, puts into it. It learns from one.
    """
    bytes(KEPT_BUFFER)


@overload
def seconds(timeout: Timeout | None, name: str = ..., *, default: float) -> float: ...
@overload
def seconds(timeout: Timeout | None, name: str = ..., *, default: None = ...) -> float | None: ...
def seconds(timeout: Timeout | None, name: str = "timeout", *, default: float | None = None) -> float | None:
    """A timeout as float seconds; ``default`` when it is None.

    LocalProtocolError, with its ``name``, when it is negative or not a number.
    """
    if timeout is None:
        return default
    value: object = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
        raise LocalProtocolError(f"{name} is a number of seconds, 0 or more, or a timedelta, not {timeout!r:.100}")
    return value


def clamp_sleep(wanted: float) -> float:
    """How long to sleep, in seconds, when ``wanted`` may be any number. To wake early is harmless."""
    return max(0.0, min(wanted, MAX_SLEEP))


def stream_config(config: StreamConfig | str, options: StreamOptions) -> StreamConfig:
    """A configuration from what ``create_stream`` was given."""
    if isinstance(config, str):
        return StreamConfig.from_options(config, **options)
    return config.updated(**options) if options else config


def warn_of_async_persistence(config: StreamConfig) -> None:
    """Say once, where the application creates the stream, what ``persist_mode="async"`` means (consistency models).

    Not of a configuration that is refused: LocalProtocolError says why.
    """
    if config.persist_mode == "async":
        config.check()
        warnings.warn(
            f"stream {config.name} acknowledges messages before they are on disk (persist_mode='async'), and has one"
            " replica: a crash of the server, its machine or its disk loses acknowledged messages",
            DurabilityWarning,
            stacklevel=3,  # the caller of the verb that calls this
        )


def reason(error: BaseException) -> str:
    """One line for why dialling, or a connection, failed."""
    if isinstance(error.__cause__, BaseExceptionGroup):  # trio: one error for each address of a name
        error = error.__cause__.exceptions[0]
    if isinstance(error, socket.gaierror) and error.strerror:
        return error.strerror
    if isinstance(error, TimeoutError) and not error.errno:
        return "timed out"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__


def next_chunk(size: int, took: float, whole: bool) -> int:
    """How many messages to pull next, after a chunk of ``size`` that ``took`` seconds to pull.

    A fast iterable gets large chunks; a slow one, or messages so large that the chunk was not taken as a ``whole``,
    gets small ones, so that a message does not wait long for those behind it.
    """
    return min(2 * size, MAX_CHUNK) if whole and took < SLOW_PULL else max(size // 2, 1)


class EventDispatcher:
    """Logs events and gives them to the application's callback: in order, one at a time, whoever drives.

    A callback may call any verb, and may raise: neither disturbs the connection. For one that is too slow
    ``MAX_EVENTS`` are kept, and the event EventsDropped says how many went before them.
    """

    def __init__(self, callback: EventCallback | None) -> None:
        if callback is not None and not callable(callback):
            raise LocalProtocolError(f"event_cb must be callable, or None, not {type(callback).__name__}")
        self._callback = callback
        self._queue: deque[Event] = deque()
        self._dropped = 0  # of all events, how many were
        self._reported_dropped = 0  # how many of those EventsDropped has told
        self._dispatching = threading.Lock()

    def add(self, events: Iterable[Event]) -> None:
        """Queue ``events``; call it in the order in which they happened, and nowhere else meanwhile."""
        self._queue.extend(events)
        while len(self._queue) > MAX_EVENTS:
            self._queue.popleft()
            self._dropped += 1

    def dispatch(self) -> None:
        """Tell what is queued, unless somebody is telling already: then they will."""
        while self._queue and self._dispatching.acquire(blocking=False):
            try:
                while self._queue:
                    unreported = self._dropped - self._reported_dropped
                    if unreported:
                        self._reported_dropped += unreported
                        self._deliver(EventsDropped(unreported))
                    self._deliver(self._queue.popleft())
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
    """An event in one line: without what the server's INFO carries, which may hold a nonce."""
    if isinstance(event, Connected):
        return f"Connected(url={event.url!r}, version={event.server.version!r})"
    words = [f"{field.name}={getattr(event, field.name)!r}" for field in fields(event) if field.name != "server"]
    return f"{type(event).__name__}({', '.join(words)})"


def log_crash(bug: BaseException) -> None:
    """Say once, with the traceback, that a defect of this library (or of what was patched into it) was met."""
    if isinstance(bug, Exception):  # else it is Ctrl-C: no defect, and on its way to whoever pressed it
        _log.error("the connection failed: %s", type(bug).__name__, exc_info=bug)
