"""``jsproto mirror`` between real servers: what it copies, how it goes on, and what it says when it cannot."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress

from jsproto.grammar.consumer import ConsumerConfig
from jsproto_io.cli.commands.mirror import CopyColumn
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import JetStream, connect
from tests.cli.test_end_to_end import call
from tests.drivers.test_facade import unique

pytestmark = pytest.mark.server


@pytest.fixture
def js(server: NatsServer) -> Iterator[JetStream]:
    with connect(server.url) as nc:
        yield nc.jetstream()


def queue(js: JetStream, count: int) -> str:
    """A work queue with so many messages."""
    name = unique("Q")
    js.create_stream(name, subjects=[f"{name}.>"], retention="workqueue", allow_batched=True, storage="memory")
    fill(js, name, 0, count)
    return name


def fill(js: JetStream, name: str, first: int, count: int) -> None:
    with js.fast_publisher() as batch:
        batch.publish_many((f"{name}.a", b"%d" % n) for n in range(first, first + count))
        batch.commit()


def numbers(js: JetStream, stream: str) -> list[int]:
    return [int(message.data) for message in js.get_batch(stream) if message.subject.startswith("copies.")]


def mirror(server: NatsServer, *arguments: str) -> tuple[int, dict[str, Any], str]:
    code, out, err = call("mirror", *arguments, "--servers", server.url, "--json")
    return code, json.loads(out), err


def test_a_queue_is_copied_to_another_server(server: NatsServer, server_for: Any, js: JetStream) -> None:
    own_server, name = server_for(), queue(js, 700)
    to = ("--to-servers", own_server.url, "--prefix", "copies.")
    code, data, err = mirror(server, name, "COPY", *to, "--create-stream")
    assert (code, err, data["ok"], data["source"], data["target"]) == (0, "", True, name, "COPY")
    assert (data["copied"], data["position"], data["restarts"]) == (700, 700, 0)
    assert data["stream_identity"]
    assert data["messages_per_s"] > 0
    assert js.stream_info(name).state.messages == 0
    fill(js, name, 700, 5)
    code, out, err = call("mirror", name, "COPY", *to, NATS_URL=server.url)
    assert (code, err) == (0, "")
    assert "copied" in out
    assert f"705 of stream {name}" in out
    with connect(own_server.url) as nc:
        assert numbers(nc.jetstream(), "COPY") == [*range(705)]
        assert nc.jetstream().stream_info("COPY").config.subjects == [f"copies.{name}.>"]


def test_with_markers_a_filter_and_another_consumer(server: NatsServer, js: JetStream) -> None:
    name = queue(js, 20)
    target, marker = unique("T"), unique("pos")
    js.publish(f"{name}.b", b"20")
    wanted = (name, target, "--prefix", "copies.", "--marker", marker, "--filter", f"{name}.a", "--create-stream")
    code, data, _ = mirror(server, *wanted, "--consumer", "A", "--shared")
    assert (code, data["copied"]) == (0, 20)
    info = js.consumer_info(name, "A").config
    assert (info.filter_subject, info.sourcing, info.ack_policy) == (f"{name}.a", True, "flow_control")
    assert js.get_last_msg(target, marker).data.startswith(f"{name} 20 ".encode())
    for other in (["--filter", f"{name}.b"], []):
        code, data, err = mirror(server, name, target, "--consumer", "A", "--marker", marker, *other)
        assert code == 2
        assert f"consumer A is there with another filter ({name}.a)" in err
    more = ("--consumer", "B", "--filter", f"{name}.b", "--shared", "--prefix", "copies.", "--marker", marker)
    code, data, err = mirror(server, name, target, *more)
    assert code == 1
    assert f"it has copies by the filter {name}.a, not {name}.b: one target is for one filter" in err
    assert js.stream_info(name).state.messages == 1  # which nobody has copied


def test_a_marker_within_the_subjects(server: NatsServer, js: JetStream) -> None:
    name, target = queue(js, 3), unique("T")
    code, data, _ = mirror(
        server, name, target, "--prefix", "copies.", "--marker", f"copies.{name}.m.m", "--create-stream"
    )
    assert (code, data["copied"]) == (0, 3)
    assert js.stream_info(target).config.subjects == [f"copies.{name}.>"]


def test_the_copy_of_a_mirror(server: NatsServer, js: JetStream) -> None:
    name, target = unique("S"), unique("T")
    js.create_stream(name, subjects=[f"{name}.>"], storage="memory", allow_batched=True)
    fill(js, name, 0, 5)
    js.create_stream(f"{name}M", mirror={"name": name}, storage="memory")
    while js.stream_info(f"{name}M").state.messages < 5:
        pass
    code, _, err = mirror(server, f"{name}M", target, "--create-stream")
    assert code == 2
    assert f"{name}M copies other streams: give a --prefix, or make {target} yourself" in err
    prefix = unique("p") + "."
    code, data, _ = mirror(server, f"{name}M", target, "--create-stream", "--prefix", prefix)
    assert (code, data["copied"]) == (0, 5)
    assert [message.subject for message in js.get_batch(target)] == [f"{prefix}{name}.a"] * 5


def test_what_is_not_copied_is_said(server: NatsServer, js: JetStream) -> None:
    name, target = unique("S"), unique("T")
    js.create_stream(name, subjects=[f"{name}.>"], storage="memory", allow_batched=True)
    fill(js, name, 0, 50)
    arguments = (name, target, "--prefix", "copies.", "--create-stream")
    assert mirror(server, *arguments)[1]["skipped"] == []
    fill(js, name, 50, 50)
    js.reset_consumer(name, f"mirror-{target}", 91)
    code, data, err = mirror(server, *arguments)
    assert (code, data["copied"], data["skipped"]) == (0, 10, [[51, 90]])
    why = "are gone or acknowledged already (limits, or somebody else), and are not copied"
    assert err == f"jsproto: messages 51 to 90 of {name} {why}\n"


def test_what_cannot_be_copied_is_one_line(server: NatsServer, js: JetStream) -> None:
    name, target = queue(js, 3), unique("T")
    code, data, err = mirror(server, name, target)
    assert code == 2
    assert err == f"jsproto: there is no stream {target}: add --create-stream to make it\n"
    assert data["ok"] is False
    assert (data["copied"], data["position"]) == (0, 0)
    code, _, err = mirror(server, name, target, "--create-stream")
    assert code == 2
    assert "choose a --prefix, or other servers by --to-servers" in err
    code, _, err = mirror(server, "MISSING", target)
    assert code == 1
    assert "stream not found" in err
    js.create_consumer(name, ConsumerConfig(durable_name="W"))
    code, _, err = mirror(server, name, target, "--prefix", "copies.", "--create-stream")
    assert code == 2
    assert "--shared copies a work queue beside its other consumers; nothing is known to be copied" in err
    code, _, err = mirror(server, name, target, "--prefix", "copies.", "--consumer", "W")
    assert code == 1
    assert "ack_policy" in err
    code, out, err = call("mirror", name, target, "--marker", "a b", "--prefix", "copies.", NATS_URL=server.url)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1


def test_another_program_is_waited_for(server: NatsServer, js: JetStream) -> None:
    name, target = queue(js, 3), unique("T")
    with js.source(name, f"mirror-{target}", config=ConsumerConfig(ack_policy="flow_control")):
        code, _, err = mirror(server, name, target, "--prefix", "copies.", "--create-stream", "--wait", "0.2")
    assert code == 1
    assert "is sourced from by another program; nothing is known to be copied" in err


@pytest.mark.slow
def test_an_interruption_says_how_far_it_is(server: NatsServer, js: JetStream) -> None:
    name, target = queue(js, 30), unique("T")
    arguments = [name, target, "--prefix", "copies.", "--create-stream", "--follow", "--servers", server.url, "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "jsproto_io.cli", "mirror", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    for count in (30, 40):
        while js.stream_info(name).state.messages:
            assert process.poll() is None
        assert numbers(js, target) == [*range(count)]
        if count == 30:
            fill(js, name, 30, 10)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == f"jsproto: interrupted; 40 copied, {name} is stored up to 40; run it again to go on\n"
    data = json.loads(out)
    assert (data["ok"], data["copied"], data["position"]) == (False, 40, 40)


def test_the_display_says_what_the_copy_says(server: NatsServer, js: JetStream) -> None:
    copy = js.copy("S", "C", "T")
    console = Console(width=60, force_terminal=True, color_system=None)
    progress = Progress(CopyColumn(), console=console)
    progress.add_task("", total=None, copy=copy)
    (task,) = progress.tasks
    assert CopyColumn().render(task).plain == "0 copied, 0/s"
