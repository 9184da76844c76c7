"""Programs between JetStream and files, streams and reports, which run on Spark.

    python -m pyspark_jetstream.pipelines.ingest --help
    spark-submit .../pyspark_jetstream/pipelines/ingest.py --help

* ``ingest``: files into a stream.
* ``export``: a stream or a bucket to files.
* ``mirror``: a stream to another one, by a query of yours.
* ``replay``: a stretch of time once more.
* ``audit``: what is in a stream, and what is missing.

Each says in its own module, and by ``--help``, what it promises. On this machine the first form is enough. The second
one is for clusters.

Rules: these modules only start what is in ``jobs``, after a look at whether the packages for it are here.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from io import TextIOWrapper
from typing import Final

NEEDED: Final = ("pyspark", "pyarrow", "attrs", "typer", "rich")
FOR_PLOTS: Final = ("matplotlib",)


def main(name: str) -> None:
    """Run one of the programs with the arguments of this process, and end the process with an exit code."""
    needed = (*NEEDED, *FOR_PLOTS) if name == "audit" else NEEDED
    missing = [package for package in needed if find_spec(package) is None]
    if missing:
        print(f"{name}: {', '.join(missing)} not installed: pip install 'jsproto[pipelines]'", file=sys.stderr)
        sys.exit(2)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal that cannot show a character shows another
            stream.reconfigure(errors="replace")
    try:
        job = import_module(f"pyspark_jetstream.pipelines.jobs.{name}")
    except KeyboardInterrupt:  # the imports take a moment
        sys.exit(130)
    job.app(prog_name=name)
