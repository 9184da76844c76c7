"""The benchmark: this library, its peers and a hand-written loop side by side, against one real server.

Run it as ``python -m tests.bench [--quick] [--rounds N] [--json FILE]``; the extra ``bench`` installs the peers.

How it measures: each run of a client is a process of its own; in each round every client runs once, and the order
rotates, so that what else the machine does hits all alike. The figure to trust is the CPU (user and system) that the
client's process spends on the job for each message, imports, connecting and a warm-up left out; then the ratios. What
was published is counted in the stream afterwards. Compare only what one run printed.

To add a job, or a client, write one function and enter it into ``table.JOBS``.
"""
