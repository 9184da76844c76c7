"""Both roles: clients compete for locks of a bucket in simulated time, while links break and clients stand still."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.api_errors import MessageTTLDisabledError
from jsproto.client.bucket.lock import LOOK_AGAIN, Lock
from jsproto.errors import (
    BucketNotFoundError,
    Error,
    LocalProtocolError,
    LockLostError,
    LockTimeoutError,
    NoStreamResponseError,
    TimeoutError,
)
from jsproto.grammar.config import StreamConfig
from jsproto.testing.faults import Fault
from jsproto.ticket import Ticket
from tests.marks import promise
from tests.pair.several import Several


class Rivals(Several):
    """Clients with a lock object each, of one name."""

    def __init__(self, count: int = 2, *, ttl: float = 10, keep_alive: bool = False, **options: Any) -> None:
        super().__init__(count, **options)
        self.locks: list[Lock] = [
            bucket.lock("job", ttl=ttl, owner=f"w{number}", keep_alive=keep_alive)
            for number, bucket in enumerate(self.buckets)
        ]

    def acquire(self, client: int, **options: Any) -> Lock:
        return self.do(client, self.locks[client].acquire, **options)

    def held(self) -> list[int]:
        return [number for number, lock in enumerate(self.locks) if lock.is_held(self.now)]

    def value(self, key: str = "k") -> Any:
        try:
            return self.do(0, self.buckets[0].get, key).value
        except Error:
            return None


# -- one holder at a time ----------------------------------------------------------------------------------------------


def test_a_lock_is_held_by_one() -> None:
    rivals = Rivals(marker_ttl=5)
    first, second = rivals.locks
    assert rivals.acquire(0) is first
    assert (rivals.held(), first.token) == ([0], 1)
    waiting = second.acquire(now=rivals.now)
    rivals.advance(5)
    assert not waiting.done
    rivals.do(0, first.release)
    assert rivals.wait(waiting, 0) is second
    assert rivals.held() == [1]
    assert second.token > first.token
    rivals.do(1, second.release)
    assert rivals.held() == []
    assert rivals.acquire(0).token > second.token  # over the marker


@promise("With `marker_ttl`, waiters see at once that a lock expires.")
@pytest.mark.parametrize(("options", "late"), [({"marker_ttl": 5}, 0.0), ({}, 10.0), ({"history": 3}, 10.0)])
def test_a_holder_that_stalls_loses_it(options: dict[str, Any], late: float) -> None:
    """Without a marker whoever waits tries again when the key, as it has seen it, must have expired."""
    rivals = Rivals(**options)
    first, second = rivals.locks
    rivals.acquire(0)
    rivals.stalled.add(0)
    rivals.advance(4)
    waiting, began = second.acquire(now=rivals.now), rivals.now
    rivals.wait(waiting)
    assert 6.0 <= rivals.now - began <= max(6.0, late) + 0.1
    assert rivals.held() == [1]
    rivals.stalled.clear()
    with pytest.raises(LockLostError, match="token 1 holds it no longer"):
        rivals.do(0, first.put, "k", b"old")
    with pytest.raises(LockLostError):
        rivals.do(0, first.renew)
    assert rivals.value() is None
    for _ in range(2):  # told, and told again
        with pytest.raises(LockLostError):
            rivals.do(0, first.release)
    assert rivals.held() == [1]
    rivals.do(1, second.put, "k", b"new")
    assert rivals.value() == b"new"


def test_renewals_keep_it_and_late_ones_do_not() -> None:
    rivals = Rivals(ttl=3)
    first, second = rivals.locks
    rivals.acquire(0)
    waiting = second.acquire(now=rivals.now)
    for _ in range(10):
        rivals.advance(2)
        rivals.do(0, first.renew)
        assert rivals.held() == [0]
    assert (first.token, waiting.done) == (1, False)
    rivals.advance(2.999)
    assert rivals.held() == [0]
    rivals.advance(0.001)
    assert 0 not in rivals.held()
    rivals.wait(waiting)
    with pytest.raises(LockLostError):
        rivals.do(0, first.renew)
    assert second.token > first.token


@promise("it ends before the server's time, if both clocks run alike")
def test_the_time_of_a_request_is_not_held() -> None:
    """The time counts from before the request, because the server's may begin then."""
    rivals = Rivals(1, ttl=3)
    rivals.stalled.add(0)
    asked = rivals.locks[0].acquire(now=rivals.now)
    rivals.advance(1.5)
    rivals.stalled.clear()
    rivals.wait(asked)
    rivals.advance(1.4)
    assert rivals.held() == [0]
    rivals.advance(0.1)
    assert rivals.held() == []
    rivals.do(0, rivals.locks[0].renew)  # nobody has taken it meanwhile, and the server has it still
    assert rivals.held() == [0]


