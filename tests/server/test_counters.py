"""Counters that copy others, and counters in batches: the role counts as a real server does."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from jsproto.grammar.headers import encode_headers
from jsproto.grammar.publish_headers import MAX_COUNT_DIGITS
from jsproto.server.store.stream import Publication
from tests.server.sides import OnARealServer, OnTheRole, Side, messages
from tests.server.test_faithful_streams import make, stored

IDENTITY: Final = re.compile(rb"(Nats-Stream-Source: (?:\S+ ){4}\S+) \S+")
BODY: Final[dict[str, Any]] = {"name": "S", "subjects": ["s.>"], "storage": "memory"}


def by(increment: str, **beside: str) -> dict[str, str]:
    return {"Nats-Incr": increment} | {f"Nats-{name.replace('_', '-')}": value for name, value in beside.items()}


def kept(side: Side, name: str = "S") -> list[Any]:
    """What is stored, without the identity of its origin."""
    return [
        (seq, subject, IDENTITY.sub(rb"\1", header), payload) for seq, subject, header, payload in stored(side, name)
    ]


def batch(side: Side, *members: tuple[str, dict[str, str]]) -> Any:
    *before, (subject, headers) = members
    for number, (each, beside) in enumerate(before, 1):
        side.send(each, b"", beside | by("", Batch_Id="b", Batch_Sequence=str(number)) | beside)
    ends = {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": str(len(members)), "Nats-Batch-Commit": "1"}
    return side.ask(subject, b"", ends | headers)


def copies(side: Side) -> Iterator[Any]:
    make(side, "O", allow_msg_counter=True)
    for subject, increment in (("o.a", "5"), ("o.b", "7"), ("o.a", "-2")):
        side.ask(subject, b"", by(increment))
    for taken in ({}, {"subject_transforms": [{"src": "o.*", "dest": "t.x"}]}, {"filter_subject": "o.a"}):
        yield make(side, "T", allow_msg_counter=True, sources=[{"name": "O"} | taken])
        side.until(lambda taken=taken: messages(side, "T") >= 3 - ("filter_subject" in taken))  # type: ignore[misc]
        yield kept(side, "T")
        yield side.ask("t.x", b"", by("10") | {"K": "v"}), side.ask("t.y", b"", by("1"))
        before = messages(side, "T")
        side.ask("o.a", b"", by("100"))
        side.until(lambda before=before: messages(side, "T") > before)  # type: ignore[misc]
        yield kept(side, "T")
    yield make(side, "T", sources=[{"name": "O"}])  # which does not count
    side.until(lambda: messages(side, "T") >= 5)
    yield kept(side, "T")
    make(side, "P", allow_msg_counter=True)
    side.ask("p.a", b"", by("1000"))
    taken_of_p = {"name": "P", "subject_transforms": [{"src": "p.a", "dest": "o.a"}]}
    make(side, "T", allow_msg_counter=True, sources=[{"name": "O", "filter_subject": "o.a"}, taken_of_p])
    side.until(lambda: messages(side, "T") >= 6)
    yield [subject for _, subject, _, _ in stored(side, "T")], stored(side, "T")[-1][3]
    make(side, "N")  # which does not count either
    side.ask("n.a", b"x")
    make(side, "T", allow_msg_counter=True, sources=[{"name": "N"}])
    side.wait(1.0)
    yield stored(side, "T")
    for name in ("T", "O", "P", "N"):
        side.api(f"STREAM.DELETE.{name}")


def batches(side: Side) -> Iterator[Any]:
    yield make(side, allow_msg_counter=True, allow_atomic=True, allow_batched=True)
    yield batch(side, ("s.a", by("1")), ("s.a", by("2")), ("s.b", by("5")), ("s.a", by("-7")))
    yield kept(side)
    for members in (
        [("s.a", by("1")), ("s.a", by(""))], [("s.a", by(""))], [("s.a", by("x"))], [("s.a", by("1", Rollup="sub"))],
        [("s.a", by("1", Expected_Last_Sequence="0"))], [("s.a", by("1", Msg_Id="1")), ("s.a", by("1", Msg_Id="1"))],
        [("s.a", by("1", Stream_Source="x"))], [("s.a", by("", Expected_Stream="X"))], [("s.a", by("", TTL="1"))],
    ):  # fmt: skip
        yield batch(side, *members)
    yield kept(side)
    fast: tuple[tuple[str, dict[str, str], int], ...]
    fast = (("s.a", by("1"), 0), ("s.a", by("2"), 1), ("s.c", by("3"), 1), ("s.a", {}, 1), ("s.a", by("4"), 2))
    for number, (subject, headers, operation) in enumerate(fast, 1):
        side.send(subject, b"", headers, reply=f"i.fb.10.ok.{number}.{operation}.$FI")
    side.until(lambda: messages(side, "S") >= 8)
    yield kept(side)


def corners(side: Side) -> Iterator[Any]:
    make(side, allow_msg_counter=True)
    side.ask("s.a", b"", by("1"))
    side.api("STREAM.UPDATE.S", BODY | {"allow_msg_counter": True, "sealed": True})
    yield side.ask("s.a", b"", by("x")), side.ask("s.a", b"", by("1")), side.ask("s.a", b"")
    for size in (30, 40):
        make(side, allow_msg_counter=True, max_msg_size=size)
        yield [side.ask("s.a", b"", by(increment)) for increment in ("1", "2", "9" * 9)]
    make(side, allow_msg_counter=True)
    for number, sources in enumerate((
        "junk", '{"X":{"x.a":"5"}}', '{"X":5}', '{"Z":{"b":"5","a":"x"},"A":{}}', '{"X":{"x":5}}', "", "[]",
    )):  # fmt: skip
        yield [side.ask(f"s.{number}", b"", headers) for headers in (by("1", Counter_Sources=sources), by("1"))]
    yield kept(side)


STEPS: Final[tuple[Callable[[Side], Iterator[Any]], ...]] = (copies, batches, corners)


@pytest.mark.server
@pytest.mark.parametrize("steps", STEPS)
def test_both_count_the_same(steps: Callable[[Side], Iterator[Any]], real: OnARealServer) -> None:
    for here, there in zip(steps(OnTheRole()), steps(real), strict=True):
        assert here == there


def test_a_counter_of_counters() -> None:
    said = list(copies(OnTheRole()))
    assert [payload for _, _, _, payload in said[3]] == [
        b'{"val":"5"}', b'{"val":"7"}', b'{"val":"3"}', b'{"val":"10"}', b'{"val":"1"}', b'{"val":"103"}',
    ]  # fmt: skip
    assert said[3][-1][2] == (
        b"NATS/1.0\r\nNats-Incr: 100\r\nNats-Stream-Source: O 4 > > o.a\r\n"
        b'Nats-Counter-Sources: {"O":{"o.a":"103"}}\r\n\r\n'
    )
    assert said[7][-1][3] == b'{"val":"220"}'  # of o.a and o.b, and 10 of its own
    assert said[-2][1] == b'{"val":"1303"}'
    assert said[-1] == []


def test_counters_in_batches() -> None:
    said = list(batches(OnTheRole()))
    assert said[1] == {"stream": "S", "seq": 4, "batch": "b", "count": 4}
    assert [payload for _, _, _, payload in said[2]] == [
        b'{"val":"1"}',
        b'{"val":"3"}',
        b'{"val":"5"}',
        b'{"val":"-4"}',
    ]
    assert [each["error"]["err_code"] for each in said[3:12]] == [
        10169, 10169, 10171, 10171, 10171, 10201, 10227, 10060, 10166,
    ]  # fmt: skip
    assert [payload for _, _, _, payload in said[-1]][4:] == [
        b'{"val":"-3"}', b'{"val":"-1"}', b'{"val":"3"}', b'{"val":"3"}',
    ]  # fmt: skip


def test_corners_of_counters() -> None:
    said = list(corners(OnTheRole()))
    assert [each["error"]["err_code"] for each in said[0]] == [10109] * 3
    assert ["error" in each for each in said[1]] == [True] * 3
    assert ["error" in each for each in said[2]] == [False, False, True]
    codes = [[each.get("error", {}).get("err_code") for each in pair] for pair in said[3:-1]]
    assert codes == [
        [None, 10172],
        [None, None],
        [None, 10172],
        [None, None],
        [None, 10172],
        [None, None],
        [None, 10172],
    ]


def test_a_copy_of_what_is_no_counter() -> None:
    """It has an increment, and that is no number, or its payload no value, or the sum has too many digits."""
    side = OnTheRole()
    origin = side.reader.make("O")
    for header, payload in (
        (by("x"), b'{"val":"1"}'), (by("1"), b"junk"), (by("1"), b'{"val":"%b"}' % (b"9" * MAX_COUNT_DIGITS)),
    ):  # fmt: skip
        origin.purge()
        origin.append(Publication(b"o.a", encode_headers(header), payload), 0.0)
        make(side, "T", allow_msg_counter=True, sources=[{"name": "O"}])
        copy = side.reader.server.stream("T")
        copy.append(Publication(b"o.a", None, b'{"val":"1"}'), 0.0)
        side.wait(1.0)
        assert len(copy) == 1
