"""Recorded conversations about batches, answered again by the server role: the same answers, in the same order.

The frames that clients sent are fed to streams that were made as in the record; what the streams answer must be what
the real server answered, byte for byte, ids and times of advisories aside. Time passes when an answer is waited for.

Beyond the record: what other connections did is in ``ELSEWHERE``. Not answered here, because a stream does not see it:
``503`` for subjects that no stream has (the session's answer), and requests of the JetStream API.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable
from itertools import groupby
from typing import Any, Final

import pytest

from jsproto.errors import APIError
from jsproto.grammar.acks import encode_error_ack
from jsproto.grammar.config import ServerInfo, StreamConfig
from jsproto.grammar.headers import appended, first_value, status_line
from jsproto.grammar.subjects import check_subject, matches
from jsproto.server.inlet import StreamInlet
from jsproto.server.replication.copied import copied
from jsproto.server.store.context import BatchLimits, ServerContext
from jsproto.server.store.settings import accept, change
from jsproto.server.store.stream import Publication, Stored, Stream
from jsproto.wire.decoder import Decoder
from jsproto.wire.frames import Frame, Info, Msg, Pub, Sub
from tests.marks import known_fault, promise, requirement
from tests.server.harness import Answered
from tests.transcripts.test_transcripts import FOLDER, INDEX

LIMITS: Final = {
    "atomic-abandoned_short": BatchLimits(idle=0.3),
    "atomic-inflight_total": BatchLimits(atomic_total=2),
}
# What is not a matter of streams, and who does it.
NOT_STREAMS: Final = {
    "atomic-create_config": "the API: tested below as configurations",
    "atomic-mirror_refused": "the API: tested below as configurations",
    "cluster-fast_500": "no message is in the record",
}
API: Final = b"$JS.API."
SCENARIO: Final = re.compile(r"((?:atomic|fast|cluster-atomic|cluster-fast)[-_]\w+)(?:\.c(\d+))?@(\S+)\.json")


def scenarios(*releases: str, every: bool = False) -> dict[str, list[str]]:
    """The recorded scenarios, each with the files of its connections in their order.

    ``every``: with those that a stream does not see.
    """
    found = [match for entry in INDEX if (match := SCENARIO.fullmatch(entry["file"])) and match[3] in releases]
    found.sort(key=lambda match: (match[1], match[3], int(match[2] or 0)))
    return {
        f"{name}@{release}": [match[0] for match in files]
        for (name, release), files in groupby(found, lambda match: (match[1], match[3]))
        if every or name not in NOT_STREAMS
    }


class Server(Answered):
    """Streams, and connections that publish to them; an outbox that delivers to the connections' subscriptions."""

    def __init__(self, context: ServerContext, requests: list[dict[str, Any]]) -> None:
        super().__init__()
        self.context = context
        self.now = 1000.0
        self.subs: list[tuple[str, bytes, list[Msg]]] = []
        self.inlets: dict[str, StreamInlet] = {}
        for request in requests:
            if ".STREAM.CREATE." in request["api"]:
                stream = Stream(StreamConfig.from_json(request["request"]), context, self.now)
                self.inlets[stream.config.name] = StreamInlet(stream, context, self)

    def publish(self, subject: str, payload: bytes, reply: bytes | None = None, headers: bytes | None = None) -> None:
        raw = check_subject(subject)
        for pattern, sid, received in self.subs:
            if matches(pattern, subject):
                received.append(Msg(raw, sid, reply, headers, payload))

    def take(self, pub: Pub) -> None:
        """A message for whichever stream has its subject."""
        for inlet in self.inlets.values():
            if any(matches(pattern, pub.subject.decode()) for pattern in inlet.stream.config.subjects or ()):
                inlet.receive(Msg(pub.subject, b"", pub.reply, pub.header, pub.payload), self.now)

    def wait(self) -> None:
        """Time passes until something is due."""
        due = [deadline for inlet in self.inlets.values() if (deadline := inlet.deadline()) is not None]
        assert due, "nothing is ever due"
        self.now = min(due)
        for inlet in self.inlets.values():
            inlet.handle_timeout(self.now)

    def store(self, subject: bytes) -> None:
        self.take(Pub(subject, None, None, b"before"))


