"""Record what real servers say to batches on buckets, into ``tests/transcripts``.

    python -m tests.tools.record_batches [RELEASE ...]

Each of ``SCENARIOS`` is one conversation on one connection: plain messages, batches and questions, in their order. Each
message waits for its answer. By default it is recorded on each of ``RECORDED``.

Rules:

* A file is the frames as they were sent. INFO has what is read of it, and nothing of the machine.
* At most one guard of a batch is of a key that the batch does not write, or all of them are the same one: releases
  before 2.14.4 check others wrongly now and then (FACTS.md F1.35).

Not here: who answers as the record says (``tests/transcripts/test_server_role.py``).
"""

from __future__ import annotations

import json
import socket
import sys
from collections import deque
from itertools import count
from typing import Any, Final, NamedTuple

from jsproto.wire.decoder import Decoder
from jsproto.wire.encoder import PING, encode, encode_connect, encode_pub, encode_sub
from jsproto.wire.frames import Frame, Info, Msg, Ping
from jsproto_io.nats_server import NatsServer
from tests.servers import binary
from tests.transcripts.test_transcripts import FOLDER, INDEX

RECORDED: Final = ("2.12.8", "2.14.0", "2.14.4", "2.15.1")
CONNECT: Final = (
    b'{"verbose":false,"pedantic":false,"lang":"probe","version":"0","protocol":1,"echo":true,"headers":true,'
    b'"no_responders":true}'
)
PATIENCE: Final = 10.0  # seconds

Headers = dict[str, str]
Member = tuple[str, Headers]
Step = tuple[str, Headers] | list[Member] | int
"""A plain message on a key, a batch, or the question for the message with that sequence."""


class Scenario(NamedTuple):
    """``config``: what the bucket has beside what all of them have."""

    about: str
    config: dict[str, Any]
    steps: list[Step]


def own(revision: int) -> Headers:
    """The key must have this revision. 0: it must be absent."""
    return {"Nats-Expected-Last-Subject-Sequence": str(revision)}


def guard(key: str, revision: int) -> Headers:
    """Another key, or a pattern, must have it."""
    return own(revision) | {"Nats-Expected-Last-Subject-Sequence-Subject": f"$KV.B.{key}"}


def msg_id(text: str) -> Headers:
    return {"Nats-Msg-Id": text}


DELETE: Final = {"KV-Operation": "DEL"}
PURGE: Final = {"KV-Operation": "PURGE", "Nats-Rollup": "sub"}
ALL: Final = {"Nats-Rollup": "all"}
BARE: Final = {"Nats-Expected-Last-Subject-Sequence-Subject": "$KV.B.a"}

