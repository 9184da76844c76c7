"""Consumers as servers describe them: nothing is lost, nothing is invented, drift is named field by field."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import datetime, timedelta, timezone
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.errors import LocalProtocolError, RemoteProtocolError
from jsproto.grammar.bodies import dumps
from jsproto.grammar.consumer import (
    ConsumerConfig,
    ConsumerInfo,
    ConsumerOptions,
    ConsumerPause,
    PriorityGroup,
    SequencePair,
    differences,
)
from jsproto.grammar.sourcing_consumer import sourcing_consumer
from tests.grammar.recorded import messages
from tests.marks import requirement

# An answer of nats-server 2.15.1, as recorded.
PINNED: Final = (
    b'{"type":"io.nats.jetstream.api.v1.consumer_create_response","stream_name":"S","name":"C",'
    b'"created":"2026-11-20T21:06:44.555717616Z","config":{"durable_name":"C","name":"C","deliver_policy":"all",'
    b'"ack_policy":"explicit","ack_wait":30000000000,"max_deliver":-1,"replay_policy":"instant","max_waiting":512,'
    b'"max_ack_pending":1000,"num_replicas":0,"metadata":{"_nats.level":"5","_nats.req.level":"1",'
    b'"_nats.ver":"2.15.1"},"priority_groups":["g"],"priority_policy":"pinned_client",'
    b'"priority_timeout":5000000000},"delivered":{"consumer_seq":0,"stream_seq":0},"ack_floor":{"consumer_seq":0,'
    b'"stream_seq":0},"num_ack_pending":0,"num_redelivered":0,"num_waiting":0,"num_pending":4,'
    b'"ts":"2026-11-20T21:06:44.55614624Z","priority_groups":[{"group":"g","pinned_ts":"0001-01-01T00:00:00Z"}]}'
)
FULL: Final[ConsumerOptions] = {
    "durable_name": "D", "name": "D", "description": "d", "deliver_policy": "by_start_time", "opt_start_seq": 3,
    "opt_start_time": 1_700_000_000_000_000_001, "ack_policy": "all", "ack_wait": 30, "max_deliver": 4,
    "backoff": [1, 2.5, timedelta(seconds=5)], "filter_subject": "a.b", "filter_subjects": ["a.b", "c"],
    "replay_policy": "original", "rate_limit_bps": 8, "sample_freq": "50", "max_waiting": 9, "max_ack_pending": 10,
    "flow_control": True, "headers_only": True, "max_batch": 11, "max_expires": 12, "max_bytes": 13,
    "deliver_subject": "to.me", "deliver_group": "q", "idle_heartbeat": 0.5, "inactive_threshold": 14,
    "num_replicas": 3, "mem_storage": True, "direct": True, "sourcing": True, "metadata": {"a": "b"}, "pause_until": 0,
    "priority_groups": ["g"], "priority_policy": "overflow", "priority_timeout": 15, "extra": {"new": [1]},
}  # fmt: skip


# -- what a real server says -------------------------------------------------------------------------------------------


def consumer_answers() -> list[bytes]:
    """Every answer about a consumer in the recordings of all versions."""
    found: list[bytes] = []
    for _, _, payload in messages():
        body = json.loads(payload) if payload.startswith(b'{"type"') else {}
        found += [json.dumps(each).encode() for each in body.get("consumers") or [body] if "ack_floor" in each]
    return found


def test_recorded_answers_survive() -> None:
    answers = consumer_answers()
    assert len(answers) > 50
    for answer in answers:
        body = json.loads(answer)
        info = ConsumerInfo.from_json(answer)
        assert info.to_json() == body
        assert ConsumerInfo.from_json(info.to_json()) == info
        assert info.config.extra == {}


def test_an_answer() -> None:
    info = ConsumerInfo.from_json(PINNED)
    assert (info.stream_name, info.name, info.num_pending) == ("S", "C", 4)
    assert info.config.ack_wait == 30
    assert info.config.consumer_name == "C"
    assert info.config.filters == []
    assert info.delivered == SequencePair(0, 0)
    assert info.priority_groups == [PriorityGroup("g")]
    assert info.extra == {"type": "io.nats.jetstream.api.v1.consumer_create_response"}
    assert list(info.to_json()) == [*list(json.loads(PINNED))[1:], "type"]


def test_where_it_stands() -> None:
    moved = b'{"consumer_seq":4,"stream_seq":7,"last_active":"1970-01-01T00:00:01Z","more":1}'
    pair = SequencePair.from_json(moved)
    assert pair == SequencePair(4, 7, 1_000_000_000, {"more": 1})
    assert dumps(pair.to_json()) == moved


def test_who_is_pinned() -> None:
    body = json.loads(PINNED)
    pinned = {"group": "g", "pinned_client_id": "abc", "pinned_ts": "1970-01-01T00:00:01Z", "more": 1}
    body["priority_groups"] = [pinned]
    info = ConsumerInfo.from_json(body)
    assert info.priority_groups == [PriorityGroup("g", "abc", 1_000_000_000, {"more": 1})]
    assert info.to_json()["priority_groups"] == [pinned]


@pytest.mark.parametrize("missing", ["stream_name", "name", "config"])
def test_an_answer_without_what_it_must_have(missing: str) -> None:
    body = json.loads(PINNED)
    del body[missing]
    with pytest.raises(RemoteProtocolError, match=f"without {missing}"):
        ConsumerInfo.from_json(body)


@pytest.mark.parametrize(
    "change",
    [
        {"num_pending": -1},
        {"config": []},
        {"config": {"ack_wait": "30s"}},
        {"config": {"filter_subjects": ["a", 1]}},
        {"delivered": {"stream_seq": True}},
        {"push_bound": "yes"},
        {"priority_groups": [{"pinned_client_id": "abc"}]},
        {"priority_groups": [{"group": 1}]},
    ],
)
def test_answers_of_the_wrong_type(change: dict[str, Any]) -> None:
    with pytest.raises(RemoteProtocolError):
        ConsumerInfo.from_json(json.loads(PINNED) | change)


def test_a_pause() -> None:
    paused = ConsumerPause.from_json(
        b'{"paused":true,"pause_until":"2099-01-01T00:00:00Z","pause_remaining":1500000001}'
    )
    assert (paused.paused, paused.pause_until, paused.pause_remaining) == (True, 4_070_908_800_000_000_000, 1.500000001)
    assert paused.to_json() == {"paused": True, "pause_until": "2099-01-01T00:00:00Z", "pause_remaining": 1_500_000_001}
    resumed = ConsumerPause.from_json(b'{"paused":false,"pause_until":"0001-01-01T00:00:00Z"}')
    assert resumed == ConsumerPause()
    assert resumed.to_json() == {"paused": False, "pause_until": "0001-01-01T00:00:00Z"}


# -- what callers write ------------------------------------------------------------------------------------------------


@requirement(149)
def test_every_field_has_an_option() -> None:
    assert set(FULL) == {each.name for each in fields(ConsumerConfig)} == set(ConsumerOptions.__annotations__)
    config = ConsumerConfig.from_options(**FULL)
    assert config.ack_wait == 30
    assert config.backoff == [1, 2.5, 5]
    assert config.to_json()["opt_start_time"] == "2023-11-14T22:13:20.000000001Z"
    assert config.to_json()["pause_until"] == "1970-01-01T00:00:00Z"
    assert ConsumerConfig.from_json(dumps(config.to_json())) == config


def test_acknowledgement_is_explicit_unless_said_otherwise() -> None:
    assert ConsumerConfig().to_json() == {"ack_policy": "explicit"}
    assert ConsumerConfig.from_options(ack_policy=None).to_json() == {}
    assert ConsumerConfig.from_json(b"{}").ack_policy is None


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ({"no_such": 1}, "no_such is unknown"),
        ({"ack_wait": -1}, "ack_wait"),
        ({"ack_wait": float("inf")}, "ack_wait"),
        ({"backoff": [1, "2"]}, r"backoff\[1\]"),
        ({"filter_subjects": "a"}, "filter_subjects must be a list"),
        ({"opt_start_time": 1.5}, "opt_start_time must be nanoseconds"),
        ({"opt_start_time": 10**30}, "years 0 to 9999"),
        ({"extra": {"name": "x"}}, "extra is for unknown fields"),
        ({"max_deliver": "3"}, "max_deliver must be an integer"),
    ],
)
def test_options_that_are_none(option: Any, text: str) -> None:
    with pytest.raises(LocalProtocolError, match=text):
        ConsumerConfig.from_options(**option)


@pytest.mark.parametrize("name", ["opt_start_time", "pause_until"])
def test_a_moment_is_nanoseconds_since_the_epoch(name: str) -> None:
    moment: Any = {name: 1_700_000_000_000_000_001}
    assert ConsumerConfig(**moment).to_json()[name] == "2023-11-14T22:13:20.000000001Z"
    for bad in (1.5, "2023-11-14T22:13:20Z", timedelta(1), True):
        wrong: Any = {name: bad}
        with pytest.raises(LocalProtocolError, match=f"{name} must be nanoseconds"):
            ConsumerConfig(**wrong)


def test_an_option_is_unset_by_none() -> None:
    config = ConsumerConfig.from_options(**FULL).updated(ack_wait=None, backoff=None, extra={"newer": 2})
    assert config.ack_wait is None
    assert config.extra == {"new": [1], "newer": 2}


# -- drift -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "found", "fields"),
    [
        ({}, {"ack_wait": 5}, []),
        ({"ack_wait": 5}, {"ack_wait": 5}, []),
        ({"ack_wait": 5}, {"ack_wait": 6}, ["ack_wait"]),
        ({"ack_wait": 5, "backoff": [1]}, {"ack_wait": 1, "backoff": [1]}, []),
        ({"backoff": [1, 2]}, {"backoff": [1]}, ["backoff"]),
        ({"ack_policy": "all"}, {}, ["ack_policy"]),
        ({"max_deliver": -1}, {"max_deliver": -1}, []),
        ({"max_deliver": -7}, {}, []),
        ({"max_deliver": -1}, {"max_deliver": 3}, ["max_deliver"]),
        ({"max_ack_pending": 0}, {"max_ack_pending": 1000}, []),
        ({"flow_control": False}, {}, []),
        ({"flow_control": False}, {"flow_control": True}, ["flow_control"]),
        ({"description": ""}, {}, []),
        ({"filter_subject": "a"}, {"filter_subjects": ["a"]}, []),
        ({"filter_subjects": ["b", "a"]}, {"filter_subjects": ["a", "b"]}, []),
        ({"filter_subject": "a"}, {"filter_subject": "b"}, ["filter_subject"]),
        ({"filter_subjects": ["a"]}, {}, ["filter_subjects"]),
        ({"filter_subject": ""}, {"filter_subject": "b"}, ["filter_subject"]),
        ({"metadata": {"a": "b"}}, {"metadata": {"a": "b", "_nats.level": "5"}}, []),
        ({"metadata": {"a": "b"}}, {"metadata": {"a": "c"}}, ["metadata"]),
        ({"metadata": {}}, {"metadata": {"_nats.level": "5"}}, []),
        ({"metadata": {"a": "b"}}, {}, ["metadata"]),
        ({"name": "x", "pause_until": 5}, {"name": "y"}, []),
        ({"extra": {"new": 1}}, {"extra": {"new": 1, "other": 2}}, []),
        ({"extra": {"new": 1}}, {"extra": {"new": 2}}, ["new"]),
        ({"durable_name": "D", "num_replicas": 3, "direct": True}, {}, ["durable_name", "num_replicas", "direct"]),
    ],
)
def test_drift(wanted: dict[str, Any], found: dict[str, Any], fields: list[str]) -> None:
    assert differences(ConsumerConfig(**{"ack_policy": None, **wanted}), ConsumerConfig(**found)) == fields


WORDS: Final = {
    "deliver_policy": ("all", "last", "new", "by_start_sequence", "by_start_time", "last_per_subject"),
    "ack_policy": ("none", "all", "explicit", "flow_control"),
    "replay_policy": ("instant", "original"),
    "priority_policy": ("none", "overflow", "pinned_client", "prioritized"),
}


@pytest.mark.parametrize("field", WORDS)
def test_a_policy_that_no_server_knows_is_refused_with_those_that_there_are(field: str) -> None:
    *others, last = map(repr, WORDS[field])
    near = f": did you mean {WORDS[field][0]!r}?"
    words = ""
    for bad, hint in (("bogus", ""), ("", ""), (WORDS[field][0].upper(), near), (5, ""), ([], "")):
        options: Any = {field: bad}
        for refuse in (ConsumerConfig().updated, ConsumerConfig.from_options):
            with pytest.raises(LocalProtocolError) as caught:
                refuse(**options)
            quoted = "list" if bad == [] else repr(bad)
            words = f"consumer option {field} is {', '.join(others)} or {last}, not {quoted}{hint}"
            assert str(caught.value) == words
        with pytest.raises(LocalProtocolError) as caught:
            ConsumerConfig(**options).check_words()
        assert str(caught.value) == words
    ConsumerConfig().check_words()
    for good in (*WORDS[field], None):
        given_option: Any = {field: good}
        assert getattr(ConsumerConfig.from_options(**given_option), field) == good


@pytest.mark.parametrize("field", WORDS)
def test_a_policy_of_a_newer_server_passes_and_stays(field: str) -> None:
    body = {field: "newer"}
    config = ConsumerConfig.from_json(body)
    assert getattr(config, field) == "newer"
    assert config.updated(description="d").to_json() == {**body, "description": "d"}
    assert ConsumerInfo.from_json({"stream_name": "S", "name": "C", "config": body}).config == config


def test_a_consumer_does_not_differ_from_itself() -> None:
    for answer in consumer_answers():
        config = ConsumerInfo.from_json(answer).config
        assert differences(config, config) == []


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.dictionaries(st.text(), inner))
)
def test_arbitrary_documents(document: Any) -> None:  # fmt: skip
    for model in (ConsumerConfig, ConsumerInfo, ConsumerPause, SequencePair):
        try:
            found = model.from_json(dumps({"config": document, "name": document, "stream_name": "S"}))
        except RemoteProtocolError:
            continue
        assert model.from_json(dumps(found.to_json())) == found


def test_an_info_is_one_line() -> None:
    pulled = ConsumerInfo("S", "C", ConsumerConfig(), num_pending=3, num_ack_pending=2, num_redelivered=1)
    assert repr(pulled) == (
        "<ConsumerInfo C of stream S (pull): 3 pending, 2 without an acknowledgement, 1 redelivered>"
    )
    pushed = ConsumerInfo("S", "C", ConsumerConfig(deliver_subject="d"), paused=True)
    assert repr(pushed).startswith("<ConsumerInfo C of stream S (push, paused): 0 pending, ")


def test_moments_may_be_datetimes() -> None:
    moment = datetime(2023, 11, 14, 23, 13, 20, tzinfo=timezone(timedelta(hours=1)))
    config = ConsumerConfig(opt_start_time=moment, pause_until=moment)
    assert (config.opt_start_time, config.pause_until) == (1_700_000_000_000_000_000,) * 2
    assert config == ConsumerConfig.from_options(opt_start_time=1_700_000_000_000_000_000, pause_until=moment)
    assert config.to_json()["opt_start_time"] == "2023-11-14T22:13:20Z"
    sourced = sourcing_consumer("C", "to", opt_start_time=moment)
    assert (sourced.deliver_policy, sourced.opt_start_time) == ("by_start_time", 1_700_000_000_000_000_000)
    with pytest.raises(LocalProtocolError, match="time zone"):
        ConsumerConfig.from_options(opt_start_time=moment.replace(tzinfo=None))
