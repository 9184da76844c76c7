"""Unguessable parts of subjects, for inboxes and replies.

Rules:

* All come from the entropy that was given. The same entropy gives the same tokens.
* They are pieces of a hash of the entropy and a counter, so some tokens do not help to compute another one.

How it works: one hash gives many tokens, so that one token costs little more than a call.

Not here: where the entropy comes from.
"""

from __future__ import annotations

from hashlib import shake_256
from struct import Struct
from typing import Final

SIZE: Final = 16  # characters of a token: 64 bits, and to try one is to publish a message
AT_ONCE: Final = 64

_SPLIT: Final = Struct(f"{SIZE}s" * AT_ONCE)


class Tokens:
    """The tokens of one session, one after the other."""

    __slots__ = ("_draws", "_entropy", "_left")

    def __init__(self, entropy: bytes) -> None:
        self._entropy = entropy
        self._draws = 0
        self._left: list[bytes] = []

    def draw(self) -> bytes:
        """The next one."""
        if not self._left:
            self._refill()
        return self._left.pop()

    def draw_many(self, count: int) -> list[bytes]:
        """As many as ``count`` calls of ``draw`` give. Pays: ``async-publish``."""
        drawn: list[bytes] = []
        while len(drawn) < count:
            if not self._left:
                self._refill()
            taken = self._left[-1 : -1 - (count - len(drawn)) : -1]
            del self._left[-len(taken) :]
            drawn += taken
        return drawn

    def _refill(self) -> None:
        self._draws += 1
        drawn = shake_256(self._entropy + self._draws.to_bytes(8)).hexdigest(_SPLIT.size // 2)
        self._left = [*_SPLIT.unpack(drawn.encode())]
