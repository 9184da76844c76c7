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
    if not isinstance(start, timedelta):
        return instant(start)
    now = js.stream_info(stream).ts
    if now is None:
        raise Failure("the server does not tell its time: give --since a time, not a duration")
    return now - nanoseconds(start)
