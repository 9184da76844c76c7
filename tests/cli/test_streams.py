"""``jsproto stream`` and ``jsproto consumer``, on a real server and on one in memory."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from jsproto.api_errors import StreamNotFoundError
from jsproto.grammar.consumer import ConsumerReset
from jsproto_io.cli.commands.consumers import reset_json, reset_text
from jsproto_io.sync import JetStream, connect
from tests.cli.calling import Place
from tests.drivers.test_facade import unique
from tests.marks import promise, requirement


@pytest.fixture
def name(js: JetStream) -> Iterator[str]:
    """A stream of ten messages with a consumer, which may be deleted."""
    stream = unique("S")
    js.create_stream(stream, subjects=[f"{stream}.>"], allow_direct=True, storage="memory")
    for n in range(10):
        js.publish(f"{stream}.{n % 2}", b"%d" % n)
    js.create_consumer(stream, durable_name="C")
    yield stream
    with suppress(StreamNotFoundError):
        js.delete_stream(stream)


# -- streams -----------------------------------------------------------------------------------------------------------


def test_streams_are_listed(place: Place, name: str) -> None:
    lines = place.ok("stream", "ls").out.splitlines()
    assert [line.split()[:2] for line in lines if name in line] == [[name, "10"]]
    assert name in place.ok("stream", "ls", "--quiet").out.splitlines()
    found = place.ok("stream", "ls", "--subject", f"{name}.0", "--json").objects
    assert [each["config"]["name"] for each in found] == [name]
    assert place.ok("stream", "ls", "--subject", unique()).out == "no streams\n"
    assert place.ok("stream", "ls", "--subject", unique(), "--json").out == ""


def test_a_stream_is_shown(place: Place, name: str) -> None:
    shown = place.ok("stream", "info", name).out
    assert "10 (" in shown
    assert "1 to 10" in shown
    (data,) = place.ok("stream", "info", name, "--json").objects
    assert (data["config"]["name"], data["state"]["messages"]) == (name, 10)


def test_a_stream_is_created_with_all_that_was_asked_for(place: Place, js: JetStream) -> None:
    name = unique("S")
    line = place.ok(
        "stream", "create", name, "--subjects", f"{name}.a,{name}.b", "--subjects", f"{name}.c", "--storage", "memory",
        "--max-age", "1h", "--max-bytes", "1MB", "--max-msgs", "100", "--dupe-window", "30s", "--allow-rollup",
        "--deny-delete", "--metadata", "owner=me", "--set", "discard=new", "--description", "what it is",
        "--set", f'republish={{"src": "{name}.a", "dest": "copies"}}',
    ).out  # fmt: skip
    assert line == f"stream {name} is there, for {name}.a, {name}.b, {name}.c\n"
    config = js.stream_info(name).config
    assert config.subjects == [f"{name}.{each}" for each in "abc"]
    assert (config.storage, config.max_age, config.max_bytes, config.max_msgs) == ("memory", 3_600, 1_048_576, 100)
    assert (config.duplicate_window, config.allow_rollup_hdrs, config.deny_delete) == (30, True, True)
    assert f'{{"src": "{name}.a", "dest": "copies"}}' in place.ok("stream", "info", name, COLUMNS="120").out
    assert (config.discard, config.allow_direct, (config.metadata or {})["owner"]) == ("new", True, "me")
    js.delete_stream(name)


def test_a_stream_is_created_from_what_another_one_says(place: Place, js: JetStream, name: str, tmp_path: Path) -> None:
    path, copy = tmp_path / "stream.json", unique("S")
    path.write_bytes(place.ok("stream", "info", name, "--json").raw)
    (made,) = place.ok("stream", "create", copy, "--config", str(path), "--subjects", copy, "--json").objects
    assert made["config"]["name"] == copy
    assert (js.stream_info(copy).config.storage, js.stream_info(copy).config.subjects) == ("memory", [copy])
    js.delete_stream(copy)


def test_an_edit_changes_what_it_says_and_shows_it(place: Place, js: JetStream, name: str) -> None:
    before = js.stream_info(name).config.to_json()
    shown = place.ok("stream", "edit", name, "--max-age", "1d", "--no-allow-direct").out.splitlines()
    assert shown == [f"stream {name} changed", "allow_direct: unset, was on", "max_age: 1d, was unset"]
    after = js.stream_info(name).config.to_json()
    assert {key for key in before | after if before.get(key) != after.get(key)} <= {
        "allow_direct", "max_age", "duplicate_window", "metadata",
    }  # fmt: skip
    again = place.ok("stream", "edit", name, "--max-age", "1d").out
    assert again == f"stream {name} has that configuration already\n"


def test_a_purge_deletes_what_it_says(place: Place, js: JetStream, name: str) -> None:
    assert place.ok("stream", "purge", name, "--subject", f"{name}.0", "--keep", "2", "--force").out == (
        f"3 messages deleted from stream {name}\n"
    )
    (data,) = place.ok("stream", "purge", name, "--seq", "10", "--force", "--json").objects
    assert data == {"ok": True, "stream": name, "purged": 6}
    assert place.ok("stream", "purge", name, "--force", "--quiet").out == ""
    assert js.stream_info(name).state.messages == 0


def test_a_stream_and_a_consumer_are_deleted(place: Place, js: JetStream, name: str) -> None:
    assert place.ok("consumer", "rm", name, "C", "--force").out == f"consumer C of stream {name} deleted\n"
    assert js.consumer_names(name) == []
    (data,) = place.ok("stream", "rm", name, "--force", "--json").objects
    assert data == {"ok": True, "stream": name}
    with pytest.raises(StreamNotFoundError):
        js.stream_info(name)


@promise("Without a terminal they need `--force`.")
@pytest.mark.parametrize("arguments", [["stream", "purge", "S"], ["stream", "rm", "S"], ["consumer", "rm", "S", "C"]])
def test_nothing_is_destroyed_where_nobody_can_be_asked(memory: Place, arguments: list[str]) -> None:
    assert memory.fails(2, *arguments) == "there is no terminal to ask at: add --force"


@pytest.mark.parametrize(("answer", "code", "left"), [(b"y\n", 0, 0), (b"n\n", 1, 10), (b"\n", 1, 10)])
def test_at_a_terminal_it_asks(place: Place, js: JetStream, name: str, answer: bytes, code: int, left: int) -> None:
    done = place.call("stream", "purge", name, stdin=answer, tty=True)
    assert done.code == code
    assert done.err.startswith(f"Delete messages from stream {name}, which has 10? [y/N] ")
    assert ("not confirmed: nothing was changed" in done.err) == (code == 1)
    assert js.stream_info(name).state.messages == left


@pytest.mark.parametrize(
    ("arguments", "question"),
    [
        (["stream", "purge", "NAME", "--subject", "a", "--keep", "3"], "Delete messages of a, all but the last 3 from"),
        (
            ["stream", "purge", "NAME", "--seq", "5"],
            "Delete messages before sequence 5 from stream NAME, which has 10?",
        ),
        (["stream", "rm", "NAME"], "Delete stream NAME with 10 messages and 1 consumer?"),
        (
            ["consumer", "rm", "NAME", "C"],
            "Delete consumer C of stream NAME (10 messages to deliver, 0 awaiting acks)?",
        ),
    ],
)
def test_the_question_says_what_is_lost(place: Place, name: str, arguments: list[str], question: str) -> None:
    done = place.call(*(each.replace("NAME", name) for each in arguments), stdin=b"n\n", tty=True)
    assert (done.code, done.err.startswith(question.replace("NAME", name))) == (1, True), done.err


@requirement(264)
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["stream", "purge", "S", "--keep", "1", "--seq", "2", "--force"], "--keep or --seq, not both"),
        (["stream", "edit", "S"], "nothing to change"),
        (["stream", "create", "S", "--max-age", "1"], "--max-age: not a duration: '1'"),
        (["stream", "create", "S", "--max-bytes", "much"], "--max-bytes: not a size: 'much'"),
        (["stream", "create", "S", "--retention", "limit"], "retention"),
        (["stream", "create", "S", "--set", "max_msgs"], "--set: not a pair"),
        (["stream", "create", "S", "--set", "no_such=1"], "no_such is unknown"),
        (["stream", "create", "S", "--config", "missing.json"], "cannot read missing.json"),
        (["stream", "create", "S", "--config", os.devnull], "is no JSON object of a stream"),
        (["stream", "create", "a b"], "a b"),
        (["stream", "info", "a.b"], "a.b"),
        (["consumer", "create", "S", "C", "--ack-wait", "1"], "--ack-wait: not a duration: '1'"),
        (["consumer", "create", "S", "C", "--backoff", "1s,2"], "--backoff: not a duration: '2'"),
        (["consumer", "create", "S", "C", "--opt-start-time", "now"], "--opt-start-time: not a time with its zone"),
        (["consumer", "create", "S", "C", "--ack-policy", "some"], "ack_policy is 'none'"),
        (["consumer", "create", "S", "C", "--set", "no_such=1"], "no_such is unknown"),
        (["consumer", "create", "S", "C", "--config", os.devnull], "is no JSON object of a consumer"),
        (["consumer", "create", "S", "C", "--sourcing"], "--sourcing needs --deliver-subject"),
        (["consumer", "create", "S", "C", "--set", "durable_name=D"], "is named C: leave out --set durable_name"),
        (
            ["consumer", "create", "S", "C", "--sourcing", "--deliver-subject", "to", "--ack-policy", "explicit"],
            "settles ack_policy itself",
        ),
        (
            ["consumer", "create", "S", "C", "--sourcing", "--deliver-subject", "to", "--max-deliver", "3"],
            "has no limit of deliveries",
        ),
        (["consumer", "create", "S", "C", "--sourcing", "--deliver-subject", "to.*"], "to.*"),
        (["consumer", "create", "S", "a b"], "a b"),
        (["consumer", "pause", "S", "C", "soon"], "not a time with its zone: 'soon'"),
        (["stream", "nothing"], "see jsproto stream --help"),
        (["stream", "info"], "Missing argument 'STREAM': see jsproto stream info --help"),
        (["stream", "purge", "S", "--seq", "0"], "--seq"),
    ],
)
def test_what_is_wrong_is_one_line(memory: Place, arguments: list[str], why: str) -> None:
    assert why in memory.fails(2, *arguments)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["stream", "info", "NOWHERE"], "NOWHERE"),
        (["stream", "rm", "NOWHERE", "--force"], "not found"),
        (["consumer", "ls", "NOWHERE"], "not found"),
        (["consumer", "create", "NOWHERE", "C"], "not found"),
        (["consumer", "create", "NOWHERE", "C", "--sourcing", "--deliver-subject", "to"], "not found"),
    ],
)
def test_what_is_not_there_is_one_line(place: Place, arguments: list[str], why: str) -> None:
    assert why in place.fails(1, *arguments)


@promise("With `--json` standard output has JSON objects alone, one a line.")
def test_a_failure_is_an_object_too(place: Place) -> None:
    done = place.call("stream", "info", "NOWHERE", "--json")
    (data,) = done.objects
    assert (done.code, data["ok"]) == (1, False)
    assert "NOWHERE" in data["error"]


@pytest.mark.parametrize("width", [60, 80])
def test_tables_fit(place: Place, name: str, width: int) -> None:
    commands = (["stream", "ls"], ["stream", "info", name], ["consumer", "ls", name], ["consumer", "info", name, "C"])
    for arguments in commands:
        shown = place.ok(*arguments, COLUMNS=str(width)).out
        assert max(map(len, shown.splitlines())) <= width
        assert name in shown or arguments[:2] == ["consumer", "ls"]


# -- consumers ---------------------------------------------------------------------------------------------------------


def test_consumers_are_listed_and_shown(place: Place, js: JetStream, name: str) -> None:
    assert place.ok("consumer", "ls", name, "-q").out == "C\n"
    shown = place.ok("consumer", "ls", name).out.splitlines()
    assert [line.split() for line in shown if line.startswith("C")] == [["C", "pull,", "durable", "10", "0", "0", "0"]]
    assert [each["name"] for each in place.ok("consumer", "ls", name, "--json").objects] == ["C"]
    info = place.ok("consumer", "info", name, "C").out
    assert f"C of stream {name}" in info
    assert "nothing yet" in info
    with js.pull_subscribe_bind("C", name) as subscription:
        subscription.fetch(1)[0].ack_sync()
    assert "up to 1 of the stream (1 delivery), 20" in place.ok("consumer", "info", name, "C").out
    assert place.ok("consumer", "info", name, "C", "--json").objects[0]["num_pending"] == 9
    place.ok("consumer", "rm", name, "C", "--force")
    assert place.ok("consumer", "ls", name).out == f"no consumers of stream {name}\n"


def test_a_consumer_is_created_with_all_that_was_asked_for(place: Place, js: JetStream, name: str) -> None:
    line = place.ok(
        "consumer", "create", name, "D", "--filter-subject", f"{name}.0,{name}.1", "--filter-subject", f"{name}.x",
        "--opt-start-seq", "3", "--ack-wait", "1m", "--max-deliver", "4", "--backoff", "1s,30s",
        "--max-ack-pending", "7", "--headers-only", "--description", "what it is", "--metadata", "owner=me",
        "--set", "max_batch=9",
    ).out  # fmt: skip
    assert line == f"consumer D of stream {name} is there, pull, durable\n"
    config = js.consumer_info(name, "D").config
    assert config.filter_subjects == [f"{name}.{each}" for each in "01x"]
    assert (config.deliver_policy, config.opt_start_seq, config.max_deliver) == ("by_start_sequence", 3, 4)
    assert (config.backoff, config.max_ack_pending, config.headers_only) == ([1, 30], 7, True)
    assert (config.max_batch, config.description, (config.metadata or {})["owner"]) == (9, "what it is", "me")
    (again,) = place.ok(
        "consumer", "create", name, "E", "--opt-start-time", "2026-11-25T16:31:00Z", "--inactive-threshold", "1h",
        "--filter-subject", f"{name}.0", "--deliver-subject", f"to.{name}", "--deliver-group", "g", "--replicas", "1",
        "--json",
    ).objects  # fmt: skip
    assert (again["config"]["opt_start_time"], again["config"]["filter_subject"]) == (
        "2026-11-25T16:31:00Z",
        f"{name}.0",
    )
    assert (again["config"]["deliver_group"], again["config"]["inactive_threshold"]) == ("g", 3_600_000_000_000)


def test_a_consumer_is_created_from_what_another_one_says(
    place: Place, js: JetStream, name: str, tmp_path: Path
) -> None:
    path = tmp_path / "consumer.json"
    path.write_bytes(place.ok("consumer", "info", name, "C", "--json").raw)
    place.ok("consumer", "create", name, "COPY", "--config", str(path), "--ack-wait", "5s")
    config = js.consumer_info(name, "COPY").config
    assert (config.durable_name, config.ack_wait, config.ack_policy) == ("COPY", 5, "explicit")


@requirement(264)
def test_a_stream_copies_from_a_consumer_that_the_command_made(place: Place, js: JetStream) -> None:
    """A work queue is moved by a source that names it. A start and a filter are the consumer's."""
    queue, copy, to = unique("Q"), unique("T"), unique("to")
    js.create_stream(queue, subjects=[f"{queue}.>"], retention="workqueue", storage="memory")
    for n in range(5):
        js.publish(f"{queue}.{n % 2}", b"%d" % n)
    arguments = (
        "consumer",
        "create",
        queue,
        "D",
        "--sourcing",
        "--deliver-subject",
        to,
        "--filter-subject",
        f"{queue}.0",
    )
    assert place.ok(*arguments).out == f"consumer D of stream {queue} is there, push, durable\n"
    config = js.consumer_info(queue, "D").config
    assert (config.ack_policy, config.flow_control, config.idle_heartbeat) == ("flow_control", True, 1.0)
    js.create_stream(
        copy, sources=[{"name": queue, "consumer": {"name": "D", "deliver_subject": to}}], storage="memory"
    )
    until = time.monotonic() + 30
    while js.stream_info(queue).state.messages > 2:
        assert time.monotonic() < until
        time.sleep(0.05)
    assert js.stream_info(copy).state.messages == 3
    inside = place.fails(2, *arguments[:3], "E", *arguments[4:6], f"{queue}.in")
    assert f"deliver_subject {queue}.in is inside {queue}" in inside
    js.delete_stream(copy)
    js.delete_stream(queue)


