"""A position travels as one line, and what is no such line is no position."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.grammar.position import StreamPosition, parse_position

NAMES = st.from_regex(r"[A-Za-z0-9_$-]{1,20}", fullmatch=True) | st.sampled_from(["KV_äöü", "日本"])
IDENTITIES = st.none() | st.from_regex(r"[A-Za-z0-9]{1,20}", fullmatch=True)
POSITIONS = st.builds(
    StreamPosition, NAMES, st.integers(0, 2**64 - 1), IDENTITIES, st.none() | st.integers(0, 2**63 - 1)
)


@given(POSITIONS)
def test_it_survives_its_line(position: StreamPosition) -> None:
    assert parse_position(bytes(position)) == position


def test_the_form() -> None:
    assert bytes(StreamPosition("ORDERS", 15, "5VSDCSbX", 1_795)) == b"ORDERS 15 5VSDCSbX 1795"
    assert bytes(StreamPosition("ORDERS", 0)) == b"ORDERS 0 - -"


@pytest.mark.parametrize(
    "line",
    [
        b"", b"S", b"S 1", b"S 1 -", b"S 1 - -1", b"S x - -", b"S 1 - - -", b"S 1  -", b" 1 - -", b"S 1 - -\n",
        b"S %s - -" % (b"9" * 100), b"\xff 1 - -", b"S\n 1 - -",
    ],
)  # fmt: skip
def test_what_is_none(line: bytes) -> None:
    assert parse_position(line) is None


@given(st.binary(max_size=60))
def test_any_bytes_are_read(line: bytes) -> None:
    parsed = parse_position(line)
    assert parsed is None or parse_position(bytes(parsed)) == parsed