def test_a_lock_that_is_kept_alive() -> None:
    rivals = Rivals(keep_alive=True, ttl=3)
    first, second = rivals.locks
    rivals.acquire(0)
    waiting = second.acquire(now=rivals.now)
    rivals.advance(60)
    assert (rivals.held(), waiting.done) == ([0], False)
    rivals.cut(0)
    rivals.advance(60)
    assert rivals.held() == [0]
    rivals.stalled.add(0)
    rivals.advance(10)
    rivals.stalled.clear()
    assert rivals.held() == [1]
    rivals.advance(10)
    assert rivals.held() == [1]
    assert first.deadline() is None
    with pytest.raises(LockLostError):  # a renewal of its own has noticed it: its holder has not been told
        rivals.do(0, first.release)
    with pytest.raises(LockLostError):
        rivals.do(0, first.put, "k", b"old")
    rivals.do(1, second.release)
    rivals.advance(60)
    assert (rivals.held(), second.deadline()) == ([], None)


def test_how_long_others_are_waited_for() -> None:
    rivals = Rivals(ttl=60)
    rivals.acquire(0)
    for wait in (0.0, 5.0):
        began = rivals.now
        with pytest.raises(LockTimeoutError, match="lock 'job' is another one's: 'w0'") as raised:
            rivals.acquire(1, ends_at=began + wait)
        assert (raised.value.owner, raised.value.name, raised.value.bucket) == ("w0", "job", "B")
        assert isinstance(raised.value, TimeoutError)
        assert rivals.now - began == pytest.approx(wait)
    rivals.do(0, rivals.locks[0].release)
    assert rivals.acquire(1, ends_at=rivals.now).token  # over the marker, without waiting
    with pytest.raises(LockTimeoutError, match="another one's"):
        rivals.acquire(0, ends_at=rivals.now)


def test_a_waiter_asks_little() -> None:
    """It tries when the lock becomes free, or must have expired. No marker tells of the latter here."""
    rivals = Rivals(ttl=10)
    rivals.acquire(0)
    rivals.locks[1].acquire(now=rivals.now)
    rivals.advance(1)
    seen = rivals.pairs[1].client.published
    for _ in range(30):
        rivals.advance(3)
        rivals.do(0, rivals.locks[0].renew)
    assert rivals.pairs[1].client.published - seen <= 5  # heartbeats of the watch have no answer


def test_a_key_that_stays_too_long_is_tried_each_second() -> None:
    """A holder may say less than the key lives: here another program wrote it."""
    rivals = Rivals(1, ttl=5)
    value = json.dumps({"owner": "theirs", "ttl": 2}).encode()
    rivals.do(0, rivals.buckets[0].create, "job", value, ttl=20)
    began = rivals.now
    rivals.acquire(0)
    assert 20 <= rivals.now - began <= 20 + LOOK_AGAIN + 0.1
    rivals.do(0, rivals.locks[0].release)
    rivals.do(0, rivals.buckets[0].put, "job", b"no lock at all")
    with pytest.raises(LockTimeoutError, match="is another one's$"):
        rivals.acquire(0, ends_at=rivals.now)


