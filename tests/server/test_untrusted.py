"""Whatever clients ask of the server role: receiving never raises, and the work for one input is bounded.

Work is counted in lines of Python that run, never in seconds, so that the same input always gives the same verdict.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.grammar.config import StreamConfig
from jsproto.grammar.headers import encode_headers
from jsproto.wire.encoder import encode_pub
from tests.effort import EFFORT
from tests.server.harness import Reader

LINES = 3_000_000
HUGE = 10**400

WILD_NUMBERS = (
    -(2**63) - 1, -(2**63), -(2**31), -1, 0, 1, 2, 5, 6, 1000, 65_536, 200_000, 2**31 - 1, 2**31, 2**32, 10**9,
    2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1, 2**64, HUGE, -HUGE,
)  # fmt: skip
WILD_WORDS = (
    "", "S", "C", "M", "s.a", "s.*", "s.>", ">", "*", "a..b", "a b", "a\vb", "\0", "\ud800", "\udc80", "x" * 300, "i",
    "explicit", "all", "none", "flow_control", "last", "new", "by_start_sequence", "by_start_time", "memory", "file",
    "workqueue", "interest", "pinned_client", "overflow", "prioritized", "last_per_subject", "original", "async",
    "9999-12-31T23:59:59-23:59", "0000-01-01T00:00:00+23:00", "2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z",
    "create", "update", "$JS.ACK.S.C.1.1.1.1.0", "$JS.API.CONSUMER.MSG.NEXT.S.C", "100%",
    "$JS.API.INFO",
)  # fmt: skip
NUMBERS = st.sampled_from(WILD_NUMBERS) | st.integers()
WORDS = st.sampled_from(WILD_WORDS) | st.text(max_size=20)
DEEP = ("<deep 40>", "<deep 900>", "<deep 3000>", "<deep 9900>", "<deep 20000>")
ATOMS = st.one_of(
    NUMBERS, WORDS, st.booleans(), st.none(), st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(DEEP)
)
VALUES = st.recursive(
    ATOMS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4), max_leaves=6
)
FIELDS = {
    "STREAM": (
        "description subjects retention max_consumers max_msgs max_bytes max_age max_msgs_per_subject max_msg_size"
        " discard storage num_replicas no_ack duplicate_window placement mirror sources compression first_seq"
        " subject_transform republish allow_direct mirror_direct discard_new_per_subject sealed deny_delete deny_purge"
        " allow_rollup_hdrs consumer_limits allow_msg_ttl subject_delete_marker_ttl allow_msg_counter allow_atomic"
        " allow_msg_schedules persist_mode allow_batched metadata unknown"
    ),
    "CONSUMER": (
        "durable_name description deliver_policy opt_start_seq opt_start_time ack_policy ack_wait max_deliver backoff"
        " filter_subject filter_subjects replay_policy rate_limit_bps sample_freq max_waiting max_ack_pending"
        " flow_control headers_only max_batch max_expires max_bytes deliver_subject deliver_group idle_heartbeat"
        " inactive_threshold num_replicas mem_storage direct metadata pause_until priority_groups priority_policy"
        " priority_timeout unknown"
    ),
    "ANY": (
        "offset subject subjects_filter deleted_details filter seq keep no_erase batch max_bytes last_by_subj"
        " next_by_subj multi_last up_to_seq up_to_time start_time no_hdr group pause_until action stream_name config"
        " expires no_wait idle_heartbeat min_pending min_ack_pending id priority"
    ),
}
ANY_BODY = st.dictionaries(st.sampled_from(FIELDS["ANY"].split()) | WORDS, VALUES, max_size=5)
CALLS = (
    "INFO", "STREAM.NAMES", "STREAM.LIST", "STREAM.INFO.S", "STREAM.DELETE.S", "STREAM.PURGE.S", "STREAM.MSG.GET.S",
    "STREAM.MSG.DELETE.S", "DIRECT.GET.S", "DIRECT.GET.S.s.a", "CONSUMER.NAMES.S", "CONSUMER.LIST.S",
    "CONSUMER.INFO.S.C", "CONSUMER.DELETE.S.C", "CONSUMER.PAUSE.S.C", "CONSUMER.UNPIN.S.C", "CONSUMER.MSG.NEXT.S.C",
    "CONSUMER.CREATE.S", "CONSUMER.CREATE.S.C", "CONSUMER.DURABLE.CREATE.S.C", "CONSUMER.RESET.S.C",
)  # fmt: skip


class TooMuchWorkError(BaseException):
    """An input makes the server work for longer than it may. No handler of the code under test catches it."""


@contextmanager
def bounded(lines: int = LINES) -> Iterator[None]:
    """What happens inside may run so many lines of Python."""
    before, left = sys.gettrace(), lines

    def count(frame: FrameType, kind: str, argument: Any) -> Any:
        nonlocal left
        if kind == "line":
            left -= 1
            if left < 0:
                raise TooMuchWorkError(f"more than {lines} lines, the last in {frame.f_code.co_qualname}")
        return count

    sys.settrace(count)
    try:
        yield
    finally:
        sys.settrace(before)


class Attacked(Reader):
    """A server with a stream S, a consumer C and somebody who subscribes to everything that is sent to ``i`` and below.

    Whatever is said to it, it has to take, in bounded work. Time goes on as its deadlines say.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.make(allow_atomic=True, allow_batched=True)
        for subject in ("s.a", "s.b", "s.a"):
            self.store(subject)
        self.create()
        self.link.receive_data(b"SUB i.> 2\r\nSUB s.> 3\r\n", self.now)

    def create(self) -> None:
        """Consumer C, again if it is gone."""
        self.hear("$JS.API.CONSUMER.CREATE.S.C", consumer({"durable_name": "C", "ack_policy": "explicit"}))

    def hear(self, subject: str, body: Any = b"", header: bytes | None = None, reply: bytes | None = b"i") -> None:
        """Somebody publishes."""
        payload = body if isinstance(body, bytes) else written(body)
        with bounded():
            self.link.receive_data(
                encode_pub(subject.encode("utf-8", "surrogateescape"), reply, header, payload), self.now
            )
        self.link.data_to_send()

    def live(self, calls: int = 20) -> None:
        """Go on for a few deadlines, at most 10 s. What is due must not be due again at the same moment for ever."""
        for _ in range(calls):
            when = self.server.deadline()
            if when is None or when > 10.0:
                return
            self.now = max(self.now, when)
            with bounded():
                self.server.handle_timeout(self.now)
            self.link.data_to_send()

    def use(self) -> None:
        """What ordinary clients do with whatever there is now."""
        for name in ("S", "X"):
            self.hear(f"{name.lower()}.a", b"x")
            self.hear(f"$JS.API.STREAM.INFO.{name}")
            self.hear(f"$JS.API.CONSUMER.MSG.NEXT.{name}.C", {"batch": 2, "no_wait": True})
            self.hear(f"$JS.API.CONSUMER.LIST.{name}")
            self.hear(f"$JS.ACK.{name}.C.1.1.1.0.0", b"-NAK")
            self.hear(f"$JS.API.DIRECT.GET.{name}", {"seq": 1, "batch": 3})
        self.live()
        for name in ("S", "X"):
            self.hear(f"$JS.API.STREAM.DELETE.{name}")
        assert self.link.error is None
        assert not self.server.api.streams


