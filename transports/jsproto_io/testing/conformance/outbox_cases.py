"""Cases for each ``jsproto.Outbox``: messages, subscriptions, deadlines, links, and conversations that use them all.

Not here: what only a driver of a session can do (``driver_cases``).
"""

from __future__ import annotations

from functools import partial
from typing import Final

from jsproto.client.publish.atomic import AtomicBatch
from jsproto.client.publish.fast import FastPublisher
from jsproto.client.read.direct import DirectBatch
from jsproto.errors import (
    BadSubjectError,
    BatchLostError,
    ConnectionClosedError,
    Error,
    LocalProtocolError,
    MaxPayloadError,
)
from jsproto.grammar.api import ApiSubjects
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.headers import Headers, encode_headers
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
    until,
)

MANY: Final = 2_000
INBOX: Final = "_INBOX.conformance"


def messages_keep_their_order(bench: Bench) -> Body:
    """Messages come in the order in which they were published, with their subjects and payloads."""
    client: Client = yield from bench.connect()
    outbox = client.outbox
    listener = Listener(outbox)
    client.call(lambda now: outbox.subscribe("a.*", listener))
    sent = [(f"a.{number % 7}", b"%d" % number) for number in range(MANY)]
    for start in range(0, MANY, 100):
        for subject, payload in sent[start : start + 100]:
            client.call(lambda now, subject=subject, payload=payload: outbox.publish(subject, payload))  # type: ignore[misc]
        yield from until(client, listener, lambda start=start: len(listener.received) >= start)  # type: ignore[misc]
    yield from heard(client, listener, MANY)
    same([(one.subject.decode(), bytes(one.payload)) for one in listener.received], sent, "what came")
    yield client.close()


def headers_and_bytes_travel(bench: Bench) -> Body:
    """Headers, empty payloads and each byte come as they were sent."""
    client: Client = yield from bench.connect()
    outbox = client.outbox
    listener = Listener(outbox)
    client.call(lambda now: outbox.subscribe("a", listener))
    block = encode_headers({"Color": "red", "Empty": ""})
    everything = bytes(range(256)) * 40
    for payload, headers in ((b"", None), (b"", block), (everything, block), (b"\r\nPING\r\n", None)):
        client.call(lambda now, payload=payload, headers=headers: outbox.publish("a", payload, None, headers))  # type: ignore[misc]
    yield from heard(client, listener, 4)
    same([bytes(one.payload) for one in listener.received], [b"", b"", everything, b"\r\nPING\r\n"], "payloads")
    found = [None if one.header is None else dict(Headers.parse(one.header).items()) for one in listener.received]
    wanted = {"Color": "red", "Empty": ""}
    same(found, [None, wanted, wanted, None], "headers")
    yield client.close()


def each_conversation_gets_its_own(bench: Bench) -> Body:
    """A message goes to each subscription that matches, and to no other."""
    client: Client = yield from bench.connect()
    outbox = client.outbox
    exact, wild, other = Listener(outbox), Listener(outbox), Listener(outbox)
    for subject, listener in (("a.b", exact), ("a.>", wild), ("b", other)):
        client.call(lambda now, subject=subject, listener=listener: outbox.subscribe(subject, listener))  # type: ignore[misc]
    for subject in ("a.b", "a.c", "b"):
        client.call(lambda now, subject=subject: outbox.publish(subject, subject.encode()))  # type: ignore[misc]
    yield from heard(client, other, 1)
    yield from heard(client, wild, 2)
    yield from heard(client, exact, 1)
    same([bytes(one.payload) for one in wild.received], [b"a.b", b"a.c"], "what the wildcard got")
    yield client.close()


