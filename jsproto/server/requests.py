"""Requests of the JetStream API, as the server role reads and answers them.

Rules: a body is a JSON object without unknown fields; an answer says its type first, and an error as nats-server does.
What is no subject has no subscriber, so the answer is dropped.

Not here: the verbs (``api``, ``consumers``).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, TypeVar

from jsproto.errors import APIError, LocalProtocolError, RemoteProtocolError
from jsproto.grammar.bodies import dumps, loads, uint64
from jsproto.outbox import Outbox
from jsproto.server.refusals import refusal

_TYPE: Final = "io.nats.jetstream.api.v1.{}_response"

Body = dict[str, Any]
T = TypeVar("T")


def read(payload: bytes) -> Body:
    """The body of a request; APIError."""
    try:
        return loads(payload)
    except RemoteProtocolError as error:
        raise refusal(10025, str(error)) from None


def known(body: Body, names: Collection[str]) -> Body:
    """``body``, if it has no other fields; APIError."""
    unknown = next((name for name in body if name not in names), None)
    if unknown is not None:
        raise refusal(10025, f'json: unknown field "{unknown}"')
    return body


def number(body: Body, name: str) -> int:
    """An unsigned number, 0 when it is absent; APIError."""
    try:
        return uint64(body, name, 0)
    except RemoteProtocolError as error:
        raise refusal(10025, str(error)) from None


def stream_not_found() -> APIError:
    """There is no stream of the name that was asked for."""
    return APIError.from_fields(404, 10059, "stream not found")


def stream_differs() -> APIError:
    """The request names another stream than its subject."""
    return APIError.from_fields(400, 10056, "stream name in subject does not match request")


def page(found: Sequence[T], offset: int, limit: int) -> tuple[Body, Sequence[T]]:
    """Part of what was found, from ``offset`` on, and how an answer says which part."""
    offset = max(0, min(offset, len(found)))
    return {"total": len(found), "offset": offset, "limit": limit}, found[offset : offset + limit]


def as_body(error: APIError) -> Body:
    """An error as an answer says it."""
    return {"error": {"code": error.code, "err_code": error.err_code, "description": error.description}}


def respond(outbox: Outbox, reply: bytes, kind: str, body: Body) -> None:
    """Answer a request of that kind."""
    try:
        outbox.publish(reply.decode(), dumps({"type": _TYPE.format(kind)} | body))
    except (UnicodeDecodeError, LocalProtocolError):
        return
