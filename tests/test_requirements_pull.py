"""The rows about pulling name only tests that exist."""

from __future__ import annotations

import pytest

from tests.requirements_pull import PULL_FAULTS, PULL_SHOWN
from tests.test_requirements import check_exists


@pytest.mark.parametrize("number", list(PULL_SHOWN))
def test_a_row_names_tests(number: int) -> None:
    assert PULL_SHOWN[number].tests
    for node in PULL_SHOWN[number].tests:
        check_exists(node)


@pytest.mark.parametrize("client", list(PULL_FAULTS))
def test_a_fault_names_tests(client: str) -> None:
    for fault in PULL_FAULTS[client]:
        assert fault.tests, fault.words
        for node in fault.tests:
            check_exists(node)
