"""The fixtures for pytest, which find it by its entry point: ``jetstream_server``, ``nats_server`` and ``jetstream``.

Rules
 * A fixture is one server with its ``url``, fresh for each test.
 * What is not there is skipped with its reason, and fails nothing: the real server may not be installed.
 * Each run of pytest in this environment loads this module. So nothing of the library is imported before a fixture is
   used, and coverage of an application, or of the library, is measured from its first import.

Not here: the servers (``threads``, ``jsproto_io.nats_server``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from jsproto_io.nats_server import NatsServer
    from jsproto_io.testing.threads import MemoryServer


@pytest.fixture
def jetstream_server() -> Iterator[MemoryServer]:
    """A JetStream server in memory, in a thread of its own. Connect to its ``url``."""
    from jsproto_io.testing.threads import serve

    with serve() as server:
        yield server


@pytest.fixture
def nats_server() -> Iterator[NatsServer]:
    """A real nats-server with an empty store. Connect to its ``url``. The test is skipped where there is none."""
    from jsproto_io.nats_server import NatsServer, NatsServerNotFoundError

    try:
        server = NatsServer()
    except NatsServerNotFoundError as error:
        pytest.skip(str(error))
    with server:
        yield server


@pytest.fixture(params=["memory", "nats-server"])
def jetstream(request: pytest.FixtureRequest) -> MemoryServer | NatsServer:
    """The server in memory, then a real one: a test that uses it runs twice, and proves that both do the same."""
    server: MemoryServer | NatsServer = request.getfixturevalue(
        "jetstream_server" if request.param == "memory" else "nats_server"
    )
    return server
