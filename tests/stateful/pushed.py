"""What the searches of two readings of a pushed consumer share: the way between a model of a server and the client.

``under_way`` has what the model has sent and the client has not received. ``wires`` are the client's subscriptions, as
the model knows them: the sid by the subject.

Not here: what the model answers and delivers, and what goes wrong on the way.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from jsproto.wire.encoder import encode_msg
from jsproto.wire.frames import Pub, Sub, Unsub
from tests.client.pushing import Pushing


class Pushed(RuleBasedStateMachine):
    """A session, its reading (``reader``), and the way to it."""

    def begin(self) -> None:
        """A link, and nothing under way."""
        self.h = Pushing(max_reconnect_attempts=-1, reconnect_time_wait=0.01)
        self.reader: Any = None
        self.wires: dict[bytes, bytes] = {}
        self.under_way: deque[bytes] = deque()
        self.taken: list[int] = []
        self.linked = True

    def answer(self, pub: Pub) -> None:
        """The client has published this."""
        raise NotImplementedError

    def serve(self) -> None:
        """Do what the client asked for."""
        for frame in self.h.sent():
            if isinstance(frame, Sub):
                self.wires[frame.subject] = frame.sid
            elif isinstance(frame, Unsub):
                self.wires = {subject: sid for subject, sid in self.wires.items() if sid != frame.sid}
            elif isinstance(frame, Pub):
                self.answer(frame)

    def send(
        self, subject: bytes, reply: bytes | None, payload: bytes, header: bytes | None = None, *, via: bytes
    ) -> None:
        if via in self.wires:
            self.under_way.append(encode_msg(subject, self.wires[via], reply, header, payload))

    def reply(self, pub: Pub, body: dict[str, Any]) -> None:
        """Answer a request to the inbox that outlives the consumers."""
        assert pub.reply is not None
        self.send(pub.reply, None, json.dumps(body).encode(), via=pub.reply.rpartition(b".")[0] + b".*")

    def arrive(self, most: int) -> None:
        """Let up to ``most`` messages reach the client, and what it says to that reach the server."""
        while self.under_way and most and self.linked:
            self.h.feed(self.under_way.popleft())
            most -= 1
            self.serve()

    def lose(self) -> None:
        """The link breaks, with all that is under way."""
        if self.linked:
            self.linked = False
            self.h.lose()
            self.under_way.clear()
            self.wires.clear()

    @rule(count=st.integers(1, 10))
    def receive(self, count: int) -> None:
        self.arrive(count)

    @rule(most=st.integers(1, 10))
    def take(self, most: int) -> None:
        self.taken += [int(message.data) for message in self.reader.pop_many(most, self.h.now)]
        self.serve()
