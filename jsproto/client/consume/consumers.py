"""Consumers in the JetStream API: create, change, look up, list, pause, reset, unpin, delete, pull from.

Rules:

* Those of ``jetstream``.
* A consumer's name goes into the request subject when it has one. A single filter follows it, with its wildcards.
  Permissions go by both (FACTS.md F5.17, F5.18).

Not here: the subscribe workflow (ADR-15), which decides what to create.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import partial
from typing import Any, Final, Literal, TypeAlias, TypeVar, Unpack

from jsproto.api_errors import ConsumerNotFoundError, StreamNotFoundError
from jsproto.client.connection.message_buffer import BufferOptions
from jsproto.client.connection.questions import not_available, succeeded
from jsproto.client.consume.consume_options import ConsumeOptions, DeliveryOptions, PrefetchOptions, SilenceOptions
from jsproto.client.consume.message import DEFAULT_ACK_WAIT, Acker, ConsumerMsg, WorkAcker
from jsproto.client.consume.priority import Priority, most_seconds
from jsproto.client.consume.pull import PullConsumer
from jsproto.client.consume.work import ConsumerWork, FailureRule
from jsproto.client.manage.pages import Pages, name_of
from jsproto.client.manage.streams import Streams
from jsproto.errors import (
    Error,
    LocalProtocolError,
    PushBasedError,
    RemoteProtocolError,
    UnsupportedByServerError,
    WrongTypeError,
)
from jsproto.grammar.api import DEFAULT_PREFIX, decode_response
from jsproto.grammar.bodies import MAX_UINT64, dumps
from jsproto.grammar.consumer import ConsumerConfig, ConsumerInfo, ConsumerPause, ConsumerReset, of_consumer_config
from jsproto.grammar.headers import STREAM_IDENTITY, last_value
from jsproto.grammar.options import checked, explained
from jsproto.grammar.sources import SOURCING_LEVEL, SOURCING_SINCE
from jsproto.grammar.sourcing_consumer import check_sourcing
from jsproto.grammar.times import Until, end_of, format_timestamp, seconds
from jsproto.rules.status import CONFLICT, PUSH_BASED
from jsproto.ticket import Ticket
from jsproto.wire.frames import Msg

D = TypeVar("D", bound=ConsumerMsg)

Action: TypeAlias = Literal["create", "update"]

PAUSE_SINCE: Final = "2.11"
"""The first release that pauses consumers."""

GROUPS_SINCE: Final = "2.11"
"""The first release with priority groups."""

FILTERS_SINCE: Final = "2.10"
"""The first release with several filters."""


class Consumers(Streams):
    """The consumers' half of ``JetStream``."""

    def create_consumer(
        self,
        stream: str,
        config: ConsumerConfig,
        *,
        now: float,
        action: Action | None = "create",
        pedantic: bool = False,
        required_api_level: int | None = None,
        timeout: float | None = None,
    ) -> Ticket[ConsumerInfo]:
        """Create a consumer, or find it there with the same configuration.

        Arguments and errors: as the drivers' verb. ``action``: "create" fails if the consumer is there with another
        configuration, "update" if there is none. None creates or changes it. LocalProtocolError (by ``check_sourcing``
        or ``config.check_words``) and UnsupportedByServerError are raised.
        """
        of_consumer_config("config", config)
        check_sourcing(config)
        if action != "update":
            config.check_words()
        server = self.session.server
        for needed, feature in _newer_features(config):
            if server is not None and server.is_before(needed):
                raise UnsupportedByServerError(feature, needed, server.version)
        name = config.consumer_name
        subject = self.api.consumer_create(stream, name, (name and config.filter_subject) or None)
        body: dict[str, Any] = {"stream_name": stream, "config": config.to_json()}
        if action is not None:
            body["action"] = action
        if pedantic:
            body["pedantic"] = True
        headers = self._level_header(required_api_level, pedantic=pedantic)
        return self._ask(
            subject, dumps(body), ConsumerInfo.from_json, now, timeout, about=_about(stream, name), headers=headers,
            wildcards=True,
        )  # fmt: skip

    def update_consumer(
        self,
        stream: str,
        config: ConsumerConfig,
        *,
        now: float,
        pedantic: bool = False,
        required_api_level: int | None = None,
        timeout: float | None = None,
    ) -> Ticket[ConsumerInfo]:
        """Replace a consumer's whole configuration by ``config``. The server refuses to change some fields."""
        return self.create_consumer(
            stream, config, now=now, action="update", pedantic=pedantic, required_api_level=required_api_level,
            timeout=timeout,
        )  # fmt: skip

    def change_consumer(
        self,
        stream: str,
        name: str,
        changes: dict[str, Any],
        *,
        now: float,
        pedantic: bool = False,
        required_api_level: int | None = None,
        timeout: float | None = None,
    ) -> Ticket[ConsumerInfo]:
        """Fetch the configuration, change the named fields (those of ``ConsumerOptions``), and send it back.

        Fields that this library does not know go back as they came. Two changes at the same time: the last one wins.
        """
        return self.session.run(
            _change_consumer(self, stream, name, changes, now, timeout, pedantic, required_api_level)
        )

    def consumer_info(
        self, stream: str, name: str, *, now: float, timeout: float | None = None
    ) -> Ticket[ConsumerInfo]:
        """Configuration and state of a consumer.

        The ticket fails with:
            ConsumerNotFoundError: there is no such consumer.
            StreamNotFoundError: there is no such stream.
        """
        return self._ask(
            self.api.consumer_info(stream, name), b"", ConsumerInfo.from_json, now, timeout, about=_about(stream, name)
        )

    def delete_consumer(self, stream: str, name: str, *, now: float, timeout: float | None = None) -> Ticket[bool]:
        """Delete a consumer.

        The ticket fails with:
            ConsumerNotFoundError: there is no such consumer.
        """
        subject = self.api.consumer_delete(stream, name)
        return self._ask(subject, b"", succeeded, now, timeout, about=_about(stream, name))

    def consumer_names(self, stream: str, *, now: float, timeout: float | None = None) -> Ticket[list[str]]:
        """The names of all consumers of a stream. ``timeout``: seconds for each page."""
        pages: Pages[str] = self._pages(
            self.api.consumer_names(stream), "consumers", name_of, {}, timeout, f"stream {stream}"
        )
        return self.session.run(pages.whole(now))

    def consumers(self, stream: str, *, timeout: float | None = None) -> Pages[ConsumerInfo]:
        """Configuration and state of all consumers of a stream, page by page. ``timeout``: seconds for each page."""
        subject = self.api.consumer_list(stream)
        return self._pages(subject, "consumers", ConsumerInfo.from_json, {}, timeout, f"stream {stream}")

    def consumers_info(self, stream: str, *, now: float, timeout: float | None = None) -> Ticket[list[ConsumerInfo]]:
        """Configuration and state of all consumers of a stream, at once."""
        return self.session.run(self.consumers(stream, timeout=timeout).whole(now))

    def pause_consumer(
        self, stream: str, name: str, until: Until, *, now: float, timeout: float | None = None
    ) -> Ticket[ConsumerPause]:
        """Pause deliveries until a moment, or for a timedelta from now on.

        A timedelta counts from the time of the server, which is asked for it first: clocks need not agree.
        ``timeout``: seconds for each of the two steps. Errors: as the drivers' verb, and in the ticket
        RemoteProtocolError: a timedelta was given, and the server does not say what time it is.
        """
        end, is_ahead = end_of(until)
        if not is_ahead:
            return self._pause(stream, name, {"pause_until": format_timestamp(end)}, now, timeout)
        self._check_pauses()
        return self.session.run(_pause_for(self, stream, name, end, now, timeout))

    def resume_consumer(
        self, stream: str, name: str, *, now: float, timeout: float | None = None
    ) -> Ticket[ConsumerPause]:
        """End a pause. Errors: as ``pause_consumer``."""
        return self._pause(stream, name, {}, now, timeout)

    def _pause(
        self, stream: str, name: str, body: dict[str, Any], now: float, timeout: float | None
    ) -> Ticket[ConsumerPause]:
        self._check_pauses()
        subject = self.api.consumer_pause(stream, name)
        return self._ask(subject, dumps(body), ConsumerPause.from_json, now, timeout, about=_about(stream, name))

    def _check_pauses(self) -> None:
        server = self.session.server
        if server is not None and server.is_before(PAUSE_SINCE):
            raise UnsupportedByServerError("a consumer's pause", PAUSE_SINCE, server.version)

    def reset_consumer(
        self, stream: str, name: str, seq: int | None = None, *, now: float, timeout: float | None = None
    ) -> Ticket[ConsumerReset]:
        """Set a consumer back to its ack floor, or anywhere: go on at the stream sequence ``seq``.

        Its deliveries are counted from 1 again. Servers before 2.14, and those without the consumer, do not answer
        a reset (FACTS.md F0.11, F4.7). So the consumer is looked up first. ``timeout``: seconds for each of the
        two steps.

        Errors: as the drivers' verb. Raised are LocalProtocolError, and UnsupportedByServerError where the server of
        this session is too old and its own API is asked. Of another server that comes with the ticket.
        """
        if seq is not None and (type(seq) is not int or not 0 < seq <= MAX_UINT64):
            raise LocalProtocolError(f"a consumer is reset to a sequence from 1 on, or to None, not to {seq!r:.100}")
        server = self.session.server
        if server is not None and server.is_before(SOURCING_SINCE) and self.api.prefix == DEFAULT_PREFIX:
            raise UnsupportedByServerError("a consumer's reset", SOURCING_SINCE, server.version)
        return self.session.run(_reset_consumer(self, stream, name, seq, now, timeout))

    def unpin_consumer(
        self, stream: str, name: str, group: str, *, now: float, timeout: float | None = None
    ) -> Ticket[None]:
        """Let another client of a priority group be pinned.

        Raises, with nothing sent:
            UnsupportedByServerError: the server is older than 2.11.
        """
        server = self.session.server
        if server is not None and server.is_before(GROUPS_SINCE):
            raise UnsupportedByServerError("unpin_consumer", GROUPS_SINCE, server.version)
        subject = self.api.consumer_unpin(stream, name)
        return self._ask(subject, dumps({"group": group}), _nothing, now, timeout, about=_about(stream, name))

    def acker(self, config: ConsumerConfig, message_class: type[D], facade: object = None) -> Acker[D]:
        """What makes and acknowledges the messages of a consumer with this configuration."""
        of_consumer_config("config", config)
        return Acker(
            self.session, self.session.requests, message_class, wants_acks=config.ack_policy != "none",
            ack_wait=_shortest_wait(config), facade=facade,
        )  # fmt: skip

    @explained(SilenceOptions, BufferOptions)
    def pull_consumer(
        self,
        info: ConsumerInfo,
        message_class: type[D],
        *,
        facade: object = None,
        priority: Priority | None = None,
        **options: Unpack[DeliveryOptions],
    ) -> PullConsumer[D]:
        """A ``PullConsumer`` of the consumer that ``info`` describes. Its messages are ``message_class``.

        ``facade``: for ``Acker``. ``priority``: the place in one of its priority groups.

        Raises:
            PushBasedError: it is a push consumer.
            ConfigMismatchError: it has no such group, or another policy.
            LocalProtocolError: an option cannot be.
        """
        if not isinstance(info, ConsumerInfo):
            raise WrongTypeError(f"info is a ConsumerInfo, not {info!r:.100}")
        config, place = info.config, Priority() if priority is None else priority
        if not isinstance(place, Priority):
            raise WrongTypeError(f"priority is a Priority, not {place!r:.100}")
        if config.deliver_subject:
            raise PushBasedError(CONFLICT, PUSH_BASED)
        place.check(info.stream_name, info.name, config)
        return PullConsumer(
            self.session, self.acker(config, message_class, facade), info.stream_name, info.name,
            api_subject=self.api.consumer_next(info.stream_name, info.name), inbox=self.session.new_inbox(),
            max_batch=config.max_batch, max_expires=most_seconds(config), max_request_bytes=config.max_bytes,
            options=place.to_json(), pins=config.priority_policy == "pinned_client",
            check_consumer=lambda pull, at: self.session.run(_check_consumer(self, pull, at)), **options,
        )  # fmt: skip

    @explained(ConsumeOptions, PrefetchOptions)
    def consume(
        self,
        pull: PullConsumer[D],
        config: ConsumerConfig,
        *,
        now: float,
        **options: Unpack[ConsumeOptions],
    ) -> ConsumerWork[D]:
        """Work on the messages of ``pull``, whose configuration is ``config``.

        Raises:
            LocalProtocolError: a value cannot be, or the consumer acknowledges more than one message at once.
            Error: why ``pull`` ended, if it has.
        """
        of_consumer_config("config", config)
        asked = checked(ConsumeOptions, options)
        if config.ack_policy not in (None, "explicit", "none"):
            text = f"ack_policy {config.ack_policy!r} acknowledges earlier messages too, which may be under way"
            raise LocalProtocolError(text)
        before = pull.acker
        acker = WorkAcker(
            self.session, self.session.requests, before.message_class, wants_acks=before.wants_acks,
            ack_wait=_shortest_wait(config), facade=before.facade,
        )  # fmt: skip
        rule = FailureRule.of(config, seconds(asked["retry_delay"], default=None), asked["term_on"])
        return ConsumerWork(self.session, pull, acker, rule, now=now, asked=asked)


