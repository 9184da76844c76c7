"""Which page of the site is made of what: files of the repository, and modules for the reference.

Rules:

* Every page that a reader of the repository is sent to has a place here, or is a file of code: then its link goes.
* The order is that of the navigation.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Page(NamedTuple):
    """One page: its title in the navigation, where it stands on the site, and the file it is copied from.

    ``quotes``: it has sentences of other pages, whose links are theirs.
    """

    title: str
    place: str
    source: str
    quotes: bool = False


IO: Final = "transports/jsproto_io"

SECTIONS: Final[dict[str, tuple[Page, ...]]] = {
    "Start": (
        Page("What it is", "index.md", "README.md"),
        Page("Five minutes", "start.md", "transports/jsproto_io/START.md"),
        Page("Coming from nats-py", "nats-py.md", f"{IO}/NATS_PY.md"),
        Page("Changes", "changes.md", "jsproto/CHANGELOG.md"),
    ),
    "Guides": (
        Page("Threads, asyncio, trio", "guides/drivers.md", f"{IO}/README.md"),
        Page("Verbs in detail", "guides/verbs.md", f"{IO}/REFERENCE.md"),
        Page("Buckets and objects", "guides/buckets.md", f"{IO}/BUCKETS.md"),
        Page("Workers", "guides/workers.md", f"{IO}/WORKERS.md"),
        Page("Tests and simulation", "guides/testing.md", f"{IO}/testing/README.md"),
        Page("Command line", "guides/command.md", f"{IO}/cli/README.md"),
        Page("Apache Spark", "guides/spark.md", "transports/pyspark_jetstream/README.md"),
    ),
    "Core": (
        Page("Overview", "core/index.md", "jsproto/README.md"),
        Page("Tour of the source", "core/tour.md", "jsproto/TOUR.md"),
        Page("Embedding", "core/embedding.md", "jsproto/EMBEDDING.md"),
        Page("State tables", "core/tables.md", "jsproto/TABLES.md"),
        Page("What servers do", "core/facts.md", "jsproto/server/FACTS.md"),
        Page("What a message costs", "core/costs.md", "tests/site/figures.html"),
    ),
    "Specs": (
        Page("Promises", "specs/promises.md", "tests/PROMISES.md", quotes=True),
        Page("Requirements", "specs/requirements.md", "tests/REQUIREMENTS.md"),
        Page("Faults of clients", "specs/faults.md", "tests/FAULTS.md"),
    ),
    "Contributing": (
        Page("Tests and releases", "contributing/tests.md", "tests/README.md"),
        Page("Fuzzing", "contributing/fuzzing.md", "fuzz/README.md"),
    ),
}

MODULES: Final[dict[str, str]] = {
    "jsproto_io.sync": "Threads",
    "jsproto_io.asyncio": "asyncio",
    "jsproto_io.trio": "trio",
    "jsproto_io.contexts": "Contexts",
    "jsproto_io.nats_server": "Real servers for tests",
    "jsproto_io.testing": "Servers in memory",
    "jsproto_io.testing.simulation": "Simulation",
    "jsproto": "Core",
    "jsproto.server": "Role of the server",
    "jsproto.testing": "Pairs and networks",
    "jsproto.errors": "Errors",
    "jsproto.events": "Events",
    "jsproto.api_errors": "Codes of the server",
    "pyspark_jetstream": "Spark",
}
"""Modules of the reference, in the order of the navigation, and their titles."""
