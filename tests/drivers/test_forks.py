"""What a fork does to an open connection: nothing in the parent, an end with a clear error in the child."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.drivers import forking

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")


def test_the_child_may_not_and_the_parent_goes_on(server: Any, driver: str) -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", forking.__file__, driver, server.url]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    report, parent = done.stdout.splitlines()
    assert parent == "the parent went on"
    seen = json.loads(report)
    assert seen.pop("state") == [True, False]
    assert set(seen.pop("given up")) <= {"passed", "StopIteration"}
    assert set(seen.values()) == {"ForkedError"}, seen


def test_a_fork_at_any_moment_of_a_connect_in_another_thread(server: Any, driver: str) -> None:
    """An object that is half made is no obstacle to the end of the others."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", forking.__file__, driver, server.url, "connecting"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    forks, usable = json.loads(done.stdout)
    assert forks > 100
    assert usable == 0
