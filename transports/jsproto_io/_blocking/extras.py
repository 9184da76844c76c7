"""The parts of the facade for threads that differ from the other facade. Each facade has them written by hand.

Rules
 * The names are those of ``_aio.extras``.
 * A loop over messages is a generator: to resume it is cheaper than a call for each message (benchmark row direct-get).
 * A callback runs in a thread of its own, one message at a time, in order.

Not here: the rest of the facade, which is generated from ``_aio``.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from jsproto.errors import ConnectionClosedError, Error, WrongTypeError
from jsproto.grammar.columns import MessageColumns
from jsproto.grammar.stored import StoredMsg
from jsproto_io._blocking.consuming import JSMsg
from jsproto_io._blocking.taking import Iterates, Served, Takes
from jsproto_io._state.common import OutgoingMessage
from jsproto_io._state.shared import BatchReaderBase
from jsproto_io._state.subscribing import PushSubscriptionBase

if TYPE_CHECKING:
    from jsproto_io._blocking.connection import Connection

A = TypeVar("A")
T = TypeVar("T")

Messages: TypeAlias = Iterable[OutgoingMessage]
MessageCallback: TypeAlias = Callable[[JSMsg], object]


def collect_messages(messages: Messages, most: int | None) -> Sequence[OutgoingMessage]:
    """The messages as a sequence. Of an iterable, one more than ``most`` at the most: an excess shows."""
    if isinstance(messages, MessageColumns):
        return messages
    return list(messages if most is None else islice(messages, max(most, 0) + 1))


def call_back(callback: Callable[[T], object], argument: T) -> None:
    """Call ``callback`` with ``argument``."""
    callback(argument)


def call_function(fn: Callable[[A], T], argument: A) -> T:
    """What ``fn`` returns. WrongTypeError if it is an async function."""
    done = fn(argument)
    if inspect.iscoroutine(done):
        done.close()
        raise WrongTypeError(f"here a function is a plain one: {fn!r:.100} is async, and nothing awaits it")
    return done


class BatchIterator(BatchReaderBase):
    """Iterates over the messages of a read."""

    _connection: Connection

    def __iter__(self) -> Iterator[StoredMsg]:
        taken = self._taken
        while True:
            while taken:
                try:
                    message = taken.popleft()
                except IndexError:  # another thread was quicker
                    break
                yield message
            if self._finished:
                return
            self._more()

    def __next__(self) -> StoredMsg:
        while True:
            try:
                return self._taken.popleft()
            except IndexError:
                if self._finished:
                    raise StopIteration from None
                self._more()

    def _more(self) -> None:
        """Take what was received, or wait for it."""
        readable = self._connection._call(self._take_ready)
        if readable is not None:
            self._connection._wait(readable)


class CallsBack(Served, Takes[Any]):
    """Calls a callback with the messages of a subscription."""

    _connection: Connection
    _thread: threading.Thread | None = None

    @property
    def _is_calling(self) -> bool:
        """Whether the present thread runs its callback."""
        return self._thread is threading.current_thread()

    def _serve(self, callback: Callable[[Any], object], *, acknowledge: bool = False) -> None:
        """Call ``callback`` with each message from now on."""
        self._begin_serving()
        wanted = acknowledge and self._core.acker.wants_acks
        self._thread = threading.Thread(target=self._run, args=(callback, wanted), name="jsproto-callback", daemon=True)
        self._thread.start()

    def _run(self, callback: Callable[[Any], object], acknowledge: bool) -> None:
        ended: BaseException | None = None
        session, taken = self._connection._session, self._taken
        try:
            while not (self._stopped or session.closed):
                message = taken.popleft() if taken else self._next(None)
                try:
                    callback(message)
                    if acknowledge:
                        message.ack()
                except BaseException as error:  # threading is silent about SystemExit
                    self._report_callback_error(error)
            ended = self._core.error
        except Error as error:
            ended = error
        except BaseException as error:  # raised by an event's callback, which this thread has called
            ended = error
            raise
        finally:
            if self._end_serving(ended):
                self._connection.close()


class PushIterator(CallsBack, PushSubscriptionBase, Iterates[JSMsg]):
    """Iterates over the messages of a subscription, or calls a callback with them."""

    _connection: Connection

    def __iter__(self) -> Iterator[JSMsg]:
        self._check_no_callback()
        return self._messages()

    def _messages(self) -> Iterator[JSMsg]:
        """A loop over the messages. To resume a generator is cheaper than a call of ``__next__`` (benchmark row
        ordered-push).
        """
        while True:
            try:
                message = self._taken.popleft()
            except IndexError:
                try:
                    message = self._next(None)
                except ConnectionClosedError:
                    return
            yield message
