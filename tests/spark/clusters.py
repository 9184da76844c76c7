"""What takes a cluster: a standalone master and two workers, Spark Connect, and what goes wrong there.

``pytest tests/spark/clusters.py`` runs it, in 12 to 25 minutes. A run of everything does not. It starts
and ends the processes of its cluster, on loopback.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from jsproto_io.sync import connect
from pyspark_jetstream import register
from tests.integration.cluster import Cluster
from tests.servers import paused
from tests.spark import failing, following, jobs
from tests.spark.conftest import Made, data_of, fill
from tests.spark.copying import check_copies, copy_with_faults, small_chunks
from tests.spark.standalone import HOST, ROOT, Standalone, run, zipped
from tests.spark.test_replicas import made

if TYPE_CHECKING:
    from jsproto_io.nats_server import NatsServer
    from jsproto_io.sync import JetStream

pytestmark = pytest.mark.spark

with_connect = pytest.mark.skipif(
    find_spec("grpc") is None, reason="Spark Connect needs pip install 'pyspark[connect]'"
)

JOBS = Path(jobs.__file__)
FAILING = Path(failing.__file__)
FOLLOWING = Path(following.__file__)
RESTARTS = 10
SOON = 0.05  # seconds
FAULTS = "worker@0 task@1 executor@2 server@3 commit@4"
ROWS = 5_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is shipped."""
    tests = [FAILING.parents[1] / "__init__.py", FAILING.parent / "__init__.py", FAILING]
    return zipped(tmp_path_factory.mktemp("code") / "jsproto.zip", *tests)


@pytest.fixture
def session(cluster: Standalone, code: Path) -> Iterator[Callable[..., SparkSession]]:
    """``session(**config)``: a session of this process on the cluster."""
    made: list[SparkSession] = []

    def make(**config: Any) -> SparkSession:
        builder = SparkSession.builder.master(cluster.url).appName("jsproto tests")
        for name, value in cluster.config(spark_submit_pyFiles=code, **config).items():
            builder = builder.config(name, value)
        made.append(builder.getOrCreate())
        register(made[0])
        return made[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", HOST)
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "transports")]))
        yield make
        for each in made:
            each.stop()


@pytest.fixture
def remote(cluster: Standalone, code: Path) -> Iterator[SparkSession]:
    """A session of this process on the cluster, by Spark Connect."""
    with pytest.MonkeyPatch.context() as patch, cluster.connect_server() as url:
        patch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")  # as PySpark does, but not for good
        spark = SparkSession.builder.remote(url).getOrCreate()
        spark.addArtifacts(str(code), pyfile=True)
        register(spark)
        yield spark
        spark.stop()


def check_jobs(printed: str, js: JetStream, target: str, code: Path) -> dict[str, Any]:
    """The jobs have read everything, and stored it by each delivery, once from a batch and once from a query."""
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    assert found.pop("read") == [*range(1, ROWS + 1)]
    ways = [*jobs.DELIVERIES, *(f"stream-{each}" for each in jobs.DELIVERIES)]
    assert found["written"] == dict.fromkeys(ways, ROWS)
    assert data_of(js, target) == Counter(dict.fromkeys(range(1, ROWS + 1), len(ways)))
    assert all(code.name in path for path in found["tasks"]), "tasks found the code elsewhere"
    return found


def test_jobs_with_their_code_in_a_zip(
    cluster: Standalone, code: Path, server: NatsServer, js: JetStream, stream: Made, tmp_path: Path
) -> None:
    origin, target = stream(ROWS), stream()
    printed = cluster.submit(JOBS, server.url, origin, target, str(tmp_path), py_files=code)
    found = check_jobs(printed, js, target, code)
    assert code.name in found["driver"]


@with_connect
def test_jobs_through_spark_connect(
    cluster: Standalone, code: Path, server: NatsServer, js: JetStream, stream: Made, tmp_path: Path
) -> None:
    origin, target = stream(ROWS), stream()
    with cluster.connect_server() as url:
        command = [sys.executable, str(JOBS), server.url, origin, target, str(tmp_path), url, str(code)]
        check_jobs(run(command, PYTHONPATH=str(code)), js, target, code)


