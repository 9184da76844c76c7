"""Header blocks: what is written comes back, nothing can be injected, and junk is refused in one way."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jsproto.errors import BadHeaderError, RemoteProtocolError
from jsproto.grammar.headers import (
    Headers,
    HeadersLike,
    appended,
    encode_headers,
    first_value,
    last_value,
    status_line,
    without,
)

names = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters=":"), min_size=1, max_size=6)
values = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=12).map(
    lambda text: text.strip(" \t")
)
fields = st.lists(st.tuples(names, values), max_size=5)
near_misses = st.lists(
    st.sampled_from(
        [b"NATS/1.0", b"\r\n", b" ", b"404", b"x", b"A:", b"A: 1", b"\r", b"\n", b"\0", b":", b"\xff", b"\t"]
    ),
    max_size=10,
).map(b"".join)

DIRECT = (
    b"NATS/1.0\r\nX-Mine: 1\r\nNats-Sequence: 99\r\nNats-Stream: DG\r\nNats-Subject: foo.A\r\nNats-Sequence: 7\r\n"
    b"Nats-Time-Stamp: 2026-11-20T20:36:46.910548879Z\r\n\r\n"
)


class Name(str, Enum):  # noqa: UP042
    """The kind of constant that formatting turns into something else."""

    KIND = "Kind"
    VALUE = "value"


# -- writing and reading back ------------------------------------------------------------------------------------------


@given(fields)
@example([("A", ""), ("a", "x"), ("A", "y: z"), ("Status", "204")])
def test_order_case_and_repeats_are_kept(pairs: list[tuple[str, str]]) -> None:
    headers = Headers(pairs)
    block = encode_headers(headers)
    assert block.count(b"\r\n") == len(pairs) + 2
    back = Headers.parse(block)
    assert list(back.items()) == pairs
    assert back == headers
    assert encode_headers(back) == block
    assert status_line(block) is None


@given(fields, st.integers(100, 999), values)
def test_a_status_goes_along(pairs: list[tuple[str, str]], code: int, description: str) -> None:
    block = encode_headers(Headers(pairs), (code, description))
    assert status_line(block) == (code, description)
    assert list(Headers.parse(block).items()) == pairs


@given(st.dictionaries(names, st.one_of(values, st.lists(values, max_size=3), st.lists(values).map(tuple))))
def test_a_mapping_of_values_or_several(mapping: dict[str, str | Sequence[str]]) -> None:
    headers = Headers.of(mapping)
    assert headers == Headers(mapping) == Headers.of(MappingProxyType(mapping))
    for name, value in mapping.items():
        assert headers.get_all(name) == ([value] if isinstance(value, str) else list(value))
    assert encode_headers(mapping) == encode_headers(headers)


def test_exact_bytes() -> None:
    assert encode_headers({}) == b"NATS/1.0\r\n\r\n"
    assert (
        encode_headers({"A": "1", "b": ["2", "3"], "Empty": ""})
        == b"NATS/1.0\r\nA: 1\r\nb: 2\r\nb: 3\r\nEmpty: \r\n\r\n"
    )
    assert encode_headers({}, (503, "")) == b"NATS/1.0 503\r\n\r\n"
    assert encode_headers({"Nats-Num-Pending": "3"}, (204, "EOB")) == b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 3\r\n\r\n"
    assert encode_headers({Name.KIND: Name.VALUE}) == b"NATS/1.0\r\nKind: value\r\n\r\n"
    assert encode_headers({"A": "grüße"}) == "NATS/1.0\r\nA: grüße\r\n\r\n".encode()


@given(st.binary(max_size=12))
@example(b"\xff\xfe")
def test_bytes_that_are_no_utf8_go_back_as_they_came(value: bytes) -> None:
    block = b"NATS/1.0\r\nA: " + value + b"\r\n\r\n"
    if re.search(rb"[\r\n\0]", value) is None:
        assert encode_headers(Headers.parse(block)) == b"NATS/1.0\r\nA: " + value.strip(b" \t") + b"\r\n\r\n"


def test_blanks_around_a_value_are_not_part_of_it() -> None:
    block = b"NATS/1.0\r\nA:1\r\nB: \t 2 \t\r\nC:\r\nD:  \r\nE: a b\r\n\r\n"
    assert list(Headers.parse(block).items()) == [("A", "1"), ("B", "2"), ("C", ""), ("D", ""), ("E", "a b")]
    assert [last_value(block, name) for name in (b"A", b"B", b"C", b"D", b"E")] == [b"1", b"2", b"", b"", b"a b"]


@given(
    st.one_of(
        fields.map(lambda pairs: encode_headers(Headers(pairs))),
        near_misses,
        near_misses.map(lambda rest: b"NATS/1.0\r\n" + rest + b"\r\n\r\n"),
        st.tuples(near_misses, near_misses).map(lambda two: b"NATS/1.0\r\nA: %b\r\nB: %b\r\n\r\n" % two),
    )
)
@example(b"NATS/1.0\r\nA: 1\r\nB: \xc3\xbc\r\n\r\n")
@example(b"NATS/1.0\r\nA: \xff\r\n\r\n")
@example(b"NATS/1.0\r\nA: 1 \r\n\r\n")
@example(b"NATS/1.0\r\nA: 1\rB: 2\r\n\r\n")
@example(b"NATS/1.0\r\nA: 1\nB: 2\r\n\r\n")
@example(b"NATS/1.0 503\r\nA: 1\r\n\r\n")
@example(b"\r\nA: 1\r\n\r\n")
@example(b"NATS/1.0\r\nA: NATS/1.0\r\nB: 2\r\n\r\n")
def test_lines_at_once_are_what_each_of_them_is(raw: bytes) -> None:
    outcomes: list[object] = []
    for parse_plain in (Headers.parse_plain, lambda raw, end: None):
        with patch.object(Headers, "parse_plain", parse_plain):
            try:
                outcomes.append(Headers.parse(raw).items())
            except RemoteProtocolError as error:
                outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


# -- nothing can be injected -------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.text(max_size=4), st.text(max_size=8)), max_size=3),
    st.integers(-5, 1200),
    st.text(max_size=6),
)
@example([("A", "x\r\nB: y")], 200, "")
@example([("A\r\nB", "x")], 200, "")
@example([("A", "x")], 200, "OK\r\nB: y")
@example([("A", "x\udc0a")], 200, "")
def test_whatever_is_written_reads_as_what_was_given(pairs: list[tuple[str, str]], code: int, description: str) -> None:
    try:
        block = encode_headers(Headers(pairs), (code, description))
    except BadHeaderError:
        return
    assert list(Headers.parse(block).items()) == pairs
    assert status_line(block) == (code, description)


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({"A": "x\r\nB: y"}, r"the value of header A must not contain '\r'"),
        ({"A": "x\n"}, r"the value of header A must not contain '\n'"),
        ({"A": "x\0"}, r"the value of header A must not contain '\x00'"),
        ({"A": "\ud800"}, r"the value of header A must not contain '\ud800'"),
        ({"A": " x"}, "the value of header A must not begin or end with a blank"),
        ({"A": "x\t"}, "the value of header A must not begin or end with a blank"),
        ({"A": ["x", "y "]}, "the value of header A must not begin or end with a blank"),
        ({"A": 5}, "the value of header A must be a str, not int"),
        ({"A": b"x"}, "the value of header A must be a str, not bytes"),
        ({"A": ["x", None]}, "the value of header A must be a str, not NoneType"),
        ({"": "x"}, "a header name must be printable ASCII without blanks and colons: ''"),
        ({"A B": "x"}, "a header name must be printable ASCII"),
        ({"A:": "x"}, "a header name must be printable ASCII"),
        ({"A\r\nB": "x"}, "a header name must be printable ASCII"),
        ({"ü": "x"}, "a header name must be printable ASCII"),
        ({5: "x"}, "a header name must be printable ASCII"),
        ([("A", "x")], "headers must be a mapping of names to values, not list"),
        ("A: x", "headers must be a mapping of names to values, not str"),
    ],
)
def test_what_the_caller_is_told(headers: Any, why: str) -> None:
    with pytest.raises(BadHeaderError, match=re.escape(why)) as caught:
        encode_headers(headers)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("pairs", [[("A", "x\r\n")], [("A", 5)], [(b"A", "x")]])
def test_headers_that_could_not_be_sent_do_not_exist(pairs: Any) -> None:
    with pytest.raises(BadHeaderError):
        Headers(pairs)


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ((99, ""), "three digits"),
        ((1000, ""), "three digits"),
        ((404, "a\r\nB: c"), "one line"),
        ((404, " a"), "one line"),
    ],
)
def test_a_bad_status(status: tuple[int, str], why: str) -> None:
    with pytest.raises(BadHeaderError, match=why):
        encode_headers({}, status)


# -- reading -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("block", "status"),
    [
        (b"NATS/1.0\r\n\r\n", None),
        (b"NATS/1.0\r\nStatus: 204\r\n\r\n", None),
        (b"NATS/1.0 503\r\n\r\n", (503, "")),
        (b"NATS/1.0 503 \r\n\r\n", (503, "")),
        (b"NATS/1.0 100 Idle Heartbeat\r\n\r\n", (100, "Idle Heartbeat")),
        (b"NATS/1.0\t404  \t No Messages \t\r\n\r\n", (404, "No Messages")),
        (b"NATS/1.0 400 Bad \xff\r\n\r\n", (400, "Bad \ufffd")),
        (b"NATS/1.0 000\r\n\r\n", (0, "")),
    ],
)
def test_status_lines(block: bytes, status: tuple[int, str] | None) -> None:
    assert status_line(block) == status
    assert len(Headers.parse(block)) == (1 if b"Status" in block else 0)


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"\r\n",
        b"NATS/1.0",
        b"NATS/1.0 503",
        b"NATS/1.0 503\n\r\n",
        b"NATS/1.1\r\n\r\n",
        b"nats/1.0\r\n\r\n",
        b" NATS/1.0\r\n\r\n",
        b"NATS/1.0503\r\n\r\n",
        b"NATS/1.0 \r\n\r\n",
        b"NATS/1.0 99999\r\n\r\n",
        b"NATS/1.0 50\r\n\r\n",
        b"NATS/1.0 +50\r\n\r\n",
        b"NATS/1.0 \xd9\xa3\xd9\xa3\xd9\xa3\r\n\r\n",
        b"NATS/1.0 503 a\0b\r\n\r\n",
        b"NATS/1.0 503 a\rb\r\n\r\n",
    ],
)
def test_malformed_first_lines(block: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        status_line(block)
    assert caught.value.data == block
    with pytest.raises(RemoteProtocolError):
        Headers.parse(block)


@pytest.mark.parametrize(
    ("rest", "why"),
    [
        (b"", "does not end"),
        (b"A: 1\r\n", "does not end"),
        (b"A: 1\r\n\r", "does not end"),
        (b"A: 1\r\n\r\nB", "does not end"),
        (b"A: 1\n\r\n\r\n", "lone CR or LF"),
        (b"A: 1\r\r\n\r\n", "lone CR or LF"),
        (b"A: 1\0\r\n\r\n", "NUL"),
        (b"A\r\n\r\n", "is not a name, a colon and a value"),
        (b": 1\r\n\r\n", "is not a name, a colon and a value"),
        (b"A : 1\r\n\r\n", "is not a name, a colon and a value"),
        (b"A B: 1\r\n\r\n", "is not a name, a colon and a value"),
        (b"\xc3\xbc: 1\r\n\r\n", "is not a name, a colon and a value"),
        (b"A: 1\r\n folded: 2\r\n\r\n", "is not a name, a colon and a value"),
        (b"A: 1\r\n\r\nB: 2\r\n\r\n", "is not a name, a colon and a value"),
    ],
)
def test_malformed_blocks(rest: bytes, why: str) -> None:
    with pytest.raises(RemoteProtocolError, match=why):
        Headers.parse(b"NATS/1.0\r\n" + rest)


@given(st.one_of(st.binary(), near_misses, near_misses.map(lambda rest: b"NATS/1.0\r\n" + rest + b"\r\n\r\n")))
@example(DIRECT)
def test_arbitrary_bytes_are_refused_in_one_way(raw: bytes) -> None:
    last_value(raw, b"A")
    try:
        status_line(raw)
        headers = Headers.parse(raw)
    except RemoteProtocolError:
        return
    assert Headers.parse(encode_headers(headers, (503, ""))) == headers


# -- one value without parsing -----------------------------------------------------------------------------------------


@given(fields, names)
def test_the_last_value_is_the_one_of_a_full_parse(pairs: list[tuple[str, str]], name: str) -> None:
    block = encode_headers(Headers(pairs), (204, "EOB"))
    found = last_value(block, name.encode())
    assert (None if found is None else found.decode()) == Headers(pairs).get_last(name)
    for known, _ in pairs:
        value = last_value(block, known.encode())
        assert value is not None
        assert value.decode() == Headers(pairs).get_last(known)


def test_the_last_value_is_the_servers() -> None:
    assert last_value(DIRECT, b"Nats-Sequence") == b"7"
    assert last_value(DIRECT, b"Nats-Stream") == b"DG"
    assert last_value(DIRECT, b"nats-sequence") is None
    assert last_value(DIRECT, b"Sequence") is None


@pytest.mark.parametrize("cut", [b"NATS/1.0\r\nA: 1\r\nA: 12", b"NATS/1.0\r\nA: 12\r", b"NATS/1.0\r\nA:"])
def test_a_value_that_is_cut_off_is_none(cut: bytes) -> None:
    assert last_value(cut, b"A") is None


def test_a_value_does_not_begin_in_the_line_before() -> None:
    assert last_value(b"NATS/1.0\r\nX: a\nA: 1\r\n\r\n", b"A") is None
    assert last_value(b"A: 1\r\n\r\n", b"A") is None


# -- the mapping -------------------------------------------------------------------------------------------------------


def test_access() -> None:
    headers = Headers([("A", "1"), ("b", "2"), ("A", "3")])
    assert headers["A"] == "1"
    assert (headers.get("A"), headers.get_last("A"), headers.get_all("A")) == ("1", "3", ["1", "3"])
    assert (headers.get("a"), headers.get("a", "x"), headers.get_last("a"), headers.get_last("a", "x")) == (
        None, "x", None, "x",
    )  # fmt: skip
    assert headers.get_all("a") == []
    assert "b" in headers
    assert "B" not in headers
    assert 5 not in headers
    assert list(headers) == ["A", "b", "A"]
    assert len(headers) == 3
    with pytest.raises(KeyError):
        headers["B"]


def test_equality_and_repr() -> None:
    headers = Headers([("A", "1")])
    same: HeadersLike = {"A": "1"}
    assert headers == Headers(same) == Headers(headers)
    assert hash(headers) == hash(Headers(same))
    assert headers != Headers([("a", "1")])
    assert headers != same
    assert repr(headers) == "Headers([('A', '1')])"
    assert isinstance(same, Mapping)


def test_of_takes_what_the_verbs_take() -> None:
    headers = Headers([("A", "1")])
    assert Headers.of(headers) is headers
    assert Headers.of(None) == Headers()


# -- blocks as servers read and change them ----------------------------------------------------------------------------


@given(st.lists(st.tuples(names, values), max_size=6), names)
def test_the_first_value_is_the_one_of_a_full_parse(pairs: list[tuple[str, str]], name: str) -> None:
    block = encode_headers(Headers(pairs))
    found = first_value(block, name.encode())
    expected = Headers(pairs).get(name)
    assert (None if found is None else found.decode("utf-8", "surrogateescape")) == expected


def test_the_first_value_as_servers_find_it() -> None:
    block = b"NATS/1.0\r\nA:  1 \r\nA: 2\r\nAB: 3\r\nC:\r\n\r\n"
    assert [first_value(block, name) for name in (b"A", b"B", b"a", b"C")] == [b"1 ", None, None, b""]
    assert first_value(b"NATS/1.0\r\nA: 1", b"A") is None


def test_lines_are_taken_out_and_put_behind() -> None:
    block = b"NATS/1.0\r\nA: 1\r\nB: 2\r\nA:3\r\nAB: 4\r\n\r\n"
    assert without(block, b"A") == b"NATS/1.0\r\nB: 2\r\nAB: 4\r\n\r\n"
    assert without(block, b"X") == block
    assert without(b"NATS/1.0\r\nA: 1\r\n\r\n", b"A") is None
    assert appended(block, b"C", b"5") == block[:-2] + b"C: 5\r\n\r\n"
    assert appended(None, b"C", b"5") == b"NATS/1.0\r\nC: 5\r\n\r\n"
