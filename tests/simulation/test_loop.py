"""The simulated event loop: time passes at once, what has no simulation is refused, and what hangs is an error."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from jsproto.errors import LocalProtocolError
from jsproto.testing import Fault, NetworkConditions, StuckError
from jsproto_io.asyncio import connect
from jsproto_io.testing.simulation import NotSimulatedError, Report, current, simulate
from jsproto_io.testing.simulation.engine import TURN
from jsproto_io.testing.simulation.sandbox import COLLECT_EVERY
from tests.marks import promise
from tests.simulation.both import check_that_it_knows_nothing, check_that_it_sees_breaks, report_of

URL = "nats://somewhere"
HERE = NetworkConditions()


def calm(main: Callable[[], Awaitable[Any]], **options: Any) -> Any:
    """The result of a simulation without faults."""
    quiet: dict[str, Any] = {"faults": (), "conditions": HERE}
    report = report_of(main, **(quiet | options))
    if report.error is not None:
        raise report.error
    return report.result


def failed(main: Callable[[], Awaitable[Any]], **options: Any) -> BaseException:
    """The error of a simulation without faults."""
    quiet: dict[str, Any] = {"faults": (), "conditions": HERE}
    report = report_of(main, **(quiet | options))
    assert report.error is not None
    return report.error


@promise("`random`, `os.urandom`, `uuid`, `secrets` and the clocks of `time` are simulated.")
def test_time_passes_at_once_and_is_the_same_everywhere() -> None:
    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(86_400)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await asyncio.Event().wait()
        return [loop.time(), time.monotonic(), time.perf_counter(), time.monotonic_ns() / 1e9]

    began = time.monotonic()
    seen = calm(main, until=100_000.0)
    assert seen == [seen[0]] * 3 + [pytest.approx(seen[0])]
    assert 86_410 <= seen[0] < 86_411
    assert time.monotonic() - began < 10


def test_a_client_that_knows_nothing_of_it() -> None:
    report = check_that_it_knows_nothing(simulate, connect)
    assert report.server.sessions == []


def test_plain_streams_reach_the_server() -> None:
    async def main() -> tuple[bytes, Any]:
        reader, writer = await asyncio.open_connection("127.0.0.1", 4222)
        info = await reader.readline()
        writer.writelines([b"CONNECT {}\r\n", b"PING\r\n"])
        await writer.drain()
        assert await reader.readline() == b"+OK\r\n"
        assert await reader.readline() == b"PONG\r\n"
        peer = writer.get_extra_info("peername")
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        return info[:5], peer

    assert calm(main) == (b"INFO ", ("127.0.0.1", 4222))


def test_a_reader_that_is_slow_is_given_nothing_meanwhile() -> None:
    async def main() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", 4222, limit=100)
        await asyncio.sleep(1)  # INFO is longer than the limit: the transport is paused
        writer.write(b"PING\r\n" * 100)
        await asyncio.sleep(1)
        transport: Any = writer.transport
        assert not transport.is_reading()
        data = await reader.readexactly(1000)
        writer.transport.abort()
        return len(data)

    assert calm(main) == 1000


def test_links_that_break_and_servers_that_are_down() -> None:
    check_that_it_sees_breaks(simulate, connect, asyncio.sleep)


@promise("are refused with `NotSimulatedError`")
@pytest.mark.parametrize(
    "wrong",
    [
        lambda: asyncio.to_thread(print), lambda: asyncio.start_server(lambda reader, writer: None, "::1", 0),
        lambda: asyncio.create_subprocess_exec("true"), lambda: asyncio.open_connection("::1", 1, ssl=True),
        lambda: asyncio.get_running_loop().getaddrinfo("localhost", 1),
        lambda: asyncio.get_running_loop().sock_recv(None, 1),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_what_has_no_simulation_is_refused(wrong: Callable[[], Awaitable[Any]]) -> None:
    async def main() -> None:
        await wrong()

    assert isinstance(failed(main), NotSimulatedError)


@promise("are refused with `NotSimulatedError`")
@pytest.mark.parametrize(
    "wrong",
    [
        lambda: threading.Thread(target=print).start(), lambda: socket.create_connection(("127.0.0.1", 9)),
        lambda: socket.getaddrinfo("localhost", 1), lambda: subprocess.run(["true"]), lambda: os.system("true"),
        lambda: time.sleep(1), lambda: asyncio.get_running_loop().add_signal_handler(signal.SIGINT, print),
        lambda: asyncio.get_running_loop().add_reader(0, print),
    ],
)  # fmt: skip
def test_what_is_below_the_loop_is_refused_too(wrong: Callable[[], object]) -> None:
    async def main() -> None:
        wrong()

    assert isinstance(failed(main), NotSimulatedError)


def test_another_thread_may_not_call_the_loop() -> None:
    barrier = threading.Barrier(2)
    loops: list[asyncio.AbstractEventLoop] = []
    errors: list[Exception] = []

    def outside() -> None:
        barrier.wait()
        try:
            loops[0].call_soon_threadsafe(print)
        except NotSimulatedError as error:
            errors.append(error)
        time.sleep(0.001)  # other threads sleep as ever
        barrier.wait()

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        loops[0].call_soon_threadsafe(int)
        barrier.wait()
        barrier.wait()

    thread = threading.Thread(target=outside)
    thread.start()
    calm(main)
    thread.join()
    assert len(errors) == 1


def test_a_buffered_protocol_is_refused() -> None:
    class Buffered(asyncio.BufferedProtocol):
        pass

    async def main() -> None:
        await asyncio.get_running_loop().create_connection(Buffered, "somewhere", 1)

    assert "BufferedProtocol" in str(failed(main))


@promise("A program that nothing can wake up any more ends with `StuckError`")
def test_a_hang_is_an_error() -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    assert str(failed(forever)).startswith("nothing will ever happen again")
    assert isinstance(failed(forever), StuckError)


@promise("A program that nothing can wake up any more ends with `StuckError`")
def test_a_connected_client_that_waits_for_ever_is_bounded_by_time() -> None:
    async def main() -> None:
        async with connect(URL):
            await asyncio.Event().wait()

    assert str(failed(main, until=1000.0)) == "no end within 1000 s"


@promise("A program that nothing can wake up any more ends with `StuckError`")
def test_a_task_that_polls_sees_time_pass_and_is_bounded_by_turns() -> None:
    async def main() -> None:
        while asyncio.get_running_loop().time() < 100 * TURN:
            await asyncio.sleep(0)

    async def endless() -> None:
        while True:
            await asyncio.sleep(0)

    calm(main)
    assert "no end after 500 turns" in str(failed(endless, most_turns=500))


def test_what_refuses_to_end_is_closed() -> None:
    async def stubborn() -> None:
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)

    async def main() -> bool:
        task = asyncio.create_task(stubborn())
        await asyncio.sleep(0)
        return task.done()

    assert calm(main) is False


@promise("`random`, `os.urandom`, `uuid`, `secrets` and the clocks of `time` are simulated.")
def test_entropy_comes_from_the_seed_and_is_the_systems_again_afterwards() -> None:
    async def main() -> list[object]:
        return [os.urandom(8), random.random(), secrets.token_hex(4), random.SystemRandom().random()]

    state, urandom = random.getstate(), os.urandom
    assert calm(main, seed=1) == calm(main, seed=1) != calm(main, seed=2)
    assert random.getstate() == state
    assert os.urandom is urandom


def test_the_time_of_day_is_the_servers() -> None:
    async def main() -> tuple[float, float]:
        async with connect(URL) as nc:
            js = nc.jetstream()
            await js.create_stream("S", subjects=["s"])
            await asyncio.sleep(100)
            await js.publish("s", b"")
            return time.time(), time.time_ns() / 1e9

    report = report_of(main, faults=(), conditions=HERE)
    stored = report.server.stream("S").get(1)
    assert stored is not None
    assert report.result == (pytest.approx(stored.timestamp / 1e9, abs=0.01),) * 2


def test_an_error_of_the_program_is_the_reports() -> None:
    async def main() -> None:
        raise LookupError("here")

    report = report_of(main, faults=())
    assert repr(report.error) == "LookupError('here')"
    assert "fails: LookupError: here" in str(report)
    assert "without any fault" in str(report)


def test_what_is_worse_than_an_error_ends_the_simulation() -> None:
    async def main() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate(main, faults=())
    assert time.sleep.__module__ == "time"


def test_only_a_simulation_is_current() -> None:
    async def main() -> tuple[float, int, int]:
        here = current()
        return here.world.now, here.seed, len(here.server.sessions)

    assert calm(main, seed=3)[1:] == (3, 0)
    with pytest.raises(RuntimeError):
        current()


# -- hosts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [0.02, 0.5])  # while it connects, and while it works
@pytest.mark.parametrize("turns", [0, COLLECT_EVERY])
def test_a_host_that_is_killed_warns_of_nothing(at: float, turns: int, recwarn: pytest.WarningsRecorder) -> None:
    class Service:
        async def run(self) -> None:
            self.this = self
            async with connect("nats://localhost") as self.nc:
                self.subscription = await self.nc.subscribe("news")
                self.pings = asyncio.create_task(self.ping())
                await self.subscription.next_msg()

        async def ping(self) -> None:
            while True:
                await self.nc.flush()
                await asyncio.sleep(0.1)

    async def main() -> None:
        await asyncio.sleep(2)
        for _ in range(turns):
            await asyncio.sleep(0)

    async def service() -> None:
        await Service().run()

    warnings.simplefilter("always")
    report = report_of(main, faults=[Fault("kill", at, 1.0, host="one")], hosts={"one": service})
    assert report.error is None
    del report
    gc.collect()
    assert recwarn.list == []


def test_a_host_that_is_started_again_leaves_its_links() -> None:
    async def worker() -> None:
        async with connect(URL) as nc:
            await (await nc.subscribe("news")).next_msg()

    async def main() -> int:
        current().start("worker", worker)
        await asyncio.sleep(1)
        current().start("worker", worker)
        await asyncio.sleep(1)
        return len(current().server.sessions)

    assert simulate(main, faults=[], conditions=HERE).result == 1


@promise("A killed one stops at once: no `finally` of it runs.")
@promise("It is started again, and so is one that fails.")
def test_a_host_that_is_killed_does_nothing_more() -> None:
    seen: list[object] = []

    async def worker() -> None:
        try:
            async with connect(URL) as nc:
                for number in range(100):
                    seen.append(number)
                    await nc.publish("n", b"%d" % number)
                    await asyncio.sleep(1)
        finally:
            seen.append("finally")
            await asyncio.sleep(0)

    async def main() -> list[object]:
        await asyncio.sleep(10)
        return list(seen)

    report = report_of(main, faults=[Fault("kill", 2.5, 3.0, host="worker")], hosts={"worker": worker}, conditions=HERE)
    assert report.result == [0, 1, 2, 0, 1, 2, 3, 4]
    assert report.error is None
    dialed = [str(entry) for entry in report.log if "is dialed by worker" in entry.what]
    assert len(dialed) == 2
    assert seen.count("finally") == 2  # closed after the end


@promise("It is started again, and so is one that fails.")
def test_a_host_that_fails_is_started_again_and_one_that_returns_is_not() -> None:
    starts: list[float] = []

    async def worker() -> None:
        starts.append(asyncio.get_running_loop().time())
        if len(starts) < 3:
            raise LookupError

    async def main() -> None:
        await asyncio.sleep(10)

    report = report_of(main, faults=[Fault("kill", 1.0, host="nobody")], hosts={"worker": worker}, conditions=HERE)
    assert [round(start) for start in starts] == [0, 1, 2]
    assert [(name, type(error)) for name, error in report.failures] == [("worker", LookupError)] * 2


def test_a_program_starts_a_host_itself() -> None:
    async def worker() -> None:
        await asyncio.sleep(1)

    async def main() -> int:
        current().start("worker", worker)
        await asyncio.sleep(5)
        current().start("worker", worker)  # in its place
        return len(asyncio.all_tasks())

    assert calm(main) == 2


@promise("then nothing goes wrong any more, and the rest has to make progress")
def test_after_healing_everything_succeeds() -> None:
    async def main() -> float:
        await current().healed()
        async with connect(URL) as nc:
            await nc.flush()
        return current().world.now

    faults = [Fault("pause", 0.0, 50.0), Fault("cut_after", byte=10, direction="up")]
    report = report_of(main, faults=faults, conditions=HERE)
    assert report.error is None
    assert report.result == pytest.approx(50, abs=1)


# -- what a report says ------------------------------------------------------------------------------------------------


def test_a_check_sees_the_server_after_the_end() -> None:
    async def main() -> None:
        async with connect(URL) as nc:
            await nc.jetstream().create_stream("S", subjects=["s"])

    def check(report: Report) -> None:
        assert list(report.server.api.streams) == ["S"], "no stream"
        raise AssertionError("and the check can fail")

    report = report_of(main, faults=(), check=check)
    assert str(report.error) == "and the check can fail"
    assert report.replay in str(report)


def test_the_options_of_the_server() -> None:
    async def main() -> str | None:
        async with connect(URL) as nc:
            info = nc.server_info
            return None if info is None else info.domain

    assert calm(main, domain="hub") == "hub"


def test_losses_inside_the_cluster() -> None:
    async def main() -> int:
        async with connect(URL) as nc:
            await nc.jetstream().create_stream("S", subjects=["s"])
            for _ in range(100):
                await nc.publish("s", b"")
            await nc.flush()
            await asyncio.sleep(1)
        return current().server.stream("S").last_seq

    assert calm(main, conditions=NetworkConditions(loss=0.3)) < 100
    assert calm(main, faults=lambda seed: [Fault("duplication", 0.0, 9.0, amount=1.0)]) == 200


def test_a_refusal_that_the_program_catches_is_the_error_all_the_same() -> None:
    async def main() -> str:
        with suppress(Exception):
            time.sleep(1)
        return "went on"

    assert isinstance(failed(main), NotSimulatedError)


def test_the_end_of_the_process_is_an_error() -> None:
    async def main() -> None:
        sys.exit(3)

    async def fine() -> None:
        pass

    assert str(failed(main)) == "sys.exit(3) was called"
    assert str(failed(fine, check=lambda report: sys.exit())) == "sys.exit(None) was called"


def test_what_cannot_be_run_is_refused() -> None:
    async def main() -> None:
        pass

    async def check(report: Report) -> None:
        pass

    wrong: Any = 5
    with pytest.raises(LocalProtocolError, match="main is a function without arguments, not 5"):
        simulate(wrong)
    with pytest.raises(LocalProtocolError, match="cannot be asynchronous"):
        simulate(main, check=check)
