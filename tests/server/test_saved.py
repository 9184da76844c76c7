"""What a server keeps over a restart: whatever happened, it answers afterwards as if it had not ended."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any, Final

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from jsproto.errors import LocalProtocolError
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.grammar.headers import encode_headers
from jsproto.server import Server, restore, save
from jsproto.wire.decoder import Decoder
from jsproto.wire.encoder import encode_connect, encode_pub, encode_sub
from jsproto.wire.frames import Msg
from tests.effort import examples
from tests.marks import promise

EPOCH: Final = 1_795_000_000_000_000_000
SUBJECTS: Final = ("s.a", "s.b", "w.a", "i.a", "c.a")
HEADERS: Final[tuple[dict[str, str], ...]] = (
    {}, {}, {"Nats-Msg-Id": "one"}, {"Nats-Msg-Id": "two"}, {"Nats-TTL": "3s"}, {"Nats-TTL": "never"},
    {"Nats-Expected-Last-Msg-Id": "one"}, {"Nats-Rollup": "sub"}, {"Nats-Expected-Last-Subject-Sequence": "0"},
)  # fmt: skip
STREAMS: Final[dict[str, dict[str, Any]]] = {
    "S": {"allow_msg_ttl": True, "max_age": 30 * 10**9, "duplicate_window": 5 * 10**9, "allow_rollup_hdrs": True},
    "W": {"retention": "workqueue"},
    "I": {"retention": "interest"},
    "C": {"allow_msg_counter": True, "max_msgs_per_subject": 2, "first_seq": 10},
    "MIR": {"subjects": None, "mirror": {"name": "S"}},
    "AGG": {"subjects": None, "sources": [{"name": "S", "filter_subject": "s.a"}, {"name": "C"}]},
}
CONSUMERS: Final[tuple[dict[str, Any], ...]] = (
    {"ack_policy": "explicit", "ack_wait": 2 * 10**9, "max_deliver": 3},
    {"ack_policy": "explicit", "backoff": [10**9, 3 * 10**9], "max_deliver": 4, "filter_subject": "s.a"},
    {"ack_policy": "all"},
    {"ack_policy": "none", "deliver_policy": "last_per_subject", "filter_subjects": ["s.a", "s.b"]},
    {"ack_policy": "explicit", "deliver_policy": "new"},
    {"ack_policy": "explicit", "replay_policy": "original", "headers_only": True, "deliver_subject": "replayed"},
    {"ack_policy": "all", "deliver_subject": "pushed", "max_ack_pending": 2, "ack_wait": 10**9},
)


class Client:
    """A server and a client of it, in simulated time."""

    def __init__(self, now: float = 100.0, saved: bytes | None = None) -> None:
        self.now = now
        self.server = Server(token=b"first" if saved is None else b"second", epoch=EPOCH)
        self.replies: list[bytes] = []
        if saved is not None:
            restore(self.server, saved, now)
        self.session = self.server.connect(now)
        self.decoder = Decoder("client")
        self.say(encode_connect(b'{"verbose":false,"headers":true}'))
        self.heard_first = [
            self.say(encode_sub(inbox, None, b"%d" % number))
            for number, inbox in enumerate((b"i", b"replayed", b"pushed"))
        ]

    def say(self, data: bytes) -> list[Any]:
        """What the client hears, after it has written ``data``."""
        self.session.receive_data(data, self.now)
        self.server.handle_timeout(self.now)
        frames = [frame for data in self.session.data_to_send() for frame in self.decoder.feed(data)]
        messages = [frame for frame in frames if isinstance(frame, Msg)]
        self.replies += [one.reply for one in messages if one.reply and one.reply.startswith(b"$JS.ACK.")]
        return [(one.subject, one.reply, one.header, plain(one.payload)) for one in messages]

    def api(self, verb: str, body: object) -> list[Any]:
        return self.say(encode_pub(f"$JS.API.{verb}".encode(), b"i", None, json.dumps(body).encode()))

    def wait(self, seconds: float) -> list[Any]:
        end = self.now + seconds
        heard = []
        while (when := self.server.deadline()) is not None and when <= end:
            self.now = max(self.now, when)
            heard += self.say(b"")
        self.now = end
        return heard + self.say(b"")

    def do(self, step: tuple[Any, ...]) -> list[Any]:
        match step:
            case "publish", subject, payload, headers:
                block = encode_headers(headers) if headers else None
                return self.say(encode_pub(subject.encode(), b"i", block, payload))
            case "consumer", stream, number:
                config = {"durable_name": f"C{number}"} | CONSUMERS[number]
                body = {"stream_name": stream, "config": config}
                return self.api(f"CONSUMER.DURABLE.CREATE.{stream}.C{number}", body)
            case "pull", stream, number:
                return self.api(f"CONSUMER.MSG.NEXT.{stream}.C{number}", {"batch": 3, "no_wait": True})
            case "ack", number, what:
                if not self.replies:
                    return []
                return self.say(encode_pub(self.replies[number % len(self.replies)], b"i", None, what))
            case "api", verb, body:
                return self.api(verb, body)
            case _:
                return self.wait(step[1])


def plain(payload: bytes) -> object:
    """An answer without what two servers are told apart by, and without how far copies have heard of their origin."""
    if not payload.startswith(b'{"type"'):
        return payload
    body = json.loads(payload)
    return {name: value for name, value in body.items() if name not in ("sources", "mirror")}


def by_consumer(heard: list[Any]) -> list[Any]:
    """What each consumer says, in its order. Those that are due at one moment take turns in any order."""
    return sorted(heard, key=lambda message: (message[1] or b"").rsplit(b".", 5)[0])


NAMES: Final = st.sampled_from(sorted(STREAMS))
NUMBERS: Final = st.integers(0, len(CONSUMERS) - 1)
HELD: Final = (*(("S", number) for number in range(len(CONSUMERS))), ("W", 0), ("I", 2), ("MIR", 0))
AT: Final = st.sampled_from(HELD)  # consumers that are there from the beginning
STEPS: Final = st.one_of(
    st.tuples(st.just("publish"), st.sampled_from(SUBJECTS), st.sampled_from([b"", b"x"]), st.just({})),
    st.tuples(
        st.just("publish"), st.sampled_from(SUBJECTS), st.sampled_from([b"", bytes(range(256))]),
        st.sampled_from([*HEADERS, {"Nats-Incr": "2"}]),
    ),
    st.tuples(st.just("consumer"), NAMES, NUMBERS),
    AT.map(lambda at: ("pull", *at)),
    AT.map(lambda at: ("pull", *at)),
    st.tuples(
        st.just("ack"), st.integers(0, 20),
        st.sampled_from([b"+ACK", b"-NAK", b'-NAK {"delay":1500000000}', b"+WPI", b"+TERM", b"+TERM bad"]),
    ),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 0.5, 2.0, 6.0])),
    st.tuples(
        st.just("api"), NAMES.map("STREAM.INFO.{}".format), st.just({"deleted_details": True, "subjects_filter": ">"})
    ),
    st.tuples(st.just("api"), NAMES.map("CONSUMER.LIST.{}".format), st.just({})),
    st.tuples(
        st.just("api"), NAMES.map("STREAM.MSG.DELETE.{}".format), st.integers(1, 8).map(lambda seq: {"seq": seq})
    ),
    st.tuples(
        st.just("api"), NAMES.map("STREAM.PURGE.{}".format),
        st.sampled_from([{"keep": 1}, {"filter": "s.a"}, {"seq": 3}, {"seq": 30}]),
    ),
    st.tuples(st.just("api"), NAMES.map("STREAM.MSG.GET.{}".format), st.integers(1, 8).map(lambda seq: {"seq": seq})),
    st.tuples(
        st.just("api"), AT.map(lambda at: f"CONSUMER.PAUSE.{at[0]}.C{at[1]}"),
        st.sampled_from([{}, {"pause_until": "2099-01-01T00:00:00Z"}]),
    ),
)  # fmt: skip
ALL: Final = [
    step
    for name in STREAMS
    for step in (("api", f"STREAM.INFO.{name}", {"subjects_filter": ">"}), ("api", f"CONSUMER.LIST.{name}", {}))
]


@promise("Streams with file storage survive in `--store_dir`")
@settings(max_examples=examples(150), deadline=None)
@given(st.lists(STEPS, min_size=5, max_size=40), st.lists(STEPS, max_size=15))
def test_it_answers_as_if_it_had_not_ended(before: list[tuple[Any, ...]], after: list[tuple[Any, ...]]) -> None:
    first = Client()
    for name, options in STREAMS.items():
        first.api(
            f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name.lower()}.*"], "storage": "file"} | options
        )
    for subject in ("s.a", "s.b", "s.a", "w.a"):
        first.do(("publish", subject, b"early", {}))
        first.wait(0.5)
    for at in HELD:
        first.do(("consumer", *at))
    for step in before:
        first.do(step)
    first.wait(1.0)
    for inlet in first.server.api.streams.values():
        for consumer in inlet.consumers.values():
            consumer.lead(first.now)  # it looks at the stream now, as after a start
        inlet.stream.rebuild_ids()
    first.say(encode_sub(b"other", None, b"9"))  # and so do those that push
    saved = save(first.server, first.now)
    second = Client(first.now, saved)
    second.replies = list(first.replies)
    assert save(second.server, second.now) == saved
    assert second.heard_first == [[], [], []]  # a push consumer has delivered what it could
    for step in (("wait", 1.0), *ALL, *after, *ALL):
        assert by_consumer(second.do(step)) == by_consumer(first.do(step))


def test_a_message_id_is_forgotten_with_its_message() -> None:
    first = Client()
    options = {"storage": "file", "max_msgs_per_subject": 1}
    first.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s.*"], **options})
    for msg_id in ("one", "two"):
        first.do(("publish", "s.a", b"x", {"Nats-Msg-Id": msg_id}))
    second = Client(first.now, save(first.server, first.now))
    answers = [second.do(("publish", "s.b", b"x", {"Nats-Msg-Id": msg_id}))[0][-1] for msg_id in ("one", "two")]
    assert answers == [b'{"stream":"S","seq":3}', b'{"stream":"S","seq":2,"duplicate": true}']


def test_a_message_id_is_known_after_a_restart() -> None:
    first = Client()
    first.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s.*"], "storage": "file", "duplicate_window": 5 * 10**9})
    publish = ("publish", "s.a", b"x", {"Nats-Msg-Id": "one"})
    (first_ack,) = first.do(publish)
    second = Client(first.now, save(first.server, first.now))
    (duplicate,) = second.do(publish)
    second.wait(5.0)
    (stored,) = second.do(publish)
    assert [json.loads(one[3]) for one in (first_ack, duplicate, stored)] == [
        {"stream": "S", "seq": 1}, {"stream": "S", "seq": 1, "duplicate": True}, {"stream": "S", "seq": 2},
    ]  # fmt: skip


@promise("Streams with file storage survive in `--store_dir`")
def test_what_is_in_memory_is_lost() -> None:
    first = Server(token=b"t")
    for name, storage in (("F", "file"), ("M", "memory")):
        first.add_stream(StreamConfig(name, storage=storage), 1.0)  # type: ignore[arg-type]
    for name, is_in_memory in (("C", None), ("D", True)):
        config = ConsumerConfig(durable_name=name, ack_policy="explicit", mem_storage=is_in_memory)
        first.api.consumers.create("F", config, 1.0)
    second = Server(token=b"t")
    restore(second, save(first, 2.0), 2.0)
    assert {name: list(inlet.consumers) for name, inlet in second.api.streams.items()} == {"F": ["C"]}


def test_a_later_start_has_other_moments() -> None:
    """The clock of a process begins anywhere, and the time of day goes on."""
    first = Server(token=b"t", epoch=EPOCH)
    first.add_stream(StreamConfig("S", storage="file", max_age=10.0), 1000.0)
    first.publish("S", b"x")
    first.handle_timeout(1000.0)
    second = Server(token=b"t", epoch=EPOCH + 1_004 * 10**9)
    restore(second, save(first, 1001.0), 0.0)
    (message,) = second.stream("S")
    assert (message.timestamp, message.arrived) == (EPOCH + 1_000 * 10**9, -4.0)
    assert second.deadline() == 6.0


def saved_one() -> bytes:
    server = Server(token=b"t")
    server.add_stream(StreamConfig("S", storage="file"), 1.0)
    return save(server, 1.0)


def resealed(body: dict[str, Any]) -> bytes:
    """The same as ``save`` writes, with another body."""
    data = json.dumps(body).encode()
    return b"jsproto-server 2 %d %b\n" % (len(data), sha256(data).hexdigest().encode()) + data


@promise("A file that is foreign or damaged is refused.")
@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda saved: b"", "was not saved by a jsproto server"),
        (lambda saved: b"# nats.conf\n" + saved, "was not saved by a jsproto server"),
        (
            lambda saved: saved.replace(b"server 2", b"server 1", 1),
            "saved in version 1 of the format, and version 2 is",
        ),
        (lambda saved: saved[:-1], "bytes long, and should be"),
        (lambda saved: saved.replace(b'"subjects"', b'"SUBJECTS"'), "its hash is another one"),
        (lambda saved: resealed({}), "cannot be taken up: 'streams'"),
        (lambda saved: resealed({"streams": [{"stream": {}}]}), "cannot be taken up: 'config'"),
    ],
)
def test_what_is_foreign_or_damaged_is_refused(spoil: Any, complaint: str) -> None:
    server = Server(token=b"t")
    with pytest.raises(LocalProtocolError, match=complaint):
        restore(server, spoil(saved_one()), 1.0)
    assert server.api.streams == {}


@promise("A file that is foreign or damaged is refused.")
def test_nothing_is_taken_up_by_halves() -> None:
    body = json.loads(saved_one().split(b"\n", 1)[1])
    second = json.loads(json.dumps(body["streams"][0]).replace('"S"', '"T"'))
    second["consumers"] = [{"name": "C"}]
    body["streams"].append(second)
    server = Server(token=b"t")
    with pytest.raises(LocalProtocolError, match="cannot be taken up: 'config'"):
        restore(server, resealed(body), 1.0)
    assert server.api.streams == {}
    server.add_stream(StreamConfig("S", storage="file"), 1.0)


def test_what_an_older_release_refuses() -> None:
    first = Server(token=b"t")
    first.add_stream(StreamConfig("S", storage="file", allow_batched=True), 1.0)
    with pytest.raises(LocalProtocolError, match="allow_batched"):
        restore(Server(token=b"t", release=(2, 12, 8)), save(first, 1.0), 1.0)
