"""Streams that follow others: what the role copies is what a real server copies, and what a model says."""

from __future__ import annotations

import time
from base64 import b64decode
from collections.abc import Callable
from typing import Any, Final

import hypothesis.strategies as st
import pytest
from hypothesis import given

from jsproto.grammar.bodies import dumps, loads
from jsproto.grammar.headers import Headers, encode_headers
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import Connection, connect
from tests.marks import requirement
from tests.server.harness import Reader

Copies = list[tuple[str, bytes, str]]


def advance(reader: Reader, seconds: float = 3.0) -> None:
    """Time passes, deadline by deadline."""
    end = reader.now + seconds
    while (when := reader.server.deadline()) is not None and when <= end:
        reader.now = max(reader.now, when)
        reader.server.handle_timeout(reader.now)
    reader.now = end
    reader.server.handle_timeout(end)


def copies(reader: Reader, name: str = "T") -> Copies:
    """Subject, payload and origin of each message, without the identity of the origin."""
    return [
        (one.subject.decode(), one.payload, origin(Headers.parse(one.header or b"NATS/1.0\r\n\r\n")))
        for one in reader.server.stream(name)
    ]


def origin(headers: Headers) -> str:
    return " ".join((headers.get("Nats-Stream-Source") or "").split(" ")[:5])


def following(**source: Any) -> Reader:
    reader = Reader()
    reader.make()
    reader.make("T", sources=[{"name": "S", **source}])
    return reader


def described(reader: Reader, name: str = "T") -> dict[str, Any]:
    (source,) = reader.api(f"STREAM.INFO.{name}")["sources"]
    return dict(source)


TWICE: Final = [{"name": "S", "filter_subject": "s.a"}, {"name": "S", "filter_subject": "s.b"}]
# Options of the stream with sources, besides its name and subjects.
SOURCES: Final[dict[str, dict[str, Any]]] = {
    "plain": {"sources": [{"name": "S"}]},
    "filter": {"sources": [{"name": "S", "filter_subject": "s.a"}]},
    "start": {"sources": [{"name": "S", "opt_start_seq": 3}]},
    "transform": {"sources": [{"name": "S", "subject_transforms": [{"src": "s.*", "dest": "t.$1"}]}]},
    "transforms": {
        "sources": [
            {"name": "S", "subject_transforms": [{"src": "s.a", "dest": "x"}, {"src": "s.b", "dest": ""}]},
        ]
    },
    "several": {"sources": TWICE},
    "full": {"sources": [{"name": "S"}], "max_msgs": 3, "discard": "new"},
    "too_large": {"sources": [{"name": "S"}], "max_msg_size": 128},
    "duplicates": {"sources": [{"name": "S"}], "duplicate_window": 120 * 10**9},
    "rollups": {"sources": [{"name": "S"}]},
    "rollups_allowed": {"sources": [{"name": "S"}], "allow_rollup_hdrs": True},
    "missing": {"sources": [{"name": "NONE"}]},
}
PUBLISHED: Final[tuple[tuple[str, bytes, dict[str, str]], ...]] = (
    ("s.a", b"1", {}),
    ("s.b", b"2", {"K": "v", "Nats-Expected-Last-Sequence": "1"}),
    ("s.a", b"3", {"Nats-Msg-Id": "i"}),
    ("s.c", b"4", {"Nats-Rollup": "sub"}),
    ("s.b", b"5", {}),
    ("s.b", b"x" * 200, {}),
    ("s.a", b"7", {}),
)
ORIGIN: Final = {"name": "S", "subjects": ["s.>"], "storage": "memory", "allow_rollup_hdrs": True}


def config(name: str) -> dict[str, Any]:
    return {"name": "T", "subjects": ["own.>"], "storage": "memory"} | SOURCES[name]


def by_source(found: Copies) -> Copies:
    """Real servers copy from several sources side by side: only the order of each is known."""
    return sorted(found, key=lambda copy: copy[2].split(" ")[2:4])


def on_the_role(name: str) -> tuple[Copies, list[dict[str, Any]]]:
    reader = Reader()
    reader.api("STREAM.CREATE.S", ORIGIN)
    reader.api("STREAM.CREATE.T", config(name))
    reader.store("own.x", b"own", encode_headers({"Nats-Msg-Id": "i"}))
    advance(reader)
    for subject, payload, headers in PUBLISHED:
        reader.store(subject, payload, encode_headers(headers) if headers else None)
    return by_source(copies(reader)), stable(reader.api("STREAM.INFO.T"))


