"""A real server beside the role, for the tests that ask both."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import connect
from tests.server.sides import OnARealServer


@pytest.fixture(scope="module")
def real() -> Iterator[OnARealServer]:
    with NatsServer() as running, connect(running.url) as nc:
        yield OnARealServer(nc)
