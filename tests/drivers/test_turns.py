"""Whose turn it is to move the bytes: those who wait before the reader thread, and nobody is forgotten."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from jsproto.client.connection.options import Address
from jsproto.errors import Error, TimeoutError
from jsproto.events import Event, ServerInfoChanged
from jsproto.ticket import Ticket
from jsproto.wire.encoder import PONG, encode_info
from jsproto.wire.frames import Ping, Pub, Sub
from jsproto_io._threads.turns import GRACE, Turns
from jsproto_io._threads.wire import Place, Sleeper, look_up
from jsproto_io.sync import connect
from tests.drivers.fake import FakeServer, Peer
from tests.drivers.test_sync import serve, unique, until
from tests.harness import INFO

INFO_LDM = encode_info(json.dumps({**INFO, "ldm": True}).encode())
A, B, READER = 1, 2, 3  # idents of threads


@pytest.fixture
def turns() -> Turns:
    """Those of a driver with a reader thread that nobody runs."""
    made = Turns(threading.Lock())
    made.reader = READER
    return made


def test_who_comes_first_is_the_pump_and_the_others_park(turns: Turns) -> None:
    assert turns.take(A, may=True)
    assert not turns.take(B, may=True)
    assert turns.take(A, may=True)
    assert turns.pump == A


def test_who_leaves_wakes_one_who_is_parked(turns: Turns) -> None:
    turns.take(A, may=True)
    event = turns.park(B, Ticket[None]())
    turns.leave(A)
    assert event.is_set()
    assert turns.take(B, may=True)
    turns.leave(B)
    assert turns.pump is None
    assert not turns.parked


def test_who_was_only_called_sleeps_on_another_event(turns: Turns) -> None:
    ticket = Ticket[None]()
    first = turns.park(A, ticket)
    assert turns.park(A, ticket) is first
    first.set()
    assert turns.park(A, ticket) is not first
    assert ticket.event is turns.parked[A]


def test_without_a_link_it_is_the_reader_s_turn(turns: Turns) -> None:
    assert not turns.take(A, may=False)
    assert turns.stand_by()
    assert turns.pump == READER


def test_a_pump_that_lost_its_link_leaves_it_to_the_reader(turns: Turns) -> None:
    assert turns.take(A, may=True)
    assert not turns.take(A, may=False)
    assert turns.stand_by()
    assert turns.pump == READER


def test_the_reader_that_waits_itself_dials(turns: Turns) -> None:
    """An event's callback waits, which it has called while it was not the pump."""
    assert turns.take(A, may=True)
    assert not turns.take(READER, may=True)
    event = turns.park(READER, Ticket[None]())
    assert not turns.take(A, may=False)
    assert event.is_set()
    assert turns.take(READER, may=False)
    assert not turns.parked


def test_without_a_reader_whoever_waits_dials() -> None:
    turns = Turns(threading.Lock())
    assert turns.take(A, may=False)
    assert turns.take(A, may=False)


def test_the_reader_takes_over_when_nobody_has_waited(turns: Turns) -> None:
    turns.take(A, may=True)
    turns.leave(A)
    assert turns.stand_by()
    assert turns.pump == READER


