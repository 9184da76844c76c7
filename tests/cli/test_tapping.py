"""What is read on the wire: lines from bytes, with bytes and times as arguments."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import get_args
from unittest.mock import patch

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from jsproto_io.cli import tapping
from jsproto_io.cli.records import BadInput
from jsproto_io.cli.report import BatchPlot, batch_table
from jsproto_io.cli.tapping import Curve, Direction, Seen, Tap
from jsproto_io.cli.transcripts import Recording, recorded
from tests.cli.calling import call
from tests.cli.test_report import shown
from tests.effort import examples
from tests.marks import promise
from tests.transcripts.test_transcripts import FOLDER, INDEX

DIRECTIONS: tuple[Direction, ...] = get_args(Direction)
FAST = "fast-gap_ok@2.15.1.json"
HELLO = b'CONNECT {"lang":"go","pass":"tiger","auth_token":"lion","jwt":"puma","sig":"lynx","nkey":"UOCELOT"}\r\n'
RUBBISH = (
    b"PING\r\nPUB a 1\r\nx\r\nGET / HTTP/1.1\r\nHost: here\r\n" + b"Accept: */*\r\n" * 40 + b"\r\nPUB b 1\r\ny\r\n"
)
TLS = b"\x16\x03\x01\x02\x00\x01\x00"


def read(*pieces: tuple[Direction, bytes], tap: Tap | None = None) -> list[Seen]:
    """What is seen of bytes on link 1, at 0."""
    tap = tap or Tap()
    return [seen for direction, data in pieces for seen in tap.received(1, direction, data, 0.0)]


def lines(seen: list[Seen]) -> list[str]:
    """What is printed of it, without time and link."""
    return [str(each).split("link 1 ")[1] for each in seen if each.is_line]


def script(name: str) -> list[tuple[Direction, bytes]]:
    return [(each.direction, each.raw) for each in recorded(FOLDER / name)]


@promise("Recordings in `tests/transcripts` are of the same form.")
@pytest.mark.parametrize("name", [entry["file"] for entry in INDEX])
def test_every_recorded_frame_is_a_line(name: str) -> None:
    tap, said = Tap(), script(name)
    seen = read(*said, tap=tap)
    assert len(lines(seen)) == len(said) == sum(tap.frames.values())
    assert (tap.unknown, tap.raw) == (0, 0)
    assert [each.recorded() for each in seen] == [raw for _, raw in said]
    assert all(each.to_json()["verb"] for each in seen)


def test_a_batch_is_told_from_its_start_to_its_end() -> None:
    told = lines(read(*script(FAST)))[5:]
    assert (
        told[0]
        == '-> PUB fi.a reply _INBOX.fi.u1.10.ok.1.0.$FI 3 B | batch u1 message 1 starts, flow 10, gaps ok "one"'
    )
    assert (
        told[1] == "<- MSG _INBOX.fi.u1.10.ok.1.0.$FI 32 B for fi.a | batch u1 acknowledged up to 0, the next after 10"
    )
    (gap,) = [line for line in told if "a gap" in line]
    assert gap.endswith("| batch u1 a gap: 3 to 4")
    assert "batch u1 stored as" in told[-1]


def test_an_old_sequence_is_no_gap() -> None:
    tap = Tap()
    told = lines(read(*script("fast-gap_back.c0@2.15.1.json"), tap=tap))
    assert any(line.endswith("| batch u1 goes back to 2, where 3 was due") for line in told)
    assert tap.batches["u1"].gaps == []


def test_an_end_in_the_middle_of_a_frame() -> None:
    tap = Tap()
    (seen,) = read(("c2s", b"PUB a 5\r\nab"), tap=tap) + tap.ended(1, "c2s", 1.0)
    assert lines([seen]) == ["-> the client ends, 11 bytes into a frame"]
    assert (tap.raw, tap.ended(1, "c2s", 2.0)) == (11, [])


def test_what_each_kind_of_message_says() -> None:
    ack = b"$JS.ACK.S.C.2.7.9.1700000000000000000.3"
    said: list[tuple[Direction, bytes]] = [
        ("s2c", b'INFO {"server_name":"n","version":"2.15.1","tls_required":false,"headers":true}\r\n'),
        ("c2s", b"SUB a.> q 4\r\nUNSUB 4 2\r\nUNSUB 4\r\n"),
        ("s2c", b"MSG a.b 4 %b 1\r\nx\r\n" % ack),
        ("c2s", b"PUB %b 4\r\n-NAK\r\n" % ack),
        ("c2s", b"HPUB a r.1 55 57\r\nNATS/1.0\r\nNats-Batch-Id: b\r\nNats-Batch-Sequence: 01\r\n\r\nhi\r\n"),
        ("s2c", b"MSG r.1 1 0\r\n\r\n"),
        ("c2s", b"PUB b r.2 0\r\n\r\n"),
        ("s2c", b'MSG r.2 1 26\r\n{"stream":"S","seq":12345}\r\n'),
        ("s2c", b"HMSG r.2 1 30 30\r\nNATS/1.0 503 No Responders\r\n\r\n\r\n"),
        ("s2c", b'MSG c 1 24\r\n{"stream":"S","seq":123}\r\n'),
        ("s2c", b"-ERR 'Slow'\r\n+OK\r\n"),
        ("c2s", b"PUB c 3\r\n\x1b[m\r\n"),
        ("c2s", b"PUB d x.$FI 0\r\n\r\n"),
        ("c2s", HELLO),
    ]
    assert lines(read(*said)) == [
        "<- INFO | server_name n, version 2.15.1",
        "-> SUB a.> queue q sid 4",
        "-> UNSUB sid 4 after 2",
        "-> UNSUB sid 4",
        f'<- MSG a.b reply {ack.decode()} 1 B | message 7 of S to C, delivery 2, 3 pending "x"',
        f"-> PUB {ack.decode()} 4 B | -NAK of message 7 of S to C, delivery 2, 3 pending",
        '-> HPUB a reply r.1 55+2 B | atomic batch b message 1 {Nats-Batch-Id: b, Nats-Batch-Sequence: 01} "hi"',
        "<- MSG r.1 0 B for a | taken into the batch",
        "-> PUB b reply r.2 0 B",
        "<- MSG r.2 26 B for b | stored as 12345 of S",
        "<- HMSG r.2 30+0 B for b | status 503 No Responders",
        '<- MSG c 24 B "{"stream":"S","seq":123}"',  # a message of somebody, and no answer
        "<- -ERR Slow",
        "<- +OK",
        '-> PUB c 3 B "\\x1b[m"',
        "-> PUB d reply x.$FI 0 B | fast ingest, malformed (pattern)",
        "-> CONNECT | lang go, with credentials",
    ]


@settings(max_examples=examples(300), deadline=None)
@given(st.data())
def test_the_lines_are_the_same_however_the_bytes_are_cut(data: st.DataObject) -> None:
    """One direction after the other: how pieces of two directions interleave is for whoever passes them on."""
    name = data.draw(st.sampled_from([entry["file"] for entry in INDEX]))
    said = script(name)
    for direction in DIRECTIONS:
        end = data.draw(st.sampled_from([b"", RUBBISH, TLS, b"PUB a 5\r\nab", b"\r\n"]))
        whole = data.draw(st.sampled_from([b"".join(raw for way, raw in said if way == direction), b""])) + end
        places = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=12)))
        pieces = [whole[a:b] for a, b in zip([0, *places], [*places, len(whole)], strict=True)]
        found = []
        for cut in ([whole], pieces, [whole[place : place + 1] for place in range(len(whole))]):
            tap = Tap()
            seen = tap.opened(1, "somewhere", 0.0) + read(*((direction, piece) for piece in cut), tap=tap)
            seen += tap.ended(1, direction, 1.0)
            assert b"".join(each.recorded() for each in seen) == whole
            found.append((lines(seen), tap.frames, tap.unknown, tap.raw))
        assert found[0] == found[1] == found[2]


@promise("What is no frame passes, too: it is told once")
def test_rubbish_is_told_once_and_the_server_is_still_read() -> None:
    tap = Tap()
    seen = read(("c2s", RUBBISH), ("c2s", b"PING\r\n"), ("s2c", b"-ERR 'Unknown Protocol Operation'\r\n"), tap=tap)
    assert lines(seen) == [
        "-> PING",
        '-> PUB a 1 B "x"',
        "-> no frame of a client (an unknown verb): from here on only bytes, passed on",
        "<- -ERR Unknown Protocol Operation",
    ]
    assert (tap.unknown, tap.raw) == (1, len(RUBBISH) - RUBBISH.index(b"GET") + 6)
    assert tap.summary() == f"1 links, frames: 2 up, 1 down; {tap.raw} bytes unread"


@promise("Behind TLS there are only INFO and a line that says so.")
def test_tls_is_told_in_one_line_and_nothing_of_it_is_read() -> None:
    tap = Tap()
    info: tuple[Direction, bytes] = ("s2c", b'INFO {"tls_required":true}\r\n')
    seen = read(info, ("c2s", TLS), ("s2c", TLS + b"\r\nPING\r\n"), ("c2s", b"PING\r\n"), tap=tap)
    assert lines(seen) == [
        "<- INFO | tls_required True", "-> TLS begins: what follows is encrypted, and passed on",
    ]  # fmt: skip
    assert tap.unknown == 0
    late = Tap()
    assert "no frame" in lines(read(("c2s", b"PING\r\n" + TLS), tap=late))[-1]  # where no handshake can be
    assert late.unknown == 1


def test_credentials_are_neither_shown_nor_recorded() -> None:
    (seen,) = read(("c2s", HELLO))
    for word in ("tiger", "lion", "puma", "lynx", "UOCELOT"):
        assert word not in f"{seen} {seen.to_json()} {seen.recorded()!r}"
    assert json.loads(seen.recorded().removeprefix(b"CONNECT "))["pass"] == "***"
    (broken,) = read(("c2s", b'CONNECT {"pass":"tiger"\r\n'))
    assert "tiger" not in f"{broken} {broken.recorded()!r}"


def test_filters_keep_a_message_and_its_answers() -> None:
    seen = read(
        ("c2s", b"SUB a.* 1\r\nSUB b 2\r\nPUB a.x r.1 0\r\n\r\nPUB b r.2 0\r\n\r\nPING\r\n"),
        ("s2c", b"MSG r.1 9 0\r\n\r\nMSG r.2 9 0\r\n\r\n-ERR 'x'\r\n"),
    )
    kept = [line for each in seen if each.concerns("a.>", None) for line in lines([each])]
    assert kept == [
        "-> SUB a.* sid 1", "-> PUB a.x reply r.1 0 B", "<- MSG r.1 0 B for a.x | an empty answer", "<- -ERR x",
    ]  # fmt: skip
    of_batch = [each for each in read(*script(FAST)) if each.concerns(None, "u1")]
    assert {each.batch for each in of_batch} == {"u1"}
    assert {each.direction for each in of_batch} == {"c2s", "s2c"}
    assert not any(each.concerns(None, "u2") for each in of_batch)


def test_memory_is_bounded() -> None:
    tap = Tap()
    with patch.object(tapping, "MAX_ASKED", 2), patch.object(tapping, "MAX_BATCHES", 2):
        for number in range(3):
            read(("c2s", b"PUB a i.b%d.10.ok.1.0.$FI 0\r\n\r\n" % number), tap=tap)
        seen = read(*(("s2c", b"MSG i.b%d.10.ok.1.0.$FI 9 0\r\n\r\n" % number) for number in range(3)), tap=tap)
    assert [each.asked for each in seen] == [b"", b"a", b"a"]
    assert [*tap.batches] == ["b1", "b2"]
    curve = Curve()
    for number in range(100_000):
        curve.add(number / 1_000, number)
    points = curve.all()
    assert len(points) <= tapping.MAX_POINTS + 1
    assert (points[0], points[-1]) == ((0.0, 0), (99.999, 99_999))


# -- recordings --------------------------------------------------------------------------------------------------------


def test_a_recording_is_replayed_to_the_same_lines(tmp_path: Path) -> None:
    file, tap = tmp_path / "links.json", Tap()
    info = b'INFO {"version":"2.15.1"}\r\n'
    steps: list[tuple[int, Direction, bytes, float]] = [
        (1, "s2c", info, 0.25), (1, "c2s", HELLO + b"PUB a 2\r\n\xff\r\r\n", 0.5), (2, "s2c", info, 0.75),
        (2, "c2s", RUBBISH, 1.0), (2, "c2s", b"more", 1.5), (1, "c2s", b"PUB", 2.0),
    ]  # fmt: skip
    seen = [each for step in steps for each in tap.received(*step)]
    with Recording(file, "two links") as recording:
        recording.add(seen)
        recording.add(tap.ended(1, "c2s", 3.0))
    found = json.loads(file.read_bytes())
    assert (found["scenario"], found["about"], found["setup"], found["server_version"]) == (
        "tap", "two links", [], "2.15.1",
    )  # fmt: skip
    assert {line["dir"] for line in found["transcript"]} == {"c2s", "s2c"}
    again = Tap()
    replayed = [
        each for step in recorded(file) for each in again.received(step.link, step.direction, step.raw, step.when)
    ]
    assert [str(each) for each in replayed if each.is_line] == [str(each) for each in seen if each.is_line]
    assert b"".join(step.raw for step in recorded(file) if step.link == 2 and step.direction == "c2s") == (
        RUBBISH + b"more"
    )


def test_an_interrupted_recording_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "links.json"
    with suppress(KeyboardInterrupt), Recording(file, "x") as recording:
        recording.add(read(("c2s", b"PING\r\n")))
        raise KeyboardInterrupt
    assert [step.raw for step in recorded(file)] == [b"PING\r\n"]


@pytest.mark.parametrize(
    "content", ["", "[]", '{"transcript": [{}]}', '{"transcript": [{"dir": "c2s", "raw": "\\u0394"}]}']
)
def test_other_files_are_no_recordings(tmp_path: Path, content: str) -> None:
    file = tmp_path / "x.json"
    file.write_text(content, "utf-8")
    with pytest.raises(BadInput, match="is no recording of frames"):
        list(recorded(file))


# -- the end -----------------------------------------------------------------------------------------------------------


def test_a_batch_is_drawn_and_counted() -> None:
    tap = Tap()
    read(*script(FAST), tap=tap)
    table = shown(batch_table(tap.batches["u1"]))
    assert "3 to 4" in table
    assert "missing" in table
    tap = Tap()
    for number in range(1, 2_001):
        now = number / 1_000
        tap.received(1, "c2s", b"PUB a i.b.100.ok.%d.%d.$FI 0\r\n\r\n" % (number, number > 1), now)
        if number % 100 == 0:
            ack = b'{"type":"ack","seq":%d,"msgs":%d}' % (number, 100 + number // 1_000)
            tap.received(1, "s2c", b"MSG i.b.100.ok.%d.1.$FI 9 %d\r\n%b\r\n" % (number, len(ack), ack), now)
    batch = tap.batches["b"]
    assert (batch.sent.last, batch.acked.last) == ((2.0, 2_000), (2.0, 2_000))
    assert [msgs for _, msgs in batch.flow] == [100, 101, 102]
    assert {number for _, number in batch.waiting.all()} == {100}
    table = shown(batch_table(batch))
    assert "100 asked for, 100 then 101 then 102 granted" in table
    plot = shown(BatchPlot(batch))
    for word in ("sent", "acked", "rate", "in flight", "msgs/s"):
        assert word in plot
    assert shown(BatchPlot(batch), encoding="ascii") == ""


def test_a_recording_is_printed_without_a_server() -> None:
    done = call("tap", "--replay", str(FOLDER / FAST), "--plot", "--subject", "fi.>")
    assert (done.code, done.err) == (0, "jsproto: 1 links, frames: 7 up, 5 down\n")
    assert "batch u1 a gap: 3 to 4" in done.out
    assert "CONNECT" not in done.out
    assert "messages per acknowledgement" in done.out
    found = call("tap", "--replay", str(FOLDER / FAST), "--json", "--batch", "u1", "--quiet").objects
    assert {each["batch"] for each in found} == {"u1"}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "give the URL of a server, or --replay FILE"),
        (["nats://x", "--replay", "y"], "give the URL of a server, or --replay FILE"),
        (["--replay", "y", "--save", "z"], "give --save or --replay, not both"),
        (["nats://x", "--listen", "z"], "--listen is a port, or ADDRESS:PORT, not 'z'"),
        (["nats://x,nats://y"], "give one server"),
        (["nats://x", "--subject", "a..b"], "a..b"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], why: str) -> None:
    done = call("tap", *arguments)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert why in done.err
