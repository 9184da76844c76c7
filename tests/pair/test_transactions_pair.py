"""What a client meets that writes several keys at once: lost answers, late replicas, releases that guard wrongly."""

from __future__ import annotations

from typing import Any, Final

import pytest

from jsproto.api_errors import (
    AtomicPublishContainsDuplicateMessageError,
    StreamDuplicateMessageConflictError,
    StreamWrongLastSequenceConstantError,
    StreamWrongLastSequenceError,
)
from jsproto.client.publish.message import Message
from jsproto.errors import APIError, BatchLostError, BatchStalledError, ConnectionLostError
from jsproto.grammar.config import StreamConfig
from jsproto.server.server import Server
from jsproto.server.store.context import Release
from jsproto.testing import Fault, Network, NetworkConditions, Pair, StuckError, World, WrongGuards

DELAY: Final = 0.2
TOKEN: Final = bytes(16)


class Keys:
    """A client, and a stream of keys with history 1."""

    def __init__(self, conditions: NetworkConditions | None = None, replicas: int = 1, **options: Any) -> None:
        network = Network(1, conditions)
        self.pair = Pair(server=Server(token=TOKEN, bus=network.cluster, **options), network=network)
        self.pair.connect()
        config = StreamConfig(
            "S", subjects=["s.>"], max_msgs_per_subject=1, allow_atomic=True, num_replicas=replicas, storage="file",
        )  # fmt: skip
        self.pair.server.add_stream(config, self.pair.now)

    def ask(self, verb: str, *arguments: Any, **options: Any) -> Any:
        return self.pair.run_until(self.start(verb, *arguments, **options))

    def start(self, verb: str, *arguments: Any, **options: Any) -> Any:
        return getattr(self.pair.js, verb)(*arguments, now=self.pair.now, **options)

    def put(self, subject: str, last: int | None = None) -> int:
        seq: int = self.ask("publish", subject, b"x", expected_last_subject_seq=last).seq
        return seq

    @property
    def revisions(self) -> dict[str, int]:
        return {stored.subject.decode(): stored.seq for stored in self.pair.server.stream("S")}


def write(subject: str, last: int, msg_id: str | None = None) -> Message:
    options = {"Nats-Expected-Last-Subject-Sequence": str(last)} | ({} if msg_id is None else {"Nats-Msg-Id": msg_id})
    return subject, b"x", options


# -- the answer is lost ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("conditions", [NetworkConditions(), NetworkConditions(latency=0.01, jitter=0.02, piece=50)])
@pytest.mark.parametrize("ack_first", [False, True])
def test_a_batch_is_stored_and_its_answer_is_lost(conditions: NetworkConditions, ack_first: bool) -> None:
    keys = Keys(conditions)
    batch = [write("s.a", 0, "t1"), write("s.b", 0)]
    ticket = keys.start("publish_batch", batch, ack_first=ack_first)
    followers = list(keys.pair.server.stream("S").followers)
    assert keys.pair.lose_answer("S") == 2
    assert keys.pair.server.stream("S").followers == followers
    assert keys.revisions == {"s.a": 1, "s.b": 2}
    with pytest.raises(BatchLostError):
        keys.pair.run_until(ticket)
    with pytest.raises(AtomicPublishContainsDuplicateMessageError):
        keys.ask("publish_batch", batch)
    assert keys.ask("publish_batch", [write("s.a", 1), write("s.b", 2)]).seq == 4  # the fault is over


def test_a_plain_message_is_stored_and_its_answer_is_lost() -> None:
    keys = Keys(NetworkConditions(latency=0.01))
    ticket = keys.start("publish", "s.a", b"x", expected_last_subject_seq=0)
    assert keys.pair.lose_answer("S") == 1
    with pytest.raises(ConnectionLostError):
        keys.pair.run_until(ticket)
    with pytest.raises(StreamWrongLastSequenceError):
        keys.put("s.a", last=0)


def test_nothing_is_lost_where_nothing_is_stored() -> None:
    keys = Keys()
    with pytest.raises(StuckError):
        keys.pair.lose_answer("S")
    with pytest.raises(KeyError):
        keys.pair.lose_answer("T")
    assert keys.pair.is_linked
    with pytest.raises(StuckError, match="no link"):
        Pair().lose_answer("S")


def test_after_a_restart_the_id_of_an_overwritten_message_no_longer_tells() -> None:
    keys = Keys()
    blind: list[Message] = [("s.a", b"x", {"Nats-Msg-Id": "t1"}), ("s.b", b"x")]
    assert keys.ask("publish_batch", blind).seq == 2
    keys.put("s.a")
    with pytest.raises(AtomicPublishContainsDuplicateMessageError):
        keys.ask("publish_batch", blind)
    keys.pair.server.restart(keys.pair.now)
    keys.pair.connect()
    assert keys.ask("publish_batch", blind).seq == 5  # stored twice


# -- replicas agree late -----------------------------------------------------------------------------------------------


def late() -> Keys:
    return Keys(replicas=3, apply_delay=DELAY)


def test_two_writers_of_a_key_in_flight() -> None:
    keys = late()
    first = keys.start("publish", "s.a", b"x", expected_last_subject_seq=0)
    second = keys.start("publish", "s.a", b"x", expected_last_subject_seq=0)
    with pytest.raises(StreamWrongLastSequenceConstantError):
        keys.pair.run_until(second)
    assert keys.pair.run_until(first).seq == 1
    with pytest.raises(StreamWrongLastSequenceError):
        keys.put("s.a", last=0)
    assert keys.put("s.a", last=1) == 2


