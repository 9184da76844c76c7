"""Advisories about consumers: what nats-server 2.15.1 publishes for their observers.

Rules: an advisory goes to ``$JS.EVENT.ADVISORY.CONSUMER.<kind>.<stream>.<consumer>``, in a domain too.

Not here: when they are sent (``consumer``, ``api.consumers``).
"""

from __future__ import annotations

from typing import Any, Final

from jsproto.grammar.bodies import dumps
from jsproto.grammar.fields import NEVER
from jsproto.grammar.times import format_timestamp
from jsproto.outbox import Outbox
from jsproto.server.store.context import ServerContext

_SUBJECT: Final = "$JS.EVENT.ADVISORY.CONSUMER.{}.{}.{}"
_METRIC: Final = "$JS.EVENT.METRIC.CONSUMER.ACK.{}.{}"
_METRIC_TYPE: Final = "io.nats.jetstream.metric.v1.consumer_ack"
_SECOND: Final = 1_000_000_000
_ACCOUNT: Final = "$G"  # said in some of them only
_TYPE: Final = "io.nats.jetstream.advisory.v1."


class Advisories:
    """The advisories of one consumer. ``now`` is the caller's seconds, ``until`` nanoseconds since 1970."""

    __slots__ = ("_consumer", "_context", "_outbox", "_stream")

    def __init__(self, stream: str, consumer: str, context: ServerContext, outbox: Outbox) -> None:
        """``stream`` and ``consumer`` are names."""
        self._stream = stream
        self._consumer = consumer
        self._context = context
        self._outbox = outbox

    def created(self, now: float) -> None:
        """The consumer was created."""
        self._publish("CREATED", "consumer_action", now, action="create")

    def deleted(self, now: float) -> None:
        """The consumer was deleted."""
        self._publish("DELETED", "consumer_action", now, action="delete")

    def paused(self, until: int | None, *, is_paused: bool, now: float) -> None:
        """The consumer is paused until that moment, or, if not ``is_paused``, delivers again."""
        moment = NEVER if until is None else format_timestamp(until)
        self._publish("PAUSE", "consumer_pause", now, paused=is_paused, pause_until=moment)

    def naked(self, consumer_seq: int, stream_seq: int, deliveries: int, now: float) -> None:
        """A client refused a message (NAK), which will be delivered again. ``deliveries``: how often it was."""
        numbers = {"consumer_seq": consumer_seq, "stream_seq": stream_seq, "deliveries": deliveries}
        self._publish("MSG_NAKED", "nak", now, **numbers)

    def terminated(self, consumer_seq: int, stream_seq: int, deliveries: int, reason: str, now: float) -> None:
        """A message will not be delivered again, for the ``reason`` that the client gave."""
        said: dict[str, Any] = {"consumer_seq": consumer_seq, "stream_seq": stream_seq, "deliveries": deliveries}
        if reason:
            said["reason"] = reason
        self._publish("MSG_TERMINATED", "terminated", now, **said)

    def exhausted(self, stream_seq: int, deliveries: int, now: float) -> None:
        """A message was delivered ``max_deliver`` times without an acknowledgement."""
        self._publish("MAX_DELIVERIES", "max_deliver", now, stream_seq=stream_seq, deliveries=deliveries)

    def pinned(self, group: str, pin: str, now: float) -> None:
        """A client of the priority group was pinned, under the id ``pin``."""
        self._publish("PINNED", "consumer_group_pinned", now, _ACCOUNT, group=group, pinned_id=pin)

    def unpinned(self, group: str, reason: str, now: float) -> None:
        """The client of the priority group was unpinned, for ``reason``."""
        self._publish("UNPINNED", "consumer_group_unpinned", now, _ACCOUNT, group=group, reason=reason)

    def sampled(self, consumer_seq: int, stream_seq: int, deliveries: int, waited: float, now: float) -> None:
        """A message was acknowledged, so many seconds after its delivery."""
        numbers = {"consumer_seq": consumer_seq, "stream_seq": stream_seq, "ack_time": round(waited * _SECOND)}
        context = self._context
        body = {
            "type": _METRIC_TYPE, "id": context.next_id(), "timestamp": format_timestamp(context.timestamp(now)),
            "stream": self._stream, "consumer": self._consumer, **numbers, "deliveries": deliveries,
        }  # fmt: skip
        domain = {} if context.domain is None else {"domain": context.domain}
        self._outbox.publish(_METRIC.format(self._stream, self._consumer), dumps(body | domain))

    def _publish(self, kind: str, type_name: str, now: float, account: str | None = None, /, **said: Any) -> None:
        context = self._context
        body: dict[str, Any] = {
            "type": _TYPE + type_name, "id": context.next_id(), "timestamp": format_timestamp(context.timestamp(now)),
        }  # fmt: skip
        if account is not None:
            body["account"] = account
        body |= {"stream": self._stream, "consumer": self._consumer}
        domain = {} if context.domain is None else {"domain": context.domain}
        self._outbox.publish(_SUBJECT.format(kind, self._stream, self._consumer), dumps(body | said | domain))
