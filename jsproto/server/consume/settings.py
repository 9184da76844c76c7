"""Which configuration of a consumer the server accepts, and how it completes it.

Rules, those of nats-server:

* A field that is left out becomes nats-server's default, and is reported back.
* ``metadata`` reports the API level that the configuration needs (FACTS.md F0.8).
* A configuration that servers refuse is refused with their error.
* Servers accept what ADR-15 calls misuse, so it is accepted here (FACTS.md F5.16).
* The ack policy ``flow_control`` sets flow control and a heartbeat of 1 s. In the draft both are asked for, and the
  heartbeat may be any (FACTS.md F4.2).

Not here: what sampling does, the other consumers of the stream (``api.consumers``).
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import permutations
from typing import Any, Final

from jsproto.errors import LocalProtocolError
from jsproto.grammar.config import ConsumerLimits, StreamConfig
from jsproto.grammar.consumer import POLICIES, ConsumerConfig
from jsproto.grammar.durations import format_duration
from jsproto.grammar.sources import SOURCING_LEVEL
from jsproto.grammar.subjects import check_subject, contains, overlaps
from jsproto.grammar.times import nanoseconds
from jsproto.server.store.context import ServerContext
from jsproto.server.store.refusals import refusal
from jsproto.server.store.settings import FORBIDDEN, MAX_DESCRIPTION, MAX_METADATA, size_of

ACK_WAIT: Final = 30.0  # seconds
INACTIVE_THRESHOLD: Final = 5.0
"""How long an unused consumer without a durable name stays, in seconds."""
MAX_WAITING: Final = 512
MAX_ACK_PENDING: Final = 1000
PRIORITY_TIMEOUT: Final = 120.0
"""How long a client without a request stays pinned, in seconds."""

MAX_FILTERS: Final = 1_000
"""Filters of one consumer, each of which is compared with all others; nats-server takes more."""

_PERCENT: Final = re.compile(r"[0-9]{1,9}%?")
_MIN_HEARTBEAT: Final = 0.1
_MIN_MAX_EXPIRES: Final = 0.001
_FLOW_HEARTBEAT: Final = 1.0
_NAMES: Final = {
    "all": "all", "last": "last", "new": "new", "last_per_subject": "last per subject",
    "by_start_sequence": "by start sequence", "by_start_time": "by start time",
}  # fmt: skip
_GROUP: Final = re.compile(r"[a-zA-Z0-9/_=-]{1,16}")
_DEFAULTS: Final = {
    "deliver_policy": "all", "ack_policy": "none", "replay_policy": "instant", "num_replicas": 0,
}  # fmt: skip
_SAID_WHEN_SET: Final = (
    "flow_control", "headers_only", "mem_storage", "direct", "sourcing", "durable_name", "deliver_subject",
    "deliver_group", "filter_subject", "filter_subjects", "backoff", "priority_policy",
)  # fmt: skip
_SAID_WHEN_POSITIVE: Final = (
    "max_batch", "max_expires", "max_bytes", "idle_heartbeat", "rate_limit_bps", "opt_start_seq", "inactive_threshold",
    "priority_timeout",
)  # fmt: skip
# What servers replace: a field, its least value, and the words of the refusal.
_REPLACED: Final = (
    ("max_deliver", -1, "be set to -1"), ("max_waiting", 0, "not be negative"), ("max_ack_pending", -1, "be set to -1"),
    *((name, 0, "not be negative") for name in (
        "max_batch", "max_expires", "max_bytes", "idle_heartbeat", "inactive_threshold", "priority_timeout",
    )),
)  # fmt: skip
# What an update cannot change, and how servers call it, in the order in which they look.
_FIXED: Final = (
    ("deliver_policy", "deliver policy"), ("mem_storage", "storage type"), ("direct", "direct"),
    ("sourcing", "sourcing"), ("opt_start_seq", "start sequence"), ("opt_start_time", "start time"),
    ("ack_policy", "ack policy"), ("replay_policy", "replay policy"), ("idle_heartbeat", "heart beats"),
    ("flow_control", "flow control"),
)  # fmt: skip


def upgraded(config: ConsumerConfig, stream: StreamConfig, context: ServerContext) -> ConsumerConfig:
    """The configuration that is meant by ``config``, as a stream that copies ``stream`` asks for it.

    From 2.14 a hidden consumer of a stream that deletes acknowledged messages becomes a durable one that acknowledges
    by flow control (FACTS.md F4.29).
    """
    is_hidden = config.direct and config.sourcing and config.name
    if not is_hidden or stream.retention not in ("interest", "workqueue") or context.api_level < SOURCING_LEVEL:
        return config
    return replace(
        config, direct=None, durable_name=config.name, ack_policy="flow_control", ack_wait=None, max_deliver=None,
        inactive_threshold=None,
    )  # fmt: skip


def accept(
    config: ConsumerConfig, stream: StreamConfig, context: ServerContext, *, is_pedantic: bool = False
) -> ConsumerConfig:
    """The configuration of a new consumer of ``stream``, with the defaults that servers report.

    ``is_pedantic``: refuse what a server would replace (FACTS.md F8).

    Raises:
        APIError: servers refuse ``config``, for the first reason in nats-server's order.
    """
    _check_words(config, context)
    limits = stream.consumer_limits or {}
    if is_pedantic:
        _check_literal(config, limits)
    most_pending = context.account_limits.max_ack_pending
    is_draft = context.dialect == "draft"
    defaults = _defaults(config, limits, most_pending)
    if defaults["ack_policy"] == "flow_control" and not (is_pedantic or is_draft):
        defaults |= {"flow_control": True, "idle_heartbeat": _FLOW_HEARTBEAT}
    accepted = replace(config, **defaults)
    _check_names(config)
    _check_replicas(config, stream)
    _check_acks(accepted, None if is_draft else _FLOW_HEARTBEAT)
    _check_kind(accepted, config, stream)
    if 0 < most_pending < (accepted.max_ack_pending or 0):
        raise refusal(10121, most_pending)
    _check_limits(accepted, limits)
    _check_direct(accepted)
    _check_filters(accepted)
    _check_start(accepted)
    _check_texts(accepted)
    _check_priorities(accepted)
    return labelled(accepted, config, context)


def labelled(accepted: ConsumerConfig, asked: ConsumerConfig, context: ServerContext) -> ConsumerConfig:
    """``accepted`` with the metadata that servers add, of which the level depends on what was ``asked`` for."""
    accepted.metadata = (asked.metadata or {}) | {
        "_nats.level": str(context.api_level), "_nats.req.level": str(_level(accepted, asked)),
        "_nats.ver": context.version,
    }  # fmt: skip
    return accepted


def check_change(old: ConsumerConfig, new: ConsumerConfig, *, is_bound: bool) -> None:
    """Check that a consumer of the configuration ``old`` can become ``new``, both as ``accept`` returns them.

    ``is_bound``: somebody gets what is sent to its deliver subject.

    Raises:
        APIError: an update cannot change that field.
    """
    for name, words in _FIXED:
        if (getattr(old, name) or None) != (getattr(new, name) or None):
            raise refusal(10012, f"{words} can not be updated")
    if old.deliver_subject != new.deliver_subject:
        if not old.deliver_subject:
            raise refusal(10012, "can not update pull consumer to push based")
        if not new.deliver_subject:
            raise refusal(10012, "can not update push consumer to pull based")
        if is_bound:
            raise refusal(10013)
    if old.max_waiting != new.max_waiting:
        raise refusal(10012, "max waiting can not be updated")


def _check_limits(config: ConsumerConfig, limits: ConsumerLimits) -> None:
    """Check the limits that the stream sets for its consumers."""
    most, longest = limits.get("max_ack_pending") or 0, limits.get("inactive_threshold") or 0
    if 0 < most < (config.max_ack_pending or 0):
        raise refusal(10121, most)
    if 0 < longest < (config.inactive_threshold or 0):
        raise refusal(10153, format_duration(nanoseconds(longest)))


def _defaults(config: ConsumerConfig, limits: ConsumerLimits, most_pending: int) -> dict[str, Any]:
    """The fields in which the accepted configuration differs from the requested one.

    ``limits``: of the stream. ``most_pending``: the account's limit for ``max_ack_pending``, -1 for none.
    """
    changes: dict[str, Any] = {
        "name": config.consumer_name,
        **{field: getattr(config, field) or value for field, value in _DEFAULTS.items()},
    }
    changes |= {field: getattr(config, field) or None for field in _SAID_WHEN_SET}
    changes |= {field: _positive(getattr(config, field)) for field in _SAID_WHEN_POSITIVE}
    if config.priority_policy == "none":
        changes["priority_policy"] = None
    if changes["priority_policy"] == "pinned_client" and changes["priority_timeout"] is None:
        changes["priority_timeout"] = PRIORITY_TIMEOUT
    changes["max_deliver"] = _positive(config.max_deliver) or -1
    if not config.deliver_subject:
        changes["max_waiting"] = _positive(config.max_waiting) or MAX_WAITING
    if changes["inactive_threshold"] is None:
        changes["inactive_threshold"] = _positive(limits.get("inactive_threshold"))
    policy = changes["ack_policy"]
    changes["ack_wait"] = config.ack_wait or (ACK_WAIT if policy in ("explicit", "all") else None)
    if config.backoff:
        changes["ack_wait"] = config.backoff[0]
    if config.max_ack_pending:
        changes["max_ack_pending"] = max(-1, config.max_ack_pending)
    elif limits.get("max_ack_pending"):
        changes["max_ack_pending"] = limits["max_ack_pending"]
    elif policy != "none":
        changes["max_ack_pending"] = min(MAX_ACK_PENDING, most_pending if most_pending > 0 else MAX_ACK_PENDING)
    return changes


def _positive(number: float | None) -> float | None:
    return number if number is not None and number > 0 else None


def _check_words(config: ConsumerConfig, context: ServerContext) -> None:
    for name, words in POLICIES.items():
        value = getattr(config, name)
        is_new = value == "flow_control" and context.api_level < SOURCING_LEVEL
        if value is not None and (value not in words or is_new):
            unknown = f'unknown priority policy: "{value}"' if name == "priority_policy" else ""
            raise refusal(10025, unknown or f'can not unmarshal "\\"{value}\\""')


def _check_literal(config: ConsumerConfig, limits: ConsumerLimits) -> None:
    """Refuse values that a server would replace."""
    for name, least, why in _REPLACED:
        if (getattr(config, name) or 0) < least:
            raise refusal(10157, f"{name} must {why}")
    ack_wait = config.ack_wait or (ACK_WAIT if config.ack_policy in ("explicit", "all") else 0)
    if config.backoff and ack_wait != config.backoff[0]:
        raise refusal(10157, "first backoff value has to equal batch AckWait")
    for name, limit in (
        ("max_ack_pending", limits.get("max_ack_pending")), ("inactive_threshold", limits.get("inactive_threshold")),
    ):  # fmt: skip
        if not getattr(config, name) and (limit or 0) > 0:
            raise refusal(10157, f"{name} must be set if it's configured in stream limits")


def _check_names(config: ConsumerConfig) -> None:
    for what, name in (("name", config.name), ("durable name", config.durable_name)):
        if name and not FORBIDDEN.isdisjoint(name):
            raise refusal(10052, f"consumer {what} can not contain '.', '*', '>', '\\', '/'")


def _check_replicas(config: ConsumerConfig, stream: StreamConfig) -> None:
    replicas, of_stream = config.num_replicas or 0, stream.num_replicas or 1
    if replicas > of_stream:
        raise refusal(10126)
    if replicas < 0:
        raise refusal(10133)
    if replicas not in (0, of_stream) and stream.retention in ("interest", "workqueue"):
        raise refusal(10134)


def _check_acks(config: ConsumerConfig, heartbeat: float | None) -> None:
    """``heartbeat``: that which the policy ``flow_control`` needs, None for any."""
    if any(pause < 0 for pause in config.backoff or ()):
        raise refusal(10184)
    if (config.ack_wait or 0) < 0:
        raise refusal(10183)
    if config.ack_policy == "flow_control":
        _check_flow_control(config, heartbeat)
    if 0 < (config.max_deliver or 0) < len(config.backoff or ()):
        raise refusal(10116)
    if len((config.description or "").encode()) > MAX_DESCRIPTION:
        raise refusal(10107, MAX_DESCRIPTION)


def _check_flow_control(config: ConsumerConfig, heartbeat: float | None) -> None:
    """The policy ``flow_control``. ``heartbeat``: as for ``_check_acks``."""
    if not config.deliver_subject:
        raise refusal(10218)
    if not config.flow_control:
        raise refusal(10219)
    if heartbeat is not None and config.idle_heartbeat != heartbeat:
        raise refusal(10052, "flow control ack policy heartbeat needs to be 1s")
    if (config.max_ack_pending or 0) <= 0:
        raise refusal(10220)
    if config.ack_wait or config.backoff:
        raise refusal(10221)
    if config.max_deliver != -1:
        raise refusal(10222)


def _check_kind(config: ConsumerConfig, asked: ConsumerConfig, stream: StreamConfig) -> None:
    """Check what only push consumers, or only pull consumers, can have."""
    if config.deliver_subject:
        _check_delivery(config.deliver_subject, stream)
        if _positive(asked.max_waiting):
            raise refusal(10080)
        if config.ack_policy == "none" and (config.max_ack_pending or 0) > 0:
            raise refusal(10082)
        if config.idle_heartbeat and config.idle_heartbeat < _MIN_HEARTBEAT:
            raise refusal(10083)
        return
    if config.ack_policy == "none" and stream.retention == "workqueue":
        raise refusal(10084)
    if config.rate_limit_bps:
        raise refusal(10086)
    if config.idle_heartbeat:
        raise refusal(10088)
    if config.flow_control:
        raise refusal(10089)
    if config.max_expires and config.max_expires < _MIN_MAX_EXPIRES:
        raise refusal(10115)


def _check_direct(config: ConsumerConfig) -> None:
    if config.direct:
        if not config.deliver_subject:
            raise refusal(10090)
        if config.durable_name:
            raise refusal(10091)


def _check_filters(config: ConsumerConfig) -> None:
    if config.filter_subject and config.filter_subjects:
        raise refusal(10136)
    if len(config.filters) > MAX_FILTERS:
        raise refusal(10012, f"a consumer has at most {MAX_FILTERS} filters")
    if any(not pattern for pattern in config.filters):
        raise refusal(10139)
    for pattern in config.filters:
        try:
            check_subject(pattern, wildcards=True)
        except LocalProtocolError:
            raise refusal(10052, "invalid subject") from None
    if any(contains(one, another) for one, another in permutations(config.filters, 2)):
        raise refusal(10138)


def _check_start(config: ConsumerConfig) -> None:
    policy, seq, moment = config.deliver_policy or "", config.opt_start_seq, config.opt_start_time
    words = f"consumer delivery policy is deliver {_NAMES[policy]}, but optional "
    by_seq, by_time = policy == "by_start_sequence", policy == "by_start_time"
    for is_wrong, why in (
        (by_seq and not seq, "start sequence is not set"),
        (by_time and moment is None, "start time is not set"),
        (by_time and seq, "start start sequence is also set"),
        (not by_seq and seq, "start sequence is also set"),
        (not by_time and moment is not None, "start time is also set"),
        (policy == "last_per_subject" and not config.filters, "filter subject is not set"),
    ):
        if is_wrong:
            raise refusal(10094, words + why)


def _check_texts(config: ConsumerConfig) -> None:
    if config.sample_freq and _PERCENT.fullmatch(config.sample_freq) is None:
        raise refusal(10095, f"{config.sample_freq[:64]} is no percentage")
    if config.flow_control and not config.idle_heartbeat:
        raise refusal(10108)
    if config.durable_name and config.name and config.name != config.durable_name:
        raise refusal(10132)
    if size_of(config.metadata) > MAX_METADATA:
        raise refusal(10135, f"{MAX_METADATA // 1024}KB")


def _check_delivery(subject: str, stream: StreamConfig) -> None:
    if not {"*", ">"}.isdisjoint(subject.split(".")):
        raise refusal(10079)
    try:
        check_subject(subject)
    except LocalProtocolError:
        raise refusal(10112) from None
    if any(overlaps(subject, own) for own in stream.subjects or ()):
        raise refusal(10081)


def _check_priorities(config: ConsumerConfig) -> None:
    if not config.priority_policy:
        if config.priority_groups:
            raise refusal(10196)
        if config.priority_timeout:
            raise refusal(10197)
        return
    if config.deliver_subject:
        raise refusal(10178)
    if not config.priority_groups:
        raise refusal(10159)
    for group in config.priority_groups:
        check_group(group)


def check_group(name: str) -> None:
    """Check the name of a priority group.

    Raises:
        APIError: the name is empty, longer than 16 characters, or has others than letters, digits and ``-_/=``.
    """
    if not name:
        raise refusal(10161)
    if not _GROUP.fullmatch(name):
        raise refusal(10162)


def _level(config: ConsumerConfig, asked: ConsumerConfig) -> int:
    """The API level that a configuration needs. A negative ``priority_timeout`` in the request counts too."""
    if config.ack_policy == "flow_control":
        return SOURCING_LEVEL
    return int(config.pause_until is not None or bool(config.priority_policy or asked.priority_timeout))