def written(body: Any) -> bytes:
    """As JSON, where ``<deep n>`` is a list in a list in a list."""
    nested = lambda found: "[" * int(found[1]) + "]" * int(found[1])  # noqa: E731
    return re.sub(r'"<deep ([0-9]+)>"', nested, json.dumps(body)).encode()


def consumer(config: dict[str, Any]) -> dict[str, Any]:
    return {"stream_name": "S", "config": {"name": "C"} | config}


def configured(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(FIELDS[kind].split()), VALUES, max_size=4)


SINGLE: tuple[Any, ...] = (
    -(2**63), -1, 0, 1, 2, 5, 200_000, 2**63 - 1, 2**64 - 1, HUGE, 1.5, True, "", "S", "s.>", "\ud800", "\udc80",
    "9999-12-31T23:59:59-23:59", "$JS.API.INFO", DEEP[0], DEEP[3], [], {}, ["a", "a"], {"name": "S"},
    {"nested": DEEP[3]}, [{"name": "S", "nested": DEEP[3]}], [0], [HUGE], [2**63 - 1],
)  # fmt: skip


def values_for(field: str) -> tuple[Any, ...]:
    """A part of them, another one for each length of a name: all with EFFORT=2."""
    stride = max(round(2 / EFFORT), 1)
    return SINGLE[len(field) % stride :: stride]


