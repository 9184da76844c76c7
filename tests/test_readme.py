"""What the READMEs show is run: a program there that does not do what it says fails here.

Not here: the program for Spark (``tests/spark/test_readme.py``), the tests that pytest runs
(``tests/testing_io/test_plugin.py``, ``tests/simulation/test_simulate_command.py``), the outbox's failures
(``tests/test_embedding.py``), the transport on anyio (``tests/testing_io/test_conformance.py``).
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import anyio
import nats
import pytest

from jsproto import publish_headers
from jsproto_io.contexts import VARIABLES
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import connect
from jsproto_io.testing.threads import serve
from tests import servers
from tests.marks import promise, requirement
from tests.readmes import BUCKETS, PAGES, READMES, ROOT, SHOWN, START, TOUR, TOURS, program_with, programs
from tests.sentences import sections

CORE: Final = "jsproto"
EMBEDDING: Final = "jsproto/EMBEDDING.md"
DRIVERS: Final = "transports/jsproto_io"
REFERENCE: Final = "transports/jsproto_io/REFERENCE.md"
TESTING: Final = "transports/jsproto_io/testing"
NATS_PY: Final = "transports/jsproto_io/NATS_PY.md"
WORKERS: Final = "transports/jsproto_io/WORKERS.md"
RUN: Final = {  # folder -> words by which a test finds a program there
    ".": ("from jsproto_io.sync", "from jsproto_io.asyncio"),
    CORE: (
        "socket.create_connection", "js.get_batch(", "anyio.connect_tcp", "async def store(url)", "class AnyioAdapter",
        "from jsproto.testing",
    ),
    EMBEDDING: ("class NatsPyOutbox",),
    "jsproto/TABLES.md": (),
    DRIVERS: (
        "force_reconnect", "atomic_batch", "js.snapshot(", "session.token", "fetch_no_wait", "ThreadPoolExecutor",
        "ordered=True", "NatsServer()", "js.purge_stream(", "load(js, rows_of(", "async def load(js, rows)",
        "bucket.watch(",
    ),
    REFERENCE: (
        "from_env", "js.counter(", "bucket.lock(", "js.copy(", "js.source(", "sourcing_consumer(", "tx.get_many(",
        "store.put(",
    ),
    TESTING: (
        "def test_an_order_is_billed_once", "def test_a_page_is_printed", "def test_no_job_is_lost", 'domain="hub"',
        "Permissions(", "in_process()", "for _ in range(30)",
    ),
    NATS_PY: ('create_bucket("CONFIG"',),
    WORKERS: (
        "while work.finished < 100", "threading.Event", "add_signal_handler", "open_signal_receiver",
        "js.dead_letters(",
    ),
    "transports/jsproto_io/cli": (),  # its examples are run by tests/cli/test_page.py
    "transports/pyspark_jetstream": ("readStream",),
    "tests": (),
    "fuzz": (),
}  # fmt: skip


@pytest.fixture
def fresh(server_for: Any) -> NatsServer:
    server: NatsServer = server_for()
    return server


def run(program: str, server: NatsServer | None = None) -> str:
    """Run a program of a README in an interpreter of its own, against this server."""
    if server is not None:
        program = program.replace("nats://localhost:4222", server.url)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_every_program_is_run() -> None:
    assert RUN.keys() == READMES.keys()
    for folder, words in RUN.items():
        assert sorted(program_with(folder, each) for each in words) == sorted(programs(folder))


# -- programs ----------------------------------------------------------------------------------------------------------


@promise("On asyncio and trio the verbs are the same, with `async` and `await`.")
@promise("Verbs, parameters and errors are the same, with `async` and `await` on event loops.")
def test_the_programs_on_threads_and_loops(fresh: NatsServer) -> None:
    blocking, looping = programs(".")
    assert run(blocking, fresh) == "10000 stored, the last one as 10000\n38890 bytes read back\n"
    for module, start in (("asyncio", "import asyncio\nasyncio.run(main())"), ("trio", "import trio\ntrio.run(main)")):
        program = looping.replace("jsproto_io.asyncio", f"jsproto_io.{module}") + start
        lines = run(program, fresh).splitlines()
        assert lines[0] == "9990 events.click b'9989'"


def test_callbacks_and_counters(fresh: NatsServer) -> None:
    printed = run(program_with(DRIVERS, "force_reconnect"), fresh)
    assert printed == "b'hello you' True\n2 messages out, 1 reconnect\n"


def test_the_environment(fresh: NatsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NATS_CONTEXT", *VARIABLES.values()):
        monkeypatch.delenv(name, raising=False)
    assert run(program_with(REFERENCE, "from_env"), fresh) == "None 0 streams\n"


def test_objects(fresh: NatsServer) -> None:
    printed = run(program_with(REFERENCE, "store.put("), fresh)
    assert printed == "400000 4 b'a,b'\n400000\n['old.csv'] 0\n"


def test_transactions(fresh: NatsServer) -> None:
    assert run(program_with(REFERENCE, "tx.get_many("), fresh) == "9 b'1'\nchanged meanwhile: ('ann',)\n"


def test_the_keywords_of_a_publish(fresh: NatsServer) -> None:
    counted, server, *steps = run(program_with(REFERENCE, "js.counter("), fresh).splitlines()
    assert counted == "1 2 3"
    assert server.startswith("server ")
    assert [step.strip().partition(": ")[2] for step in steps] == ["tasks.now", "stored as tasks.now"]


def test_atomic_batches_and_acknowledgements_under_way(fresh: NatsServer) -> None:
    assert run(program_with(DRIVERS, "atomic_batch"), fresh) == "3 stored together, the last one as 3\n103\n"


ROWS: Final = 12_000


def rows_through(server: NatsServer) -> Iterator[tuple[str, bytes, Any]]:
    """Rows with ids. The server is restarted, or killed and started, while some of them are read."""
    for number in range(ROWS):
        if number in (3_000, 6_000, 9_000):
            server.kill() if number == 6_000 else server.stop()
            server.start()
        payload = b"%d" % number
        yield "rows.new", payload, publish_headers("rows.new", payload, msg_id=str(number))


def loader(words: str, module: str = "asyncio") -> Any:
    """The function ``load`` of a program of the README."""
    names: dict[str, Any] = {}
    exec(program_with(DRIVERS, words).partition("\n\ndef rows_of")[0].replace("asyncio", module), names)
    return names["load"]


def check_loaded(server: NatsServer) -> None:
    with connect(server.url) as nc:
        assert [int(message.data) for message in nc.jetstream().get_batch("ROWS")] == list(range(ROWS))


@promise("`load` stores every row of an iterator")
def test_loading_all_of_it(fresh: NatsServer) -> None:
    assert run(program_with(DRIVERS, "load(js, rows_of("), fresh) == "10000 stored\n"


@promise("`load` stores every row of an iterator")
@promise("Each row is stored at least once.")
@pytest.mark.server
def test_rows_are_loaded_through_restarts_of_the_server_on_threads() -> None:
    with NatsServer(config=servers.config()) as server:
        with connect(server.url, max_reconnect_attempts=-1, reconnect_time_wait=0.05) as nc:
            js = nc.jetstream()
            js.create_stream("ROWS", subjects=["rows.>"], allow_batched=True, allow_direct=True)
            loader("load(js, rows_of(")(js, rows_through(server))
        check_loaded(server)


@promise("`load` stores every row of an iterator")
@promise("Each row is stored at least once.")
@pytest.mark.server
@pytest.mark.parametrize("asynchronous", [False, True], ids=["iterator", "asynchronous iterator"])
@pytest.mark.parametrize("module", ["asyncio", "trio"])
def test_rows_are_loaded_through_restarts_of_the_server_on_loops(module: str, asynchronous: bool) -> None:
    async def asynchronously(rows: Iterator[Any]) -> AsyncIterator[Any]:
        for row in rows:
            yield row

    async def load(server: NatsServer) -> None:
        driver: Any = import_module(f"jsproto_io.{module}")
        async with driver.connect(server.url, max_reconnect_attempts=-1, reconnect_time_wait=0.05) as nc:
            js = nc.jetstream()
            await js.create_stream("ROWS", subjects=["rows.>"], allow_batched=True, allow_direct=True)
            rows = rows_through(server)
            await loader("async def load(js, rows)", module)(js, asynchronously(rows) if asynchronous else rows)

    with NatsServer(config=servers.config()) as server:
        anyio.run(load, server, backend=module)
        check_loaded(server)


def test_reading(fresh: NatsServer) -> None:
    assert run(program_with(DRIVERS, "js.snapshot("), fresh).splitlines() == [
        "b'98' b'41'", "[94, 99]", "[46, 47, 48, 49, 50]", "5 subjects at sequence 100",
    ]  # fmt: skip


@requirement(256)
def test_sessions(fresh: NatsServer) -> None:
    assert run(program_with(DRIVERS, "session.token"), fresh) == "b'3.20'\n[1]\n"


def test_pulling(fresh: NatsServer) -> None:
    program = program_with(DRIVERS, "fetch_no_wait")
    assert run(program, fresh) == "8 jobs done\nb'page 8' 9\nb'page 9' 10\n[]\n"


def test_a_pool_of_workers(fresh: NatsServer) -> None:
    program = program_with(DRIVERS, "ThreadPoolExecutor")
    assert run(program, fresh) == "100 pages printed\n[None, None, None, None]\n"


def test_what_is_pushed(fresh: NatsServer) -> None:
    assert run(program_with(DRIVERS, "ordered=True"), fresh) == "100 orders billed\nb'0' audit\nTrue\n"


def test_the_programs_that_copy(fresh: NatsServer) -> None:
    copied, left = run(program_with(REFERENCE, "js.copy("), fresh).splitlines()
    assert copied == "10 messages copied, up to 10"
    assert left.startswith("0 left; Headers([")
    assert "('Jsproto-Copy-Source', 'JOBS 10 " in left
    assert run(program_with(REFERENCE, "js.source("), fresh) == "10 messages up to 10\ngoes on after 10\n"


@requirement(260)
@promise("In three steps nothing comes twice, and nothing is left out")
def test_a_source_that_becomes_durable(fresh: NatsServer) -> None:
    assert run(program_with(REFERENCE, "sourcing_consumer("), fresh) == f"{[*range(11)]}\n"


@promise("It returns at once")
def test_callbacks(fresh: NatsServer) -> None:
    assert run(program_with(WORKERS, "while work.finished < 100"), fresh) == "100 printed, 0 failures\n"


@promise("These programs work until a signal ends them.")
@pytest.mark.parametrize("words", ["threading.Event", "add_signal_handler", "open_signal_receiver"])
def test_a_pool_of_workers_ends_gracefully(fresh: NatsServer, words: str) -> None:
    program = program_with(WORKERS, words).replace("nats://localhost:4222", fresh.url)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as worker:
        try:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
            with connect(fresh.url) as nc:
                js = nc.jetstream()
                for number in range(20):
                    js.publish(f"pages.{number % 3}", b"%d" % number)
                printed = [worker.stdout.readline() for _ in range(20)]
                worker.terminate()
                assert worker.stdout.read() == "stopped after 20\n"
                info = js.consumer_info("PAGES", "printers")
        finally:
            worker.kill()
    assert sorted(printed) == sorted(f"printed {number}\n" for number in range(20))
    assert worker.returncode == 0
    assert (info.num_ack_pending, info.num_pending) == (0, 0)


def test_dead_letters(fresh: NatsServer) -> None:
    assert run(program_with(WORKERS, "js.dead_letters("), fresh).splitlines() == [
        "dead.ORDERS.billing.1 b'tea'",
        "['Shop: Berlin', 'Dead-Letter-Subject: orders.anna', 'Dead-Letter-Reason: max_deliver']",
    ]


@pytest.mark.skipif(servers.HAS_ACK_V2, reason="nats-py reads ack subjects of version 1 only")
def test_a_lock_and_an_election(fresh: NatsServer) -> None:
    assert run(program_with(REFERENCE, "bucket.lock("), fresh) == "True b'2'\nTrue host-1\n"


def test_a_bucket_of_nats_py(fresh: NatsServer) -> None:
    assert run(program_with(NATS_PY, 'create_bucket("CONFIG"'), fresh).splitlines() == [
        "b'8080'", "[b'80', b'8080']", "['port']",
    ]  # fmt: skip

    async def read() -> list[Any]:
        nc = await nats.connect(fresh.url)
        bucket = await nc.jetstream().key_value("CONFIG")
        await bucket.put("user", b"anna")
        found: list[Any] = [(await bucket.get(key)).value for key in ("port", "user")]
        found.append(await bucket.update("port", b"81", last=2))
        await nc.close()
        return found

    assert asyncio.run(read()) == [b"8080", b"anna", 6]
    with connect(fresh.url) as nc:
        bucket = nc.jetstream().bucket("CONFIG")
        assert bucket.get("port").value == b"81"
        nc.jetstream().update_bucket("CONFIG", history=1)  # else the marker's time would be that of the key
        with bucket.watch("lock", updates_only=True) as watcher:
            bucket.create("lock", b"me", ttl=1)
            assert [watcher.next_update(timeout=30) is not None for _ in range(2)] == [True, True]
        assert bucket.keys() == ["user", "port"]  # without the marker that the server has left


def test_keys_and_values(fresh: NatsServer) -> None:
    assert run(program_with(DRIVERS, "bucket.watch("), fresh).splitlines() == [
        "taken by revision 2",
        "b'8080' b'80' ['net.port', 'net.host']",
        "net.port b'8080'",
        "net.host b'here'",
        "net.host was deleted",
        "10 ['SETTINGS']",
        "4 {'net.port': b'8080'}",
        "b'8081'",
    ]


def test_five_minutes(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(program_with(START, "def work("))
    on_both = program_with(START, "def test_each_order").replace("jetstream_server", "jetstream")
    (tmp_path / "test_shop.py").write_text(on_both)
    command = [sys.executable, "-m", "pytest", "-q", "-rs"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "4 passed" in done.stdout


def test_buckets_and_objects_in_ten_minutes() -> None:
    with serve() as server:
        url = server.url
        printed = [run(program.replace("nats://localhost:4222", url)) for program in programs(BUCKETS)]
    assert printed == [
        "read it again, then decide\nno coffee\n['tea.black', 'tea.green'] [b'3.00', b'3.20']\n",
        "False\n",
        "9 left\n",
        "300000 bytes in 3 chunks\n300000 ['menu/photo.jpg']\n",
    ]


def test_a_server_for_tests() -> None:
    assert run(program_with(DRIVERS, "NatsServer()")) == "[b'before', True]\n"


def test_a_server_in_memory() -> None:
    acknowledged, stored = run(program_with(TESTING, 'domain="hub"')).splitlines()
    assert acknowledged.startswith("PubAck(stream='EVENTS', seq=1, domain='hub', ")
    assert stored == "1 stored"


def test_a_server_with_users() -> None:
    assert run(program_with(TESTING, "Permissions(")) == 'Permissions Violation for Publish to "bills.1"\n'


def test_a_server_without_sockets() -> None:
    acknowledged, stored = run(program_with(TESTING, "in_process()")).splitlines()
    assert acknowledged.startswith("PubAck(stream='EVENTS', seq=1, ")
    assert stored == "1 stored"


def test_half_an_hour_of_a_blocking_program() -> None:
    assert run(program_with(TESTING, "for _ in range(30)")) == "30 stored in 30 minutes\n"


def test_the_tour_prints_what_it_shows() -> None:
    printed = iter(run("".join(programs(TOUR))).splitlines())
    shown = [line for block in re.findall(r"```text\n(.*?)```", SHOWN[TOUR], re.DOTALL) for line in block.splitlines()]
    assert len(shown) > 20
    assert [line for line in shown if not any(found.startswith(line) for found in printed)] == []


def test_the_tour_is_short() -> None:
    assert len(SHOWN[TOUR].splitlines()) <= 300


@promise("Here a batch survives the loss of every hundredth message")
def test_a_client_and_a_server_in_simulated_time() -> None:
    program = program_with(CORE, "from jsproto.testing")
    assert run(program) == "1000 taken, 13 reported as lost, 987 stored, in 0.24 simulated seconds\n"


@promise("`finished` says that all has been received.")
@promise("It does not say that it has been taken:")
def test_the_driver_on_a_plain_socket(fresh: NatsServer) -> None:
    plain = program_with(CORE, "socket.create_connection")
    assert "AccountInfo" in run(plain, fresh)
    _, *told = run(plain + program_with(CORE, "js.get_batch("), fresh).splitlines()
    assert told == [str([*range(3, 11)]), "5 acknowledged"]


def test_two_batches_in_another_client(fresh: NatsServer) -> None:
    setup = """
