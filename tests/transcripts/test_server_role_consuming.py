"""Recorded conversations about consumers, answered again by the server role: the same answers on each subscription.

What the client sent is fed to a whole server; what it answers must be what the real server answered, byte for byte,
times and what is random aside. Real servers answer from several threads, so only the order on each subscription is
compared (members of a queue group count as one). Time passes when an answer is waited for.

Beyond the record: messages that another connection published are stored when the record needs them; what else others
did, or how long the client waited, is in ``ELSEWHERE``. Where a record leaves out long messages and says only how many
they were, and how many bytes on the wire, so many of as many bytes must come.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

import pytest

from jsproto.errors import NotJSMessageError
from jsproto.grammar.config import ServerInfo, StreamConfig
from jsproto.grammar.headers import last_value
from jsproto.grammar.jsack import parse_jsack
from jsproto.server.server import Server
from jsproto.wire.decoder import Decoder
from jsproto.wire.encoder import encode, encode_msg
from jsproto.wire.frames import Frame, Info, Msg, Pub, Sub
from tests.marks import requirement
from tests.transcripts.test_transcripts import FOLDER, INDEX

MINE: Final = b"NATS/1.0\r\nX-Mine: 1\r\n\r\n"
EPOCH: Final = 1_795_208_700_000_000_000
SCENARIO: Final = re.compile(r"(sub-\w+)@2\.15\.1\.json")
FILES: Final = {match[1]: match[0] for entry in INDEX if (match := SCENARIO.fullmatch(entry["file"]))}


# How long messages are that others published, where that is not in the record.
SIZES: Final = {"sub-flow_control": 50_000}


@dataclass
class Elided:
    """Messages that the record leaves out: how many, and how many bytes they were on the wire."""

    count: int
    bytes: int


class Session(Protocol):
    """The server's end of a link, or what stands for it."""

    def receive_data(self, data: bytes, now: float) -> None: ...

    def data_to_send(self) -> list[bytes]: ...


