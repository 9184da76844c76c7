"""When bytes leave: at once, or after they have waited for company.

Not here: how many may wait (``test_session``), who asks (the drivers).
"""

from __future__ import annotations

from tests.harness import Harness
from tests.marks import known_fault


def test_a_write_that_follows_no_other_leaves_at_once() -> None:
    harness = Harness(linger=0.5)
    session, now = harness.session, harness.now
    for since in (1.0, 0.05, 0.00011):  # none of them shortly after another
        now += since
        session.publish_message("a", b"1")
        assert session.wants_send(now)
        assert session.wants_send(now)  # asked twice about the same bytes
        assert b"".join(session.data_to_send()) == b"PUB a 1\r\n1\r\n"
        assert not session.wants_send(now)


def test_writes_that_follow_each_other_closely_wait_for_company() -> None:
    harness = Harness(linger=0.5)
    session, now = harness.session, harness.now
    for number in range(4):
        session.publish_message("a", b"%d" % number)
        assert session.wants_send(now) == (number == 0)
        if number == 0:
            assert b"".join(session.data_to_send()) == b"PUB a 1\r\n0\r\n"
        now += 0.00009
    assert session.deadline() == harness.now + 0.00009 + 0.5
    session.publish_message("a", b"4")
    assert not session.wants_send(now + 0.2)  # others wait already
    assert session.wants_send(harness.now + 0.00009 + 0.5)
    assert [frame.payload for frame in harness.published()] == [b"1", b"2", b"3", b"4"]


def test_acknowledgements_wait_for_company() -> None:
    harness = Harness(linger=0.5)
    session, now = harness.session, harness.now
    for number in range(3):
        session.publish_replies([b"$JS.ACK.%d" % number], b"+ACK")
        assert not session.wants_send(now)  # nobody waits for them
        now += 0.01
    assert session.deadline() == harness.now + 0.5
    session.publish_message("a", b"answer")
    assert session.wants_send(now)
    assert [frame.payload for frame in harness.published()] == [b"+ACK"] * 3 + [b"answer"]
    session.publish_replies([b"$JS.ACK.3"], b"+ACK")
    assert not session.wants_send(now)
    assert session.wants_send(now + 0.5)


def test_a_write_that_could_not_leave_at_once_has_not_to_wait_later() -> None:
    """The socket takes nothing, and another write follows."""
    harness = Harness(linger=0.5)
    session = harness.session
    session.publish_message("a", b"1")
    assert session.wants_send(harness.now)
    session.publish_message("a", b"2")
    assert session.wants_send(harness.now + 0.00001)
    assert len(harness.published()) == 2


@known_fault("publishing is slow: a write, or a round trip, for each message")
def test_small_writes_linger() -> None:
    harness = Harness(linger=0.5)
    session = harness.session
    assert not session.wants_send(harness.now)
    harness.begin_burst()
    session.publish_message("a", b"1")
    assert not session.wants_send(harness.now)
    assert session.deadline() == harness.now + 0.5
    assert not session.wants_send(harness.now + 0.4)
    assert session.wants_send(harness.now + 0.5)
    session.handle_timeout(harness.now + 0.5)  # a driver that cannot write is not asked again and again
    assert session.deadline() == harness.now + 120.0
    assert session.wants_send(harness.now + 0.5)
    assert b"".join(session.data_to_send()) == b"PUB a 1\r\n1\r\n"
    assert not session.wants_send(harness.now + 0.5)


def test_many_bytes_do_not_linger_and_questions_do_not_either() -> None:
    harness = Harness(linger=0.5, flush_at=100)
    harness.session.publish_message("a", b"x" * 100)
    assert harness.session.wants_send(harness.now)
    harness.sent()
    harness.session.request("a", now=harness.now)
    assert harness.session.wants_send(harness.now)
