"""How a command ends: one line, one exit code, never a traceback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys

import pytest
import typer

import jsproto
from jsproto.errors import ConnectionClosedError, ConnectionLostError, LocalProtocolError
from jsproto.events import Connected, Disconnected, Event, EventsDropped, SlowConsumer, StreamRecreated
from jsproto.grammar.acks import PubAck
from jsproto.grammar.config import ServerInfo
from jsproto_io.cli import main
from jsproto_io.cli.commands.ingest import acknowledged
from jsproto_io.cli.connecting import LinkNotes
from jsproto_io.cli.ingesting import Ingest
from jsproto_io.cli.records import BadInput, BadUsage
from jsproto_io.cli.report import ingest_table
from jsproto_io.cli.terminal import Screen, one_line, running
from tests.cli import calling


def test_one_line_holds_nothing_a_terminal_would_obey() -> None:
    assert one_line("a\r\nb\t\x1b[31mred\x00 é") == "a b ?[31mred? é"


def test_names_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    result = Ingest(sent=1, acked=1, ack=PubAck("a[/b]:warning:", 1, batch="b", count=1))
    screen = Screen(False)
    screen.out.print(ingest_table(result))
    screen.complain("[bold]x[/]")
    out, err = capsys.readouterr()
    assert "a[/b]:warning:" in out
    assert err == "jsproto: [bold]x[/]\n"


def run(error: BaseException | None, sent: int = 0, as_json: bool = False) -> int:
    """The exit code of a command that ends with ``error``."""
    try:
        with running(Screen(as_json), lambda: sent, lambda: "; note", lambda: {"acked": 7}):
            if error is not None:
                raise error
            os.kill(os.getpid(), signal.SIGINT)
    except typer.Exit as end:
        return end.exit_code
    return 0


@pytest.mark.parametrize(
    ("error", "sent", "code"),
    [
        (BadUsage("no"), 0, 2),
        (BadUsage("no"), 5, 2),
        (BadInput("line 3: no"), 5, 1),
        (LocalProtocolError("bad URL"), 0, 2),
        (LocalProtocolError("odd"), 5, 1),
        (ConnectionLostError("gone"), 5, 1),
        (ConnectionClosedError("gone"), 0, 1),
        (OSError("disk"), 0, 1),
    ],
)
def test_every_failure_is_one_line_and_an_exit_code(
    error: Exception, sent: int, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(error, sent) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"jsproto: {error}; note\n"


def test_a_failure_as_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(BadInput("line 3: no"), as_json=True) == 1
    out, err = capsys.readouterr()
    assert json.loads(out) == {"acked": 7, "ok": False, "error": "line 3: no; note"}
    assert err == "jsproto: line 3: no; note\n"


def test_ctrl_c_says_what_was_acknowledged(capsys: pytest.CaptureFixture[str]) -> None:
    handler = signal.getsignal(signal.SIGINT)
    assert run(None) == 130
    assert capsys.readouterr().err == "jsproto: interrupted; note\n"
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_stop_that_breaks_something_is_still_a_stop(capsys: pytest.CaptureFixture[str]) -> None:
    def break_while_stopping() -> None:
        with running(Screen(False), lambda: 1, lambda: "", dict):
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            except KeyboardInterrupt:
                raise ConnectionLostError("the connection failed") from None

    with pytest.raises(typer.Exit) as caught:
        break_while_stopping()
    assert caught.value.exit_code == 143
    assert capsys.readouterr().err == "jsproto: interrupted\n"


def test_an_interrupt_of_another_handler_is_a_stop(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as caught, running(Screen(False), lambda: 1, lambda: "", dict):
        raise KeyboardInterrupt
    assert caught.value.exit_code == 130
    assert capsys.readouterr().err == "jsproto: interrupted\n"


def test_a_stop_can_be_held_back(capsys: pytest.CaptureFixture[str]) -> None:
    done = []

    def start() -> None:
        with running(Screen(False), lambda: 0, lambda: "", dict) as stop:
            with stop.held():
                os.kill(os.getpid(), signal.SIGINT)
                done.append("started")
            done.append("went on")

    with pytest.raises(typer.Exit) as caught:
        start()
    assert (caught.value.exit_code, done) == (130, ["started"])
    assert capsys.readouterr().err == "jsproto: interrupted\n"


SECOND = """
import os, signal, sys
from jsproto_io.cli.report import ingest_table
from jsproto_io.cli.terminal import Screen, running
with running(Screen(False), lambda: 0, lambda: "", dict):
    try:
        os.kill(os.getpid(), signal.SIGINT)
    finally:
        os.kill(os.getpid(), signal.SIGINT)
        os.write(1, b"never")
