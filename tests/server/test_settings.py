"""Configurations: what is accepted, what is made of it, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from jsproto.errors import APIError
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.times import Nanoseconds
from jsproto.server.node import Node
from jsproto.server.settings import DUPLICATE_WINDOW, accept, change

NODE = Node(b"token")


def accepted(**fields: Any) -> StreamConfig:
    return accept(StreamConfig("S", **fields), NODE)


def test_a_stream_without_subjects_listens_to_its_name() -> None:
    assert accepted().subjects == ["S"]
    assert accepted(subjects=["a", "b"]).subjects == ["a", "b"]
    assert accepted(mirror={"name": "M"}).subjects is None
    assert accepted(sources=[{"name": "M"}]).subjects is None


def test_ids_are_not_remembered_longer_than_messages() -> None:
    assert accepted().duplicate_window == DUPLICATE_WINDOW
    assert accepted(duplicate_window=Nanoseconds(0)).duplicate_window == DUPLICATE_WINDOW
    assert accepted(duplicate_window=Nanoseconds(7)).duplicate_window == 7
    assert accepted(max_age=Nanoseconds(1_000)).duplicate_window == 1_000


def test_what_is_false_or_nothing_is_said_as_servers_say_it() -> None:
    config = accepted(max_msgs=0, max_bytes=0, allow_atomic=False, no_ack=False, persist_mode="default")
    assert (config.max_msgs, config.max_bytes) == (-1, -1)
    assert (config.allow_atomic, config.no_ack, config.persist_mode) == (None, None, None)
    assert config.storage == "file"


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


@pytest.mark.parametrize(
    ("fields", "code", "err_code", "words"),
    [
        ({"mirror": {"name": "M"}, "allow_atomic": True}, 400, 10198, "atomic publishing"),
        ({"mirror": {"name": "M"}, "allow_batched": True}, 400, 10209, "batch publishing"),
        ({"persist_mode": "async", "allow_atomic": True}, 500, 10052, "atomic batch publish"),
        ({"persist_mode": "async", "num_replicas": 3}, 500, 10052, "replicated streams"),
        ({"persist_mode": "async", "storage": "memory"}, 500, 10052, "file storage"),
    ],
)
def test_what_is_refused(fields: dict[str, Any], code: int, err_code: int, words: str) -> None:
    with pytest.raises(APIError, match=words) as caught:
        accepted(**fields)
    assert (caught.value.code, caught.value.err_code) == (code, err_code)


def test_the_persist_mode_stays() -> None:
    old = accepted(persist_mode="async")
    assert change(old, StreamConfig("S", persist_mode="async", allow_batched=True), NODE).allow_batched
    with pytest.raises(APIError, match="can not change persist mode"):
        change(old, StreamConfig("S"), NODE)
