"""Objects: names and subjects, and descriptions as clients write them."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.errors import LocalProtocolError, RemoteProtocolError
from jsproto.grammar.object_info import (
    DEFAULT_CHUNK,
    ObjectInfo,
    ObjectLink,
    ObjectSpace,
    bucket_of,
    digest_text,
    info_json,
    is_readable_by_all,
    read_info,
    stream_of,
)

SPACE = ObjectSpace("B")
GO: dict[str, Any] = {
    "name": "ä", "description": "d", "headers": {"A": ["1", "2"]}, "metadata": {"m": "x"},
    "options": {"max_chunk_size": 100}, "bucket": "B", "nuid": "N", "size": 250, "mtime": "0001-01-01T00:00:00Z",
    "chunks": 3, "digest": "SHA-256=" + 43 * "A" + "=",
}  # fmt: skip


def read(body: object, name: str = "ä") -> ObjectInfo:
    return read_info(SPACE, SPACE.meta(name), json.dumps(body).encode(), 7, 1_000)


def test_subjects() -> None:
    assert (SPACE.stream, SPACE.all_chunks, SPACE.all_meta) == ("OBJ_B", "$O.B.C.>", "$O.B.M.>")
    assert SPACE.chunks("N") == "$O.B.C.N"
    assert SPACE.nuid("$O.B.C.N") == "N"
    assert SPACE.meta("ä b") == "$O.B.M.w6QgYg=="
    assert SPACE.name("$O.B.M.w6QgYg==") == "ä b"
    assert [SPACE.name(f"$O.B.M.{token}") for token in ("x", "_w==", "==")] == ["", "", ""]
    assert (stream_of("B"), bucket_of("OBJ_B")) == ("OBJ_B", "B")
    assert [bucket_of(name) for name in ("KV_B", "OBJ_", "OBJ_a.b")] == [None, None, None]


@given(st.text(min_size=1).filter(lambda text: text.isprintable()))
def test_each_name_comes_back(name: str) -> None:
    assert SPACE.name(SPACE.meta(name)) == name


@pytest.mark.parametrize("name", ["", "\ud800", None, b"x", 1])
def test_what_is_no_name(name: Any) -> None:
    with pytest.raises(LocalProtocolError, match="the name of an object"):
        SPACE.meta(name)
    with pytest.raises(LocalProtocolError, match="a bucket's name"):
        ObjectSpace(name)


def test_what_a_client_in_go_writes() -> None:
    info = read(GO)
    assert info == ObjectInfo(
        "B", "ä", "d", {"A": ["1", "2"]}, {"m": "x"}, 250, 3, "N", GO["digest"], 100, None, False, 7, 1_000
    )
    assert info.sha256() == bytes(32)
    assert info.modified == datetime(1970, 1, 1, 0, 0, 0, 1, UTC)


def test_what_is_missing_or_of_a_wrong_type() -> None:
    assert read({}) == ObjectInfo("B", "ä", revision=7, timestamp=1_000)
    wrong: dict[str, Any] = {
        "name": 1, "description": None, "headers": [], "metadata": {"a": 1}, "options": "x", "nuid": {}, "size": -1,
        "chunks": "3", "digest": 5, "deleted": "yes", "mtime": "",
    }  # fmt: skip
    assert read(wrong) == read({})
    assert read({"headers": {"A": "1", "B": [1, "2"]}}).headers == {"A": ["1"], "B": ["2"]}
    assert read({"options": {"max_chunk_size": 0}}).max_chunk_size == DEFAULT_CHUNK
    assert read({"digest": ""}).sha256() is None
    with pytest.raises(RemoteProtocolError):
        read([])


def test_whose_description_it_is() -> None:
    assert read({"name": "another"}).name == "ä"
    assert read_info(SPACE, "$O.B.M.x", b'{"name":"y"}', 1, 1).name == "y"
    assert read_info(SPACE, "$O.B.M.x", b"{}", 1, 1).name == ""


def test_links() -> None:
    assert read({"options": {"link": {"bucket": "C", "name": "x"}}}).link == ObjectLink("C", "x")
    assert read({"options": {"link": {"bucket": "C"}}}).link == ObjectLink("C")
    assert [read({"options": {"link": each}}).link for each in ({}, None, {"name": "x"}, 5)] == 4 * [None]
    assert (str(ObjectLink("C", "x")), str(ObjectLink("C"))) == ("C/x", "C")


@pytest.mark.parametrize("prefix", ["SHA-256=", "sha-256="])
@pytest.mark.parametrize("end", ["=", ""])
def test_digests(prefix: str, end: str) -> None:
    digest = sha256(b"x").digest()
    assert digest_text(digest) == f"SHA-256={urlsafe_b64encode(digest).decode()}"
    text = prefix + urlsafe_b64encode(digest).decode().rstrip("=") + end
    assert read({"digest": text}).sha256() == digest
    assert read({"digest": f"{text}x"}).sha256() is None


def test_what_is_written() -> None:
    body = json.loads(info_json(read(GO), 1_000_000_000))
    assert body == {**GO, "mtime": "1970-01-01T00:00:01Z"}
    least = json.loads(info_json(ObjectInfo("B", "x"), None))
    assert least == {
        "name": "x", "bucket": "B", "nuid": "", "size": 0, "chunks": 0, "mtime": "0001-01-01T00:00:00Z",
        "options": {"max_chunk_size": DEFAULT_CHUNK},
    }  # fmt: skip
    link = json.loads(info_json(ObjectInfo("B", "x", link=ObjectLink("C", "y")), None))
    assert link["options"]["link"] == {"bucket": "C", "name": "y"}
    assert json.loads(info_json(ObjectInfo("B", "x", link=ObjectLink("C")), None))["options"]["link"] == {"bucket": "C"}
    marker = json.loads(info_json(read(GO).as_deleted(), None))
    assert (marker["deleted"], marker["size"], marker["chunks"], "digest" in marker) == (True, 0, 0, False)


def test_what_others_have_added_stays() -> None:
    info = read({**GO, "revision": 5, "options": {"max_chunk_size": 1, "new": True}})
    body = json.loads(info_json(info, None))
    assert (body["revision"], body["options"]) == (5, {"new": True, "max_chunk_size": 1})


def test_markers_that_some_clients_cannot_read() -> None:
    assert not is_readable_by_all(b'{"mtime":""}')
    assert not is_readable_by_all(b"[")
    assert is_readable_by_all(b"{}")


@given(st.dictionaries(st.sampled_from([*GO, "x"]), st.recursive(st.none() | st.text() | st.integers(), st.lists)))
def test_whatever_was_read_can_be_written(body: dict[str, Any]) -> None:
    info = read(body)
    again = read_info(SPACE, SPACE.meta("ä"), info_json(info, None), 7, 1_000)
    assert again == info
