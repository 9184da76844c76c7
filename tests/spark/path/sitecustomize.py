"""On the path of the tests' Spark, so each of its Python processes begins with this.

* They import the installed PySpark, not its copy in a zip file. Spark puts ``pyspark.zip`` first, and Python keeps no
  bytecode of it, so each process would compile it anew: 0.6 of its 1.2 s of CPU. Of those that read for a query Spark
  waits ten seconds, whatever is configured, and a busy machine would need them.
* A second answer about a position comes soon, as in the process of the tests.
* A daemon of Spark's imports the driver once, for all the processes that it forks.
"""

import sys

sys.path[:] = [each for each in sys.path if not each.endswith("pyspark.zip")]

from jsproto.rules import position  # noqa: E402

vars(position)["ELECTION"] = 0.02

if "pyspark.daemon" in sys.orig_argv:
    import jsproto_io.sync  # noqa: F401
