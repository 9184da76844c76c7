"""What servers report of a message on its way, read and put in order."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.errors import RemoteProtocolError
from jsproto.grammar.trace import (
    Path,
    TraceEgress,
    TraceEvent,
    TraceExport,
    TraceIngress,
    TraceJetStream,
    TraceMapping,
    parse_trace,
    trace_of,
)

SERVER = {"name": "n1", "cluster": "c", "ver": "2.15.1", "time": "2026-11-20T20:36:46.5Z"}
STEPS: list[dict[str, Any]] = [
    {"type": "in", "ts": "x", "kind": 0, "cid": 5, "name": "app", "acc": "$G", "subj": "orders"},
    {"type": "sm", "to": "orders.new"},
    {"type": "se", "acc": "B", "to": "b.orders"},
    {"type": "si", "acc": "C", "from": "orders", "to": "c.orders"},
    {"type": "js", "stream": "ORDERS", "subject": "orders.new"},
    {"type": "js", "stream": "IDLE", "nointerest": True},
    {"type": "js", "stream": "FULL", "error": "maximum messages exceeded"},
    {"type": "eg", "kind": 0, "cid": 6, "name": "worker", "sub": "orders.>", "queue": "q"},
    {"type": "eg", "kind": 1, "cid": 7, "name": "n2", "hop": "1"},
    {"type": "eg", "kind": 99, "cid": 8, "error": "Not delivered because of no echo"},
    {"type": "later", "what": "ever"},
]


def report(hop: str = "", hops: int = 0, steps: Any = (), **changes: Any) -> bytes:
    header = {"Nats-Trace-Hop": [hop]} if hop else {}
    body = {"server": SERVER, "request": {"header": header, "msgsize": 3}, "hops": hops, "events": list(steps)}
    return json.dumps(body | changes).encode()


def event(path: Path, hops: int) -> TraceEvent:
    return parse_trace(report(".".join(map(str, path)), hops))


def test_an_event_with_steps_of_all_kinds() -> None:
    found = parse_trace(report(hops=1, steps=STEPS))
    assert (found.server, found.cluster, found.version, found.path, found.hops) == ("n1", "c", "2.15.1", (), 1)
    assert found.timestamp == 1_795_207_006_500_000_000
    assert found.steps == (
        TraceIngress("client", 5, "app", "$G", "orders", ""), TraceMapping("orders.new"), TraceExport("B", "b.orders"),
        TraceExport("C", "c.orders"), TraceJetStream("ORDERS", "orders.new", no_interest=False, error=""),
        TraceJetStream("IDLE", "", no_interest=True, error=""),
        TraceJetStream("FULL", "", no_interest=False, error="maximum messages exceeded"),
        TraceEgress("client", 6, "worker", "orders.>", "q", (), ""),
        TraceEgress("route", 7, "n2", "", "", (1,), ""),
        TraceEgress("kind 99", 8, "", "", "", (), "Not delivered because of no echo"),
    )  # fmt: skip


def test_a_trace_is_printed_in_the_order_of_hops() -> None:
    events = [event((1, 1), 0), event((2,), 0), event((), 2), event((1,), 1)]
    trace = trace_of({each.path: each for each in events})
    assert [each.path for each in trace] == [(), (1,), (1, 1), (2,)]
    assert trace.is_complete
    assert str(trace_of({(): parse_trace(report(hops=1, steps=STEPS))})).splitlines() == [
        "server n1 of cluster c (2.15.1)",
        "  from client app (5): orders",
        "  mapped to orders.new",
        "  to account B: b.orders",
        "  to account C: c.orders",
        "  stream ORDERS: stored as orders.new",
        "  stream IDLE: not stored, nobody is interested",
        "  stream FULL: not stored, maximum messages exceeded",
        "  to client worker (6), subscription orders.> of queue q",
        "  to route n2 (7)",
        "  to kind 99 (8), Not delivered because of no echo",
        "not every server has reported",
    ]
    alone = parse_trace(report("1.2", server={**SERVER, "cluster": ""}))
    assert str(alone) == "    server n1 (2.15.1)"


def test_when_a_trace_is_complete() -> None:
    assert not trace_of({}).is_complete
    assert not trace_of({(1,): event((1,), 0)}).is_complete
    assert not trace_of({(): event((), 2), (1,): event((1,), 0)}).is_complete
    assert trace_of({(): event((), 0)}).is_complete
    assert not trace_of({(): event((), 2**64 - 1)}).is_complete  # whoever forges that gets no memory for it


@pytest.mark.parametrize(
    "payload",
    [
        b"", b"[]", report(server=None), report(request=1), report(events={}), report(events=[1]), report("", -1),
        report(server={**SERVER, "time": "noon"}), report(server={"name": "x"}), report("1.x"), report("1..2"),
        report(".".join("1" * 65)), report("1" * 10), report(request={"header": {"Nats-Trace-Hop": []}}),
        report(request={"header": {"Nats-Trace-Hop": [1]}}), report(steps=[{"type": "sm"}]),
        report(steps=[{"type": "eg", "cid": "x"}]), report(steps=[{"type": "in", "kind": -1}]),
    ],
)  # fmt: skip
def test_what_is_no_report(payload: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        parse_trace(payload)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(("server", "request", "hops", "events"), JSON)), JSON, JSON)
def test_any_bytes_are_a_report_or_an_error(changes: dict[str, Any], kind: Any, value: Any) -> None:
    step = {"type": "eg", "kind": kind, "cid": value, "hop": kind, "sub": value}
    for payload in (report(**changes), report(steps=[step]), json.dumps(changes).encode()):
        with suppress(RemoteProtocolError):
            parse_trace(payload)


def test_steps_whose_type_is_no_word() -> None:
    assert parse_trace(report(steps=[{"type": ["in"]}, {}])).steps == ()
