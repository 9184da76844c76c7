"""Direct Get between both roles: pages, bad conditions behind the socket, lost links, copies that lag."""

from __future__ import annotations

from typing import Any, Final

import pytest

from jsproto.client.connection.connect_options import connect_options
from jsproto.client.read.direct import DirectBatch
from jsproto.client.read.single import ReadLevel
from jsproto.client.read.snapshot import Snapshot
from jsproto.errors import (
    Error,
    IncompleteBatchError,
    MessageNotFoundError,
    NoRespondersError,
    SnapshotError,
    StatusError,
)
from jsproto.grammar.api import decode_response
from jsproto.grammar.config import StreamConfig, StreamOptions
from jsproto.grammar.stored import StoredMsg, number
from jsproto.server.replication.replicas import Lag
from jsproto.testing.network import Network, NetworkConditions
from jsproto.testing.pair import Pair
from tests.effort import first
from tests.marks import promise, requirement
from tests.server.harness import config

COUNT: Final = 120
LEVELS: Final[tuple[ReadLevel, ...]] = ("direct", "leader")
ROUGH: Final = NetworkConditions(latency=0.01, jitter=0.02, piece=50)


def filled(conditions: NetworkConditions | None = None, seed: int = 1, **options: Any) -> Pair:
    """A pair whose stream S in memory has ``COUNT`` messages, the numbers from 1 on."""
    pair = Pair(connect_options(max_reconnect_attempts=-1), network=Network(seed, ROUGH))
    changes: StreamOptions = {"allow_direct": True, **options}  # type: ignore[typeddict-item]
    pair.server.add_stream(config(changes), 0.0)
    pair.connect()
    for sequence in range(1, COUNT + 1):
        pair.server.publish(f"s.{sequence % 3}", b"%d" % sequence)
    pair.server.handle_timeout(pair.now)
    pair.run(lambda: pair.server.stream("S").last_seq == COUNT)
    pair.network.cluster.conditions = conditions or ROUGH
    return pair


def read(pair: Pair, batch: DirectBatch | Snapshot) -> list[StoredMsg]:
    """All that it reads; raises what broke it off, with what was read before in ``args[-1]``."""
    messages: list[StoredMsg] = []
    while True:
        try:
            pair.run_until(batch.readable())
        except Error as error:
            error.args = (*error.args, messages)
            raise
        more = batch.pop_many(7, pair.now)
        if not more and batch.finished:
            return messages
        messages += more


@promise("What was deleted inside the range is passed over.")
def test_reading_page_by_page_over_deleted_messages() -> None:
    pair = filled()
    for sequence in (1, 5, 6, 60, COUNT):
        pair.server.stream("S").remove(sequence)
    left = [stored.seq for stored in pair.server.stream("S")]
    messages = read(pair, pair.js.get_batch("S", now=pair.now, max_bytes=200))
    assert [message.seq for message in messages] == left
    assert [message.data for message in messages] == [b"%d" % sequence for sequence in left]
    some = read(pair, pair.js.get_batch("S", now=pair.now, seq=50, subject="s.1", batch=5))
    assert [message.seq for message in some] == [52, 55, 58, 61, 64]
    assert read(pair, pair.js.get_batch("S", now=pair.now, subject="s.nothing")) == []


@promise("what is in the stream all the time is not left out")
@promise("`get_batch`, `get_last_msgs_for` and `snapshot` read the stream itself.")
@pytest.mark.parametrize("seed", first(range(8), 2))
def test_messages_that_get_lost_doubled_and_overtaken_are_never_missing_silently(seed: int) -> None:
    """Everything comes, once and in order; or the beginning of it, and an error."""
    conditions = NetworkConditions(latency=0.001, jitter=0.003, loss=0.03, duplication=0.03, reordering=0.03)
    pair = filled(conditions, seed)
    try:
        messages = read(pair, pair.js.get_batch("S", now=pair.now, timeout=1.0))
    except (IncompleteBatchError, StatusError) as error:
        messages = error.args[-1]
    else:
        assert len(messages) == COUNT
    assert [message.seq for message in messages] == list(range(1, len(messages) + 1))
    assert pair.network.cluster.lost
    assert pair.network.cluster.doubled


def test_a_link_that_is_lost_in_the_middle_of_a_page() -> None:
    pair = filled()
    batch = pair.js.get_batch("S", now=pair.now)
    pair.run_until(batch.readable())
    messages = batch.pop_many(3, pair.now)
    assert messages
    assert not batch.finished
    pair.lose_link()
    messages += read(pair, batch)
    assert [message.seq for message in messages] == list(range(1, COUNT + 1))


