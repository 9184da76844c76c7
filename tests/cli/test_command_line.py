"""The command line as a whole: what it imports, completion, wrong usage, and how contexts that are wrong are told."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from jsproto_io.cli.groups import COMMANDS
from tests.cli.calling import Called, call
from tests.marks import promise

IMPORTED = """
import sys
from jsproto_io.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(*sorted(name for name in sys.modules if name.startswith(("jsproto", "nats", "trio", "asyncio", "plotille"))))
"""


def imported(*arguments: str) -> set[str]:
    """What a command imports, of what it may not need."""
    done = subprocess.run([sys.executable, "-c", IMPORTED, *arguments], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_an_overview_imports_no_driver_and_no_command(option: str) -> None:
    found = imported(option)
    assert not {name for name in found if name.split(".")[0] in ("nats", "trio", "asyncio", "plotille")}
    assert not {"jsproto_io.sync", "jsproto_io.asyncio", "jsproto_io.trio"} & found
    assert not {name for name in found if name.startswith("jsproto_io.cli.commands.")}


@pytest.mark.slow
def test_a_command_imports_no_other_command() -> None:
    commands = {name for name in imported("get", "--help") if name.startswith("jsproto_io.cli.commands.")}
    assert commands == {"jsproto_io.cli.commands.get", "jsproto_io.cli.commands.sub"}  # two that print messages


def test_every_command_has_help() -> None:
    shown = call("--help").out
    for name in COMMANDS:
        assert f"\n  {name} " in shown
        assert call(name, "--help").code == 0
    assert "Exit codes" in shown
    assert "..." not in shown.partition("Commands:")[2]
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("str ls", "stream ls"),
        ("con add", "consumer create"),
        ("stream new", "stream create"),
        ("stream del", "stream rm"),
        ("kv new", "kv add"),
        ("kv create", "kv create"),
        ("kv rm", "kv del"),
        ("kv delete", "kv del"),
        ("publish", "pub"),
    ],
)
def test_names_of_nats_are_understood(name: str, meant: str) -> None:
    given, wanted = call(*name.split(), "--help"), call(*meant.split(), "--help")
    assert (given.code, wanted.code) == (0, 0)
    assert given.out.partition("\n")[2] == wanted.out.partition("\n")[2]


def test_a_name_that_stands_for_nothing_is_unknown() -> None:
    assert call("kv", "str").err.startswith("jsproto: No such command 'str'")
    assert call("ls").code == 2


@pytest.mark.parametrize(
    ("shell", "asked"),
    [
        ("bash", {"COMP_WORDS": "jsproto con", "COMP_CWORD": "1"}),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "jsproto con"}),
        ("fish", {"_TYPER_COMPLETE_ARGS": "jsproto con", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}),
    ],
)
def test_words_are_completed(shell: str, asked: dict[str, str]) -> None:
    done = call_with({"_JSPROTO_COMPLETE": f"complete_{shell}", **asked})
    assert re.findall(r'^(?:.*\(\()?"?([a-z]+)(?=$|\t|":")', done.out, re.MULTILINE) == [
        "consumer",
        "consume",
        "context",
    ]


@promise("Options that do not exist, or have no value, are told on standard error alone.")
@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["nothing"], "jsproto: No such command 'nothing': see jsproto --help\n"),
        (["get"], "jsproto: Missing argument 'STREAM': see jsproto get --help\n"),
        (["get", "--json"], "jsproto: Missing argument 'STREAM': see jsproto get --help\n"),
        (["stream", "info", "S", "--what"], "jsproto: No such option: --what: see jsproto stream info --help\n"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], line: str) -> None:
    done = call(*arguments)
    assert (done.code, done.out, done.err) == (2, "", line)


def test_colours_are_for_terminals_that_want_them() -> None:
    assert "\x1b" not in call("stream", "purge").err
    assert "31m" in call("stream", "purge", FORCE_COLOR="1").err
    assert "31m" not in call("stream", "purge", FORCE_COLOR="1", NO_COLOR="1").err


# -- contexts ----------------------------------------------------------------------------------------------------------


def context(folder: Path, content: object) -> dict[str, str]:
    """The environment with the context "mine"."""
    path = folder / "nats" / "context" / "mine.json"
    path.parent.mkdir(parents=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return {"XDG_CONFIG_HOME": str(folder), "NATS_URL": ""}


def call_with(environment: dict[str, str], *arguments: str) -> Called:
    return call(*arguments, stdin=None, tty=False, **environment)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "it is no JSON"),
        ([], "it must be a JSON object"),
        ({"creds": "/missing.creds"}, "cannot read '/missing.creds'"),
        ({"url": "http://x"}, "nats://host:port"),
        ({"user": 5}, "user"),
        ({"nsc": "nsc://x"}, "nsc"),
    ],
)
def test_a_context_that_is_wrong_is_one_line_with_its_file(tmp_path: Path, content: object, why: str) -> None:
    done = call_with(context(tmp_path, content), "stream", "ls", "--context", "mine")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert why in done.err
    assert "mine.json" in done.err


def test_a_context_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    done = call_with(context(tmp_path, {}), "stream", "ls", "--context", "other")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "mine" in done.err  # what there is


def test_the_selected_context_says_where_to_connect(tmp_path: Path, memory_url: str) -> None:
    environment = context(tmp_path, {"url": memory_url})
    (tmp_path / "nats" / "context.txt").write_text("mine\n", encoding="utf-8")
    assert call_with(environment, "stream", "ls").code == 0
    done = call_with(environment, "stream", "ls", "--servers", "nats://127.0.0.1:1")
    assert (done.code, "127.0.0.1:1" in done.err) == (1, True)


@pytest.mark.parametrize("option", ["--creds", "--nkey", "--tlsca"])
def test_a_file_that_is_not_there_is_one_line(option: str) -> None:
    done = call("get", "S", "1", option, "/missing")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "/missing" in done.err


def test_options_for_users_reach_the_server(memory_url: str) -> None:
    done = call("get", "S", "1", "--user", "a", "--password", "b", "--token", "c", NATS_URL=memory_url)
    assert (done.code, done.err.count("\n")) == (2, 1)
