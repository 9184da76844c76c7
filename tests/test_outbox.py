"""What a conversation is by default, and what a bulk outbox does for a client that has only the plain methods."""

from __future__ import annotations

from typing import Any

import pytest

from jsproto.client.connection.connect_options import connect_options
from jsproto.client.connection.session import Session
from jsproto.errors import BadSubjectError, ConnectionClosedError, ConnectionLostError, Error
from jsproto.events import Event, SlowConsumer
from jsproto.grammar.config import ServerInfo
from jsproto.outbox import BulkConversation, BulkOutbox, Conversation, bulk
from jsproto.ticket import Ticket
from jsproto.wire.frames import Msg, MsgRun, PlainRun


class Plain:
    """An outbox with the methods of ``Outbox`` alone. It notes its calls."""

    def __init__(self) -> None:
        self.server: ServerInfo | None = None
        self.closed_error: Error | None = None
        self.calls: list[tuple[Any, ...]] = []
        self.refused = ""

    def publish(self, subject: str, payload: bytes, reply: bytes | None = None, headers: bytes | None = None) -> None:
        if subject == self.refused:
            raise BadSubjectError(subject, "refused")
        self.calls.append(("publish", subject, payload, reply, headers))

    def subscribe(self, subject: str, conversation: Conversation, queue: str | None = None) -> int:
        self.calls.append(("subscribe", subject, conversation, queue))
        return 7

    def unsubscribe(self, sid: int, max_msgs: int | None = None) -> None:
        self.calls.append(("unsubscribe", sid, max_msgs))

    def completed(self, ticket: Ticket[Any]) -> None:
        self.calls.append(("completed", ticket))

    def emit(self, event: Event) -> None:
        self.calls.append(("emit", event))

    def flush(self) -> None:
        self.calls.append(("flush",))

    def rearm(self, conversation: Conversation) -> None:
        self.calls.append(("rearm", conversation))


def test_a_conversation_without_timers_that_does_not_care_about_links() -> None:
    conversation = Conversation()
    conversation.handle_timeout(1.0)
    conversation.link_lost(ConnectionLostError("gone"), 1.0)
    conversation.link_restored(2.0)
    assert conversation.deadline() is None
    assert conversation.receive_many([(b"a", b"$JS.ACK.x", None, b"")], 0, 1.0) == 0
    assert conversation.receive_plain(PlainRun([b"1"] * 2, [b"a"] * 2, [b""] * 2), 1.0) == 0
    with pytest.raises(NotImplementedError):
        conversation.receive(Msg(b"a", b"1", None, None, b""), 1.0)


def test_a_conversation_that_is_given_many_messages_at_once() -> None:
    with pytest.raises(NotImplementedError):
        BulkConversation().receive_run(MsgRun(b"a", b"1", None, [b"", b""], [b"", b""]), 1.0)


def test_a_session_has_bulk_methods_of_its_own() -> None:
    session = Session(connect_options("nats://localhost:4222"), token=bytes(16))
    assert bulk(session) is session
    assert session.takes_patterns
    for name in vars(BulkOutbox):
        if not name.startswith("_"):
            assert name in vars(Session), name


def test_around_a_plain_outbox_the_plain_methods_are_the_same() -> None:
    plain, conversation, ticket, event = Plain(), Conversation(), Ticket[int](), SlowConsumer("a", 1)
    outbox = bulk(plain)
    assert bulk(outbox) is outbox
    assert (outbox.server, outbox.closed_error) == (None, None)
    plain.closed_error = ConnectionClosedError("the end")
    assert outbox.closed_error is plain.closed_error
    calls: list[tuple[Any, ...]] = [
        ("publish", "a", b"x", b"r", b"h"),
        ("subscribe", "a", conversation, "q"),
        ("unsubscribe", 7, 3),
        ("completed", ticket),
        ("emit", event),
        ("flush",),
        ("rearm", conversation),
    ]
    answers = [getattr(outbox, name)(*arguments) for name, *arguments in calls]
    assert plain.calls == calls
    assert answers == [None, 7, None, None, None, None, None]


def test_around_a_plain_outbox_bulk_is_one_by_one() -> None:
    plain = Plain()
    outbox = bulk(plain)
    subjects: set[str] = set()
    assert not outbox.takes_patterns
    assert outbox.publish_run([("a", b"x")], (b"r.", b""), 1) == 0
    assert outbox.publish_replied([("a", b"x")], [b"r.1"]) == 0
    assert outbox.publish_numbered([("a", b"x")], (b"N: ", b"\r\n\r\n"), 1, subjects) == 0
    outbox.want_fields(7)
    assert (plain.calls, subjects) == ([], set())
    outbox.publish_replies([b"$JS.ACK.a", b"$JS.ACK.\xff"], b"+ACK")
    outbox.publish_to_pattern("a", b"x", b"r")
    outbox.unsubscribe_later(7)
    outbox.end_interest(8)
    tickets = [Ticket[int](), Ticket[int]()]
    outbox.completed_many(tickets)
    assert plain.calls == [
        ("publish", "$JS.ACK.a", b"+ACK", None, None),
        ("publish", "$JS.ACK.\udcff", b"+ACK", None, None),
        ("publish", "a", b"x", b"r", None),
        ("unsubscribe", 7, None),
        ("unsubscribe", 8, None),
        ("completed", tickets[0]),
        ("completed", tickets[1]),
    ]


def test_an_error_of_the_plain_outbox_comes_through() -> None:
    plain = Plain()
    plain.refused = "b"
    with pytest.raises(BadSubjectError):
        bulk(plain).publish_replies([b"a", b"b", b"c"], b"+ACK")
    assert [call[1] for call in plain.calls] == ["a"]


def test_a_client_may_override_some_methods() -> None:
    class Some(BulkOutbox):
        """It has one cheaper way."""

        def __init__(self) -> None:
            self.calls: list[tuple[Any, ...]] = []

        def unsubscribe_later(self, sid: int) -> None:
            self.calls.append(("later", sid))

    some = Some()  # type: ignore[abstract]
    assert bulk(some) is some
    some.unsubscribe_later(1)
    assert some.publish_run([("a", b"x")], (b"r.", b""), 1) == 0
    assert some.calls == [("later", 1)]
