"""The session: a client's logical connection, as bytes in and bytes out.

It hosts conversations, and routes messages to them by subscription id. They share its link, write buffer, requests
and deadline.

Rules for the driver, once per wake-up, in this order:

1. put one input in: ``connection_made``, ``receive_data``, ``receive_eof``, ``handle_timeout`` or a verb.
2. while ``wants_send(now)``: write all of ``data_to_send()``.
3. call ``wake()`` on each of ``take_completed()``.
4. hand ``events()`` to the application.
5. if ``deadline()`` moved, move the timer.
6. if ``wants_close``: write the rest, close the socket. If ``connect_to`` is set then, dial it.
7. if ``wants_tls``: begin TLS with ``tls_hostname`` on the socket, then ``tls_made`` (or ``tls_failed``). From then on
   bytes that come and go are those inside TLS.

What a driver may rely on:

* Receiving never raises.
* A conversation that raises ends with InternalError, alone.
* A verb raises LocalProtocolError at a caller's fault, and changes nothing.
* After the end verbs raise ConnectionClosedError, and open tickets have failed. Received messages can be taken still.

A session survives its links. A lost link takes with it the frames that wait and the requests under way. ``connect_to``
names the next address when it is due (``server_pool``). Between links messages are buffered up to ``pending_size``
bytes. A new link first carries all subscriptions again.

Not here: TLS, sockets, the next address (``server_pool``), what waits to be written (``write_buffer``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from jsproto._lend import lend
from jsproto.client.connection.connect_options import Address, ConnectOptions
from jsproto.client.connection.drain import drain
from jsproto.client.connection.lame_duck import LameDuckMove
from jsproto.client.connection.link import Link
from jsproto.client.connection.message_buffer import size_of
from jsproto.client.connection.requests import Requests
from jsproto.client.connection.script_runner import Script, ScriptRunner
from jsproto.client.connection.server_pool import ServerPool
from jsproto.client.connection.statistics import Statistics
from jsproto.client.connection.subscription import Drainable
from jsproto.client.connection.tokens import Tokens
from jsproto.client.connection.write_buffer import WriteBuffer
from jsproto.errors import (
    ConnectionClosedError,
    ConnectionLostError,
    Error,
    InternalError,
    LocalProtocolError,
    NoServersError,
    PermissionsViolationError,
)
from jsproto.events import Connected, ConversationFailed, Disconnected, Event, LameDuckMode, ServerReportedError
from jsproto.grammar.config import ServerInfo
from jsproto.grammar.headers import HeadersLike, encode_headers
from jsproto.grammar.subjects import check_queue, check_subject
from jsproto.outbox import BulkConversation, BulkOutbox, Conversation
from jsproto.rules.link import LinkPhase
from jsproto.ticket import Ticket
from jsproto.timers import Deadlines, earliest
from jsproto.wire.encoder import encode_sub, encode_unsub
from jsproto.wire.frames import DeliveryRun, Msg, MsgRun, PlainRun

T = TypeVar("T")

MIN_TOKEN: Final = 16  # bytes


def _decoded(message: Msg) -> Msg:
    return message


class Session(BulkOutbox):
    """One logical connection to NATS, in the client role.

    ``token`` is its only entropy: 16 random bytes or more. Inboxes and replies are made of what ``draw()`` gives: 16
    unguessable characters. The same token and inputs give the same bytes.

    Attributes:

    * ``options``: the ``ConnectOptions``.
    * ``now``: seconds, the time of the last bytes, timeout or ``note``. Scripts go on at that time.
    * ``scripts``: the ``ScriptRunner``.
    * ``connected``: a ticket with the ``ServerInfo`` of the first link.
    * ``error``: why the session ended. None while it lives, or if the application closed it.
    * ``closed``: it has ended.
    * ``wants_close``: the driver is to close the socket.
    * ``draw``: gives 16 bytes of unguessable text. ``draw_many(count)``: a list of them.
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
        tokens = Tokens(token)
        self.draw, self.draw_many = tokens.draw, tokens.draw_many
        self._link: Link | None = None
        self._server_pool = ServerPool(options, int(self.draw(), 16))
        self._address: Address | None = None
        self._server: ServerInfo | None = None
        self._write_buffer = WriteBuffer(options, self.completed)
        self._routes: dict[bytes, Conversation] = {}
        self._subscribed: dict[bytes, bytes] = {}  # by sid: the SUB, for a new link
        self._ping_later: Ticket[float] | None = None  # one for all calls without a link
        self._sids = 0
        self._with_fields: set[bytes] = set()  # ids of runs wanted with fields
        self._deadlines: Deadlines[Conversation] = Deadlines()
        self._completed: list[Ticket[Any]] = []
        self._events: list[Event] = []
        self.scripts = ScriptRunner(self.completed, self.emit)
        self._move: LameDuckMove | None = None
        self._in_msgs = self._in_bytes = self._links = self._errors_received = 0
        self._requests = Requests(self, self.new_inbox(), self.draw)

    def __repr__(self) -> str:
        return f"<Session {self.state}>"

    @property
    def state(self) -> str:
        """Where the session stands, in one line that is free of secrets."""
        where = (self._address or self.options.servers[0]).url
        if self.closed:
            return f"{where} closed" + ("" if self.error is None else f": {self.error}")
        waiting = f"{self._write_buffer.size} bytes waiting"
        if self.is_connected and self._server is not None:
            return f"{where} connected, nats-server {self._server.version}, {waiting}"
        return f"{where} {'reconnecting' if self.connected.done else 'connecting'}, {waiting}"

    # -- the link ------------------------------------------------------------------------------------------------------

    @property
    def connect_to(self) -> Address | None:
        """Dial this now. None while a link lives, during a pause, or after the end."""
        return None if self.closed else self._server_pool.address

    def connection_made(self, now: float) -> None:
        """The address of ``connect_to`` was dialled and answers. After the end it is to be closed: ``wants_close``.

        Raises:
            LocalProtocolError: the session asked for no connection.
        """
        if self.closed:
            return
        address = self.connect_to
        if address is None:
            raise LocalProtocolError("this session asked for no connection")
        self._server_pool.dialled()
        self._address = address
        self._link = Link(self.options, address, now)
        self.wants_close = False

    def connection_failed(self, reason: str, now: float) -> None:
        """The address of ``connect_to`` is unreachable. The next one is due, now or later, or the session ends.

        ``reason`` is one line. After the end the call is ignored.

        Raises:
            LocalProtocolError: the session asked for no connection.
        """
        if self.closed:
            return
        if self.connect_to is None:
            raise LocalProtocolError("this session asked for no connection")
        self._server_pool.failed(reason, now)
        if self._server_pool.gave_up:
            self._end(NoServersError(tuple(self._server_pool.attempts)), now)

    def receive_data(self, data: bytes, now: float) -> None:
        """Bytes from the peer, cut anywhere."""
        link = self._link
        if link is None or self.closed:
            return
        self.now = now
        self._in_bytes += len(data)
        routes, count = self._routes, 0
        frames = link.decoder.feed(data)
        is_open = link.is_open
        while True:
            try:
                for frame in frames:
                    if type(frame) is Msg and is_open:
                        count += 1
                        conversation = routes.get(frame.sid)
                        if conversation is not None:  # else it was under way when we unsubscribed
                            conversation.receive(frame, now)
                    elif type(frame) is DeliveryRun and is_open:
                        count += len(frame.raws)
                        self._receive_delivered(frame, now)
                    elif type(frame) is MsgRun and is_open:
                        count += len(frame.payloads)
                        self._receive_run(frame, now)
                    elif type(frame) is PlainRun and is_open:
                        count += len(frame.payloads)
                        self._receive_plain(frame, now)
                    else:
                        link.receive(frame, now)
                        is_open = link.is_open
                        while link.violations:  # before the answers that follow
                            self._deny(link.violations.pop(0), now)
                break
            except Exception as bug:
                if type(frame) is not Msg:  # type: ignore[possibly-undefined, unused-ignore]
                    raise
                self._crash(conversation, bug, now)  # type: ignore[possibly-undefined, arg-type, unused-ignore]
                frames = frames[next(place for place, each in enumerate(frames, 1) if each is frame) :]
        self._in_msgs += count
        self._after_link(link, now)

    def receive_eof(self, now: float, reason: str = "the server closed the connection") -> None:
        """The stream ended, or broke. ``reason`` is one line, for the error of every open ticket."""
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
        """The host name that the server's certificate must have."""
        address = self._address or self.options.servers[0]
        name = self.options.tls_hostname or address.tls_name or address.host
        return name.removesuffix(".")  # of a fully qualified name, which certificates have without it

    def tls_made(self, now: float) -> None:
        """TLS has begun, and the server's certificate is the right one.

        Raises:
            LocalProtocolError: the session asked for no TLS.
        """
        link = self._link
        if link is None or not self.wants_tls:
            raise LocalProtocolError("this session asked for no TLS")
        link.secured(now)
        self._after_link(link, now)

    def tls_failed(self, reason: str, now: float) -> None:
        """TLS failed to begin, or broke: the link is lost with TLSError. ``reason`` is one line."""
        link = self._link
        if link is not None and not self.closed:
            link.insecure(reason)
            self._after_link(link, now)

    # -- time ----------------------------------------------------------------------------------------------------------

    def handle_timeout(self, now: float) -> None:
        """Time has passed. Early and repeated calls are harmless. Before a late one, put in what has come."""
        if self.closed:
            return
        self.now = now
        self._write_buffer.handle_timeout(now)
        if self._server_pool.handle_timeout(now):
            self._end(NoServersError(tuple(self._server_pool.attempts)), now)
            return
        link = self._link
        if link is not None:
            link.handle_timeout(now)
            self._after_link(link, now)
        for conversation in self._deadlines.due(now):
            try:
                conversation.handle_timeout(now)
                self._deadlines.set(conversation, conversation.deadline())
            except Exception as bug:
                self._crash(conversation, bug, now)

    def deadline(self) -> float | None:
        """When ``handle_timeout`` wants to be called, in the caller's monotonic seconds. None: it is at rest.

        Drivers ask after each input, so it makes no list. Pays: ``fast-ingest``.
        """
        if self.closed:
            return None
        beneath = self._server_pool if self._link is None else self._link
        first = beneath.deadline()
        when = self._deadlines.next()
        if when is not None and (first is None or when < first):
            first = when
        when = self._write_buffer.leave_at
        if when is not None and (first is None or when < first):
            first = when
        return first if self.connected.done else earliest((first, self._server_pool.deadline()))

    # -- outputs -------------------------------------------------------------------------------------------------------

    def wants_send(self, now: float) -> bool:
        """Whether bytes should leave now: a PONG or a flush is due, many wait, or they have waited long enough."""
        link = self._link
        if link is None:
            return False
        if link.to_send or link.pongs_owed:
            return True
        buffer = self._write_buffer
        if not (buffer.size or buffer.is_urgent):
            return False
        return (link.is_open or self.closed) and buffer.wants_send(now)

    def is_late(self, wakes_at: float) -> bool:
        """Whether there is news, or a deadline before ``wakes_at`` (seconds), when the driver wakes up by itself."""
        if self.has_news:
            return True
        deadline = self.deadline()
        return deadline is not None and deadline < wakes_at

    def data_to_send(self) -> list[bytes]:
        """Everything that may be written now, in order. It counts as written."""
        link = self._link
        if link is None:
            return []
        data = link.data_to_send() if link.to_send or link.pongs_owed else []
        if link.is_open or self.closed:
            data += self._write_buffer.take()
        return data

    def nudge(self) -> None:
        """TLS has bytes of its own to send: ``wants_send`` is true, though the session's own have left."""
        if self._link is not None:
            self._link.to_send.append(b"")

    @property
    def has_news(self) -> bool:
        """Whether ``take_completed()`` or ``events()`` has something."""
        return bool(self._completed or self._events)

    def take_completed(self) -> list[Ticket[Any]]:
        """The tickets completed since the last call. The driver calls ``wake()`` on each."""
        completed, self._completed = self._completed, []
        return completed

    def events(self) -> list[Event]:
        """The events since the last call, oldest first."""
        events, self._events = self._events, []
        return events

    @property
    def congested(self) -> bool:
        """Whether more than half of ``pending_size`` bytes wait: stop publishing until ``sendable()``."""
        buffer = self._write_buffer
        return buffer.size > buffer.congested_at

    def sendable(self) -> Ticket[None]:
        """Completed when the bytes that wait now were taken to be written, or the session has ended."""
        return self._write_buffer.sendable()

    # -- the application's verbs ---------------------------------------------------------------------------------------

    @property
    def server(self) -> ServerInfo | None:
        """The server's last INFO. None before the first."""
        return self._server

    @property
    def is_connected(self) -> bool:
        """Whether there is a link whose handshake is complete."""
        return self._link is not None and self._link.is_open

    @property
    def url(self) -> str | None:
        """The address in use, freed of credentials. None before the link is made."""
        return None if self._address is None else self._address.url

    @property
    def max_payload(self) -> int:
        """The largest message that the server takes: bytes of headers and payload together."""
        return self._write_buffer.max_payload

    @property
    def published(self) -> int:
        """How many messages were published."""
        return self._write_buffer.published

    @property
    def is_busy(self) -> bool:
        """Whether something would be lost with the link: what waits to be written, answers, or batches."""
        return self._write_buffer.size > 0 or any(conversation.is_busy for conversation in self._routes.values())

    @property
    def has_other_servers(self) -> bool:
        """Whether there are servers besides the one in use, as far as that one says."""
        return self._server_pool.has_others

    @property
    def stats(self) -> Statistics:
        """What was carried up to now."""
        buffer = self._write_buffer
        return Statistics(
            in_msgs=self._in_msgs, in_bytes=self._in_bytes, out_msgs=buffer.published, out_bytes=buffer.written,
            reconnects=max(self._links - 1, 0), errors_received=self._errors_received, pending_bytes=buffer.size,
        )  # fmt: skip

    @property
    def closed_error(self) -> Error | None:
        """Why the session ended. None while it lives."""
        if not self.closed:
            return None
        return self.error or ConnectionClosedError("the connection was closed")

    def new_inbox(self) -> str:
        """An unguessable subject of its own."""
        return f"{self.options.inbox_prefix}.{self.draw().decode()}{self.draw().decode()}"

    def publish_message(
        self, subject: str, payload: bytes = b"", *, reply: str | None = None, headers: HeadersLike | None = None
    ) -> None:
        """Publish a core NATS message: the server acknowledges nothing, and reports no error of the other side.

        ``reply``: the subject for answers. ``headers``: names and values.

        Raises, with nothing written:
            BadSubjectError, BadHeaderError: the subject, the reply or a header is not allowed.
            LocalProtocolError: as ``publish``.
        """
        block = None if headers is None else encode_headers(headers)
        self._write_buffer.publish(subject, payload, None if reply is None else check_subject(reply), block)

    def request(
        self, subject: str, payload: bytes = b"", *, now: float, timeout: float | None = None,
        headers: HeadersLike | None = None,
    ) -> Ticket[Msg]:  # fmt: skip
        """Ask ``subject``; the ticket takes the answer. ``timeout``: seconds. None: those of the options.

        The ticket fails with:
            NoRespondersError: no service listens on the subject.
            TimeoutError: no answer came in time.
            ConnectionLostError, ConnectionClosedError: the link was lost, or the session has ended.

        Raises: as ``publish_message``.
        """
        return self.requests.request(
            subject, payload, timeout=self.options.timeout if timeout is None else timeout, now=now, decode=_decoded,
            headers=headers,
        )  # fmt: skip

    @property
    def requests(self) -> Requests:
        """The request mux, for conversations that send a request and decode its answer."""
        return self._requests

    def ping(self, now: float) -> Ticket[float]:
        """Send a PING. The ticket takes the round trip in seconds, once the server has processed what was sent before.

        Between links the PING waits for the next one. All calls made meanwhile share one PING and its ticket.

        Raises:
            ConnectionClosedError: the session has ended.
        """
        if self.closed:
            self._write_buffer.refuse()
        link = self._link
        if link is None or not link.is_open:
            if self._ping_later is None:
                self._ping_later = Ticket()
            return self._ping_later
        ticket: Ticket[float] = Ticket()
        # The PING must leave after what was published before it.
        link.to_send += self._write_buffer.take_before_ping()
        link.ping(ticket, now)
        return ticket

    def force_reconnect(self, now: float) -> None:
        """Leave the link for the next server, or end the pause before the next attempt.

        What was under way is lost as with any link. While a server is being dialled it is ignored.

        Raises:
            ConnectionClosedError: the session has ended.
            LocalProtocolError: ``max_reconnect_attempts`` is 0.
        """
        if self.closed:
            self._write_buffer.refuse()
        if not self.options.max_reconnect_attempts:
            raise LocalProtocolError("max_reconnect_attempts is 0: there would be no link after this one")
        if self._link is None:
            self._server_pool.hurry()
        elif self._link.is_open:
            self.leave_link("force_reconnect() was called", now)

    def leave_link(self, reason: str, now: float) -> None:
        """End the link, which is open, to have another one. ``reason`` is one line."""
        link = self._link
        assert link is not None
        link.close()
        self._link_lost(link, ConnectionLostError(f"this side left the link: {reason}"), now, left=True)

    def drain(self, now: float, subscriptions: Iterable[Drainable] | None = None) -> Ticket[None]:
        """End these subscriptions. The ticket completes when all that the server had sent for them is buffered.

        None: all subscriptions, because the session is closed next.
        """
        if subscriptions is not None:
            return self.run(drain(self, subscriptions, now))
        return self.run(drain(self, self.drainable, now, closing=True))

    @property
    def drainable(self) -> list[Drainable]:
        """The subscriptions that ``drain`` takes."""
        return [kept for kept in dict.fromkeys(self._routes.values()) if isinstance(kept, Drainable)]

    def note(self, now: float) -> None:
        """A verb is called at ``now``: what it starts goes by ``Session.now``."""
        self.now = max(self.now, now)

    def run(self, script: Script[T]) -> Ticket[T]:
        """Run a script: a generator that yields tickets and is sent their values (``script_runner``).

        The ticket takes what the script returns, or fails with the ``Error`` that it raises.
        """
        return self.scripts.run(script)

    def abandon(self, brought: object, now: float) -> None:
        """The caller of a verb has gone: end what it returned if it is ``Live``, or a ticket that brings that."""
        self.note(now)
        self.scripts.abandon(brought, now)

    def close(self, now: float) -> None:
        """End the session: open tickets fail. Bytes that wait stay in ``data_to_send()`` for a last write."""
        if not self.closed:
            self._end(None, now)

    def abort(self, reason: str, now: float) -> None:
        """End the session with ConnectionLostError: the driver has failed for good. Dialling ends."""
        if not self.closed:
            self._end(ConnectionLostError(reason), now)

    # -- outbox: what conversations call -------------------------------------------------------------------------------

    def publish(self, subject: str, payload: bytes, reply: bytes | None = None, headers: bytes | None = None) -> None:
        """Queue a message. ``reply`` is a checked subject, ``headers`` an encoded block.

        Raises, with nothing queued:
            BadSubjectError: ``subject`` is no subject, or has wildcards.
            MaxPayloadError: headers and payload are larger than ``max_payload``.
            OutboundBufferLimitError: more than ``pending_size`` bytes wait already.
            UnsupportedByServerError: the server takes no headers.
            ConnectionClosedError: the session has ended.
            WrongTypeError: ``payload`` is not bytes-like.
        """
        self._write_buffer.publish(subject, payload, reply, headers)

    @property
    def takes_patterns(self) -> bool:
        """True: the session's connections leave ``pedantic`` off."""
        return True

    def publish_to_pattern(self, subject: str, payload: bytes, reply: bytes, headers: bytes | None = None) -> None:
        """``publish`` to a subject that may have wildcards, as the API has for a consumer with a filter.

        Servers accept it on connections such as the session's, which leave ``pedantic`` off. Raises: as ``publish``.
        """
        self._write_buffer.publish_to_pattern(subject, payload, reply, headers)

    def subscribe(self, subject: str, conversation: Conversation, queue: str | None = None) -> int:
        """Subscribe ``conversation`` to ``subject`` (wildcards allowed), in the queue group ``queue``.

        Returns the subscription's id, which ``unsubscribe`` takes.

        Raises:
            BadSubjectError: ``subject`` or ``queue`` is not allowed.
            ConnectionClosedError: the session has ended.
        """
        pattern = check_subject(subject, wildcards=True)
        group = None if queue is None else check_queue(queue)
        if self.closed:
            self._write_buffer.refuse()
        self._sids += 1
        sid = b"%d" % self._sids
        self._routes[sid] = conversation
        self._subscribed[sid] = encode_sub(pattern, group, sid)
        self._write_buffer.queue(self._subscribed[sid])
        return self._sids

    def publish_replies(self, replies: Sequence[bytes], payload: bytes) -> None:
        """Queue one small ``payload`` to each of these subjects, which came off the wire as they are: all, or none.

        Raises:
            OutboundBufferLimitError: more than ``pending_size`` bytes wait already.
            ConnectionClosedError: the session has ended.
        """
        self._write_buffer.publish_replies(replies, payload)

    def publish_run(self, messages: Sequence[Any], reply: tuple[bytes, bytes], first: int) -> int:
        """Queue from the front of ``messages`` those that one check covers. Returns how many, perhaps 0.

        ``messages``: tuples of subject, payload and perhaps headers, or ``MessageColumns``, which may have been encoded
        already. ``reply``: the bytes before and after the number in the reply subjects, which count up from ``first``.
        A message ends the run if it has a bad subject, a large payload, or headers that are unsendable or those of an
        atomic batch. So does a full buffer. ``publish`` takes such a message, or raises.
        """
        return self._write_buffer.publish_run(messages, reply, first)

    def publish_replied(self, messages: Sequence[Any], replies: Sequence[bytes]) -> int:
        """``publish_run`` for messages with the reply subjects ``replies``, which have been checked."""
        return self._write_buffer.publish_replied(messages, replies)

    def publish_numbered(
        self, messages: Sequence[Any], block: tuple[bytes, bytes], first: int, subjects: set[str]
    ) -> int:
        """``publish_run`` for messages that lack replies and whose header blocks count up from ``first``.

        ``block``: the bytes before and after the number. The headers of a message follow them, and a name that begins
        with ``Nats-`` ends the run. The subjects of the messages are added to ``subjects``.
        """
        return self._write_buffer.publish_numbered(messages, block, first, subjects)

    def unsubscribe(self, sid: int, max_msgs: int | None = None) -> None:
        """End a subscription, at once or after ``max_msgs`` messages in all. Unknown ids are passed over."""
        if max_msgs is None:
            self.end_interest(sid)
            self.forget(sid)
        elif b"%d" % sid in self._routes and not self.closed:
            self._write_buffer.queue(encode_unsub(b"%d" % sid, max_msgs))

    def unsubscribe_later(self, sid: int) -> None:
        """End a subscription, here at once. The UNSUB leaves with the next frames that are sent."""
        key = b"%d" % sid
        if key in self._routes and not self.closed:
            self._write_buffer.queue_uncounted(encode_unsub(key, None))
        self.forget(sid)

    def end_interest(self, sid: int) -> None:
        """Send the UNSUB, but keep routing messages under way until ``forget``."""
        key = b"%d" % sid
        if key in self._routes and not self.closed:
            self._subscribed.pop(key, None)
            self._write_buffer.queue(encode_unsub(key, None))

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
        """``ticket`` is done: the driver wakes its waiter, and the scripts that wait for it go on."""
        self._completed.append(ticket)
        if self.scripts.waiting:
            self.scripts.go_on(ticket)

    def completed_many(self, tickets: Sequence[Ticket[Any]]) -> None:
        """``completed`` for each of ``tickets``."""
        self._completed += tickets
        if self.scripts.waiting:
            for ticket in tickets:
                self.scripts.go_on(ticket)

    def emit(self, event: Event) -> None:
        """Add ``event`` to ``events()``."""
        self._events.append(event)

    def flush(self) -> None:
        """The frames that wait are to leave now."""
        self._write_buffer.flush()

    def rearm(self, conversation: Conversation) -> None:
        """Ask ``conversation`` for its deadline again."""
        self._deadlines.set(conversation, conversation.deadline())

    # -- inside --------------------------------------------------------------------------------------------------------

    def _receive_delivered(self, delivered: DeliveryRun, now: float) -> None:
        conversation, raws = self._routes.get(delivered.sid), delivered.raws
        if conversation is None:
            return
        try:
            taken = conversation.receive_many(raws, delivered.size, now)
            while taken < len(raws) and delivered.sid in self._routes:  # else it has unsubscribed
                conversation.receive(delivered.message(taken), now)
                taken += 1
                if taken == 1 and delivered.sid in self._routes:  # it has looked at one: it may know the others
                    taken += conversation.receive_many(raws[1:], delivered.size - size_of(raws[:1]), now)
        except Exception as bug:
            self._crash(conversation, bug, now)

    def _receive_run(self, row: MsgRun, now: float) -> None:
        conversation = self._routes.get(row.sid)
        if conversation is None:
            return
        try:
            if isinstance(conversation, BulkConversation):
                conversation.receive_run(row, now)
                return
            for message in row.messages():
                conversation.receive(message, now)
                if row.sid not in self._routes:  # it has unsubscribed
                    break
        except Exception as bug:
            self._crash(conversation, bug, now)

    def _receive_plain(self, run: PlainRun, now: float) -> None:
        routes, runs = self._routes, [run]
        if run.sids.count(run.sids[0]) < len(run.sids):
            found = [(sid, routes.get(sid)) for sid in {*run.sids}]
            runs = run.by_sid([sid for sid, conversation in found if conversation and conversation.in_any_order])
        for each in runs:
            sid = each.sids[0]
            conversation = routes.get(sid)
            if conversation is None:
                continue
            try:
                for place in range(conversation.receive_plain(each, now), len(each.payloads)):
                    if sid not in routes:  # it has unsubscribed
                        break
                    conversation.receive(each.message(place), now)
            except Exception as bug:
                self._crash(conversation, bug, now)

    def _after_link(self, link: Link, now: float) -> None:
        """Take over what the link found out."""
        if link.decoder.error is not None and link.error is None:
            link.error = link.decoder.error
        if link.events:
            events, link.events = link.events, []
            self._events += events
            for event in events:
                if isinstance(event, Connected):
                    self._learn(event.server)
                    self._opened(link, event.server, now)
                elif isinstance(event, ServerReportedError):
                    self._errors_received += 1
                elif isinstance(event, LameDuckMode) and link.server is not None and link.is_open:
                    self._learn(link.server)
                    self._begin_move(now)
        if link.server is not self._server and link.server is not None and link.was_open:
            self._server = link.server
            self._learn(link.server)
        if link.ponged:
            ponged, link.ponged = link.ponged, []
            for ticket in ponged:
                self.completed(ticket)
        if link.error is not None and not self.closed:
            self._link_lost(link, link.error, now)
        elif self._move is not None:
            self._move.check(now)

    def _begin_move(self, now: float) -> None:
        """The server is about to go. Look for a moment to leave it, while there is another one."""
        if self.options.max_reconnect_attempts:
            self._move = LameDuckMove(self, now + self._server_pool.spread())
            self._deadlines.set(self._move, self._move.deadline())

    def _end_move(self) -> None:
        if self._move is not None:
            self._deadlines.set(self._move, None)
            self._move.end()
            self._move = None

    def _deny(self, violation: PermissionsViolationError, now: float) -> None:
        """Tell the conversations whose subscription was refused. Of a message the sender is unknown: tell all."""
        line = b"SUB %b " % violation.subject.encode()
        by_publish = violation.operation == "publish"
        concerned = [
            conversation
            for sid, conversation in self._routes.items()
            if by_publish or self._subscribed.get(sid, b"").startswith(line)
        ]
        self._tell(concerned, lambda conversation: conversation.denied(violation, now), now)

    def _tell(self, conversations: Iterable[Conversation], tell: Callable[[Conversation], None], now: float) -> None:
        """Tell each of these conversations something, once."""
        for conversation in dict.fromkeys(conversations):
            try:
                tell(conversation)
            except Exception as bug:
                self._crash(conversation, bug, now)

    def _crash(self, conversation: Conversation, bug: Exception, now: float) -> None:
        """A conversation has raised ``bug``, which is a fault of this library: it ends, and the others go on."""
        name = type(conversation).__name__
        error = InternalError(name, bug)
        self.emit(ConversationFailed(name, error))
        for sid in [sid for sid, kept in self._routes.items() if kept is conversation]:
            self.unsubscribe(int(sid))
        try:
            conversation.crashed(error, now)
        except Exception as another:
            self.emit(ConversationFailed(name, InternalError(name, another)))
        self._deadlines.set(conversation, None)

    def _learn(self, server: ServerInfo) -> None:
        for dropped in self._write_buffer.learn(server):
            self._requests.dropped(*dropped, server.max_payload)
        self._server_pool.learn(server.connect_urls or (), leaving=server.ldm)

    def _opened(self, link: Link, server: ServerInfo, now: float) -> None:
        """The handshake is complete: subscriptions go first, then the frames that waited."""
        first = not self.connected.done
        link.decoder.allow_runs(self._with_fields)  # from now on messages have somewhere to go
        self._server = server
        self._server_pool.connected(now)
        self._links += 1
        if first:
            self.connected.succeed(server)
            self._completed.append(self.connected)
        else:
            self._write_buffer.queue_first(self._subscribed.values())
            self.flush()
            self._tell(self._routes.values(), lambda conversation: conversation.link_restored(now), now)
        ticket, self._ping_later = self._ping_later, None
        if ticket is not None:
            link.to_send += self._write_buffer.take_before_ping()
            link.ping(ticket, now)

    def _link_lost(self, link: Link, error: Error, now: float, *, left: bool = False) -> None:
        """The link is gone: dial again, or end. The text of a handshake's error names the server.

        ``left``: this side has ended it, to have another one.
        """
        self._link = None
        self.wants_close = True
        self._end_move()
        self._fail(link.open_tickets(), error)
        if link.was_open:
            self._write_buffer.drop()
            self._events.append(Disconnected(error))
            self._server_pool.lost(now, left=left)
        else:
            self._server_pool.failed(str(error), now, refused=link.refused)
        if self._server_pool.gave_up:
            alone = (
                self._server_pool.refused
                or link.was_open
                or (not self.connected.done and len(self._server_pool.attempts) == 1)
            )
            if alone and not link.was_open:
                error.args = (f"{self.url}: {error}",)
            self._end(error if alone else NoServersError(tuple(self._server_pool.attempts)), now)
        elif link.was_open:
            self._tell(self._routes.values(), lambda conversation: conversation.link_lost(error, now), now)

    def _end(self, error: Error | None, now: float) -> None:
        link = self._link
        self._end_move()
        self.flush()
        if error is not None or link is None or not link.is_open:
            self._write_buffer.drop()  # no server is there to take it
        self.closed = self.wants_close = True
        self.error = error
        self._write_buffer.close(error)
        why = error or ConnectionClosedError("the connection was closed")
        failed: list[Ticket[Any]] = [] if self.connected.done else [self.connected]
        if self._ping_later is not None:
            failed.append(self._ping_later)
            self._ping_later = None
        if link is not None:
            failed += link.open_tickets()
            link.close()
        self._fail(failed, why)
        told = [*self._routes.values(), *self._deadlines]
        self._tell(told, lambda each: each.link_lost(why, now), now)
        self._routes.clear()
        self._write_buffer.release()
        if link is not None or error is None:
            self._events.append(Disconnected(error))

    def _fail(self, tickets: Iterable[Ticket[Any]], error: Error) -> None:
        for ticket in tickets:
            ticket.fail(error)
            self.completed(ticket)


lend(Session, to="jsproto.client.connection")
