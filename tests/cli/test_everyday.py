"""``jsproto request``, ``reply``, ``rtt``, ``account``, and verbs of streams and consumers that people type daily."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from jsproto.grammar.account import AccountInfo
from jsproto_io.cli.tables import account_table
from jsproto_io.sync import Connection, JetStream, connect
from tests.cli.calling import Place
from tests.cli.conftest import REAL
from tests.drivers.test_facade import unique


@pytest.fixture
def nc(place: Place) -> Iterator[Connection]:
    with connect(place.url) as connection:
        yield connection


@pytest.fixture
def name(js: JetStream) -> Iterator[str]:
    """A stream of five messages, of three subjects, with a consumer."""
    stream = unique("S")
    js.create_stream(stream, subjects=[f"{stream}.>"], storage="memory")
    for n in (0, 1, 1, 2, 1):
        js.publish(f"{stream}.{n}", b"%d" % n)
    js.create_consumer(stream, durable_name="C", filter_subject=f"{stream}.1")
    yield stream
    js.delete_stream(stream)


# -- requests ----------------------------------------------------------------------------------------------------------


def test_an_answer_is_printed(place: Place, nc: Connection) -> None:
    subject = unique()
    with nc.subscribe(subject, cb=lambda asked: asked.respond(b"<" + asked.data + b">", headers={"A": "b"})):
        nc.flush()
        head, header, body = place.ok("request", subject, "hi").out.splitlines()
        assert head.startswith("answer after ")
        assert (header, body) == ("A: b", "<hi>")
        assert place.ok("req", subject, "--raw", stdin=b"a\nb").raw == b"<a\nb>"
        (data,) = place.ok("request", subject, "--json", "-H", "C: d", stdin=b"").objects
        assert (data["data"], data["headers"], data["subject"][:7]) == ("<>", {"A": ["b"]}, "_INBOX.")
        assert 0 < data["seconds"] < 5


def test_a_request_has_headers(place: Place, nc: Connection) -> None:
    subject = unique()
    with nc.subscribe(subject, cb=lambda asked: asked.respond(asked.headers["A"].encode())):
        nc.flush()
        assert place.ok("request", subject, "x", "-H", "A: b", "--raw").out == "b"


def test_several_answers_are_waited_for(place: Place, nc: Connection) -> None:
    subject = unique()
    with (
        nc.subscribe(subject, cb=lambda asked: asked.respond(b"1")),
        nc.subscribe(subject, cb=lambda asked: asked.respond(b"2")),
    ):
        nc.flush()
        for options in (["--replies", "2"], ["--replies", "0", "--reply-timeout", "300ms"]):
            found = place.ok("request", subject, "x", *options, "--json").objects
            assert sorted(each["data"] for each in found) == ["1", "2"]
        assert len(place.ok("request", subject, "x", "--replies", "3", "--timeout", "0.5", "--raw").out) == 4


def test_without_an_answer_it_says_why(place: Place, nc: Connection) -> None:
    subject = unique()
    for replies in ("0", "1"):
        assert subject in place.fails(1, "request", subject, "x", "--replies", replies)
    with nc.subscribe(subject):
        nc.flush()
        line = place.fails(1, "request", subject, "x", "--timeout", "0.2")
        assert line == f"nobody has answered on {subject} within 0.2 s"


@pytest.mark.parametrize("place", [REAL], indirect=True)
@pytest.mark.parametrize(
    ("options", "answers"),
    [
        (["hello", "-H", "A: b"], [b"hello", b"hello"]),
        (["--echo"], [b"one", b"two"]),
        (["--command", f"{sys.executable} -c 'print(input()[::-1], end=\"\")'"], [b"eno", b"owt"]),
        (
            ["--command", f'{sys.executable} -c \'import os; print(os.environ["NATS_REQUEST_SUBJECT"], end="")\''],
            [b"SUBJECT", b"SUBJECT"],
        ),
    ],
)
def test_requests_are_answered(place: Place, nc: Connection, options: list[str], answers: list[bytes]) -> None:
    subject = unique()
    process = place.start("reply", subject, *options, "--count", "2", stdout=subprocess.PIPE)
    assert process.stderr is not None
    assert process.stderr.readline() == f"jsproto: waiting for requests of {subject}; Ctrl-C ends it\n".encode()
    found = [nc.request(subject, each, timeout=20, headers={"X": "y"}) for each in (b"one", b"two")]
    assert [each.data for each in found] == [each.replace(b"SUBJECT", subject.encode()) for each in answers]
    headers = {"A": "b"} if "-H" in options else {"X": "y"} if "--echo" in options else {}
    assert dict(found[0].headers.items()) == headers
    shown, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert shown.count(subject.encode()) == 2


@pytest.mark.parametrize("place", [REAL], indirect=True)
def test_a_program_that_fails_answers_nothing(place: Place, nc: Connection) -> None:
    subject = unique()
    program = f"{sys.executable} -c 'import sys; sys.exit(len(sys.stdin.read()))'"
    process = place.start("reply", subject, "--command", program, "--count", "3", stdout=subprocess.DEVNULL)
    assert process.stderr is not None
    process.stderr.readline()
    nc.publish(subject, b"no reply wanted")
    nc.publish(subject, b"abc", reply=nc.new_inbox())
    assert nc.request(subject, timeout=20).data == b""
    _, notes = process.communicate(timeout=30)
    assert process.returncode == 0
    assert b"ended with 3: no answer was sent" in notes


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["request", "a b", "x"], "a b"),
        (["request", "a", "x", "--reply-timeout", "1"], "--reply-timeout: not a duration"),
        (["request", "a", "x", "--raw", "--json"], "--raw or --json, not both"),
        (["request", "a", "x", "-H", "none"], "--header: not a header"),
        (["reply", "a"], "what to answer? Give one of BODY, --echo and --command"),
        (["reply", "a", "x", "--echo"], "what to answer?"),
        (["reply", "a", "--command", "'"], "--command: No closing quotation"),
        (["reply", "a", "--command", " "], "--command: it names no program"),
        (["sub", "a", "--raw", "--headers-only"], "--raw or --headers-only, not both"),
        (["pub", "a", "--count", "2"], "--count needs a BODY"),
        (["pub", "a", "x", "--count", "2", "--msg-id", "m"], "write {n} for the number"),
        (["stream", "rmm", "S", "1"], "there is no terminal to ask at"),
        (["stream", "rmm", "S", "0", "--force"], "SEQ"),
        (["consumer", "edit", "S", "C"], "nothing to change"),
        (["consumer", "edit", "S", "C", "--sourcing"], "--sourcing is for a new consumer"),
        (["account"], "Usage: jsproto account"),
    ],
)
def test_what_is_wrong_is_told(memory: Place, arguments: list[str], why: str) -> None:
    done = memory.call(*arguments)
    assert (done.code, why in done.out + done.err) == (2, True), done


# -- publishing and receiving ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [REAL], indirect=True)
def test_headers_are_shown_without_payloads(place: Place, nc: Connection) -> None:
    subject = unique()
    for options, shown in (
        ([], f"{subject}\nA: b\n"),
        (["--json"], f'{{"subject": "{subject}", "headers": {{"A": ["b"]}}}}\n'),
    ):
        process = place.start("sub", subject, "--headers-only", "--count", "1", *options, stdout=subprocess.PIPE)
        assert process.stderr is not None
        process.stderr.readline()
        nc.publish(subject, b"payload", headers={"A": "b"})
        out, _ = process.communicate(timeout=30)
        assert out.decode() == shown


def test_a_body_is_published_often(place: Place, js: JetStream, name: str) -> None:
    line = place.ok("pub", f"{name}.x", "body", "--count", "3", "--msg-id", "m{n}").out
    assert line == f"3 messages stored, the last as 8 of stream {name}\n"
    assert [js.get_msg(name, seq, level="leader").headers["Nats-Msg-Id"] for seq in (6, 7, 8)] == ["m1", "m2", "m3"]


# -- where one is ------------------------------------------------------------------------------------------------------


def test_the_round_trip_is_measured(place: Place) -> None:
    line = place.ok("rtt", "3").out
    assert line.startswith(f"{place.url}: ")
    assert " ms, mean of 3 (" in line
    (data,) = place.ok("rtt", "2", "--json").objects
    assert (data["url"], len(data["all"]), data["seconds"] > 0) == (place.url, 2, True)


def test_the_account_is_shown(place: Place, name: str) -> None:
    shown = place.ok("account", "info").out
    assert place.url in shown
    assert "no limit" in shown
    (data,) = place.ok("account", "info", "--json").objects
    assert data["streams"] >= 1


def test_an_account_shows_its_limits_and_tiers() -> None:
    limits = {"max_streams": 10, "max_storage": 1024, "max_memory": -1}
    plain = AccountInfo.from_json({"streams": 1_000, "storage": 512, "domain": "hub", "limits": limits})
    tiers = AccountInfo.from_json({"tiers": {"R3": {"streams": 2, "consumers": 4, "limits": limits}}})

    def cells(info: AccountInfo) -> dict[str, str]:
        table = account_table(info, "here")
        names, texts = ([str(each) for each in column.cells] for column in table.columns)
        return dict(zip(names, texts, strict=True))

    assert cells(plain) == {
        "server": "here", "domain": "hub", "streams": "1,000, of 10", "consumers": "0, no limit",
        "storage": "512 B, of 1 KiB", "memory": "0 B, no limit",
    }  # fmt: skip
    assert cells(tiers)["streams of R3"] == "2, of 10"
    assert cells(tiers)["consumers of R3"] == "4, no limit"


# -- streams and consumers ---------------------------------------------------------------------------------------------


def test_subjects_are_listed(place: Place, name: str) -> None:
    rows = [line.split() for line in place.ok("stream", "subjects", name).out.splitlines()[2:]]
    assert rows == [[f"{name}.0", "1"], [f"{name}.1", "3"], [f"{name}.2", "1"]]
    assert place.ok("stream", "subjects", name, f"{name}.2", "--quiet").out == f"{name}.2\n"
    top = place.ok("stream", "subjects", name, "--top", "1", "--json").objects
    assert top == [{"subject": f"{name}.1", "messages": 3}]
    assert place.ok("stream", "subjects", name, "none").out == "no subjects\n"


def test_one_message_is_deleted(place: Place, js: JetStream, name: str) -> None:
    assert place.ok("stream", "rmm", name, "2", "--force").out == f"message 2 of stream {name} deleted\n"
    assert "message 2 of stream" in place.fails(1, "stream", "rmm", name, "2", "--force")
    done = place.call("stream", "rmm", name, "3", stdin=b"n\n", tty=True)
    assert (done.code, done.err.startswith(f"Delete message 3 of stream {name}, of {name}.1? [y/N] ")) == (1, True)
    assert js.stream_info(name).state.messages == 4
    (data,) = place.ok("stream", "rmm", name, "3", "--force", "--json").objects
    assert data == {"ok": True, "stream": name, "seq": 3}


def test_a_consumer_is_changed(place: Place, js: JetStream, name: str) -> None:
    arguments = ("con", "edit", name, "C", "--filter-subject", f"{name}.0,{name}.2", "--max-deliver", "4")
    assert place.ok(*arguments).out.splitlines() == [
        f"consumer C of stream {name} changed",
        f"filter_subject: unset, was {name}.1",
        f"filter_subjects: {name}.0, {name}.2, was unset",
        "max_deliver: 4, was no limit",
    ]
    assert place.ok(*arguments).out == f"consumer C of stream {name} has that configuration already\n"
    (data,) = place.ok("consumer", "edit", name, "C", "--filter-subject", f"{name}.0", "--json").objects
    assert (data["config"]["filter_subject"], data["config"]["max_deliver"]) == (f"{name}.0", 4)
    assert "can not be updated" in place.fails(1, "consumer", "edit", name, "C", "--ack-policy", "none")
