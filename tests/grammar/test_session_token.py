"""The token of a session: what it knows, and how it travels."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.errors import BadTokenError, LocalProtocolError
from jsproto.grammar.session_token import MAX_TOKEN, Position, SessionToken

SEQUENCES = st.integers(0, 2**64 - 1)
NAMES = st.from_regex(r"[A-Za-z0-9_$-]{1,20}", fullmatch=True) | st.sampled_from(["KV_äöü", "日本"])
TOKENS = st.dictionaries(NAMES, st.tuples(SEQUENCES, SEQUENCES), max_size=5).map(SessionToken)


def test_what_it_knows() -> None:
    token = SessionToken().after_write("B", 5).after_read("A", 3).after_read("B", 7).after_write("B", 4)
    assert (token["A"], token["B"], token["C"]) == ((0, 3), (5, 7), (0, 0))
    assert [position.floor for _, position in token.items()] == [3, 7]
    assert token == SessionToken({"B": (5, 7), "A": (0, 3), "C": (0, 0)})
    assert repr(token) == "<SessionToken A:0/3 B:5/7>"
    assert token.to_bytes() == b'{"v":1,"streams":{"A":[0,3],"B":[5,7]}}'
    assert token.without("B").without("C") == SessionToken({"A": (0, 3)})
    assert token != {"A": (0, 3), "B": (5, 7)}


def test_it_does_not_change() -> None:
    token = SessionToken({"S": (1, 1)})
    assert token.after_read("S", 1) is token
    assert token.after_read("S", 2)["S"] == Position(1, 2)
    assert token["S"] == Position(1, 1)


@given(TOKENS)
def test_it_survives_its_bytes(token: SessionToken) -> None:
    copy = SessionToken.from_bytes(token.to_bytes())
    assert (copy, hash(copy)) == (token, hash(token))
    assert copy.to_bytes() == token.to_bytes()


@given(TOKENS, TOKENS, TOKENS)
def test_tokens_merge_in_any_order(one: SessionToken, two: SessionToken, three: SessionToken) -> None:
    merged = one.merge(two).merge(three)
    assert merged == three.merge(one.merge(two)) == two.merge(three).merge(one).merge(one)
    for token in (one, two, three):
        for name, position in token.items():
            assert merged[name].written >= position.written
            assert merged[name].read >= position.read


@pytest.mark.parametrize(
    "body",
    [
        {}, {"v": 1}, {"v": 2, "streams": {}}, {"v": True, "streams": {}}, {"v": 1, "streams": None},
        {"v": "1", "streams": {}}, {"v": 1, "streams": []}, {"v": 1, "streams": {"S": 1}},
        {"v": 1, "streams": {"S": [1]}}, {"v": 1, "streams": {"S": [1, 2, 3]}}, {"v": 1, "streams": {"S": [1, -1]}},
        {"v": 1, "streams": {"S": [1.0, 1]}}, {"v": 1, "streams": {"S": [True, 1]}},
        {"v": 1, "streams": {"S": [2**64, 1]}}, {"v": 1, "streams": {"S": ["1", 1]}},
        {"v": 1, "streams": {"a.b": [1, 1]}}, {"v": 1, "streams": {"": [1, 1]}},
        {"v": 1, "streams": {"S": {"0": 1, "1": 1}}},
    ],
)  # fmt: skip
def test_bytes_that_are_no_token(body: dict[str, Any]) -> None:
    with pytest.raises(BadTokenError):
        SessionToken.from_bytes(json.dumps(body).encode())


@pytest.mark.parametrize("data", [b"", b"null", b"[1]", b"\xff", b'{"v":1,"streams":{}}}', b" " * (MAX_TOKEN + 1)])
def test_bytes_that_are_not_even_an_object(data: bytes) -> None:
    with pytest.raises(BadTokenError):
        SessionToken.from_bytes(data)


@given(st.binary(max_size=100))
def test_any_bytes_at_all(data: bytes) -> None:
    with suppress(BadTokenError):
        assert SessionToken.from_bytes(data).to_bytes()


def test_what_a_later_version_adds_is_passed_over() -> None:
    assert SessionToken.from_bytes(b'{"v":1,"streams":{"S":[1,2]},"by":"me"}') == SessionToken({"S": (1, 2)})


def test_sequences_that_cannot_be() -> None:
    with pytest.raises(LocalProtocolError, match="stream S: -1 and 0 are no sequences"):
        SessionToken({"S": (-1, 0)})
