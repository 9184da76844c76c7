"""The consumer of durable sourcing: a ready-made configuration, and what is refused before it is sent."""

from __future__ import annotations

from typing import Any

import pytest

from jsproto import sourcing_consumer
from jsproto.errors import BadSubjectError, LocalProtocolError
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.grammar.sourcing_consumer import check_sourcing
from tests.marks import requirement

QUEUE = StreamConfig("Q", subjects=["q.>"], retention="workqueue")


@requirement(157, 264)
def test_a_ready_made_configuration() -> None:
    assert sourcing_consumer("D", "to.d").to_json() == {
        "durable_name": "D", "name": "D", "ack_policy": "flow_control", "flow_control": True,
        "deliver_subject": "to.d", "idle_heartbeat": 1_000_000_000,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "policy"),
    [
        ({"opt_start_seq": 7}, "by_start_sequence"),
        ({"opt_start_time": 0}, "by_start_time"),
        ({"opt_start_seq": 7, "deliver_policy": "by_start_sequence"}, "by_start_sequence"),
        ({"filter_subject": ">", "deliver_policy": "last_per_subject"}, "last_per_subject"),
        ({"deliver_policy": "new", "replay_policy": "original"}, "new"),
        ({"max_ack_pending": 10_000, "sourcing": True, "ack_policy": "flow_control", "flow_control": True}, None),
    ],
)
def test_what_a_caller_chooses(options: Any, policy: str | None) -> None:
    config = sourcing_consumer("D", "to.d", **options)
    assert config.deliver_policy == policy
    assert config == sourcing_consumer("D", "to.d").updated(**options | {"deliver_policy": policy})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"deliver_group": "g"}, "settles deliver_group itself"),
        ({"ack_policy": "explicit", "flow_control": False}, "settles ack_policy, flow_control itself"),
        ({"idle_heartbeat": 5}, "settles idle_heartbeat itself"),
        ({"max_ack_pending": "1"}, "max_ack_pending must be an integer"),
        ({"deliver_policy": "bogus"}, "deliver_policy is"),
        ({"nonsense": 1}, "nonsense is unknown"),
    ],
)
def test_what_contradicts_a_sourcing_consumer(options: Any, words: str) -> None:
    with pytest.raises(LocalProtocolError, match=words):
        sourcing_consumer("D", "to.d", **options)


@pytest.mark.parametrize(("name", "subject"), [("a.b", "to.d"), ("", "to.d"), ("D", "to.*"), ("D", "a b")])
def test_names_that_are_none(name: str, subject: str) -> None:
    with pytest.raises(BadSubjectError):
        sourcing_consumer(name, subject)


def test_a_sourcing_consumer_delivers_outside_of_its_stream() -> None:
    for inside in ("q.a", "q.a.b"):
        with pytest.raises(LocalProtocolError, match=f"deliver_subject {inside} is inside Q: q.>"):
            sourcing_consumer("D", inside, stream=QUEUE)
    assert sourcing_consumer("D", "to.d", stream=QUEUE) == sourcing_consumer("D", "to.d")
    assert sourcing_consumer("D", "to.d", stream=StreamConfig("M", mirror={"name": "Q"})).deliver_subject == "to.d"


def test_a_work_queue_is_delivered_whole() -> None:
    with pytest.raises(LocalProtocolError, match="a work queue is delivered whole"):
        sourcing_consumer("D", "to.d", stream=QUEUE, deliver_policy="new")
    assert sourcing_consumer("D", "to.d", stream=QUEUE, deliver_policy="all").deliver_policy == "all"


REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"deliver_subject": None}, 10218, "give a deliver_subject"),
    ({"deliver_subject": "to.*"}, 10079, "wildcard"),
    ({"max_ack_pending": -1}, 10220, "positive max_ack_pending"),
    ({"ack_wait": 5}, 10221, "without ack_wait: only a reset"),
    ({"backoff": [1]}, 10221, "without backoff: only a reset"),
    ({"max_deliver": 1}, 10222, "leave max_deliver out"),
    ({"max_waiting": 5}, 10080, "without max_waiting: it is for pull"),
    ({"priority_groups": ["g"], "priority_policy": "overflow"}, 10178, "without priority_groups"),
    ({"priority_policy": "overflow"}, 10178, "without priority_policy"),
    ({"priority_timeout": 5}, 10197, "without priority_timeout"),
    ({"direct": True}, 10091, "without direct"),
    ({"opt_start_seq": 3}, 10094, "opt_start_seq and deliver_policy 'by_start_sequence' go together, not 'all'"),
    ({"deliver_policy": "by_start_sequence"}, 10094, "opt_start_seq"),
    ({"deliver_policy": "by_start_time"}, 10094, "opt_start_time"),
    ({"deliver_policy": "last_per_subject"}, 10094, "needs a filter_subject"),
]
"""What servers refuse, with their error code: ``tests/drivers/test_sourcing.py`` asks them."""


@requirement(157)
@pytest.mark.parametrize(("options", "code", "words"), REFUSED)
def test_what_servers_refuse(options: Any, code: int, words: str) -> None:
    config = sourcing_consumer("D", "to.d").updated(**options)
    with pytest.raises(LocalProtocolError, match=words):
        check_sourcing(config)
    check_sourcing(config.updated(ack_policy="explicit"))  # not looked at


def test_what_servers_say_back_passes() -> None:
    said = {"max_deliver": -1, "max_ack_pending": 1_000, "replay_policy": "instant", "deliver_policy": "all"}
    check_sourcing(sourcing_consumer("D", "to.d").updated(**said))  # type: ignore[arg-type]
    ephemeral = ConsumerConfig(name="E", ack_policy="flow_control", deliver_subject="to.e", direct=True)
    check_sourcing(ephemeral)
    unset: Any = {"max_waiting": 0, "priority_policy": "none", "priority_groups": [], "direct": False, "max_deliver": 0}
    check_sourcing(sourcing_consumer("D", "to.d").updated(**unset))
