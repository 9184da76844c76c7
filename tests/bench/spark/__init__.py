"""The benchmark of the Spark source and sink: beside this library without Spark, and beside Spark with tuples.

Run it as ``python -m tests.bench.spark [--quick] [--rows N] [--json FILE]`` where the extra ``spark`` and Java are.

What is compared, always in one run:

``plain``   the library alone, in a process of its own: Direct Get as columns, and fast ingest.
``spark``   the data source: Arrow batches, both ways.
``tuples``  the yardstick: the same ranges and the same fast-ingest batches, but a tuple for each row, as a data source
            is written when one follows Spark's tutorial.

How it measures: after runs that warm Spark up, each contender runs once in every round, the order rotates, and the
figures are medians. CPU is what ``/proc`` says of three groups of processes: Python (driver, workers, planners, all of
them together), the JVM, and nats-server. What a job of one row costs is measured too: planning and starting tasks is
paid once for each job, not for each row. Small jobs run several times in a row, because the system counts CPU in
hundredths of a second. A fixed loop of Python runs in between, and says how fast the machine was meanwhile. Every run
is checked: what was written is in the stream, what was read is all there.
"""
