"""Requests drawn at random, to a real server and to the server role with the same messages: the same bytes come back.

Each request has a reply subject of its own, and of the real server as many answers are awaited as the role gave: one
too many would be found in front of the answers to the next request.
"""

from __future__ import annotations

import json
import random
import socket
from collections import deque
from contextlib import closing
from typing import Any, Final

import pytest

from jsproto.grammar.config import StreamConfig
from jsproto.grammar.times import format_timestamp, parse_timestamp
from jsproto.server.server import Server
from jsproto.wire.decoder import Decoder
from jsproto.wire.encoder import PONG, encode_connect, encode_pub, encode_sub
from jsproto.wire.frames import Msg, Ping
from jsproto_io.nats_server import NatsServer
from tests.marks import requirement
from tests.servers import RELEASES

REQUESTS: Final = 400
PATIENCE: Final = 20.0
HELLO: Final = encode_connect(b'{"verbose":false,"headers":true,"no_responders":true}') + encode_sub(b"i.*", None, b"1")
SUBJECTS: Final = [
    "foo.A",
    "foo.B",
    "foo.B",
    "foo.*",
    "foo.>",
    ">",
    "foo.Z",
    "foo.A.*",
    "foo.A.x",
    "*.A",
    "nothing",
    "",
]


class Real:
    """A connection to a real server."""

    def __init__(self, server: NatsServer) -> None:
        host, _, port = server.url.removeprefix("nats://").partition(":")
        self.socket = socket.create_connection((host, int(port)), PATIENCE)
        self.decoder = Decoder("client")
        self.arrived: deque[Msg] = deque()
        self.socket.sendall(HELLO)

    def close(self) -> None:
        self.socket.close()

    def ask(self, data: bytes, answers: int) -> list[Msg]:
        self.socket.sendall(data)
        while len(self.arrived) < answers:
            for frame in self.decoder.feed(self.socket.recv(65_536)):
                if isinstance(frame, Ping):
                    self.socket.sendall(PONG)
                elif isinstance(frame, Msg):
                    self.arrived.append(frame)
        return [self.arrived.popleft() for _ in range(answers)]


class Role:
    """A connection to the server role."""

    def __init__(self, release: tuple[int, int, int]) -> None:
        self.server = Server(token=b"token", release=release)
        self.link = self.server.connect(0.0)
        self.decoder = Decoder("client")
        self.link.receive_data(HELLO, 0.0)
        self.ask(b"")

    def ask(self, data: bytes) -> list[Msg]:
        self.link.receive_data(data, 0.0)
        return [frame for frame in self.decoder.feed(b"".join(self.link.data_to_send())) if isinstance(frame, Msg)]


class Both:
    """A real server and the role, with the same messages in stream DG."""

    def __init__(self, real: Real, release: str, storage: Any, chance: random.Random) -> None:
        major, minor, patch = map(int, release.split("."))
        self.real = real
        self.role = Role((major, minor, patch))
        self.asked = 0
        self.stamps: list[int] = []
        config = StreamConfig("DG", subjects=["foo.>"], storage=storage, allow_direct=True)
        self.same_after_all("STREAM.CREATE.DG", config.to_json())
        for number in range(40):
            subject = chance.choice([b"foo.A", b"foo.B", b"foo.C", b"foo.A.x", b"foo.%d" % number])
            header = b"NATS/1.0\r\nX: %d\r\n\r\n" % number if chance.random() < 0.3 else None
            payload = chance.randbytes(chance.choice([0, 1, 20]))
            self.store(subject, header, payload)
        if release < "2.12":
            return  # by time it skips messages that lie among deleted ones
        for seq in [*chance.sample(range(1, 41), 8)] * 2:
            self.same("STREAM.MSG.DELETE.DG", {"seq": seq})

    def store(self, subject: bytes, header: bytes | None, payload: bytes) -> None:
        """Publish to the real server, and to the role at the time of the message that was stored."""
        self.asked += 1
        publish = encode_pub(subject, b"i.%d" % self.asked, header, payload)
        (ack,) = self.real.ask(publish, 1)
        stored = self.real_message(json.loads(ack.payload)["seq"])
        self.stamps.append(parse_timestamp(stored["time"]))
        self.role.server.context.epoch = self.stamps[-1]
        self.role.ask(publish)

    def real_message(self, seq: int) -> dict[str, Any]:
        self.asked += 1
        (answer,) = self.real.ask(self.request("STREAM.MSG.GET.DG", {"seq": seq}), 1)
        message: dict[str, Any] = json.loads(answer.payload)["message"]
        return message

    def request(self, verb: str, body: object) -> bytes:
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        return encode_pub(f"$JS.API.{verb}".encode(), b"i.%d" % self.asked, None, payload)

    def same_after_all(self, verb: str, body: object) -> None:
        """Something that both do, and say differently."""
        self.asked += 1
        data = self.request(verb, body)
        assert len(self.real.ask(data, 1)) == len(self.role.ask(data)) == 1

    def same(self, verb: str, body: object) -> list[Msg]:
        """Ask both: they must answer the same."""
        self.asked += 1
        data = self.request(verb, body)
        expected = self.role.ask(data)
        assert self.real.ask(data, len(expected)) == expected, body
        return expected


