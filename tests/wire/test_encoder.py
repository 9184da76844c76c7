"""The exact bytes of each frame."""

from __future__ import annotations

import pytest

from jsproto.wire.encoder import (
    OK,
    PING,
    PONG,
    encode,
    encode_connect,
    encode_err,
    encode_info,
    encode_msg,
    encode_pub,
    encode_sub,
    encode_unsub,
)
from jsproto.wire.frames import Connect, Err, Frame, Info, Msg, MsgRun, Ok, Ping, Pong, Pub, Sub, Unsub


@pytest.mark.parametrize(
    ("frame", "data"),
    [
        (Info(b'{"a":1}'), b'INFO {"a":1}\r\n'),
        (Connect(b"{}"), b"CONNECT {}\r\n"),
        (Ping(), b"PING\r\n"),
        (Pong(), b"PONG\r\n"),
        (Ok(), b"+OK\r\n"),
        (Err(b"Unknown Protocol Operation"), b"-ERR 'Unknown Protocol Operation'\r\n"),
        (Pub(b"a", None, None, b"ok"), b"PUB a 2\r\nok\r\n"),
        (Pub(b"a", b"r", None, b""), b"PUB a r 0\r\n\r\n"),
        (Pub(b"a", None, b"hhh", b"ok"), b"HPUB a 3 5\r\nhhhok\r\n"),
        (Pub(b"a", b"r", b"", b""), b"HPUB a r 0 0\r\n\r\n"),
        (Sub(b"a", None, b"1"), b"SUB a 1\r\n"),
        (Sub(b"a", b"q", b"1"), b"SUB a q 1\r\n"),
        (Unsub(b"1", None), b"UNSUB 1\r\n"),
        (Unsub(b"1", 0), b"UNSUB 1 0\r\n"),
        (Msg(b"a", b"1", None, None, b"ok"), b"MSG a 1 2\r\nok\r\n"),
        (Msg(b"a", b"1", b"r", None, b"ok"), b"MSG a 1 r 2\r\nok\r\n"),
        (Msg(b"a", b"1", b"", None, b"ok"), b"MSG a 1  2\r\nok\r\n"),
        (Msg(b"a", b"1", None, b"hhh", b"ok"), b"HMSG a 1 3 5\r\nhhhok\r\n"),
        (Msg(b"a", b"1", b"r", b"hhh", b""), b"HMSG a 1 r 3 3\r\nhhh\r\n"),
        (Msg(b"a", b"1", b"", b"hhh", b""), b"HMSG a 1  3 3\r\nhhh\r\n"),
        (MsgRun(b"a", b"1", None, [b"h", b""], [b"o", b"k"]), b"HMSG a 1 1 2\r\nho\r\nHMSG a 1 0 1\r\nk\r\n"),
    ],
)
def test_any_frame(frame: Frame, data: bytes) -> None:
    assert encode(frame) == data


def test_the_functions_by_verb() -> None:
    assert (PING, PONG, OK) == (b"PING\r\n", b"PONG\r\n", b"+OK\r\n")
    assert encode_info(b"{}") == b"INFO {}\r\n"
    assert encode_connect(b"{}") == b"CONNECT {}\r\n"
    assert encode_err(b"'Stale Connection'") == b"-ERR 'Stale Connection'\r\n"
    assert encode_sub(b"a", None, b"1") == b"SUB a 1\r\n"
    assert encode_unsub(b"1") == b"UNSUB 1\r\n"
    assert encode_unsub(b"1", 7) == b"UNSUB 1 7\r\n"
    assert encode_pub(b"a", None, None, b"") == b"PUB a 0\r\n\r\n"
    assert encode_msg(b"a", b"1", None, None, b"") == b"MSG a 1 0\r\n\r\n"
