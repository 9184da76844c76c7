"""What is in a stream and what is missing, as a page to look at.

    python -m pyspark_jetstream.pipelines.audit ORDERS orders.html

It reads every message once, and writes one HTML file. It has missing sequences, repeated message ids (and how far
apart), messages, bytes and rates of each subject, and plots of them. A stream that is written to meanwhile is audited
as it was at the beginning.

A missing sequence is a message that was deleted, expired by its own TTL, or replaced by ``max_msgs_per_subject``.
Messages dropped from the front by the stream's limits count apart. With ``--subject`` gaps mean nothing, and are
not looked for. ``--strict`` makes gaps and duplicates a failure (exit code 1), for use in a schedule.
"""

from __future__ import annotations

from pyspark_jetstream.pipelines import main

if __name__ == "__main__":
    main("audit")
