"""Tests of the clients' drivers that were written for a real nats-server, against the server in memory.

Each test function of these modules that takes the fixture ``server`` alone is run again with the one of ``conftest``.

The fixture is a server on sockets, and then one without. A quick run has one driver for each test, without sockets. A
slow run has another one besides, on sockets. Both are chosen by the name of the test. EFFORT=1 has all pairs. That
all drivers do the same is shown against a real server.

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
from tests.drivers.conftest import DRIVERS
from tests.effort import EFFORT, QUICK_DRIVERS, own_driver

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


@pytest.fixture
def driver(request: pytest.FixtureRequest) -> str:
    """The driver under test."""
    name: str = request.param
    return name


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test is parametrized with all drivers and both servers, of which most runs take two pairs."""
    if "driver" in metafunc.fixturenames:
        test = metafunc.definition.originalname
        quick, slow = (own_driver(test), "pipes"), (list(DRIVERS)[crc32(test.encode()) % len(DRIVERS)], "sockets")
        pairs = [(each, server) for each in DRIVERS for server in ("sockets", "pipes")]
        metafunc.parametrize(
            ("driver", "server"),
            [
                pytest.param(*pair, marks=() if pair == quick else pytest.mark.slow)
                for pair in pairs
                if EFFORT >= 1 or pair in (quick, slow)
            ],
            indirect=True,
        )


def test_a_quick_run_has_each_driver() -> None:
    assert len(TESTS) > 100
    for driver in QUICK_DRIVERS:
        assert len([name for name in TESTS if own_driver(name) == driver]) > len(TESTS) / 8
