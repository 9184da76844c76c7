"""``python -m jsproto_io.serve`` and ``jsproto serve``: what other test suites start in place of nats-server."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import trustme

from jsproto.errors import AuthorizationError
from jsproto.events import ServerReportedError
from jsproto_io.serve import main, run
from jsproto_io.sync import Connection, connect
from jsproto_io.testing import serve
from tests.marks import promise

MODULE = [sys.executable, "-m", "jsproto_io.serve"]
COMMAND = [sys.executable, "-m", "jsproto_io.cli", "serve", "--memory"]


class Running:
    """A server that is ready: its ``url``, and the ``lines`` of its log up to then."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        self.process = process
        self.lines: list[str] = []
        for line in process.stderr:
            self.lines.append(line.rstrip("\n"))
            if line.endswith("Server is ready\n"):
                break
        listening = re.search(r"Listening for client connections on (\S+)$", "\n".join(self.lines), re.MULTILINE)
        assert listening is not None, self.lines
        self.url = f"nats://{listening[1]}"


@contextmanager
def started(*arguments: str, number: int = signal.SIGTERM) -> Iterator[Running]:
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield Running(process)
            if process.poll() is None:
                process.send_signal(number)
            assert process.wait() == 0
        finally:
            process.kill()


def asked(place: str, path: str) -> tuple[int, str | None]:
    """The status, and the field ``version`` of a page of the monitoring."""
    connection = http.client.HTTPConnection(place)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = json.loads(answer.read())
    connection.close()
    return answer.status, body.get("version")


@promise("It is no database.")
@promise("by which test suites find out that a server runs, and no other page.")
@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [
        ["-p", "-1", "-a", "127.0.0.1", "-js", "-sd", "DIR", "-m", "-1", "-DV", "-P", "DIR/pid"],
        ["--port=0", "--addr=127.0.0.1", "--jetstream", "--store_dir=DIR", "--http_port", "0", "--pid=DIR/pid"],
        ["-p=0", "--net", "127.0.0.1", "--js", "-sd=DIR", "-m=0", "-D", "-V", "-T", "-P=DIR/pid"],
    ],
)
def test_the_flags_and_the_lines_of_nats_server(flags: list[str], tmp_path: Path) -> None:
    with started(*MODULE, *(flag.replace("DIR", str(tmp_path)) for flag in flags)) as server:
        assert (tmp_path / "pid").read_text() == str(server.process.pid)
        heads = [re.sub(r"^\[\d+\] ", "", line) for line in server.lines]
        assert heads[0].startswith("[INF] Starting jsproto ")
        assert heads[1].startswith(
            "[WRN] In memory, for tests: this is no database, and a crash loses all. At the end "
        )
        assert heads[2] == "[INF] Streams that were found: 0"
        monitor = re.fullmatch(r"\[INF\] Starting http monitor on (127.0.0.1:\d+)", heads[3])
        assert monitor is not None
        assert asked(monitor[1], "/varz") == (200, "2.15.1")
        assert asked(monitor[1], "/healthz?js-enabled-only=true") == (200, None)
        assert asked(monitor[1], "/connz") == (404, None)
        assert heads[4].startswith("[INF] Listening for client connections on 127.0.0.1:")
        assert heads[5] == "[INF] Server is ready"
        with connect(server.url) as nc:
            nc.jetstream().create_stream("S", subjects=["s"])
            assert nc.jetstream().publish("s", b"x").seq == 1


