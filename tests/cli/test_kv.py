"""``jsproto kv``, on a real server and on one in memory."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress

import pytest

from jsproto.errors import BucketNotFoundError, KeyDeletedError
from jsproto_io.cli.bucketing import mirrored
from jsproto_io.cli.terminal import Screen
from jsproto_io.sync import Bucket, JetStream
from jsproto_io.testing import serve
from tests.cli.calling import Place
from tests.cli.conftest import REAL
from tests.drivers.test_facade import unique
from tests.marks import promise

BINARY = bytes(range(256))


@pytest.fixture
def bucket(js: JetStream) -> Iterator[Bucket]:
    """A bucket with a history: ``a.tea`` was changed, ``a.gone`` was deleted. It may be deleted."""
    made = js.create_bucket(unique("B"), history=5, storage="memory")
    made.put("a.tea", b"3.20")
    made.put("a.gone", b"1")
    made.put("a.tea", b"3.40")
    made.delete("a.gone")
    made.put("b.coffee", BINARY)
    yield made
    with suppress(BucketNotFoundError):
        js.delete_bucket(made.name)


# -- buckets -----------------------------------------------------------------------------------------------------------


def test_a_bucket_is_created_with_all_that_was_asked_for(place: Place, js: JetStream) -> None:
    name = unique("B")
    line = place.ok(
        "kv", "add", name, "--history", "3", "--ttl", "1h", "--marker-ttl", "5s", "--max-value-size", "64K",
        "--max-bucket-size", "1MB", "--compress", "--no-atomic", "--storage", "memory", "--description", "what it is",
        "--metadata", "owner=me", "--republish-source", f"$KV.{name}.>", "--republish-destination", "copies.>",
        "--republish-headers",
    ).out  # fmt: skip
    assert line == f"bucket {name} is there, in stream KV_{name}\n"
    config = js.bucket(name).config
    assert (config.history, config.ttl, config.marker_ttl, config.storage) == (3, 3_600, 5, "memory")
    assert (config.max_value_size, config.max_bytes, config.compression) == (65_536, 1_048_576, True)
    assert (config.atomic, config.direct, config.description) == (False, True, "what it is")
    assert config.metadata["owner"] == "me"
    assert config.stream.republish == {"src": f"$KV.{name}.>", "dest": "copies.>", "headers_only": True}
    shown = [line.split() for line in place.ok("kv", "info", name).out.splitlines()]
    for pair in (["max_bucket_size", "1", "MiB"], ["ttl", "1h"], ["marker_ttl", "5s"], ["compress", "on"]):
        assert pair in shown
    js.delete_bucket(name)


@pytest.mark.parametrize("verb", ["new", "add"])
def test_a_bucket_that_is_there_is_found_or_refused(place: Place, js: JetStream, bucket: Bucket, verb: str) -> None:
    same = ("kv", verb, bucket.name, "--history", "5", "--storage", "memory")
    (data,) = place.ok(*same, "--json").objects
    assert data["config"]["name"] == bucket.stream
    assert f"jsproto kv edit {bucket.name} changes it" in place.fails(1, *same[:3], "--storage", "memory")


def test_a_bucket_copies_others(place: Place, js: JetStream, bucket: Bucket) -> None:
    mirror, union = unique("B"), unique("B")
    place.ok("kv", "add", mirror, "--mirror", bucket.name, "--storage", "memory")
    place.ok("kv", "add", union, "--source", bucket.name, "--storage", "memory")
    assert js.bucket(mirror).config.mirror == {"name": bucket.stream}
    assert [each["name"] for each in js.bucket(union).config.sources] == [bucket.stream]
    js.delete_bucket(mirror)
    js.delete_bucket(union)


def test_a_mirror_in_another_domain_names_its_api() -> None:
    assert mirrored("A", "hub") == {"mirror": {"name": "A", "external": {"api": "$JS.hub.API"}}}


def test_an_edit_changes_what_it_says_and_shows_it(place: Place, js: JetStream, bucket: Bucket) -> None:
    before = js.bucket(bucket.name).config.stream.to_json()
    arguments = ("kv", "edit", bucket.name, "--history", "10", "--max-value-size", "1K", "--no-direct")
    assert place.ok(*arguments).out.splitlines() == [
        f"bucket {bucket.name} changed",
        "direct: unset, was on",
        "history: 10, was 5",
        "max_value_size: 1 KiB, was unset",
    ]
    after = js.bucket(bucket.name).config.stream.to_json()
    assert {key for key in before | after if before.get(key) != after.get(key)} == {
        "allow_direct", "max_msgs_per_subject", "max_msg_size",
    }  # fmt: skip
    assert place.ok(*arguments).out == f"bucket {bucket.name} has that configuration already\n"
    (data,) = place.ok("kv", "edit", bucket.name, "--max-value-size", "-1", "--json").objects
    assert data["config"]["max_msg_size"] == -1


def test_buckets_are_listed(place: Place, bucket: Bucket) -> None:
    for verb in ("buckets", "ls", "list"):
        lines = place.ok("kv", verb).out.splitlines()
        assert [line.split()[:2] for line in lines if bucket.name in line] == [[bucket.name, "5"]]
        assert bucket.name in place.ok("kv", verb, "--quiet").out.splitlines()
        found = place.ok("kv", verb, "--json").objects
        assert bucket.stream in [each["config"]["name"] for each in found]


def test_without_buckets_it_says_so() -> None:
    with serve(port=0) as server:
        assert Place(server.url).ok("kv", "ls").out == "no buckets\n"
        assert Place(server.url).ok("kv", "ls", "--json").out == ""


@pytest.mark.parametrize("verb", ["info", "status"])
def test_a_bucket_is_shown(place: Place, bucket: Bucket, verb: str) -> None:
    shown = place.ok("kv", verb, bucket.name).out
    assert f"{bucket.name}, stream {bucket.stream}" in shown
    assert "last revision  5, 20" in shown
    assert "history        5" in shown
    (data,) = place.ok("kv", verb, bucket.name, "--json").objects
    assert (data["config"]["name"], data["state"]["messages"]) == (bucket.stream, 5)


def test_markers_are_removed(place: Place, bucket: Bucket) -> None:
    young = place.ok("kv", "compact", bucket.name, "--force").out
    assert young == f"1 revision removed from bucket {bucket.name}\n"  # the history before the marker
    (data,) = place.ok("kv", "compact", bucket.name, "--force", "--older-than", "0s", "--json").objects
    assert data == {"ok": True, "bucket": bucket.name, "removed": 1}
    assert [entry.key for entry in bucket.history()] == ["a.tea", "a.tea", "b.coffee"]


@pytest.mark.parametrize("verb", ["del", "rm", "delete"])
def test_a_bucket_is_deleted(place: Place, js: JetStream, bucket: Bucket, verb: str) -> None:
    assert place.ok("kv", verb, bucket.name, "--force").out == f"bucket {bucket.name} deleted\n"
    with pytest.raises(BucketNotFoundError):
        js.bucket(bucket.name)


# -- keys --------------------------------------------------------------------------------------------------------------


def test_keys_are_listed(place: Place, bucket: Bucket) -> None:
    assert place.ok("kv", "ls", bucket.name).out == "a.tea\nb.coffee\n"
    assert place.ok("kv", "ls", bucket.name, "b.*", "c", "--json").objects == [{"key": "b.coffee"}]
    table = place.ok("kv", "ls", bucket.name, "--verbose").out
    assert [line.split()[:3] for line in table.splitlines()[2:]] == [["a.tea", "3", "4"], ["b.coffee", "5", "256"]]
    assert "3.40" not in table
    assert "3.40" in place.ok("kv", "ls", bucket.name, "-v", "--display-value").out
    tea, coffee = place.ok("kv", "ls", bucket.name, "--verbose", "--json").objects
    assert (tea["key"], tea["revision"], tea["size"], "data" in tea) == ("a.tea", 3, 4, False)
    assert coffee["size"] == 256
    with_values = place.ok("kv", "ls", bucket.name, "--verbose", "--display-value", "--json").objects
    assert with_values[0]["data"] == "3.40"


@pytest.mark.parametrize("options", [[], ["--verbose"]])
def test_without_keys_a_note_says_so(place: Place, bucket: Bucket, options: list[str]) -> None:
    done = place.call("kv", "ls", bucket.name, "none", *options)
    assert (done.code, done.out, done.err) == (0, "", "jsproto: no keys\n")


def test_values_are_stored_and_read(place: Place, bucket: Bucket) -> None:
    arguments = ("kv", "put", bucket.name)
    assert place.ok(*arguments, "k", "v 1").out == "key k stored as revision 6\n"
    assert place.ok(*arguments, "k", "--json", stdin=b"two\nlines\n").objects == [
        {"ok": True, "bucket": bucket.name, "key": "k", "revision": 7}
    ]
    place.ok(*arguments, "empty", "", stdin=b"unread")
    assert bucket.get("empty").value == b""
    head, *rest = place.ok("kv", "get", bucket.name, "k").out.splitlines()
    assert (head.split()[0], head.split()[-1], rest) == ("#7", "k", ["two", "lines"])
    assert place.ok("kv", "get", bucket.name, "k", "--raw").raw == b"two\nlines\n"
    assert place.ok("kv", "get", bucket.name, "k", "--raw", "--revision", "6").raw == b"v 1"
    assert place.ok("kv", "get", bucket.name, "b.coffee", "--raw").raw == BINARY
    (data,) = place.ok("kv", "get", bucket.name, "k", "--json").objects
    assert (data["key"], data["revision"], data["operation"], data["data"]) == ("k", 7, "PUT", "two\nlines\n")


def test_a_key_is_created_once_and_updated_from_its_revision(place: Place, bucket: Bucket) -> None:
    create = ("kv", "create", bucket.name, "k", "1")
    assert place.ok(*create).out == "key k stored as revision 6\n"
    assert "it exists, with revision 6" in place.fails(1, *create)
    assert place.ok("kv", "update", bucket.name, "k", "2", "6").out == "key k stored as revision 7\n"
    assert "the last revision is 7" in place.fails(1, "kv", "update", bucket.name, "k", "3", "6")
    place.ok("kv", "update", bucket.name, "k", "--revision", "7", stdin=b"3")
    place.ok("kv", "update", bucket.name, "new", "--revision", "0", stdin=b"1")
    assert (bucket.get("k").value, bucket.get("new").value) == (b"3", b"1")
    place.ok("kv", "create", bucket.name, "short", "x", "--ttl", "1h")


def test_a_bucket_of_another_client_may_know_no_ttl(place: Place, js: JetStream, bucket: Bucket) -> None:
    old = unique("B")
    js.create_stream(f"KV_{old}", subjects=[f"$KV.{old}.>"], max_msgs_per_subject=1, allow_rollup_hdrs=True)
    for arguments in (["create", old, "k", "v"], ["purge", old, "k", "--force"]):
        line = place.fails(1, "kv", *arguments, "--ttl", "5s")
        assert line == f"bucket {old} allows no --ttl: jsproto stream edit KV_{old} --allow-msg-ttl"
    js.delete_bucket(old)


def test_a_key_is_deleted_and_purged(place: Place, bucket: Bucket) -> None:
    assert "the last revision is 3" in place.fails(1, "kv", "del", bucket.name, "a.tea", "--revision", "1", "--force")
    line = place.ok("kv", "del", bucket.name, "a.tea", "--revision", "3", "--force").out
    assert line == "key a.tea deleted, which is revision 6\n"
    assert place.fails(1, "kv", "get", bucket.name, "a.tea").endswith("revision 6 deleted it (DEL)")
    assert len(bucket.history("a.tea")) == 3
    (data,) = place.ok("kv", "purge", bucket.name, "a.tea", "--ttl", "1h", "--force", "--json").objects
    assert data == {"ok": True, "bucket": bucket.name, "key": "a.tea", "revision": 7}
    (marker,) = bucket.history("a.tea")
    assert marker.operation == "PURGE"
    with pytest.raises(KeyDeletedError):
        bucket.get("a.tea")


def test_a_history_is_shown(place: Place, bucket: Bucket) -> None:
    rows = [line.split() for line in place.ok("kv", "history", bucket.name, "a.tea").out.splitlines()[2:]]
    assert [(row[0], row[1], row[-1]) for row in rows] == [("1", "PUT", "3.20"), ("3", "PUT", "3.40")]
    rows = [line.split() for line in place.ok("kv", "history", bucket.name, "a.*").out.splitlines()[2:]]
    assert [row[:3] for row in rows] == [
        ["1", "a.tea", "PUT"], ["2", "a.gone", "PUT"], ["3", "a.tea", "PUT"], ["4", "a.gone", "DEL"],
    ]  # fmt: skip
    found = place.ok("kv", "history", bucket.name, "a.gone", "--json").objects
    assert [(each["operation"], each.get("data")) for each in found] == [("PUT", "1"), ("DEL", None)]
    done = place.call("kv", "history", bucket.name, "none")
    assert (done.code, done.out, done.err) == (0, "", "jsproto: no revisions of none\n")


@pytest.mark.parametrize("columns", [60, 80])
def test_long_values_leave_room_for_the_rest(place: Place, bucket: Bucket, columns: int) -> None:
    bucket.put("a.key.with.a.name.that.is.rather.long", b"a value that is long " * 20)
    for arguments in (["history", bucket.name, ">"], ["ls", bucket.name, "--verbose", "--display-value"]):
        lines = place.ok("kv", *arguments, COLUMNS=str(columns)).out.splitlines()
        assert max(map(len, lines)) <= columns
        assert "revision" in lines[0]
        (row,) = [line for line in lines if "a value" in line]
        assert " 6 " in row
        assert row.rstrip().endswith("…")


def test_an_older_value_comes_back(place: Place, bucket: Bucket) -> None:
    assert place.ok("kv", "revert", bucket.name, "a.tea", "1", "--force").out == "key a.tea stored as revision 6\n"
    assert bucket.get("a.tea").value == b"3.20"
    place.ok("kv", "revert", bucket.name, "a.gone", "2", "--force")  # it was deleted meanwhile
    assert bucket.get("a.gone").value == b"1"
    assert "revision 1 is of 'a.tea'" in place.fails(1, "kv", "revert", bucket.name, "a.gone", "1", "--force")


def test_a_key_that_changes_meanwhile_is_not_reverted(
    place: Place, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Screen, "confirm", lambda screen, question: bucket.put("a.tea", b"5"))
    done = place.call("kv", "revert", bucket.name, "a.tea", "1", tty=True)
    assert (done.code, "the last revision is 6" in done.err) == (1, True), done
    assert bucket.get("a.tea").value == b"5"


# -- watching ----------------------------------------------------------------------------------------------------------


def test_keys_are_watched(place: Place, bucket: Bucket) -> None:
    def heads(*arguments: str) -> list[str]:
        done = place.call("kv", "watch", bucket.name, *arguments)
        assert (done.code, done.err) == (0, "")
        return [" ".join(line.split()[::3]) for line in done.out.splitlines() if line.startswith("#")]

    assert heads("--count", "3") == ["#3 a.tea", "#4 a.gone", "#5 b.coffee"]
    assert heads("a.*", "--history", "--count", "4") == ["#1 a.tea", "#2 a.gone", "#3 a.tea", "#4 a.gone"]
    assert heads("--no-deletes", "--count", "2") == ["#3 a.tea", "#5 b.coffee"]
    assert heads("--revision", "2", "--count", "4") == ["#2 a.gone", "#3 a.tea", "#4 a.gone", "#5 b.coffee"]
    assert place.ok("kv", "watch", bucket.name, "a.tea", "none", "--raw", "--count", "1").out == "3.40\n"
    found = place.ok("kv", "watch", bucket.name, "a.*", "--json", "--count", "2").objects
    assert [(each["revision"], each["operation"]) for each in found] == [(3, "PUT"), (4, "DEL")]


@pytest.mark.slow
@pytest.mark.parametrize("place", [REAL], indirect=True)
@pytest.mark.parametrize(
    ("option", "note"),
    [
        ("--deletes", b"jsproto: 3 revisions so far; waiting for changes"),
        ("--updates", b"jsproto: waiting for changes"),
    ],
)
def test_changes_are_printed_as_they_come(place: Place, bucket: Bucket, option: str, note: bytes) -> None:
    process = place.start("kv", "watch", bucket.name, option, stdout=subprocess.PIPE)
    assert process.stderr is not None
    assert process.stdout is not None
    assert process.stderr.readline().startswith(note)
    bucket.delete("a.tea")
    while b"#6" not in (line := process.stdout.readline()):
        assert line
    assert line.endswith(b"a.tea deleted\n")
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    assert b"interrupted" in process.stderr.read()  # and how many, unless it was stopped on the way to count
    process.stderr.close()
    process.stdout.close()


# -- what is asked, and what is wrong ----------------------------------------------------------------------------------


@promise("Without a terminal they need `--force`.")
@pytest.mark.parametrize(
    "arguments", [["del", "B"], ["del", "B", "k"], ["purge", "B", "k"], ["compact", "B"], ["revert", "B", "k", "1"]]
)
def test_nothing_is_destroyed_where_nobody_can_be_asked(memory: Place, arguments: list[str]) -> None:
    assert memory.fails(2, "kv", *arguments) == "there is no terminal to ask at: add --force"


@pytest.mark.parametrize(
    ("arguments", "question"),
    [
        (["del", "NAME"], "Delete bucket NAME with 5 revisions?"),
        (["del", "NAME", "a.tea"], "Delete key a.tea of bucket NAME?"),
        (["purge", "NAME", "a.tea"], "Delete key a.tea of bucket NAME, and its history?"),
        (["compact", "NAME"], "Remove the markers of deleted keys of bucket NAME, and their history?"),
        (["revert", "NAME", "a.tea", "1"], "Replace revision 3 of key a.tea by the value of revision 1?"),
    ],
)
def test_the_question_says_what_is_lost(place: Place, bucket: Bucket, arguments: list[str], question: str) -> None:
    given = ["kv", *(each.replace("NAME", bucket.name) for each in arguments)]
    done = place.call(*given, stdin=b"n\n", tty=True)
    assert (done.code, done.err.startswith(question.replace("NAME", bucket.name))) == (1, True), done.err
    assert bucket.status().last_revision == 5
    assert len(bucket.history()) == 5
    assert place.call(*given, stdin=b"y\n", tty=True).code == 0


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["add", "a b"], "a b"),
        (["add", "B", "--history", "65"], "history is a whole number from 1 to 64, not 65"),
        (["add", "B", "--ttl", "5"], "--ttl: not a duration: '5'"),
        (["add", "B", "--marker-ttl", "500ms"], "marker_ttl must be 1 second to 292 years"),
        (["add", "B", "--max-bytes", "much"], "--max-bucket-size, --max-bytes: not a size: 'much'"),
        (["add", "B", "--max-value-size", "much"], "--max-value-size: not a size: 'much'"),
        (["add", "B", "--storage", "paper"], "storage"),
        (["add", "B", "--mirror-domain", "hub"], "--mirror-domain needs --mirror"),
        (["add", "B", "--republish-headers"], "need --republish-destination"),
        (["add", "B", "--metadata", "x"], "--metadata: not a pair"),
        (["edit", "B"], "nothing to change"),
        (["ls", "B", "--display-value"], "--display-value needs --verbose"),
        (["ls", "--verbose"], "--verbose is for the keys of a BUCKET"),
        (["ls", "a.b"], "a.b"),
        (["compact", "B", "--older-than", "1", "--force"], "--older-than: not a duration"),
        (["create", "B", "k", "v", "--ttl", "soon"], "--ttl: not a duration: 'soon'"),
        (["purge", "B", "k", "--ttl", "soon"], "--ttl: not a duration: 'soon'"),
        (["update", "B", "k", "v"], "since which revision? Give VALUE REVISION, or --revision N"),
        (["update", "B", "k", "v", "1", "--revision", "1"], "since which revision?"),
        (
            ["update", "B", "k", "v", "x"],
            "Invalid value for 'REVISION': it should be a valid integer: see jsproto kv update",
        ),
        (["del", "B", "--revision", "4", "--force"], "--revision is for a KEY"),
        (["get", "B", "k", "--raw", "--json"], "--raw or --json, not both"),
        (["watch", "B", "--null"], "--null needs --raw"),
        (["get", "B"], "Missing argument 'KEY': see jsproto kv get --help"),
    ],
)
def test_what_is_wrong_is_one_line(memory: Place, arguments: list[str], why: str) -> None:
    done = memory.call("kv", *arguments)
    assert (done.code, done.err.count("\n")) == (2, 1), done
    assert why in done.err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["put", "NAME", "a b", "v"], "a b"),
        (["get", "NAME", ".a"], ".a"),
        (["watch", "NAME", "a..b"], "a..b"),
        (["watch", "NAME", "--history", "--updates"], "updates_only"),
    ],
)
def test_a_key_that_cannot_be_is_one_line(place: Place, bucket: Bucket, arguments: list[str], why: str) -> None:
    assert why in place.fails(2, "kv", *(each.replace("NAME", bucket.name) for each in arguments))


@pytest.mark.parametrize(
    "arguments",
    [
        ["info", "B"],
        ["ls", "B"],
        ["put", "B", "k", "v"],
        ["del", "B", "-f"],
        ["edit", "B", "--history", "2"],
        ["watch", "B"],
    ],
)
def test_a_bucket_that_is_not_there_is_one_line(place: Place, arguments: list[str]) -> None:
    name = unique("B")
    assert name in place.fails(1, "kv", *(name if each == "B" else each for each in arguments))


def test_a_value_is_not_read_from_a_terminal(memory: Place) -> None:
    done = memory.call("kv", "put", "B", "k", tty=True)
    assert (done.code, done.err) == (2, "jsproto: what to store? Give a VALUE, or standard input\n")
