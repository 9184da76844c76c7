"""A Spark cluster of its own on loopback: a master, two workers, and Spark Connect in front of them where it is wanted.

Rules: executors see the installed packages alone, and what is shipped to them: no PYTHONPATH. Every process is one of
ours, and is ended by its process id.

Not here: what is run there (``clusters``).
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Final, Self
from urllib.request import urlopen

import pyspark

HOST: Final = "127.0.0.1"
WORKERS: Final = (HOST, "localhost")  # by their hosts: Spark starts a speculative twin on another host only
READY_WITHIN: Final = 120.0  # seconds
ENDED_WITHIN: Final = 30.0
ROOT: Final = Path(__file__).resolve().parents[2]
SPARK_HOME: Final = Path(pyspark.__file__).resolve().parent


class Standalone:
    """``with Standalone(folder) as cluster``: a master and two workers, of one core each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self.url = ""

    def config(self, **more: Any) -> dict[str, str]:
        """The configuration of whoever wants to run there, beside the address of the master."""
        return {
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.executor.cores": "1",
            "spark.executor.memory": "600m",
            "spark.ui.enabled": "false",
            "spark.log.level": "ERROR",
            "spark.sql.warehouse.dir": str(self._folder / "warehouse"),
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            **{name.replace("_", "."): str(value) for name, value in more.items()},
        }

    def submit(self, program: Path, *arguments: str, py_files: Path) -> str:
        """Run a program by ``spark-submit``. Returns what it printed. AssertionError when it fails, with its output."""
        return run(self._submission(program, arguments, py_files))

    @contextmanager
    def driver(self, program: Path, *arguments: str, py_files: Path) -> Iterator[subprocess.Popen[bytes]]:
        """A program that runs by ``spark-submit`` until the end of the block, where it is killed."""
        log = (self._folder / "driver.log").open("ab")
        command = self._submission(program, arguments, py_files)
        driver = subprocess.Popen(
            command, env=environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        try:
            yield driver
        finally:
            os.killpg(driver.pid, signal.SIGKILL)  # its JVM, and all that has begun
            driver.wait()
            log.close()

    def _submission(self, program: Path, arguments: Sequence[str], py_files: Path) -> list[str]:
        options = [f"--conf={name}={value}" for name, value in self.config().items()]
        command = [spark_program("spark-submit"), "--master", self.url, *options, "--py-files", str(py_files)]
        return [*command, str(program), *arguments]

    @contextmanager
    def connect_server(self) -> Iterator[str]:
        """A server of Spark Connect. Returns the URL for its clients."""
        (port,) = free_ports(1)
        config = {**self.config(), "spark.connect.grpc.binding.address": HOST, "spark.connect.grpc.binding.port": port}
        name = "org.apache.spark.sql.connect.service.SparkConnectServer"
        options = [f"--conf={name}={value}" for name, value in config.items()]
        command = [spark_program("spark-submit"), "--master", self.url, *options, "--class", name, "spark-internal"]
        with ExitStack() as stack:
            server = self._start(stack, "connect", command)

            def listens() -> bool:
                with closing(socket.socket()) as probe:
                    return probe.connect_ex((HOST, port)) == 0

            self._wait(listens, "Spark Connect", server)
            yield f"sc://{HOST}:{port}"

    def __enter__(self) -> Self:
        port, page = free_ports(2)
        self.url = f"spark://{HOST}:{port}"
        with ExitStack() as stack:
            where = ["--host", HOST, "--port", str(port), "--webui-port", str(page)]
            deploy = "org.apache.spark.deploy"
            spark_class = spark_program("spark-class")
            master = self._start(stack, "master", [spark_class, f"{deploy}.master.Master", *where])

            def alive() -> list[Any]:
                with suppress(OSError, ValueError), urlopen(f"http://{HOST}:{page}/json/", timeout=5) as reply:
                    return [each for each in json.load(reply)["workers"] if each["state"] == "ALIVE"]
                return []

            for host in WORKERS:
                folder = self._folder / f"worker-{host}"
                size = ["--host", host, "--cores", "1", "--memory", "1g", "--webui-port", "0"]
                command = [spark_class, f"{deploy}.worker.Worker", *size, "--work-dir", str(folder), self.url]
                self._start(stack, folder.name, command)
            self._wait(lambda: len(alive()) == len(WORKERS), "the cluster", master)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def _start(self, stack: ExitStack, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        log = stack.enter_context((self._folder / f"{name}.log").open("wb"))
        process = subprocess.Popen(command, env=environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        stack.callback(_end, process)
        return process

    def _wait(self, ready: Any, what: str, process: subprocess.Popen[bytes]) -> None:
        until = monotonic() + READY_WITHIN
        while not ready():
            logs = "\n".join(f"-- {log.name}\n{log.read_text()[-2_000:]}" for log in self._folder.glob("*.log"))
            assert process.poll() is None, f"{what} has ended:\n{logs}"
            assert monotonic() < until, f"{what} is not ready after {READY_WITHIN:.0f} s:\n{logs}"
            sleep(0.2)


def spark_program(name: str) -> str:
    """A program that comes with PySpark."""
    return str(SPARK_HOME / "bin" / name)


def environment(**more: str) -> dict[str, str]:
    """What processes of the cluster, and programs that are run there, have: nothing of this checkout."""
    hidden = {"PYTHONPATH", "PYSPARK_DRIVER_PYTHON", "SPARK_REMOTE"}
    ours = {name: value for name, value in os.environ.items() if name not in hidden}
    return {**ours, "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": HOST, **more}


def run(command: list[str], **more: str) -> str:
    """What a program printed. AssertionError when it fails, with what it said."""
    done = subprocess.run(command, env=environment(**more), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}:\n{done.stdout[-2_000:]}\n{without_java(done.stderr)[-8_000:]}"
    return done.stdout


def without_java(text: str) -> str:
    """What Spark says, without the stack traces of its JVM."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("\tat "))


def zipped(path: Path, *more: Path) -> Path:
    """Everything that runs, as one file to ship. ``more`` are modules of the tests."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for package in (ROOT / "jsproto", *(ROOT / "transports").iterdir()):
            for module in sorted(package.rglob("*.py")):
                file.write(module, module.relative_to(package.parent))
        for module in more:
            file.write(module, module.relative_to(ROOT))
    return path


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server((HOST, 0))) for _ in range(count)]
        return [bound.getsockname()[1] for bound in sockets]


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(ENDED_WITHIN)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