@pytest.mark.parametrize("field", FIELDS["STREAM"].split())
def test_each_field_of_a_stream(field: str) -> None:
    server = Attacked()
    for value in values_for(field):
        asked = {"name": "X", "subjects": ["x.>"]} | {field: value}
        server.hear("$JS.API.STREAM.CREATE.X", asked)
        server.hear("$JS.API.STREAM.CREATE.X", asked)
        assert all(len(one.replicas) < 5 for one in server.server.api.replica_sets.values())
        server.hear("x.a", b"x")
        server.hear("s.a", b"x")
        server.hear("$JS.API.STREAM.DELETE.X")
        server.hear("$JS.API.STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"]} | {field: value})
    server.use()


@pytest.mark.parametrize("field", FIELDS["CONSUMER"].split())
def test_each_field_of_a_consumer(field: str) -> None:
    server = Attacked()
    for value in values_for(field):
        for config in ({"ack_policy": "explicit"}, {"deliver_subject": "i.d", "idle_heartbeat": 10**9}):
            server.hear("$JS.API.CONSUMER.CREATE.S.D", consumer({"name": "D"} | config | {field: value}))
            server.hear("$JS.API.CONSUMER.MSG.NEXT.S.D", {"batch": 2})
            server.hear("$JS.API.CONSUMER.INFO.S.D")
            server.hear("$JS.API.CONSUMER.DELETE.S.D")
    server.use()


@pytest.mark.slow
@pytest.mark.parametrize("field", FIELDS["ANY"].split())
def test_each_field_of_a_request(field: str) -> None:
    server = Attacked()
    for value in values_for(field):
        for verb in CALLS:
            if "STREAM.DELETE" not in verb and "CONSUMER.DELETE" not in verb:
                server.hear(f"$JS.API.{verb}", {"stream_name": "S", field: value})
        server.create()
    server.use()


@given(configured("STREAM"), configured("STREAM"))
def test_streams(created: dict[str, Any], updated: dict[str, Any]) -> None:
    server = Attacked()
    server.hear("$JS.API.STREAM.CREATE.X", {"name": "X", "subjects": ["x.>"]} | created)
    server.hear("$JS.API.STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"]} | updated)
    assert len(server.server.api.streams) <= 2
    assert all(len(one.replicas) < 5 for one in server.server.api.replica_sets.values())
    server.use()


@given(configured("CONSUMER"), configured("CONSUMER"), st.sampled_from(["CONSUMER.CREATE.S.C", "CONSUMER.CREATE.S"]))
def test_consumers(created: dict[str, Any], other: dict[str, Any], verb: str) -> None:
    server = Attacked()
    server.hear(f"$JS.API.{verb}", consumer(created))
    server.hear("$JS.API.CONSUMER.CREATE.S.D", consumer({"name": "D"} | other))
    assert len(server.server.api.streams["S"].consumers) <= 3
    server.use()


@given(st.sampled_from(CALLS), ANY_BODY)
def test_any_call(verb: str, body: dict[str, Any]) -> None:
    server = Attacked()
    server.hear(f"$JS.API.{verb}", body)
    server.use()


NEXT = st.fixed_dictionaries(
    {},
    optional={
        "batch": ATOMS, "max_bytes": ATOMS, "expires": ATOMS, "no_wait": st.booleans(), "idle_heartbeat": ATOMS,
        "min_pending": ATOMS, "min_ack_pending": ATOMS, "priority": ATOMS, "id": WORDS, "group": WORDS,
    },
)  # fmt: skip
REPLIES = st.sampled_from([b"i", b"i.1", b"i.*", b"s.a", b"a..b", b"\xff", b"$JS.API.INFO", b"$JS.ACK.S.C.1.1.1.1.0"])


