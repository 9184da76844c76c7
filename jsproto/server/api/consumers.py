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
from dataclasses import replace
from typing import Any, Final

from jsproto.errors import APIError, LocalProtocolError, RemoteProtocolError
from jsproto.grammar.consumer import ConsumerConfig, ConsumerPause
from jsproto.grammar.fields import NEVER, as_moment
from jsproto.grammar.headers import STREAM_IDENTITY, encode_headers, first_value
from jsproto.grammar.sources import IDENTITY_LEVEL, SOURCING_LEVEL
from jsproto.grammar.subjects import MAX_NAME, check_name, overlaps
from jsproto.outbox import Conversation
from jsproto.server.api.pedantic import check_consumer, is_pedantic
from jsproto.server.api.requests import (
    Body,
    as_body,
    known,
    number,
    offset_of,
    optional,
    page,
    read,
    respond,
    stream_differs,
    stream_not_found,
    without_prefix,
)
from jsproto.server.consume.advisories import Advisories
from jsproto.server.consume.consumer import Consumer, ConsumerOutbox
from jsproto.server.consume.settings import accept, check_change, check_group, upgraded
from jsproto.server.inlet import StreamInlet
from jsproto.server.publish.checks import check_level
from jsproto.server.store.context import ServerContext
from jsproto.server.store.refusals import refusal
from jsproto.server.store.stream import Publication
from jsproto.wire.frames import Msg

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
_ACTIONS: Final = ("", "create", "update")
_NAME_LENGTH: Final = 8
_OF_THE_ANSWER: Final = ("_nats.level", "_nats.ver")
"""Metadata that lists do not have."""


