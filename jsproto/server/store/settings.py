"""Which configuration of a stream the server accepts, and how it completes it.

Rules, those of nats-server:

* A field that is left out becomes nats-server's default, and is reported back.
* ``metadata`` reports the API level that the configuration needs (FACTS.md F0.8).
* Batches, subjects and a first sequence on a mirror are refused with the server's error. So is another origin.
* Sources and mirrors are refused as ``origin`` says. So is a stream that would copy from itself (FACTS.md F4.23).
* A mirror gets ``mirror_direct`` from the ``allow_direct`` of its origin, if the origin exists here.
* A ``pedantic`` configuration is refused if it has values that servers replace (FACTS.md F8).
* Asynchronous persistence is refused with atomic batches, with replicas and in memory (FACTS.md F1.25, F6.1).
* An update cannot switch asynchronous persistence, not even by leaving the field out (FACTS.md F6.2).
* What the role would not do is refused, unless its server is ``lenient``.
* Numbers and texts out of their range are refused.
* ``compression`` and ``placement`` are accepted: one server in memory shows nothing of them.
* Only the draft of ADR-31 sets ``allow_direct``, by whether a stream has a limit per subject (FACTS.md F3.1).

Not here: subjects that other streams take (``api.streams``), limits for all streams together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from jsproto.errors import APIError, LocalProtocolError
from jsproto.grammar.api import DEFAULT_PREFIX
from jsproto.grammar.config import Republish, StreamConfig, StreamSource
from jsproto.grammar.subjects import MAX_NAME, check_subject, contains, overlaps
from jsproto.server.store.context import ServerContext
from jsproto.server.store.origin import Taking, check_sources, known
from jsproto.server.store.refusals import refusal
from jsproto.server.store.transform import Transform

MAX_REPLICAS: Final = 5
MAX_DESCRIPTION: Final = 4 * 1024
MAX_METADATA: Final = 128 * 1024
"""Bytes of a description, and of all metadata, as in nats-server."""

MAX_SUBJECTS: Final = 1_000
"""Subjects of one stream, because each is compared with all others. nats-server takes more."""

FORBIDDEN: Final = frozenset(" \0\t\r\n\f\v.*>\\/")
"""What no name of a stream or consumer has. nats-server takes VT, and has an error of its own for NUL."""
_STREAM_LIMITS: Final = ("max_msgs", "max_msgs_per_subject", "max_bytes", "max_msg_size", "max_consumers")
# What a mirror may not have, and the error, in the order in which servers look.
_NOT_IN_MIRRORS: Final = (
    ("first_seq", 10143), ("subjects", 10034), ("sources", 10031), ("allow_msg_counter", 10173),
    ("allow_atomic", 10198),
    ("allow_batched", 10209), ("allow_msg_schedules", 10186),
)  # fmt: skip
# Subjects that a stream cannot take, except for a part of them, and whose they are.
_OF_THE_SERVER: Final = (
    ("$JS.>", "$JS.EVENT.>", "jetstream"), ("$JSC.>", "$JS.EVENT.>", "jetstream"),
    ("$NRG.>", "$JS.EVENT.>", "jetstream"), ("$SYS.>", "$SYS.ACCOUNT.>", "system"),
)  # fmt: skip
_NOT_FOLLOWED: Final = "the jsproto server in memory does not copy from itself by external"
_TENTH: Final = 0.1  # of a second: servers measure no shorter age
DUPLICATE_WINDOW: Final = 120.0
"""Seconds for which message ids are remembered by default, at most as long as messages are kept."""

_DEFAULTS: Final[dict[str, Any]] = {
    "retention": "limits", "max_consumers": -1, "max_msgs": -1, "max_bytes": -1, "max_age": 0,
    "max_msgs_per_subject": -1, "max_msg_size": -1, "discard": "old", "storage": "file", "num_replicas": 1,
    "compression": "none", "allow_direct": False, "mirror_direct": False, "sealed": False, "deny_delete": False,
    "deny_purge": False, "allow_rollup_hdrs": False, "consumer_limits": {}, "allow_msg_ttl": False,
}  # fmt: skip
_UNLIMITED: Final = ("max_consumers", "max_msgs", "max_bytes", "max_msgs_per_subject", "max_msg_size")
_SAID_WHEN_SET: Final = (
    "no_ack", "allow_atomic", "allow_batched", "allow_msg_counter", "allow_msg_schedules", "discard_new_per_subject",
)  # fmt: skip
# The API level that a field needs once it is set. Another one in ADR-50 (FACTS.md F0.9).
_LEVELS: Final = {
    "allow_msg_ttl": 1, "subject_delete_marker_ttl": 1, "allow_atomic": 2, "allow_msg_counter": 2,
    "allow_msg_schedules": 2, "persist_mode": 2, "allow_batched": 4,
}  # fmt: skip
_DRAFT_LEVELS: Final = _LEVELS | {"allow_batched": 3}


def accept(
    config: StreamConfig,
    context: ServerContext,
    *,
    is_pedantic: bool = False,
    stream_of: Callable[[str], StreamConfig | None] = lambda name: None,
    old: StreamConfig | None = None,
) -> StreamConfig:
    """The configuration of a new stream, with the defaults that servers report.

    ``is_pedantic``: refuse what a server would replace (FACTS.md F8). ``stream_of`` finds another stream's. ``old``:
    that which an update changes.

    Raises:
        APIError: servers refuse ``config``, for the first reason in nats-server's order.
    """
    config = _known(config, context)
    _check_texts(config)
    _check_numbers(config, is_pedantic=is_pedantic)
    _check_counters(config)
    _check_discards(config)
    _check_markers(config, is_pedantic=is_pedantic)
    _check_persistence(config, context, old)
    _check_copies(config)
    origin = stream_of(origin_of(config))
    if origin is not None:
        if is_pedantic and bool(config.mirror_direct) != bool(origin.allow_direct):
            raise refusal(10157, "origin stream has direct get set, mirror has it disabled")
        config = replace(config, mirror_direct=origin.allow_direct)
    _check_modelled(config, context)
    _check_cycle(config, stream_of)
    _check_subjects(config)
    _check_bytes(config, context)
    _check_transform(config)
    changes = _left_out(config) | _implied(config, context)
    if config.republish is not None:
        changes["republish"] = _republish(config, is_pedantic=is_pedantic)
    if (config.placement or {}).get("preferred"):
        raise refusal(10052, "preferred server not permitted in placement")
    accepted = replace(config, **changes)
    needed = max(level if getattr(accepted, name) else 0 for name, level in _levels(context).items())
    accepted.metadata = (config.metadata or {}) | {
        "_nats.level": str(context.api_level), "_nats.req.level": str(needed), "_nats.ver": context.version,
    }  # fmt: skip
    return accepted


def _left_out(config: StreamConfig) -> dict[str, Any]:
    """What servers report of the fields that say nothing."""
    changes = {name: value for name, value in _DEFAULTS.items() if not getattr(config, name)}
    changes |= {name: -1 for name in _UNLIMITED if (getattr(config, name) or 0) <= 0}
    changes |= {name: None for name in _SAID_WHEN_SET if not getattr(config, name)}
    if not config.placement:
        changes["placement"] = None
    if config.persist_mode != "async":
        changes["persist_mode"] = None
    return changes


def _implied(config: StreamConfig, context: ServerContext) -> dict[str, Any]:
    """What other fields, or the server, make of fields."""
    changes: dict[str, Any] = {}
    if config.subject_delete_marker_ttl:
        changes["allow_msg_ttl"] = True
    if config.subject_delete_marker_ttl or config.allow_msg_schedules:
        changes |= {"allow_rollup_hdrs": True, "deny_purge": False}
    if context.dialect == "draft":
        changes["allow_direct"] = (config.max_msgs_per_subject or 0) > 0
    if not config.subjects:
        changes["subjects"] = None if _copies(config) else [config.name]
    if not config.duplicate_window and not (_copies(config) and context.release >= (2, 14, 0)) and not config.mirror:
        changes["duplicate_window"] = min(DUPLICATE_WINDOW, config.max_age or DUPLICATE_WINDOW)
    return changes


def change(old: StreamConfig, new: StreamConfig, context: ServerContext) -> StreamConfig:
    """The configuration of a stream after an update from ``old`` to ``new``, with the defaults that servers report.

    Raises:
        APIError: servers refuse ``new``, or the change.
    """
    changed = accept(accept(new, context, old=old), context, old=old)
    # servers look twice: what the first look adds is checked as well

    def ends(name: str) -> bool:
        return bool(getattr(old, name)) and not getattr(changed, name)

    of_work = changed.retention != old.retention and "workqueue" in (changed.retention, old.retention)
    for is_wrong, why in (
        (changed.storage != old.storage, "stream configuration update can not change storage type"),
        (of_work, "stream configuration update can not change retention policy to/from workqueue"),
        (ends("sealed"), "stream configuration update can not unseal a sealed stream"),
        (ends("deny_delete"), "stream configuration update can not cancel deny message deletes"),
        (ends("deny_purge"), "stream configuration update can not cancel deny purge"),
        (changed.mirror is not None and changed.mirror != old.mirror, ""),
        (ends("allow_msg_ttl"), "message TTL status can not be disabled"),
        (
            bool(changed.allow_msg_counter) != bool(old.allow_msg_counter),
            "stream configuration update can not change message counter setting",
        ),
        (ends("allow_msg_schedules"), "message schedules can not be disabled"),
        (changed.persist_mode != old.persist_mode, "stream configuration update can not change persist mode"),
    ):
        if is_wrong:
            raise refusal(10052, why) if why else refusal(10055)
    if changed.sealed:
        sealing: dict[str, Any] = {"deny_delete": True, "deny_purge": True, "allow_rollup_hdrs": False}
        changed = replace(changed, max_age=0, discard="new", **sealing)
    return changed


def origin_of(config: StreamConfig) -> str:
    """The name of the stream that ``config`` mirrors. Empty: it mirrors none, or its name is no text."""
    name: object = (config.mirror or {}).get("name")
    return name if isinstance(name, str) else ""


def origins_of(config: StreamConfig) -> list[tuple[str, str]]:
    """The streams of this server that ``config``, as ``accept`` returns it, has as sources or mirrors.

    Each by its name, and the filter by which it is a source, empty for none.
    """
    sources = [source for source in config.sources or () if not source.get("external")]
    mirrored = [] if config.mirror is None or config.mirror.get("external") else [(config.mirror["name"], "")]
    return [(source["name"], source.get("filter_subject") or "") for source in sources] + mirrored


def _levels(context: ServerContext) -> Mapping[str, int]:
    return _DRAFT_LEVELS if context.dialect == "draft" else _LEVELS


def _known(config: StreamConfig, context: ServerContext) -> StreamConfig:
    """``config`` without fields above the server's API level. Servers drop them before 2.12, and refuse them since."""
    unknown = [name for name, level in _levels(context).items() if level > context.api_level and getattr(config, name)]
    if unknown and not context.is_before_2_12:
        raise refusal(10025, f'json: unknown field "{unknown[0]}"')
    changes: dict[str, Any] = dict.fromkeys(unknown)
    if config.mirror is not None:
        changes["mirror"] = known(config.mirror, context)
    if config.sources:
        changes["sources"] = [known(source, context) for source in config.sources]
    return replace(config, **changes)


