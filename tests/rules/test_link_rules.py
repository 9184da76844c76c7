"""The phases of a link as a table."""

from __future__ import annotations

import pytest

from jsproto.rules.link import FRAMES, LINK, LinkPhase, LinkStep
from jsproto.rules.table import IGNORED
from jsproto.wire.frames import Connect, Err, Frame, Info, Msg, Ping, Pong, Pub


def test_the_handshake_is_the_only_way_to_an_open_link() -> None:
    phase: LinkPhase | None = LinkPhase.EXPECT_INFO
    for frame in (Info, Connect, Ping, Pong):
        assert phase is not IGNORED
        phase = LINK[phase, frame]
    assert phase is LinkPhase.OPEN
    leads_to_open = {pair for pair, after in LINK.items() if after is LinkPhase.OPEN and pair[0] is not LinkPhase.OPEN}
    assert leads_to_open == {(LinkPhase.EXPECT_PONG, Pong)}


@pytest.mark.parametrize("phase", [LinkPhase.EXPECT_INFO, LinkPhase.EXPECT_CONNECT, LinkPhase.EXPECT_PONG])
@pytest.mark.parametrize("frame", [frame for frame in FRAMES if frame not in (Pong, Ping, Info, Connect)])
def test_no_message_reaches_a_client_before_the_handshake_is_complete(phase: LinkPhase, frame: type[Frame]) -> None:
    assert LINK[phase, Msg] is LinkPhase.CLOSED
    assert LINK[phase, frame] is not LinkPhase.OPEN


def test_nothing_is_published_before_info_and_nothing_follows_the_end() -> None:
    assert LINK[LinkPhase.EXPECT_INFO, Pub] is LinkPhase.CLOSED
    assert LINK[LinkPhase.EXPECT_CONNECT, Pub] is LinkPhase.EXPECT_CONNECT
    assert {after for (phase, _), after in LINK.items() if phase is LinkPhase.CLOSED} == {IGNORED}


def test_tls_begins_where_nothing_was_said_in_the_open_but_info() -> None:
    assert [pair for pair, after in LINK.items() if after is LinkPhase.EXPECT_TLS] == [
        (LinkPhase.EXPECT_TLS, Err), (LinkPhase.EXPECT_CONNECT, LinkStep.START_TLS)
    ]  # fmt: skip
    assert LINK[LinkPhase.EXPECT_TLS, LinkStep.SECURED] is LinkPhase.EXPECT_INFO
