"""The rules of the house, as tests: who may import what, what is public, what is shipped, how files look."""

from __future__ import annotations

import ast
import inspect
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from fnmatch import fnmatch
from functools import cache
from importlib import import_module
from importlib.metadata import Distribution
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

import jsproto
from tests.citations import FACTS, REQUIREMENTS
from tests.marks import known_fault, promise, requirement
from tests.readmes import FOLDERS, PAGES, TOURS

ROOT: Final = Path(__file__).resolve().parent.parent
CORE: Final = sorted((ROOT / "jsproto").rglob("*.py"))
DRIVERS: Final = sorted((ROOT / "transports").rglob("*.py"))
PROGRAMS: Final = [path for folder in ("tests", "fuzz") for path in sorted((ROOT / folder).rglob("*.py"))]

# All that the core may import besides itself, and from what else one module may take one name.
ALLOWED: Final = frozenset(
    {
        "__future__", "base64", "bisect", "builtins", "collections", "collections.abc", "dataclasses", "difflib",
        "enum", "functools", "hashlib", "heapq", "itertools", "json", "math", "operator", "re", "struct", "types",
        "typing", "urllib.parse",
    }
)  # fmt: skip
ALLOWED_NAMES: Final = {
    ("jsproto", "importlib", "import_module"),  # of its own modules, when one of their names is used
    ("jsproto._lend", "importlib", "import_module"),  # of its own, too
    *(("jsproto.grammar.times", "datetime", name) for name in ("UTC", "datetime", "timedelta")),
}

# Those of datetime are values that callers hand in: what asks a clock, or the machine's time zone, is not for the core.
ASKS_A_CLOCK: Final = frozenset({"fromtimestamp", "now", "today", "utcfromtimestamp", "utcnow"})

# What the standard library gives without an import and a pure core has no use for.
IMPURE_BUILTINS: Final = frozenset({"__import__", "breakpoint", "compile", "eval", "exec", "input", "open", "print"})

# Part of the core -> the parts it may import at run time. "base" is the modules beside the folders but two: "outbox",
# the seam of the client, and "events".
LAYERS: Final = {
    "base": {"base"},
    "grammar": {"base", "grammar"},
    "wire": {"base", "grammar", "wire"},
    "rules": {"base", "grammar", "wire", "rules"},
    "events": {"base", "grammar"},
    "outbox": {"base", "events", "grammar", "wire"},
    "client": {"base", "events", "outbox", "grammar", "wire", "rules", "client"},
    "server": {"base", "events", "outbox", "grammar", "wire", "rules", "server"},
    "testing": {"base", "events", "outbox", "grammar", "wire", "rules", "client", "server", "testing"},
}
# Inside a role: room -> the rooms and files beside it that it may import at run time. A file not named here stands
# above all rooms of its role.
ROOMS: Final = {
    "client.connection": {"connection"},
    "client.publish": {"connection", "publish"},
    "client.manage": {"connection", "manage"},
    "client.consume": {"connection", "manage", "consume"},
    "client.copy": {"copy"},
    "client.read": {"connection", "read"},
    "client.bucket": {"connection", "publish", "consume", "read", "bucket"},
    "client.objects": {"connection", "publish", "consume", "read", "bucket", "objects"},
    "server.store": {"store"},
    "server.publish": {"store", "publish"},
    "server.consume": {"store", "publish", "consume", "routing"},
    "server.read": {"store", "publish", "read"},
    "server.replication": {"store", "publish", "read", "replication"},
    "server.inlet": {"store", "publish", "consume", "inlet"},
    "server.routing": {"routing"},
    "server.api": {"store", "publish", "consume", "read", "replication", "inlet", "routing", "api"},
}
# And those that it may import besides for annotations alone.
ANNOTATIONS: Final = {"base": {"grammar"}}