from jsproto_io.sync import connect
with connect("nats://localhost:4222") as nc:
    nc.jetstream().create_stream("EVENTS", subjects=["events.>"], allow_batched=True)
"""
    run(setup, fresh)
    lines = run(program_with(EMBEDDING, "class NatsPyOutbox"), fresh).splitlines()
    assert [line for line in lines if line.startswith("batch")] == ["batch a: 1000 stored", "batch b: 1000 stored"]


# -- what else can be checked ------------------------------------------------------------------------------------------


def test_the_first_page_is_short() -> None:
    assert len(READMES["."].splitlines()) <= 160


@pytest.mark.parametrize("folder", SHOWN)
def test_links_lead_somewhere(folder: str) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", SHOWN[folder]):
        path, _, anchor = link.partition("#")
        page = ROOT / folder if folder in (*PAGES, *TOURS) else ROOT / folder / "README.md"
        target = (page.parent / path).resolve() if path else page.resolve()
        assert target.is_file(), link
        if anchor:
            titles = sections(target.read_text(encoding="utf-8"))
            assert anchor in {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}, link


def exists(name: str, folder: str) -> bool:
    """A file or folder of this name is in ``folder`` or in that of this page, in the repository or somewhere below."""
    here = (ROOT / folder).parent if folder in (*PAGES, *TOURS) else ROOT / folder
    return any([*place.glob(name.rstrip("/"))] for place in (here, ROOT)) or any([*here.rglob(name.rstrip("/"))])


@pytest.mark.parametrize("folder", SHOWN)
def test_files_that_are_named_exist(folder: str) -> None:
    """A map that is out of date is worse than none."""
    named = re.findall(r"`((?:\.?[\w*-]+/)*[\w*-]*(?:\.py|\.md|\.csv|/))`", SHOWN[folder])
    assert [name for name in named if not exists(name, folder)] == []


@pytest.mark.parametrize("folder", READMES)
def test_programs_and_tests_of_commands_exist(folder: str) -> None:
    text = re.sub(r"<!--.*?-->", "", SHOWN[folder])
    modules = [name.replace(".", "/") for name in re.findall(r"python -m ([\w.]*\w)", text)]
    for path in [*modules, *(name.removesuffix(".py") for name in re.findall(r"[ `](tests/[\w/]+\.py)", text))]:
        places = [place / path for place in (ROOT, ROOT / "transports")]
        assert any(place.is_dir() or place.with_suffix(".py").is_file() for place in places), path


@pytest.mark.parametrize("folder", READMES)
def test_extras_of_commands_exist(folder: str) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named = {name for names in re.findall(r"\.\[([a-z,]+)\]", SHOWN[folder]) for name in names.split(",")}
    assert named <= extras.keys()
