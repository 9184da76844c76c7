"""What servers make of the configuration of a consumer, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from jsproto.errors import APIError
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.server.consume.settings import accept, check_change
from jsproto.server.store.context import ServerContext
from tests.marks import requirement
from tests.server.harness import config

CONTEXT = ServerContext(b"t")


def accepted(body: dict[str, Any], stream: StreamConfig | None = None) -> dict[str, Any]:
    """What is said back, without metadata."""
    said = accept(ConsumerConfig.from_json(body), stream or config(), CONTEXT).to_json()
    del said["metadata"]
    return said


def test_the_replicas_of_a_stream_that_keeps_what_somebody_wants() -> None:
    interest = config({"retention": "interest", "num_replicas": 3})
    assert accepted({"num_replicas": 3}, interest)["num_replicas"] == 3
    assert accepted({}, interest)["num_replicas"] == 0
    with pytest.raises(APIError, match="must match"):
        accepted({"num_replicas": 1}, interest)


COMMON = {"deliver_policy": "all", "replay_policy": "instant", "max_deliver": -1, "num_replicas": 0}
PULL = COMMON | {"max_waiting": 512}
PUSH = COMMON | {"deliver_subject": "d"}
ACK = {"ack_policy": "explicit", "ack_wait": 30_000_000_000, "max_ack_pending": 1000}


@requirement(149, 151, 154)
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, PULL | {"ack_policy": "none"}),
        ({"durable_name": "A", "ack_policy": "explicit"}, PULL | ACK | {"durable_name": "A", "name": "A"}),
        ({"name": "A", "ack_policy": "all", "inactive_threshold": 7, "metadata": {"a": "b"}},
         PULL | ACK | {"ack_policy": "all", "name": "A", "inactive_threshold": 7}),
        ({"durable_name": "A", "ack_policy": "explicit", "backoff": [1, 2], "max_deliver": 2, "max_waiting": -1},
         PULL | ACK | {"durable_name": "A", "name": "A", "backoff": [1, 2], "ack_wait": 1, "max_deliver": 2}),
        ({"durable_name": "A", "deliver_subject": "d", "flow_control": False},
         PUSH | {"ack_policy": "none", "durable_name": "A", "name": "A"}),
        ({"durable_name": "A", "deliver_subject": "d", "ack_policy": "flow_control", "idle_heartbeat": 5},
         PUSH | {"ack_policy": "flow_control", "durable_name": "A", "name": "A", "max_ack_pending": 1000,
                 "flow_control": True, "idle_heartbeat": 1_000_000_000}),
        ({"durable_name": "A", "priority_policy": "overflow", "priority_groups": ["g"]},
         PULL | {"ack_policy": "none", "durable_name": "A", "name": "A", "priority_policy": "overflow",
                 "priority_groups": ["g"]}),
    ],
)  # fmt: skip
def test_what_is_said_back(asked: dict[str, Any], said: dict[str, Any]) -> None:
    assert accepted(asked) == said


@pytest.mark.parametrize(
    ("asked", "level"),
    [({}, "0"), ({"pause_until": "2099-01-01T00:00:00Z"}, "1"),
     ({"priority_groups": ["g"], "priority_policy": "overflow"}, "1"),
     ({"deliver_subject": "d", "ack_policy": "flow_control"}, "4")],
)  # fmt: skip
def test_the_api_level_that_is_needed(asked: dict[str, Any], level: str) -> None:
    metadata = accept(ConsumerConfig.from_json(asked), config(), CONTEXT).metadata
    assert metadata == {"_nats.level": "5", "_nats.req.level": level, "_nats.ver": "2.15.1"}


@requirement(150, 154, 155, 156, 234, 262)
@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"deliver_policy": "bogus"}, 10025),
        ({"ack_wait": -5}, 10183),
        ({"num_replicas": -1}, 10133),
        ({"num_replicas": 2}, 10126),
        ({"description": "x" * 4_097}, 10107),
        ({"metadata": {"a": "x" * 131_072}}, 10135),
        ({"sample_freq": "often"}, 10095),
        ({"filter_subjects": [f"s.{number}" for number in range(1_001)]}, 10012),
        ({"backoff": [-5]}, 10184),
        ({"backoff": [1, 2], "max_deliver": 1}, 10116),
        ({"ack_policy": "flow_control"}, 10218),
        ({"ack_policy": "flow_control", "deliver_subject": "d", "max_ack_pending": -1}, 10220),
        ({"ack_policy": "flow_control", "deliver_subject": "d", "ack_wait": 1}, 10221),
        ({"ack_policy": "flow_control", "deliver_subject": "d", "backoff": [1]}, 10221),
        ({"ack_policy": "flow_control", "deliver_subject": "d", "max_deliver": 3}, 10222),
        ({"deliver_subject": "d", "max_waiting": 5}, 10080),
        ({"deliver_subject": "d", "idle_heartbeat": 99_999_999}, 10083),
        ({"deliver_subject": "d", "flow_control": True}, 10108),
        ({"deliver_subject": "d", "priority_groups": ["g"]}, 10196),
        ({"deliver_subject": "d", "priority_policy": "overflow"}, 10178),
        ({"rate_limit_bps": 5}, 10086),
        ({"max_expires": 1}, 10115),
        ({"idle_heartbeat": 1_000_000_000}, 10088),
        ({"flow_control": True}, 10089),
        ({"priority_policy": "overflow"}, 10159),
        ({"priority_groups": ["g"]}, 10196),
        ({"priority_groups": ["g"], "priority_policy": "none"}, 10196),
        ({"priority_timeout": 5}, 10197),
        ({"priority_groups": ["g", ""], "priority_policy": "overflow"}, 10161),
        ({"priority_groups": ["a b"], "priority_policy": "overflow"}, 10162),
        ({"priority_groups": ["g" * 17], "priority_policy": "overflow"}, 10162),
        ({"priority_policy": "bogus"}, 10025),
        ({"deliver_policy": "by_start_sequence"}, 10094),
        ({"deliver_policy": "by_start_time"}, 10094),
        ({"opt_start_seq": 4}, 10094),
        ({"opt_start_time": "2024-01-01T00:00:00Z"}, 10094),
        ({"deliver_policy": "last_per_subject"}, 10094),
        ({"filter_subject": "s.a", "filter_subjects": ["s.b"]}, 10136),
        ({"filter_subjects": ["s.a", ""]}, 10139),
        ({"filter_subject": "s..a"}, 10052),
        ({"filter_subjects": ["s.*", "s.a"]}, 10138),
        ({"deliver_subject": "d..d"}, 10112),
        ({"deliver_subject": "d.*"}, 10079),
        ({"deliver_subject": "s.x"}, 10081),
    ],
)  # fmt: skip
def test_what_is_refused(asked: dict[str, Any], code: int) -> None:
    with pytest.raises(APIError) as caught:
        accepted(asked)
    assert caught.value.err_code == code


def test_a_pull_consumer_of_a_work_queue_acknowledges() -> None:
    with pytest.raises(APIError) as caught:
        accepted({}, config({"retention": "workqueue"}))
    assert caught.value.err_code == 10084
    accepted({"ack_policy": "explicit"}, config({"retention": "workqueue"}))


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({}, {"deliver_policy": "new"}, "deliver policy can not be updated"),
        ({}, {"ack_policy": "all"}, "ack policy can not be updated"),
        ({}, {"deliver_subject": "d"}, "can not update pull consumer to push based"),
        ({"deliver_subject": "d"}, {"deliver_subject": None}, "can not update push consumer to pull based"),
        ({}, {"max_waiting": 5}, "max waiting can not be updated"),
        ({"deliver_subject": "d"}, {"deliver_subject": "e"}, "consumer name already in use"),
    ],
)
def test_what_cannot_be_changed(before: dict[str, Any], after: dict[str, Any], words: str) -> None:
    old = accept(ConsumerConfig.from_json(before), config(), CONTEXT)
    new = accept(ConsumerConfig.from_json(before | after), config(), CONTEXT)
    with pytest.raises(APIError, match=words):
        check_change(old, new, is_bound=True)


def test_what_can_be_changed() -> None:
    old = accept(ConsumerConfig.from_json({"deliver_subject": "d"}), config(), CONTEXT)
    new = accept(ConsumerConfig.from_json({"deliver_subject": "e", "max_deliver": 5}), config(), CONTEXT)
    check_change(old, new, is_bound=False)
