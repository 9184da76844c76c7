"""Who may connect to a server, and what each user may publish and subscribe to.

Rules, those of nats-server (FACTS.md F12):

* A client says who it is in CONNECT: by name and password, by a token, or by the signature of a nonce.
* Without an allow list everything is allowed. A deny list takes away from that.
* A subscription that a deny list only overlaps with is made. What it may not get is left out at delivery.
* An entry of a subscribe list may have a queue group after a blank. The group may have wildcards.
* ``allow_responses`` lets a client publish to the reply subjects that it was given.

Not here: hashed passwords, which are refused, and JWTs. The check of a signature, which needs a package: ``Access``
takes it as a function. Accounts: all users share one.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from jsproto.errors import BadSubjectError, LocalProtocolError
from jsproto.grammar.subjects import check_queue, check_subject, has_wildcards, matches, overlaps

Verify: TypeAlias = Callable[[str, bytes, bytes], bool]
"""Whether a signature fits: the public nkey of a user, the nonce, the signature."""

AUTH_TIMEOUT: Final = 2.0
"""Seconds in which a client has to say who it is."""
MAX_REPLIES: Final = 4_096
"""Reply subjects that one client may publish to by ``allow_responses``. The oldest one goes."""
_ESCAPES: Final = {
    '"': r"\"", "\\": r"\\", "\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v",
}  # fmt: skip
_HASHED: Final = ("$2a$", "$2b$", "$2x$", "$2y$")


def _check_plain(secret: str) -> None:
    if secret.startswith(_HASHED):
        raise LocalProtocolError("hashed passwords are not modelled: give the password itself")


@dataclass(frozen=True, slots=True)
class Responses:
    """How long a client may publish to a reply subject that it was given.

    ``max_messages``: so many messages, 0 for any number. ``seconds``: so long, 0 for ever.
    """

    max_messages: int = 1
    seconds: float = 120.0


@dataclass(frozen=True, slots=True)
class Permissions:
    """What a user may do. None: everything. Each entry is a subject or a pattern.

    * ``publish``, ``deny_publish``: to what the user may publish, and what of it not.
    * ``subscribe``, ``deny_subscribe``: the same. An entry may have a queue group: ``orders.> workers``.
    * ``allow_responses``: the user may answer requests. Without ``publish`` the user may publish nothing else.

    Raises:
        LocalProtocolError: an entry is neither a subject nor a pattern.
    """

    publish: Sequence[str] | None = None
    deny_publish: Sequence[str] = ()
    subscribe: Sequence[str] | None = None
    deny_subscribe: Sequence[str] = ()
    allow_responses: Responses | None = None

    def __post_init__(self) -> None:
        for entry in (*(self.publish or ()), *self.deny_publish):
            check_subject(entry, wildcards=True)
        for entry in (*(self.subscribe or ()), *self.deny_subscribe):
            _split(entry)


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who may connect: by ``name`` and ``password``, or by the public key ``nkey``.

    ``permissions``: None for all.

    Raises:
        LocalProtocolError: there is neither a name nor an nkey, or both, or the password is hashed.
    """

    name: str = ""
    password: str = field(default="", repr=False)
    nkey: str = ""
    permissions: Permissions | None = None

    def __post_init__(self) -> None:
        if bool(self.name) == bool(self.nkey):
            raise LocalProtocolError("a user has either a name or an nkey")
        _check_plain(self.password)


_ANYBODY: Final = User("-")


@dataclass(frozen=True, slots=True)
class Access:
    """Who may connect.

    * ``users``: those who are known.
    * ``token``: a secret that lets anybody in, in the place of users.
    * ``no_auth_user``: the name of the user that a client is which says nothing.
    * ``timeout``: seconds in which a client has to say who it is.
    * ``verify``: checks signatures, for users with an nkey. The drivers of ``jsproto_io.testing`` have one.

    Raises:
        LocalProtocolError: there are neither users nor a token, or both. Two users have the same name. ``no_auth_user``
            is unknown. The token is hashed.
    """

    users: Sequence[User] = ()
    token: str = field(default="", repr=False)
    no_auth_user: str = ""
    timeout: float = AUTH_TIMEOUT
    verify: Verify | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        names = [user.name or user.nkey for user in self.users]
        if bool(names) == bool(self.token):
            raise LocalProtocolError("access needs either users or a token")
        if len(set(names)) < len(names):
            raise LocalProtocolError("two users have the same name")
        if self.no_auth_user and self.no_auth_user not in [user.name for user in self.users]:
            raise LocalProtocolError("no_auth_user is none of the users")
        _check_plain(self.token)

    @property
    def needs_nonce(self) -> bool:
        """Whether INFO has a nonce, because a user signs it."""
        return any(user.nkey for user in self.users)

    def user_of(self, said: Mapping[str, Any], nonce: bytes) -> User | None:
        """The user that a client is. None: it may not connect.

        ``said``: the texts of CONNECT. ``nonce``: what INFO had. Whoever has the token is a user without a name.
        """
        if self.token:
            return _ANYBODY if self.token == said.get("auth_token") else None
        nkey, name = said.get("nkey", ""), said.get("user", "")
        if nkey and self.needs_nonce:
            found = next((user for user in self.users if user.nkey == nkey), None)
            return found if found is not None and self._is_signed(nkey, nonce, said.get("sig", "")) else None
        password = said.get("pass", "")
        if self.no_auth_user and not (name or password or said.get("auth_token")):
            return next(user for user in self.users if user.name == self.no_auth_user)
        found = next((user for user in self.users if name and user.name == name), None)
        return found if found is not None and found.password == password else None

    def _is_signed(self, nkey: str, nonce: bytes, signature: str) -> bool:
        decoded = _signature(signature)
        return decoded is not None and self.verify is not None and self.verify(nkey, nonce, decoded)


