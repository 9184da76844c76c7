"""Reads from a file who may connect, and do what: the block ``authorization`` of a nats-server configuration, as JSON.

    {"users": [{"user": "shop", "password": "secret", "permissions": {"publish": {"deny": "bills.>"}}}]}

Rules
 * Fields have nats-server's names. A field that is not read is refused.
 * One subject may stand for a list of one, and a list for what is allowed.

Not here: what permissions mean (``jsproto.server.access``).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

from jsproto.errors import LocalProtocolError
from jsproto.grammar.durations import parse_duration
from jsproto.server.access import Access, Permissions, Responses, User

_SECOND: Final = 1_000_000_000


def read_access(path: str | os.PathLike[str]) -> Access:
    """Who may connect, by the file ``path``.

    Raises:
        LocalProtocolError: it is no JSON, or says what cannot be.
        OSError: it cannot be read.
    """
    try:
        body = _fields(json.loads(Path(path).read_text("utf-8")), "users", "no_auth_user")
        return Access([_user(each) for each in body.get("users", ())], no_auth_user=_text(body, "no_auth_user"))
    except (LocalProtocolError, ValueError, TypeError) as error:  # an error of JSON is a ValueError
        raise LocalProtocolError(f"{os.fspath(path)}: {error}") from error


def _fields(value: Any, *known: str) -> dict[str, Any]:
    """An object that has no other fields than ``known``."""
    if not isinstance(value, dict):
        raise LocalProtocolError(f"an object with {', '.join(known)} is expected, not {value!r:.100}")
    unknown = [name for name in value if name not in known]
    if unknown:
        raise LocalProtocolError(f"the field {unknown[0]!r} is not read, only {', '.join(known)}")
    return value


def _user(value: Any) -> User:
    user = _fields(value, "user", "password", "nkey", "permissions")
    permissions = None if user.get("permissions") is None else _permissions(user["permissions"])
    return User(_text(user, "user"), _text(user, "password"), _text(user, "nkey"), permissions)


def _text(given: dict[str, Any], name: str) -> str:
    text = given.get(name, "")
    if not isinstance(text, str):
        raise LocalProtocolError(f"{name} is a text, not {text!r:.100}")
    return text


def _permissions(value: Any) -> Permissions:
    given = _fields(value, "publish", "subscribe", "allow_responses")
    publish, deny_publish = _rules(given.get("publish"))
    subscribe, deny_subscribe = _rules(given.get("subscribe"))
    return Permissions(publish, deny_publish, subscribe, deny_subscribe, _responses(given.get("allow_responses")))


def _rules(value: Any) -> tuple[list[str] | None, list[str]]:
    """What is allowed (None: everything), and what of it is forbidden."""
    if not isinstance(value, dict):
        return _subjects(value), []
    rules = _fields(value, "allow", "deny")
    return _subjects(rules.get("allow")), _subjects(rules.get("deny")) or []


def _subjects(value: Any) -> list[str] | None:
    subjects = [value] if isinstance(value, str) else value
    if subjects is None or (isinstance(subjects, list) and all(isinstance(each, str) for each in subjects)):
        return subjects
    raise LocalProtocolError(f"subjects are a text or a list of texts, not {value!r:.100}")


def _responses(value: Any) -> Responses | None:
    if isinstance(value, bool | None):
        return Responses() if value else None
    given = _fields(value, "max", "expires")
    return Responses(given.get("max", 1), parse_duration(given.get("expires", "2m")) / _SECOND)
