"""Recorded conversations about reading and persistence, answered again by the server role: a whole server, over a link.

The bytes that clients sent are fed to a session of a server; what it writes must be what the real server wrote, frame
by frame. What is new every time is put in place: the times of messages are those of the record.

Beyond the record: what a stream held before (``BEFORE``), what others did (``ELSEWHERE``). Answers of the API are
compared as JSON, its fields in their order, without ``NEW_EVERY_TIME``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

import pytest

from jsproto.grammar.config import ServerInfo
from jsproto.grammar.times import parse_timestamp
from jsproto.server.server import Server
from jsproto.server.session import ServerSession
from jsproto.wire.decoder import Decoder
from jsproto.wire.encoder import encode_connect
from jsproto.wire.frames import Frame, Info, Msg, Ping, Pub
from tests.marks import promise, requirement
from tests.transcripts.test_server_role_consuming import Session
from tests.transcripts.test_transcripts import FOLDER, INDEX

Message = tuple[bytes, bytes | None, bytes]

SIX: Final[list[Message]] = [
    (b"foo.A", None, b"a1"), (b"foo.B", None, b"b1"), (b"foo.C", b"NATS/1.0\r\nX-Mine: 1\r\n\r\n", b"c1"),
    (b"foo.A", None, b"a2"), (b"foo.D", None, b"d1"), (b"foo.B", None, b"b2"),
]  # fmt: skip
# What the stream held before the first request, where it was not the six.
BEFORE: Final[dict[str, list[Message]]] = {
    "direct-kv_markers": [
        (b"foo.A", None, b"a1"), (b"foo.A", b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n", b""),
    ],
    "direct-multi_413": [(b"foo.%d" % number, None, b"x") for number in range(1025)],
    "direct-user_headers": [
        (b"foo.A", b"NATS/1.0\r\nX-One: 1\r\nX-Two: 2\r\nNats-Sequence: 777\r\n\r\n", b"v"),
    ],
    "cons-level_headers_everywhere": [(b"p.a", None, b"m1")],
}  # fmt: skip
# What others did, by the number of the request before which they did it.
ELSEWHERE: Final[dict[str, dict[int, Callable[[Server], object]]]] = {
    "direct-batch_no_start": {4: lambda server: server.stream("DG").remove(3)},
    "direct-by_seq_missing": {1: lambda server: server.stream("DG").remove(2)},
}
# Times, and the name of the server. How often it was asked is left out too (``plain``).
NEW_EVERY_TIME: Final = {"created", "ts", "first_ts", "last_ts", "leader"}
# Which of two copies answers is chance: from the second request on, the stream itself or its mirror.
BY_CHANCE: Final = {"direct-mirror_direct": (b"Nats-Stream: MIR\r\n", b"Nats-Stream: DG\r\n")}

NAME: Final = re.compile(r"((?:direct|cons)-\w+)(?:\.c\d+)?@(\S+)\.json")
RECORDS: Final[dict[str, str]] = {
    entry["file"].removesuffix(".json"): match[1] for entry in INDEX if (match := NAME.fullmatch(entry["file"]))
}
REFERENCE: Final = [name for name in RECORDS if name.endswith("@2.15.1")]
# It was recorded without a cluster, where 2.11 refuses three replicas; the server role has them.
WITHOUT_REPLICAS: Final = "cons-persist_forms@2.11.11"
OLDER: Final = [name for name in RECORDS if name not in (*REFERENCE, WITHOUT_REPLICAS)]


class Record:
    """One recorded connection."""

    def __init__(self, name: str) -> None:
        record = json.loads((FOLDER / f"{name}.json").read_bytes())
        self.scenario = RECORDS[name]
        self.configs: list[dict[str, Any]] = [
            each["request"] for each in record["setup"] if ".STREAM.CREATE." in each["api"]
        ]
        self.lines = [(line["dir"], line["raw"].encode("latin-1")) for line in record["transcript"]]

    def frames(self, direction: str) -> list[Frame]:
        decoder = Decoder("client" if direction == "s2c" else "server")
        return [frame for where, raw in self.lines if where == direction for frame in decoder.feed(raw)]

    @property
    def info(self) -> ServerInfo:
        return next(ServerInfo.from_json(frame.raw) for frame in self.frames("s2c") if isinstance(frame, Info))

    def stamps(self) -> dict[int, int]:
        """The times of messages, by their sequences, as far as they are in the record."""
        found: dict[int, int] = {}
        for frame in self.frames("s2c"):
            if not isinstance(frame, Msg):
                continue
            head = re.search(rb"Nats-Sequence: (\d+)\r\nNats-Time-Stamp: (\S+)", frame.header or b"")
            if head is not None:
                found[int(head[1])] = parse_timestamp(head[2])
            elif b'"message":' in frame.payload:
                message = json.loads(frame.payload)["message"]
                found[message["seq"]] = parse_timestamp(message["time"])
        return found


class Replay:
    """A server that holds what the recorded one held, and the link of the record."""

    def __init__(self, record: Record) -> None:
        self.record = record
        info = record.info
        self.server = self.serve(info)
        self.stamps = record.stamps()
        self.epoch = min(self.stamps.values(), default=10**18) - 10_000
        self.stored = 0
        self.link = self.connect()
        self.decoder = Decoder("client")
        self.decoder.feed(b"".join(self.link.data_to_send()))
        other = self.server.connect(0.0)
        other.receive_data(encode_connect(b'{"headers":true}'), 0.0)
        for config in record.configs:
            self.ask(other, b"$JS.API.STREAM.CREATE.%b" % config["name"].encode(), json.dumps(config).encode())
        if record.configs:
            for subject, header, payload in BEFORE.get(record.scenario, SIX):
                self.prepare()
                self.server.publish_from(other, Pub(subject, None, header, payload), 0.0)

    def serve(self, info: ServerInfo) -> Server:
        """The server that answers."""
        return Server(token=b"token", domain=info.domain, release=info.version_tuple)

    def connect(self) -> Session:
        """The link of the record."""
        return self.server.connect(0.0)

    def prepare(self) -> None:
        """The next message gets its recorded time; one that is not in the record a time between."""
        self.stored += 1
        self.epoch = self.stamps.get(self.stored, self.epoch + 1)
        self.server.context.epoch = self.epoch

    def ask(self, link: ServerSession, subject: bytes, payload: bytes) -> None:
        self.server.publish_from(link, Pub(subject, b"nobody", None, payload), 0.0)

    def run(self) -> None:
        """Send what the client sent; after each frame the answers must be those of the record."""
        elsewhere = ELSEWHERE.get(self.record.scenario, {})
        asked = 0
        waiting: list[Frame] = []
        decoders = {"c2s": Decoder("server"), "s2c": Decoder("client")}
        for direction, raw in self.record.lines:
            for frame in decoders[direction].feed(raw):
                if direction == "s2c":
                    if not isinstance(frame, Info | Ping):
                        answer = self.by_chance(waiting.pop(0)) if asked > 1 else waiting.pop(0)
                        assert known(answer) == known(frame)
                    continue
                assert waiting == []
                if isinstance(frame, Pub):
                    asked += 1
                    if asked in elsewhere:
                        elsewhere[asked](self.server)
                    if not frame.subject.startswith(b"$JS.API."):
                        self.prepare()
                self.link.receive_data(raw, 0.0)
                waiting += self.decoder.feed(b"".join(self.link.data_to_send()))
        assert waiting == []

    def by_chance(self, frame: Frame) -> Frame:
        one, other = BY_CHANCE.get(self.record.scenario, (b"", b""))
        if isinstance(frame, Msg) and one and frame.header is not None:
            frame = Msg(frame.subject, frame.sid, frame.reply, frame.header.replace(one, other), frame.payload)
        return frame


def known(frame: Frame) -> object:
    """A frame without what is new every time, and without the blank that 2.11 writes into acknowledgements."""
    if isinstance(frame, Msg) and frame.payload.startswith(b'{"stream"'):
        return frame.subject, frame.sid, frame.reply, frame.header, frame.payload.replace(b', "seq"', b',"seq"')
    if isinstance(frame, Msg) and frame.payload.startswith(b'{"type"'):
        return frame.subject, frame.sid, frame.reply, frame.header, plain(json.loads(frame.payload))
    return frame


def plain(value: Any) -> Any:
    """JSON as lists of fields in their order, without what is new every time."""
    if not isinstance(value, dict):
        return value
    kept = [(name, plain(each)) for name, each in value.items() if name not in NEW_EVERY_TIME]
    if {"level", "total", "errors"} == value.keys():  # of the API of an account: how often it was asked
        kept = kept[:1]
    return kept


@requirement(108, case="direct-mirror_direct@2.15.1")
@requirement(112, case="direct-not_allowed.c0@2.15.1")
@requirement(118, case="direct-subject_appended@2.15.1")
@requirement(123, case="direct-batch_no_start@2.15.1")
@requirement(134, case="direct-multi_413@2.15.1")
@requirement(135, case="direct-multi_last_batch@2.15.1")
@requirement(135, case="direct-multi_up_to_seq@2.15.1")
@requirement(147, 148, case="direct-msg_get_api@2.15.1")
@requirement(243, 246, 247, 249, case="cons-persist_forms@2.15.1")
@requirement(248, case="cons-persist_update@2.15.1")
@requirement(250, case="cons-persist_level@2.15.1")
@promise("The mode cannot be switched on or off later", case="cons-persist_forms@2.15.1")
@pytest.mark.parametrize("name", REFERENCE)
def test_the_server_role_answers_as_the_reference(name: str) -> None:
    Replay(Record(name)).run()


@pytest.mark.parametrize("name", OLDER)
def test_the_server_role_answers_as_older_releases(name: str) -> None:
    Replay(Record(name)).run()


def test_every_recorded_scenario_is_replayed() -> None:
    assert len(REFERENCE) == 27
    assert {RECORDS[name] for name in REFERENCE} == set(RECORDS.values())
    assert {name.rpartition("@")[2] for name in OLDER} == {"2.11.11", "2.12.0", "2.12.8", "2.14.0", "2.14.6"}
    assert BEFORE.keys() | ELSEWHERE.keys() | BY_CHANCE.keys() <= set(RECORDS.values())
