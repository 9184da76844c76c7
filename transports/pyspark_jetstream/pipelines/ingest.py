"""Parquet, CSV and JSON files into a stream, one message a row.

    python -m pyspark_jetstream.pipelines.ingest flights.parquet --subject 'flights.{carrier}.{origin}' --create-stream

The message is the row as a JSON object, or one column of it. What a stream that was made here needs to give the table
back, the names and types of its columns, is in its metadata: ``export --data columns`` reads it.

What is stored when Spark runs a task again, because it failed or is slow:

``fast``       the rows of that task once more. At least once.
``fastDedup``  nothing more, if it happens within the stream's duplicate window (2 minutes unless the stream says
               otherwise). With ``--run-id`` that also holds for a run that is started again as a whole.
``atomic``     nothing more, however late. A server has at most 50 atomic batches of a stream open at a time (1,000 in
               all), and each running task has one: beyond 50 tasks at once some are refused and try again.

``--msg-id COLUMN`` (with ``fast``) has the stream drop what comes with an id that it has seen within its duplicate
window. With ``--checkpoint`` a run takes the files that are new since the last one. Then ``fastDedup`` and ``atomic``
hold across runs as well, because what is repeated has the same numbers.
"""

from __future__ import annotations

from pyspark_jetstream.pipelines import main

if __name__ == "__main__":
    main("ingest")
