"""What the streams of one server have in common: limits, dialect, release, time of day, ids.

Rules: the defaults are nats-server's, and each can be set. The time of day is the caller's monotonic seconds plus one
offset. Ids derive from one token. So the same inputs give the same bytes.

Not here: connections, and accounts (there is one).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, Literal, TypeAlias

from jsproto.grammar.acks import Dialect
from jsproto.grammar.cron import Zone
from jsproto.wire.limits import DEFAULT_MAX_PAYLOAD

Release: TypeAlias = tuple[int, int, int]

REFERENCE: Final[Release] = (2, 15, 1)
"""The release that a server answers as by default."""

NAME: Final = "jsproto"
"""The server's name in INFO."""

ACCOUNT: Final = "$G"
"""The name of the account."""

ACCOUNT_HASH: Final = "szMpdrwD"
"""The hash of the account ``$G`` in ack subjects of version 2 (FACTS.md F5.3)."""

NO_DOMAIN: Final = "_"
"""The token of ack subjects of version 2 where there is no domain."""

_API_LEVELS: Final = (((2, 15, 0), 5), ((2, 14, 0), 4), ((2, 12, 5), 3), ((2, 12, 0), 2), ((0, 0, 0), 1))
_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_LENGTH: Final = 22
_HASH_LENGTH: Final = 8


def _utc(moment: int) -> int:
    return 0


def hashed(text: str) -> str:
    """8 letters and digits that stand for ``text``, as nats-server makes them."""
    digest = sha256(text.encode("utf-8", "replace")).digest()
    return "".join(_DIGITS[byte % len(_DIGITS)] for byte in digest[:_HASH_LENGTH])


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The limits of batches: how many per stream and in total, how many messages, and how long silent.

    ``idle`` is seconds. nats-server configures one number for both kinds of batches (FACTS.md F1.9), this class two.
    """

    atomic_per_stream: int = 50
    atomic_total: int = 1000
    atomic_messages: int = 1000
    fast_per_stream: int = 1000
    fast_total: int = 50_000
    idle: float = 10.0


@dataclass(frozen=True, slots=True)
class AccountLimits:
    """What the account may have. -1 is no limit, as in nats-server (FACTS.md F14).

    * ``max_memory``, ``max_storage``: bytes of all streams in memory, and of those on disk.
    * ``max_streams``, ``max_consumers``: how many streams, and how many consumers each of them.
    * ``max_ack_pending``: of a consumer.
    * ``memory_max_stream_bytes``, ``storage_max_stream_bytes``: the ``max_bytes`` of one stream.
    * ``max_bytes_required``: a stream has to have ``max_bytes``.
    """

    max_memory: int = -1
    max_storage: int = -1
    max_streams: int = -1
    max_consumers: int = -1
    max_ack_pending: int = -1
    memory_max_stream_bytes: int = -1
    storage_max_stream_bytes: int = -1
    max_bytes_required: bool = False

    def most_bytes(self, storage: str | None) -> int:
        """The bytes of all streams of one kind of storage."""
        return self.max_memory if storage == "memory" else self.max_storage


@dataclass(slots=True)
class ServerContext:
    """One server, as its streams see it.

    * ``token``: the only entropy.
    * ``domain``: the JetStream domain, or None.
    * ``dialect``: ``released``, or ``draft`` for the text of the specifications.
    * ``release``: the release to answer as. Fast ingest follows it from 2.14, Direct Get and configurations from 2.11.
    * ``api_level``: 0 for that of the release (FACTS.md F0.1).
    * ``epoch``: the time of day, in nanoseconds since 1970, at which ``now`` was 0.
    * ``ack_version``: of the subjects that consumers write (ADR-15, "JSAck"). Both versions are read.
    * ``lenient``: accept configurations that ask for something that the role does not do, and do not do it.
    * ``max_payload``: the bytes that a message may have.
    * ``apply_delay``: the seconds after which a stream with replicas stores what its leader has accepted. Each replica
      stores it as much later (``Lag``).
    * ``wrong_guards``: lets releases before 2.14.4 check batches wrongly, as they do (FACTS.md F1.35). It gets how many
      subjects were checked in the batch, and returns the index of the one that is taken for the next. None: none is.
    * ``account_limits``: what all streams may have together, and each of them.
    * ``used``: how many bytes all streams of one kind of storage have.
    * ``has_stored``: whether a message was stored. Before that servers count nothing.
    * ``zones``: finds a time zone by its name. None: only UTC is known.
    * ``atomic_open``, ``fast_open``: the number of open batches of all streams.
    * ``catching_up``: the calls of copies that have to catch up. The first one runs.
    """

    token: bytes
    limits: BatchLimits = field(default_factory=BatchLimits)
    domain: str | None = None
    dialect: Dialect = "released"
    release: Release = REFERENCE
    api_level: int = 0
    epoch: int = 0
    ack_version: Literal[1, 2] = 1
    lenient: bool = False
    max_payload: int = DEFAULT_MAX_PAYLOAD
    account_limits: AccountLimits = field(default_factory=AccountLimits)
    apply_delay: float = 0.0
    wrong_guards: Callable[[int], int | None] | None = None
    used: Callable[[str | None], int] = lambda storage: 0
    has_stored: bool = False
    zones: Callable[[str], Zone | None] | None = None
    atomic_open: int = 0
    fast_open: int = 0
    catching_up: deque[Callable[[float], None]] = field(default_factory=deque)
    _ids: int = 0

    def __post_init__(self) -> None:
        if not self.api_level:
            self.api_level = next(level for since, level in _API_LEVELS if self.release >= since)

    def in_turn(self, catch_up: Callable[[float], None], now: float) -> None:
        """Let a copy catch up at ``now`` (seconds).

        In a chain of copies one catches up after the other, not inside the other: a queue takes the place of recursion.
        """
        self.catching_up.append(catch_up)
        if len(self.catching_up) == 1:
            while self.catching_up:
                self.catching_up[0](now)
                self.catching_up.popleft()

    @property
    def is_before_2_12(self) -> bool:
        """Whether the release is older than 2.12, and lacks required API levels and later features."""
        return self.release < (2, 12, 0)

    @property
    def version(self) -> str:
        """The release in INFO's form, such as ``2.15.1``."""
        return ".".join(map(str, self.release))

    def timestamp(self, now: float) -> int:
        """The time of day at ``now`` (seconds), in nanoseconds since 1970."""
        return self.epoch + round(now * 1_000_000_000)

    def seconds(self, timestamp: int) -> float:
        """The moment of ``timestamp`` (nanoseconds since 1970), in the caller's seconds."""
        return (timestamp - self.epoch) / 1_000_000_000

    def zone(self, name: str) -> Zone | None:
        """The time zone of that name. None: it is not known."""
        if name == "UTC":
            return _utc
        return None if self.zones is None else self.zones(name)

    @property
    def account(self) -> str:
        """The account and, if there is one, the domain: what servers add to names before they hash them."""
        return ACCOUNT if self.domain is None else f"{ACCOUNT} {self.domain}"

    def next_id(self) -> str:
        """22 letters and digits that this server has not used before."""
        self._ids += 1
        number = int.from_bytes(sha256(self.token + self._ids.to_bytes(8, "big")).digest(), "big")
        digits = []
        for _ in range(_ID_LENGTH):
            number, digit = divmod(number, len(_DIGITS))
            digits.append(_DIGITS[digit])
        return "".join(digits)
