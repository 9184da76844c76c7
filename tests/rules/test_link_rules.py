"""The phases of a link as a table."""

from __future__ import annotations

import pytest

from jsproto.rules.link import LINK, LinkPhase
from jsproto.wire.frames import Connect, Info, Msg, Ping, Pong, Pub


def test_the_handshake_is_the_only_way_to_an_open_link() -> None:
    phase = LinkPhase.EXPECT_INFO
    for frame in (Info, Connect, Ping, Pong):
        phase = LINK[phase][frame]
    assert phase is LinkPhase.OPEN
    leads_to_open = {(before, frame) for before in LINK for frame, after in LINK[before].items()
                     if after is LinkPhase.OPEN and before is not LinkPhase.OPEN}  # fmt: skip
    assert leads_to_open == {(LinkPhase.EXPECT_PONG, Pong)}


@pytest.mark.parametrize("phase", [LinkPhase.EXPECT_INFO, LinkPhase.EXPECT_CONNECT, LinkPhase.EXPECT_PONG])
def test_no_message_reaches_a_client_before_the_handshake_is_complete(phase: LinkPhase) -> None:
    assert Msg not in LINK[phase]


def test_nothing_is_published_before_connect_and_nothing_follows_the_end() -> None:
    assert Pub not in LINK[LinkPhase.EXPECT_INFO]
    assert Pub not in LINK[LinkPhase.EXPECT_CONNECT]
    assert LINK[LinkPhase.CLOSED] == {}
