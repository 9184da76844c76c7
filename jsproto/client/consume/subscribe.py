"""The subscribe workflow (ADR-15), as scripts: find the stream and the consumer, check that they fit, create what is
missing, subscribe.

Rules:

* Arguments that contradict each other are refused before anything is sent.
* The stream is the one that has the subject. There must be exactly one.
* A consumer that is there is not changed. Where it differs from what is asked for, the error names the fields.
* The subscription to the deliver subject precedes the creation, because a server counts a consumer without a
  subscriber as free.
* A client that loses the race for creating a consumer looks again, and joins or is refused.
* A queue group without a consumer's name uses its own name, so its members meet at one consumer.
* A pull consumer that must exist counts as existing where the look-up fails, or is forbidden (ADR-15).
* So does a durable one where the look-up and the creation are both forbidden. Its configuration is unknown then.
* A caller that has gone takes its subscription along, and a consumer that it left unnamed. One with a name stays:
  others may use it by now, or the next try.
* An unnamed consumer is deleted, too, if the answer to its creation is late.

Not here: what happens afterwards (``push``, ``ordered``, ``pull``, ``sourcing``).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypeVar, Unpack

from jsproto.api_errors import ConsumerAlreadyExistsError, ConsumerNameExistError, ConsumerNotFoundError
from jsproto.client.connection.message_buffer import BufferOptions
from jsproto.client.connection.script_runner import Abandoned
from jsproto.client.connection.session import Session
from jsproto.client.consume.consume_options import (
    BindingOptions,
    MissingOptions,
    OrderedOptions,
    PushOptions,
    SilenceOptions,
    SourceOptions,
)
from jsproto.client.consume.consumers import Consumers
from jsproto.client.consume.heartbeats import DEFAULT_HEARTBEAT
from jsproto.client.consume.message import Acker, ConsumerMsg
from jsproto.client.consume.ordered import OrderedConsumer
from jsproto.client.consume.priority import Priority
from jsproto.client.consume.push import PushConsumer
from jsproto.client.consume.sourcing import SourcingConsumer
from jsproto.client.manage.streams import find_stream
from jsproto.errors import (
    APIError,
    BindError,
    ConfigMismatchError,
    DuplicateSubscriptionError,
    Error,
    FilterMismatchError,
    FlowControlAckError,
    JetStreamNotAvailableError,
    LocalProtocolError,
    NoQueueError,
    PermissionsViolationError,
    PullConsumerError,
    PushConsumerError,
    QueueFlowControlError,
    QueueHeartbeatError,
    QueueRequiredError,
    TimeoutError,
    WrongQueueError,
    WrongTypeError,
)
from jsproto.grammar.consumer import UNSET, ConsumerConfig, ConsumerInfo, differences
from jsproto.grammar.options import checked, explained
from jsproto.grammar.subjects import check_name, check_queue, check_subject
from jsproto.grammar.times import seconds
from jsproto.rules.status import NO_RESPONDERS
from jsproto.ticket import Live, Ticket

D = TypeVar("D", bound=ConsumerMsg)

_SETTLED: Final = frozenset(
    {
        "ack_policy", "ack_wait", "backoff", "deliver_group", "deliver_subject", "durable_name", "filter_subject",
        "flow_control", "max_ack_pending", "max_deliver", "max_waiting", "name",
    }
)  # fmt: skip
_FILTERS: Final = ("filter_subject", "filter_subjects")
_UNANSWERED: Final = (PermissionsViolationError, TimeoutError, JetStreamNotAvailableError)
"""Why a look-up does not say whether a consumer exists."""


def one_name(durable: str | None, durable_name: str | None) -> str | None:
    """The name that two arguments give a durable consumer. LocalProtocolError if they give two."""
    if None not in (durable, durable_name) and durable != durable_name:
        raise LocalProtocolError(f"durable and durable_name are the same, not {durable!r} and {durable_name!r}")
    return durable if durable_name is None else durable_name


@dataclass(slots=True)
class SubscriptionSpec:
    """What a caller of ``subscribe`` or ``pull_subscribe`` asks for, checked.

    * ``subject``: what to receive, None for all that the consumer has.
    * ``stream``: its name, None to find it by the subject.
    * ``durable``: the name of a consumer that is created where there is none. ``durable_name`` of the configuration is
      the same.
    * ``consumer``: the name of a consumer that must be there.
    * ``queue``: a group that shares the messages.
    * ``pull``: whether it is for a pull consumer.
    * ``place``: the place in a priority group.
    * ``base``: the configuration of a new consumer.
    * ``options``: fields of ConsumerConfig that change ``base``.
    * ``config``: the configuration that follows from both.
    * ``name``: the consumer's name, None where the server is to choose it.

    Raises:
        LocalProtocolError: the arguments contradict each other, or a name cannot be one.
    """

    subject: str | None
    stream: str | None = None
    durable: str | None = None
    consumer: str | None = None
    queue: str | None = None
    pull: bool = False
    options: Mapping[str, Any] | None = None
    base: ConsumerConfig | None = None
    place: Priority = field(default_factory=Priority)
    config: ConsumerConfig = field(init=False)
    name: str | None = field(init=False)

    def __post_init__(self) -> None:
        options: dict[str, Any] = dict(self.options or {})
        if not isinstance(self.base, ConsumerConfig | None):
            raise LocalProtocolError(f"config is a ConsumerConfig, not {type(self.base).__name__}")
        if self.subject is not None:
            check_subject(self.subject, wildcards=True)
        elif self.stream is None:
            raise LocalProtocolError("a subscription needs a subject, or the name of a stream")
        if self.stream is not None:
            check_name(self.stream)
        if self.queue is not None:
            check_queue(self.queue)
        self.durable = one_name(self.durable, options.pop("durable_name", None))
        if self.base is not None:
            self.durable = one_name(self.durable, self.base.durable_name)
            self.base = self.base.replaced({"durable_name": None})
        self.options = options
        if self.durable is not None and self.consumer is not None:
            raise LocalProtocolError("give durable, for a consumer that may be created, or consumer, not both")
        given = self.given
        for name in ("name", "deliver_group", *_FILTERS):
            if name in given and (name != "filter_subjects" or self.subject is not None):
                raise LocalProtocolError(f"{name} follows from the other arguments of a subscription")
        self.name = self.consumer or self.durable or (None if self.pull else self.queue)
        if self.name is not None:
            check_name(self.name, "consumer")
        self.config = (self.base or UNSET).updated(**options)
        self._check()

    @property
    def given(self) -> set[str]:
        """The fields of the configuration that the caller has set."""
        own = () if self.base is None else (each.name for each in fields(self.base) if getattr(self.base, each.name))
        return {*own, *(self.options or {})}

    def _check(self) -> None:
        config = self.config
        if config.ack_policy == "flow_control":  # delivery would stop for ever at max_ack_pending messages
            raise LocalProtocolError(FlowControlAckError.explanation)
        if self.pull:
            if config.ack_policy in ("none", "all"):
                raise LocalProtocolError(f"a pull consumer cannot have ack_policy {config.ack_policy!r}")
            for name in ("deliver_subject", "idle_heartbeat", "flow_control", "rate_limit_bps"):
                if getattr(config, name):
                    raise LocalProtocolError(f"{name} is for push consumers")
            return
        if config.max_waiting:
            raise LocalProtocolError("max_waiting is for pull consumers")
        if self.queue is not None and (config.flow_control or config.idle_heartbeat):
            raise LocalProtocolError(
                "a queue group has neither flow control nor idle heartbeats: anyone would get them"
            )
        if config.flow_control and config.idle_heartbeat == 0:
            raise LocalProtocolError("flow control needs idle heartbeats")

    def to_create(self, deliver_subject: str | None, name: str) -> ConsumerConfig:
        """The configuration of a consumer that does not exist yet."""
        wanted = self.config
        changes: dict[str, Any] = {"name": name, "durable_name": self.durable or self.queue}
        changes["ack_policy"] = wanted.ack_policy or "explicit"
        if self.subject is not None:
            changes["filter_subject"] = self.subject
        if not self.pull:
            changes["deliver_subject"] = wanted.deliver_subject or deliver_subject
            changes["deliver_group"] = self.queue
        if not wanted.idle_heartbeat:
            changes["idle_heartbeat"] = None
        config = wanted.replaced(changes)
        if not self.pull and self.queue is None and wanted.idle_heartbeat is None:
            config.idle_heartbeat = DEFAULT_HEARTBEAT
        return config

    def check_found(self, info: ConsumerInfo) -> None:
        """Check that the consumer that was found is one to bind to.

        Raises:
            BindError: it is not. The subclass says why.
        """
        found, where = info.config, (info.stream_name, info.name)
        if self.pull and found.deliver_subject:
            raise PushConsumerError(*where)
        if self.pull:
            self.place.check(*where, found)
        if not self.pull:
            if not found.deliver_subject:
                raise PullConsumerError(*where)
            if found.ack_policy == "flow_control":
                raise FlowControlAckError(*where)
            self._check_queue(found, where)
            if info.push_bound and self.queue is None:
                raise DuplicateSubscriptionError(*where)
        if self.subject is not None and found.filters and found.filters != [self.subject]:
            note = f"{', '.join(found.filters)} instead of {self.subject}"
            raise FilterMismatchError(*where, ["filter_subject"], note)
        different = differences(self.config, found)
        if different:
            raise ConfigMismatchError(*where, different)

    def _check_queue(self, found: ConsumerConfig, where: tuple[str, str]) -> None:
        group, queue = found.deliver_group, self.queue
        error: type[BindError] | None = None
        if queue is None:
            error = QueueRequiredError if group else None
        elif not group:
            error = NoQueueError
        elif group != queue:
            error = WrongQueueError
        elif found.flow_control:
            error = QueueFlowControlError
        elif found.idle_heartbeat:
            error = QueueHeartbeatError
        if error is not None:
            raise error(*where, f"{group!r}" if group else "")


class Subscriptions(Consumers):
    """The half of ``JetStream`` that subscribes."""

    @explained(BindingOptions, SilenceOptions, BufferOptions)
    def subscribe(
        self,
        wanted: SubscriptionSpec,
        *,
        now: float,
        message_class: type[D],
        facade: object = None,
        **options: Unpack[PushOptions],
    ) -> Ticket[PushConsumer[D]]:
        """Subscribe to a push consumer as ``wanted``, found or created.

        ``message_class`` and ``facade`` are those of ``Acker``.

        Raises, with nothing sent:
            LocalProtocolError: an option cannot be.

        The ticket fails with:
            SubscribeError: the stream or the consumer does not fit. The subclass says why.
            ConsumerNotFoundError: a ``consumer`` that must be there is not.
            APIError: the server refused.
        """
        _check(wanted)
        asked = checked(PushOptions, options)
        return self.session.scripts.bring(_subscribe(self, wanted, now, asked, message_class, facade))

    @explained(MissingOptions, SilenceOptions, BufferOptions)
    def subscribe_ordered(
        self,
        wanted: SubscriptionSpec,
        *,
        now: float,
        message_class: type[D],
        facade: object = None,
        **options: Unpack[OrderedOptions],
    ) -> Ticket[OrderedConsumer[D]]:
        """Read what ``wanted`` names once and in order. ``message_class`` and ``facade`` are those of ``Acker``.

        Raises:
            LocalProtocolError: ``wanted`` sets what such a consumer settles itself, or an option cannot be.

        The ticket fails with:
            NoMatchingStreamError: no stream, or more than one, has the subject.
            APIError: the server refused.
        """
        _check(wanted)
        config = _ordered_config(wanted)
        asked = checked(OrderedOptions, options)
        return self.session.scripts.bring(_subscribe_ordered(self, wanted, config, now, asked, message_class, facade))

    @explained(SourceOptions, BufferOptions)
    def source(
        self,
        stream: str,
        consumer: str,
        *,
        now: float,
        message_class: type[D],
        facade: object = None,
        within: float | None = None,
        **options: Unpack[SourceOptions],
    ) -> SourcingConsumer[D]:
        """Be the sourcing end of a consumer with the ack policy "flow_control".

        ``message_class`` and ``facade`` are those of ``Acker``. ``within``: seconds for the first claim, None for no
        end.

        Raises:
            LocalProtocolError: a name, or an option, cannot be.
        """
        session = self.session
        return SourcingConsumer(
            session, Acker(session, session.requests, message_class, wants_acks=False, facade=facade), api=self.api,
            inbox=session.new_inbox(), consumer=consumer, stream=stream, subject=stream,
            within=seconds(within, "within", default=None), now=now,
            **options,
        )  # fmt: skip

    def bind_pull(self, wanted: SubscriptionSpec, *, now: float) -> Ticket[BoundConsumer]:
        """A pull consumer as ``wanted``, found or created. The ticket fails with the errors of ``subscribe``.

        A durable one counts as existing for a user who is forbidden to look it up and to create it.
        """
        _check(wanted)
        return self.session.scripts.bring(_bind_pull(self, wanted, now))

    def find_pull(
        self, stream: str, name: str, place: Priority, *, now: float, timeout: float | None = None
    ) -> Ticket[ConsumerInfo]:
        """A pull consumer that must exist. The ticket takes an assumed configuration where the real one is out of
        reach.

        The ticket fails with:
            ConsumerNotFoundError, StreamNotFoundError: there is no such consumer, or no such stream.
            ConnectionLostError, ConnectionClosedError: the link was lost, or the session has ended.

        Raises, with nothing sent:
            LocalProtocolError: a name cannot be one.
        """
        if not isinstance(place, Priority):
            raise WrongTypeError(f"place is a Priority, not {place!r:.100}")
        asked = self.consumer_info(stream, name, now=now, timeout=timeout)
        return self.session.run(_find_pull(asked, stream, name, place))


@dataclass(slots=True)
class BoundConsumer(Live):
    """A consumer that was found, or ``created``."""

    js: Subscriptions = field(repr=False, compare=False)
    info: ConsumerInfo
    created: bool

    def abandon(self, now: float) -> None:
        """As in ``Live``: a consumer that was created without a given name is deleted."""
        if self.created and self.info.config.durable_name is None:
            _delete_quietly(self.js, self.info.stream_name, self.info.name)


def _find_consumer(
    js: Subscriptions, stream: str, wanted: SubscriptionSpec, now: float
) -> Generator[Ticket[Any], Any, ConsumerInfo | None]:
    """The consumer that ``wanted`` names, checked. None when it may be created."""
    if wanted.name is None:
        return None
    try:
        info: ConsumerInfo = yield js.consumer_info(stream, wanted.name, now=now)
    except ConsumerNotFoundError:
        if wanted.consumer is not None and not wanted.pull:
            raise
        return None
    wanted.check_found(info)
    return info


def _assumed(stream: str, name: str, place: Priority) -> ConsumerInfo:
    """A pull consumer that nobody may look up. It has what ``place`` needs."""
    config = ConsumerConfig(durable_name=name)
    if place.group is not None:
        config.priority_groups, config.priority_policy = [place.group], place.policy
    return ConsumerInfo(stream, name, config)


def _find_pull(
    asked: Ticket[ConsumerInfo], stream: str, name: str, place: Priority
) -> Generator[Ticket[Any], Any, ConsumerInfo]:
    try:
        info: ConsumerInfo = yield asked
    except _UNANSWERED:
        return _assumed(stream, name, place)
    except APIError as error:
        if error.code != NO_RESPONDERS:  # no leader just now
            raise
        return _assumed(stream, name, place)
    return info


def _bind_pull(js: Subscriptions, wanted: SubscriptionSpec, now: float) -> Generator[Ticket[Any], Any, BoundConsumer]:
    """A pull consumer as ``wanted``, found or created."""
    stream = wanted.stream or (yield from find_stream(js, wanted.subject or "", now, None))
    is_known = True
    try:
        found: ConsumerInfo | None = yield js.session.run(_find_consumer(js, stream, wanted, now))
    except PermissionsViolationError:
        found, is_known = None, False
    if found is not None:
        return BoundConsumer(js, found, created=False)
    config = wanted.to_create(None, wanted.name or _new_name(js))
    if not is_known and wanted.place.group is not None and not config.priority_groups:  # it would not fit
        return BoundConsumer(js, _assumed(stream, config.name or "", wanted.place), created=False)
    wanted.place.check(stream, config.name or "", config)
    if wanted.consumer is not None:
        config.durable_name = wanted.consumer
    try:
        info: ConsumerInfo = yield from _create(js, stream, config, now)
    except (ConsumerAlreadyExistsError, ConsumerNameExistError):
        found = yield js.session.run(_find_consumer(js, stream, wanted, now))
        if found is None:
            raise
        return BoundConsumer(js, found, created=False)
    except PermissionsViolationError:
        if is_known or wanted.name is None:
            raise
        return BoundConsumer(js, _assumed(stream, wanted.name, wanted.place), created=False)
    return BoundConsumer(js, info, created=True)


def _create(
    js: Subscriptions, stream: str, config: ConsumerConfig, now: float
) -> Generator[Ticket[Any], Any, ConsumerInfo]:
    """Create a consumer. It is deleted if it was to get a name, and the caller has stopped waiting."""
    creation = js.create_consumer(stream, config, action="create", now=now)
    try:
        info: ConsumerInfo = yield creation
    except (TimeoutError, Abandoned):
        if config.durable_name is None:
            _delete_quietly(js, stream, config.name or "", creation)
        raise
    return info


def _delete_quietly(js: Subscriptions, stream: str, name: str, creation: Ticket[ConsumerInfo] | None = None) -> None:
    """Delete a consumer that nobody knows of, after the answer to its ``creation``. If that fails, the server does it
    later: it is not used.
    """

    def delete() -> Generator[Ticket[Any], Any, None]:
        try:
            if creation is not None:
                yield creation
        except TimeoutError:
            pass  # it may be there all the same
        yield js.delete_consumer(stream, name, now=js.session.now)

    js.session.run(delete())


def _subscribe(
    js: Subscriptions, wanted: SubscriptionSpec, now: float, asked: PushOptions, message_class: type[D], facade: object
) -> Generator[Ticket[Any], Any, PushConsumer[D]]:
    """A subscription to a push consumer as ``wanted``, found or created."""
    stream = wanted.stream or (yield from find_stream(js, wanted.subject or "", now, None))
    found: ConsumerInfo | None = yield js.session.run(_find_consumer(js, stream, wanted, now))

    def listen(config: ConsumerConfig, created: bool) -> PushConsumer[D]:
        return PushConsumer(
            js, js.acker(config, message_class, facade), deliver_subject=config.deliver_subject or "",
            queue=wanted.queue, created=created, now=now, stream=stream, consumer=config.consumer_name or "",
            subject=wanted.subject or stream, idle_heartbeat=config.idle_heartbeat or 0.0, **asked,
        )  # fmt: skip

    if found is None:
        config = wanted.to_create(js.session.new_inbox(), wanted.name or _new_name(js))
        push = listen(config, created=True)
        try:
            info: ConsumerInfo = yield from _create(js, stream, config, now)
        except (ConsumerAlreadyExistsError, ConsumerNameExistError) as lost:  # somebody else was quicker
            push.unsubscribe(now)
            found = yield js.session.run(_find_consumer(js, stream, wanted, now))
            if found is None:
                raise
            if wanted.queue is None:
                raise DuplicateSubscriptionError(stream, found.name, "it was created at the same time") from lost
        except (Error, Abandoned):
            push.abandon(now)
            raise
        else:
            delete, shared = asked["delete_consumer"], wanted.queue is not None
            push.bound(info, owned=not shared if delete is None else delete, now=now)
            return push
    push = listen(found.config, created=False)
    push.bound(found, owned=False, now=now)
    return push


def _subscribe_ordered(
    js: Subscriptions,
    wanted: SubscriptionSpec,
    config: ConsumerConfig,
    now: float,
    asked: OrderedOptions,
    message_class: type[D],
    facade: object,
) -> Generator[Ticket[Any], Any, OrderedConsumer[D]]:
    stream = wanted.stream or (yield from find_stream(js, wanted.subject or "", now, None))
    session = js.session
    ordered = OrderedConsumer(
        session, Acker(session, session.requests, message_class, wants_acks=False, facade=facade), api=js.api,
        inbox=session.new_inbox(), config=config, timeout=js.timeout, now=now, stream=stream,
        subject=wanted.subject or stream, idle_heartbeat=config.idle_heartbeat or DEFAULT_HEARTBEAT,
        **asked,
    )  # fmt: skip
    try:
        yield ordered.ready()
    except Abandoned:
        session.run(_end_when_ready(ordered, session))
        raise
    return ordered


def _end_when_ready(ordered: OrderedConsumer[Any], session: Session) -> Generator[Ticket[Any], Any, None]:
    """End it after the answer to the creation of its consumer, which is deleted."""
    yield ordered.ready()
    ordered.unsubscribe(session.now)


def _ordered_config(wanted: SubscriptionSpec) -> ConsumerConfig:
    """What an ordered consumer delivers.

    Raises:
        LocalProtocolError: ``wanted`` sets what such a consumer settles itself.
    """
    settled = sorted(_SETTLED & wanted.given)
    if wanted.base is not None and wanted.config.ack_policy == "explicit":  # what every configuration begins with
        settled.remove("ack_policy")
    if settled:
        raise LocalProtocolError(f"an ordered consumer settles {', '.join(settled)} itself")
    if wanted.queue is not None or wanted.name is not None:
        raise LocalProtocolError("an ordered consumer has neither a queue nor a name: it is for one subscriber")
    return wanted.config.replaced({"filter_subject": wanted.subject})


def _check(wanted: object) -> None:
    """Check what a subscription is asked for by."""
    if not isinstance(wanted, SubscriptionSpec):
        raise WrongTypeError(f"wanted is a SubscriptionSpec, not {wanted!r:.100}")


def _new_name(js: Subscriptions) -> str:
    return js.session.new_inbox().rpartition(".")[2]