def test_the_reader_s_turn_does_not_come_while_others_wait(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time it looks somebody has waited since, or waits; then all is over."""
    looks: list[float] = []
    calls: list[int] = []  # behind which of them it was woken

    class Relief:
        def acquire(self, timeout: float) -> bool:
            looks.append(timeout)
            if len(looks) == 1:  # somebody came and went
                turns.take(A, may=True)
                turns.leave(A)
            elif len(looks) == 2:  # somebody comes, and is still there in the third
                turns.take(A, may=True)
            elif len(looks) == 4:  # until now, and calls
                turns.leave(A)
            elif len(looks) > 4:
                turns.end()
            return len(looks) > 3

        def locked(self) -> bool:
            return True

        def release(self) -> None:
            calls.append(len(looks))

    monkeypatch.setattr(turns, "_relief", Relief())
    assert not turns.stand_by()
    assert looks == [GRACE, GRACE, GRACE, -1, GRACE]
    assert calls == [4, 5]


def test_the_reader_is_woken_once_however_often_it_is_called(turns: Turns) -> None:
    turns.call_reader()
    turns.call_reader()
    assert turns.stand_by()
    turns.leave(READER)
    turns.end()
    turns.end()
    assert not turns.stand_by()


def test_the_reader_leaves_its_turn_to_who_alone_waited_for_what_came(turns: Turns) -> None:
    ticket, other = Ticket[None](), Ticket[None]()
    turns.reader = turns.pump = threading.get_ident()
    turns.park(A, ticket)
    turns.yield_to([other])
    assert turns.pump == turns.reader
    turns.yield_to([other, ticket])
    assert turns.pump is None


def test_the_reader_stays_while_others_wait_besides(turns: Turns) -> None:
    ticket = Ticket[None]()
    turns.reader = turns.pump = threading.get_ident()
    turns.park(A, ticket)
    turns.park(B, Ticket[None]())
    turns.yield_to([ticket])
    assert turns.pump == turns.reader


def test_at_the_end_everybody_looks_up(turns: Turns) -> None:
    turns.take(A, may=True)
    event = turns.park(B, Ticket[None]())
    turns.end()
    turns.end()
    assert event.is_set()
    assert not turns.stand_by()


def test_a_connection_that_is_used_without_waits_is_served(server: Any) -> None:
    """What is buffered for others, and what they publish, moves though nobody who waits moves it."""
    with connect(server.url) as nc, connect(server.url) as other:
        subject = unique()
        subscription = nc.subscribe(subject)
        nc.flush()
        other.publish(subject, b"x")
        until(lambda: subscription.pending_msgs == 1)


def test_a_wait_does_not_dial(monkeypatch: pytest.MonkeyPatch) -> None:
    """To look up a name may take longer than it may: the reader thread does, though another one is the pump."""
    monkeypatch.setattr("jsproto_io._threads.turns.GRACE", 30.0)  # it is its turn only when it is called
    dialling: list[str] = []

    def noted(address: Address) -> list[Place] | Exception:
        dialling.append(threading.current_thread().name)
        return look_up(address)

    def second(peer: Peer) -> None:
        peer.handshake()
        peer.expect(Ping)
        peer.deliver(b"a", b"x")
        peer.serve()

    with FakeServer(Peer.handshake, second) as server, connect(server.url) as nc:
        monkeypatch.setattr("jsproto_io._threads.pump.look_up", noted)
        sub = nc.subscribe("a")
        with suppress(Error):  # lost with the link
            nc.flush()
        nc._call(nc._session.ping)
        assert sub.next_msg(timeout=10).data == b"x"
    assert dialling == ["jsproto-reader"]


def test_the_reader_dials_though_its_callback_waits() -> None:
    main = threading.get_ident()
    go_on = threading.Event()

    def on_event(event: Event) -> None:
        if isinstance(event, ServerInfoChanged):
            until(lambda: nc._turns.pump == main)
            go_on.set()
            other.next_msg()

    def first(peer: Peer) -> None:
        peer.handshake()
        peer.expect(Ping)
        until(lambda: main in nc._turns.parked)
        peer.send(PONG + INFO_LDM)  # the reader leaves its turn to whom the PONG wakes, and tells the event
        assert go_on.wait(10)

    def second(peer: Peer) -> None:
        peer.handshake()
        peer.expect(Sub)
        peer.expect(Sub)
        peer.deliver(b"a", b"x")
        peer.serve()

    with FakeServer(first, second) as server, connect(server.url, event_cb=on_event) as nc:
        sub, other = nc.subscribe("a"), nc.subscribe("b")
        until(lambda: nc._turns.pump == nc._turns.reader is not None)
        nc.flush()
        assert sub.next_msg(timeout=10).data == b"x"


def test_a_name_that_takes_long_to_look_up_holds_up_no_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader thread is held up; who waits for an answer is told when it is late."""
    looking, found = threading.Event(), threading.Event()

    def slowly(address: Address) -> list[Place] | Exception:
        looking.set()
        found.wait(30)
        return look_up(address)

    with FakeServer(Peer.handshake, serve) as server, connect(server.url) as nc:
        monkeypatch.setattr("jsproto_io._threads.pump.look_up", slowly)
        assert looking.wait(10)
        try:
            with pytest.raises(TimeoutError, match="no answer from a within 0.05 s"):
                nc.request("a", timeout=0.05)
            with pytest.raises(TimeoutError):
                nc.flush(timeout=0.05)
            assert not found.is_set()
        finally:
            found.set()
        assert nc.flush(timeout=10) >= 0


def test_a_callback_that_waits_in_the_reader_is_not_a_second_pump(monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves its turn to who waited for what came, and then sleeps like everybody else."""
    asleep: list[int] = []
    most = 0
    sleep = Sleeper.sleep

    def counted(sleeper: Sleeper) -> None:
        nonlocal most
        asleep.append(1)
        most = max(most, len(asleep))
        try:
            sleep(sleeper)
        finally:
            asleep.pop()

    told, parked = threading.Event(), threading.Event()

    def on_event(event: Event) -> None:
        if isinstance(event, ServerInfoChanged):
            told.set()
            other.next_msg()

    def script(peer: Peer) -> None:
        peer.handshake()
        peer.expect(Ping)
        peer.send(PONG)
        peer.send(INFO_LDM)
        assert parked.wait(10)
        peer.deliver(b"a", b"1")
        peer.expect(Pub)
        peer.deliver(b"a", b"2")
        peer.deliver(b"b")
        peer.serve()

    with FakeServer(script) as server, connect(server.url, event_cb=on_event) as nc, ThreadPoolExecutor(1) as pool:
        sub, other = nc.subscribe("a"), nc.subscribe("b")
        until(lambda: nc._turns.pump == nc._turns.reader is not None)
        nc._call(nc._session.ping)
        assert told.wait(10)
        monkeypatch.setattr(Sleeper, "sleep", counted)
        waits = pool.submit(sub.next_msg, timeout=10)
        until(lambda: len(nc._turns.parked) == 1)
        parked.set()
        assert waits.result().data == b"1"
        waits = pool.submit(sub.next_msg, timeout=10)
        until(lambda: len(nc._turns.parked) == 1)
        nc.publish("go")
        assert waits.result().data == b"2"
    assert most == 1


def test_threads_take_turns_and_all_get_what_is_theirs(server: Any) -> None:
    with connect(server.url) as nc, ThreadPoolExecutor(4) as pool:

        def work(number: int) -> list[bytes]:
            subject = unique()
            with nc.subscribe(subject) as subscription:
                got = []
                for n in range(100):
                    nc.publish(subject, b"%d" % n)
                    got.append(subscription.next_msg(timeout=10).data)
                return got

        assert list(pool.map(work, range(4))) == [[b"%d" % n for n in range(100)]] * 4
