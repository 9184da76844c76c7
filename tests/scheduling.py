"""Which process of pytest-xdist runs which tests.

Rules
 * Tests go one by one to whoever is free. Some go together: one process takes them all.
 * Tests that wait come first, in the order of ``WAITING``. As many processes as there are cores, but two thirds at
   most, begin at the other end: with tests that go together, then with long ones. While some wait, others compute.
   Later these take what is left.
 * In a run of everything the other processes do not collect what computes. They end when the rest has been taken.

Pays: the scheduler of xdist looks through all that a process has run after each test. Of 13,500 tests that is nine
seconds. Here it forgets what has been run. Collecting all tests takes six seconds of CPU, and a third of that without
those that compute.

Not here: how many processes there are (``conftest``).
"""

from __future__ import annotations

import os
from typing import Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling

APART: Final = ("tests/spark/test_sourcing.py",)
"""Without a JVM: its tests wait most of the time."""
TOGETHER: Final = (
    "tests/spark/",  # there is one JVM
    "tests/test_architecture.py",  # they look at every file, which is read once
    "tests/test_citations.py",
    "tests/test_marks.py",
    "tests/test_words.py",
)
"""The tests of which one process takes all."""
WAITING: Final = (
    "tests/integration/",
    "tests/test_nats_server.py",
    "tests/testing_io/",
    "tests/drivers/",
    "tests/cli/",
)
"""Places of tests that wait for servers, programs and threads, the longest first."""
ROOMS: Final = tuple(
    f"tests/{room}/" for room in ("client", "grammar", "pair", "rules", "server", "transcripts", "wire")
)
"""Places of tests of the core, which compute."""
LONG: Final = ("tests/bench/", "tests/simulation/")
"""Places of tests that compute for seconds."""
COMPUTING: Final = (*ROOMS, "tests/stateful/", *LONG)


def rank(nodeid: str) -> int:
    """The place of a test in the queue."""
    if nodeid.startswith(COMPUTING):
        return len(WAITING) + 1 + nodeid.startswith(LONG)
    if nodeid.startswith(TOGETHER) and not nodeid.startswith(APART):
        return len(WAITING) + 3
    return next((number for number, place in enumerate(WAITING) if nodeid.startswith(place)), len(WAITING))


def computes(worker: str, count: int) -> bool:
    """Whether a process, such as ``gw0`` of so many, takes tests that compute first."""
    return int(worker.removeprefix("gw")) < max(1, min(os.cpu_count() or 1, 2 * count // 3))


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Units of one test or of several that stay together, from both ends of one queue."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self.registered_collections: dict[Any, list[str]] = {}
        self._indices: dict[Any, dict[str, int]] = {}

    def schedule(self) -> None:
        collected = sorted(self.registered_collections.items(), key=lambda item: -len(item[1]))
        self.registered_collections = dict(collected)  # what the first one has is the queue
        self._indices = {node: {nodeid: index for index, nodeid in enumerate(ids)} for node, ids in collected}
        self.config.pluginmanager.get_plugin("session").testscollected = len(collected[0][1])
        super().schedule()

    def _check_nodes_have_same_collection(self) -> bool:
        """Each has a part of what the first one has, or it has tests that nobody can tell apart."""
        first, *others = self._indices.values()
        return all(other.keys() <= first.keys() for other in others) or super()._check_nodes_have_same_collection()

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        nodeid = self.registered_collections[node][item_index]
        scope = self._split_scope(nodeid)
        work = self.assigned_work[node]
        del work[scope][nodeid]
        if not work[scope]:
            del work[scope]
        self._reschedule(node)

    def _reschedule(self, node: Any) -> None:
        """Give it work, or let it end where only such work is left as it has not collected."""
        unit: dict[str, bool] = next(iter(self.workqueue.values()), {})
        if unit.keys() <= self._indices[node].keys():
            super()._reschedule(node)
        elif not node.shutting_down:
            node.shutdown()

    def _assign_work_unit(self, node: Any) -> None:
        scope, unit = self.workqueue.popitem(last=computes(node.gateway.id, self.numnodes))
        self.assigned_work[node][scope] = unit
        node.send_runtest_some([self._indices[node][nodeid] for nodeid in unit])

    def _pending_of(self, workload: dict[str, dict[str, bool]]) -> int:
        return sum(map(len, workload.values()))

    def _split_scope(self, nodeid: str) -> str:
        apart = nodeid.startswith(APART)
        return next((place for place in TOGETHER if nodeid.startswith(place) and not apart), nodeid)
