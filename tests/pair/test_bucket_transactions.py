"""Both roles: a transaction whose link breaks at any byte, while others write, and the server forgets or restarts.

What the server has stored is written down as it is stored. So it is known of each outcome whether it is true.
"""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jsproto.client.bucket.bucket import Bucket
from jsproto.client.bucket.transaction import Isolation, Transaction
from jsproto.client.connection.connect_options import connect_options
from jsproto.client.connection.pause import Pause
from jsproto.errors import (
    BucketNotFoundError,
    ConnectionClosedError,
    ConnectionLostError,
    Error,
    KeyDeletedError,
    KeyExistsError,
    KeyNotFoundError,
    LocalProtocolError,
    NoRespondersError,
    TimeoutError,
    TransactionConflictError,
    TransactionTooLargeError,
    TransactionUnknownError,
)
from jsproto.rules.transaction import TransactionPhase
from jsproto.server.replication.replicas import Lag
from jsproto.server.server import Server
from jsproto.server.store.stream import Publication, Stream
from jsproto.testing.network import Network
from jsproto.testing.pair import Pair
from tests.effort import EFFORT, examples
from tests.marks import promise
from tests.serializability import Done, violations

OURS: Final = b"ours"
KEYS: Final = ("a", "b", "c")
SHAPES: Final = {  # keys that are read, that are written, and that are guarded
    "several": (("a", "b"), ("a", "b", "c"), ()),
    "guarded": (("a", "b", "c"), ("a", "b"), ()),
    "one": (("a",), ("a",), ()),
    "blind": ((), ("b",), ("a",)),
    "unread": ((), ("a", "b"), ()),
}
AGREES_AFTER: Final = 0.4  # seconds
STRIDE: Final = max(round(16 / EFFORT), 1)  # bytes between two places at which the link breaks
MEDDLES: Final = ("nothing", "one", "all", "restart", "restart-all", "forget-all", "leaderless")


