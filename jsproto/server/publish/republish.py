"""Publishes what a stream stores again, under another subject, as ``republish`` of its configuration asks.

Rules (FACTS.md F9): the headers of the message come first, then stream, subject, sequence, time, and the sequence of
the subject's message before it, or 0. With ``headers_only`` the size takes the place of the payload.

Not here: which destinations are allowed (``store.settings``).
"""

from __future__ import annotations

from typing import Final

from jsproto.errors import LocalProtocolError
from jsproto.grammar.headers import LINE_END
from jsproto.grammar.subjects import check_subject
from jsproto.grammar.times import format_timestamp
from jsproto.outbox import Outbox
from jsproto.server.store.stream import Stored, Stream
from jsproto.server.store.transform import transform

_VERSION: Final = b"NATS/1.0\r\n"
_HEADERS: Final = (
    b"Nats-Stream: %b\r\nNats-Subject: %b\r\nNats-Sequence: %d\r\nNats-Time-Stamp: %b\r\nNats-Last-Sequence: %d\r\n"
)


class Republisher:
    """A follower of one stream."""

    __slots__ = ("_outbox", "_stream")

    def __init__(self, stream: Stream, outbox: Outbox) -> None:
        self._stream = stream
        self._outbox = outbox

    def stored(self, message: Stored, now: float) -> None:
        """Publish ``message`` again, if its subject is asked for."""
        config = self._stream.config
        if config.republish is None:
            return
        subject = transform(config.republish.get("src") or ">", config.republish.get("dest") or "").renamed(
            message.subject
        )
        if subject is None:
            return
        header = _VERSION if message.header is None else message.header.removesuffix(LINE_END)
        header += _HEADERS % (
            config.name.encode(), message.subject, message.seq, format_timestamp(message.timestamp).encode(),
            self._stream.before(message),
        )  # fmt: skip
        payload = message.payload
        if config.republish.get("headers_only"):
            header += b"Nats-Msg-Size: %d\r\n" % len(payload)
            payload = b""
        try:
            check_subject(subject.decode("utf-8", "surrogateescape"))
            self._outbox.publish(subject.decode("utf-8", "surrogateescape"), payload, headers=header + LINE_END)
        except LocalProtocolError:
            return  # a message to a subject with wildcards is not published again

    def removed(self, message: Stored, now: float) -> None:
        """Nothing is said of what goes."""
