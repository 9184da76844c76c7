"""Subject transforms: the role changes subjects, and refuses destinations, as a real server does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from jsproto.errors import APIError
from jsproto.server.store.transform import Transform
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import connect
from tests.server.sides import OnARealServer, OnTheRole, Side
from tests.server.test_faithful_streams import make, stored

DESTINATIONS: Final = (
    "t.$1", "t.$0", "t.$-1", "t.$3", "t.$x", "t.$", "t.{{wildcard(1)}}", "t.{{Wildcard( 2 )}}", "t.{{ wildcard (1) }}",
    "t.{{WILDCARD(1)}}", "t.{{wildcard()}}", "t.{{wildcard(1,2)}}", "t.{{wildcard(x)}}", "t.{{wildcard(3)}}",
    "t.{{partition(3)}}", "t.{{partition(3,1)}}", "t.{{partition(10,1,2)}}", "t.{{Partition(7,2, 1)}}",
    "t.{{partition()}}", "t.{{partition(0,1)}}", "t.{{partition(-5,1)}}", "t.{{partition(3,9)}}", "t.{{partition(x)}}",
    "t.{{left(1,2)}}", "t.{{right(1,2)}}", "t.{{left(1,0)}}", "t.{{left(1)}}", "t.{{left(1,2,3)}}", "t.{{left(1,x)}}",
    "t.{{splitfromleft(1,2)}}", "t.{{SplitFromLeft(1,2)}}", "t.{{splitFromRight(1,2)}}", "t.{{sliceFromLeft(1,2)}}",
    "t.{{sliceFromRight(1,2)}}", "t.{{sliceFromLeft(1,3)}}", "t.{{sliceFromRight(1,3)}}", "t.{{sliceFromLeft(1,99)}}",
    "t.{{split(1,-)}}", "t.{{split(2,-)}}", "t.{{split(1, )}}", "t.{{split(1,)}}", "t.{{split(1)}}",
    "t.{{split(1,-,x)}}", "t.{{split(1,- )}}", "t.{{foo(1)}}", "t.{{}}", "t.{{x", "t.x}}", "t.{{left(1,2)}}.$2", "t.*",
    "t..a", "{{random(1)}}.a", "t.{{random()}}", "t.{{random(x)}}", "t.{{random(1,2)}}", "t.{{random(0)}}", ">", "t.>",
    "t.>.a", "t.{{Split(1,-)}}.{{right(2,1)}}", "t.a b",
)  # fmt: skip
SUBJECTS: Final = {
    "s.*.*": ("s.ab-cd-efg.xyz", "s.a.b", "s.--a--b-.q"), "s.a.b": ("s.a.b",), "s.>": ("s.ab-c.d",),
    "s.*.>": ("s.abcdefg.x.y",), "s..a": (),
}  # fmt: skip


def transforms(side: Side) -> Iterator[Any]:
    for source, subjects in SUBJECTS.items():
        for destination in DESTINATIONS:
            made = make(side, subject_transform={"src": source, "dest": destination})
            yield source, destination, made
            for subject in subjects if "error" not in made else ():
                side.ask(subject, b"x")
            yield source, destination, [] if "error" in made else [one[1] for one in stored(side)]


@pytest.mark.server
def test_both_change_subjects_the_same_way() -> None:
    with NatsServer() as running, connect(running.url) as nc:
        for here, there in zip(transforms(OnTheRole()), transforms(OnARealServer(nc)), strict=True):
            assert here == there


@pytest.mark.parametrize(
    ("source", "destination", "subject", "becomes"),
    [
        ("s.*.*", "t.$2.x.$1", "s.a.b", "t.b.x.a"),
        ("s.*.>", "t.{{wildcard(1)}}.>", "s.a.b.c", "t.a.b.c"),
        ("s.*.*", "t.{{partition(10,1,2)}}", "s.a.b", "t.6"),
        ("s.a", "t.{{partition(4)}}", "s.a", "t.3"),
        ("s.*", "{{left(1,2)}}.{{right(1,1)}}", "s.abcd", "ab.d"),
        ("s.*", "t.{{splitFromLeft(1,1)}}.{{splitFromRight(1,1)}}", "s.abcd", "t.a.bcd.abc.d"),
        ("s.*", "t.{{sliceFromLeft(1,3)}}.{{sliceFromRight(1,3)}}", "s.abcd", "t.abc.d.a.bcd"),
        ("s.*", "t.{{split(1,-)}}", "s.a-b--c", "t.a.b.c"),
        ("s.*", "t.{{split(1,)}}", "s.\u00e4b", "t.\u00e4.b"),
        ("s.*", "t.{{random(0)}}", "s.a", "t.0"),
    ],
)
def test_how_a_subject_changes(source: str, destination: str, subject: str, becomes: str) -> None:
    assert Transform(source, destination, 10156).of(subject) == becomes


def test_random_numbers_are_the_same_each_time() -> None:
    numbers = [Transform("s.*", "{{random(3)}}", 10156).of(f"s.{number}") for number in range(50)]
    assert set(numbers) == {"0", "1", "2"}
    assert numbers == [Transform("s.*", "{{random(3)}}", 10156).of(f"s.{number}") for number in range(50)]


@pytest.mark.parametrize(
    ("destination", "why"),
    [
        ("t.$3", "wildcard index out of range in $3: [3]"), ("t.{{foo(1)}}", "unknown function in {{foo(1)}}"),
        ("t.{{left(1)}}", "not enough arguments passed to the function in {{left(1)}}"),
        ("t.{{left(1,2,3)}}", "too many arguments passed to the function in {{left(1,2,3)}}"),
        ("t.{{wildcard()}}", "not enough arguments passed to the function in {{wildcard()}}"),
        ("t.{{wildcard(x)}}", "function argument is invalid or in the wrong format in {{wildcard(x)}}"),
        ("t.{{split(1,- )}}", "function argument is invalid or in the wrong format in {{split(1,- )}}"),
        ("t..a", "invalid transform"), ("t.>.a", "invalid transform in a"),
    ],
)  # fmt: skip
def test_what_is_no_transform(destination: str, why: str) -> None:
    with pytest.raises(APIError) as caught:
        Transform("s.*.*", destination, 10156)
    assert caught.value.description == f"stream transform: invalid mapping destination: {why}"


@pytest.mark.parametrize(("source", "destination"), [("s.*", "t.*"), ("s.>", "t"), ("s..a", "t.a")])
def test_what_is_no_subject(source: str, destination: str) -> None:
    with pytest.raises(APIError, match="invalid subject"):
        Transform(source, destination, 10156)


def test_a_literal_source_has_no_wildcards() -> None:
    with pytest.raises(APIError, match="out of range"):
        Transform("s.a", "t.$1", 10156)
