"""The columns: what a read gives and what a write takes, as Spark has them.

Rules:
* A schema is checked in the driver, before a task starts.
* A read gives any subset of its columns, in any order, and only with the types below.
* Nothing here needs Arrow. The processes in which Spark plans a write do without it, and start sooner.

Not here: the values of a key-value bucket (``buckets``), columns as Arrow has them (``arrow``, ``rows``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql.types import StructType

from pyspark_jetstream.option_fields import OptionError
from pyspark_jetstream.options import Delivery, WriteOptions

HEADERS_TYPE: Final = "array<struct<key:string,value:binary>>"
ORIGIN: Final = "origin"
ORIGIN_TYPE: Final = "struct<task:bigint,seq:bigint,attempt:bigint>"
"""Of a row's name: see ``origins``."""
MAX_RUNS: Final = 64
"""Ranges of the source in a marker, and segments of a chunk that it can tell."""
_READ: Final = {
    "subject": "string",
    "data": "binary",
    "stream": "string",
    "seq": "bigint",
    "timestamp": "timestamp",
    "headers": HEADERS_TYPE,
    "timestamp_ns": "bigint",
    ORIGIN: ORIGIN_TYPE,
}
DEFAULT: Final = "subject string, data binary, stream string, seq bigint, timestamp timestamp"
_WRITE: Final = {
    "subject": ("string",),
    "data": ("binary", "string"),
    "headers": (HEADERS_TYPE, "map<string,array<string>>", "map<string,string>"),
    "msg_id": ("string",),
    "expected_last_subject_seq": ("bigint", "int"),
    "expected_last_subject_seq_subject": ("string",),
    "ttl": ("string",),
    "rollup": ("string",),
    "at": ("timestamp",),
    "every": ("bigint", "int", "double"),
    "cron": ("string",),
    "target": ("string",),
    "source": ("string",),
    "time_zone": ("string",),
    "schedule_ttl": ("bigint", "int"),
    "schedule_rollup": ("string",),
    "incr": ("bigint", "int"),
    "trace": ("string",),
    ORIGIN: (ORIGIN_TYPE,),
}
_WRITE_KEYS: Final = {"key": ("string",), "value": ("binary", "string")}


@dataclass(frozen=True)
class Target:
    """What the stream takes: subjects (wildcards), and bytes in a message (as the server has it, with headers).

    The one subject of a bucket is what stands before a key. ``added``: headers that the delivery adds to each row, with
    values as long as they get.
    """

    stream: str
    subjects: tuple[str, ...]
    max_size: int
    added: Mapping[str, str] = field(default_factory=dict)


def read_schema(include_headers: bool, include_origin: bool) -> str:
    """The schema of a read, as DDL."""
    headers = f", headers {HEADERS_TYPE}" if include_headers else ""
    return f"{DEFAULT}{headers}{origin_column(include_origin)}"


def origin_column(include_origin: bool) -> str:
    """What is added to a schema for names of rows, as DDL."""
    return f", {ORIGIN} {ORIGIN_TYPE}" if include_origin else ""


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
    known = _WRITE.keys() | _WRITE_KEYS.keys()
    return [name.lower() if name.lower() in known and several[name.lower()] == 1 else name for name in names]


def check_write_schema(schema: StructType, options: WriteOptions) -> list[str]:
    """The columns that are written. OptionError for one that cannot be, or for one that is missing."""
    names = []
    known: Mapping[str, tuple[str, ...]] = _WRITE if options.kv_bucket is None else _WRITE_KEYS
    for name, column in zip(written_names(schema.names), schema.fields, strict=True):
        wanted = known.get(name)
        fits = wanted is not None and _plain(column.dataType.simpleString()) in map(_plain, wanted)
        if wanted is None or (name == ORIGIN and not fits):
            if options.ignore_extra_columns:
                continue
            raise OptionError(
                f"column {column.name!r} cannot be written (there are {', '.join(known)}): "
                "drop it, or set ignoreExtraColumns"
            )
        if not fits:
            raise OptionError(
                f"column {column.name} must be {' or '.join(wanted)}, not {column.dataType.simpleString()}"
            )
        names.append(name)
    if options.kv_bucket is None:
        _check_names(names, options)
    for name in _WRITE_KEYS.keys() - names if options.kv_bucket is not None else ():
        raise OptionError(f"column {name} is missing: a bucket takes rows of key and value")
    return names


def _check_names(names: Sequence[str], options: WriteOptions) -> None:
    if "data" not in names:
        raise OptionError("column data is missing, which is what is stored")
    if "subject" not in names and options.subject is None:
        raise OptionError("where to? Add a column subject, or set the option subject")
    if "msg_id" in names and options.delivery != Delivery.FAST:
        raise OptionError(f"with delivery {options.delivery} the message ids are made here: leave out column msg_id")
    for name in ("expected_last_subject_seq", "expected_last_subject_seq_subject"):
        if name in names and options.delivery != Delivery.ATOMIC:
            raise OptionError(f"column {name} needs delivery atomic")
    if "incr" in names and options.delivery == Delivery.ATOMIC:
        raise OptionError("column incr needs delivery fast or fastDedup: a stream that counts takes no markers")


def _plain(ddl: str) -> str:
    return ddl.replace(" ", "").lower()
