"""Each main class of a driver shows an example in its docstring. They are run, against a server in memory."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import time
from functools import partial
from textwrap import dedent
from typing import Any, Final

import pytest

import jsproto_io.asyncio as loops
import jsproto_io.sync as threads
from jsproto_io.testing.threads import serve

CLASSES: Final = (
    "AtomicBatch", "BatchReader", "Bucket", "BucketSession", "Connection", "ConsistentSession", "ConsumeContext",
    "Counter", "Election", "FastPublisher", "JSMsg", "JetStream", "KeyWatcher", "Lock", "ObjectReader", "ObjectStore",
    "PipelinedPublisher", "PullSubscription", "PushSubscription", "Subscription", "Transaction",
)  # fmt: skip
BEFORE: Final = """
js = nc.jetstream()
if "create_" not in example:
    options = {"allow_atomic": True, "allow_batched": True, "allow_direct": True}
    await js.create_stream("ORDERS", subjects=["orders.>"], **options)
    await js.create_stream("HITS", subjects=["hits.>"], allow_msg_counter=True)
    await js.publish("orders.anna", b"tea")
    bucket = await js.create_bucket("MENU", history=5, marker_ttl=60)
    await bucket.put("tea", b"3.00")
    store = await js.create_object_store("ALBUM")
    await store.put("menu.txt", b"tea")
if "sub." in example.split("as sub")[0]:
    sub = await js.pull_subscribe("orders.>", durable="bar")
"""
AFTER: Final = """
if "sub" in locals():
    await sub.unsubscribe()
"""


def example_of(kind: type) -> str:
    (block,) = re.findall(r"^Example:\n\n((?: {4}.*\n|\n)+)", f"{inspect.getdoc(kind)}\n", re.MULTILINE)
    return dedent(block)


@pytest.mark.parametrize("name", CLASSES)
def test_an_example_on_threads(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    example = example_of(getattr(threads, name))
    with serve() as server, threads.connect(server.url) as nc:
        names = {"nc": nc, "connect": lambda _: threads.connect(server.url), "sleep": time.sleep, "example": example}
        for code in (BEFORE, example, AFTER):
            exec(code.replace("await ", ""), names)
    assert bool(capsys.readouterr().out) == ("print" in example)


@pytest.mark.parametrize("name", CLASSES)
def test_an_example_on_a_loop(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    example = example_of(getattr(loops, name))

    async def main(url: str) -> None:
        async with loops.connect(url) as nc:
            names = {"nc": nc, "connect": lambda _: loops.connect(url), "sleep": asyncio.sleep, "example": example}
            for code in (BEFORE, example, AFTER):
                await run(code, names)

    with serve() as server:
        asyncio.run(main(server.url))
    assert bool(capsys.readouterr().out) == ("print" in example)


async def run(code: str, names: dict[str, Any]) -> None:
    compiled = partial(compile, filename="example", mode="exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if (waiting := eval(compiled(code), names)) is not None:
        await waiting
