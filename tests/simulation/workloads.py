"""Programs on asyncio with checks that hold whatever goes wrong: what the planted bugs of ``mutations`` are found with.

Each workload is a ``main``, perhaps ``hosts`` beside it, and a ``check``. Errors of the connection are no failure: a
check says what must hold all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from jsproto.errors import (
    BatchStalledError,
    BatchTruncatedError,
    ConnectionLostError,
    Error,
    MessageNotFoundError,
    NoServersError,
    TimeoutError,
)
from jsproto.events import Disconnected, GapReported, MessageRefused
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.testing import Fault, NetworkConditions, random_faults
from jsproto.testing.faults import Direction
from jsproto.testing.invariants import (
    check_acknowledged,
    check_batches,
    check_copied_once,
    check_monotone,
)
from jsproto_io.asyncio import Connection, connect
from jsproto_io.testing.simulation import Report, current
from tests.simulation import scenes

URL: Final = "nats://localhost:4222"
LOSSY: Final = NetworkConditions(latency=0.003, jitter=0.004, loss=0.02, duplication=0.02, reordering=0.03)
REORDERING: Final = NetworkConditions(latency=0.003, jitter=0.004, reordering=0.05)
NEARBY: Final = NetworkConditions(latency=0.003, jitter=0.004)


@dataclass(frozen=True, slots=True)
class Workload:
    """A program and what must hold of it. ``options``: of ``search``."""

    main: Callable[[], Awaitable[Any]]
    check: Callable[[Report], object]
    options: dict[str, Any] = field(default_factory=dict)


# -- publishing --------------------------------------------------------------------------------------------------------

FAST: Final = 60


async def fast_main() -> dict[str, Any]:
    """Fast ingest that tolerates gaps. Returns what the application was told."""
    told: dict[str, Any] = {"missing": set(), "acked": [], "count": None, "error": None}

    def listen(event: object) -> None:
        if isinstance(event, GapReported):
            told["missing"].update(range(event.first_missing, event.last_missing + 1))
        elif isinstance(event, MessageRefused):
            told["missing"].add(event.sequence)

    try:
        async with connect(URL, event_cb=listen, timeout=5) as nc:
            js = nc.jetstream()
            await js.create_stream("S", subjects=["s"], storage="file", allow_batched=True)
            async with js.fast_publisher(gap="ok", flow=5) as batch:
                for number in range(1, FAST + 1):
                    await batch.publish("s", b"%d" % number)
                    told["acked"].append(batch.acked)
                    if number % 20 == 0:
                        await asyncio.sleep(12)  # so that it pings
                        told["acked"].append(batch.acked)
                told["count"] = (await batch.commit()).count
    except (Error, OSError) as error:
        told["error"] = error
    return told


def fast_check(report: Report) -> None:
    """What is acknowledged and not reported as missing is stored, once, in order. ``acked`` goes up only."""
    told = report.result
    if "S" not in report.server.api.streams:
        return
    stored = [int(message.payload) for message in report.server.stream("S")]
    check_monotone(told["acked"])
    assert stored == sorted(set(stored)), f"out of order, or twice: {stored}"
    if told["count"] is not None:
        lost = set(range(1, told["count"] + 1)) - told["missing"] - set(stored)
        assert not lost, f"{sorted(lost)} are neither stored nor reported as missing"
        assert told["count"] == FAST, f"{told['count']} messages of {FAST} were counted"


def gaps_check(report: Report) -> None:
    """Where messages keep their order, the server goes on with a batch that tolerates gaps."""
    fast_check(report)
    assert not isinstance(report.result["error"], BatchStalledError | BatchTruncatedError), report.result["error"]


async def publish_main() -> list[tuple[int, bytes]]:
    """Publish each message until it is acknowledged, with an id. Returns the sequences and payloads of that."""
    acknowledged: list[tuple[int, bytes]] = []
    todo = [b"%d" % number for number in range(15)]
    while todo:
        with suppress(Error, OSError):
            async with connect(URL, timeout=1, reconnect_time_wait=0.1) as nc:
                js = nc.jetstream()
                await js.create_stream("S", subjects=["s"], storage="file")
                while todo:
                    ack = await js.publish("s", todo[0], msg_id=todo[0].decode())
                    acknowledged.append((ack.seq, todo.pop(0)))
        await asyncio.sleep(0.1)
    return acknowledged


def publish_check(report: Report) -> None:
    """Everything acknowledged is there, each message once, although each was tried until it was acknowledged."""
    stream = report.server.stream("S")
    check_acknowledged(stream, dict(report.result))
    payloads = [message.payload for message in stream]
    assert len(payloads) == len(set(payloads)) == 15, f"{payloads} are stored"


async def atomic_main() -> int:
    """Atomic batches of five, one after the other. Returns how many were acknowledged."""
    done = 0
    with suppress(Error, OSError):
        async with connect(URL, timeout=1) as nc:
            js = nc.jetstream()
            await js.create_stream("S", subjects=["s"], storage="file", allow_atomic=True)
            for _ in range(8):
                with suppress(Error):
                    async with js.atomic_batch() as batch:
                        for number in range(4):
                            await batch.add("s", b"%d" % number)
                        await batch.commit("s", b"4")
                    done += 1
    return done


def atomic_check(report: Report) -> None:
    """A batch is stored as a whole, and at least those that were acknowledged are."""
    if "S" in report.server.api.streams:
        check_batches(report.server.stream("S"))
        assert len(report.server.stream("S")) >= 5 * report.result, "an acknowledged batch is missing"


# -- consuming ---------------------------------------------------------------------------------------------------------

PUSHED: Final = 40


async def ordered_main() -> list[int]:
    """Read a stream with an ordered consumer. Returns the sequences in the order in which they came."""
    seen: list[int] = []
    while not seen:
        with suppress(ConnectionLostError, NoServersError):  # of the first handshake
            async with connect(URL, timeout=20, max_reconnect_attempts=-1, reconnect_time_wait=0.1) as nc:
                await follow(nc, seen)
    return seen


async def follow(nc: Connection, seen: list[int]) -> None:
    """Store messages, and read them meanwhile."""
    js = nc.jetstream()
    await until_done(lambda: js.create_stream("S", subjects=["s"], storage="file"))
    subscription = await until_done(lambda: js.subscribe("s", ordered=True, idle_heartbeat=1.0))

    async def publish() -> None:
        for number in range(PUSHED):
            await until_done(partial(js.publish, "s", b"%d" % number, msg_id=str(number), timeout=1))

    async with subscription, asyncio.TaskGroup() as group:
        group.create_task(publish())
        with suppress(TimeoutError):
            while len(seen) < PUSHED:
                message = await subscription.next_msg(timeout=60)
                seen.append(message.metadata.sequence.stream)


def ordered_check(report: Report) -> None:
    """Each message once, and in order."""
    assert report.result == list(range(1, PUSHED + 1)), f"{report.result} were delivered"


async def until_done(verb: Callable[[], Awaitable[Any]]) -> Any:
    """Try ``verb`` until it succeeds."""
    while True:
        try:
            return await verb()
        except (Error, OSError):
            await asyncio.sleep(0.2)


async def reset_main() -> tuple[list[int], list[int]]:
    """A push consumer whose messages are not acknowledged is set back. Returns what came before, and afterwards."""
    async with connect(URL, timeout=20) as nc:
        js = nc.jetstream()
        await js.create_stream("S", subjects=["s"], storage="file")
        for number in range(10):
            await js.publish("s", b"%d" % number)
        async with await js.pull_subscribe("s", durable="d", ack_wait=5) as subscription:
            before = [message.metadata.sequence.stream for message in await subscription.fetch(10, timeout=3)]
            await js.reset_consumer("S", "d", seq=4)
            after: list[int] = []
            end = current().world.now + 60
            while current().world.now < end:
                with suppress(Error):
                    for message in await subscription.fetch(10, timeout=3):
                        after.append(message.metadata.sequence.stream)
                        await message.ack_sync()
    return before, after


def reset_check(report: Report) -> None:
    """After the reset each message comes once, from the one that was asked for on."""
    before, after = report.result
    assert before == list(range(1, 11)), f"{before} came before the reset"
    assert after == list(range(4, 11)), f"{after} came after the reset"


async def interest_main() -> tuple[int, int]:
    """A push consumer with a wildcard subscription over its subject, then a literal one. Returns what each got."""
    async with connect(URL) as nc:
        js = nc.jetstream()
        await js.create_stream("S", subjects=["s"], storage="file")
        await js.create_consumer("S", ConsumerConfig(durable_name="d", deliver_subject="deliver.here"))
        await js.publish("s", b"x")
        got: list[list[bytes]] = [[], []]
        for index, subject in enumerate(("deliver.*", "deliver.here")):
            subscription = await nc.subscribe(subject)
            with suppress(Error):
                got[index].append((await subscription.next_msg(timeout=2)).data)
            await subscription.unsubscribe()
    return len(got[0]), len(got[1])


def interest_check(report: Report) -> None:
    """Only a literal subscription is interest, as for a real server."""
    assert report.result == (0, 1), f"{report.result} messages came by the wildcard and by the literal subject"


async def idle_main() -> list[str]:
    """A connection with a subscription that idles for an hour, then gets a message. Returns the breaks, and it."""
    events: list[str] = []

    def listen(event: object) -> None:
        if isinstance(event, Disconnected) and event.error is not None:
            events.append(str(event.error))

    async with connect(URL, event_cb=listen) as nc:
        subscription = await nc.subscribe("news")
        await asyncio.sleep(1800)
        await nc.publish("news", b"x")
        await subscription.next_msg(timeout=10)
    return events


def idle_check(report: Report) -> None:
    """A healthy connection stays."""
    assert report.result == [], f"a healthy connection broke: {report.result}"


async def news_main() -> bool:
    """A core subscription through whatever happens. Returns whether a message comes when all is well again."""
    while True:
        try:
            async with connect(URL, max_reconnect_attempts=-1, ping_interval=5, timeout=5) as nc:
                subscription = await nc.subscribe("news")
                await current().healed()
                await asyncio.sleep(60)
                await nc.publish("news", b"x")
                message = await subscription.next_msg(timeout=30)
                return message.data == b"x"
        except (ConnectionLostError, NoServersError):  # of the first handshake
            await asyncio.sleep(0.1)


def news_check(report: Report) -> None:
    """The subscription is there again after each reconnection."""
    assert report.result is True


# -- reading and copying -----------------------------------------------------------------------------------------------


async def session_main() -> list[list[int]]:
    """A consistent session writes and reads, while replicas lag. Returns what each pair of reads saw."""
    seen: list[int] = []
    with suppress(Error, OSError):
        async with connect(URL, timeout=5) as nc:
            js = nc.jetstream()
            await js.create_stream("S", subjects=["s.*"], storage="file", num_replicas=3, allow_direct=True)
            async with js.consistent_session() as session:
                for number in range(12):
                    ack = await session.publish("s.a", b"%d" % number)
                    with suppress(MessageNotFoundError):
                        seen += [ack.seq, (await session.get_last_msg("S", "s.a")).seq]
    return [seen]


def session_check(report: Report) -> None:
    """A session sees what it wrote, and never goes back."""
    for seen in report.result:
        check_monotone(seen)


async def ttl_main() -> list[tuple[str, bool]]:
    """Messages with a time to live. Returns whether each was there shortly before its end, and shortly after."""
    seen: list[tuple[str, bool]] = []
    async with connect(URL, timeout=5) as nc:
        js = nc.jetstream()
        await js.create_stream("S", subjects=["s"], storage="file", allow_msg_ttl=True)
        stream = current().server.stream("S")
        for ttl in (1, 3):
            ack = await js.publish("s", b"x", headers={"Nats-TTL": f"{ttl}s"})
            stored = stream.get(ack.seq)
            assert stored is not None
            await asyncio.sleep(stored.arrived + ttl - 0.1 - current().world.now)
            seen.append((f"before {ttl} s", stream.get(ack.seq) is not None))
            await asyncio.sleep(0.2)
            seen.append((f"after {ttl} s", stream.get(ack.seq) is not None))
    return seen


def ttl_check(report: Report) -> None:
    """A message lives as long as it says."""
    wrong = [when for when, is_there in report.result if is_there != when.startswith("before")]
    assert not wrong, f"wrong {', '.join(wrong)}"


COPIES: Final = [b"%d" % number for number in range(30)]


async def origin() -> None:
    """Store what is to be copied, each message under its own sequence. Servers forget the ids of jobs that are done."""
    while True:
        with suppress(Error, OSError):
            async with connect(URL, timeout=2) as nc:
                js = nc.jetstream()
                found = await js.create_stream("FROM", subjects=["s"], storage="file", retention="workqueue")
                await js.create_stream(
                    "TO", subjects=["copies.s"], storage="file", allow_batched=True, allow_direct=True
                )
                for number in range(found.state.last_seq, len(COPIES)):
                    await js.publish("s", COPIES[number], expected_last_seq=number)
                return
        await asyncio.sleep(0.2)


async def copier() -> None:
    """Copy for ever."""
    async with connect(URL, timeout=2, max_reconnect_attempts=-1) as nc:
        flow = ConsumerConfig(ack_policy="flow_control", filter_subjects=["s"])
        await nc.jetstream().copy("FROM", "COPY", "TO", prefix="copies.", config=flow).run()


async def healed_main() -> None:
    """Wait until all is well, and give the hosts time."""
    await current().healed()
    await asyncio.sleep(120)


def copy_check(report: Report) -> None:
    """Each message is in the copy once."""
    check_copied_once(COPIES, report.server.stream("TO"))


def worker_check(report: Report) -> None:
    """Safety, then liveness: see ``scenes``."""
    scenes.check_progress(report)


def leaderless(seed: int) -> list[Fault]:
    """Faults among which a stream without a leader is frequent."""
    without = Fault("leaderless", at=(seed % 90) / 10, lasts=0.05 + seed % 7 / 20, stream="S")
    return [*random_faults(seed, seconds=9.0, links=1, size=20_000, streams=("S",), most=3), without]


def half_open(seed: int) -> list[Fault]:
    """A link on which nothing arrives any more, in one direction or in both."""
    directions: tuple[Direction, ...] = ("up", "down", "both")
    return [Fault("partition", at=10 + seed % 40, lasts=200.0, link=1, direction=directions[seed % 3])]


async def stale_main() -> list[float]:
    """An idle connection that pings. Returns when it lost its link."""
    breaks: list[float] = []

    def listen(event: object) -> None:
        if isinstance(event, Disconnected) and event.error is not None:
            breaks.append(current().world.now)

    async with connect(URL, event_cb=listen, ping_interval=5, max_outstanding_pings=2) as nc:
        await asyncio.sleep(100)
        await nc.flush()
    return breaks


def stale_check(report: Report) -> None:
    """It notices within three pings that the link is dead."""
    (fault,) = report.faults
    assert report.result, "it did not notice that the link is dead"
    assert fault.at < report.result[0] <= fault.at + 20.1, f"it noticed at {report.result[0]:g} s"


FAST_GAPS: Final = Workload(fast_main, gaps_check, {"conditions": NEARBY, "faults": leaderless})
FAST_REORDERED: Final = Workload(fast_main, fast_check, {"conditions": REORDERING, "faults": ()})
STALE: Final = Workload(stale_main, stale_check, {"conditions": NEARBY, "faults": half_open})
PUBLISH: Final = Workload(publish_main, publish_check, {"until": 120.0})
ATOMIC: Final = Workload(atomic_main, atomic_check, {"conditions": LOSSY})
ORDERED: Final = Workload(ordered_main, ordered_check, {"conditions": LOSSY})
RESET: Final = Workload(reset_main, reset_check, {"conditions": NEARBY, "faults": ()})
INTEREST: Final = Workload(interest_main, interest_check, {"conditions": NEARBY, "faults": ()})
IDLE: Final = Workload(idle_main, idle_check, {"conditions": NEARBY, "faults": ()})
NEWS: Final = Workload(news_main, news_check)
SESSION: Final = Workload(session_main, session_check)
TTL: Final = Workload(ttl_main, ttl_check, {"conditions": NEARBY, "faults": ()})
COPY: Final = Workload(healed_main, copy_check, {"hosts": {"origin": origin, "copier": copier}})
WORKERS: Final = Workload(scenes.main, worker_check, {"hosts": scenes.right})
