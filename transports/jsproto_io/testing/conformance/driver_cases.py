"""Cases for drivers of a ``jsproto.Session``: how links begin, break and end, waits, timers, and much at once.

Not here: what each outbox does (``outbox_cases``).
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

from jsproto.api_errors import StreamNotFoundError
from jsproto.client.connection.subscription import Subscription
from jsproto.client.consume.message import JSMsg
from jsproto.client.consume.subscribe import SubscriptionSpec
from jsproto.client.jetstream import JetStream
from jsproto.errors import (
    AuthorizationError,
    ConnectionClosedError,
    NoRespondersError,
    NoServersError,
    TimeoutError,
)
from jsproto.events import Connected, Disconnected, Event
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.server.access import Access
from jsproto.server.server import Server
from jsproto.ticket import Ticket
from jsproto_io.testing.conformance.bench import (
    A_MOMENT,
    PATIENCE,
    Bench,
    Body,
    Case,
    Client,
    Listener,
    a_moment,
    heard,
    raises,
    same,
    session_of,
    until,
)

LARGE: Final = 900_000  # bytes
TURNS: Final = 1_000  # round trips, at most, until the server has seen the end of another link
DRAINED: Final = 50  # messages
GIVEN: Final = "given-"  # how names begin that the application gives
MOMENTS: Final = round(PATIENCE / A_MOMENT)
"""Moments, at most, until a driver has answered the server."""


def _kinds(events: list[Event]) -> list[str]:
    return [type(one).__name__ for one in events if isinstance(one, Connected | Disconnected)]


# -- how a link begins -------------------------------------------------------------------------------------------------


def a_driver_connects(bench: Bench) -> Body:
    """The session is connected, and the application is told of it."""
    client: Client = yield from bench.connect()
    session = session_of(client)
    same(session.is_connected, True, "is_connected")
    same(session.url, bench.server.url, "the address")
    yield from a_moment(client)
    same(_kinds(bench.events), ["Connected"], "events")
    yield client.close()
    same(_kinds(bench.events), ["Connected", "Disconnected"], "events")


def an_address_that_refuses_is_reported(bench: Bench) -> Body:
    """Where nobody listens, connecting fails with the addresses that were tried."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"nats://127.0.0.1:{bound.getsockname()[1]}"
        yield from raises(NoServersError, lambda: next(bench.connect(servers=url, max_reconnect_attempts=0)))


