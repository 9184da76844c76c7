"""The JetStream API of the server role: the account, the streams, and their messages as the leader has them.

Rules:

* A request is answered on its reply subject, in nats-server's words and with its error codes.
* A request without a reply subject is done, and nobody hears of it.
* A stream that is created again with the same configuration is found.
* An unknown subject below ``$JS.API`` gets silence (FACTS.md F0.11).
* A verb of clusters is answered as one server does, by an error. So are snapshots, which the role has not.
* No two streams take the same subject.

Not here: what streams do (``server.inlet``), routing, reading without the leader (``replicas``), consumers
(``consumers``), the details of STREAM.INFO.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields, replace
from typing import Any, Final, get_args

from jsproto.errors import APIError, RemoteProtocolError
from jsproto.grammar.account import AccountInfo, AccountLimits, ApiStats
from jsproto.grammar.api import DEFAULT_PREFIX, ApiSubjects
from jsproto.grammar.config import (
    Compression,
    Discard,
    PersistMode,
    Retention,
    Storage,
    StreamConfig,
    StreamInfo,
    StreamSource,
)
from jsproto.grammar.fields import Reader, as_anything, as_count, as_flag, as_text
from jsproto.grammar.sources import IDENTITY_LEVEL
from jsproto.grammar.subjects import overlaps
from jsproto.grammar.times import format_timestamp
from jsproto.outbox import Conversation
from jsproto.server.api.advisories import ApiAdvisories, ApiOutbox
from jsproto.server.api.consumers import ConsumerApi
from jsproto.server.api.requests import (
    Body,
    Word,
    as_body,
    as_offset,
    decoded,
    is_empty,
    optional,
    page,
    record,
    respond,
    stream_differs,
    stream_not_found,
    without_own_metadata,
    without_prefix,
)
from jsproto.server.inlet import StreamInlet
from jsproto.server.publish.checks import check_level, check_open
from jsproto.server.read.direct import FIELDS, GetRequest, find
from jsproto.server.replication.replicas import ReplicaSet
from jsproto.server.routing import Subscriptions
from jsproto.server.store.context import NAME, ServerContext
from jsproto.server.store.refusals import refusal
from jsproto.server.store.settings import accept, origin_of
from jsproto.server.store.stream import Publication, Stream
from jsproto.wire.frames import Msg

NAMES_AT_ONCE: Final = 1_024
INFOS_AT_ONCE: Final = 256
SUBJECTS_AT_ONCE: Final = 100_000

_NOT_MODELLED: Final = "the jsproto server in memory has no snapshots"
_HEARD_BY_OTHERS: Final = ("DIRECT.GET", "CONSUMER.MSG.NEXT.")
"""Requests that only a stream or a consumer takes. In the draft a Direct Get of nobody is silence (FACTS.md F3.2)."""

# What requests may have.
_CONFIG: Final[dict[str, Reader]] = {
    **{field.name: as_anything for field in fields(StreamConfig) if field.name != "extra"},
    "retention": Word(get_args(Retention)),
    "discard": Word(get_args(Discard)),
    "storage": Word(get_args(Storage)),
    "compression": Word(get_args(Compression)),
    "persist_mode": Word(("", *get_args(PersistMode))),
    "subject_transform": record({"src": as_text, "dest": as_text}),
    "republish": record({"src": as_text, "dest": as_text, "headers_only": as_flag}),
    "placement": record({"cluster": as_text, "tags": as_anything, "preferred": as_text}),
    "consumer_limits": record({"inactive_threshold": as_anything, "max_ack_pending": as_anything}),
    "pedantic": as_flag,
}
_INFO: Final[dict[str, Reader]] = {"deleted_details": as_flag, "subjects_filter": as_text, "offset": as_offset}
_PURGE: Final[dict[str, Reader]] = {"filter": as_text, "seq": as_count, "keep": as_count}
_PAGE: Final[dict[str, Reader]] = {"offset": as_offset, "subject": as_text}
_MSG_GET: Final[dict[str, Reader]] = dict.fromkeys(FIELDS, as_anything)
_MSG_DELETE: Final[dict[str, Reader]] = {"seq": as_count, "no_erase": as_flag}
_SNAPSHOT: Final[dict[str, Reader]] = {
    "deliver_subject": as_text, "no_consumers": as_flag, "chunk_size": as_anything, "window_size": as_anything,
    "jsck": as_flag,
}  # fmt: skip
_RESTORE: Final[dict[str, Reader]] = {"config": as_anything, "state": as_anything}

# What an answer has besides its error.
_SECOND: Final = 1_000_000_000
_NO_PAGE: Final[dict[str, Any]] = {"total": 0, "offset": 0, "limit": 0}
_WITH_AN_ERROR: Final[dict[str, dict[str, Any]]] = {
    "stream_info": _NO_PAGE, "stream_names": _NO_PAGE | {"streams": None}, "stream_list": _NO_PAGE | {"streams": []},
    "stream_purge": {"purged": 0}, "stream_restore": {"deliver_subject": ""},
}  # fmt: skip


class _StreamSubject:
    """One of the subjects of a stream."""

    __slots__ = ("inlet", "pattern")

    def __init__(self, pattern: str, inlet: StreamInlet) -> None:
        self.pattern = pattern
        self.inlet = inlet


class JetStreamApi(Conversation):
    """The streams of one server, and the answers to requests about them.

    Attributes: ``streams`` and ``replica_sets`` (by the stream's name), ``consumers`` (the part about consumers).
    """

    __slots__ = (
        "_advisories",
        "_context",
        "_errors",
        "_named",
        "_outbox",
        "_prefixes",
        "_requests",
        "_subjects",
        "_takers",
        "_verbs",
        "consumers",
        "replica_sets",
        "streams",
    )

    def __init__(self, context: ServerContext, outbox: ApiOutbox) -> None:
        """Answer from now on, below ``$JS.API`` and, if there is a domain, below its prefix too."""
        self.streams: dict[str, StreamInlet] = {}
        self.replica_sets: dict[str, ReplicaSet] = {}
        self._takers: Subscriptions[_StreamSubject] = Subscriptions(outbox.removals)
        self._subjects: dict[str, list[_StreamSubject]] = {}  # in the table, by the names of streams
        self._context = context
        context.used = self._used
        self._outbox = outbox
        self._advisories = ApiAdvisories(context, outbox)
        self._requests = 0
        self._errors = 0
        self._verbs: dict[str, tuple[str, Callable[[str, bytes, float], Body]]] = {
            "INFO": ("account_info", self._account),
            "STREAM.NAMES": ("stream_names", self._names),
            "STREAM.LIST": ("stream_list", self._list),
        }
        self._named: dict[str, tuple[str, Callable[[str, bytes, float], Body]]] = {
            "STREAM.CREATE": ("stream_create", self._create),
            "STREAM.UPDATE": ("stream_update", self._update),
            "STREAM.INFO": ("stream_info", self._info),
            "STREAM.DELETE": ("stream_delete", self._delete),
            "STREAM.PURGE": ("stream_purge", self._purge),
            "STREAM.MSG.GET": ("stream_msg_get", self._msg_get),
            "STREAM.MSG.DELETE": ("stream_msg_delete", self._msg_delete),
            "STREAM.SNAPSHOT": ("stream_snapshot", self._snapshot),
            "STREAM.RESTORE": ("stream_restore", self._restore),
            "STREAM.LEADER.STEPDOWN": ("stream_leader_stepdown", _needs_cluster),
            "STREAM.PEER.REMOVE": ("stream_remove_peer", _needs_cluster),
            "STREAM.PEER.EVACUATE": ("stream_evacuate_peer", _needs_cluster),
            "STREAM.CANCEL_MOVE": ("stream_cancel_move", _needs_cluster),
        }
        self._prefixes = [f"{DEFAULT_PREFIX}."]
        if context.domain is not None:
            self._prefixes.append(f"{ApiSubjects(domain=context.domain).prefix}.")
        for prefix in self._prefixes:
            outbox.subscribe(f"{prefix}INFO", self)
            outbox.subscribe(f"{prefix}STREAM.>", self)
        self.consumers = ConsumerApi(context, outbox, self.streams, self._prefixes)

    def receive(self, message: Msg, now: float) -> None:
        """Do what a request asks for, and answer it. One with an unknown verb is ignored."""
        subject = message.subject.decode("utf-8", "surrogateescape")
        asked = without_prefix(subject, self._prefixes)
        verb, _, name = asked.rpartition(".")
        found = self._verbs.get(asked) or self._named.get(verb)
        if found is None:
            return
        kind, answer = found
        self._requests += 1
        try:
            if not self._context.is_before_2_12:
                check_level(Publication(message.subject, message.header, message.payload), self._context.api_level)
            body = answer(name, message.payload, now)
        except APIError as error:
            self._errors += 1
            body = as_body(error) | _WITH_AN_ERROR.get(kind, {})
        answered = respond(self._outbox, message.reply, kind, body)
        if verb != "STREAM.MSG.GET" or "error" in body:
            self._advisories.answered(message, answered, now)

    def hears(self, subject: bytes) -> bool:
        """Whether servers take a message to ``subject``, though nobody may answer it."""
        asked = without_prefix(subject.decode("utf-8", "surrogateescape"), self._prefixes)
        is_silent = self._context.dialect == "draft" and asked.startswith("DIRECT.GET")
        return bool(asked) and (is_silent or not asked.startswith(_HEARD_BY_OTHERS))

    def taker(self, subject: str) -> StreamInlet | None:
        """The stream that takes messages to ``subject``: no two have it."""
        found = self._takers.find(subject)
        return found[0].inlet if found else None

    # -- the verbs, for callers without a link -------------------------------------------------------------------------

    def create(self, config: StreamConfig, now: float, *, is_pedantic: bool = False) -> tuple[Stream, bool]:
        """Create a stream, or find it with the same configuration. Returns it, and whether it is new.

        ``now``: seconds. ``is_pedantic``: refuse values that servers would replace.

        Raises:
            APIError: servers refuse the configuration, or the name or a subject is in use.
        """
        if config.sealed:
            raise refusal(10052, "stream configuration for create can not be sealed")
        if config.mirror_direct and config.mirror is None:
            raise refusal(10052, "stream has no mirror but does have mirror direct")
        self._check_account(config, config.max_bytes or 0)
        accepted = accept(config, self._context, is_pedantic=is_pedantic, stream_of=self._config_of)
        config = replace(config, mirror_direct=accepted.mirror_direct)
        inlet = self.streams.get(config.name)
        if inlet is not None:
            if inlet.stream.config.to_json() != accepted.to_json():
                raise refusal(10058)
            return inlet.stream, False
        self._check_subjects(accepted)
        stream = Stream(config, self._context, now)
        self.take_up(stream, now)
        self._advisories.changed(config.name, "create", now)
        return stream, True

    def take_up(self, stream: Stream, now: float) -> None:
        """Let messages into ``stream``, which has a name and subjects of its own. ``now``: seconds."""
        made = stream.config.name
        self.streams[made] = StreamInlet(stream, self._context, self._outbox)
        self._listen(made)
        self.replica_sets[made] = ReplicaSet(stream, self._context, self._outbox, self._prefixes, now, self._stream_of)
        for replica_set in self.replica_sets.values():
            replica_set.sources.made(made, now)
        for name, other in self.streams.items():
            origin = self.streams.get(origin_of(other.stream.config))
            if origin is not None and made in (name, origin.stream.config.name):
                self.replica_sets[name].follow(origin.stream, now)

    def update(self, config: StreamConfig, now: float, *, is_pedantic: bool = False) -> Stream:
        """Change a stream's configuration to ``config``. Arguments as in ``create``.

        Raises:
            APIError: the stream does not exist, or servers refuse the configuration or the change.
        """
        old = self._config_of(config.name)
        accepted = accept(config, self._context, is_pedantic=is_pedantic, stream_of=self._config_of, old=old)
        config = replace(config, mirror_direct=accepted.mirror_direct)
        inlet = self._find(config.name)
        inlet.stream.check(config)
        self._check_account(accepted, max(accepted.max_bytes or 0, 0), is_new=False)
        self._check_consumers(inlet, accepted)
        self._check_subjects(accepted)
        inlet.update(config)
        self._listen(config.name)
        self.replica_sets[config.name].configure(now)
        self._advisories.changed(config.name, "modify", now)
        return inlet.stream

    def delete(self, name: str, now: float) -> None:
        """Delete a stream with its messages, consumers and batches. ``now``: seconds.

        Raises:
            APIError: the stream does not exist.
        """
        self._find(name).close(now)
        self.replica_sets[name].close(now)
        del self.streams[name], self.replica_sets[name]
        self._listen(name)
        for replica_set in self.replica_sets.values():
            replica_set.sources.deleted(name, now)
        self._advisories.changed(name, "delete", now)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _listen(self, name: str) -> None:
        """Take messages to the subjects that a stream has now."""
        for one in self._subjects.pop(name, ()):
            self._takers.remove(one)
        inlet = self.streams.get(name)
        if inlet is not None:
            self._subjects[name] = [_StreamSubject(pattern, inlet) for pattern in inlet.stream.config.subjects or ()]
            for one in self._subjects[name]:
                self._takers.add(one)

    def _find(self, name: str) -> StreamInlet:
        inlet = self.streams.get(name)
        if inlet is None:
            raise stream_not_found()
        return inlet

    def _stream_of(self, name: str) -> Stream | None:
        inlet = self.streams.get(name)
        return None if inlet is None else inlet.stream

    def _fresh(self, name: str, now: float) -> Stream:
        """The stream as it is at ``now``."""
        stream = self._find(name).stream
        self.replica_sets[name].catch_up(now)
        stream.expire(now)
        return stream

    def _config_of(self, name: str) -> StreamConfig | None:
        stream = self._stream_of(name)
        return None if stream is None else stream.config

    def _check_subjects(self, config: StreamConfig) -> None:
        """Raise APIError if another stream takes one of the subjects of ``config``."""
        others = (inlet.stream.config for name, inlet in self.streams.items() if name != config.name)
        subjects = config.subjects or ()
        if any(overlaps(one, another) for other in others for one in other.subjects or () for another in subjects):
            raise refusal(10065)

    def _used(self, storage: str | None) -> int:
        """The bytes of all streams of one kind of storage."""
        streams = [inlet.stream for inlet in self.streams.values()]
        return sum(each.stored_bytes for each in streams if (each.config.storage == "memory") == (storage == "memory"))

    def _check_account(self, config: StreamConfig, size: int, *, is_new: bool = True) -> None:
        """Raise APIError if the account has no room for a stream. ``size``: its ``max_bytes``, -1 for none."""
        limits = self._context.account_limits
        others = [inlet.stream.config for name, inlet in self.streams.items() if name != config.name]
        if is_new and 0 < limits.max_streams <= len(others):
            raise refusal(10027)
        if 0 < limits.max_consumers < (config.max_consumers or 0):
            raise refusal(10026)
        in_memory = config.storage == "memory"
        reserved = sum(max(0, one.max_bytes or 0) for one in others if (one.storage == "memory") == in_memory)
        if 0 <= limits.most_bytes(config.storage) < reserved + (1 if size < 0 else size):
            raise refusal(10028 if in_memory else 10047)

    @staticmethod
    def _check_consumers(inlet: StreamInlet, config: StreamConfig) -> None:
        """Raise APIError if a consumer of the stream exceeds a limit that an update sets."""
        old: Body = {**(inlet.stream.config.consumer_limits or {})}
        new: Body = {name: value for name, value in (config.consumer_limits or {}).items() if value}
        if not any(value != old.get(name) for name, value in new.items()):
            return
        beyond = [
            one.name
            for one in inlet.consumers.values()
            if any((getattr(one.config, name) or 0) > value for name, value in new.items())
        ]
        if beyond:
            raise refusal(10069, f"change to limits violates consumers: {', '.join(beyond)}")

    def _describe(self, stream: Stream, now: float, cluster: Body | None = None) -> Body:
        context = self._context
        self._fresh(stream.config.name, now)
        info = StreamInfo(stream.config, stream.created, stream.state(), context.domain, cluster)
        return info.to_json() | self._copied(stream, now) | {"ts": format_timestamp(context.timestamp(now))}

    def _copied(self, stream: Stream, now: float) -> Body:
        """What the stream copies, and how far it is. A mirror was heard of once it has copied a message."""
        body: Body = {}
        config = stream.config
        mirror = self.replica_sets[config.name].mirror
        if mirror is not None:
            body["mirror"] = _described(config.mirror or {}, 0 if stream.last_seq else -1)
            body["mirror"]["lag"] = mirror.behind
        elif config.mirror is not None:
            body["mirror"] = self._described_source(config.name, config.mirror, now)
            body["mirror"].pop("seq", None)
        if config.sources:
            body["sources"] = [self._described_source(config.name, source, now) for source in config.sources]
        return body

    def _described_source(self, stream: str, configured: StreamSource, now: float) -> Body:
        """A source in a description. From 2.15 it says the last sequence that is copied."""
        source = self.replica_sets[stream].sources.of(configured)
        if source is None:
            return _described(configured, -1)
        active, progress = source.active(now), source.progress
        body = _described(configured, -1 if active is None else round(active * _SECOND))
        body["lag"] = progress.lag
        if progress.copied and self._context.api_level >= IDENTITY_LEVEL:
            body["seq"] = progress.copied
        return body | ({} if progress.error is None else as_body(progress.error))

    def _account(self, name: str, payload: bytes, now: float) -> Body:
        sizes, reserved = {"memory": 0, "file": 0}, {"memory": 0, "file": 0}
        for inlet in self.streams.values():
            kind = "memory" if inlet.stream.config.storage == "memory" else "file"
            sizes[kind] += inlet.stream.stored_bytes
            reserved[kind] += max(0, inlet.stream.config.max_bytes or 0)
        counted = sum(len(inlet.consumers) for inlet in self.streams.values())
        total, errors = self._requests + self.consumers.requests, self._errors + self.consumers.errors
        return AccountInfo(
            sizes["memory"],
            sizes["file"],
            reserved["memory"],
            reserved["file"],
            len(self.streams),
            counted,
            AccountLimits(**asdict(self._context.account_limits)),
            self._context.domain,
            ApiStats(self._context.api_level, total, errors),
        ).to_json()

    def _create(self, name: str, payload: bytes, now: float) -> Body:
        config, is_pedantic = self._config(payload)
        if config.name != name:
            raise stream_differs()
        stream, _ = self.create(config, now, is_pedantic=is_pedantic)
        return self._describe(stream, now) | {"did_create": True}  # of one that was there as well

    def _update(self, name: str, payload: bytes, now: float) -> Body:
        config, is_pedantic = self._config(payload)
        old = self._config_of(config.name)
        accept(config, self._context, is_pedantic=is_pedantic, stream_of=self._config_of, old=old)
        if config.name != name:
            raise stream_differs()
        return self._describe(self.update(config, now, is_pedantic=is_pedantic), now)

    def _config(self, payload: bytes) -> tuple[StreamConfig, bool]:
        """The configuration in a request for a stream, and whether it is to be taken literally."""
        body: Body = {"name": ""} | decoded(payload, _CONFIG)
        is_pedantic = body.pop("pedantic", False)
        try:
            return StreamConfig.from_json(body), is_pedantic
        except RemoteProtocolError as error:
            raise refusal(10025, str(error)) from None

    def _info(self, name: str, payload: bytes, now: float) -> Body:
        asked = optional(payload, _INFO)
        stream = self._find(name).stream
        body = _NO_PAGE | self._describe(stream, now, cluster={"leader": NAME})
        if asked.get("deleted_details"):
            deleted = stream.deleted()
            body["state"] |= {"num_deleted": len(deleted), "deleted": deleted} if deleted else {}
        pattern, offset = asked.get("subjects_filter"), asked.get("offset", 0)
        counts = stream.counts(pattern) if pattern else []
        if not counts:
            return body
        named = dict(counts[offset : offset + SUBJECTS_AT_ONCE])
        body["state"] |= {"subjects": named} if named else {}
        return body | {"total": len(counts), "offset": offset, "limit": SUBJECTS_AT_ONCE}

    def _delete(self, name: str, payload: bytes, now: float) -> Body:
        if not is_empty(payload):
            raise refusal(10038)
        self.delete(name, now)
        return {"success": True}

    def _purge(self, name: str, payload: bytes, now: float) -> Body:
        """Delete messages, of all subjects or of one: all, those before a sequence, or all but the newest."""
        asked = optional(payload, _PURGE)
        seq, keep = asked.get("seq", 0), asked.get("keep", 0)
        if seq and keep:
            raise refusal(10003)
        stream = self._fresh(name, now)
        check_open(stream)
        if stream.config.deny_purge:
            raise APIError.from_fields(500, 10110, "stream purge not permitted")
        self.streams[name].proposals.settle(now)
        return {"success": True, "purged": stream.purge(asked.get("filter") or None, keep=keep, before=seq)}

    def _msg_get(self, name: str, payload: bytes, now: float) -> Body:
        if is_empty(payload):
            raise refusal(10003)
        try:
            asked = GetRequest.from_json(decoded(payload, _MSG_GET))
        except RemoteProtocolError as error:
            raise refusal(10025, str(error)) from None
        asked = replace(asked, multi_last=[], up_to_seq=0, up_to_time=None)  # which this form does not heed
        if asked.batch > 0 or asked.max_bytes > 0 or asked.conflicts or not asked.selects:
            raise refusal(10003)
        stored = find(self._fresh(name, now), asked)
        if stored is None:
            raise refusal(10037)
        fields: Body = {"subject": stored.subject.decode("utf-8", "replace"), "seq": stored.seq}
        if stored.header and (not asked.no_hdr or self._context.is_before_2_12):
            fields["hdrs"] = b64encode(stored.header).decode()
        if stored.payload:
            fields["data"] = b64encode(stored.payload).decode()
        return {"message": fields | {"time": format_timestamp(stored.timestamp)}}

    def _msg_delete(self, name: str, payload: bytes, now: float) -> Body:
        if is_empty(payload):
            raise refusal(10003)
        seq = decoded(payload, _MSG_DELETE).get("seq", 0)
        stream = self._fresh(name, now)
        check_open(stream)
        if stream.config.deny_delete:
            raise refusal(10057, "message delete not permitted")
        if not stream.remove(seq):
            state = stream.state()
            is_inside = state.messages and state.first_seq <= seq <= state.last_seq
            if stream.config.storage == "memory" or is_inside:
                raise refusal(10043, seq)
            raise refusal(10057, "stream store EOF" if seq > stream.last_seq else "no message found")
        return {"success": True}

    def _snapshot(self, name: str, payload: bytes, now: float) -> Body:
        if is_empty(payload):
            raise refusal(10003)
        self._find(name)
        if not decoded(payload, _SNAPSHOT).get("deliver_subject"):
            raise refusal(10003)
        raise refusal(10064, _NOT_MODELLED)

    def _restore(self, name: str, payload: bytes, now: float) -> Body:
        if is_empty(payload):
            raise refusal(10003)
        decoded(payload, _RESTORE)
        raise refusal(10062, _NOT_MODELLED)

    def _names(self, name: str, payload: bytes, now: float) -> Body:
        body, found = self._page(payload, NAMES_AT_ONCE)
        return body | {"streams": [stream.config.name for stream in found] or None}

    def _list(self, name: str, payload: bytes, now: float) -> Body:
        body, found = self._page(payload, INFOS_AT_ONCE)
        return body | {"streams": [without_own_metadata(self._describe(stream, now)) for stream in found]}

    def _page(self, payload: bytes, limit: int) -> tuple[Body, Sequence[Stream]]:
        """The requested streams in the order of their names, from the requested offset on."""
        asked = optional(payload, _PAGE)
        offset, wanted = asked.get("offset", 0), asked.get("subject")
        streams = [self.streams[name].stream for name in sorted(self.streams)]
        if wanted:
            streams = [found for found in streams if any(overlaps(wanted, own) for own in found.config.subjects or ())]
        return page(streams, offset, limit)


def _needs_cluster(name: str, payload: bytes, now: float) -> Body:
    raise refusal(10010)


def _described(source: StreamSource, active: int) -> Body:
    """A mirror or a source in a description. ``active``: nanoseconds since it was heard of, -1 for never."""
    body: Body = {"name": source.get("name", ""), "lag": 0, "active": active}
    return body | {name: value for name, value in source.items() if name in ("filter_subject", "subject_transforms")}
