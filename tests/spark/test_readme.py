"""The program that the README of ``pyspark_jetstream`` shows is run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.readmes import program_with
from tests.spark.conftest import fill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from jsproto_io.nats_server import NatsServer
    from jsproto_io.sync import JetStream

pytestmark = pytest.mark.spark


def test_the_program(
    spark: SparkSession, server: NatsServer, js: JetStream, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    config: dict[str, Any] = {"allow_direct": True, "allow_batched": True, "allow_atomic": True}
    for name, subject in (("EVENTS", "EVENTS.>"), ("COPIES", "copies.>")):
        js.create_stream(name, subjects=[subject], **config)
    fill(js, "EVENTS", 1, 100)
    program = program_with("transports/pyspark_jetstream", "readStream")
    checkpoint = str(tmp_path / "checkpoint")  # the JVM is in another directory
    program = program.replace("nats://localhost:4222", server.url).replace("checkpoints/copies", checkpoint)
    exec(program, {})
    copies = Counter(message.data for message in js.get_batch("COPIES") if ".$spark." not in message.subject)
    assert copies == {b"%d" % n: 2 for n in range(1, 101)}
    js.delete_stream("EVENTS")
    js.delete_stream("COPIES")
