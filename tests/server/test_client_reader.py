"""What a server makes of a client's bytes."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.server.client_reader import TOO_LARGE, TOO_LONG, UNKNOWN, ClientReader
from jsproto.wire.frames import Connect, Frame, Ping, Pong, Pub, Sub, Unsub
from tests.integration.differential.hostile import bytes_of_a_stranger


class Terms:
    """A session that takes headers, and remembers what begins."""

    def __init__(self, *, headers: bool = True) -> None:
        self.headers = headers
        self.begun: list[bytes] = []

    def begins(self, subject: bytes) -> None:
        self.begun.append(subject)


def read(*pieces: bytes, headers: bool = True) -> tuple[list[Frame], bytes | None]:
    """The frames, and the words of the error."""
    reader = ClientReader(Terms(headers=headers), 1_048_576)
    frames = [frame for piece in pieces for frame in reader.feed(piece)]
    return frames, reader.error


HEADER = b"NATS/1.0\r\n\r\n"


@pytest.mark.parametrize(
    ("data", "frames"),
    [
        (b"PING\r\npiNg x y\nPONG\r\npong\t\r\n", [Ping(), Ping(), Pong(), Pong()]),
        (b"+OK\r\n+okx\r\nINFO {}\r\nINFO{\"a\":1}\r\ninfo null\nPING\n", [Ping()]),
        (b"CONNECT {}\r\nconnect{}\nCONNECT \t{}\r\n", [Connect(b"{}")] * 3),
        (b"SUB a 1\r\nsub\ta q  2\nSUB \na 3 \r\r\n",
        [Sub(b"a", None, b"1"), Sub(b"a", b"q", b"2"), Sub(b"a", None, b"3")]),
        (b"UNSUB 1\r\nUNSUB 1 5\r\nUNSUB 1 0\r\nUNSUB 1 x\r\n",
        [Unsub(b"1", None), Unsub(b"1", 5), Unsub(b"1", None), Unsub(b"1", None)]),
        (b"PUB a 1\r\nx\r\npub\ta  b 01\nx\r\n", [Pub(b"a", None, None, b"x"), Pub(b"a", b"b", None, b"x")]),
        (b"PUB a 12 1\r\nx\r\n", [Pub(b"a", b"12", None, b"x")]),
        (b"HPUB a 12 13\r\n%bx\r\n" % HEADER, [Pub(b"a", None, HEADER, b"x")]),
        (b"HPUB a b 12 13\r\n%bx\r\n" % HEADER, [Pub(b"a", b"b", HEADER, b"x")]),
        (b"hpub a b 12 12\n%b\r\nHPUB a 0 1\r\nx\r\n" % HEADER,
        [Pub(b"a", b"b", HEADER, b""), Pub(b"a", None, None, b"x")]),
        (b"HMSG a 1 0 0\r\n\r\nPING\r\n", [Pub(b"", None, None, b""), Ping()]),
    ],
)  # fmt: skip
def test_what_is_read(data: bytes, frames: list[Frame]) -> None:
    assert read(data) == (frames, None)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"X", UNKNOWN), (b"PI N", UNKNOWN), (b"\r\n", UNKNOWN), (b" PING\r\n", UNKNOWN), (b"SUB\r\n", UNKNOWN),
        (b"MSG a 1 0\r\n", UNKNOWN), (b"PUBX a 0\r\n", UNKNOWN), (b"PUB a 1\r\nxx\r\n", UNKNOWN),
        (b"PUB a 1\r\nx\n", UNKNOWN), (b"PUB a 1\r\nx\rx", UNKNOWN), (b"SUB a\r\n", b""), (b"SUB \r\n", b""),
        (b"SUB a b c d\r\n", b""), (b"UNSUB 1 2 3\r\n", b""), (b"PUB a\r\n", b""), (b"PUB a x\r\n", b""),
        (b"PUB a b 1 2\r\n", b""), (b"PUB a\rb 1\n", b""), (b"PUB a 1234567890\r\n", b""),
        (b"PUB a 1048577\r\n", TOO_LARGE),
        (b"HPUB a 2 1\r\n", b""), (b"HPUB a x 1\r\n", b""), (b"HPUB a 1\r\n", b""), (b"-ERR 'x'\r\n", b""),
        (b"INFO x\r\n", b""), (b"INFO []\r\n", b""), (b"INFO " + b"[" * 2000 + b"\r\n", b""),
        (b"SUB " + b"a" * 4097, TOO_LONG), (b"PUB " + b"a" * 4095 + b" 0\r\n", TOO_LONG),
    ],
)  # fmt: skip
def test_what_ends_the_link(data: bytes, words: bytes) -> None:
    assert read(data) == ([], words)
    assert read(*(data[place : place + 1] for place in range(len(data)))) == ([], words)


def test_what_ends_the_link_of_a_client_without_headers() -> None:
    assert read(b"HPUB a 12 13\r\n", headers=False) == ([], b"")
    assert read(b"hpub a 12 13\r\n", headers=False) == ([], b"")


def test_after_an_error_nothing_is_read() -> None:
    reader = ClientReader(Terms(), 9)
    assert list(reader.feed(b"PING\r\nX")) == [Ping()]
    assert (reader.error, reader.start) == (UNKNOWN, b"X")
    assert list(reader.feed(b"PING\r\n")) == []


def test_a_frame_is_read_when_it_is_asked_for() -> None:
    terms = Terms(headers=False)
    reader = ClientReader(terms, 99)
    frames = reader.feed(b"CONNECT {}\r\nHPUB a 12 12\r\n%b\r\n" % HEADER)
    assert next(frames) == Connect(b"{}")
    terms.headers = True
    assert list(frames) == [Pub(b"a", None, HEADER, b"")]


def test_what_is_published_begins_with_its_control_line() -> None:
    terms = Terms()
    reader = ClientReader(terms, 99)
    assert list(reader.feed(b"PUB a 3\r\nx")) == []
    assert terms.begun == [b"a"]
    assert list(reader.feed(b"y")) == []
    assert list(reader.feed(b"z\r\n")) == [Pub(b"a", None, None, b"xyz")]
    assert terms.begun == [b"a"]


@pytest.mark.parametrize("endless", [b"PING" + b"x" * 9999, b"SUB" + b" " * 9999, b"PONG " + b" " * 9999, b"+OK" * 999])
def test_what_is_passed_over_is_not_kept(endless: bytes) -> None:
    reader = ClientReader(Terms(), 99)
    for _ in range(9):
        list(reader.feed(endless if not reader.pending else endless[-1:] * 9999))
    assert reader.pending < 10


@given(st.integers(0, 2**32), st.lists(st.integers(0, 300), max_size=6))
def test_it_does_not_matter_how_bytes_are_cut(seed: int, cuts: list[int]) -> None:
    data = bytes_of_a_stranger(random.Random(seed))
    places = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    pieces: Any = [data[start:end] for start, end in pairwise(places)]
    assert read(*pieces) == read(data)
