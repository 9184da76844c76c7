"""``jsproto object``, on a real server and on one in memory."""

from __future__ import annotations

import hashlib
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from jsproto.errors import BucketNotFoundError, ObjectNotFoundError
from jsproto_io.sync import JetStream, ObjectStore
from jsproto_io.testing import serve
from tests.cli.calling import Place
from tests.cli.conftest import REAL
from tests.drivers.test_facade import unique
from tests.marks import promise

BINARY = bytes(range(256))
LARGE = BINARY * 1_500  # three chunks


@pytest.fixture
def bucket(js: JetStream) -> Iterator[ObjectStore]:
    """A bucket with two objects, a link and a deleted object. It may be deleted."""
    made = js.create_object_store(unique("O"), storage="memory")
    made.put("large", LARGE, description="many bytes", headers={"A": ["b", "c"]}, metadata={"x": "y"})
    made.put("dir/small", b"hello\n")
    made.link("latest", "large")
    made.put("gone", b"1")
    made.delete("gone")
    yield made
    with suppress(BucketNotFoundError):
        js.delete_object_store(made.name)


# -- buckets -----------------------------------------------------------------------------------------------------------


def test_a_bucket_is_created_changed_and_shown(place: Place, js: JetStream) -> None:
    name = unique("O")
    line = place.ok(
        "object", "add", name, "--ttl", "1h", "--max-bucket-size", "1MB", "--storage", "memory", "--compress",
        "--description", "what it is", "--metadata", "owner=me", "--no-batched", "--replicas", "1",
    ).out  # fmt: skip
    assert line == f"bucket {name} is there, in stream OBJ_{name}\n"
    config = js.object_store(name).config
    assert (config.ttl, config.max_bytes, config.storage, config.compression) == (3_600, 1_048_576, "memory", True)
    assert (config.description, config.batched, config.metadata["owner"]) == ("what it is", False, "me")
    edit = ("object", "edit", name, "--ttl", "2h", "--batched")
    assert place.ok(*edit).out.splitlines() == [f"bucket {name} changed", "batched: on, was unset", "ttl: 2h, was 1h"]
    assert place.ok(*edit).out == f"bucket {name} has that configuration already\n"
    (data,) = place.ok("object", "edit", name, "--max-bytes", "-1", "--json").objects
    assert data["config"]["max_bytes"] == -1
    shown = [line.split() for line in place.ok("object", "info", name).out.splitlines()]
    assert ["ttl", "2h"] in shown
    (data,) = place.ok("object", "info", name, "--json").objects
    assert data["config"]["name"] == f"OBJ_{name}"
    js.delete_object_store(name)


def test_buckets_are_listed(place: Place, bucket: ObjectStore) -> None:
    lines = place.ok("obj", "ls", COLUMNS="60").out.splitlines()
    assert lines[0].split() == ["bucket", "size", "sealed", "last", "write"]
    assert [line.split()[0] for line in lines if bucket.name in line] == [bucket.name]
    assert bucket.name in place.ok("object", "ls", "--quiet").out.splitlines()
    assert bucket.stream in [each["config"]["name"] for each in place.ok("object", "ls", "--json").objects]
    with serve(port=0) as server:
        assert Place(server.url).ok("object", "ls").out == "no buckets\n"


def test_a_bucket_is_sealed_and_deleted(place: Place, js: JetStream, bucket: ObjectStore, tmp_path: Path) -> None:
    assert place.ok("object", "seal", bucket.name, "--force").out == f"bucket {bucket.name} is sealed\n"
    assert "yes" in next(line for line in place.ok("object", "ls").out.splitlines() if bucket.name in line)
    (tmp_path / "f").write_bytes(b"x")
    assert "it is sealed" in place.fails(1, "object", "put", bucket.name, str(tmp_path / "f"))
    assert place.ok("object", "rm", bucket.name, "--force").out == f"bucket {bucket.name} deleted\n"
    with pytest.raises(BucketNotFoundError):
        js.object_store(bucket.name)