"""


def test_a_second_ctrl_c_ends_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", SECOND], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_a_defect_of_our_own_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), running(Screen(False), lambda: 0, lambda: "", dict):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (Ingest(), ""),
        (Ingest(sent=1), ""),
        (
            Ingest(sent=1500, acked=1000, acks=2),
            "; 1,000 of 1,500 records sent were acknowledged; go on with --skip 1100 (some after it may be stored too)",
        ),
        (
            Ingest(sent=1, acked=1, ack=PubAck("S", 1234, batch="b", count=1)),
            "; 1 record stored, the last as 1,234 of stream S; go on with --skip 101",
        ),
    ],
)
def test_what_was_acknowledged_in_words(result: Ingest, text: str) -> None:
    assert acknowledged(result, 100) == text


# -- the command line ----------------------------------------------------------------------------------------


def call(*arguments: str, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    return calling.call(*arguments, stdin=None, tty=False, **(env or {}))[:3]


def test_version() -> None:
    assert call("--version") == (0, f"jsproto {jsproto.__version__}\n", "")


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["demo", "--help"], ["ingest", "--help"], ["consumer", "--help"], ["consumer", "reset", "--help"]],
)
def test_help(arguments: list[str]) -> None:
    code, out, _ = call(*arguments)
    assert code == 0
    assert "Usage: " in out


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["ingest", "missing.csv", "--subject", "a"], "cannot read missing.csv: No such file or directory"),
        (["ingest", os.devnull, "--subject", "a b"], "a subject must not contain"),
        (["ingest", os.devnull, "--subject", "{a}.b", "--create-stream"], "--stream NAME"),
        (["ingest", os.devnull, "--subject", "a", "--delimiter", ";;"], "one character"),
        (["ingest", os.devnull, "--subject", "a", "--delimiter", '"'], "no quote"),
        (["ingest", os.devnull, "--subject", "a.{x}"], "plain lines have no column 'x'"),
        (["ingest", os.devnull, "--subject", "a", "--servers", "http://x"], "nats://host:port"),
        (["consumer", "reset", "S", "C", "--servers", "http://x"], "nats://host:port"),
        (["demo", "--keep"], "--keep needs --servers"),
        (["demo", "--servers", "nats://host:port"], "nats://host:port"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_dialled(arguments: list[str], why: str) -> None:
    code, out, err = call(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("jsproto: ")
    assert why in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["ingest"],
        ["ingest", "-"],
        ["demo", "--rows", "0"],
        ["nothing"],
        ["consumer"],
        ["consumer", "reset", "S"],
        ["consumer", "reset", "S", "C", "--seq", "0"],
    ],
)
def test_wrong_options_are_wrong_usage(arguments: list[str]) -> None:
    assert call(*arguments)[0] == 2


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def test_a_closed_port_names_the_address_and_hides_the_password(free_port: int) -> None:
    url = f"nats://joe:secret@127.0.0.1:{free_port}"
    code, out, err = call("ingest", os.devnull, "--subject", "a", env={"NATS_URL": url})
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "127.0.0.1" in err
    assert "secret" not in err


@pytest.mark.parametrize("name", ["attrs", "typer", "rich", "plotille"])
def test_without_the_extra_one_line_says_what_to_install(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr("jsproto_io.cli.find_spec", lambda wanted: None if wanted == name else object())
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert capsys.readouterr().err == f"jsproto: {name} not installed: pip install 'jsproto[cli]'\n"


# -- notes of the link ---------------------------------------------------------------------------------------


def test_what_becomes_of_the_link_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    notes = LinkNotes(Screen())
    events: list[Event] = [
        Connected("nats://a:1", ServerInfo()), Disconnected(ConnectionLostError("it broke")), EventsDropped(1),
        Connected("nats://b:2", ServerInfo()), Disconnected(None), SlowConsumer("s", 1_200), StreamRecreated("S", 5),
    ]  # fmt: skip
    for event in events:
        notes(event)
    assert capsys.readouterr() == (
        "",
        "jsproto: the connection is lost: it broke\n"
        "jsproto: connected again: nats://b:2\n"
        "jsproto: 1,200 messages were lost so far: they came faster than they were printed\n"
        "jsproto: stream S was created again: its first message comes next\n",
    )
    LinkNotes(Screen(quiet=True))(Disconnected(ConnectionLostError("it broke")))
    assert capsys.readouterr() == ("", "")
