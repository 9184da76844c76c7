"""A server in memory: sessions, the JetStream API and streams, joined by subjects.

It is driven like everything here: bytes go into its sessions, ``handle_timeout`` is called when ``deadline()`` says so,
and after each input whoever drives it writes what its sessions want written. It is an ``Outbox`` as well, so that
conversations can live beside its streams, without a link.

Rules: a message goes to every subscription that matches, to one member of each queue group, and to every
stream that takes its subject. Nobody there: the publisher is told, if it asked to be. What conversations and streams
publish is routed after the message that made them do so, at most ``MAX_TURNS`` messages for each input: where they
feed each other without end, as a consumer that delivers to a stream may, the rest waits for ``handle_timeout``. Between
links and streams messages may pass a ``MessageBus``, where a cluster delays them, and loses them at worst.

Not here: other servers, accounts, permissions, storage.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, Protocol

from jsproto._event import event
from jsproto.errors import Error
from jsproto.events import Event
from jsproto.grammar.acks import Dialect
from jsproto.grammar.config import ServerInfo, StreamConfig
from jsproto.grammar.subjects import check_queue, check_subject, matches
from jsproto.outbox import Conversation
from jsproto.server.api.streams import JetStreamApi
from jsproto.server.consume.consumer import Consumer
from jsproto.server.inlet import StreamInlet
from jsproto.server.read.direct import DirectGet
from jsproto.server.replication.replicas import Replica
from jsproto.server.session import Interest, ServerSession
from jsproto.server.store.context import NAME, REFERENCE, BatchLimits, Release, ServerContext
from jsproto.server.store.stream import Stream
from jsproto.ticket import Ticket
from jsproto.timers import Deadlines
from jsproto.wire.frames import Msg, Pub
from jsproto.wire.limits import DEFAULT_MAX_PAYLOAD

MAX_TURNS: Final = 10_000
"""How many messages are handed over inside before an input returns."""


@event
class RoutedMessage:
    """A message on its way.

    ``to`` a stream (its name) or a consumer (the id of its subscription), or from one of them to whoever subscribed
    (None): to the subject of the message, or to ``inbox``.
    """

    to: str | int | None
    message: Msg
    inbox: str | None = None


class MessageBus(Protocol):
    """What lies between the links of a server and its streams."""

    def carry(self, routed: RoutedMessage, now: float) -> None:
        """Take this."""

    def arrived(self, now: float) -> list[RoutedMessage]:
        """What has arrived since the last call, in the order of arrival."""

    def deadline(self) -> float | None:
        """When the next routed arrives."""


class _Local:
    """A subscription of a conversation that lives in the server."""

    __slots__ = ("conversation", "delivered", "limit", "pattern", "queue", "sid")

    def __init__(self, sid: int, pattern: str, conversation: Conversation, queue: bytes | None) -> None:
        self.sid = sid
        self.pattern = pattern
        self.conversation = conversation
        self.queue = queue
        self.delivered = 0
        self.limit: int | None = None


class Server:
    """One server. ``token`` is its only entropy.

    Attributes: ``context`` (what its streams have in common); ``api`` (creates, changes and deletes streams);
    ``sessions`` (the live ones); ``leaderless`` (names of streams that nobody leads at the moment); ``choose`` (which
    one of so many in a queue group has its turn; may be replaced).
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
        bus: MessageBus | None = None,
    ) -> None:
        """``max_payload`` in bytes; what is not said here as of ``ServerContext``."""
        self.context = ServerContext(
            token, limits or BatchLimits(), domain, dialect, release, epoch=epoch, ack_version=ack_version
        )  # fmt: skip
        self.sessions: list[ServerSession] = []
        self.leaderless: set[str] = set()
        self.choose: Callable[[int], int] = self._choose
        self._max_payload = max_payload
        self._bus = bus
        self._id = self.context.next_id()
        self._clients = 0
        self._locals: dict[int, _Local] = {}
        self._sids = 0
        self._turn = 0
        self._now = 0.0
        self._queue: deque[tuple[Conversation, Msg | None]] = deque()
        self._in_stream = False
        self._deadlines: Deadlines[Conversation] = Deadlines()
        self._events: list[Event] = []
        self.api = JetStreamApi(self.context, self)

    # -- links ---------------------------------------------------------------------------------------------------------

    def connect(self, now: float) -> ServerSession:
        """A client's connection was accepted: the session that speaks with it."""
        self._clients += 1
        info = self.server
        info.client_id = self._clients
        session = ServerSession(self, info, now)
        self.sessions.append(session)
        return session

    def left(self, session: ServerSession) -> None:
        """``session`` has ended. For sessions only."""
        self.sessions.remove(session)
        self._tell_interest()

    def changed(self, session: ServerSession, now: float) -> None:
        """``session`` subscribes to something else. For sessions only."""
        self._now = now
        self._tell_interest()
        self._work()

    def publish_from(self, session: ServerSession, message: Pub, now: float) -> None:
        """A client published. For sessions only."""
        self._now = now
        if not self._route(Msg(message.subject, b"", message.reply, message.header, message.payload), session):
            session.tell_no_responders(message.subject, message.reply)
        self._work()

    # -- time ----------------------------------------------------------------------------------------------------------

    def handle_timeout(self, now: float) -> None:
        """Time has passed; early, late and repeated calls are harmless."""
        self._now = now
        if self._bus is not None:
            for routed in self._bus.arrived(now):
                self._unpack(routed)
        for inlet in list(self.api.streams.values()):
            self._in_stream = True
            inlet.handle_timeout(now)
            self.api.replica_sets[inlet.stream.config.name].catch_up(now)
            self._in_stream = False
        for conversation in self._deadlines.due(now):
            if not self._is_silent(conversation):
                self._hand(conversation, None)
                self.rearm(conversation)
        for session in list(self.sessions):
            session.handle_timeout(now)
        self._work()

    def deadline(self) -> float | None:
        """When ``handle_timeout`` wants to be called."""
        deadlines = [self._now if self._queue else None, self._deadlines.next()]
        deadlines.append(None if self._bus is None else self._bus.deadline())
        deadlines += [inlet.deadline() for inlet in self.api.streams.values()]
        deadlines += [replica_set.deadline() for replica_set in self.api.replica_sets.values()]
        deadlines += [session.deadline() for session in self.sessions]
        return min((when for when in deadlines if when is not None), default=None)

    # -- streams -------------------------------------------------------------------------------------------------------

    def add_stream(self, config: StreamConfig, now: float) -> Stream:
        """Create a stream without asking over a link. APIError when it is refused."""
        return self.api.create(config, now)[0]

    def stream(self, name: str) -> Stream:
        """The stream with that name; KeyError when there is none."""
        return self.api.streams[name].stream

    def replicas(self, name: str) -> list[Replica]:
        """The copies of a stream besides its leader, as many as its configuration says; set ``lag`` for stale reads.

        KeyError when there is no such stream.
        """
        return self.api.replica_sets[name].replicas

    def mirror(self, name: str) -> Replica:
        """The mirror with that name on its way behind its origin; KeyError when there is none."""
        mirror = self.api.replica_sets[name].mirror
        if mirror is None:
            raise KeyError(name)
        return mirror

    def lose_leader(self, name: str) -> None:
        """Nobody leads the stream from now on: nobody takes what is published to it."""
        self.leaderless.add(name)

    def elect_leader(self, name: str, now: float) -> None:
        """The stream has a new leader, which knows what is stored."""
        self._now = now
        self.leaderless.discard(name)
        self._in_stream = True
        self.api.streams[name].lead(now)
        self._in_stream = False
        self._work()

    # -- outbox: what conversations that live here call ----------------------------------------------------------------

    @property
    def server(self) -> ServerInfo:
        """What INFO says."""
        return ServerInfo(
            self._id, NAME, self.context.version, 1, headers=True, max_payload=self._max_payload, jetstream=True,
            domain=self.context.domain, api_lvl=self.context.api_level,
        )  # fmt: skip

    @property
    def closed_error(self) -> Error | None:
        """A server in memory never ends."""
        return None

    def publish(self, subject: str, payload: bytes, reply: bytes | None = None, headers: bytes | None = None) -> None:
        """Publish a message. BadSubjectError. What lives here gets it after ``deadline()``, which is at once."""
        self._send(subject, Msg(check_subject(subject), b"", reply, headers, bytes(memoryview(payload))))

    def deliver(self, inbox: str, message: Msg) -> None:
        """Send a message to whoever subscribes to ``inbox``, under its own subject. BadSubjectError."""
        check_subject(inbox)
        self._send(inbox, message)

    def hears(self, subject: str, queue: str | None = None) -> bool:
        """Whether anybody subscribes to ``subject``; with ``queue``, in that group."""
        group = None if queue is None else queue.encode()
        return any(
            (group is None or one.queue == group) and matches(one.pattern, subject) for one in self._subscriptions(None)
        )

    def prompt(self, conversation: Conversation) -> None:
        """Call its ``handle_timeout`` after ``deadline()``, which is at once."""
        self._queue.append((conversation, None))

    def subscribe(self, subject: str, conversation: Conversation, queue: str | None = None) -> int:
        """Subscribe a conversation; returns the id. BadSubjectError."""
        check_subject(subject, wildcards=True)
        group = None if queue is None else check_queue(queue)
        self._sids += 1
        self._locals[self._sids] = _Local(self._sids, subject, conversation, group)
        if not isinstance(conversation, Consumer):
            self._tell_interest()
        return self._sids

    def unsubscribe(self, sid: int, max_msgs: int | None = None) -> None:
        """End a subscription, at once or after ``max_msgs`` messages in all; unknown ids are passed over."""
        local = self._locals.get(sid)
        if local is None:
            return
        if max_msgs is not None and local.delivered < max_msgs:
            local.limit = max_msgs
        else:
            del self._locals[sid]
            if not isinstance(local.conversation, Consumer):
                self._tell_interest()

    def completed(self, ticket: Ticket[Any]) -> None:
        """``ticket`` has its answer."""
        ticket.wake()

    def emit(self, event: Event) -> None:
        """Keep what a conversation tells for ``events()``."""
        self._events.append(event)

    def events(self) -> list[Event]:
        """What the conversations that live here told since the last call."""
        events, self._events = self._events, []
        return events

    def flush(self) -> None:
        """Nothing waits here."""

    def rearm(self, conversation: Conversation) -> None:
        """Ask ``conversation`` for its deadline again."""
        self._deadlines.set(conversation, conversation.deadline())

    # -- inside --------------------------------------------------------------------------------------------------------

    def _tell_interest(self) -> None:
        """Somebody subscribes, or does no more: let the consumers look again."""
        for conversation in dict.fromkeys(local.conversation for local in self._locals.values()):
            if isinstance(conversation, Consumer):
                conversation.interest_changed()

    def _is_silent(self, conversation: Conversation) -> bool:
        """Whether it is a consumer that nobody leads."""
        return isinstance(conversation, Consumer) and conversation.stream_name in self.leaderless

    def _send(self, inbox: str, message: Msg) -> None:
        """A message from what lives here to whoever subscribes to ``inbox``."""
        if self._in_stream and self._bus is not None:
            self._bus.carry(RoutedMessage(None, message, inbox), self._now)
        else:
            self._route(message, None, inbox)

    def _route(self, message: Msg, sender: ServerSession | None, inbox: str | None = None) -> bool:
        """Send a message to everybody who wants it, by its subject or by ``inbox``; False when there is nobody."""
        subject = message.subject.decode("utf-8", "surrogateescape") if inbox is None else inbox
        taken = False
        for name, inlet in self.api.streams.items():
            if name not in self.leaderless and inlet.stream.listens(subject):
                taken = True
                if self._bus is None:
                    self._queue.append((inlet, message))
                else:
                    self._bus.carry(RoutedMessage(name, message), self._now)
        chosen: list[_Local | Interest] = []
        groups: dict[tuple[str, bytes], list[_Local | Interest]] = {}
        for one in self._subscriptions(sender):
            if not matches(one.pattern, subject):
                continue
            if one.queue is None:
                chosen.append(one)
            else:
                groups.setdefault((one.pattern, one.queue), []).append(one)
        chosen += [members[self.choose(len(members))] for members in groups.values()]
        for one in chosen:
            if isinstance(one, Interest):
                one.session.deliver(one, message.subject, message.reply, message.header, message.payload)
            else:
                self._deliver_local(one, message)
        return taken or bool(chosen)

    def _choose(self, members: int) -> int:
        # Knuth's linear congruential step (MMIX): who has its turn is as good as random, and the same each time.
        self._turn = (self._turn * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) % 2**64
        return (self._turn >> 33) % members

    def _subscriptions(self, sender: ServerSession | None) -> Iterator[_Local | Interest]:
        """Who may get what ``sender`` publishes."""
        for local in self._locals.values():
            if not self._is_silent(local.conversation):
                yield local
        for session in self.sessions:
            if session is not sender or session.echo:
                yield from session.interests.values()

    def _deliver_local(self, local: _Local, message: Msg) -> None:
        if self._bus is not None and isinstance(local.conversation, Consumer):
            self._bus.carry(RoutedMessage(local.sid, message), self._now)
        else:
            self._put(local, message)

    def _put(self, local: _Local, message: Msg) -> None:
        local.delivered += 1
        if local.limit is not None and local.delivered >= local.limit:
            del self._locals[local.sid]
        delivered = Msg(message.subject, b"%d" % local.sid, message.reply, message.header, message.payload)
        self._queue.append((local.conversation, delivered))

    def _unpack(self, routed: RoutedMessage) -> None:
        if routed.to is None:
            self._route(routed.message, None, routed.inbox)
        elif isinstance(routed.to, int):
            local = self._locals.get(routed.to)
            if local is not None and not self._is_silent(local.conversation):
                self._put(local, routed.message)
        elif routed.to in self.api.streams and routed.to not in self.leaderless:
            self._queue.append((self.api.streams[routed.to], routed.message))

    def _hand(self, conversation: Conversation, message: Msg | None) -> None:
        """Let a conversation have a message, or its time."""
        if self._is_silent(conversation):
            return
        self._in_stream = isinstance(conversation, StreamInlet | DirectGet | Consumer)
        if message is None:
            conversation.handle_timeout(self._now)
        else:
            conversation.receive(message, self._now)
        self._in_stream = False

    def _work(self) -> None:
        """Let everybody receive what waits; what makes work without end has more of it at the next ``deadline()``."""
        for _ in range(MAX_TURNS):
            if not self._queue:
                return
            self._hand(*self._queue.popleft())
