"""Models of what servers say about an account: its limits, and how much of them it uses.

Rules, as in ``config``: names are those of the wire. An unset field is None and stays unwritten. Unknown fields are
kept in ``extra`` and written back, known ones have the right type.

Not here: streams (``config``), the limits that the server role enforces (``server.AccountLimits``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from jsproto.grammar.fields import (
    Json,
    Reader,
    as_count,
    as_integer,
    as_record,
    map_of,
    read_fields,
    readers_of,
    write_fields,
)


@dataclass(slots=True)
class AccountLimits:
    """What an account, or one of its tiers, may have. -1 is unlimited.

    * ``max_memory``, ``max_storage``: bytes of all streams in memory, and of those on disk.
    * ``max_streams``, ``max_consumers``: how many of them.
    * ``max_ack_pending``: of a consumer.
    * ``memory_max_stream_bytes``, ``storage_max_stream_bytes``: the ``max_bytes`` of one stream.
    * ``max_bytes_required``: a stream has to have ``max_bytes``.
    """

    max_memory: int | None = None
    max_storage: int | None = None
    max_streams: int | None = None
    max_consumers: int | None = None
    max_ack_pending: int | None = None
    memory_max_stream_bytes: int | None = None
    storage_max_stream_bytes: int | None = None
    max_bytes_required: bool | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, document: bytes | Json) -> AccountLimits:
        """Read limits. RemoteProtocolError when a known field has the wrong type."""
        return cls(**read_fields(document, _LIMITS, "the limits of an account"))

    def to_json(self) -> dict[str, Any]:
        """The JSON object."""
        return write_fields(self, _LIMITS, self.extra)


@dataclass(slots=True)
class AccountTier:
    """What an account uses of one tier, such as "R3" for streams of three replicas, and its limits. Bytes are bytes."""

    memory: int = 0
    storage: int = 0
    reserved_memory: int | None = None
    reserved_storage: int | None = None
    streams: int = 0
    consumers: int = 0
    limits: AccountLimits | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, document: bytes | Json) -> AccountTier:
        """Read a tier. RemoteProtocolError when a known field has the wrong type."""
        return cls(**_with_limits(read_fields(document, _USE, "a tier of an account")))

    def to_json(self) -> dict[str, Any]:
        """The JSON object."""
        return _written(self, _USE)


@dataclass(slots=True)
class ApiStats:
    """The requests that an account has made of the JetStream API: all, refused, under way. ``level``: of the API."""

    level: int | None = None
    total: int = 0
    errors: int = 0
    inflight: int | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, document: bytes | Json) -> ApiStats:
        """Read the numbers. RemoteProtocolError when a known field has the wrong type."""
        return cls(**read_fields(document, _API, "the requests of an account"))

    def to_json(self) -> dict[str, Any]:
        """The JSON object."""
        return write_fields(self, _API, self.extra)


@dataclass(slots=True)
class AccountInfo:
    """What an account uses of JetStream, its limits, and the same for each of its tiers. Bytes are bytes.

    ``limits`` are those of the account as a whole. An account with ``tiers`` has its limits there, by their names.
    """

    memory: int = 0
    storage: int = 0
    reserved_memory: int | None = None
    reserved_storage: int | None = None
    streams: int = 0
    consumers: int = 0
    limits: AccountLimits | None = None
    domain: str | None = None
    api: ApiStats | None = None
    tiers: dict[str, AccountTier] | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def api_level(self) -> int | None:
        """The JetStream API level, or None if the server leaves it out."""
        return None if self.api is None else self.api.level

    @classmethod
    def from_json(cls, document: bytes | Json) -> AccountInfo:
        """Read the answer to an account request. RemoteProtocolError when a known field has the wrong type."""
        values = _with_limits(read_fields(document, _ACCOUNT_INFO, "account information"))
        if "api" in values:
            values["api"] = ApiStats.from_json(values["api"])
        if "tiers" in values:
            values["tiers"] = {name: AccountTier.from_json(tier) for name, tier in values["tiers"].items()}
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        """The JSON object."""
        body = _written(self, _ACCOUNT_INFO)
        if self.api is not None:
            body["api"] = self.api.to_json()
        if self.tiers is not None:
            body["tiers"] = {name: tier.to_json() for name, tier in self.tiers.items()}
        return body


_LIMITS: Final = readers_of(AccountLimits)
_USE: Final = readers_of(AccountTier, as_count, streams=as_integer, consumers=as_integer)
_API: Final = readers_of(ApiStats, as_count, level=as_integer)
_ACCOUNT_INFO: Final = readers_of(
    AccountInfo, as_count, streams=as_integer, consumers=as_integer, tiers=map_of(as_record)
)


def _with_limits(values: dict[str, Any]) -> dict[str, Any]:
    return values if "limits" not in values else values | {"limits": AccountLimits.from_json(values["limits"])}


def _written(model: AccountInfo | AccountTier, fields: Mapping[str, Reader]) -> dict[str, Any]:
    body = write_fields(model, fields, model.extra)
    return body if model.limits is None else body | {"limits": model.limits.to_json()}