MONOTONIC: Final = {"monotonic", "perf_counter", "process_time", "sleep"}
# The modules that may ask for the time of day: a server stamps messages with it, and a delay ends at a moment.
TIME_OF_DAY: Final = {"jsproto_io.testing.host": {"time_ns"}, "jsproto_io._state.keywords": {"time_ns"}}
# Those that know dates: what time it is in other places, and what time a person has written.
DATES: Final = {"jsproto_io._state.zones": {"UTC", "datetime"}, "jsproto_io.cli.values": {"datetime"}}
THIRD_PARTY: Final = {
    "jsproto_io/trio.py": {"trio"},
    "jsproto_io/_aio/trio_link.py": {"trio"},
    "jsproto_io/_state/credentials.py": {"cryptography"},
    "jsproto_io/_state/signatures.py": {"cryptography"},
    "jsproto_io/testing/trio.py": {"trio"},
    "jsproto_io/testing/pipes/trio.py": {"trio"},
    "jsproto_io/testing/simulation/trio.py": {"trio"},
    "jsproto_io/testing/plugin.py": {"pytest"},
    "jsproto_io/cli/": {"attrs", "typer", "rich", "plotille"},
    "jsproto_io/cli/commands/bench.py": {"nats"},  # the peer that it measures, where it is installed
    "pyspark_jetstream/": {"attrs", "pyspark", "pyarrow"},
    "pyspark_jetstream/pipelines/": {"py4j", "typer", "rich", "matplotlib"},
}
# Package of the transports -> the packages of ours that it may import.
OURS: Final = {
    "jsproto_io": {"jsproto", "jsproto_io"},
    "pyspark_jetstream": {"jsproto", "jsproto_io", "pyspark_jetstream"},
}
PUBLIC_DRIVERS: Final = [
    f"jsproto_io.{name}"
    for name in (
        "sync", "asyncio", "trio", "nats_server", "testing.threads", "testing.asyncio", "testing.trio",
    )
]  # fmt: skip
# Driver of the server role -> the modules of ours that it may import: the role, and what all of its drivers share.
SERVING: Final = {
    "jsproto_io.testing.host": {
        "jsproto.errors", "jsproto.grammar", "jsproto.server", "jsproto_io._state.signatures",
        "jsproto_io._state.zones",
    },
    "jsproto_io.testing.sockets": {"jsproto.errors", "jsproto_io._state.common", "jsproto_io.testing.host"},
    "jsproto_io.testing.threads": {
        "jsproto.server", "jsproto_io._state.common", "jsproto_io._threads.sockets", "jsproto_io.testing.host",
        "jsproto_io.testing.sockets",
    },
    "jsproto_io.testing.asyncio": {
        "jsproto.server", "jsproto_io._aio.asyncio_timer", "jsproto_io.testing.host", "jsproto_io.testing.sockets",
    },
    "jsproto_io.testing.trio": {"jsproto.server", "jsproto_io.testing.host", "jsproto_io.testing.sockets"},
}  # fmt: skip
# What pytest imports in each run, whether a fixture is used or not.
LAZY: Final = ("jsproto_io", "jsproto_io.testing", "jsproto_io.testing.plugin")
# Driver -> how many lines of code all of its files may have together: what is written by hand for one way to wait.
THIN: Final = {
    "sync": 1000, "asyncio": 550, "trio": 580, "testing/threads": 240, "testing/asyncio": 190, "testing/trio": 220,
}  # fmt: skip
BENEATH: Final = {
    "sync": ["_blocking/engine.py", "_blocking/extras.py", "_threads/*.py"],
    "asyncio": ["_aio/engine.py", "_aio/extras.py", "_aio/asyncio_dial.py", "_aio/asyncio_timer.py"],
    "trio": ["_aio/engine.py", "_aio/extras.py", "_aio/trio_link.py"],
    "testing/threads": ["testing/sockets.py"],
    "testing/asyncio": ["_aio/asyncio_timer.py"],
    "testing/trio": ["testing/sockets.py"],
}
COMPLEX: Final = 20  # ways through one function: 1, and 1 for each branch, loop, condition and handler
# Functions that have more, by module: the hot paths of the wire, where a call for each message is too much.
MORE_COMPLEX: Final = {
    ("jsproto.wire.bulk_decoder", "_take_consumer_run"),
    ("jsproto.wire.bulk_decoder", "_take_page"),
    ("jsproto.wire.decoder", "feed"),
}
BRANCHES: Final = (ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.match_case)
DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
MOST_BASES: Final = 2  # of our own, of a class of the client
DOCUMENTED: Final = re.compile(r'(#.*\n)*r?"""[^"\s]')  # what a file with a docstring begins with
LARGEST: Final = 40_000  # bytes in a file that people are to read
NAMES_THAT_SAY_NOTHING: Final = {"util", "utils", "helper", "helpers", "misc", "stuff"}
TOP_LEVEL: Final = {
    ".ci", ".gitattributes", ".gitignore", "README.md", "fuzz", "jsproto", "pyproject.toml", "tests", "transports",
}  # fmt: skip
# Names that were replaced by the field's standard terms (the glossary in ``jsproto/TOUR.md`` has those).
OLD_NAMES: Final = frozenset(
    {
        "Answers", "AsyncPublisher", "Backbone", "Backlog", "Break", "Chance", "Copies", "Cut", "Delivered",
        "Deliveries", "Dialler", "EventTeller", "Exchange", "Follower", "Hub", "Inflow", "Interior",
        "Kept", "Ledger", "Lot", "Lots", "Origin", "Parcel", "Postponed", "Pumped", "Refill", "Row",
        "RowConversation", "Runs", "Sleeper", "Turns", "Wanted", "Weather", "Wire", "_again",
        "_orphans", "_relief", "_resting", "_told", "_vain", "_woven", "alike", "gaps",
        "gets", "inflow", "insist", "jsmsg", "lazily", "nap", "node", "receive_row", "refill",
        "rouse", "runs", "stand_by", "turns", "weather", "yield_to",
    }
)  # fmt: skip