@given(NEXT, NEXT, REPLIES)
def test_pulls(body: dict[str, Any], after: dict[str, Any], reply: bytes) -> None:
    server = Attacked()
    server.hear("$JS.API.CONSUMER.MSG.NEXT.S.C", body, reply=reply)
    server.hear("$JS.ACK.S.C.1.1.1.0.0", b"+NXT" + json.dumps(after).encode(), reply=reply)
    server.use()


@given(st.lists(NUMBERS, min_size=5, max_size=5), st.sampled_from(["", "+NXT ", "-NAK", "+TERM", "+WPI"]), NUMBERS)
def test_acknowledgements(numbers: list[int], word: str, delay: int) -> None:
    server = Attacked()
    server.hear("$JS.API.CONSUMER.MSG.NEXT.S.C", {"batch": 10})
    tokens = ".".join(str(abs(number))[:60] for number in numbers)
    for argument in (json.dumps({"delay": delay}), str(delay), f"{delay}ns"):
        server.hear(f"$JS.ACK.S.C.{tokens}", f"{word}{argument}".encode() if word else b"")
    server.use()


@given(NUMBERS, NUMBERS, st.integers(-1, 6), st.sampled_from(["ok", "fail", "x"]), REPLIES)
def test_fast_ingest(flow: int, sequence: int, operation: int, gap: str, prefix: bytes) -> None:
    server = Attacked()
    for number, doing in ((1, 0), (sequence, operation), (2, 1)):
        server.hear("s.a", b"x", reply=b"%b.b.%d.%b.%d.%d.$FI" % (prefix, flow, gap.encode(), number, doing))
    server.use()


@given(NUMBERS, st.sampled_from(["", "1", "eob", "x"]), st.sampled_from([b"b", b"\xff", b"x" * 80]), NUMBERS)
def test_atomic_batches(sequence: int, commit: str, batch_id: bytes, level: int) -> None:
    server = Attacked()
    for number, end in ((1, ""), (sequence, commit), (2, "1")):
        lines = {"Nats-Batch-Id": "ID", "Nats-Batch-Sequence": str(number)}
        if end:
            lines["Nats-Batch-Commit"] = end
        server.hear("s.a", b"x", encode_headers(lines).replace(b"ID", batch_id))
    for name in ("Nats-Required-Api-Level", "Nats-Expected-Last-Sequence", "Nats-Expected-Last-Subject-Sequence"):
        server.hear("s.a", b"x", encode_headers({name: str(level)[:5000]}))
    server.use()


# -- what costs more than it says --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "code", "err_code", "words"),
    [
        (-1, 400, 10133, "replicas count cannot be negative"),
        (6, 500, 10052, "maximum replicas is 5"),
        (200_000, 500, 10052, "maximum replicas is 5"),
        (2**31, 500, 10052, "maximum replicas is 5"),
    ],
)
def test_replicas_out_of_range(asked: int, code: int, err_code: int, words: str) -> None:
    server = Attacked()
    refused = {"error": {"code": code, "err_code": err_code, "description": words}}
    with bounded():
        assert server.api("STREAM.CREATE.X", {"name": "X", "num_replicas": asked}) == refused
        assert server.api("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"], "num_replicas": asked}) == refused
    assert server.server.replicas("S") == []
    server.use()


def test_a_stream_has_as_many_replicas_as_it_asks_for_up_to_five() -> None:
    server = Attacked()
    for asked, copies in ((0, 0), (1, 0), (2, 1), (5, 4)):
        answer = server.api("STREAM.CREATE.X", {"name": "X", "num_replicas": asked})
        assert answer["config"]["num_replicas"] == max(1, asked)
        assert len(server.server.replicas("X")) == copies
        server.api("STREAM.DELETE.X")


