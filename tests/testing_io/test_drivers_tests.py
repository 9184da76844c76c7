"""Tests of the clients' drivers that were written for a real nats-server, against the server in memory.

Each test function of these modules that takes the fixture ``server`` alone is run again with the one of ``conftest``.

The fixture is a server on sockets, and then one without. A quick run has one driver for each test, chosen by its name.
That all drivers do the same is shown against a real server.

Not here: tests that stop a server, limit its permissions, or read its log.
"""

from __future__ import annotations

import inspect
from zlib import crc32

import pytest

from tests.drivers import (
    test_atomic_facade,
    test_facade,
    test_publishing,
    test_pulling,
    test_reading,
    test_sessions,
    test_subscribing,
)
from tests.drivers.conftest import DRIVERS, IN_CI

pytestmark = pytest.mark.anyio

TWO_ADDRESSES = "test_an_address_that_refuses_is_passed_over"  # a dialer reaches its one server under each address

for _module in (
    test_atomic_facade,
    test_facade,
    test_publishing,
    test_pulling,
    test_reading,
    test_sessions,
    test_subscribing,
):
    _room = _module.__name__.rpartition("test_")[2]
    for _name, _test in list(vars(_module).items()):
        if _name.startswith("test_") and "server" in inspect.signature(_test).parameters and _name != TWO_ADDRESSES:
            globals()[f"test_{_room}__{_name.removeprefix('test_')}"] = _test

TESTS = [name for name in globals() if name.startswith("test_") and "__" in name]


QUICK = [name for name in DRIVERS if name not in IN_CI]


def own_driver(name: str) -> str:
    """On which driver a quick run has this test."""
    return QUICK[crc32(name.encode()) % len(QUICK)]


@pytest.fixture
def driver(request: pytest.FixtureRequest) -> str:
    """The driver under test."""
    name: str = request.param
    return name


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test is parametrized with all drivers. It is slow on those that are not its own."""
    if "driver" in metafunc.fixturenames:
        own = own_driver(metafunc.definition.originalname)
        drivers = [pytest.param(each, marks=() if each == own else pytest.mark.slow) for each in DRIVERS]
        metafunc.parametrize("driver", drivers, indirect=True)


def test_a_quick_run_has_each_driver_but_one() -> None:
    assert len(TESTS) > 100
    for driver in QUICK:
        assert len([name for name in TESTS if own_driver(name) == driver]) > len(TESTS) / 8
