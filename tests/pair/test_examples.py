"""Main classes of the core show an example in their docstrings. They are run by a client and a server in memory."""

from __future__ import annotations

import inspect
import re
from textwrap import dedent
from typing import Final

import pytest

import jsproto
from jsproto import StreamConfig
from jsproto.testing import Pair

CLASSES: Final = (
    "AtomicBatch", "Bucket", "DirectBatch", "FastPublisher", "JetStream", "PullConsumer", "Snapshot",
)  # fmt: skip


@pytest.mark.parametrize("name", CLASSES)
def test_an_example(name: str) -> None:
    doc = inspect.getdoc(getattr(jsproto, name))
    (block,) = re.findall(r"^Example:\n\n((?: {4}.*\n|\n)+)", f"{doc}\n", re.MULTILINE)
    pair = Pair()
    config = StreamConfig("ORDERS", subjects=["orders.>"], allow_atomic=True, allow_batched=True, allow_direct=True)
    pair.server.add_stream(config, pair.now)
    pair.connect()
    pair.run_until(pair.js.publish("orders.new", b"tea", now=pair.now))
    exec(
        dedent(block),
        {
            **{each: getattr(jsproto, each) for each in jsproto.__all__},
            "js": pair.js,
            "now": lambda: pair.now,
            "session": pair.client,
            "wait": pair.run_until,
        },
    )
