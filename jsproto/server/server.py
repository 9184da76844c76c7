"""A server in memory: sessions, the JetStream API and streams, joined by subjects.

A driver passes bytes to its sessions, and calls ``handle_timeout`` when ``deadline()`` says so. After each input it
writes what ``data_to_send()`` of the sessions returns. A server is an ``Outbox`` too, so conversations can subscribe
and publish without a link.

Rules:

* A message goes to every subscription that matches, to one member of each queue group, and to the stream that has its
  subject.
* A publisher without any taker gets the status 503, if it asked for that in CONNECT.
* What conversations and streams publish is routed after the message that caused it.
* One input routes at most ``MAX_TURNS`` messages inside. The rest waits for ``handle_timeout``, because a consumer that
  delivers to a stream can cause messages without end.
* Between links and streams messages may pass a ``MessageBus``, which may delay and lose them, as a cluster may.

Not here: other servers, accounts, storage, who may do what (``access``).
"""

from __future__ import annotations

from base64 import b32encode
from collections import deque
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any, Final, Literal, Protocol

from jsproto._event import event
from jsproto.errors import Error, LocalProtocolError
from jsproto.events import Event
from jsproto.grammar.acks import Dialect
from jsproto.grammar.config import ServerInfo, StreamConfig
from jsproto.grammar.cron import Zone
from jsproto.grammar.subjects import check_queue, check_subject
from jsproto.grammar.times import format_timestamp
from jsproto.outbox import Conversation
from jsproto.server.access import Access
from jsproto.server.api.streams import JetStreamApi
from jsproto.server.consume.consumer import Consumer
from jsproto.server.inlet import StreamInlet
from jsproto.server.read.direct import DirectGet
from jsproto.server.replication.replicas import Replica
from jsproto.server.routing import Removals, Subscriptions
from jsproto.server.session import MAX_PENDING, PING_INTERVAL, Interest, ServerSession
from jsproto.server.store.context import (
    ACCOUNT,
    NAME,
    REFERENCE,
    AccountLimits,
    BatchLimits,
    Release,
    ServerContext,
)
from jsproto.server.store.stream import Stream
from jsproto.ticket import Ticket
from jsproto.timers import Deadlines, earliest
from jsproto.wire.frames import Msg, Pub
from jsproto.wire.limits import DEFAULT_MAX_PAYLOAD

GIT_COMMIT: Final = "b2fd3ef"
GO: Final = "go1.27.2"
"""What INFO says of the program, as 2.15.1 does."""

MAX_TURNS: Final = 10_000
"""How many messages one input routes inside before it returns."""


@event
class RoutedMessage:
    """A message between a link and a stream, or a consumer.

    ``to``: a stream's name, or the subscription id of a consumer. None: it comes from one of them, and goes to the
    subscribers of ``inbox``, or of the message's subject.
    """

    to: str | int | None
    message: Msg
    inbox: str | None = None


class MessageBus(Protocol):
    """The way between the links of a server and its streams."""

    def carry(self, routed: RoutedMessage, now: float) -> None:
        """Take a message. ``now``: seconds."""

    def arrived(self, now: float) -> list[RoutedMessage]:
        """The messages that arrived since the last call, in their order."""

    def deadline(self) -> float | None:
        """When the next message arrives, in seconds. None: none is under way."""


_KEY_LENGTH: Final = 55
_SAID: Final = (("name", "name"), ("lang", "lang"), ("ver", "version"))
_NONCE_LENGTH: Final = 15


class _LocalSubscription:
    """A subscription without a link. ``limit``: it ends after so many ``delivered`` messages."""

    __slots__ = ("conversation", "delivered", "limit", "pattern", "queue", "sid")

    def __init__(self, sid: int, pattern: str, conversation: Conversation, queue: bytes | None) -> None:
        self.sid = sid
        self.pattern = pattern
        self.conversation = conversation
        self.queue = queue
        self.delivered = 0
        self.limit: int | None = None


