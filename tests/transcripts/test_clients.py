"""What other clients keep in buckets and object stores, recorded once, taken up by the server role and read by us.

The records are conversations of nats.go 1.53.1 and nats.js 3.4.0 (``tests.tools.record_clients``). What clients wrote
is fed to the role, which must store it under the recorded sequences.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import Any, Final

import pytest

from jsproto.errors import KeyDeletedError, KeyNotFoundError
from jsproto.grammar.bucket_keys import KeyValueEntry
from jsproto.server.server import Server
from jsproto.server.store.stream import Stored
from jsproto.testing.pair import Pair
from jsproto.wire.decoder import Decoder
from jsproto.wire.frames import Msg
from tests.transcripts.test_transcripts import decode, raw_frames

CLIENTS: Final = ("go", "js")
EPOCH: Final = 1_795_000_000_000_000_000


def acknowledged(frames: list[Any]) -> dict[bytes, bytes]:
    """The publish acknowledgements and refusals among what a server said, by their inboxes."""
    return {
        frame.subject: frame.payload
        for frame in frames
        if isinstance(frame, Msg) and frame.payload.startswith((b'{"stream"', b'{"error"'))
    }


def taken_up(name: str) -> Server:
    """A server role that was told what the client told the real server."""
    server = Server(token=b"token", epoch=EPOCH)
    link = server.connect(0.0)
    link.receive_data(b"".join(raw_frames(name, "c2s")), 0.0)
    said = Decoder("client").feed(b"".join(link.data_to_send()))
    recorded = acknowledged(decode("client", raw_frames(name, "s2c")))
    assert acknowledged(said) == recorded
    assert len(recorded) >= 15
    return server


class Side:
    """A client of ours, with the bucket that another client has made."""

    def __init__(self, client: str) -> None:
        self.pair = Pair(server=taken_up(f"client-{client}_bucket@2.15.1.json"))
        self.pair.connect()
        self.bucket = self.pair.run_until(self.pair.js.bucket("B", now=self.pair.now))

    def do(self, verb: str, *arguments: Any, **options: Any) -> Any:
        return self.pair.run_until(getattr(self.bucket, verb)(*arguments, now=self.pair.now, **options))


def shown(entry: KeyValueEntry) -> tuple[str, Any, int]:
    return entry.key, entry.operation if entry.is_marker else entry.value, entry.revision


@pytest.mark.parametrize("client", CLIENTS)
def test_the_bucket_itself(client: str) -> None:
    status = Side(client).do("status")
    assert (status.config.history, status.config.ttl, status.config.marker_ttl) == (5, 3600.0, 60.0)
    assert (status.config.description, status.config.direct) == ("a bucket", True)
    assert status.info.config.metadata["owner"] == client
    assert (status.last_revision, status.info.config.allow_atomic) == (16, None)


@pytest.mark.parametrize("client", CLIENTS)
def test_keys_and_their_history(client: str) -> None:
    side = Side(client)
    assert sorted(side.do("keys")) == ["a", "b.c", "back", "empty", "lock", "x/y=z_1-2"]
    assert [shown(each) for each in side.do("history")] == [
        ("a", b"one", 1), ("a", b"two", 2), ("b.c", b"created", 3), ("b.c", b"updated", 4), ("lock", b"mine", 5),
        ("gone", b"x", 6), ("gone", "DEL", 7), ("back", b"first", 8), ("back", "DEL", 9), ("back", b"again", 10),
        ("purged", "PURGE", 12), ("old", "PURGE", 14), ("empty", b"", 15), ("x/y=z_1-2", b"\x00\xff", 16),
    ]  # fmt: skip


@pytest.mark.parametrize("client", CLIENTS)
def test_keys_one_by_one(client: str) -> None:
    side = Side(client)
    assert shown(side.do("get", "x/y=z_1-2")) == ("x/y=z_1-2", b"\x00\xff", 16)
    assert shown(side.do("get", "b.c", revision=3)) == ("b.c", b"created", 3)
    for key, marker in (("gone", "DEL"), ("purged", "PURGE"), ("old", "PURGE")):
        with pytest.raises(KeyDeletedError, match=marker):
            side.do("get", key)
    with pytest.raises(KeyNotFoundError):
        side.do("get", "c")
    assert side.do("create", "gone", b"mine") == 17
    assert side.do("update", "a", b"three", last=2) == 18


@pytest.mark.parametrize("client", CLIENTS)
def test_lifetimes(client: str) -> None:
    side = Side(client)
    side.pair.advance(89.0)
    assert side.do("get", "lock").value == b"mine"
    side.pair.advance(2.0)
    with pytest.raises(KeyDeletedError, match="PURGE"):
        side.do("get", "lock")
    side.pair.advance(30.0)
    with pytest.raises(KeyNotFoundError) as caught:
        side.do("get", "purged")
    assert not isinstance(caught.value, KeyDeletedError)


# -- objects: as they are stored ---------------------------------------------------------------------------------------


def objects(client: str) -> tuple[dict[str, dict[str, Any]], dict[str, list[bytes]]]:
    """The information about each object by its name, and the chunks by their subject's last token."""
    stored: list[Stored] = [*taken_up(f"client-{client}_objects@2.15.1.json").stream("OBJ_O")]
    infos: dict[str, dict[str, Any]] = {}
    chunks: dict[str, list[bytes]] = {}
    for message in stored:
        _, _, kind, token = message.subject.decode().split(".")
        if kind == "C":
            chunks.setdefault(token, []).append(message.payload)
        else:
            info = json.loads(message.payload)
            charset = {"go": "utf-8", "js": "latin-1"}[client]  # nats.js: btoa(name)
            assert urlsafe_b64encode(info["name"].encode(charset)).decode() == token
            is_bare = client == "js" and info["name"] in ("link", "after")  # nats.js: no rollup, so older ones stay
            assert (message.header is None) is is_bare
            assert is_bare or b"Nats-Rollup: sub" in (message.header or b"")
            infos[info["name"]] = info
    return infos, chunks


