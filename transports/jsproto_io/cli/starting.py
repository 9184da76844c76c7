"""Where to begin in a stream: at a time, or so long ago on the server's clock.

Not here: how times are written (``values``).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from jsproto.grammar.times import instant, nanoseconds
from jsproto_io.cli import values
from jsproto_io.cli.terminal import Failure

if TYPE_CHECKING:
    from jsproto_io.sync import JetStream


def start_time(js: JetStream, stream: str, since: str) -> int:
    """The time to begin at, in nanoseconds since the epoch.

    Args:
        js: where the stream is.
        stream: the stream, whose server is asked for its time.
        since: the text of ``--since``: a time, or a duration before the server's now.

    Raises:
        BadUsage: it is neither.
        Failure: the server does not tell its time.
    """
    start = values.moment_or_duration(since, "--since")
    return ago(js, stream, start, "--since") if isinstance(start, timedelta) else instant(start)


def ago(js: JetStream, stream: str, duration: timedelta, option: str) -> int:
    """The time so long before the server's now, in nanoseconds since the epoch. ``stream`` is asked for it.

    Raises:
        Failure: the server does not tell its time.
    """
    now = js.stream_info(stream).ts
    if now is None:
        raise Failure(f"the server does not tell its time: give {option} a time, not a duration")
    return now - nanoseconds(duration)
