"""The three drivers offer the same: names, parameters, defaults, annotations and docstrings."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import jsproto_io.asyncio
import jsproto_io.sync
import jsproto_io.trio
from tests.marks import promise
from tests.tools import generate_blocking

CLASSES = (
    "AtomicBatch", "BatchAdvisories", "BatchReader", "Bucket", "BucketSession", "Connection", "ConsistentSession",
    "ConsumeContext", "Counter", "Election", "FastPublisher", "InfoLister", "JSMsg", "JetStream", "KeyWatcher", "Lock",
    "Message", "ObjectReader", "ObjectStore", "ObjectWatcher", "PendingAck", "PipelinedPublisher", "PullMessages",
    "PullSubscription", "PushSubscription", "SourcingSubscription", "StreamCopy", "Subscription", "TraceCollector",
    "Transaction",
)  # fmt: skip
# What only one driver can mean: sync alone has a thread to do without.
ONLY_SYNC = {"reader_thread"}
LOOPS = re.compile(r"\b(?:await\w*|asynchronous\w*|coroutines?|event loops?|tasks?)\b", re.IGNORECASE)
STATE = generate_blocking.TARGET.with_name("_state")
THREADED = sorted([*generate_blocking.TARGET.glob("*.py"), *STATE.glob("*.py"), *STATE.parent.glob("sync.py")])
ASYNC = [jsproto_io.asyncio, jsproto_io.trio]


def names(cls: type) -> list[str]:
    return sorted(name for name in dir(cls) if not name.startswith("_"))


def annotation(text: Any) -> str:
    """An annotation as the facade for threads would write it."""
    return re.sub(r"\bAwaitable\[(\w+)\]", r"\1", re.sub(r"\bAsync(?=Iterator\b|Iterable\b)", "", str(text)))


def for_threads(documented: Any) -> str:
    """A docstring as the facade for threads has it."""
    return generate_blocking.for_threads(inspect.getdoc(documented) or "")


def described(function: Any) -> list[tuple[str, object, object, str]]:
    signature = inspect.signature(function)
    parameters = [(p.name, p.kind, p.default, annotation(p.annotation)) for p in signature.parameters.values()]
    return [*parameters, ("return", None, None, annotation(signature.return_annotation))]


@pytest.mark.parametrize("module", generate_blocking.MODULES)
def test_the_facade_for_threads_is_made_from_the_other(module: str) -> None:
    text = (generate_blocking.TARGET / f"{module}.py").read_text(encoding="utf-8")
    assert text == generate_blocking.render(module), "run: python -m tests.tools.generate_blocking"
    assert "await" not in text


@pytest.mark.parametrize("path", THREADED, ids=lambda path: path.stem)
def test_docstrings_for_threads_speak_of_threads(path: Path) -> None:
    """What ``_state`` has is shown by the editor under every driver, so it may not name one way to wait either."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            assert not LOOPS.search(ast.get_docstring(node) or ""), node.name


def test_every_module_is_made_or_written_for_both() -> None:
    by_hand = {"__init__", "engine", "extras", "workers"}
    beside = {"asyncio_dial", "asyncio_timer", "trio_link"}
    for folder, alone in ((generate_blocking.SOURCE, beside), (generate_blocking.TARGET, set())):
        assert {path.stem for path in folder.glob("*.py")} == {*generate_blocking.MODULES, *by_hand, *alone}


@promise("every workflow behaves the same on all of them")
def test_the_modules_export_the_same() -> None:
    expected = sorted([*CLASSES, "connect"])
    for module in (jsproto_io.sync, *ASYNC):
        assert sorted(module.__all__) == expected, module.__name__


@pytest.mark.parametrize("module", ASYNC, ids=lambda module: module.__name__)
def test_connect_is_the_same(module: ModuleType) -> None:
    sync = [row for row in described(jsproto_io.sync.connect)[:-1] if row[0] not in ONLY_SYNC]
    assert described(module.connect)[:-1] == sync
    assert inspect.getdoc(module.connect) == "\n".join(
        line for line in (inspect.getdoc(jsproto_io.sync.connect) or "").splitlines() if "reader_thread" not in line
    )


@promise("every workflow behaves the same on all of them")
@promise("On threads the verbs are the same, without `await`.")
@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("module", ASYNC, ids=lambda module: module.__name__)
def test_a_class_is_the_same(module: ModuleType, name: str) -> None:
    here, there = getattr(jsproto_io.sync, name), getattr(module, name)
    assert names(here) == names(there)
    assert inspect.getdoc(here) == for_threads(there)
    for member in names(here):
        ours, theirs = inspect.getattr_static(here, member), inspect.getattr_static(there, member)
        assert type(ours) is type(theirs), f"{name}.{member}"
        if isinstance(ours, property):
            assert isinstance(theirs, property)
            ours, theirs = ours.fget, theirs.fget
        assert inspect.getdoc(ours), f"{name}.{member} has no docstring"
        assert inspect.getdoc(ours) == for_threads(theirs), f"{name}.{member}"
        assert described(ours) == described(theirs), f"{name}.{member}"


@promise("On asyncio and trio the verbs are the same, with `async` and `await`.")
@promise("Verbs, parameters and errors are the same, with `async` and `await` on event loops.")
@promise("On threads the verbs are the same, without `await`.")
@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("module", ASYNC, ids=lambda module: module.__name__)
def test_contexts_and_iterators_match(module: ModuleType, name: str) -> None:
    here, there = getattr(jsproto_io.sync, name), getattr(module, name)
    for method in ("iter", "next"):
        assert hasattr(here, f"__{method}__") == hasattr(there, f"__a{method}__")
    if name != "Connection":  # the others' connect() returns a context manager of its own
        assert hasattr(here, "__exit__") == hasattr(there, "__aexit__")


def test_what_waits_is_a_coroutine_on_both_loops() -> None:
    for name in CLASSES:
        for member in names(getattr(jsproto_io.sync, name)):
            kinds = {inspect.iscoroutinefunction(inspect.getattr_static(getattr(m, name), member)) for m in ASYNC}
            assert len(kinds) == 1, f"{name}.{member}"
