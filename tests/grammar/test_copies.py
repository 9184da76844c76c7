"""What a copy says of its original, and which of its headers it keeps."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from jsproto.grammar.copies import (
    COPY_SOURCE,
    CopyOrigin,
    filter_text,
    kept_lines,
    kept_lines_of_all,
    origin_of,
    parse_origin,
)
from jsproto.grammar.headers import Headers, encode_headers
from jsproto.grammar.position import StreamPosition

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"], exclude_characters=".*>/\\"), min_size=1)
IDENTITIES = st.none() | st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20)


@given(
    NAMES.filter(lambda name: len(name.encode()) <= 255), st.integers(0, 2**64 - 1), st.lists(NAMES),
    IDENTITIES.filter(lambda identity: identity != "-"), st.none() | st.integers(0, 2**63 - 1),
)  # fmt: skip
def test_what_is_written_is_read(
    stream: str, seq: int, filters: list[str], identity: str | None, witness: int | None
) -> None:
    origin = CopyOrigin(StreamPosition(stream, seq, identity, witness), filter_text(filters))
    assert parse_origin(bytes(origin)) == origin
    block = encode_headers({"A": "b", COPY_SOURCE: bytes(origin).decode()})
    assert origin_of(block) == origin


@pytest.mark.parametrize(
    ("text", "identity"), [(b"S 7 >", None), (b"S 7 > id", "id"), (b"S 7 id - >", "id"), (b"S 7 - - >", None)]
)
def test_the_forms_without_a_witness(text: bytes, identity: str | None) -> None:
    assert parse_origin(text) == CopyOrigin(StreamPosition("S", 7, identity), ">")


@given(st.binary())
@example(b"S 1 >\r\n")
@example(b"S 1 > ")
@example(b"S  1 >")
@example(b"S 1 > a b")
@example(b"S 1 a 5 >\r\n")
@example(b"S 1 a 5 \xff")
@example(b"\xff 1 >")
@example(b"S " + b"9" * 21)
def test_anything_else_is_no_origin(text: bytes) -> None:
    origin = parse_origin(text)
    assert origin is None or bytes(origin) == text or origin.position.seq == int(text.split(b" ")[1])


@pytest.mark.parametrize("header", [None, b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\nJsproto-Copy-Source: S\r\n\r\n"])
def test_no_origin(header: bytes | None) -> None:
    assert origin_of(header) is None


def test_the_last_header_counts() -> None:
    origin = CopyOrigin(StreamPosition("S", 7, "abc"), ">")
    block = encode_headers(Headers([(COPY_SOURCE, "OTHER 1 >"), (COPY_SOURCE, bytes(origin).decode())]))
    assert origin_of(block) == origin


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        ("", ""),
        ("A: b\r\nC:d\r\n", "A: b\r\nC:d\r\n"),
        ("Nats-Msg-Id: 1\r\n", ""),
        ("A: b\r\nNats-Expected-Last-Sequence: 1\r\nC: d\r\n", "A: b\r\nC: d\r\n"),
        ("Nats-Marker-Reason: MaxAge\r\nNats-Rollup: sub\r\n", "Nats-Marker-Reason: MaxAge\r\n"),
        ("Nats-Marker-Reasons: x\r\nNats-Incr: 1\r\nNats-Schedule-Next: purge\r\n", ""),
        ("Nats-Rollup: all\r\nNats-TTL: 5s\r\nA: Nats-b\r\n", "A: Nats-b\r\n"),
        ("Jsproto-Copy-Source: X 1\r\nA: b\r\n", "A: b\r\n"),
        ("nats-msg-id: 1\r\nX-Nats-Y: 2\r\n", "nats-msg-id: 1\r\nX-Nats-Y: 2\r\n"),
    ],
)
def test_instructions_are_not_copied(lines: str, kept: str) -> None:
    block = f"NATS/1.0\r\n{lines}\r\n".encode()
    assert kept_lines(block, keep_ttl=False) == kept.encode()
    with_ttl = kept_lines(block, keep_ttl=True)
    assert with_ttl.replace(b"Nats-TTL: 5s\r\n", b"") == kept.encode()
    assert (b"Nats-TTL" in with_ttl) == ("TTL" in lines)


def test_a_status_line_is_not_kept() -> None:
    assert kept_lines(b"NATS/1.0 503 No\r\nA: b\r\n\r\n", keep_ttl=False) == b"A: b\r\n"


@pytest.mark.parametrize(
    ("block", "kept"),
    [
        (b"NATS/1.0\r\nbad line\r\n\r\n", b""),
        (b"NATS/1.0\r\nA: b\r\n cont\r\nC: d\r\n\r\n", b"A: b\r\nC: d\r\n"),
        (b"NATS/1.0\r\nA: b\r\n", b"A: b\r\n"),
        (b"NATS/1.0\r\nA: b", b"A: b\r\n"),
        (b"NATS/1.0\r\nA: b\nNats-X: c\r\nC: d\r\n\r\n", b"C: d\r\n"),
        (b"NATS/1.0", b""),
        (b"", b""),
    ],
)
def test_of_a_malformed_block_the_headers_are_kept(block: bytes, kept: bytes) -> None:
    assert kept_lines(block, keep_ttl=False) == kept
    Headers.parse(b"NATS/1.0\r\n%b\r\n" % kept)


@given(st.lists(st.sampled_from([b"A: b", b"Nats-X: 1", b"\n", b"\r", b"\r\n", b" ", b":", b"\0", b"NATS/1.0"])))
def test_what_is_kept_can_always_be_sent(parts: list[bytes]) -> None:
    kept = kept_lines(b"".join(parts), keep_ttl=False)
    headers = Headers.parse(b"NATS/1.0\r\n%b\r\n" % kept)
    assert not any(name.startswith("Nats-") for name in headers)


BLOCKS = st.sampled_from([None, b"", b"NATS/1.0\r\n", b"NATS/1.0 503\r\nA: b\r\n\r\n", b"NATS/1.0\r\nA: b\r\n"]) | (
    st.sampled_from(
        [
            b"",
            b"A: b",
            b"A: b\r\nC:",
            b"A: Nats-b",
            b"Nats-TTL: 5s\r\nA: b",
            b"Jsproto-Copy-Source: X 1",
            b"bad",
            b"A: b\n",
        ]
    ).map(lambda lines: b"NATS/1.0\r\n%b\r\n\r\n" % lines)
)


@given(st.lists(BLOCKS), st.booleans())
@example([None, b"NATS/1.0\r\nA: b\r\n\r\n", b"NATS/1.0\r\n\r\n"], False)
@example([b"NATS/1.0\r\nA: b\r\n\r\n", None, b"NATS/1.0\r\nNats-TTL: 5s\r\n\r\n"], True)
def test_the_headers_of_many_are_kept_as_those_of_each(blocks: list[bytes | None], keep_ttl: bool) -> None:
    each = [b"" if block is None else kept_lines(block, keep_ttl=keep_ttl) for block in blocks]
    assert kept_lines_of_all(blocks, keep_ttl=keep_ttl) == each


def test_filters_as_an_origin_has_them() -> None:
    assert filter_text([]) == ">"
    assert filter_text(["b", "a.*"]) == filter_text(["a.*", "b"]) == "a.*,b"
    many = [f"subject.{number}" for number in range(100)]
    assert len(filter_text(many)) == 64
    assert filter_text(many) == filter_text(many[::-1]) != filter_text(many[1:])
