"""The plugin for pytest: its fixtures in a run of its own, as an application has it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.marks import promise
from tests.readmes import program_with

PLUGIN = "transports/jsproto_io/testing"


def pytest_run(folder: Path, program: str, **environment: str) -> str:
    """What pytest prints of a file with ``program``. Warnings are errors, except of what a killed program left open."""
    (folder / "test_application.py").write_text(program, encoding="utf-8")
    warnings = ["-W", "error"]
    command = [sys.executable, *warnings, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [*command, "test_application.py"], cwd=folder, env=os.environ | environment, capture_output=True, text=True,
        check=False, timeout=100,
    )  # fmt: skip
    return done.stdout + done.stderr


@promise("the test runs twice")
@promise("an application that knows only `jsproto_io.sync.connect`")
def test_the_tests_of_the_readme_pass_in_memory_and_on_a_real_server(tmp_path: Path) -> None:
    assert "3 passed" in pytest_run(tmp_path, program_with(PLUGIN, "def test_an_order_is_billed_once"))


def test_a_worker_of_the_readme_is_tested_beside_it(tmp_path: Path) -> None:
    assert "1 passed" in pytest_run(tmp_path, program_with(PLUGIN, "def test_a_page_is_printed"))


@promise("The test is skipped where there is none")
@pytest.mark.slow
def test_without_a_real_server_its_tests_are_skipped_with_the_reason(tmp_path: Path) -> None:
    printed = pytest_run(tmp_path, program_with(PLUGIN, "def test_an_order_is_billed_once"), NATS_SERVER_BIN="nowhere")
    assert "2 passed, 1 skipped" in printed
    assert "NATS_SERVER_BIN is no program: nowhere" in printed


@pytest.mark.slow
def test_the_plugin_imports_nothing_of_the_library(tmp_path: Path) -> None:
    """So coverage sees the first import of the core, and a run that needs no server pays nothing."""
    program = """
import sys
def test_it():
    ours = {name for name in sys.modules if name.split(".")[0] in ("jsproto", "jsproto_io")}
    assert ours == {"jsproto_io", "jsproto_io.testing", "jsproto_io.testing.plugin"}
"""
    assert "1 passed" in pytest_run(tmp_path, program)


@promise("Each test has a server of its own.")
@pytest.mark.slow
def test_each_test_has_a_server_of_its_own(tmp_path: Path) -> None:
    program = """
import pytest
from jsproto import StreamConfig
@pytest.mark.parametrize("n", [1, 2])
def test_it(jetstream_server, n):
    assert jetstream_server.role.api.streams == {}
    jetstream_server.call(lambda role, now: role.add_stream(StreamConfig("S"), now))
"""
    assert "2 passed" in pytest_run(tmp_path, program)
