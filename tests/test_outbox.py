"""What a conversation is unless it says otherwise."""

from __future__ import annotations

import pytest

from jsproto.errors import ConnectionLostError
from jsproto.outbox import BulkConversation, Conversation
from jsproto.wire.frames import Msg, MsgRun


def test_a_conversation_without_timers_that_does_not_care_about_links() -> None:
    conversation = Conversation()
    conversation.handle_timeout(1.0)
    conversation.link_lost(ConnectionLostError("gone"), 1.0)
    conversation.link_restored(2.0)
    assert conversation.deadline() is None
    assert conversation.receive_many([(b"a", b"$JS.ACK.x", None, b"")], 0, 1.0) == 0
    with pytest.raises(NotImplementedError):
        conversation.receive(Msg(b"a", b"1", None, None, b""), 1.0)


def test_a_conversation_that_is_given_many_messages_at_once() -> None:
    with pytest.raises(NotImplementedError):
        BulkConversation().receive_run(MsgRun(b"a", b"1", None, [b"", b""], [b"", b""]), 1.0)