PUBLIC: Final = {
    "APIError", "Address", "PipelinedPublisher", "AtomicBatch", "BatchAbandoned", "BatchAdvisories", "Bucket",
    "BucketConfig", "BucketStatus", "ConnectOptions", "KeyValueEntry",
    "ConsistentSession", "ConsumerConfig", "ConsumerInfo", "Conversation", "CounterEntry", "DirectBatch", "Error",
    "FastPublisher", "Headers", "JSAck", "JSMsg", "JetStream", "LastMessages", "LocalProtocolError", "MessageColumns",
    "Msg", "ObjectInfo", "ObjectStoreConfig", "ObjectStoreStatus", "OrderedConsumer", "Outbox", "PubAck",
    "PullConsumer", "PushConsumer", "RemoteProtocolError", "Seconds",
    "ServerInfo", "Session", "SessionToken", "Snapshot", "StoredMsg", "StreamConfig", "StreamInfo",
    "StreamSourceInfo", "Subscription", "Ticket", "Trace", "TraceEvent", "__version__", "api_errors",
    "connect_options", "errors", "events", "parse_jsack", "publish_headers", "sourcing_consumer",
    "strip_batch_headers",
}  # fmt: skip


PUBLIC_OF_PARTS: Final = {
    "jsproto.server": {
        "REFERENCE", "Access", "AccountLimits", "BatchLimits", "Lag", "MessageBus", "Permissions", "Release",
        "Responses", "RoutedMessage", "Server", "ServerSession", "Stored", "Stream", "User", "restore", "save",
    },
    "jsproto.testing": {
        "Fault", "Link", "Network", "NetworkConditions", "Pair", "StuckError", "World", "WrongGuards",
        "random_faults",
    },
}  # fmt: skip


class Import(NamedTuple):
    """One imported module, or one name from it."""

    module: str
    name: str | None
    for_annotations: bool
    line: int


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def nodes(path: Path) -> list[ast.AST]:
    """All of a file, at whatever depth."""
    return [*ast.walk(parsed(path))]