def the_next_address_is_dialled(bench: Bench) -> Body:
    """Of two addresses the one that answers is found."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        dead = f"nats://127.0.0.1:{bound.getsockname()[1]}"
        client: Client = yield from bench.connect(servers=f"{dead},{bench.server.url}")
    same(session_of(client).url, bench.server.url, "the address")
    yield client.close()


def a_refused_client_is_told_why(bench: Bench) -> Body:
    """A server that refuses the credentials ends the attempt with AuthorizationError."""
    yield from raises(AuthorizationError, lambda: next(bench.connect(token="wrong", max_reconnect_attempts=0)))
    client: Client = yield from bench.connect(token="right")
    yield client.wait(client.call(session_of(client).ping), PATIENCE)
    yield client.close()


def clients_do_not_share(bench: Bench) -> Body:
    """Two connections at once: each has its own subscriptions."""
    first: Client = yield from bench.connect()
    second: Client = yield from bench.connect()
    listeners = []
    for client in (first, second):
        listener = Listener(client.outbox)
        client.call(lambda now, client=client, listener=listener: client.outbox.subscribe("a", listener))  # type: ignore[misc]
        yield client.wait(client.call(session_of(client).ping), PATIENCE)
        listeners.append(listener)
    first.call(lambda now: first.outbox.publish("a", b"x"))
    yield from heard(second, listeners[1], 1)
    yield from heard(first, listeners[0], 1)
    yield second.close()
    first.call(lambda now: first.outbox.publish("a", b"y"))
    yield from heard(first, listeners[0], 2)
    yield first.close()


# -- waits and timers --------------------------------------------------------------------------------------------------


def a_request_is_answered(bench: Bench) -> Body:
    """Requests get their answers, also many at once, and NoRespondersError where nobody answers."""
    client: Client = yield from bench.connect()
    session = session_of(client)

    class Echo(Listener):
        def receive(self, message: Any, now: float) -> None:
            session.publish(message.reply.decode(), bytes(message.payload)[::-1])

    client.call(lambda now: session.subscribe("echo", Echo(session)))
    asked = [
        client.call(lambda now, number=number: session.request("echo", b"%03d" % number, now=now))  # type: ignore[misc]
        for number in range(100)
    ]
    for number, ticket in reversed(list(enumerate(asked))):
        answer = yield client.wait(ticket, PATIENCE)
        same(bytes(answer.payload), (b"%03d" % number)[::-1], "an answer")
    nobody = client.call(lambda now: session.request("nobody", b"", now=now))
    yield from raises(NoRespondersError, lambda: client.wait(nobody, PATIENCE))
    yield client.close()


def a_wait_has_an_end(bench: Bench) -> Body:
    """A wait that is over raises TimeoutError, and the ticket takes its answer all the same."""
    client: Client = yield from bench.connect()
    session = session_of(client)
    listener = Listener(session)
    client.call(lambda now: session.subscribe("slow", listener))
    ticket = client.call(lambda now: session.request("slow", b"", now=now, timeout=PATIENCE))
    yield from raises(TimeoutError, lambda: client.wait(ticket, A_MOMENT))
    yield from raises(TimeoutError, lambda: client.wait(ticket, 0))
    yield from heard(client, listener, 1)
    reply = listener.received[0].reply or b""
    client.call(lambda now: session.publish(reply.decode(), b"late"))
    answer = yield client.wait(ticket, PATIENCE)
    same(bytes(answer.payload), b"late", "the answer")
    yield client.close()


def a_timer_fires_in_silence(bench: Bench) -> Body:
    """A request that nobody answers ends at its time, though no byte comes."""
    client: Client = yield from bench.connect()
    session = session_of(client)
    client.call(lambda now: session.subscribe("silent", Listener(session)))
    ticket = client.call(lambda now: session.request("silent", b"", now=now, timeout=A_MOMENT))
    yield from raises(TimeoutError, lambda: client.wait(ticket, PATIENCE))
    yield client.close()


def a_cancelled_wait_loses_nothing(bench: Bench) -> Body:
    """Who stops to wait changes nothing: the answer comes, and the next one that waits gets it."""
    client: Client = yield from bench.connect()
    session = session_of(client)
    listener = Listener(session)
    client.call(lambda now: session.subscribe("slow", listener))
    ticket = client.call(lambda now: session.request("slow", b"", now=now, timeout=PATIENCE))
    yield bench.cancel(client, ticket)
    yield from heard(client, listener, 1)
    reply = listener.received[0].reply or b""
    client.call(lambda now: session.publish(reply.decode(), b"answer"))
    answer = yield client.wait(ticket, PATIENCE)
    same(bytes(answer.payload), b"answer", "the answer")
    yield bench.cancel(client, ticket)  # it is done
    yield client.wait(client.call(session.ping), PATIENCE)
    yield client.close()


def pings_are_answered(bench: Bench) -> Body:
    """The driver of a client that is silent answers the server's PINGs."""
    client: Client = yield from bench.connect()
    for _ in range(3):
        same(bench.server.call(_ask), 1, "PINGs of the server")
        for _ in range(MOMENTS):
            yield from a_moment(client)
            if bench.server.call(_outstanding_pings) == 0:
                break
        same(bench.server.call(_outstanding_pings), 0, "PINGs without an answer")
    same(_kinds(bench.events), ["Connected"], "events")
    yield client.close()


def _ask(role: Server, now: float) -> int:
    """Let the server send a PING to each client. Returns how many are not answered."""
    role.handle_timeout(role.deadline() or now)
    return _outstanding_pings(role, now)


def _outstanding_pings(role: Server, now: float) -> int:
    """How many PINGs the clients of this server have not answered."""
    return sum(session.outstanding_pings for session in role.sessions)


# -- JetStream ---------------------------------------------------------------------------------------------------------


