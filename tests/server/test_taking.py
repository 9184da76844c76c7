"""What a mirror takes: a filter, a start, transforms. Mirrors of mirrors too."""

from __future__ import annotations

from typing import Any

import pytest

from jsproto.errors import APIError
from jsproto.grammar.config import StreamConfig
from jsproto.server.replication.replicas import Lag
from jsproto.server.store.origin import Taking
from jsproto.server.store.stream import Stored
from tests.server.harness import Reader


def taken(reader: Reader, name: str = "M") -> list[tuple[int, str]]:
    return [(stored.seq, stored.subject.decode()) for stored in reader.server.stream(name)]


def filled() -> Reader:
    reader = Reader()
    reader.make()
    for subject in ("s.a", "s.b", "s.a"):
        reader.store(subject)
        reader.now += 1.0
    return reader


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(
    ("mirror", "held"),
    [
        ({}, [(1, "s.a"), (2, "s.b"), (3, "s.a"), (4, "s.b")]),
        ({"filter_subject": "s.b"}, [(2, "s.b"), (4, "s.b")]),
        ({"filter_subject": "x"}, []),
        ({"opt_start_seq": 3}, [(3, "s.a"), (4, "s.b")]),
        ({"opt_start_time": "1970-01-01T00:00:01Z"}, [(2, "s.b"), (3, "s.a"), (4, "s.b")]),
        ({"opt_start_seq": 2, "opt_start_time": "1970-01-01T00:00:02Z"}, [(2, "s.b"), (3, "s.a"), (4, "s.b")]),
        ({"subject_transforms": [{"src": "s.a", "dest": "t"}]}, [(1, "t"), (3, "t")]),
        ({"subject_transforms": [{"src": "s.b"}]}, [(2, "s.b"), (4, "s.b")]),
        (
            {"subject_transforms": [{"src": "s.a", "dest": "t"}, {"src": "s.b", "dest": "u"}]},
            [(1, "t"), (2, "u"), (3, "t"), (4, "u")],
        ),
    ],
)
def test_a_mirror_holds_what_it_takes(mirror: dict[str, Any], held: list[tuple[int, str]], is_first: bool) -> None:
    """Whether it was there before the messages, or came after them."""
    reader = Reader() if is_first else filled()
    if is_first:
        reader.make()
        reader.make("M", mirror={"name": "S", **mirror})
        for subject in ("s.a", "s.b", "s.a"):
            reader.store(subject)
            reader.now += 1.0
    else:
        reader.make("M", mirror={"name": "S", **mirror})
    reader.store("s.b")
    assert taken(reader) == held


@pytest.mark.parametrize(
    ("source", "destination", "subject", "found"),
    [
        ("s.*", "t.$1", "s.a", "t.a"), ("s.*.*", "$2.x.{{wildcard(1)}}", "s.a.b", "b.x.a"),
        ("s.>", "t.>", "s.a.b", "t.a.b"),
        ("", "t.>", "s.a", "t.s.a"), (">", "", "s.a", "s.a"), ("s.*.>", "$1.>", "s.a.b.c", "a.b.c"),
        ("s.*", "t.$x", "s.a", "t.$x"), ("s.*", "{{Wildcard(1)}}", "s.a", "a"), ("s.*", "t", "x.a", None),
    ],
)  # fmt: skip
def test_transforms(source: str, destination: str, subject: str, found: str | None) -> None:
    taking = Taking({"name": "S", "subject_transforms": [{"src": source, "dest": destination}]})
    named = taking.subject_of(Stored(1, subject.encode(), None, b"", 0, 0.0))
    assert named == (None if found is None else found.encode())


@pytest.mark.parametrize(
    ("mirror", "err_code"),
    [
        ({"filter_subject": "s.a", "subject_transforms": [{"src": "s.b", "dest": "t"}]}, 10150),
        ({"subject_transforms": [{"src": "s.a", "dest": "t"}, {"src": "s.*", "dest": "u.$1"}]}, 10152),
        ({"subject_transforms": [{"src": "s..a", "dest": "t"}]}, 10154),
        ({"subject_transforms": [{"src": "s.*", "dest": "t.*"}]}, 10154),
        ({"subject_transforms": [{"src": "s.*", "dest": "t.>"}]}, 10154),
        ({"subject_transforms": [{"src": "s.>", "dest": "t"}]}, 10154),
        ({"subject_transforms": [{"src": "s.*", "dest": "t.$2"}]}, 10154),
        ({"subject_transforms": [{"src": "s.*", "dest": "t.{{foo(3,1)}}"}]}, 10154),
        ({"opt_start_time": "yesterday"}, 10025),
    ],
)
def test_what_no_server_takes(mirror: dict[str, Any], err_code: int) -> None:
    origin: Any = {"name": "S", **mirror}
    with pytest.raises(APIError) as caught:
        Reader().server.add_stream(StreamConfig("M", mirror=origin), 0.0)
    assert caught.value.err_code == err_code


def test_a_mirror_of_a_mirror_answers_for_that_alone() -> None:
    reader = Reader()
    reader.make()
    reader.make("M", mirror={"name": "S", "filter_subject": "s.a"})
    reader.make("N", mirror={"name": "M"})
    for subject in ("s.a", "s.b", "s.a"):
        reader.store(subject)
    assert taken(reader, "N") == taken(reader, "M") == [(1, "s.a"), (3, "s.a")]
    answerers = {
        stream: {reader.ask(f"DIRECT.GET.{stream}", {"seq": 1})[0][0] for _ in range(60)} for stream in ("S", "M", "N")
    }
    assert [len(found) for found in answerers.values()] == [2, 2, 1]
    assert not any(b"Nats-Stream: N" in (header or b"") for header in answerers["S"])
    reader.server.mirror("M").lag = Lag(seconds=2.0)
    reader.server.mirror("N").lag = Lag(seconds=1.0)
    reader.store("s.a")
    found = []
    for _ in range(2):
        when = reader.server.deadline()
        assert when is not None
        reader.server.handle_timeout(when)
        found.append((when, len(reader.server.stream("M")), len(reader.server.stream("N"))))
    assert found == [(2.0, 3, 2), (3.0, 3, 3)]


def test_what_is_gone_before_a_mirror_gets_it_never_comes() -> None:
    reader = Reader()
    reader.make(max_msgs_per_subject=1)
    reader.make("M", mirror={"name": "S"})
    reader.server.mirror("M").lag = Lag(messages=2)
    for _ in range(3):
        reader.store("s.a")
    reader.server.mirror("M").lag = Lag()
    assert reader.api("STREAM.INFO.M")["state"]["messages"] == 1
    assert taken(reader) == [(3, "s.a")]


def test_who_answers_can_be_said() -> None:
    reader = filled()
    reader.make("M", mirror={"name": "S", "filter_subject": "s.b"})
    assert reader.last("s.a") in (3, "404 Message Not Found")
    reader.server.choose = lambda members: 0
    assert [reader.last("s.a") for _ in range(3)] == [3] * 3
    reader.server.choose = lambda members: members - 1
    assert [reader.last("s.a") for _ in range(3)] == ["404 Message Not Found"] * 3
