"""Every recorded conversation, answered over a socket by the server that ``python -m jsproto_io.serve`` starts.

The replays are those of the server role in memory (``test_server_role*.py``). Here their bytes pass a real TCP socket,
and the role is a whole server with the options of the command. Batches are answered by streams alone there, and by
the whole server here: requests of the API and 503 included.

Not here: what happens to an option that is wrong (``tests/testing_io/test_serve_command.py``).
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Final, Literal, cast

import pytest

from jsproto.grammar.config import ServerInfo
from jsproto.server.inlet import StreamInlet
from jsproto.server.server import Server
from jsproto.wire.decoder import Decoder
from jsproto.wire.encoder import encode, encode_connect
from jsproto.wire.frames import Msg, Pub
from tests.marks import promise
from tests.transcripts import test_server_role as batches
from tests.transcripts import test_server_role_consuming as consuming
from tests.transcripts import test_server_role_direct as direct
from tests.transcripts import test_server_role_resets as resets
from tests.transcripts import test_server_role_sourcing as sourcing
from tests.transcripts.served import Link, Served
from tests.transcripts.test_transcripts import INDEX

pytestmark = pytest.mark.slow

IDENTITY: Final = re.compile(rb"(Nats-Stream-Source: [^\r]*) \w{8}(?=\r)")  # the last word stands for the stream
FLAGS: Final = {
    "atomic-abandoned_short": ["--limit", "idle=0.3"],
    "atomic-inflight_total": ["--limit", "atomic_total=2"],
}
RESET: Final = "source-reset_"
NAMES: Final = [entry["file"].removesuffix(".json") for entry in INDEX]
WORDS: Final = "source-reset_payloads@2.15.1"
# Where the role answers otherwise than the release.
CONSUMERS_DIFFER: Final = {
    WORDS: "the complaint about a body has the words of the program's JSON parser there",
    "sub-ack_double@2.12.0": "a pull that waits for nothing ends with 408 there when it got a part",
    "sub-ack_types@2.12.0": "the same",
    "sub-pull_404@2.12.0": "the same",
    "sub-pull_api_level@2.11.11": "a pull may require any level there",
    "sub-pull_bad@2.14.0": "the complaint names a type of the program there",
    "sub-create_endpoints@2.12.0": "the API refuses less there",
}
CONSUMERS: Final = [name for name in NAMES if name.startswith(("sub-", RESET)) and name not in CONSUMERS_DIFFER]
# What one server cannot answer, and why.
NOT_ANSWERED: Final = {
    **{name: "another client's, read in test_clients.py" for name in NAMES if name.startswith("client-")},
    "cluster-push_leader_change@2.15.1-R3": "its stream and its consumer were made before the record begins",
    "cluster-persist_async_r3@2.15.1-R3": "the answers name the replicas of a cluster",
}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """What a test has started, and ends with it."""
    with ExitStack() as started:
        yield started


def flags_for(info: ServerInfo) -> list[str]:
    """The flags by which the command answers as the recorded server."""
    domain = [] if info.domain is None else ["--domain", info.domain]
    return ["--release", ".".join(map(str, info.version_tuple)), *domain]


def over_a_socket(replay: Any, stack: ExitStack, epoch: int) -> type[Any]:
    """A replay whose server has a door."""

    class OverASocket(replay):  # type: ignore[misc]
        served: Served

        def serve(self, info: ServerInfo, ack_version: Literal[1, 2] = 1) -> Server:
            self.served = stack.enter_context(
                Served(["--ack-version", str(ack_version), *flags_for(info)], lambda: getattr(self, "now", 0.0))
            )
            self.served.role.context.epoch = epoch
            return self.served.role

        def connect(self) -> Link:
            return self.served.connect()

    return OverASocket


@promise("Recorded conversations of real servers are answered over a socket as they are in memory.")
@pytest.mark.parametrize("name", [*direct.REFERENCE, *direct.OLDER])
def test_reading_and_persistence(name: str, stack: ExitStack) -> None:
    over_a_socket(direct.Replay, stack, 0)(direct.Record(name)).run()


@promise("Recorded conversations of real servers are answered over a socket as they are in memory.")
@pytest.mark.parametrize("name", sourcing.ANSWERED, ids=lambda name: f"source-{name}")
def test_sources(name: str, stack: ExitStack) -> None:
    replay = over_a_socket(sourcing.Unordered, stack, consuming.EPOCH)
    replay(name, sourcing.RECORDED[name]).run(sourcing.ELSEWHERE.get(name.partition("@")[0], {}))


def replay_consumers(name: str, stack: ExitStack) -> None:
    """Replay a conversation about consumers or their resets."""
    scenario = name.partition("@")[0]
    replay = over_a_socket(consuming.Replay, stack, consuming.EPOCH)(scenario, f"{name}.json")
    if scenario.startswith(RESET):
        resets.run(replay, scenario.removeprefix(RESET))
    else:
        replay.run(consuming.ELSEWHERE.get(scenario, {}))


@promise("Recorded conversations of real servers are answered over a socket as they are in memory.")
@pytest.mark.parametrize("name", CONSUMERS)
def test_consumers(name: str, stack: ExitStack) -> None:
    replay_consumers(name, stack)


@pytest.mark.parametrize("name", CONSUMERS_DIFFER)
def test_what_differs_for_consumers_differs_still(name: str, stack: ExitStack) -> None:
    with pytest.raises(AssertionError):
        replay_consumers(name, stack)


class Publishers:
    """A server with a door, as the replays of batches want their streams (``batches.Server``)."""

    def __init__(self, info: ServerInfo, scenario: str, stack: ExitStack) -> None:
        self.now = 1000.0
        self.served = stack.enter_context(Served([*flags_for(info), *FLAGS.get(scenario, [])], lambda: self.now))
        self.role = self.served.role
        self.other = self.served.connect()
        self.other.receive_data(encode_connect(b'{"verbose":false,"headers":true}'), self.now)

    @property
    def inlets(self) -> dict[str, StreamInlet]:
        return self.role.api.streams

    def create(self, requests: list[dict[str, Any]]) -> None:
        for request in requests:
            if ".STREAM.CREATE." in request["api"]:
                self.take(Pub(request["api"].encode(), b"nobody", None, json.dumps(request["request"]).encode()))

    def take(self, pub: Pub) -> None:
        """Another client publishes."""
        self.other.receive_data(encode(pub), self.now)

    def store(self, subject: bytes) -> None:
        self.take(Pub(subject, None, None, b"before"))

    def wait(self) -> None:
        """Time passes until something is due."""
        due = self.role.deadline()
        assert due is not None, "nothing is ever due"
        self.now = max(self.now, due)


class Publisher(batches.Connection):
    """One recorded connection, replayed over a link of its own."""

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self.queues: defaultdict[bytes, deque[Msg]] = defaultdict(deque)
        self.decoder = Decoder("client")
        self.link: Link | None = None

    def run(self, server: Publishers, elsewhere: batches.Elsewhere, *, messages: int | None = None) -> None:
        """Go on to the end, or until this connection has published so many messages and heard the answers."""
        if self.link is None:
            self.link = server.served.connect()
        while self.at < len(self.lines):
            direction, frame = self.lines[self.at]
            if isinstance(frame, Pub):
                if self.published == messages:
                    return
                self.published += 1
                if self.published in elsewhere:
                    elsewhere[self.published](cast("Any", server), self.requests)
            if direction == "c2s":
                self.link.receive_data(encode(frame), server.now)
            elif isinstance(frame, Msg):
                self.expect(frame, server)
            self.at += 1
        self.read()
        assert not any(self.queues.values())

    def read(self) -> None:
        assert self.link is not None
        for frame in self.decoder.feed(b"".join(self.link.data_to_send())):
            if isinstance(frame, Msg):
                self.queues[frame.sid].append(frame)

    def expect(self, message: Msg, server: Publishers) -> None:
        self.read()
        while not (queue := self.queues[message.sid]):
            server.wait()
            self.read()
        assert whole(queue.popleft()) == whole(message)


def whole(message: Msg) -> tuple[object, ...]:
    """A message without what is new every time."""
    subject, sid, reply, header, payload = batches.known(message)
    assert isinstance(subject, bytes)
    if message.payload.startswith(b'{"type"') and not subject.startswith(b"$JS.EVENT."):
        payload = sourcing.stable(json.loads(message.payload))
        stored = payload.get("message", {})
        stored.pop("time", None)
        if "hdrs" in stored:
            stored["hdrs"] = IDENTITY.sub(rb"\1 ?", b64decode(stored["hdrs"]))
    elif message.payload.startswith(b'{"stream"'):
        payload = message.payload.replace(b', "', b',"')  # 2.11 writes a blank
    return subject, sid, reply, header, payload


def let_sources_copy(server: Publishers) -> None:
    """Time passes until the aggregate has what is in the stream."""
    while len(server.role.stream("AGG")) < len(server.role.stream("AB")):
        server.wait()
        server.other.data_to_send()


def store_a_thousand(server: Publishers) -> None:
    for _ in range(1000):
        server.store(b"ab.1")


# What others did, beside what ``batches.ELSEWHERE`` has.
ELSEWHERE: Final[dict[str, dict[int, Callable[[Any, Any], None]]]] = {
    "atomic-sourced_headers": {3: lambda server, _: let_sources_copy(server)},
    "atomic-too_large@2.11.11": {1: lambda server, _: store_a_thousand(server)},
}
RELEASES: Final = {match[3] for entry in INDEX if (match := batches.SCENARIO.fullmatch(entry["file"]))}
SCENARIOS: Final = batches.scenarios(*RELEASES, every=True)
# Where the role answers otherwise than a release that is not the reference.
DIFFERS: Final[dict[str, str]] = {
    "atomic-expected_last_msg_id@2.12.1": "a member that expects a message id is lost there (FACTS.md F1.14)",
    "atomic-expected_last_subj_seq@2.12.0": "an expected sequence of 0 always fails there (FACTS.md F1.29)",
    "atomic-sourced_headers@2.12.0": "an expected sequence of 0 always fails there (FACTS.md F1.29)",
    "atomic-sourced_headers@2.11.11": "copies keep headers that mean nothing there",
}


def replay(name: str, stack: ExitStack) -> None:
    connections = [Publisher(file) for file in SCENARIOS[name]]
    scenario = name.partition("@")[0]
    server = Publishers(connections[0].info, scenario, stack)
    server.create(connections[0].requests)
    if scenario == "fast-flow_ramp":  # the second publisher starts and ends while the first is there
        connections[0].run(server, {}, messages=1)
        connections.reverse()
    elsewhere = ELSEWHERE.get(name) or ELSEWHERE.get(scenario, batches.ELSEWHERE.get(scenario, {}))
    for connection in connections:
        connection.run(server, cast("batches.Elsewhere", elsewhere))


@promise("Recorded conversations of real servers are answered over a socket as they are in memory.")
@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in DIFFERS])
def test_batches(name: str, stack: ExitStack) -> None:
    replay(name, stack)


@pytest.mark.parametrize("name", DIFFERS)
def test_what_differs_in_an_older_release_differs_still(name: str, stack: ExitStack) -> None:
    with pytest.raises(AssertionError):
        replay(name, stack)


@promise("Recorded conversations of real servers are answered over a socket as they are in memory.")
def test_every_recorded_conversation_is_answered_or_explained() -> None:
    replayed = [
        *direct.REFERENCE, *direct.OLDER, direct.WITHOUT_REPLICAS, *CONSUMERS, *CONSUMERS_DIFFER,
        *(f"source-{name}" for name in (*sourcing.ANSWERED, *sourcing.DIFFERS)),
        *(file.removesuffix(".json") for files in SCENARIOS.values() for file in files), *NOT_ANSWERED,
    ]  # fmt: skip
    assert sorted(replayed) == sorted(NAMES)
    assert [name for name in (*DIFFERS, *CONSUMERS_DIFFER) if name.endswith("@2.15.1")] == [WORDS]
