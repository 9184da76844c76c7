"""The table of other clients' faults names only tests that exist, each fault at least one."""

from __future__ import annotations

from itertools import chain
from typing import Final

import pytest

from tests.faults import PEERS, REPORTED, SURVEYED
from tests.node_ids import check_exist
from tests.requirements import Requirement

FAULTS: Final[list[Requirement]] = [*chain(*PEERS.values()), *SURVEYED, *chain(*REPORTED.values())]


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.words for fault in FAULTS])
def test_a_fault_names_tests_that_exist(fault: Requirement) -> None:
    check_exist(fault.tests)


def test_no_fault_is_told_twice() -> None:
    assert len({fault.words for fault in FAULTS}) == len(FAULTS)
