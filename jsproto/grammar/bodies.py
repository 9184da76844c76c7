"""JSON bodies, strictly: one object of bounded size and depth, with fields of the types they should have.

Rules: UTF-8 only, and the object is all. No NaN and no infinity. Integers are integers: ``true`` and ``1.0`` are
refused. A field that is null counts as absent, as it does for servers. Unknown fields are the caller's business (models
keep them). Half of a surrogate pair becomes U+FFFD, as in Go: every text that is read can be sent. Whatever the bytes,
reading raises RemoteProtocolError and nothing else.

Not here: what the bodies mean (``acks``, ``api``, ``config``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from jsproto.errors import LocalProtocolError, NotJSONError, RemoteProtocolError

MAX_JSON: Final = 8 * 1024 * 1024
"""Bytes of a body that are read: nats-server advises against a larger ``max_payload``."""

MAX_UINT64: Final = 2**64 - 1


_INFINITE: Final = float("inf")
# An escape in JSON. The group is half of a surrogate pair without the other half.
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_HTML: Final = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def _finite(number: str) -> float:
    value = float(number)
    if not abs(value) < _INFINITE:  # NaN is not less either
        raise ValueError(f"{number[:64]} is no finite number")
    return value


_DECODER: Final = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def without_halves(data: bytes) -> bytes:
    """JSON with U+FFFD for each escape that is half of a surrogate pair, alone: UTF-8 excludes that."""
    if b"\\ud" not in data and b"\\uD" not in data:
        return data
    return _ESCAPE.sub(lambda escape: rb"\ufffd" if escape[1] else escape[0], data)


def loads(data: bytes, limit: int = MAX_JSON) -> dict[str, Any]:
    """The object in ``data``. RemoteProtocolError when it is malformed, cut off, or more than ``limit`` bytes."""
    if len(data) > limit:
        raise RemoteProtocolError(f"a JSON body of {len(data)} bytes, where at most {limit} are read", data)
    try:
        body = _DECODER.decode(without_halves(data).decode())
    except (ValueError, RecursionError) as error:
        raise RemoteProtocolError(f"not a JSON body: {error}", data) from None
    if not isinstance(body, dict):
        raise RemoteProtocolError("not a JSON body: it must be an object", data)
    return body


def decode_json(payload: bytes, subject: str) -> Any:
    """What the JSON in a message's payload says, whatever its type. NotJSONError for anything else."""
    try:
        return json.loads(payload.decode())
    except json.JSONDecodeError as error:  # whose text has no part of the payload
        raise NotJSONError(subject, str(error)) from None
    except UnicodeDecodeError:
        raise NotJSONError(subject, "it is not in UTF-8") from None
    except ValueError:  # an integer of more than 4300 digits
        raise NotJSONError(subject, "a number is too long") from None
    except RecursionError:
        raise NotJSONError(subject, "it is nested too deeply") from None


def dumps(body: Mapping[str, Any]) -> bytes:
    """``body`` as compact JSON in ASCII. LocalProtocolError for a value outside JSON."""
    try:
        return _ENCODER.encode(body).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise LocalProtocolError(f"this cannot be written as JSON: {error}") from None


def size_in_json(value: str) -> int:
    """Bytes of ``value`` as ``dumps`` writes it, in quotes."""
    return len(_ENCODER.encode(value))


def escaped(value: str) -> str:
    """``value`` as servers write strings, in quotes: Go's JSON encoder escapes for HTML too, and leaves UTF-8 alone."""
    return json.dumps(value, ensure_ascii=False).translate(_HTML)


def uint64(body: Mapping[str, Any], name: str, default: int | None = None) -> int:
    """The unsigned 64-bit integer ``name``, ``default`` when it is absent. RemoteProtocolError for anything else."""
    value = _field(body, name, default)
    if type(value) is not int or not 0 <= value <= MAX_UINT64:
        raise RemoteProtocolError(f"{name} must be an unsigned 64-bit integer, not {shown(value)}")
    return value


def text(body: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """The string ``name``, ``default`` when it is absent. RemoteProtocolError for anything else."""
    value = _field(body, name, default)
    if type(value) is not str:
        raise RemoteProtocolError(f"{name} must be a string, not {shown(value)}")
    return value


def shown(value: object) -> str:
    """A value for an error message. Only the type of a container, which may be nested too deeply for repr."""
    return f"{value!r:.100}" if isinstance(value, str | int | float) else type(value).__name__


def _field(body: Mapping[str, Any], name: str, default: object) -> object:
    value = body.get(name)
    if value is None:
        value = default
        if value is None:
            raise RemoteProtocolError(f"{name} is missing")
    return value
