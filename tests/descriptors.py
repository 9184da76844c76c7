"""A process that has no file descriptors left."""

from __future__ import annotations

import gc
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def open_descriptors() -> set[int]:
    """Those of the files and sockets that this process has open."""
    gc.collect()
    return {int(path.name) for path in Path("/proc/self/fd").iterdir() if path.exists()}


@contextmanager
def no_descriptors(beyond: int = 0) -> Iterator[None]:
    """Nothing can be opened in the block that would get the descriptor ``beyond``, or a higher one."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (beyond, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def next_descriptors(count: int) -> list[int]:
    """Those that the next ``count`` files and sockets get."""
    found = [os.open(os.devnull, os.O_RDONLY) for _ in range(count)]
    for each in found:
        os.close(each)
    return found