Elsewhere = dict[int, Callable[[Server, list[dict[str, Any]]], None]]


def open_fifty(server: Server, requests: list[dict[str, Any]]) -> None:
    for number in range(50):
        header = b"NATS/1.0\r\nNats-Batch-Id: in%d\r\nNats-Batch-Sequence: 1\r\n\r\n" % number
        server.take(Pub(b"ab.1", None, header, b"one"))


def update(number: int) -> Callable[[Server, list[dict[str, Any]]], None]:
    return lambda server, requests: server.inlets["FI"].update(StreamConfig.from_json(requests[number]["request"]))


# What others did, by the number of the published message before which they did it.
ELSEWHERE: Final[dict[str, Elsewhere]] = {
    "atomic-expected_last_seq": {1: lambda server, _: server.store(b"ab.1")},
    "atomic-expected_last_subj_seq": {1: lambda server, _: server.store(b"ab.a")},
    "atomic-inflight_50": {1: open_fifty},
    "fast-disable_midway": {2: update(1), 3: update(2)},
    "cluster-atomic_leader_change": {2: lambda server, _: server.inlets["AB"].lead(server.now)},
    "cluster-fast_leader_change_ok": {3: lambda server, _: server.inlets["FI"].lead(server.now)},
    "cluster-fast_leader_change_fail": {3: lambda server, _: server.inlets["FI"].lead(server.now)},
}


class Connection:
    """One recorded connection, replayed line by line."""

    def __init__(self, file: str) -> None:
        record = json.loads((FOLDER / file).read_bytes())
        self.requests: list[dict[str, Any]] = record["setup"]
        self.lines = [
            (line["dir"], self._frame(line["dir"], line["raw"])) for line in record["transcript"] if "raw" in line
        ]
        self.received: list[Msg] = []
        self.published = 0
        self.at = 0

    @staticmethod
    def _frame(direction: str, raw: str) -> Frame:
        (frame,) = Decoder("client" if direction == "s2c" else "server").feed(raw.encode("latin-1"))
        return frame

    @property
    def info(self) -> ServerInfo:
        return next(ServerInfo.from_json(frame.raw) for _, frame in self.lines if isinstance(frame, Info))

    def replay(self, server: Server, elsewhere: Elsewhere, *, messages: int | None = None) -> None:
        """Go on to the end, or until this connection has published so many messages and heard the answers."""
        while self.at < len(self.lines):
            direction, frame = self.lines[self.at]
            if isinstance(frame, Pub):
                if self.published == messages:
                    return
                self.published += 1
                if self.published in elsewhere:
                    elsewhere[self.published](server, self.requests)
            if direction == "c2s":
                self.send(server, frame)
            elif isinstance(frame, Msg) and not self.is_elsewhere(frame):
                if not self.received:
                    server.wait()
                assert known(self.received.pop(0)) == known(frame)
            self.at += 1
        assert self.received == []

    def send(self, server: Server, frame: Frame) -> None:
        if isinstance(frame, Sub):
            server.subs.append((frame.subject.decode(), frame.sid, self.received))
        elif isinstance(frame, Pub) and not frame.subject.startswith(API):
            server.take(frame)

    def is_elsewhere(self, message: Msg) -> bool:
        """Whether the answer is the session's or the API's."""
        if message.header is not None:
            assert status_line(message.header) == (503, "")
            return True
        requests = [frame.reply for _, frame in self.lines if isinstance(frame, Pub) and frame.subject.startswith(API)]
        return message.subject in requests


