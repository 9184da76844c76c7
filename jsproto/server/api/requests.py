"""Requests of the JetStream API, as the server role reads and answers them.

Rules: a body is a JSON object without unknown fields, of bounded depth, whose strings are text; an answer says its type
first, and an error as nats-server does. What is no subject has no subscriber, so the answer is dropped.

Not here: the verbs (``streams``, ``consumers``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from typing import Any, Final, TypeVar

from jsproto.errors import APIError, LocalProtocolError, RemoteProtocolError
from jsproto.grammar.bodies import dumps, loads, uint64
from jsproto.grammar.fields import as_integer
from jsproto.outbox import Outbox
from jsproto.server.store.refusals import refusal

MAX_DEPTH: Final = 32
"""How deep a body may be nested: far more than any request is, far less than what Python may recurse."""

_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_TYPE: Final = "io.nats.jetstream.api.v1.{}_response"

Body = dict[str, Any]
T = TypeVar("T")


def without_prefix(subject: str, prefixes: Sequence[str]) -> str:
    """What is asked for; nothing when a consumer delivers here, under the subject that its message was stored with."""
    return next((subject.removeprefix(prefix) for prefix in prefixes if subject.startswith(prefix)), "")


def read(payload: bytes) -> Body:
    """The body of a request; APIError."""
    try:
        body = loads(payload)
    except RemoteProtocolError as error:
        raise refusal(10025, str(error)) from None
    if _is_deep(body):
        raise refusal(10025, "exceeded max depth")
    if _SURROGATE.search(payload):
        return loads(_text(body))
    return body


def _is_deep(body: Body) -> bool:
    """Whether objects and lists are nested more than ``MAX_DEPTH`` times."""
    level: list[Any] = [body]
    for _ in range(MAX_DEPTH):
        within = (one.values() if isinstance(one, dict) else one for one in level)
        level = [each for one in within for each in one if isinstance(each, dict | list)]
    return bool(level)


def _text(body: Body) -> bytes:
    """``body`` with a replacement character for each half of a character, as Go reads them."""
    return json.dumps(body, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


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


def offset_of(body: Body) -> int:
    """Where a page begins: what is negative is 0, so is what is absent; APIError."""
    offset = body.get("offset")
    try:
        return 0 if offset is None else max(0, as_integer(offset, "offset"))
    except ValueError as error:
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
