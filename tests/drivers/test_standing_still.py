"""What every driver must do after its program stood still: what came meanwhile counts, and then the time does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jsproto_io.sync import connect
from tests.drivers import standing_still
from tests.drivers.conftest import LIMIT, PATIENCE

LONG = 1.2 * LIMIT  # seconds for which it stands still


def test_answers_that_came_meanwhile_are_not_late(server: Any, driver: str) -> None:
    name = f"STILL-{driver}"
    with connect(server.url) as nc:
        js = nc.jetstream()
        js.create_stream(name, subjects=[f"{name}.a"], storage="memory")
        js.create_consumer(name, durable_name="C")
        asked = nc.subscribe(f"{name}.ask")
        nc.flush()
        command = [sys.executable, str(Path(standing_still.__file__)), driver, server.url, name]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as program:
            question = asked.next_msg(timeout=PATIENCE)
            stop(program, lambda: question.respond(b"answered"))
            while not js.consumer_info(name, "C").num_waiting:
                assert program.poll() is None, program.stdout and program.stdout.read()
                time.sleep(0.01)
            stop(program, lambda: None)  # the server sends heartbeats
            js.publish(f"{name}.a", b"fetched")
            said, _ = program.communicate(timeout=PATIENCE)
        assert said.split() == ["answered", "fetched"]


def stop(program: subprocess.Popen[str], meanwhile: Callable[[], object]) -> None:
    """Stop the program for so long that each of its limits is over."""
    os.kill(program.pid, signal.SIGSTOP)
    try:
        meanwhile()
        time.sleep(LONG)  # what is measured
    finally:
        os.kill(program.pid, signal.SIGCONT)
