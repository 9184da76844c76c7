"""Both roles: transactions that are guarded by a lock, which is renewed, lost or left without answers meanwhile."""

from __future__ import annotations

import pytest

from jsproto.client.bucket.transaction import Transaction
from jsproto.errors import ConnectionLostError, LocalProtocolError, LockLostError, TransactionConflictError
from jsproto.rules.transaction import TransactionPhase
from tests.marks import promise
from tests.pair.test_locks import Rivals

KEYS = {"one message": ["k"], "several": ["k", "k2"]}


def begin(rivals: Rivals, *keys: str, of: int = 0) -> Transaction:
    """A transaction that writes ``keys`` under the lock."""
    tx = rivals.buckets[of].transaction("serializable")
    tx.guard_lock(rivals.locks[of])
    for key in keys:
        tx.put(key, b"%d" % rivals.locks[of].token)
    return tx


@promise("A renewal before the end of the block is no conflict.")
@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_renewals_are_no_conflict(keys: list[str]) -> None:
    rivals = Rivals(1)
    lock = rivals.acquire(0)
    rivals.do(0, lock.renew)
    tx = begin(rivals, *keys)
    rivals.do(0, tx.get, "job")  # its key may be read as well
    rivals.do(0, lock.renew)
    renewal = lock.renew(now=rivals.now)  # under way at the commit
    committed = tx.commit(now=rivals.now)
    rivals.wait(renewal)
    assert rivals.wait(committed).keys() == set(keys)
    assert lock.revision > lock.token
    tx = begin(rivals, *keys)
    committed = tx.commit(now=rivals.now)
    rivals.wait(lock.renew(now=rivals.now))  # begun after it
    assert rivals.wait(committed).keys() == set(keys)


@promise("after a loss the end of the block is a `LockLostError`")
@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_a_lost_lock_stores_nothing(keys: list[str], told: bool) -> None:
    rivals = Rivals(marker_ttl=5)
    first, second = rivals.locks
    rivals.acquire(0)
    rivals.stalled.add(0)
    waiting = second.acquire(now=rivals.now)
    rivals.wait(waiting)
    rivals.stalled.clear()
    tx = begin(rivals, *keys)
    if told:
        with pytest.raises(LockLostError):
            rivals.do(0, first.renew)
    with pytest.raises(LockLostError, match="token 1 holds it no longer") as raised:
        rivals.do(0, tx.commit)
    assert tx.error is raised.value
    assert rivals.value() is None
    rivals.do(1, begin(rivals, *keys, of=1).commit)
    assert rivals.value() == b"%d" % second.token


def test_a_renewal_without_an_answer_is_one_conflict() -> None:
    """The next try knows its revision."""
    rivals = Rivals(1, ttl=60)
    lock = rivals.acquire(0)
    link = rivals.pairs[0]._link
    assert link is not None
    link.down.breaks_after = link.down.sent + 1
    with pytest.raises(ConnectionLostError):
        rivals.do(0, lock.renew)
    with pytest.raises(TransactionConflictError, match=r"\('job'\)$"):  # without a word of guards that are past
        rivals.do(0, begin(rivals, "k", "k2").commit)
    assert len(rivals.do(0, begin(rivals, "k", "k2").commit)) == 2


def test_a_conflict_of_another_key_is_one() -> None:
    rivals = Rivals(1)
    rivals.acquire(0)
    tx = begin(rivals, "k", "k2")
    assert rivals.do(0, tx.get_many, ["k3"]) == {}
    rivals.do(0, rivals.buckets[0].put, "k3", b"theirs")
    with pytest.raises(TransactionConflictError, match="'k3'"):
        rivals.do(0, tx.commit)


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_nothing_changes_a_commit_that_has_begun(keys: list[str]) -> None:
    """It waits for the renewal that is under way."""
    rivals = Rivals(1)
    lock, bucket = rivals.acquire(0), rivals.buckets[0]
    tx = begin(rivals, *keys)
    lock.renew(now=rivals.now)
    committed = tx.commit(now=rivals.now)
    assert not committed.done
    tx.discard()
    for verb in (lambda: tx.put("other", b"x"), lambda: tx.guard_lock(lock), lambda: tx.commit(now=rivals.now)):
        with pytest.raises(LocalProtocolError, match="the transaction is committing"):
            verb()
    assert rivals.wait(committed).keys() == set(keys)
    assert tx.phase is TransactionPhase.COMMITTED
    assert [entry.value for entry in rivals.do(0, bucket.history, "k")] == [b"%d" % lock.token]


@promise("after a loss the end of the block is a `LockLostError`")
@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_a_lock_that_was_acquired_again_is_another_one(keys: list[str]) -> None:
    """What another holder wrote in between is not replaced."""
    rivals = Rivals(marker_ttl=5)
    rivals.acquire(0)
    tx = begin(rivals, *keys)
    rivals.do(0, rivals.locks[0].release)
    rivals.acquire(1)
    rivals.do(1, begin(rivals, *keys, of=1).commit)
    rivals.do(1, rivals.locks[1].release)
    rivals.acquire(0)
    with pytest.raises(LockLostError, match="token 1 holds it no longer"):
        rivals.do(0, tx.commit)
    assert rivals.value() == b"%d" % rivals.locks[1].token


def test_a_lock_that_was_released_guards_nothing() -> None:
    rivals = Rivals(1)
    lock = rivals.acquire(0)
    tx = begin(rivals, "k")
    rivals.do(0, lock.release)
    with pytest.raises(LocalProtocolError, match="acquire it first"):
        rivals.do(0, tx.commit)


def test_a_guarded_lock_is_not_written() -> None:
    rivals = Rivals(1)
    lock = rivals.acquire(0)
    tx = begin(rivals, "k")
    with pytest.raises(LocalProtocolError, match="'job' is that of a lock that is guarded"):
        tx.put("job", b"x")
    other = rivals.buckets[0].transaction()
    other.delete("job")
    with pytest.raises(LocalProtocolError, match="'job' is that of a lock that is guarded"):
        other.guard_lock(lock)
    assert rivals.do(0, tx.commit).keys() == {"k"}


def test_locks_that_guard_nothing() -> None:
    rivals = Rivals(1)
    (lock,), (bucket,) = rivals.locks, rivals.buckets
    with pytest.raises(LocalProtocolError, match="acquire it first"):
        bucket.transaction().guard_lock(lock)
    rivals.acquire(0)
    other = rivals.wait(rivals.pairs[0].js.create_bucket("OTHER", now=rivals.now))
    with pytest.raises(LocalProtocolError, match="of bucket B, the transaction of bucket OTHER"):
        other.transaction().guard_lock(lock)
