"""How a program runs: its server, its Spark, its progress, its end.

Rules:
* Impossible arguments fail before Spark is started, where that can be known.
* Everything that Spark raises becomes one line.
* A server that is started for the run ends with it.
* Ctrl-C ends what Spark is doing before it ends the program.

Not here: options (``arguments``), how things are said (``jsproto_io.cli.terminal``).
"""

from __future__ import annotations

import inspect
import logging
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from inspect import Parameter
from pathlib import Path
from time import sleep
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar

import typer
from attrs import NOTHING
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from rich.progress import BarColumn, TextColumn
from rich.text import Text

from jsproto.api_errors import StreamNotFoundError
from jsproto_io.cli.records import BadInput, BadUsage
from jsproto_io.cli.terminal import Screen, Stop, running
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import Connection, JetStream
from pyspark_jetstream import JetStreamDataSource, register
from pyspark_jetstream.connecting import jetstream_of, opened
from pyspark_jetstream.option_fields import OptionError
from pyspark_jetstream.options import write_options
from pyspark_jetstream.pipelines.jobs.arguments import EPILOG, Access, Output, arguments_of
from pyspark_jetstream.pipelines.jobs.summary import Summary
from pyspark_jetstream.planning import DataLossError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from jsproto.grammar.config import StreamInfo

T = TypeVar("T")

LOOK_EVERY: Final = 0.25  # seconds between two looks at how far it is
FORMAT: Final = JetStreamDataSource.name()
_OURS: Final = re.compile(r"^(?:pyspark_jetstream|jsproto|jsproto_io)\.[\w.]+: (.+)$", re.MULTILINE)
_RAISED: Final = re.compile(r"\[USER_RAISED_EXCEPTION\] (.+?)(?: SQLSTATE: \w+)?$", re.MULTILINE)
_PYTHON: Final = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)$", re.MULTILINE)
_STATE: Final = re.compile(r"\s*SQLSTATE: \w+$")
_CAUSE: Final = re.compile(r"^Caused by: (?:\w+[.$])*(\w+: .{1,300}|\w+$)", re.MULTILINE)
_FRONT: Final = re.compile(r"^:? ?(?:Job aborted due to stage failure: .*?)?(?:org\.[\w.]+: )?")


class Place:
    """A JetStream: a server's, or that of a server started for this run."""

    def __init__(self, nc: Connection, js: JetStream, options: dict[str, str], how: str) -> None:
        self.nc = nc
        self.js = js
        self.options = options  # of the data source
        self.how = how

    def info(self, stream: str) -> StreamInfo:
        """The stream. BadInput when there is none."""
        try:
            return self.js.stream_info(stream)
        except StreamNotFoundError:
            raise BadInput(f"there is no stream {stream}") from None

    def end(self, stream: str) -> int:
        """The sequence after its last message. BadInput when there is no stream."""
        return self.info(stream).state.last_seq + 1

    @property
    def text(self) -> str:
        """Which server that is."""
        version = self.nc.server_info.version if self.nc.server_info is not None else "?"
        return f"nats-server {version}, {self.how}"


