"""The benchmark: this library, its peers and a hand-written loop side by side, against one real server.

Run it as ``python -m tests.bench [--quick] [--rounds N] [--json FILE] [--html FILE]``. The extra ``bench`` installs the
peers, and what draws the page. What a message costs in calls is counted by ``tests.bench.counts``.

How it measures
 * Each run of a client is a process of its own.
 * In each round every client runs once. The order rotates, so that other load on the machine hits all alike.
 * The figure to trust is the CPU (user and system) of the client's process for each message, then the ratios.
 * Imports, connecting and a warm-up are left out.
 * What was published is counted in the stream afterwards.
 * Compare only what one run printed.

The plan and the tables are checked by attrs when they are made. Records without checks are dataclasses.

To add a job, or a client, write one function and enter it into ``table.JOBS``.
"""
