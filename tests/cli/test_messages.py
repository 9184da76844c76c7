"""``jsproto pub``, ``sub``, ``get`` and ``consume``, on a real server and on one in memory."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jsproto_io.cli.messages import payload_text
from jsproto_io.sync import JetStream, connect
from tests.cli.calling import Place
from tests.cli.conftest import REAL
from tests.drivers.test_facade import unique
from tests.marks import promise

BINARY = bytes(range(256))
ON_REAL = pytest.mark.parametrize("place", [REAL], indirect=True)
"""What runs in a process of its own, once."""


@pytest.fixture
def name(js: JetStream) -> Iterator[str]:
    """A stream without messages."""
    stream = unique("S")
    js.create_stream(stream, subjects=[f"{stream}.>"], allow_direct=True, storage="memory")
    yield stream
    js.delete_stream(stream)


@pytest.fixture
def full(js: JetStream, name: str) -> str:
    """The same with ten messages of two subjects."""
    for n in range(10):
        js.publish(f"{name}.{n % 2}", b"%d" % n)
    return name


def stored(js: JetStream, stream: str) -> list[bytes]:
    return [message.data for message in js.get_batch(stream)]


# -- pub ---------------------------------------------------------------------------------------------------------------


def test_a_message_with_headers_is_published_once(place: Place, js: JetStream, name: str) -> None:
    arguments = ("pub", f"{name}.a", "hello", "-H", "A: 1", "--header", "A: 2", "--msg-id", "m1")
    assert place.ok(*arguments).out == f"stored as 1 of stream {name}\n"
    assert place.ok(*arguments).out == f"stored as 1 of stream {name}, 1 there before\n"
    assert place.ok(*arguments, "--json").objects == [{"stream": name, "seq": 1, "duplicate": True}]
    message = js.get_msg(name, 1)
    assert (message.data, message.headers.get_all("A")) == (b"hello", ["1", "2"])


def test_lines_and_files_are_published(place: Place, js: JetStream, name: str, tmp_path: Path) -> None:
    first = place.ok("pub", f"{name}.a", "--msg-id", "x-{n}", stdin=b"one\r\n\n\xff\nlast").out
    assert first == f"4 messages stored, the last as 4 of stream {name}\n"
    path = tmp_path / "payload"
    path.write_bytes(BINARY)
    assert len(place.ok("pub", f"{name}.a", "--file", str(path), "--file", str(path), "--json").objects) == 2
    place.ok("pub", f"{name}.a", "--file", "-", "--quiet", stdin=b"a\nb\n")
    assert stored(js, name) == [b"one", b"", b"\xff", b"last", BINARY, BINARY, b"a\nb\n"]
    assert place.ok("pub", f"{name}.a", stdin=b"").out == "no lines: nothing was published\n"


def test_a_message_ends_or_waits(place: Place, js: JetStream) -> None:
    name = unique("S")
    js.create_stream(
        name, subjects=[f"{name}.>"], storage="memory", allow_direct=True, allow_msg_ttl=True, allow_msg_schedules=True
    )
    place.ok("pub", f"{name}.a", "x", "--ttl", "1h")
    place.ok("pub", f"{name}.a", "x", "--ttl", "never", "-H", "A: b")
    place.ok("pub", f"{name}.later", "x", "--delay", "1h", "--target", f"{name}.due", "--ttl", "90s")
    first, second, third = js.get_batch(name)
    assert dict(first.headers.items()) == {"Nats-TTL": "3600"}
    assert dict(second.headers.items()) == {"A": "b", "Nats-TTL": "never"}
    assert third.headers["Nats-Schedule"].startswith("@at 20")
    assert (third.headers["Nats-Schedule-Target"], third.headers["Nats-Schedule-TTL"]) == (f"{name}.due", "90")
    place.ok("pub", f"{name}.later", "now", "--delay", "0s", "--target", f"{name}.due")
    assert place.ok("consume", name, "--filter", f"{name}.due", "--follow", "--count", "1", "--raw").out == "now\n"
    js.delete_stream(name)


def test_a_stream_that_knows_no_ttl_and_no_delay_says_so(place: Place, name: str) -> None:
    edit = "jsproto stream edit STREAM"
    line = place.fails(1, "pub", f"{name}.a", "x", "--ttl", "1h")
    assert line == f"per-message TTL is disabled: {edit} --allow-msg-ttl"
    line = place.fails(1, "pub", f"{name}.a", "x", "--delay", "1h", "--target", f"{name}.b")
    assert line == f"message schedules is disabled: {edit} --allow-msg-schedules"


def test_without_a_stream_core_publishes(place: Place) -> None:
    subject = unique()
    assert place.fails(1, "pub", subject, "x").endswith("; --core publishes without one")
    with connect(place.url) as nc, nc.subscribe(subject) as subscription:
        nc.flush()
        assert place.ok("pub", subject, "x", "--core", "-H", "A: b").out == "1 message published\n"
        message = subscription.next_msg(timeout=5)
    assert (message.data, dict(message.headers.items())) == (b"x", {"A": "b"})


def test_a_message_that_is_too_large_says_what_was_stored(place: Place, js: JetStream, name: str) -> None:
    line = place.fails(1, "pub", f"{name}.a", stdin=b"small\n" + b"x" * 1_100_000)
    assert line.startswith("message 2: ")
    assert line.endswith("; 1 message stored before")
    assert stored(js, name) == [b"small"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["a b", "x"], "a b"),
        (["a.*", "x"], "a.*"),
        (["a", "x", "--header", "none"], "--header: not a header"),
        (["a", "x", "--ttl", "5"], "--ttl: not a duration: '5'"),
        (["a", "x", "--ttl", "500ms"], "ttl must be 1 second to 292 years (seconds, not nanoseconds), not 0.5"),
        (["a", "x", "--ttl", "5m", "-H", "Nats-TTL: 5m"], "Nats-TTL is given twice"),
        (["a", "x", "--delay", "-5s", "--target", "b"], "--delay: not a duration"),
        (["a", "x", "--delay", "5s"], "--delay and --target go together"),
        (["a", "x", "--target", "b"], "--delay and --target go together"),
        (["a", "x", "--delay", "5s", "--target", "a"], "must not be the subject of the schedule itself"),
        (["a", "--delay", "5s", "--target", "b"], "--delay is for one message"),
        (["a", "x", "--core", "--ttl", "5m"], "--core goes without"),
        (["a", "x", "--file", "f"], "BODY or --file, not both"),
        (["a", "--file", "missing"], "cannot read missing"),
        (["a", "--msg-id", "m"], "write {n} for the number"),
        (["a", "x", "--core", "--msg-id", "m"], "--core goes without"),
    ],
)
def test_what_cannot_be_published_is_one_line(memory: Place, arguments: list[str], why: str) -> None:
    assert why in memory.fails(2, "pub", *arguments, stdin=b"")


# -- get ---------------------------------------------------------------------------------------------------------------


def sequences(place: Place, *arguments: str) -> list[int]:
    return [each["seq"] for each in place.ok("get", *arguments, "--json").objects]


@promise("With `--json` standard output has JSON objects alone, one a line.")
def test_stored_messages_are_read_in_every_way(place: Place, full: str) -> None:
    assert sequences(place, full, "3") == [3]
    assert sequences(place, full, "3", "--leader") == [3]
    assert sequences(place, full, "3-5") == [3, 4, 5]
    assert sequences(place, full, "9-") == [9, 10]
    assert sequences(place, full, "1-", "--subject", f"{full}.1", "--count", "2") == [2, 4]
    assert sequences(place, full, "--since", "1h") == [*range(1, 11)]
    assert sequences(place, full, "--since", "2100-01-01T00:00:00Z") == []
    assert sequences(place, full, "--last", "--subject", f"{full}.0") == [9]
    assert sequences(place, full, "--last", "--subject", f"{full}.0", "--subject", f"{full}.1") == [9, 10]
    assert sequences(place, full, "--last", "--subject", f"{full}.*") == [9, 10]
    assert sequences(place, full, "--snapshot") == [9, 10]
    assert sequences(place, full, "--snapshot", "--at", "7", "--subject", f"{full}.>") == [6, 7]
    (eighth,) = place.ok("get", full, "8", "--json").objects
    assert sequences(place, full, "--snapshot", "--at", eighth["time"]) == [6, 7]
    assert sequences(place, full, "--snapshot", "--at", "1h") == []
    assert sequences(place, full, "--snapshot", "--at", "0s") == [9, 10]


def test_a_stream_without_direct_gets_is_read_by_its_leader(place: Place, js: JetStream) -> None:
    stream = unique("S")
    js.create_stream(stream, subjects=[stream], storage="memory", allow_direct=False)
    js.publish(stream, b"0")
    assert sequences(place, stream, "1") == [1]
    assert sequences(place, stream, "--last", "--subject", stream) == [1]
    for arguments in (["1-"], ["--snapshot"], ["--since", "1h"], ["--last", "--subject", "*"]):
        line = place.fails(1, "get", stream, *arguments)
        assert line == f"stream {stream} allows no Direct Get: jsproto stream edit {stream} --allow-direct"
    js.delete_stream(stream)


def test_a_message_as_text_and_as_json(place: Place, js: JetStream, name: str) -> None:
    js.publish(f"{name}.a", "Zürich".encode(), headers={"Origin": "test"})
    js.publish(f"{name}.b", BINARY)
    lines = place.ok("get", name, "1").out.splitlines()
    assert lines[0].startswith("#1 20")
    assert lines[0].endswith(f"Z {name}.a")
    assert lines[1:] == ["Origin: test", "Zürich"]
    assert "(256 bytes, no text) 00 01 02" in place.ok("get", name, "2").out
    first, second = place.ok("get", name, "1-", "--json").objects
    assert (first["subject"], first["headers"], first["data"]) == (f"{name}.a", {"Origin": ["test"]}, "Zürich")
    assert base64.b64decode(second["data_base64"]) == BINARY


def test_raw_payloads_are_as_they_were(place: Place, js: JetStream, name: str) -> None:
    js.publish(f"{name}.a", BINARY)
    js.publish(f"{name}.a", b"x\n")
    assert place.ok("get", name, "1", "--raw").raw == BINARY
    assert place.ok("get", name, "1-", "--raw", "--null").raw == BINARY + b"\0x\n\0"
    assert place.ok("get", name, "2-", "--raw").raw == b"x\n\n"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["S"], "what to read?"),
        (["S", "0"], "SEQ: not a sequence: '0'"),
        (["S", "x"], "SEQ: not a sequence"),
        (["S", "5-3"], "the range 5-3 has nothing in it"),
        (["S", "5", "--snapshot"], "give one of SEQ"),
        (["S", "--last"], "--last needs --subject"),
        (["S", "--last", "--subject", "a", "--at", "5"], "--at needs --snapshot"),
        (["S", "--snapshot", "--at", "noon"], "--at: not a time"),
        (["S", "--since", "noon"], "--since: not a time"),
        (["S", "1-", "--subject", "a", "--subject", "b"], "one --subject"),
        (["S", "1-5", "--leader"], "--leader is for one message"),
        (["S", "1", "--null"], "--null needs --raw"),
    ],
)
def test_what_cannot_be_read_is_one_line(memory: Place, arguments: list[str], why: str) -> None:
    assert why in memory.fails(2, "get", *arguments)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["NOWHERE", "1", "--leader"], "NOWHERE"),
        (["NOWHERE", "1"], "stream not found: stream NOWHERE"),
        (["NOWHERE", "1-"], "stream not found: stream NOWHERE"),
    ],
)
def test_a_stream_that_is_not_there_cannot_be_read(place: Place, arguments: list[str], why: str) -> None:
    assert why in place.fails(1, "get", *arguments)


def test_raw_and_json_exclude_each_other(memory: Place) -> None:
    done = memory.call("get", "S", "1", "--raw", "--json")
    assert (done.code, done.objects[-1]["ok"]) == (2, False)


# -- consume -----------------------------------------------------------------------------------------------------------


def consumed(place: Place, *arguments: str) -> list[int]:
    return [each["seq"] for each in place.ok("consume", *arguments, "--json").objects]


def test_a_stream_is_consumed_from_everywhere(place: Place, full: str) -> None:
    assert consumed(place, full) == [*range(1, 11)]
    assert consumed(place, full, "--last") == [10]
    assert consumed(place, full, "--seq", "8") == [8, 9, 10]
    assert consumed(place, full, "--since", "1h", "--count", "2") == [1, 2]
    assert consumed(place, full, "--filter", f"{full}.1", "--seq", "7") == [8, 10]
    assert consumed(place, full, "--filter", f"{full}.1", "--filter", f"{full}.0", "--seq", "9") == [9, 10]
    assert place.ok("consume", full, "--raw", "--count", "3").raw == b"0\n1\n2\n"


def test_a_stream_without_messages_ends_at_once(place: Place, name: str) -> None:
    assert consumed(place, name) == []


def test_what_was_acknowledged_does_not_come_again(place: Place, js: JetStream, full: str) -> None:
    assert consumed(place, full, "--durable", "D", "--ack", "--count", "4") == [1, 2, 3, 4]
    assert js.consumer_info(full, "D").ack_floor.stream_seq == 4
    assert consumed(place, full, "--consumer", "D", "--count", "1") == [5]
    assert js.consumer_info(full, "D").num_ack_pending == 1
    assert consumed(place, full, "--consumer", "D", "--ack") == [6, 7, 8, 9, 10]
    assert consumed(place, full, "--ack", "--count", "2") == [1, 2]
    assert js.consumer_names(full) == ["D"]


def test_a_work_queue_is_read_by_taking_from_it(place: Place, js: JetStream) -> None:
    name = unique("S")
    js.create_stream(name, subjects=[name], retention="workqueue", storage="memory", allow_direct=True)
    js.publish(name, b"0")
    assert place.fails(1, "consume", name).endswith("; --ack takes the messages, and jsproto get leaves them there")
    assert sequences(place, name, "1-") == [1]
    assert consumed(place, name, "--ack") == [1]
    shown = place.ok("stream", "info", name).out
    assert "next sequence     2" in shown
    assert "stored" not in shown
    js.delete_stream(name)


@pytest.mark.parametrize("options", [["--count", "3"], ["--ack", "--count", "3"], ["--durable", "D", "--count", "3"]])
def test_follow_ends_after_so_many(place: Place, js: JetStream, full: str, options: list[str]) -> None:
    assert consumed(place, full, "--follow", *options) == [1, 2, 3]


@ON_REAL
@pytest.mark.parametrize("options", [pytest.param([], marks=pytest.mark.slow), ["--ack"]])
def test_follow_goes_on_with_what_comes(place: Place, js: JetStream, name: str, options: list[str]) -> None:
    js.publish(f"{name}.a", b"0")
    with place.start("consume", name, "--follow", "--raw", *options, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        taken = [process.stdout.readline()]
        for n in (1, 2):
            js.publish(f"{name}.a", b"%d" % n)
            taken.append(process.stdout.readline())
        assert taken == [b"0\n", b"1\n", b"2\n"]
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        assert (process.wait(), said) == (130, b"jsproto: interrupted; 3 printed\n")


@promise("`consume --ack` acknowledges a message after it was printed")
@ON_REAL
@pytest.mark.parametrize("options", [["--ack", "--durable", "D"], pytest.param([], marks=pytest.mark.slow)])
def test_a_reader_that_goes_away_ends_it_quietly(place: Place, js: JetStream, name: str, options: list[str]) -> None:
    js.publish(f"{name}.a", b"0")
    with place.start("consume", name, "--follow", "--raw", *options, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"0\n"
        process.stdout.close()
        js.publish(f"{name}.a", b"1")
        said = process.stderr.read()
        assert (process.wait(), said) == (141, b"")
    if options:
        assert js.consumer_info(name, "D").ack_floor.stream_seq == 1


@ON_REAL
@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_nobody_reads_at_all(place: Place, full: str, options: list[str]) -> None:
    with place.start("stream", "info", full, *options, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
        assert (process.wait(), said) == (141, b"")


@ON_REAL
@pytest.mark.slow
def test_a_full_disk_is_one_line(place: Place, full: str) -> None:
    with open("/dev/full", "wb") as nowhere, place.start("get", full, "1-", "--json", stdout=nowhere) as process:
        assert process.stderr is not None
        said = process.stderr.read()
        assert (process.wait(), said.count(b"\n"), b"No space left" in said) == (1, 1, True)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["S", "--last", "--seq", "1"], "give one of --seq, --since, --last and --new"),
        (["S", "--consumer", "C", "--last"], "has its own start"),
        (["S", "--since", "x"], "--since: not a time"),
        (["S", "--null"], "--null needs --raw"),
        (["S", "--filter", "a b"], "a b"),
    ],
)
def test_what_cannot_be_consumed_is_one_line(memory: Place, arguments: list[str], why: str) -> None:
    assert why in memory.fails(2, "consume", *arguments)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["NOWHERE"], "stream not found: stream NOWHERE"),
        (["NOWHERE", "--consumer", "C"], "not found: consumer C of stream NOWHERE"),
        (["NOWHERE", "--since", "1h"], "stream not found: stream NOWHERE"),
    ],
)
def test_a_stream_that_is_not_there_cannot_be_consumed(place: Place, arguments: list[str], why: str) -> None:
    assert why in place.fails(1, "consume", *arguments)


# -- sub ---------------------------------------------------------------------------------------------------------------


@ON_REAL
def test_messages_of_a_subject_are_printed_as_they_come(place: Place) -> None:
    subject = unique()
    with place.start("sub", f"{subject}.*", "--count", "2", "--json", stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stderr.readline() == f"jsproto: waiting for messages of {subject}.*; Ctrl-C ends it\n".encode()
        with connect(place.url) as nc:
            nc.publish(f"{subject}.a", b"x", reply="answers", headers={"A": "b"})
            nc.publish(f"{subject}.b", b"\xff")
        first, second = map(json.loads, process.stdout)
        assert process.wait() == 0
    assert first == {"subject": f"{subject}.a", "reply": "answers", "headers": {"A": ["b"]}, "data": "x"}
    assert second == {"subject": f"{subject}.b", "data_base64": "/w=="}


@ON_REAL
def test_a_subscription_ends_by_ctrl_c(place: Place) -> None:
    with place.start("sub", unique(), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert (process.stdout.read(), process.stderr.read()) == (b"", b"jsproto: interrupted\n")


@pytest.mark.parametrize(
    ("arguments", "why"), [(["a b"], "a b"), (["a", "--queue", "b c"], "b c"), (["a", "--null"], "--null needs --raw")]
)
def test_what_cannot_be_subscribed_is_one_line(memory: Place, arguments: list[str], why: str) -> None:
    assert why in memory.fails(2, "sub", *arguments)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "(empty)"),
        (b"a\tb\n", "a\tb"),
        (b"\x1b[31mred", "(8 bytes, no text) 1b 5b 33 31 6d 72 65 64"),
        (b"\xff" * 40, "(40 bytes, no text) " + " ".join(["ff"] * 32) + "…"),
    ],
)
def test_payloads_for_people_hold_nothing_a_terminal_would_obey(data: bytes, text: str) -> None:
    assert payload_text(data) == text
