"""For programs around queries: store each micro-batch once by ``foreachBatch``, and see how far a query is behind.

    query.foreachBatch(store_once("orders", servers=url, stream="ORDERS", markerSubject="orders"))
    spark.streams.addListener(LagListener(lambda query, lag: print(query, lag.most, "behind")))

Not here: what sources and sinks do (``source``, ``sink``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.streaming.listener import StreamingQueryListener

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def store_once(
    app_id: str, transform: Callable[[DataFrame], DataFrame] | None = None, **options: str
) -> Callable[[DataFrame, int], None]:
    """What ``foreachBatch`` takes to store the rows of each micro-batch once, however often it comes again.

    Args:
        app_id: the name of the query, as ``txnAppId``. Two of them in one function need two names.
        transform: makes the rows that are stored. None: they are as they come. It has to give the same rows each time.
        options: of a write. ``delivery`` is ``atomic``, unless it is given.
    """

    def store(rows: DataFrame, batch: int) -> None:
        stored = rows if transform is None else transform(rows)
        given = {"delivery": "atomic", **options, "txnAppId": app_id, "txnVersion": str(batch)}
        stored.write.format("jetstream").options(**given).mode("append").save()

    return store


class Lag(NamedTuple):
    """How many sequences a query is behind its streams, by stream: the least, the most, and the mean.

    As Spark had it when the micro-batch was planned, and with sequences that a filter leaves out. A stream that is read
    twice has the larger one.
    """

    least: int
    most: int
    mean: float
    streams: Mapping[str, int]


def lag_of(progress: Any) -> Lag | None:
    """The lag in a progress of a query: a ``StreamingQueryProgress``, or its JSON as a mapping.

    None: it has no source of ours that says, as before Spark 4.2.
    """
    found: dict[str, int] = {}
    whole = progress if isinstance(progress, Mapping) else json.loads(progress.json)
    for each in whole.get("sources", ()):
        latest, done = _sequences(each.get("latestOffset")), _sequences(each.get("endOffset"))
        for stream, seq in latest.items():
            found[stream] = max(seq - done.get(stream, 1), found.get(stream, 0))
    if not found:
        return None
    return Lag(min(found.values()), max(found.values()), sum(found.values()) / len(found), found)


def _sequences(offset: Any) -> dict[str, int]:
    """The sequence to read next in each stream. Empty for an offset of another source."""
    try:
        whole = json.loads(offset) if isinstance(offset, str) else offset
        return {str(stream): int(position["seq"]) for stream, position in whole["streams"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


class LagListener(StreamingQueryListener):
    """Calls ``tell`` with the name (or else the id) of a query and its lag, at each progress that has one."""

    def __init__(self, tell: Callable[[str, Lag], object]) -> None:
        super().__init__()
        self._tell = tell

    def onQueryStarted(self, event: Any) -> None:
        """Nothing."""

    def onQueryProgress(self, event: Any) -> None:
        """A query has moved."""
        lag = lag_of(event.progress)
        if lag is not None:
            self._tell(event.progress.name or str(event.progress.id), lag)

    def onQueryIdle(self, event: Any) -> None:
        """Nothing."""

    def onQueryTerminated(self, event: Any) -> None:
        """Nothing."""
