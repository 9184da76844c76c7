"""A stored message as Direct Get delivers it: lazy, and not to be spoofed by what was stored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.errors import RemoteProtocolError
from jsproto.grammar.headers import Headers
from jsproto.grammar.stored import ENDING, StoredMsg, next_sequences, number, paging, stored_messages

SERVER = (
    b"Nats-Stream: DG\r\nNats-Subject: foo.A\r\nNats-Sequence: 7\r\nNats-Time-Stamp: 2026-11-20T20:36:46.910548879Z\r\n"
)
PAGED = SERVER + b"Nats-Num-Pending: 3\r\nNats-Last-Sequence: 5\r\n"


def test_a_plain_reply() -> None:
    header = b"NATS/1.0\r\n" + SERVER + b"\r\n"
    assert paging(header) == (7, None, None)
    message = StoredMsg(header, b"x", 7)
    assert message.num_pending is None
    assert (message.subject, message.stream, message.timestamp) == ("foo.A", "DG", 1_795_207_006_910_548_879)
    assert list(message.headers.items()) == []


def test_many_at_once_are_the_same() -> None:
    header = b"NATS/1.0\r\n" + PAGED + b"\r\n"
    (message,) = stored_messages([(header, b"x", 7)])
    assert repr(message) == repr(StoredMsg(header, b"x", 7)) == "<StoredMsg 7 'foo.A' 1 bytes>"
    assert (message.data, message.seq, message.num_pending, message.raw_headers) == (b"x", 7, 3, header)


def test_what_follows_in_a_page_is_compared_instead_of_parsed() -> None:
    header = b"NATS/1.0\r\n" + PAGED + b"\r\n"
    then = header.replace(b"5", b"7").replace(b"Nats-Sequence: 7", b"Nats-Sequence: 12")
    assert next_sequences([header], 5) == [7]
    assert next_sequences([header, then, header], 5) == [7, 12]
    assert next_sequences([header], 6) == []
    assert next_sequences([header.replace(b": 7", b": 5")], 5) == []  # it does not rise
    for line in (b"X: 7", b"Nats-Sequence: x", b"Nats-Sequence: 7\r", b"Nats-Sequence: " + b"9" * 21):
        assert next_sequences([b"NATS/1.0\r\n" + line + ENDING % 5], 5) == []
    assert next_sequences([b"7" + ENDING % 5], 5) == []


names = st.sampled_from(["Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Num-Pending", "Nats-Last-Sequence", "X"])
values = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1)


@given(st.lists(st.tuples(names, values)))
def test_stored_headers_cannot_pass_for_the_servers(user: list[tuple[str, str]]) -> None:
    lines = "".join(f"{name}: {value}\r\n" for name, value in user).encode()
    header = b"NATS/1.0\r\n" + lines + PAGED + b"\r\n"
    assert paging(header) == (7, 3, 5)
    message = StoredMsg(header, b"", 7)
    assert (message.subject, message.stream) == ("foo.A", "DG")
    assert list(message.headers.items()) == user
    assert isinstance(message.headers, Headers)


@pytest.mark.parametrize("value", [b"", b"-1", b"1x", b"9" * 21, "٣".encode()])
def test_numbers_are_digits(value: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        number(b"NATS/1.0\r\nN: " + value + b"\r\n\r\n", b"N")


def test_a_server_block_that_is_not_whole() -> None:
    message = StoredMsg(b"NATS/1.0\r\nNats-Sequence: 1\r\nNats-Time-Stamp: noon\r\n\r\n", b"", 1)
    for ask in (lambda: message.subject, lambda: message.stream, lambda: message.timestamp, lambda: message.headers):
        with pytest.raises(RemoteProtocolError):
            ask()
    with pytest.raises(RemoteProtocolError):
        paging(b"NATS/1.0\r\n\r\n")


@given(st.binary())
def test_arbitrary_bytes_are_refused_in_one_way(junk: bytes) -> None:
    try:
        paging(junk)
    except RemoteProtocolError:
        return
    assert b"Nats-Sequence" in junk
