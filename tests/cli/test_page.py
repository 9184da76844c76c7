"""The page of the command line: its examples are run, and its table and commands are complete."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jsproto_io.cli.groups import COMMANDS
from tests.cli.calling import NOWHERE, call
from tests.readmes import READMES

PAGE = READMES["transports/jsproto_io/cli"]
BLOCKS = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)


def steps(block: str) -> list[tuple[str, str]]:
    """The commands of a block, each with what it prints."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(command, out) for command, _, out in (part.partition("\n") for part in parts)]


@pytest.mark.slow
def test_the_examples_do_what_they_show(server_for: Any) -> None:
    server = server_for()
    folder = Path(sys.executable).parent
    environment = {**os.environ, **NOWHERE, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    (block,) = BLOCKS
    for command, shown in steps(block):
        if command.startswith("export "):
            assert (command, shown) == ("export NATS_URL=nats://localhost:4222", "")
            environment["NATS_URL"] = server.url
            continue
        done = subprocess.run(
            command, shell=True, env=environment, capture_output=True, text=True, check=False, timeout=60
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, shown, ""), command


def test_every_command_stands_in_the_table() -> None:
    table = PAGE.partition("## Commands beside")[2].partition("##")[0]
    ours = " ".join(row.split("|")[2] for row in table.splitlines() if row.startswith("|"))
    words = re.findall(r"[a-z]+", ours)
    assert set(COMMANDS) - set(words) == set()
    for group in ("stream", "consumer", "kv", "object", "context", "account"):
        verbs = re.findall(r"^  ([a-z]+) ", call(group, "--help").out.partition("Commands:")[2], re.MULTILINE)
        assert verbs
        assert [verb for verb in verbs if f"{group} {verb}" not in ours and f", `{verb}`" not in ours] == []
