"""Inboxes and replies: the same entropy gives the same ones, and who sees some can compute no other."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from jsproto.client.connection.connect_options import connect_options
from jsproto.client.connection.session import Session
from jsproto.client.connection.tokens import SIZE, Tokens
from tests.harness import Harness


def test_the_same_entropy_gives_the_same_tokens() -> None:
    one, same, other = Tokens(b"a" * 16), Tokens(b"a" * 16), Tokens(b"a" * 15 + b"b")
    drawn = [one.draw() for _ in range(1_000)]
    assert drawn == [same.draw() for _ in range(1_000)]
    assert not set(drawn) & {other.draw() for _ in range(1_000)}
    assert len(set(drawn)) == 1_000
    assert {len(token) for token in drawn} == {SIZE}


@pytest.mark.parametrize("counts", [(1, 63, 64, 65, 200, 0), (500,), (3,) * 50])
def test_many_tokens_are_those_one_by_one(counts: tuple[int, ...]) -> None:
    one, same = Tokens(bytes(16)), Tokens(bytes(16))
    for count in counts:
        assert one.draw_many(count) == [same.draw() for _ in range(count)]


def test_entropy_may_be_long() -> None:
    assert Tokens(b"a" * 1_000 + b"b").draw() != Tokens(b"a" * 1_000 + b"c").draw()


def test_tokens_have_nothing_in_common_with_each_other_or_with_the_entropy() -> None:
    """Of 64 bits in which two independent tokens can differ, about half do."""
    tokens = Tokens(bytes(16))
    drawn = [int(tokens.draw(), 16) for _ in range(2_000)]
    differing = [(one ^ two).bit_count() for one, two in pairwise(drawn)]
    assert min(differing) > 8
    assert 31 < sum(differing) / len(differing) < 33


def shared(subjects: list[str]) -> int:
    """How many characters the last tokens of two subjects have in common, at most."""
    ends = sorted(subject.rpartition(".")[2] for subject in subjects)
    return max(
        next((at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), len(one))
        for one, two in pairwise(ends)
    )


def test_an_inbox_tells_nothing_of_another() -> None:
    session = Session(connect_options(), token=b"secret" * 3)
    inboxes = [session.new_inbox() for _ in range(200)]
    assert shared(inboxes) < SIZE // 2
    assert all(b"secret".hex() not in inbox for inbox in inboxes)
    again = Session(connect_options(), token=b"secret" * 3)
    assert [again.new_inbox() for _ in range(200)] == inboxes


def replies(harness: Harness) -> list[str]:
    return [pub.reply.decode() for pub in harness.published() if pub.reply is not None]


def requests(harness: Harness) -> list[str]:
    for _ in range(200):
        harness.session.request("a", now=harness.now)
    return replies(harness)


def promises(harness: Harness) -> list[str]:
    publisher = harness.js.async_publisher()
    for _ in range(100):
        publisher.publish("a", b"", now=harness.now)
    publisher.publish_many([("a", b"")] * 100, harness.now)
    return replies(harness)


def atomic_batch(harness: Harness) -> list[str]:
    batch = harness.js.atomic_batch(ack_first=False, ack_every=1)
    asked = []
    for _ in range(200):
        batch.add("a", b"", now=harness.now)
        asked += replies(harness)
        harness.deliver(asked[-1].encode())
    return asked


@pytest.mark.parametrize("ask", [requests, promises, atomic_batch])
def test_a_reply_tells_nothing_of_another(ask: Callable[[Harness], list[str]]) -> None:
    asked = ask(Harness())
    assert len(set(asked)) == 200
    assert shared([reply.replace("-", ".") for reply in asked]) < SIZE // 2
    assert ask(Harness()) == asked


@pytest.mark.parametrize("kind", ["fast_publisher", "atomic_batch"])
def test_the_id_of_a_batch_does_not_tell_its_inbox(kind: str) -> None:
    """Who reads the messages knows the id."""
    harness = Harness()
    batch = getattr(harness.js, kind)()
    assert batch.batch_id not in batch._inbox
    assert getattr(harness.js, kind)().batch_id != batch.batch_id
    assert getattr(harness.js, kind)(batch_id="mine").batch_id == "mine"
