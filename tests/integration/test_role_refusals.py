"""Numbers and texts out of range: the server role answers requests for streams and consumers as a real server does."""

from __future__ import annotations

from typing import Any

import pytest

from jsproto.grammar.bodies import dumps, loads
from jsproto.grammar.headers import status_line
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import connect
from tests.server.harness import Reader

SECOND = 10**9
STREAMS: list[dict[str, Any]] = [
    {"num_replicas": -1},
    {"num_replicas": 6},
    {"num_replicas": 200_000},
    {"num_replicas": 2**31},
    {"num_replicas": 2**63 - 1},
    {"num_replicas": 0},
    {"num_replicas": 1},
    {"max_consumers": -2},
    {"max_msgs": -(2**63), "max_msgs_per_subject": -7},
    {"max_msgs": 2**63 - 1},
    {"max_bytes": -2},
    {"max_msg_size": -2},
    {"max_msg_size": 2**31},
    {"max_age": -1},
    {"max_age": 99_999_999},
    {"max_age": 2**63 - 1},
    {"duplicate_window": -1},
    {"duplicate_window": 1},
    {"max_age": SECOND, "duplicate_window": 2 * SECOND},
    {"subject_delete_marker_ttl": -1},
    {"subject_delete_marker_ttl": SECOND - 1},
    {"first_seq": 2**64 - 1},
    {"description": "x" * 4_096},
    {"description": "\u00e9" * 2_049},
    {"metadata": {"a": "x" * (128 * 1024)}},
    {"subjects": ["refused.a"] * 2},
    {"subjects": ["refused.*", "refused.b"]},
    {"subjects": ["refused..b"]},
]
CONSUMERS: list[dict[str, Any]] = [
    {"num_replicas": -1},
    {"num_replicas": 0},
    {"num_replicas": 1},
    {"max_deliver": -2},
    {"max_ack_pending": -2},
    {"max_waiting": -2},
    {"max_waiting": 2**63 - 1},
    {"max_batch": -2},
    {"max_expires": 1},
    {"max_expires": -2},
    {"ack_wait": -2},
    {"backoff": [1] * 5},
    {"backoff": [1] * 5, "max_deliver": 4},
    {"backoff": [-1]},
    {"inactive_threshold": -2},
    {"opt_start_seq": 2**64 - 1, "deliver_policy": "by_start_sequence"},
    {"rate_limit_bps": 1},
    {"description": "x" * 4_097},
    {"metadata": {"a": "x" * (128 * 1024)}},
    {"sample_freq": "101"},
    {"sample_freq": "50%"},
    {"filter_subjects": ["ranges.a"] * 2},
]
OFFSETS: list[Any] = [-1, 0, 5, 2**63 - 1]
PULLS: list[dict[str, Any]] = [
    {"batch": 2**63, "no_wait": True},
    {"batch": -1, "no_wait": True},
    {"batch": 2**63 - 1, "no_wait": True},
    {"max_bytes": 2**63},
    {"max_bytes": -1, "no_wait": True},
    {"expires": 2**63},
    {"expires": 10**300},
    {"expires": -5},
    {"min_pending": 2**63},
    {"min_pending": -1},
    {"min_ack_pending": -(2**63) - 1},
    {"priority": 2**63},
    {"priority": -1},
    {"priority": 10},
    {"no_wait": 1.5},
]


def said(answer: bytes) -> dict[str, Any]:
    """What an answer says of the configuration, or its error; versions and moments aside."""
    body = loads(answer)
    if "error" in body:
        return body
    assert body["config"].pop("metadata")["_nats.level"] == "5"
    return dict(body["config"])


def shown(case: Any) -> str:
    return str(case)[:50]


@pytest.mark.parametrize("options", STREAMS, ids=shown)
def test_a_stream(server: NatsServer, options: dict[str, Any]) -> None:
    config = {"name": "RANGES", "subjects": ["ranges.>"], "storage": "memory"} | options
    role = Reader()
    with connect(server.url) as nc:
        answer = nc.request("$JS.API.STREAM.CREATE.RANGES", dumps(config)).data
        nc.request("$JS.API.STREAM.DELETE.RANGES", b"")
    ((_, answered),) = role.ask("STREAM.CREATE.RANGES", config)
    assert said(answered) == said(answer)


@pytest.mark.parametrize("options", CONSUMERS, ids=shown)
def test_a_consumer(server: NatsServer, options: dict[str, Any]) -> None:
    stream = {"name": "RANGES", "subjects": ["ranges.>"], "storage": "memory"}
    request = {"stream_name": "RANGES", "config": {"name": "C", "ack_policy": "explicit"} | options}
    role = Reader()
    role.api("STREAM.CREATE.RANGES", stream)
    with connect(server.url) as nc:
        nc.request("$JS.API.STREAM.CREATE.RANGES", dumps(stream))
        answer = nc.request("$JS.API.CONSUMER.CREATE.RANGES.C", dumps(request)).data
        nc.request("$JS.API.STREAM.DELETE.RANGES", b"")
    ((_, answered),) = role.ask("CONSUMER.CREATE.RANGES.C", request)
    assert said(answered) == said(answer)


@pytest.mark.parametrize("verb", ["STREAM.INFO.RANGES", "CONSUMER.NAMES.RANGES", "CONSUMER.LIST.RANGES"])
def test_an_offset(server: NatsServer, verb: str) -> None:
    stream = {"name": "RANGES", "subjects": ["ranges.>"], "storage": "memory"}
    role = Reader()
    role.api("STREAM.CREATE.RANGES", stream)
    role.store("ranges.a")
    with connect(server.url) as nc:
        nc.request("$JS.API.STREAM.CREATE.RANGES", dumps(stream))
        nc.request("ranges.a", b"x")
        for offset in OFFSETS:
            request = {"offset": offset} | ({"subjects_filter": ">"} if "INFO" in verb else {})
            real, own = loads(nc.request(f"$JS.API.{verb}", dumps(request)).data), role.api(verb, request)
            assert [own[name] for name in ("total", "offset", "limit")] == [
                real[name] for name in ("total", "offset", "limit")
            ], offset
        request = {"offset": 2**63}
        assert loads(nc.request(f"$JS.API.{verb}", dumps(request)).data)["error"]["err_code"] == 10025
        assert role.api(verb, request)["error"]["err_code"] == 10025
        nc.request("$JS.API.STREAM.DELETE.RANGES", b"")


@pytest.mark.parametrize("request_body", PULLS, ids=shown)
def test_a_pull_request(server: NatsServer, request_body: dict[str, Any]) -> None:
    stream = {"name": "RANGES", "subjects": ["ranges.>"], "storage": "memory"}
    consumer = {"stream_name": "RANGES", "config": {"name": "C", "ack_policy": "explicit"}}
    role = Reader()
    role.api("STREAM.CREATE.RANGES", stream)
    role.api("CONSUMER.CREATE.RANGES.C", consumer)
    with connect(server.url) as nc:
        nc.request("$JS.API.STREAM.CREATE.RANGES", dumps(stream))
        nc.request("$JS.API.CONSUMER.CREATE.RANGES.C", dumps(consumer))
        answer = nc.request("$JS.API.CONSUMER.MSG.NEXT.RANGES.C", dumps(request_body))
        status = status_line(answer._raw.header or b"")
        nc.request("$JS.API.STREAM.DELETE.RANGES", b"")
    ((header, _),) = role.ask("CONSUMER.MSG.NEXT.RANGES.C", request_body)
    assert header is not None
    assert status_line(header) == status
