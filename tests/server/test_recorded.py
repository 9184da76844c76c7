"""What a server writes down of a consumer, beside the state that it delivers by."""

from __future__ import annotations

import pytest

from jsproto.server.consume.recorded import Pair, RecordedState


def recorded(policy: str = "explicit", *deliveries: tuple[int, int], is_on_disk: bool = False) -> RecordedState:
    """A state with some deliveries, each a consumer sequence and a stream sequence."""
    made = RecordedState(policy, 0, is_on_disk=is_on_disk)
    for consumer_seq, stream_seq in deliveries:
        made.deliver(consumer_seq, stream_seq)
    return made


def test_what_is_reported() -> None:
    assert not recorded().is_reported
    assert recorded(is_on_disk=True).is_reported
    assert recorded("explicit", (1, 3)).is_reported
    assert RecordedState("explicit", 4, is_on_disk=False).is_reported


@pytest.mark.parametrize(("policy", "floor"), [("none", (2, 5)), ("explicit", (0, 0)), ("all", (0, 0))])
def test_deliveries(policy: str, floor: tuple[int, int]) -> None:
    made = recorded(policy, (1, 3), (2, 5))
    assert (made.delivered, made.floor) == ((2, 5), floor)


def test_one_by_one_in_any_order() -> None:
    made = recorded("explicit", (1, 3), (2, 5), (3, 6), (4, 9))
    made.acknowledge(2, 5)
    assert made.floor == (0, 0)
    made.acknowledge(1, 3)
    assert made.floor == (2, 5)  # up to the next one that is outstanding
    made.acknowledge(3, 6)
    made.acknowledge(4, 9)
    assert made.floor == made.delivered == (4, 9)


def test_the_last_of_its_time() -> None:
    """What is outstanding comes before it: that was delivered again."""
    made = recorded("explicit", (1, 3), (2, 5))
    made.acknowledge(2, 5)
    made.deliver(3, 6)
    made.acknowledge(1, 3)
    assert made.floor == (2, 5)
    made = recorded("explicit", (2, 3), (1, 5))
    made.acknowledge(1, 5)
    assert made.floor == (1, 5)


def test_all_up_to_one() -> None:
    made = recorded("all", (1, 3), (2, 5), (3, 6))
    made.acknowledge(2, 5)
    assert made.floor == (2, 5)
    made.acknowledge(1, 6)  # below the floor
    made.acknowledge(9, 5)  # not outstanding
    assert made.floor == (2, 5)


def test_a_delivery_below_the_floor() -> None:
    made = recorded("all", (1, 3))
    made.acknowledge(7, 3)
    made.deliver(2, 4)
    assert (made.delivered, made.floor) == ((1, 3), (7, 3))


def test_what_is_given_up() -> None:
    made = recorded("explicit", (1, 3), (2, 5))
    made.deliver(1, 3, is_last=True)
    made.acknowledge(1, 3)
    assert (made.delivered, made.floor) == ((2, 5), (0, 0))
    made.acknowledge(2, 5)
    assert made.floor == (2, 5)


@pytest.mark.parametrize(
    ("delivered", "floor", "pending"),
    [
        (Pair(2, 5), Pair(3, 5), {}),
        (Pair(2, 5), Pair(2, 6), {}),
        (Pair(2, 5), Pair(1, 4), {4: 1}),
        (Pair(2, 5), Pair(1, 4), {6: 1}),
        (Pair(1, 5), Pair(1, 4), {}),
        (Pair(2, 5), Pair(1, 2), {}),
    ],
)
def test_what_contradicts_itself_or_is_old(delivered: Pair, floor: Pair, pending: dict[int, int]) -> None:
    made = recorded("explicit", (1, 3), (2, 5))
    made.acknowledge(1, 3)
    before = made.saved()
    made.replace(delivered, floor, pending)
    assert made.saved() == before


def test_everything_is_written_down() -> None:
    made = recorded("explicit", (1, 3), (2, 5))
    made.replace(Pair(2, 8), Pair(1, 6), {7: 2})
    made.acknowledge(2, 7)
    assert made.floor == made.delivered == (2, 8)


def test_over_a_restart() -> None:
    made, again = recorded("explicit", (1, 3), (2, 5)), recorded()
    again.restore(made.saved())
    assert again.saved() == made.saved()
    again.reset(4)
    assert (again.delivered, again.floor) == ((0, 4), (0, 4))
