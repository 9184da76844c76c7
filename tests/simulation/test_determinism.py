"""The same digests in each process: whatever the hash seed, and whatever was on the heap before."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from tests.effort import EFFORT
from tests.marks import promise

CLIENTS = ("asyncio", "trio", "blocking")
OTHERS = [f"python3.{minor}" for minor in range(11, 15) if minor != sys.version_info.minor]
ROOT = Path(__file__).resolve().parent.parent.parent
PROCESSES = 2 if EFFORT < 1 else 5
"""A process takes two seconds, and each of the other Pythons needs two more."""


def digests(number: int, clients: Sequence[str] = CLIENTS, python: str = sys.executable) -> str:
    """Of a fresh process with this hash seed and heap history."""
    path = os.pathsep.join((str(ROOT), str(ROOT / "transports")))
    done = subprocess.run(
        [python, "-m", "tests.simulation.digests", str(number), *clients],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": str(number), "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split()[0] for line in done.stdout.splitlines()] == [*clients]
    return done.stdout


def has(python: str, clients: str) -> bool:
    """Whether it is installed and can import what these clients need, and is no shim of one that is not."""
    if shutil.which(python) is None:
        return False
    needed = f"trio; assert trio.__version__ == {trio.__version__!r}" if clients == "trio" else "asyncio"
    return subprocess.run([python, "-c", f"import {needed}"], capture_output=True, check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("python", OTHERS)
def test_other_pythons_give_the_same_digests(python: str) -> None:
    clients = [name for name in CLIENTS if has(python, name)]
    if not clients:
        pytest.skip(f"there is no {python}")
    assert digests(7, clients, python) == digests(8, clients)


@promise("the same seed gives the same bytes at the same times")
@pytest.mark.slow
def test_several_processes_give_one_digest() -> None:
    """For each kind of clients."""
    assert len({digests(number) for number in range(PROCESSES)}) == 1
