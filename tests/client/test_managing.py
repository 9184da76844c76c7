"""Managing streams: which subject, which body, which answer, and lists page by page."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from jsproto.api_errors import (
    APIRequiredApiLevelError,
    ConsumerNotFoundError,
    PedanticError,
    StreamMsgDeleteFailedError,
    StreamNotFoundError,
)
from jsproto.client.manage import pages
from jsproto.client.manage.pages import Pages
from jsproto.errors import (
    BadSubjectError,
    ConnectionClosedError,
    LocalProtocolError,
    MessageNotFoundError,
    NoMatchingStreamError,
    RemoteProtocolError,
    TimeoutError,
    UnsupportedByServerError,
)
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.wire.frames import Pub
from tests.harness import Harness
from tests.marks import promise


def refusal(code: int, err_code: int, description: str) -> dict[str, Any]:
    return {"error": {"code": code, "err_code": err_code, "description": description}}


NO_STREAM = refusal(404, 10059, "stream not found")


def paged(field: str, entries: list[Any], size: int) -> Callable[[Pub], dict[str, Any]]:
    """A server that has ``entries`` and shows ``size`` of them at once."""

    def answer(pub: Pub) -> dict[str, Any]:
        offset = json.loads(pub.payload)["offset"]
        return {field: entries[offset : offset + size], "total": len(entries), "offset": offset, "limit": size}

    return answer


def said(answer: dict[str, Any], pub: Pub) -> dict[str, Any]:
    return answer


def info(name: str) -> dict[str, Any]:
    return {"config": {"name": name}, "state": {}}


# -- lists -------------------------------------------------------------------------------------------------------------


@promise("`stream_names`, `consumer_names` and `stream_subjects` return all pages at once.")
def test_names_of_streams() -> None:
    harness = Harness()
    names = [f"S{number}" for number in range(5)]
    ticket = harness.js.stream_names(now=harness.now)
    asked = [pub for _ in range(4) for pub in harness.answer(paged("streams", names, 2))]
    assert {pub.subject for pub in asked} == {b"$JS.API.STREAM.NAMES"}
    assert [json.loads(pub.payload) for pub in asked] == [{"offset": 0}, {"offset": 2}, {"offset": 4}]
    assert ticket.result() == names
    ticket = harness.js.stream_names("s.*", now=harness.now)
    (pub,) = harness.answer(paged("streams", ["S1"], 2))
    assert json.loads(pub.payload) == {"offset": 0, "subject": "s.*"}
    assert ticket.result() == ["S1"]


@promise("`streams` and `consumers` are iterators, which fetch the next page as it is taken.")
def test_a_page_is_requested_when_the_one_before_it_was_taken() -> None:
    harness = Harness()
    listed = harness.js.streams("s.>")
    assert (listed.total, listed.finished) == (None, False)
    assert harness.published() == []
    first = listed.readable(harness.now)
    assert listed.readable(harness.now) is first  # one request at a time
    (pub,) = harness.answer(paged("streams", [info("A"), info("B"), info("C")], 2))
    assert (pub.subject, json.loads(pub.payload)) == (b"$JS.API.STREAM.LIST", {"offset": 0, "subject": "s.>"})
    assert first.done
    assert (listed.total, listed.shown, listed.finished) == (3, 2, False)
    assert harness.published() == []
    assert [each.config.name for each in listed.take()] == ["A", "B"]
    listed.readable(harness.now)
    (pub,) = harness.answer(paged("streams", [info("A"), info("B"), info("C")], 2))
    assert json.loads(pub.payload)["offset"] == 2
    assert not listed.finished
    assert [each.config.name for each in listed.take()] == ["C"]
    assert listed.finished
    assert listed.take() == []


def test_a_page_that_did_not_come_is_requested_again() -> None:
    harness = Harness()
    listed = harness.js.streams(timeout=1)
    answer = paged("streams", [info("A"), info("B")], 1)
    listed.readable(harness.now)
    harness.answer(answer)
    failed = listed.readable(harness.now)
    harness.advance(1)
    assert isinstance(failed.error, TimeoutError)
    assert [each.config.name for each in listed.take()] == ["A"]
    harness.published()
    listed.readable(harness.now)
    (pub,) = harness.answer(answer)
    assert json.loads(pub.payload)["offset"] == 1
    assert [each.config.name for each in listed.take()] == ["B"]


def test_entries_that_the_server_could_not_show_are_named_and_passed_over() -> None:
    harness = Harness()
    ticket_pages = harness.js.streams()
    answers = [
        {"streams": [info("A")], "total": 4, "missing": ["B", "C"], "offline": {"C": "no api level 9"}},
        {"streams": [info("D")], "total": 4, "missing": None},
    ]
    whole = harness.session.run(ticket_pages.whole(harness.now))
    offsets = [json.loads(pub.payload)["offset"] for answer in answers for pub in harness.answer(partial(said, answer))]
    assert offsets == [0, 3]
    assert [each.config.name for each in whole.result()] == ["A", "D"]
    assert ticket_pages.missing == ["B", "C"]


@pytest.mark.parametrize(
    "answer",
    [
        {"streams": "A", "total": 1},
        {"streams": [info("A")]},
        {"streams": [info("A")], "total": True},
        {"streams": [{}], "total": 1},
        {"streams": [], "total": 1, "missing": "A"},
        {"streams": [], "total": 1, "missing": [5]},
        {"streams": [], "total": 1, "offline": ["A"]},
    ],
)
def test_pages_that_are_none(answer: dict[str, Any]) -> None:
    harness = Harness()
    ticket = harness.js.streams().readable(harness.now)
    harness.answer(lambda _: answer)
    assert isinstance(ticket.error, RemoteProtocolError)


def test_a_list_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MAX_PAGES", 3)
    harness = Harness()
    ticket = harness.js.stream_names(now=harness.now)
    for _ in range(3):
        harness.answer(lambda _: {"streams": ["S"], "total": 10**9})
    assert ticket.result() == ["S"] * 3


def test_a_list_after_the_end() -> None:
    harness = Harness()
    listed: Pages[Any] = harness.js.streams()
    harness.session.close(harness.now)
    with pytest.raises(ConnectionClosedError):
        listed.readable(harness.now)


def test_finding_a_stream() -> None:
    harness = Harness()
    for names, error in (([], "no stream has it"), ([*"ABCDEFG"], "several streams have it: A, B, C, D, E and 2 more")):
        found = harness.js.find_stream("s.a", now=harness.now)
        harness.answer(paged("streams", names, 10))
        assert isinstance(found.error, NoMatchingStreamError)
        assert f"no single stream for 's.a': {error}" in str(found.error)
        assert found.error.subject == "s.a"
    found = harness.js.find_stream("s.a", now=harness.now)
    harness.answer(paged("streams", ["S"], 10))
    assert found.result() == "S"


def test_subjects_with_counts() -> None:
    harness = Harness()
    ticket = harness.js.stream_subjects("S", "s.*", now=harness.now)
    counts = {f"s.{letter}": number for number, letter in enumerate("abc", 1)}

    def answer(pub: Pub) -> dict[str, Any]:
        offset = json.loads(pub.payload)["offset"]
        page = dict([*counts.items()][offset : offset + 2])
        return info("S") | {"state": {"subjects": page}, "total": 3, "offset": offset, "limit": 2}

    asked = [pub for _ in range(3) for pub in harness.answer(answer)]
    assert {pub.subject for pub in asked} == {b"$JS.API.STREAM.INFO.S"}
    assert [json.loads(pub.payload) for pub in asked] == [
        {"subjects_filter": "s.*", "offset": 0}, {"subjects_filter": "s.*", "offset": 1},
    ]  # fmt: skip
    assert ticket.result() == counts
    ticket = harness.js.stream_subjects("S", now=harness.now)
    (pub,) = harness.answer(lambda _: info("S") | {"state": {"subjects": {"\ufffd": 1}}})
    assert json.loads(pub.payload)["subjects_filter"] == ">"
    assert ticket.result() == {"\ufffd": 1}  # it is not asked for by its name
    gone = harness.js.stream_subjects("S", now=harness.now)
    harness.answer(lambda _: NO_STREAM)
    assert isinstance(gone.error, StreamNotFoundError)


def test_subjects_that_cannot_be_asked_for() -> None:
    harness = Harness()
    verbs: list[Callable[[str], Any]] = [
        lambda subject: harness.js.streams(subject),
        lambda subject: harness.js.stream_names(subject, now=harness.now),
        lambda subject: harness.js.find_stream(subject, now=harness.now),
        lambda subject: harness.js.stream_subjects("S", subject, now=harness.now),
        lambda subject: harness.js.purge_stream("S", subject=subject, now=harness.now),
    ]
    for verb in verbs:
        for subject in ("", "a b", "a..b", ">.a"):
            with pytest.raises(BadSubjectError):
                verb(subject)
    with pytest.raises(BadSubjectError):
        harness.js.stream_subjects("a.b", now=harness.now)
    assert harness.published() == []


# -- messages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "body"),
    [
        ({}, None),
        ({"subject": "s.*"}, {"filter": "s.*"}),
        ({"keep": 0}, {"keep": 0}),
        ({"keep": 5, "subject": "s.a"}, {"filter": "s.a", "keep": 5}),
        ({"seq": 7}, {"seq": 7}),
        ({"seq": 2**64 - 1, "subject": "s.a"}, {"filter": "s.a", "seq": 2**64 - 1}),
    ],
)
def test_purging(arguments: dict[str, Any], body: dict[str, Any] | None) -> None:
    harness = Harness()
    ticket = harness.js.purge_stream("S", now=harness.now, **arguments)
    (pub,) = harness.answer(lambda _: {"success": True, "purged": 3})
    assert pub.subject == b"$JS.API.STREAM.PURGE.S"
    assert (json.loads(pub.payload) if pub.payload else None) == body
    assert ticket.result() == 3


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"keep": 1, "seq": 2}, "keep or seq, not both"),
        ({"keep": -1}, "keep is how many messages stay, 0 or more, not -1"),
        ({"keep": True}, "keep is how many"),
        ({"keep": 2**64}, "keep is how many"),
        ({"seq": 0}, "those start at 1, not 0"),
        ({"seq": "4"}, "seq must be a stream sequence"),
    ],
)
def test_purges_that_are_refused_here(arguments: dict[str, Any], complaint: str) -> None:
    harness = Harness()
    with pytest.raises(LocalProtocolError, match=complaint):
        harness.js.purge_stream("S", now=harness.now, **arguments)
    assert harness.published() == []


def test_deleting_messages() -> None:
    harness = Harness()
    for verb, body in (
        (harness.js.delete_msg, {"seq": 4, "no_erase": True}),
        (harness.js.secure_delete_msg, {"seq": 4}),
    ):
        ticket = verb("S", 4, now=harness.now)
        (pub,) = harness.answer(lambda _: {"success": True})
        assert (pub.subject, json.loads(pub.payload)) == (b"$JS.API.STREAM.MSG.DELETE.S", body)
        assert ticket.result() is True
        wrong: list[Any] = [0, -1, True, "4", 2**64]
        for seq in wrong:
            with pytest.raises(LocalProtocolError, match="seq must be a stream sequence"):
                verb("S", seq, now=harness.now)
    assert harness.published() == []


@pytest.mark.parametrize(
    "answer",
    [
        refusal(400, 10043, "sequence 4 not found"),
        refusal(500, 10057, "no message found"),
        refusal(500, 10057, "stream store EOF"),
    ],
)
def test_deleting_what_is_not_there(answer: dict[str, Any]) -> None:
    harness = Harness()
    ticket = harness.js.delete_msg("S", 4, now=harness.now)
    harness.answer(lambda _: answer)
    assert isinstance(ticket.error, MessageNotFoundError)
    assert str(ticket.error).endswith("message 4 of stream S")


def test_a_deletion_that_is_refused() -> None:
    harness = Harness()
    ticket = harness.js.delete_msg("S", 4, now=harness.now)
    harness.answer(lambda _: refusal(500, 10057, "message delete not permitted"))
    assert isinstance(ticket.error, StreamMsgDeleteFailedError)


# -- what is demanded of the server ------------------------------------------------------------------------------------

CONFIG = StreamConfig("S")
CONSUMER = ConsumerConfig(name="C", filter_subject="s.*")
VERBS: dict[str, Callable[..., Any]] = {
    "create_stream": lambda harness, **options: harness.js.create_stream(CONFIG, now=harness.now, **options),
    "update_stream": lambda harness, **options: harness.js.update_stream(CONFIG, now=harness.now, **options),
    "change_stream": lambda harness, **options: harness.js.change_stream("S", {}, now=harness.now, **options),
    "create_consumer": lambda harness, **options: harness.js.create_consumer("S", CONSUMER, now=harness.now, **options),
    "update_consumer": lambda harness, **options: harness.js.update_consumer("S", CONSUMER, now=harness.now, **options),
    "change_consumer": lambda harness, **options: harness.js.change_consumer("S", "C", {}, now=harness.now, **options),
}


def found(pub: Pub) -> dict[str, Any]:
    if b"CONSUMER" in pub.subject:
        return {"stream_name": "S", "name": "C", "config": CONSUMER.to_json()}
    return info("S")


@pytest.mark.parametrize("name", VERBS)
def test_pedantic_and_a_required_level(name: str) -> None:
    harness = Harness()
    options: dict[str, Any]
    for options, header, is_pedantic in (
        ({}, None, None),
        ({"pedantic": True}, None, True),
        ({"required_api_level": 4}, b"NATS/1.0\r\nNats-Required-Api-Level: 4\r\n\r\n", None),
        ({"required_api_level": 0, "pedantic": True}, b"NATS/1.0\r\nNats-Required-Api-Level: 0\r\n\r\n", True),
    ):
        ticket = VERBS[name](harness, **options)
        if name.startswith("change"):
            harness.answer(found)
        (pub,) = harness.answer(found)
        assert pub.header == header
        assert json.loads(pub.payload).get("pedantic") == is_pedantic
        assert ticket.done
        assert ticket.error is None


@pytest.mark.parametrize("name", VERBS)
def test_demands_that_the_server_refuses(name: str) -> None:
    harness = Harness()
    for answer, kind in (
        (refusal(412, 10185, "JetStream minimum api level required"), APIRequiredApiLevelError),
        (refusal(400, 10157, "pedantic mode: max_age needs to be set"), PedanticError),
    ):
        ticket = VERBS[name](harness, pedantic=True, required_api_level=99)
        if name.startswith("change"):
            harness.answer(found)
        harness.answer(lambda _, answer=answer: answer)  # type: ignore[misc]
        assert isinstance(ticket.error, kind)
        assert "stream S" in str(ticket.error)


@promise("A server that is too old for these options is an `UnsupportedByServerError`.")
@pytest.mark.parametrize("name", VERBS)
def test_demands_that_an_old_server_would_pass_over(name: str) -> None:
    options: dict[str, Any]
    for version, options, needed in (
        ("2.11.11", {"required_api_level": 1}, "2.12"),
        ("2.10.29", {"pedantic": True}, "2.11"),
    ):
        harness = Harness(info={"version": version})
        error = ended(partial(VERBS[name], harness, **options), harness)
        assert isinstance(error, UnsupportedByServerError)
        assert (error.needed, error.found) == (needed, version)
        assert all(pub.subject.split(b".")[3] == b"INFO" for pub in harness.published())


def ended(verb: Callable[[], Any], harness: Harness) -> Any:
    """The error that ``verb`` raises, or that its ticket ends with after a look-up."""
    try:
        ticket = verb()
    except LocalProtocolError as error:
        return error
    except UnsupportedByServerError as error:
        return error
    harness.answer(found)
    return ticket.error


@pytest.mark.parametrize("name", VERBS)
def test_levels_that_are_none(name: str) -> None:
    harness = Harness()
    wrong: list[Any] = [-1, "4", True, 1.0]
    for level in wrong:
        error = ended(partial(VERBS[name], harness, required_api_level=level), harness)
        assert isinstance(error, LocalProtocolError)
        assert "an API level is a number" in str(error)
    assert harness.published() == []


@promise("Fields and words of a newer server stay as they are.")
def test_a_word_is_checked_before_a_creation_alone() -> None:
    """A newer server may say words that this library lacks, and they go back to it."""
    harness = Harness()
    newer: Any = {"retention": "forever"}
    with pytest.raises(LocalProtocolError, match="stream option retention is 'limits', 'interest' or 'workqueue'"):
        harness.js.create_stream(StreamConfig("S", **newer), now=harness.now)
    with pytest.raises(LocalProtocolError, match="consumer option ack_policy is .*: did you mean 'explicit'"):
        harness.js.create_consumer("S", ConsumerConfig(ack_policy="explict"), now=harness.now)  # type: ignore[arg-type]
    assert harness.published() == []
    changed = harness.js.change_stream("S", {"max_msgs": 5}, now=harness.now)
    harness.answer(lambda _: {"config": {"name": "S", **newer}})
    (pub,) = harness.answer(lambda pub: {"config": json.loads(pub.payload)})
    assert json.loads(pub.payload) == {"name": "S", "max_msgs": 5, **newer}
    assert changed.result().config.retention == "forever"
    changed_consumer = harness.js.change_consumer("S", "C", {"max_deliver": 5}, now=harness.now)
    config = {"name": "C", "ack_policy": "twice"}
    harness.answer(lambda _: {"stream_name": "S", "name": "C", "config": config})
    (pub,) = harness.answer(lambda _: {"stream_name": "S", "name": "C", "config": config})
    assert json.loads(pub.payload)["config"] == config | {"max_deliver": 5}
    assert changed_consumer.done


# -- pauses ------------------------------------------------------------------------------------------------------------

PAUSE = b"$JS.API.CONSUMER.PAUSE.S.C"


def test_pausing_until_a_moment() -> None:
    harness = Harness()
    for until in (1_000_000_000, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)):
        ticket = harness.js.pause_consumer("S", "C", until, now=harness.now)
        (pub,) = harness.answer(lambda _: {"paused": True, "pause_until": "1970-01-01T00:00:01Z"})
        assert (pub.subject, pub.payload) == (PAUSE, b'{"pause_until":"1970-01-01T00:00:01Z"}')
        assert ticket.result().pause_until == 1_000_000_000


def test_pausing_for_a_while_goes_by_the_clock_of_the_server() -> None:
    harness = Harness()
    ticket = harness.js.pause_consumer("S", "C", timedelta(hours=1), now=harness.now)
    (asked,) = harness.answer(lambda pub: found(pub) | {"ts": "2026-11-25T16:00:00.5Z"})
    assert asked.subject == b"$JS.API.CONSUMER.INFO.S.C"
    (pub,) = harness.answer(lambda _: {"paused": True, "pause_until": "2026-11-25T17:00:00.5Z"})
    assert (pub.subject, pub.payload) == (PAUSE, b'{"pause_until":"2026-11-25T17:00:00.5Z"}')
    assert ticket.result().paused
    silent = harness.js.pause_consumer("S", "C", timedelta(hours=1), now=harness.now)
    harness.answer(found)
    assert isinstance(silent.error, RemoteProtocolError)
    gone = harness.js.pause_consumer("S", "C", timedelta(hours=1), now=harness.now)
    harness.answer(lambda _: refusal(404, 10014, "consumer not found"))
    assert isinstance(gone.error, ConsumerNotFoundError)
    assert str(gone.error) == "consumer not found: consumer C of stream S (code 404, err_code 10014)"


def test_resuming() -> None:
    harness = Harness()
    ticket = harness.js.resume_consumer("S", "C", now=harness.now)
    (pub,) = harness.answer(lambda _: {"paused": False})
    assert (pub.subject, pub.payload) == (PAUSE, b"{}")
    assert not ticket.result().paused


def test_pauses_that_cannot_be() -> None:
    harness = Harness()
    wrong: list[Any] = [
        timedelta(), timedelta(seconds=-1), datetime(2026, 1, 1), "1h", 1.5, True, None,
        timedelta.max,
    ]  # fmt: skip
    for until in wrong:
        with pytest.raises(LocalProtocolError):
            harness.js.pause_consumer("S", "C", until, now=harness.now)
    assert harness.published() == []
    old = Harness(info={"version": "2.10.29"})
    for until in (1, timedelta(1)):
        with pytest.raises(UnsupportedByServerError):
            old.js.pause_consumer("S", "C", until, now=old.now)
    with pytest.raises(UnsupportedByServerError):
        old.js.resume_consumer("S", "C", now=old.now)
    assert old.published() == []