def draw(chance: random.Random, stamps: list[int]) -> dict[str, Any]:
    """A request of which most mean something."""

    def time() -> str:
        return format_timestamp(chance.choice(stamps) + chance.choice([-1, 0, 0, 1, -(10**15), 10**15]))

    def seq() -> int:
        seqs: list[int] = [0, 1, 2, *range(1, 45), 2**63]
        return chance.choice(seqs)

    fields: dict[str, Any] = {
        "seq": seq, "next_by_subj": lambda: chance.choice(SUBJECTS), "start_time": time,
        "batch": lambda: chance.choice([-1, 0, 1, 2, 5, 100]), "max_bytes": lambda: chance.choice([-1, 0, 1, 30, 200]),
        "up_to_seq": seq, "up_to_time": time, "no_hdr": lambda: chance.random() < 0.5,
        "last_by_subj": lambda: chance.choice(SUBJECTS),
        "multi_last": lambda: chance.choices(SUBJECTS, k=chance.randrange(4)),
    }  # fmt: skip
    usual = [
        ("seq",), ("last_by_subj",), ("next_by_subj",), ("seq", "next_by_subj"), ("start_time",), ("seq", "batch"),
        ("start_time", "next_by_subj"), ("seq", "batch", "next_by_subj"), ("batch", "next_by_subj", "max_bytes"),
        ("start_time", "batch", "next_by_subj"), ("start_time", "batch"), ("multi_last",), ("multi_last", "up_to_seq"),
        ("multi_last", "up_to_time"), ("multi_last", "batch", "seq", "up_to_seq"), ("multi_last", "max_bytes"),
    ]  # fmt: skip
    names = set(chance.choice(usual))
    while chance.random() < 0.3:
        names.add(chance.choice(list(fields)))
    return {name: fields[name]() for name in sorted(names)}


@requirement(123, 135)
@pytest.mark.parametrize("storage", ["memory", "file"])
@pytest.mark.parametrize("release", RELEASES)
def test_the_role_answers_every_request_as_the_real_server(release: str, storage: str, server_for: Any) -> None:
    chance = random.Random(77)
    with closing(Real(server_for(release))) as real:
        both = Both(real, release, storage, chance)
        answers = ask_both(both, release, chance)
    if release == RELEASES[-1]:
        assert answers == {
            b"NATS/1.0", b"bare", b"NATS/1.0 204 EOB", b"NATS/1.0 404 Message Not Found", b"NATS/1.0 404 No Results",
            b"NATS/1.0 408 Bad Request", b"NATS/1.0 408 Empty Request",
        }  # fmt: skip


def ask_both(both: Both, release: str, chance: random.Random) -> set[bytes]:
    """Ask, compare, and return the first lines of the answers."""
    answers: set[bytes] = set()
    for _ in range(REQUESTS):
        request = draw(chance, both.stamps)
        if release < "2.12" and request.get("batch") == -1:
            continue  # there it counts from the start of the stream, whatever the request says
        for answer in both.same("DIRECT.GET.DG", request):
            answers.add((answer.header or b"bare\r\n").partition(b"\r\n")[0])
        both.same("STREAM.MSG.GET.DG", request)
    return answers
