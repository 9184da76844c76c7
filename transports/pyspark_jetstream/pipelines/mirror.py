"""A stream into another one, as it is or by a query of yours.

    python -m pyspark_jetstream.pipelines.mirror ORDERS PAID --create-stream --subjects 'paid.>' \\
        --sql "SELECT concat('paid.', seq) subject, data FROM messages WHERE subject LIKE 'orders.%.paid'"

Without ``--checkpoint`` it copies what there is now, once. With it each run goes on where the last one ended, and
``--follow`` does not end by itself. A range that is read again is the same again. What is stored when a task or a
micro-batch is repeated:

``fast``       its rows once more.
``fastDedup``  nothing more, if it happens within the duplicate window of the target.
``atomic``     nothing more, however late.

The last two number the rows, so a query has to give them in the same order each time. A query without shuffles
(no GROUP BY, ORDER BY, JOIN of two streams) does.

``--read-mode sourcing --consumer NAME`` empties a work queue. What Spark has committed is acknowledged, and goes from
the stream. With ``--checkpoint`` and ``atomic`` each message is stored once, and at the end of a run nothing is left:

    python -m pyspark_jetstream.pipelines.mirror JOBS DONE --prefix done. --create-stream --delivery atomic \\
        --checkpoint state --read-mode sourcing --consumer mirror

Headers go along, except those that mean something to the server (``Nats-...``). ``Nats-Msg-Id`` goes along with
``fast``. The order of messages is kept within a task, not between tasks.
"""

from __future__ import annotations

from pyspark_jetstream.pipelines import main

if __name__ == "__main__":
    main("mirror")