def messages_are_published_fetched_and_acknowledged(bench: Bench) -> Body:
    """A stream and a consumer are made, messages stored, fetched and acknowledged."""
    client: Client = yield from bench.connect()
    session = session_of(client)
    js = JetStream(session)
    config = StreamConfig("S", subjects=["s.*"])
    yield client.wait(client.call(lambda now: js.create_stream(config, now=now)), PATIENCE)
    acks = [
        client.call(lambda now, number=number: js.publish("s.a", b"%d" % number, now=now))  # type: ignore[misc]
        for number in range(100)
    ]
    for number, ticket in enumerate(acks, 1):
        ack = yield client.wait(ticket, PATIENCE)
        same(ack.seq, number, "the sequence")
    wanted = ConsumerConfig(durable_name="C", ack_policy="explicit")
    info = yield client.wait(client.call(lambda now: js.create_consumer("S", wanted, now=now)), PATIENCE)
    pull = client.call(lambda now: js.pull_consumer(info, JSMsg))
    got: list[bytes] = []
    while len(got) < 100:
        fetch = client.call(lambda now: pull.fetch(30, now=now, expires=PATIENCE))
        yield client.wait(fetch.done, PATIENCE)
        for message in pull.take(fetch):
            got.append(bytes(message.data))
            done = client.call(lambda now, message=message: message.ack_sync(now=now, timeout=PATIENCE))  # type: ignore[misc]
            yield client.wait(done, PATIENCE)
        if len(got) > 60:
            break
    same(got, [b"%d" % number for number in range(len(got))], "what was fetched")
    told = yield client.wait(client.call(lambda now: js.consumer_info("S", "C", now=now)), PATIENCE)
    same((told.num_ack_pending, told.ack_floor.stream_seq), (0, len(got)), "what the consumer says")
    empty = client.call(lambda now: pull.fetch(100, now=now, expires=A_MOMENT))
    yield client.wait(empty.done, PATIENCE)
    same(len(client.call(lambda now: pull.take(empty))), 100 - len(got), "messages of a fetch that ends by its time")
    gone = client.call(lambda now: js.stream_info("NONE", now=now))
    yield from raises(StreamNotFoundError, lambda: client.wait(gone, PATIENCE))
    yield client.close()


# -- much at once ------------------------------------------------------------------------------------------------------


def large_messages_travel(bench: Bench) -> Body:
    """Messages of nearly a megabyte leave and come whole, though a socket takes a part at a time."""
    client: Client = yield from bench.connect()
    session = session_of(client)
    listener = Listener(session)
    client.call(lambda now: session.subscribe("large", listener))
    for number in range(8):
        client.call(lambda now, number=number: session.publish("large", b"%d" % number * LARGE))  # type: ignore[misc]
        if session.congested:
            yield client.wait(client.call(lambda now: session.sendable()), PATIENCE)
    yield from heard(client, listener, 8)
    for number, message in enumerate(listener.received):
        same(bytes(message.payload) == b"%d" % number * LARGE, True, f"message {number} is whole")
    yield client.close()


def a_publisher_waits_for_room(bench: Bench) -> Body:
    """A publisher that is quicker than the link waits for ``sendable()``, and nothing is lost."""
    client: Client = yield from bench.connect(pending_size=200_000)
    session = session_of(client)
    listener = Listener(session)
    client.call(lambda now: session.subscribe("much", listener))
    waits = 0
    for number in range(400):
        client.call(lambda now, number=number: session.publish("much", b"%04d" % number + bytes(10_000)))  # type: ignore[misc]
        if session.congested:
            waits += 1
            yield client.wait(client.call(lambda now: session.sendable()), PATIENCE)
    yield from heard(client, listener, 400)
    same([int(bytes(one.payload[:4])) for one in listener.received], list(range(400)), "what came")
    yield client.close()


def a_slow_reader_is_bounded(bench: Bench) -> Body:
    """What an application does not take is dropped at the subscription's limit, and the link stays."""
    client: Client = yield from bench.connect()
    session = session_of(client)
    slow = client.call(lambda now: Subscription(session, "flood", pending_msgs_limit=100))
    last = Listener(session)
    client.call(lambda now: session.subscribe("last", last))
    for number in range(1_000):
        client.call(lambda now, number=number: session.publish("flood", b"%d" % number))  # type: ignore[misc]
    client.call(lambda now: session.publish("last", b""))
    yield from heard(client, last, 1)
    same((slow.pending_msgs, slow.dropped), (100, 900), "messages that wait, and that were dropped")
    same(session.is_connected, True, "is_connected")
    yield client.close()


def acknowledgements_leave_by_themselves(bench: Bench) -> Body:
    """What waits for company leaves when its time is over, however short that is beside the rounding of a clock."""
    for linger in (0.0002, 0.0008):
        client: Client = yield from bench.connect(linger=linger)
        session = session_of(client)
        listener = Listener(session)
        client.call(lambda now, session=session, listener=listener: session.subscribe("small", listener))  # type: ignore[misc]
        yield client.wait(client.call(session.ping), PATIENCE)
        for number in range(50):
            for _ in range(3):
                client.call(lambda now, session=session: session.publish_replies([b"small"], b""))  # type: ignore[misc]
            yield from heard(client, listener, 3 * number + 3)
        yield client.close()


# -- how a link breaks and ends ----------------------------------------------------------------------------------------