def test_chunks_that_nobody_owns_are_removed(place: Place, js: JetStream, bucket: ObjectStore) -> None:
    js.publish(f"$O.{bucket.name}.C.orphan", b"x")
    assert place.ok("object", "gc", bucket.name, "--force").out == f"0 chunks removed from bucket {bucket.name}\n"
    (data,) = place.ok("object", "gc", bucket.name, "--older-than", "0s", "--force", "--json").objects
    assert data == {"ok": True, "bucket": bucket.name, "removed": 1}


# -- objects -----------------------------------------------------------------------------------------------------------


def test_a_file_goes_in_and_comes_out(
    place: Place, bucket: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "f").write_bytes(LARGE)
    line = place.ok(
        "object", "put", bucket.name, "./sub/f", "--description", "d", "-H", "A: b", "--metadata", "x=y",
        "--chunk-size", "64K",
    ).out  # fmt: skip
    assert line == "object sub/f stored, 375 KiB\n"
    info = bucket.info("sub/f")
    assert (info.description, info.headers, info.metadata, info.chunks) == ("d", {"A": ["b"]}, {"x": "y"}, 6)
    assert place.ok("object", "get", bucket.name, "sub/f").out == "object sub/f is in f, 375 KiB\n"
    assert (tmp_path / "f").read_bytes() == LARGE
    (data,) = place.ok("object", "get", bucket.name, "latest", "-O", "other", "--json").objects
    assert (data["name"], data["file"], data["sha256"]) == ("large", "other", hashlib.sha256(LARGE).hexdigest())
    assert (tmp_path / "other").read_bytes() == LARGE
    assert place.ok("object", "get", bucket.name, "large", "--output", "-").raw == LARGE


def test_standard_input_is_put(place: Place, bucket: ObjectStore) -> None:
    (data,) = place.ok("object", "put", bucket.name, "--name", "in", "--json", stdin=BINARY).objects
    assert (data["name"], data["size"], data["chunks"]) == ("in", 256, 1)
    assert bucket.get("in") == BINARY
    assert "it exists" in place.fails(1, "object", "put", bucket.name, "--name", "in", "--create", stdin=b"x")
    place.ok("object", "put", bucket.name, "--name", "in", stdin=b"new")
    assert bucket.get("in") == b"new"


def test_a_file_that_is_there_stays(place: Place, bucket: ObjectStore, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"mine")
    assert "is there: give --output FILE, or --force" in place.fails(
        2, "object", "get", bucket.name, "large", "-O", str(path)
    )
    assert path.read_bytes() == b"mine"
    assert "it does not exist" in place.fails(1, "object", "get", bucket.name, "no", "-O", str(path), "--force")
    assert [each.name for each in tmp_path.iterdir()] == ["f"]
    assert path.read_bytes() == b"mine"
    place.ok("object", "get", bucket.name, "large", "-O", str(path), "--force")
    assert path.read_bytes() == LARGE


def test_progress_is_shown_on_a_terminal(place: Place, bucket: ObjectStore, tmp_path: Path) -> None:
    path = tmp_path / "shown"
    path.write_bytes(LARGE)
    for arguments in (
        ["put", bucket.name, str(path), "--name", "shown"],
        ["get", bucket.name, "shown", "-O", str(path), "--force"],
    ):
        done = place.call("object", *arguments, FORCE_COLOR="1", COLUMNS="100")
        assert (done.code, "KiB" in done.err, "shown" in done.err) == (0, True, True), done
        assert place.call("object", *arguments, "--quiet", FORCE_COLOR="1").err == ""


def test_objects_are_listed_and_shown(place: Place, bucket: ObjectStore) -> None:
    rows = [line.split()[:4] for line in place.ok("object", "ls", bucket.name).out.splitlines()[2:]]
    assert rows == [
        ["large", "375", "KiB", "3"],
        ["dir/small", "6", "B", "1"],
        ["latest", "->", f"{bucket.name}/large", "link"],
    ]
    assert place.ok("object", "ls", bucket.name, "--quiet").out == "large\ndir/small\nlatest\n"
    found = place.ok("object", "ls", bucket.name, "--deleted", "--json").objects
    assert [(each["name"], each["deleted"]) for each in found][-1] == ("gone", True)
    assert found[2]["link"] == {"bucket": bucket.name, "name": "large"}
    assert "deleted" in place.ok("object", "ls", bucket.name, "--deleted").out
    shown = place.ok("object", "info", bucket.name, "large").out
    for text in ("384,000 bytes (3 chunks of 128 KiB at most)", hashlib.sha256(LARGE).hexdigest(), "many bytes"):
        assert text in shown
    assert [line.split() for line in shown.splitlines()][-3:] == [
        ["header", "A", "b"], ["header", "A", "c"], ["metadata", "x", "y"],
    ]  # fmt: skip
    assert f"{bucket.name}/large" in place.ok("object", "info", bucket.name, "latest").out
    (data,) = place.ok("object", "info", bucket.name, "large", "--json").objects
    assert (data["description"], data["headers"], data["metadata"]) == ("many bytes", {"A": ["b", "c"]}, {"x": "y"})


