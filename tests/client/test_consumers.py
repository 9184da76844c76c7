"""Consumers in the API: which subject, which body, which answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jsproto.api_errors import ConsumerNotFoundError
from jsproto.errors import BadSubjectError, RemoteProtocolError
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.wire.frames import Pub
from tests.harness import Harness


def info(name: str = "C", **config: Any) -> dict[str, Any]:
    return {"stream_name": "S", "name": name, "config": {"name": name, **config}}


@pytest.mark.parametrize(
    ("config", "subject"),
    [
        ({}, "CREATE.S"),
        ({"filter_subject": "a"}, "CREATE.S"),
        ({"name": "C"}, "CREATE.S.C"),
        ({"durable_name": "D"}, "CREATE.S.D"),
        ({"name": "C", "filter_subject": "a.b"}, "CREATE.S.C.a.b"),
        ({"name": "C", "filter_subject": "a.*"}, "CREATE.S.C.a.*"),
        ({"name": "C", "filter_subject": "a.>"}, "CREATE.S.C.a.>"),
        ({"name": "C", "filter_subject": ">"}, "CREATE.S.C.>"),
        ({"filter_subject": "a.>"}, "CREATE.S"),
        ({"name": "C", "filter_subject": "a." + "b" * 2000}, "CREATE.S.C.a." + "b" * 2000),
        ({"name": "C", "filter_subject": "a." + "b" * 2003}, "CREATE.S.C"),
        ({"name": "C", "filter_subject": "a." + "ü" * 1001}, "CREATE.S.C.a." + "ü" * 1001),
        ({"name": "C", "filter_subject": "a." + "ü" * 1002}, "CREATE.S.C"),
        ({"name": "C", "filter_subject": ""}, "CREATE.S.C"),
        ({"name": "C", "filter_subjects": ["a.*"]}, "CREATE.S.C"),
    ],
)
def test_creating(config: dict[str, Any], subject: str) -> None:
    harness = Harness()
    wanted = ConsumerConfig(**config)
    ticket = harness.js.create_consumer("S", wanted, now=harness.now)
    (pub,) = harness.answer(lambda _: info())
    assert pub.subject.decode() == f"$JS.API.CONSUMER.{subject}"
    assert json.loads(pub.payload) == {"stream_name": "S", "config": wanted.to_json(), "action": "create"}
    assert ticket.result().name == "C"


def test_changing() -> None:
    harness = Harness()
    ticket = harness.js.change_consumer("S", "C", {"description": "new"}, now=harness.now)
    (asked,) = harness.answer(lambda _: info(ack_wait=5, newer=1))
    assert asked.subject == b"$JS.API.CONSUMER.INFO.S.C"
    (pub,) = harness.answer(lambda pub: info(**json.loads(pub.payload)["config"] | {"name": "C"}))
    assert pub.subject == b"$JS.API.CONSUMER.CREATE.S.C"
    body = json.loads(pub.payload)
    assert body["action"] == "update"
    assert body["config"] == {"name": "C", "description": "new", "ack_wait": 5, "newer": 1}
    assert ticket.result().config.description == "new"
    both = harness.js.create_consumer("S", ConsumerConfig(name="C"), action=None, now=harness.now)
    (pub,) = harness.answer(lambda _: info())
    assert "action" not in json.loads(pub.payload)
    assert both.done


def test_looking_up_and_deleting() -> None:
    harness = Harness()
    gone = harness.js.consumer_info("S", "C", now=harness.now)
    error = {"code": 404, "err_code": 10014, "description": "consumer not found"}
    harness.answer(lambda _: {"error": error})
    assert isinstance(gone.error, ConsumerNotFoundError)
    deleted = harness.js.delete_consumer("S", "C", now=harness.now)
    (pub,) = harness.answer(lambda _: {"success": True})
    assert pub.subject == b"$JS.API.CONSUMER.DELETE.S.C"
    assert deleted.result() is True
    with pytest.raises(BadSubjectError):
        harness.js.consumer_info("S", "a.b", now=harness.now)


def test_pausing() -> None:
    harness = Harness()
    ticket = harness.js.pause_consumer("S", "C", 1_000_000_000, now=harness.now)
    (pub,) = harness.answer(lambda _: {"paused": True, "pause_until": "1970-01-01T00:00:01Z"})
    assert (pub.subject, pub.payload) == (b"$JS.API.CONSUMER.PAUSE.S.C", b'{"pause_until":"1970-01-01T00:00:01Z"}')
    assert ticket.result().pause_until == 1_000_000_000
    ticket = harness.js.pause_consumer("S", "C", None, now=harness.now)
    (pub,) = harness.answer(lambda _: {"paused": False})
    assert pub.payload == b"{}"
    assert not ticket.result().paused


def test_unpinning() -> None:
    harness = Harness()
    ticket = harness.js.unpin_consumer("S", "C", "g", now=harness.now)
    (pub,) = harness.answer(lambda _: {"type": "io.nats.jetstream.api.v1.consumer_unpin_response"})
    assert (pub.subject, pub.payload) == (b"$JS.API.CONSUMER.UNPIN.S.C", b'{"group":"g"}')
    assert ticket.done
    assert ticket.error is None


def test_listing_page_by_page() -> None:
    harness = Harness()
    names = [f"C{number}" for number in range(5)]

    def page(pub: Pub) -> dict[str, Any]:
        offset = json.loads(pub.payload)["offset"]
        return {"consumers": names[offset : offset + 2], "total": 5, "offset": offset, "limit": 2}

    ticket = harness.js.consumer_names("S", now=harness.now)
    asked = [pub for _ in range(4) for pub in harness.answer(page)]
    assert [pub.subject for pub in asked] == [b"$JS.API.CONSUMER.NAMES.S"] * 3
    assert ticket.result() == names

    infos = harness.js.consumers_info("S", now=harness.now)
    harness.answer(lambda _: {"consumers": [info("A"), info("B")], "total": 2})
    assert [each.name for each in infos.result()] == ["A", "B"]
    none = harness.js.consumer_names("S", now=harness.now)
    harness.answer(lambda _: {"consumers": None, "total": 0})
    assert none.result() == []
    short = harness.js.consumer_names("S", now=harness.now)
    harness.answer(lambda _: {"consumers": [], "total": 7})
    assert short.result() == []


@pytest.mark.parametrize(
    "answer",
    [
        {"consumers": "C", "total": 1},
        {"consumers": ["C"]},
        {"consumers": [5], "total": 1},
        {"consumers": [], "total": "1"},
    ],
)
def test_lists_that_are_none(answer: dict[str, Any]) -> None:
    harness = Harness()
    ticket = harness.js.consumer_names("S", now=harness.now)
    harness.answer(lambda _: answer)
    assert isinstance(ticket.error, RemoteProtocolError)


def test_a_list_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jsproto.client.consume.api.MAX_PAGES", 3)
    harness = Harness()
    ticket = harness.js.consumer_names("S", now=harness.now)
    for _ in range(3):
        harness.answer(lambda _: {"consumers": ["C"], "total": 10**9})
    assert ticket.result() == ["C"] * 3
