"""Rows of a table as messages, and messages as rows of that table again.

Rules: a table that goes in by ``data_of`` and comes out by ``from_messages`` is equal, value by value and type by type.
Times keep their microseconds. What cannot be a message fails with the row's own reason.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType, StructType

from jsproto_io.cli.records import BadInput, BadUsage, Unsafe
from pyspark_jetstream.schema import HEADERS_TYPE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

SCHEMA_KEY: Final = "spark.schema"
"""Under this name a stream's metadata has the schema of the rows in it, as Spark's JSON."""
TIMES: Final = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_FIELD: Final = re.compile(r"\{([^{}]*)\}")
_NO_TOKEN: Final = r"[\x00-\x20\x7f.*>]"


def column(name: str) -> Column:
    """A column by its whole name, which may have dots."""
    return F.col("`" + name.replace("`", "``") + "`")


def check_column(rows: DataFrame, name: str, what: str) -> None:
    """BadUsage when there is no such column."""
    if name not in rows.columns:
        raise BadUsage(f"{what}: there is no column {name!r}; the columns are {', '.join(rows.columns)}")


def subject_of(rows: DataFrame, template: str, unsafe: Unsafe) -> Column:
    """The subject that a template gives each row. BadUsage when it names no column."""
    parts: list[Column] = []
    for number, text in enumerate(_FIELD.split(template)):
        if number % 2:
            check_column(rows, text, "--subject")
            parts.append(_token(text, unsafe))
        elif text:
            parts.append(F.lit(text))
    return F.concat(*parts)


def _token(name: str, unsafe: Unsafe) -> Column:
    value = column(name).cast("string")
    bad = value.isNull() | (value == "") | value.rlike(_NO_TOKEN)
    if unsafe is Unsafe.REPLACE:
        cleaned = F.regexp_replace(F.coalesce(value, F.lit("")), _NO_TOKEN, "_")
        return F.when(bad & ((cleaned == "") | value.isNull()), F.lit("_")).otherwise(cleaned)
    shown = F.coalesce(F.concat(F.lit("'"), F.substring(value, 1, 40), F.lit("'")), F.lit("nothing"))
    reason = F.concat(
        F.lit(f"column '{name}' holds "), shown, F.lit(", which cannot be part of a subject (--unsafe replace)")
    )
    return F.when(bad, F.raise_error(reason).cast("string")).otherwise(value)


def data_of(rows: DataFrame, name: str | None) -> Column:
    """The message of each row: a column, or the whole row as JSON. BadUsage when the column cannot be one."""
    if name is None:
        return F.to_json(F.struct(*[column(each) for each in rows.columns]), TIMES)
    check_column(rows, name, "--data")
    kind = rows.schema[name].dataType
    if not isinstance(kind, (BinaryType, StringType)):
        raise BadUsage(f"--data {name}: the column is {kind.simpleString()}, but a message is text or binary")
    return column(name)


def headers_of(rows: DataFrame, whole: str | None, named: Mapping[str, str]) -> Column | None:
    """The headers of each row, of a column that has them all or of one column for each. BadUsage."""
    if whole is not None:
        check_column(rows, whole, "--headers")
        return column(whole)
    if not named:
        return None
    pairs = []
    for header, name in named.items():
        check_column(rows, name, "--header")
        value = column(name).cast("string").cast("binary")
        pairs.append(F.struct(F.lit(header).alias("key"), value.alias("value")))
    return F.filter(F.array(*pairs), lambda pair: pair["value"].isNotNull()).cast(HEADERS_TYPE)


def schema_in(metadata: Mapping[str, str] | None) -> StructType | None:
    """The schema that ``ingest`` has left in a stream's metadata, if it has."""
    text = (metadata or {}).get(SCHEMA_KEY)
    if text is None:
        return None
    try:
        return StructType.fromJson(json.loads(text))
    except (ValueError, KeyError, TypeError):
        raise BadInput(f"the stream's metadata has no schema under {SCHEMA_KEY!r} that Spark can read") from None


def from_messages(rows: DataFrame, schema: StructType, keep: Sequence[str]) -> DataFrame:
    """The columns of the table that went in, after those of ``keep``."""
    options = {**TIMES, "mode": "FAILFAST"}
    parsed = rows.select(*keep, F.from_json(F.col("data").cast("string"), schema, options).alias("row"))
    return parsed.select(*keep, "row.*")
