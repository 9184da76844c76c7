"""Hypothesis strategies of the wire: frames of both sides, streams of them, and ways to cut bytes."""

from __future__ import annotations

from collections.abc import Container
from unittest.mock import patch

import hypothesis.strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from jsproto.wire.bulk_decoder import BulkDecoder
from jsproto.wire.decoder import Decoder, Role
from jsproto.wire.encoder import encode
from jsproto.wire.frames import (
    Connect,
    DeliveryRun,
    Err,
    Frame,
    Info,
    Msg,
    MsgRun,
    Ok,
    Ping,
    PlainRun,
    Pong,
    Pub,
    Sub,
    Unsub,
)

# One argument: any bytes but the separators. NUL, VT, FF and bytes that are not UTF-8 do arrive through real
# servers.
tokens = st.binary(min_size=1, max_size=12).map(lambda raw: raw.translate(bytes.maketrans(b" \t\r\n", b"\0\v\f\xff")))
sids = st.integers(0, 10**6).map(lambda number: b"%d" % number)
bodies = st.one_of(
    st.binary(max_size=40),
    st.lists(st.sampled_from([b"\r\n", b"\n", b"\r", b"MSG a 1 2\r\n", b"PING\r\n", b"x"]), max_size=6).map(b"".join),
)
headers = st.none() | bodies | st.just(b"NATS/1.0 503\r\n\r\n")
# What follows a verb to the end of its line, as it stands.
texts = st.binary(max_size=30).map(lambda raw: raw.translate(None, b"\r\n"))

_both: list[SearchStrategy[Frame]] = [st.just(Ping()), st.just(Pong())]
server_frames: SearchStrategy[Frame] = st.one_of(
    *_both,
    st.just(Ok()),
    st.builds(Info, texts),
    st.builds(Err, texts),
    st.builds(Msg, tokens, sids, st.none() | st.just(b"") | tokens, headers, bodies),
)
client_frames: SearchStrategy[Frame] = st.one_of(
    *_both,
    st.builds(Connect, texts),
    st.builds(Pub, tokens, st.none() | tokens, headers, bodies),
    st.builds(Sub, tokens, st.none() | tokens, sids),
    st.builds(Unsub, sids, st.none() | st.integers(0, 999_999_999)),
)
frames_for: dict[Role, SearchStrategy[Frame]] = {"client": server_frames, "server": client_frames}
roles: SearchStrategy[Role] = st.sampled_from(["client", "server"])

# Bytes that come close to the protocol: pieces of lines in any order.
fragments = st.lists(
    st.sampled_from(
        [
            b"MSG", b"HMSG", b"PUB", b"hpub", b"SUB", b"UNSUB", b"PING", b"pong", b"+OK", b"-ERR", b"INFO",
            b"CONNECT", b" ", b"  ", b"\t", b"\r\n", b"\n", b"\r", b"a", b"a.b", b"0", b"1", b"2", b"09",
            b"1_0", b"-1", b"{}", b"'x'", b"PING\r\n", b"MSG a 1 2\r\nab\r\n", b"HPUB a 1 2\r\nab\r\n",
            b"MSG a 1  0\r\n\r\n", b"\0", b"\xc2\xb2",
        ]
    ),
    max_size=25,
).map(b"".join)  # fmt: skip


@st.composite
def damaged(draw: DrawFn, role: Role) -> bytes:
    """A stream of good frames in which some bytes were replaced, removed or added."""
    data = bytearray(b"".join(map(encode, draw(st.lists(frames_for[role], min_size=1, max_size=5)))))
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(data)))
        data[start : start + draw(st.integers(0, 3))] = draw(st.binary(max_size=3) | fragments)
    return bytes(data)


@st.composite
def cut(draw: DrawFn, data: bytes) -> list[bytes]:
    """``data`` in pieces, some of them empty."""
    places = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


def delivered(number: int, payload: bytes = b"ok", sid: bytes = b"1") -> bytes:
    """A message as a consumer delivers it."""
    return b"MSG s.%d %b $JS.ACK.S.C.1.%d.%d.1.0 %d\r\n%b\r\n" % (number, sid, number, number, len(payload), payload)


def plain(number: int, payload: bytes = b"ok", sid: bytes = b"1") -> bytes:
    """A message without reply and header."""
    return b"MSG s.%d %b %d\r\n%b\r\n" % (number, sid, len(payload), payload)


def decode(role: Role, pieces: list[bytes]) -> tuple[list[Frame], str | None, int]:
    """What pieces come to: the frames, the error, and how many bytes are kept."""
    decoder = Decoder(role)
    frames = [frame for piece in pieces for frame in decoder.feed(piece)]
    return frames, None if decoder.error is None else str(decoder.error), decoder.pending


def decode_generally(pieces: list[bytes]) -> tuple[list[Frame], str | None, int]:
    """``decode`` for a client, by the general reader alone."""
    with patch.object(BulkDecoder, "take", lambda _, data, position, frames: position):
        return decode("client", pieces)


def decode_runs(pieces: list[bytes]) -> tuple[list[Frame], str | None, int]:
    """``decode`` for a client that takes runs, with fields. Runs are returned as their messages."""
    decoder = decoder_of_runs()
    frames = messages([frame for piece in pieces for frame in decoder.feed(piece)])
    return frames, None if decoder.error is None else str(decoder.error), decoder.pending


class Everything(Container[bytes]):
    """It contains whatever is asked for."""

    def __contains__(self, key: object) -> bool:
        return True


def decoder_of_runs(with_fields: Container[bytes] = Everything()) -> Decoder:
    """A client's decoder that may return runs."""
    decoder = Decoder("client")
    decoder.allow_runs(with_fields)
    return decoder


def messages(frames: list[Frame]) -> list[Frame]:
    """The frames, with each run as its messages."""
    runs = MsgRun | DeliveryRun | PlainRun
    return [each for frame in frames for each in (frame.messages() if isinstance(frame, runs) else [frame])]


def one_by_one(data: bytes) -> list[bytes]:
    """``data``, byte by byte."""
    return [data[place : place + 1] for place in range(len(data))]
