"""Advisories about streams, and the audit of requests: what nats-server 2.15.1 publishes for their observers.

Rules (FACTS.md F15):

* A stream that was created, changed or deleted is told below ``$JS.EVENT.ADVISORY.STREAM``, before the answer.
* Each request is told to ``$JS.EVENT.ADVISORY.API``, after its answer, with both texts. A ``STREAM.MSG.GET`` that finds
  a message is not.
* Nothing is written that nobody would read.

Not here: advisories about consumers (``consume.advisories``) and about batches (``publish.replies``).
"""

from __future__ import annotations

from typing import Any, Final, Literal, Protocol

from jsproto.grammar.bodies import escaped
from jsproto.grammar.times import format_timestamp
from jsproto.server.consume.consumer import ConsumerOutbox
from jsproto.server.store.context import NAME, ServerContext
from jsproto.wire.frames import Msg

_STREAM: Final = "$JS.EVENT.ADVISORY.STREAM.{}.{}"
_AUDIT: Final = "$JS.EVENT.ADVISORY.API"
_TYPE: Final = "io.nats.jetstream.advisory.v1."
_KINDS: Final = {"create": "CREATED", "modify": "UPDATED", "delete": "DELETED"}

Action = Literal["create", "modify", "delete"]


class ApiOutbox(ConsumerOutbox, Protocol):
    """What the API needs of its server beyond the outbox of consumers."""

    def client_info(self) -> dict[str, Any]:
        """What an audit says of the client whose request is being handled. Empty: it is none's."""


class ApiAdvisories:
    """The advisories of one server. ``now`` is the caller's seconds."""

    __slots__ = ("_context", "_outbox")

    def __init__(self, context: ServerContext, outbox: ApiOutbox) -> None:
        self._context = context
        self._outbox = outbox

    def changed(self, stream: str, action: Action, now: float) -> None:
        """A stream was created, changed or deleted."""
        self._publish(
            _STREAM.format(_KINDS[action], stream), "stream_action", {"stream": stream, "action": action}, now
        )

    def answered(self, request: Msg, answer: bytes, now: float) -> None:
        """A request was answered."""
        said: dict[str, Any] = {"server": NAME, "client": self._outbox.client_info()}
        said["subject"] = request.subject.decode("utf-8", "replace")
        if request.payload:
            said["request"] = request.payload.decode("utf-8", "replace")
        self._publish(_AUDIT, "api_audit", said | {"response": answer.decode()}, now)

    def _publish(self, subject: str, kind: str, said: dict[str, Any], now: float) -> None:
        if not self._outbox.has_interest(subject):
            return
        context = self._context
        body = {"type": _TYPE + kind, "id": context.next_id(), "timestamp": format_timestamp(context.timestamp(now))}
        domain = {} if context.domain is None else {"domain": context.domain}
        self._outbox.publish(subject, _encoded(body | said | domain))


def _encoded(body: dict[str, Any]) -> bytes:
    """JSON with the escapes of nats-server, which has JSON inside of texts here."""
    pieces: list[str] = []
    for name, value in body.items():
        if isinstance(value, dict):
            pieces.append(f'"{name}":{_encoded(value).decode()}')
        else:
            pieces.append(f'"{name}":{value if isinstance(value, int) else escaped(value)}')
    return f"{{{','.join(pieces)}}}".encode("utf-8", "replace")