class ConsumerApi(Conversation):
    """The answers to requests about consumers.

    Attributes: ``requests`` (how many there were), ``errors`` (how many of them were refused).
    """

    __slots__ = ("_context", "_outbox", "_prefixes", "_streams", "_verbs", "errors", "requests")

    def __init__(
        self,
        context: ServerContext,
        outbox: ConsumerOutbox,
        streams: Mapping[str, StreamInlet],
        prefixes: Sequence[str],
    ) -> None:
        """Answer from now on, below each of ``prefixes`` (with its last dot).

        ``streams``: the existing ones by name, kept up to date by the caller.
        """
        self.requests = 0
        self.errors = 0
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
        """Answer a request. One without a reply subject, or with an unknown verb, is ignored."""
        subject = message.subject.decode("utf-8", "surrogateescape")
        verb, *names = without_prefix(subject, self._prefixes).split(".")
        if verb not in self._verbs or not message.reply or (verb == "RESET" and not self._can_reset(*names)):
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
        respond(self._outbox, message.reply, kind, body, header)

    # -- the verbs, for callers without a link -------------------------------------------------------------------------

    def create(self, stream: str, config: ConsumerConfig, now: float, action: str = "") -> Consumer:
        """Create a consumer, find it with the same configuration, or change it. ``now``: seconds.

        ``action``: ``create``, ``update``, or empty for both. Without a name in ``config`` it gets one.

        Raises:
            APIError: the stream does not exist, or servers refuse the configuration, the change or the action.
        """
        inlet = self._inlet(stream)
        name = config.consumer_name or self._context.next_id()[:_NAME_LENGTH]
        _check_name(name)
        config = upgraded(config, inlet.stream.config, self._context)
        found = inlet.consumers.get(name)
        if found is not None and config.sourcing and config.durable_name:
            config = replace(config, **{field: getattr(found.config, field) for field in _START})
        accepted = replace(accept(config, inlet.stream.config, self._context), name=config.consumer_name)
        if found is not None:
            self._change(found, accepted, action, now)
            if accepted.sourcing and self._context.api_level >= SOURCING_LEVEL:
                found.reset(None, now)
            return found
        if action == "update":
            raise refusal(10149)
        self._check_room(inlet, accepted)
        consumer = Consumer(
            name, accepted, inlet.stream, self._context, self._outbox, now, prefixes=self._api_prefixes(),
            forget=lambda gone: self._forget(inlet, gone),
        )  # fmt: skip
        inlet.consumers[name] = consumer
        advisories = self._advisories(consumer)
        advisories.created(now)
        if consumer.pause_remaining(now) is not None:
            advisories.paused(accepted.pause_until, is_paused=True, now=now)
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
    def _change(found: Consumer, accepted: ConsumerConfig, action: str, now: float) -> None:
        wanted = replace(accepted, pause_until=found.config.pause_until)
        if wanted == replace(found.config, metadata=wanted.metadata):
            return
        if action == "create":
            raise refusal(10148)
        check_change(found.config, wanted, is_bound=found.is_bound())
        found.update(wanted, now)

    @staticmethod
    def _check_room(inlet: StreamInlet, config: ConsumerConfig) -> None:
        """Raise APIError if the stream can have no such consumer beside its others."""
        if config.sourcing:
            return
        stream = inlet.stream.config
        rivals = [other.config for other in inlet.consumers.values() if not other.config.sourcing]
        if 0 < (stream.max_consumers or 0) <= len(rivals):
            raise refusal(10026)
        if stream.retention != "workqueue":
            return
        if config.deliver_policy != "all":
            raise refusal(10101)
        if rivals and not config.filters:
            raise refusal(10099)
        taken = [pattern for rival in rivals for pattern in rival.filters or [">"]]
        if any(overlaps(one, another) for one in taken for another in config.filters):
            raise refusal(10100)

    def _create(self, names: list[str], message: Msg, now: float) -> Body:
        stream, name, filters = names[0], ".".join(names[1:2]), ".".join(names[2:])
        action, config = self._request(stream, message.payload)
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
        self._check_identity(stream, config, message)
        return self.create(stream, config, now, action).info(now).to_json()

    def _create_durable(self, names: list[str], message: Msg, now: float) -> Body:
        _, stream, name = names
        action, config = self._request(stream, message.payload)
        if not config.durable_name:
            raise refusal(10018)
        if config.durable_name != name:
            raise refusal(10017)
        config.name = name
        self._check_identity(stream, config, message)
        return self.create(stream, config, now, action).info(now).to_json()

    def _info(self, names: list[str], message: Msg, now: float) -> Body:
        return self.find(*names).info(now).to_json()

    def _delete(self, names: list[str], message: Msg, now: float) -> Body:
        stream, name = names
        self.delete(stream, name, now)
        return {"success": True}

    def _names(self, names: list[str], message: Msg, now: float) -> Body:
        body, found = self._page(names[0], message.payload, NAMES_AT_ONCE)
        return body | {"consumers": [consumer.name for consumer in found]}

    def _list(self, names: list[str], message: Msg, now: float) -> Body:
        body, found = self._page(names[0], message.payload, INFOS_AT_ONCE)
        described = [consumer.info(now).to_json() for consumer in found]
        for consumer in described:
            consumer["config"]["metadata"] = {
                name: value for name, value in consumer["config"]["metadata"].items() if name not in _OF_THE_ANSWER
            }
        return body | {"consumers": described}

    def _page(self, stream: str, payload: bytes, limit: int) -> tuple[Body, Sequence[Consumer]]:
        consumers = self._inlet(stream).consumers
        asked = optional(payload, {"offset"})
        return page([consumers[name] for name in sorted(consumers)], offset_of(asked), limit)

    def _pause(self, names: list[str], message: Msg, now: float) -> Body:
        """Pause until the moment in the request. A request without one resumes."""
        consumer = self.find(*names)
        until = _moment(message.payload)
        consumer.pause(until, now)
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

    def _request(self, stream: str, payload: bytes) -> tuple[str, ConsumerConfig]:
        """The action and the configuration in a request for a consumer of ``stream``. Raises APIError."""
        body: dict[str, Any] = known(read(payload) if payload else {}, ("stream_name", "config", "action", "pedantic"))
        action, pedantic = body.get("action", ""), is_pedantic(body)
        if action not in _ACTIONS:
            raise refusal(10025, f'unknown consumer action: "{action}"')
        try:
            config = ConsumerConfig.from_json(body.get("config") or {})
        except RemoteProtocolError as error:
            raise refusal(10025, str(error)) from None
        if config.extra:
            raise refusal(10025, f'json: unknown field "{next(iter(config.extra))}"')
        if body.get("stream_name") != stream:
            raise stream_differs()
        if pedantic and stream in self._streams:
            check_consumer(config, self._streams[stream].stream.config)
        return action, config

    def _reset(self, names: list[str], message: Msg, now: float) -> Body:
        """Set a consumer back: to its ack floor, or to the sequence in the request."""
        consumer = self.find(*names)
        seq = number(read(message.payload), "seq") if message.payload else 0
        reset_seq = consumer.reset(seq or None, now)
        return consumer.info(now).to_json() | {"reset_seq": reset_seq}

    def _unpin(self, names: list[str], message: Msg, now: float) -> Body:
        """Unpin the client of a priority group."""
        group = read(message.payload).get("group") or ""
        if not isinstance(group, str):
            raise refusal(10025, "json: cannot unmarshal a group that is no string")
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


def _check_name(name: str) -> None:
    try:
        check_name(name, "consumer").encode()  # a subject may have bytes that are no text
    except (LocalProtocolError, UnicodeEncodeError):
        if len(name.encode("utf-8", "replace")) > MAX_NAME:
            raise refusal(10102, MAX_NAME) from None
        raise refusal(10127 if "/" in name or "\\" in name else 10103) from None


def _moment(payload: bytes) -> int | None:
    """The moment in a pause request, in nanoseconds since 1970. None: there is none, or no JSON."""
    try:
        text = read(payload).get("pause_until")
        return None if text is None else as_moment(text, "pause_until")
    except APIError:
        return None
    except ValueError as error:
        raise refusal(10025, str(error)) from None