# -- what cannot be ----------------------------------------------------------------------------------------------------


def test_mistakes_are_refused() -> None:
    rivals = Rivals(1)
    (lock,), (bucket,) = rivals.locks, rivals.buckets
    for verb, arguments in (("renew", ()), ("put", ("k", b"")), ("delete", ("k",))):
        with pytest.raises(LocalProtocolError, match="acquire it first"):
            getattr(lock, verb)(*arguments, now=rivals.now)
    rivals.do(0, lock.release)
    waiting = lock.acquire(now=rivals.now)
    with pytest.raises(LocalProtocolError, match="being acquired"):
        lock.acquire(now=rivals.now)
    rivals.wait(waiting)
    with pytest.raises(LocalProtocolError, match="held"):
        lock.acquire(now=rivals.now)
    with pytest.raises(LocalProtocolError, match="that of the lock itself"):
        lock.put("job", b"", now=rivals.now)
    with pytest.raises(LocalProtocolError, match="a key is"):
        lock.put("a b", b"", now=rivals.now)
    rivals.do(0, lock.release)
    with pytest.raises(LocalProtocolError, match="acquire it first"):
        lock.renew(now=rivals.now)
    bad: Any = (
        ("a b", {"ttl": 5}), ("a", {"ttl": 0.9}), ("a", {"ttl": None}), ("a", {"ttl": 5, "owner": 7}),
        ("a", {"ttl": 5, "owner": "x" * 1_001}), ("a", {"ttl": 5, "keep_alive": 1}),
    )  # fmt: skip
    for ttl in (0, -1):
        with pytest.raises(LocalProtocolError, match=f"ttl must be 1 second to 292 years .*, not {ttl}"):
            bucket.lock("a", ttl=ttl)
        with pytest.raises(LocalProtocolError, match=f"ttl must be 1 second to 292 years .*, not {ttl}"):
            bucket.create("a", b"", ttl=ttl, now=rivals.now)
    for name, options in bad:
        with pytest.raises(LocalProtocolError):
            bucket.lock(name, **options)


def test_buckets_that_can_have_no_locks() -> None:
    rivals = Rivals(1)
    pair = rivals.pairs[0]
    rivals.wait(pair.js.create_bucket("M", now=rivals.now, mirror="B"))
    with pytest.raises(LocalProtocolError, match="a mirror"):
        rivals.wait(pair.js.bucket("M", now=rivals.now)).lock("job", ttl=5)
    plain = StreamConfig("KV_P", subjects=["$KV.P.>"], max_msgs_per_subject=1)
    rivals.wait(pair.js.create_stream(plain, now=rivals.now))
    lock = rivals.wait(pair.js.bucket("P", now=rivals.now)).lock("job", ttl=5)
    with pytest.raises(MessageTTLDisabledError, match="allow_msg_ttl=True"):
        rivals.do(0, lock.acquire)


def test_a_bucket_that_goes() -> None:
    rivals = Rivals(ttl=5)
    rivals.acquire(0)
    waiting = rivals.locks[1].acquire(now=rivals.now)
    rivals.advance(1)
    rivals.wait(rivals.pairs[0].js.delete_bucket("B", now=rivals.now))
    with pytest.raises(BucketNotFoundError):
        rivals.wait(waiting)
    verbs: list[Any] = [rivals.locks[0].renew, rivals.locks[1].acquire, rivals.locks[0].holder]
    for verb in verbs:
        with pytest.raises(BucketNotFoundError):
            rivals.do(0, verb)


