"""Files that say who may connect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jsproto.errors import LocalProtocolError
from jsproto.server.access import Access, Permissions, Responses, User
from jsproto_io.testing.users import read_access


def read(folder: Path, body: Any) -> Access:
    path = folder / "users.json"
    path.write_text(body if isinstance(body, str) else json.dumps(body), encoding="utf-8")
    return read_access(path)


def test_names_and_nkeys(tmp_path: Path) -> None:
    users = [{"user": "a", "password": "b"}, {"nkey": "UC", "permissions": None}]
    access = read(tmp_path, {"users": users, "no_auth_user": "a"})
    assert access == Access([User("a", "b"), User(nkey="UC")], no_auth_user="a")
    assert access.users[0].password == "b"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, Permissions()),
        ({"publish": "a", "subscribe": ["b", "c.> q"]}, Permissions(["a"], (), ["b", "c.> q"])),
        ({"publish": [], "subscribe": {"deny": "x"}}, Permissions([], (), None, ["x"])),
        ({"publish": {"allow": ["a.>"], "deny": ["a.b"]}}, Permissions(["a.>"], ["a.b"])),
        ({"allow_responses": True}, Permissions(allow_responses=Responses())),
        ({"allow_responses": False}, Permissions()),
        ({"allow_responses": {"max": 5, "expires": "1m"}}, Permissions(allow_responses=Responses(5, 60.0))),
    ],
)
def test_permissions(given: dict[str, Any], expected: Permissions, tmp_path: Path) -> None:
    (user,) = read(tmp_path, {"users": [{"user": "a", "permissions": given}]}).users
    found = user.permissions
    assert found is not None
    assert (found.publish, list(found.deny_publish)) == (expected.publish, list(expected.deny_publish))
    assert (found.subscribe, list(found.deny_subscribe)) == (expected.subscribe, list(expected.deny_subscribe))
    assert found.allow_responses == expected.allow_responses


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("{", "Expecting property name"),
        ([], "an object with users, no_auth_user is expected, not []"),
        ({}, "access needs either users or a token"),
        ({"users": 5}, "'int' object is not iterable"),
        ({"users": [5]}, "an object with user, password, nkey, permissions is expected, not 5"),
        ({"users": [{"user": 5}]}, "user is a text, not 5"),
        ({"users": [{"user": "a", "pass": "b"}]}, "the field 'pass' is not read"),
        ({"users": [{"user": "a", "password": "$2a$x"}]}, "hashed passwords are not modelled"),
        ({"users": [{"user": "a", "permissions": {"publish": 5}}]}, "subjects are a text or a list of texts, not 5"),
        ({"users": [{"user": "a", "permissions": {"publish": "a..b"}}]}, "a..b"),
        ({"users": [{"user": "a", "permissions": {"allow_responses": {"expires": "soon"}}}]}, "not a duration"),
    ],
)
def test_what_cannot_be(body: Any, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        read(tmp_path, body)
    assert complaint in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "users.json"))