def _check_texts(config: StreamConfig) -> None:
    name = config.name
    if not name or not FORBIDDEN.isdisjoint(name):
        raise refusal(10052, "stream name is required and can not contain '.', '*', '>', '\\', '/'")
    if len(name.encode("utf-8", "replace")) > MAX_NAME:
        raise refusal(10052, f"stream name is too long, maximum allowed is {MAX_NAME}")
    if len((config.description or "").encode()) > MAX_DESCRIPTION:
        raise refusal(10052, f"stream description is too long, maximum allowed is {MAX_DESCRIPTION}")
    if size_of(config.metadata) > MAX_METADATA:
        raise refusal(10052, f"stream metadata exceeds maximum size of {MAX_METADATA} bytes")


def size_of(metadata: Mapping[str, str] | None) -> int:
    """The bytes of all keys and values."""
    return sum(len(key.encode()) + len(value.encode()) for key, value in (metadata or {}).items())


def _check_numbers(config: StreamConfig, *, is_pedantic: bool) -> None:
    """Check numbers. Limits of a stream may be of any size."""
    replicas, size = config.num_replicas or 0, config.max_msg_size or 0
    if not -(2**31) <= size < 2**31:
        what = f"number {size} into Go struct field StreamConfigRequest.max_msg_size of type int32"
        raise refusal(10025, f"json: cannot unmarshal {what}")
    if replicas > MAX_REPLICAS:
        raise refusal(10052, f"maximum replicas is {MAX_REPLICAS}")
    if replicas < 0:
        raise refusal(10133)
    for name in _STREAM_LIMITS if is_pedantic else ():
        if (getattr(config, name) or 0) < -1:
            raise refusal(10157, f"{name} must be set to -1")
    age, window = config.max_age or 0, config.duplicate_window or 0
    is_shortened = is_pedantic and not window and not _copies(config) and 0 < age < DUPLICATE_WINDOW
    for is_wrong, why in (
        (age < 0, "max age can not be negative"),
        (0 < age < _TENTH, "max age needs to be >= 100ms"),
        (is_shortened, ""),
        (window < 0, "duplicates window can not be negative"),
        (0 < age < window, "duplicates window can not be larger then max age"),
        (0 < window < _TENTH, "duplicates window needs to be >= 100ms"),
        (config.deny_purge and config.allow_rollup_hdrs, "roll-ups require the purge permission"),
    ):
        if is_wrong:
            raise refusal(10052, why) if why else refusal(10157, "duplicate window cannot be bigger than max age")