def test_its_options() -> None:
    flags = ["--domain", "hub", "--release", "2.14.0", "--max-payload", "1000", "-p", "0"]
    flags += ["--limit", "idle=1", "--limit", "max_streams=7"]
    with started(*MODULE, *flags, number=signal.SIGINT) as server, connect(server.url) as nc:
        info = nc.server_info
        assert info is not None
        assert (info.domain, info.version, info.max_payload) == ("hub", "2.14.0", 1000)
        limits = nc.jetstream().account_info().limits
        assert limits is not None
        assert limits.max_streams == 7


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        (["--user", "me", "--pass", "secret"], {"user": "me", "password": "secret"}),
        (["-auth", "t", "-user", "me"], {"token": "t"}),
    ],
)
def test_users_and_tokens(flags: list[str], options: dict[str, Any]) -> None:
    with started(*MODULE, "-p", "0", *flags) as server:
        with pytest.raises(AuthorizationError):
            connect(server.url)
        with connect(server.url, **options) as nc:
            assert nc.server_info is not None
            assert nc.server_info.auth_required


@pytest.mark.slow
def test_users_and_what_they_may_do(tmp_path: Path) -> None:
    users = [{"user": "shop", "password": "secret", "permissions": {"publish": "orders.>"}}]
    (tmp_path / "users.json").write_text(json.dumps({"users": users}))
    with started(*MODULE, "-p", "0", "--users", f"{tmp_path}/users.json") as server:
        with pytest.raises(AuthorizationError):
            connect(server.url)
        told: list[Any] = []
        with connect(server.url, user="shop", password="secret", event_cb=told.append) as nc:
            nc.publish("orders.1", b"x")
            nc.publish("bills.1", b"x")
            nc.flush()
        assert [event.text for event in told if isinstance(event, ServerReportedError)] == [
            'Permissions Violation for Publish to "bills.1"'
        ]


@promise("`jsproto serve --memory` is the same, with the extra `cli`.")
def test_the_command() -> None:
    with started(*COMMAND, "-p", "0", "--domain", "hub") as server, connect(server.url) as nc:
        info = nc.server_info
        assert info is not None
        assert info.domain == "hub"


@promise("Configuration files and clusters are refused, with exit code 2.")
@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["-c", "nats.conf"], "configuration files are not read"),
        (["--user", "me"], "a user has a name and a password: --user NAME --pass WORD"),
        (["--user", "me", "--pass", "word", "--users", "file"], "users are in the file alone"),
        (["--users", "/dev/null/users"], "/dev/null/users"),
        (["--pass", "word"], "a user has a name and a password: --user NAME --pass WORD"),
        (["-p", "70000"], "port is a number of 0 to 65535, not 70000"),
        (["--max-pending", "0"], "max_pending is a number of bytes above 0, not 0"),
        (["--cluster", "nats://a:1"], "unrecognized arguments: --cluster nats://a:1"),
        (["--user", "me", "--pass", "$2a$11$x"], "hashed passwords are not modelled: give the password itself"),
        (["--release", "3.0.0"], "a release is 2.11.0 to 2.15.1, not '3.0.0'"),
        (["--release", "two"], "a release is 2.11.0 to 2.15.1, not 'two'"),
        (["--limit", "idle"], "a limit is NAME=N, with a name of atomic_per_stream, "),
        (["--limit", "size=1"], "a limit is NAME=N, with a name of atomic_per_stream, "),
        (["--tlscert", "/nowhere"], "/nowhere is no certificate with its key: "),
        (["--tls"], "TLS needs a certificate: --tlscert"),
        (["--store_dir", "/dev/null/store"], "/dev/null"),
    ],
)
def test_what_is_not_modelled_is_refused(flags: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(flags)
    except SystemExit as error:  # argparse's
        status = int(error.code or 0)
    assert status == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.slow
def test_it_says_that_all_is_lost() -> None:
    with started(*MODULE, "-p", "0") as server:
        said = server.lines[1].partition(" ")[2]
        assert said == "[WRN] In memory only, for tests: this is no database, and all is lost when it ends"


@pytest.mark.slow
def test_a_log_in_a_file(tmp_path: Path) -> None:
    """A test suite that reads the log from a file finds the line for which it waits."""
    log = tmp_path / "log"
    with subprocess.Popen([*MODULE, "-p", "0", "-l", str(log)], stderr=subprocess.PIPE) as process:
        try:
            while not log.exists() or b"Server is ready\n" not in log.read_bytes():
                assert process.poll() is None
            process.terminate()
            assert process.wait() == 0
            assert process.stderr is not None
            assert process.stderr.read() == b""
        finally:
            process.kill()
    assert log.read_text().endswith("[INF] Server Exiting..\n")


@pytest.mark.slow
@pytest.mark.parametrize("verify", [False, True])
def test_tls(verify: bool, tmp_path: Path) -> None:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(tmp_path / "ca")
    ca.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "cert")
    flags = ["--tls", "--tlscert", f"{tmp_path}/cert", "--tlskey", f"{tmp_path}/cert"]
    flags += ["--tlsverify", "--tlscacert", f"{tmp_path}/ca"] if verify else []
    context = ssl.create_default_context(cafile=tmp_path / "ca")
    with started(*MODULE, "-p", "0", *flags) as server:
        url = server.url.replace("nats://", "tls://")
        if verify:
            with pytest.raises(ConnectionError), connect(url, tls=context, max_reconnect_attempts=0):
                pass
            ca.issue_cert("client@example.org").configure_cert(context)
        with connect(url, tls=context) as nc:
            assert nc.jetstream().create_stream("S").config.name == "S"