class Watched:
    """A client, a bucket with two values, and all that is ever stored in it: sequence, key, value."""

    def __init__(self, history: int = 1, *, late: bool = False) -> None:
        """``late``: three replicas, which agree late on what is to be stored."""
        options = connect_options(reconnect_time_wait=0.1, max_reconnect_attempts=-1, dont_randomize=True)
        network = Network(1)
        server = Server(token=bytes(16), bus=network.cluster, apply_delay=AGREES_AFTER if late else 0.0)
        self.pair = Pair(options, server=server, network=network)
        self.pair.connect()
        replicas = 3 if late else 1
        self.bucket: Bucket = self.ask(
            self.pair.js.create_bucket("B", now=self.pair.now, history=history, replicas=replicas)
        )
        self.stored: list[tuple[int, str, bytes]] = []
        for key in ("a", "b"):
            self.ask(self.bucket.put(key, b"before", now=self.pair.now))
        if late:
            self.pair.advance(1.0)  # all replicas have that

    def ask(self, ticket: Any) -> Any:
        return self.pair.run_until(ticket)

    @property
    def stream(self) -> Stream:
        return self.pair.server.stream("KV_B")

    def write_down(self, monkeypatch: pytest.MonkeyPatch) -> None:
        append = Stream.append

        def spy(stream: Stream, message: Publication, now: float, **options: Any) -> int:
            seq = append(stream, message, now, **options)
            self.stored.append((seq, message.subject.decode().removeprefix("$KV.B."), message.payload))
            return seq

        monkeypatch.setattr(Stream, "append", spy)

    def meddle(self, what: str) -> None:
        """What happens while the link is lost."""
        pair, name, _, keys = self.pair, *what.partition("-")
        if name == "restart":
            pair.server.restart(pair.now)
        for key in {"one": KEYS[:1], "all": KEYS}.get(keys or name, ()):
            self.stream.append(Publication(f"$KV.B.{key}".encode(), None, b"theirs"), pair.now)
        if name == "forget":  # what a restart does to ids whose messages were overwritten
            self.stream._ids.clear()
            pair.server._id = "N" * 56
        if name == "leaderless":
            pair.server.lose_leader("KV_B")

    def heal(self) -> None:
        self.pair.is_reachable = True
        if "KV_B" in self.pair.server.leaderless:
            self.pair.advance(3.0)
            self.pair.server.elect_leader("KV_B", self.pair.now)

    def transaction(self, shape: str, isolation: Isolation) -> tuple[Transaction, Any]:
        reads, writes, guards = SHAPES[shape]
        tx = self.bucket.transaction(isolation)
        if reads:
            self.ask(tx.get_many(reads, now=self.pair.now))
        for key in guards:
            self.ask(tx.guard(key, 1, now=self.pair.now))
        for key in writes:
            tx.put(key, OURS)
        return tx, writes

    def ours(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for seq, key, value in self.stored:
            if value == OURS:
                found.setdefault(key, []).append(seq)
        return found


def run(
    shape: str, isolation: Isolation, history: int, direction: str, byte: int, meddle: str, *, late: bool = False
) -> tuple[str, bool]:
    """One transaction, whose link breaks after so many bytes of its commit.

    Returns the phase in which it ended, and whether the link broke.
    """
    side = Watched(history, late=late)
    with pytest.MonkeyPatch.context() as monkeypatch:
        side.write_down(monkeypatch)
        tx, writes = side.transaction(shape, isolation)
        link = side.pair._link
        assert link is not None
        pipe = link.up if direction == "up" else link.down
        pipe.breaks_after = pipe.sent + byte
        side.pair.is_reachable = False
        ticket = tx.commit(now=side.pair.now)
        side.pair.run(lambda: ticket.done or not side.pair.is_linked)
        is_cut = not side.pair.is_linked
        if is_cut:
            side.meddle(meddle)
            side.heal()
        side.pair.run(lambda: ticket.done)
        if ticket.error is None:
            assert tx.phase is TransactionPhase.COMMITTED
            assert {key: [seq] for key, seq in tx.revisions.items()} == side.ours()
            assert sorted(tx.revisions) == sorted(writes)
        else:
            assert tx.error is ticket.error
            is_certain = meddle in ("nothing", "leaderless") and shape != "blind"
            judge_failure(side, ticket.error, is_certain=is_certain)
        assert all(len(seqs) == 1 for seqs in side.ours().values()), "stored twice"
        assert sorted(side.ours()) in ([], sorted(writes)), "stored in part"
        return tx.phase.name, is_cut


def judge_failure(side: Watched, error: Error, *, is_certain: bool) -> None:
    """What an error says of the outcome has to be true."""
    if isinstance(error, TransactionUnknownError):
        assert not is_certain
        assert error.applied is None or side.ours()
    else:
        assert isinstance(error, TransactionConflictError | ConnectionLostError)
        assert side.ours() == {}


@promise("A lost answer is decided, or it is a `TransactionUnknownError`. Nothing is stored twice.")
@settings(max_examples=examples(3_000), deadline=None)
@given(
    shape=st.sampled_from(sorted(SHAPES)),
    isolation=st.sampled_from(["snapshot", "serializable"]),
    history=st.sampled_from([1, 3]),
    direction=st.sampled_from(["up", "down"]),
    byte=st.integers(0, 1_000),
    meddle=st.sampled_from(MEDDLES),
    late=st.booleans(),
)
def test_a_lost_answer_is_decided(
    shape: str, isolation: Isolation, history: int, direction: str, byte: int, meddle: str, late: bool
) -> None:
    run(shape, isolation, history, direction, byte, meddle, late=late)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("meddle", MEDDLES)
@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_every_answer_that_can_be_lost(shape: str, meddle: str, late: bool) -> None:
    """The link breaks within each answer, and within each message."""
    ends = set()
    for direction in ("up", "down"):
        byte = 0
        while True:
            end, is_cut = run(shape, "serializable", 1, direction, byte, meddle, late=late)
            if not is_cut:
                break
            ends.add(end)
            byte += STRIDE
    overwritten = {"one": KEYS[:1], "all": KEYS}.get(meddle.rpartition("-")[2], ())
    assert "COMMITTED" in ends or set(SHAPES[shape][1]) <= {*overwritten}


# -- what a transaction shows, and stores ------------------------------------------------------------------------------


class Plain(Watched):
    """A transaction, verb by verb."""

    def __init__(self, isolation: Isolation = "snapshot", **options: Any) -> None:
        super().__init__(**options)
        self.tx = self.bucket.transaction(isolation)

    def do(self, verb: str, *arguments: Any, **options: Any) -> Any:
        """A verb of the transaction that waits."""
        return self.ask(getattr(self.tx, verb)(*arguments, now=self.pair.now, **options))

    def put(self, key: str, value: bytes = b"theirs") -> int:
        revision: int = self.ask(self.bucket.put(key, value, now=self.pair.now))
        return revision

    def loses(self, verb: str, *arguments: Any) -> TransactionConflictError:
        with pytest.raises(TransactionConflictError) as raised:
            self.do(verb, *arguments)
        assert self.tx.phase is TransactionPhase.CONFLICT
        assert self.tx.error is raised.value
        return raised.value


def test_reads_show_what_is_stored_and_what_is_written() -> None:
    side = Plain(history=3)
    tx = side.tx
    assert tx.bucket == "B"
    side.ask(side.bucket.delete("b", now=side.pair.now))
    assert (side.do("get", "a").value, side.do("get", "a").revision) == (b"before", 1)
    with pytest.raises(KeyDeletedError):
        side.do("get", "b")
    with pytest.raises(KeyNotFoundError):
        side.do("get", "c")
    with pytest.raises(KeyExistsError):
        side.do("create", "a", b"new")
    side.do("create", "b", b"new", ttl=60)
    side.do("create", "c", b"new")
    with pytest.raises(KeyExistsError):
        side.do("create", "c", b"newer")
    tx.delete("a")
    with pytest.raises(KeyDeletedError):
        side.do("get", "a")
    assert {key: entry.value for key, entry in side.do("get_many", KEYS).items()} == {"b": b"new", "c": b"new"}
    assert side.do("get_many", []) == {}
    side.do("create", "a", b"new")
    tx.purge("d", ttl=60)
    tx.put("e", bytearray(b"5"))  # type: ignore[arg-type]
    assert side.do("commit") == tx.revisions == {"a": 6, "b": 4, "c": 5, "d": 7, "e": 8}
    assert side.ask(side.bucket.get("e", now=side.pair.now)).value == b"5"


def test_what_is_not_committed_is_not_stored() -> None:
    side = Plain()
    side.tx.put("a", OURS)
    side.tx.discard()
    with pytest.raises(LocalProtocolError, match="the transaction is failed"):
        side.tx.put("a", OURS)
    with pytest.raises(LocalProtocolError):
        side.do("commit")
    assert side.stream.last_seq == 2


def test_without_a_write_nothing_is_sent() -> None:
    side = Plain("serializable")
    side.do("get_many", KEYS)
    side.do("guard", "a")
    side.put("a")
    assert side.do("commit") == {}
    assert (side.tx.phase, side.stream.last_seq) == (TransactionPhase.COMMITTED, 3)


def test_a_later_read_shows_the_first_moment_or_ends_it() -> None:
    side = Plain()
    side.do("get", "a")
    assert side.do("get", "b").revision == 2
    side.put("c")
    assert side.loses("get", "c").keys == ("c",)
    for verb in ("get", "commit"):
        with pytest.raises(TransactionConflictError):
            getattr(side.tx, verb)(*(["a"] if verb == "get" else []), now=side.pair.now)
    side.tx.discard()
    assert side.tx.phase is TransactionPhase.CONFLICT


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_write_skew_is_what_isolation_is_about(isolation: Isolation) -> None:
    """Both read both keys, and each writes another one. Whether that could be one after the other, the judge says."""
    side = Plain()
    first, second = side.bucket.transaction(isolation), side.bucket.transaction(isolation)
    history: list[Done] = []
    outcomes: list[str] = []
    for tx, key in ((first, "a"), (second, "b")):
        side.ask(tx.get_many(["a", "b"], now=side.pair.now))
        tx.put(key, OURS)
    for tx in (first, second):
        try:
            history.append(Done(str(len(history)), {"a": 1, "b": 2}, side.ask(tx.commit(now=side.pair.now))))
            outcomes.append("committed")
        except TransactionConflictError:
            outcomes.append("conflict")
    assert outcomes == ["committed", "committed" if isolation == "snapshot" else "conflict"]
    assert bool(violations(history, {"a": 1, "b": 2})) is (isolation == "snapshot")


def test_a_guard_is_checked_with_what_is_written() -> None:
    for keys in (["c"], ["c", "b"]):
        side = Plain()
        side.do("guard", "a")
        for key in keys:
            side.tx.put(key, OURS)
        side.put("a")
        assert side.loses("commit").keys == ("a",)
        assert side.stream.last_seq == 3


def test_guards_with_a_revision() -> None:
    side = Plain()
    side.do("guard", "a", 1)
    side.do("guard", "a", 1)
    side.do("guard", "none", 0)
    side.do("get", "a")
    side.do("guard", "a", 1)
    side.do("guard", "a")
    side.tx.put("b", OURS)
    assert side.do("commit") == {"b": 3}
    given: list[list[tuple[Any, ...]]] = [
        [("guard", "a", 2), ("get", "a")],
        [("guard", "a", 1), ("guard", "a", 2)],
        [("get", "a"), ("guard", "a", 2)],
    ]
    for *before, last in given:
        side = Plain()
        for step in before:
            side.do(*step)
        assert side.loses(*last).keys == ("a",)
    with pytest.raises(LocalProtocolError):
        Plain().do("guard", "a", -1)


def test_one_verb_at_a_time() -> None:
    side = Plain()
    ticket = side.tx.get("a", now=side.pair.now)
    for verb in (side.tx.get, side.tx.commit):
        with pytest.raises(LocalProtocolError, match="wait for it"):
            verb(*(["b"] if verb == side.tx.get else []), now=side.pair.now)
    side.pair.client.abandon(ticket, side.pair.now)  # as a caller that was cancelled
    assert side.do("get", "a").revision == 1
    ticket = side.tx.get("b", now=side.pair.now)
    side.tx.discard()
    side.ask(ticket)
    assert side.tx.phase is TransactionPhase.FAILED


def test_a_read_that_fails_leaves_it_open() -> None:
    side = Plain()
    side.ask(side.pair.js.update_bucket("B", now=side.pair.now, direct=False))
    with pytest.raises(NoRespondersError):
        side.do("get", "a")
    side.ask(side.pair.js.update_bucket("B", now=side.pair.now, direct=True))
    side.do("get", "a")
    side.tx.put("a", OURS)
    assert side.do("commit") == {"a": 3}


def test_a_bucket_that_is_deleted() -> None:
    for step in (("get", "a"), ("commit",)):
        side = Plain()
        side.do("guard", "a", 1)
        side.tx.put("a", OURS)
        side.ask(side.pair.js.delete_bucket("B", now=side.pair.now))
        with pytest.raises(BucketNotFoundError):
            side.do(*(("get", "b") if step[0] == "get" else step))


def test_a_server_that_is_away() -> None:
    side = Plain()
    side.pair.is_reachable = False
    side.pair.lose_link()
    for verb in ("get", "get_many"):
        with pytest.raises(TimeoutError, match="bucket B: no message within"):
            side.do(verb, "b" if verb == "get" else ["b"])
    with pytest.raises(TimeoutError, match="bucket B: no message within"):
        side.ask(side.bucket.get_many(["b"], now=side.pair.now))


def test_many_keys() -> None:
    side = Plain()
    assert len(side.do("get_many", [f"k.{number}" for number in range(1_100)])) == 0
    for number in range(1_000):
        side.tx.put(f"k.{number}", b"")
    assert len(side.do("commit")) == 1_000
    side.tx = side.bucket.transaction()
    side.do("guard", "a")
    for number in range(1_000):
        side.tx.put(f"k.{number}", b"")
    with pytest.raises(TransactionTooLargeError, match="1001 messages, 1 of them guards"):
        side.do("commit")


def test_what_cannot_be() -> None:
    side = Plain(history=2)
    with pytest.raises(LocalProtocolError, match="isolation"):
        side.bucket.transaction("none")  # type: ignore[arg-type]
    with pytest.raises(LocalProtocolError, match="history=1"):
        side.tx.put("a", b"", ttl=60)
    with pytest.raises(LocalProtocolError):
        side.tx.put("a", "text")  # type: ignore[arg-type]
    mirror = side.ask(side.pair.js.create_bucket("M", now=side.pair.now, mirror="B"))
    with pytest.raises(LocalProtocolError, match="mirror"):
        mirror.transaction()
    side = Plain()
    side.tx.put("a", b"", ttl=60)
    side.tx.put("b", b"x" * 2_000_000)
    with pytest.raises(TransactionTooLargeError, match="key 'b' has 2000... bytes with its headers: the ser") as raised:
        side.do("commit")
    assert raised.value.keys == ("b",)
    assert side.stream.last_seq == 2


# -- tries -------------------------------------------------------------------------------------------------------------


def test_tries_have_pauses_by_chance_and_end() -> None:
    side = Plain()
    chances = iter([0.0, 0.5, 0.999, 0.5, 0.5])
    attempts = side.bucket.attempts(tries=6, chance=lambda: next(chances), timeout=3.0)
    pauses = []
    while True:
        side.tx = attempts.begin()
        side.do("get", "a")
        revision = side.put("a")
        side.tx.put("a", OURS)
        error = side.loses("commit")
        assert error.revision == revision
        assert error.keys == (("a",) if attempts.tried == 6 else ())  # the last one alone looks for them
        if attempts.tried == 6:
            break
        pauses.append(attempts.failed(error))
    assert pauses == pytest.approx([0.0, 0.5 * 0.004, 0.999 * 0.008, 0.5 * 0.016, 0.5 * 0.032])
    with pytest.raises(TransactionConflictError):
        attempts.failed(error)
    with pytest.raises(LocalProtocolError):
        side.bucket.attempts(tries=0)


@pytest.mark.parametrize("read_first", [False, True])
def test_a_guard_that_cannot_hold_any_more(read_first: bool) -> None:
    """A revision that is past, and that is given again, ends the tries. Another one, and one to come, do not."""
    side = Plain()
    attempts = side.bucket.attempts(chance=lambda: 0.0)

    def fail(revision: int) -> TransactionConflictError:
        side.tx = attempts.begin()
        side.tx.put("b", OURS)
        if read_first:
            side.do("get", "a")
            return side.loses("guard", "a", revision)
        side.do("guard", "a", revision)
        return side.loses("commit")

    present = side.put("a")
    for revision in (present + 5, present + 5, 0, 0, 1):
        attempts.failed(fail(revision))
    present = side.put("a")
    attempts.failed(fail(present - 1))
    error = fail(present - 1)
    assert error.keys == ("a",)
    assert str(error).endswith("the revision that was given to guard() is past")
    with pytest.raises(TransactionConflictError) as raised:
        attempts.failed(error)
    assert raised.value is error
    assert attempts.tried == 7


def test_the_error_of_another_transaction_is_no_try() -> None:
    side = Plain()
    attempts = side.bucket.attempts()
    error = TransactionConflictError("B")
    for _ in range(2):
        with pytest.raises(TransactionConflictError):
            attempts.failed(error)
        attempts.begin()


def test_a_try_reads_what_made_the_one_before_a_conflict() -> None:
    """A replica that lags would make one conflict after the other."""
    side = Plain()
    attempts = side.bucket.attempts(chance=lambda: 0.5)
    side.tx = attempts.begin()
    side.do("get", "a")
    revision = side.put("a")
    side.tx.put("a", OURS)
    error = side.loses("commit")
    assert 0 < attempts.failed(error) <= 0.05
    side.tx = attempts.begin()
    assert side.tx._least == revision
    assert side.do("get", "a").revision == revision
    side.tx.put("a", OURS)
    side.do("commit")


def test_chance_is_drawn_from_the_token() -> None:
    side = Plain()
    drawn = [side.bucket._chance() for _ in range(100)]
    assert 0 <= min(drawn) < 0.1
    assert 0.9 < max(drawn) < 1


def test_a_pause_outlives_the_link_and_fails_with_the_session() -> None:
    side = Plain()
    short, long = (Pause(side.pair.client, side.pair.now + seconds).over for seconds in (1.0, 10.0))
    side.pair.lose_link()
    side.ask(short)
    assert side.pair.now == pytest.approx(1.0)
    side.pair.client.close(side.pair.now)
    with pytest.raises(ConnectionClosedError):
        long.result()


def test_a_later_read_is_not_older_than_the_first_one() -> None:
    """A replica that lags is asked for it, and is not believed."""
    side = Plain(late=True)
    followers = side.pair.server.replicas("KV_B")
    for follower in followers:
        follower.lag = Lag(seconds=100.0)
    revision = side.put("b")
    side.pair.advance(1.0)
    answering = iter([0, 1, 1])
    side.pair.server.choose = lambda count: next(answering, 0)
    assert side.do("get", "a").revision == 1
    assert side.tx._up_to == revision
    assert side.do("get", "b").revision == revision
    assert next(answering, None) is None
