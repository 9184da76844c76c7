"""Names, keys and filters of buckets, other spellings of keys, and what a message says of its key."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.errors import BadSubjectError, LocalProtocolError, WrongTypeError
from jsproto.grammar.bucket_keys import (
    KeyCodec,
    KeySpace,
    KeyValueEntry,
    bucket_of,
    check_bucket,
    check_filter,
    check_key,
    delivered_entry,
    key_list,
    operation_of,
    stored_entry,
    stream_of,
)
from jsproto.grammar.headers import encode_headers
from jsproto.grammar.jsack import parse_jsack
from jsproto.grammar.key_codecs import Base64Keys, PathKeys, chained
from jsproto.grammar.stored import StoredMsg, stored_header
from jsproto.grammar.subjects import check_subject, matches

BAD_KEYS = ["", ".", "a.", ".a", "a..b", "a b", "a*", "*", ">", "a.>", "ä", "a:b", "#a", "a\n", "a\r", "a\0", "\x7f"]

tokens = st.text("abcXYZ019-/_=", min_size=1, max_size=4)
keys = st.lists(tokens, min_size=1, max_size=4).map(".".join)
texts = st.text(max_size=8)
paths = st.from_regex(r"/?[a-z]{1,3}(/[a-z]{1,3}){0,3}", fullmatch=True)
TIME = "2026-11-20T20:36:46.910548879Z"
NANOSECONDS = 1_795_207_006_910_548_879
ACK = parse_jsack(b"$JS.ACK.KV_B.c.1.7.1.%d.3" % NANOSECONDS)
SIZED = b"NATS/1.0\r\nNats-Msg-Size: %b\r\n\r\n"


@pytest.mark.parametrize("name", ["CONFIG", "a", "0", "a-b_c", "A" * 200])
def test_names(name: str) -> None:
    assert check_bucket(name) == name
    assert stream_of(name) == f"KV_{name}"
    assert bucket_of(f"KV_{name}") == name


@pytest.mark.parametrize("name", ["", "a.b", "a b", "a\n", "ä", "a/b", "*", None, 7, b"a"])
def test_what_is_no_name(name: Any) -> None:
    with pytest.raises(LocalProtocolError, match="a bucket's name has"):
        stream_of(name)


@pytest.mark.parametrize("stream", ["ORDERS", "KV_", "KV", "kv_a", "KV_a b"])
def test_streams_of_no_bucket(stream: str) -> None:
    assert bucket_of(stream) is None


@pytest.mark.parametrize("key", [*BAD_KEYS, None, 7, b"a"])
def test_what_is_no_key(key: Any) -> None:
    with pytest.raises(LocalProtocolError, match="a key is tokens"):
        check_key(key)
    with pytest.raises(LocalProtocolError):
        KeySpace("B").target(key)


@pytest.mark.parametrize("pattern", ["", ".", "a.", ".a", "a..b", "a*", ">.a", "a>", "**", ">\n", "ä.*", None, b">"])
def test_what_is_no_filter(pattern: Any) -> None:
    with pytest.raises(LocalProtocolError, match="a filter is"):
        check_filter(pattern)


@given(st.lists(tokens | st.just("*"), max_size=3), tokens | st.sampled_from(["*", ">"]))
def test_filters_are_patterns_of_subjects(front: list[str], last: str) -> None:
    pattern = check_filter(".".join([*front, last]))
    check_subject(KeySpace("B").pattern(pattern), wildcards=True)


@given(keys)
def test_a_key_and_its_subject(key: str) -> None:
    space = KeySpace("B")
    assert check_key(key) == key
    assert space.subject(key) == space.target(key) == f"$KV.B.{key}"
    check_subject(space.subject(key))
    assert space.key(space.subject(key)) == key
    assert matches(space.pattern(">"), space.subject(key))


@given(st.text(max_size=6))
def test_what_is_taken_as_a_key_can_be_published(text: str) -> None:
    """And it is what nats.go takes, without two dots in a row, which no subject may have."""
    taken = re.fullmatch(r"[-/_=.a-zA-Z0-9]+", text) and not (text[0] == "." or text[-1] == "." or ".." in text)
    if taken:
        check_subject(KeySpace("B").target(text))
    else:
        with pytest.raises(LocalProtocolError):
            KeySpace("B").target(text)


def test_keys_that_servers_take_and_clients_refuse() -> None:
    space = KeySpace("B", validate_keys=False)
    for key in ("ä", "a*", "x>y", "a:b", "#a", "\x7f"):
        assert space.key(space.subject(key)) == key
        assert space.pattern(f"{key}.>") == f"$KV.B.{key}.>"
    for key in ("", "a b", "a..b", "*", ">"):
        with pytest.raises(BadSubjectError):
            space.target(key)
    with pytest.raises(BadSubjectError):
        space.pattern("a b")
    assert KeySpace("B").key("$KV.B.x y\r\nz") == "x y\r\nz"
    assert KeySpace("B").key("elsewhere.x") == "elsewhere.x"


def test_mirrors_and_domains() -> None:
    assert (KeySpace("M", origin="B").stream, KeySpace("M", origin="B").subject("k")) == ("KV_M", "$KV.B.k")
    there = KeySpace("M", origin="B", write_prefix="$JS.hub.API")
    assert (there.subject("k"), there.target("k"), there.pattern(">")) == ("$KV.B.k", "$JS.hub.API.$KV.B.k", "$KV.B.>")
    assert there.key("$KV.B.k") == "k"


def test_keys_as_they_are_stored() -> None:
    stored = KeySpace("M", origin="B", write_prefix="P", codec=Base64Keys()).as_stored()
    assert (stored.stream, stored.bucket, stored.subject("ä"), stored.key("$KV.B.YQ")) == ("KV_M", "M", "$KV.B.ä", "YQ")


# -- codecs ------------------------------------------------------------------------------------------------------------


def test_base64() -> None:
    space = KeySpace("B", codec=Base64Keys())
    assert space.target("Grüße.an alle") == "$KV.B.R3LDvMOfZQ.YW4gYWxsZQ"
    assert space.pattern("Grüße.*") == "$KV.B.R3LDvMOfZQ.*"
    assert space.pattern(">") == "$KV.B.>"
    assert space.key("$KV.B.R3LDvMOfZQ.YW4gYWxsZQ") == "Grüße.an alle"


@pytest.mark.parametrize("stored", ["R3LDvMOfZR", "x", "not base64", "____", "a+b/", "YQ=="])
def test_what_others_have_written_stays_as_it_is(stored: str) -> None:
    assert KeySpace("B", codec=Base64Keys()).key(f"$KV.B.{stored}") == stored


@given(st.lists(texts.filter(lambda text: text and "." not in text), min_size=1, max_size=3).map(".".join))
def test_base64_there_and_back(key: str) -> None:
    space = KeySpace("B", codec=Base64Keys())
    check_key(space.subject(key).removeprefix("$KV.B."))
    assert space.key(space.subject(key)) == key


@pytest.mark.parametrize(
    ("path", "key"),
    [("/etc/hosts", "_root_.etc.hosts"), ("a/b", "a.b"), ("/", "_root_"), ("a/b/", "a.b"), ("/a/", "_root_.a")],
)
def test_paths(path: str, key: str) -> None:
    assert PathKeys().encode(path) == key
    assert PathKeys().decode(key) in (path, path[:-1])
    assert KeySpace("B", codec=PathKeys()).pattern("/etc/*") == "$KV.B._root_.etc.*"


@given(paths)
def test_paths_there_and_back(path: str) -> None:
    assert PathKeys().decode(PathKeys().encode(path)) == path


@given(paths)
def test_chains(path: str) -> None:
    chain: KeyCodec = chained(PathKeys(), Base64Keys())
    assert chain.decode(chain.encode(path)) == path
    assert chain.encode(path) == Base64Keys().encode(PathKeys().encode(path))
    assert chain.encode_filter("/a/*") == "X3Jvb3Rf.YQ.*"


@pytest.mark.parametrize("key", ["", "a..b", ".a", "\ud800", 7, None])
def test_what_a_codec_cannot_encode(key: Any) -> None:
    space = KeySpace("B", codec=Base64Keys())
    with pytest.raises(LocalProtocolError):
        space.target(key)
    with pytest.raises(LocalProtocolError):
        space.pattern(key)


# -- entries -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "operation"),
    [
        ({}, "PUT"),
        ({"KV-Operation": "DEL"}, "DEL"),
        ({"KV-Operation": "PURGE", "Nats-Rollup": "sub"}, "PURGE"),
        ({"KV-Operation": "PUT"}, "PUT"),
        ({"KV-Operation": "del"}, "PUT"),
        ({"Nats-Marker-Reason": "MaxAge"}, "PURGE"),
        ({"Nats-Marker-Reason": "Purge"}, "PURGE"),
        ({"Nats-Marker-Reason": "Remove"}, "DEL"),
        ({"Nats-Marker-Reason": "of a later server"}, "DEL"),
        ({"KV-Operation": "DEL", "Nats-Marker-Reason": "MaxAge"}, "DEL"),
        ({"Nats-Rollup": "sub"}, "PUT"),
    ],
)
def test_operations(headers: dict[str, str], operation: str) -> None:
    assert operation_of(encode_headers(headers)) == operation


def test_operations_in_blocks_that_are_malformed() -> None:
    assert operation_of(None) == "PUT"
    assert operation_of(b"") == "PUT"
    assert operation_of(b"NATS/1.0\r\nno colon\r\nKV-Operation: DEL\r\n\r\n") == "DEL"
    assert operation_of(b"NATS/1.0\r\nKV-Operation: DEL") == "PUT"  # cut off


@given(st.binary(max_size=60))
def test_blocks_of_any_kind(header: bytes) -> None:
    assert operation_of(header) in ("PUT", "DEL", "PURGE")
    assert delivered_entry(KeySpace("B"), "$KV.B.k", header, b"", ACK).size >= 0


def test_an_entry_that_was_read() -> None:
    head = stored_header(encode_headers({"KV-Operation": "DEL"}), "KV_B", "$KV.B.k", 7, TIME)
    entry = stored_entry(KeySpace("B"), StoredMsg(head, b"", 7))
    assert entry == KeyValueEntry("B", "k", b"", 7, NANOSECONDS, "DEL", 0, None)
    assert entry.is_marker
    assert entry.created.isoformat() == "2026-11-20T20:36:46.910548+00:00"
    plain = stored_header(encode_headers({}), "KV_B", "$KV.B.k", 8, TIME)
    entry = stored_entry(KeySpace("B"), StoredMsg(plain, b"ab", 8))
    assert (entry.value, entry.size, entry.is_marker) == (b"ab", 2, False)


def test_an_entry_that_was_delivered() -> None:
    entry = delivered_entry(KeySpace("B"), "$KV.B.k", None, b"ab", ACK)
    assert entry == KeyValueEntry("B", "k", b"ab", 7, NANOSECONDS, "PUT", 2, 3)
    sized = delivered_entry(KeySpace("B"), "$KV.B.k", SIZED % b"12", b"", ACK)
    assert (sized.value, sized.size) == (b"", 12)
    assert delivered_entry(KeySpace("B"), "$KV.B.k", SIZED % b"12", b"abc", ACK).size == 3


@pytest.mark.parametrize("size", [b"", b"x", b"-1", b"1" * 40])
def test_sizes_that_are_none(size: bytes) -> None:
    assert delivered_entry(KeySpace("B"), "$KV.B.k", SIZED % size, b"", ACK).size == 0


def test_several_keys_are_a_list() -> None:
    assert key_list(key for key in ("a", "b")) == ["a", "b"]
    wrong: list[Any] = ["abc", b"abc", 7, None]
    for keys in wrong:
        with pytest.raises(WrongTypeError, match="keys are a list of keys, not"):
            key_list(keys)
