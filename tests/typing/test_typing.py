"""The types as a user's type checker sees them: from outside the checkout, without its settings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("name", ["core", "facade"])
def test_a_program_that_uses_the_types(name: str, tmp_path: Path) -> None:
    program = tmp_path / f"{name}.py"
    program.write_bytes((Path(__file__).parent / program.name).read_bytes())
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--strict-bytes", "--config-file=", program.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("Success: no issues found in 1 source file\n", "")