def what_was_published_meanwhile_is_sent(bench: Bench) -> Body:
    """While there is no link messages wait, and leave with the next one."""
    client: Client = yield from bench.connect()
    session = session_of(client)
    listener = Listener(session)
    client.call(lambda now: session.subscribe("a", listener))
    yield client.wait(client.call(session.ping), PATIENCE)
    bench.server.close()
    yield from until(client, listener, lambda: listener.links)
    same(session.is_connected, False, "is_connected")
    for number in range(10):
        client.call(lambda now, number=number: session.publish("a", b"%d" % number))  # type: ignore[misc]
    yield from a_moment(client)  # the driver dials in vain
    bench.server.start()
    yield from until(client, listener, lambda: len(listener.received) >= 10)
    same([bytes(one.payload) for one in listener.received], [b"%d" % number for number in range(10)], "what came")
    same(_kinds(bench.events), ["Connected", "Disconnected", "Connected"], "events")
    yield client.close()


def a_session_gives_up(bench: Bench) -> Body:
    """A server that stays away ends the session, and each wait with it."""
    client: Client = yield from bench.connect(max_reconnect_attempts=2)
    session = session_of(client)
    listener = Listener(session)
    client.call(lambda now: session.subscribe("silent", listener))
    yield client.wait(client.call(session.ping), PATIENCE)
    bench.server.close()
    yield from until(client, listener, lambda: session.closed)
    same(isinstance(session.closed_error, NoServersError), True, "it ended because there is no server")
    yield client.close()


def a_close_ends_waits(bench: Bench) -> Body:
    """``close`` sends what waits, and fails each open ticket."""
    other: Client = yield from bench.connect()
    witness = Listener(other.outbox)
    other.call(lambda now: other.outbox.subscribe("a", witness))
    yield other.wait(other.call(session_of(other).ping), PATIENCE)
    client: Client = yield from bench.connect(linger=PATIENCE)
    session = session_of(client)
    client.call(lambda now: session.subscribe("silent", Listener(session)))
    ticket: Ticket[Any] = client.call(lambda now: session.request("silent", b"", now=now, timeout=PATIENCE))
    client.call(lambda now: session.publish("a", b"last"))
    yield client.close()
    yield from raises(ConnectionClosedError, lambda: client.wait(ticket, PATIENCE))
    yield from heard(other, witness, 1)
    yield client.close()
    links = partial(bench.server.call, lambda role, now: len(role.sessions))
    for _ in range(TURNS):  # the server hears of the end with one of its next turns
        if links() == 1:
            break
        yield other.wait(other.call(session_of(other).ping), PATIENCE)
    same(links(), 1, "links after the end")
    yield other.close()


def a_drain_loses_nothing(bench: Bench) -> Body:
    """A drain ends interest, and gives out all that the server had sent before."""
    client: Client = yield from bench.connect()
    session = session_of(client)
    subscription = client.call(lambda now: Subscription(session, "a"))
    for number in range(500):
        client.call(lambda now, number=number: session.publish("a", b"%d" % number))  # type: ignore[misc]
    yield client.wait(client.call(lambda now: session.drain(now, [subscription])), PATIENCE)
    got = [bytes(one.payload) for one in client.call(lambda now: subscription.pop_many(1_000))]
    same(got, [b"%d" % number for number in range(500)], "what a drained subscription has")
    client.call(lambda now: session.publish("a", b"after"))
    yield client.wait(client.call(session.ping), PATIENCE)
    same(subscription.pending_msgs, 0, "messages after the drain")
    yield client.close()


def a_drained_consumer_still_acknowledges(bench: Bench) -> Body:
    """What is buffered when a drain begins can be taken and acknowledged until the connection is closed."""
    client: Client = yield from bench.connect()
    session = session_of(client)
    js = JetStream(session)
    bench.server.call(lambda role, now: role.add_stream(StreamConfig("Q", subjects=["q"], retention="workqueue"), now))
    for _ in range(DRAINED):
        yield client.wait(client.call(lambda now: js.publish("q", b"x", now=now)), PATIENCE)
    wanted = SubscriptionSpec("q", durable="w")
    subscription: Any = yield client.wait(
        client.call(lambda now: js.subscribe(wanted, now=now, message_class=JSMsg, delete_consumer=False)), PATIENCE
    )
    yield client.wait(client.call(lambda now: subscription.readable()), PATIENCE)
    yield client.wait(client.call(lambda now: session.drain(now, session.drainable)), PATIENCE)
    taken = subscription.pending_msgs
    for _ in range(taken):
        (message,) = client.call(lambda now: subscription.pop_many(1, now))
        client.call(lambda now, message=message: message.ack())  # type: ignore[misc]
    yield from raises(
        ConnectionClosedError, lambda: client.wait(client.call(lambda now: subscription.readable()), PATIENCE)
    )
    yield from _settles(
        bench,
        client,
        lambda role, now: len(list(role.stream("Q"))),
        DRAINED - taken,
        "messages that are not acknowledged",
    )
    yield client.close()