@cache
def imports(path: Path) -> list[Import]:
    """Every import of a file, at whatever depth."""
    guarded = {
        inner
        for node in nodes(path)
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    found: list[Import] = []
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found += (Import(alias.name, None, node in guarded, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            module = str(node.module)
            found += (Import(module, alias.name, node in guarded, node.lineno) for alias in node.names)
    return found


def module_name(path: Path) -> str:
    """``jsproto/wire/decoder.py`` -> ``jsproto.wire.decoder``."""
    folder = ROOT if path.is_relative_to(ROOT / "jsproto") else ROOT / "transports"
    return ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")


MODULES: Final = {module_name(path): path for path in (*CORE, *DRIVERS)}


def part(module: str) -> str:
    """The part of the core that a module belongs to."""
    second = module.removeprefix("jsproto.").split(".")[0]
    return second if second in LAYERS else "base"


def within(module: str, package: str) -> bool:
    return f"{module}.".startswith(f"{package}.")


# -- what may be imported ----------------------------------------------------------------------------------------------


@promise("It opens no socket, reads no clock")
@promise("A conversation (`FastPublisher`, `DirectBatch` and others) sees no socket.")
def test_the_core_imports_only_what_is_pure() -> None:
    for path in CORE:
        bad = [
            f"line {found.line}: {found.module}"
            for found in imports(path)
            if not within(found.module, "jsproto")
            and found.module not in ALLOWED
            and (module_name(path), found.module, found.name) not in ALLOWED_NAMES
        ]
        assert bad == [], path


@promise("It opens no socket, reads no clock")
def test_the_core_calls_no_impure_builtin() -> None:
    for path in CORE:
        calls = (node.func for node in nodes(path) if isinstance(node, ast.Call))
        impure = IMPURE_BUILTINS - ({"print"} if path.name == "__main__.py" else set())
        assert [func.id for func in calls if isinstance(func, ast.Name) and func.id in impure] == [], path


def test_no_verb_of_the_client_takes_keywords_of_any_name() -> None:
    """Their names and types are declared by a TypedDict (``jsproto.grammar.options``), so that callers are checked."""
    found = [
        f"{path}:{node.kwarg.lineno}"
        for path in sorted((ROOT / "jsproto" / "client").rglob("*.py"))
        for node in nodes(path)
        if isinstance(node, ast.arguments) and node.kwarg is not None
        if not ast.unparse(node.kwarg.annotation or node.kwarg).startswith("Unpack[")
    ]
    assert found == []


@promise("It opens no socket, reads no clock")
def test_the_core_asks_no_clock() -> None:
    for path in CORE:
        calls = (node.func for node in nodes(path) if isinstance(node, ast.Call))
        assert [func.attr for func in calls if isinstance(func, ast.Attribute) and func.attr in ASKS_A_CLOCK] == [], (
            path
        )
        values = {name for _, module, name in ALLOWED_NAMES if module == "datetime"}
        owners = (node.value for node in nodes(path) if isinstance(node, ast.Attribute))
        assert [owner.lineno for owner in owners if isinstance(owner, ast.Name) and owner.id in values] == [], path
        assert "time" not in {found.module.split(".")[0] for found in imports(path)}, path


@requirement(227)
@promise("It opens no socket, reads no clock")
@promise("Nothing sleeps: time is a number that moves from deadline to deadline")
@promise("The same seed gives the same bytes at the same times.")
def test_the_core_works_where_everything_impure_is_poisoned() -> None:
    modules = sorted(ALLOWED | {module for _, module, _ in ALLOWED_NAMES})
    done = subprocess.run(
        [sys.executable, "-I", "-S", ROOT / "tests" / "poisoned.py", ROOT, *modules],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"clean: {len(CORE)} modules, 50 messages in and out\n"


def test_imports_go_down_only() -> None:
    for path in CORE:
        if module_name(path) == "jsproto":
            continue
        here = part(module_name(path))
        bad = [
            f"line {found.line}: {here} imports {found.module}"
            for found in imports(path)
            if within(found.module, "jsproto")
            and part(found.module) not in LAYERS[here]
            and not (found.for_annotations and part(found.module) in ANNOTATIONS.get(here, ()))
        ]
        assert bad == [], path


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_import_what_is_below_them(room: str) -> None:
    role = room.split(".")[0]
    bad = [
        f"{module_name(path)}, line {found.line}: {found.module}"
        for path in CORE
        if within(module_name(path), f"jsproto.{room}")
        for found in imports(path)
        if within(found.module, f"jsproto.{role}")
        and not found.for_annotations
        and found.module.removeprefix(f"jsproto.{role}.").split(".")[0] not in ROOMS[room]
    ]
    assert bad == []


def test_every_room_has_its_rule() -> None:
    core = ROOT / "jsproto"
    folders = {".".join(path.parent.relative_to(core).parts) for path in CORE}
    assert {folder for folder in folders if "." in folder} == ROOMS.keys() - {"server.inlet", "server.routing"}


def test_what_the_transports_import() -> None:
    for path in DRIVERS:
        place = path.relative_to(ROOT / "transports").as_posix()
        third_party = {name for prefix, names in THIRD_PARTY.items() if place.startswith(prefix) for name in names}
        roots = {found.module.split(".")[0] for found in imports(path)}
        assert roots - sys.stdlib_module_names - third_party <= OURS[place.split("/")[0]], path


@pytest.mark.parametrize("module", SERVING)
def test_a_driver_of_the_server_role_knows_the_role_and_no_client(module: str) -> None:
    found = {each.module for each in imports(MODULES[module]) if each.module.startswith("jsproto")}
    assert [name for name in found if not any(within(name, allowed) for allowed in SERVING[module])] == []


@pytest.mark.parametrize("module", LAZY)
def test_what_each_run_of_pytest_imports_is_next_to_nothing(module: str) -> None:
    tree = parsed(MODULES[module])
    at_once = {name for node in tree.body if isinstance(node, ast.ImportFrom) for name in [str(node.module)]}
    assert at_once <= {"__future__", "collections.abc", "typing"}


@known_fault("timeouts by the wall clock")
def test_time_is_the_monotonic_one() -> None:
    """The clock on the wall jumps: nothing may be given up too early, or waited for too long, because of it."""
    for path in DRIVERS:
        taken = {found.name for found in imports(path) if found.module == "time" and found.name is not None}
        taken |= {
            node.attr
            for node in nodes(path)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "time"
        }
        assert taken <= MONOTONIC | TIME_OF_DAY.get(module_name(path), set()), path
        dates = {found.name for found in imports(path) if found.module == "datetime"}
        assert dates <= {"timedelta"} | DATES.get(module_name(path), set()), path


def test_no_driver_imports_another() -> None:
    for path in DRIVERS:
        if (name := module_name(path)) in PUBLIC_DRIVERS:
            assert not {found.module for found in imports(path)} & (set(PUBLIC_DRIVERS) - {name})


# -- what is public ----------------------------------------------------------------------------------------------------


def test_the_public_names() -> None:
    assert set(jsproto.__all__) == PUBLIC
    assert len(jsproto.__all__) == len(PUBLIC)
    for name in PUBLIC:
        assert hasattr(jsproto, name), name


@pytest.mark.parametrize("name", PUBLIC_OF_PARTS)
def test_the_public_names_of_the_other_roles(name: str) -> None:
    module = import_module(name)
    assert sorted(module.__all__) == sorted(PUBLIC_OF_PARTS[name])
    for public in PUBLIC_OF_PARTS[name]:
        assert hasattr(module, public), public


def test_what_is_public_is_documented() -> None:
    for name in (*map(module_name, CORE), *PUBLIC_DRIVERS):
        module = import_module(name)
        own = [key for key, thing in vars(module).items() if getattr(thing, "__module__", "") == name and key[0] != "_"]
        missing = []
        for public in getattr(module, "__all__", own):
            thing = getattr(module, public)
            if not (inspect.isclass(thing) or inspect.isroutine(thing)):
                continue
            if not thing.__doc__ or thing.__doc__.startswith(f"{public}("):  # a dataclass makes one up
                missing.append(public)
            for member, value in vars(thing).items() if inspect.isclass(thing) else ():
                verb = inspect.isroutine(value) or isinstance(value, property)
                if verb and not member.startswith("_") and not inspect.getdoc(getattr(thing, member)):
                    missing.append(f"{public}.{member}")
        assert missing == [], name


def test_reads_override_no_private_hook() -> None:
    """A class of ``client/read/`` is a whole: what differs is a plan, a guard, or a public verb."""
    names = [module_name(path) for path in CORE if path.is_relative_to(ROOT / "jsproto" / "client" / "read")]
    for name in names:
        for thing in vars(import_module(name)).values():
            if not (inspect.isclass(thing) and thing.__module__ == name):
                continue
            for base in thing.__mro__[1:]:
                if base.__module__ in names:
                    hooks = {key for key, value in vars(base).items() if inspect.isfunction(value)}
                    overridden = {key for key in hooks & {*vars(thing)} if key[0] == "_" and key[:2] != "__"}
                    assert overridden == set(), thing


# -- what is shipped ---------------------------------------------------------------------------------------------------


@promise("The library alone (`pip install .`) brings nothing along")
def test_the_wheel(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    info = f"jsproto-{jsproto.__version__}.dist-info"
    assert {name.split("/")[0] for name in names} == {"jsproto", "jsproto_io", "pyspark_jetstream", info}
    assert {"jsproto/py.typed", "jsproto_io/py.typed", "pyspark_jetstream/py.typed"} <= set(names)
    assert [name for name in names if name.endswith(".md")] == []
    assert {name for name in names if name.endswith(".py")} == {
        *(path.relative_to(ROOT).as_posix() for path in CORE),
        *(path.relative_to(ROOT / "transports").as_posix() for path in DRIVERS),
    }
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "wheel")
    described = Distribution.at(tmp_path / "wheel" / info)
    assert [need for need in described.requires or [] if "extra ==" not in need] == []
    text = str(described.metadata.json["description"])
    assert "# jsproto" in text
    assert re.findall(r"\]\((?!https?://)[^)]*\)", text) == []  # no link that leads nowhere


@pytest.mark.slow
def test_the_sdist(tmp_path: Path) -> None:
    """It has what the repository has, so its tests can be run."""
    (sdist,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names >= {path.relative_to(ROOT).as_posix() for path in (*CORE, *DRIVERS, *PROGRAMS)}
    assert names >= {f"{folder}/README.md".removeprefix("./") for folder in FOLDERS} | {*PAGES, *TOURS}
    assert names >= {page.relative_to(ROOT).as_posix() for page in (FACTS, REQUIREMENTS)}
    assert {name.split("/")[0] for name in names} == TOP_LEVEL | {"PKG-INFO"}


def test_the_top_level() -> None:
    assert top_level() <= TOP_LEVEL


def top_level() -> set[str]:
    """What git knows of; without git, all that is there but what git would ignore, and what makes it an sdist."""
    if (ROOT / ".git").exists() and shutil.which("git"):
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
        return {name.split("/")[0] for name in listed.stdout.split("\0") if name}
    ignored = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()]
    there = {path.name for path in ROOT.iterdir()} - {".git", "PKG-INFO"}
    return {name for name in there if not any(fnmatch(name, pattern) for pattern in ignored)}


def imported_by(module: str) -> set[str]:
    """The modules of ours that ``module`` imports at run time."""
    found = set()
    for each in imports(MODULES[module]):
        if not each.for_annotations:
            inner = f"{each.module}.{each.name}"
            found.add(inner if inner in MODULES else each.module)
    return found & set(MODULES)


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Other than for annotations: each module stands on what it imports."""
    left = {module: imported_by(module) - {module} for module in MODULES}
    while free := {module for module, needed in left.items() if not needed & set(left)}:
        for module in free:
            del left[module]
    assert left == {}


# -- how files look ----------------------------------------------------------------------------------------------------


def test_a_file_says_what_it_is_and_can_be_read() -> None:
    for path in (*CORE, *DRIVERS, *PROGRAMS):
        if path.stat().st_size:
            assert DOCUMENTED.match(path.read_text(encoding="utf-8")), path
        assert path.stat().st_size <= LARGEST, path
        assert path.stem.strip("_") not in NAMES_THAT_SAY_NOTHING, path


def lines_of_code(path: Path) -> int:
    """The lines of a file that are neither blank nor of a docstring."""
    documented: set[int] = set()
    for node in nodes(path):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node
        ):
            documented.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines = path.read_text(encoding="utf-8").splitlines()
    return sum(bool(line.strip()) and number not in documented for number, line in enumerate(lines, 1))


def complexity(function: ast.AST) -> int:
    """How many ways lead through a function (McCabe). Functions within it are counted by themselves."""
    ways, todo = 1, [*ast.iter_child_nodes(function)]
    while todo:
        node = todo.pop()
        if isinstance(node, DEFINITIONS):
            continue
        if isinstance(node, BRANCHES):
            ways += 1
        elif isinstance(node, ast.BoolOp):
            ways += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            ways += 1 + len(node.ifs)
        todo += ast.iter_child_nodes(node)
    return ways


def test_a_function_has_few_ways_through_it() -> None:
    functions = [
        (module, node)
        for module, path in MODULES.items()
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert {(module, node.name) for module, node in functions if complexity(node) > COMPLEX} == MORE_COMPLEX


def test_a_class_of_the_client_has_few_bases() -> None:
    for name in MODULES:
        if within(name, "jsproto.client"):
            for thing in vars(import_module(name)).values():
                if inspect.isclass(thing) and thing.__module__ == name:
                    own = [base for base in thing.__bases__ if within(base.__module__, "jsproto")]
                    assert len(own) <= MOST_BASES, thing


def test_no_old_name_returns() -> None:
    for path in (*CORE, *DRIVERS):
        defined = {path.stem, *path.relative_to(ROOT).parts[:-1]}
        defined |= {
            node.name for node in nodes(path) if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert defined & OLD_NAMES == set(), path


@pytest.mark.parametrize("name", list(THIN))
def test_drivers_are_thin(name: str) -> None:
    package = ROOT / "transports" / "jsproto_io"
    files = [path for pattern in (f"{name}.py", *BENEATH[name]) for path in package.glob(pattern)]
    assert len(files) > len(BENEATH[name])
    assert sum(map(lines_of_code, files)) < THIN[name]


def test_each_file_below_the_facade_is_some_drivers() -> None:
    package = ROOT / "transports" / "jsproto_io"
    beneath = {path for patterns in BENEATH.values() for pattern in patterns for path in package.glob(pattern)}
    by_hand = {package / "_aio" / "trio_link.py", package / "_aio" / "asyncio_dial.py"}
    assert beneath >= {*(package / "_threads").glob("*.py"), *by_hand}
