"""Messages that wait for their acknowledgement: what is kept of them over a restart."""

from __future__ import annotations

from jsproto.server.consume.redelivery import PendingAcks
from jsproto.server.store.context import ServerContext
from jsproto.server.store.stream import Publication, Stored
from tests.server.consuming import Shop
from tests.server.harness import Inlet


def test_what_waits_after_a_restart() -> None:
    """A message may be gone, and counts until it is acknowledged. One may wait for ever: there is no time for it."""
    context, inlet = ServerContext(b"token"), Inlet()
    for _ in range(3):
        inlet.stream.append(Publication(b"s.a", None, b"x"), 100.0)
    assert inlet.stream.remove(2)
    first, last = context.timestamp(200.0), context.timestamp(300.0)
    pending = PendingAcks(30.0, (), 0)
    saved = {"pending": [[1, 1, None], [2, 2, first], [3, 3, last]], "redeliver": [1, 2], "deliveries": [[3, 2]]}
    pending.restore(saved, context, inlet.stream.get)
    assert [seq in pending for seq in (1, 2, 3)] == [True, True, True]
    assert pending.check_at == 200.0
    assert pending.saved(context) == saved | {"deliveries": [(3, 2)]}


def test_what_has_no_time_leaves_the_queue_for_ever() -> None:
    pending = PendingAcks(0.0, (), 0)
    pending.delivered(Stored(1, b"s.a", None, b"x", 0, 100.0), 1, 100.0)
    pending.queue(1)
    pending.leave_queue(101.0)
    assert (pending.queued, pending.check_at, 1 in pending) == (0, None, True)


def test_the_ack_floor_where_only_an_older_message_waits() -> None:
    """Nothing that waits is after the one that is acknowledged."""
    shop = Shop(messages=2, ack_policy="explicit")
    state = shop.consumer._state
    for seq in (2, 1):
        stored = shop.stream.get(seq)
        assert stored is not None
        state.delivered(stored, 1, shop.now)
    state.settle(2, shop.now)
    assert (state.floor_consumer, state.floor_stream, 1 in state.pending) == (1, 2, True)