def test_a_mirror_lacks_sequences_without_end() -> None:
    """Its origin is deleted, and begins far away when it is made again."""
    server = Attacked()
    server.hear("$JS.API.STREAM.CREATE.X", {"name": "X", "mirror": {"name": "S"}, "allow_direct": True})
    server.hear("$JS.API.CONSUMER.CREATE.X.C", {"stream_name": "X", "config": {"name": "C", "ack_policy": "none"}})
    server.hear("$JS.API.STREAM.DELETE.S")
    server.hear("$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "first_seq": 2**62})
    server.hear("s.far", b"x")
    server.hear("$JS.API.DIRECT.GET.X", {"next_by_subj": "s.far", "seq": 1})
    server.hear("$JS.API.CONSUMER.MSG.NEXT.X.C", {"batch": 10, "no_wait": True})
    assert server.server.stream("X").last_seq == 2**62
    with bounded():
        assert server.read({"next_by_subj": "s.far", "seq": 1}, "X") == [2**62]
        assert server.read({"seq": 2, "batch": 10}, "X") == [2, 3, 2**62, "204 EOB"]
        assert server.read({"seq": 2**61, "batch": 10}, "X") == [2**62, "204 EOB"]
        assert server.api("STREAM.PURGE.X", {"seq": 2**61}) == {"success": True, "purged": 3}
    assert server.server.stream("X").first_seq == 2**62
    server.use()


def test_a_stream_comes_to_the_end_of_its_sequences() -> None:
    server = Attacked()
    full = {"error": {"code": 503, "err_code": 10077, "description": "no sequence is left"}, "stream": "X", "seq": 0}
    made = {"name": "X", "subjects": ["x"], "first_seq": 2**64 - 1, "allow_atomic": True, "allow_batched": True}
    server.hear("$JS.API.STREAM.CREATE.X", made)
    member = encode_headers({"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1"})

    def publish(header: bytes | None = None, reply: bytes = b"i") -> Any:
        (answer,) = server.say(encode_pub(b"x", reply, header, b"x"))
        return json.loads(answer.payload)

    assert publish() == {"stream": "X", "seq": 2**64 - 1}
    assert publish() == publish(member) == publish(reply=b"i.b.1.fail.1.2.$FI") == full
    assert server.server.stream("X").last_seq == 2**64 - 1
    server.use()


def test_a_long_chain_of_mirrors() -> None:
    server = Attacked()
    for number in range(400):
        origin = f"M{number - 1}" if number else "S"
        server.server.add_stream(StreamConfig(f"M{number}", mirror={"name": origin}, storage="memory"), server.now)
    server.hear("s.a", b"new")
    last = server.server.stream("M399").get(4)
    assert last is not None
    assert last.payload == b"new"


TURNS = 1_000
LINES_OF_A_TURN = 1_000


@pytest.fixture
def few_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jsproto.server.server.MAX_TURNS", TURNS)


@pytest.mark.usefixtures("few_turns")
def test_two_streams_with_consumers_that_deliver_to_the_other_one() -> None:
    """Each has a consumer that delivers to the other, as nats-server takes it too."""
    server = Attacked()
    server.hear("$JS.API.STREAM.CREATE.X", {"name": "X", "subjects": ["i.x"]})
    server.hear("$JS.API.STREAM.CREATE.Y", {"name": "Y", "subjects": ["i.y"]})
    for stream, inbox in (("X", "i.y"), ("Y", "i.x")):
        config = {"name": "F", "deliver_policy": "new", "ack_policy": "none", "deliver_subject": inbox}
        server.api(f"CONSUMER.CREATE.{stream}.F", {"stream_name": stream, "config": config})
    with bounded(TURNS * LINES_OF_A_TURN):
        server.store("i.x")
    stored = server.server.stream("X").last_seq
    assert TURNS / 10 < stored < TURNS
    assert server.server.deadline() == server.now  # the rest is due
    with bounded(TURNS * LINES_OF_A_TURN):
        server.server.handle_timeout(server.now)
    assert server.server.stream("X").last_seq > stored
    server.server.api.delete("X", server.now)
    server.live()
    assert server.server.deadline() != server.now


@pytest.mark.usefixtures("few_turns")
def test_a_stream_that_feeds_itself() -> None:
    """Somebody pulls to a subject of the stream: each message that is delivered is stored, and delivered."""
    server = Attacked()
    server.api("CONSUMER.CREATE.S.F", consumer({"name": "F", "ack_policy": "none"}))
    with bounded(TURNS * LINES_OF_A_TURN):
        server.link.receive_data(encode_pub(b"$JS.API.CONSUMER.MSG.NEXT.S.F", b"s.a", None, b'{"batch":1000000}'), 0.0)
    assert TURNS / 10 < len(server.server.stream("S")) < TURNS
    server.server.api.delete("S", server.now)
    server.live()
    assert server.server.deadline() != server.now


def test_deliveries_that_no_time_passes_between() -> None:
    server = Attacked()
    server.now = 2.0**33  # where a nanosecond is nothing
    server.hear("$JS.API.CONSUMER.CREATE.S.D", consumer({"name": "D", "ack_policy": "explicit", "ack_wait": 1}))
    server.hear("$JS.API.CONSUMER.CREATE.S.E", consumer({"name": "E", "ack_policy": "explicit", "backoff": [1, 1]}))
    for name in "CDE":
        server.hear(f"$JS.API.CONSUMER.MSG.NEXT.S.{name}", {"batch": 100, "expires": 60 * 10**9, "idle_heartbeat": 1})
    server.server.handle_timeout(server.now)
    for _ in range(10):
        when = server.server.deadline()
        assert when is not None
        assert when > server.now
        server.now = when
        server.server.handle_timeout(when)


@pytest.mark.slow
def test_more_subjects_and_filters_than_can_be_compared() -> None:
    server = Attacked()
    many = [f"x.{number}" for number in range(1_001)]
    for asked in (many, many * 20):
        with bounded():
            answer = server.api("STREAM.CREATE.X", {"name": "X", "subjects": asked})
            assert answer["error"]["description"] == "a stream has at most 1000 subjects"
            answer = server.api("CONSUMER.CREATE.S.D", consumer({"name": "D", "filter_subjects": asked}))
            assert answer["error"]["description"] == "a consumer has at most 1000 filters"
    assert server.api("STREAM.CREATE.X", {"name": "X", "subjects": many[1:]})["did_create"]
    answer = server.api("CONSUMER.CREATE.S.D", consumer({"name": "D", "filter_subjects": many[1:]}))
    assert answer["name"] == "D"


@pytest.mark.parametrize("subjects", [["a", "a"], ["a.*", "a.b"]])
def test_subjects_of_a_stream_that_overlap(subjects: list[str]) -> None:
    error = Attacked().api("STREAM.CREATE.X", {"name": "X", "subjects": subjects})["error"]
    assert error == {
        "code": 500, "err_code": 10052, "description": f'subject "{subjects[0]}" overlaps with "{subjects[1]}"',
    }  # fmt: skip


def test_names_that_are_no_text() -> None:
    """Names and ids in subjects and headers are bytes. In JSON half a character becomes a replacement character."""
    server = Attacked()
    server.hear("$JS.API.STREAM.CREATE.\udc80", {"name": "\udc80", "subjects": ["x"]})
    assert list(server.server.api.streams) == ["S"]
    server.hear("$JS.API.CONSUMER.CREATE.S.\udc80", {"stream_name": "S"})
    assert list(server.server.api.streams["S"].consumers) == ["C"]
    lines = {"Nats-Batch-Id": "ID", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1"}
    header = encode_headers(lines).replace(b"ID", b"\xff")
    (answer,) = [said for said in server.say(encode_pub(b"s.a", b"i.b", header, b"x")) if said.subject == b"i.b"]
    assert json.loads(answer.payload)["batch"] == "?"
    made = server.api("CONSUMER.CREATE.S.D", consumer({"name": "D", "description": "\ud800 \ud83d\ude00"}))
    assert made["config"]["description"] == "\ufffd \U0001f600"
    server.use()


def test_a_moment_that_cannot_be_written() -> None:
    server = Attacked()
    for until in ("9999-12-31T23:59:59-23:59", "0000-01-01T00:00:00+01:00", 5, dict.fromkeys(map(str, range(22)))):
        assert server.api("CONSUMER.PAUSE.S.C", {"pause_until": until})["error"]["err_code"] == 10025
    server.use()