def _newer_features(config: ConsumerConfig) -> Iterator[tuple[str, str]]:
    """What older servers refuse without a reason, or drop without a word (FACTS.md F0.7): since when, and its name."""
    if config.ack_policy == "flow_control":
        yield SOURCING_SINCE, "ack_policy 'flow_control'"
    if config.priority_policy == "prioritized":
        yield "2.12", "priority_policy 'prioritized'"
    if config.priority_groups:
        yield GROUPS_SINCE, "priority_groups"
    if config.pause_until is not None:
        yield PAUSE_SINCE, "pause_until"
    if config.filter_subjects:
        yield FILTERS_SINCE, "filter_subjects"


def _shortest_wait(config: ConsumerConfig) -> float:
    """Seconds after which the server may deliver a message again."""
    return min([*(config.backoff or []), config.ack_wait or DEFAULT_ACK_WAIT])


def _check_consumer(js: Consumers, pull: PullConsumer[Any], now: float) -> Generator[Ticket[Any], Any, None]:
    """Ask the server whether the consumer of ``pull`` exists. Without an answer it counts as existing."""
    gone: Error | None = None
    try:
        yield js.consumer_info(pull.stream, pull.consumer, now=now)
    except (ConsumerNotFoundError, StreamNotFoundError) as error:
        gone = error
    except Error:
        pass
    pull.consumer_checked(gone)