@pytest.mark.parametrize("client", CLIENTS)
def test_every_object_has_its_chunks_and_no_others_are_left(client: str) -> None:
    infos, chunks = objects(client)
    assert sorted(infos) == ["after", "bucket", "deleted", "dir/ä b.txt", "empty", "link", "replaced"]
    whole = {"after": b"x", "empty": b"", "replaced": b"new", "dir/ä b.txt": b"four chunks and a rest of an object"}
    for name, content in whole.items():
        info = infos[name]
        kind, _, digest = info["digest"].partition("=")
        assert (kind, urlsafe_b64decode(digest)) == ("SHA-256", sha256(content).digest())
        assert b"".join(chunks.get(info["nuid"], [])) == content
        assert (info["size"], info["chunks"]) == (len(content), len(chunks.get(info["nuid"], [])))
    assert chunks.keys() == {infos[name]["nuid"] for name in whole if name != "empty"}


@pytest.mark.parametrize("client", CLIENTS)
def test_deleted_objects_links_and_fields(client: str) -> None:
    infos, chunks = objects(client)
    assert (infos["deleted"]["deleted"], infos["deleted"]["size"]) == (True, 0)
    assert infos["link"]["options"]["link"] == {"bucket": "O", "name": "replaced"}
    assert infos["bucket"]["options"]["link"] == {"bucket": "O"}
    assert ("nuid" in infos["link"]) is (client == "go")
    assert infos["after"]["description"] == "renamed"
    described = infos["dir/ä b.txt"]
    assert (described["headers"], described["metadata"]) == ({"X-One": ["1", "2"]}, {"kind": "test"})
    assert described["options"]["max_chunk_size"] == 10
    sizes = {"go": [7, 7, 7, 7, 7], "js": [10, 10, 10, 5]}[client]  # nats.go cuts where its source does
    assert [len(chunk) for chunk in chunks[described["nuid"]]] == sizes