SCENARIOS: Final = {
    "own_checks": Scenario(
        "expected revisions of the keys that a batch writes: right, wrong, absent, markers, a key that is there twice",
        {},
        [
            ("a", {}),
            ("b", {}),
            [("a", own(1)), ("b", own(2))],
            [("a", own(3)), ("b", own(9))],  # 10071, with the revision of b
            [("a", own(7)), ("b", own(9))],  # 10071, with the revision of a
            [("c", own(5)), ("a", {})],  # 10071, with 0
            [("a", own(0)), ("c", own(0))],  # 10071: it is there
            [("c", own(0)), ("d", own(0))],
            ("a", DELETE),
            [("a", own(0)), ("e", {})],  # 10071: a marker is a revision
            [("a", own(7)), ("e", {})],
            [("a", {}), ("a", own(8))],  # 10164
            [("a", own(8)), ("a", {})],
            [("f", own(0))],
            [("f", own(0))],
            8,
            11,
        ],
    ),
    "guards": Scenario(
        "expected revisions of keys that a batch does not write, or writes as well; patterns",
        {},
        [
            ("a", {}),
            ("b", {}),
            [("c", guard("a", 1)), ("d", {})],
            [("c", guard("a", 9)), ("d", {})],  # 10071, with 1
            [("c", guard("x", 0)), ("d", {})],
            [("c", guard("a", 0)), ("d", {})],
            [("c", own(5) | {"Nats-Expected-Last-Subject-Sequence-Subject": "elsewhere"}), ("d", {})],
            [("c", own(0) | {"Nats-Expected-Last-Subject-Sequence-Subject": "elsewhere"}), ("d", {})],
            [("c", BARE), ("d", {})],  # 10193
            [("d", guard("a", 1))],  # d itself is not checked
            [("a", {}), ("d", guard("a", 1))],  # 10164
            [("d", guard("a", 1)), ("a", {})],
            [("a", own(11)), ("a", guard("b", 2))],
            [("a", own(13)), ("a", guard("b", 9))],  # 10071, with 2
            [("a", guard("b", 2)), ("c", guard("b", 2))],
            [("a", guard("b", 2)), ("c", guard("b", 3))],  # 10071, with 2
            ("p.1", {}),
            ("p.2", {}),
            [("p.3", guard("p.>", 17)), ("d", {})],
            [("p.4", guard("p.>", 17)), ("d", {})],  # 10071, with 18
            [("p.4", {}), ("p.5", guard("p.>", 18))],
            [("q.1", guard("q.>", 0)), ("q.2", {})],
            ("p.1", DELETE),
            [("d", guard("p.1", 0))],  # 10071: a marker is a revision
            [("d", guard("p.1", 24))],
            [("p.6", guard("*.*", 24)), ("d", {})],
            27,
        ],
    ),
    "rollups": Scenario(
        "PURGE in a batch, rollups of the stream, and lifetimes",
        {"max_msgs_per_subject": 5, "allow_msg_ttl": True},
        [
            ("a", {}),
            ("a", {}),
            ("b", {}),
            [("a", PURGE | own(2)), ("b", own(3))],
            1,
            2,
            [("b", {}), ("b", PURGE)],  # 10111
            [("b", PURGE | own(3)), ("c", {})],  # 10071, with 5
            [("b", PURGE | own(5)), ("b", {})],
            [("c", {}), ("d", ALL)],  # 10111
            [("c", ALL), ("d", {})],
            7,
            [("e", own(0) | {"Nats-TTL": "1h"}), ("f", PURGE | {"Nats-TTL": "1h"})],
            [("e", {"Nats-TTL": "500ms"}), ("f", {})],
            [("e", {"Nats-TTL": "x"}), ("f", {})],
            10,
            11,
        ],
    ),
    "history": Scenario(
        "more writes of a key than its history keeps, and a lifetime where none is allowed",
        {"max_msgs_per_subject": 3},
        [
            ("a", {}),
            [("a", own(1)), ("a", {}), ("a", {}), ("a", {}), ("a", {})],
            *range(1, 7),
            [("a", own(6)), ("b", {"Nats-TTL": "1h"})],  # 10166
            7,
        ],
    ),
    "ids": Scenario(
        "message ids: known, doubled, and beside expected revisions that are wrong",
        {"duplicate_window": 120_000_000_000},
        [
            [("a", own(0) | msg_id("t1")), ("b", own(0))],
            [("a", own(0) | msg_id("t1")), ("b", own(0))],  # 10201, and not 10071
            [("b", own(0)), ("a", own(0) | msg_id("t1"))],  # 10071: the first member that fails
            [("a", own(1) | msg_id("t2")), ("b", own(2) | msg_id("t2"))],  # 10201
            [("a", own(9) | msg_id("t2")), ("b", own(2) | msg_id("t2"))],  # 10071
            [("a", own(1) | msg_id("t2")), ("b", own(2))],
            [("a", own(3)), ("c", msg_id("t1"))],  # 10201: its message was overwritten
            ("a", own(3) | msg_id("t3")),
            ("a", own(3) | msg_id("t3")),  # 10071: alone the revision is looked at first
            ("a", msg_id("t3")),  # a duplicate
            [("b", own(4) | msg_id("t4"))],
            [("b", own(4) | msg_id("t4"))],  # 10201
        ],
    ),
    "full": Scenario(
        "keys that must not be overwritten, and rollups of them",
        {"discard_new_per_subject": True},
        [
            ("a", {}),
            ("b", {}),
            [("a", {}), ("c", {})],  # 10077
            [("c", {}), ("c", {})],  # 10077
            [("a", PURGE), ("c", {})],  # from 2.14
            ("b", PURGE),
            ("b", {}),
            [("d", own(0)), ("e", own(0))],
            5,
        ],
    ),
    "bytes": Scenario(
        "a bucket with room for three messages",
        {"max_bytes": 240},
        [("a", {}), [("b", {}), ("c", {}), ("d", {})], [("a", {}), ("a", {})], ("b", {}), ("c", {}), 2],
    ),
}  # fmt: skip


