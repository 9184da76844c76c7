"""The streams that a stream copies, as sources or as its mirror: what servers say of them, and their consumers.

Rules: those of ``config``. Unknown fields are kept in ``extra`` and written back.

Not here: the consumer itself (``sourcing_consumer``), how a block is configured (``config.StreamSource``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from jsproto.errors import APIError, LocalProtocolError, RemoteProtocolError
from jsproto.grammar.api import api_error
from jsproto.grammar.fields import (
    Json,
    Writer,
    as_count,
    as_integer,
    read_fields,
    readers_of,
    write_fields,
)
from jsproto.grammar.subjects import check_name, check_subject
from jsproto.grammar.times import Seconds, nanoseconds

SOURCING_SINCE: Final = "2.14"
"""The first release with durable sourcing: the ack policy ``flow_control``, consumers of sources, and resets."""
SOURCING_LEVEL: Final = 4
"""The API level of that release."""
IDENTITY_LEVEL: Final = 5
"""The API level from which on streams have an identity, and sources say how far they are: that of 2.15."""

_NOT_ACTIVE: Final = -1  # on the wire: not heard of
_OF_THE_CONSUMER: Final = ("opt_start_seq", "opt_start_time", "filter_subject")


def check_source(source: Mapping[str, Any], where: str) -> None:
    """Check the ``consumer`` of a source or mirror. It checks those alone that have one.

    Raises:
        LocalProtocolError: servers refuse it (FACTS.md F4.9): the name or the deliver subject is missing or cannot be
            one, or there is a start or a filter beside it. A consumer with ``server_managed`` only needs a name.
    """
    consumer = source.get("consumer")
    if consumer is None:
        return
    is_managed = consumer.get("server_managed")
    missing = [name for name in ("name", "deliver_subject") if not consumer.get(name)]
    if missing and not (is_managed and missing == ["deliver_subject"]):
        raise LocalProtocolError(
            f"the consumer of {where} has no {' and no '.join(missing)}: sourcing_consumer makes one, give both"
        )
    check_name(consumer["name"], "consumer")
    if is_managed:
        return
    check_subject(consumer["deliver_subject"])
    beside = [name for name in _OF_THE_CONSUMER if source.get(name)]
    if beside:
        raise LocalProtocolError(
            f"{where} has a consumer, so it cannot have {' and '.join(beside)}: set it in the consumer's configuration"
        )


def _as_activity(value: Any, path: str) -> Seconds | None:
    """How long ago, or None."""
    number = as_integer(value, path)
    return None if number == _NOT_ACTIVE else Seconds.from_nanoseconds(number)


_SOURCE_INFO_WRITERS: Final[Mapping[str, Writer]] = {"active": nanoseconds}


@dataclass(slots=True)
class StreamSourceInfo:
    """How far a source or a mirror is.

    * ``name``: the stream that is copied.
    * ``lag``: how many of its messages are still to come, as servers count them. It stays 0 while the consumer is
      paused (FACTS.md F4.13). An honest figure is the sum of ``num_pending`` and ``num_ack_pending`` in the consumer's
      info: what waits for delivery, and for an acknowledgement. Of the latter a part may be copied already, because
      servers acknowledge up to a second later.
    * ``seq``: the last sequence that was copied. None for a mirror, before the first message, and before 2.15.
    * ``active``: how long ago it was heard of, in ``Seconds``. None while it is silent.
    * ``error``: the server's object, None when all is well. ``failure`` is the same as an APIError.
    * ``external``, ``filter_subject``, ``subject_transforms``: as in the configuration.
    * ``consumer``: the name of its durable consumer where the configuration gives one. None for a consumer that the
      server makes (``JS_SRC_*``, ``JS_MIRROR_*``), and where several sources look alike.
    """

    name: str
    external: dict[str, Any] | None = None
    lag: int = 0
    seq: int | None = None
    active: Seconds | None = None
    error: dict[str, Any] | None = None
    filter_subject: str | None = None
    subject_transforms: list[dict[str, Any]] | None = None
    consumer: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def failure(self) -> APIError | None:
        """Why the copying stands still, for example SourceConsumerRequiresAckFCError. None when all is well."""
        return None if self.error is None else api_error(self.error)

    @classmethod
    def from_json(cls, document: bytes | Json, configured: Sequence[Mapping[str, Any]] = ()) -> StreamSourceInfo:
        """Read what a stream's information says of a source. ``configured``: the sources of its configuration.

        Raises:
            RemoteProtocolError: the name is missing, or a known field has the wrong type.
        """
        values = read_fields(document, _SOURCE_INFO, "a source")
        if "name" not in values:
            raise RemoteProtocolError("a source without a name")
        consumers = {
            (each.get("consumer") or {}).get("name")
            for each in configured
            if each.get("name") == values["name"]
            and all((each.get(name) or None) == (values.get(name) or None) for name in ("external", "filter_subject"))
        }
        return cls(**values, consumer=consumers.pop() if len(consumers) == 1 else None)

    def to_json(self) -> dict[str, Any]:
        """The JSON object. -1 stands for silence, as servers write it."""
        body = write_fields(self, _SOURCE_INFO, self.extra, _SOURCE_INFO_WRITERS)
        body.setdefault("active", _NOT_ACTIVE)
        return body


_SOURCE_INFO: Final = {
    name: reader
    for name, reader in readers_of(StreamSourceInfo, as_count, active=_as_activity).items()
    if name != "consumer"
}
