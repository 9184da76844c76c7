"""JSON bodies: objects only, typed fields, one error for everything else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jsproto.errors import LocalProtocolError, NotJSONError, RemoteProtocolError
from jsproto.grammar.bodies import MAX_JSON, MAX_UINT64, decode_json, dumps, loads, text, uint64

texts = st.text(st.characters(codec="utf-8"), max_size=8)
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts)
trees = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3))
objects = st.dictionaries(texts, trees, max_size=4)


@given(objects)
@example({"😀": "\\ud800", "ü": "日"})
@example({"n": MAX_UINT64, "m": -1, "x": 0.1})
def test_what_is_written_reads_back(body: dict[str, Any]) -> None:
    data = dumps(body)
    assert data.isascii()
    assert loads(data) == body


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (rb"\ud800", "\ufffd"), (rb"\uDFFF\uD800", "\ufffd\ufffd"), (rb"\ud83d\ude00", "😀"), (rb"\\ud800", r"\ud800"),
        (rb"\\\ud800", "\\\ufffd"), (rb"\ud800\ud83d\ude00", "\ufffd😀"),
        (rb"\n\udc80\u0041", "\n\ufffdA"), (rb"\\uD8", r"\uD8"),
    ],
)  # fmt: skip
def test_half_of_a_surrogate_pair_is_the_replacement_character(written: bytes, read: str) -> None:
    found = loads(b'{"%b":["%b"]}' % (written, written))
    assert found == {read: [read]}
    assert read.encode()  # whatever is read can be sent


@given(st.text(st.characters(categories=["Cs", "Ll"], max_codepoint=0xFFFF) | st.sampled_from('\\"udD8'), max_size=8))
def test_every_text_that_was_read_can_be_sent(text: str) -> None:
    (read,) = loads(dumps({"a": text})).values()
    assert len(read.encode("utf-16-le")) <= len(text.encode("utf-16-le", "surrogatepass"))


def test_bodies_are_compact() -> None:
    assert dumps({"a": 1, "b": [True, None, "x"]}) == b'{"a":1,"b":[true,null,"x"]}'


def endless() -> dict[str, Any]:
    body: dict[str, Any] = {}
    body["self"] = body
    return body


@pytest.mark.parametrize("body", [{"a": b"x"}, {"a": float("nan")}, {"a": float("inf")}, {b"a": 1}, endless()])
def test_what_json_has_no_form_for(body: Any) -> None:
    with pytest.raises(LocalProtocolError, match="cannot be written as JSON"):
        dumps(body)


def test_too_deep_to_write() -> None:
    deep: dict[str, Any] = {}
    for _ in range(200_000):
        deep = {"a": deep}
    with pytest.raises(LocalProtocolError, match="cannot be written as JSON"):
        dumps(deep)
    while deep:  # taken apart from outside: freeing it in one go would be as deep
        deep = deep["a"]


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"[]",
        b"null",
        b"5",
        b'"x"',
        b"{",
        b"{}x",
        b"{}{}",
        b"{}\0",
        b"\xff{}",
        b'{"a":"\xff"}',
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":-Infinity}',
        b'{"a":1e999}',
        b'{"a":-1e999}',
        b"{'a':1}",
        b'{"a":01}',
        b'{"a":"\n"}',
        b"\xef\xbb\xbf{}",
        "{}".encode("utf-16"),
        "{}".encode("utf-32"),
        b'{"a":' + b"9" * 5000 + b"}",
        b"[" * 1_000_000,
        b'{"a":' * 1_000_000,
    ],
)
def test_junk(junk: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="not a JSON body") as caught:
        loads(junk)
    assert caught.value.data == junk[:256]
    assert len(str(caught.value)) < 300


@given(st.one_of(st.binary(), st.text().map(str.encode), trees.map(lambda tree: json.dumps(tree).encode())))
def test_arbitrary_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        body = loads(data)
    except RemoteProtocolError:
        return
    assert type(body) is dict
    assert loads(dumps(body)) == body


def test_the_size_is_bounded() -> None:
    assert loads(b'{"a":1}', 7) == {"a": 1}
    with pytest.raises(RemoteProtocolError, match="a JSON body of 7 bytes, where at most 6 are read"):
        loads(b'{"a":1}', 6)
    with pytest.raises(RemoteProtocolError, match="at most"):
        loads(b" " * (MAX_JSON + 1))


@pytest.mark.parametrize("value", [0, 1, MAX_UINT64])
def test_unsigned_integers(value: int) -> None:
    assert uint64({"n": value}, "n") == value


@pytest.mark.parametrize("value", [True, 1.0, -1, MAX_UINT64 + 1, "1", [], {}])
def test_what_is_no_unsigned_integer(value: Any) -> None:
    with pytest.raises(RemoteProtocolError, match="n must be an unsigned 64-bit integer, not"):
        uint64({"n": value}, "n", 5)


@pytest.mark.parametrize("value", [True, 1, [], {}, b"x"])
def test_what_is_no_string(value: Any) -> None:
    with pytest.raises(RemoteProtocolError, match="s must be a string, not"):
        text({"s": value}, "s", "x")


def test_strings() -> None:
    assert text({"s": ""}, "s") == ""
    assert text({"s": "a"}, "s", "b") == "a"


@pytest.mark.parametrize("body", [{}, {"f": None}])
def test_absent_fields(body: dict[str, Any]) -> None:
    assert uint64(body, "f", 0) == 0
    assert text(body, "f", "") == ""
    for read in (uint64, text):
        with pytest.raises(RemoteProtocolError, match="f is missing"):
            read(body, "f")


# -- payloads of applications ------------------------------------------------------------------------------------------


@given(trees)
def test_a_payload_may_be_any_json(value: Any) -> None:
    assert decode_json(json.dumps(value).encode(), "a") == value


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"", "Expecting value: line 1 column 1 (char 0)"),
        (b'{"a": s3cret}', "Expecting value: line 1 column 7 (char 6)"),
        (b"\xff", "it is not in UTF-8"),
        (b"1" * 5_000, "a number is too long"),
        (b"[" * 100_000, "it is nested too deeply"),
    ],
)
def test_a_payload_that_is_no_json(payload: bytes, why: str) -> None:
    with pytest.raises(NotJSONError) as caught:
        decode_json(payload, "a.b")
    assert str(caught.value) == f"the message on 'a.b' is no JSON: {why}"
    assert caught.value.subject == "a.b"