class Recording:
    """A connection whose frames are kept, in both directions."""

    def __init__(self, port: int) -> None:
        self.lines: list[dict[str, str]] = []
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self._decoder = Decoder("client")
        self._frames: deque[Frame] = deque()
        self._replies = count(1)
        self._batches = count(1)
        self._receive()
        self._send(encode_connect(CONNECT))
        self._send(PING)
        self._receive()
        self._send(encode_sub(b"_INBOX.p.*", None, b"1"))

    def take(self, step: Step) -> None:
        """Send what a step is made of, and wait for each answer."""
        match step:
            case int():
                self._ask(b"$JS.API.STREAM.MSG.GET.KV_B", {}, b'{"seq":%d}' % step)
            case list():
                batch = f"b{next(self._batches)}"
                for number, (key, headers) in enumerate(step, 1):
                    ends = {"Nats-Batch-Commit": "1"} if number == len(step) else {}
                    member = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number)} | ends | headers
                    self._ask(b"$KV.B." + key.encode(), member, b"%d" % number)
            case (key, headers):
                self._ask(b"$KV.B." + key.encode(), headers, b"" if "KV-Operation" in headers else b"plain")

    def close(self) -> None:
        self._socket.close()

    def _ask(self, subject: bytes, headers: Headers, payload: bytes) -> None:
        block = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        header = f"NATS/1.0\r\n{block}\r\n".encode() if headers else None
        self._send(encode_pub(subject, b"_INBOX.p.%d" % next(self._replies), header, payload))
        self._receive()

    def _send(self, data: bytes) -> None:
        self.lines.append({"dir": "c2s", "raw": data.decode("latin-1")})
        self._socket.sendall(data)

    def _receive(self) -> None:
        """One frame of the server, but no PING, and no INFO after the first."""
        frame: Frame = Ping()
        while isinstance(frame, Ping) or (isinstance(frame, Info) and self.lines):
            while not self._frames:
                self._frames += self._decoder.feed(self._socket.recv(65_536))
            frame = self._frames.popleft()
        raw = encode(frame) if not isinstance(frame, Info) else greeting(json.loads(frame.raw))
        self.lines.append({"dir": "s2c", "raw": raw.decode("latin-1")})
        assert not isinstance(frame, Msg) or frame.subject.startswith(b"_INBOX.p.")


def greeting(info: dict[str, Any]) -> bytes:
    """INFO without what is of the machine."""
    kept = ("version", "proto", "go", "headers", "max_payload", "jetstream", "api_lvl")
    said = {"server_id": "PROBE", "server_name": "probe"} | {name: info[name] for name in kept} | {"client_id": 1}
    return b"INFO " + json.dumps(said, separators=(",", ":")).encode() + b"\r\n"


def record(name: str, server: NatsServer) -> None:
    """Write the conversation of one scenario with one server."""
    about, changed, steps = SCENARIOS[name]
    config: dict[str, Any] = {
        "name": "KV_B", "subjects": ["$KV.B.>"], "storage": "memory", "max_msgs_per_subject": 1, "discard": "new",
        "allow_rollup_hdrs": True, "deny_delete": True, "allow_direct": True, "allow_atomic": True,
    } | changed  # fmt: skip
    create = "$JS.API.STREAM.CREATE.KV_B"
    setup = Recording(server.port)
    setup._ask(b"$JS.API.STREAM.DELETE.KV_B", {}, b"")
    setup._ask(create.encode(), {}, json.dumps(config).encode())
    assert '"did_create":true' in setup.lines[-1]["raw"], setup.lines[-1]["raw"]
    setup.close()
    recording = Recording(server.port)
    for step in steps:
        recording.take(step)
    recording.close()
    setup_made = [{"api": create, "request": config, "error": None}]
    write(f"atomic-kv_{name}", server.version, about, setup_made, recording.lines)


def write(scenario: str, version: str, about: str, setup: list[dict[str, Any]], lines: list[dict[str, str]]) -> None:
    """Write one conversation, and its entry into the index."""
    file = f"{scenario}@{version}.json"
    whole = {
        "scenario": scenario, "about": about, "server_version": version, "setup": setup, "transcript": lines,
    }  # fmt: skip
    (FOLDER / file).write_text(json.dumps(whole, indent=1) + "\n", "utf-8")
    heard = sum(line["dir"] == "s2c" for line in lines)
    entry = {
        "file": file, "scenario": scenario, "server_version": version, "about": about, "frames": len(lines),
        "s2c": heard,
    }  # fmt: skip
    INDEX[:] = [*(one for one in INDEX if one["file"] != file), entry]
    (FOLDER / "INDEX.json").write_text(json.dumps(INDEX, indent=1) + "\n", "utf-8")


def main(releases: list[str]) -> None:
    for release in releases or RECORDED:
        with NatsServer(binary(release)) as server:
            for name in SCENARIOS:
                record(name, server)


if __name__ == "__main__":
    main(sys.argv[1:])