def known(message: Msg) -> tuple[object, ...]:
    """A message without what is new every time."""
    payload: object = message.payload
    if message.subject.startswith(b"$JS.EVENT.ADVISORY."):
        payload = json.loads(message.payload) | {"id": None, "timestamp": None}
        assert list(json.loads(message.payload)) == list(payload)  # type: ignore[call-overload]
    return message.subject, message.sid, message.reply or None, message.header, payload


def replay(name: str, files: list[str]) -> Server:
    connections = [Connection(file) for file in files]
    scenario = name.partition("@")[0]
    info = connections[0].info
    context = ServerContext(
        b"token", LIMITS.get(scenario, BatchLimits()), domain=info.domain, release=info.version_tuple,
        api_level=info.api_lvl or 0,
    )  # fmt: skip
    server = Server(context, connections[0].requests)
    if scenario == "fast-flow_ramp":  # the second publisher starts and ends while the first is there
        connections[0].replay(server, {}, messages=1)
        connections.reverse()
    for connection in connections:
        connection.replay(server, ELSEWHERE.get(scenario, {}))
    return server


REFERENCE: Final = scenarios("2.15.1", "2.15.1-R3")
OLDER: Final = {
    name: files
    for name, files in scenarios("2.12.8", "2.14.0", "2.14.4", "2.14.6").items()
    if name.startswith(("fast-", "atomic-kv_"))
}


@requirement(2, case="atomic-id_too_long@2.15.1")
@requirement(5, 29, case="atomic-commit1@2.15.1")
@requirement(10, case="atomic-not_enabled@2.15.1")
@requirement(21, case="atomic-unknown_batch@2.15.1")
@requirement(22, case="atomic-gap@2.15.1")
@requirement(23, 25, case="atomic-expected_last_seq@2.15.1")
@requirement(26, case="atomic-expected_last_subj_seq@2.15.1")
@requirement(27, case="atomic-abandoned@2.15.1")
@requirement(33, case="atomic-inflight_50@2.15.1")
@requirement(34, case="atomic-inflight_total@2.15.1")
@requirement(35, case="atomic-too_large@2.15.1")
@requirement(37, case="atomic-expected_last_msg_id@2.15.1")
@requirement(38, case="atomic-msg_id@2.15.1")
@requirement(46, case="fast-id_length@2.15.1")
@requirement(47, 48, 64, case="fast-bad_pattern@2.15.1")
@requirement(49, case="fast-commit_store@2.15.1")
@requirement(50, case="fast-eob_first@2.15.1")
@requirement(51, 58, case="fast-ping@2.15.1")
@requirement(52, case="fast-unknown_op@2.15.1")
@requirement(54, case="fast-flow_one@2.15.1")
@requirement(61, case="fast-flow_ramp@2.15.1")
@requirement(62, case="fast-flow_values@2.15.1")
@requirement(63, 65, 69, case="fast-gap_ok@2.15.1")
@requirement(63, case="fast-gap_fail@2.15.1")
@requirement(70, case="cluster-fast_leader_change_fail@2.15.1-R3")
@requirement(71, case="cluster-fast_leader_change_ok@2.15.1-R3")
@requirement(73, case="fast-err_fail@2.15.1")
@requirement(74, case="fast-err_ok@2.15.1")
@requirement(75, 89, case="fast-err_first@2.15.1")
@requirement(87, 101, case="fast-persist_async@2.15.1")
@requirement(88, case="fast-msg_id@2.15.1")
@requirement(100, case="fast-disable_midway@2.15.1")
@requirement(106, case="atomic-sourced_headers@2.15.1")
@known_fault("a gap is told with the wrong numbers", case="fast-gap_ok@2.15.1")
@known_fault("a refused message ends the batch in mode ok", case="fast-err_ok@2.15.1")
@pytest.mark.parametrize("name", REFERENCE)
def test_the_server_role_answers_as_the_reference(name: str) -> None:
    replay(name, REFERENCE[name])


