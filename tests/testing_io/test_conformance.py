"""The body of tests for anybody's driver and anybody's outbox, run by the drivers of this library and by others."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Callable
from contextlib import AsyncExitStack
from random import Random
from typing import Any, Final

import anyio
import pytest

import jsproto_io.asyncio
import jsproto_io.sync
import jsproto_io.trio
from jsproto import JetStream, StreamConfig
from jsproto.errors import TimeoutError
from jsproto.events import Event
from jsproto_io.testing import conformance
from tests.drivers.conftest import LOOPS
from tests.marks import promise
from tests.readmes import program_with
from tests.tools.stalls import Stalls

pytestmark = pytest.mark.anyio

NAMES: Final[dict[str, Any]] = {"__name__": "readme", "JetStream": JetStream, "StreamConfig": StreamConfig}
for _words in ("anyio.connect_tcp", "async def store(url)", "class AnyioAdapter"):
    exec(program_with("jsproto", _words), NAMES)
EMBEDDING: Final[dict[str, Any]] = {"__name__": "readme"}
exec(program_with("jsproto/EMBEDDING.md", "class NatsPyOutbox"), EMBEDDING)


class OfConnection:
    """A connection of this library, as the cases want it."""

    def __init__(self, connection: Any, close: Callable[[], Any]) -> None:
        self.outbox = connection._session
        self.call = connection._call
        self.wait = connection._wait
        self.close = close


class Blocking:
    """The driver for threads."""

    def __init__(self, **options: Any) -> None:
        self.connect_options = options

    def connect(self, servers: str, event_cb: Callable[[Event], object], **options: Any) -> OfConnection:
        connection = jsproto_io.sync.connect(servers, event_cb=event_cb, **self.connect_options, **options)
        return OfConnection(connection, connection.close)

    def cancel(self, client: OfConnection, ticket: Any) -> bool:
        return False


class Loop:
    """A driver for an event loop."""

    def __init__(self, connect: Any) -> None:
        self.opens = connect

    async def connect(self, servers: str, event_cb: Callable[[Event], object], **options: Any) -> OfConnection:
        stack = AsyncExitStack()
        connection = await stack.enter_async_context(self.opens(servers, event_cb=event_cb, **options))
        return OfConnection(connection, stack.aclose)

    async def cancel(self, client: OfConnection, ticket: Any) -> bool:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await client.wait(ticket, None)
        return True


@promise("It has a server in memory for each case, which it cuts off, stops and starts again.")
@promise("The drivers of this library pass it, and so does the one above.")
@pytest.mark.parametrize("case", conformance.DRIVER_CASES, ids=str)
@pytest.mark.parametrize("reader_thread", [True, False])
def test_the_driver_for_threads(case: conformance.Case, reader_thread: bool) -> None:
    conformance.run(case, Blocking(reader_thread=reader_thread))


@promise("A `subscribe` that is cancelled")
@promise("The drivers of this library pass it, and so does the one above.")
@pytest.mark.parametrize("case", conformance.DRIVER_CASES, ids=str)
@pytest.mark.parametrize(
    "anyio_backend",
    ["asyncio", *(pytest.param(("asyncio", {"loop_factory": new}), id=name) for name, new in LOOPS.items())],
)
async def test_the_driver_for_asyncio(case: conformance.Case, anyio_backend: Any) -> None:
    await conformance.run_async(case, Loop(jsproto_io.asyncio.connect))


@promise("A `subscribe` that is cancelled")
@promise("The drivers of this library pass it, and so does the one above.")
@pytest.mark.parametrize("case", conformance.DRIVER_CASES, ids=str)
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_the_driver_for_trio(case: conformance.Case, anyio_backend: str) -> None:
    await conformance.run_async(case, Loop(jsproto_io.trio.connect))


# -- drivers and outboxes of others ------------------------------------------------------------------------------------


@promise("It dials again, keeps time, writes and reads, and lets tasks wait for tickets.")
@promise("A link ends once. `receive_eof` after the end of the link changes nothing")
@promise("The drivers of this library pass it, and so does the one above.")
@pytest.mark.parametrize("case", conformance.DRIVER_CASES, ids=str)
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_the_transport_of_the_readme(case: conformance.Case, anyio_backend: str) -> None:
    await NAMES["test_my_driver"](case)


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_the_application_of_the_readme(anyio_backend: str, jetstream_server: Any) -> None:
    assert await NAMES["store"](jetstream_server.url) == 1


def test_the_transport_of_the_readme_is_short() -> None:
    assert len(program_with("jsproto", "anyio.connect_tcp").splitlines()) <= 105


class OfNatsPy:
    """A connection of nats-py, with the outbox of the README."""

    def __init__(self, outbox: Any) -> None:
        self.outbox = outbox
        self.close = outbox.nc.close

    def call(self, verb: Callable[[float], Any]) -> Any:
        return verb(self.outbox.now())

    async def wait(self, ticket: Any, timeout: float | None) -> Any:
        try:
            async with asyncio.timeout(timeout):
                return await EMBEDDING["wait"](ticket)
        except builtins.TimeoutError:
            raise TimeoutError("nothing came") from None


class NatsPy:
    """nats-py, as the cases want it."""

    async def connect(self, servers: str, event_cb: Callable[[Event], object], **options: Any) -> OfNatsPy:
        outbox = EMBEDDING["NatsPyOutbox"]()
        await outbox.connect(servers, reconnect_time_wait=0.05, max_reconnect_attempts=-1)
        return OfNatsPy(outbox)

    async def cancel(self, client: OfNatsPy, ticket: Any) -> bool:
        return False


@pytest.mark.parametrize("case", conformance.OUTBOX_CASES, ids=str)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_outbox_of_the_readme_on_nats_py(case: conformance.Case, anyio_backend: str) -> None:
    await conformance.run_async(case, NatsPy())


@pytest.mark.slow
@pytest.mark.parametrize("case", conformance.DRIVER_CASES, ids=str)
def test_a_long_pause_of_the_machine_changes_nothing(case: conformance.Case) -> None:
    with Stalls(Random(str(case)), part=0.3, free=0.1):
        conformance.run(case, Blocking())


# -- what it finds -----------------------------------------------------------------------------------------------------

A_DEFECT_SHOWS: Final = 1.0  # seconds. A driver without the defect needs less than a tenth of that for each case

REFUSED: Final = "an_address_that_refuses_is_reported"
DEFECTS: Final = [
    ("self.call(self.session.handle_timeout)", "pass", "deadlines_are_kept"),
    ("self.call(self.session.handle_timeout)", "pass", "a_timer_fires_in_silence"),
    ("self.call(partial(self.session.abandon, ticket))", "pass", "a_cancelled_verb_leaves_nothing"),
    ("ticket.wake()", "pass", "a_request_is_answered"),
    ("await stream.receive()", '(await stream.receive()).replace(b"PING", b"+OK")', "pings_are_answered"),
    ("self.session.wants_send(anyio.current_time())  # asked", "pass  # asked", "acknowledgements_leave_by_themselves"),
    ("partial(self.session.receive_eof, reason", "partial(dict, reason", "a_lost_link_is_restored"),
    ('self.call(partial(session.connection_failed, str(error) or "timed out"))', "await anyio.sleep(0.01)", REFUSED),
    (
        'await stream.send(b"".join(session.data_to_send()))\n        except',
        "pass\n        except",
        "a_close_ends_waits",
    ),
]


@promise("It dials again, keeps time, writes and reads, and lets tasks wait for tickets.")
@promise("It has a server in memory for each case, which it cuts off, stops and starts again.")
@pytest.mark.slow
@pytest.mark.parametrize(("good", "bad", "name"), DEFECTS, ids=[f"{name}-{bad[:9]}" for _, bad, name in DEFECTS])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_defect_is_found(good: str, bad: str, name: str, anyio_backend: str) -> None:
    """The transport of the README, with a line that is wrong."""
    program = program_with("jsproto", "anyio.connect_tcp")
    assert good in program
    spoilt: dict[str, Any] = {"__name__": "readme", "print": lambda *_: None}
    exec(program.replace(good, bad), spoilt)
    exec(program_with("jsproto", "class AnyioAdapter"), spoilt)
    (case,) = [case for case in conformance.DRIVER_CASES if str(case) == name]
    passed = False
    with anyio.move_on_after(A_DEFECT_SHOWS):
        try:
            await spoilt["test_my_driver"](case)
            passed = True
        except Exception:
            pass
    assert not passed


def test_each_case_says_what_it_tests() -> None:
    assert len({str(case) for case in conformance.DRIVER_CASES}) == len(conformance.DRIVER_CASES)
    assert conformance.DRIVER_CASES[: len(conformance.OUTBOX_CASES)] == conformance.OUTBOX_CASES
    assert all(case.about.endswith(".") for case in conformance.DRIVER_CASES)


async def test_a_blocking_runner_refuses_awaitables() -> None:
    with pytest.raises(AssertionError, match="run_async"):
        conformance.run(conformance.OUTBOX_CASES[0], Loop(jsproto_io.asyncio.connect))