def a_queue_group_shares(bench: Bench) -> Body:
    """Each message goes to one member of a queue group."""
    client: Client = yield from bench.connect()
    outbox = client.outbox
    members, last = [Listener(outbox), Listener(outbox)], Listener(outbox)
    for member in members:
        client.call(lambda now, member=member: outbox.subscribe("work", member, "workers"))  # type: ignore[misc]
    client.call(lambda now: outbox.subscribe("last", last))
    for number in range(50):
        client.call(lambda now, number=number: outbox.publish("work", b"%d" % number))  # type: ignore[misc]
    client.call(lambda now: outbox.publish("last", b""))
    yield from heard(client, last, 1)
    for member in members:
        yield from until(client, member, lambda: sum(len(one.received) for one in members) >= 50)
    got = sorted(int(bytes(one.payload)) for member in members for one in member.received)
    same(got, list(range(50)), "what both got together")
    yield client.close()


def after_unsubscribe_nothing_comes(bench: Bench) -> Body:
    """After an end at once no message comes, even one that was under way."""
    client: Client = yield from bench.connect()
    outbox = client.outbox
    gone, stays = Listener(outbox), Listener(outbox)
    sid = client.call(lambda now: outbox.subscribe("a", gone))
    client.call(lambda now: outbox.subscribe("a", stays))
    for number in range(100):
        client.call(lambda now, number=number: outbox.publish("a", b"%d" % number))  # type: ignore[misc]
    client.call(lambda now: outbox.unsubscribe(sid))
    before = len(gone.received)
    client.call(lambda now: outbox.unsubscribe(sid))
    client.call(lambda now: outbox.unsubscribe(123_456_789))
    yield from heard(client, stays, 100)
    same(len(gone.received), before, "messages after the end")
    yield client.close()


def a_subscription_ends_by_count(bench: Bench) -> Body:
    """``max_msgs`` counts from the beginning of the subscription."""
    client: Client = yield from bench.connect()
    outbox = client.outbox
    counted, all_of_them = Listener(outbox), Listener(outbox)
    sid = client.call(lambda now: outbox.subscribe("a", counted))
    client.call(lambda now: outbox.subscribe("a", all_of_them))
    client.call(lambda now: outbox.publish("a", b"0"))
    yield from heard(client, counted, 1)
    client.call(lambda now: outbox.unsubscribe(sid, 3))
    for number in range(1, 10):
        client.call(lambda now, number=number: outbox.publish("a", b"%d" % number))  # type: ignore[misc]
    yield from heard(client, all_of_them, 10)
    yield from heard(client, counted, 3)
    yield client.close()


def mistakes_are_refused_at_once(bench: Bench) -> Body:
    """A bad subject and a large payload raise, and nothing is sent."""
    client: Client = yield from bench.connect()
    outbox = client.outbox
    listener = Listener(outbox)
    client.call(lambda now: outbox.subscribe(">", listener))
    for subject in ("", "no blanks", "a..b", "a.*"):
        yield from raises(BadSubjectError, partial(client.call, lambda now, at=subject: outbox.publish(at, b"")))  # type: ignore[misc]
    too_large = bytes(4 * 1024 * 1024)
    yield from raises(MaxPayloadError, partial(client.call, lambda now: outbox.publish("a", too_large)))
    yield from raises(LocalProtocolError, partial(client.call, lambda now: outbox.subscribe("a b", listener)))
    client.call(lambda now: outbox.publish("last", b""))
    yield from heard(client, listener, 1)
    yield client.close()


def deadlines_are_kept(bench: Bench) -> Body:
    """``handle_timeout`` comes at the deadline, without any message, and not when the deadline has gone."""
    client: Client = yield from bench.connect()
    outbox = client.outbox
    soon, later, never = Listener(outbox), Listener(outbox), Listener(outbox)
    begun = client.call(lambda now: now)

    def arm(listener: Listener, due: float | None) -> None:
        def verb(now: float) -> None:
            listener.due = due
            outbox.rearm(listener)

        client.call(verb)

    arm(never, begun + A_MOMENT)
    arm(later, begun + 2 * A_MOMENT)
    arm(soon, begun + A_MOMENT)
    arm(never, None)
    before = len(never.times)  # a long pause may have made it due meanwhile
    yield from until(client, soon, lambda: soon.times and soon.due is None)
    yield from until(client, later, lambda: later.times and later.due is None)
    if soon.times[-1] < begun + A_MOMENT or later.times[-1] < begun + 2 * A_MOMENT:
        raise AssertionError("a deadline was met too early")
    same(len(never.times), before, "calls after a deadline was taken back")
    arm(soon, client.call(lambda now: now) - 1)  # it is over already
    yield from until(client, soon, lambda: soon.due is None)
    yield client.close()