def test_two_batches_with_a_key_in_common() -> None:
    keys = late()
    first = keys.start("publish_batch", [write("s.a", 0), write("s.b", 0)], ack_first=False)
    second = keys.start("publish_batch", [write("s.c", 0), write("s.b", 0)], ack_first=False)
    with pytest.raises(StreamWrongLastSequenceConstantError):
        keys.pair.run_until(second)
    assert keys.pair.run_until(first).seq == 2
    assert keys.revisions == {"s.a": 1, "s.b": 2}


def test_an_id_in_flight_is_no_duplicate_yet() -> None:
    keys = late()
    first = keys.start("publish_batch", [write("s.a", 0, "t1")], ack_first=False)
    second = keys.start("publish_batch", [write("s.a", 0, "t1")], ack_first=False)
    with pytest.raises(StreamDuplicateMessageConflictError):
        keys.pair.run_until(second)
    assert keys.pair.run_until(first).seq == 1


def test_an_answer_that_is_lost_while_the_replicas_agree() -> None:
    keys = late()
    ticket = keys.start("publish_batch", [write("s.a", 0, "t1"), write("s.b", 0)], ack_first=False)
    assert keys.pair.lose_answer("S") == 2
    with pytest.raises(BatchLostError):
        keys.pair.run_until(ticket)
    with pytest.raises(AtomicPublishContainsDuplicateMessageError):
        keys.ask("publish_batch", [write("s.a", 0, "t1"), write("s.b", 0)])


def test_a_leader_that_is_lost_before_the_replicas_agree() -> None:
    keys = late()
    ticket = keys.start("publish_batch", [write("s.a", 0, "t1")], ack_first=False, ack_timeout=1.0)
    keys.pair.exchange()
    keys.pair.server.lose_leader("S")
    keys.pair.advance(DELAY)
    keys.pair.server.elect_leader("S", keys.pair.now)
    with pytest.raises(BatchStalledError):
        keys.pair.run_until(ticket)
    assert keys.revisions == {}
    assert keys.ask("publish_batch", [write("s.a", 0, "t1")]).seq == 1


def test_a_lag_that_ends_leaves_the_delay() -> None:
    server = Server(token=TOKEN, apply_delay=DELAY)
    server.add_stream(StreamConfig("S", subjects=["s.>"], num_replicas=3), 0.0)
    world = World(faults=[Fault("lag", 1.0, 1.0, amount=0.7)], server=server)
    lags = []
    for _ in range(3):
        lags.append({replica.lag.seconds for replica in server.replicas("S")})
        world.advance(1.0)
    assert lags == [{DELAY}, {0.7}, {DELAY}]


def test_the_same_seed_gives_the_same_bytes() -> None:
    def run() -> str:
        keys = Keys(NetworkConditions(latency=0.01, jitter=0.05), replicas=3, apply_delay=DELAY)
        tickets = [keys.start("publish", "s.a", b"x", expected_last_subject_seq=0) for _ in range(5)]
        for ticket in tickets:
            keys.pair.run(lambda ticket=ticket: ticket.done)  # type: ignore[misc]
        keys.pair.advance(1.0)
        assert keys.revisions == {"s.a": 1}
        return keys.pair.world.digest

    assert run() == run()


# -- guards of old releases --------------------------------------------------------------------------------------------


def mistakes(release: Release, seed: int = 5, probability: float = 1 / 128, tries: int = 200) -> tuple[int, int]:
    """Batches with eight guards: how many right ones are refused, and how many with one wrong guard are stored."""
    keys = Keys(release=release, wrong_guards=WrongGuards(seed, probability))
    for number in range(8):
        keys.put(f"s.{number}")
    refused = stored = 0
    for wrong in (False, True):
        for _ in range(tries):
            there = [(f"s.{number}", number + 1) for number in range(8)]
            absent = [(f"s.absent{number}", 0) for number in range(7)] + [("s.3", 0)]
            guards: list[Message] = [
                (f"s.w{index}", b"", {
                    "Nats-Expected-Last-Subject-Sequence": str(last),
                    "Nats-Expected-Last-Subject-Sequence-Subject": subject,
                })
                for index, (subject, last) in enumerate(absent if wrong else there)
            ]  # fmt: skip
            try:
                keys.ask("publish_batch", guards)
            except APIError:
                refused += not wrong
            else:
                stored += wrong
    return refused, stored


def test_a_release_before_2_14_4_is_wrong_now_and_then() -> None:
    """Real servers: 3 to 11 of 100 right ones refused, and 4 to 9 of 200 wrong ones stored."""
    refused, stored = mistakes((2, 14, 0))
    assert 10 < refused < 60
    assert 2 < stored < 25
    assert mistakes((2, 14, 0)) == (refused, stored)
    assert mistakes((2, 14, 0), seed=6) != (refused, stored)


@pytest.mark.parametrize(("release", "probability"), [((2, 14, 4), 1.0), ((2, 14, 0), 0.0)])
def test_a_newer_release_is_not(release: Release, probability: float) -> None:
    assert mistakes(release, probability=probability, tries=5) == (0, 0)
