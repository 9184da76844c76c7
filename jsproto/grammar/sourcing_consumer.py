"""The durable consumer from which another stream, or a program, copies: the ack policy ``flow_control``.

Rules:

* Its subscriber acknowledges by answering flow control, with what it has stored.
* What servers refuse is refused before it is sent, with the reason (FACTS.md F4.1, F4.3, F4.14).

Not here: the block of a source that names the consumer (``sources``), who answers flow control.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypedDict, Unpack

from jsproto.errors import LocalProtocolError
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.consumer import ConsumerConfig, DeliverPolicy, ReplayPolicy
from jsproto.grammar.subjects import check_name, check_subject, overlaps
from jsproto.grammar.times import Duration, Instant

_POLICY: Final = "ack_policy 'flow_control'"
_HEARTBEAT: Final = 1.0  # seconds; servers set it, whatever was asked for (FACTS.md F4.2)
_REASONS: Final[Mapping[str, str]] = {
    "ack_wait": "only a reset delivers again",
    "backoff": "only a reset delivers again",
    "max_waiting": "it is for pull consumers",
    "priority_groups": "they are for pull consumers",
    "priority_policy": "it is for pull consumers",
    "priority_timeout": "it is for pull consumers",
    "direct": "it is for consumers without a durable name",
}


class SourcingOptions(TypedDict, total=False):
    """The fields of ConsumerConfig that the caller of ``sourcing_consumer`` chooses."""

    description: str | None
    deliver_policy: DeliverPolicy | None
    opt_start_seq: int | None
    opt_start_time: Instant | None
    filter_subject: str | None
    filter_subjects: Sequence[str] | None
    replay_policy: ReplayPolicy | None
    rate_limit_bps: int | None
    sample_freq: str | None
    max_ack_pending: int | None
    headers_only: bool | None
    inactive_threshold: Duration | None
    num_replicas: int | None
    mem_storage: bool | None
    sourcing: bool | None
    metadata: Mapping[str, str] | None
    pause_until: Instant | None
    extra: Mapping[str, Any]


def sourcing_consumer(
    name: str, deliver_subject: str, *, stream: StreamConfig | None = None, **options: Unpack[SourcingOptions]
) -> ConsumerConfig:
    """The configuration of a durable sourcing consumer, for ``create_consumer``.

    A stream copies from it by ``sources=[{"name": ..., "consumer": {"name": name, "deliver_subject":
    deliver_subject}}]``. A start and a filter are set here, and left out of the source.

    Args:
        name: the consumer's.
        deliver_subject: where its messages go, without wildcards, and outside of the stream's subjects.
        stream: the configuration of the stream that is copied, to check against it.
        options: fields of ConsumerConfig. ``opt_start_seq`` and ``opt_start_time`` imply their ``deliver_policy``.
            ``max_ack_pending`` is 1,000 to servers when unset; it is also how many messages may be delivered again.

    Raises:
        LocalProtocolError: a field is mistyped, or ``check_sourcing`` finds a fault, or a field contradicts a durable
            sourcing consumer: a deliver group, another ack policy or heartbeat, no flow control.
    """
    check_name(name, "consumer")
    values: dict[str, Any] = {**options}
    if values.get("deliver_policy") is None:
        for field, policy in (("opt_start_seq", "by_start_sequence"), ("opt_start_time", "by_start_time")):
            if values.get(field) is not None:
                values["deliver_policy"] = policy
    settled: dict[str, Any] = {
        "durable_name": name,
        "name": name,
        "deliver_subject": deliver_subject,
        "ack_policy": "flow_control",
        "flow_control": True,
        "idle_heartbeat": _HEARTBEAT,
        "deliver_group": None,
    }
    contradicted = [field for field in settled if values.get(field, settled[field]) != settled[field]]
    if contradicted:
        raise LocalProtocolError(f"a sourcing consumer settles {', '.join(contradicted)} itself")
    config = ConsumerConfig.from_options(**(values | settled))
    check_sourcing(config, stream)
    return config


def check_sourcing(config: ConsumerConfig, stream: StreamConfig | None = None) -> None:
    """Check a consumer with the ack policy ``flow_control``. Other policies pass.

    Args:
        config: the configuration of the consumer.
        stream: the configuration of its stream, None when it is not known.

    Raises:
        LocalProtocolError: servers refuse ``config``. The text has the field and the reason.
    """
    if config.ack_policy != "flow_control":
        return
    if not config.deliver_subject:
        raise LocalProtocolError(f"{_POLICY} is for push consumers: give a deliver_subject")
    check_subject(config.deliver_subject)
    for name, reason in _REASONS.items():
        if getattr(config, name) not in (None, 0, False, [], "none") and (name != "direct" or config.durable_name):
            raise LocalProtocolError(f"{_POLICY} goes without {name}: {reason}")
    if (config.max_ack_pending or 0) < 0:
        raise LocalProtocolError(f"{_POLICY} needs a positive max_ack_pending: it is when servers ask for an answer")
    if (config.max_deliver or 0) > 0:
        raise LocalProtocolError(f"{_POLICY} has no limit of deliveries: leave max_deliver out")
    _check_start(config)
    if stream is not None:
        _check_stream(config, stream)


def _check_start(config: ConsumerConfig) -> None:
    policy = config.deliver_policy or "all"
    for name, wanted, is_set in (
        ("opt_start_seq", "by_start_sequence", bool(config.opt_start_seq)),
        ("opt_start_time", "by_start_time", config.opt_start_time is not None),
    ):
        if is_set != (policy == wanted):
            raise LocalProtocolError(f"{name} and deliver_policy {wanted!r} go together, not {policy!r}")
    if policy == "last_per_subject" and not config.filters:
        raise LocalProtocolError("deliver_policy 'last_per_subject' needs a filter_subject; '>' is everything")


def _check_stream(config: ConsumerConfig, stream: StreamConfig) -> None:
    inside = [subject for subject in stream.subjects or () if overlaps(config.deliver_subject or "", subject)]
    if inside:
        raise LocalProtocolError(f"deliver_subject {config.deliver_subject} is inside {stream.name}: {inside[0]}")
    if stream.retention == "workqueue" and config.deliver_policy not in (None, "all"):
        raise LocalProtocolError(f"a work queue is delivered whole: leave deliver_policy {config.deliver_policy!r} out")
