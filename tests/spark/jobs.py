"""A program for a cluster: it reads a stream, and writes it by each delivery, from a batch and from a streaming query.

``jobs.py SERVERS ORIGIN TARGET CHECKPOINT``, by ``spark-submit``, or as a client of Spark Connect, with its URL and a
zip file of the code as further arguments. It prints one line of JSON: what it read, and where tasks found the code.

Rules: nothing of the tests is imported: a cluster has only what is shipped.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

DELIVERIES = ("fast", "fastDedup", "atomic")


def whence(_: int) -> str:
    """Where a task has found the code."""
    import pyspark_jetstream

    return pyspark_jetstream.__file__


def copy(rows: DataFrame, target: str, name: str) -> DataFrame:
    return rows.selectExpr(f"concat('{target}.{name}.', seq % 7) subject", "data")


def main(servers: str, origin: str, target: str, checkpoint: str, *connect: str) -> None:
    if connect:
        url, code = connect
        spark = SparkSession.builder.remote(url).getOrCreate()
        spark.addArtifacts(code, pyfile=True)
    else:
        spark = SparkSession.builder.getOrCreate()
    import pyspark_jetstream

    pyspark_jetstream.register(spark)
    read = spark.read.format("jetstream").options(servers=servers, minPartitions="4").load(origin)
    numbers = sorted(int(row.data) for row in read.select("data").collect())
    path = udf(whence, "string", useArrow=False)
    paths = {row.path for row in read.select(path("seq").alias("path")).distinct().collect()}
    for delivery in DELIVERIES:
        writer = copy(read, target, delivery).write.format("jetstream").mode("append")
        writer.options(servers=servers, stream=target, delivery=delivery, markerSubject=target).save()
    for delivery in DELIVERIES:
        stream = spark.readStream.format("jetstream").options(servers=servers, minPartitions="4")
        rows = copy(stream.option("startingOffsets", "earliest").load(origin), target, f"stream-{delivery}")
        query = (
            rows.writeStream.format("jetstream")
            .options(servers=servers, stream=target, delivery=delivery, markerSubject=target)
            .option("checkpointLocation", f"{checkpoint}/{delivery}")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    rows = spark.read.format("jetstream").options(servers=servers).load(target)
    counts = rows.selectExpr("split(subject, '[.]')[1] name").groupBy("name").count().collect()
    written = {row["name"]: row["count"] for row in counts}
    driver = str(Path(pyspark_jetstream.__file__))
    print(json.dumps({"read": numbers, "written": written, "tasks": sorted(paths), "driver": driver}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
