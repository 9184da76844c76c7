"""The phases of one link, from the first byte to the last. Both roles step this table.

* A link opens with a fixed conversation. The server sends INFO, the client answers with CONNECT and PING, and the
  server's PONG says that CONNECT was accepted.
* After that both sides may send at any time what their role allows.
* TLS begins between INFO and CONNECT, or before INFO where both sides were configured so. It begins silently.
* A frame outside its phase ends the link.
* Which frames a role may send is up to decoders: that of each role knows only the verbs of the other side.

Not here: keep-alive (a timer of the client's link), authentication (the server answers a bad CONNECT with ``-ERR``
and closes), TLS itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias, get_args

from jsproto.enums import IdentityEnum
from jsproto.rules.table import Table, total
from jsproto.wire.frames import Connect, Err, Frame, Info, Ok, Ping, Pong, Pub, Sub, Unsub


class LinkPhase(IdentityEnum):
    """Where a link stands."""

    EXPECT_INFO = "the server has not spoken yet"
    EXPECT_TLS = "TLS comes next"
    EXPECT_CONNECT = "INFO has passed, and the client owes CONNECT"
    EXPECT_PONG = "CONNECT and PING have passed, and the server owes PONG or -ERR"
    OPEN = "messages flow"
    CLOSED = "nothing more will be sent or read"


class LinkStep(IdentityEnum):
    """What happens to a link besides frames."""

    START_TLS = "INFO, or the options, demand TLS"
    SECURED = "TLS has begun"
    EARLY_PONG = "the answer to a PING that was not the last one"
    CLOSE = "this side ends the link, or finds it broken"


LinkInput: TypeAlias = type[Frame] | LinkStep

FRAMES: Final[tuple[type[Frame], ...]] = get_args(Frame)

_P, _S = LinkPhase, LinkStep


def _row(legal: Mapping[LinkInput, LinkPhase]) -> dict[LinkInput, LinkPhase]:
    """The steps of a phase in which the frames of ``legal`` may come: any other frame ends the link."""
    return {**dict.fromkeys(FRAMES, _P.CLOSED), _S.EARLY_PONG: _P.CLOSED, _S.CLOSE: _P.CLOSED, **legal}


LINK: Final[Table[LinkPhase, LinkInput]] = total(
    LinkPhase,
    (*FRAMES, *_S),
    {
        _P.EXPECT_INFO: _row({Info: _P.EXPECT_CONNECT, Err: _P.EXPECT_INFO}),
        # A server without room for another client says so before TLS. Nothing else is accepted in the open.
        _P.EXPECT_TLS: _row({Err: _P.EXPECT_TLS, _S.SECURED: _P.EXPECT_INFO}),
        _P.EXPECT_CONNECT: _row({
            Connect: _P.EXPECT_PONG, _S.START_TLS: _P.EXPECT_TLS,
            # A server without accounts takes everything from a client that has not sent CONNECT yet.
            **dict.fromkeys((Err, Ping, Pong, Pub, Sub, Unsub), _P.EXPECT_CONNECT),
        }),
        # The client may send before the PONG has come. A server may send a second INFO or a PING of its own.
        _P.EXPECT_PONG: _row({
            Pong: _P.OPEN,
            **dict.fromkeys((Ping, Info, Ok, Err, Pub, Sub, Unsub, Connect, _S.EARLY_PONG), _P.EXPECT_PONG),
        }),
        _P.OPEN: _row(dict.fromkeys((*FRAMES, _S.EARLY_PONG), _P.OPEN)),
    },
    ignored={
        _P.EXPECT_INFO: {_S.START_TLS, _S.SECURED},
        _P.EXPECT_TLS: {_S.START_TLS},
        _P.EXPECT_CONNECT: {_S.SECURED},
        _P.EXPECT_PONG: {_S.START_TLS, _S.SECURED},
        _P.OPEN: {_S.START_TLS, _S.SECURED},
        _P.CLOSED: {*FRAMES, *_S},
    },
)  # fmt: skip
