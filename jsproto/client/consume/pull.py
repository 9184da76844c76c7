"""Pulling from a consumer: fetches that end by themselves, and a stream of messages that refills itself (ADR-15).

One subscription receives everything; each pull request has a reply subject of its own below it, so that a status
belongs to exactly one request. What a request brings may come after whoever wanted it has gone: nothing is lost then,
the next one takes it from the buffer. Servers serve several requests in turn, so only their sum is counted; what a
status says was not served is taken off it, and a ledger that has nothing left to come is empty.

Rules: every fetch ends: by its last message, by a status, by an error, by silence. A fetch that got something returns
it; the error comes with the next one. An empty fetch is no error. A lost link ends requests but no fetch: what is
missing is asked for again on the new one. The stream of messages asks for more when what is buffered or under way has
fallen to the threshold, never for more than fits, and never by polling. Several may share the stream of messages: it
ends with the last of them. A request that has not ended by its time was lost, and is made again. Where nobody answers,
whoever made this is asked to look whether the consumer is there still.

Server facts (section 5): nothing is said of a full ``max_ack_pending``, so a request that would not wait is given up
after ``patience``, and forgotten by the server because nobody listens to its inbox any more. A partial request that
would not wait ends with 404.

Not here: which consumer (``subscribe``), acknowledgements (``message``), push consumers (``push``), how much a
stream of messages asks for (``prefetch``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, Generic, TypeVar

from jsproto.client.connection.message_buffer import MessageBuffer, size_of
from jsproto.client.connection.subscription import DEFAULT_PENDING_BYTES, DEFAULT_PENDING_MSGS, Drainable
from jsproto.client.consume.heartbeats import DEFAULT_HEARTBEAT, HEARTBEATS_MISSED
from jsproto.client.consume.message import Acker, ConsumerMsg
from jsproto.client.consume.prefetch import (
    BATCH_BY_BYTES,
    DEFAULT_EXPIRES,
    RETRY_FIRST,
    RETRY_MOST,
    Limits,
    Prefetch,
)
from jsproto.errors import (
    ConnectionClosedError,
    ConsumerSilentError,
    Error,
    LocalProtocolError,
    MessageSizeError,
    NoRespondersError,
    OutboundBufferLimitError,
    PinnedError,
    RemoteProtocolError,
    TimeoutError,
)
from jsproto.events import ConsumerSilent, SlowConsumer, UnexpectedMessage
from jsproto.grammar.bodies import dumps
from jsproto.grammar.headers import last_value
from jsproto.grammar.jsack import ACK_PREFIX
from jsproto.grammar.times import MAX_SECONDS, nanoseconds
from jsproto.outbox import Outbox, bulk
from jsproto.rules.status import CONTROL, ConsumerStatus, Meaning, read_status
from jsproto.ticket import Ticket
from jsproto.timers import Timer, Timers
from jsproto.wire.frames import Msg, RawMsg

D = TypeVar("D", bound=ConsumerMsg)

ANSWER_GRACE: Final = 1.0  # seconds after its expiry until a request counts as not answered at all
HEARTBEAT_FROM: Final = 10.0  # seconds; requests that wait as long ask for heartbeats by themselves
MAX_REQUESTS: Final = 512  # kept in the ledger; nats-server's default for waiting requests
_STREAMS: Final = "streams messages already: close() what messages() returned, or use another subscription"
_DIFFERS: Final = "streams messages already, with other bounds or times: all that share it must want the same"


class Fetch:
    """One fetch. ``done`` completes when it is time to ``PullConsumer.take`` its messages, or fails."""

    __slots__ = (
        "_again", "_batch", "_expires_at", "_heartbeat", "_max_bytes", "_no_wait", "_raws", "_refused", "_reply",
        "_until", "done",
    )  # fmt: skip

    def __init__(
        self, batch: int, max_bytes: int | None, heartbeat: float, no_wait: bool, expires_at: float, until: float
    ) -> None:
        self.done: Ticket[None] = Ticket()
        self._batch = batch
        self._max_bytes = max_bytes
        self._heartbeat = heartbeat
        self._no_wait = no_wait
        self._expires_at = expires_at
        self._until = until
        self._raws: list[RawMsg] = []
        self._reply: bytes | None = None  # of its request; None while it has none
        self._refused: Error | None = None  # why its last request ended, if another may be served
        self._again = RETRY_FIRST

    @property
    def room(self) -> int | None:
        """Bytes that may still come; None when they do not count."""
        return None if self._max_bytes is None else self._max_bytes - _wire_size(self._raws)

    @property
    def ends_at(self) -> float:
        """When it ends by itself: an answer is waited for a little longer."""
        return self._expires_at if self._reply is None else self._until


class _Request:
    """A pull request in the ledger: how much it asked for, who wanted it (None: the stream of messages)."""

    __slots__ = ("batch", "expires_at", "fetch", "max_bytes", "pin")

    def __init__(self, batch: int, max_bytes: int, expires_at: float, fetch: Fetch | None) -> None:
        self.batch = batch
        self.max_bytes = max_bytes
        self.expires_at = expires_at
        self.fetch = fetch
        self.pin: bytes | None = None  # the id that it says


class PullConsumer(Drainable, Generic[D]):
    """A consumer that is pulled from, by fetches or (``start``) as a stream of messages.

    Attributes: ``stream`` and ``consumer``, their names; ``error`` (why it ended, None while it lives);
    ``dropped`` (messages nobody asked for that found no room); ``acker`` (makes and acknowledges the messages).
    """

    __slots__ = (
        "_alarmed_at", "_api", "_asked_bytes", "_asked_msgs", "_buffer", "_fetches", "_first", "_full", "_heard_at",
        "_inbox", "_inboxes", "_ledger", "_limits", "_linked", "_look", "_looking", "_lost", "_missed", "_options",
        "_outbox", "_pin", "_pins", "_readable", "_refill", "_requests", "_sharers", "_sid", "_starts", "_stopped",
        "_timers", "acker", "consumer", "dropped", "error", "stream",
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
        heartbeats_missed: float = HEARTBEATS_MISSED,
        look: Callable[[PullConsumer[D], float], object] | None = None,
        pending_msgs_limit: int = DEFAULT_PENDING_MSGS,
        pending_bytes_limit: int = DEFAULT_PENDING_BYTES,
    ) -> None:
        """Pull from ``consumer`` of ``stream`` by asking ``api_subject``.

        ``max_batch``, ``max_expires`` (seconds) and ``max_request_bytes`` are the consumer's limits, which the stream
        of messages respects by itself. ``options``: further fields of the requests, such as ``group``. ``pins``: the
        consumer pins clients, and tells them in its messages. ``heartbeats_missed``: how many intervals of silence are
        an alarm. ``look``: called, with the time, when nobody answers, and to be followed by ``looked``. The limits
        bound what comes unasked.
        """
        self._buffer = MessageBuffer(pending_msgs_limit, pending_bytes_limit)  # what is in there, nobody asked for
        if not heartbeats_missed > 0:
            raise LocalProtocolError(f"heartbeats_missed must be greater than 0, not {heartbeats_missed!r}")
        self.stream = stream
        self.consumer = consumer
        self.acker = acker
        self.error: Error | None = None
        self.dropped = 0
        self._outbox = bulk(outbox)
        self._api = api_subject
        self._inbox = inbox
        self._inboxes = 0
        self._limits = Limits(max_batch or BATCH_BY_BYTES, max_expires or float("inf"), max_request_bytes or 0)
        self._options = dict(options or {})
        self._pins = pins
        self._pin: bytes | None = None
        self._missed = heartbeats_missed
        self._look = look
        self._looking = False
        self._full = False
        self._ledger: dict[bytes, _Request] = {}
        self._requests = 0
        self._asked_msgs = 0  # by all requests of the ledger, what has come taken off
        self._asked_bytes = 0
        self._fetches: deque[Fetch] = deque()
        self._first: Fetch | None = None  # the one that what comes is for
        self._refill: Prefetch | None = None
        self._starts = 0
        self._sharers: set[int] = set()  # of the stream of messages, by what ``start`` returned
        self._linked = True
        self._lost: Error | None = None
        self._stopped: Error | None = None  # why the stream of messages ended
        self._heard_at = 0.0
        self._alarmed_at = -1.0
        self._timers = Timers()
        self._readable: Ticket[None] | None = None
        self._sid = self._listen()

    @property
    def pending_msgs(self) -> int:
        """Messages in the buffer."""
        return len(self._buffer)

    @property
    def pending_bytes(self) -> int:
        """Bytes in the buffer."""
        return self._buffer.size

    @property
    def under_way(self) -> int:
        """Messages that were asked for and may still come."""
        return self._asked_msgs

    # -- fetches -------------------------------------------------------------------------------------------------------

    def fetch(
        self,
        batch: int = 1,
        *,
        now: float,
        expires: float,
        max_bytes: int | None = None,
        heartbeat: float | None = None,
    ) -> Fetch:
        """Ask for up to ``batch`` messages and ``max_bytes`` bytes; it is done when they are there or time is over.

        ``expires``: seconds that the server waits for messages. ``heartbeat``: seconds between its signs of life; by
        itself 5 where it waits 10 or more; 0 for none. LocalProtocolError for values that cannot be, or while the
        stream of messages is on. OutboundBufferLimitError with nothing changed.

        The ticket fails with what the server says (``errors.ConflictError`` and kin, BadPullError, NoRespondersError),
        ConsumerSilentError, TimeoutError (no answer at all), or why the link ended, if nothing has come.
        """
        if not 0 < expires <= MAX_SECONDS:
            raise LocalProtocolError(f"a fetch must expire after some seconds, not {expires!r}")
        beat = (DEFAULT_HEARTBEAT if expires >= HEARTBEAT_FROM else 0.0) if heartbeat is None else heartbeat
        if not 0 <= beat <= expires / 2:
            raise LocalProtocolError(f"heartbeats must come twice in {expires:g} s at least, not each {heartbeat!r}")
        self._check_fetch(batch, max_bytes)
        ends_at = now + expires
        return self._start(Fetch(batch, max_bytes, beat, False, ends_at, ends_at + ANSWER_GRACE), now)

    def fetch_no_wait(self, batch: int = 1, *, now: float, patience: float, max_bytes: int | None = None) -> Fetch:
        """The same for messages that are there already.

        ``patience``: seconds after which it is done with what has come, because the server says nothing while the
        consumer's ``max_ack_pending`` is reached.
        """
        self._check_fetch(batch, max_bytes)
        if not patience > 0:
            raise LocalProtocolError(f"patience must be greater than 0, not {patience!r}")
        ends_at = now + patience
        return self._start(Fetch(batch, max_bytes, 0.0, True, ends_at, ends_at), now)

    def take(self, fetch: Fetch) -> list[D]:
        """The messages of a fetch that is done; once."""
        raws, fetch._raws = fetch._raws, []
        return self.acker.messages(raws)

    def give_back(self, fetch: Fetch, now: float) -> None:
        """Nobody waits for this fetch any more: what it has, and what still comes for it, is for the next one."""
        raws, fetch._raws = fetch._raws, []
        self._buffer.put_back(raws)
        if not fetch.done.done:
            fetch.done.fail(LocalProtocolError("the fetch was given up"))
            self._remove(fetch)
            self._outbox.rearm(self)
        while self._buffer and (first := self._first) is not None:
            self._move(first)
            if len(first._raws) < first._batch:
                break
            self._finish(first)

    # -- the stream of messages ----------------------------------------------------------------------------------------

    def start(
        self,
        *,
        now: float,
        max_msgs: int | None = None,
        max_bytes: int | None = None,
        threshold: int | None = None,
        expires: float = DEFAULT_EXPIRES,
        heartbeat: float | None = None,
    ) -> int:
        """Keep the buffer filled, for ``pop_many``. Returns a number, for ``stop``.

        ``max_msgs`` (500) or ``max_bytes``, not both, bound what is buffered and under way together; more is asked for
        when that has fallen to ``threshold``, half of it unless given. ``expires`` and ``heartbeat`` as of ``fetch``.
        Who starts a stream of messages that is on already shares it. LocalProtocolError for values that cannot be, for
        others than those of the stream that is on, or while a fetch is under way.
        """
        refill = Prefetch(max_msgs, max_bytes, threshold, expires, heartbeat, self._limits)
        if self._refill is not None and refill.settings != self._refill.settings:
            raise LocalProtocolError(f"this subscription {_DIFFERS}")
        if self._fetches:
            raise LocalProtocolError("a fetch is under way: wait for it, or use another subscription")
        self._raise_error()
        self._starts += 1
        self._sharers.add(self._starts)
        if self._refill is not None:
            return self._starts
        self._stopped = None
        self._refill = refill
        self._fill(now)
        if (
            refill.heartbeat and self._asked_msgs and Timer.HEARTBEAT not in self._timers
        ):  # by fetches that were given up
            self._watch_from(now, refill.heartbeat)
        self._expect_ends()
        return self._starts

    def stop(self, now: float, started: int | None = None) -> bool:
        """Ask for no more, unless others share the stream of messages. Whether nobody does.

        What is buffered or still comes then is for whoever fetches or starts next. ``started``: what ``start``
        returned, for who leaves; None is for all.
        """
        if started is None:
            self._sharers.clear()
        else:
            self._sharers.discard(started)
        if self._sharers:
            if self._readable is not None:
                self._tell()  # who leaves may wait for it, as others do
            return False
        if self._refill is not None:
            self._break_off(ConnectionClosedError("the stream of messages was stopped"))
        return True

    def pop_many(self, most: int, now: float) -> list[D]:
        """Take up to ``most`` buffered messages, oldest first; asks for more when few are left."""
        raws = self._buffer.take(most)
        self._full = False
        if self._refill is not None and raws:
            self._fill(now)
        return self.acker.messages(raws)

    def put_back(self, messages: Sequence[ConsumerMsg]) -> None:
        """Messages that were taken, and that nobody has looked at: they are for whoever takes some next."""
        self._buffer.put_back([message._raw for message in messages])

    def readable(self) -> Ticket[None]:
        """Completed when a message can be taken; fails with why none ever will."""
        if self._readable is not None:
            return self._readable
        ticket: Ticket[None] = Ticket()
        if self._buffer:
            ticket.succeed(None)
        elif (error := self.error or self._stopped) is not None:
            ticket.fail(error)
        else:
            self._readable = ticket
        return ticket

    # -- the end -------------------------------------------------------------------------------------------------------

    def unsubscribe(self, now: float) -> None:
        """End it at once: what is buffered is dropped, and will be delivered again to somebody."""
        self._outbox.unsubscribe(self._sid)
        self._buffer.clear()
        self._end(ConnectionClosedError("the subscription was closed"))

    def end_interest(self) -> None:
        """First half of a drain: the server is to send no more."""
        self._outbox.end_interest(self._sid)
        self._refill = None

    def end_drain(self, now: float, closing: bool) -> None:
        """Second half: nothing more can come; what is buffered can still be taken."""
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
            self._receive_other(message, now)
            return
        self._heard_at = now
        if self._pins:
            self._look_for_pin(message)
        size = len(message.payload) + len(message.header or b"")
        if self._asked_msgs or self._first is not None or self._has_room(size):
            self._keep(((message.subject, reply, message.header, message.payload),), size)

    def receive_many(self, raws: Sequence[RawMsg], size: int, now: float) -> int:
        """Messages of the stream: as many as were asked for, and as the first fetch wants."""
        first = self._first
        count = min(len(raws), self._asked_msgs)
        if first is not None:
            count = min(count, first._batch - len(first._raws))
        if not count or self._pins:
            return 0
        self._heard_at = now
        if count < len(raws):
            raws = raws[:count]
            size = size_of(raws)
        self._keep(raws, size)
        return count

    def _keep(self, raws: Sequence[RawMsg], size: int) -> None:
        """These, of ``size`` bytes, have come: no more than the first fetch wants, nor than were asked for.

        A single one may be more than that.
        """
        if self._asked_msgs > len(raws):
            self._asked_msgs -= len(raws)
        elif self._asked_msgs:
            self._asked_msgs = self._asked_bytes = 0
            self._ledger.clear()
        if self._asked_bytes:
            self._asked_bytes = max(self._asked_bytes - _wire_size(raws), 0)
        first = self._first
        if first is not None:
            first._raws += raws
            if len(first._raws) == first._batch:
                self._finish(first)
            return
        self._buffer.add(raws, size)
        if self._readable is not None:
            self._tell()

    def handle_timeout(self, now: float) -> None:
        """Time has passed."""
        for timer in self._timers.expired(now):
            if timer is Timer.PULL_AGAIN:
                self._ask_again(now)
            elif timer is Timer.PULL_OVERDUE:
                self._forget_lost(now)
            else:
                self._watch(now)
        for fetch in [fetch for fetch in self._fetches if fetch.ends_at <= now]:
            self._time_out(fetch, now)
        self._outbox.rearm(self)

    def deadline(self) -> float | None:
        """When ``handle_timeout`` wants to be called."""
        ends = [fetch.ends_at for fetch in self._fetches]
        timer = self._timers.next()
        return min(ends if timer is None else [timer, *ends], default=None)

    def looked(self, error: Error | None) -> None:
        """The consumer was looked for: ``error`` says that it is gone, None that it is there, or that nobody knows."""
        self._looking = False
        if error is not None:
            for fetch in list(self._fetches):
                self._finish_or_fail(fetch, error)
            if self._refill is not None:
                self._break_off(error)

    def link_lost(self, error: Error, now: float) -> None:
        """The requests are lost; what is missing is asked for on a new link, unless the session has ended."""
        self._linked = False
        self._lost = error
        self._ledger.clear()
        self._asked_msgs = self._asked_bytes = 0
        self._timers.clear()
        for fetch in self._fetches:
            fetch._reply = None
        if self._outbox.closed_error is not None:
            self._end(error)
        self._outbox.rearm(self)

    def link_restored(self, now: float) -> None:
        """Ask for what is missing."""
        self._linked = True
        self._ask_again(now)

    # -- asking --------------------------------------------------------------------------------------------------------

    def _check_fetch(self, batch: int, max_bytes: int | None) -> None:
        if batch < 1 or (max_bytes is not None and max_bytes < 1):
            raise LocalProtocolError(f"a fetch is for 1 message and 1 byte at least, not {batch!r} and {max_bytes!r}")
        if self._refill is not None:
            raise LocalProtocolError(f"this subscription {_STREAMS}")
        if not self._buffer:
            self._raise_error()

    def _raise_error(self) -> None:
        if self.error is not None:
            raise self.error.with_traceback(None)

    def _start(self, fetch: Fetch, now: float) -> Fetch:
        """Take what is buffered, and ask for the rest."""
        self._move(fetch)
        if len(fetch._raws) == fetch._batch or (self._buffer and fetch._raws) or self.error is not None:
            fetch.done.succeed(None)
            return fetch
        try:
            if self._linked:
                self._ask_for(fetch, now)
        except LocalProtocolError:
            self._buffer.put_back(fetch._raws)
            raise
        self._fetches.append(fetch)
        self._first = self._fetches[0]
        self._outbox.rearm(self)
        return fetch

    def _move(self, fetch: Fetch) -> None:
        """Move from the buffer to ``fetch`` what it wants and has room for."""
        most, room = fetch._batch - len(fetch._raws), fetch.room
        if room is not None:
            for count, raw in enumerate(islice(self._buffer.raws, most)):
                room -= _wire_size((raw,))
                if room < 0:
                    most = count
                    break
        fetch._raws += self._buffer.take(most)

    def _ask_for(self, fetch: Fetch, now: float) -> None:
        """Ask for what ``fetch`` misses."""
        self._forget_old(now)
        batch = fetch._batch - len(fetch._raws)
        body: dict[str, Any] = {"batch": batch}
        if fetch._no_wait:
            body["no_wait"] = True
        else:
            body["expires"] = nanoseconds(max(fetch._expires_at - now, 0.001))
            if fetch._heartbeat and 2 * fetch._heartbeat <= fetch._expires_at - now:
                body["idle_heartbeat"] = nanoseconds(fetch._heartbeat)
                self._watch_from(now, fetch._heartbeat)
        room = fetch.room
        if room is not None:
            body["max_bytes"] = room = max(room, 1)
        fetch._reply = self._request(body, _Request(batch, room or 0, fetch._until, fetch))

    def _fill(self, now: float) -> None:
        """Let the stream of messages ask for more, if it has fallen to its threshold."""
        refill = self._refill
        if refill is None or not self._linked or Timer.PULL_AGAIN in self._timers or self.error is not None:
            return
        self._forget_old(now)
        held = self.pending_bytes + self._asked_bytes if refill.max_bytes else len(self._buffer) + self._asked_msgs
        if not refill.wants_more(held):
            return
        body = refill.request(held)
        ends_at = now + refill.expires + ANSWER_GRACE
        try:
            self._request(body, _Request(body["batch"], body.get("max_bytes", 0), ends_at, None))
        except OutboundBufferLimitError:
            self._again_at(now + RETRY_FIRST)
        except LocalProtocolError as error:
            self._break_off(error)
        else:
            if refill.heartbeat:
                self._watch_from(now, refill.heartbeat)
            self._expect_end(ends_at)

    def _request(self, body: dict[str, Any], request: _Request) -> bytes:
        """Send a pull request; its reply subject."""
        self._requests += 1
        reply = f"{self._inbox}.{self._inboxes}.{self._requests}".encode()
        request.pin = self._pin
        if self._pin is not None:
            body["id"] = self._pin.decode("utf-8", "replace")
        self._outbox.publish(self._api, dumps(body | self._options), reply)
        self._outbox.flush()
        self._ledger[reply] = request
        self._asked_msgs += request.batch
        self._asked_bytes += request.max_bytes
        return reply

    def _ask_again(self, now: float) -> None:
        """Ask for whatever has no request."""
        for fetch in [fetch for fetch in self._fetches if fetch._reply is None]:
            if fetch._no_wait or now < fetch._expires_at:
                try:
                    self._ask_for(fetch, now)
                except OutboundBufferLimitError:
                    self._again_at(now + RETRY_FIRST)
                except LocalProtocolError as error:
                    self._finish_or_fail(fetch, error)
        self._fill(now)
        self._outbox.rearm(self)

    def _again_at(self, when: float) -> None:
        self._timers.set(Timer.PULL_AGAIN, when)
        self._outbox.rearm(self)

    def _forget_old(self, now: float) -> None:
        """Requests that were served whole are told apart from others by nothing but age."""
        ledger = self._ledger
        while ledger:
            reply, request = next(iter(ledger.items()))
            if len(ledger) < MAX_REQUESTS and now < request.expires_at:
                break
            del ledger[reply]
            self._settle(0, 0)

    def _expect_end(self, when: float) -> None:
        """The stream of messages looks at its requests when one must have ended."""
        self._timers.bring_forward(Timer.PULL_OVERDUE, when)
        self._outbox.rearm(self)

    def _forget_lost(self, now: float) -> None:
        """Requests that must have ended were served whole, or lost: they may be in the way of others."""
        for reply in [reply for reply, request in self._ledger.items() if request.expires_at <= now]:
            del self._ledger[reply]
        self._settle(0, 0)
        self._expect_ends()
        self._fill(now)

    def _expect_ends(self) -> None:
        if self._refill is not None and self._ledger:
            self._expect_end(min(request.expires_at for request in self._ledger.values()))

    def _settle(self, messages: int, size: int) -> None:
        """A request has left the ledger with so much not served: what may still come is no more than is in there."""
        ledger = self._ledger.values()
        self._asked_msgs = min(max(self._asked_msgs - messages, 0), sum(request.batch for request in ledger))
        self._asked_bytes = min(max(self._asked_bytes - size, 0), sum(request.max_bytes for request in ledger))

    def _listen(self) -> int:
        self._inboxes += 1
        return self._outbox.subscribe(f"{self._inbox}.{self._inboxes}.*", self)

    # -- what comes ----------------------------------------------------------------------------------------------------

    def _receive_other(self, message: Msg, now: float) -> None:
        """What is no message of a stream."""
        try:
            status = None if message.header is None else read_status(message.header, self._api)
        except RemoteProtocolError as error:
            self._ignore(message, str(error))
            return
        if status is None:
            self._ignore(message, "it was not delivered by a consumer: it has no ack reply subject")
            return
        self._heard_at = now
        if status.code == CONTROL:
            return
        request = self._ledger.pop(message.subject, None)
        if request is None:
            return  # of a request that was served whole, or was given up
        # Without counts nothing is known to have come of it: rather ask for too much than wait for what never comes.
        self._settle(
            request.batch if status.pending_msgs is None else status.pending_msgs,
            request.max_bytes if status.pending_bytes is None else status.pending_bytes,
        )
        if request.fetch is None:
            self._refill_ended(request, status, now)
        else:
            self._fetch_ended(request.fetch, request, status, now)
            self._fill(now)  # it may have been in the way of the stream of messages

    def _fetch_ended(self, fetch: Fetch, request: _Request, status: ConsumerStatus, now: float) -> None:
        """The request of ``fetch`` has ended."""
        fetch._reply = None
        if fetch.done.done:
            return
        if self._unpinned(request, status) and (fetch._no_wait or now < fetch._expires_at):
            self._ask_again(now)
            return
        refused = fetch._refused
        retried = status.meaning is Meaning.RETRY or (refused is not None and type(status.error) is NoRespondersError)
        if retried and not fetch._no_wait and now + fetch._again < fetch._expires_at:
            fetch._refused = status.error
            self._again_at(now + fetch._again)
            fetch._again = min(2 * fetch._again, RETRY_MOST)
            self._look_after(status.error, now)
        elif status.meaning is Meaning.HIDDEN or fetch._raws:
            self._finish(fetch)
        else:
            self._fail(fetch, status.error)

    def _refill_ended(self, request: _Request, status: ConsumerStatus, now: float) -> None:
        """A request of the stream of messages has ended."""
        refill = self._refill
        if refill is None:
            return
        if status.meaning is Meaning.HIDDEN:
            refill.served()
            self._fill(now)
        elif self._unpinned(request, status):
            self._fill(now)
        elif type(status.error) is MessageSizeError and request.max_bytes < refill.max_bytes:
            refill.whole = True  # it may fit when all the room is free
            self._fill(now)
        elif type(status.error) is MessageSizeError and status.pending_bytes != request.max_bytes:
            self._fill(now)  # it ended full
        elif status.meaning is Meaning.RETRY or type(status.error) is NoRespondersError:
            pause = refill.refused(now)
            if pause is None:
                self._break_off(status.error)
                return
            self._again_at(now + pause)
            self._look_after(status.error, now)
        else:
            self._break_off(status.error)

    def _look_after(self, refusal: Error, now: float) -> None:
        """Nobody answered: there is no leader now, or no consumer."""
        if type(refusal) is NoRespondersError and self._look is not None and not self._looking:
            self._looking = True
            self._look(self, now)

    def _unpinned(self, request: _Request, status: ConsumerStatus) -> bool:
        """Whether a request was refused for an id that is ours no more: one that does not say it can be served."""
        if type(status.error) is not PinnedError or request.pin is None:
            return False
        if self._pin == request.pin:
            self._pin = None
        return True

    def _look_for_pin(self, message: Msg) -> None:
        """A message says by which id its consumer knows us now."""
        pin = None if message.header is None else last_value(message.header, b"Nats-Pin-Id")
        if not pin or pin == self._pin:
            return
        self._pin = pin
        # Who was served was the first. Requests of others that do not say the id wait until nobody is pinned.
        waiting = [fetch for fetch in self._fetches if fetch._reply in self._ledger][1:]
        for fetch in waiting:
            request = self._ledger.pop(fetch._reply or b"")
            self._settle(request.batch, request.max_bytes)
            fetch._reply = None
        if waiting:
            self._ask_again(self._heard_at)

    def _has_room(self, size: int) -> bool:
        """Whether a message of ``size`` bytes that nobody asked for may stay."""
        if self._buffer.has_room(1, size):
            return True
        self.dropped += 1
        if not self._full:
            self._full = True
            self._outbox.emit(SlowConsumer(self._api, self.dropped))
        return False

    def _ignore(self, message: Msg, reason: str) -> None:
        self._outbox.emit(UnexpectedMessage(message.subject.decode("utf-8", "replace"), reason))

    # -- silence -------------------------------------------------------------------------------------------------------

    def _watch_from(self, now: float, heartbeat: float) -> None:
        """From now on silence counts."""
        if Timer.HEARTBEAT not in self._timers:
            self._heard_at = now
        self._timers.set(Timer.HEARTBEAT, max(self._heard_at, now) + heartbeat * self._missed)
        self._outbox.rearm(self)

    def _watch(self, now: float) -> None:
        """Look whether a heartbeat, or anything else, has come in time."""
        beats = [fetch._heartbeat for fetch in self._fetches if fetch._heartbeat and fetch._reply is not None]
        if self._refill is not None and self._refill.heartbeat and self._asked_msgs:
            beats.append(self._refill.heartbeat)
        if not beats:
            return
        patience = min(beats) * self._missed
        if now < self._heard_at + patience:
            self._timers.set(Timer.HEARTBEAT, self._heard_at + patience)
            return
        if self._alarmed_at != self._heard_at:
            self._alarmed_at = self._heard_at
            self._outbox.emit(ConsumerSilent(self.stream, self.consumer, patience))
        for fetch in [fetch for fetch in self._fetches if fetch._heartbeat]:
            silent = f"consumer {self.consumer} of stream {self.stream} sent nothing for {patience:g} s"
            self._finish_or_fail(fetch, ConsumerSilentError(silent))
        if self._refill is not None:
            self._ledger.clear()
            self._asked_msgs = self._asked_bytes = 0
            heard_at = self._heard_at
            self._fill(now)
            self._heard_at = heard_at  # to ask is no sign of life
            self._timers.set(Timer.HEARTBEAT, now + patience)

    def _time_out(self, fetch: Fetch, now: float) -> None:
        """The server has not answered a request by the time at which it must have."""
        if not self._linked and self._lost is not None:
            self._finish_or_fail(fetch, self._lost)
            return
        if not fetch._no_wait:
            silent = TimeoutError(f"{self._api} did not answer by the end of the fetch")
            self._finish_or_fail(fetch, fetch._refused or silent)
            return
        alone = len(self._fetches) == 1 and fetch._reply is not None
        self._finish(fetch)
        if alone:  # a consumer with too much unacknowledged: it would keep the request for ever
            self._outbox.unsubscribe(self._sid)
            self._ledger.clear()
            self._asked_msgs = self._asked_bytes = 0
            self._sid = self._listen()

    # -- the end of things ---------------------------------------------------------------------------------------------

    def _finish_or_fail(self, fetch: Fetch, error: Error) -> None:
        if fetch._raws:
            self._finish(fetch)
        else:
            self._fail(fetch, error)

    def _finish(self, fetch: Fetch) -> None:
        self._remove(fetch)
        fetch.done.succeed(None)
        self._outbox.completed(fetch.done)
        # It is not rearmed: a driver that wakes too early once is cheaper than one that is told of each fetch twice.

    def _fail(self, fetch: Fetch, error: Error) -> None:
        self._remove(fetch)
        fetch.done.fail(error)
        self._outbox.completed(fetch.done)
        self._outbox.rearm(self)

    def _remove(self, fetch: Fetch) -> None:
        self._fetches.remove(fetch)
        self._first = self._fetches[0] if self._fetches else None
        if not self._fetches and self._refill is None:
            self._timers.clear()

    def _end(self, error: Error) -> None:
        """Nothing will come any more."""
        if self.error is not None:
            return
        self.error = error
        for fetch in list(self._fetches):
            self._finish_or_fail(fetch, error)
        self._break_off(error)

    def _break_off(self, error: Error) -> None:
        """The stream of messages ends."""
        self._refill = None
        self._sharers.clear()
        self._stopped = error
        self._timers.clear()
        self._outbox.rearm(self)
        if self._readable is not None:
            ticket, self._readable = self._readable, None
            ticket.fail(error)
            self._outbox.completed(ticket)

    def _tell(self) -> None:
        ticket, self._readable = self._readable, None
        assert ticket is not None
        ticket.succeed(None)
        self._outbox.completed(ticket)


def _wire_size(raws: Sequence[RawMsg]) -> int:
    """What a server counts against ``max_bytes``."""
    return size_of(raws) + sum([len(subject) + len(reply) for subject, reply, _, _ in raws])