class Replay:
    """A server, one recorded connection to it, and whoever else is there."""

    def __init__(self, scenario: str, file: str) -> None:
        record = json.loads((FOLDER / file).read_bytes())
        self.lines: list[tuple[str, Frame | Elided]] = [
            (line["was"], Elided(line["count"], line["bytes"]))
            if line["dir"] == "elided"
            else (line["dir"], self.frame(line["dir"], line["raw"]))
            for line in record["transcript"]
            if line.get("raw") or line["dir"] == "elided"
        ]
        info = next(ServerInfo.from_json(frame.raw) for _, frame in self.lines if isinstance(frame, Info))
        self.now = 1.0
        self.server = self.serve(info, 2 if "_v2_" in scenario else 1)
        for request in record["setup"]:
            if ".STREAM.CREATE." in request["api"]:
                self.server.add_stream(StreamConfig.from_json(request["request"]), self.now)
        self.session = self.connect()
        self.decoder = Decoder("client")
        self.received: defaultdict[bytes, deque[Msg]] = defaultdict(deque)
        self.groups: dict[bytes, bytes] = {}
        self.said: dict[bytes, bytes] = {}  # subjects of flow control and pins in the record, and ours
        self.size = SIZES.get(scenario, 102)
        self.later = [frame for direction, frame in self.lines if direction == "s2c" and isinstance(frame, Msg)]
        self.read()

    def serve(self, info: ServerInfo, ack_version: Literal[1, 2]) -> Server:
        """The server that answers."""
        return Server(
            token=b"t", domain=info.domain, epoch=EPOCH, ack_version=ack_version, release=info.version_tuple
        )  # fmt: skip

    def connect(self) -> Session:
        """The link of the recorded connection."""
        return self.server.connect(self.now)

    @staticmethod
    def frame(direction: str, raw: str) -> Frame:
        (frame,) = Decoder("client" if direction == "s2c" else "server").feed(raw.encode("latin-1"))
        return frame

    def read(self) -> None:
        for data in self.session.data_to_send():
            for frame in self.decoder.feed(data):
                if isinstance(frame, Msg):
                    self.received[self.groups.get(frame.sid, frame.sid)].append(frame)

    def wait(self) -> None:
        """Time passes until something is due."""
        when = self.server.deadline()
        assert when is not None, "nothing is ever due"
        self.now = max(self.now, when)
        self.server.handle_timeout(self.now)
        self.read()

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while (when := self.server.deadline()) is not None and when <= end:
            self.wait()
        self.now = end

    def store_up_to(self, seq: int) -> None:
        """Another connection publishes what the record has up to that sequence; of what it has not, anything."""
        for wanted in range(self.server.stream("S").last_seq + 1, seq + 1):
            found = [message for message in self.later if ack(message)[1:2] == (wanted,)]
            if found:
                with_header = b"X-Mine" in (found[0].header or b"")
                header, payload = (MINE, b"12345") if with_header else (None, found[0].payload)
                self.server.publish(found[0].subject.decode(), payload, None, header)
            else:
                self.server.publish("s.a", b"x" * self.size)
        self.server.handle_timeout(self.now)
        self.read()

    def prepare(self, number: int) -> None:
        """What the stream must hold before the client's line of that number, when a consumer of all is created."""
        frame = self.lines[number][1]
        if not isinstance(frame, Pub) or b".CONSUMER.CREATE.S" not in frame.subject:
            return
        answer = next(json.loads(message.payload) for message in self.later if message.subject == frame.reply)
        if "config" in answer and "filter_subject" not in answer["config"]:
            self.store_up_to(answer["delivered"]["stream_seq"] + answer["num_pending"])

    def run(self, elsewhere: Elsewhere) -> None:
        pubs = 0
        for number, (direction, frame) in enumerate(self.lines):
            if direction == "c2s":
                self.prepare(number)
                if isinstance(frame, Pub):
                    pubs += 1
                    if pubs in elsewhere:
                        elsewhere[pubs](self)
                if isinstance(frame, Sub) and frame.queue:
                    self.groups[frame.sid] = frame.queue
                if isinstance(frame, Elided):
                    self.publish(frame)
                else:
                    self.send(frame)
                if isinstance(frame, Pub) and -pubs in elsewhere:
                    elsewhere[-pubs](self)
            elif isinstance(frame, Msg):
                self.expect(frame)
            elif isinstance(frame, Elided):
                self.expect_elided(frame)
        if (at_the_end := elsewhere.get(0)) is not None:
            at_the_end(self)
        assert not any(self.received.values())

    def send(self, frame: Frame) -> None:
        self.session.receive_data(translated(frame, self.said), self.now)
        self.read()

    def publish(self, elided: Elided) -> None:
        """The client publishes what the record leaves out."""
        size, rest = divmod(elided.bytes, elided.count)
        message = encode(Pub(b"s.a", None, None, b"x" * (size - len(b"PUB s.a 12345\r\n\r\n"))))
        assert (len(message), rest) == (size, 0)
        for _ in range(elided.count):
            self.session.receive_data(message, self.now)
        self.read()

    def expect_elided(self, elided: Elided) -> None:
        """The push subscription gets what the record leaves out."""
        queue = self.received[b"6"]
        assert len(queue) >= elided.count
        messages = [queue.popleft() for _ in range(elided.count)]
        # While the client publishes, a real server may see some more of it pending when it delivers: a digit more.
        assert 0 <= elided.bytes - sum(map(wire_size, messages)) <= elided.count

    def expect(self, message: Msg) -> None:
        queue = self.received[self.groups.get(message.sid, message.sid)]
        numbers = ack(message)
        if numbers:
            self.store_up_to(numbers[1] + (numbers[3] if numbers[0] == 1 else 0))
        while not queue:
            self.wait()
        found = queue.popleft()
        if message.reply and message.reply.startswith(b"$JS.FC."):
            assert found.reply is not None
            assert len(found.reply) == len(message.reply)
            self.said[message.reply] = found.reply
        if (pin := last_value(message.header or b"", b"Nats-Pin-Id")) is not None:
            self.said.setdefault(pin, last_value(found.header or b"", b"Nats-Pin-Id") or b"")
        assert self.known(found, {}) == self.known(message, self.said)
        assert (found.sid == message.sid) or self.groups[found.sid] == self.groups[message.sid]

    def known(self, message: Msg, said: dict[bytes, bytes]) -> tuple[object, ...]:
        """A message without what is new every time."""
        payload: object = message.payload
        if message.payload.startswith(b"{"):
            payload = json.dumps(timeless(json.loads(message.payload)))
        reply = message.reply or b""
        header = message.header
        for recorded, ours in said.items():
            reply = reply.replace(recorded, ours)
            header = None if header is None else header.replace(recorded, ours)
        numbers = ack(message)
        return message.subject, (numbers or reply), reply.split(b".")[:-5] if numbers else None, header, payload


