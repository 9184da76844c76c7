"""The fixtures for pytest, which find it by its entry point: ``jetstream_server``, ``nats_server``, ``jetstream``, and
``simulation``.

Rules
 * A fixture is one server with its ``url``, fresh for each test. ``simulation`` is a function.
 * A test that needs the real server is skipped, with the reason, where that is missing.
 * Each run of pytest in this environment loads this module. The library is imported when a fixture is first used. So
   coverage of an application, or of the library, is measured from its first import.

Not here: the servers (``threads``, ``jsproto_io.nats_server``), the simulation (``simulation``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

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


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--simulation-seeds A:B``: the seeds for all simulations, in place of those in the tests."""
    parser.addoption("--simulation-seeds", metavar="A:B", help="seeds for the fixture simulation, such as 0:10000")


@pytest.fixture
def simulation(request: pytest.FixtureRequest) -> Callable[..., None]:
    """``simulation(main, seeds=range(100), check=check)`` simulates a program with each of these seeds.

    The first seed that fails, fails the test. Its error says with which faults, shrunk. The other options are those of
    ``jsproto_io.testing.simulation.simulate``.
    """

    def simulate(main: Callable[[], Any], *, seeds: Iterable[int] = range(100), **options: Any) -> None:
        __tracebackhide__ = True
        from jsproto_io.testing.simulate import seeds_of
        from jsproto_io.testing.simulation.search import search

        asked = request.config.getoption("--simulation-seeds")
        search(main, seeds=seeds if asked is None else seeds_of(asked), **options)

    return simulate
