"""Connections of tasks and of the driver.

Rules: who is always busy with the connection drives it itself; who keeps it between questions, or between batches, has
a thread do it, which ends with the process. A task begins behind a driver that has reached the servers, so it waits for
them a while; a driver that cannot reach them says so at once.

Not here: what is asked (``planning``, ``ranges``, ``delivery``).
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from time import sleep
from typing import Any, Final, Self, TypeVar

from jsproto.errors import (
    APIError,
    AuthorizationError,
    ConnectionClosedError,
    ConnectionLostError,
    Error,
    NoRespondersError,
    NoServersError,
    TLSError,
)
from jsproto.errors import TimeoutError as NoAnswerError
from jsproto_io.sync import Connection, JetStream, connect
from pyspark_jetstream.options import Connecting
from pyspark_jetstream.security import connect_keywords

T = TypeVar("T")

MAX_RECONNECT_ATTEMPTS: Final = 10
PING_INTERVAL: Final = 10.0  # seconds; the third one unanswered ends the link to a server that stands still
DAEMON: Final = "pyspark.daemon"
LINGER: Final = 0.001  # seconds: a few messages that a window has room for leave with those behind them
WAIT: Final = 20.0  # seconds for a lost connection to come back
PAUSES: Final = (5.0, 2.0, 1.0, 0.5, 0.2)  # seconds between tries; the last one is the first
TRIES: Final = len(PAUSES)
TRANSIENT: Final = (ConnectionLostError, ConnectionClosedError, NoAnswerError, NoRespondersError)
"""What a restarted server, or a new leader, looks like for a while; an APIError of ``BUSY`` is the same in words."""
REFUSED: Final = (AuthorizationError, TLSError)  # a kind of those; asking again makes it no better
BUSY: Final = (429, 500, 503)
NO_JETSTREAM: Final = (10039, 10076)  # 503 as well, for the account, or the server


@cache
def freeze_imports() -> None:
    """Let the garbage collector of one of PySpark's worker processes not look at what has been imported any more.

    PySpark collects garbage behind each task and each planning, and to look at all modules costs 30 ms of CPU each
    time: most of what a small micro-batch costs Python. Other processes are not ours to tune.
    """
    main = getattr(sys.modules["__main__"], "__spec__", None)  # a debugger's has none
    if main is not None and main.name == DAEMON:
        gc.collect()
        gc.freeze()


def opened(connecting: Connecting, *, reader_thread: bool = False) -> Connection:
    """A connection, driven by its caller or by a thread of its own. The errors are those of ``connect``."""
    freeze_imports()
    keywords: dict[str, Any] = {
        "name": "pyspark_jetstream",
        "max_reconnect_attempts": MAX_RECONNECT_ATTEMPTS,
        "ping_interval": PING_INTERVAL,
        "linger": LINGER,
        **connect_keywords(connecting.keywords),
    }
    return connect(connecting.servers, reader_thread=reader_thread, **keywords)


def jetstream_of(nc: Connection, connecting: Connecting) -> JetStream:
    """JetStream as the options want it."""
    return nc.jetstream(domain=connecting.domain, prefix=connecting.prefix, timeout=connecting.timeout)


class UnreachableError(RuntimeError):
    """A task could not reach the servers; the message says what it was to do, and why."""


@contextmanager
def in_task(
    connecting: Connecting, what: str, *, reader_thread: bool = False
) -> Iterator[tuple[Connection, JetStream]]:
    """A task's connection, closed at the end. ``what`` the task is to read or to write. UnreachableError."""
    try:
        connection = _dialled(connecting, reader_thread)
    except Error as error:
        raise UnreachableError(f"{what}: {error}") from error
    with connection as nc:
        yield nc, jetstream_of(nc, connecting)


def _dialled(connecting: Connecting, reader_thread: bool) -> Connection:
    for pause in reversed(PAUSES):
        with suppress(NoServersError):
            return opened(connecting, reader_thread=reader_thread)
        sleep(pause)
    return opened(connecting, reader_thread=reader_thread)


class ReconnectingClient:
    """A connection for many questions: made with the first, and anew when it has ended. It is not pickled."""

    def __init__(self, connecting: Connecting) -> None:
        self._connecting = connecting
        self._nc: Connection | None = None

    def __reduce__(self) -> tuple[type[ReconnectingClient], tuple[Connecting]]:
        return ReconnectingClient, (self._connecting,)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, question: Callable[[JetStream], T]) -> T:
        """The answer; asked again, a few times, when the servers go away meanwhile."""
        tries = TRIES
        while True:
            try:
                if self._nc is None or self._nc.is_closed:
                    self._nc = opened(self._connecting, reader_thread=True)
                return question(jetstream_of(self._nc, self._connecting))
            except (*TRANSIENT, APIError) as error:
                if not tries or not is_transient(error):
                    raise
            tries -= 1
            wait_for(self._nc, tries)

    def close(self) -> None:
        """End the connection, if there is one."""
        if self._nc is not None:
            self._nc.close()
            self._nc = None


def retry_transient(nc: Connection, question: Callable[[], T]) -> T:
    """The answer; asked again, a few times, when the servers go away meanwhile."""
    tries = TRIES
    while True:
        try:
            return question()
        except (*TRANSIENT, APIError) as error:
            if not tries or not is_transient(error):
                raise
        tries -= 1
        wait_for(nc, tries)


def is_transient(error: Exception) -> bool:
    """Whether the same question may be answered a little later."""
    if isinstance(error, APIError):
        return error.code in BUSY and error.err_code not in NO_JETSTREAM
    return isinstance(error, TRANSIENT) and not isinstance(error, REFUSED)


def wait_for(nc: Connection | None, tries: int) -> None:
    """Until the connection is back, and a while longer with each try, of which so many are left: leaders take time."""
    if nc is not None:
        wait_until_back(nc)
    sleep(PAUSES[min(tries, TRIES - 1)])


def wait_until_back(nc: Connection) -> None:
    """Until there is a link again, or for a while."""
    with suppress(Error):
        nc.flush(timeout=WAIT)