@requirement(112)
def test_nobody_answers_for_a_stream_that_does_not_allow_it() -> None:
    pair = filled(allow_direct=False)
    with pytest.raises(NoRespondersError, match="allow_direct"):
        read(pair, pair.js.get_batch("S", now=pair.now))


def test_pages_from_copies_that_lag_are_never_out_of_order() -> None:
    pair = filled(num_replicas=3)
    for behind, replica in enumerate(pair.server.replicas("S"), 1):
        replica.lag = Lag(messages=10 * behind)
    for sequence in range(COUNT + 1, COUNT + 41):
        pair.run_until(pair.js.publish("s.1", b"%d" % sequence, now=pair.now))
    try:
        messages = read(pair, pair.js.get_batch("S", now=pair.now, max_bytes=100, timeout=1.0))
    except IncompleteBatchError as error:
        messages = error.args[-1]
    assert [message.seq for message in messages] == list(range(1, len(messages) + 1))
    assert len(messages) >= COUNT


# -- what a client reads behind its own writes -------------------------------------------------------------------------


def last(pair: Pair, stream: str = "S") -> int:
    """The last sequence of a subject, as any copy of ``stream`` has it."""
    asked = pair.client.request(f"$JS.API.DIRECT.GET.{stream}.s.a", now=pair.now)
    return number(pair.run_until(asked).header or b"", b"Nats-Sequence") or 0


def written_and_read(pair: Pair, stream: str = "S", count: int = 50) -> list[int]:
    """How far each read was behind the write before it, after a few that let the copies fall behind."""
    for _ in range(8):
        pair.run_until(pair.js.publish("s.a", b"x", now=pair.now))
    behind = []
    for _ in range(count):
        ack = pair.run_until(pair.js.publish("s.a", b"x", now=pair.now))
        behind.append(ack.seq - last(pair, stream))
    return behind


@requirement(147, 252)
@promise("what was acknowledged, except right after a change of leaders or while the network is split")
@promise("what the answering replica or mirror holds: the last writes may be missing")
@promise('`"direct"` is quick: a replica answers')
@promise("all that was acknowledged, except right after a change of leaders or while the network is split")
def test_stale_reads_at_will() -> None:
    pair = filled(num_replicas=3)
    assert set(written_and_read(pair)) == {0}
    one, other = pair.server.replicas("S")
    one.lag = Lag(messages=2)
    other.lag = Lag(messages=5)
    assert set(written_and_read(pair)) == {0, 2, 5}
    asked = pair.client.request("$JS.API.STREAM.MSG.GET.S", b'{"last_by_subj":"s.a"}', now=pair.now)
    leader = decode_response(pair.run_until(asked).payload)["message"]
    assert leader["seq"] == pair.server.stream("S").last_seq
    one.lag = other.lag = Lag(seconds=0.3)
    assert max(written_and_read(pair)) > 0
    pair.advance(0.3)
    assert {last(pair) for _ in range(30)} == {pair.server.stream("S").last_seq}


@requirement(108, 253)
def test_a_mirror_answers_for_its_origin_as_far_as_it_has_come() -> None:
    pair = filled()
    mirror = StreamConfig("M", mirror={"name": "S"}, storage="memory", allow_direct=True)
    assert pair.run_until(pair.js.create_stream(mirror, now=pair.now)).config.mirror_direct
    assert [message.seq for message in read(pair, pair.js.get_batch("M", now=pair.now))] == [*range(1, COUNT + 1)]
    pair.server.mirror("M").lag = Lag(messages=3)
    assert set(written_and_read(pair)) == {0, 3}
    assert set(written_and_read(pair, "M")) == {3}


def test_a_mirror_with_a_part_of_the_stream_does_not_answer_for_it() -> None:
    pair = filled()
    mirror = StreamConfig("M", mirror={"name": "S"}, storage="memory", allow_direct=True, max_msgs=10)
    pair.run_until(pair.js.create_stream(mirror, now=pair.now))
    assert pair.run_until(pair.js.stream_info("M", now=pair.now)).state.messages == 10
    by_mirror = 0
    for _ in range(20):
        first = pair.run_until(pair.js.get_msg("S", 1, next=True, now=pair.now))
        by_mirror += first.stream == "M"
        messages = read(pair, pair.js.get_batch("S", now=pair.now, if_dropped="error"))
        assert [message.seq for message in messages] == [*range(1, COUNT + 1)]
        assert {message.stream for message in messages} == {"S"}
    assert by_mirror  # so the test can fail