def tickets_wake(bench: Bench) -> Body:
    """A ticket that is completed wakes who waits for it, and one that is done needs no wait."""
    client: Client = yield from bench.connect()
    outbox = client.outbox
    listener = Listener(outbox)
    done: Ticket[int] = Ticket()
    done.succeed(7)
    same((yield client.wait(done, 0)), 7, "the result of a ticket that is done")
    client.call(lambda now: outbox.subscribe("a", listener))
    client.call(lambda now: outbox.publish("a", b""))
    client.call(lambda now: outbox.flush())
    yield client.wait(client.call(lambda now: listener.news()), PATIENCE)
    failed: Ticket[int] = Ticket()
    failed.fail(BadSubjectError("why"))
    yield from raises(BadSubjectError, lambda: client.wait(failed, 0))
    yield client.close()


def the_server_is_known(bench: Bench) -> Body:
    """``server`` says what the server is."""
    client: Client = yield from bench.connect()
    server = client.outbox.server
    same(None if server is None else server.version, bench.server.role.context.version, "the server's version")
    same(client.outbox.closed_error, None, "why it has ended")
    yield client.close()


def a_lost_link_is_restored(bench: Bench) -> Body:
    """Conversations hear that the link was lost, and that another one carries their subscriptions."""
    client: Client = yield from bench.connect()
    outbox = client.outbox
    listener = Listener(outbox)
    client.call(lambda now: outbox.subscribe("a", listener))
    client.call(lambda now: outbox.publish("a", b"before"))
    yield from heard(client, listener, 1)
    for cut in (1, 2):
        bench.server.disconnect()
        yield from until(client, listener, lambda cut=cut: listener.links == ["lost", "restored"] * cut)  # type: ignore[misc]
        same(outbox.closed_error, None, "why it has ended")
        client.call(lambda now: outbox.publish("a", b"after"))
        yield from heard(client, listener, 1 + cut)
    yield client.close()


def an_end_is_final(bench: Bench) -> Body:
    """After ``close`` conversations have heard of it, ``closed_error`` says why, and nothing can be sent."""
    client: Client = yield from bench.connect()
    outbox = client.outbox
    listener = Listener(outbox)
    client.call(lambda now: outbox.subscribe("a", listener))
    client.call(lambda now: outbox.publish("a", b""))
    yield from heard(client, listener, 1)
    yield client.close()
    if outbox.closed_error is None:
        raise AssertionError("closed_error is None after the end")
    same(set(listener.links), {"lost"}, "what a conversation heard of the end")
    yield from raises(ConnectionClosedError, lambda: outbox.publish("a", b""))
    yield from raises(ConnectionClosedError, lambda: outbox.subscribe("a", listener))
    outbox.unsubscribe(1)
    yield client.close()


# -- conversations of the library --------------------------------------------------------------------------------------


def _make_stream(bench: Bench) -> None:
    config = StreamConfig("S", subjects=["s.*"], allow_batched=True, allow_atomic=True, allow_direct=True)
    bench.server.call(lambda role, now: role.add_stream(config, now))


def _fast(client: Client, batch_id: str, inbox: str) -> FastPublisher:
    return client.call(lambda now: FastPublisher(client.outbox, inbox=inbox, batch_id=batch_id, flow=100))


