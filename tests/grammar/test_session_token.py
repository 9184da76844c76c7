"""The token of a session: what it knows, and how it travels."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.errors import BadTokenError, LocalProtocolError
from jsproto.grammar.position import StreamPosition
from jsproto.grammar.session_token import MAX_TOKEN, Position, SessionToken
from tests.marks import promise, requirement

SEQUENCES = st.integers(0, 2**64 - 1)
NAMES = st.from_regex(r"[A-Za-z0-9_$-]{1,20}", fullmatch=True) | st.sampled_from(["KV_äöü", "日本"])
FEW = st.integers(0, 4)
IDENTITIES = st.none() | st.sampled_from(["1", "2", "id"])


@st.composite
def tokens(draw: st.DrawFn, names: st.SearchStrategy[str] = NAMES, seqs: st.SearchStrategy[int] = SEQUENCES) -> Any:
    """Tokens. Some of what was read has a witness."""
    streams = draw(st.dictionaries(names, st.tuples(seqs, seqs), max_size=5))
    seen = [
        StreamPosition(name, draw(st.integers(1, read)), draw(IDENTITIES), draw(FEW))
        for name, (_, read) in streams.items()
        if read and draw(st.booleans())
    ]
    return SessionToken(streams, seen)


TOKENS = tokens()
ALIKE = tokens(st.sampled_from("AB"), FEW)
"""Tokens of the same streams, at the same sequences or nearly so."""


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


@requirement(256)
@promise("another process goes on from there")
@given(TOKENS)
def test_it_survives_its_bytes(token: SessionToken) -> None:
    copy = SessionToken.from_bytes(token.to_bytes())
    assert (copy, hash(copy)) == (token, hash(token))
    assert copy.to_bytes() == token.to_bytes()


@given(ALIKE | TOKENS, ALIKE | TOKENS, ALIKE | TOKENS)
def test_tokens_merge_in_any_order(one: SessionToken, two: SessionToken, three: SessionToken) -> None:
    merged = one.merge(two).merge(three)
    assert merged == three.merge(one.merge(two)) == two.merge(three).merge(one).merge(one)
    for token in (one, two, three):
        for name, position in token.items():
            assert merged[name].written >= position.written
            assert merged[name].read >= position.read
            seen, all_seen = token.seen(name), merged.seen(name)
            assert seen is None or (all_seen is not None and all_seen.seq >= seen.seq)
            if seen is not None and all_seen is not None and seen.seq == all_seen.seq:
                assert (all_seen.witness or 0) <= (seen.witness or 0)


@promise("A write that was never read has no witness.")
def test_what_was_read_has_a_witness() -> None:
    token = SessionToken().after_read("S", 3, 99).after_write("S", 7).after_read("S", 2, 50)
    assert token.seen("S") == StreamPosition("S", 3, None, 99)
    assert token.seen("T") is None
    assert token.to_bytes() == b'{"v":1,"streams":{"S":[7,3]},"seen":["S 3 - 99"]}'
    assert token != SessionToken({"S": (7, 3)})
    named = token.after_read("S", 3, 99, "id")
    assert named.seen("S") == StreamPosition("S", 3, "id", 99)
    assert named.after_read("S", 3, 98).seen("S") == StreamPosition("S", 3, None, 98)  # the earlier of two
    assert token.after_read("S", 5).seen("S") == StreamPosition("S", 3, None, 99)  # whose time is not known
    assert token.without("S") == SessionToken()
    assert token.without("T") == token


def test_tokens_of_releases_without_witnesses() -> None:
    """They are read and have none; and a token with witnesses has all that such a release reads."""
    assert SessionToken.from_bytes(b'{"v":1,"streams":{"S":[7,3]}}').seen("S") is None
    body = json.loads(SessionToken({"S": (7, 3)}, [StreamPosition("S", 3, "id", 99)]).to_bytes())
    assert (body.pop("seen"), body) == (["S 3 id 99"], {"v": 1, "streams": {"S": [7, 3]}})


@pytest.mark.parametrize(
    "seen",
    [
        {}, "S 1 - 5", [1], [""], ["S 1 - -"], ["S 0 - 5"], ["S 3 - 5"], ["T 1 - 5"], ["S 1 - 5 6"], ["S 1 - -5"],
        ["S 1 - 99999999999999999999"], ["S 1 \ud800 5"], ["\ud800 1 - 5"], [None],
    ],
)  # fmt: skip
def test_witnesses_that_are_none(seen: Any) -> None:
    body = json.dumps({"v": 1, "streams": {"S": [9, 2]}, "seen": seen}).encode()
    with pytest.raises(BadTokenError):
        SessionToken.from_bytes(body)


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