@promise("Waiting goes on over lost links, restarts and elections.")
def test_a_bucket_without_a_leader() -> None:
    rivals = Rivals(ttl=20)
    first, second = rivals.locks
    rivals.acquire(0)
    server = rivals.world.server
    server.lose_leader("KV_B")
    with pytest.raises(NoStreamResponseError):
        rivals.do(0, first.renew)
    assert rivals.held() == [0]
    with pytest.raises(LockTimeoutError, match="no answer came") as raised:
        rivals.acquire(1, ends_at=rivals.now)
    assert raised.value.owner is None
    assert isinstance(raised.value.__cause__, NoStreamResponseError | TimeoutError)
    waiting = second.acquire(now=rivals.now)
    rivals.advance(3)
    server.elect_leader("KV_B", rivals.now)
    rivals.do(0, first.renew)
    rivals.advance(3)
    assert (rivals.held(), waiting.done) == ([0], False)
    rivals.do(0, first.release)
    rivals.wait(waiting, 1)
    assert rivals.held() == [1]


def test_who_has_it() -> None:
    rivals = Rivals()
    assert rivals.do(1, rivals.locks[1].holder) is None
    rivals.acquire(0)
    holder = rivals.do(1, rivals.locks[1].holder)
    assert holder is not None
    assert (holder.owner, holder.ttl) == ("w0", 10.0)
    rivals.do(0, rivals.locks[0].release)
    assert rivals.do(1, rivals.locks[1].holder) is None


# -- fenced writes -----------------------------------------------------------------------------------------------------


def test_fenced_writes_and_renewals_at_the_same_time() -> None:
    rivals = Rivals(1)
    lock = rivals.acquire(0)
    tickets: list[Ticket[Any]] = []
    for number in range(20):
        tickets.append(lock.put("k", b"%d" % number, now=rivals.now))
        tickets.append(lock.renew(now=rivals.now))
        tickets.append(lock.put(f"k{number}", b"", now=rivals.now))
    for ticket in tickets:
        rivals.wait(ticket)
    assert rivals.value() is not None
    revision = rivals.do(0, lock.delete, "k")
    assert revision > 20
    assert rivals.value() is None
    written = lock.put("k", b"last", now=rivals.now)
    released = lock.release(now=rivals.now)
    assert rivals.held() == []  # at once
    rivals.wait(written)
    rivals.wait(released)
    assert rivals.value() == b"last"


def test_a_renewal_under_way_is_waited_for() -> None:
    rivals = Rivals(1)
    lock = rivals.acquire(0)
    renewal = lock.renew(now=rivals.now)
    assert lock.renew(now=rivals.now) is renewal
    written, released = lock.put("k", b"1", now=rivals.now), lock.release(now=rivals.now)
    assert rivals.held() == []
    asked: list[Ticket[Any]] = [renewal, written, released]
    for ticket in asked:
        rivals.wait(ticket)
    assert rivals.held() == []
    assert rivals.value() == b"1"
    assert rivals.do(0, lock.holder) is None


# -- callers that go, and answers that do not come ---------------------------------------------------------------------


@promise("A caller that stops waiting gives back what it is granted afterwards.")
def test_a_caller_that_goes_gives_back_what_it_asked_for() -> None:
    rivals = Rivals(3, ttl=60)
    first, second, third = rivals.locks
    gone = first.acquire(now=rivals.now)
    rivals.pairs[0].client.abandon(gone, rivals.now)  # the request is under way
    assert rivals.acquire(1, ends_at=rivals.now + 1) is second
    gone = first.acquire(now=rivals.now)
    rivals.advance(1)
    rivals.pairs[0].client.abandon(gone, rivals.now)  # it waits
    rivals.do(1, second.release)
    assert rivals.acquire(2, ends_at=rivals.now) is third
    rivals.do(2, third.release)
    got = first.acquire(now=rivals.now)
    rivals.wait(got)
    rivals.pairs[0].client.abandon(got, rivals.now)  # it has it
    assert rivals.acquire(1, ends_at=rivals.now) is second
    assert rivals.held() == [1]
    rivals.advance(1)
    assert rivals.wait(rivals.buckets[0].status(now=rivals.now)).info.state.consumer_count == 0


