"""What all tests share: real servers, and what a run of everything must reach."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import connect
from tests import servers
from tests.effort import EFFORT, examples, own_driver
from tests.scheduling import COMPUTING, ROOMS, Scheduling, computes, rank

# No test depends on how fast the machine is. CI tries the same examples every time: new ones are tried elsewhere.
settings.register_profile(
    "default",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    derandomize=os.environ.get("CI") == "true",
    max_examples=examples(100),
)
settings.load_profile("default")

gc.disable()  # until all are collected: a third of that would be looking through what stays

SERVERS = frozenset({"cluster", "nats_server", "own_server", "server", "server_for"})
"""Fixtures that start one."""
MEMORY = "tests/testing_io/"
"""Where the fixture ``server`` is one in memory."""
REAL = (
    "tests/bench/test_",
    "tests/cli/test_end_to_end.py",
    "tests/integration/",
    "tests/spark/",
    "tests/test_nats_server.py",
    "tests/testing_io/test_plugin.py",
)
"""Where each test runs one."""
CORE = (
    *ROOMS,
    *(f"tests/test_{module}.py" for module in ("backoff", "errors", "names", "outbox", "ticket", "timers")),
)
"""Where the core is tested, room by room. What runs there without a server covers it."""
WITHOUT_A_SERVER = ("not server", "core and not server")
"""Selections by marks that wait for no server."""
_start = NatsServer.start
SELECTIONS = ("keyword", "deselect", "ignore", "ignore_glob", "lf", "stepwise", "collectonly")


def places(config: pytest.Config) -> set[Path]:
    return {(config.invocation_params.dir / arg).resolve() for arg in config.args}


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """For whole folders three on each core, as most of them wait most of the time. For single files none.

    Each has a nats-server of its own. Where no server is waited for, one more than there are cores is quickest: each
    worker has to collect all tests.
    """
    if not all(place.is_dir() for place in places(config)):
        return 0
    cores = os.cpu_count() or 1
    if config.option.markexpr in WITHOUT_A_SERVER:
        return cores + 1
    return max(cores, min(3 * cores, 6))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what runs a real server, by its fixtures or by its place, and what tests the core.

    Leave out what is slow, unless it is asked for.
    """
    for item in items:
        place = item.nodeid.partition("::")[0]
        starting = SERVERS - {"server"} if place.startswith(MEMORY) else SERVERS
        if starting.intersection(getattr(item, "fixturenames", ())) or place.startswith(REAL):
            item.add_marker("server")
        if place.startswith(CORE):
            item.add_marker("core")
    if EFFORT < 1 and not config.getoption("keyword") and all(place.is_dir() for place in places(config)):
        slow_too = "slow" in config.getoption("markexpr")
        left_out = {item: None for item in items if is_left_out(item, slow_too=slow_too)}
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=list(left_out))
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: rank(item.nodeid))


def is_left_out(item: pytest.Item, *, slow_too: bool) -> bool:
    """Whether a run leaves a test out where nobody names a file or a keyword: it is slow, or another driver has it."""
    if not slow_too and item.get_closest_marker("slow"):
        return True
    marker = item.get_closest_marker("one_driver")
    return marker is not None and item.callspec.params["driver"] != own_driver(item.originalname)  # type: ignore[attr-defined]


def pytest_collection_finish() -> None:
    """Thousands of tests stay for the whole run: no garbage collection looks through them, now or later."""
    gc.freeze()
    gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Without the mark no server is started."""
    NatsServer.start = _start if item.get_closest_marker("server") else _refuse  # type: ignore[assignment,method-assign]


def _refuse(server: NatsServer) -> None:
    """Start no server."""
    raise AssertionError("this test runs a real server: mark it with pytest.mark.server")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    return Scheduling(config, log)


def is_everything(config: pytest.Config) -> bool:
    """Whether a run leaves no place out, and selects no test by a name."""
    everywhere = places(config) <= {config.rootpath, config.rootpath / "tests"}
    return everywhere and not any(config.getoption(name, None) for name in SELECTIONS)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not collect folders whose tests the marks of this run leave out.

    In a run of everything most processes leave what computes to the others.
    """
    place = f"{collection_path.relative_to(config.rootpath).as_posix()}/"
    marks = config.option.markexpr
    if marks in WITHOUT_A_SERVER and place in REAL:
        return True
    if marks == "core and not server" and collection_path.parent.name == "tests" and collection_path.is_dir():
        return None if place in CORE else True
    worker = getattr(config, "workerinput", None)
    if worker is None or computes(worker["workerid"], worker["workercount"]):
        return None
    shared = is_everything(config) and marks in ("", "not server")
    return True if place in COMPUTING and shared else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Each worker compiles a share of the tests first, and reads what the others have compiled of the rest."""
    worker = getattr(session.config, "workerinput", None)
    if worker is None or not all(place.is_dir() for place in places(session.config)):
        return
    files = sorted(path for place in places(session.config) for path in place.rglob("test_*.py"))
    for path in files[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
        with suppress(Exception, pytest.skip.Exception):  # which is told when it is collected
            importlib.import_module(".".join(path.relative_to(session.config.rootpath).with_suffix("").parts))


def share_bytecode(config: pytest.Config) -> None:
    """Where Python is told to leave no bytecode, keep it in pytest's cache: processes and later runs share it there."""
    if sys.dont_write_bytecode and not hasattr(config, "workerinput") and hasattr(config, "cache"):
        os.environ["PYTHONPYCACHEPREFIX"] = str(config.cache.mkdir("bytecode"))
        del os.environ["PYTHONDONTWRITEBYTECODE"]


def pytest_configure(config: pytest.Config) -> None:
    """A run of some tests only measures no coverage: the gate is for all that test the core without a server.

    With ``STALLS`` it is a run on a busy machine (``tests/tools/stalls.py``).
    """
    share_bytecode(config)
    if os.environ.get("STALLS", "0") not in ("", "0"):
        config.pluginmanager.register(importlib.import_module("tests.tools.stalls"))
    if is_everything(config) and config.option.markexpr in ("", *WITHOUT_A_SERVER):
        return
    coverage = config.pluginmanager.get_plugin("_cov")
    if coverage is not None:
        coverage.options.cov_fail_under = None
        if coverage.options.cov_report == ["term"]:  # nobody asked for a report
            coverage.options.cov_report = {}


@pytest.fixture(scope="session")
def server() -> Iterator[NatsServer]:
    """One nats-server with JetStream for all tests of this process: name streams uniquely, do not stop it.

    It keeps a stream. With the last one a server deletes the folder of all streams, and a stream that is created at
    that moment fails: "error creating store for stream" (seen once in 11,000 streams on 2.15.1).
    """
    with NatsServer(config=servers.config()) as running:
        with connect(running.url, connect_timeout=60.0, timeout=60.0) as nc:
            nc.jetstream().create_stream("STAYS", subjects=["stays"])
        yield running


@pytest.fixture
def server_for() -> Iterator[Callable[..., NatsServer]]:
    """``server_for(version, **options)`` starts a server of that release for this test, with NatsServer's options.

    A release that cannot be had fails the test in CI (environment CI=true) and skips it elsewhere.
    """
    with ExitStack() as stack:

        def start(version: str = servers.NEWEST, **options: Any) -> NatsServer:
            try:
                program = servers.binary(version)
            except servers.NoSuchServerError as error:
                if os.environ.get("CI") == "true":
                    pytest.fail(str(error))
                pytest.skip(str(error))
            return stack.enter_context(NatsServer(program, **{"config": servers.config(version), **options}))

        yield start
