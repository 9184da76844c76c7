"""The data source with faults, each of which happens once, in the middle of the first partition of a write.

Rules: nothing of the tests is imported: a cluster has only what is shipped.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from time import sleep
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.types import StructType

from pyspark_jetstream import JetStreamDataSource
from pyspark_jetstream.options import write_options
from pyspark_jetstream.sink import BATCH_ID, JetStreamStreamWriter, JetStreamWriter

ROW: Final = 1_000  # a fault happens when the partition has stored so many rows, or a few more
SOON: Final = 0.02  # seconds


class Failing(JetStreamDataSource):
    """As ``jetstream``, with the faults that the option ``faults`` has, such as ``task@1 commit@3``.

    The number is that of the micro-batch. A batch write is one, of number 0. Option ``seen`` is a folder, where each
    fault leaves a file of its name. They are:

    ``task``      the task fails
    ``worker``    its Python process is killed
    ``executor``  its executor is killed
    ``server``    the task waits until the server was restarted, and a file ``restarted`` is there
    ``twin``      the task waits for a speculative twin to come as far as it has
    ``commit``    the driver dies between the write and its commit
    """

    @classmethod
    def name(cls) -> str:
        return "failing"

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        faults, options = self._faults()
        return FailingWriter(faults, schema, write_options(options), overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        faults, options = self._faults()
        return FailingStreamWriter(faults, schema, write_options(options), overwrite)

    def _faults(self) -> tuple[Faults, dict[str, str]]:
        options = dict(self.options)
        return Faults(options.pop("faults"), Path(options.pop("seen"))), options


class Faults:
    """What is to happen, and what has."""

    def __init__(self, faults: str, seen: Path) -> None:
        self._seen = seen
        self._at: dict[int, list[str]] = {}
        for fault in faults.split():
            name, _, batch = fault.partition("@")
            self._at.setdefault(int(batch), []).append(name)

    def around(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The Arrow batches of a task, and in the middle of them what is to happen."""
        context = TaskContext.get()
        assert context is not None
        names = self._at.get(int(context.getLocalProperty(BATCH_ID) or 0), ())
        rows = 0
        for batch in batches:
            yield batch
            rows += batch.num_rows
            if context.partitionId() == 0 and rows - batch.num_rows < ROW <= rows:
                for name in names:
                    if name == "twin":
                        self._wait_for_twin(context.attemptNumber())
                    elif name != "commit" and self.once(name):
                        self._happen(name)

    def commit(self, batch: int) -> None:
        """The commit of a micro-batch."""
        if "commit" in self._at.get(batch, ()) and self.once("commit"):
            raise RuntimeError("the driver dies between the write and its commit")

    def once(self, name: str) -> bool:
        """Whether this is the first time."""
        try:
            (self._seen / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def _happen(self, name: str) -> None:
        if name == "task":
            raise RuntimeError("a task dies with half of its rows")
        if name == "worker":
            os.kill(os.getpid(), signal.SIGKILL)
        elif name == "executor":
            os.kill(_parent(os.getppid()), signal.SIGKILL)  # the parent is the daemon that makes such processes
        else:
            assert name == "server"
            self._wait_for("restarted")

    def _wait_for_twin(self, attempt: int) -> None:
        if attempt:
            (self._seen / "twin").touch()
        else:
            self._wait_for("twin")

    def _wait_for(self, name: str) -> None:
        while not (self._seen / name).exists():
            sleep(SOON)


class FailingWriter(JetStreamWriter):
    """A batch write with faults."""

    def __init__(self, faults: Faults, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._faults = faults

    def write(self, iterator: Iterator[Any]) -> Any:
        return super().write(self._faults.around(iterator))


class FailingStreamWriter(JetStreamStreamWriter):
    """A streaming write with faults."""

    def __init__(self, faults: Faults, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._faults = faults

    def write(self, iterator: Iterator[Any]) -> Any:
        return super().write(self._faults.around(iterator))

    def commit(self, messages: Any, batchId: int) -> None:
        super().commit(messages, batchId)
        self._faults.commit(batchId)


def _parent(pid: int) -> int:
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("PPid:")]
    return int(line.split()[1])
