"""What the tests of commands share: calls in this process and in one of their own, and what came of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import BufferedReader, BytesIO, TextIOWrapper
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from jsproto_io.cli.app import app

NOWHERE = {"XDG_CONFIG_HOME": "/nonexistent"}  # no context of whoever runs the tests
COMMAND = [sys.executable, "-m", "jsproto_io.cli"]


class Called(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str
    raw: bytes

    @property
    def objects(self) -> list[Any]:
        """What ``--json`` printed: one object a line, and nothing else."""
        found = [json.loads(line) for line in self.out.splitlines()]
        assert all(isinstance(each, dict) for each in found)
        return found


class Place:
    """A server to call commands on."""

    def __init__(self, url: str) -> None:
        self.url = url

    def call(self, *arguments: str, stdin: bytes | None = None, tty: bool = False, **env: str) -> Called:
        """Run a command on this server, in this process."""
        return call(*arguments, stdin=stdin, tty=tty, NATS_URL=self.url, **env)

    def ok(self, *arguments: str, stdin: bytes | None = None, **env: str) -> Called:
        """The same, for a command that does what it should and has nothing to say on standard error."""
        done = self.call(*arguments, stdin=stdin, tty=False, **env)
        assert (done.code, done.err) == (0, ""), done
        return done

    def fails(self, code: int, *arguments: str, stdin: bytes | None = None, **env: str) -> str:
        """The one line of a command that fails, with ``code``. It prints nothing else."""
        done = self.call(*arguments, stdin=stdin, tty=False, **env)
        assert (done.code, done.out, done.err.count("\n")) == (code, "", 1), done
        assert done.err.startswith("jsproto: ")
        return done.err.removeprefix("jsproto: ").rstrip("\n")

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        """A command in a process of its own, which prints whole buffers, as without the variable of Python."""
        environment = {**os.environ, **NOWHERE, "NATS_URL": self.url, "PYTHONUNBUFFERED": ""}
        return subprocess.Popen([*COMMAND, *arguments], env=environment, stderr=subprocess.PIPE, **options)


def call(*arguments: str, stdin: bytes | None = None, tty: bool = False, **env: str) -> Called:
    """Run a command in this process. ``tty``: as if standard input were a terminal."""
    out, err = BytesIO(), BytesIO()
    output, errors = TextIOWrapper(out, encoding="utf-8"), TextIOWrapper(err, encoding="utf-8")
    given = TextIOWrapper(BufferedReader(BytesIO(stdin or b"")), encoding="utf-8")
    asked = patch.object(given, "isatty", lambda: tty)
    environment = patch.dict(os.environ, {**NOWHERE, "NATS_URL": "nats://127.0.0.1:1", **env})
    with environment, asked, patch("sys.stdin", given), redirect_stdout(output), redirect_stderr(errors):
        with pytest.raises(SystemExit) as end:
            app(arguments, prog_name="jsproto")
        output.flush()
        errors.flush()
    code = end.value.code or 0
    assert isinstance(code, int)
    return Called(code, out.getvalue().decode(errors="replace"), err.getvalue().decode(), out.getvalue())
