"""``jsproto context``: contexts that ``nats`` and ``jsproto`` share are written, selected, listed and removed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.calling import Called, call
from tests.drivers.test_facade import unique


class Contexts:
    """A folder of contexts, and commands that use it."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "nats"
        self._environment = {"XDG_CONFIG_HOME": str(home), "NATS_URL": ""}

    def call(self, *arguments: str) -> Called:
        """Run a command."""
        return call(*arguments, stdin=None, tty=False, **self._environment)

    def ok(self, *arguments: str) -> Called:
        """The same, for one that does what it should."""
        done = self.call(*arguments)
        assert (done.code, done.err) == (0, ""), done
        return done

    def fails(self, *arguments: str) -> str:
        """The line of a command that is wrong."""
        done = self.call(*arguments)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done
        return done.err

    def read(self, name: str) -> dict[str, Any]:
        """What a context says."""
        found = json.loads((self.folder / "context" / f"{name}.json").read_text(encoding="utf-8"))
        assert isinstance(found, dict)
        return found


@pytest.fixture
def contexts(tmp_path: Path) -> Contexts:
    return Contexts(tmp_path)


def test_a_context_is_written_and_used(contexts: Contexts, memory_url: str) -> None:
    line = contexts.ok("context", "add", "here", "--servers", memory_url, "--description", "a server", "--select").out
    assert line == f"context here is in {contexts.folder / 'context' / 'here.json'}\n"
    assert contexts.read("here") == {"description": "a server", "url": memory_url}
    assert contexts.ok("rtt").out.startswith(memory_url)
    assert contexts.ok("stream", "ls", "--subject", unique(), "--context", "here").out == "no streams\n"


def test_what_a_context_says_already_stays(contexts: Contexts) -> None:
    contexts.ok("context", "add", "a", "--servers", "nats://a:1", "--user", "me", "--password", "secret")
    path = contexts.folder / "context" / "a.json"
    path.write_text(json.dumps({**contexts.read("a"), "color_scheme": "red"}), encoding="utf-8")
    contexts.ok("ctx", "save", "a", "--servers", "nats://b:2", "--tlsfirst", "--js-domain", "hub", "--json")
    assert contexts.read("a") == {
        "url": "nats://b:2", "user": "me", "password": "secret", "color_scheme": "red", "tls_first": True,
        "jetstream_domain": "hub",
    }  # fmt: skip
    contexts.ok("context", "add", "copy", "--context", "a", "--servers", "nats://c:3")
    assert contexts.read("copy") == {**contexts.read("a"), "url": "nats://c:3"}


@pytest.mark.skipif(sys.platform == "win32", reason="its permissions are others")
def test_others_cannot_read_a_context(contexts: Contexts) -> None:
    contexts.ok("context", "add", "a", "--token", "t", "--select")
    for path in (contexts.folder / "context" / "a.json", contexts.folder / "context.txt"):
        assert path.stat().st_mode & 0o777 == 0o600
    assert {path.name for path in contexts.folder.iterdir()} == {"context", "context.txt"}


def test_paths_are_written_in_full(contexts: Contexts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WHERE", str(tmp_path))
    Path("seed").write_text("SU", encoding="utf-8")
    for given, written in (("seed", str(tmp_path / "seed")), ("$WHERE/seed", "$WHERE/seed")):
        contexts.ok("context", "add", "a", "--nkey", given)
        assert contexts.read("a") == {"nkey": written}


def test_contexts_are_listed_without_passwords(contexts: Contexts) -> None:
    assert contexts.ok("context", "ls").out == "no contexts\n"
    contexts.ok("context", "add", "b", "--servers", "nats://me:secret@b:1,nats://c:2", "--description", "two")
    contexts.ok("context", "add", "a", "--token", "t0ken")
    (contexts.folder / "context" / "broken.json").write_text("{", encoding="utf-8")
    assert contexts.ok("context", "select", "b").out == "context b is selected\n"
    shown = contexts.ok("context", "ls").out
    assert "secret" not in shown
    assert "t0ken" not in shown
    assert [line.split() for line in shown.splitlines()[2:]] == [
        ["a"], ["*", "b", "nats://b:1,", "nats://c:2", "two"], ["broken"],
    ]  # fmt: skip
    assert contexts.ok("context", "ls", "--quiet").out == "a\nb\nbroken\n"
    found = contexts.ok("context", "ls", "--json").objects
    assert found[1] == {"name": "b", "selected": True, "url": "nats://b:1, nats://c:2", "description": "two"}
    assert found[2] == {"name": "broken", "selected": False, "url": None, "description": None}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["add", "a"], "what does it say?"),
        (["add", "../a", "--token", "t"], "no context can have the name '../a'"),
        (["add", ".a", "--token", "t"], "no context can have the name '.a'"),
        (["add", "a", "--creds", "missing"], "a: creds: cannot read"),
        (["add", "a", "--servers", "http://x"], "a: url: "),
        (["add", "there", "--user", "u", "--password", "p"], "there: token: give one of these"),
        (["add", "a", "--context", "no"], "there is no context no"),
        (["add", "broken", "--token", "t"], "is no context that can be read"),
        (["add", "list", "--token", "t"], "is no context that can be read"),
        (["select", "no"], "there is no context no; there are: broken, list, there"),
        (["rm", "no"], "there is no context no; there are: broken, list, there"),
        (["rm", "../context"], "no context can have the name '../context'"),
        (["select", "a/b"], "no context can have the name 'a/b'"),
    ],
)
def test_what_is_wrong_is_one_line_and_changes_nothing(contexts: Contexts, arguments: list[str], why: str) -> None:
    contexts.ok("context", "add", "there", "--token", "t", "--select")
    (contexts.folder / "context" / "broken.json").write_text("{", encoding="utf-8")
    (contexts.folder / "context" / "list.json").write_text("[]", encoding="utf-8")
    before = {path: path.read_bytes() for path in contexts.folder.rglob("*") if path.is_file()}
    assert why in contexts.fails("context", *arguments)
    assert {path: path.read_bytes() for path in contexts.folder.rglob("*") if path.is_file()} == before


def test_a_context_is_removed_with_its_selection(contexts: Contexts) -> None:
    for name in ("a", "b", "broken"):
        contexts.ok("context", "add", name, "--servers", "nats://a:1", "--select")
    (contexts.folder / "context" / "broken.json").write_text("{", encoding="utf-8")
    assert contexts.ok("context", "rm", "a").out == "context a is removed\n"
    assert contexts.ok("ctx", "del", "broken", "--json").objects == [{"ok": True, "context": "broken"}]
    assert contexts.ok("context", "ls", "--json").objects == [
        {"name": "b", "selected": False, "url": "nats://a:1", "description": None}
    ]


def test_without_contexts_none_can_be_selected(contexts: Contexts) -> None:
    assert "there are: none at all" in contexts.fails("context", "select", "a")


@pytest.mark.skipif(os.name != "posix" or os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_read_only_is_one_line(contexts: Contexts, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    done = contexts.call("context", "add", "a", "--token", "t")
    assert (done.code, done.err.count("\n")) == (1, 1)
