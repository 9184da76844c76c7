"""The options of the verbs that consume: what each means, its default and its check (``grammar.options``).

Rules: durations are seconds or timedeltas.

Not here: the configuration of a consumer (``grammar.consumer``), which options go together (the verbs), the limits of
a buffer (``connection.message_buffer``).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Annotated, Any, Final, Literal, TypeAlias, TypedDict, get_args

from jsproto.client.connection.message_buffer import BufferOptions
from jsproto.client.consume.heartbeats import HEARTBEATS_MISSED, of_intervals
from jsproto.errors import LocalProtocolError
from jsproto.grammar.consumer import ConsumerConfig, ConsumerOptions, of_consumer_config
from jsproto.grammar.options import (
    Option,
    of_call,
    of_count,
    of_flag,
    of_range,
    of_text,
    of_time,
    of_type,
    of_words,
)
from jsproto.grammar.position import StreamPosition
from jsproto.grammar.times import Duration

LEAST: Final = 9  # the last of the priorities of a client

IfMissed: TypeAlias = Literal["tell", "error", "skip"]
"""What an ordered reading does about messages that were dropped before their turn, or a stream that is another one.

"tell" emits MessagesMissed, StreamRolledBack or StreamRecreated, and reads on. "error" ends it with
MessagesDroppedError, StreamRolledBackError or StreamRecreatedError. "skip" is "tell" without MessagesMissed: it is for
streams whose old messages may go.
"""

TermOn: TypeAlias = type[BaseException] | tuple[type[BaseException], ...]
"""Classes of exceptions, or one."""


def _of_errors(name: str, value: Any) -> tuple[type[BaseException], ...]:
    classes = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(each, type) and issubclass(each, BaseException) for each in classes):
        raise LocalProtocolError(f"{name} is a class of exceptions, or a tuple of some, not {value!r:.100}")
    return classes


def _of_workers(name: str, value: Any) -> int:
    if type(value) is not int or value < 1:
        raise LocalProtocolError(f"{name} is how many callbacks may run, 1 or more, not {value!r:.100}")
    return value


def _of_group(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise LocalProtocolError(f"{name} is the name of a priority group, which cannot be empty, not {value!r:.100}")
    return value


class PriorityOptions(TypedDict, total=False):
    """A client's place among the clients that pull from one consumer. It is for consumers with priority groups.

    Attributes:
        group: the priority group to pull in.
        min_pending: under the policy "overflow", how many messages must wait for delivery before this client gets
            any.
        min_ack_pending: under the policy "overflow", how many must wait for acknowledgements. When both are given,
            either will do.
        priority: under the policy "prioritized", 0 (the first to get messages) to 9.
    """

    group: Annotated[str | None, Option(None, _of_group)]
    min_pending: Annotated[int | None, Option(None, of_count)]
    min_ack_pending: Annotated[int | None, Option(None, of_count)]
    priority: Annotated[int | None, Option(None, of_range(0, LEAST))]


class SilenceOptions(TypedDict, total=False):
    """When a consumer counts as silent.

    Attributes:
        heartbeats_missed: after how many intervals without a heartbeat the event ConsumerSilent reports it.
    """

    heartbeats_missed: Annotated[float, Option(HEARTBEATS_MISSED, of_intervals)]


class DeliveryOptions(BufferOptions, SilenceOptions, total=False):
    """What every consumer's subscriber can be told."""


class PullSubscribeOptions(PriorityOptions, SilenceOptions, ConsumerOptions, total=False):
    """``pull_subscribe``, with the fields of the consumer's configuration."""


class PullBindOptions(PriorityOptions, SilenceOptions, total=False):
    """``pull_subscribe_bind``."""


class FetchOptions(TypedDict, total=False):
    """What a fetch asks for, besides a number of messages.

    Attributes:
        max_bytes: the most bytes of the messages together. None: no limit.
        heartbeat: the interval of the server's idle heartbeats, in seconds or as a timedelta. None: 5 s for a fetch
            of 10 s or more, else no heartbeats. 0: no heartbeats.
    """

    max_bytes: Annotated[int | None, Option(None, of_count)]
    heartbeat: Annotated[Duration | None, Option(None, of_time)]