@pytest.mark.parametrize("name", OLDER)
def test_the_server_role_answers_as_older_releases(name: str) -> None:
    replay(name, OLDER[name])


def test_every_recorded_scenario_is_replayed_or_explained() -> None:
    replayed = {name.partition("@")[0] for name in REFERENCE}
    recorded = {
        match[1] for entry in INDEX if (match := SCENARIO.fullmatch(entry["file"])) and match[3].startswith("2.15.1")
    }
    assert recorded == replayed | NOT_STREAMS.keys()
    assert len(replayed) == 69
    assert ELSEWHERE.keys() | LIMITS.keys() <= replayed


def requests_and_answers(file: str) -> list[tuple[bytes, dict[str, Any], dict[str, Any]]]:
    """Requests that create or update a stream, and their answers."""
    lines = Connection(file).lines
    pubs = [frame for _, frame in lines if isinstance(frame, Pub)]
    answers = {frame.subject: json.loads(frame.payload) for _, frame in lines if isinstance(frame, Msg)}
    return [
        (pub.subject, json.loads(pub.payload), answers[pub.reply])
        for pub in pubs
        if pub.reply and re.search(rb"STREAM\.(CREATE|UPDATE)\.", pub.subject)
    ]


@promise('They never say ``"default"`` back')
def test_what_servers_make_of_a_configuration() -> None:
    context = ServerContext(b"token")
    made: dict[str, StreamConfig] = {}
    exchanges = requests_and_answers("atomic-create_config@2.15.1.json")
    for subject, request, answer in exchanges:
        config = StreamConfig.from_json(request)
        if b".UPDATE." in subject:
            made[config.name] = change(made[config.name], config, context)
        else:
            made[config.name] = accept(config, context)
        assert made[config.name].to_json() == answer["config"]
    assert len(exchanges) == 4


@requirement(32, 101, 105)
@pytest.mark.parametrize("file", ["atomic-mirror_refused@2.15.1.json", "cons-persist_forms@2.15.1.json"])
def test_what_servers_refuse(file: str) -> None:
    refused = 0
    for subject, request, answer in requests_and_answers(file):
        error = answer.get("error")
        if b".STREAM.CREATE." not in subject or error is None or error["err_code"] in (10025, 10185):
            continue
        with pytest.raises(APIError) as caught:
            accept(StreamConfig.from_json(request), ServerContext(b"token"))
        assert json.loads(encode_error_ack(caught.value, "S"))["error"] == error
        refused += 1
    assert refused >= 2


@requirement(106)
def test_what_mirrors_and_sources_keep_of_a_batch() -> None:
    """Recorded: both members as a mirror and as an aggregate have them."""
    (files,) = (files for name, files in REFERENCE.items() if name.startswith("atomic-sourced_headers"))
    server = replay("atomic-sourced_headers@2.15.1", files)
    lines = Connection(files[0]).lines
    answers = [json.loads(frame.payload) for _, frame in lines if isinstance(frame, Msg) and frame.payload[:2] == b'{"']
    copies = [answer["message"] for answer in answers if "message" in answer]
    stored = list(server.inlets["AB"].stream)
    assert len(copies) == 2 * len(stored) == 4
    for message, mirrored, sourced in zip(stored, copies[:2], copies[2:], strict=True):
        copy = copied(message)
        assert copy.header == (b64decode(mirrored["hdrs"]) if "hdrs" in mirrored else None)
        recorded = b64decode(sourced["hdrs"])
        origin = first_value(recorded, b"Nats-Stream-Source")
        assert origin is not None
        assert origin.startswith(b"AB %d > > %b " % (message.seq, message.subject))
        assert appended(copy.header, b"Nats-Stream-Source", origin) == recorded
        assert copy.payload == b64decode(mirrored["data"]) == b64decode(sourced["data"])
    assert copied(Stored(1, b"s", None, b"x", 0, 0.0)) == Publication(b"s", None, b"x")
