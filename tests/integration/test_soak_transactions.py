"""The judge of histories can find every violation, and the soak itself runs."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.integration.soak_transactions import KEYS, Client, judge, main
from tests.marks import promise
from tests.serializability import Done, cycles, violations

BEFORE = {key: at for at, key in enumerate(KEYS, 1)}


def done(name: str, reads: dict[str, int], **writes: int) -> Done:
    return Done(name, reads, writes)


SERIAL = [done("t1", {"a": 1}, a=3), done("t2", {"a": 3, "b": 2}, b=4), done("t3", {"b": 2}, c=5)]


def test_what_could_have_been_one_after_the_other() -> None:
    assert violations(SERIAL, {"a": 1, "b": 2}) == []
    assert violations([done("t1", {"a": 0}, a=1), done("t2", {"a": 1})]) == []


@pytest.mark.parametrize(
    ("history", "words"),
    [
        ([done("t1", {"a": 1, "b": 2}, a=3), done("t2", {"a": 1, "b": 2}, b=4)], "a cycle of 2: t1, t2"),  # write skew
        ([done("t1", {"a": 1}, a=3), done("t2", {"a": 1}, a=4)], "a cycle of 2: t1, t2"),  # a lost update
        ([done("t1", {}, a=3, b=4), done("t2", {"a": 3, "b": 2})], "a cycle of 2: t1, t2"),  # half of a transaction
        ([done("t1", {"a": 0}, b=1), done("t2", {"b": 0}, a=2)], "a cycle of 2: t1, t2"),  # of keys that were not there
        (
            [done("t1", {"a": 1}, b=3), done("t2", {"b": 2}, c=4), done("t3", {"c": 0}, a=5)],
            "a cycle of 3: t1, t2, t3",
        ),
        ([done("t1", {"a": 9})], "t1 has read revision 9 of a, which nobody wrote"),
        ([done("t1", {}, a=3), done("t2", {}, a=3)], "2 transactions wrote revision 3 of a"),
    ],
)
def test_what_could_not(history: list[Done], words: str) -> None:
    assert words in violations(history, {"a": 1, "b": 2})


def test_components_are_those_of_a_closure() -> None:
    """Tarjan's, against whoever reaches each other."""
    rng = random.Random(1)
    for _ in range(200):
        written = [(rng.choice("abc"), revision) for revision in rng.sample(range(1, 12), 8)]
        read = [rng.choice([*written, ("a", 0), ("b", 0), ("c", 0)]) for _ in written]
        history = [done(f"t{at}", dict([read[at]]), **dict([written[at]])) for at in range(len(written))]
        found = sorted(name for names in cycles(history) for name in names)
        alone = [each.name for each in history if any(each.name in names for names in _pairs_on_cycles(history))]
        assert found == sorted(alone)


def _pairs_on_cycles(history: list[Done]) -> list[tuple[str, ...]]:
    """By brute force: the transactions that reach themselves, over edges found anew."""
    edges = {each.name: set[str]() for each in history}
    for one in history:
        for other in history:
            for key, revision in other.writes.items():
                later = [each.writes[key] for each in history if key in each.writes]
                if one is not other and key in one.reads:
                    after = [each for each in later if each > one.reads[key]]
                    if after and min(after) == revision:
                        edges[one.name].add(other.name)
                    if one.reads[key] == revision:
                        edges[other.name].add(one.name)
                if one is not other and key in one.writes:
                    after = [each for each in later if each > one.writes[key]]
                    if after and min(after) == revision:
                        edges[one.name].add(other.name)
    reach = {name: set(next_ones) for name, next_ones in edges.items()}
    for middle in reach:
        for name in reach:
            if middle in reach[name]:
                reach[name] |= reach[middle]
    return [(name,) for name in reach if name in reach[name]]


def client(**known: Any) -> Client:
    found = Client("c", random.Random(1))
    for name, value in known.items():
        setattr(found, name, value)
    return found


def test_what_became_of_an_unknown_transaction() -> None:
    """It is stored if somebody has read it, or if it is there at the end."""
    first, second = KEYS[:2]
    last = {key: (at, "") for key, at in BEFORE.items()}
    unknown = {"u": ({first: 1, second: 2}, [first, second])}
    wrong, resolved = judge([client(unknown=unknown)], BEFORE, last, 10, 1)
    assert (wrong, resolved) == ([], [])
    stored = last | {first: (11, "u"), second: (12, "u")}
    wrong, resolved = judge([client(unknown=unknown)], BEFORE, stored, 12, 1)
    assert (wrong, [each.writes for each in resolved]) == ([], [{first: 11, second: 12}])
    seen = client(unknown=unknown, seen={(second, 12): "u"})
    assert judge([seen], BEFORE, stored, 12, 1)[1] == resolved
    assert judge([client()], BEFORE, stored, 12, 1)[0] == [
        "the last revision is 12, and 10 to 10 were stored",
    ]


def test_what_was_lost_is_told() -> None:
    first = KEYS[0]
    last = {key: (at, "") for key, at in BEFORE.items()}
    acknowledged = client(done=[Done("t", {first: 1}, {first: 11})])
    wrong, _ = judge([acknowledged], BEFORE, last, 11, 1)
    assert wrong == [f"the last revision of {first} is 1, and 11 was acknowledged"]


@promise("the transactions of a bucket that ask for it could have run one after the other")
@pytest.mark.parametrize("isolation", ["serializable", "snapshot"])
def test_a_short_soak(isolation: str, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["--transactions", "150", "--isolation", isolation, "--seed", "1"])
    told = capsys.readouterr().out
    assert status == (0 if isolation == "serializable" else 1)
    assert ("cycles: 0, " in told) is (isolation == "serializable")


@promise("Keys that were only read are checked as well, by exact names, on one server and on three.")
@promise("A lost answer is decided, or it is a `TransactionUnknownError`. Nothing is stored twice.")
@pytest.mark.slow
def test_a_short_soak_on_three_servers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--transactions", "300", "--kills", "2", "--seed", "1"]) == 0
    assert capsys.readouterr().out.endswith("passed\n")
