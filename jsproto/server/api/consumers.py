"""The JetStream API of the server role for consumers: create, change, describe, list, pause, reset, unpin, delete.

Rules, besides those of ``streams``:

* The newer subjects, with name and filter, and the older ones both create consumers. The subject's name wins.
* The action ``create`` refuses a consumer that exists with another configuration, ``update`` one that does not exist.
* Without an action the consumer is created or changed.
* A reset of an unknown consumer is not answered, nor is any before 2.14 (FACTS.md F0.11, F4.7).
* Consumers of a work queue share no message, except with those that have ``sourcing`` (FACTS.md F4.12).
* A request for one with ``sourcing`` that exists resets it, and keeps its start (FACTS.md F4.31).

Not here: what consumers do (``consume.consumer``), which configurations are accepted (``consume.settings``), pull
requests (each consumer takes its own).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Final

from jsproto.errors import APIError, RemoteProtocolError
from jsproto.grammar.consumer import POLICIES, ConsumerConfig, ConsumerPause
from jsproto.grammar.fields import NEVER, Reader, as_anything, as_count, as_flag, as_moment, as_text
from jsproto.grammar.headers import STREAM_IDENTITY, encode_headers, first_value
from jsproto.grammar.sources import IDENTITY_LEVEL, SOURCING_LEVEL
from jsproto.grammar.subjects import MAX_NAME, overlaps
from jsproto.outbox import Conversation
from jsproto.server.api.advisories import ApiAdvisories, ApiOutbox
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
from jsproto.server.consume.advisories import Advisories
from jsproto.server.consume.consumer import Consumer
from jsproto.server.consume.settings import INACTIVE_THRESHOLD, accept, check_change, check_group, upgraded
from jsproto.server.inlet import StreamInlet
from jsproto.server.publish.checks import check_level
from jsproto.server.store.context import ServerContext
from jsproto.server.store.refusals import refusal
from jsproto.server.store.stream import Publication
from jsproto.wire.frames import Msg

MAX_CONSUMERS: Final = 1_000  # of a stream, where nobody says how many (FACTS.md F14.6)
MAX_CONSUMERS_SINCE: Final = (2, 15, 0)
NAMES_AT_ONCE: Final = 1_024
INFOS_AT_ONCE: Final = 256

_SUBJECTS: Final = (
    "CREATE.*", "CREATE.*.>", "DURABLE.CREATE.*.*", "INFO.*.*", "DELETE.*.*", "NAMES.*", "LIST.*", "PAUSE.*.*",
    "UNPIN.*.*", "RESET.*.*", "LEADER.STEPDOWN.*.*",
)  # fmt: skip
# What an answer has besides its error.
_WITH_AN_ERROR: Final[dict[str, Body]] = {
    "consumer_names": {"total": 0, "offset": 0, "limit": 0, "consumers": []},
    "consumer_list": {"total": 0, "offset": 0, "limit": 0, "consumers": []},
    "consumer_reset": {"reset_seq": 0},
    "consumer_pause": {"paused": False, "pause_until": NEVER},
}
_KINDS: Final = {"DURABLE": "consumer_create", "LEADER": "consumer_leader_stepdown"}
_START: Final = ("deliver_policy", "opt_start_seq", "opt_start_time")
_NAME_LENGTH: Final = 8
_CONFIG: Final[dict[str, Reader]] = {
    **{field.name: as_anything for field in fields(ConsumerConfig) if field.name != "extra"},
    **{name: Word(words) for name, words in POLICIES.items()},
    "priority_policy": Word(POLICIES["priority_policy"], 'unknown priority policy: "{}"'),
}
_CREATE: Final[dict[str, Reader]] = {
    "stream_name": as_text,
    "config": record(_CONFIG),
    "action": Word(("", "create", "update"), 'unknown consumer action: "{}"'),
    "pedantic": as_flag,
}
_PAUSE: Final[dict[str, Reader]] = {"pause_until": as_moment}
_RESET: Final[dict[str, Reader]] = {"seq": as_count}
_UNPIN: Final[dict[str, Reader]] = {"group": as_text}
_PAGE: Final[dict[str, Reader]] = {"offset": as_offset}


class ConsumerApi(Conversation):
    """The answers to requests about consumers.

    Attributes: ``requests`` (how many there were), ``errors`` (how many of them were refused).
    """

    __slots__ = ("_audit", "_context", "_outbox", "_prefixes", "_streams", "_verbs", "errors", "requests")

    def __init__(
        self,
        context: ServerContext,
        outbox: ApiOutbox,
        streams: Mapping[str, StreamInlet],
        prefixes: Sequence[str],
    ) -> None:
        """Answer from now on, below each of ``prefixes`` (with its last dot).

        ``streams``: the existing ones by name, kept up to date by the caller.
        """
        self.requests = 0
        self.errors = 0
        self._audit = ApiAdvisories(context, outbox)
        self._context = context
        self._outbox = outbox
        self._streams = streams
        self._prefixes = [f"{prefix}CONSUMER." for prefix in prefixes]
        self._verbs: dict[str, Callable[[list[str], Msg, float], Body]] = {
            "CREATE": self._create, "DURABLE": self._create_durable, "INFO": self._info, "DELETE": self._delete,
            "NAMES": self._names, "LIST": self._list, "PAUSE": self._pause, "UNPIN": self._unpin,
            "RESET": self._reset, "LEADER": _needs_cluster,
        }  # fmt: skip
        for prefix in self._prefixes:
            for subject in _SUBJECTS:
                outbox.subscribe(prefix + subject, self)

    def receive(self, message: Msg, now: float) -> None:
        """Do what a request asks for, and answer it. Unknown verbs are ignored, and resets without a reply subject."""
        subject = message.subject.decode("utf-8", "surrogateescape")
        verb, *names = without_prefix(subject, self._prefixes).split(".")
        if verb not in self._verbs or (verb == "RESET" and not (message.reply and self._can_reset(*names))):
            return
        kind = _KINDS.get(verb) or f"consumer_{verb.lower()}"
        self.requests += 1
        header = None
        try:
            check_level(Publication(message.subject, message.header, message.payload), self._context.api_level)
            body = self._verbs[verb](names, message, now)
            header = self._identity(verb, message, body)
        except APIError as error:
            self.errors += 1
            body = as_body(error) | _WITH_AN_ERROR.get(kind, {})
        self._audit.answered(message, respond(self._outbox, message.reply, kind, body, header), now)

    # -- the verbs, for callers without a link -------------------------------------------------------------------------

    def create(
        self, stream: str, config: ConsumerConfig, now: float, action: str = "", *, is_pedantic: bool = False
    ) -> Consumer:
        """Create a consumer, find it with the same configuration, or change it. ``now``: seconds.

        ``action``: ``create``, ``update``, or empty for both. Without a name in ``config`` it gets one.
        ``is_pedantic``: refuse values that servers would replace.

        Raises:
            APIError: the stream does not exist, or servers refuse the configuration, the change or the action.
        """
        inlet = self._inlet(stream)
        name = config.consumer_name or self._context.next_id()[:_NAME_LENGTH]
        config = upgraded(config, inlet.stream.config, self._context)
        found = inlet.consumers.get(name)
        if found is not None and config.sourcing and config.durable_name:
            config = replace(config, **{field: getattr(found.config, field) for field in _START})
        if found is not None:
            config = replace(config, pause_until=found.config.pause_until)
        accepted = accept(config, inlet.stream.config, self._context, is_pedantic=is_pedantic)
        if found is not None:
            self._change(inlet, found, accepted, action, now)
            self._reset_sourcing(found, now)
            return found
        if action == "update":
            raise refusal(10149)
        self._check_room(inlet, accepted)
        _check_name(name, is_durable=bool(accepted.durable_name))
        accepted.name = config.consumer_name
        if not accepted.durable_name and not accepted.inactive_threshold:
            accepted.inactive_threshold = INACTIVE_THRESHOLD
        consumer = self.take_up(stream, name, accepted, now)
        advisories = self._advisories(consumer)
        advisories.created(now)
        if consumer.pause_remaining(now) is not None:
            advisories.paused(accepted.pause_until, is_paused=True, now=now)
        return consumer

    def _reset_sourcing(self, consumer: Consumer, now: float) -> None:
        """Set a consumer with ``sourcing`` back to its ack floor. Any change of it, a pause too, does that."""
        if consumer.config.sourcing and self._context.api_level >= SOURCING_LEVEL:
            consumer.reset(None, now)

    def take_up(self, stream: str, name: str, config: ConsumerConfig, now: float) -> Consumer:
        """A new consumer of an existing stream, with a ``config`` that is accepted already. ``now``: seconds."""
        inlet = self._inlet(stream)
        consumer = inlet.consumers[name] = Consumer(
            name, config, inlet.stream, self._context, self._outbox, now, prefixes=self._api_prefixes(),
            forget=lambda gone: self._forget(inlet, gone),
        )  # fmt: skip
        return consumer

    def find(self, stream: str, name: str) -> Consumer:
        """The consumer of that name.

        Raises:
            APIError: the stream or the consumer does not exist.
        """
        consumer = self._inlet(stream).consumers.get(name)
        if consumer is None:
            raise refusal(10014)
        return consumer

    def delete(self, stream: str, name: str, now: float) -> None:
        """Delete a consumer. ``now``: seconds.

        Raises:
            APIError: the stream or the consumer does not exist.
        """
        self.find(stream, name).close(now)
        del self._streams[stream].consumers[name]

    # -- inside --------------------------------------------------------------------------------------------------------

    def _inlet(self, stream: str) -> StreamInlet:
        inlet = self._streams.get(stream)
        if inlet is None:
            raise stream_not_found()
        return inlet

    def _api_prefixes(self) -> list[str]:
        return [prefix.removesuffix("CONSUMER.") for prefix in self._prefixes]

    def _advisories(self, consumer: Consumer) -> Advisories:
        return Advisories(consumer.stream_name, consumer.name, self._context, self._outbox)

    @staticmethod
    def _forget(inlet: StreamInlet, gone: Consumer) -> None:
        del inlet.consumers[gone.name]

    @staticmethod
    def _change(inlet: StreamInlet, found: Consumer, accepted: ConsumerConfig, action: str, now: float) -> None:
        wanted, is_same = accepted, accepted == found.config
        if action == "create" and not is_same:
            raise refusal(10148)
        if inlet.stream.config.retention == "workqueue" and not _is_alone(inlet, found, wanted.filters):
            raise refusal(10100)
        if is_same:
            return
        check_change(found.config, wanted, is_bound=found.is_push and found.is_heard())
        if wanted.inactive_threshold != found.config.inactive_threshold and not found.config.durable_name:
            wanted = replace(wanted, inactive_threshold=wanted.inactive_threshold or INACTIVE_THRESHOLD)
        found.update(wanted, now)

    def _check_room(self, inlet: StreamInlet, config: ConsumerConfig) -> None:
        """Raise APIError if the stream can have no such consumer beside its others."""
        if config.sourcing:
            return
        stream = inlet.stream.config
        rivals = [other for other in inlet.consumers.values() if not other.config.sourcing]
        said = (stream.max_consumers or 0, self._context.account_limits.max_consumers)
        limits = [limit for limit in said if limit > 0]
        if not limits and self._context.release >= MAX_CONSUMERS_SINCE:
            limits = [MAX_CONSUMERS]
        if limits and min(limits) <= len(rivals):
            raise refusal(10026)
        if stream.retention != "workqueue" or config.direct:
            return
        if config.ack_policy not in ("explicit", "flow_control"):
            raise refusal(10098)
        if config.deliver_policy != "all":
            raise refusal(10101)
        if rivals and not config.filters:
            raise refusal(10099)
        if rivals and not _is_alone(inlet, None, config.filters):
            raise refusal(10100)

    def _create(self, names: list[str], message: Msg, now: float) -> Body:
        stream, name, filters = names[0], ".".join(names[1:2]), ".".join(names[2:])
        action, config, is_pedantic = self._request(stream, message.payload)
        _check_path(name or config.name or "")
        if not name:
            if config.durable_name:
                raise refusal(10020)
        elif config.durable_name and config.durable_name != name:
            raise refusal(10017)
        else:
            config.name = name
        if filters:
            if config.filter_subjects:
                raise refusal(10137)
            if config.filter_subject != filters:
                raise refusal(10131)
        return self._created(stream, config, message, action, is_pedantic, now)

    def _create_durable(self, names: list[str], message: Msg, now: float) -> Body:
        _, stream, name = names
        action, config, is_pedantic = self._request(stream, message.payload)
        _check_path(name)
        if not config.durable_name:
            raise refusal(10018)
        if config.durable_name != name:
            raise refusal(10017)
        config.name = name
        return self._created(stream, config, message, action, is_pedantic, now)

    def _created(
        self, stream: str, config: ConsumerConfig, message: Msg, action: str, is_pedantic: bool, now: float
    ) -> Body:
        if (config.num_replicas or 0) > 1 and not self._is_replicated(stream):
            raise refusal(10074)
        self._check_identity(stream, config, message)
        return self.create(stream, config, now, action, is_pedantic=is_pedantic).info(now).to_json()

    def _is_replicated(self, stream: str) -> bool:
        return stream in self._streams and (self._streams[stream].stream.config.num_replicas or 1) > 1

    def _info(self, names: list[str], message: Msg, now: float) -> Body:
        if not is_empty(message.payload):
            raise refusal(10038)
        return self.find(*names).info(now).to_json()

    def _delete(self, names: list[str], message: Msg, now: float) -> Body:
        if not is_empty(message.payload):
            raise refusal(10038)
        stream, name = names
        self.delete(stream, name, now)
        return {"success": True}

    def _names(self, names: list[str], message: Msg, now: float) -> Body:
        body, found = self._page(names[0], message.payload, NAMES_AT_ONCE)
        return body | {"consumers": [consumer.name for consumer in found]}

    def _list(self, names: list[str], message: Msg, now: float) -> Body:
        body, found = self._page(names[0], message.payload, INFOS_AT_ONCE)
        return body | {"consumers": [without_own_metadata(consumer.info(now).to_json()) for consumer in found]}

    def _page(self, stream: str, payload: bytes, limit: int) -> tuple[Body, Sequence[Consumer]]:
        asked = optional(payload, _PAGE)
        consumers = self._inlet(stream).consumers
        return page([consumers[name] for name in sorted(consumers)], asked.get("offset", 0), limit)

    def _pause(self, names: list[str], message: Msg, now: float) -> Body:
        """Pause until the moment in the request. A request without one resumes."""
        until = optional(message.payload, _PAUSE).get("pause_until")
        consumer = self.find(*names)
        consumer.pause(until, now)
        self._reset_sourcing(consumer, now)
        remaining = consumer.pause_remaining(now)
        self._advisories(consumer).paused(until, is_paused=remaining is not None, now=now)
        return ConsumerPause(remaining is not None, until, remaining).to_json()

    def _can_reset(self, stream: str, name: str) -> bool:
        """Whether a reset of that consumer is answered."""
        inlet = self._streams.get(stream)
        return inlet is not None and name in inlet.consumers and self._context.api_level >= SOURCING_LEVEL

    def _identity(self, verb: str, message: Msg, body: Body) -> bytes | None:
        """The header of an answer that has the identity of the stream.

        A reset asks for it by that header. Answers about consumers that copy have it without being asked.
        """
        asked = verb == "RESET" and first_value(message.header or b"", STREAM_IDENTITY.encode()) is not None
        copies = verb in ("CREATE", "DURABLE") and any(body["config"].get(name) for name in ("direct", "sourcing"))
        if not (asked or copies) or self._context.api_level < IDENTITY_LEVEL:
            return None
        return encode_headers({STREAM_IDENTITY: self._inlet(body["stream_name"]).stream.identity})

    def _check_identity(self, stream: str, config: ConsumerConfig, message: Msg) -> None:
        """Raise APIError if a stream that copies has known another stream of that name."""
        known_as = first_value(message.header or b"", STREAM_IDENTITY.encode()) or b""
        if known_as and (config.direct or config.sourcing) and self._context.api_level >= IDENTITY_LEVEL:
            identity = self._inlet(stream).stream.identity
            if known_as != identity.encode():
                raise refusal(10225, identity)

    def _request(self, stream: str, payload: bytes) -> tuple[str, ConsumerConfig, bool]:
        """The action and the configuration in a request for a consumer of ``stream``, and whether it is pedantic.

        Raises APIError.
        """
        body = decoded(payload, _CREATE)
        try:
            config = ConsumerConfig.from_json(body.get("config") or {})
        except RemoteProtocolError as error:
            raise refusal(10025, str(error)) from None
        if body.get("stream_name", "") != stream:
            raise stream_differs()
        return body.get("action", ""), config, body.get("pedantic", False)

    def _reset(self, names: list[str], message: Msg, now: float) -> Body:
        """Set a consumer back: to its ack floor, or to the sequence in the request."""
        consumer = self.find(*names)
        seq = decoded(message.payload, _RESET, is_strict=False).get("seq", 0) if message.payload else 0
        if message.payload and not seq and self._context.dialect == "draft":
            raise refusal(10204, "sequence is zero")  # released servers take it for an empty payload (FACTS.md F4.8)
        reset_seq = consumer.reset(seq or None, now)
        return consumer.info(now).to_json() | {"reset_seq": reset_seq}

    def _unpin(self, names: list[str], message: Msg, now: float) -> Body:
        """Unpin the client of a priority group."""
        group = decoded(message.payload, _UNPIN, is_strict=False).get("group", "")
        if not group:
            raise refusal(10025, "consumer group not specified")
        check_group(group)
        consumer = self.find(*names)
        if group not in (consumer.config.priority_groups or ()):
            raise refusal(10160)
        consumer.unpin(group, now)
        return {}


def _needs_cluster(names: list[str], message: Msg, now: float) -> Body:
    raise refusal(10010)


def _check_path(name: str) -> None:
    if "/" in name or "\\" in name:
        raise refusal(10127)


def _check_name(name: str, *, is_durable: bool) -> None:
    try:
        size = len(name.encode())
    except UnicodeEncodeError:  # a subject may have bytes that are no text
        raise refusal(10103) from None
    if is_durable and size > MAX_NAME:
        raise refusal(10102, MAX_NAME)


def _is_alone(inlet: StreamInlet, found: Consumer | None, filters: Sequence[str]) -> bool:
    """Whether no other consumer of a work queue takes a message that ``filters`` take."""
    rivals = [one for one in inlet.consumers.values() if one is not found and not one.config.sourcing]
    taken = [pattern for rival in rivals for pattern in rival.config.filters or [">"]]
    return not any(overlaps(one, another) for one in taken for another in filters)