def _check_counters(config: StreamConfig) -> None:
    if not config.allow_msg_counter:
        return
    for is_wrong, why in (
        (config.discard == "new", "counter stream cannot use discard new"),
        (config.allow_msg_ttl, "counter stream cannot use message TTLs"),
        (config.allow_msg_schedules, "counter stream cannot use message schedules"),
        ((config.retention or "limits") != "limits", "counter stream can only use limits retention"),
    ):
        if is_wrong:
            raise refusal(10052, why)


def _check_discards(config: StreamConfig) -> None:
    """Check the limit of a subject that refuses new messages."""
    if config.discard_new_per_subject:
        if config.discard != "new":
            raise refusal(10052, "discard new per subject requires discard new policy to be set")
        if (config.max_msgs_per_subject or 0) <= 0:
            raise refusal(10052, "discard new per subject requires max msgs per subject > 0")


def _check_markers(config: StreamConfig, *, is_pedantic: bool) -> None:
    """Check delete markers and message schedules."""
    marker, schedules = config.subject_delete_marker_ttl or 0, config.allow_msg_schedules
    is_without_ttl, is_without_rollup = (
        is_pedantic and not config.allow_msg_ttl,
        is_pedantic and not config.allow_rollup_hdrs,
    )
    marks = "subject delete marker cannot be set if"
    for is_wrong, why in (
        (0 < marker < 1, "subject delete marker TTL must be at least 1 second"),
        (marker > 0 and is_without_ttl, f"{marks} message TTLs are disabled"),
        (marker > 0 and is_without_rollup, f"{marks} roll-ups are disabled"),
        (marker < 0, "subject delete marker TTL must not be negative"),
        (schedules and config.discard == "new", "message scheduling cannot use discard new"),
        (schedules and not marker and is_without_rollup, "message scheduling cannot be set if roll-ups are disabled"),
    ):
        if is_wrong:
            raise refusal(10052, why)