def a_fast_batch_is_stored(bench: Bench) -> Body:
    """A fast-ingest batch stores each message once and in order, and waits for its window."""
    _make_stream(bench)
    client: Client = yield from bench.connect()
    batch = _fast(client, "fast", f"{INBOX}.fast")
    rest = [(f"s.{number % 3}", b"%d" % number) for number in range(MANY)]
    while rest:
        taken = client.call(lambda now: batch.publish_many(rest, now))
        del rest[:taken]
        if not taken:
            yield client.wait(client.call(lambda now: batch.ready()), PATIENCE)
    ack = yield client.wait(client.call(batch.commit), PATIENCE)
    same((ack.count, ack.seq), (MANY, MANY), "the acknowledgement")
    stored = bench.server.call(lambda role, now: [one.payload for one in role.stream("S")])
    same(stored, [b"%d" % number for number in range(MANY)], "what is stored")
    yield client.close()


def an_atomic_batch_is_stored(bench: Bench) -> Body:
    """An atomic batch stores nothing before its commit, and then all."""
    _make_stream(bench)
    client: Client = yield from bench.connect()
    batch = client.call(
        lambda now: AtomicBatch(client.outbox, inbox=f"{INBOX}.atomic", batch_id="atomic", draw=lambda: b"0" * 16)
    )
    for number in range(20):
        client.call(lambda now, number=number: batch.add("s.a", b"%d" % number, now=now))  # type: ignore[misc]
        yield client.wait(client.call(lambda now: batch.ready()), PATIENCE)
    same(bench.server.call(lambda role, now: len(role.stream("S"))), 0, "messages before the commit")
    ack = yield client.wait(client.call(lambda now: batch.commit(now, "s.a", b"last")), PATIENCE)
    same((ack.count, ack.seq), (21, 21), "the acknowledgement")
    yield client.close()


def a_stream_is_read(bench: Bench) -> Body:
    """Direct Get reads all messages of a stream, page by page."""
    _make_stream(bench)
    for number in range(MANY):
        bench.server.call(lambda role, now, number=number: role.publish("s.a", b"%d" % number))  # type: ignore[misc]
    bench.server.call(lambda role, now: role.handle_timeout(now))
    client: Client = yield from bench.connect()
    direct = client.call(
        lambda now: DirectBatch(
            client.outbox, "S", api=ApiSubjects(), inbox=f"{INBOX}.direct", now=now, page_messages=300
        )
    )
    read: list[bytes] = []
    while len(read) < MANY:
        yield client.wait(client.call(lambda now: direct.readable()), PATIENCE)
        read += [bytes(one.data) for one in client.call(lambda now: direct.pop_many(100, now))]
    same(read, [b"%d" % number for number in range(MANY)], "what was read")
    yield client.close()


def a_batch_ends_with_its_link(bench: Bench) -> Body:
    """A batch that cannot go on says so, because it hears that the link is lost."""
    _make_stream(bench)
    client: Client = yield from bench.connect()
    batch = _fast(client, "lost", f"{INBOX}.lost")
    client.call(lambda now: batch.publish("s.a", b"1", now=now))
    yield client.wait(client.call(lambda now: batch.ready()), PATIENCE)
    bench.server.call(lambda role, now: role.lose_leader("S"))
    commit = client.call(batch.commit)
    bench.server.disconnect()
    error: Exception = yield from raises(Error, lambda: client.wait(commit, PATIENCE))
    if not isinstance(error, BatchLostError):
        raise AssertionError(f"the batch ended with {error!r}")
    yield from a_moment(client)
    yield client.close()


CASES: Final = tuple(
    Case(body)
    for body in (
        messages_keep_their_order, headers_and_bytes_travel, each_conversation_gets_its_own, a_queue_group_shares,
        after_unsubscribe_nothing_comes, a_subscription_ends_by_count, mistakes_are_refused_at_once,
        deadlines_are_kept, tickets_wake, the_server_is_known, a_lost_link_is_restored, an_end_is_final,
        a_fast_batch_is_stored, an_atomic_batch_is_stored, a_stream_is_read, a_batch_ends_with_its_link,
    )
)  # fmt: skip