def stable(info: dict[str, Any]) -> list[dict[str, Any]]:
    """What is said of the sources, without the time."""
    sources = [{**source, "active": source["active"] >= 0} for source in info["sources"]]
    return sorted(sources, key=lambda source: str(source.get("filter_subject")))


def real(nc: Connection) -> Copies:
    found: Copies = []
    state = loads(nc.request("$JS.API.STREAM.INFO.T", b"").data)["state"]
    for seq in range(1, state["last_seq"] + 1):
        answer = loads(nc.request("$JS.API.STREAM.MSG.GET.T", dumps({"seq": seq})).data)
        if "message" in answer:
            one = answer["message"]
            header = b64decode(one.get("hdrs", "")) or b"NATS/1.0\r\n\r\n"
            found.append((one["subject"], b64decode(one.get("data", "")), origin(Headers.parse(header))))
    return by_source(found)


def described_by(nc: Connection) -> dict[str, Any]:
    return loads(nc.request("$JS.API.STREAM.INFO.T", b"").data)


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)


@requirement(166)
@pytest.mark.parametrize("name", SOURCES)
def test_the_role_copies_what_a_real_server_copies(name: str, server_for: Callable[..., NatsServer]) -> None:
    wanted, said = on_the_role(name)
    with connect(server_for().url) as nc:
        nc.request("$JS.API.STREAM.CREATE.S", dumps(ORIGIN))
        nc.request("$JS.API.STREAM.CREATE.T", dumps(config(name)))
        nc.request("own.x", b"own", headers={"Nats-Msg-Id": "i"})
        until(lambda: [one["active"] for one in stable(described_by(nc))] == [one["active"] for one in said])
        for subject, payload, headers in PUBLISHED:
            nc.request(subject, payload, headers=headers)
        until(lambda: real(nc) == wanted)
        assert real(nc) == wanted
        until(lambda: stable(described_by(nc)) == said)
        assert stable(described_by(nc)) == said


@requirement(166, 263)
def test_a_source_says_how_far_it_is_and_what_it_lacks() -> None:
    reader = following(filter_subject="s.a")
    assert described(reader) == {"name": "S", "lag": 0, "active": -1, "filter_subject": "s.a"}
    reader.store("s.a")
    reader.store("s.b")
    assert copies(reader) == []
    advance(reader, 0.1)
    reader.now += 1.25
    said = described(reader)
    assert (said["seq"], said["lag"]) == (1, 0)
    assert said["active"] == 250_000_000
    reader.make("R")
    reader.api("STREAM.DELETE.R")
    assert described(reader) == said
    reader.api("STREAM.DELETE.S")
    reader.now += 5.0
    assert described(reader)["active"] == 5_250_000_000


def test_before_2_15_neither_the_position_nor_the_identity_is_said() -> None:
    reader = Reader(release=(2, 14, 6))
    reader.make()
    reader.make("T", sources=[{"name": "S"}])
    advance(reader)
    reader.store("s.a")
    assert "seq" not in described(reader)
    (copy,) = reader.server.stream("T")
    assert Headers.parse(copy.header or b"")["Nats-Stream-Source"] == "S 1 > > s.a"
    reader.api("STREAM.DELETE.S")
    reader.make()
    advance(reader)
    reader.store("s.a")
    assert len(copies(reader)) == 1  # sequence 1 is not new
    reader.store("s.a")
    assert len(copies(reader)) == 2


def test_a_copy_whose_message_id_is_known_is_left_out() -> None:
    copied, (source,) = on_the_role("duplicates")
    assert [payload for _, payload, _ in copied] == [b"own", b"1", b"2", b"4", b"5", b"x" * 200, b"7"]
    assert source["lag"] == 0


def test_a_full_stream_goes_on_when_it_has_room() -> None:
    reader = Reader()
    reader.make()
    reader.make("T", sources=[{"name": "S"}], max_msgs=2, discard="new")
    for _ in range(5):
        reader.store("s.a")
    advance(reader)
    assert [origin[:3] for *_, origin in copies(reader)] == ["S 1", "S 2"]
    assert described(reader)["lag"] == 1
    reader.store("s.a")
    reader.api("STREAM.PURGE.T")
    advance(reader)
    assert [origin[:3] for *_, origin in copies(reader)] == ["S 3", "S 4"]


