"""Reading requests of the JetStream API, and writing their answers.

Rules:

* A body is a JSON object of bounded depth. Its strings are text.
* An answer begins with its type. An error has the form and the words of nats-server.
* A reply that is no subject can have no subscriber, so its answer is dropped.

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
"""How deep a body may be nested: more than any request needs, less than Python's recursion limit."""

_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_TYPE: Final = "io.nats.jetstream.api.v1.{}_response"

Body = dict[str, Any]
T = TypeVar("T")


def without_prefix(subject: str, prefixes: Sequence[str]) -> str:
    """``subject`` without the first of ``prefixes`` that it has.

    Empty, when it has none: a consumer delivered a message here, which keeps the subject that it was stored with.
    """
    return next((subject.removeprefix(prefix) for prefix in prefixes if subject.startswith(prefix)), "")


def read(payload: bytes) -> Body:
    """The body of a request.

    Raises:
        APIError: ``payload`` is no JSON object, or nested too deep.
    """
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
    """``body`` with a replacement character for each surrogate, as Go reads them."""
    return json.dumps(body, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def known(body: Body, names: Collection[str]) -> Body:
    """``body`` itself.

    Raises:
        APIError: it has a field that is not in ``names``.
    """
    unknown = next((name for name in body if name not in names), None)
    if unknown is not None:
        raise refusal(10025, f'json: unknown field "{unknown}"')
    return body


def optional(payload: bytes, names: Collection[str]) -> Body:
    """The body of a request that may have none: what does not begin as JSON counts as none.

    Raises:
        APIError: it is no JSON object, or has a field that is not in ``names``.
    """
    return known(read(payload) if payload.lstrip()[:1] in (b"{", b"[") else {}, names)


def number(body: Body, name: str) -> int:
    """The unsigned number in the field ``name``, or 0 if it is absent.

    Raises:
        APIError: it is no number, negative or too large.
    """
    try:
        return uint64(body, name, 0)
    except RemoteProtocolError as error:
        raise refusal(10025, str(error)) from None


def offset_of(body: Body) -> int:
    """The offset at which the requested page begins. A negative or absent one is 0.

    Raises:
        APIError: it is no whole number.
    """
    offset = body.get("offset")
    try:
        return 0 if offset is None else max(0, as_integer(offset, "offset"))
    except ValueError as error:
        raise refusal(10025, str(error)) from None


def stream_not_found() -> APIError:
    """The error for a stream that does not exist."""
    return refusal(10059)


def stream_differs() -> APIError:
    """The error for a request that names another stream than its subject does."""
    return APIError.from_fields(400, 10056, "stream name in subject does not match request")


def page(found: Sequence[T], offset: int, limit: int) -> tuple[Body, Sequence[T]]:
    """The fields of an answer with a page, and the page: at most ``limit`` of ``found``, from ``offset`` on."""
    offset = max(0, min(offset, len(found)))
    return {"total": len(found), "offset": offset, "limit": limit}, found[offset : offset + limit]


def as_body(error: APIError) -> Body:
    """The fields of an answer with an error."""
    return {"error": {"code": error.code, "err_code": error.err_code, "description": error.description}}


def respond(outbox: Outbox, reply: bytes, kind: str, body: Body, header: bytes | None = None) -> None:
    """Publish ``body`` to ``reply``, with the type of an answer of that ``kind`` (``stream_create``) before it."""
    try:
        outbox.publish(reply.decode(), dumps({"type": _TYPE.format(kind)} | body), None, header)
    except (UnicodeDecodeError, LocalProtocolError):
        return
