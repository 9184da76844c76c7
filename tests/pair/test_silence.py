"""A verb that is called after a long silence does what it does at once: by as many questions, in as little time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from jsproto.client.bucket.transaction import Isolation
from tests.pair.verbs import VERBS, Verb, Wire, prepared

SILENCE: Final = 100.0  # seconds: longer than each timeout, shorter than a ping takes to be due


def _transaction(isolation: Isolation, *read: str) -> Verb:
    def run(wire: Wire) -> object:
        bucket = wire.run_until(wire.js.bucket("B", now=wire.now))
        transaction = bucket.transaction(isolation)
        wire.run_until(transaction.get_many(read, now=wire.now))
        for key in ("k", "other")[: 1 + len(read)]:
            transaction.put(key, b"2")
        wire.world.now += SILENCE
        return wire.run_until(transaction.commit(now=wire.now))

    return run


def _object(name: str, *arguments: Any, **keywords: Any) -> Verb:
    def run(wire: Wire) -> object:
        store = wire.run_until(wire.js.create_object_store("O", now=wire.now))
        put = store.put("a", now=wire.now)
        wire.run_until(put.ready())
        put.add(b"abc", wire.now)
        wire.run_until(put.finish(wire.now))
        wire.world.now += SILENCE
        return wire.run_until(getattr(store, name)(*arguments, now=wire.now, **keywords))

    return run


def _put(wire: Wire) -> object:
    store = wire.run_until(wire.js.create_object_store("O", now=wire.now))
    wire.world.now += SILENCE
    put = store.put("a", now=wire.now)
    wire.run_until(put.ready())
    put.add(b"abc", wire.now)
    return wire.run_until(put.finish(wire.now))


def _holder(wire: Wire) -> object:
    bucket = wire.run_until(wire.js.bucket("B", now=wire.now))
    wire.world.now += SILENCE
    return wire.run_until(bucket.lock("gone", ttl=10).holder(now=wire.now))


MORE: Final[dict[str, Callable[[Wire], object]]] = {
    "transaction": _transaction("snapshot"),
    "transaction-read": _transaction("snapshot", "k"),
    "transaction-guards": _transaction("serializable", "k", "gone"),
    **{f"object_{name}": _object(name, "a") for name in ("open", "info", "delete")},
    **{f"object_{name}": _object(name) for name in ("list", "seal", "status", "gc")},
    "holder": _holder,
    "object_put": _put,
    "object_update_meta": _object("update_meta", "a", description="x"),
    "object_rename": _object("rename", "a", "b"),
    "object_link": _object("link", "b", "a"),
}


@pytest.mark.parametrize("name", [*VERBS, *MORE])
def test_no_verb_takes_longer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    verb = {**VERBS, **MORE}[name]
    seen, taken = [], []
    for silence in (0.0, SILENCE):
        monkeypatch.setattr("tests.pair.test_silence.SILENCE", silence)
        wire = prepared()
        wire.is_watched = True
        wire.world.now += silence if name in VERBS else 0.0
        began = wire.now
        verb(wire)
        seen.append(len(wire.seen))
        taken.append(wire.now - began - (0.0 if name in VERBS else silence))
    assert seen[0] == seen[1]
    assert taken[0] == pytest.approx(taken[1], abs=0.01)
