"""What each message costs in calls, bytecodes and memory blocks, compared with bounds: a guard that no machine sways.

``python -m tests.bench.counts`` counts, and fails where a row needs more than its bound. ``--write`` makes the bounds
of this Python from what was counted.

How it counts
 * The jobs of the benchmark run in simulated time (``jsproto_io.testing.simulation``), on each driver. The server is
   the role in memory, and there are no sockets. So each run of a job does exactly the same.
 * Only code of this library on the client's side counts: that of the core and of the driver. The server, the
   simulation, the event loop and the job itself do not.
 * ``calls``: functions begun, and generators and coroutines resumed. ``c_calls``: calls of functions written in C.
 * ``bytecodes``: instructions of the interpreter.
 * ``blocks``: memory blocks that were taken, seen between two lines. What one line takes and gives back is not seen,
   nor what Python keeps in its free lists. The figure is for comparing, and tells about growth.
 * A warm-up comes first. The figures are for each message of the run after it.

Rules: bounds are kept for each minor version of Python, since bytecodes differ in all of them. Python 3.11 cannot count
bytecodes without slowing down to a crawl, so there only calls have bounds. A Python without bounds is not judged.
Not here: time (``tests.bench``). Work inside one C function is not seen: a slower regular expression shows there only.
"""
