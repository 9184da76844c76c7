"""What the streams of one server have in common: limits, dialect, release, time of day, ids.

Rules: the numbers are nats-server's, each can be set. The time of day is the caller's monotonic seconds plus one
offset; ids derive from one token. So the same inputs give the same bytes.

Not here: links and accounts (there is one account).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, Literal, TypeAlias

from jsproto.grammar.acks import Dialect

Release: TypeAlias = tuple[int, int, int]

REFERENCE: Final[Release] = (2, 15, 1)
"""The release that is spoken unless another is asked for."""

NAME: Final = "jsproto"
"""What the server calls itself."""

ACCOUNT_HASH: Final = "szMpdrwD"
"""What acknowledgement subjects of version 2 say for the account that everybody is in, ``$G``."""

NO_DOMAIN: Final = "_"
"""What they say where there is no domain."""

_API_LEVELS: Final = (((2, 15, 0), 5), ((2, 14, 0), 4), ((2, 12, 5), 3), ((2, 12, 0), 2), ((0, 0, 0), 1))
_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_LENGTH: Final = 22


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How many batches, how large and how long silent: ``jetstream { limits { batch { ... } } }`` of nats-server.

    ``idle`` in seconds. nats-server has one number for both kinds of batches where this has two.
    """

    atomic_per_stream: int = 50
    atomic_total: int = 1000
    atomic_messages: int = 1000
    fast_per_stream: int = 1000
    fast_total: int = 50_000
    idle: float = 10.0


@dataclass(slots=True)
class ServerContext:
    """One server, as its streams see it.

    ``token`` is the only entropy. ``epoch`` is the time of day, in nanoseconds since 1970, at which ``now`` was 0.
    ``ack_version``: of the subjects that consumers write for acknowledgements and flow control (ADR-15, "JSAck"); both
    are read. ``dialect`` is that of ADR-50 (``acks``) and ADR-31 (``direct``); ``release`` decides a few answers: of
    fast ingest from 2.14.0 on, of Direct Get and configurations from 2.11.0 on. ``api_level`` 0 is that of the release.
    ``atomic_open`` and ``fast_open`` count the open batches of all streams. ``catching_up``: the copies that have to be
    told of the time, the first of which is at it.
    """

    token: bytes
    limits: BatchLimits = field(default_factory=BatchLimits)
    domain: str | None = None
    dialect: Dialect = "released"
    release: Release = REFERENCE
    api_level: int = 0
    epoch: int = 0
    ack_version: Literal[1, 2] = 1
    atomic_open: int = 0
    fast_open: int = 0
    catching_up: deque[Callable[[float], None]] = field(default_factory=deque)
    _ids: int = 0

    def __post_init__(self) -> None:
        if not self.api_level:
            self.api_level = next(level for since, level in _API_LEVELS if self.release >= since)

    @property
    def is_before_2_12(self) -> bool:
        """Whether the release knows neither API levels in requests, nor requests and configurations of later ones."""
        return self.release < (2, 12, 0)

    @property
    def version(self) -> str:
        """The release as INFO says it."""
        return ".".join(map(str, self.release))

    def timestamp(self, now: float) -> int:
        """The time of day, in nanoseconds since 1970."""
        return self.epoch + round(now * 1_000_000_000)

    def next_id(self) -> str:
        """22 letters and digits that this server has not used before."""
        self._ids += 1
        number = int.from_bytes(sha256(self.token + self._ids.to_bytes(8, "big")).digest(), "big")
        digits = []
        for _ in range(_ID_LENGTH):
            number, digit = divmod(number, len(_DIGITS))
            digits.append(_DIGITS[digit])
        return "".join(digits)
