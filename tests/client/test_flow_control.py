"""Flow control by itself: a marker is answered when the application gets there, and the same one once on a link."""

from __future__ import annotations

import pytest

from jsproto.client.consume.flow_control import FlowControl
from jsproto.events import UnexpectedMessage
from tests.harness import Harness


def controlled() -> tuple[Harness, FlowControl]:
    h = Harness()
    h.published()
    return h, FlowControl(h.session, "orders.>")


def answered(h: Harness) -> list[bytes]:
    return [pub.subject for pub in h.published()]


def test_a_marker_waits_for_the_messages_before_it() -> None:
    h, flow = controlled()
    flow.mark(b"fc.1", buffered=5)
    assert flow.answer_reached(99) == 5
    flow.taken = 4
    assert flow.answer_reached(99) == 1
    assert answered(h) == []
    flow.taken = 5
    assert flow.answer_reached(99) == 99
    assert answered(h) == [b"fc.1"]


def test_markers_are_answered_in_their_order() -> None:
    h, flow = controlled()
    flow.mark(b"fc.1", buffered=0)
    flow.mark(b"fc.2", buffered=2)
    assert flow.answer_reached(99) == 2
    assert answered(h) == [b"fc.1"]
    flow.taken = 2
    assert flow.answer_reached(1) == 1
    assert answered(h) == [b"fc.2"]


def test_a_marker_that_is_repeated_is_answered_once_on_a_link() -> None:
    h, flow = controlled()
    for _ in range(2):
        flow.mark(b"fc.1", buffered=0)
    flow.answer_reached(0)
    flow.mark(b"fc.1", buffered=0)
    flow.answer_reached(0)
    assert answered(h) == [b"fc.1"]
    flow.link_restored()
    flow.mark(b"fc.1", buffered=0)
    flow.answer_reached(0)
    assert answered(h) == [b"fc.1"]


def test_an_answer_without_room_is_sent_later() -> None:
    h, flow = controlled()
    flow.mark(b"fc.1", buffered=0)
    h.session._write_buffer.size, pending = 10**9, h.session._write_buffer.size
    assert flow.answer_reached(7) == 7
    h.session._write_buffer.size = pending
    assert flow.answer_reached(7) == 7
    assert answered(h) == [b"fc.1"]


@pytest.mark.parametrize("subject", [b"no subject", b"\xff"])
def test_what_cannot_be_answered_is_reported(subject: bytes) -> None:
    h, flow = controlled()
    flow.mark(subject, buffered=0)
    assert flow.answer_reached(7) == 7
    assert answered(h) == []
    (event,) = h.events()
    assert isinstance(event, UnexpectedMessage)
    assert event.subject == "orders.>"


def test_markers_of_a_consumer_that_was_left() -> None:
    h, flow = controlled()
    flow.mark(b"fc.1", buffered=0)
    flow.clear()
    assert flow.answer_reached(7) == 7
    assert answered(h) == []
