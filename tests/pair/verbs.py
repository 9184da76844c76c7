"""Every kind of verb of the core, as a function that runs it in memory: for tests that try something on all of them.

``prepared()`` gives the client and the server that the verbs expect.

Not here: what is tried (``test_refusals``, ``test_elections``, ``tests.tools.mutate_answers``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from jsproto.client.bucket.bucket import Bucket
from jsproto.client.bucket.manage import space_of
from jsproto.client.connection.connect_options import connect_options
from jsproto.client.consume.message import JSMsg
from jsproto.client.consume.priority import Priority
from jsproto.client.consume.subscribe import SubscriptionSpec
from jsproto.grammar.bucket_config import BucketConfig
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.server.access import Access, Permissions, User
from jsproto.server.server import Server
from jsproto.testing.network import Network
from jsproto.testing.pair import Pair
from jsproto.testing.world import TOKEN
from jsproto.wire.decoder import Decoder
from jsproto.wire.encoder import encode
from jsproto.wire.frames import Msg

Edit = Callable[[Msg], Msg]
Verb = Callable[["Wire"], object]


class Wire(Pair):
    """A pair whose client is watched, is refused things, or is told something else.

    Attributes:

    * ``seen``: the messages that the client was sent while ``is_watched``.
    * ``denied`` and ``deaf``: patterns that it may not publish to, or not subscribe to, from now on.
    """

    def __init__(self, place: int = -1, edit: Edit | None = None) -> None:
        network = Network()
        self.denied: list[str] = []
        self.deaf: list[str] = []
        user = User("u", "p", permissions=Permissions(deny_publish=self.denied, deny_subscribe=self.deaf))
        server = Server(token=TOKEN, bus=network.cluster, access=Access([user]))
        super().__init__(connect_options(user="u", password="p"), network=network, server=server)
        self.seen: list[Msg] = []
        self.place, self.edit = place, edit
        self.is_watched = False
        self._decoder = Decoder("client")

    def _receive(self) -> bool:
        link = self._link
        if link is None:
            return False
        pieces = link.received()
        if link.error is not None:
            self._link, self._decoder = None, Decoder("client")
            self.client.receive_eof(self.now, link.error)
            return True
        for piece in pieces:
            assert piece is not None  # the server ends no link by itself
            for frame in self._decoder.feed(piece):
                if self.is_watched and isinstance(frame, Msg):
                    if len(self.seen) == self.place and self.edit is not None:
                        frame = self.edit(frame)
                    self.seen.append(frame)
                self.client.receive_data(encode(frame), self.now)
        return bool(pieces)


# -- the verbs ---------------------------------------------------------------------------------------------------------


def _read(read: Any, wire: Wire) -> list[object]:
    """All messages of a read of many, looked at."""
    found: list[Any] = []
    while not read.finished or read.pop_many(0, wire.now):
        wire.run_until(read.readable())
        found += (messages := read.pop_many(100, wire.now))
        if not messages:
            break
    return found


def _pull(wire: Wire) -> object:
    pull = wire.js.pull_consumer(wire.run_until(wire.js.consumer_info("S", "d", now=wire.now)), JSMsg)
    fetch = pull.fetch(2, now=wire.now, expires=2.0)
    wire.run_until(fetch.done)
    return pull.take(fetch)


def _acknowledged(wire: Wire, *, sync: bool) -> object:
    """Take a message, acknowledge it, and ask for the next one."""
    pull = wire.js.pull_consumer(wire.run_until(wire.js.consumer_info("S", "d", now=wire.now)), JSMsg)
    found = []
    for _ in range(2):
        fetch = pull.fetch(1, now=wire.now, expires=2.0)
        wire.run_until(fetch.done)
        (message,) = pull.take(fetch)
        found.append(message)
        if sync:
            wire.run_until(message.ack_sync(now=wire.now, timeout=5.0))
        else:
            message.ack()
            wire.exchange()
    return found


def _streamed(wire: Wire) -> object:
    pull = wire.js.pull_consumer(wire.run_until(wire.js.consumer_info("S", "d", now=wire.now)), JSMsg)
    pull.start(now=wire.now)
    wire.run_until(pull.readable())
    return pull.pop_many(5, wire.now)


def _at_once(wire: Wire) -> object:
    pull = wire.js.pull_consumer(wire.run_until(wire.js.consumer_info("S", "d", now=wire.now)), JSMsg)
    fetch = pull.fetch_no_wait(2, now=wire.now, patience=1.0)
    wire.run_until(fetch.done)
    return pull.take(fetch)


def _sourced(wire: Wire) -> object:
    source = wire.js.source("S", "f", now=wire.now, message_class=JSMsg, within=5.0)
    wire.run_until(source.ready())
    wire.run_until(source.readable())
    found = source.pop_many(5, wire.now)
    source.unsubscribe(wire.now)
    return found


def _bound(wire: Wire) -> object:
    return wire.run_until(wire.js.find_pull("S", "d", Priority(), now=wire.now))


def _pull_any(wire: Wire) -> object:
    return wire.run_until(wire.js.bind_pull(SubscriptionSpec("s.>", durable="e", pull=True), now=wire.now))


def _push(wire: Wire) -> object:
    spec = SubscriptionSpec("s.>", options={"idle_heartbeat": 0.5})
    push = wire.run_until(wire.js.subscribe(spec, now=wire.now, message_class=JSMsg))
    wire.run_until(push.readable())
    found = push.pop_many(5, wire.now)
    wire.advance(1.0)
    wire.run_until(push.unsubscribe(wire.now))
    return found


def _ordered(wire: Wire) -> object:
    spec = SubscriptionSpec("s.>")
    ordered = wire.run_until(wire.js.subscribe_ordered(spec, now=wire.now, message_class=JSMsg))
    wire.run_until(ordered.readable())
    found = ordered.pop_many(5, wire.now)
    wire.advance(6.0)
    ordered.unsubscribe(wire.now)
    return found


def _fast(wire: Wire) -> object:
    batch = wire.js.fast_publisher(gap="fail")
    for number in range(4):
        batch.publish("s.a", b"%d" % number, now=wire.now)
        wire.run_until(batch.ready())
    return wire.run_until(batch.commit(wire.now))


def _atomic(wire: Wire) -> object:
    batch = wire.js.atomic_batch()
    batch.add("s.a", b"1", now=wire.now)
    wire.run_until(batch.ready())
    return wire.run_until(batch.commit(wire.now, "s.a", b"2"))


def _session(wire: Wire) -> object:
    session = wire.js.consistent_session()
    session.observe("S", 3)
    return [
        wire.run_until(session.get_last_msg("S", "s.a", now=wire.now)),
        wire.run_until(session.get_msg("S", 1, now=wire.now, level="leader")),
    ]


def _key(name: str, *args: Any, **keywords: Any) -> Verb:
    """A verb of the bucket B, which was bound to before."""
    config = BucketConfig.of("B")

    def run(wire: Wire) -> object:
        bucket = Bucket(wire.js, space_of(config, wire.js.api.prefix), config)
        return wire.run_until(getattr(bucket, name)(*args, now=wire.now, **keywords))

    return run


def _watched(wire: Wire) -> object:
    watch: Any = _key("watch", ">", "none")(wire)
    found: list[object] = []
    while None not in found:
        wire.run_until(watch.readable())
        found += watch.pop_many(5, wire.now)
    wire.advance(6.0)
    watch.unsubscribe(wire.now)
    return found


def _locked(wire: Wire) -> object:
    config = BucketConfig.of("B")
    lock = Bucket(wire.js, space_of(config, wire.js.api.prefix), config).lock("gone", ttl=10)
    wire.run_until(lock.acquire(now=wire.now, ends_at=wire.now))
    wire.run_until(lock.renew(now=wire.now))
    written = wire.run_until(lock.put("k", b"2", now=wire.now))
    holder = wire.run_until(lock.holder(now=wire.now))
    return written, holder and holder.ttl, wire.run_until(lock.release(now=wire.now))


def _ask(name: str, *args: Any, **keywords: Any) -> Verb:
    return lambda wire: wire.run_until(getattr(wire.js, name)(*args, now=wire.now, **keywords))


W = TypeVar("W", bound=Wire)

VERBS: Final[dict[str, Verb]] = {
    "publish": _ask("publish", "s.a", b"x"),
    "account_info": _ask("account_info"),
    "stream_info": _ask("stream_info", "S"),
    "stream_names": _ask("stream_names"),
    "streams": lambda wire: wire.run_until(wire.client.run(wire.js.streams().whole(wire.now))),
    "create_stream": _ask("create_stream", StreamConfig("T", subjects=["t.>"])),
    "change_stream": _ask("change_stream", "S", {"description": "x"}),
    "purge_stream": _ask("purge_stream", "S", keep=1),
    "delete_msg": _ask("delete_msg", "S", 1),
    "delete_stream": _ask("delete_stream", "S"),
    "consumer_info": _ask("consumer_info", "S", "d"),
    "consumers": _ask("consumers_info", "S"),
    "create_consumer": _ask("create_consumer", "S", ConsumerConfig(durable_name="x")),
    "pause": _ask("pause_consumer", "S", "d", 2 * 10**18),
    "reset": _ask("reset_consumer", "S", "d"),
    "delete_consumer": _ask("delete_consumer", "S", "d"),
    "subjects": _ask("stream_subjects", "S", ">"),
    "get_msg": _ask("get_msg", "S", 1),
    "get_data": _ask("get_data", "S", 1),
    "get_msg-leader": _ask("get_msg", "S", 1, level="leader"),
    "get_last_msg": _ask("get_msg", "S", subject="s.a"),
    "get_batch": lambda wire: _read(wire.js.get_batch("S", now=wire.now), wire),
    "get_last_msgs_for": lambda wire: _read(wire.js.get_last_msgs_for("S", ["s.*"], now=wire.now), wire),
    "snapshot": lambda wire: _read(wire.run_until(wire.js.snapshot("S", ["s.*"], now=wire.now)), wire),
    "ack": lambda wire: _acknowledged(wire, sync=False), "ack_sync": lambda wire: _acknowledged(wire, sync=True),
    "messages": _streamed, "fetch_no_wait": _at_once, "source": _sourced,
    "pull": _pull, "find_pull": _bound, "bind_pull": _pull_any, "subscribe": _push, "ordered": _ordered,
    "fast": _fast, "atomic": _atomic, "session": _session,
    "bucket": lambda wire: repr(wire.run_until(wire.js.bucket("B", now=wire.now)).config),
    "create_bucket": lambda wire: repr(wire.run_until(wire.js.create_bucket("C", now=wire.now)).config),
    "update_bucket": _ask("update_bucket", "B", description="x"), "delete_bucket": _ask("delete_bucket", "B"),
    "bucket_names": _ask("bucket_names"), "buckets": _ask("buckets"),
    "key_get": _key("get", "k"), "key_get-revision": _key("get", "k", revision=1, level="leader"),
    "key_get_many": _key("get_many", ["k", "gone"]), "key_put": _key("put", "k", b"x"),
    "key_create": _key("create", "gone", b"x"), "key_update": _key("update", "k", b"x", 1),
    "key_keys": _key("keys"), "key_history": _key("history"), "key_watch": _watched,
    "key_purge_deletes": _key("purge_deletes", older_than=0), "key_status": _key("status"), "lock": _locked,
}  # fmt: skip


def prepared(place: int = -1, edit: Edit | None = None) -> Wire:
    """A client that is connected to a server with a stream, some messages and consumers."""
    return prepare(Wire(place, edit))


def prepare(wire: W) -> W:
    """Connect, and make what the verbs expect."""
    wire.connect()
    config = StreamConfig("S", subjects=["s.>"], allow_direct=True, allow_atomic=True, allow_batched=True)
    wire.run_until(wire.js.create_stream(config, now=wire.now))
    wire.run_until(wire.js.create_consumer("S", ConsumerConfig(durable_name="d"), now=wire.now))
    sourced = ConsumerConfig(durable_name="f", ack_policy="flow_control", deliver_subject="nowhere")
    wire.run_until(wire.js.create_consumer("S", sourced, now=wire.now))
    for subject in ("s.a", "s.b", "s.a"):
        wire.run_until(wire.js.publish(subject, b"{}", now=wire.now))
    bucket = wire.run_until(wire.js.create_bucket("B", history=2, now=wire.now))
    wire.run_until(bucket.put("k", b"1", now=wire.now))
    wire.run_until(bucket.delete("gone", now=wire.now))
    return wire