def _check_persistence(config: StreamConfig, context: ServerContext, old: StreamConfig | None) -> None:
    if config.persist_mode not in (None, "", "default", "async"):
        raise refusal(10025, f'can not unmarshal "\\"{config.persist_mode}\\""')
    if config.persist_mode == "async":
        if config.storage == "memory":
            raise refusal(10052, "async persist mode is only supported on file storage")
        if (config.num_replicas or 1) > 1 and not (context.dialect == "draft" and old is not None):
            raise refusal(10052, "async persist mode is not supported on replicated streams")
        if config.allow_atomic:
            raise refusal(10052, "async persist mode is not supported with atomic batch publish")
    elif context.dialect == "draft" and old is not None and (config.num_replicas or 1) > (old.num_replicas or 1):
        raise refusal(10052, "only streams with async persist mode can be scaled up")  # ADR-56 (FACTS.md F6.4)


def _check_copies(config: StreamConfig) -> None:
    """Check what a mirror, and a stream with sources, may have."""
    if config.mirror is not None:
        for name, err_code in _NOT_IN_MIRRORS:
            if getattr(config, name):
                raise refusal(err_code)
        Taking(config.mirror)
        if config.subject_delete_marker_ttl:
            raise refusal(10052, "subject delete markers forbidden on mirrors")
    if config.sources and config.allow_msg_schedules:
        raise refusal(10187)
    check_sources(config.sources or ())


