"""Programs of other clients, of which each says the same on the server in memory and on a real one.

They run in processes of their own, because nats-core and nats-py cannot be installed together. The variable
``JSPROTO_FOREIGN_PYTHON`` names interpreters that have the clients, separated as in PATH.

Not here: nats-py (``test_foreign_clients.py``).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from jsproto_io.nats_server import NatsServer
from jsproto_io.testing import serve

FOLDER: Final = Path(__file__).parent / "foreign"
PATIENCE: Final = 60.0  # seconds after which a program that hangs is failed
INTERPRETERS: Final = [sys.executable, *filter(None, os.environ.get("JSPROTO_FOREIGN_PYTHON", "").split(os.pathsep))]
MODULES: Final = {"with_nats_jetstream.py": "nats.client, nats.jetstream", "with_natsrpy.py": "natsrpy"}


@cache
def interpreter(modules: str) -> str:
    """A Python that has these modules. The test is skipped where there is none."""
    for path in INTERPRETERS:
        tried = subprocess.run([path, "-c", f"import {modules}"], capture_output=True, check=False)
        if tried.returncode == 0:
            return path
    return ""


def run(program: str, url: str) -> Any:
    python = interpreter(MODULES[program])
    if not python:
        pytest.skip(f"no Python has {MODULES[program]}: name one in JSPROTO_FOREIGN_PYTHON")
    done = subprocess.run(
        [python, FOLDER / program, url], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.server
@pytest.mark.parametrize("program", MODULES)
def test_a_program_says_the_same_on_both_servers(program: str) -> None:
    with serve() as server:
        here = run(program, server.url)
    with NatsServer() as real:
        there = run(program, real.url)
    assert here == there
    assert len(here["fetched"]) == 10
