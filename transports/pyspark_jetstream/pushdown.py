"""Filters that Spark pushes down: a read that covers less because of what the query asks for.

Rules:
* A filter narrows the read, and Spark applies it all the same. So a filter that is not understood, or understood too
  widely, costs time and changes nothing.
* Clocks of servers differ, so a time is pushed with a margin.

Not here: filters as options (``planning``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import attrs
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from jsproto.errors import LocalProtocolError
from jsproto.grammar.config import StreamInfo
from jsproto.grammar.subjects import check_subject
from jsproto.grammar.times import instant
from jsproto_io.sync import JetStream
from pyspark_jetstream.planning import covers, first_at
from pyspark_jetstream.source import JetStreamReader

MARGIN: Final = 60 * 10**9  # nanoseconds between the clocks of two leaders of a stream, at most


class PushdownReader(JetStreamReader):
    """A batch read that takes filters."""

    least = 1  # sequence
    most: int | None = None
    since: int | None = None  # nanoseconds since the epoch
    until: int | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Note what narrows the read, and leave all filters to Spark."""
        for each in filters:
            column = getattr(each, "attribute", ())
            if column == ("seq",):
                self._push_sequence(each)
            elif column == ("timestamp",):
                self._push_time(each)
            elif column == ("subject",):
                self._push_subject(each)
        return filters

    def bounded(self, js: JetStream, info: StreamInfo, lo: int, hi: int) -> tuple[int, int]:
        """The range, as far as the filters can be true."""
        lo = max(lo, self.least)
        if self.most is not None:
            hi = min(hi, self.most + 1)
        if self.since is not None:
            lo = max(lo, first_at(js, info, self.since - MARGIN))
        if self.until is not None:
            hi = min(hi, first_at(js, info, self.until + MARGIN))
        return lo, hi

    def _push_sequence(self, pushed: Filter) -> None:
        low, high = _interval(pushed)
        if low is not None:
            self.least = max(self.least, low)
        if high is not None:
            self.most = high if self.most is None else min(self.most, high)

    def _push_time(self, pushed: Filter) -> None:
        low, high = _interval(pushed)
        if low is not None:
            self.since = max(_nanoseconds(low), self.since or 0)
        if high is not None:
            self.until = _nanoseconds(high) if self.until is None else min(self.until, _nanoseconds(high))

    def _push_subject(self, pushed: Filter) -> None:
        if isinstance(pushed, EqualTo):
            pattern = str(pushed.value)
        elif isinstance(pushed, StringStartsWith) and pushed.value.endswith("."):
            pattern = f"{pushed.value}>"
        else:
            return
        if "," in pattern:  # which no option has
            return
        try:
            check_subject(pattern.removesuffix(".>"))
            check_subject(pattern, wildcards=True)
        except LocalProtocolError:  # nothing that a message can have, or not as a pattern
            return
        known = self.options.subject
        if known is None or covers(known, pattern):
            self.options = attrs.evolve(self.options, subject=pattern)


def _interval(pushed: Any) -> tuple[Any, Any]:
    """The least and the greatest value that a filter may let through. None: any."""
    if isinstance(pushed, EqualTo):
        return pushed.value, pushed.value
    if isinstance(pushed, In):
        values = [value for value in pushed.value if value is not None]
        return (min(values), max(values)) if values else (None, None)
    if isinstance(pushed, GreaterThan | GreaterThanOrEqual):
        return pushed.value, None
    if isinstance(pushed, LessThan | LessThanOrEqual):
        return None, pushed.value
    return None, None


def _nanoseconds(moment: Any) -> int:
    """Of a datetime. Without a zone it is in the zone of the process, as Spark has it."""
    return instant(moment if moment.tzinfo is not None else moment.astimezone())