# -- who goes away -----------------------------------------------------------------------------------------------------

Verb: TypeAlias = Callable[[JetStream, str, float], Ticket[Any]]


def _push(js: JetStream, now: float, subject: str | None = "s.*", **wanted: Any) -> Ticket[Any]:
    return js.subscribe(SubscriptionSpec(subject, **wanted), now=now, message_class=JSMsg)


BRINGING: Final[dict[str, Verb]] = {
    "a push consumer": lambda js, name, now: _push(js, now),
    "a member of a queue group": lambda js, name, now: _push(js, now, queue=name),
    "a durable consumer": lambda js, name, now: _push(js, now, durable=name),
    "a consumer that is there": lambda js, name, now: _push(js, now, None, stream="S", consumer="given-there"),
    "an ordered consumer": lambda js, name, now: js.subscribe_ordered(
        SubscriptionSpec("s.*"), now=now, message_class=JSMsg
    ),
    "a pull consumer": lambda js, name, now: js.bind_pull(SubscriptionSpec("s.*", pull=True), now=now),
    "a durable pull consumer": lambda js, name, now: js.bind_pull(
        SubscriptionSpec("s.*", durable=name, pull=True), now=now
    ),
    "a snapshot": lambda js, name, now: js.snapshot("S", "s.>", now=now),
}
"""Verbs that bring something live. The text is the name of a consumer, where the verb takes one."""


def a_cancelled_verb_leaves_nothing(bench: Bench) -> Body:
    """Who stops to wait for something live, after any number of answers, leaves nothing of it at the server."""
    client: Client = yield from bench.connect()
    session = session_of(client)
    js = JetStream(session)
    bench.server.call(lambda role, now: role.add_stream(StreamConfig("S", subjects=["s.*"], allow_direct=True), now))
    there = ConsumerConfig(durable_name=f"{GIVEN}there", deliver_subject="to")
    yield client.wait(client.call(lambda now: js.create_consumer("S", there, now=now)), PATIENCE)
    had = bench.server.call(_live)
    for what, verb in BRINGING.items():
        answers, is_there = 0, False
        while not is_there:
            name = f"{GIVEN}{what.replace(' ', '-')}-{answers}"
            ticket = client.call(lambda now, name=name, verb=verb: verb(js, name, now))  # type: ignore[misc]
            for _ in range(answers):
                yield client.wait(client.call(session.ping), PATIENCE)
            if not (yield bench.cancel(client, ticket)):
                yield client.close()
                return
            is_there = ticket.done and ticket.error is None  # it was quicker
            if is_there:
                client.call(lambda now, ticket=ticket: session.abandon(ticket, now))  # type: ignore[misc]
            yield from _settles(bench, client, _live, had, f"what {what}, given up after {answers} answers, leaves")
            answers += 1
    yield client.close()


def _live(role: Server, now: float) -> tuple[int, list[str]]:
    """How many subscriptions clients have, and the consumers that have no given name."""
    consumers = role.api.streams["S"].consumers
    return sum(len(session.interests) for session in role.sessions), [
        name for name in consumers if not name.startswith(GIVEN)
    ]


def _settles(bench: Bench, client: Client, look: Callable[[Server, float], Any], expected: Any, what: str) -> Body:
    """What ``look`` finds at the server becomes ``expected`` within a few turns of it."""
    for _ in range(TURNS):
        if bench.server.call(look) == expected:
            return
        yield client.wait(client.call(session_of(client).ping), PATIENCE)
    same(bench.server.call(look), expected, what)


CASES: Final = (
    *(
        Case(body)
        for body in (
            a_driver_connects, an_address_that_refuses_is_reported, the_next_address_is_dialled, clients_do_not_share,
            a_request_is_answered, a_wait_has_an_end, a_timer_fires_in_silence, a_cancelled_wait_loses_nothing,
            messages_are_published_fetched_and_acknowledged, large_messages_travel, a_publisher_waits_for_room,
            a_slow_reader_is_bounded, acknowledgements_leave_by_themselves, pings_are_answered,
            what_was_published_meanwhile_is_sent, a_session_gives_up, a_close_ends_waits, a_drain_loses_nothing,
            a_drained_consumer_still_acknowledges, a_cancelled_verb_leaves_nothing,
        )
    ),
    Case(a_refused_client_is_told_why, {"access": Access(token="right")}),
)  # fmt: skip