@promise("leaves the lock held for the rest of its time: renew it once more")
@promise("If that answer is lost, the key stays until it expires.")
@pytest.mark.parametrize("byte", range(1, 900, 25))
def test_an_answer_that_gets_lost(byte: int) -> None:
    """The link breaks after so many bytes of the server. What was stored without an answer is the holder's."""
    fault = Fault("cut_after", link=1, byte=3_000 + byte, direction="down")
    rivals = Rivals(faults=[fault], ttl=60)
    lock = rivals.locks[0]
    while rivals.pairs[0].is_linked and rivals.pairs[0]._link.number == 1:  # type: ignore[union-attr]
        token = rivals.acquire(0).token
        for verb, arguments in (("renew", ()), ("put", ("k", b"1")), ("renew", ()), ("release", ())):
            try:
                rivals.do(0, getattr(lock, verb), *arguments)
            except LockLostError:
                raise
            except Error:
                if verb == "release":
                    break
                rivals.do(0, getattr(lock, verb), *arguments)
            if verb != "release":
                assert rivals.held() == [0]
        assert lock.token == token
    began = rivals.now
    assert rivals.acquire(1).token > lock.token
    assert rivals.now - began <= 60


ACTIONS = st.one_of(
    st.tuples(st.sampled_from(["acquire", "renew", "put", "release", "cut", "stall", "go on"]), st.integers(0, 2)),
    st.tuples(st.just("pass"), st.sampled_from([0.0, 0.3, 1.0, 2.5])),
)


@promise("One client holds a lock at a time, by the server's judgement.")
@promise("A later holder has a greater one, as long as the bucket lives.")
@promise("the server refuses them when the lock is lost")
@given(
    st.lists(ACTIONS, max_size=60), st.sampled_from([{}, {"marker_ttl": 1}, {"history": 3}]), st.booleans(),
    st.lists(st.tuples(st.integers(1, 3), st.integers(3_000, 12_000), st.sampled_from(["up", "down"])), max_size=3),
)  # fmt: skip
def test_one_holder_whatever_happens(
    actions: list[tuple[str, Any]], options: dict[str, Any], keep_alive: bool, cuts: list[tuple[int, int, Any]]
) -> None:
    """Never two at a time, tokens grow, and no fenced write of an old holder is stored after one of a later."""
    faults = [Fault("cut_after", link=link, byte=byte, direction=way) for link, byte, way in cuts]
    rivals = Rivals(3, ttl=2, keep_alive=keep_alive, faults=faults, **options)
    tickets: dict[int, Ticket[Lock]] = {}
    tokens: list[int] = []

    def check() -> None:
        assert len(rivals.held()) <= 1
        for number, ticket in list(tickets.items()):
            if ticket.done and tickets.pop(number) and ticket.error is None:
                tokens.append(rivals.locks[number].token)

    for action, what in [*actions, ("pass", 5.0)]:
        if action == "pass":
            for _ in range(10):
                rivals.advance(what / 10)
                check()
            continue
        lock = rivals.locks[what]
        match action:
            case "acquire" if what not in tickets and not lock.is_held(rivals.now):
                tickets[what] = lock.acquire(now=rivals.now)
            case "renew" | "put" if what not in tickets and lock.token:
                try:
                    if action == "renew":
                        lock.renew(now=rivals.now)
                    else:
                        lock.put("k", b"%d" % lock.token, now=rivals.now)
                except LocalProtocolError:  # it was released
                    pass
            case "release" if what not in tickets:
                lock.release(now=rivals.now)
            case "cut":
                rivals.cut(what)
            case "stall":
                rivals.stalled.add(what)
            case "go on":
                rivals.stalled.discard(what)
        rivals.exchange()
        check()
    assert tokens == sorted(set(tokens))
    stream = rivals.world.server.stream("KV_B")
    written = [int(message.payload) for message in stream if message.subject == b"$KV.B.k"]
    assert written == sorted(written)