class Server:
    """One server. ``now`` is seconds everywhere, of a clock that never goes back.

    Attributes:

    * ``context``: what its streams have in common.
    * ``api``: creates, changes and deletes streams.
    * ``sessions``: the open ones.
    * ``subscriptions``: of clients and of conversations.
    * ``removals``: which patterns of theirs, and of streams, have ended.
    * ``leaderless``: the names of streams without a leader.
    * ``choose``: maps the size of a queue group to the index of the member that gets a message. It may be replaced.
    """

    def __init__(
        self,
        *,
        token: bytes,
        limits: BatchLimits | None = None,
        dialect: Dialect = "released",
        release: Release = REFERENCE,
        domain: str | None = None,
        epoch: int = 0,
        ack_version: Literal[1, 2] = 1,
        max_payload: int = DEFAULT_MAX_PAYLOAD,
        max_pending: int = MAX_PENDING,
        ping_interval: float = PING_INTERVAL,
        tls_required: bool = False,
        bus: MessageBus | None = None,
        access: Access | None = None,
        host: str = "0.0.0.0",
        port: int = 4222,
        account_limits: AccountLimits | None = None,
        lenient: bool = False,
        zones: Callable[[str], Zone | None] | None = None,
        apply_delay: float = 0.0,
        wrong_guards: Callable[[int], int | None] | None = None,
    ) -> None:
        """A server without streams.

        ``token``: its only entropy. ``domain``: the JetStream domain. ``bus``: passed by messages between links and
        streams. ``max_payload``: bytes of a message. ``max_pending``: bytes that a client may leave unread.
        ``ping_interval``: seconds between PINGs to a client. ``access``: who may connect, and do what. None: anybody,
        and anything. ``tls_required``, ``host``, ``port``: what INFO says. The others are those of ``ServerContext``.

        Raises:
            LocalProtocolError: a user has an nkey, and nothing checks signatures.
        """
        if access is not None and access.needs_nonce and access.verify is None:
            raise LocalProtocolError("users with an nkey need Access.verify, which checks signatures")
        self.context = ServerContext(
            token, limits or BatchLimits(), domain, dialect, release, epoch=epoch, ack_version=ack_version,
            account_limits=account_limits or AccountLimits(), lenient=lenient, max_payload=max_payload, zones=zones,
            apply_delay=apply_delay, wrong_guards=wrong_guards,
        )  # fmt: skip
        self.sessions: list[ServerSession] = []
        self.leaderless: set[str] = set()
        self.choose: Callable[[int], int] = self._choose
        self._max_pending = max_pending
        self._ping_interval = ping_interval
        self._tls_required = tls_required
        self._bus = bus
        self._token = token
        self._starts = 0
        self._access = access
        self._id = _public_key("N", token)
        self._xkey = _public_key("X", token)
        self._host = host
        self._port = port
        self._clients = 0
        self.removals = Removals()
        self.subscriptions: Subscriptions[_LocalSubscription | Interest] = Subscriptions(self.removals)
        self._local_subscriptions: dict[int, _LocalSubscription] = {}
        self._sids = 0
        self._turn = 0
        self._now = 0.0
        self._queue: deque[tuple[Conversation, Msg | None, ServerSession | None]] = deque()
        self._requester: ServerSession | None = None  # whose message is being handled
        self._in_stream = False
        self._deadlines: Deadlines[Conversation] = Deadlines()
        self._events: list[Event] = []
        self.api = JetStreamApi(self.context, self)

    # -- links ---------------------------------------------------------------------------------------------------------

    def connect(self, now: float, client_ip: str = "127.0.0.1") -> ServerSession:
        """A connection was accepted. Returns the session that speaks with the client, at the address ``client_ip``."""
        self._clients += 1
        info = self.server
        info.client_id = self._clients
        info.client_ip = client_ip
        access = self._access
        info.auth_required = access is not None and not access.no_auth_user
        if access is not None and access.needs_nonce:
            info.nonce = self.context.next_id()[:_NONCE_LENGTH]
        session = ServerSession(
            self, info, now, access=access, max_pending=self._max_pending, ping_interval=self._ping_interval
        )  # fmt: skip
        self.sessions.append(session)
        return session

    def left(self, session: ServerSession) -> None:
        """Called by ``session``: it has ended."""
        self.sessions.remove(session)
        self._announce_interest()

    def changed(self, session: ServerSession, now: float) -> None:
        """Called by ``session``: its subscriptions have changed."""
        self._now = now
        self._announce_interest()
        self._run_queue()

    def publish_from(self, session: ServerSession, message: Pub, now: float) -> None:
        """Called by ``session``: its client published ``message``."""
        self._now = now
        routed = Msg(message.subject, b"", message.reply, message.header, message.payload)
        is_taken = _has_all_tokens(message.subject) and (self._route(routed, session) or self.api.hears(routed.subject))
        if not is_taken:
            session.tell_no_responders(message.subject, message.reply, now)
        self._run_queue()

    def lame_duck(self) -> None:
        """Say in INFO that the server is about to go. It closes no connection: its host does."""
        for session in self.sessions:
            session.say_lame_duck()

    # -- time ----------------------------------------------------------------------------------------------------------

    def handle_timeout(self, now: float) -> None:
        """Do what is due at ``now``. Early and repeated calls are harmless. Before a late one, put in what has come."""
        self._now = now
        if self._bus is not None:
            for routed in self._bus.arrived(now):
                self._receive_routed(routed)
        for inlet in list(self.api.streams.values()):
            self._in_stream = True
            inlet.handle_timeout(now)
            self.api.replica_sets[inlet.stream.config.name].catch_up(now)
            self._in_stream = False
        for conversation in self._deadlines.due(now):
            if not self._is_leaderless(conversation):
                self._dispatch(conversation, None)
                self.rearm(conversation)
        for session in list(self.sessions):
            session.handle_timeout(now)
        self._run_queue()

    def deadline(self) -> float | None:
        """When ``handle_timeout`` is due, in seconds. None: nothing is due by time alone."""
        deadlines = [self._now if self._queue else None, self._deadlines.next()]
        deadlines.append(None if self._bus is None else self._bus.deadline())
        deadlines += [inlet.deadline() for inlet in self.api.streams.values()]
        deadlines += [replica_set.deadline() for replica_set in self.api.replica_sets.values()]
        deadlines += [session.deadline() for session in self.sessions]
        return earliest(deadlines)

    # -- streams -------------------------------------------------------------------------------------------------------

    def add_stream(self, config: StreamConfig, now: float) -> Stream:
        """Create a stream without a link, or find it with the same configuration.

        Raises:
            APIError: servers refuse ``config``, or the name or a subject is in use.
        """
        return self.api.create(config, now)[0]

    def stream(self, name: str) -> Stream:
        """The stream with that name.

        Raises:
            KeyError: there is none.
        """
        return self.api.streams[name].stream

    def replicas(self, name: str) -> list[Replica]:
        """The replicas of a stream besides its leader. Set their ``lag`` for stale reads.

        Raises:
            KeyError: there is no such stream.
        """
        return self.api.replica_sets[name].replicas

    def mirror(self, name: str) -> Replica:
        """What copies its origin into the mirror with that name. Set its ``lag`` for stale reads.

        Raises:
            KeyError: there is no such stream, or it mirrors none that exists here, or a durable consumer feeds it.
        """
        mirror = self.api.replica_sets[name].mirror
        if mirror is None:
            raise KeyError(name)
        return mirror

    def lose_leader(self, name: str) -> None:
        """Take the leader from a stream, which then stores nothing, and whose consumers deliver nothing."""
        self.leaderless.add(name)
        self.removals.add(">")
        if name in self.api.streams:
            self.api.streams[name].proposals.forget()
            self.api.replica_sets[name].sources.stop(self._now)

    def elect_leader(self, name: str, now: float) -> None:
        """Give the stream a new leader, which knows what is stored.

        Raises:
            KeyError: there is no such stream.
        """
        self._now = now
        self.leaderless.discard(name)
        self._in_stream = True
        self.api.streams[name].lead(now)
        self.api.replica_sets[name].sources.start(now)
        self._in_stream = False
        self._run_queue()

    def shut_down(self, now: float) -> None:
        """End the pull requests that wait, with the status 409, before a driver ends the links (FACTS.md F0.15)."""
        self._now = now
        for inlet in self.api.streams.values():
            for consumer in inlet.consumers.values():
                consumer.shut_down()
        self._run_queue()

    def restart(self, now: float, *, unsynced_since: float | None = None) -> None:
        """End, and come again at ``now`` with what was on the disk and another server id (FACTS.md F6.12).

        The links, open batches, streams and consumers in memory, and what was on its way inside are gone. File streams
        stay, with their consumers and the ids of the messages that are still there. ``unsynced_since``: after a crash,
        streams with ``persist_mode="async"`` have lost what they stored from that moment on, in seconds. Other messages
        get its sequences.
        """
        for session in list(self.sessions):
            session.receive_eof()
        self._now = now
        self._queue.clear()
        self._starts += 1
        self._id = _public_key("N", self._token + b"%d" % self._starts)
        for name, inlet in list(self.api.streams.items()):
            self.lose_leader(name)
            if inlet.stream.config.storage == "memory":
                self.leaderless.discard(name)
                self.api.delete(name, now)
                continue
            if unsynced_since is not None and inlet.stream.config.persist_mode == "async":
                inlet.stream.truncate(unsynced_since, now)
            inlet.stream.rebuild_ids()
            for consumer in list(inlet.consumers.values()):
                if consumer.config.mem_storage:
                    self.api.consumers.delete(name, consumer.name, now)
                else:
                    consumer.go_back()
            inlet.fast.forget()
            self.elect_leader(name, now)
        self._queue = deque(one for one in self._queue if one[1] is None)  # nobody is there to hear of it

    # -- outbox: for conversations without a link ----------------------------------------------------------------------

    @property
    def server(self) -> ServerInfo:
        """What INFO reports."""
        return ServerInfo(
            self._id, NAME, self.context.version, 1, GIT_COMMIT, GO, self._host, self._port, headers=True,
            max_payload=self.context.max_payload, jetstream=True, domain=self.context.domain,
            api_lvl=None if self.context.is_before_2_12 else self.context.api_level, xkey=self._xkey,
            tls_required=self._tls_required,
        )  # fmt: skip

    @property
    def closed_error(self) -> Error | None:
        """None: a server in memory never ends."""
        return None

    def publish(self, subject: str, payload: bytes, reply: bytes | None = None, headers: bytes | None = None) -> None:
        """Publish a message. Conversations get it with the next ``handle_timeout``, which is due at once.

        Raises:
            BadSubjectError: ``subject`` is none.
        """
        self._send(
            subject, Msg(check_subject(subject, wildcards=True), b"", reply, headers, bytes(memoryview(payload)))
        )

    def deliver(self, inbox: str, message: Msg) -> None:
        """Send a message under its own subject to the subscribers of ``inbox``.

        Raises:
            BadSubjectError: ``inbox`` is no subject.
        """
        check_subject(inbox, wildcards=True)
        self._send(inbox, message)

    def has_interest(self, subject: str) -> bool:
        """Whether a client, a stream or a conversation gets what is sent to ``subject``."""
        return self.api.taker(subject) is not None or next(self._subscribers(subject, None), None) is not None

    def is_subscribed(self, subject: str, queue: str | None = None) -> bool:
        """Whether a client or a stream subscribes to ``subject`` itself, not by a wildcard.

        With ``queue`` only members of that group count, without it nobody in a group (FACTS.md F5.14).
        """
        group = None if queue is None else queue.encode()
        if group is None and any(
            subject in (inlet.stream.config.subjects or ()) for inlet in self.api.streams.values()
        ):
            return True
        return any(one.pattern == subject and one.queue == group for one in self._subscriptions())

    def client_info(self) -> dict[str, Any]:
        """What an audit says of the client whose request is being handled. Empty: it is none's."""
        session = self._requester
        if session is None:
            return {}
        known = {"user": session.user.name or session.user.nkey} if session.user is not None else {}
        said = {short: session.said.get(name) for short, name in _SAID}
        return {
            "start": format_timestamp(self.context.timestamp(session.since)), "host": session.client_ip,
            "id": session.client_id, "acc": ACCOUNT, **known, **{name: text for name, text in said.items() if text},
            "server": NAME, "kind": "Client", "client_type": "nats",
        }  # fmt: skip

    def schedule(self, conversation: Conversation) -> None:
        """Call the conversation's ``handle_timeout`` with the next one of the server, which is due at once."""
        self._queue.append((conversation, None, None))

    def subscribe(self, subject: str, conversation: Conversation, queue: str | None = None) -> int:
        """Subscribe ``conversation`` to ``subject``, in the group ``queue`` if there is one. Returns the id.

        Raises:
            BadSubjectError: ``subject`` or ``queue`` is none.
        """
        check_subject(subject, wildcards=True)
        group = None if queue is None else check_queue(queue)
        self._sids += 1
        local = _LocalSubscription(self._sids, subject, conversation, group)
        self._local_subscriptions[self._sids] = local
        self.subscriptions.add(local)
        if not isinstance(conversation, Consumer):
            self._announce_interest()
        return self._sids

    def unsubscribe(self, sid: int, max_msgs: int | None = None) -> None:
        """End a subscription, at once or after ``max_msgs`` messages in all. Unknown ids are ignored."""
        local = self._local_subscriptions.get(sid)
        if local is None:
            return
        if max_msgs is not None and local.delivered < max_msgs:
            local.limit = max_msgs
        else:
            self._remove_local(sid)
            if not isinstance(local.conversation, Consumer):
                self._announce_interest()

    def completed(self, ticket: Ticket[Any]) -> None:
        """``ticket`` has its answer."""
        ticket.wake()

    def emit(self, event: Event) -> None:
        """Keep an event of a conversation for ``events()``."""
        self._events.append(event)

    def events(self) -> list[Event]:
        """The events of conversations since the last call, oldest first."""
        events, self._events = self._events, []
        return events

    def flush(self) -> None:
        """Do nothing: a server in memory writes nothing itself."""

    def rearm(self, conversation: Conversation) -> None:
        """Read the deadline of ``conversation`` again, because it may have changed."""
        self._deadlines.set(conversation, conversation.deadline())

    # -- inside --------------------------------------------------------------------------------------------------------

    def _announce_interest(self) -> None:
        """Let all consumers look at their interest again, because subscriptions have changed."""
        for conversation in dict.fromkeys(local.conversation for local in self._local_subscriptions.values()):
            if isinstance(conversation, Consumer):
                conversation.interest_changed()

    def _is_leaderless(self, conversation: Conversation) -> bool:
        """Whether it is a consumer without a leader."""
        return isinstance(conversation, Consumer) and conversation.stream_name in self.leaderless

    def _send(self, inbox: str, message: Msg) -> None:
        """Send a message of a conversation or a stream to the subscribers of ``inbox``."""
        if self._in_stream and self._bus is not None:
            self._bus.carry(RoutedMessage(None, message, inbox), self._now)
        else:
            self._route(message, None, inbox)

    def _route(self, message: Msg, sender: ServerSession | None, inbox: str | None = None) -> bool:
        """Send a message to all takers of its subject, or of ``inbox``. Returns whether there is one."""
        subject = message.subject.decode("utf-8", "surrogateescape") if inbox is None else inbox
        inlet = self.api.taker(subject)
        taken = inlet is not None and inlet.stream.config.name not in self.leaderless
        if inlet is not None and taken:
            if self._bus is None:
                self._queue.append((inlet, message, None))
            else:
                self._bus.carry(RoutedMessage(inlet.stream.config.name, message), self._now)
        chosen: list[_LocalSubscription | Interest] = []
        groups: dict[bytes, list[_LocalSubscription | Interest]] = {}
        for one in self._subscribers(subject, sender):
            if isinstance(one, Interest) and not one.session.may_get(one, message.subject):
                continue
            if one.queue is None:
                chosen.append(one)
            else:
                groups.setdefault(one.queue, []).append(one)
        chosen += [members[self.choose(len(members))] for members in groups.values()]
        for one in chosen:
            if isinstance(one, Interest):
                one.session.deliver(one, message.subject, message.reply, message.header, message.payload, self._now)
            else:
                self._deliver_local(one, message, sender)
        return taken or bool(chosen)

    def _choose(self, members: int) -> int:
        # Knuth's linear congruential step (MMIX): the choice looks random, and is the same each time.
        self._turn = (self._turn * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) % 2**64
        return (self._turn >> 33) % members

    def _subscriptions(self) -> Iterator[_LocalSubscription | Interest]:
        """All subscriptions that may get a message of a conversation."""
        for local in self._local_subscriptions.values():
            if not self._is_leaderless(local.conversation):
                yield local
        for session in self.sessions:
            yield from session.interests.values()

    def _subscribers(self, subject: str, sender: ServerSession | None) -> Iterator[_LocalSubscription | Interest]:
        """The subscriptions that get what ``sender`` publishes to ``subject``."""
        for one in self.subscriptions.find(subject):
            if isinstance(one, Interest):
                if one.session is not sender or one.session.echo:
                    yield one
            elif not self._is_leaderless(one.conversation):
                yield one

    def _remove_local(self, sid: int) -> None:
        self.subscriptions.remove(self._local_subscriptions.pop(sid))

    def _deliver_local(self, local: _LocalSubscription, message: Msg, sender: ServerSession | None) -> None:
        if self._bus is not None and isinstance(local.conversation, Consumer):
            self._bus.carry(RoutedMessage(local.sid, message), self._now)
        else:
            self._enqueue(local, message, sender)

    def _enqueue(self, local: _LocalSubscription, message: Msg, sender: ServerSession | None = None) -> None:
        local.delivered += 1
        if local.limit is not None and local.delivered >= local.limit:
            self._remove_local(local.sid)
        delivered = Msg(message.subject, b"%d" % local.sid, message.reply, message.header, message.payload)
        self._queue.append((local.conversation, delivered, sender))

    def _receive_routed(self, routed: RoutedMessage) -> None:
        if routed.to is None:
            self._route(routed.message, None, routed.inbox)
        elif isinstance(routed.to, int):
            local = self._local_subscriptions.get(routed.to)
            if local is not None and not self._is_leaderless(local.conversation):
                self._enqueue(local, routed.message)
        elif routed.to in self.api.streams and routed.to not in self.leaderless:
            self._queue.append((self.api.streams[routed.to], routed.message, None))

    def _dispatch(self, conversation: Conversation, message: Msg | None, sender: ServerSession | None = None) -> None:
        """Give a conversation a message of ``sender``, or call its ``handle_timeout``."""
        if self._is_leaderless(conversation):
            return
        self._requester = sender
        self._in_stream = isinstance(conversation, StreamInlet | DirectGet | Consumer)
        if message is None:
            conversation.handle_timeout(self._now)
        else:
            conversation.receive(message, self._now)
        self._in_stream, self._requester = False, None

    def _run_queue(self) -> None:
        """Deliver what waits inside, at most ``MAX_TURNS`` messages. The rest is due at the next ``deadline()``."""
        for _ in range(MAX_TURNS):
            if not self._queue:
                return
            self._dispatch(*self._queue.popleft())


def _has_all_tokens(subject: bytes) -> bool:
    """Whether no token of a published subject is empty. One that has such a token matches nothing."""
    return bool(subject) and b".." not in subject and not subject.startswith(b".") and not subject.endswith(b".")


def _public_key(kind: str, token: bytes) -> str:
    """56 letters and digits that look like a public key of nats-server, of a server (N) or a curve (X)."""
    return kind + b32encode(sha256(kind.encode() + token).digest() + b"key").decode().rstrip("=")[:_KEY_LENGTH]
