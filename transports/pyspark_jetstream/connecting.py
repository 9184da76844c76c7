"""Connections of tasks and of the driver.

Rules:
* A task that is always busy with its connection drives it itself.
* A connection that waits between requests, or between batches, has a thread, which ends with the process.
* A task waits a while for the servers, because its driver has reached them. A driver that cannot reach them fails at
  once.
* All pauses between tries, of reads and writes too, are those of ``Retries``.

Not here: what is asked (``planning``, ``ranges``, ``delivery``).
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from time import monotonic, sleep
from typing import Any, Final, Self, TypeVar

from jsproto.backoff import Backoff
from jsproto.errors import (
    APIError,
    AuthorizationError,
    ConnectionClosedError,
    ConnectionLostError,
    Error,
    NoRespondersError,
    NoServersError,
    SourceBusyError,
    TLSError,
)
from jsproto.errors import TimeoutError as NoAnswerError
from jsproto.grammar.config import ServerInfo
from jsproto_io.sync import Connection, JetStream, connect
from pyspark_jetstream.options import ConnectionOptions
from pyspark_jetstream.security import connect_keywords

T = TypeVar("T")

MAX_RECONNECT_ATTEMPTS: Final = 10
PING_INTERVAL: Final = 10.0  # seconds; the third one unanswered ends the link to a server that stands still
DAEMON: Final = "pyspark.daemon"
LINGER: Final = 0.001  # seconds: a few messages that a window has room for leave with those after them
WAIT: Final = 20.0  # seconds for a lost connection to come back
TRIES: Final = 5  # in a row, after the first one
FIRST_PAUSE: Final = 0.2  # seconds
LAST_PAUSE: Final = 5.0  # seconds
PAUSE_FACTOR: Final = 5**0.5  # so that TRIES pauses lead from the first one to the last one
TRANSIENT: Final = (ConnectionLostError, ConnectionClosedError, NoAnswerError, NoRespondersError)
"""What a restarted server, or a new leader, looks like for a while. So does an APIError of ``BUSY``."""
REFUSED: Final = (AuthorizationError, TLSError, SourceBusyError)  # a kind of those; asking again makes it no better
BUSY: Final = (429, 500, 503)
LASTING: Final = (10039, 10076, 10077)  # 503 as well: no JetStream for the account, or the server, or a full stream


@cache
def freeze_imports() -> None:
    """Let the garbage collector of one of PySpark's worker processes pass over what has been imported.

    PySpark collects garbage after each task and each planning. To visit all modules costs 30 ms of CPU each time, which
    is most of what a small micro-batch costs Python. Other processes are not ours to tune.
    """
    main = getattr(sys.modules["__main__"], "__spec__", None)  # a debugger's has none
    if main is not None and main.name == DAEMON:
        gc.collect()
        gc.freeze()


class Retries:
    """So many tries in a row, with longer and longer pauses before them.

    The last pause is ``LAST_PAUSE``, because a new leader takes time: fewer tries begin with a longer pause.
    Attributes: ``left`` (how many tries there are before the caller gives up).
    """

    def __init__(self, most: int = TRIES, backoff: Backoff | None = None) -> None:
        """``backoff``: other pauses than the usual ones."""
        first = max(FIRST_PAUSE, LAST_PAUSE / PAUSE_FACTOR ** max(most - 1, 0))
        self.left = self._most = most
        self._backoff = backoff or Backoff(first, LAST_PAUSE, factor=PAUSE_FACTOR)

    def reset(self) -> None:
        """There was progress: what fails next begins a new row."""
        self.left = self._most
        self._backoff.reset()

    def pause(self) -> None:
        """Wait for the next try, which uses one up."""
        self.left -= 1
        pause = self._backoff.failed(monotonic())
        assert pause is not None  # these back-offs do not end by time
        sleep(pause)

    def wait(self, nc: Connection | None) -> None:
        """Wait until the connection is back, or for a while, and then for the next try."""
        if nc is not None:
            wait_until_back(nc)
        self.pause()


def opened(options: ConnectionOptions, *, reader_thread: bool = False) -> Connection:
    """A connection, driven by its caller or by a thread of its own. The errors are those of ``connect``."""
    freeze_imports()
    path = options.credentials_path
    keywords: dict[str, Any] = {
        "name": "pyspark_jetstream",
        "max_reconnect_attempts": MAX_RECONNECT_ATTEMPTS,
        "ping_interval": PING_INTERVAL,
        "linger": LINGER,
        **connect_keywords(options.keywords),
    }
    if path is not None and os.access(path, os.R_OK):  # each link reads it again
        keywords["user_credentials"] = path
    return connect(options.servers, reader_thread=reader_thread, **keywords)


def jetstream_of(nc: Connection, options: ConnectionOptions) -> JetStream:
    """JetStream as the options want it."""
    return nc.jetstream(domain=options.domain, prefix=options.prefix, timeout=options.request_timeout)


class UnreachableError(RuntimeError):
    """A task could not reach the servers. The message says what the task was to do, and why it could not."""


@contextmanager
def in_task(
    options: ConnectionOptions, what: str, *, reader_thread: bool = False
) -> Iterator[tuple[Connection, JetStream]]:
    """A task's connection, closed at the end. ``what`` the task is to read or to write. UnreachableError."""
    try:
        connection = _opened_patiently(options, reader_thread)
    except Error as error:
        raise UnreachableError(f"{what}: {error}") from error
    with connection as nc:
        yield nc, jetstream_of(nc, options)


