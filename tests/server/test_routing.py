"""Which subscriptions a subject reaches: the table finds what comparing each one finds, whatever changes between."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import hypothesis.strategies as st
import pytest
from hypothesis import given

from jsproto.errors import APIError
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.subjects import matches
from jsproto.server import routing
from jsproto.server.routing import Subscriptions
from jsproto.server.server import Server
from jsproto.server.session import Interest
from jsproto.wire.frames import Msg
from tests.server.test_server import Ear
from tests.server.test_session import Link


@dataclass(eq=False)
class One:
    pattern: str


def of_tokens(tokens: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(tokens), min_size=1, max_size=4)


subjects = of_tokens("aab*").map(".".join)  # some send to a subject with a wildcard
patterns = st.tuples(of_tokens("aab*"), st.sampled_from(["", "", ".>"])).map(
    lambda parts: ".".join(parts[0]) + parts[1]
)
patterns |= st.just(">")
steps = st.lists(
    st.tuples(st.just("add"), patterns)
    | st.tuples(st.just("remove"), st.integers(0, 9))
    | st.tuples(st.just("find"), subjects),
    max_size=60,
)


def compared(ones: list[One], subject: str) -> list[One]:
    """The long way."""
    return [one for one in ones if matches(one.pattern, subject)]


@given(steps, st.integers(0, 20))
def test_it_finds_what_comparing_each_finds(steps: list[tuple[str, Any]], most: int) -> None:
    """With memories of all sizes."""
    table: Subscriptions[One] = Subscriptions()
    ones: list[One] = []
    asked = {"a", "a.b", "b.a.a"}
    with patch.object(routing, "MAX_REMEMBERED", most):
        for verb, value in steps:
            if verb == "add":
                ones.append(One(value))
                table.add(ones[-1])
            elif verb == "find":
                asked.add(value)
            elif ones:
                table.remove(ones.pop(value % len(ones)))
            for subject in asked:
                assert list(table.find(subject)) == compared(ones, subject)


@pytest.mark.parametrize("pattern", ["a", "a.b", "a.b.c", "*", "*.b", "a.*", "a.b.*", ">", "a.>", "a.b.>"])
@pytest.mark.parametrize("first", [["a.b"], ["a.b", "*.b"], ["a.b.c", ">"], []])
def test_what_was_found_before_a_change(pattern: str, first: list[str]) -> None:
    table: Subscriptions[One] = Subscriptions()
    ones = [One(each) for each in first]
    for one in ones:
        table.add(one)
    asked = ("a", "b", "a.b", "a.b.c", "c.b", "*", "a.*")
    for subject in asked:
        assert list(table.find(subject)) == compared(ones, subject)
    ones.append(One(pattern))
    table.add(ones[-1])
    for subject in asked:
        assert list(table.find(subject)) == compared(ones, subject)
    while ones:
        table.remove(ones.pop())
        for subject in asked:
            assert list(table.find(subject)) == compared(ones, subject)


def count_compared(table: Subscriptions[One], subject: str) -> int:
    """How many subscriptions are compared with ``subject``."""
    with patch.object(routing, "matches", wraps=matches) as spy:
        table.find(subject)
    return spy.call_count


def test_a_subject_is_compared_once() -> None:
    table: Subscriptions[One] = Subscriptions()
    for number in range(10):
        table.add(One(f"a.b.{number}"))
    table.add(One("c.d"))
    assert count_compared(table, "a.b.3") == 10
    assert count_compared(table, "a.b.3") == 0
    table.add(One("a.b.4"))  # changes what is known of its own subject alone
    assert count_compared(table, "a.b.3") == 0
    wild = One("x.>")
    table.add(wild)
    assert count_compared(table, "a.b.3") == 12
    table.remove(wild)
    assert count_compared(table, "a.b.3") == 11


def test_what_is_remembered_is_bounded() -> None:
    table: Subscriptions[One] = Subscriptions()
    table.add(One("s.>"))
    with patch.object(routing, "MAX_REMEMBERED", 10):
        for number in range(100):
            assert len(table.find(f"s.{number}")) == 1
            assert table._remembered == 2 * len(table._found) <= 10
    table.add(One("s.99"))
    assert table._remembered == 2 * len(table._found)


commands = st.lists(
    st.tuples(st.sampled_from(["sub"]), st.integers(0, 1), st.integers(1, 4), patterns)
    | st.tuples(st.sampled_from(["unsub", "last", "again", "close"]), st.integers(0, 1), st.integers(1, 4), st.just(""))
    | st.tuples(st.sampled_from(["hear", "deaf"]), st.integers(1, 3), st.just(0), patterns)
    | st.tuples(st.just("pub"), st.integers(0, 1), st.just(0), of_tokens("ab").map(".".join)),
    max_size=25,
)


@given(commands)
def test_each_change_of_a_client_or_a_conversation_counts(commands: list[tuple[str, int, int, str]]) -> None:
    server = Server(token=b"t")
    links = [Link(server) for _ in range(2)]
    ears: dict[int, tuple[int, str, Ear]] = {}
    for verb, who, number, subject in commands:
        if verb == "hear" and who not in ears:
            ear = Ear(server)
            ears[who] = (server.subscribe(subject, ear), subject, ear)
        elif verb == "deaf" and who in ears:
            server.unsubscribe(ears.pop(who)[0])
        elif verb in ("hear", "deaf"):
            pass
        elif verb == "close":
            links[who].session.receive_eof()
            links[who] = Link(server)
        elif verb == "pub":
            expected = [
                sorted(one.sid for one in link.session.interests.values() if matches(one.pattern, subject))
                for link in links
            ]
            heard = {key: len(ear.heard) + matches(pattern, subject) for key, (_, pattern, ear) in ears.items()}
            for link in links:
                link.read()
            frames = links[who].say(b"PUB %b 0\r\n\r\n" % subject.encode())
            got = [frames if link is links[who] else link.read() for link in links]
            assert [sorted(frame.sid for frame in each if isinstance(frame, Msg)) for each in got] == expected
            assert {key: len(ear.heard) for key, (_, _, ear) in ears.items()} == heard
        else:
            line = {"sub": f"SUB {subject} {number}", "unsub": f"UNSUB {number}", "last": f"UNSUB {number} 1"}
            links[who].say(line.get(verb, 'CONNECT {"verbose":false}').encode() + b"\r\n")
        for asked in ("a", "a.b", "b.a.a"):
            interests = [one for session in server.sessions for one in session.interests.values()]
            found = {one for one in server.subscriptions.find(asked) if isinstance(one, Interest)}
            assert found == {one for one in interests if matches(one.pattern, asked)}


stream_steps = st.lists(
    st.tuples(st.sampled_from(["create", "update", "delete"]), st.sampled_from("ST"), st.lists(patterns, max_size=2)),
    max_size=12,
)


@given(stream_steps)
def test_each_change_of_a_stream_counts(steps: list[tuple[str, str, list[str]]]) -> None:
    server = Server(token=b"t")
    for verb, name, subjects in steps:
        with suppress(APIError):
            if verb == "delete":
                server.api.delete(name, 0.0)
            else:
                getattr(server.api, verb)(StreamConfig(name, subjects=subjects), 0.0)
        for asked in ("a", "a.b", "b.a.a", "S"):
            owners = (
                inlet
                for inlet in server.api.streams.values()
                if any(matches(pattern, asked) for pattern in inlet.stream.config.subjects or ())
            )
            assert server.api.taker(asked) is next(owners, None)


def test_a_stream_takes_what_it_has_now() -> None:
    server = Server(token=b"t")
    assert server.api.taker("s.a") is None
    stream = server.add_stream(StreamConfig("S", subjects=["s.a", "t.>"]), 0.0)
    for subject in ("s.a", "t.a.b"):
        taker = server.api.taker(subject)
        assert taker is not None
        assert taker.stream is stream
    server.api.update(StreamConfig("S", subjects=["s.*"]), 0.0)
    assert [server.api.taker(subject) is None for subject in ("s.a", "s.b", "t.a")] == [False, False, True]
    server.api.delete("S", 0.0)
    assert server.api.taker("s.a") is None
