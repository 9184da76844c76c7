"""``jsproto tap`` between clients and servers: bytes pass unchanged, ends are passed on, and Ctrl-C sums up."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import ssl
import subprocess
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import nats
import pytest
import trustme

from jsproto_io.cli.relaying import PIECE, WAITING, Piece, Relay
from jsproto_io.cli.transcripts import recorded
from jsproto_io.sync import connect
from jsproto_io.testing import serve
from tests.cli.calling import Place, call
from tests.drivers.test_facade import unique
from tests.marks import promise

HERE = "127.0.0.1"


class Between:
    """A relay, one link through it, and what went by."""

    def __init__(self, stack: ExitStack) -> None:
        listener = stack.enter_context(socket.create_server((HERE, 0)))
        self.relay = stack.enter_context(Relay((HERE, 0), listener.getsockname()[:2]))
        self.client = stack.enter_context(socket.create_connection((HERE, self.relay.port), 20))
        self.server, _ = listener.accept()
        stack.callback(self.server.close)
        self.server.settimeout(20)
        self.pieces: list[Piece] = []

    def read_along(self) -> None:
        """Take what goes by, until both directions have ended."""
        ends = 0
        while ends < 2:
            piece = self.relay.take(20)
            assert piece is not None
            self.pieces.append(piece)
            ends += not piece.data and not piece.client

    def seen(self, direction: str) -> bytes:
        return b"".join(piece.data for piece in self.pieces if piece.direction == direction)


@pytest.fixture
def between() -> Iterator[Between]:
    with ExitStack() as stack:
        yield Between(stack)


def everything(source: socket.socket) -> bytes:
    return b"".join(iter(lambda: source.recv(65_536), b""))


@promise("Bytes pass unchanged and in order.")
def test_bytes_pass_unchanged_and_each_end_by_itself(between: Between) -> None:
    up, down = bytes(range(256)) * 1_000, b"\r\nMSG nothing" * 30_000
    reader = threading.Thread(target=between.read_along)
    reader.start()

    def serve() -> None:
        heard.append(everything(between.server))  # until the client's end has been passed on
        between.server.sendall(down)
        between.server.shutdown(socket.SHUT_WR)

    heard: list[bytes] = []
    serving = threading.Thread(target=serve)
    serving.start()
    between.client.sendall(up)
    between.client.shutdown(socket.SHUT_WR)
    assert everything(between.client) == down
    serving.join(20)
    reader.join(20)
    assert heard == [up]
    assert (between.seen("c2s"), between.seen("s2c")) == (up, down)
    assert between.pieces[0].client.startswith(HERE)
    assert [piece.why for piece in between.pieces] == [""] * len(between.pieces)


@promise("Where nobody takes the lines, as in `less`, the links wait.")
def test_a_link_waits_where_nobody_reads_along(between: Between) -> None:
    """What has been read and not shown is bounded, and so is what the client can get rid of."""
    between.client.settimeout(0.5)
    heard: list[bytes] = []
    serving = threading.Thread(target=lambda: heard.append(everything(between.server)))
    serving.start()
    sent, most = 0, 5 * WAITING * PIECE
    with suppress(TimeoutError):
        while sent < most:
            sent += between.client.send(b"x" * PIECE)
    assert sent < most
    between.client.shutdown(socket.SHUT_WR)
    between.server.shutdown(socket.SHUT_WR)
    between.read_along()
    serving.join(20)
    assert len(heard[0]) == len(between.seen("c2s")) == sent


def test_a_reset_ends_both_sides(between: Between) -> None:
    between.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    between.client.close()  # with a reset
    between.read_along()
    assert everything(between.server) == b""
    assert [piece.why.split(":")[0] for piece in between.pieces if piece.direction == "c2s"] == ["", "loses its link"]


def test_the_end_of_the_block_ends_all_links(between: Between) -> None:
    between.relay.__exit__(None, None, None)
    assert everything(between.client) == everything(between.server) == b""
    with pytest.raises(OSError):  # noqa: PT011
        socket.create_connection((HERE, between.relay.port), 5)


class Slow(Relay):
    """It dials when it is allowed to."""

    def __init__(self, server: tuple[str, int]) -> None:
        super().__init__((HERE, 0), server)
        self.waits, self.may_go = threading.Event(), threading.Event()

    def _dial(self, link: int, client: socket.socket, name: str) -> None:
        self.waits.set()
        assert self.may_go.wait(20)
        super()._dial(link, client, name)


def test_a_link_that_is_dialed_too_late_ends_at_once() -> None:
    with socket.create_server((HERE, 0)) as listener:
        with Slow(listener.getsockname()[:2]) as relay:
            client = socket.create_connection((HERE, relay.port), 20)
            assert relay.waits.wait(20)
        relay.may_go.set()
        with client:
            assert everything(client) == b""


def test_a_server_that_is_not_there() -> None:
    with socket.create_server((HERE, 0)) as free:
        nowhere = free.getsockname()[:2]
    with Relay((HERE, 0), nowhere) as relay, socket.create_connection((HERE, relay.port), 20) as client:
        pieces = [relay.take(20) for _ in range(3)]
        assert [piece and piece.why.split(":")[0] for piece in pieces] == ["", "cannot be reached", "is sent away"]
        assert relay.take(0) is None
        assert everything(client) == b""


# -- the command -------------------------------------------------------------------------------------------------------


@contextmanager
def tapped(place: Place, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The command in a process, and the URL where it listens."""
    process = place.start("tap", place.url, *arguments, stdout=subprocess.PIPE)
    try:
        assert process.stderr is not None
        found = re.search(rb"connect to (\S+) instead of", process.stderr.readline())
        assert found is not None
        yield process, found[1].decode()
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_what_a_client_says_is_printed_recorded_and_drawn(place: Place, tmp_path: Path) -> None:
    file, name = tmp_path / "links.json", unique("TAP")
    with tapped(place, "--save", str(file), "--plot") as (process, url):
        with connect(url) as nc:
            js = nc.jetstream()
            js.create_stream(name, subjects=[f"{name}.>"], storage="memory", allow_batched=True)
            with js.fast_publisher() as batch:
                batch.publish_many((f"{name}.a", b"%d" % number) for number in range(3_000))
                batch.commit()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert re.fullmatch(r"jsproto: interrupted; 1 links, frames: 3,[0-9]+ up, [0-9]+ down\n", err.decode())
    printed = out.decode()
    assert "no frame" not in printed
    assert len(re.findall(rf"-> PUB {name}\.a reply ", printed)) >= 3_000
    assert ", 3000 in the batch" in printed
    assert "messages per acknowledgement" in printed
    counts: dict[str, int] = defaultdict(int)
    for step in recorded(file):
        counts[step.direction] += 1
    again = call("tap", "--replay", str(file), "--json", "--quiet").objects
    assert len(again) == sum(counts.values())
    assert again[0]["verb"] == "INFO"


