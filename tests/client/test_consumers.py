"""Consumers in the API: which subject, which body, which answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jsproto.api_errors import ConsumerNotFoundError, StreamNotFoundError
from jsproto.client.jetstream import JetStream
from jsproto.errors import (
    BadSubjectError,
    LocalProtocolError,
    RemoteProtocolError,
    TimeoutError,
    UnsupportedByServerError,
)
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.wire.frames import Pub
from tests.harness import Harness
from tests.marks import requirement


def info(name: str = "C", **config: Any) -> dict[str, Any]:
    return {"stream_name": "S", "name": name, "config": {"name": name, **config}}


@requirement(199)
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
    monkeypatch.setattr("jsproto.client.manage.pages.MAX_PAGES", 3)
    harness = Harness()
    ticket = harness.js.consumer_names("S", now=harness.now)
    for _ in range(3):
        harness.answer(lambda _: {"consumers": ["C"], "total": 10**9})
    assert ticket.result() == ["C"] * 3


@pytest.mark.parametrize(
    ("options", "before", "needed"),
    [
        ({"deliver_subject": "d", "ack_policy": "flow_control"}, "2.12.8", "2.14"),
        ({"priority_groups": ["g"], "priority_policy": "prioritized"}, "2.11.11", "2.12"),
        ({"priority_policy": "overflow", "priority_groups": ["g"]}, "2.10.26", "2.11"),
        ({"pause_until": 2**62}, "2.10.26", "2.11"),
        ({"filter_subjects": ["a", "b"]}, "2.9.25", "2.10"),
    ],
)
def test_what_an_older_server_would_drop_is_refused(options: Any, before: str, needed: str) -> None:
    old, new = Harness(info={"version": before}), Harness(info={"version": f"{needed}.0"})
    config = ConsumerConfig.from_options(durable_name="C", **options)
    with pytest.raises(UnsupportedByServerError, match=next(reversed(options))) as caught:
        old.js.create_consumer("S", config, now=old.now)
    assert (caught.value.needed, caught.value.found) == (needed, before)
    assert not old.sent()
    new.js.create_consumer("S", config, now=new.now)
    assert new.sent()


def test_unpinning_on_an_older_server() -> None:
    old = Harness(info={"version": "2.10.26"})
    with pytest.raises(UnsupportedByServerError, match=r"2\.11"):
        old.js.unpin_consumer("S", "C", "g", now=old.now)
    assert not old.sent()


RESET = {**info(), "reset_seq": 4, "delivered": {"consumer_seq": 0, "stream_seq": 3}}
FOUND = info(metadata={"_nats.level": "4", "_nats.ver": "2.14.0"})


@requirement(167, 168, 169, 174, 175)
@pytest.mark.parametrize(("seq", "payload"), [(None, b""), (4, b'{"seq":4}'), (2**64 - 1, b'{"seq":%d}' % (2**64 - 1))])
def test_resetting(seq: int | None, payload: bytes) -> None:
    harness = Harness()
    ticket = harness.js.reset_consumer("S", "C", seq, now=harness.now)
    (asked,) = harness.answer(lambda _: FOUND)
    assert asked.subject == b"$JS.API.CONSUMER.INFO.S.C"
    (pub,) = harness.answer(lambda _: RESET)
    assert (pub.subject, pub.payload) == (b"$JS.API.CONSUMER.RESET.S.C", payload)
    assert pub.header == b"NATS/1.0\r\nNats-Stream-Identity: \r\n\r\n"
    reset = ticket.result()
    assert (reset.reset_seq, reset.info.name, reset.info.delivered.stream_seq) == (4, "C", 3)
    assert (reset.stream_identity, reset.info.extra) == (None, {})


@requirement(177)
def test_what_cannot_be_reset_is_an_error_after_the_look_up() -> None:
    harness = Harness()
    for err_code, expected in ((10014, ConsumerNotFoundError), (10059, StreamNotFoundError)):
        ticket = harness.js.reset_consumer("S", "C", now=harness.now)
        refusal = {"error": {"code": 404, "err_code": err_code, "description": "not found"}}
        harness.answer(lambda _, refusal=refusal: refusal)  # type: ignore[misc]
        assert isinstance(ticket.error, expected)
        assert not harness.sent()
    old = harness.js.reset_consumer("S", "C", now=harness.now)
    harness.answer(lambda _: info(metadata={"_nats.level": "3", "_nats.ver": "2.12.8"}))
    assert isinstance(old.error, UnsupportedByServerError)
    assert (old.error.needed, old.error.found) == ("2.14", "2.12.8")
    assert not harness.sent()


@pytest.mark.parametrize("metadata", [None, {"_nats.level": "x"}])
def test_a_server_that_does_not_say_its_level_is_asked_to_reset(metadata: dict[str, str] | None) -> None:
    harness = Harness()
    ticket = harness.js.reset_consumer("S", "C", now=harness.now)
    harness.answer(lambda _: info(metadata=metadata) if metadata else info())
    harness.answer(lambda _: info())
    assert isinstance(ticket.error, RemoteProtocolError)  # the answer has no reset_seq
    ticket = harness.js.reset_consumer("S", "C", now=harness.now, timeout=2)
    harness.answer(lambda _: FOUND)
    harness.now += 2
    harness.session.handle_timeout(harness.now)
    assert isinstance(ticket.error, TimeoutError)


@requirement(170)
def test_what_is_not_reset_because_of_the_arguments_or_the_server() -> None:
    harness = Harness()
    wrong: list[Any] = [0, -1, 2**64, True, "4", 1.0]
    for seq in wrong:
        with pytest.raises(LocalProtocolError, match="from 1 on"):
            harness.js.reset_consumer("S", "C", seq, now=harness.now)
    old = Harness(info={"version": "2.12.8"})
    with pytest.raises(UnsupportedByServerError):
        old.js.reset_consumer("S", "C", now=old.now)
    assert not harness.sent()
    assert not old.sent()
    elsewhere = JetStream(old.session, domain="hub").reset_consumer("S", "C", now=old.now)
    (asked,) = old.answer(lambda _: FOUND)
    assert asked.subject == b"$JS.hub.API.CONSUMER.INFO.S.C"
    old.answer(lambda _: RESET)
    assert elsewhere.result().reset_seq == 4
