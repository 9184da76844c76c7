"""A stored message as Direct Get delivers it: lazy, and not to be spoofed by what was stored."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.errors import RemoteProtocolError
from jsproto.grammar.headers import Headers
from jsproto.grammar.stored import (
    ENDING,
    FieldsAsked,
    StoredMsg,
    answerer,
    next_sequences,
    number,
    page_end,
    paging,
    stored_at,
    stored_header,
    stored_messages,
    subjects_of,
)
from tests.grammar.generated import block, pages
from tests.marks import requirement

SERVER = (
    b"Nats-Stream: DG\r\nNats-Subject: foo.A\r\nNats-Sequence: 7\r\nNats-Time-Stamp: 2026-11-20T20:36:46.910548879Z\r\n"
)
PAGED = SERVER + b"Nats-Num-Pending: 3\r\nNats-Last-Sequence: 5\r\n"


@requirement(141, 142)
def test_a_plain_reply() -> None:
    header = b"NATS/1.0\r\n" + SERVER + b"\r\n"
    assert paging(header) == (7, None, None)
    message = StoredMsg(header, b"x", 7)
    assert message.num_pending is None
    assert (message.subject, message.stream, message.timestamp) == ("foo.A", "DG", 1_795_207_006_910_548_879)
    assert list(message.headers.items()) == []
    assert StoredMsg(header, b"[1]", 7).json() == [1]


def test_many_at_once_are_the_same() -> None:
    header = b"NATS/1.0\r\n" + PAGED + b"\r\n"
    (message,) = stored_messages([header], [b"x"], [7])
    assert repr(message) == repr(StoredMsg(header, b"x", 7)) == "<StoredMsg 7 'foo.A' 1 bytes>"
    assert (message.data, message.seq, message.num_pending, message.raw_headers) == (b"x", 7, 3, header)


def test_what_follows_in_a_page_is_compared_instead_of_parsed() -> None:
    header = b"NATS/1.0\r\n" + PAGED + b"\r\n"
    then = header.replace(b"5", b"7").replace(b"Nats-Sequence: 7", b"Nats-Sequence: 12")
    assert next_sequences([header], 5) == [7]
    assert next_sequences([header, then, header], 5) == [7, 12]
    assert next_sequences([header], 4) == []  # 5 is missing
    assert next_sequences([header], 6) == [7]  # nothing can be
    for end in (b"", b"\r\n", ENDING[:-4] % 5, ENDING % 5 + b"\r\n", b"\r\nNats-Last-Sequence: \r\n\r\n"):
        assert next_sequences([header.removesuffix(ENDING % 5) + end], 6) == []  # not as servers write it
    assert next_sequences([header.replace(b": 7", b": 5")], 5) == []  # it does not rise
    for line in (b"X: 7", b"Nats-Sequence: x", b"Nats-Sequence: 7\r", b"Nats-Sequence: " + b"9" * 21):
        assert next_sequences([b"NATS/1.0\r\n" + line + ENDING % 5], 5) == []
    assert next_sequences([b"7" + ENDING % 5], 5) == []


def one_by_one(headers: list[bytes], previous: int) -> list[int]:
    """``next_sequences`` of each alone: then nothing is compared at once."""
    sequences: list[int] = []
    for header in headers:
        found = next_sequences([header], sequences[-1] if sequences else previous)
        if not found:
            break
        sequences += found
    return sequences


@pytest.mark.parametrize("first", [1, 999, 1_001, 9_960, 20_000, 10**20 - 10])
def test_a_run_of_sequences_is_what_each_of_them_is(first: int) -> None:
    headers = [block(seq, seq - 1, b"X: %b\r\n" % (b"x" * (seq % 3))) for seq in range(first, first + 50)]
    expected = one_by_one(headers, first - 1)
    assert [*next_sequences(headers, first - 1)] == expected
    assert len(expected) == 50 if first < 10**19 else 10
    headers[-2:-1] = []
    assert [*next_sequences(headers, first - 1)] == expected[:48]
    headers[20] = block(first + 20, first + 19).replace(b"Nats-Sequence: ", b"Nats-Sequence: +")
    assert [*next_sequences(headers, first - 1)] == expected[:20]


def test_a_run_is_compared_and_not_parsed() -> None:
    headers = [block(seq, seq - 1) for seq in range(1_500, 2_500)]
    assert next_sequences(headers, 1_499) == range(1_500, 2_500)
    spoofed = block(1_600, 1_599, b"Nats-Sequence: 1600\r\n").replace(
        b"Sequence: 1600\r\nNats-T", b"Sequence: 1601\r\nNats-T"
    )
    assert next_sequences([*headers[:100], spoofed, *headers[101:]], 1_499) == [*range(1_500, 1_600), 1_601]
    at = headers[100].rfind(b"\r\nNats-Sequence: ")
    pad = b"X: %b\r\n" % (b"x" * (at - len(b"NATS/1.0\r\nX: ")))
    at_the_same_place = block(1_601, 1_599, pad + b"Nats-Sequence: 1600\r\n")
    assert at_the_same_place.startswith(b"\r\nNats-Sequence: 1600\r\n", at)
    assert next_sequences([*headers[:100], at_the_same_place, *headers[101:]], 1_499) == [*range(1_500, 1_600), 1_601]


@given(pages())
def test_a_page_at_once_is_what_it_is_message_by_message(page: tuple[list[bytes], int]) -> None:
    headers, previous = page
    with patch("jsproto.grammar.stored._FEW", 2):
        assert [*next_sequences(headers, previous)] == one_by_one(headers, previous)


def test_a_read_hears_which_fields_are_looked_at() -> None:
    header = b"NATS/1.0\r\n" + PAGED + b"\r\n"
    for name in ("subject", "timestamp", "stream", "headers", "num_pending"):
        asked = FieldsAsked()
        (message,) = stored_messages([header], [b"x"], [7], asked=asked)
        assert not asked.yes
        assert getattr(message, name) == getattr(StoredMsg(header, b"x", 7), name)
        assert asked.yes == (name in ("subject", "timestamp"))


def test_fields_that_are_known_are_not_parsed() -> None:
    whole = stored_messages([b"", b""], [b"x", b""], [7, 8], [b"a", b"b"], [b"2026-11-20T20:36:46.5Z"] * 2)
    assert [message.subject for message in whole] == ["a", "b"]
    known = ([b"foo.\xff"], [b"2026-11-20T20:36:46.5Z"])
    (message,) = stored_messages([b""], [b"x"], [7], *known)
    assert (message.subject, message.timestamp) == ("foo.\udcff", 1_795_207_006_500_000_000)
    (message,) = stored_messages([b"NATS/1.0\r\nNats-Time-Stamp: noon\r\n\r\n"], [b"x"], [7], [b"a"], [b"noon"])
    with pytest.raises(RemoteProtocolError, match=r"^Nats-Time-Stamp: not a time stamp: b'noon'"):
        message.timestamp  # noqa: B018


names = st.sampled_from(["Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Num-Pending", "Nats-Last-Sequence", "X"])
values = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1)


@requirement(142, 145)
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


def test_who_sent_a_reply_and_when_its_message_was_stored() -> None:
    header = b"NATS/1.0\r\nNats-Stream: mine\r\nNats-Time-Stamp: x\r\n" + PAGED + b"\r\n"
    assert answerer(header) == "DG"
    assert stored_at(header) == 1_795_207_006_910_548_879
    for told in (b"Nats-Stream:\tDG \r\n", b"Nats-Stream:DG\r\n"):
        assert answerer(header.replace(b"Nats-Stream: DG\r\n", told)) == "DG"


@pytest.mark.parametrize(
    "header",
    [b"", b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\nNats-Stream: DG", b"\r\nNats-Time-Stamp: 2026-11-20T20:36:46Z"],
)
def test_a_reply_that_does_not_say_who_sent_it(header: bytes) -> None:
    for ask in (answerer, stored_at):
        with pytest.raises(RemoteProtocolError, match="without Nats-"):
            ask(header)


@pytest.mark.parametrize("time", [b"", b"noon", b"2026-13-20T20:36:46Z"])
def test_a_time_that_is_none(time: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="Nats-Time-Stamp"):
        stored_at(b"NATS/1.0\r\nNats-Time-Stamp: " + time + b"\r\n\r\n")


@given(st.binary())
def test_arbitrary_bytes_are_refused_in_one_way(junk: bytes) -> None:
    try:
        paging(junk)
    except RemoteProtocolError:
        return
    assert b"Nats-Sequence" in junk


def test_half_of_a_surrogate_pair_is_no_subject() -> None:
    with pytest.raises(RemoteProtocolError, match="a subject or a time that cannot be"):
        stored_header(b"NATS/1.0\r\n\r\n", "S", "s.\ud800", 7, "2026-11-20T21:04:37Z")
    assert b"Nats-Subject: s.\xff\r\n" in stored_header(b"NATS/1.0\r\n\r\n", "S", "s.\udcff", 7, "x")


def test_subjects_of_many_replies() -> None:
    reply = b"NATS/1.0\r\nNats-Subject: mine\r\nNats-Stream: S\r\nNats-Subject: a.b \r\n\r\n"
    assert subjects_of([reply, reply]) == ["a.b", "a.b"]
    for broken in (b"NATS/1.0\r\nNats-Stream: S\r\n\r\n", b"NATS/1.0\r\nNats-Subject: a"):
        with pytest.raises(RemoteProtocolError, match="Nats-Subject"):
            subjects_of([reply, broken])


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 3\r\nNats-Last-Sequence: 7\r\n\r\n", (3, 7, None)),
        (
            b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 3\r\nNats-Last-Sequence: 7\r\nNats-UpTo-Sequence: 9\r\n\r\n",
            (3, 7, 9),
        ),
        (b"NATS/1.0 204\r\nNats-UpTo-Sequence: 9\r\nNats-Num-Pending: 3\r\n\r\n", (3, None, 9)),
        (b"NATS/1.0 204 EOB\r\n\r\n", (None, None, None)),
    ],
)
def test_the_end_of_a_page(header: bytes, said: tuple[int | None, ...]) -> None:
    assert page_end(header) == said


def test_the_end_of_a_page_that_says_no_number() -> None:
    with pytest.raises(RemoteProtocolError, match="Nats-Num-Pending"):
        page_end(b"NATS/1.0 204 EOB\r\nNats-Num-Pending: x\r\nNats-Last-Sequence: 7\r\n\r\n")
