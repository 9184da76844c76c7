"""A session with a scripted server at the other end, in memory: no sockets, no clock.

``Harness.sent()`` returns what the session wrote, decoded in the server role; ``deliver()`` sends a message to whoever
subscribed to its subject, as a server would. Time is ``harness.now`` and moves only when a test moves it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from jsproto.client.connection.connect_options import ConnectKeywords, connect_options
from jsproto.client.connection.session import Session
from jsproto.client.jetstream import JetStream
from jsproto.events import ConversationFailed, Event
from jsproto.grammar.subjects import matches
from jsproto.ticket import Ticket
from jsproto.wire.decoder import Decoder
from jsproto.wire.encoder import PONG, encode_info, encode_msg
from jsproto.wire.frames import Connect, Frame, Ping, Pub, Sub, Unsub

TOKEN = bytes(range(16))
INFO: dict[str, Any] = {
    "server_id": "ID", "server_name": "fake", "version": "2.15.1", "proto": 1, "headers": True, "max_payload": 1048576,
    "jetstream": True, "api_lvl": 5,
}  # fmt: skip


def check_no_fault(events: Iterable[Event]) -> None:
    """Raise what a conversation has raised: the session keeps it from the others, and tells of it."""
    for event in events:
        if isinstance(event, ConversationFailed):
            raise event.error.__cause__ or event.error


class Harness:
    """A session, its time and its scripted server."""

    def __init__(self, *, connected: bool = True, info: dict[str, Any] | None = None, **options: Any) -> None:
        options.setdefault("max_reconnect_attempts", 0)
        options.setdefault("dont_randomize", True)
        servers = options.pop("servers", "nats://localhost:4222")
        keywords: ConnectKeywords = options  # type: ignore[assignment]
        self.session = Session(connect_options(servers, **keywords), token=TOKEN)
        self.now = 100.0
        self.decoder = Decoder("server")
        self.subs: dict[bytes, bytes] = {}
        self.frames: list[Frame] = []
        self.completed: list[Ticket[Any]] = []
        self.all_events: list[Event] = []
        self.info = {**INFO, **(info or {})}
        if connected:
            self.connect()
            self.events()

    @property
    def js(self) -> JetStream:
        return JetStream(self.session)

    def connect(self) -> None:
        """Dial, and answer the handshake."""
        self.decoder = Decoder("server")
        self.session.connection_made(self.now)
        self.feed(encode_info(json.dumps(self.info).encode()))
        self.sent()
        self.feed(PONG)

    def lose(self, reason: str = "the server closed the connection") -> None:
        """The link breaks."""
        self.session.receive_eof(self.now, reason)
        self.subs.clear()
        self.drain()

    def feed(self, data: bytes) -> None:
        """Bytes from the server."""
        self.session.receive_data(data, self.now)
        self.drain()

    def drain(self) -> None:
        """Do what a driver does after every input."""
        if self.session.wants_send(self.now):
            data = b"".join(self.session.data_to_send())
            frames = self.decoder.feed(data)
            assert self.decoder.error is None, self.decoder.error
            for frame in frames:
                if isinstance(frame, Sub):
                    self.subs[frame.sid] = frame.subject
                elif isinstance(frame, Unsub) and frame.max_msgs is None:
                    self.subs.pop(frame.sid, None)
            self.frames += frames
        for ticket in self.session.take_completed():
            assert ticket.done
            ticket.wake()
            self.completed.append(ticket)
        events = self.session.events()
        check_no_fault(events)
        self.all_events += events

    def begin_burst(self) -> None:
        """A write leaves. What is written at this moment waits for company."""
        self.session.publish_message("burst", b"")
        self.drain()
        self.frames.clear()

    def sent(self, *kinds: type) -> list[Frame]:
        """What the session wrote since the last call (only these kinds, if given)."""
        self.session.flush()
        self.drain()
        frames, self.frames = self.frames, []
        return [frame for frame in frames if not kinds or isinstance(frame, kinds)]

    def published(self) -> list[Pub]:
        """The messages the session published since the last call."""
        return [frame for frame in self.sent() if isinstance(frame, Pub)]

    def events(self) -> list[Event]:
        """Events since the last call."""
        self.drain()
        events, self.all_events = self.all_events, []
        return events

    def deliver(self, subject: bytes, payload: bytes = b"", header: bytes | None = None) -> None:
        """A message for whoever subscribed to ``subject``; it must be somebody."""
        self.session.flush()
        self.drain()
        sids = [sid for sid, pattern in self.subs.items() if matches(pattern.decode(), subject.decode())]
        assert sids, f"nobody subscribed to {subject!r}"
        for sid in sids:
            self.feed(encode_msg(subject, sid, None, header, payload))

    def advance(self, seconds: float) -> None:
        """Let time pass, calling ``handle_timeout`` at each deadline on the way, as a punctual driver would."""
        end = self.now + seconds
        for _ in range(1000):
            deadline = self.session.deadline()
            if deadline is None or deadline > end:
                break
            self.now = max(self.now, deadline)
            self.session.handle_timeout(self.now)
            self.drain()
        else:
            raise AssertionError("the deadline does not move")
        self.now = end
        self.session.handle_timeout(end)
        self.drain()

    def answer(self, respond: Callable[[Pub], bytes | dict[str, Any]]) -> list[Pub]:
        """Answer every request published since the last call."""
        requests = [pub for pub in self.published() if pub.reply is not None]
        for pub in requests:
            assert pub.reply is not None
            answer = respond(pub)
            self.deliver(pub.reply, answer if isinstance(answer, bytes) else json.dumps(answer).encode())
        return requests


__all__ = ["INFO", "TOKEN", "Connect", "Harness", "Ping", "Pub", "Sub", "Unsub"]
