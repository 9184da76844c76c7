"""``jsproto server check``: the line and the exit code that monitors read."""

from __future__ import annotations

from typing import Any

import pytest

from jsproto.grammar.config import StreamInfo
from jsproto.grammar.consumer import ConsumerInfo
from jsproto_io.cli.checking import ConsumerLimits, Findings, StreamLimits, check_consumer, check_stream
from jsproto_io.sync import JetStream
from tests.cli.calling import Place, call
from tests.drivers.test_facade import unique

SECOND = 1_000_000_000


def stream(limits: dict[str, Any], **body: Any) -> Findings:
    """What the check of a stream of 10 messages finds."""
    found = Findings("stream S")
    state = {"messages": 10, **({"num_subjects": 3} if body.pop("counted", True) else {})}
    check_stream(found, StreamInfo.from_json({"config": {"name": "S"}, "state": state, **body}), StreamLimits(**limits))
    return found


def source(**fields: Any) -> dict[str, Any]:
    return {"name": "FROM", "lag": 5, "active": 2 * SECOND, **fields}


def cluster(**fields: Any) -> dict[str, Any]:
    replica = {"name": "n2", "current": True, "lag": 4, "active": 3 * SECOND, **fields}
    return {"name": "C", "leader": "n1", "replicas": [replica]}


@pytest.mark.parametrize(
    ("limits", "body", "code", "text"),
    [
        ({}, {}, 0, "messages 10; subjects 3"),
        ({}, {"counted": False}, 0, "messages 10"),
        ({"msgs_warn": 10, "msgs_critical": 10}, {}, 0, "messages 10"),
        ({"msgs_warn": 11, "msgs_critical": 5}, {}, 1, "messages 10, the limit is 11"),
        ({"msgs_warn": 12, "msgs_critical": 11}, {}, 2, "messages 10, the limit is 11"),
        ({"subjects_warn": 3, "subjects_critical": 3}, {}, 0, "subjects 3"),
        ({"subjects_warn": 2, "subjects_critical": 3}, {}, 1, "subjects 3, the limit is 2"),
        ({"subjects_critical": 2}, {}, 2, "subjects 3, the limit is 2"),
        ({"subjects_warn": 9, "subjects_critical": 4}, {}, 2, "subjects 3, the limit is 4"),
        ({"subjects_warn": 4, "subjects_critical": 3}, {}, 1, "subjects 3, the limit is 4"),
        ({"lag_critical": 5, "seen_critical": 2}, {"mirror": source()}, 0, "messages 10"),
        ({"lag_critical": 4}, {"mirror": source()}, 2, "FROM lag 5, the limit is 4"),
        ({"seen_critical": 1}, {"sources": [source()]}, 2, "FROM was heard of 2s ago, the limit is 1s"),
        ({"seen_critical": 1}, {"sources": [source(active=-1)]}, 2, "FROM was not heard of"),
        ({}, {"mirror": source(error={"code": 404, "description": "gone"})}, 2, "FROM: gone"),
        ({"min_sources": 1, "max_sources": 1}, {"sources": [source()]}, 0, "messages 10"),
        ({"min_sources": 2}, {"sources": [source()]}, 2, "1 sources, 2 are expected"),
        ({"max_sources": 0}, {"sources": [source()]}, 2, "1 sources, no more than 0 are expected"),
        ({"peer_expect": 2, "peer_lag_critical": 4, "peer_seen_critical": 3}, {"cluster": cluster()}, 0, "messages"),
        ({"peer_expect": 3}, {"cluster": cluster()}, 2, "2 replicas, 3 are expected"),
        ({"peer_expect": 1}, {}, 0, "messages 10"),
        ({"peer_lag_critical": 3}, {"cluster": cluster()}, 2, "replica n2 lag 4, the limit is 3"),
        ({"peer_seen_critical": 2}, {"cluster": cluster()}, 2, "replica n2 was heard of 3s ago, the limit is 2s"),
        ({}, {"cluster": cluster(offline=True)}, 2, "replica n2 is offline"),
        ({}, {"cluster": {**cluster(), "leader": ""}}, 2, "it has no leader"),
    ],
)
def test_a_stream_is_judged(limits: dict[str, Any], body: dict[str, Any], code: int, text: str) -> None:
    found = stream(limits, **body)
    assert (found.code, text in found.line()) == (code, True), found.line()


def test_the_worst_is_told_with_all_of_its_kind() -> None:
    limits = {"msgs_warn": 11, "lag_critical": 4, "peer_lag_critical": 3}
    told, figures = stream(limits, mirror=source(), cluster=cluster()).line().split(" | ")
    assert told == "stream S CRITICAL: FROM lag 5, the limit is 4; replica n2 lag 4, the limit is 3"
    assert figures == "messages=10;11:; subjects=3;;"


