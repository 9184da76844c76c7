"""A stream, or a bucket at a moment, to Parquet, JSON or CSV files, in folders by subject and time.

    python -m pyspark_jetstream.pipelines.export FLIGHTS flights --data columns
    python -m pyspark_jetstream.pipelines.export --bucket prices prices-at-noon --at 2026-11-21T12:00

The end is decided when the run begins: what is stored later is not in it. Each message of the range is in the files
once, and tasks that run again do not change that. Files appear when all of them are complete. What the stream has
dropped before it was read ends the run with an error. Messages that were deleted inside the range leave no trace.

Of a bucket there is one row for each key, all at one sequence. A bucket that keeps one value of a key has no past:
it is read as it is now. When keys are overwritten faster than they can be read, the run fails rather than mix moments.
"""

from __future__ import annotations

from pyspark_jetstream.pipelines import main

if __name__ == "__main__":
    main("export")
