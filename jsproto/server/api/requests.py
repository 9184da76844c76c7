"""Reading requests of the JetStream API, and writing their answers.

Rules:

* A body is read as Go's decoder reads it: the case of names does not matter, and a field that is null is absent.
* A body of blanks has no field. What follows the first object is read too, and its fields win.
* An unknown field, or one of another type, is refused (10025), before anything else is looked at.
* An answer begins with its type. An error has the form and the words of nats-server.
* An answer to a malformed reply subject is dropped.

Not here: the verbs (``streams``, ``consumers``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from jsproto.errors import APIError, LocalProtocolError
from jsproto.grammar.bodies import dumps, shown, without_halves
from jsproto.grammar.fields import Reader, as_integer, as_text
from jsproto.outbox import Outbox
from jsproto.server.store.refusals import refusal

_TYPE: Final = "io.nats.jetstream.api.v1.{}_response"
_OF_SINGLE_ANSWERS: Final = ("_nats.level", "_nats.ver")
_BLANKS: Final = " \t\r\n"

Body = dict[str, Any]
T = TypeVar("T")


def _refuse_constant(word: str) -> None:
    raise ValueError(f"invalid character in {word}")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)


def without_prefix(subject: str, prefixes: Sequence[str]) -> str:
    """``subject`` without the first of ``prefixes`` that it has.

    Empty, when it has none: a consumer delivered a message here, which keeps the subject that it was stored with.
    """
    return next((subject.removeprefix(prefix) for prefix in prefixes if subject.startswith(prefix)), "")


def decoded(payload: bytes, fields: Mapping[str, Reader], *, is_strict: bool = True) -> Body:
    """The body of a request, which may have ``fields``.

    Not ``is_strict``: other fields are passed over, and there has to be one object.

    Raises:
        APIError: it is no JSON, or has a field of another name or type (10025).
    """
    body: Body = {}
    text = without_halves(payload).decode("utf-8", "replace")
    try:
        for value in _values(text) if is_strict else [_DECODER.decode(text)]:
            body |= record(fields, is_strict=is_strict)(value, "")
    except (ValueError, RecursionError) as error:
        raise refusal(10025, str(error)) from None
    return body


def optional(payload: bytes, fields: Mapping[str, Reader]) -> Body:
    """The body of a request, which is optional: anything but an object or a list counts as a missing one.

    Raises:
        APIError: it is no JSON, or has a field of another name or type (10025).
    """
    return decoded(payload, fields) if payload.lstrip()[:1] in (b"{", b"[") else {}


def is_empty(payload: bytes) -> bool:
    """Whether a request has no body, or an object without fields."""
    if not payload:
        return True
    try:
        return bool(_DECODER.decode(payload.decode("utf-8", "replace")) == {})
    except (ValueError, RecursionError):
        return False


def record(fields: Mapping[str, Reader], *, is_strict: bool = True) -> Reader:
    """Reads an object with known fields. Others are refused if it ``is_strict``. Null is an object without fields."""
    names = {name.lower(): name for name in fields}

    def read(value: Any, path: str) -> Body:
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise ValueError(f"json: cannot unmarshal {shown(value)} into {path or 'a request'}")
        found: Body = {}
        for said, each in value.items():
            name = said if said in fields else names.get(said.lower())
            if name is None and is_strict:
                raise ValueError(f'json: unknown field "{said}"')
            if name is not None and (each is not None or isinstance(fields[name], Word)):
                found[name] = fields[name](each, name)
        return found

    return read


class Word:
    """Reads one of some words. Null is none of them."""

    def __init__(self, allowed: Sequence[str], complaint: str = 'can not unmarshal "\\"{}\\""') -> None:
        """``complaint``: what servers say of another word, which takes its place."""
        self._allowed = allowed
        self._complaint = complaint

    def __call__(self, value: object, path: str) -> str:
        """The word.

        Raises:
            ValueError: it is another one.
        """
        word = as_text(value, path)
        if word not in self._allowed:
            raise ValueError(self._complaint.format(word))
        return word


def _values(text: str) -> list[Any]:
    """The JSON values in ``text``, one after the other."""
    values: list[Any] = []
    rest = text.lstrip(_BLANKS)
    while rest:
        value, end = _DECODER.raw_decode(rest)
        values.append(value)
        rest = rest[end:].lstrip(_BLANKS)
    return values


def as_offset(value: Any, path: str) -> int:
    """The offset at which the requested page begins. A negative one is 0."""
    return max(0, as_integer(value, path))


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


def without_own_metadata(info: Body) -> Body:
    """``info`` as a list has it: without the metadata that a server adds to a single answer."""
    config = info["config"]
    kept = {name: value for name, value in config["metadata"].items() if name not in _OF_SINGLE_ANSWERS}
    return info | {"config": config | {"metadata": kept}}


def respond(outbox: Outbox, reply: bytes | None, kind: str, body: Body, header: bytes | None = None) -> bytes:
    """Publish ``body`` to ``reply``, with the type of an answer of that ``kind`` (``stream_create``) before it.

    Without ``reply`` nothing is published. Returns the answer.
    """
    answer = dumps({"type": _TYPE.format(kind)} | body)
    try:
        if reply:
            outbox.publish(reply.decode(), answer, None, header)
    except (UnicodeDecodeError, LocalProtocolError):
        return answer
    return answer
