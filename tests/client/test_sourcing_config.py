"""Durable sourcing as the client configures it: what is not sent, and what a refusal says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jsproto import sourcing_consumer
from jsproto.api_errors import InvalidJSONError
from jsproto.errors import LocalProtocolError, UnsupportedByServerError
from jsproto.grammar.config import StreamConfig, StreamSource
from tests.harness import Harness
from tests.marks import requirement

NAMED: StreamSource = {"name": "Q", "consumer": {"name": "D", "deliver_subject": "to.d"}}
MANAGED: StreamSource = {"name": "Q", "consumer": {"name": "D", "server_managed": True}}


def refuse(harness: Harness, description: str) -> None:
    harness.answer(lambda _: {"error": {"code": 400, "err_code": 10025, "description": description}})


@requirement(157)
def test_what_servers_refuse_of_a_consumer_is_not_sent() -> None:
    harness = Harness()
    config = sourcing_consumer("D", "to.d").updated(ack_wait=5)
    for verb in (harness.js.create_consumer, harness.js.update_consumer):
        with pytest.raises(LocalProtocolError, match="ack_wait"):
            verb("Q", config, now=harness.now)
    assert harness.published() == []


def test_an_older_server_is_not_asked_for_the_policy() -> None:
    harness = Harness(info={"version": "2.12.8"})
    with pytest.raises(UnsupportedByServerError, match=r"ack_policy 'flow_control' needs nats-server 2.14"):
        harness.js.create_consumer("Q", sourcing_consumer("D", "to.d"), now=harness.now)
    assert harness.published() == []


@pytest.mark.parametrize("config", [StreamConfig("A", sources=[NAMED]), StreamConfig("A", mirror=MANAGED)])
@pytest.mark.parametrize("version", ["2.11.11", "2.12.8"])
def test_an_older_server_is_not_asked_for_the_consumer_of_a_source(config: StreamConfig, version: str) -> None:
    harness = Harness(info={"version": version})
    for verb in (harness.js.create_stream, harness.js.update_stream):
        with pytest.raises(UnsupportedByServerError, match="the consumer of a source or mirror needs"):
            verb(config, now=harness.now)
    assert harness.published() == []


def test_before_a_link_the_server_is_to_judge() -> None:
    harness = Harness(connected=False)
    ticket = harness.js.create_stream(StreamConfig("A", mirror=MANAGED), now=harness.now)
    harness.js.create_consumer("Q", sourcing_consumer("D", "to.d"), now=harness.now)
    harness.connect()
    harness.info["version"] = ""
    refuse(harness, 'invalid JSON: json: unknown field "server_managed"')
    assert isinstance(ticket.error, UnsupportedByServerError)


@requirement(159)
@pytest.mark.parametrize("kind", ["mirror", "sources"])
def test_a_refusal_of_server_managed_says_what_to_do(kind: str) -> None:
    harness = Harness()
    options: Any = {kind: MANAGED if kind == "mirror" else [MANAGED]}
    ticket = harness.js.create_stream(StreamConfig("A", **options), now=harness.now)
    refuse(harness, 'invalid JSON: json: unknown field "server_managed"')
    assert isinstance(ticket.error, UnsupportedByServerError)
    assert isinstance(ticket.error.__cause__, InvalidJSONError)
    assert str(ticket.error) == (
        "server_managed needs nats-server newer than 2.15; the server is 2.15.1"
        " (create the consumer with sourcing_consumer, and give its name and deliver_subject)"
    )


def test_other_answers_to_server_managed_stay_as_they_are() -> None:
    harness = Harness()
    refused = harness.js.create_stream(StreamConfig("A", mirror=MANAGED), now=harness.now)
    refuse(harness, "invalid JSON: something else")
    assert type(refused.error) is InvalidJSONError
    taken = harness.js.update_stream(StreamConfig("A", mirror=MANAGED), now=harness.now)
    (asked,) = harness.answer(lambda pub: {"config": json.loads(pub.payload), "mirror": {"name": "Q"}})
    assert json.loads(asked.payload)["mirror"] == MANAGED
    mirror = taken.result().mirror
    assert mirror is not None
    assert mirror.consumer == "D"
