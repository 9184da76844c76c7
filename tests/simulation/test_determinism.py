"""The same digest in each process: whatever the hash seed, and whatever was on the heap before."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import trio

CLIENTS = pytest.mark.parametrize("clients", ["asyncio", "trio", "blocking"])
ROOT = Path(__file__).resolve().parent.parent.parent


def digest(number: int, clients: str, python: str = sys.executable) -> str:
    """Of a fresh process with this hash seed and heap history."""
    path = os.pathsep.join((str(ROOT), str(ROOT / "transports")))
    done = subprocess.run(
        [python, "-m", "tests.simulation.digests", str(number), clients],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": str(number), "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def has(python: str, needed: str) -> bool:
    """Whether it is installed and can import what is needed, and is no shim of one that is not."""
    if shutil.which(python) is None:
        return False
    return subprocess.run([python, "-c", f"import {needed}"], capture_output=True, check=False).returncode == 0


@CLIENTS
@pytest.mark.parametrize("python", ["python3.11", "python3.12", "python3.13", "python3.14"])
def test_other_pythons_give_the_same_digest(python: str, clients: str) -> None:
    needed = f"trio; assert trio.__version__ == {trio.__version__!r}" if clients == "trio" else "asyncio"
    if not has(python, needed):
        pytest.skip(f"there is no {python} with {needed}")
    assert digest(7, clients, python) == digest(8, clients)


@CLIENTS
def test_five_processes_give_one_digest(clients: str) -> None:
    assert len({digest(number, clients) for number in range(5)}) == 1
