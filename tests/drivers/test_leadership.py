"""Whose turn it is to move the bytes: those who wait before the reader thread, and nobody is forgotten."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from jsproto.client.connection.connect_options import Address
from jsproto.errors import Error, TimeoutError
from jsproto.events import Event, ServerInfoChanged
from jsproto.ticket import Ticket
from jsproto.wire.encoder import PONG, encode_info
from jsproto.wire.frames import Ping, Pub, Sub
from jsproto_io._state.dialling import AddressInfo
from jsproto_io._threads.leadership import GRACE, Leadership
from jsproto_io._threads.sockets import SocketPoller, look_up
from jsproto_io.sync import connect
from tests.drivers.fake import FakeServer, Peer
from tests.drivers.test_sync import serve, unique, until
from tests.harness import INFO

INFO_LDM = encode_info(json.dumps({**INFO, "ldm": True}).encode())
A, B, READER = 1, 2, 3  # idents of threads


@pytest.fixture
def leadership() -> Leadership:
    """Those of a driver with a reader thread that nobody runs."""
    made = Leadership(threading.Lock())
    made.reader = READER
    return made


def test_who_comes_first_is_the_pump_and_the_others_park(leadership: Leadership) -> None:
    assert leadership.try_lead(A, linked=True)
    assert not leadership.try_lead(B, linked=True)
    assert leadership.try_lead(A, linked=True)
    assert leadership.leader == A


def test_who_leaves_wakes_one_who_is_parked(leadership: Leadership) -> None:
    leadership.try_lead(A, linked=True)
    event = leadership.park(B, Ticket[None]())
    leadership.leave(A)
    assert event.is_set()
    assert leadership.try_lead(B, linked=True)
    leadership.leave(B)
    assert leadership.leader is None
    assert not leadership.parked


def test_who_was_only_called_sleeps_on_another_event(leadership: Leadership) -> None:
    ticket = Ticket[None]()
    first = leadership.park(A, ticket)
    assert leadership.park(A, ticket) is first
    first.set()
    assert leadership.park(A, ticket) is not first
    assert ticket.event is leadership.parked[A]


def test_without_a_link_it_is_the_reader_s_turn(leadership: Leadership) -> None:
    assert not leadership.try_lead(A, linked=False)
    assert leadership.wait_for_turn()
    assert leadership.leader == READER


def test_a_pump_that_lost_its_link_leaves_it_to_the_reader(leadership: Leadership) -> None:
    assert leadership.try_lead(A, linked=True)
    assert not leadership.try_lead(A, linked=False)
    assert leadership.wait_for_turn()
    assert leadership.leader == READER


def test_the_reader_that_waits_itself_dials(leadership: Leadership) -> None:
    """An event's callback waits, which it has called while it was not the leader."""
    assert leadership.try_lead(A, linked=True)
    assert not leadership.try_lead(READER, linked=True)
    event = leadership.park(READER, Ticket[None]())
    assert not leadership.try_lead(A, linked=False)
    assert event.is_set()
    assert leadership.try_lead(READER, linked=False)
    assert not leadership.parked


def test_without_a_reader_whoever_waits_dials() -> None:
    leadership = Leadership(threading.Lock())
    assert leadership.try_lead(A, linked=False)
    assert leadership.try_lead(A, linked=False)


def test_the_reader_takes_over_when_nobody_has_waited(leadership: Leadership) -> None:
    leadership.try_lead(A, linked=True)
    leadership.leave(A)
    assert leadership.wait_for_turn()
    assert leadership.leader == READER


