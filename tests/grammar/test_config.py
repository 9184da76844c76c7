"""Configurations, states and INFO: nothing is lost, nothing is invented, nothing has the wrong type."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.errors import LocalProtocolError, RemoteProtocolError
from jsproto.grammar.account import AccountInfo, AccountLimits, AccountTier, ApiStats
from jsproto.grammar.bodies import dumps
from jsproto.grammar.config import (
    ServerInfo,
    StreamConfig,
    StreamInfo,
    StreamOptions,
    StreamState,
)
from tests.grammar.recorded import frames
from tests.marks import known_fault, requirement

# Answers of nats-server 2.15.1 that together have every field of a stream's configuration.
STREAMS: Final[list[dict[str, Any]]] = [
    json.loads(line)
    for line in (Path(__file__).resolve().parent.parent / "data" / "streams.txt").read_text().splitlines()
]
INFO: Final = (
    b'{"server_id":"NBL272VP74JXZEWRGRDOPJTJWYLLVLDC2JRPOEREVT4ZTUOO7YS4GE6R","server_name":"probe",'
    b'"version":"2.15.1","proto":1,"git_commit":"b2fd3ef","go":"go1.27.2","host":"127.0.0.1","port":4222,'
    b'"headers":true,"max_payload":1048576,"jetstream":true,"client_id":5,"client_ip":"127.0.0.1","domain":"hub",'
    b'"api_lvl":5,"xkey":"XDWO6ACFFWGJLDYDDOLCT3HMYKYQX4VNHLPED6DCHP3HY6QPWGEGPJMI"} '
)
ACCOUNT: Final = (
    b'{"type":"io.nats.jetstream.api.v1.account_info_response","memory":0,"storage":676,"reserved_memory":0,'
    b'"reserved_storage":1048576,"streams":12,"consumers":2,"limits":{"max_memory":-1,"max_streams":-1,'
    b'"max_bytes_required":false},"domain":"hub","api":{"level":5,"total":24,"errors":0}}'
)


class Model(Protocol):
    """What all models have."""

    extra: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """The JSON object."""


def stream(name: str) -> dict[str, Any]:
    (found,) = (answer for answer in STREAMS if answer["config"]["name"] == name)
    return found


# -- what a real server says -------------------------------------------------------------------------------------------


def test_the_recorded_answers_have_every_field() -> None:
    known = {one.name for one in fields(StreamConfig)} - {"extra"}
    assert {name for answer in STREAMS for name in answer["config"]} == known


@pytest.mark.parametrize("answer", STREAMS, ids=lambda answer: answer["config"]["name"])
def test_an_answer_is_read_and_written_again(answer: dict[str, Any]) -> None:
    info = StreamInfo.from_json(answer)
    assert info.to_json() == answer
    assert StreamInfo.from_json(dumps(answer)) == info
    assert StreamInfo.from_json(info.to_json()) == info
    assert info.config.extra == info.state.extra == {}
    assert set(info.extra) <= {"type", "did_create", "total", "offset", "limit"}
    assert list(info.config.to_json()) == list(answer["config"])  # in the order of the wire


@requirement(98, 99, 109)
def test_a_rich_stream() -> None:
    config = StreamInfo.from_json(stream("RICH")).config
    assert config.max_age == 3_600
    assert config.subject_delete_marker_ttl == 2
    assert config.consumer_limits == {"inactive_threshold": 5, "max_ack_pending": 100}
    assert config.republish == {"src": "poor.>", "dest": "again.>", "headers_only": True}
    assert config.sources is not None
    assert config.sources[1]["external"] == {"api": "$JS.far.API", "deliver": "deliver.far"}
    assert (config.allow_atomic, config.allow_batched, config.persist_mode) == (True, True, None)
    assert config.metadata is not None
    assert config.metadata["owner"] == "me"


def test_the_state_of_a_stream() -> None:
    info = StreamInfo.from_json(stream("SRC"))
    assert (info.state.messages, info.state.first_seq, info.state.last_seq) == (3, 1, 4)
    assert info.state.deleted == [2]
    assert info.state.subjects == {"src.0": 1, "src.2": 1, "src.3": 1}
    assert info.created is not None
    assert info.state.first_ts is not None
    assert info.created < info.state.first_ts < info.state.last_ts  # type: ignore[operator]
    assert (info.domain, info.cluster) == ("hub", {"leader": "probe"})


def test_no_message_no_time() -> None:
    info = StreamInfo.from_json(stream("NEW"))
    assert (info.state.messages, info.state.first_ts, info.state.last_ts) == (0, None, None)
    assert info.state.to_json()["last_ts"] == "0001-01-01T00:00:00Z"
    assert info.extra["did_create"] is True


@requirement(104)
def test_what_the_configuration_requires() -> None:
    levels = {name: StreamInfo.from_json(stream(name)).required_api_level for name in ("MIN", "QUICK", "RICH")}
    assert levels == {"MIN": 0, "QUICK": 2, "RICH": 4}
    assert StreamInfo(StreamConfig("S")).required_api_level is None
    assert StreamInfo(StreamConfig("S", metadata={"_nats.req.level": "x"})).required_api_level is None


def test_every_recorded_answer_survives() -> None:
    seen = set()
    for frame in frames():
        head, _, body = frame.raw.partition(b"\r\n")
        if frame.from_server and head.startswith(b"MSG ") and b'"config":{"name"' in body and b'"state":' in body:
            answer = json.loads(body)
            assert StreamInfo.from_json(answer).to_json() == answer
            seen.add(frame.version)
    assert {"2.11.11", "2.12.8", "2.14.6", "2.15.1"} <= seen


# -- configurations ----------------------------------------------------------------------------------------------------


def test_unset_stays_unset() -> None:
    assert StreamConfig("S").to_json() == {"name": "S"}
    assert StreamConfig.from_json({"name": "S"}) == StreamConfig("S")
    assert StreamConfig("S", no_ack=False, max_msgs=0, subjects=[]).to_json() == {
        "name": "S", "subjects": [], "max_msgs": 0, "no_ack": False,
    }  # fmt: skip


def test_null_is_unset() -> None:
    assert StreamConfig.from_json(b'{"name":"S","subjects":null,"mirror":null,"new":null}') == StreamConfig(
        "S", extra={"new": None}
    )


@known_fault("new fields of the server need a release")
def test_unknown_fields_survive() -> None:
    body = {
        "name": "S", "new": {"deep": [1, None]}, "placement": {"cluster": "C", "rack": 7},
        "sources": [{"name": "O", "consumer": {"name": "D", "deliver_subject": "d", "window": 3}, "newer": True}],
        "consumer_limits": {"max_waiting": 5},
    }  # fmt: skip
    config = StreamConfig.from_json(body)
    assert config.extra == {"new": {"deep": [1, None]}}
    assert config.to_json() == body
    changed = config.updated(max_msgs=5, extra={"newer": 1})
    assert changed.to_json() == body | {"max_msgs": 5, "newer": 1}
    assert config.to_json() == body


def test_unknown_fields_never_hide_known_ones() -> None:
    assert StreamConfig("S", max_msgs=1, extra={"max_msgs": 2, "name": "T"}).to_json() == {"name": "S", "max_msgs": 1}


@requirement(98)
def test_options_are_the_fields() -> None:
    names = [one.name for one in fields(StreamConfig)]
    assert list(StreamOptions.__annotations__) == names[1:]


def test_options() -> None:
    config = StreamConfig.from_options(
        "S", subjects=("s.>",), max_age=timedelta(hours=1), duplicate_window=0.5, subject_delete_marker_ttl=2,
        consumer_limits={"inactive_threshold": timedelta(milliseconds=1), "max_ack_pending": 3}, allow_batched=True,
        sources=({"name": "O", "opt_start_seq": 2**64 - 1},), metadata={"k": "v"}, extra={"new": 1}, max_bytes=None,
    )  # fmt: skip
    assert config.to_json() == {
        "name": "S", "subjects": ["s.>"], "max_age": 3_600_000_000_000, "duplicate_window": 500_000_000,
        "sources": [{"name": "O", "opt_start_seq": 2**64 - 1}],
        "consumer_limits": {"inactive_threshold": 1_000_000, "max_ack_pending": 3},
        "subject_delete_marker_ttl": 2_000_000_000, "allow_batched": True, "metadata": {"k": "v"}, "new": 1,
    }  # fmt: skip
    assert StreamConfig.from_options("S", consumer_limits={"max_ack_pending": 3}).consumer_limits == {
        "max_ack_pending": 3
    }


def test_an_update_changes_what_is_named() -> None:
    config = StreamInfo.from_json(stream("QUICK")).config
    changed = config.updated(max_msgs=5, description="d", duplicate_window=None)
    expected = {**config.to_json(), "max_msgs": 5, "description": "d"}
    del expected["duplicate_window"]
    assert changed.to_json() == expected
    assert changed.persist_mode == "async"  # a field left out would count as changed
    assert config == StreamInfo.from_json(stream("QUICK")).config


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"colour": "red"}, "colour is unknown"),
        ({"name": "T"}, r"name is unknown \("),
        (
            {"subject": ["a"]},
            r"subject is unknown: did you mean 'subjects'\? \(a newer server's field goes into extra\)",
        ),
        ({"subjects": "s.>"}, "subjects must be a list, not 's.>'"),
        ({"subjects": [1]}, r"subjects\[0\] must be a string, not 1"),
        ({"max_msgs": "5"}, "max_msgs must be an integer of 64 bits, not '5'"),
        ({"max_msgs": 5.0}, "max_msgs must be an integer"),
        ({"max_msgs": True}, "max_msgs must be an integer"),
        ({"max_msgs": 2**63}, "max_msgs must be an integer"),
        ({"first_seq": -1}, "first_seq must be an unsigned integer"),
        ({"first_seq": 2**64}, "first_seq must be an unsigned integer"),
        ({"allow_batched": 1}, "allow_batched must be true or false, not 1"),
        ({"max_age": -1}, "max_age must be 0 seconds to 292 years"),
        ({"max_age": float("nan")}, "max_age must be a number of seconds or a timedelta"),
        ({"max_age": float("inf")}, "max_age must be a number of seconds or a timedelta"),
        ({"max_age": "1h"}, "max_age must be a number of seconds or a timedelta"),
        ({"max_age": timedelta(days=200_000)}, "max_age must be 0 seconds to"),
        ({"consumer_limits": {"inactive_threshold": "1s"}}, "consumer_limits.inactive_threshold must be a number of"),
        ({"consumer_limits": 5}, "consumer_limits must be an object, not 5"),
        ({"placement": []}, "placement must be an object, not list"),
        ({"placement": {"tags": "a"}}, "placement.tags must be a list"),
        ({"metadata": {"k": 1}}, "metadata.k must be a string"),
        ({"metadata": {1: "v"}}, "metadata must be a string, not 1"),
        ({"sources": [{"name": 1}]}, r"sources\[0\].name must be a string"),
        ({"mirror": {"external": {"api": 1}}}, "mirror.external.api must be a string"),
        ({"extra": {"max_msgs": 1, "name": "T"}}, "extra is for unknown fields, not for max_msgs, name"),
        ({"extra": None}, "extra must be an object"),
        ({"allow_atomic": True, "persist_mode": "async"}, "both allow_atomic and persist_mode 'async'"),
    ],
)
def test_impossible_options(options: Any, complaint: str) -> None:
    config = StreamConfig("S")
    with pytest.raises(LocalProtocolError, match=complaint):
        config.updated(**options)
    assert config == StreamConfig("S")


@requirement(102, 246)
def test_asynchronous_persistence_takes_fast_ingest_but_no_atomic_batches() -> None:
    config = StreamConfig.from_options("S", persist_mode="async", allow_batched=True)
    assert config.persist_mode == "async"
    with pytest.raises(LocalProtocolError, match="both"):
        config.updated(allow_atomic=True)
    assert config.updated(allow_atomic=True, persist_mode="default").allow_atomic is True


@requirement(102, 247)
@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"allow_atomic": True, "persist_mode": "async"}, "leave one out"),
        ({"persist_mode": "async", "num_replicas": 3}, "one replica, not of 3: set num_replicas to 1"),
        ({"persist_mode": "async", "storage": "memory"}, "set storage to 'file'"),
        ({"mirror": {"name": "T"}, "allow_atomic": True}, "cannot have allow_atomic: set it on the stream"),
        ({"mirror": {"name": "T"}, "allow_batched": True}, "cannot have allow_batched: set it on the stream"),
        ({"mirror": {"name": "T"}, "allow_batched": True, "allow_atomic": True}, "allow_atomic and allow_batched: set"),
    ],
)
def test_a_refusal_says_what_to_change(options: Any, complaint: str) -> None:
    for config in (StreamConfig("S"), StreamConfig("S", description="d")):
        with pytest.raises(LocalProtocolError, match=complaint):
            config.updated(**options)
    with pytest.raises(LocalProtocolError, match=complaint):
        StreamConfig("S", **options).check()


@pytest.mark.parametrize(
    "options",
    [
        {"persist_mode": "async", "num_replicas": 1, "storage": "file", "allow_batched": True},
        {"persist_mode": "async", "num_replicas": 0, "mirror": {"name": "T"}},
        {"persist_mode": "default", "num_replicas": 3, "storage": "memory", "allow_atomic": True},
        {"mirror": {"name": "T"}, "allow_atomic": False, "allow_batched": False},
        {"sources": [{"name": "T"}], "allow_atomic": True, "allow_batched": True},
    ],
)
def test_what_a_server_may_accept_is_the_servers_business(options: Any) -> None:
    assert StreamConfig("S").updated(**options) == StreamConfig("S", **options)


# -- documents that are refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "document"),
    [
        (StreamConfig, {}),
        (StreamConfig, {"name": None}),
        (StreamConfig, {"name": 5}),
        (StreamConfig, {"name": "S", "max_age": "1h"}),
        (StreamConfig, {"name": "S", "subjects": {}}),
        (StreamConfig, []),
        (StreamInfo, {}),
        (StreamInfo, {"config": []}),
        (StreamInfo, {"config": {}}),
        (StreamInfo, {"config": {"name": "S"}, "state": []}),
        (StreamInfo, {"config": {"name": "S"}, "state": {"messages": -1}}),
        (StreamInfo, {"config": {"name": "S"}, "state": {"first_ts": "yesterday"}}),
        (StreamInfo, {"config": {"name": "S"}, "created": 5}),
        (StreamInfo, {"config": {"name": "S"}, "created": "9999-12-31T23:59:59-01:00"}),
        (StreamInfo, {"config": {"name": "S"}, "sources": [5]}),
        (ServerInfo, {"max_payload": -1}),
        (ServerInfo, {"max_payload": 2**31}),
        (ServerInfo, {"max_payload": True}),
        (ServerInfo, {"version": 2}),
        (ServerInfo, {"headers": "true"}),
        (ServerInfo, {"connect_urls": "a:1"}),
        (ServerInfo, {"connect_urls": [1]}),
        (ServerInfo, {"client_id": -1}),
        (ServerInfo, {"api_lvl": "5"}),
        (AccountInfo, {"memory": -1}),
        (AccountInfo, {"tiers": {"R1": 5}}),
        (AccountInfo, {"api": 5}),
        (AccountInfo, {"api": {"level": True}}),
        (AccountInfo, {"limits": {"max_streams": "5"}}),
        (AccountInfo, {"tiers": {"R1": {"limits": {"max_bytes_required": 1}}}}),
    ],
)
def test_documents_with_wrong_types(model: Any, document: Any) -> None:
    for form in (document, json.dumps(document).encode()):
        with pytest.raises(RemoteProtocolError):
            model.from_json(form)


@pytest.mark.parametrize("model", [StreamConfig, StreamInfo, StreamState, ServerInfo, AccountInfo])
@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"5", b"\xff", b"{} {}", b'{"name":NaN}', b"[" * 100_000])
def test_bytes_that_are_no_document(model: Any, raw: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        model.from_json(raw)


def test_a_refusal_says_what_and_keeps_the_bytes() -> None:
    with pytest.raises(RemoteProtocolError, match="INFO: version must be a string, not 5") as caught:
        ServerInfo.from_json(b'{"version":5}')
    assert caught.value.data == b'{"version":5}'


# -- INFO and accounts -------------------------------------------------------------------------------------------------


WORDS: Final = {
    "retention": ("limits", "interest", "workqueue"),
    "discard": ("old", "new"),
    "storage": ("file", "memory"),
    "compression": ("none", "s2"),
    "persist_mode": ("default", "async"),
}


@pytest.mark.parametrize("field", WORDS)
def test_a_value_that_no_server_knows_is_refused_with_those_that_there_are(field: str) -> None:
    *others, last = map(repr, WORDS[field])
    near = f": did you mean {WORDS[field][0]!r}?"
    for bad, hint in (("bogus", ""), ("", ""), (WORDS[field][0].upper(), near), (5, "")):
        options: Any = {field: bad}
        for refuse in (StreamConfig("S").updated, partial(StreamConfig.from_options, "S")):
            with pytest.raises(LocalProtocolError) as caught:
                refuse(**options)
            expected = f"stream option {field} is {', '.join(others)} or {last}, not {bad!r}{hint}"
            assert str(caught.value) == expected
    for good in (*WORDS[field], None):
        given_option: Any = {field: good}
        assert getattr(StreamConfig.from_options("S", **given_option), field) == good


@pytest.mark.parametrize("field", WORDS)
def test_a_value_of_a_newer_server_passes_and_stays(field: str) -> None:
    body = {"name": "S", field: "newer"}
    config = StreamConfig.from_json(body)
    assert getattr(config, field) == "newer"
    assert config.updated(description="d").to_json() == {**body, "description": "d"}
    info = StreamInfo.from_json({"config": body, "created": "2026-01-01T00:00:00Z", "state": {}})
    assert info.config == config


def test_info() -> None:
    info = ServerInfo.from_json(INFO)
    assert (info.version, info.version_tuple, info.api_level) == ("2.15.1", (2, 15, 1), 5)
    assert (info.jetstream, info.headers, info.max_payload, info.domain) == (True, True, 1_048_576, "hub")
    assert (info.tls_required, info.ldm, info.connect_urls, info.nonce) == (False, False, None, None)
    assert info.extra == {}
    assert info.to_json() == json.loads(INFO)


def test_every_recorded_info() -> None:
    levels = {}
    for frame in frames():
        if frame.raw.startswith(b"INFO "):
            info = ServerInfo.from_json(frame.raw[5:])
            assert info.to_json() == json.loads(frame.raw[5:])
            levels[info.version_tuple] = info.api_level
    assert levels == {
        (2, 11, 11): None, (2, 12, 0): 2, (2, 12, 1): 2, (2, 12, 8): 3, (2, 14, 0): 4, (2, 14, 4): 4, (2, 14, 6): 4,
        (2, 15, 1): 5,
    }  # fmt: skip


def test_an_empty_info_has_the_servers_defaults() -> None:
    info = ServerInfo.from_json(b"{}")
    assert info == ServerInfo()
    assert (info.max_payload, info.api_level, info.version_tuple, info.jetstream) == (1_048_576, None, (0, 0, 0), False)


def test_unknown_fields_of_info_survive() -> None:
    body = {**json.loads(INFO), "gateway": "g", "tls_required": True, "ldm": True, "connect_urls": ["a:1", "[::1]:2"]}
    info = ServerInfo.from_json(body)
    assert (info.extra, info.tls_required, info.ldm) == ({"gateway": "g"}, True, True)
    assert info.to_json() == body


@pytest.mark.parametrize(
    ("version", "numbers"),
    [
        ("2.15.1", (2, 15, 1)), ("2.15.1-RC.1", (2, 15, 1)), ("v2.9.0", (2, 9, 0)), ("2.14.0-dev+abc", (2, 14, 0)),
        ("0.0.0", (0, 0, 0)), ("", (0, 0, 0)), ("2.15", (0, 0, 0)), ("x2.1.0", (0, 0, 0)), ("2.1.x", (0, 0, 0)),
        ("\u0662.1.0", (0, 0, 0)), ("2.1." + "9" * 5000, (0, 0, 0)),
    ],
)  # fmt: skip
def test_versions(version: str, numbers: tuple[int, int, int]) -> None:
    assert ServerInfo(version=version).version_tuple == numbers


def test_account() -> None:
    account = AccountInfo.from_json(ACCOUNT)
    assert (account.streams, account.consumers, account.storage, account.api_level) == (12, 2, 676, 5)
    assert account.limits == AccountLimits(max_memory=-1, max_streams=-1, max_bytes_required=False)
    assert account.api == ApiStats(level=5, total=24, errors=0)
    assert account.tiers is None
    assert account.extra == {"type": "io.nats.jetstream.api.v1.account_info_response"}
    assert account.to_json() == json.loads(ACCOUNT)
    assert AccountInfo().api_level is None
    assert AccountInfo.from_json({"api": {}}).api_level is None


def test_an_account_with_tiers() -> None:
    limits = {"max_memory": -1, "max_storage": 1024, "max_streams": 5, "max_consumers": -1, "max_ack_pending": 9,
              "memory_max_stream_bytes": -1, "storage_max_stream_bytes": 512, "max_bytes_required": True,
              "new": 1}  # fmt: skip
    tier = {"memory": 0, "storage": 7, "reserved_memory": 0, "reserved_storage": 3, "streams": 1, "consumers": 2,
            "limits": limits, "new": [1]}  # fmt: skip
    body = {"memory": 0, "storage": 7, "streams": 1, "consumers": 2, "tiers": {"R3": tier},
            "api": {"level": 5, "total": 1, "errors": 0, "inflight": 2, "new": {}}}  # fmt: skip
    account = AccountInfo.from_json(body)
    assert account.to_json() == body
    assert account.limits is None
    assert account.tiers is not None
    found = account.tiers["R3"]
    assert (found.storage, found.streams, found.consumers, found.extra) == (7, 1, 2, {"new": [1]})
    assert found.limits is not None
    assert (found.limits.max_storage, found.limits.storage_max_stream_bytes) == (1024, 512)
    assert (found.limits.max_bytes_required, found.limits.extra) == (True, {"new": 1})
    assert AccountTier.from_json({}).to_json() == {"memory": 0, "storage": 0, "streams": 0, "consumers": 0}


# -- properties --------------------------------------------------------------------------------------------------------

texts = st.text(max_size=5)
integers = st.integers(-(2**63), 2**63 - 1)
counts = st.integers(0, 2**64 - 1)
values = st.recursive(
    st.none() | st.booleans() | integers | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
known: dict[str, st.SearchStrategy[Any]] = {
    "description": texts, "subjects": st.lists(texts, max_size=2), "max_msgs": integers, "max_age": integers,
    "first_seq": counts, "no_ack": st.booleans(), "metadata": st.dictionaries(texts, texts, max_size=2),
    "placement": st.fixed_dictionaries({}, optional={"cluster": texts, "tags": st.lists(texts), "new": values}),
    "mirror": st.fixed_dictionaries({"name": texts}, optional={"opt_start_seq": counts, "new": values}),
}  # fmt: skip
configs = st.fixed_dictionaries({"name": texts}, optional={**known, "new": values, "other": values})
infos = st.fixed_dictionaries(
    {},
    optional={
        "version": texts, "headers": st.just(True), "jetstream": st.just(True),
        "max_payload": st.integers(0, 2**31 - 1), "connect_urls": st.lists(texts), "api_lvl": integers, "new": values,
    },
)  # fmt: skip


@given(configs)
def test_a_configuration_survives(body: dict[str, Any]) -> None:
    config = StreamConfig.from_json(body)
    assert config.to_json() == body
    assert StreamConfig.from_json(dumps(config.to_json())) == config
    assert set(config.extra) == body.keys() & {"new", "other"}


@given(infos)
def test_an_info_survives(body: dict[str, Any]) -> None:
    info = ServerInfo.from_json(body)
    assert info.to_json().items() >= body.items()
    assert ServerInfo.from_json(info.to_json()) == info


names = st.sampled_from(
    ["name", "subjects", "max_age", "mirror", "sources", "metadata", "config", "state", "created", "first_ts",
     "version", "max_payload", "connect_urls", "api", "tiers", "placement", "consumer_limits"]
)  # fmt: skip
junk = st.dictionaries(names, values | st.dictionaries(names, values, max_size=2), max_size=4)


@given(st.binary() | junk.map(dumps))
def test_whatever_arrives_is_read_or_refused(raw: bytes) -> None:
    for model in (StreamConfig, StreamInfo, StreamState, ServerInfo, AccountInfo):
        try:
            found: Model = model.from_json(raw)
        except RemoteProtocolError:
            continue
        again: Model = model.from_json(found.to_json())
        assert again == found


def test_older_than() -> None:
    assert ServerInfo(version="2.12.8").is_before("2.14")
    assert ServerInfo(version="2.14.0-RC.1").is_before("2.15")
    assert not ServerInfo(version="2.14.0").is_before("2.14")
    assert not ServerInfo(version="built-here").is_before("2.14")


# -- words, and what an info looks like --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "bad", "hint"),
    [
        ("retention", "limit", "limits"), ("retention", "WorkQueue", "workqueue"),
        ("retention", "work-queue", "workqueue"),
        ("discard", "olds", "old"), ("storage", "flie", "file"), ("compression", "s3", None),
        ("compression", "S2", "s2"), ("storage", "disk", None),
        ("persist_mode", "defaults", "default"), ("retention", "x" * 100_000, None), ("retention", None, ""),
    ],
)  # fmt: skip
def test_the_nearest_word_is_offered(field: str, bad: Any, hint: str | None) -> None:
    options: Any = {field: bad}
    if hint == "":
        StreamConfig("S", **options).check_words()
        return
    for refuse in (lambda: StreamConfig.from_options("S", **options), StreamConfig("S", **options).check_words):
        with pytest.raises(LocalProtocolError) as caught:
            refuse()
        assert str(caught.value).startswith(f"stream option {field} is ")
        assert len(str(caught.value)) < 300
        assert str(caught.value).endswith(f": did you mean {hint!r}?") == (hint is not None)


def test_an_info_is_one_line() -> None:
    state = StreamState(messages=3, bytes=100, first_seq=1, last_seq=4, consumer_count=2)
    assert repr(StreamInfo(StreamConfig("S", subjects=["a", "b.>"]), state=state)) == (
        "<StreamInfo S [a, b.>]: 3 messages, 100 bytes, sequences 1 to 4, 2 consumers>"
    )
    many = StreamInfo(StreamConfig("S", subjects=[*"abcdefg"]))
    assert repr(many).startswith("<StreamInfo S [a, b, c, d, e and 2 more]: 0 messages, ")
    assert repr(StreamInfo(StreamConfig("S"))).startswith("<StreamInfo S []: ")
