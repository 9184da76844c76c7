"""What the drivers share and no server is needed for."""

from __future__ import annotations

import errno
import logging
import platform
import socket
import subprocess
import sys
from datetime import timedelta

import pytest

from jsproto.errors import ConnectionLostError, LocalProtocolError
from jsproto.events import (
    Connected,
    Disconnected,
    Event,
    EventsDropped,
    FlowRateChanged,
    GapReported,
    ServerReportedError,
)
from jsproto.grammar.config import ServerInfo
from jsproto.grammar.times import seconds
from jsproto.wire.frames import Msg
from jsproto_io._state.common import (
    MAX_CHUNK,
    MAX_EVENTS,
    MAX_SLEEP,
    SLOW_PULL,
    EventDispatcher,
    clamp_sleep,
    next_chunk,
    reason,
)
from jsproto_io._state.shared import MessageBase
from tests.marks import promise


def group(*errors: Exception) -> OSError:
    error = OSError("all attempts to connect failed")
    error.__cause__ = ExceptionGroup("attempts", list(errors))
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('::1', 1)"), "Connection refused"),
        (group(OSError(errno.ENETUNREACH, "x"), OSError(errno.ECONNREFUSED, "y")), "Network is unreachable"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service not known"),
        (TimeoutError(), "timed out"),
        (TimeoutError(errno.ETIMEDOUT, "x"), "Connection timed out"),
        (OSError("Multiple exceptions: one, two"), "Multiple exceptions: one, two"),
        (RuntimeError(), "RuntimeError"),
    ],
)
def test_a_failure_in_one_line(error: Exception, words: str) -> None:
    assert reason(error) == words


def test_timeouts() -> None:
    assert seconds(None) is None
    assert seconds(0) == 0
    assert seconds(2.5) == 2.5
    assert seconds(timedelta(milliseconds=1500)) == 1.5
    for bad in (-1, float("nan"), timedelta(seconds=-1), True):
        with pytest.raises(LocalProtocolError, match="timeout"):
            seconds(bad)


def test_naps_are_bounded() -> None:
    assert [clamp_sleep(wanted) for wanted in (float("-inf"), -1, 0.25, float("inf"))] == [0, 0, 0.25, MAX_SLEEP]


def test_chunks_grow_while_they_are_quick_and_shrink_when_they_are_not() -> None:
    sizes = [1]
    while sizes[-1] < MAX_CHUNK:
        sizes.append(next_chunk(sizes[-1], 0, True))
    assert sizes == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    assert next_chunk(MAX_CHUNK, 0, True) == MAX_CHUNK
    assert next_chunk(MAX_CHUNK, SLOW_PULL, True) == MAX_CHUNK // 2
    assert next_chunk(MAX_CHUNK, 0, False) == MAX_CHUNK // 2
    assert next_chunk(1, SLOW_PULL, True) == 1


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is another one")
def test_the_buffer_of_a_read_is_used_again() -> None:
    script = """
import resource, socket
from jsproto_io._state.common import new_session
from jsproto_io._state.common import READ_SIZE
new_session("nats://localhost", {})
near, far = socket.socketpair()
faults = []
for _ in range(200):
    near.send(b"x")
    far.recv(READ_SIZE)
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
print(faults[-1] - faults[0])
"""
    ran = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert int(ran.stdout) < 100  # else two of each


@promise("No error, repr or log shows a secret")
def test_events_are_logged_without_what_is_secret(caplog: pytest.LogCaptureFixture) -> None:
    server = ServerInfo.from_json(b'{"version":"2.15.1","max_payload":1,"nonce":"SECRET","headers":true}')
    dispatcher = EventDispatcher(None)
    dispatcher.add(
        [
            Connected("nats://h:4222", server),
            FlowRateChanged("batch", 0, 500, 0),
            ServerReportedError("Slow Consumer", True),
            Disconnected(ConnectionLostError("gone")),
            Disconnected(None),
        ]
    )
    with caplog.at_level(logging.DEBUG, "jsproto_io"):
        dispatcher.dispatch()
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("DEBUG", "Connected(url='nats://h:4222', version='2.15.1')"),
        ("DEBUG", "FlowRateChanged(batch_id='batch', sequence=0, msgs=500, previous=0)"),
        ("WARNING", "ServerReportedError(text='Slow Consumer', fatal=True)"),
        ("WARNING", "Disconnected(error=ConnectionLostError('gone'))"),
        ("DEBUG", "Disconnected(error=None)"),
    ]


def test_a_callback_that_drives_gets_later_events_later() -> None:
    seen: list[str] = []

    def callback(event: Event) -> None:
        assert isinstance(event, ServerReportedError)
        seen.append(f"begin {event.text}")
        if event.text == "one":
            dispatcher.add([ServerReportedError("three", False)])
            dispatcher.dispatch()  # as a verb in the callback would
        seen.append(f"end {event.text}")

    dispatcher = EventDispatcher(callback)
    dispatcher.add([ServerReportedError("one", False), ServerReportedError("two", False)])
    dispatcher.dispatch()
    assert seen == ["begin one", "end one", "begin two", "end two", "begin three", "end three"]


def test_a_callback_that_raises_is_logged_and_not_called_less(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[Event] = []

    def callback(event: Event) -> None:
        calls.append(event)
        raise ZeroDivisionError("the application's own")

    dispatcher = EventDispatcher(callback)
    dispatcher.add([Disconnected(None), Disconnected(None)])
    dispatcher.dispatch()
    assert len(calls) == 2
    assert caplog.text.count("ZeroDivisionError: the application's own") == 2


def test_a_slow_callback_does_not_make_events_pile_up() -> None:
    told: list[Event] = []
    dispatcher = EventDispatcher(told.append)
    dispatcher.add(FlowRateChanged("b", n, 1, 1) for n in range(MAX_EVENTS + 5))
    dispatcher.dispatch()
    assert len(told) == 1 + MAX_EVENTS
    assert told[0] == EventsDropped(5)
    assert told[1] == FlowRateChanged("b", 5, 1, 1)
    assert told[-1] == FlowRateChanged("b", MAX_EVENTS + 4, 1, 1)
    dispatcher.add([GapReported("b", 1, 2)])
    dispatcher.dispatch()
    assert told[1 + MAX_EVENTS :] == [GapReported("b", 1, 2)]  # what was dropped is told once


def test_a_slow_callback_is_told_how_many_events_it_missed() -> None:
    told: list[Event] = []

    def slow(event: Event) -> None:
        """While it has one event, more than are kept come."""
        told.append(event)
        if len(told) == 1:
            for n in range(3):
                dispatcher.add(GapReported("b", n, m) for m in range(MAX_EVENTS))
                dispatcher.dispatch()

    dispatcher = EventDispatcher(slow)
    dispatcher.add([GapReported("first", 0, 0)])
    dispatcher.dispatch()
    assert told[1] == EventsDropped(2 * MAX_EVENTS)
    assert told[2:] == [GapReported("b", 2, m) for m in range(MAX_EVENTS)]
    dropped = sum(event.count for event in told if isinstance(event, EventsDropped))
    assert len(told) - 1 + dropped == 1 + 3 * MAX_EVENTS  # each was told, or counted


def test_an_empty_reply_is_none() -> None:
    for reply, expected in ((None, None), (b"", None), (b"r", "r")):
        assert MessageBase(Msg(b"a", b"1", reply, None, b"")).reply == expected