# -- what survives -----------------------------------------------------------------------------------------------------


def ask(nc: Connection, verb: str, body: bytes = b"") -> Any:
    return json.loads(nc.request(f"$JS.API.{verb}", body).data)


@promise("Streams with file storage survive in `--store_dir`")
@pytest.mark.slow
@pytest.mark.parametrize("command", [MODULE, COMMAND])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_is_stored_survives(command: list[str], number: int, tmp_path: Path) -> None:
    flags = [*command, "-p", "0", "--store_dir", str(tmp_path / "new")]
    with started(*flags, number=number) as server, connect(server.url) as nc:
        js = nc.jetstream()
        js.create_stream("FILES", subjects=["files.>"])
        js.create_stream("MEMORY", storage="memory")
        for payload in (b"one", b"two", b"three"):
            js.publish("files.a", payload, headers={"Nats-Msg-Id": payload.decode(), "X-Mine": "1"})
        assert ask(nc, "STREAM.MSG.DELETE.FILES", b'{"seq":2}')["success"]
        with js.pull_subscribe("files.a", durable="READER") as subscription:
            first, _ = subscription.fetch(2, timeout=10)
            first.ack_sync()
        before = ask(nc, "STREAM.MSG.GET.FILES", b'{"seq":1}')
        assert before["message"]["hdrs"]
        told = js.consumer_info("FILES", "READER")
    with started(*flags, number=number) as server, connect(server.url) as nc:
        assert server.lines[2].endswith("[INF] Streams that were found: 1")
        js = nc.jetstream()
        assert ask(nc, "STREAM.NAMES")["streams"] == ["FILES"]
        assert ask(nc, "STREAM.MSG.GET.FILES", b'{"seq":1}') == before
        again = js.consumer_info("FILES", "READER")
        assert (again.created, again.delivered, again.ack_floor) == (told.created, told.delivered, told.ack_floor)
        assert (again.num_ack_pending, again.num_pending) == (1, 0)
        assert js.publish("files.a", b"three", headers={"Nats-Msg-Id": "three"}).duplicate
        assert js.publish("files.a", b"four").seq == 4
        with js.pull_subscribe("files.a", durable="READER") as subscription:
            (message,) = subscription.fetch(1, timeout=10)
            assert message.data == b"four"


