"""Transactions over keys on every release: what works where, and what is refused where a server would err."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jsproto.errors import TransactionConflictError, UnsupportedByServerError
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import Transaction, connect

ServerFor = Callable[..., NatsServer]

pytestmark = pytest.mark.versions


def change(*written: str) -> Callable[[Transaction], None]:
    """Reads three keys, and writes these."""

    def fn(tx: Transaction) -> None:
        tx.get_many(["a", "b", "c"])
        for key in written:
            tx.put(key, b"new")

    return fn


def test_one_key_needs_no_batches(server_for: ServerFor) -> None:
    with connect(server_for("2.11.11").url) as nc:
        bucket = nc.jetstream().create_bucket("B")
        bucket.transact(change("a"))
        with pytest.raises(UnsupportedByServerError, match=r"needs nats-server 2\.12\.1"):
            bucket.transact(change("a", "b"))
        assert bucket.keys() == ["a"]


@pytest.mark.parametrize("version", ["2.12.1", "2.12.8", "2.14.0", "2.14.6", "2.15.1"])
def test_several_keys(version: str, server_for: ServerFor) -> None:
    with connect(server_for(version).url) as nc:
        bucket = nc.jetstream().create_bucket("B")
        bucket.transact(change("a", "b", "c"))
        bucket.transact(change("a", "b"), isolation="serializable")  # one guard
        assert bucket.status().last_revision == 6

        def overtaken(tx: Transaction) -> None:
            change("a", "b")(tx)
            bucket.put("c", b"theirs")

        with pytest.raises(TransactionConflictError):
            bucket.transact(overtaken, isolation="serializable", tries=1)
        assert bucket.status().last_revision == 7


@pytest.mark.parametrize("version", ["2.12.8", "2.14.0", "2.14.6"])
def test_several_guards(version: str, server_for: ServerFor) -> None:
    with connect(server_for(version).url) as nc:
        bucket = nc.jetstream().create_bucket("B")
        if version == "2.14.6":
            bucket.transact(change("a"), isolation="serializable")
            assert bucket.status().last_revision == 3
        else:
            with pytest.raises(UnsupportedByServerError, match=r"checks 2 keys which it does not write"):
                bucket.transact(change("a"), isolation="serializable")
            assert bucket.status().last_revision == 0


def test_the_first_release_with_batches(server_for: ServerFor) -> None:
    """It takes no message ids in a batch, and refuses keys that do not exist."""
    with connect(server_for("2.12.0").url) as nc:
        bucket = nc.jetstream().create_bucket("B")
        with pytest.raises(UnsupportedByServerError, match=r"needs nats-server 2\.12\.1"):
            bucket.transact(change("a", "b"))
        assert bucket.keys() == []
