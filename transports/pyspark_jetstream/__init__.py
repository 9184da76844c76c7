"""JetStream as a data source of Apache Spark: ``spark.read.format("jetstream")`` and the three other directions.

Spark finds the format by the name of this package where it is installed. A session whose code comes as a zip file
calls ``register(spark)``. Other modules are imported when a query needs them, because Spark imports this one in every
session and hides its errors.

    (spark.read.format("jetstream").option("servers", "nats://localhost:4222").option("stream", "EVENTS").load())
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

try:
    from pyspark import cloudpickle
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType
except ModuleNotFoundError as error:  # of this name, so that ``python -m`` makes one line of it
    what = f"{error.name} is not installed: pip install 'jsproto[spark]', or 'jsproto[pipelines]' for its programs"
    raise ModuleNotFoundError(what, name=__name__) from error

__all__ = ["DefaultSource", "JetStreamDataSource", "register"]


class JetStreamDataSource(DataSource):
    """A stream of NATS JetStream.

    Name: ``jetstream``

    Reading a stream gives ``subject`` string, ``data`` binary, ``stream`` string, ``seq`` bigint, ``timestamp``
    timestamp, and ``headers`` with ``includeHeaders``. Reading a bucket (``kvBucket``) gives ``bucket`` string, ``key``
    string, ``value`` binary, ``revision`` bigint, ``timestamp`` timestamp and ``operation`` string. Writing takes
    ``data``, and ``subject`` unless an option has it. ``includeOrigin`` adds what names a row to a sink.

    Options: ``servers`` and ``stream``, always. The others are in the README of this package.
    """

    parallelism: int | None = None
    """How many tasks the session runs side by side. None: nobody has looked."""

    def __init__(self, options: dict[str, str]) -> None:
        """As Spark calls it first of all. ModuleNotFoundError in a Python that lacks pyarrow or attrs."""
        super().__init__(options)
        for package in ("pyarrow", "attrs"):
            if find_spec(package) is None:  # to import it here would take longer, and this process may not need it
                where = f"{package} is missing in {sys.executable}"
                text = f"{where}: install it there, or set PYSPARK_PYTHON to a Python with it"
                raise ModuleNotFoundError(text, name=package)

    @classmethod
    def name(cls) -> str:
        return "jetstream"

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, bytes]]:
        """As usual, and with the place of this package.

        Spark tells each of its processes where the zip files of a session are. The process of a streaming read in the
        driver gets a wrong folder, so it looks here.
        """
        place = str(Path(__file__).parents[1])
        pickled: bytes = cloudpickle.dumps((type(self), self.__dict__))  # type: ignore[no-untyped-call]
        return _finding(), (place, pickled)

    def schema(self) -> str:
        from pyspark_jetstream.buckets import SCHEMA
        from pyspark_jetstream.options import read_options
        from pyspark_jetstream.schema import origin_column, read_schema

        options = read_options(dict(self.options), self.parallelism)
        if options.kv_bucket is not None:
            return SCHEMA + origin_column(options.include_origin)
        return read_schema(options.include_headers, options.include_origin)

    def reader(self, schema: StructType) -> DataSourceReader:
        from pyspark_jetstream.buckets import BucketReader
        from pyspark_jetstream.options import read_options
        from pyspark_jetstream.source import JetStreamReader

        options = read_options(dict(self.options), self.parallelism)
        if options.kv_bucket is not None:
            return BucketReader(schema, options)
        if options.push_filters:  # a reader that takes filters fails where Spark's own switch for them is off
            from pyspark_jetstream.pushdown import PushdownReader

            return PushdownReader(schema, options)
        return JetStreamReader(schema, options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from pyspark_jetstream.options import ReadMode, read_options
        from pyspark_jetstream.source import JetStreamStreamReader
        from pyspark_jetstream.work_queue import JetStreamSourcingReader

        options = read_options(dict(self.options), self.parallelism)
        return (JetStreamSourcingReader if options.read_mode is ReadMode.SOURCING else JetStreamStreamReader)(
            schema, options
        )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from pyspark_jetstream.options import write_options
        from pyspark_jetstream.sink import JetStreamWriter

        return JetStreamWriter(schema, write_options(dict(self.options)), overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from pyspark_jetstream.options import write_options
        from pyspark_jetstream.sink import JetStreamStreamWriter

        return JetStreamStreamWriter(schema, write_options(dict(self.options)), overwrite)


DefaultSource = JetStreamDataSource
"""The name under which Spark looks for it."""


def _finding() -> Callable[[str, bytes], Any]:
    def find(place: str, pickled: bytes) -> Any:  # as a function in a function it is pickled whole, not by its name
        import sys

        from pyspark import cloudpickle

        try:
            kind, attributes = cloudpickle.loads(pickled)
        except ModuleNotFoundError:
            sys.path.append(place)
            kind, attributes = cloudpickle.loads(pickled)
        found = kind.__new__(kind)
        found.__dict__.update(attributes)
        return found

    return find


def _for_session(spark: SparkSession) -> type[JetStreamDataSource]:
    try:
        cores = spark.sparkContext.defaultParallelism
    except PySparkException:  # with Spark Connect the session is elsewhere
        return JetStreamDataSource

    class Registered(JetStreamDataSource):  # as a class in a function it is pickled whole, not by its name
        parallelism = cores

    return Registered


def register(spark: SparkSession) -> None:
    """Make the format ``jetstream`` known to a session that has not found it by itself.

    It is told how many tasks the session runs side by side now, for the default of ``minPartitions``.

    The session becomes that of this thread, too. For a write, Spark looks for the format in that session alone: a
    further thread that writes calls this first, or gets DATA_SOURCE_NOT_FOUND.
    """
    spark.dataSource.register(_for_session(spark))
    spark.createDataFrame([], "nothing int")  # which does that, in all releases
