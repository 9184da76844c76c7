"""What the key of a lock says of its holder: a JSON object with ``owner``, ``nonce`` and ``ttl``.

Rules:

* ``owner`` is a text for people, or the id of a candidate. ``nonce`` tells one lock object from all others.
* ``ttl`` is in seconds. Whoever waits knows by it when the key expires, unless it is renewed.
* A value of another form is a holder, too, with nothing known of it.

Not here: acquiring and renewing (``client.bucket.lock``).
"""

from __future__ import annotations

from typing import Final

from jsproto._event import event
from jsproto.errors import LocalProtocolError, RemoteProtocolError
from jsproto.grammar.bodies import dumps, loads

MAX_OWNER: Final = 1_000  # characters
MAX_TTL: Final = 10**9  # seconds


@event
class LockHolder:
    """Who holds a lock. ``ttl``: seconds, 0 where it is unknown."""

    owner: str
    nonce: str = ""
    ttl: float = 0.0

    def encode(self) -> bytes:
        """The value of the key.

        Raises:
            LocalProtocolError: the owner is no text, or too long.
        """
        owner: object = self.owner
        if not isinstance(owner, str) or len(owner) > MAX_OWNER:
            raise LocalProtocolError(f"an owner is a text of up to {MAX_OWNER} characters, not {owner!r:.100}")
        return dumps({"owner": self.owner, "nonce": self.nonce, "ttl": self.ttl})


def parse_holder(value: bytes) -> LockHolder:
    """What a value says, as far as it is one of a lock. Never raises."""
    try:
        body = loads(value)
    except RemoteProtocolError:
        body = {}
    owner, nonce, ttl = body.get("owner"), body.get("nonce"), body.get("ttl")
    return LockHolder(
        owner if isinstance(owner, str) else "",
        nonce if isinstance(nonce, str) else "",
        float(ttl) if isinstance(ttl, int | float) and 0 < ttl < MAX_TTL else 0.0,
    )
