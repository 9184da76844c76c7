"""Which process of pytest-xdist runs which tests.

Rules
 * Tests go one by one to whoever is free. Some go together: one process takes them all.
 * Tests that wait come first, in the order of ``WAITING``. A third of the processes take tests from the other end,
   where the longest are: while some wait for servers, others compute. Later all take what is left, which is short.

Pays: the scheduler of xdist looks through all that a process has run after each test. Of 13,500 tests that is nine
seconds. Here it forgets what has been run.

Not here: how many processes there are (``conftest``).
"""

from __future__ import annotations

from typing import Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling

APART: Final = ("tests/spark/test_sourcing.py",)
"""Without a JVM: its tests wait most of the time."""
TOGETHER: Final = (
    "tests/spark/",  # there is one JVM
    "tests/test_architecture.py",  # they look at every file, which is read once
    "tests/test_citations.py",
    "tests/test_words.py",
)
"""The tests of which one process takes all."""
WAITING: Final = ("tests/integration/", "tests/test_nats_server.py", "tests/cli/", "tests/drivers/")
"""Places of tests that wait for servers and programs, the longest first."""
LONG: Final = ("tests/bench/", "tests/simulation/")
"""Places of tests that compute for seconds."""


def rank(nodeid: str) -> int:
    """The place of a test in the queue."""
    if nodeid.startswith(LONG):
        return len(WAITING) + 1
    return next((number for number, place in enumerate(WAITING) if nodeid.startswith(place)), len(WAITING))


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Units of one test or of several that stay together, from both ends of one queue."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self._indices: dict[str, int] = {}

    def schedule(self) -> None:
        self._indices = {nodeid: index for index, nodeid in enumerate(next(iter(self.registered_collections.values())))}
        super().schedule()

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        nodeid = self.registered_collections[node][item_index]
        scope = self._split_scope(nodeid)
        work = self.assigned_work[node]
        del work[scope][nodeid]
        if not work[scope]:
            del work[scope]
        self._reschedule(node)

    def _assign_work_unit(self, node: Any) -> None:
        from_the_end = self.nodes.index(node) < max(1, self.numnodes // 3)
        scope, unit = self.workqueue.popitem(last=from_the_end)
        self.assigned_work[node][scope] = unit
        node.send_runtest_some([self._indices[nodeid] for nodeid in unit])

    def _pending_of(self, workload: dict[str, dict[str, bool]]) -> int:
        return sum(map(len, workload.values()))

    def _split_scope(self, nodeid: str) -> str:
        apart = nodeid.startswith(APART)
        return next((place for place in TOGETHER if nodeid.startswith(place) and not apart), nodeid)
