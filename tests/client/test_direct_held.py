"""What is held back until the leader has spoken, and answers that come late: nothing of it is lost, or taken twice."""

from __future__ import annotations

import pytest

from jsproto.errors import IncompleteBatchError
from jsproto.events import UnexpectedMessage
from jsproto.wire.frames import MsgRun
from tests.client.replicas import NOT_FOUND
from tests.client.test_direct import Read, end, stored
from tests.client.test_direct_belief import Strict, emptied, second_page, wait_for_page
from tests.client.test_direct_outages import NOBODY, OLD, api_error
from tests.harness import Harness


def test_nobody_answers_while_messages_are_held() -> None:
    read = second_page()
    read.requests()
    read.message(3, 0, 6)  # without the anchor: it waits for the leader
    read.question()
    read.status(NOBODY)
    assert read.take() == []
    assert [request["seq"] for request in read.requests()] == [2]
    read.message(2, 0, 7, user="X: mine\r\n")
    read.message(3, 2, 6)
    assert read.take() == [3]


def test_what_came_before_nobody_answered_is_counted() -> None:
    read = Read(batch=3)
    assert [request["batch"] for request in read.requests()] == [3]
    read.message(1, 0, 8)
    read.status(NOBODY)
    assert [(request["seq"], request["batch"]) for request in read.requests()] == [(2, 2)]


@pytest.mark.parametrize("at_once", [False, True])
def test_messages_after_the_end_of_a_page_that_waits_for_the_leader(at_once: bool) -> None:
    read = second_page(page_messages=4)
    read.requests()
    read.message(3, 0, 6)
    read.status(end(last=3, pending=6))
    late = [stored(4, last=3, pending=5), stored(5, last=4, pending=4)]
    if at_once:
        read.direct.receive_run(MsgRun(read.reply, b"1", None, late, [b"x", b"x"]), read.h.now)
    else:
        for header in late:
            read.h.deliver(read.reply, b"x", header)
    read.state(last_seq=9)
    assert read.take() == [3]


def test_a_second_answer_of_the_leader_is_no_second_lag() -> None:
    read = emptied()
    api_error(read, 503, 10008)
    read.requests()  # at once
    read.nothing()
    asked = read.question().reply or b""
    for _ in range(2):
        read.h.deliver(asked, b'{"error":{"code":503,"err_code":10008,"description":"no"}}')
    assert [type(event) for event in read.h.events()] == [UnexpectedMessage]
    assert wait_for_page(read) == 0.02


def test_a_copy_of_the_leader_is_given_out_whatever_the_server() -> None:
    read = Strict(seq=1, harness=Harness(info=OLD))
    for _ in range(3):
        read.status(NOT_FOUND)
        read.state(last_seq=9)
        read.leader(1)
        wait_for_page(read)
    read.status(NOT_FOUND)
    read.state(last_seq=9)
    read.leader(1)
    read.state(last_seq=9)
    assert read.take() == [1]


def test_what_was_held_was_not_received() -> None:
    """Whoever reads on after the error begins where it says."""
    read = second_page(timeout=1.0)
    for _ in range(2):
        read.requests()
        read.message(3, 0, 6)
        read.question()
        read.h.advance(1.0)
    assert isinstance(read.direct.error, IncompleteBatchError)
    assert (read.direct.error.last_seq, read.direct.last_seq) == (2, 2)
