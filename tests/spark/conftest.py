"""One Spark, in this process's JVM, and one stream for each test. Without pyspark all of this is skipped."""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jsproto.rules import position
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import Connection, JetStream, connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyspark_jetstream import JetStreamDataSource

ROOT = Path(__file__).resolve().parents[2]
PYTHONPATH = os.pathsep.join(map(str, (Path(__file__).resolve().parent / "path", ROOT, ROOT / "transports")))
"""Of Spark's Python processes. See ``path/sitecustomize.py``."""
Made = Callable[..., str]


class Skipped(pytest.Module):
    """A module of tests that cannot be imported here."""

    def collect(self) -> list[Any]:
        pytest.skip("pyspark or matplotlib is not installed: pip install 'jsproto[pipelines]'")


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    plots = module_path.name.startswith("test_pipelines")
    if find_spec("pyspark") is None or (plots and find_spec("matplotlib") is None):
        return Skipped.from_parent(parent, path=module_path)
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before 4.2 PySpark leaves its own sockets open."""
    if find_spec("pyspark") is not None and find_spec("pyspark.sql.streaming.datasource") is None:
        for item in items:
            if item.get_closest_marker("spark"):
                item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    """Spark in local mode, where a task is run twice before it has failed. It takes about 20 s to start."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        reason = "Spark needs Java 17: there is no java on PATH, and no JAVA_HOME"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    from pyspark.sql import SparkSession

    from pyspark_jetstream import register

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("PYTHONPATH", PYTHONPATH)
        session = (
            SparkSession.builder.master("local[2, 2]")
            .appName("jsproto tests")
            .config("spark.ui.enabled", "false")
            .config("spark.python.authenticate.socketTimeout", "120s")  # a busy machine needs more than 15
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.codegen.wholeStage", "false")  # small queries run sooner without
            .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
            .config("spark.sql.adaptive.enabled", "false")
            .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
        register(session)
        yield session
        session.stop()


@pytest.fixture(autouse=True)
def short_elections(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process a second answer about a position comes soon."""
    monkeypatch.setattr(position, "ELECTION", 0.02)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process streams are looked at again at once."""
    if find_spec("pyspark") is not None:
        monkeypatch.setattr("pyspark_jetstream.source.LAST_PAUSE", 0.0)


@pytest.fixture
def nc(server: NatsServer) -> Iterator[Connection]:
    with connect(server.url) as connection:
        yield connection


@pytest.fixture
def js(nc: Connection) -> JetStream:
    return nc.jetstream()


@pytest.fixture
def stream(js: JetStream, request: pytest.FixtureRequest) -> Iterator[Made]:
    """``stream(rows, **config)`` makes a stream of its own with that many rows, and returns its name.

    Row n, from 1 on, is ``b"n"`` on subject NAME.(n % 10).
    """
    made: list[str] = []

    def make(rows: int = 0, **config: Any) -> str:
        name = f"{''.join(filter(str.isalnum, request.node.name))}_{len(made)}"[-60:]
        wanted = {"subjects": [f"{name}.>"], "allow_direct": True, "allow_batched": True, "allow_atomic": True}
        js.create_stream(name, **{**wanted, **config})
        made.append(name)
        fill(js, name, 1, rows)
        return name

    yield make
    for name in made:
        js.delete_stream(name)


def fill(js: JetStream, name: str, first: int, last: int) -> None:
    """Rows ``first`` to ``last`` of a stream that ``stream`` made."""
    if first <= last:
        with js.fast_publisher() as batch:
            batch.publish_many((f"{name}.{n % 10}", b"%d" % n) for n in range(first, last + 1))
            batch.commit()


def data_of(js: JetStream, name: str) -> Counter[int]:
    """How often each row is stored, without the sink's markers."""
    return Counter(int(message.data) for message in js.get_batch(name) if ".$spark." not in message.subject)


def started(writer: Any) -> Any:
    """A query that has begun, or failed. Spark waits ten seconds for its process, and a busy machine takes longer."""
    while True:
        query = writer.start()
        while query.isActive and query.status["message"].startswith("Initializing"):
            query.awaitTermination(0.05)
        error = query.exception()
        if error is None or "failed to connect back" not in str(error):
            return query


@pytest.fixture
def source(server: NatsServer) -> Callable[..., JetStreamDataSource]:
    """A data source for a stream of ``server``, as Spark makes it of options."""
    from pyspark_jetstream import JetStreamDataSource

    return lambda stream, **options: JetStreamDataSource(
        {"servers": server.url, "stream": stream, **{name: str(value) for name, value in options.items()}}
    )