def _check_cycle(config: StreamConfig, stream_of: Callable[[str], StreamConfig | None]) -> None:
    """Raise APIError if the stream copies from itself, directly or by way of others (FACTS.md F4.23)."""
    waiting, seen = deque([config]), set[str]()
    while waiting:
        copying = waiting.popleft()
        seen.add(copying.name)
        for name, pattern in origins_of(copying):
            if name not in seen:
                found = stream_of(name)
                waiting += [] if found is None else [found]
            elif not pattern or any(overlaps(pattern, subject) for subject in copying.subjects or ()):
                raise refusal(10052, "detected cycle")


def _check_subjects(config: StreamConfig) -> None:
    subjects = config.subjects or []
    if len(subjects) > MAX_SUBJECTS:
        raise refusal(10052, f"a stream has at most {MAX_SUBJECTS} subjects")
    for place, subject in enumerate(subjects):
        try:
            check_subject(subject, wildcards=True)
        except LocalProtocolError:
            raise refusal(10052, "invalid subject") from None
        if subject == ">":
            if not config.no_ack:
                raise refusal(10052, "capturing all subjects requires no-ack to be true")
            if (config.num_replicas or 1) != 1:
                raise refusal(10052, "capturing all subjects requires replicas of 1")
        for space, free, owner in _OF_THE_SERVER if not config.no_ack else ():
            if overlaps(subject, space) and not contains(free, subject):
                raise refusal(10052, f"subjects that overlap with {owner} api require no-ack to be true")
        for another in subjects[place + 1 :]:
            if overlaps(another, subject):
                raise refusal(10052, f'subject "{subject}" overlaps with "{another}"')


def _copies(config: StreamConfig) -> bool:
    return config.mirror is not None or bool(config.sources)


def _republish(config: StreamConfig, *, is_pedantic: bool) -> Republish:
    """The field ``republish`` as servers complete it (FACTS.md F9.3)."""
    asked, transform = config.republish or {}, config.subject_transform or {}
    if is_pedantic and not asked.get("src"):
        raise refusal(10157, "republish source can not be empty")
    source, destination = asked.get("src") or ">", asked.get("dest") or ""
    subjects = config.subjects or [config.name]
    if source == destination == ">" and [transform.get("src")] == subjects:
        if is_pedantic:
            raise refusal(10157, "implicit republish based on subject transform")
        source = destination = transform.get("dest") or ""
    if any(overlaps(destination, subject) for subject in subjects):
        raise refusal(10052, "stream configuration for republish destination forms a cycle")
    try:
        Transform(source, destination, 10156)
    except APIError:
        what = f"republish with transform from '{source}' to '{destination}' not valid"
        raise refusal(10052, f"stream configuration for {what}") from None
    completed = asked.copy()
    completed["src"], completed["dest"] = source, destination
    return completed


def _check_transform(config: StreamConfig) -> None:
    """Check the field ``subject_transform``."""
    transform = config.subject_transform or {}
    source = transform.get("src") or ">"
    try:
        check_subject(source, wildcards=True)
    except LocalProtocolError:
        raise refusal(10155, f"invalid subject {source}") from None
    Transform(source, transform.get("dest") or "", 10156)


def _check_bytes(config: StreamConfig, context: ServerContext) -> None:
    """Check ``max_bytes`` against the limits of the account for one stream."""
    limits, size = context.account_limits, config.max_bytes or 0
    most = limits.memory_max_stream_bytes if config.storage == "memory" else limits.storage_max_stream_bytes
    if limits.max_bytes_required and size <= 0:
        raise refusal(10113)
    if 0 < most < size:
        raise refusal(10122)


def _check_modelled(config: StreamConfig, context: ServerContext) -> None:
    """Refuse what the role would not do, unless it is lenient: follow a stream of its own by a prefix of its API."""
    own = {DEFAULT_PREFIX, f"$JS.{context.domain}.API"}
    for source in (*(config.sources or ()), config.mirror or StreamSource()):
        if (source.get("external") or {}).get("api") in own and not context.lenient:
            raise refusal(10052, f"{_NOT_FOLLOWED}, but accepts it with lenient=True")
