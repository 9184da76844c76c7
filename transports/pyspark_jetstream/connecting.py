"""Connections of tasks and of the driver: short-lived, one for each task.

Rules: whoever reads pumps the connection itself; whoever writes has a thread do it, which ends with the task.

Not here: what is asked (``planning``, ``ranges``, ``delivery``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from jsproto_io.sync import Connection, JetStream, connect
from pyspark_jetstream.options import Connecting

MAX_RECONNECT_ATTEMPTS: Final = 10


@contextmanager
def jetstream(connecting: Connecting) -> Iterator[JetStream]:
    """JetStream on a connection of its own, closed at the end. The errors are those of ``jsproto_io.sync.connect``."""
    with opened(connecting) as nc:
        yield nc.jetstream(domain=connecting.domain, prefix=connecting.prefix, timeout=connecting.timeout)


def opened(connecting: Connecting, *, reader_thread: bool = False) -> Connection:
    """A connection, pumped by its caller or by a thread of its own."""
    keywords: dict[str, Any] = {
        "name": "pyspark_jetstream",
        "max_reconnect_attempts": MAX_RECONNECT_ATTEMPTS,
        **connecting.keywords,
    }
    return connect(connecting.servers, reader_thread=reader_thread, **keywords)
