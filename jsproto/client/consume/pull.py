"""Pulling from a consumer: fetches that end by themselves, and a stream of messages that asks for more (ADR-15).

One subscription receives everything. Each pull request has a reply subject of its own, which a status names.

Rules:

* A consumer has fetches or a stream of messages, one kind at a time.
* What comes after its fetch has gone is kept in the buffer. The next fetch, or stream, takes it from there.
* Unrequested messages are kept as long as the buffer has room.
* A lost link ends requests alone: fetches and the stream go on. What is missing is asked for again on the new link.
* Where a request stays unanswered, the caller is asked to check that the consumer exists.

Facts (FACTS.md F5.7):

* A server is silent about a full ``max_ack_pending``. So a fetch that takes what is there ends after ``patience``
  seconds.
* A server forgets a request with the last listener to its reply subject.
* A partial request that takes what is there ends with 404.

Where to look:

* one fetch and its retries: ``fetch``
* all fetches of a consumer: ``fetch_queue``
* the stream of messages: ``message_stream``
* how much it asks for: ``prefetch``
* requests under way: ``pull_requests``
* missed heartbeats: ``heartbeats``
* pauses between attempts: ``retry``

Not here: which consumer (``subscribe``), acknowledgements (``message``), push consumers (``push``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar, Unpack

from jsproto.client.connection.message_buffer import MessageBuffer, size_of
from jsproto.client.connection.subscription import Drainable
from jsproto.client.consume.consume_options import DeliveryOptions, FetchOptions, PrefetchOptions
from jsproto.client.consume.fetch import Fetch
from jsproto.client.consume.fetch_queue import FetchQueue
from jsproto.client.consume.heartbeats import SilenceWatch
from jsproto.client.consume.message import Acker, ConsumerMsg, is_ack_of
from jsproto.client.consume.message_stream import MessageStream
from jsproto.client.consume.prefetch import BATCH_BY_BYTES, Limits, Prefetch
from jsproto.client.consume.pull_requests import PullRequests
from jsproto.errors import (
    ConnectionClosedError,
    ConsumerSilentError,
    Error,
    LocalProtocolError,
    NoRespondersError,
    PermissionsViolationError,
    RemoteProtocolError,
    TimeoutError,
)
from jsproto.events import ConsumerSilent, SlowConsumer, UnexpectedMessage
from jsproto.grammar.jsack import ACK_PREFIX
from jsproto.grammar.options import checked, explained
from jsproto.outbox import Outbox, bulk
from jsproto.rules.status import CONTROL, read_status
from jsproto.ticket import Ticket
from jsproto.timers import Timer, Timers
from jsproto.wire.frames import Msg, RawMsg

D = TypeVar("D", bound=ConsumerMsg)

_STREAMS: Final = "streams messages already: close() what messages() returned, or use another subscription"
_DIFFERS: Final = "streams messages already, with other bounds or times: all that share it must want the same"


class PullConsumer(Drainable, Generic[D]):
    """A consumer that is pulled from, by fetches or (``start``) as a stream of messages.

    Example:

        info = wait(js.create_consumer("ORDERS", ConsumerConfig(durable_name="bar"), now=now()))
        pull = js.pull_consumer(info, JSMsg)
        fetch = pull.fetch(5, now=now(), expires=2.0)
        wait(fetch.done)
        for order in pull.take(fetch):
            wait(order.ack_sync(now=now(), timeout=2.0))

    Attributes:

    * ``stream`` and ``consumer``: their names.
    * ``error``: why it ended, None while it lives.
    * ``dropped``: how many unrequested messages found a full buffer.
    * ``acker``: makes and acknowledges the messages.

    ``now`` is monotonic seconds in every method.
    """

    __slots__ = (
        "_api",
        "_buffer",
        "_check_consumer",
        "_fetches",
        "_full",
        "_is_awaited",
        "_is_checking",
        "_limits",
        "_link_error",
        "_outbox",
        "_pins",
        "_requests",
        "_sid",
        "_stream",
        "_timers",
        "_watch",
        "acker",
        "consumer",
        "dropped",
        "error",
        "stream",
    )  # fmt: skip

    def __init__(
        self,
        outbox: Outbox,
        acker: Acker[D],
        stream: str,
        consumer: str,
        *,
        api_subject: str,
        inbox: str,
        max_batch: int | None = None,
        max_expires: float | None = None,
        max_request_bytes: int | None = None,
        options: Mapping[str, Any] | None = None,
        pins: bool = False,
        check_consumer: Callable[[PullConsumer[D], float], object] | None = None,
        **delivery: Unpack[DeliveryOptions],
    ) -> None:
        """Pull from ``consumer`` of ``stream``, with requests to ``api_subject``.

        ``inbox``: a subject of its own. ``max_batch`` (messages), ``max_expires`` (seconds) and ``max_request_bytes``:
        the consumer's limits for one request, which the stream of messages keeps to. ``options``: further fields of the
        requests, such as ``group``. ``pins``: the consumer pins clients, and says their ids in its messages.
        ``check_consumer``: called with this object and the time when a request stays unanswered. Then call
        ``consumer_checked``. The limits of ``delivery`` bound the unrequested messages.

        Raises:
            LocalProtocolError: a value of ``delivery`` cannot be.
        """
        asked = checked(DeliveryOptions, delivery)
        self._buffer = MessageBuffer(asked["pending_msgs_limit"], asked["pending_bytes_limit"])
        self.stream = stream
        self.consumer = consumer
        self.acker = acker
        self.error: Error | None = None
        self._is_awaited = False
        self.dropped = 0
        self._outbox = bulk(outbox)
        self._api = api_subject
        self._limits = Limits(max_batch or BATCH_BY_BYTES, max_expires or float("inf"), max_request_bytes or 0)
        self._pins = pins
        self._check_consumer = check_consumer
        self._is_checking = False
        self._full = False  # and that was reported
        self._link_error: Error | None = None  # why the last link was lost
        self._timers = Timers()
        self._watch = SilenceWatch(self._timers)
        self._requests = PullRequests(
            outbox, self._watch, api_subject=api_subject, inbox=inbox, options=options or {},
            heartbeats_missed=asked["heartbeats_missed"],
        )  # fmt: skip
        self._fetches = FetchQueue(outbox, self._requests, self._timers)
        self._stream = MessageStream(outbox, self._requests, self._buffer, self._timers)
        self._sid = outbox.subscribe(self._requests.new_inbox(), self)

    @property
    def pending_msgs(self) -> int:
        """Messages in the buffer."""
        return len(self._buffer)

    @property
    def pending_bytes(self) -> int:
        """Bytes in the buffer: payloads and header blocks."""
        return self._buffer.size

    @property
    def under_way(self) -> int:
        """Messages that were asked for and may still come."""
        return self._requests.msgs

    # -- fetches -------------------------------------------------------------------------------------------------------

    @explained(FetchOptions)
    def fetch(
        self,
        batch: int = 1,
        *,
        now: float,
        expires: float,
        **options: Unpack[FetchOptions],
    ) -> Fetch:
        """Ask for up to ``batch`` messages. It is done when they are there or time is over: ``take`` its messages.

        ``expires``: seconds that the server waits for messages. If nothing has come, the ticket fails as the drivers'
        verb does.

        Raises:
            LocalProtocolError: a value is out of range, or the stream of messages is on.
            OutboundBufferLimitError: the outbox has no room. Nothing is changed.
            Error: why this consumer ended, if it has.
        """
        return self._begin(Fetch.waiting(batch, expires, now, options), now)

    def fetch_no_wait(self, batch: int = 1, *, now: float, patience: float, max_bytes: int | None = None) -> Fetch:
        """Ask for up to ``batch`` messages that are there already. It raises and fails with the same as ``fetch``.

        ``patience``: seconds after which it is done with what has come. The server does not answer while the consumer's
        ``max_ack_pending`` is reached. ``max_bytes``: None for any number.
        """
        return self._begin(Fetch.immediate(batch, max_bytes, patience, now), now)

    def take(self, fetch: Fetch) -> list[D]:
        """The messages of a fetch that is done. A second call returns an empty list."""
        return self.acker.messages(fetch.take())

    def give_back(self, fetch: Fetch, now: float) -> None:
        """The caller has stopped waiting for ``fetch``: what it has, and what still comes, is for the next one."""
        self._buffer.put_back(fetch.take())
        if not fetch.done.done:
            fetch.done.fail(LocalProtocolError("the fetch was given up"))
            self._fetches.remove(fetch)
            self._outbox.rearm(self)
        self._fetches.fill_first(self._buffer)

    def _begin(self, fetch: Fetch, now: float) -> Fetch:
        """Give ``fetch`` what is buffered, and ask for the rest."""
        buffer = self._buffer
        if self._stream.prefetch is not None:
            raise LocalProtocolError(f"this subscription {_STREAMS}")
        if buffer:
            complete = fetch.add_from(buffer)
            if complete or (buffer and fetch.raws) or self.error is not None:
                fetch.done.succeed(None)
                return fetch
        else:
            self._raise_error()
        try:
            self._fetches.append(fetch, now)
        except LocalProtocolError:
            buffer.put_back(fetch.take())
            raise
        self._outbox.rearm(self)
        return fetch

    def _raise_error(self) -> None:
        if self.error is not None:
            self._is_awaited = False
            raise self.error.with_traceback(None)

    # -- the stream of messages ----------------------------------------------------------------------------------------

    @explained(PrefetchOptions)
    def start(
        self,
        *,
        now: float,
        **options: Unpack[PrefetchOptions],
    ) -> int:
        """Keep the buffer filled, for ``pop_many``. Returns a number, for ``stop``.

        A caller that starts a stream of messages that is on shares it.

        Raises:
            LocalProtocolError: a value is out of range, or differs from those of the stream that is on.
            LocalProtocolError: a fetch is under way.
            Error: why this consumer ended, if it has.
        """
        prefetch = Prefetch(checked(PrefetchOptions, options), self._limits)
        current = self._stream.prefetch
        if current is not None and prefetch.settings != current.settings:
            raise LocalProtocolError(f"this subscription {_DIFFERS}")
        if self._fetches:
            raise LocalProtocolError("a fetch is under way: wait for it, or use another subscription")
        self._raise_error()
        started = self._stream.join(prefetch, now)
        self._outbox.rearm(self)
        return started

    def stop(self, now: float, started: int | None = None) -> bool:
        """Stop asking, unless others share the stream of messages. True if it was the last one.

        What is buffered or still comes then is for the next fetch or ``start``. ``started``: what ``start`` returned to
        the caller that leaves. None is for all.
        """
        if not self._stream.leave(started):
            return False
        if self._stream.prefetch is not None:
            self._end_stream(ConnectionClosedError("the stream of messages was stopped"))
        return True

    def pop_many(self, most: int, now: float) -> list[D]:
        """Take up to ``most`` buffered messages, oldest first. The stream asks for more when few are left."""
        raws = self._buffer.take(most)
        self._full = False
        if raws and self._stream.request_more(now):
            self._outbox.rearm(self)
        return self.acker.messages(raws)

    def put_back(self, messages: Sequence[ConsumerMsg]) -> None:
        """Give back ``messages`` that were taken and left unseen. They are the next to be taken."""
        self._buffer.put_back([message._raw for message in messages])

    def readable(self) -> Ticket[None]:
        """Completed when a message can be taken.

        The ticket fails with:
            Error: why the stream of messages, or this consumer, ended. No message will come.
        """
        return self._stream.readable()

    def wake_readers(self) -> None:
        """Complete the pending ticket of ``readable``: who waits for it has something else to do."""
        self._stream.readers.notify()

    @property
    def is_streaming(self) -> bool:
        """Whether the stream of messages is on."""
        return self._stream.prefetch is not None

    @property
    def is_linked(self) -> bool:
        """Whether requests can be sent."""
        return self._requests.linked

    # -- the end -------------------------------------------------------------------------------------------------------

    def unsubscribe(self, now: float) -> None:
        """End it at once. What is buffered is dropped, and the server delivers it again."""
        self._outbox.unsubscribe(self._sid)
        self._buffer.clear()
        self._end(ConnectionClosedError("the subscription was closed"))

    def abandon(self, now: float) -> None:
        self.unsubscribe(now)

    @property
    def is_awaited(self) -> bool:
        """Whether a fetch was under way when the drain began, and its caller has yet to ask again."""
        return self._is_awaited

    def end_interest(self) -> None:
        """First half of a drain: the server is to stop sending."""
        self._outbox.end_interest(self._sid)
        self._stream.prefetch = None
        self._is_awaited = bool(self._fetches)

    def renew_interest(self, now: float) -> None:
        """After ``end_interest``: nothing more comes of what was asked for, and the consumer can be asked again.

        What is buffered stays. After the end it is ignored.
        """
        if self.error is None:
            self._renew_inbox()
            self._end_stream(ConnectionClosedError("the stream of messages was stopped"))

    def end_drain(self, now: float, closing: bool) -> None:
        """Second half of a drain: all has come. What is buffered can still be taken."""
        self._outbox.unsubscribe(self._sid)
        self._end(ConnectionClosedError("the subscription was drained"))

    @property
    def sid(self) -> int:
        """The id of its subscription."""
        return self._sid

    # -- inputs --------------------------------------------------------------------------------------------------------

    def receive(self, message: Msg, now: float) -> None:
        """A message of the stream, or a status."""
        reply = message.reply
        if reply is None or not reply.startswith(ACK_PREFIX):
            self._receive_status(message, now)
            return
        self._watch.heard_at = now
        if self._pins and self._requests.learn_pin(message.header):
            self._fetches.pinned(now)
            self._outbox.rearm(self)
        size = len(message.payload) + len(message.header or b"")
        if self._requests.msgs or self._fetches.first is not None or self._has_room(size):
            self._keep(((message.subject, reply, message.header, message.payload),), size)

    def receive_many(self, raws: Sequence[RawMsg], size: int, now: float) -> int:
        """Messages of the stream: as many as were asked for, and as the first fetch wants.

        All rules are applied to a run of messages at once: the sums of the ledger, the buffer and the fetch change once
        for the run. A run that ends a fetch leaves the next one alone: the rest comes in another call. Messages of a
        consumer that pins clients go one by one through ``receive``, because each may say another id.

        Benchmark rows: ``fetch-ack``, ``fetch-ack-mixed``.
        """
        first = self._fetches.first
        count = min(len(raws), self._requests.msgs)
        if first is not None:
            count = min(count, first.missing)
        if not count or self._pins:
            return 0
        self._watch.heard_at = now
        if count < len(raws):
            raws = raws[:count]
            size = size_of(raws)
        self._keep(raws, size)
        return count

    def _keep(self, raws: Sequence[RawMsg], size: int) -> None:
        """Keep these messages of ``size`` bytes: no more than the first fetch misses, nor than are under way.

        A single message may be more than is under way.
        """
        self._requests.served(raws)
        first = self._fetches.first
        if first is not None:
            if first.add(raws):
                self._fetches.finish(first)  # not rearmed: one early wake-up is cheaper than a look at each deadline
            return
        self._buffer.add(raws, size)
        self._stream.readers.notify()

    def handle_timeout(self, now: float) -> None:
        """Time has passed."""
        for timer in self._timers.expired(now):
            if timer is Timer.PULL_AGAIN:
                self._request_missing(now)
            elif timer is Timer.PULL_OVERDUE:
                self._stream.request_lost(now)
            else:
                self._check_silence(now)
        for fetch in [fetch for fetch in self._fetches if fetch.ends_at <= now]:
            self._time_out(fetch)
        self._outbox.rearm(self)

    def deadline(self) -> float | None:
        """When ``handle_timeout`` wants to be called, in monotonic seconds. None: its timers are at rest."""
        ends = [fetch.ends_at for fetch in self._fetches]
        timer = self._timers.next()
        return min(ends if timer is None else [timer, *ends], default=None)

    def consumer_checked(self, error: Error | None) -> None:
        """The answer to ``check_consumer``. ``error``: the consumer is gone. None: it is there, or that is unknown."""
        self._is_checking = False
        if error is not None:
            self._fetches.end_all(error)
            if self._stream.prefetch is not None:
                self._stream.end(error)
            self._outbox.rearm(self)

    def denied(self, violation: PermissionsViolationError, now: float) -> None:
        """Requests are forbidden, which ends what waits for messages, or receiving and acknowledging are."""
        if violation.operation == "subscribe" or is_ack_of(violation.subject, self.stream, self.consumer):
            self._outbox.unsubscribe(self._sid)
            self._end(violation)
        elif violation.subject == self._api:
            self._requests.clear()
            self._fetches.end_all(violation)
            if self._stream.prefetch is not None:
                self._stream.end(violation)
            self._outbox.rearm(self)

    def crashed(self, error: Error, now: float) -> None:
        """It ends with ``error``."""
        self._end(error)

    def link_lost(self, error: Error, now: float) -> None:
        """The requests are lost. What is missing is asked for on a new link, unless the session has ended."""
        self._link_error = error
        self._requests.linked = False
        self._requests.clear()
        self._timers.clear()
        self._fetches.link_lost()
        if self._outbox.closed_error is not None:
            self._end(error)
        self._outbox.rearm(self)

    def link_restored(self, now: float) -> None:
        """Ask for what is missing."""
        self._requests.linked = True
        self._request_missing(now)
        self._outbox.rearm(self)

    # -- what follows --------------------------------------------------------------------------------------------------

    def _request_missing(self, now: float) -> None:
        self._fetches.request_missing(now)
        self._stream.request_more(now)

    def _receive_status(self, message: Msg, now: float) -> None:
        """A heartbeat, or the end of a request."""
        try:
            status = None if message.header is None else read_status(message.header, self._api)
        except RemoteProtocolError as error:
            self._ignore(message, str(error))
            return
        if status is None:
            self._ignore(message, "it was not delivered by a consumer: it has no ack reply subject")
            return
        self._watch.heard_at = now
        if status.code == CONTROL:
            return
        request = self._requests.ended(message.subject, status)
        if request is None:
            return
        if request.fetch is None:
            is_retried = self._stream.request_ended(request, status, now)
        else:
            is_retried = self._fetches.request_ended(request.fetch, request, status, now)
            self._stream.request_more(now)  # the request of a fetch that was given up may have been in its way
        self._outbox.rearm(self)
        if is_retried and type(status.error) is NoRespondersError:
            self._ask_to_check(now)

    def _ask_to_check(self, now: float) -> None:
        """A request found no responder: the leader is missing now, or the consumer is."""
        if self._check_consumer is not None and not self._is_checking:
            self._is_checking = True
            self._check_consumer(self, now)

    def _has_room(self, size: int) -> bool:
        """Whether an unrequested message of ``size`` bytes may stay."""
        if self._buffer.has_room(1, size):
            return True
        self.dropped += 1
        if not self._full:
            self._full = True
            self._outbox.emit(SlowConsumer(self._api, self.dropped))
        return False

    def _ignore(self, message: Msg, reason: str) -> None:
        self._outbox.emit(UnexpectedMessage(message.subject.decode("utf-8", "replace"), reason))

    def _check_silence(self, now: float) -> None:
        """Look whether a heartbeat, or anything else, has come in time."""
        patience = (self._stream.heartbeat or self._fetches.heartbeat) * self._requests.heartbeats_missed
        if not patience or not self._watch.is_silent(now, patience):
            return
        if self._watch.is_new_silence():
            self._outbox.emit(ConsumerSilent(self.stream, self.consumer, patience))
        if self._stream.prefetch is not None:
            self._stream.silent(now)
        else:
            self._watch.stop()
            silent = f"consumer {self.consumer} of stream {self.stream} sent nothing for {patience:g} s"
            self._fetches.silent(ConsumerSilentError(silent))

    def _time_out(self, fetch: Fetch) -> None:
        """The server left a request unanswered beyond its time."""
        if not self._requests.linked and self._link_error is not None:
            self._fetches.end(fetch, self._link_error)
        elif not fetch.no_wait:
            silent = TimeoutError(f"{self._api} did not answer by the end of the fetch")
            self._fetches.end(fetch, fetch.refusal or silent)
        else:
            is_alone = len(self._fetches) == 1 and fetch.reply is not None
            self._fetches.finish(fetch)
            if is_alone:  # a consumer with too much unacknowledged: it would keep the request for ever
                self._renew_inbox()

    def _renew_inbox(self) -> None:
        """The server forgets the requests of a deserted inbox."""
        self._outbox.unsubscribe(self._sid)
        self._sid = self._outbox.subscribe(self._requests.new_inbox(), self)

    def _end(self, error: Error) -> None:
        """The last message has come."""
        if self.error is None:
            self.error = error
            if self._fetches:  # one that has nothing ends with the error
                self._is_awaited = self._is_awaited and any(fetch.raws for fetch in self._fetches)
            self._fetches.end_all(error)
            self._end_stream(error)

    def _end_stream(self, error: Error) -> None:
        self._stream.end(error)
        self._outbox.rearm(self)
