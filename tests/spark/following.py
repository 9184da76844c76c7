"""A program for a cluster: it copies a stream into another one, by ``atomic``, until it is killed.

``following.py SERVERS ORIGIN TARGET CHECKPOINT``, by ``spark-submit``. Row n of the origin gets a subject of n % 7.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession


def main(servers: str, origin: str, target: str, checkpoint: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    import pyspark_jetstream

    pyspark_jetstream.register(spark)
    stream = spark.readStream.format("jetstream").options(
        servers=servers, minPartitions="2", maxOffsetsPerTrigger="500"
    )
    rows = stream.option("startingOffsets", "earliest").load(origin)
    copies = rows.selectExpr(f"concat('{target}.', seq % 7) subject", "data").writeStream.format("jetstream")
    copies = copies.options(servers=servers, stream=target, delivery="atomic", markerSubject=target)
    copies.option("checkpointLocation", checkpoint).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
