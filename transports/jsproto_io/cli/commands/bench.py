"""``jsproto bench``: how quickly this library, and nats-py if it is installed, publish, fetch and read on your server.

Rules
 * Each measurement has a stream of its own, which is deleted after it. Others stay as they are.
 * The clock runs until the last message is acknowledged, or was received.
 * One process, one connection, one measurement after the other.

Not here: the benchmark with which the library is developed (``tests/bench``).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from secrets import token_hex
from typing import Annotated, Any, Final

import attrs
import typer

from jsproto_io.cli.common import Common, with_common
from jsproto_io.cli.report import per_second
from jsproto_io.cli.tables import rate_table
from jsproto_io.cli.terminal import Failure, running
from jsproto_io.sync import JetStream

app = typer.Typer(rich_markup_mode=None, add_completion=False)

BATCH: Final = 500  # messages that are fetched at once
WINDOW: Final = 4_000  # messages of publishers that may be without an acknowledgement


@attrs.frozen(kw_only=True)
class Measured:
    """One measurement: who did what, how many messages, in how many seconds."""

    client: str
    what: str
    messages: int
    seconds: float

    @property
    def rate(self) -> int:
        """Messages per second."""
        return per_second(self.messages, self.seconds)

    def to_json(self) -> dict[str, Any]:
        """It for a program."""
        return {**attrs.asdict(self), "seconds": round(self.seconds, 6), "messages_per_s": self.rate}


@app.command(
    "bench",
    epilog="Example: jsproto bench --msgs 100000 --size 1024 --storage memory",
)
@with_common
def bench(
    common: Common,
    msgs: Annotated[int, typer.Option(min=1, max=10_000_000, help="How many messages.", metavar="N")] = 20_000,
    size: Annotated[int, typer.Option(min=0, max=1_048_576, help="Bytes of each payload.", metavar="N")] = 128,
    storage: Annotated[str, typer.Option(help="file or memory.", metavar="WORD")] = "file",
    replicas: Annotated[int, typer.Option(min=1, max=5, help="How many servers store it.", metavar="N")] = 1,
) -> None:
    """Measure how quickly messages are published, fetched from a consumer, and read. With nats-py if it is installed.

    It makes streams named BENCH-… on your server, and deletes them.
    """
    screen = common.screen()
    found: list[Measured] = []
    with running(screen):
        payload = bytes(size)
        with common.connected("bench") as (_, js), _stream(js, storage, replicas) as stream:
            for what, verb in _own(js, stream, payload, msgs).items():
                found.append(_timed("jsproto", what, msgs, verb))
                _report(common, found)
        if find_spec("nats") is not None:
            with common.connected("bench") as (_, js), _stream(js, storage, replicas) as stream:
                try:
                    asyncio.run(_nats_py(common, stream, payload, msgs, found))
                except Exception as error:  # of a package that is not ours
                    raise Failure(f"nats-py: {error or type(error).__name__}") from error
        else:
            screen.note("nats-py is not installed: it is not measured")
        if not common.as_json:
            screen.out.print(rate_table([(each.client, each.what, each.rate, each.seconds) for each in found]))


def _report(common: Common, found: list[Measured]) -> None:
    screen, last = common.screen(), found[-1]
    if common.as_json:
        screen.dump(last.to_json())
        screen.flush()
    elif screen.err.is_terminal:
        screen.note(f"{last.client}, {last.what}: {last.rate:,} messages/s")


@contextmanager
def _stream(js: JetStream, storage: str, replicas: int) -> Iterator[str]:
    name = f"BENCH-{token_hex(4)}"
    options: dict[str, Any] = {"storage": storage, "num_replicas": replicas}
    js.create_stream(name, subjects=[f"{name}.>"], allow_direct=True, allow_batched=True, **options)
    try:
        yield name
    finally:
        js.delete_stream(name)


def _timed(client: str, what: str, msgs: int, verb: Callable[[], None]) -> Measured:
    began = time.perf_counter()
    verb()
    return Measured(client=client, what=what, messages=msgs, seconds=time.perf_counter() - began)


def _own(js: JetStream, stream: str, payload: bytes, msgs: int) -> dict[str, Callable[[], None]]:
    """What is measured of this library. The first two fill the stream: the rest reads as many messages."""
    subject = f"{stream}.a"

    def publish() -> None:
        with js.async_publisher(max_pending=WINDOW) as publisher:
            publisher.publish_many((subject, payload) for _ in range(msgs))
            publisher.flush()

    def ingest() -> None:
        with js.fast_publisher() as batch:
            batch.publish_many((subject, payload) for _ in range(msgs))
            batch.commit()

    def fetch() -> None:
        with js.pull_subscribe(subject, stream=stream) as subscription:
            taken = 0
            while taken < msgs:
                jobs = subscription.fetch(min(BATCH, msgs - taken))
                subscription.ack_many(jobs)
                taken += len(jobs)

    def read() -> None:
        for _ in js.get_batch(stream, batch=msgs):
            pass

    return {"publish, an ack each": publish, "fast ingest": ingest, "fetch and ack": fetch, "read a range": read}


async def _nats_py(common: Common, stream: str, payload: bytes, msgs: int, found: list[Measured]) -> None:
    """Measure nats-py with the same stream. It takes what ``common`` says of servers and users by its own names."""
    import nats

    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # it makes errors of an interruption
    given = common.settings().connect
    names = ("user", "password", "token", "user_credentials", "nkeys_seed", "nkeys_seed_str", "tls")
    options: dict[str, Any] = {name: given[name] for name in names if name in given}  # type: ignore[literal-required]
    nc = await nats.connect(given.get("servers", "nats://localhost:4222").split(","), **options)
    try:
        js, subject = nc.jetstream(publish_async_max_pending=WINDOW), f"{stream}.a"

        async def publish() -> None:
            for _ in range(msgs):
                await js.publish_async(subject, payload)
            await js.publish_async_completed()

        async def fetch() -> None:
            subscription = await js.pull_subscribe(subject, stream=stream)
            taken = 0
            while taken < msgs:
                jobs = await subscription.fetch(min(BATCH, msgs - taken))
                for job in jobs:
                    await job.ack()
                taken += len(jobs)
            await nc.flush()

        verbs: dict[str, Callable[[], Awaitable[None]]] = {"publish, an ack each": publish, "fetch and ack": fetch}
        for what, verb in verbs.items():
            began = time.perf_counter()
            await verb()
            seconds = time.perf_counter() - began
            found.append(Measured(client="nats-py", what=what, messages=msgs, seconds=seconds))
            _report(common, found)
    finally:
        await nc.close()