def test_the_reader_s_turn_does_not_come_while_others_wait(
    leadership: Leadership, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time it looks a thread has waited since, or waits. Then all is over."""
    looks: list[float] = []
    calls: list[int] = []  # behind which of them it was woken

    class Relief:
        def acquire(self, timeout: float) -> bool:
            looks.append(timeout)
            if len(looks) == 1:  # somebody came and went
                leadership.try_lead(A, linked=True)
                leadership.leave(A)
            elif len(looks) == 2:  # somebody comes, and is still there in the third
                leadership.try_lead(A, linked=True)
            elif len(looks) == 4:  # until now, and calls
                leadership.leave(A)
            elif len(looks) > 4:
                leadership.end()
            return len(looks) > 3

        def locked(self) -> bool:
            return True

        def release(self) -> None:
            calls.append(len(looks))

    monkeypatch.setattr(leadership, "_wakeup", Relief())
    assert not leadership.wait_for_turn()
    assert looks == [GRACE, GRACE, GRACE, -1, GRACE]
    assert calls == [4, 5]


def test_the_reader_is_woken_once_however_often_it_is_called(leadership: Leadership) -> None:
    leadership.request_reader()
    leadership.request_reader()
    assert leadership.wait_for_turn()
    leadership.leave(READER)
    leadership.end()
    leadership.end()
    assert not leadership.wait_for_turn()


def test_the_reader_leaves_its_turn_to_who_alone_waited_for_what_came(leadership: Leadership) -> None:
    ticket, other = Ticket[None](), Ticket[None]()
    leadership.reader = leadership.leader = threading.get_ident()
    leadership.park(A, ticket)
    leadership.hand_over([other])
    assert leadership.leader == leadership.reader
    leadership.hand_over([other, ticket])
    assert leadership.leader is None


def test_the_reader_stays_while_others_wait_besides(leadership: Leadership) -> None:
    ticket = Ticket[None]()
    leadership.reader = leadership.leader = threading.get_ident()
    leadership.park(A, ticket)
    leadership.park(B, Ticket[None]())
    leadership.hand_over([ticket])
    assert leadership.leader == leadership.reader


def test_at_the_end_everybody_looks_up(leadership: Leadership) -> None:
    leadership.try_lead(A, linked=True)
    event = leadership.park(B, Ticket[None]())
    leadership.end()
    leadership.end()
    assert event.is_set()
    assert not leadership.wait_for_turn()


def test_a_connection_that_is_used_without_waits_is_served(server: Any) -> None:
    """What is buffered for others, and what they publish, moves though nobody who waits moves it."""
    with connect(server.url) as nc, connect(server.url) as other:
        subject = unique()
        subscription = nc.subscribe(subject)
        nc.flush()
        other.publish(subject, b"x")
        until(lambda: subscription.pending_msgs == 1)


def test_a_wait_does_not_dial(monkeypatch: pytest.MonkeyPatch) -> None:
    """To look up a name may take longer than it may: the reader thread does, though another one is the leader."""
    monkeypatch.setattr("jsproto_io._threads.leadership.GRACE", 30.0)  # it is its turn only when it is called
    dialling: list[str] = []

    def noted(address: Address) -> list[AddressInfo] | Exception:
        dialling.append(threading.current_thread().name)
        return look_up(address)

    def second(peer: Peer) -> None:
        peer.handshake()
        peer.expect(Ping)
        peer.deliver(b"a", b"x")
        peer.serve()

    with FakeServer(Peer.handshake, second) as server, connect(server.url) as nc:
        monkeypatch.setattr("jsproto_io._threads.sockets.look_up", noted)
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
            until(lambda: nc._leadership.leader == main)
            go_on.set()
            other.next_msg()

    def first(peer: Peer) -> None:
        peer.handshake()
        peer.expect(Ping)
        until(lambda: main in nc._leadership.parked)
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
        until(lambda: nc._leadership.leader == nc._leadership.reader is not None)
        nc.flush()
        assert sub.next_msg(timeout=10).data == b"x"


def test_a_name_that_takes_long_to_look_up_holds_up_no_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader thread is held up. A thread that waits for an answer gets its TimeoutError in time."""
    looking, found = threading.Event(), threading.Event()

    calls = count()

    def slowly(address: Address) -> list[AddressInfo] | Exception:
        if next(calls):  # after the first link
            looking.set()
            found.wait(30)
        return look_up(address)

    monkeypatch.setattr("jsproto_io._threads.sockets.look_up", slowly)
    with FakeServer(Peer.handshake, serve) as server, connect(server.url) as nc:
        assert looking.wait(30)
        try:
            with pytest.raises(TimeoutError, match="no answer from a within 0.05 s"):
                nc.request("a", timeout=0.05)
            with pytest.raises(TimeoutError):
                nc.flush(timeout=0.05)
            assert not found.is_set()
        finally:
            found.set()
        assert nc.flush(timeout=10) >= 0


def test_a_callback_that_waits_in_the_reader_is_not_a_second_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves its turn to who waited for what came, and then sleeps like everybody else."""
    asleep: list[int] = []
    most = 0
    sleep = SocketPoller.sleep

    def counted(poller: SocketPoller) -> None:
        nonlocal most
        asleep.append(1)
        most = max(most, len(asleep))
        try:
            sleep(poller)
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
        until(lambda: nc._leadership.leader == nc._leadership.reader is not None)
        nc._call(nc._session.ping)
        assert told.wait(10)
        monkeypatch.setattr(SocketPoller, "sleep", counted)
        waits = pool.submit(sub.next_msg, timeout=10)
        until(lambda: len(nc._leadership.parked) == 1)
        parked.set()
        assert waits.result().data == b"1"
        waits = pool.submit(sub.next_msg, timeout=10)
        until(lambda: len(nc._leadership.parked) == 1)
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
