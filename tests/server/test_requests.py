"""How the server role reads the bodies of requests."""

from __future__ import annotations

import pytest

from jsproto.errors import APIError
from jsproto.server.api.requests import MAX_DEPTH, offset_of, read, without_prefix


def nested(depth: int) -> bytes:
    """An object with lists in it, so many containers deep."""
    return b'{"a":%b}' % (b"[" * (depth - 1) + b"]" * (depth - 1))


def test_bodies_may_not_be_nested_without_end() -> None:
    assert read(nested(MAX_DEPTH))
    with pytest.raises(APIError, match="exceeded max depth"):
        read(nested(MAX_DEPTH + 1))


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (rb'{"a":"\ud800"}', "\ufffd"),
        (rb'{"a":"\uDC80-\ud83d\ude00"}', "\ufffd-\U0001f600"),
        (rb'{"a":"\ud83d\ude00"}', "\U0001f600"),
        (rb'{"a":"\\ud800"}', "\\ud800"),
    ],
)
def test_half_a_character_becomes_a_replacement(payload: bytes, text: str) -> None:
    assert read(payload) == {"a": text}


def test_where_a_page_begins() -> None:
    assert [offset_of({"offset": offset}) for offset in (None, -5, 0, 7, 2**63 - 1)] == [0, 0, 0, 7, 2**63 - 1]
    for offset in (2**63, 1.5, "1", True):
        with pytest.raises(APIError, match="offset must be an integer of 64 bits"):
            offset_of({"offset": offset})


def test_what_is_asked_for_below_a_prefix() -> None:
    assert without_prefix("$JS.API.STREAM.NAMES", ["$JS.API.", "$JS.hub.API."]) == "STREAM.NAMES"
    assert without_prefix("$JS.hub.API.INFO", ["$JS.API.", "$JS.hub.API."]) == "INFO"
    assert without_prefix("s.a", ["$JS.API."]) == ""
