"""The checks of a simulation: what holds passes, and each way in which it does not is said."""

from __future__ import annotations

import pytest

from jsproto.grammar.config import StreamConfig
from jsproto.grammar.headers import encode_headers
from jsproto.server.server import Server
from jsproto.server.store.stream import Publication, Stream
from jsproto.testing.invariants import (
    InvariantError,
    check_acknowledged,
    check_answered,
    check_batches,
    check_bounded,
    check_copied_once,
    check_monotone,
)
from jsproto.ticket import Ticket


def stream_of(*messages: tuple[bytes, dict[str, str]]) -> Stream:
    stream = Server(token=b"t").add_stream(StreamConfig("S", subjects=["s"], storage="file"), 0.0)
    for payload, headers in messages:
        stream.append(Publication(b"s", encode_headers(headers) if headers else None, payload), 0.0)
    return stream


def member(batch: str, number: int, *, commit: bool = False) -> tuple[bytes, dict[str, str]]:
    headers = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number)}
    return b"m", headers | ({"Nats-Batch-Commit": "1"} if commit else {})


PLAIN: tuple[bytes, dict[str, str]] = (b"p", {})


def test_what_is_acknowledged_is_stored() -> None:
    stream = stream_of((b"1", {}), (b"2", {}))
    check_acknowledged(stream, {1: b"1", 2: b"2"})
    with pytest.raises(InvariantError, match="stored in S: 1 is another message, 3 is missing"):
        check_acknowledged(stream, {1: b"x", 3: b"3"})
    with pytest.raises(InvariantError, match="and 3 more"):
        check_acknowledged(stream, dict.fromkeys(range(3, 11), b""))


def test_batches_are_whole() -> None:
    check_batches(stream_of(PLAIN, member("a", 1), member("a", 2, commit=True), member("b", 1, commit=True), PLAIN))


@pytest.mark.parametrize(
    ("messages", "wrong"),
    [
        ([member("a", 1), member("a", 3, commit=True)], "sequence 2 is not member 2 of batch a"),
        ([member("a", 2, commit=True)], "sequence 1 is not member 1 of batch a"),
        ([member("a", 1), PLAIN], "batch a has no commit before sequence 2"),
        ([member("a", 1), member("b", 1, commit=True)], "batch a has no commit before sequence 2"),
        ([member("a", 1)], "batch a has no commit"),
    ],
)
def test_batches_that_are_not_whole(messages: list[tuple[bytes, dict[str, str]]], wrong: str) -> None:
    with pytest.raises(InvariantError, match=wrong):
        check_batches(stream_of(*messages))


def test_copies_are_there_once_and_in_order() -> None:
    copies = stream_of((b"1", {}), (b"2", {}))
    check_copied_once([b"1", b"2"], copies)
    check_copied_once([b"s", b"s"], copies, key=lambda stored: stored.subject)
    with pytest.raises(InvariantError, match="place 0, place 1"):
        check_copied_once([b"2", b"1"], copies)
    with pytest.raises(InvariantError, match="2 copies of 3 messages"):
        check_copied_once([b"1", b"2", b"3"], copies)


def test_what_a_client_sees_does_not_go_back() -> None:
    check_monotone([1, 1, 5])
    with pytest.raises(InvariantError, match="went back: from 5 to 2"):
        check_monotone([1, 5, 2, 3])


def test_tickets_are_answered() -> None:
    answered: Ticket[int] = Ticket()
    answered.succeed(1)
    check_answered([answered])
    with pytest.raises(InvariantError, match="open tickets"):
        check_answered([answered, Ticket()])


def test_what_waits_for_clients_is_bounded() -> None:
    server = Server(token=b"t")
    session = server.connect(0.0)
    assert session.pending > 0
    check_bounded(server, 1000)
    with pytest.raises(InvariantError, match="more than 10 bytes wait for a client"):
        check_bounded(server, 10)
    session.data_to_send()
    check_bounded(server, 0)