class PrefetchOptions(TypedDict, total=False):
    """How much a stream of messages asks for.

    Attributes:
        max_msgs: messages that may be buffered or requested. None: 500, and for callbacks four for each that may run,
            but 16 at least. Not together with ``max_bytes``.
        max_bytes: bytes that may be buffered or requested.
        threshold: the level for the next request. None: half of ``max_msgs`` or ``max_bytes``.
        expires: how long one request waits at the server, in seconds or as a timedelta. None: 30 s.
        heartbeat: the interval of the server's idle heartbeats, in seconds or as a timedelta. None: 5 s, or half of
            ``expires``. 0: no heartbeats, and a request that was lost is made again a second after it must have
            expired.
    """

    max_msgs: Annotated[int | None, Option(None, of_count)]
    max_bytes: Annotated[int | None, Option(None, of_count)]
    threshold: Annotated[int | None, Option(None, of_range(0, 2**63))]
    expires: Annotated[Duration | None, Option(None, of_time)]
    heartbeat: Annotated[Duration | None, Option(None, of_time)]


class ConsumeOptions(PrefetchOptions, total=False):
    """How callbacks work on messages as they come.

    Attributes:
        concurrency: how many callbacks may run at once.
        key: called with a message, returns its key. Messages of one key are worked on one after the other, in the
            order of the stream. When one of them is to come again, those after it wait for it. It only looks at
            the message, since the connection waits meanwhile. None: no order.
        retry_delay: seconds, or a timedelta, until a message comes again whose callback raised. None: the
            consumer's ``backoff`` for that delivery, or a second.
        term_on: classes of exceptions after which the message does not come again (term). The name of the class and
            the text of the exception are the reason in the server's advisory.
        working: report work in progress while a message is worked on or waits for its key, so that it does not come
            again after ``ack_wait``.
    """

    concurrency: Annotated[int, Option(1, _of_workers)]
    key: Annotated[Callable[[Any], Hashable] | None, Option(None, of_call)]
    retry_delay: Annotated[Duration | None, Option(None, of_time)]
    term_on: Annotated[TermOn, Option((), _of_errors)]
    working: Annotated[bool, Option(False, of_flag)]


class BindingOptions(TypedDict, total=False):
    """How a push consumer is bound to.

    Attributes:
        delete_consumer: whether the end of the subscription deletes a consumer that it created. None: unless it is
            for a queue group.
        raw: give out heartbeats, flow control and other statuses as messages, and do not react to them.
    """

    delete_consumer: Annotated[bool | None, Option(None, of_flag)]
    raw: Annotated[bool, Option(False, of_flag)]


class MissingOptions(TypedDict, total=False):
    """What an ordered consumer does about what is missing.

    Attributes:
        if_missed: what an ordered subscription does when limits took messages before their turn, or the stream is
            another one. "tell" reads on after the event MessagesMissed, StreamRolledBack or StreamRecreated.
            "error" ends with MessagesDroppedError, StreamRolledBackError or StreamRecreatedError. "skip" is "tell"
            without MessagesMissed.
    """

    if_missed: Annotated[IfMissed, Option("tell", of_words(*get_args(IfMissed)))]


class PushOptions(DeliveryOptions, BindingOptions, total=False):
    """A subscription to a push consumer."""


class OrderedOptions(DeliveryOptions, MissingOptions, total=False):
    """An ordered reading."""


class SubscriptionOptions(DeliveryOptions, BindingOptions, MissingOptions, total=False):
    """A subscription of either kind."""


class SubscribeOptions(SubscriptionOptions, ConsumerOptions, total=False):
    """``subscribe``, with the fields of the consumer's configuration."""


class SourceOptions(BufferOptions, total=False):
    """How a consumer is sourced.

    Attributes:
        config: the configuration to create it with, if it is not there. None: it must be there.
        position: up to where the sink has stored all, as ``position_of`` the last message. 0: nothing. With a
            sequence alone a stream that came back shorter is noticed only until it has grown beyond.
        identity: that of the stream which the sink knows, beside a sequence alone. Of another stream all is copied
            from its beginning.
    """

    config: Annotated[ConsumerConfig | None, Option(None, of_consumer_config)]
    position: Annotated[int | StreamPosition, Option(0, of_type((int, StreamPosition), "a StreamPosition or an int"))]
    identity: Annotated[str | None, Option(None, of_text)]
