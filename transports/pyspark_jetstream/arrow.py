"""Arrow batches for Spark, out of the columns of stored messages.

Rules: batches have the schema that Spark itself derives, or Spark refuses them. An added value is copied to where Arrow
keeps it, while the processor still has it at hand, and then dropped.

Not here: which columns there are (``schema``), the columns of a key-value bucket (``buckets``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from jsproto.errors import RemoteProtocolError
from jsproto.grammar.batch import BATCH_HEADERS
from pyspark_jetstream.options import ReadOptions
from pyspark_jetstream.schema import ORIGIN

if TYPE_CHECKING:
    from jsproto.grammar.columns import StoredColumns

_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
_HEADERS: Final = pa.list_(_HEADER)
_BATCH_HEADERS: Final = frozenset(name.encode() for name in BATCH_HEADERS)


def arrow_schema(schema: StructType) -> pa.Schema:
    """The schema of batches for Spark, which before 4.2 takes no time zone."""
    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:
        return to_arrow_schema(schema)


class BatchBuilder:
    """Arrow batches of one schema, out of columns of stored messages.

    ``names``: what names their rows, beside the sequence: the numbers of the task and of its attempt (``origins``).
    Attributes: ``rows`` (added since the last batch), ``bytes`` (which their columns take, but for numbers).
    """

    def __init__(
        self, schema: StructType, stream: str, options: ReadOptions, names: tuple[int, int | None] = (0, None)
    ) -> None:
        self.schema = arrow_schema(schema)
        self.rows = self.bytes = 0
        self._stream = stream
        self._names = names
        self._hidden = frozenset[str]() if options.include_bookkeeping else BATCH_HEADERS
        self._pieces: list[list[Any]] = [[] for _ in self.schema]  # of each column
        self._streams = pa.array([], pa.string())  # as long as the longest batch
        self._steps = pa.array([], pa.int64())  # 0, 1, 2 and so on, as long as it

    def add(self, part: StoredColumns) -> None:
        """These messages come next."""
        for name, pieces in zip(self.schema.names, self._pieces, strict=True):
            piece = self._piece(name, part)
            pieces.append(piece)
            self.bytes += getattr(piece, "nbytes", 0)
        self.rows += len(part.seqs)

    def batch(self) -> pa.RecordBatch:
        """One batch of all that was added since the last one, of which there must be some."""
        arrays = [
            self._column(column.name, column.type, pieces)
            for column, pieces in zip(self.schema, self._pieces, strict=True)
        ]
        self.rows = self.bytes = 0
        self._pieces = [[] for _ in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _piece(self, name: str, part: StoredColumns) -> Any:
        """What is kept of some messages for a column."""
        if name == "subject":
            return pa.array(part.subjects, pa.binary())
        if name == "data":
            return pa.array(part.data, pa.binary())
        if name == "headers":
            return self._headers(part)
        if name in ("timestamp", "timestamp_ns"):
            return pa.array(part.timestamps, pa.binary())
        return part.seqs

    def _column(self, name: str, kind: pa.DataType, pieces: Sequence[Any]) -> pa.Array:
        """A column of a batch, of the pieces of it."""
        if name == "stream":
            if len(self._streams) < self.rows:
                self._streams = pa.repeat(pa.scalar(self._stream, kind), self.rows)
            return self._streams.slice(0, self.rows)
        if name == "seq":
            return self._numbers(pieces)
        if name == ORIGIN:
            task, attempt = (pa.repeat(pa.scalar(number, pa.int64()), self.rows) for number in self._names)
            return pa.StructArray.from_arrays([task, self._numbers(pieces), attempt], fields=[*kind])
        found = pa.concat_arrays(pieces)
        if name == "subject":
            found = _texts(found)
        elif name in ("timestamp", "timestamp_ns"):
            found = found.view(pa.string()).cast(pa.timestamp("ns", "UTC"))
        return found.cast(kind, safe=False)  # which cuts nanoseconds off

    def _numbers(self, pieces: Sequence[Sequence[int]]) -> pa.Array:
        """Numbers that rise: mostly by one, and then they need not be looked at."""
        first, last = pieces[0][0], pieces[-1][-1]
        if last - first != self.rows - 1:
            return pa.array([number for piece in pieces for number in piece], pa.int64())
        if len(self._steps) < self.rows:
            self._steps = pa.array(range(self.rows), pa.int64())
        return pc.add_checked(self._steps.slice(0, self.rows), pa.scalar(first, pa.int64()))

    def _headers(self, part: StoredColumns) -> pa.Array:
        """The user's headers. Lines that are plain become Arrow's with no object for each message."""
        lines = part.header_lines()
        if lines is None or (self._hidden and not _BATCH_HEADERS.isdisjoint(lines.names)):
            return pa.array([*self._each_header(part)], _HEADERS)
        if not lines.names:
            return pa.nulls(len(lines.counts), _HEADERS)
        names, values = pa.array(lines.names, pa.binary()).cast(pa.string()), pa.array(lines.values, pa.binary())
        pairs = pa.StructArray.from_arrays([names, values], fields=[*_HEADER])
        offsets = pa.array([*accumulate(lines.counts, initial=0)], pa.int32())
        return pa.ListArray.from_arrays(offsets, pairs, mask=pa.array([count == 0 for count in lines.counts]))

    def _each_header(self, part: StoredColumns) -> Iterator[list[tuple[str, bytes]] | None]:
        try:
            for headers in part.headers():
                pairs = [] if headers is None else [pair for pair in headers.items() if pair[0] not in self._hidden]
                yield [(name, value.encode("utf-8", "surrogateescape")) for name, value in pairs] or None
        except RemoteProtocolError as error:
            text = f"a message of {part.seqs[0]} to {part.seqs[-1]} has headers that cannot be read"
            raise RemoteProtocolError(f"stream {self._stream}: {text} ({error})") from None


def _texts(values: pa.Array) -> pa.Array:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:  # NATS takes any bytes for a subject
        return pa.array([value.decode("utf-8", "replace") for value in values.to_pylist()], pa.string())
