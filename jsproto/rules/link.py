"""The phases of one link, from the first byte to the last. This file does not know our role.

A link opens with a fixed conversation: the server speaks first (INFO), the client answers (CONNECT, then PING) and
the server's PONG says that CONNECT was accepted. After that both sides may send what their role allows at any time.
TLS begins between INFO and CONNECT, or before INFO where both sides know; how it is agreed on is not told in frames.
Which frames a role may send at all is settled below this table: the decoder of each role knows only the verbs of
the other side. So the table is keyed by phase and frame type, and a pair that is absent is illegal.

Not here: keep-alive (a timer of the client's link), authentication (the server answers a bad CONNECT with ``-ERR``
and closes), TLS itself.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from jsproto.wire.frames import Connect, Err, Info, Msg, Ok, Ping, Pong, Pub, Sub, Unsub


class LinkPhase(Enum):
    """Where a link stands."""

    EXPECT_INFO = "the server has not spoken yet"
    EXPECT_TLS = "TLS comes next"
    EXPECT_CONNECT = "INFO has passed; the client owes CONNECT"
    EXPECT_PONG = "CONNECT and PING have passed; the server owes PONG or -ERR"
    OPEN = "messages flow"
    CLOSED = "nothing more will be sent or read"


_P = LinkPhase

LINK: Final[dict[LinkPhase, dict[type, LinkPhase]]] = {
    _P.EXPECT_INFO: {Info: _P.EXPECT_CONNECT, Err: _P.EXPECT_INFO},
    # A server that has no room for another client says so without TLS. Nothing else may be smuggled in.
    _P.EXPECT_TLS: {Err: _P.EXPECT_TLS},
    _P.EXPECT_CONNECT: {Connect: _P.EXPECT_PONG, Err: _P.EXPECT_CONNECT, Ping: _P.EXPECT_CONNECT},
    # The client may write ahead of the PONG and a server may send a second INFO or a PING of its own.
    _P.EXPECT_PONG: {
        Pong: _P.OPEN, Ping: _P.EXPECT_PONG, Info: _P.EXPECT_PONG, Ok: _P.EXPECT_PONG, Err: _P.EXPECT_PONG,
        Pub: _P.EXPECT_PONG, Sub: _P.EXPECT_PONG, Unsub: _P.EXPECT_PONG,
    },
    _P.OPEN: dict.fromkeys((Info, Ping, Pong, Ok, Err, Msg, Pub, Sub, Unsub, Connect), _P.OPEN),
    _P.CLOSED: {},
}  # fmt: skip
