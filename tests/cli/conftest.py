"""Servers for the tests of commands: a real one, and one in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jsproto_io.sync import JetStream, connect
from jsproto_io.testing import serve
from tests.cli.calling import Place

REAL = pytest.param("nats-server", marks=pytest.mark.server)


@pytest.fixture(scope="session")
def memory_url() -> Iterator[str]:
    with serve(port=0) as server:
        yield server.url


@pytest.fixture(params=[REAL, "memory"])
def place(request: pytest.FixtureRequest) -> Place:
    """Each test runs on both. Name streams uniquely."""
    if request.param == "memory":
        return Place(request.getfixturevalue("memory_url"))
    return Place(request.getfixturevalue("server").url)


@pytest.fixture
def memory(memory_url: str) -> Place:
    """For what is decided before a server has a say."""
    return Place(memory_url)


@pytest.fixture
def js(place: Place) -> Iterator[JetStream]:
    with connect(place.url) as nc:
        yield nc.jetstream()
