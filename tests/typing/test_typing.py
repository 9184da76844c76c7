"""The types as a user's type checker sees them: from outside the checkout, without its settings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_programs_that_use_the_types(tmp_path: Path) -> None:
    programs = ["core.py", "facade.py"]
    for program in programs:
        (tmp_path / program).write_bytes((Path(__file__).parent / program).read_bytes())
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--strict-bytes", "--config-file=", *programs],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("Success: no issues found in 2 source files\n", "")