def test_an_empty_bucket_says_so(place: Place, js: JetStream) -> None:
    name = unique("O")
    js.create_object_store(name, storage="memory")
    assert place.ok("object", "ls", name).out == "no objects\n"
    js.delete_object_store(name)


def test_links_lead_to_objects_and_buckets(place: Place, bucket: ObjectStore) -> None:
    name = bucket.name
    assert place.ok("object", "link", name, "small", "dir/small").out == f"small leads to {name}/dir/small\n"
    assert place.ok("object", "get", name, "small", "-O", "-").out == "hello\n"
    (data,) = place.ok("object", "link", name, "all", "--bucket", name, "--json").objects
    assert data["link"] == {"bucket": name, "name": None}
    assert "which has no content" in place.fails(1, "object", "get", name, "all", "-O", "-")
    assert place.fails(1, "object", "link", name, "large", "dir/small").endswith(": it exists, with revision 4")


def test_an_object_is_deleted(place: Place, bucket: ObjectStore) -> None:
    assert place.ok("object", "del", bucket.name, "large", "--force").out == "object large deleted\n"
    with pytest.raises(ObjectNotFoundError):
        bucket.info("large")
    assert "deleted it" in place.fails(1, "object", "rm", bucket.name, "large", "--force")


def test_objects_are_watched(place: Place, bucket: ObjectStore) -> None:
    done = place.call("object", "watch", bucket.name, "--count", "4")
    assert (done.code, done.err) == (0, "")
    assert [" ".join(line.split()[3:]) for line in done.out.splitlines()] == [
        "large 375 KiB", "dir/small 6 B", f"latest -> {bucket.name}/large", "gone deleted",
    ]  # fmt: skip
    found = place.ok("object", "watch", bucket.name, "--no-deletes", "--json", "--count", "3").objects
    assert [each["name"] for each in found] == ["large", "dir/small", "latest"]


@pytest.mark.slow
@pytest.mark.parametrize("place", [REAL], indirect=True)
@pytest.mark.parametrize(
    ("option", "note"),
    [("--deletes", b"jsproto: 4 objects so far; waiting for changes"), ("--updates", b"jsproto: waiting for changes")],
)
def test_changes_are_printed_as_they_come(place: Place, bucket: ObjectStore, option: str, note: bytes) -> None:
    process = place.start("object", "watch", bucket.name, option, stdout=subprocess.PIPE)
    assert process.stderr is not None
    assert process.stdout is not None
    assert process.stderr.readline().startswith(note)
    bucket.delete("dir/small")
    while b"dir/small deleted" not in (line := process.stdout.readline()):
        assert line
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    process.stderr.close()
    process.stdout.close()


# -- what is asked, and what is wrong ----------------------------------------------------------------------------------


@promise("Without a terminal they need `--force`.")
@pytest.mark.parametrize("arguments", [["del", "B"], ["del", "B", "o"], ["seal", "B"], ["gc", "B"]])
def test_nothing_is_destroyed_where_nobody_can_be_asked(memory: Place, arguments: list[str]) -> None:
    assert memory.fails(2, "object", *arguments) == "there is no terminal to ask at: add --force"