def translated(frame: Frame, said: dict[bytes, bytes]) -> bytes:
    """What the client sent, with our flow-control subjects and pins."""
    if isinstance(frame, Pub):
        payload = frame.payload
        for recorded, ours in said.items():
            payload = payload.replace(recorded, ours)
        frame = Pub(said.get(frame.subject, frame.subject), frame.reply, frame.header, payload)
    return encode(frame)


def wire_size(message: Msg) -> int:
    return len(encode_msg(message.subject, message.sid, message.reply, message.header, message.payload))


def ack(message: Msg) -> tuple[int, ...]:
    """Deliveries, stream sequence, consumer sequence, pending; nothing when it is no message of a consumer."""
    try:
        found = parse_jsack(message.reply or b"")
    except NotJSMessageError:
        return ()
    return found.num_delivered, found.sequence.stream, found.sequence.consumer, found.num_pending


def timeless(body: Any) -> Any:
    """A body without moments and what is random."""
    hidden = {"created", "ts", "timestamp", "id", "pause_remaining", "last_active", "pinned_id"}
    if not isinstance(body, dict):
        return body
    plain = {name: "?" if name in hidden else timeless(value) for name, value in body.items()}
    if "durable_name" not in plain.get("config", {}) and "name" not in plain.get("config", {}) and "name" in plain:
        plain["name"] = "?"
    return plain


Elsewhere = dict[int, Callable[[Replay], None]]


def delete_the_consumer(replay: Replay) -> None:
    replay.server.api.consumers.delete("S", "C", replay.now)
    replay.read()


def delete_the_stream(replay: Replay) -> None:
    replay.server.api.delete("S", replay.now)
    replay.read()


def publish_one_by_one(replay: Replay) -> None:
    for seq in range(1, 23):
        replay.store_up_to(seq)


def consumer_is_gone(replay: Replay) -> None:
    assert "EPH" in replay.server.api.streams["S"].consumers
    replay.advance(0.3)
    assert replay.server.api.streams["S"].consumers == {}


# What others did, or how long the client waited, by the number of the published message before which it happened; with
# a minus, after which; 0 is the end.
ELSEWHERE: Final[dict[str, Elsewhere]] = {
    "sub-ack_types": {12: lambda replay: replay.advance(0.7)},
    "sub-nak_forms": {10: lambda replay: replay.advance(0.6)},
    "sub-pull_unsub": {3: lambda replay: replay.store_up_to(1)},
    "sub-ephemeral_inactive": {0: consumer_is_gone},
    "sub-flow_control": {-1: publish_one_by_one},
    "sub-pull_409_deleted": {-2: delete_the_consumer, -4: delete_the_stream},
}


@requirement(234, case="sub-heartbeat_small@2.15.1")
@pytest.mark.parametrize("scenario", FILES, ids=lambda scenario: f"{scenario}@2.15.1")
def test_the_server_role_answers_as_the_reference(scenario: str) -> None:
    Replay(scenario, FILES[scenario]).run(ELSEWHERE.get(scenario, {}))


def test_every_recorded_scenario_is_replayed() -> None:
    assert len(FILES) == 35
    assert ELSEWHERE.keys() | SIZES.keys() <= FILES.keys()