@promise("`--save` records all frames, whatever is printed.")
@pytest.mark.slow
def test_nats_py_and_rubbish_go_through_it(place: Place, tmp_path: Path) -> None:
    name, file = unique("TAP"), tmp_path / "all.json"

    async def publish(url: str) -> list[int]:
        nc = await nats.connect(url)
        js = nc.jetstream()
        await js.add_stream(name=name, subjects=[f"{name}.>"], storage="memory")
        acks = [await js.publish(f"{name}.a", b"x") for _ in range(50)]
        await nc.close()
        return [ack.seq for ack in acks]

    with tapped(place, "--json", "--subject", f"{name}.>", "--save", str(file)) as (process, url):
        assert asyncio.run(publish(url)) == [*range(1, 51)]
        address = url.removeprefix("nats://").split(":")
        with socket.create_connection((address[0], int(address[1])), 20) as other:
            other.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert b"-ERR" in everything(other)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    *found, end = [json.loads(line) for line in out.splitlines()]
    assert end["error"].startswith("interrupted; 2 links, ")
    assert [each["verb"] for each in found if each["link"] == 1 and each["verb"]] == ["PUB", "MSG"] * 50
    (rubbish,) = [each for each in found if each["about"] and "no frame of a client" in each["about"]]
    assert (rubbish["link"], rubbish["verb"]) == (2, None)
    of_other = [step.raw for step in recorded(file) if (step.link, step.direction) == (2, "c2s")]
    assert of_other == [b"GET / HTTP/1.1\r\n\r\n"]  # before or after INFO
    assert sum(step.raw.startswith((b"CONNECT ", b"SUB ")) for step in recorded(file)) == 2  # none of it printed
    assert any(each["verb"] == "-ERR" and each["link"] == 2 for each in found)


@promise("Behind TLS there are only INFO and a line that says so.")
def test_tls_goes_through_it() -> None:
    authority = trustme.CA()
    context, trusting = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(context)
    authority.configure_trust(trusting)
    with serve(port=0, tls=context) as server, tapped(Place(server.url)) as (process, url):
        with connect(url.replace(HERE, "localhost"), tls=trusting) as nc:
            assert nc.jetstream().account_info().streams == 0
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    told = [line.partition("link 1 ")[2] for line in out.decode().splitlines()]
    assert [line for line in told if "ends" not in line and "comes from" not in line] == [
        next(line for line in told if line.startswith("<- INFO | ")),
        "-> TLS begins: what follows is encrypted, and passed on",
    ]


def test_a_port_that_is_taken_is_one_line() -> None:
    with socket.create_server((HERE, 0)) as taken:
        done = call("tap", "nats://127.0.0.1:1", "--listen", str(taken.getsockname()[1]))
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert "in use" in done.err