@pytest.mark.parametrize(
    ("arguments", "question"),
    [
        (["del", "NAME"], "Delete bucket NAME with "),
        (["del", "NAME", "large"], "Delete object large of bucket NAME, 375 KiB?"),
        (["seal", "NAME"], "Seal bucket NAME? This cannot be undone."),
        (["gc", "NAME"], "Remove chunks of bucket NAME that no object owns?"),
    ],
)
def test_the_question_says_what_is_lost(place: Place, bucket: ObjectStore, arguments: list[str], question: str) -> None:
    given = ["object", *(each.replace("NAME", bucket.name) for each in arguments)]
    done = place.call(*given, stdin=b"n\n", tty=True)
    assert (done.code, done.err.startswith(question.replace("NAME", bucket.name))) == (1, True), done.err
    assert len(bucket.list()) == 3
    assert not bucket.status().config.sealed
    assert place.call(*given, stdin=b"y\n", tty=True).code == 0


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["add", "a b"], "a b"),
        (["add", "B", "--ttl", "5"], "--ttl: not a duration: '5'"),
        (["add", "B", "--max-bytes", "much"], "--max-bucket-size, --max-bytes: not a size: 'much'"),
        (
            ["add", "B", "--replicas", "many"],
            "Invalid value for '--replicas': it should be a valid integer: see jsproto",
        ),
        (["add", "B", "--storage", "paper"], "storage"),
        (["edit", "B"], "nothing to change"),
        (["gc", "B", "--older-than", "1", "--force"], "--older-than: not a duration"),
        (["put", "B", "missing"], "cannot read missing"),
        (["put", "B"], "standard input needs a --name"),
        (["put", "B", "--name", "o", "--chunk-size", "x"], "--chunk-size: not a size: 'x'"),
        (["put", "B", "--name", "o", "-H", "x"], "--header: not a header"),
        (["get", "B", "o", "-O", "-", "--json"], "--json or --output -, not both"),
        (["get", "B", "dir/"], "no file can be named ''"),
        (["get", "B", "o", "-O", "/"], "no file can be named '/'"),
        (["link", "B", "l"], "a link to what?"),
    ],
)
def test_what_is_wrong_is_one_line(memory: Place, arguments: list[str], why: str) -> None:
    done = memory.call("object", *arguments)
    assert (done.code, why in done.err, done.err.count("\n")) == (2, True, 1), done


@pytest.mark.parametrize(
    "arguments",
    [["info", "B"], ["ls", "B"], ["get", "B", "o"], ["del", "B", "-f"], ["edit", "B", "--ttl", "1h"], ["watch", "B"]],
)
def test_a_bucket_that_is_not_there_is_one_line(place: Place, arguments: list[str]) -> None:
    name = unique("O")
    assert name in place.fails(1, "object", *(name if each == "B" else each for each in arguments))


def test_a_bucket_with_another_configuration_names_the_command_that_changes_it(
    place: Place, bucket: ObjectStore
) -> None:
    why = place.fails(1, "object", "add", bucket.name, "--ttl", "1h")
    assert why == (
        f"bucket {bucket.name} is there with another configuration: jsproto object edit {bucket.name} changes it"
    )


def test_a_file_in_no_folder_is_named_as_it_was_given(place: Place, bucket: ObjectStore, tmp_path: Path) -> None:
    path = tmp_path / "no" / "file"
    assert (
        place.fails(1, "object", "get", bucket.name, "large", "-O", str(path)) == f"{path}: No such file or directory"
    )
    with pytest.raises(FileNotFoundError) as found:
        bucket.get_file("large", path)
    assert found.value.filename == str(path)
    with pytest.raises(IsADirectoryError) as wrong:
        bucket.get_file("large", tmp_path)
    assert wrong.value.filename == str(tmp_path)


def test_an_object_is_renamed(place: Place, bucket: ObjectStore) -> None:
    assert place.ok("object", "rename", bucket.name, "large", "vast").out == "object large is now vast\n"
    assert bucket.info("vast").size == 384_000
    assert "'large': it does not exist" in place.fails(1, "object", "rename", bucket.name, "large", "vast")
    assert "'vast': it exists" in place.fails(1, "object", "rename", bucket.name, "dir/small", "vast")


def test_nothing_is_read_from_a_terminal(memory: Place) -> None:
    done = memory.call("object", "put", "B", "--name", "o", tty=True)
    assert (done.code, done.err) == (2, "jsproto: what to put? Give a FILE, or standard input\n")
