"""Files and texts of credentials, made into the functions that the core calls for each link.

A ``.creds`` file holds a user's JWT and the seed of the user's key. An nkey is such a key alone. A seed is the Base32
text of two bytes of its kind, the 32 bytes of an Ed25519 key, and a checksum. The tools ``nk`` and ``nsc`` write it on
a line of its own, perhaps between two lines of dashes, or with the public key.

Rules
 * Files are read when ``connect()`` is called, so that mistakes show there.
 * They are read again for each link, so that renewed credentials are used.
 * Errors leave all of them out.
 * ``cryptography`` signs. Only signing needs it (extra ``nkeys``).

Not here: what is sent to the server (``jsproto.client.connection.link``).
"""

from __future__ import annotations

import base64
import os
import re
from binascii import crc_hqx
from collections import UserString
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from jsproto.client.connection.connect_options import ConnectKeywords as CoreKeywords
from jsproto.errors import CredentialsError, LocalProtocolError
from jsproto_io._state.connecting import ConnectKeywords

USER_SEED: Final = b"\x95\x00"  # the first two bytes of every seed of a user: it begins with "SU"
USER: Final = b"\xa0"  # the first byte of every public key of a user: it begins with "U"
MAX_FILE: Final = 1_048_576  # bytes

_BLOCK: Final = r"(?<!-)-{3,} *BEGIN %s *-{3,}\s+(\S+)\s+-{3,} *END %s *-{3,}"
_JWT: Final = re.compile(_BLOCK % ("NATS USER JWT", "NATS USER JWT"))
_SEED: Final = re.compile(_BLOCK % ("USER NKEY SEED", "USER NKEY SEED"))
_SEED_LINE: Final = re.compile(r"^[ \t]*(S[A-Z][A-Z2-7]{56})[ \t\r]*$", re.MULTILINE)
_SECRET: Final = re.compile(r"\s*S[A-Z][A-Z2-7]{40}|\s*eyJ|.*\n")  # what may not be taken for a path, and shown


@dataclass(frozen=True, slots=True)
class _Credentials:
    """A key, and the JWT that belongs to it."""

    seed: str = field(repr=False)
    jwt: str | None = field(default=None, repr=False)


def signing(options: ConnectKeywords) -> CoreKeywords:
    """``options`` of ``connect()`` as the core has them: with functions in the place of files and seeds.

    Raises:
        LocalProtocolError: the options exclude each other.
        CredentialsError: a file or seed is unreadable, or the extra is missing.
    """
    rest: dict[str, Any] = dict(options)
    values = {name: rest.pop(name, None) for name in ("user_credentials", "nkeys_seed", "nkeys_seed_str")}
    given = {name: value for name, value in values.items() if value is not None}
    own = [name for name in ("signature_cb", "user_jwt_cb", "nkey") if rest.get(name) is not None]
    if not given:
        return cast("CoreKeywords", rest)
    if len(given) + len(own) > 1:
        raise LocalProtocolError(f"these options exclude each other: {', '.join([*given, *own])}")
    ((name, value),) = given.items()
    if name == "user_credentials":
        read = _reader(value)
    elif name == "nkeys_seed":
        read = partial(_seed_of, value)
    elif isinstance(value, str):
        read = partial(_Credentials, _seed_in(value))
    else:
        raise LocalProtocolError(f"nkeys_seed_str must be a str, not {type(value).__name__}")
    return cast("CoreKeywords", {**rest, **_callbacks(read)})


def _callbacks(read: Callable[[], _Credentials]) -> dict[str, Any]:
    """What the core calls for each link: first the JWT, if there is one, then the signature by the key read with it."""
    now = read()
    _, public = _key(now.seed)
    if now.jwt is None:
        return {"nkey": public, "signature_cb": lambda nonce: _signature(read().seed, nonce)}

    def jwt() -> str:
        nonlocal now
        now = read()
        return str(now.jwt)

    return {"user_jwt_cb": jwt, "signature_cb": lambda nonce: _signature(now.seed, nonce)}


def _reader(given: object) -> Callable[[], _Credentials]:
    """The function that reads a path, a content, or a pair of paths (JWT and seed)."""
    if isinstance(given, tuple) and len(given) == 2:
        jwt, seed = given
        return lambda: _Credentials(_seed_in(_read("user_credentials", seed)), _jwt_in(_read("user_credentials", jwt)))
    content = str(given) if isinstance(given, str | UserString) else ""  # nats-py's RawCredentials is a UserString
    if "-BEGIN" in content:
        return partial(parse_credentials, content)
    return lambda: parse_credentials(_read("user_credentials", given))


def _seed_of(path: object) -> _Credentials:
    return _Credentials(_seed_in(_read("nkeys_seed", path)))


def _seed_in(content: str) -> str:
    """The first line that is a seed, or else all of ``content``, which ``_key`` refuses."""
    seed = _SEED_LINE.search(content)
    return content.strip() if seed is None else seed[1]


def _jwt_in(content: str) -> str:
    """The JWT of a file, decorated or alone."""
    jwt = _JWT.search(content)
    return content.strip() if jwt is None else jwt[1]


def _read(name: str, path: object) -> str:
    """The text of the file that option ``name`` names."""
    if not isinstance(path, str | os.PathLike):
        raise LocalProtocolError(f"{name} must be a path, not {type(path).__name__}")
    shown = os.fsdecode(path)
    if looks_secret(shown):
        raise CredentialsError(f"{name} must be a path, but it looks like a secret itself")
    try:
        with Path(shown).open("rb") as file:
            return file.read(MAX_FILE).decode("utf-8-sig")
    except OSError as error:
        raise CredentialsError(f"{name}: cannot read {shown!r}: {error.strerror}") from None
    except ValueError:  # bytes that are no text, or a path with a null in it
        raise CredentialsError(f"{name}: {shown!r} is no file of credentials") from None


def looks_secret(path: str) -> bool:
    """Whether a path looks like a seed, a JWT or the content of a file: then it stays hidden."""
    return _SECRET.match(path) is not None


def parse_credentials(content: str) -> _Credentials:
    """The content of a ``.creds`` file. CredentialsError when a part is missing."""
    jwt, seed = _JWT.search(content), _SEED.search(content)
    if jwt is None or seed is None:
        missing = "user JWT" if jwt is None else "user nkey seed"
        raise CredentialsError(f"the credentials hold no {missing}")
    return _Credentials(seed[1], jwt[1])


def _key(seed: str) -> tuple[Any, str]:
    """The private key in a user's ``seed``, and the public one as NATS writes it."""
    try:
        raw = base64.b32decode(seed + "=" * (-len(seed) % 8))
    except ValueError:
        raw = b""
    if len(raw) != 36 or _checksum(raw[:-2]) != raw[-2:]:
        raise CredentialsError("the nkey seed is damaged: it is 58 characters long and begins with SU")
    if raw[:2] != USER_SEED:
        raise CredentialsError("the nkey seed is not that of a user: it does not begin with SU")
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError:
        raise CredentialsError("nkeys and credentials need an extra: pip install 'jsproto[nkeys]'") from None
    key = Ed25519PrivateKey.from_private_bytes(raw[2:-2])
    body = USER + key.public_key().public_bytes_raw()
    return key, base64.b32encode(body + _checksum(body)).decode().rstrip("=")


def _signature(seed: str, nonce: str) -> bytes:
    return base64.b64encode(_key(seed)[0].sign(nonce.encode()))


def _checksum(data: bytes) -> bytes:
    """CRC-16 of XMODEM, the low byte first."""
    return crc_hqx(data, 0).to_bytes(2, "little")
