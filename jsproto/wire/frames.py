"""The frames of the wire, one class for each verb. All fields are bytes as they came.

Rules

* A frame is a value that stays as it was built.
* A message has the same frame with a header block (HPUB, HMSG) as with a payload alone.
* Header blocks and JSON are raw. A reader parses those that it needs (``grammar``).
* A run is many messages in one frame, so that their common work is done once.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import TypeAlias

from jsproto._event import event
from jsproto.grammar.columns import Fields


@event
class Info:
    """``INFO``: what the server says about itself, raw JSON."""

    raw: bytes


@event
class Connect:
    """``CONNECT``: what the client says about itself, raw JSON."""

    raw: bytes


@event
class Ping:
    """``PING``."""


@event
class Pong:
    """``PONG``."""


@event
class Ok:
    """``+OK``, in verbose mode only."""


@event
class Err:
    """``-ERR``: the text between the quotes."""

    text: bytes


@event
class Pub:
    """``PUB``, or ``HPUB`` with a header block."""

    subject: bytes
    reply: bytes | None
    header: bytes | None
    payload: bytes


@event
class Sub:
    """``SUB``."""

    subject: bytes
    queue: bytes | None
    sid: bytes


@event
class Unsub:
    """``UNSUB``: at once, or when ``max_msgs`` messages have been delivered."""

    sid: bytes
    max_msgs: int | None


# Not an @event: the decoder builds it without calling ``__init__``, which a type checker forbids for frozen
# classes.
@dataclass(slots=True)
class Msg:
    """``MSG``, or ``HMSG`` with a header block: a message for the subscription ``sid``.

    ``reply`` is None when it is missing. It is empty when the server wrote an empty reply subject, two blanks in a row,
    as in answers of the JetStream API. So test it for truth.
    """

    subject: bytes
    sid: bytes
    reply: bytes | None
    header: bytes | None
    payload: bytes


@event
class MsgRun:
    """``HMSG`` several times in a row, all with one subject, sid and reply: two or more messages at once.

    Only a decoder that may return runs makes them. ``fields``: what the header blocks say, if they are plain replies to
    Direct Gets and the subscription wants that. None: the header blocks are unread.
    """

    subject: bytes
    sid: bytes
    reply: bytes | None
    headers: list[bytes]
    payloads: list[bytes]
    fields: Fields | None = None

    def messages(self) -> list[Msg]:
        """Each message as a frame of its own."""
        return [self.message(number) for number in range(len(self.headers))]

    def message(self, number: int) -> Msg:
        """One of them, counted from 0."""
        return Msg(self.subject, self.sid, self.reply, self.headers[number], self.payloads[number])


RawMsg: TypeAlias = tuple[bytes, bytes, bytes | None, bytes]
"""Subject, reply, header block and payload of a message that a consumer delivered.

It is what buffers keep, because the garbage collector leaves such tuples alone.
"""


@event
class DeliveryRun:
    """``MSG`` or ``HMSG`` several times in a row, all with one sid and each with an ack reply subject of its own.

    Two or more messages. ``size``: bytes of their header blocks and payloads. Only a decoder that may return runs makes
    them.
    """

    sid: bytes
    raws: list[RawMsg]
    size: int

    def messages(self) -> list[Msg]:
        """Each message as a frame of its own."""
        return [self.message(number) for number in range(len(self.raws))]

    def message(self, number: int) -> Msg:
        """One of them, counted from 0."""
        subject, reply, header, payload = self.raws[number]
        return Msg(subject, self.sid, reply, header, payload)


@event
class PlainRun:
    """``MSG`` of payload alone several times in a row: two or more messages at once, of one subscription or several.

    They are publish acknowledgements, for example. Only a decoder that may return runs makes them.
    """

    sids: list[bytes]
    subjects: list[bytes]
    payloads: list[bytes]

    def messages(self) -> list[Msg]:
        """Each message as a frame of its own."""
        return [
            Msg(subject, sid, None, None, payload)
            for sid, subject, payload in zip(self.sids, self.subjects, self.payloads, strict=True)
        ]

    def message(self, number: int) -> Msg:
        """One of them, counted from 0."""
        return Msg(self.subjects[number], self.sids[number], None, None, self.payloads[number])

    def by_sid(self, in_any_order: Container[bytes]) -> list[PlainRun]:
        """Runs of one subscription each. Messages of subscriptions ``in_any_order`` alone may overtake each other."""
        runs: list[PlainRun] = []
        growing: dict[bytes, PlainRun] = {}  # those that may get more: one, or some whose order is free
        is_free = False  # whether their order is
        for sid, subject, payload in zip(self.sids, self.subjects, self.payloads, strict=True):
            run = growing.get(sid)
            if run is None:
                was_free, is_free = is_free, sid in in_any_order
                if not (was_free and is_free):
                    growing.clear()
                run = growing[sid] = PlainRun([], [], [])
                runs.append(run)
            run.sids.append(sid)
            run.subjects.append(subject)
            run.payloads.append(payload)
        return runs


Frame: TypeAlias = Info | Connect | Ping | Pong | Ok | Err | Pub | Sub | Unsub | Msg | MsgRun | DeliveryRun | PlainRun
