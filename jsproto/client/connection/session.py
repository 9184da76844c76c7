"""The session: a client's logical connection, as bytes in and bytes out.

It hosts conversations and routes messages to them by subscription id, encodes what they publish straight into a write
list, and owns what is shared: the link, the request mux, the flush policy, the one deadline, the bounds.

Rules, for whoever drives it (once per wake-up, in this order):

1. put one input in: ``connection_made``, ``receive_data``, ``receive_eof``, ``handle_timeout`` or a verb;
2. while ``wants_send(now)``: write all of ``data_to_send()``;
3. call ``wake()`` on each of ``take_completed()``;
4. tell the application ``events()``;
5. if ``deadline()`` moved, move the timer;
6. if ``wants_close``: write what is left, close the socket; if ``connect_to`` is set then, dial it;
7. if ``wants_tls``: begin TLS with ``tls_hostname`` on the socket, then ``tls_made`` (or ``tls_failed``). From then on
   what is received, and what is sent, is what is inside TLS.

Receiving never raises. A verb raises LocalProtocolError and changes nothing when the caller is at fault. After the
end every verb raises ConnectionClosedError, every open ticket has failed, and what was received can still be taken.

A session survives its links. When one is lost, what was queued on it is lost with it, requests under way fail, and
conversations are told; ``connect_to`` names the next address when it is due. While there is no link, publishing is
buffered up to ``pending_size``. A new link carries all subscriptions again before anything else.

Not here: TLS itself, opening sockets.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from functools import partial
from typing import Any, NoReturn, TypeVar

from jsproto.client.connection.bulk_publish import MAX_CACHED_SUBJECTS, SPLIT_WRITES_AT, BulkPublisher, Encode
from jsproto.client.connection.drain import drain
from jsproto.client.connection.link import Link
from jsproto.client.connection.message_buffer import size_of
from jsproto.client.connection.options import Address, ConnectOptions
from jsproto.client.connection.requests import Requests
from jsproto.client.connection.server_pool import ServerPool
from jsproto.client.connection.subscription import Drainable
from jsproto.client.connection.tokens import Tokens
from jsproto.errors import (
    ConnectionClosedError,
    ConnectionLostError,
    Error,
    LocalProtocolError,
    MaxPayloadError,
    NoServersError,
    OutboundBufferLimitError,
    PermissionsViolationError,
    UnsupportedByServerError,
)
from jsproto.events import Connected, Disconnected, Event
from jsproto.grammar.columns import MessageColumns
from jsproto.grammar.config import ServerInfo
from jsproto.grammar.decimals import MAX_DIGITS
from jsproto.grammar.headers import HeadersLike, encode_headers
from jsproto.grammar.subjects import check_queue, check_subject
from jsproto.outbox import BulkConversation, BulkOutbox, Conversation
from jsproto.rules.link import LinkPhase
from jsproto.ticket import Ticket
from jsproto.timers import Deadlines, Timer, Timers
from jsproto.wire.bulk_encoder import encode_numbered, encode_run
from jsproto.wire.encoder import encode_sub, encode_unsub
from jsproto.wire.frames import DeliveryRun, Msg, MsgRun

T = TypeVar("T")

MIN_TOKEN = 16  # bytes
DEFAULT_MAX_PAYLOAD = 1_048_576  # nats-server's default, in force until INFO says otherwise


def _decoded(message: Msg) -> Msg:
    return message


class Session(BulkOutbox):
    """One logical connection to NATS, in the client role. ``token`` is its only entropy: 16 random bytes or more.

    Inboxes and replies are made of what ``draw()`` gives: 16 characters that nobody can compute from others. The same
    token, with the same inputs, gives the same bytes.

    Attribute: ``now`` (the time that came with the last bytes or timeout; scripts ask what comes next at that time).
    """

    def __init__(self, options: ConnectOptions, *, token: bytes) -> None:
        if len(token) < MIN_TOKEN:
            raise LocalProtocolError(f"the token needs at least {MIN_TOKEN} random bytes: inboxes are drawn from it")
        self.options = options
        self.now = 0.0
        self.connected: Ticket[ServerInfo] = Ticket()
        self.error: Error | None = None
        self.closed = False
        self.wants_close = False
        self.draw = Tokens(token).draw
        self._link: Link | None = None
        self._dialler = ServerPool(options, int(self.draw(), 16))
        self._address: Address | None = None
        self._server: ServerInfo | None = None
        self._max_payload = DEFAULT_MAX_PAYLOAD
        self._writes: list[bytes] = []
        self._pending = 0
        self._urgent = False
        self._timers = Timers()
        self._heads: dict[str, tuple[bytes, bytes]] = {}
        self._runs = BulkPublisher()
        self._routes: dict[bytes, Conversation] = {}
        self._subscribed: dict[bytes, bytes] = {}  # by sid: the SUB, for a new link
        self._ping_later: Ticket[float] | None = None  # one for all who have asked while there is no link
        self._sids = 0
        self._with_fields: set[bytes] = set()  # ids of the subscriptions whose runs are wanted with fields
        self._deadlines: Deadlines[Conversation] = Deadlines()
        self._completed: list[Ticket[Any]] = []
        self._events: list[Event] = []
        self._congestion: Ticket[None] | None = None
        self._scripts: dict[Ticket[Any], list[tuple[Generator[Ticket[Any], Any, Any], Ticket[Any]]]] = {}
        self._requests = Requests(self, self.new_inbox(), self.draw)

    # -- the link ------------------------------------------------------------------------------------------------------

    @property
    def connect_to(self) -> Address | None:
        """Dial this now; None while a link lives, during a pause, or after the end."""
        return None if self.closed else self._dialler.address

    def connection_made(self, now: float) -> None:
        """The address of ``connect_to`` was dialled and answers. After the end it is to be closed: ``wants_close``."""
        if self.closed:
            return
        address = self.connect_to
        if address is None:
            raise LocalProtocolError("this session asked for no connection")
        self._dialler.dialled()
        self._address = address
        self._link = Link(self.options, address, now)
        self.wants_close = False

    def connection_failed(self, reason: str, now: float) -> None:
        """The address of ``connect_to`` cannot be reached; the next one is due, now or later, or the session ends.

        Nothing happens when it has ended meanwhile.
        """
        if self.closed:
            return
        if self.connect_to is None:
            raise LocalProtocolError("this session asked for no connection")
        self._dialler.failed(reason, now)
        if self._dialler.gave_up:
            self._end(NoServersError(tuple(self._dialler.attempts)), now)

    def receive_data(self, data: bytes, now: float) -> None:
        """Bytes from the peer, cut anywhere."""
        link = self._link
        if link is None or self.closed:
            return
        self.now = now
        routes = self._routes
        frames = link.decoder.feed(data)
        is_open = link.is_open
        for frame in frames:
            if type(frame) is Msg and is_open:
                conversation = routes.get(frame.sid)
                if conversation is not None:  # else it was under way when we unsubscribed
                    conversation.receive(frame, now)
            elif type(frame) is DeliveryRun and is_open:
                self._receive_delivered(frame, now)
            elif type(frame) is MsgRun and is_open:
                self._receive_run(frame, now)
            else:
                link.receive(frame, now)
                is_open = link.is_open
                while link.violations:  # before the answers behind them, which are their consequences
                    self._deny(link.violations.pop(0), now)
        if link.decoder.error is not None and link.error is None:
            link.error = link.decoder.error
        self._after_link(link, now)

    def receive_eof(self, now: float, reason: str = "the server closed the connection") -> None:
        """The stream ended, or broke: ``reason`` is one line for the error every waiter gets."""
        link = self._link
        if link is None or self.closed:
            return
        link.receive_eof(reason)
        self._after_link(link, now)

    @property
    def wants_tls(self) -> bool:
        """TLS is to begin now, before anything else is sent."""
        return self._link is not None and self._link.phase is LinkPhase.EXPECT_TLS

    @property
    def tls_hostname(self) -> str:
        """Whose certificate the server must have."""
        address = self._address or self.options.servers[0]
        return self.options.tls_hostname or address.tls_name or address.host

    def tls_made(self, now: float) -> None:
        """TLS has begun, and the server's certificate is the right one."""
        link = self._link
        if link is None or not self.wants_tls:
            raise LocalProtocolError("this session asked for no TLS")
        link.secured(now)
        self._after_link(link, now)

    def tls_failed(self, reason: str, now: float) -> None:
        """TLS did not begin, or broke: the link is lost with TLSError; ``reason`` is one line."""
        link = self._link
        if link is not None and not self.closed:
            link.insecure(reason)
            self._after_link(link, now)

    # -- time ----------------------------------------------------------------------------------------------------------

    def handle_timeout(self, now: float) -> None:
        """Time has passed. Early, late and repeated calls are harmless."""
        if self.closed:
            return
        self.now = now
        if self._timers.expired(now):
            self.flush()
        self._dialler.handle_timeout(now)
        link = self._link
        if link is not None:
            link.handle_timeout(now)
            self._after_link(link, now)
        for conversation in self._deadlines.due(now):
            conversation.handle_timeout(now)
            self._deadlines.set(conversation, conversation.deadline())

    def deadline(self) -> float | None:
        """When ``handle_timeout`` wants to be called, in the caller's monotonic seconds; None: not at all."""
        if self.closed:
            return None
        beneath = self._dialler if self._link is None else self._link
        times = (self._deadlines.next(), self._timers.next(), beneath.deadline())
        return min([time for time in times if time is not None], default=None)

    # -- outputs -------------------------------------------------------------------------------------------------------

    def wants_send(self, now: float) -> bool:
        """Whether bytes should leave now: somebody waits for an answer, enough has gathered, or it waited enough."""
        link = self._link
        if link is None:
            return False
        if link.to_send or link.pongs_owed:
            return True
        if not (self._pending or self._urgent) or not (link.is_open or self.closed):
            return False
        if self._urgent or self._pending >= self.options.flush_at:
            return True
        lingers_until = self._timers.next()
        if lingers_until is None:
            lingers_until = now + self.options.linger
            self._timers.set(Timer.LINGER, lingers_until)
        return now >= lingers_until

    def data_to_send(self) -> list[bytes]:
        """Everything that may be written now, in order; it counts as written."""
        link = self._link
        if link is None:
            return []
        data = link.data_to_send()
        if link.is_open or self.closed:
            data += self._writes
            self._writes = []
            self._pending = 0
            self._urgent = False
            self._timers.clear()
            self._release_congestion()
        return data

    def nudge(self) -> None:
        """What is beneath (TLS) has bytes of its own to send: let ``wants_send`` say so, though none are ours."""
        if self._link is not None:
            self._link.to_send.append(b"")

    def take_completed(self) -> list[Ticket[Any]]:
        """Tickets completed since the last call: ``wake()`` each."""
        completed, self._completed = self._completed, []
        return completed

    def events(self) -> list[Event]:
        """What happened since the last call."""
        events, self._events = self._events, []
        return events

    @property
    def congested(self) -> bool:
        """More than half of ``pending_size`` waits to be written: stop publishing until ``sendable()``."""
        return self._pending > self.options.pending_size // 2

    def sendable(self) -> Ticket[None]:
        """Completed when what waits now has been taken to be written, or the session has ended."""
        if self._congestion is not None:
            return self._congestion
        ticket: Ticket[None] = Ticket()
        if self._pending and not self.closed:
            self._congestion = ticket
        else:
            ticket.succeed(None)
        return ticket

    # -- the application's verbs ---------------------------------------------------------------------------------------

    @property
    def server(self) -> ServerInfo | None:
        """What the server said of itself in its last INFO; None before the first."""
        return self._server

    @property
    def is_connected(self) -> bool:
        """Whether there is a link whose handshake is complete."""
        return self._link is not None and self._link.is_open

    @property
    def url(self) -> str | None:
        """The address in use, without credentials; None before the link is made."""
        return None if self._address is None else self._address.url

    @property
    def max_payload(self) -> int:
        """The largest message, headers and payload together, in bytes, that the server takes."""
        return self._max_payload

    @property
    def closed_error(self) -> Error | None:
        """Why the session ended; None while it lives."""
        if not self.closed:
            return None
        return self.error or ConnectionClosedError("the connection was closed")

    def new_inbox(self) -> str:
        """A subject that nobody else uses, and that nobody can compute from others."""
        return f"{self.options.inbox_prefix}.{self.draw().decode()}{self.draw().decode()}"

    def publish_message(
        self, subject: str, payload: bytes = b"", *, reply: str | None = None, headers: HeadersLike | None = None
    ) -> None:
        """Publish a core NATS message: no acknowledgement, and no error from the far side.

        LocalProtocolError (BadSubjectError, BadHeaderError, MaxPayloadError, ...) with nothing written.
        """
        block = None if headers is None else encode_headers(headers)
        self.publish(subject, payload, None if reply is None else check_subject(reply), block)

    def request(
        self, subject: str, payload: bytes = b"", *, now: float, timeout: float | None = None,
        headers: HeadersLike | None = None,
    ) -> Ticket[Msg]:  # fmt: skip
        """Ask ``subject``; the ticket takes the answer, NoRespondersError or TimeoutError (``timeout`` seconds)."""
        return self.requests.request(
            subject, payload, timeout=self.options.timeout if timeout is None else timeout, now=now, decode=_decoded,
            headers=headers,
        )  # fmt: skip

    @property
    def requests(self) -> Requests:
        """The request mux, for conversations that ask and decode in one go."""
        return self._requests

    def ping(self, now: float) -> Ticket[float]:
        """PING; the ticket takes the round trip in seconds once the server has processed all that was sent before.

        Without a link it is sent when there is one, once for all who ask meanwhile: they share the ticket.
        """
        if self.closed:
            self._refuse()
        link = self._link
        if link is None or not link.is_open:
            if self._ping_later is None:
                self._ping_later = Ticket()
            return self._ping_later
        ticket: Ticket[float] = Ticket()
        # The PING must leave behind what was published before it.
        link.to_send += self._writes
        self._writes = []
        link.ping(ticket, now)
        return ticket

    def drain(self, now: float, subscriptions: Iterable[Drainable] | None = None) -> Ticket[None]:
        """End these subscriptions; the ticket completes when all the server had sent for them is buffered.

        Without any named: all of them, for the session is closed next.
        """
        if subscriptions is not None:
            return self.run(drain(self, subscriptions, now))
        everything = [kept for kept in self._routes.values() if isinstance(kept, Drainable)]
        return self.run(drain(self, everything, now, closing=True))

    def run(self, script: Generator[Ticket[Any], Any, T]) -> Ticket[T]:
        """Run a script: a generator that yields tickets and is sent their values (see ``scripts``)."""
        ticket: Ticket[T] = Ticket()
        self._advance(script, ticket, None)
        return ticket

    def close(self, now: float) -> None:
        """End the session: open tickets fail, buffered bytes stay in ``data_to_send()`` for a last write."""
        if not self.closed:
            self._end(None, now)

    def abort(self, reason: str, now: float) -> None:
        """End the session with a ConnectionLostError: its carrier has failed for good. Nothing more is dialled."""
        if not self.closed:
            self._end(ConnectionLostError(reason), now)

    # -- outbox: what conversations call -------------------------------------------------------------------------------

    def publish(self, subject: str, payload: bytes, reply: bytes | None = None, headers: bytes | None = None) -> None:
        """Queue a message. ``reply`` is a checked subject, ``headers`` an encoded block.

        LocalProtocolError with nothing queued: BadSubjectError, MaxPayloadError, OutboundBufferLimitError (more than
        ``pending_size`` bytes wait already), ConnectionClosedError. TypeError for a payload that is not bytes.
        """
        try:
            heads = self._heads.get(subject) or self._check_head(subject)
        except TypeError:  # unhashable
            heads = self._check_head(subject)  # which says that it is no str
        if type(payload) is not bytes:  # what is queued must neither change nor count otherwise
            payload = _copied(payload)
        size = len(payload)
        if size > self._max_payload or headers is not None:
            size = self._check_size(size, headers)
        if self._pending > self.options.pending_size or self.closed:
            self._refuse()
        if headers is not None:
            where = heads[1] if reply is None else b"%b%b " % (heads[1], reply)
            head = b"%b%d %d\r\n%b" % (where, len(headers), size, headers)
        elif reply is not None:
            head = b"%b%b %d\r\n" % (heads[0], reply, size)
        else:
            head = b"%b%d\r\n" % (heads[0], size)
        if size > SPLIT_WRITES_AT:
            self._writes += (head, payload, b"\r\n")
        else:
            self._writes.append(b"%b%b\r\n" % (head, payload))
        self._pending += len(head) + len(payload) + 2

    @property
    def takes_patterns(self) -> bool:
        """True: our connections are not pedantic."""
        return True

    def publish_to_pattern(self, subject: str, payload: bytes, reply: bytes) -> None:
        """``publish`` to a subject that may have wildcards, as the API has for a consumer with a filter.

        Servers take it as it is, because our connections are not pedantic. It errs as ``publish`` does.
        """
        checked = check_subject(subject, wildcards=True)
        size = self._check_size(len(payload), None)
        if self._pending > self.options.pending_size or self.closed:
            self._refuse()
        self._write(b"PUB %b %b %d\r\n%b\r\n" % (checked, reply, size, payload))

    def subscribe(self, subject: str, conversation: Conversation, queue: str | None = None) -> int:
        """Subscribe ``conversation``; returns the id. BadSubjectError, ConnectionClosedError."""
        pattern = check_subject(subject, wildcards=True)
        group = None if queue is None else check_queue(queue)
        if self.closed:
            self._refuse()
        self._sids += 1
        sid = b"%d" % self._sids
        self._routes[sid] = conversation
        self._subscribed[sid] = encode_sub(pattern, group, sid)
        self._write(self._subscribed[sid])
        return self._sids

    def publish_replies(self, replies: Sequence[bytes], payload: bytes) -> None:
        """Queue one small ``payload`` to each of these subjects, which came off the wire as they are: all, or none.

        OutboundBufferLimitError, ConnectionClosedError.
        """
        if self._pending > self.options.pending_size or self.closed:
            self._refuse()
        end = b" %d\r\n%b\r\n" % (len(payload), payload)
        self._write(b"PUB %b%b" % ((end + b"PUB ").join(replies), end))

    def publish_run(self, messages: Sequence[Any], reply: tuple[bytes, bytes], first: int) -> int:
        """Queue from the front of ``messages`` those that need no second look; returns how many, perhaps none.

        They are ``(subject, payload)`` and their replies count up from ``first``; ``reply`` is what stands before and
        behind the number. What ends the run (headers, a bad subject, a large payload, a full buffer) is for
        ``publish``, which raises if it must. ``MessageColumns`` may have encoded them already.
        """
        room = self._room()
        if isinstance(messages, MessageColumns) and room >= 0:
            count, data = messages.encoded(reply, first, self._max_payload, room)
            if count:
                self._write(data)
                return count
        encode = partial(encode_run, reply, first)
        return len(self._queue_run(messages, self._max_payload, encode))

    def publish_numbered(
        self, messages: Sequence[Any], block: tuple[bytes, bytes], first: int, subjects: set[str]
    ) -> int:
        """``publish_run`` for messages without replies whose header blocks count up from ``first``.

        ``block`` is what stands before and behind the number. Adds to ``subjects`` where they go.
        """
        largest = self._max_payload - sum(map(len, block)) - MAX_DIGITS
        queued = self._queue_run(messages, largest, partial(encode_numbered, block, first))
        subjects.update(queued)
        return len(queued)

    def _queue_run(self, messages: Sequence[Any], largest: int, encode: Encode) -> Sequence[str]:
        room = self._room()
        if room < 0:
            return ()
        subjects, pieces = self._runs.encode(messages, largest, room, encode)
        self._writes += pieces
        self._pending += sum(map(len, pieces))
        return subjects

    def _room(self) -> int:
        """How many bytes may be queued; less than 0 when nothing may."""
        return -1 if self.closed else self.options.pending_size - self._pending

    def unsubscribe(self, sid: int, max_msgs: int | None = None) -> None:
        """End a subscription, at once or after ``max_msgs`` messages in all; unknown ids are passed over."""
        if max_msgs is None:
            self.end_interest(sid)
            self.forget(sid)
        elif b"%d" % sid in self._routes and not self.closed:
            self._write(encode_unsub(b"%d" % sid, max_msgs))

    def unsubscribe_later(self, sid: int) -> None:
        """End a subscription, here at once; the server, which need not hurry, is told with what is sent next."""
        key = b"%d" % sid
        if key in self._routes and not self.closed:
            self._writes.append(encode_unsub(key, None))  # not pending: alone it may wait for ever
        self.forget(sid)

    def end_interest(self, sid: int) -> None:
        """Tell the server to send no more, but keep routing what is under way until ``forget``."""
        key = b"%d" % sid
        if key in self._routes and not self.closed:
            self._subscribed.pop(key, None)
            self._write(encode_unsub(key, None))

    def forget(self, sid: int) -> None:
        """Stop routing to a subscription whose end the server knows."""
        key = b"%d" % sid
        self._routes.pop(key, None)
        self._subscribed.pop(key, None)
        self._with_fields.discard(key)

    def want_fields(self, sid: int) -> None:
        """From now on runs of plain Direct Get replies come with the fields of their header blocks."""
        key = b"%d" % sid
        if key in self._routes:
            self._with_fields.add(key)

    def completed(self, ticket: Ticket[Any]) -> None:
        """``ticket`` has its answer."""
        self._completed.append(ticket)
        if self._scripts:
            for script, result in self._scripts.pop(ticket, ()):
                self._advance(script, result, ticket)

    def emit(self, event: Event) -> None:
        """Tell the application."""
        self._events.append(event)

    def flush(self) -> None:
        """What was queued should leave now."""
        self._urgent = bool(self._writes)

    def rearm(self, conversation: Conversation) -> None:
        """Ask ``conversation`` for its deadline again."""
        self._deadlines.set(conversation, conversation.deadline())

    # -- inside --------------------------------------------------------------------------------------------------------

    def _receive_delivered(self, delivered: DeliveryRun, now: float) -> None:
        conversation, raws = self._routes.get(delivered.sid), delivered.raws
        if conversation is None:
            return
        taken = conversation.receive_many(raws, delivered.size, now)
        while taken < len(raws) and delivered.sid in self._routes:  # else it has unsubscribed
            conversation.receive(delivered.message(taken), now)
            taken += 1
            if taken == 1 and delivered.sid in self._routes:  # it has looked at the first one: it may know the others
                taken += conversation.receive_many(raws[1:], delivered.size - size_of(raws[:1]), now)

    def _receive_run(self, row: MsgRun, now: float) -> None:
        conversation = self._routes.get(row.sid)
        if isinstance(conversation, BulkConversation):
            conversation.receive_run(row, now)
        elif conversation is not None:
            for message in row.messages():
                conversation.receive(message, now)
                if row.sid not in self._routes:  # it has unsubscribed
                    break

    def _check_head(self, subject: str) -> tuple[bytes, bytes]:
        checked = check_subject(subject)
        if len(self._heads) >= MAX_CACHED_SUBJECTS:
            self._heads.clear()
        heads = (b"PUB %b " % checked, b"HPUB %b " % checked)
        self._heads[subject] = heads
        return heads

    def _check_size(self, size: int, headers: bytes | None) -> int:
        server = self.server
        if headers is not None and server is not None and not server.headers:
            raise UnsupportedByServerError("message headers", "2.2", server.version)
        total = size + (0 if headers is None else len(headers))
        if total > self._max_payload:
            raise MaxPayloadError(total, self._max_payload)
        return total

    def _refuse(self) -> NoReturn:
        if self.closed:
            raise ConnectionClosedError(str(self.closed_error)) from self.error
        raise OutboundBufferLimitError(self._pending, self.options.pending_size)

    def _write(self, data: bytes) -> None:
        self._writes.append(data)
        self._pending += len(data)

    def _after_link(self, link: Link, now: float) -> None:
        """Carry on what the link found out."""
        if link.events:
            events, link.events = link.events, []
            self._events += events
            for event in events:
                if isinstance(event, Connected):
                    self._learn(event.server)
                    self._opened(link, event.server, now)
        if link.server is not None and link.server is not self._server and link.was_open:
            self._server = link.server
            self._learn(link.server)
        if link.ponged:
            ponged, link.ponged = link.ponged, []
            for ticket in ponged:
                self.completed(ticket)
        if link.error is not None and not self.closed:
            self._link_lost(link, link.error, now)

    def _deny(self, violation: PermissionsViolationError, now: float) -> None:
        """Tell whose subscription was refused, or, of a message, everybody: it is not said who sent it."""
        line = b"SUB %b " % violation.subject.encode()
        by_publish = violation.operation == "publish"
        concerned = [
            conversation
            for sid, conversation in self._routes.items()
            if by_publish or self._subscribed.get(sid, b"").startswith(line)
        ]
        for conversation in dict.fromkeys(concerned):
            conversation.denied(violation, now)

    def _learn(self, server: ServerInfo) -> None:
        self._max_payload = server.max_payload
        self._dialler.learn(server.connect_urls or ())

    def _opened(self, link: Link, server: ServerInfo, now: float) -> None:
        """The handshake is complete: subscriptions go first, then whatever waited."""
        first = not self.connected.done
        link.decoder.allow_runs(self._with_fields)  # from now on messages have somewhere to go
        self._server = server
        self._dialler.connected(now)
        if first:
            self.connected.succeed(server)
            self._completed.append(self.connected)
        else:
            self._writes[:0] = self._subscribed.values()
            self._pending += sum(map(len, self._subscribed.values()))
            self.flush()
            for conversation in dict.fromkeys(self._routes.values()):
                conversation.link_restored(now)
        ticket, self._ping_later = self._ping_later, None
        if ticket is not None:
            link.to_send += self._writes
            self._writes = []
            link.ping(ticket, now)

    def _link_lost(self, link: Link, error: Error, now: float) -> None:
        """The link is gone: dial again, or end."""
        self._link = None
        self.wants_close = True
        self._fail(link.open_tickets(), error)
        if link.was_open:
            self._drop_writes()
            self._events.append(Disconnected(error))
            self._dialler.lost(now)
        else:
            self._dialler.failed(str(error), now, refused=link.refused)
        if self._dialler.gave_up:
            alone = (
                self._dialler.refused or link.was_open or (not self.connected.done and len(self._dialler.attempts) == 1)
            )
            self._end(error if alone else NoServersError(tuple(self._dialler.attempts)), now)
        elif link.was_open:
            for conversation in dict.fromkeys(self._routes.values()):
                conversation.link_lost(error, now)

    def _end(self, error: Error | None, now: float) -> None:
        link = self._link
        self.flush()
        if error is not None or link is None or not link.is_open:
            self._drop_writes()  # nobody is there to take it
        self.closed = self.wants_close = True
        self.error = error
        why = error or ConnectionClosedError("the connection was closed")
        failed: list[Ticket[Any]] = [] if self.connected.done else [self.connected]
        if self._ping_later is not None:
            failed.append(self._ping_later)
            self._ping_later = None
        if link is not None:
            failed += link.open_tickets()
            link.close()
        self._fail(failed, why)
        for conversation in dict.fromkeys(self._routes.values()):
            conversation.link_lost(why, now)
        self._routes.clear()
        self._release_congestion()
        if link is not None or error is None:
            self._events.append(Disconnected(error))

    def _fail(self, tickets: Iterable[Ticket[Any]], error: Error) -> None:
        for ticket in tickets:
            ticket.fail(error)
            self.completed(ticket)

    def _drop_writes(self) -> None:
        self._writes = []
        self._pending = 0
        self._urgent = False
        self._timers.clear()
        self._release_congestion()

    def _release_congestion(self) -> None:
        congestion, self._congestion = self._congestion, None  # whoever is told may wait for the next one at once
        if congestion is not None:
            congestion.succeed(None)
            self.completed(congestion)

    def _advance(
        self, script: Generator[Ticket[Any], Any, Any], ticket: Ticket[Any], answered: Ticket[Any] | None
    ) -> None:
        """Run ``script`` until it waits for an answer that is not there, or ends and completes ``ticket``."""
        try:
            while True:
                if answered is None:
                    answered = next(script)
                elif answered.error is not None:
                    answered = script.throw(answered.error)
                else:
                    answered = script.send(answered.result())
                if not answered.done:
                    self._scripts.setdefault(answered, []).append((script, ticket))
                    return
        except StopIteration as stop:
            ticket.succeed(stop.value)
        except Error as error:
            ticket.fail(error)
        self.completed(ticket)


def _copied(payload: object) -> bytes:
    """The bytes of what is bytes-like; TypeError for text and all else."""
    try:
        return bytes(memoryview(payload))  # type: ignore[arg-type]
    except TypeError:
        hint = ": encode it" if isinstance(payload, str) else ""
        raise TypeError(f"the payload must be bytes, not {type(payload).__name__}{hint}") from None