# -- single messages and points of the stream --------------------------------------------------------------------------


def test_one_message_in_every_form() -> None:
    pair = filled()
    first = pair.run_until(pair.js.get_msg("S", 1, now=pair.now))
    assert (first.seq, first.subject, first.data) == (1, "s.1", b"1")
    for level in LEVELS:
        assert pair.run_until(pair.js.get_last_msg("S", "s.1", now=pair.now, level=level)).seq == COUNT - 2
        following = pair.js.get_msg("S", 50, now=pair.now, subject="s.0", next=True, level=level)
        assert pair.run_until(following).seq == 51
        with pytest.raises(MessageNotFoundError):
            pair.run_until(pair.js.get_msg("S", COUNT + 1, now=pair.now, level=level))
    assert pair.run_until(pair.js.get_data("S", 7, now=pair.now)) == b"7"


def test_the_last_messages_by_the_page() -> None:
    pair = filled()
    reader = pair.js.get_last_msgs_for("S", "s.*", now=pair.now, up_to_seq=100, max_bytes=1)
    assert [message.seq for message in read(pair, reader)] == [98, 99, 100]
    assert reader.up_to_seq == 100


def lagging() -> Pair:
    """A pair whose replicas lack the last 10 and 20 messages."""
    pair = filled(num_replicas=3)
    for behind, replica in enumerate(pair.server.replicas("S"), 1):
        replica.lag = Lag(messages=10 * behind)
    for sequence in range(COUNT + 1, COUNT + 41):
        pair.run_until(pair.js.publish(f"s.{sequence % 7}", b"", now=pair.now))
    return pair


@requirement(136)
@promise("It is exactly the state at its `up_to_seq`, while others overwrite.")
def test_a_snapshot_from_copies_that_lag_is_the_leaders_state() -> None:
    pair = lagging()
    expected = {stored.subject.decode(): stored.seq for stored in pair.server.stream("S")}
    plain = set()
    for _ in range(10):
        snapshot = pair.run_until(pair.js.snapshot("S", "s.*", now=pair.now))
        assert {message.subject: message.seq for message in read(pair, snapshot)} == expected
        assert snapshot.up_to_seq == COUNT + 40
        last = read(pair, pair.js.get_last_msgs_for("S", "s.*", now=pair.now, up_to_seq=COUNT + 40))
        plain.add(tuple(message.seq for message in last))
    assert len(plain) > 1  # so the test can fail


def test_a_snapshot_as_of_an_earlier_sequence() -> None:
    pair = lagging()
    expected: dict[str, int] = {}
    for stored in pair.server.stream("S"):
        if stored.seq <= COUNT + 30:
            expected[stored.subject.decode()] = stored.seq
    snapshot = pair.run_until(pair.js.snapshot("S", "s.*", now=pair.now, at=COUNT + 30))
    assert {message.subject: message.seq for message in read(pair, snapshot)} == expected


def test_a_snapshot_of_what_was_overwritten() -> None:
    pair = filled(max_msgs_per_subject=1)
    last = read(pair, pair.js.get_last_msgs_for("S", "s.*", now=pair.now))
    assert [message.seq for message in last] == [118, 119, 120]
    with pytest.raises(SnapshotError, match=r"s\.[02] may have been overwritten"):
        pair.run_until(pair.js.snapshot("S", "s.*", now=pair.now, at=COUNT - 2, timeout=1.0))


@promise("what was acknowledged, except right after a change of leaders or while the network is split")
@promise("all that was acknowledged, except right after a change of leaders or while the network is split")
def test_the_leader_has_what_was_acknowledged() -> None:
    """However far the others lag, and whatever they answer to direct reads."""
    pair = filled(num_replicas=3)
    for copy in pair.server.replicas("S"):
        copy.lag = Lag(messages=50)
    stale = 0
    for n in range(30):
        ack = pair.run_until(pair.js.publish("s.a", b"%d" % n, now=pair.now))
        found = pair.run_until(pair.js.get_last_msg("S", "s.a", level="leader", now=pair.now))
        assert (found.seq, found.data) == (ack.seq, b"%d" % n)
        stale += last(pair) < ack.seq
    assert stale
