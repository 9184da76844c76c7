"""The columns: what a read gives and what a write takes, as Spark has them and as Arrow has them.

Rules: a schema is checked in the driver, before a task starts. A read gives any subset of its columns, in any order,
and only with the types below. Arrow batches have the schema that Spark itself derives, or Spark refuses them.

Not here: the values of a key-value bucket (``buckets``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from jsproto.errors import RemoteProtocolError
from jsproto.grammar.batch import BATCH_HEADERS
from pyspark_jetstream.option_fields import OptionError
from pyspark_jetstream.options import Delivery, ReadOptions, WriteOptions

if TYPE_CHECKING:
    from jsproto.grammar.columns import StoredColumns

HEADERS_TYPE: Final = "array<struct<key:string,value:binary>>"
_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
_READ: Final = {
    "subject": "string",
    "data": "binary",
    "stream": "string",
    "seq": "bigint",
    "timestamp": "timestamp",
    "headers": HEADERS_TYPE,
    "timestamp_ns": "bigint",
}
DEFAULT: Final = "subject string, data binary, stream string, seq bigint, timestamp timestamp"
_WRITE: Final = {
    "subject": ("string",),
    "data": ("binary", "string"),
    "headers": (HEADERS_TYPE, "map<string,array<string>>", "map<string,string>"),
    "msg_id": ("string",),
    "expected_last_subject_seq": ("bigint", "int"),
    "ttl": ("string",),
}


def read_schema(include_headers: bool) -> str:
    """The schema of a read, as DDL."""
    return f"{DEFAULT}, headers {HEADERS_TYPE}" if include_headers else DEFAULT


def check_read_schema(schema: StructType) -> None:
    """OptionError for a column that there is not, or of another type."""
    check_columns(schema, _READ)


def check_columns(schema: StructType, known: Mapping[str, str]) -> None:
    """OptionError unless each column is one of ``known``, with its type."""
    if not schema.fields:
        raise OptionError("the schema has no columns")
    for column in schema.fields:
        wanted = known.get(column.name)
        if wanted is None:
            raise OptionError(f"there is no column {column.name!r}; there are {', '.join(known)}")
        if _plain(column.dataType.simpleString()) != _plain(wanted):
            raise OptionError(f"column {column.name} is {wanted}, not {column.dataType.simpleString()}")


def written_names(names: Sequence[str]) -> list[str]:
    """The columns of a write, each by the name that it has here, if it is one of ours.

    Spark does not tell a sink whether case counts (``spark.sql.caseSensitive``). So a column is taken whatever its
    case, but where several differ in nothing else, which Spark lets pass only where case counts, it does.
    """
    several = Counter(map(str.lower, names))
    return [name.lower() if name.lower() in _WRITE and several[name.lower()] == 1 else name for name in names]


def check_write_schema(schema: StructType, options: WriteOptions) -> list[str]:
    """The columns that are written. OptionError for one that cannot be, or for one that is missing."""
    names = []
    for name, column in zip(written_names(schema.names), schema.fields, strict=True):
        wanted = _WRITE.get(name)
        if wanted is None:
            if options.ignore_extra_columns:
                continue
            raise OptionError(
                f"column {column.name!r} cannot be written (there are {', '.join(_WRITE)}): "
                "drop it, or set ignoreExtraColumns"
            )
        if _plain(column.dataType.simpleString()) not in map(_plain, wanted):
            raise OptionError(
                f"column {column.name} must be {' or '.join(wanted)}, not {column.dataType.simpleString()}"
            )
        names.append(name)
    if "data" not in names:
        raise OptionError("column data is missing, which is what is stored")
    if "subject" not in names and options.subject is None:
        raise OptionError("where to? Add a column subject, or set the option subject")
    if "msg_id" in names and options.delivery != Delivery.FAST:
        raise OptionError(f"with delivery {options.delivery} the message ids are made here: leave out column msg_id")
    if "expected_last_subject_seq" in names and options.delivery != Delivery.ATOMIC:
        raise OptionError("column expected_last_subject_seq needs delivery atomic")
    return names


def arrow_schema(schema: StructType) -> pa.Schema:
    """The schema of batches for Spark, which before 4.2 takes no time zone."""
    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:
        return to_arrow_schema(schema)


def _plain(ddl: str) -> str:
    return ddl.replace(" ", "").lower()


class BatchBuilder:
    """Arrow batches of one schema, out of columns of stored messages.

    What is added is copied to where Arrow keeps it, while the processor still has it at hand, and is not kept itself.

    Attributes: ``rows`` (added since the last batch).
    """

    def __init__(self, schema: StructType, stream: str, options: ReadOptions) -> None:
        self.schema = arrow_schema(schema)
        self.rows = 0
        self._stream = stream
        self._hidden = frozenset[str]() if options.include_bookkeeping else BATCH_HEADERS
        self._pieces: list[list[Any]] = [[] for _ in self.schema]  # of each column
        self._streams = pa.array([], pa.string())  # as long as the longest batch
        self._steps = pa.array([], pa.int64())  # 0, 1, 2 and so on, as long as it

    def add(self, part: StoredColumns) -> None:
        """These messages come next."""
        for name, pieces in zip(self.schema.names, self._pieces, strict=True):
            pieces.append(self._piece(name, part))
        self.rows += len(part.seqs)

    def batch(self) -> pa.RecordBatch:
        """One batch of all that was added since the last one, of which there must be some."""
        arrays = [
            self._column(column.name, column.type, pieces)
            for column, pieces in zip(self.schema, self._pieces, strict=True)
        ]
        self.rows = 0
        self._pieces = [[] for _ in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _piece(self, name: str, part: StoredColumns) -> Any:
        """What is kept of some messages for a column."""
        if name == "subject":
            return pa.array(part.subjects, pa.binary())
        if name == "data":
            return pa.array(part.data, pa.binary())
        if name == "headers":
            return pa.array([*self._headers(part)], pa.list_(_HEADER))
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

    def _headers(self, part: StoredColumns) -> Iterator[list[tuple[str, bytes]] | None]:
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
