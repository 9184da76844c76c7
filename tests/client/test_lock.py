"""A lock against a scripted server: what it asks, and what it makes of answers that contradict each other."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from jsproto.client.bucket.bucket import Bucket
from jsproto.client.bucket.lock import Lock
from jsproto.client.bucket.manage import space_of
from jsproto.client.bucket.writes import TRIES
from jsproto.errors import (
    KeyWrongLastSequenceError,
    LocalProtocolError,
    LockLostError,
    LockTimeoutError,
    TimeoutError,
    UnsupportedByServerError,
)
from jsproto.grammar.bucket_config import BucketConfig
from jsproto.grammar.headers import Headers
from jsproto.grammar.lock_holder import LockHolder, parse_holder
from jsproto.ticket import Ticket
from jsproto.wire.frames import Pub
from tests.client.test_bucket import ABSENT, IN_FLIGHT, WRONG, stored
from tests.harness import Harness
from tests.marks import promise


class Holder:
    """A lock of ``ttl`` 10, and what it asks."""

    def __init__(self, info: dict[str, Any] | None = None, **options: Any) -> None:
        self.h = Harness(info=info)
        config = BucketConfig.of("B")
        bucket = Bucket(self.h.js, space_of(config, "$JS.API"), config)
        self.lock: Lock = bucket.lock("job", ttl=10, owner="me", **options)
        self.value = b""

    def acquired(self) -> Holder:
        """It has acquired it with token 5."""
        self.lock.acquire(now=self.h.now)
        assert self.wrote({"stream": "KV_B", "seq": 5}) == 0
        return self

    def wrote(self, answer: dict[str, Any]) -> int:
        """It writes its key, with this answer. The revision that it expects."""
        (pub,) = self.h.answer(lambda pub: answer)
        return self.expected(pub)

    def expected(self, pub: Pub) -> int:
        assert pub.subject == b"$KV.B.job"
        self.value = pub.payload or self.value
        assert pub.header is not None
        headers = Headers.parse(pub.header)
        assert headers["Nats-TTL"] == "10"
        return int(headers["Nats-Expected-Last-Subject-Sequence"])

    def found(self, answer: dict[str, Any]) -> None:
        """It reads its key from the leader."""
        (pub,) = self.h.answer(lambda pub: answer)
        assert pub.subject == b"$JS.API.STREAM.MSG.GET.KV_B"
        assert json.loads(pub.payload) == {"last_by_subj": "$KV.B.job"}

    def mine(self, seq: int) -> dict[str, Any]:
        """The leader's answer: it has the key with this holder's value."""
        answer = stored(seq)
        answer["message"]["data"] = b64encode(self.value).decode()
        return answer


def test_requests_of_each_verb() -> None:
    """One each: acquire, renew, put and release."""
    holder = Holder().acquired()
    lock, h = holder.lock, holder.h
    assert (lock.token, lock.owner, lock.is_held(h.now + 9.9), lock.is_held(h.now + 10)) == (5, "me", True, False)
    lock.renew(now=h.now + 3)
    assert holder.wrote({"stream": "KV_B", "seq": 6}) == 5
    assert lock.is_held(h.now + 12.9)
    assert not lock.is_held(h.now + 13)
    lock.put("k", b"v", now=h.now)
    (pub,) = h.answer(lambda pub: {"stream": "KV_B", "seq": 7})
    assert (pub.subject, pub.payload) == (b"$KV.B.k", b"v")
    assert pub.header is not None
    assert dict(Headers.parse(pub.header).items()) == {
        "Nats-Expected-Last-Subject-Sequence": "6", "Nats-Expected-Last-Subject-Sequence-Subject": "$KV.B.job",
    }  # fmt: skip
    done = lock.release(now=h.now)
    assert holder.wrote({"stream": "KV_B", "seq": 8}) == 6
    assert done.done
    assert (lock.token, lock.is_held(h.now)) == (5, False)


def test_a_write_without_an_answer_is_found() -> None:
    """The key has a greater revision than the holder knows, with its nonce: it goes on from there."""
    holder = Holder().acquired()
    lock, h = holder.lock, holder.h
    for verb in (lock.renew, lock.release):
        lost = lock.renew(now=h.now, timeout=1.0)
        h.published()
        h.advance(1.0)
        with pytest.raises(TimeoutError):
            lost.result()
        asked = verb(now=h.now)
        assert holder.wrote(WRONG) == lock.revision
        holder.found(holder.mine(9))
        assert holder.wrote({"stream": "KV_B", "seq": 12}) == 9
        assert asked.result() is None
    assert lock.token == 5


def test_acquiring_again_goes_on_from_what_is_found() -> None:
    holder = Holder()
    lost = holder.lock.acquire(now=holder.h.now, ends_at=holder.h.now, timeout=1.0)
    (pub,) = holder.h.published()
    assert holder.expected(pub) == 0
    holder.h.advance(1.0)
    with pytest.raises(LockTimeoutError, match="no answer came"):
        lost.result()
    asked = holder.lock.acquire(now=holder.h.now, ends_at=holder.h.now)
    assert holder.wrote(WRONG) == 0
    holder.found(holder.mine(3))
    assert holder.wrote({"stream": "KV_B", "seq": 4}) == 3
    assert (asked.result(), holder.lock.token) == (holder.lock, 4)


def test_a_server_that_contradicts_itself() -> None:
    holder = Holder().acquired()
    asked: Ticket[Any] = holder.lock.renew(now=holder.h.now)
    for _ in range(TRIES):
        assert holder.wrote(IN_FLIGHT) == 5
        holder.found(holder.mine(5))
    with pytest.raises(KeyWrongLastSequenceError):
        asked.result()
    assert holder.lock.is_held(holder.h.now)
    holder = Holder()
    asked = holder.lock.acquire(now=holder.h.now, ends_at=holder.h.now)
    for _ in range(TRIES):
        assert holder.wrote(IN_FLIGHT) == 0
        holder.found(ABSENT)
    with pytest.raises(LockTimeoutError):
        asked.result()
    assert holder.h.published() == []


@promise("After a loss the verbs raise `LockLostError`, `release` too, until the lock is acquired again.")
@pytest.mark.parametrize("found", [ABSENT, stored(7, KV_Operation="PURGE"), stored(7, b"theirs"), stored(7)])
def test_a_lock_that_is_lost_stays_lost(found: dict[str, Any]) -> None:
    holder = Holder(keep_alive=True).acquired()
    lock, h = holder.lock, holder.h
    assert lock.deadline() is not None
    asked = lock.renew(now=h.now)
    holder.wrote(WRONG)
    holder.found(found)
    with pytest.raises(LockLostError, match="token 5"):
        asked.result()
    assert (lock.is_held(h.now), lock.deadline()) == (False, None)
    for verb, arguments in (("renew", ()), ("put", ("k", b"")), ("delete", ("k",))):
        with pytest.raises(LockLostError):
            getattr(lock, verb)(*arguments, now=h.now).result()
    with pytest.raises(LockLostError):
        lock.release(now=h.now).result()
    assert h.published() == []


def test_a_renewal_that_fails_while_others_wait_for_it() -> None:
    holder = Holder().acquired()
    lost = holder.lock.renew(now=holder.h.now, timeout=1.0)
    written = holder.lock.put("k", b"", now=holder.h.now)
    holder.h.published()
    holder.h.advance(1.0)
    assert isinstance(lost.error, TimeoutError)
    (pub,) = holder.h.answer(lambda pub: {"stream": "KV_B", "seq": 6})
    assert pub.subject == b"$KV.B.k"
    assert written.result() == 6


def test_it_is_kept_alive_without_its_holder() -> None:
    holder = Holder(keep_alive=True).acquired()
    h, seq = holder.h, 5
    for _ in range(5):
        h.advance(3.3)
        assert h.published() == []
        h.advance(0.034)
        assert holder.wrote({"stream": "KV_B", "seq": seq + 1}) == seq
        seq += 1
    h.advance(3.34)
    assert len(h.published()) == 1
    h.advance(3.34)  # that had no answer: the next one has the same condition
    assert holder.wrote({"stream": "KV_B", "seq": seq + 1}) == seq
    assert holder.lock.is_held(h.now + 9)


def test_servers_without_times_to_live() -> None:
    holder = Holder(info={"version": "2.10.29"})
    with pytest.raises(UnsupportedByServerError, match=r"2\.11"):
        holder.lock.acquire(now=holder.h.now).result()
    assert holder.h.published() == []


def test_what_a_key_says_of_its_holder() -> None:
    holder = LockHolder("größe", "n", 2.5)
    assert parse_holder(holder.encode()) == holder
    for value in (b"", b"[]", b"{", b'{"owner":1,"nonce":2,"ttl":"3"}', b'{"ttl":-1}', b'{"ttl":1e300}', b"\xff"):
        assert parse_holder(value) == LockHolder("")


def test_what_errors_call_an_election() -> None:
    holder = Holder(kind="election")
    lock, h = holder.lock, holder.h
    with pytest.raises(LocalProtocolError, match="election 'job' is not held: win a campaign first"):
        lock.renew(now=h.now)
    holder.acquired()
    with pytest.raises(LocalProtocolError, match="election 'job' is held"):
        lock.acquire(now=h.now)
    with pytest.raises(LocalProtocolError, match="that of the election itself"):
        lock.put("job", b"", now=h.now)
    asked = lock.renew(now=h.now)
    holder.wrote(WRONG)
    holder.found(ABSENT)
    with pytest.raises(LockLostError, match="election 'job' was lost: token 5"):
        asked.result()
    other: Ticket[Any] = lock.acquire(now=h.now, ends_at=h.now)
    holder.wrote(WRONG)
    holder.found(stored(7, b'{"owner":"b"}'))
    with pytest.raises(LockTimeoutError, match="election 'job' is another one's: 'b'"):
        other.result()
