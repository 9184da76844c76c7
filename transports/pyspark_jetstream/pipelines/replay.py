"""A stretch of a stream once more, into another stream, at its own pace or faster.

    python -m pyspark_jetstream.pipelines.replay ORDERS TEST --prefix test. --create-stream \\
        --from 2026-11-21T08:00 --until 2026-11-21T09:00 --speed 10

``--speed full`` reads and writes as fast as it goes, with many tasks: the order of messages is kept within a task.
``--speed original``, or how many times faster it is to be, keeps the order of all messages and the time between them,
to a few milliseconds, with one task.

With one task ``atomic`` cannot be had, because it stores a thousand messages at a time. ``fast`` stores what a failed
task has sent once more. ``fastDedup`` does not, if that comes within the duplicate window of the target. A task that is
run again begins with the first message, at the same pace.
"""

from __future__ import annotations

from pyspark_jetstream.pipelines import main

if __name__ == "__main__":
    main("replay")