def quoted(subject: bytes) -> bytes:
    """A subject as servers quote it in an error: with Go's escapes for what cannot be printed."""
    pieces: list[str] = []
    for sign in subject.decode("utf-8", "surrogateescape"):
        number = ord(sign)
        if sign in _ESCAPES:
            pieces.append(_ESCAPES[sign])
        elif 0xDC80 <= number <= 0xDCFF:  # a byte that is no text
            pieces.append(f"\\x{number - 0xDC00:02x}")
        elif sign.isprintable():
            pieces.append(sign)
        else:
            short = f"\\x{number:02x}" if number < 0x80 else f"\\u{number:04x}"
            pieces.append(short if number < 0x10000 else f"\\U{number:08x}")
    return f'"{"".join(pieces)}"'.encode()


class Grants:
    """What one client may do, by the permissions of its user."""

    __slots__ = ("_filters", "_permissions", "_replies")

    def __init__(self, permissions: Permissions) -> None:
        self._permissions = permissions
        self._filters = False  # whether a subscription overlaps with what is denied
        self._replies: dict[str, tuple[float, int]] = {}  # since when, and how many messages went there

    def may_publish(self, subject: str, now: float) -> bool:
        """Whether the client may publish to ``subject``. ``now``: seconds."""
        return self._may_publish(subject) or self._may_respond(subject, now)

    def may_subscribe(self, pattern: str, queue: bytes | None) -> bool:
        """Whether the client may subscribe to ``pattern``, in the group ``queue`` if there is one."""
        permissions, group = self._permissions, _text(queue)
        if permissions.subscribe is not None:
            plain, groups = _found(permissions.subscribe, pattern)
            if not (_is_in(group, groups) if group and groups else plain):
                return False
        plain, groups = _found(permissions.deny_subscribe, pattern)
        if plain or (group and _is_in(group, groups)):
            return False
        if group or has_wildcards(pattern):
            denied = (_split(entry)[0] for entry in permissions.deny_subscribe)
            self._filters = self._filters or any(overlaps(each, pattern) for each in denied)
        return True

    def may_get(self, subject: str, queue: bytes | None) -> bool:
        """Whether a message to ``subject`` may be delivered to a subscription that was allowed."""
        if not self._filters:
            return True
        plain, groups = _found(self._permissions.deny_subscribe, subject)
        return not plain and not (queue and _is_in(_text(queue), groups))

    def delivered(self, reply: bytes, now: float) -> None:
        """A message with the subject ``reply`` to answer to was delivered at ``now``, in seconds."""
        subject = _text(reply)
        if self._permissions.allow_responses is None or self.may_publish(subject, now):
            return
        self._replies[subject] = now, 0
        if len(self._replies) > MAX_REPLIES:
            del self._replies[next(iter(self._replies))]

    def _may_publish(self, subject: str) -> bool:
        permissions = self._permissions
        allowed = permissions.publish
        if allowed is None and permissions.allow_responses is not None:
            allowed = ()
        if allowed is not None and not any(_covers(pattern, subject) for pattern in allowed):
            return False
        return not any(_covers(pattern, subject) for pattern in permissions.deny_publish)

    def _may_respond(self, subject: str, now: float) -> bool:
        limits, known = self._permissions.allow_responses, self._replies.get(subject)
        if limits is None or known is None:
            return False
        since, sent = known
        if 0 < limits.max_messages <= sent or 0 < limits.seconds < now - since:
            del self._replies[subject]
            return False
        self._replies[subject] = since, sent + 1
        return True


def _found(entries: Iterable[str], pattern: str) -> tuple[bool, list[str]]:
    """Whether an entry for all subscribers matches ``pattern``, and the queue groups of the other entries that do."""
    plain, groups = False, []
    for entry in entries:
        subject, group = _split(entry)
        if _covers(subject, pattern):
            plain = plain or not group
            groups += [group] if group else []
    return plain, groups


def _covers(pattern: str, subject: str) -> bool:
    """Whether ``subject``, as a client gave it, matches ``pattern``. One with an empty token matches nothing."""
    return "" not in subject.split(".") and matches(pattern, subject)


def _is_in(queue: str, groups: Iterable[str]) -> bool:
    """Whether a queue group is one of ``groups``, which may have wildcards."""
    return any(queue == group or (has_wildcards(group) and matches(group, queue)) for group in groups)


def _split(entry: str) -> tuple[str, str]:
    """The subject and the queue group of an entry, empty for none."""
    subject, *groups = entry.split()[:3] or [""]
    if len(groups) > 1:
        raise BadSubjectError(f"an entry is a subject, and perhaps a queue group: {entry!r}")
    check_subject(subject, wildcards=True)
    if groups:
        check_queue(groups[0])
    return subject, "".join(groups)


def _text(subject: bytes | None) -> str:
    return (subject or b"").decode("utf-8", "surrogateescape")


def _signature(text: str) -> bytes | None:
    """The bytes of a signature, in either alphabet of Base64. None: it is none."""
    plain = text.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except ValueError:
        return None