class Run:
    """One run of a program."""

    def __init__(self, name: str, screen: Screen, stop: Stop, stack: ExitStack, verbose: bool) -> None:
        self.name = name
        self.screen = screen
        self.stop = stop
        self._stack = stack
        self._verbose = verbose
        self._embedded = False
        self._spark: SparkSession | None = None

    # -- servers -------------------------------------------------------------------------------------------------------

    def reach(self, access: Access, servers: str | None = None) -> Place:
        """Connect to ``servers``, or else as ``access`` says: without servers, to one that ends with this run."""
        servers, how = servers or access.urls, ""
        if servers is None:
            if access.store is not None:
                self._stack.enter_context(_alone(access.store))
            with self.stop.held():  # half a start would leave a process behind
                servers = self._stack.enter_context(NatsServer(store=access.store)).url
            self._embedded = True
            streams = "its streams end with the run" if access.store is None else f"its store is {access.store}"
            how = f"started for this run; {streams}"
        options = {"servers": servers, **access.options}
        connection = write_options({**options, "stream": "ANY"}).connection
        nc = self._stack.enter_context(opened(connection, reader_thread=True))
        return Place(nc, jetstream_of(nc, connection), options, how or str(nc.connected_url))

    # -- Spark ---------------------------------------------------------------------------------------------------------

    def spark(self) -> SparkSession:
        """The session: the one that there is, or a new one, which ends with this run."""
        session = SparkSession.getActiveSession()
        if session is None:
            with self.screen.progress() as progress:
                progress.add_task("starting Spark", total=None)
                session = _new_session(self.name, self._verbose)
            self._stack.callback(_ended, session)
            with suppress(ValueError):  # only the main thread may
                signal.signal(signal.SIGINT, self.stop)  # Spark has put its own there
        if self._embedded and not str(session.conf.get("spark.master", "local")).startswith("local"):
            raise BadUsage("a cluster cannot reach a server that is started here: give --servers")
        register(session)
        self._spark = session
        return session

    # -- work ----------------------------------------------------------------------------------------------------------

    def do(
        self, label: str, work: Callable[[], T], done: Callable[[], int] | None = None, total: int | None = None
    ) -> T:
        """``work()``, with its progress: ``done()`` rows of ``total``, or else how many tasks have ended."""
        ended = threading.Event()
        with self.screen.progress(BarColumn(20), TextColumn("{task.fields[far]}")) as progress:
            bar = progress.add_task(label, total=total, far="")

            def look() -> None:
                while not ended.wait(LOOK_EVERY):
                    with suppress(Exception):  # it is only a look
                        far, whole = self._tasks() if done is None else (done(), total)
                        unit = "tasks" if done is None else "rows"
                        shown = f"{far:,} {unit}" if whole is None else f"{far:,} of {whole:,} {unit}"
                        progress.update(bar, completed=far, total=whole, far=shown)

            looking = threading.Thread(target=look, daemon=True)  # Spark wants the work where its session is
            if not progress.disable:
                looking.start()
            try:
                return work()
            finally:
                ended.set()
                if looking.is_alive():
                    looking.join()

    def stream(self, label: str, query: StreamingQuery, done: Callable[[], int], *, follow: bool) -> int:
        """Wait for the end of a streaming query, which with ``follow`` is Ctrl-C.

        Returns: how many rows it has read.
        """
        rows: dict[int, int] = {}
        with self.screen.progress(TextColumn("{task.fields[far]}")) as progress:
            bar = progress.add_task(label, total=None, far="")
            try:
                active = True
                while active:
                    with self.stop.held():  # a question to Spark that is broken off spoils the next answer
                        active = query.isActive
                        rows |= {each["batchId"]: each["numInputRows"] for each in query.recentProgress}
                        progress.update(bar, far=f"{sum(rows.values()):,} rows, sequence {done():,}")
                    sleep(LOOK_EVERY)
            except KeyboardInterrupt:
                query.stop()
                if not follow:
                    raise
                rows |= {each["batchId"]: each["numInputRows"] for each in query.recentProgress}
        query.awaitTermination()  # raises what it has failed of
        return sum(rows.values())

    def _tasks(self) -> tuple[int, int | None]:
        if self._spark is not None:
            tracker = self._spark.sparkContext.statusTracker()
            stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
            found = [stage for stage in stages if stage is not None]
            if found:
                return sum(stage.numCompletedTasks for stage in found), sum(stage.numTasks for stage in found)
        return 0, None

    # -- the end -------------------------------------------------------------------------------------------------------

    def tell(self, summary: Summary) -> None:
        """What was done, on standard output."""
        if self.screen.as_json:
            self.screen.dump({"ok": True, "program": self.name, **summary.data})
        else:
            self.screen.out.print(Text(f"{self.name}: done"))
            self.screen.out.print(summary.table())


def new_program(work: Callable[..., None], example: str) -> typer.Typer:
    """A program of one command, which is called like ``work`` and described by its docstring.

    ``work`` takes the run, its summary, and instances of classes of arguments. The fields of these classes, and of
    ``Output``, are the arguments of the command. The instances are made inside of the run, so that an argument that
    cannot be ends the program like any other failure.
    """
    _, _, *parameters = inspect.signature(work, eval_str=True).parameters.values()
    groups = {each.name: each.annotation for each in parameters} | {"output": Output}
    arguments = {name: (shown, default) for kind in groups.values() for name, shown, default in arguments_of(kind)}

    def command(**given: Any) -> None:
        def made(kind: type[T]) -> T:
            return kind(**{name: given[name] for name, _, _ in arguments_of(kind)})

        summary, output = Summary(work.__name__), made(Output)
        with started(summary, as_json=output.as_json, verbose=output.verbose) as run:
            work(run, summary, **{name: made(kind) for name, kind in groups.items() if kind is not Output})

    command.__doc__ = work.__doc__
    command.__annotations__ = {name: shown for name, (shown, _) in arguments.items()}
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what typer looks at
        [
            Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                default=Parameter.empty if default is NOTHING else default,
                annotation=shown,
            )
            for name, (shown, default) in arguments.items()
        ]
    )
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command(work.__name__, epilog=f"Example: {example}. {EPILOG}", no_args_is_help=True)(command)
    return app


