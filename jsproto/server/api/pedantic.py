"""What a request with ``pedantic`` may not have: values that servers would silently replace (FACTS.md F8).

Rules: the checks are those of nats-server 2.15.1, most of them with the error 10157. They come before all others. Of
several errors in one configuration another one may be reported.

Not here: everything that is refused without ``pedantic`` too.
"""

from __future__ import annotations

from typing import Any, Final

from jsproto.grammar.config import StreamConfig
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.server.api.requests import Body
from jsproto.server.store.refusals import refusal
from jsproto.server.store.settings import DUPLICATE_WINDOW

_STREAM_LIMITS: Final = ("max_msgs", "max_msgs_per_subject", "max_bytes", "max_msg_size", "max_consumers")
_NOT_NEGATIVE: Final = (
    "max_batch",
    "max_expires",
    "max_bytes",
    "idle_heartbeat",
    "inactive_threshold",
    "priority_timeout",
)
_FLOW_HEARTBEAT: Final = 1  # seconds


def is_pedantic(body: Body) -> bool:
    """Whether a request asks to be taken literally.

    Raises:
        APIError: the field is no flag.
    """
    asked = body.get("pedantic")
    if not isinstance(asked, bool | None):
        raise refusal(10025, "pedantic is a flag")
    return asked is True


def check_stream(config: StreamConfig, origin: StreamConfig | None) -> None:
    """Check the configuration of a stream. ``origin``: of the stream that it mirrors, if it exists here.

    Raises:
        APIError: a server would replace a value.
    """
    for name in _STREAM_LIMITS:
        if (getattr(config, name) or 0) < -1:
            raise refusal(10157, f"{name} must be set to -1")
    copies = config.mirror is not None or config.sources
    if not config.duplicate_window and not copies and 0 < (config.max_age or 0) < DUPLICATE_WINDOW:
        raise refusal(10157, "duplicate window cannot be bigger than max age")
    if (config.subject_delete_marker_ttl or 0) >= 1:
        if not config.allow_msg_ttl:
            raise refusal(10052, "subject delete marker cannot be set if message TTLs are disabled")
        if not config.allow_rollup_hdrs:
            raise refusal(10052, "subject delete marker cannot be set if roll-ups are disabled")
    if config.allow_msg_schedules and not config.allow_rollup_hdrs:
        raise refusal(10052, "message scheduling cannot be set if roll-ups are disabled")
    if origin is not None and bool(config.mirror_direct) != bool(origin.allow_direct):
        raise refusal(10157, "origin stream has direct get set, mirror has it disabled")
    if config.republish is not None and not config.republish.get("src"):
        raise refusal(10157, "republish source can not be empty")


def check_consumer(config: ConsumerConfig, stream: StreamConfig) -> None:
    """Check the configuration of a consumer of ``stream``.

    Raises:
        APIError: a server would replace a value.
    """
    if (config.max_deliver or 0) < -1:
        raise refusal(10157, "max_deliver must be set to -1")
    if (config.max_waiting or 0) < 0:
        raise refusal(10157, "max_waiting must not be negative")
    if (config.max_ack_pending or 0) < -1:
        raise refusal(10157, "max_ack_pending must be set to -1")
    for name in _NOT_NEGATIVE:
        if (getattr(config, name) or 0) < 0:
            raise refusal(10157, f"{name} must not be negative")
    if config.backoff and config.ack_wait != config.backoff[0]:
        raise refusal(10157, "first backoff value has to equal batch AckWait")
    limits: dict[str, Any] = {**(stream.consumer_limits or {})}
    for name in ("max_ack_pending", "inactive_threshold"):
        if not getattr(config, name) and (limits.get(name) or 0) > 0:
            raise refusal(10157, f"{name} must be set if it's configured in stream limits")
    if config.ack_policy == "flow_control" and config.deliver_subject:
        if not config.flow_control:
            raise refusal(10219)
        if config.idle_heartbeat != _FLOW_HEARTBEAT:
            raise refusal(10052, "flow control ack policy heartbeat needs to be 1s")
