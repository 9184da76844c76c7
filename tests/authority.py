"""Who vouches for whom in tests: nkeys, the JWTs of an operator, credentials and certificates, made on the spot.

An operator signs for accounts, an account for users; a server is told the operator's JWT and those of the accounts. The
tools that do this for people are not for Python. What is here knows the formats on its own, so that it can tell when
the library has got them wrong.
"""

from __future__ import annotations

import base64
import json
import time
from binascii import crc_hqx
from pathlib import Path
from typing import Any

import trustme
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

KINDS = {"operator": 14, "account": 0, "user": 20}  # the letters O, A, U in Base32
SEED = 18  # the letter S


class Key:
    """An nkey of ``kind``."""

    def __init__(self, kind: str) -> None:
        self._private = Ed25519PrivateKey.generate()
        letter = KINDS[kind]
        self.public = _encode(bytes([letter << 3]) + self._private.public_key().public_bytes_raw())
        # Five bits say that it is a seed, five more whose.
        self.seed = _encode((SEED << 11 | letter << 6).to_bytes(2) + self._private.private_bytes_raw())

    def sign(self, data: bytes) -> bytes:
        return self._private.sign(data)

    def jwt(self, subject: str, kind: str, **claims: Any) -> str:
        """That this key vouches for ``subject``."""
        body = {
            "jti": "TEST", "iat": int(time.time()), "iss": self.public, "name": kind, "sub": subject,
            "nats": {"type": kind, "version": 2, **claims},
        }  # fmt: skip
        signed = ".".join(_text(json.dumps(part).encode()) for part in ({"typ": "JWT", "alg": "ed25519-nkey"}, body))
        return f"{signed}.{_text(self.sign(signed.encode()))}"


class Operator:
    """An operator with one account, besides the one that servers have for themselves."""

    def __init__(self) -> None:
        self._key, self._system, self.account = Key("operator"), Key("account"), Key("account")

    def config(self) -> str:
        """What makes a server trust it."""
        limits: dict[str, Any] = {"wildcards": True}
        limits.update(dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1))
        storage = dict.fromkeys(("mem_storage", "disk_storage", "streams", "consumer"), -1)  # only an account's own
        account = self._key.jwt(self.account.public, "account", limits={**limits, **storage})
        system = self._key.jwt(self._system.public, "account", limits=limits)
        lines = (
            f"operator: {self._key.jwt(self._key.public, 'operator')}",
            f"system_account: {self._system.public}",
            "resolver: MEMORY",
            f"resolver_preload: {{ {self.account.public}: {account}, {self._system.public}: {system} }}",
        )
        return "\n".join(lines)

    def credentials(self, user: Key) -> str:
        """A ``.creds`` file for a user of the account."""
        jwt = self.account.jwt(user.public, "user", subs=-1, data=-1, payload=-1)
        return credentials(jwt, user.seed)


def tls_config(authority: trustme.CA, folder: Path, more: str = "") -> str:
    """What makes a server of this machine require TLS. Its files stay in ``folder``."""
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    certificate.private_key_pem.write_to_path(str(folder / "key.pem"))
    certificate.cert_chain_pems[0].write_to_path(str(folder / "cert.pem"))
    files = "".join(f'{name}_file: "{folder / name}.pem"\n' for name in ("ca", "cert", "key"))
    return f"tls {{\n{files}{more}\n}}\n"


def credentials(jwt: str, seed: str) -> str:
    """A ``.creds`` file."""
    return (
        f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
        "*************** IMPORTANT ***************\nNKEY Seed printed below can be used to sign.\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )


def is_signed(public: str, nonce: str, signature: str) -> bool:
    """Whether the holder of the key ``public`` has signed ``nonce``."""
    raw = base64.b32decode(public)
    assert crc_hqx(raw[:-2], 0) == int.from_bytes(raw[-2:], "little")
    try:
        Ed25519PublicKey.from_public_bytes(raw[1:-2]).verify(base64.b64decode(signature), nonce.encode())
    except InvalidSignature:
        return False
    return True


def _encode(body: bytes) -> str:
    return base64.b32encode(body + crc_hqx(body, 0).to_bytes(2, "little")).decode().rstrip("=")


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