def test_what_is_purged_from_the_copies_does_not_come_again() -> None:
    reader = following()
    advance(reader)
    reader.store("s.a")
    reader.api("STREAM.PURGE.T")
    reader.server.lose_leader("T")
    reader.store("s.b")
    advance(reader)
    assert copies(reader) == []
    reader.server.elect_leader("T", reader.now)
    advance(reader)
    assert copies(reader) == [("s.b", b"x", "S 2 > > s.b")]
    reader.server.lose_leader("unknown")


def test_what_the_origin_deletes_stays_and_a_new_origin_is_copied_from_its_start() -> None:
    reader = following()
    advance(reader)
    reader.store("s.a", b"1")
    reader.api("STREAM.PURGE.S")
    reader.api("STREAM.DELETE.S")
    advance(reader)
    reader.make()
    reader.store("s.a", b"2")
    advance(reader)
    assert [payload for _, payload, _ in copies(reader)] == [b"1", b"2"]
    reader.api("STREAM.DELETE.T")
    reader.store("s.a")
    assert len(reader.server.stream("S").followers) == 2  # what republishes, and what schedules


def test_an_update_keeps_the_place_of_sources_that_stay() -> None:
    reader = following()
    reader.make("R")
    advance(reader)
    reader.store("s.a")
    reader.store("r.a")
    changed = {"name": "T", "subjects": ["t.>"], "storage": "memory", "allow_direct": True}
    reader.api("STREAM.UPDATE.T", changed | {"sources": [{"name": "R"}, {"name": "S", "opt_start_seq": 1}]})
    advance(reader)
    assert [origin[:3] for *_, origin in copies(reader)] == ["S 1", "R 1"]
    reader.api("STREAM.UPDATE.T", changed)
    reader.store("s.a")
    reader.store("r.a")
    advance(reader)
    assert len(copies(reader)) == 2


def test_a_chain_of_streams_says_where_each_copy_is_from() -> None:
    reader = following()
    reader.make("U", sources=[{"name": "T"}])
    advance(reader)
    reader.store("s.a", b"x", encode_headers({"K": "v"}))
    (copy,) = reader.server.stream("U")
    headers = Headers.parse(copy.header or b"")
    assert headers["K"] == "v"
    assert [value.split(" ")[0] for value in headers.get_all("Nats-Stream-Source")] == ["T"]


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_what_is_not_followed_before_2_14(retention: str) -> None:
    reader = Reader(release=(2, 12, 8))
    reader.make(retention=retention)
    reader.make("T", sources=[{"name": "S"}])
    advance(reader)
    reader.store("s.a")
    assert copies(reader) == []
    assert [source["active"] for source in reader.api("STREAM.INFO.T")["sources"]] == [-1]
    assert reader.api("CONSUMER.NAMES.S")["consumers"] == []


STEPS: Final = st.one_of(
    st.tuples(st.just("store"), st.sampled_from(["s.a", "s.b", "t.own"])),
    st.tuples(st.just("remove"), st.integers(1, 12)),
    st.tuples(st.sampled_from(["purge", "wait", "lose", "elect"]), st.just("")),
)


@given(st.lists(STEPS, max_size=30))
def test_the_copies_are_those_of_a_model(steps: list[tuple[str, Any]]) -> None:
    """All that the origin still has when it is read, once and in order, whatever happens."""
    reader = following(filter_subject="s.a")
    advance(reader)
    there: dict[int, str] = {}
    taken: list[int] = []
    last, is_led = 0, True

    def take() -> None:
        if is_led:
            taken.extend(seq for seq in there if there[seq] == "s.a" and seq > max(taken, default=0))

    for step, what in steps:
        if step == "store" and what != "t.own":
            last += 1
            there[last] = what
        if step in ("store", "wait"):
            reader.store(what) if what else advance(reader)
        elif step == "remove":
            reader.api("STREAM.MSG.DELETE.S", {"seq": what})
            there.pop(what, None)
        elif step == "purge":
            reader.api("STREAM.PURGE.S")
            there.clear()
        elif step == "lose":
            reader.server.lose_leader("T")
        else:
            reader.server.elect_leader("T", reader.now)
            advance(reader)
        is_led = (is_led and step != "lose") or step == "elect"
        take()
    found = [int(origin.split(" ")[1]) for *_, origin in copies(reader) if origin]
    assert found == taken