@contextmanager
def started(summary: Summary, *, as_json: bool, verbose: bool) -> Iterator[Run]:
    """Run a program: its failures become a line on standard error, and an exit code."""
    screen = Screen(as_json)
    data: Callable[[], dict[str, Any]] = lambda: {"program": summary.program, **summary.data}  # noqa: E731
    with running(screen, lambda: 0, lambda: summary.note, data) as stop, _explained(), ExitStack() as stack:
        yield Run(summary.program, screen, stop, stack, verbose)


@contextmanager
def _explained() -> Iterator[None]:
    """What Spark and the data source raise, as errors of one line."""
    try:
        yield
    except OptionError as error:
        raise BadUsage(str(error)) from None
    except DataLossError as error:
        raise BadInput(str(error)) from None
    except (PySparkException, Py4JError) as error:
        raise BadInput(one_line_of(str(error))) from error


def one_line_of(text: str) -> str:
    """What an error of Spark is about: our own error, if one is at its root, or else its first line and its cause."""
    for pattern in (_OURS, _RAISED, _PYTHON):
        found = pattern.findall(text)
        if found:
            return str(found[-1]).strip()
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("An error occurred while")]
    if not lines:
        return "Spark failed, and did not say why"
    line, causes = _STATE.sub("", _FRONT.sub("", lines[0])), _CAUSE.findall(text)
    cause = _STATE.sub("", causes[-1]) if causes else line
    return line if cause.endswith(line) else f"{line.rstrip('.: ')}: {cause}"


@contextmanager
def _alone(store: str) -> Iterator[None]:
    """The folder of a store, for this process alone. BadUsage when another one has it."""
    try:
        Path(store).mkdir(parents=True, exist_ok=True)
        lock = open(Path(store, "lock"), "wb")  # noqa: SIM115
    except OSError as error:
        raise BadUsage(f"--store {store}: {error.strerror}") from None
    with lock:
        try:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:  # not every system has it
            pass
        except OSError:
            raise BadUsage(f"--store {store}: another run has it now") from None
        yield


def _new_session(name: str, verbose: bool) -> SparkSession:
    """A session: as spark-submit wants it, or else on this machine."""
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    builder = SparkSession.builder.appName(f"jetstream {name}").config("spark.ui.showConsoleProgress", "false")
    if not submitted or _submitted_here():
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # or tasks run in whatever python3 is
    if not submitted:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = builder.config("spark.ui.enabled", "false")
    session = builder.getOrCreate() if submitted or verbose else _hushed(builder)
    if not verbose:
        logging.getLogger().addFilter(lambda record: "while sending command" not in record.getMessage())  # Ctrl-C
        logging.getLogger("py4j").setLevel("CRITICAL")  # and how its connection then ends
        PySparkLogger.getLogger("SQLQueryContextLogger").setLevel("CRITICAL")  # it shows errors that are ours to tell
        with suppress(Exception):  # a remote Spark keeps its own
            session.sparkContext.setLogLevel("OFF")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


def _submitted_here() -> bool:
    """Whether spark-submit wants it on this machine, which otherwise a JVM alone would tell."""
    SparkContext._ensure_initialized()
    return str(SparkConf().get("spark.master", "")).startswith("local")


def _ended(session: SparkSession) -> None:
    with suppress(Exception):  # it goes with this process anyway
        session.stop()


def _hushed(builder: SparkSession.Builder) -> SparkSession:
    """A session of which the JVM writes to a file instead of to the terminal. BadUsage, with its end, if it fails."""
    with tempfile.TemporaryFile() as log:
        try:
            with _stderr_into(log):
                return builder.getOrCreate()
        except (PySparkException, Py4JError) as error:
            log.seek(0)
            said = [line for line in log.read().decode(errors="replace").splitlines() if line.strip()]
            why = next((line for line in said if "java" in line.lower()), said[-1] if said else one_line_of(str(error)))
            raise BadUsage(f"Spark did not start, which needs Java 17: {why}") from None


@contextmanager
def _stderr_into(log: IO[bytes]) -> Iterator[None]:
    sys.stderr.flush()
    saved = os.dup(2)
    os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(saved, 2)
        os.close(saved)
