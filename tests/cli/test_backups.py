"""``jsproto stream backup`` and ``restore``: a restored stream equals the one before, and damage is found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from jsproto.api_errors import StreamNotFoundError
from jsproto.errors import TimeoutError
from jsproto.grammar.api import ApiSubjects
from jsproto.wire.frames import Msg
from jsproto_io.cli import backing_up
from jsproto_io.cli.terminal import Failure
from jsproto_io.sync import Connection, JetStream, Message, connect
from tests.cli.calling import Place
from tests.cli.conftest import REAL
from tests.drivers.test_facade import unique

pytestmark = pytest.mark.parametrize("place", [REAL], indirect=True)


@pytest.fixture
def name(js: JetStream) -> Iterator[str]:
    """A stream in files with gaps, headers and large messages, and a consumer that has acknowledged two of them."""
    stream = unique("S")
    js.create_stream(stream, subjects=[f"{stream}.>"], allow_direct=True, metadata={"owner": "me"})
    for n in range(20):
        js.publish(f"{stream}.{n % 3}", bytes([n]) * (100_000 if n == 9 else n), headers={"N": str(n)})
    for seq in (1, 7, 8, 20):
        js.delete_msg(stream, seq)
    subscription = js.pull_subscribe(None, "C", stream=stream)
    for message in subscription.fetch(2, timeout=5):
        message.ack_sync()
    subscription.unsubscribe()
    yield stream
    with suppress(StreamNotFoundError):
        js.delete_stream(stream)


def contents(js: JetStream, stream: str) -> list[Any]:
    messages = [
        (each.seq, each.timestamp, each.subject, each.data, [*each.headers.items()]) for each in js.get_batch(stream)
    ]
    info, consumer = js.stream_info(stream), js.consumer_info(stream, "C")
    state = info.state
    numbers = (state.messages, state.bytes, state.first_seq, state.last_seq, state.num_deleted)
    places = [(place.consumer_seq, place.stream_seq) for place in (consumer.delivered, consumer.ack_floor)]
    config = {key: value for key, value in info.config.to_json().items() if key != "metadata"}
    return [messages, numbers, config, (info.config.metadata or {})["owner"], consumer.num_pending, places]


def test_a_restored_stream_equals_the_one_before(place: Place, js: JetStream, name: str, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    before = contents(js, name)
    line = place.ok("stream", "backup", name, str(folder)).out
    assert line.startswith(f"stream {name} is in {folder}, ")
    assert sorted(path.name for path in folder.iterdir()) == ["backup.json", "stream.tar.s2"]
    place.ok("stream", "rm", name, "--force")
    assert place.ok("stream", "restore", str(folder)).out == f"stream {name} is there again, 16 messages\n"
    assert contents(js, name) == before
    assert js.publish(f"{name}.1", b"new").seq == 21


def test_consumers_can_be_left_out(place: Place, js: JetStream, name: str, tmp_path: Path) -> None:
    arguments = ("stream", "backup", name, str(tmp_path), "--no-consumers", "--check", "--json")
    (data,) = place.ok(*arguments).objects
    assert data == {
        "ok": True, "stream": name, "folder": str(tmp_path), "bytes": (tmp_path / "stream.tar.s2").stat().st_size,
    }  # fmt: skip
    js.delete_stream(name)
    (made,) = place.ok("stream", "restore", str(tmp_path), "--json").objects
    assert (made["config"]["name"], made["state"]["messages"]) == (name, 16)
    assert js.consumer_names(name) == []


def test_a_large_stream_comes_in_chunks(place: Place, js: JetStream, tmp_path: Path) -> None:
    name = unique("S")
    parts: list[int] = []
    js.create_stream(name, subjects=[name], allow_direct=True)
    noise = Random(1).randbytes(400_000)  # which no server compresses
    for n in range(5):
        js.publish(name, noise[n:])
    with connect(place.url) as nc:
        size = backing_up.back_up(nc, ApiSubjects(), name, tmp_path, consumers=True, check=False, progress=parts.append)
        assert (parts[-1], len(parts) > 5, parts == sorted(parts)) == (size, True, True)
        js.delete_stream(name)
        sent: list[int] = []
        backing_up.restore(nc, ApiSubjects(), tmp_path, progress=sent.append)
    assert sent[-1] == size
    assert [len(each.data) for each in js.get_batch(name)] == [400_000 - n for n in range(5)]
    js.delete_stream(name)


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def test_a_stream_that_is_there_stays(place: Place, js: JetStream, name: str, tmp_path: Path) -> None:
    place.ok("stream", "backup", name, str(tmp_path))
    before = contents(js, name)
    assert "already in use" in place.fails(1, "stream", "restore", str(tmp_path))
    assert contents(js, name) == before


def test_a_backup_is_never_overwritten(place: Place, name: str, tmp_path: Path) -> None:
    place.ok("stream", "backup", name, str(tmp_path))
    before = (tmp_path / "stream.tar.s2").read_bytes()
    assert "there is a backup in" in place.fails(2, "stream", "backup", name, str(tmp_path))
    assert (tmp_path / "stream.tar.s2").read_bytes() == before


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        ("flip", "stream.tar.s2 is not what was written"),
        ("cut", "stream.tar.s2 is not what was written"),
        ("no data", "stream.tar.s2 is missing"),
        ("no about", "backup.json is missing"),
        ("{", "backup.json says of no stream"),
        ("[]", "backup.json says of no stream"),
        ('{"config": {"name": "a b"}, "state": {}}', "backup.json says of no stream"),
        ('{"config": {"name": "S"}, "state": {"messages": "many"}}', "backup.json says of no stream"),
    ],
)
def test_a_damaged_backup_is_one_line(
    place: Place, js: JetStream, name: str, tmp_path: Path, damage: str, why: str
) -> None:
    place.ok("stream", "backup", name, str(tmp_path))
    js.delete_stream(name)
    data, about = tmp_path / "stream.tar.s2", tmp_path / "backup.json"
    match damage:
        case "flip":
            whole = bytearray(data.read_bytes())
            whole[len(whole) // 2] ^= 1
            data.write_bytes(whole)
        case "cut":
            data.write_bytes(data.read_bytes()[:-1])
        case "no data":
            data.unlink()
        case "no about":
            about.unlink()
        case text:
            about.write_text(text, encoding="utf-8")
    assert why in place.fails(1, "stream", "restore", str(tmp_path))
    assert name not in js.stream_names()


def test_the_server_judges_a_backup_without_a_digest(place: Place, js: JetStream, name: str, tmp_path: Path) -> None:
    """That of ``nats`` has none."""
    place.ok("stream", "backup", name, str(tmp_path))
    js.delete_stream(name)
    about = tmp_path / "backup.json"
    document = json.loads(about.read_text(encoding="utf-8"))
    del document["sha256"]
    about.write_text(json.dumps(document), encoding="utf-8")
    whole = (tmp_path / "stream.tar.s2").read_bytes()
    (tmp_path / "stream.tar.s2").write_bytes(b"nonsense")
    assert f"stream {name}" in place.fails(1, "stream", "restore", str(tmp_path))
    (tmp_path / "stream.tar.s2").write_bytes(whole)
    place.ok("stream", "restore", str(tmp_path))
    assert js.stream_info(name).state.messages == 16


def test_what_cannot_be_backed_up_is_one_line(place: Place, js: JetStream, tmp_path: Path) -> None:
    name = unique("S")
    js.create_stream(name, subjects=[name], storage="memory")
    line = place.fails(1, "stream", "backup", name, str(tmp_path / "a"))
    assert line == f"stream {name} is in memory: servers back up streams in files alone"
    js.delete_stream(name)
    assert "stream not found" in place.fails(1, "stream", "backup", name, str(tmp_path / "a"))
    assert not (tmp_path / "a").exists()


class _Ends:
    """A subscription that gives a chunk, and then ends in some way."""

    def __init__(self, nc: Connection, end: bytes | None) -> None:
        self._nc = nc
        self._end = end
        self._given = False

    def __enter__(self) -> _Ends:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def next_msg(self, *, timeout: float) -> Message:
        if self._given and self._end is None:
            raise TimeoutError("nothing")
        data = b"" if self._given else b"chunk"
        header = self._end if self._given else None
        self._given = True
        return Message(Msg(b"in", b"1", None, header, data), self._nc)


@pytest.mark.parametrize(
    ("end", "why"),
    [(b"NATS/1.0 408 No Flow Response\r\n\r\n", "has stopped: 408 No Flow Response"), (None, "nothing came for 60 s")],
)
def test_a_backup_that_stops_leaves_no_file(
    place: Place, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: bytes | None, why: str
) -> None:
    with connect(place.url) as nc:
        monkeypatch.setattr(nc, "subscribe", lambda inbox: _Ends(nc, end))
        with pytest.raises(Failure, match=why):
            backing_up.back_up(
                nc, ApiSubjects(), name, tmp_path, consumers=True, check=False,
                progress=cast("backing_up.Progress", str),
            )  # fmt: skip
    assert not [*tmp_path.iterdir()]
