"""The data source with faults: what a driver that dies between a write and its commit looks like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql.types import StructType

from pyspark_jetstream import JetStreamDataSource
from pyspark_jetstream.options import write_options
from pyspark_jetstream.sink import JetStreamStreamWriter


class FailingCommits(JetStreamDataSource):
    """As ``jetstream``, but the first commit of micro-batch 2 fails. Option ``token``: the file that remembers it."""

    @classmethod
    def name(cls) -> str:
        return "failing_commits"

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        options = dict(self.options)
        token = Path(options.pop("token"))
        return FailingWriter(token, schema, write_options(options), overwrite)


class FailingWriter(JetStreamStreamWriter):
    """What it writes is stored."""

    def __init__(self, token: Path, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._token = token

    def commit(self, messages: Any, batchId: int) -> None:
        super().commit(messages, batchId)
        if once(self._token, batchId == 2):
            raise RuntimeError("the driver dies between the write and its commit")


def once(token: Path, condition: bool) -> bool:
    """Whether ``condition`` holds, for the first time."""
    if not condition or token.exists():
        return False
    token.touch()
    return True


class DyingTask:
    """A function of a row's data: the first attempt of partition 0 of micro-batch 1 dies with row ``rows``."""

    def __init__(self, token: Path, rows: int) -> None:
        self._token = token
        self._left = rows

    def __call__(self, data: bytes) -> bytes:
        self._left -= 1
        if not self._left:
            context = TaskContext.get()
            assert context is not None
            here = (context.getLocalProperty("streaming.sql.batchId"), context.partitionId()) == ("1", 0)
            if once(self._token, here):
                raise RuntimeError("a task dies with half of its rows")
        return data
