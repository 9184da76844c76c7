"""The table of other clients' faults names only tests that exist, each fault at least one."""

from __future__ import annotations

from itertools import chain
from typing import Final

import pytest

from tests.faults import PEERS, REPORTED, SURVEYED
from tests.requirements import Row
from tests.test_requirements import check_exists

FAULTS: Final[list[Row]] = [*chain(*PEERS.values()), *SURVEYED, *chain(*REPORTED.values())]


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.words for fault in FAULTS])
def test_a_fault_names_tests_that_exist(fault: Row) -> None:
    assert len(set(fault.tests)) == len(fault.tests) >= 1
    for node in fault.tests:
        check_exists(node)


def test_no_fault_is_told_twice() -> None:
    assert len({fault.words for fault in FAULTS}) == len(FAULTS)
