"""What a stream asks of the streams that it copies by a durable consumer: names, requests, and their headers.

Rules, those of nats-server from 2.14 (FACTS.md F4.29, F4.30, F4.32):

* A consumer that the configuration names is reset. Any other is created, which resets one that is there.
* Its name is the same each time: ``JS_MIRROR_`` or ``JS_SRC_``, and a hash of the stream that copies.
* A stream that is a source more than once has a hash with the subjects as well.
* The request asks for a hidden consumer without acknowledgements. A stream that deletes acknowledged messages makes a
  durable one of it.
* With ``server_managed``, which only the draft knows, it asks for a durable consumer of that name. That one has
  ``sourcing`` too, so it shares a work queue with others.
* The subject of the request has a filter at its end if there is one without wildcards.

Not here: sending them (``consumer_reader``), other accounts. Servers put filters with wildcards into the subject too.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from jsproto.errors import LocalProtocolError
from jsproto.grammar.api import DEFAULT_PREFIX
from jsproto.grammar.bodies import dumps
from jsproto.grammar.config import StreamSource
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.grammar.headers import STREAM_IDENTITY, encode_headers
from jsproto.grammar.publish_headers import REQUIRED_API_LEVEL
from jsproto.grammar.sources import IDENTITY_LEVEL, SOURCING_LEVEL
from jsproto.grammar.subjects import check_subject
from jsproto.grammar.times import parse_timestamp
from jsproto.server.store.context import ACCOUNT, ServerContext, hashed
from jsproto.server.store.origin import index_of, patterns_of
from jsproto.server.store.stream import Stream

_ACK_WAIT: Final = 22 * 3600.0  # seconds
_HEARTBEAT: Final = 1.0  # seconds
_INACTIVE: Final = 10.0  # seconds


class ConsumerRequest(NamedTuple):
    """A request: where it goes, its payload and its header block."""

    subject: str
    payload: bytes
    header: bytes | None


class ConsumerRequests:
    """The requests of one mirror or source about its consumer.

    Attributes: ``block`` (how it is configured), ``is_mirror``.
    """

    __slots__ = ("_context", "_stream", "block", "is_mirror")

    def __init__(self, block: StreamSource, stream: Stream, context: ServerContext, *, is_mirror: bool) -> None:
        """``block``: the field ``mirror`` of the configuration of ``stream``, or one of its ``sources``."""
        self.block = block
        self.is_mirror = is_mirror
        self._stream = stream
        self._context = context

    @property
    def origin(self) -> str:
        """The name of the stream that is copied."""
        return self.block["name"]

    @property
    def deliver_subject(self) -> str | None:
        """That of a consumer which the user manages, else None."""
        consumer: dict[str, Any] = {**(self.block.get("consumer") or {})}
        return None if consumer.get("server_managed") else consumer.get("deliver_subject")

    @property
    def name(self) -> str:
        """The name of the consumer, which depends on the other sources of the stream."""
        consumer = self.block.get("consumer")
        if consumer is not None:
            return consumer["name"]
        config = self._stream.config
        name = hashed(f"{config.name} {self._context.account}")
        if self.is_mirror:
            return f"JS_MIRROR_{name}"
        if sum(source["name"] == self.origin for source in config.sources or ()) > 1:
            name = f"{name} {index_of(self.block)}"
        return f"JS_SRC_{hashed(name)}"

    def begin(self, position: int, identity: str) -> ConsumerRequest:
        """Ask for messages after ``position`` of the stream with that ``identity``, which may be empty."""
        prefix = f"{DEFAULT_PREFIX}.CONSUMER."
        if self.deliver_subject is not None:
            return ConsumerRequest(
                f"{prefix}RESET.{self.origin}.{self.name}", b"", self._header(identity, is_new=False)
            )
        config = self._config(position)
        subject = f"{prefix}CREATE.{self.origin}"
        if config.filter_subject and _is_literal(config.filter_subject):
            subject += f".{config.name}.{config.filter_subject}"
        elif config.durable_name:
            subject += f".{config.name}"
        body = {"stream_name": self.origin, "config": config.to_json(), "action": ""}
        return ConsumerRequest(subject, dumps(body), self._header(identity, is_new=True))

    def delete(self, name: str) -> str:
        """The subject of the request that deletes the consumer of that ``name``."""
        return f"{DEFAULT_PREFIX}.CONSUMER.DELETE.{self.origin}.{name}"

    def _header(self, identity: str, *, is_new: bool) -> bytes | None:
        if not self.is_mirror and self._context.api_level >= IDENTITY_LEVEL:
            return encode_headers({REQUIRED_API_LEVEL: str(IDENTITY_LEVEL), STREAM_IDENTITY: identity})
        return encode_headers({REQUIRED_API_LEVEL: str(SOURCING_LEVEL)}) if is_new else None

    def _config(self, position: int) -> ConsumerConfig:
        block, context, filters = self.block, self._context, patterns_of(self.block)
        kind, letter = ("mirror", "M") if self.is_mirror else ("src", "S")
        metadata = {f"_nats.{kind}.stream": self._stream.config.name, f"_nats.{kind}.acc": ACCOUNT}
        if context.domain is not None:
            metadata[f"_nats.{kind}.domain"] = context.domain
        consumer: dict[str, Any] | None = block.get("consumer")  # type: ignore[assignment]
        config = ConsumerConfig(
            name=self.name, deliver_subject=f"$JS.{letter}.{context.next_id()[:8]}", deliver_policy="all",
            replay_policy="instant", num_replicas=0, flow_control=True, idle_heartbeat=_HEARTBEAT, sourcing=True,
            metadata=metadata,
        )  # fmt: skip
        if consumer is None:
            config.ack_policy, config.ack_wait, config.max_deliver = "none", _ACK_WAIT, 1
            config.direct, config.inactive_threshold = True, _INACTIVE
        else:
            config.durable_name, config.ack_policy = self.name, "flow_control"
            config.deliver_subject = consumer.get("deliver_subject") or config.deliver_subject
        if len(filters) == 1:
            config.filter_subject = filters[0]
        elif filters:
            config.filter_subjects = filters
        start = block.get("opt_start_time")
        if position or block.get("opt_start_seq"):
            config.deliver_policy = "by_start_sequence"
            config.opt_start_seq = position + 1 if position else block["opt_start_seq"]
        elif start:
            config.deliver_policy, config.opt_start_time = "by_start_time", parse_timestamp(str(start))
        return config


def _is_literal(subject: str) -> bool:
    """Whether it is a subject without wildcards."""
    try:
        check_subject(subject)
    except LocalProtocolError:
        return False
    return True
