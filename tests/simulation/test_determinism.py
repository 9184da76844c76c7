"""The same digest in each process: whatever the hash seed, and whatever was on the heap before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def digest(number: int) -> str:
    """Of a fresh process with this hash seed and heap history."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.digests", str(number)],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": str(number)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_five_processes_give_one_digest() -> None:
    assert len({digest(number) for number in range(5)}) == 1
