"""Time zones for the message schedules of a server in memory, from the database of the machine.

Not here: when a schedule is due (``jsproto.grammar.cron``).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from jsproto.grammar.cron import Zone

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_zone(name: str) -> Zone | None:
    """The time zone of that name, such as ``Europe/Berlin``. None: the machine lacks it."""
    try:
        rules = ZoneInfo(name)
    except (KeyError, OSError, ValueError):  # it is unknown, a folder of names, or no name
        return None

    def ahead(moment: int) -> int:
        local = (_EPOCH + timedelta(seconds=moment)).astimezone(rules)
        return round((local.utcoffset() or timedelta()).total_seconds())

    return ahead