def _change_consumer(
    js: Consumers, stream: str, name: str, changes: dict[str, Any], now: float, timeout: float | None, pedantic: bool,
    level: int | None,
) -> Generator[Ticket[Any], Any, ConsumerInfo]:  # fmt: skip
    info: ConsumerInfo = yield js.consumer_info(stream, name, now=now, timeout=timeout)
    config = info.config.updated(**changes)
    changed: ConsumerInfo = yield js.update_consumer(
        stream, config, now=now, pedantic=pedantic, required_api_level=level, timeout=timeout
    )
    return changed


def _pause_for(
    js: Consumers, stream: str, name: str, duration: int, now: float, timeout: float | None
) -> Generator[Ticket[Any], Any, ConsumerPause]:
    """Ask the server what time it is, and pause for ``duration`` nanoseconds from then on."""
    info: ConsumerInfo = yield js.consumer_info(stream, name, now=now, timeout=timeout)
    if info.ts is None:
        raise RemoteProtocolError("a consumer's information without the server's time: give pause_consumer a moment")
    paused: ConsumerPause = yield js.pause_consumer(stream, name, info.ts + duration, now=now, timeout=timeout)
    return paused


def _reset_consumer(
    js: Consumers, stream: str, name: str, seq: int | None, now: float, timeout: float | None
) -> Generator[Ticket[Any], Any, ConsumerReset]:
    """Look the consumer up at the server that has it, which may be another than this session's. Then reset it."""
    info: ConsumerInfo = yield js.consumer_info(stream, name, now=now, timeout=timeout)
    metadata = info.config.metadata or {}
    found = metadata.get("_nats.level", "")
    if found.isdecimal() and int(found[:9]) < SOURCING_LEVEL:
        raise UnsupportedByServerError("a consumer's reset", SOURCING_SINCE, metadata.get("_nats.ver"))
    reset: ConsumerReset = yield js.session.requests.request(
        js.api.consumer_reset(stream, name), b"" if seq is None else dumps({"seq": seq}),
        timeout=js.timeout if timeout is None else timeout, now=now, decode=partial(_reset_answer, stream, name),
        headers={STREAM_IDENTITY: ""}, no_responders=not_available,
    )  # fmt: skip
    return reset


def _reset_answer(stream: str, name: str, message: Msg) -> ConsumerReset:
    identity = last_value(message.header or b"", STREAM_IDENTITY.encode())
    body = decode_response(message.payload, about=_about(stream, name))
    return ConsumerReset.from_json(body, None if identity is None else identity.decode("utf-8", "replace"))


def _nothing(body: dict[str, Any]) -> None:
    return None


def _about(stream: str, name: str | None) -> str:
    """What an error is about."""
    return f"consumer {name} of stream {stream}" if name else f"a consumer of stream {stream}"