@contextmanager
def waiting_pull(url: str) -> Iterator[socket.socket]:
    """A link on which a pull waits."""
    with connect(url) as nc:
        nc.jetstream().create_stream("S")
        ask(nc, "CONSUMER.CREATE.S.C", b'{"stream_name":"S","config":{"durable_name":"C","ack_policy":"none"}}')
    host, port = url.removeprefix("nats://").rsplit(":", 1)
    with socket.create_connection((host, int(port))) as link:
        link.sendall(b'CONNECT {"verbose":false,"headers":true}\r\nSUB p 1\r\n')
        pull = b'{"batch":3,"expires":60000000000}'
        link.sendall(b"PUB $JS.API.CONSUMER.MSG.NEXT.S.C p %d\r\n%b\r\nPING\r\n" % (len(pull), pull))
        heard = b""
        while b"PONG" not in heard:
            heard += link.recv(4096)
        yield link


def rest(link: socket.socket) -> bytes:
    """What comes before the link ends."""
    heard = b""
    while data := link.recv(4096):
        heard += data
    return heard


SHUTDOWN = b"NATS/1.0 409 Server Shutdown\r\nNats-Pending-Messages: 3\r\nNats-Pending-Bytes: 0\r\n\r\n\r\n"


def test_who_waits_is_told_of_the_end() -> None:
    """A pull that waits ends with a status, and then its link does."""
    with started(*MODULE, "-p", "0") as server, waiting_pull(server.url) as link:
        server.process.terminate()
        assert rest(link).endswith(SHUTDOWN)
        assert server.process.wait() == 0


def test_who_waits_is_told_of_the_end_as_soon_as_the_server_is_ready() -> None:
    """Signals come twice before the main thread waits for them."""

    class Log(StringIO):
        def write(self, text: str) -> int:
            if text.endswith("Server is ready"):
                links.append(stack.enter_context(waiting_pull(server.url)))
                signal.raise_signal(signal.SIGTERM)
            elif text.endswith("Server Exiting.."):
                signal.raise_signal(signal.SIGINT)
            return super().write(text)

    links: list[socket.socket] = []
    with ExitStack() as stack:
        server = serve()
        assert run(server, log=Log()) == 0
        assert rest(links[0]).endswith(SHUTDOWN)


@promise("After a crash the next start finds what the last end left.")
@pytest.mark.slow
def test_what_a_crash_leaves(tmp_path: Path) -> None:
    """What the last end left is found, and nothing later."""
    flags = [*MODULE, "-p", "0", "-sd", str(tmp_path)]
    with started(*flags) as server, connect(server.url) as nc:
        nc.jetstream().create_stream("FIRST")
    with pytest.raises(AssertionError), started(*flags, number=signal.SIGKILL) as server, connect(server.url) as nc:
        nc.jetstream().create_stream("SECOND")
    with started(*flags) as server, connect(server.url) as nc:
        assert ask(nc, "STREAM.NAMES")["streams"] == ["FIRST"]
    assert [path.name for path in tmp_path.iterdir()] == ["jsproto-server.saved"]


@promise("A file that is foreign or damaged is refused.")
@pytest.mark.slow
@pytest.mark.parametrize("content", [b"", b"something else\n", b"jsproto-server 9 2 " + b"0" * 64 + b"\n{}"])
def test_a_file_that_cannot_be_taken_up_stays(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "jsproto-server.saved"
    path.write_bytes(content)
    done = subprocess.run([*MODULE, "-p", "0", "-sd", str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"[FTL] Error restoring: {path}: this was " in done.stderr
    assert path.read_bytes() == content


@promise("It is no database.")
@pytest.mark.slow
def test_the_command_says_that_it_is_no_database() -> None:
    done = subprocess.run(COMMAND[:-1], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "jsproto: this server keeps all in memory and is no database: say so with --memory\n"


@pytest.mark.slow
def test_a_port_that_is_taken() -> None:
    with started(*MODULE, "-p", "0") as server:
        port = server.url.rpartition(":")[2]
        done = subprocess.run([*MODULE, "-p", port], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert f"[FTL] Error listening on 127.0.0.1:{port}: " in done.stderr
