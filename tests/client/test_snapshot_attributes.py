"""The attributes of a snapshot: what they say before it is taken, and that to look at them changes nothing.

Any thread may look, at any moment, without the lock of its connection. So a look takes nothing and asks for nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from jsproto.client.read.snapshot import Snapshot
from jsproto.errors import IncompleteBatchError, StatusError
from tests.client.replicas import Stream
from tests.client.test_snapshot import Take
from tests.harness import Harness

ATTRIBUTES: Final = ["last_seq", "up_to_seq", "num_pending", "finished", "error"]
KINDS: Final[list[dict[str, Any]]] = [{"at_once": True}, {}, {"at": 3}]
REFUSED: Final = b"NATS/1.0 408 Bad Request\r\n\r\n"


class Watched(Harness):
    """Looks at an attribute of ``read`` after each input, before a driver takes the outputs, and when told to."""

    read: Snapshot | None = None
    attribute: str | None = None

    def feed(self, data: bytes) -> None:
        self.session.receive_data(data, self.now)
        self.look()
        self.drain()

    def look(self) -> None:
        if self.read is not None and self.attribute is not None:
            before = self.outputs()
            getattr(self.read, self.attribute)
            assert self.outputs() == before

    def outputs(self) -> tuple[object, ...]:
        session = self.session
        return session.has_news, session.wants_send(self.now), session.published, session.deadline()


class Looked(Take):
    """A snapshot that nothing waits for. ``attribute``: is looked at after each step."""

    h: Watched

    def __init__(self, *, attribute: str | None = None, **options: Any) -> None:
        h = Watched()
        h.attribute = attribute
        super().__init__(Stream(["k.1", "k.2", "k.3"]), "k.*", harness=h, **options)

    def begin(self, subjects: Any, options: dict[str, Any]) -> None:
        self.got = self.h.read = Snapshot(self.h.js, "DG", subjects, now=self.h.now, **options)
        self.h.look()

    def read_on(self, most: int = 9999) -> None:
        while self.direct:
            self.answer(most=most)

    def pop(self, most: int) -> list[int]:
        messages = self.got.pop_many(most, self.h.now)
        self.h.look()
        return [each.seq for each in messages]

    def close(self) -> None:
        self.got.close(self.h.now)
        self.h.look()
        self.settle()


def asked(take: Looked) -> None:
    """The first answer has yet to come."""


def fails(take: Looked) -> None:
    take.status(REFUSED)


def has_a_rest(take: Looked) -> None:
    take.answer(most=1)


def is_put_together(take: Looked) -> None:
    take.read_on(most=1)


def is_whole(take: Looked) -> None:
    take.read_on()


def is_closed(take: Looked) -> None:
    take.close()


def is_closed_with_a_rest(take: Looked) -> None:
    take.answer(most=1)
    take.close()


def is_closed_at_its_end(take: Looked) -> None:
    take.read_on()
    take.close()


STEPS: Final[list[Callable[[Looked], None]]] = [
    asked, fails, has_a_rest, is_put_together, is_whole, is_closed, is_closed_with_a_rest, is_closed_at_its_end,
]  # fmt: skip


def all_of(options: dict[str, Any], steps: Callable[[Looked], None], attribute: str | None) -> list[object]:
    """What comes of a snapshot: what can be taken after ``steps`` and at the end, and what was asked for."""
    take = Looked(attribute=attribute, **options)
    steps(take)
    popped = [take.pop(1), take.pop(9999)]
    requests = [request for _, request in take.direct]
    take.read_on()
    got = take.got
    return [*popped, take.pop(9999), requests, take.asked, str(got.error), got.finished, got.last_seq, got.up_to_seq]


@pytest.mark.parametrize("steps", STEPS, ids=lambda steps: steps.__name__)
@pytest.mark.parametrize("options", KINDS, ids=str)
def test_to_look_changes_nothing(options: dict[str, Any], steps: Callable[[Looked], None]) -> None:
    """Neither what the session has for its driver, nor what can be taken, nor what is asked for next."""
    unseen = all_of(options, steps, None)
    for attribute in ATTRIBUTES:
        assert all_of(options, steps, attribute) == unseen, attribute


@pytest.mark.parametrize("most", [1, 2, 9999])
@pytest.mark.parametrize("options", KINDS, ids=str)
def test_before_and_after_it_is_taken(options: dict[str, Any], most: int) -> None:
    """It reads on to its end with nobody waiting, and says so. ``most``: messages that fit into an answer."""
    take = Looked(**options)
    got = take.got
    assert (got.last_seq, got.up_to_seq, got.num_pending, got.finished, got.error) == (0, None, None, False, None)
    take.answer(most=most)
    if most < 3:
        assert (got.last_seq, got.num_pending, got.finished) == (0, None, False)
    take.read_on(most)
    assert (got.last_seq, got.up_to_seq, got.num_pending, got.finished, got.error) == (3, 3, 3, False, None)
    assert take.pop(2) == [1, 2]
    assert (got.last_seq, got.up_to_seq, got.num_pending, got.finished) == (3, 3, 1, False)
    assert take.pop(2) == [3]
    assert (got.last_seq, got.up_to_seq, got.num_pending, got.finished, got.error) == (3, 3, 0, True, None)


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_a_failure_is_said_at_once(options: dict[str, Any]) -> None:
    take = Looked(**options)
    ticket = take.got.readable()
    assert not ticket.done
    take.status(REFUSED)
    assert isinstance(take.got.error, StatusError)
    assert (take.got.last_seq, take.got.up_to_seq, take.got.num_pending, take.got.finished) == (0, None, 0, False)
    assert ticket in take.h.completed
    assert take.got.readable().error is take.got.error


@pytest.mark.parametrize("most", [1, 9999])
def test_a_reader_that_waits_is_woken_once(most: int) -> None:
    """Where the first answer has a rest, it is woken when the rest has come."""
    take = Looked(at_once=True)
    ticket = take.got.readable()
    take.answer(most=most)
    assert (ticket in take.h.completed) == (most > 1)
    take.read_on(most)
    assert take.h.completed.count(ticket) == 1
    assert take.pop(9999) == [1, 2, 3]


def test_closed_before_the_first_answer() -> None:
    take = Looked(at_once=True)
    ticket = take.got.readable()
    take.close()
    assert ticket.done
    assert (take.got.last_seq, take.got.up_to_seq, take.got.num_pending, take.got.finished) == (0, None, 0, True)
    assert take.pop(9999) == []


def test_the_connection_ends_before_the_first_answer() -> None:
    take = Looked(at_once=True)
    take.h.lose()
    assert isinstance(take.got.error, IncompleteBatchError)
    assert take.got.readable().error is take.got.error
