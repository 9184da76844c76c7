"""Configurations: what is accepted, what is made of it, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from jsproto.errors import APIError
from jsproto.grammar.config import StreamConfig
from jsproto.server.store.context import ServerContext
from jsproto.server.store.settings import DUPLICATE_WINDOW, accept, change
from tests.marks import requirement

CONTEXT = ServerContext(b"token")


def accepted(**fields: Any) -> StreamConfig:
    return accept(StreamConfig("S", **fields), CONTEXT)


def test_a_stream_without_subjects_listens_to_its_name() -> None:
    assert accepted().subjects == ["S"]
    assert accepted(subjects=["a", "b"]).subjects == ["a", "b"]
    assert accepted(mirror={"name": "M"}).subjects is None
    assert accepted(sources=[{"name": "M"}]).subjects is None


def test_ids_are_not_remembered_longer_than_messages() -> None:
    assert accepted().duplicate_window == DUPLICATE_WINDOW
    assert accepted(duplicate_window=0).duplicate_window == DUPLICATE_WINDOW
    assert accepted(duplicate_window=7).duplicate_window == 7
    assert accepted(max_age=1).duplicate_window == 1


@pytest.mark.parametrize("name", ["", "a b", "a.b", "a\vb", "a\0b", "a/b"])
def test_a_name_that_can_be_no_token_is_refused(name: str) -> None:
    """Consumers of such a stream could not listen for requests."""
    with pytest.raises(APIError, match="stream name is required") as caught:
        accept(StreamConfig(name), CONTEXT)
    assert caught.value.err_code == 10052


@requirement(249)
def test_what_is_false_or_nothing_is_said_as_servers_say_it() -> None:
    config = accepted(max_msgs=0, max_bytes=0, allow_atomic=False, no_ack=False, persist_mode="default")
    assert (config.max_msgs, config.max_bytes) == (-1, -1)
    assert (config.allow_atomic, config.no_ack, config.persist_mode) == (None, None, None)
    assert config.storage == "file"


@requirement(103, 250)
@pytest.mark.parametrize(
    ("fields", "level"),
    [
        ({}, "0"),
        ({"allow_msg_ttl": True}, "1"),
        ({"allow_atomic": True}, "2"),
        ({"persist_mode": "async"}, "2"),
        ({"persist_mode": "default"}, "0"),
        ({"allow_batched": True}, "4"),
        ({"allow_batched": True, "allow_atomic": True}, "4"),
    ],
)
def test_the_level_that_a_configuration_needs(fields: dict[str, Any], level: str) -> None:
    config = accepted(metadata={"mine": "1"}, **fields)
    assert config.metadata == {"mine": "1", "_nats.level": "5", "_nats.req.level": level, "_nats.ver": "2.15.1"}


@requirement(105, 246, 247)
@pytest.mark.parametrize(
    ("fields", "code", "err_code", "words"),
    [
        ({"mirror": {"name": "M"}, "allow_atomic": True}, 400, 10198, "atomic publishing"),
        ({"mirror": {"name": "M"}, "allow_batched": True}, 400, 10209, "batch publishing"),
        ({"persist_mode": "async", "allow_atomic": True}, 500, 10052, "atomic batch publish"),
        ({"persist_mode": "async", "num_replicas": 3}, 500, 10052, "replicated streams"),
        ({"persist_mode": "async", "storage": "memory"}, 500, 10052, "file storage"),
        ({"persist_mode": "sometimes"}, 400, 10025, "can not unmarshal"),
        ({"mirror": {"name": "M"}, "subjects": ["a"]}, 400, 10034, "can not contain subjects"),
        ({"num_replicas": -1}, 400, 10133, "replicas count cannot be negative"),
        ({"num_replicas": 6}, 500, 10052, "maximum replicas is 5"),
        ({"max_msg_size": 2**31}, 400, 10025, "cannot unmarshal number 2147483648 .* of type int32"),
        ({"max_age": 0.099_999_999}, 500, 10052, "max age needs to be >= 100ms"),
        ({"duplicate_window": 2e9, "max_age": 1e9}, 500, 10052, "larger then max age"),
        ({"subject_delete_marker_ttl": 0.999}, 500, 10052, "must be at least 1 second"),
        ({"description": "\u00e9" * 2_049}, 500, 10052, "description is too long, maximum allowed is 4096"),
        ({"metadata": {"a": "x" * 131_072}}, 500, 10052, "metadata exceeds maximum size of 131072 bytes"),
    ],
)
def test_what_is_refused(fields: dict[str, Any], code: int, err_code: int, words: str) -> None:
    with pytest.raises(APIError, match=words) as caught:
        accepted(**fields)
    assert (caught.value.code, caught.value.err_code) == (code, err_code)


@pytest.mark.parametrize("name", ["max_age", "duplicate_window", "subject_delete_marker_ttl"])
def test_no_time_is_negative(name: str) -> None:
    config = StreamConfig.from_json({"name": "S", "subjects": ["s"], name: -1})
    with pytest.raises(APIError, match="negative") as caught:
        accept(config, CONTEXT)
    assert caught.value.err_code == 10052


@requirement(243)
def test_the_persist_mode_stays() -> None:
    old = accepted(persist_mode="async")
    assert change(old, StreamConfig("S", persist_mode="async", allow_batched=True), CONTEXT).allow_batched
    with pytest.raises(APIError, match="can not change persist mode"):
        change(old, StreamConfig("S"), CONTEXT)


@requirement(248)
@pytest.mark.parametrize("mode", [None, "", "default", "async"])
def test_leaving_the_persist_mode_out_is_a_change_of_an_asynchronous_stream(mode: Any) -> None:
    for old, can_change in ((accepted(persist_mode="async"), mode == "async"), (accepted(), mode != "async")):
        if can_change:
            assert change(old, StreamConfig("S", persist_mode=mode), CONTEXT).persist_mode == old.persist_mode
        else:
            with pytest.raises(APIError, match="can not change persist mode") as caught:
                change(old, StreamConfig("S", persist_mode=mode), CONTEXT)
            assert (caught.value.code, caught.value.err_code) == (500, 10052)


@requirement(248)
def test_scaling_up_is_for_streams_that_persist_at_once() -> None:
    assert change(accepted(), StreamConfig("S", num_replicas=3), CONTEXT).num_replicas == 3
    with pytest.raises(APIError, match="replicated streams"):
        change(accepted(persist_mode="async"), StreamConfig("S", persist_mode="async", num_replicas=3), CONTEXT)


@requirement(246)
def test_an_asynchronous_stream_takes_fast_ingest() -> None:
    config = accepted(persist_mode="async", allow_batched=True)
    assert (config.persist_mode, config.allow_batched) == ("async", True)


@requirement(110)
@pytest.mark.parametrize(("asked", "told"), [(None, False), (False, False), (True, True)])
def test_reading_directly_is_as_asked_and_in_the_draft_as_the_limit_says(asked: bool | None, told: bool) -> None:
    for limit in (None, -1, 1):
        config = StreamConfig("S", max_msgs_per_subject=limit, allow_direct=asked)
        assert accept(config, CONTEXT).allow_direct is told
        assert accept(config, ServerContext(b"token", dialect="draft")).allow_direct is (limit == 1)


@requirement(250)
@pytest.mark.parametrize(
    ("release", "level"), [((2, 11, 11), 1), ((2, 12, 0), 2), ((2, 12, 8), 3), ((2, 14, 0), 4), ((2, 15, 1), 5)]
)
def test_what_a_release_does_not_know(release: tuple[int, int, int], level: int) -> None:
    context = ServerContext(b"token", release=release)
    assert context.api_level == level
    fields: dict[str, int] = {"allow_atomic": 2, "persist_mode": 2, "allow_batched": 4}
    for name, needed in fields.items():
        config = StreamConfig("S", **{name: "async" if name == "persist_mode" else True})  # type: ignore[arg-type]
        if level >= needed:
            assert getattr(accept(config, context), name)
        elif level == 1:
            assert getattr(accept(config, context), name) is None
        else:
            with pytest.raises(APIError, match=f'json: unknown field "{name}"'):
                accept(config, context)


# -- what a stream copies ----------------------------------------------------------------------------------------------

MADE = {"name": "D", "deliver_subject": "d.d"}
TO_Z = [{"src": "s.a", "dest": "z"}]
OVERLAP = [{"src": "s.*", "dest": "z.$1"}, {"src": "s.>", "dest": "y.>"}]


@requirement(163)
@pytest.mark.parametrize(
    ("sources", "err_code"),
    [
        ([{"name": "a.b"}], 10141),
        ([{}], 10141),
        ([{"name": "S", "filter_subject": "s.b", "subject_transforms": TO_Z}], 10144),
        ([{"name": "S", "subject_transforms": [{"src": "s.*", "dest": "z.$2"}]}], 10146),
        ([{"name": "S", "subject_transforms": OVERLAP}], 10147),
        ([{"name": "S", "opt_start_seq": 2}, {"name": "S"}], 10140),
        ([{"name": "S", "filter_subject": ">"}, {"name": "S"}], 10140),
        ([{"name": "S", "external": {"api": "$JS.hub.API", "deliver": d}} for d in ("x", "y")], 10140),
        ([{"name": "S", "consumer": MADE}, {"name": "S", "consumer": MADE, "subject_transforms": TO_Z}], 10216),
        ([{"name": "S", "consumer": MADE, "opt_start_time": "2026-01-01T00:00:00Z"}], 10215),
        ([{"name": f"S{number}"} for number in range(1001)], 10052),
    ],
)
def test_sources_that_are_refused(sources: list[dict[str, Any]], err_code: int) -> None:
    with pytest.raises(APIError) as caught:
        accepted(sources=sources)
    assert caught.value.err_code == err_code


def test_sources_that_differ() -> None:
    other = {"name": "E", "deliver_subject": "d.d"}
    assert accepted(sources=[{"name": "O", "filter_subject": "s.a"}, {"name": "O", "filter_subject": "s.b"}])
    assert accepted(sources=[{"name": "O", "consumer": MADE}, {"name": "O", "consumer": other}])
    assert accepted(sources=[{"name": "O", "consumer": MADE}, {"name": "T", "consumer": MADE}])
    assert accepted(sources=[{"name": "O", "external": {"api": f"$JS.{hub}.API"}} for hub in ("a", "b")])


def test_the_draft_knows_consumers_that_the_server_manages() -> None:
    managed: Any = [{"name": "S", "consumer": {"name": "D", "server_managed": True}}]
    with pytest.raises(APIError, match="server_managed"):
        accepted(sources=managed)
    draft = ServerContext(b"token", dialect="draft")
    config: Any = StreamConfig("A", sources=managed)
    assert accept(config, draft).sources == managed
    config.sources[0]["consumer"]["name"] = ""
    with pytest.raises(APIError, match="stream source consumer config is invalid"):
        accept(config, draft)


def test_only_old_releases_give_sources_a_duplicate_window() -> None:
    assert accepted(sources=[{"name": "M"}]).duplicate_window is None
    old = ServerContext(b"token", release=(2, 12, 8))
    assert accept(StreamConfig("S", sources=[{"name": "M"}]), old).duplicate_window == DUPLICATE_WINDOW
