"""``python -m jsproto_io.serve`` and ``jsproto serve``: what other test suites start in place of nats-server."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from jsproto.errors import AuthorizationError
from jsproto_io.serve import main
from jsproto_io.sync import connect

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
            process.send_signal(number)
            assert process.wait() == 0
        finally:
            process.kill()


@pytest.mark.parametrize(
    "flags",
    [
        ["-p", "-1", "-a", "127.0.0.1", "-js", "-sd", "/nowhere/to/be", "-m", "8222", "-DV"],
        ["--port=0", "--addr=127.0.0.1", "--jetstream", "--store_dir=/nowhere/to/be", "--http_port", "8222"],
        ["-p=0", "--net", "127.0.0.1", "--js", "-sd=/nowhere/to/be", "-m=8222", "-D", "-V"],
    ],
)
def test_the_flags_and_the_lines_of_nats_server(flags: list[str]) -> None:
    with started(*MODULE, *flags) as server:
        heads = [re.sub(r"^\[\d+\] ", "", line) for line in server.lines]
        assert heads[0].startswith("[INF] Starting jsproto ")
        assert heads[1] == "[WRN] In memory only, for tests: this is no database, and all is lost when it ends"
        assert heads[2:4] == ["[WRN] Nothing is stored in /nowhere/to/be", "[WRN] There is no monitoring on port 8222"]
        assert heads[4].startswith("[INF] Listening for client connections on 127.0.0.1:")
        assert heads[5] == "[INF] Server is ready"
        with connect(server.url) as nc:
            nc.jetstream().create_stream("S", subjects=["s"])
            assert nc.jetstream().publish("s", b"x").seq == 1


def test_its_options() -> None:
    flags = ["--domain", "hub", "--release", "2.14.0", "--max-payload", "1000", "--limit", "idle=1", "-p", "0"]
    with started(*MODULE, *flags, number=signal.SIGINT) as server, connect(server.url) as nc:
        info = nc.server_info
        assert info is not None
        assert (info.domain, info.version, info.max_payload) == ("hub", "2.14.0", 1000)


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


def test_the_command() -> None:
    with started(*COMMAND, "-p", "0", "--domain", "hub") as server, connect(server.url) as nc:
        info = nc.server_info
        assert info is not None
        assert info.domain == "hub"


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["-c", "nats.conf"], "unrecognized arguments: -c nats.conf"),
        (["--cluster", "nats://a:1"], "unrecognized arguments: --cluster nats://a:1"),
        (["--user", "me", "--pass", "$2a$11$x"], "hashed passwords are not modelled: give the password itself"),
        (["--release", "3.0.0"], "a release is 2.11.0 to 2.15.1, not '3.0.0'"),
        (["--release", "two"], "a release is 2.11.0 to 2.15.1, not 'two'"),
        (["--limit", "idle"], "a limit is NAME=N, with a name of atomic_per_stream, "),
        (["--limit", "size=1"], "a limit is NAME=N, with a name of atomic_per_stream, "),
        (["--tlscert", "/nowhere"], "/nowhere is no certificate with its key: "),
    ],
)
def test_what_is_not_modelled_is_refused(flags: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(flags)
    except SystemExit as error:  # argparse's
        status = int(error.code or 0)
    assert status == 2
    assert complaint in capsys.readouterr().err


def test_the_command_says_that_it_is_no_database() -> None:
    done = subprocess.run(COMMAND[:-1], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "jsproto: this server keeps all in memory and is no database: say so with --memory\n"


def test_a_port_that_is_taken() -> None:
    with started(*MODULE, "-p", "0") as server:
        port = server.url.rpartition(":")[2]
        done = subprocess.run([*MODULE, "-p", port], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert f"[FTL] Error listening on 127.0.0.1:{port}: " in done.stderr
