"""Tests of the clients' drivers that were written for a real nats-server, against the server in memory.

Each test function of these modules that takes the fixture ``server`` alone is run again with the one of ``conftest``.

The fixture is a server on sockets, and then one without.

Not here: tests that stop a server, limit its permissions, or read its log.
"""

from __future__ import annotations

import inspect

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