def _opened_patiently(options: ConnectionOptions, reader_thread: bool) -> Connection:
    retries = Retries()
    while True:
        try:
            return opened(options, reader_thread=reader_thread)
        except NoServersError:
            if not retries.left:
                raise
        retries.pause()


class ReconnectingClient:
    """A connection for many requests: opened for the first one, and again when it has ended.

    Pickling leaves the connection out.
    """

    def __init__(self, options: ConnectionOptions) -> None:
        self._options = options
        self._nc: Connection | None = None

    def __reduce__(self) -> tuple[type[ReconnectingClient], tuple[ConnectionOptions]]:
        return ReconnectingClient, (self._options,)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def request(self, ask: Callable[[JetStream], T]) -> T:
        """The result of ``ask``, which is called again, a few times, when the servers go away meanwhile."""

        def attempt() -> T:
            if self._nc is None or self._nc.is_closed:
                self._nc = opened(self._options, reader_thread=True)
            return ask(jetstream_of(self._nc, self._options))

        return _retried(attempt, lambda: self._nc)

    @property
    def server_info(self) -> ServerInfo | None:
        """What the server that was asked last said of itself. None: there was no request."""
        return None if self._nc is None else self._nc.server_info

    def close(self) -> None:
        """End the connection, if there is one."""
        if self._nc is not None:
            self._nc.close()
            self._nc = None


def retry_transient(nc: Connection, attempt: Callable[[], T]) -> T:
    """The result of ``attempt``, which is called again, a few times, when the servers go away meanwhile."""
    return _retried(attempt, lambda: nc)


def _retried(attempt: Callable[[], T], connection: Callable[[], Connection | None]) -> T:
    retries = Retries()
    while True:
        try:
            return attempt()
        except (*TRANSIENT, APIError) as error:
            if not retries.left or not is_transient(error):
                raise
        retries.wait(connection())


def is_transient(error: Exception) -> bool:
    """Whether the same request may succeed a little later."""
    if isinstance(error, APIError):
        return error.code in BUSY and error.err_code not in LASTING
    return isinstance(error, TRANSIENT) and not isinstance(error, REFUSED)


def wait_until_back(nc: Connection) -> None:
    """Until there is a link again, or for a while."""
    with suppress(Error):
        nc.flush(timeout=WAIT)