def test_a_consumer_pauses_and_goes_on(place: Place, js: JetStream, name: str) -> None:
    assert f"consumer C of stream {name} is paused until " in place.ok("consumer", "pause", name, "C", "1h").out
    assert js.consumer_info(name, "C").paused
    assert "paused for" in place.ok("consumer", "info", name, "C").out
    assert place.ok("consumer", "resume", name, "C").out == f"consumer C of stream {name} goes on\n"
    assert not js.consumer_info(name, "C").paused
    (data,) = place.ok("consumer", "pause", name, "C", "2100-01-01T00:00:00Z", "--json").objects
    assert (data["ok"], data["paused"], data["pause_until"]) == (True, True, "2100-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("pending", "identity", "text"),
    [
        (1, None, "consumer C? of stream S goes on at sequence 1,200: 1 message to deliver"),
        (3_000, "ID", "consumer C? of stream S goes on at sequence 1,200: 3,000 messages to deliver"),
    ],
)
def test_a_reset_in_words_and_as_json(pending: int, identity: str | None, text: str) -> None:
    body = {"stream_name": "S", "name": "C\x1b", "config": {}, "num_pending": pending, "reset_seq": 1_200}
    reset = ConsumerReset.from_json(json.loads(json.dumps(body)), identity)
    assert reset_text(reset) == text
    assert reset_json(reset) == {
        "stream": "S", "consumer": "C\x1b", "reset_seq": 1_200, "pending": pending, "stream_identity": identity,
    }  # fmt: skip


# -- what a server cannot show -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("entries", [0, 1])
def test_a_stream_that_the_server_cannot_show_is_named(place: Place, name: str, entries: int, as_json: bool) -> None:
    """Its list says that a stream without a leader is missing, and that another one needs a newer server."""
    with connect(place.url) as nc:
        found = json.loads(nc.request("$JS.API.STREAM.LIST", json.dumps({"subject": f"{name}.0"}).encode()).data)
        found |= {"streams": found["streams"][:entries], "missing": ["LOST"], "offline": {"NEWER": "needs level 9"}}
        found["total"] = entries + 2
        nc.subscribe("$JS.half.API.STREAM.LIST", cb=lambda asked: asked.respond(json.dumps(found).encode()))
        nc.flush()
        done = place.call("stream", "ls", "--js-domain", "half", *(["--json"] if as_json else []))
    assert done.code == 0
    assert (name in done.out) is bool(entries)
    assert "no streams" not in done.out
    assert done.err == "jsproto: the server could not show: LOST, NEWER\n"
