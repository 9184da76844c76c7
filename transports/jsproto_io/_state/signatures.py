"""Checks signatures of users, for a server in memory.

A public nkey is the Base32 text of the byte of its kind, the 32 bytes of an Ed25519 key, and a checksum of two bytes.

Rules: ``cryptography`` checks, from the extra ``nkeys``. It is imported when a server with such users is made.

Not here: signing (``credentials``), who may connect (``jsproto.server.access``).
"""

from __future__ import annotations

import base64

from jsproto.errors import CredentialsError
from jsproto.server.access import Verify


def signature_check() -> Verify:
    """A function that checks a signature of a nonce: the public nkey of a user, the nonce, the signature.

    Raises:
        CredentialsError: the extra is missing.
    """
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        raise CredentialsError("users with an nkey need an extra: pip install 'jsproto[nkeys]'") from None

    def is_signed(nkey: str, nonce: bytes, signature: bytes) -> bool:
        try:
            raw = base64.b32decode(nkey + "=" * (-len(nkey) % 8))
            Ed25519PublicKey.from_public_bytes(raw[1:-2]).verify(signature, nonce)
        except (ValueError, InvalidSignature):
            return False
        return True

    return is_signed
