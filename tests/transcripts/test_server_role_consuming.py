"""Recorded conversations about consumers, answered again by the server role: the same answers on each subscription.

What the client sent is fed to a whole server; what it answers must be what the real server answered, byte for byte,
times and what is random aside. Real servers answer from several threads, so only the order on each subscription is
compared (members of a queue group count as one). Time passes when an answer is waited for.

Beyond the record: messages that another connection published are stored when the record needs them; what else others
did, or how long the client waited, is in ``ELSEWHERE``.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any, Final

import pytest

from jsproto.errors import NotJSMessageError
from jsproto.grammar.config import ServerInfo, StreamConfig
from jsproto.grammar.jsack import parse_jsack
from jsproto.server.server import Server
from jsproto.wire.decoder import Decoder
from jsproto.wire.encoder import encode
from jsproto.wire.frames import Frame, Info, Msg, Pub, Sub
from tests.transcripts.test_transcripts import FOLDER, INDEX

EPOCH: Final = 1_795_208_700_000_000_000
SCENARIO: Final = re.compile(r"(sub-\w+)@2\.15\.1\.json")
# What is not replayed here, and why.
NOT_REPLAYED: Final = {
    "sub-flow_control": "the messages are not in the record: tested below by their sizes",
    "sub-flow_control_stalled": "the messages are not in the record: tested below by their sizes",
    "sub-priority_pinned": "pinned clients are not part of the server role",
}
FILES: Final = {
    match[1]: match[0]
    for entry in INDEX
    if (match := SCENARIO.fullmatch(entry["file"])) and match[1] not in NOT_REPLAYED
}


class Replay:
    """A server, one recorded connection to it, and whoever else is there."""

    def __init__(self, scenario: str, file: str) -> None:
        record = json.loads((FOLDER / file).read_bytes())
        self.lines: list[tuple[str, Frame]] = [
            (line["dir"], self.frame(line["dir"], line["raw"])) for line in record["transcript"] if line.get("raw")
        ]
        info = next(ServerInfo.from_json(frame.raw) for _, frame in self.lines if isinstance(frame, Info))
        self.server = Server(
            token=b"t", domain=info.domain, epoch=EPOCH, ack_version=2 if "_v2_" in scenario else 1
        )  # fmt: skip
        self.now = 1.0
        for request in record["setup"]:
            if ".STREAM.CREATE." in request["api"]:
                self.server.add_stream(StreamConfig.from_json(request["request"]), self.now)
        self.session = self.server.connect(self.now)
        self.decoder = Decoder("client")
        self.received: defaultdict[bytes, deque[Msg]] = defaultdict(deque)
        self.groups: dict[bytes, bytes] = {}
        self.said: dict[bytes, bytes] = {}  # subjects of flow control in the record, and ours
        self.later = [frame for direction, frame in self.lines if direction == "s2c" and isinstance(frame, Msg)]
        self.read()

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
                header = b"NATS/1.0\r\nX-Mine: 1\r\n\r\n" if found[0].header else None
                payload = found[0].payload if header is None else b"12345"
                self.server.publish(found[0].subject.decode(), payload, None, header)
            else:
                self.server.publish("s.a", b"x" * 102)
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
                self.send(frame)
                if isinstance(frame, Pub) and -pubs in elsewhere:
                    elsewhere[-pubs](self)
            elif isinstance(frame, Msg):
                self.expect(frame)
        if (at_the_end := elsewhere.get(0)) is not None:
            at_the_end(self)
        assert not any(self.received.values())

    def send(self, frame: Frame) -> None:
        self.session.receive_data(translated(frame, self.said), self.now)
        self.read()

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
    """What the client sent, to our flow-control subjects."""
    if isinstance(frame, Pub) and frame.subject in said:
        frame = Pub(said[frame.subject], frame.reply, frame.header, frame.payload)
    return encode(frame)


def ack(message: Msg) -> tuple[int, ...]:
    """Delivered, stream sequence, consumer sequence, pending; nothing when it is no message of a consumer."""
    try:
        found = parse_jsack(message.reply or b"")
    except NotJSMessageError:
        return ()
    return found.num_delivered, found.sequence.stream, found.sequence.consumer, found.num_pending


def timeless(body: Any) -> Any:
    """A body without moments and what is random."""
    hidden = {"created", "ts", "timestamp", "id", "pause_remaining", "last_active"}
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
    "sub-pull_409_deleted": {-2: delete_the_consumer, -4: delete_the_stream},
}


@pytest.mark.parametrize("scenario", FILES, ids=lambda scenario: f"{scenario}@2.15.1")
def test_the_server_role_answers_as_the_reference(scenario: str) -> None:
    Replay(scenario, FILES[scenario]).run(ELSEWHERE.get(scenario, {}))


def test_every_recorded_scenario_is_replayed_or_explained() -> None:
    recorded = {match[1] for entry in INDEX if (match := SCENARIO.fullmatch(entry["file"]))}
    assert recorded == FILES.keys() | NOT_REPLAYED.keys()
    assert len(FILES) == 32
    assert ELSEWHERE.keys() <= FILES.keys()


def sizes(replay: Replay) -> list[int | str]:
    """What arrived on the push subscription: messages that follow each other as their number, the rest in words."""
    found: list[int | str] = []
    replay.read()
    for message in replay.received.pop(b"6", ()):
        if message.header is None:
            last = found.pop() if found and isinstance(found[-1], int) else 0
            assert isinstance(last, int)
            found.append(last + 1)
        elif message.reply:
            replay.said[b"asked"] = message.reply
            found.append("asked")
        else:
            assert message.header.endswith(b"Nats-Consumer-Stalled: %b\r\n\r\n" % replay.said[b"asked"])
            found.append("stalled")
    return found


@pytest.mark.parametrize(
    ("scenario", "size", "count", "expected"),
    [
        # 21 messages, then the question; what follows fits into the window.
        ("sub-flow_control", 50_000, 22, [[21, "asked", 1], []]),
        # After 18 messages the question, after 35 nothing more; answered, 18 more, the next question and the rest.
        ("sub-flow_control_stalled", 60_000, 60, [[18, "asked", 17, "stalled"], [18, "asked", 7]]),
    ],
)
def test_flow_control_comes_when_the_reference_sends_it(
    scenario: str, size: int, count: int, expected: list[list[int | str]]
) -> None:
    replay = Replay(scenario, f"{scenario}@2.15.1.json")
    for direction, frame in replay.lines[:7]:
        if direction == "c2s":
            replay.send(frame)
    for _ in range(count):
        replay.server.publish("s.a", b"x" * size)
        replay.server.handle_timeout(replay.now)
    if "stalled" in expected[0]:
        replay.advance(0.3)
    assert sizes(replay) == expected[0]
    replay.send(Pub(replay.said[b"asked"], None, None, b""))
    assert sizes(replay) == expected[1]
