"""The same digest in each process: whatever the hash seed, and whatever was on the heap before."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


def digest(number: int, python: str = sys.executable) -> str:
    """Of a fresh process with this hash seed and heap history."""
    path = os.pathsep.join((str(ROOT), str(ROOT / "transports")))
    done = subprocess.run(
        [python, "-m", "tests.simulation.digests", str(number)],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": str(number), "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def is_there(python: str) -> bool:
    """Whether it is installed, and is no shim of one that is not."""
    return shutil.which(python) is not None and subprocess.run([python, "-c", ""], capture_output=True).returncode == 0


@pytest.mark.parametrize("python", ["python3.11", "python3.12", "python3.13", "python3.14"])
def test_other_pythons_give_the_same_digest(python: str) -> None:
    if not is_there(python):
        pytest.skip(f"there is no {python}")
    assert digest(7, python) == digest(8)


def test_five_processes_give_one_digest() -> None:
    assert len({digest(number) for number in range(5)}) == 1
