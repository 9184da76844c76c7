"""Writing keys and values into a bucket: the rows of one task.

Rules:
* A row is a key and its value, and null deletes the key.
* The last row of a key wins, within a task. Of rows of one key that are sent together only the last is: so it does not
  matter in which order those are acknowledged that are sent again.
* A chunk is acknowledged before the next one is sent.
* A task that runs again writes its keys again, over what others have written to them meanwhile.
* Each row is published on its own, because buckets of other clients take no fast-ingest batches.
* A row that cannot be stored fails the task with its number, before anything of its chunk is sent.

Not here: streams (``delivery``), reading a bucket (``buckets``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from jsproto.errors import AsyncPublishError, LocalProtocolError
from jsproto.grammar.bucket_keys import check_key
from jsproto_io.sync import Connection, JetStream
from pyspark_jetstream.atomic_batches import Stored
from pyspark_jetstream.connecting import TRANSIENT, Retries, is_transient
from pyspark_jetstream.markers import WriteError
from pyspark_jetstream.rows import RowError, together
from pyspark_jetstream.schema import Target

DELETION: Final = {"KV-Operation": "DEL"}


def store_keys(
    nc: Connection, js: JetStream, batches: Iterable[pa.RecordBatch], target: Target, partition: int
) -> Stored:
    """Store rows of columns ``key`` and ``value``, in order. RowError, WriteError."""
    rows = sent = 0
    for chunk in together(batches):
        last = _last_rows(chunk, target, f"of partition {partition}", rows)
        _publish(nc, js, chunk, last, target, f"of partition {partition}", rows)
        rows += chunk.num_rows
        sent += len(last)
    return Stored(rows, sent)


def _last_rows(chunk: pa.Table, target: Target, where: str, before: int) -> dict[str, int]:
    """The number of the last row of each key. RowError for a row that cannot be stored."""
    keys = chunk.column("key").to_pylist()
    last = {key: at for at, key in enumerate(keys)}
    for key in last:
        try:
            check_key(key)
        except LocalProtocolError as error:
            why = "is null" if key is None else str(error)
            raise RowError(f"row {before + keys.index(key)} {where} cannot be stored: column key: {why}") from None
    sizes = pc.binary_length(chunk.column("value").cast(pa.binary()))
    longest = pc.max(sizes).as_py() or 0
    if longest > target.max_size:
        at = before + pc.index(sizes, longest).as_py()
        why = f"{longest} bytes; stream {target.stream} takes {target.max_size}"
        raise RowError(f"row {at} {where} cannot be stored: column value has {why}")
    return last


def _publish(
    nc: Connection, js: JetStream, chunk: pa.Table, last: dict[str, int], target: Target, where: str, before: int
) -> None:
    """Store these rows. As a whole again, if some were not acknowledged: that changes nothing. WriteError."""
    (prefix,) = target.subjects
    values = chunk.column("value").cast(pa.binary()).take(pa.array(last.values(), pa.int64())).to_pylist()
    messages: list[tuple[Any, ...]] = [
        (prefix + key, b"", DELETION) if value is None else (prefix + key, value)
        for key, value in zip(last, values, strict=True)
    ]
    retries = Retries()
    while True:
        try:
            with js.async_publisher() as publisher:
                publisher.publish_many(messages)
            return
        except (AsyncPublishError, *TRANSIENT) as error:
            failures = error.failures if isinstance(error, AsyncPublishError) else []
            for (subject, *_), why in failures:
                if not is_transient(why):
                    key = subject.removeprefix(prefix)
                    text = f"row {before + last[key]} {where} was not stored: key {key}: {why}"
                    raise WriteError(text) from error
            if not retries.left:
                raise WriteError(f"rows {before} to {before + chunk.num_rows - 1} {where}: {error}") from error
        retries.wait(nc)
