"""The reader thread of the driver on threads: the leader while no thread waits.

Rules
 * The thread keeps no connection alive. It holds a reference only while it works, and not while it sleeps.
 * A connection that is dropped without ``close()`` ends the sleep. The thread closes what is left.

Not here: what the leader does (``engine``), when this thread leads (``leadership``).
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING
from weakref import ReferenceType, ref

if TYPE_CHECKING:
    from jsproto_io._threads.leadership import Leadership
    from jsproto_io._threads.poller import Poller
    from jsproto_io.sync import Connection


def start_reader(connection: Connection, leadership: Leadership, poller: Poller) -> threading.Thread:
    """Start the reader thread of ``connection``."""
    thread = threading.Thread(
        target=_read, args=(ref(connection), leadership, poller), name="jsproto-reader", daemon=True
    )
    thread.start()
    return thread


def _read(found: ReferenceType[Connection], leadership: Leadership, poller: Poller) -> None:
    me = leadership.reader = threading.get_ident()
    try:
        while leadership.wait_for_turn():
            # When the dialling of _plan has ended the session it leads no more: others may have closed the poller.
            while leadership.leader == me and not leadership.ended.done and _plan(found) and leadership.leader == me:
                poller.sleep()
                _process_input(found)
    except BaseException as bug:  # a callback's SystemExit, too
        _crash(found, bug)
    finally:
        leadership.reader = None
        _leave(found, me, poller)


def _plan(found: ReferenceType[Connection]) -> bool:
    connection = found()
    if connection is not None:
        connection._plan()
    return connection is not None


def _process_input(found: ReferenceType[Connection]) -> None:
    connection = found()
    if connection is not None:
        connection._process_input()


def _crash(found: ReferenceType[Connection], bug: BaseException) -> None:
    connection = found()
    if connection is not None:
        with connection._lock:
            connection._crash(bug)


def _leave(found: ReferenceType[Connection], me: int, poller: Poller) -> None:
    connection = found()
    if connection is not None:
        connection._leave(me)
    else:
        poller.close()