@pytest.mark.parametrize("delivery", jobs.DELIVERIES)
@pytest.mark.parametrize("way", ["driver", pytest.param("connect", marks=with_connect)])
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")  # which Spark Connect needs
def test_faults(
    request: pytest.FixtureRequest,
    server_for: Callable[..., NatsServer],
    tmp_path: Path,
    way: str,
    delivery: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A process of Python and an executor are killed, a task and a commit fail, the server and the query restart."""
    server = server_for()
    with connect(server.url) as nc:
        for name in ("ORIGIN", "TARGET"):
            nc.jetstream().create_stream(
                name, subjects=[f"{name}.>"], allow_direct=True, allow_batched=True, allow_atomic=True
            )
    spark = request.getfixturevalue("remote") if way == "connect" else request.getfixturevalue("session")()
    stored = copy_with_faults(spark, server, "ORIGIN", "TARGET", delivery, tmp_path, FAULTS, 5)
    twice = check_copies(stored, delivery, FAULTS, 5)
    with capsys.disabled():
        print(f"\n{delivery} by {way}: {len(stored)} rows, {stored.total()} stored, {twice} twice or more ({FAULTS})")


def test_a_replica_stands_still(session: Any) -> None:
    """Two of three servers are enough for the jobs of a cluster, though the third one is asked, and is silent."""
    with Cluster() as three:
        _, follower = made(three, "STILL")
        options = {"servers": ",".join([follower.url, *three.urls]), "stream": "STILL", "requestTimeout": "3s"}
        options["nats.connectTimeout"] = "0.5"
        numbers = session().range(1, ROWS + 1, 1, 2)
        rows = numbers.selectExpr("concat('STILL.', id % 3) subject", "cast(id as string) data")
        with paused(follower):
            writer = rows.write.format("jetstream").options(**options, delivery="atomic", markerSubject="STILL")
            writer.mode("append").save()
            options["fetch.numRetries"] = "100"
            read = session().read.format("jetstream").options(**options, minPartitions="4").load()
            assert sorted(int(row.data) for row in read.select("data").collect()) == [*range(1, ROWS + 1)]


def test_ten_drivers_killed_at_random_moments(
    cluster: Standalone, code: Path, server: NatsServer, js: JetStream, stream: Made, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """A query on the cluster whose driver is killed ten times, while the stream grows: the copy is the stream."""
    origin, target = stream(), stream()
    random = Random(6)
    last, moments = 0, []
    for number in range(RESTARTS + 1):
        first, last = last + 1, last + random.randint(500, 2_000)
        fill(js, origin, first, last)
        before = js.stream_info(target).state.messages
        with cluster.driver(FOLLOWING, server.url, origin, target, str(tmp_path), py_files=code) as driver:
            until = monotonic() + random.uniform(0, 1.5)
            while (done := js.stream_info(target).state.messages) == before or monotonic() < until:
                assert driver.poll() is None, "the driver has ended"
                if done == before:  # it has stored nothing yet
                    until = monotonic() + random.uniform(0, 1.5)
                sleep(SOON)
            moments.append(done)
            if number == RESTARTS:
                while len(data_of(js, target)) < last:
                    assert driver.poll() is None, "the driver has ended"
                    sleep(SOON)
    stored = data_of(js, target)
    assert stored == Counter(range(1, last + 1))
    contents = {message.data: message.subject.split(".")[1] for message in js.get_batch(target)}
    assert all(contents[message.data] == str(message.seq % 7) for message in js.get_batch(origin))
    with capsys.disabled():
        print(f"\n{RESTARTS} drivers killed with {moments} messages in the copy: {last} rows, {stored.total()} stored")


@pytest.mark.parametrize("delivery", jobs.DELIVERIES)
def test_speculation(
    session: Any, server: NatsServer, js: JetStream, stream: Made, tmp_path: Path, delivery: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """A task waits in the middle until its twin is as far: then both store the rest."""
    target = stream()
    speculation = {"spark_speculation": "true", "spark_speculation_interval": "100ms"}
    spark = session(**speculation, spark_speculation_quantile="0.5", spark_speculation_multiplier="1.01")
    spark.dataSource.register(failing.Failing)
    rows = spark.range(1, ROWS + 1, 1, 2).selectExpr(f"concat('{target}.', id % 3) subject", "cast(id as string) data")
    writer = rows.write.format("failing").options(servers=server.url, stream=target, delivery=delivery)
    with small_chunks(spark):
        writer.options(markerSubject=target, faults="twin@0", seen=str(tmp_path)).mode("append").save()
    assert (tmp_path / "twin").exists()
    stored = data_of(js, target)
    twice = stored.total() - ROWS
    assert sorted(stored) == [*range(1, ROWS + 1)]
    assert (twice > 0) == (delivery == "fast")
    with capsys.disabled():
        print(f"\n{delivery} with speculation: {ROWS} rows, {stored.total()} stored, {twice} more often than once")


def test_executors_without_pyarrow(session: Any, server: NatsServer, stream: Made, tmp_path: Path) -> None:
    """The driver has it, and the first task says that it is missing there."""
    hiding = "if b'CoarseGrainedExecutorBackend' in open(f'/proc/{os.getppid()}/cmdline', 'rb').read():"
    (tmp_path / "sitecustomize.py").write_text(f"import os, sys\n{hiding}\n    sys.modules['pyarrow'] = None\n")
    spark = session(**{"spark.executorEnv.PYTHONPATH": tmp_path})
    name = stream(10)
    given = {"servers": server.url, "stream": name}
    with pytest.raises(PySparkException, match="ModuleNotFoundError: .*pyarrow"):
        spark.read.format("jetstream").options(**given).load().collect()
    rows = spark.sql("SELECT 'x' data").write.format("jetstream").options(**given, subject=f"{name}.x")
    with pytest.raises(PySparkException, match="ModuleNotFoundError: .*pyarrow"):
        rows.mode("append").save()