@pytest.mark.parametrize(
    ("limits", "code", "text"),
    [
        ({}, 0, "unprocessed 7; outstanding acks 3; waiting pulls 2; redelivered 1"),
        ({"unprocessed_critical": 7, "outstanding_ack_critical": 3}, 0, "unprocessed 7"),
        ({"unprocessed_critical": 6}, 2, "unprocessed 7, the limit is 6"),
        ({"outstanding_ack_critical": 2}, 2, "outstanding acks 3, the limit is 2"),
        ({"waiting_critical": 1}, 2, "waiting pulls 2, the limit is 1"),
        ({"redelivery_critical": 0}, 2, "redelivered 1, the limit is 0"),
        ({"last_delivery_critical": 60}, 0, "last delivery 1m"),
        ({"last_delivery_critical": 59}, 2, "last delivery 1m, the limit is 59s"),
        ({"last_ack_critical": 59}, 2, "no ack yet"),
    ],
)
def test_a_consumer_is_judged(limits: dict[str, Any], code: int, text: str) -> None:
    body = {
        "stream_name": "S", "name": "C", "config": {}, "num_pending": 7, "num_ack_pending": 3, "num_waiting": 2,
        "num_redelivered": 1, "ts": "2026-11-25T16:31:00Z",
        "delivered": {"consumer_seq": 1, "stream_seq": 1, "last_active": "2026-11-25T16:30:00Z"},
    }  # fmt: skip
    found = Findings("consumer C")
    check_consumer(found, ConsumerInfo.from_json(body), ConsumerLimits(**limits))
    assert (found.code, text in found.line()) == (code, True), found.line()
    del body["ts"]
    old = Findings("consumer C")
    check_consumer(old, ConsumerInfo.from_json(body), ConsumerLimits(last_ack_critical=1))
    assert (old.code, old.texts) == (3, ["the server does not tell its time"])


# -- on a server -------------------------------------------------------------------------------------------------------


def test_a_connection_is_checked(place: Place) -> None:
    within = ("--connect-warn", "1m", "--connect-critical", "1m", "--rtt-critical", "1m", "--req-critical", "1m")
    (data,) = place.ok(
        "server", "check", "connection", *within, "--rtt-warn", "1m", "--req-warn", "1m", "--json"
    ).objects
    assert (data["status"], data["code"], [*data["figures"]]) == (
        "OK",
        0,
        ["connect_time", "rtt_time", "request_time"],
    )
    done = place.call("server", "check", "connection", *within, "--rtt-warn", "0s", "--req-warn", "1m")
    assert (done.code, done.err) == (1, "")
    assert done.out.startswith("connection WARNING: rtt time ")
    assert " | connect_time=" in done.out
    done = place.call("server", "check", "connection", *within, "--req-critical", "0s")
    assert (done.code, done.out.startswith("connection CRITICAL: request time ")) == (2, True)


def test_a_stream_and_a_consumer_are_checked(place: Place, js: JetStream) -> None:
    name = unique("S")
    js.create_stream(name, subjects=[name], storage="memory")
    js.publish(name, b"1")
    js.create_consumer(name, durable_name="C")
    assert place.ok("server", "check", "stream", "--stream", name).out.startswith(f"stream {name} OK: messages 1")
    check = ("server", "check", "consumer", "--stream", name, "--consumer", "C")
    assert place.ok(*check, "--unprocessed-critical", "1").out.startswith(f"consumer C of stream {name} OK: ")
    done = place.call(*check, "--unprocessed-critical", "0")
    assert (done.code, "unprocessed 1, the limit is 0" in done.out) == (2, True)
    js.delete_stream(name)
    done = place.call("server", "check", "stream", "--stream", name)
    assert (done.code, done.out.startswith(f"stream {name} CRITICAL: stream not found")) == (2, True)


def test_no_server_is_an_alarm() -> None:
    done = call("server", "check", "connection")
    assert (done.code, done.err) == (2, "")
    assert done.out.startswith("connection CRITICAL: cannot connect: nats://127.0.0.1:1: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["stream", "--stream", "S", "--seen-critical", "1"],
        ["consumer", "--stream", "S", "--consumer", "C", "--last-ack-critical", "x"],
        ["connection", "--rtt-warn", "x"],
        ["connection", "--context", "missing"],
        ["connection", "--creds", "/missing"],
        ["connection", "--servers", "http://x"],
        ["stream", "--stream", "a b"],
        ["stream"],
        ["stream", "--what"],
        ["nothing"],
    ],
)
def test_wrong_options_are_unknown(memory: Place, arguments: list[str]) -> None:
    done = memory.call("server", "check", *arguments)
    assert (done.code, (done.out + done.err).count("\n")) == (3, 1), done
