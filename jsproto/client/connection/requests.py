"""Question and answer over one shared inbox: the request mux.

Rules:

* One subscription ``<inbox>.*`` serves all requests. The first request makes it.
* Each request gets an unguessable token of its own. So an answer that is late, double or forged for another request is
  dropped.
* A request may name another subject, which is asked in its place where nobody answers the first.
* A repeatable request that finds no responder is sent again, with the same token. Its time goes on. One that could not
  be repeated in time fails at once.
* So is a message whose id is in process: another link has sent it just now, and the server stores it once.
* A request ends once: with the decoded answer, with the error in it, with NoRespondersError, PermissionsViolationError
  or TimeoutError, or with why the link ended.

Not here: answers of many messages (``direct``, ``fast``), which have inboxes of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from jsproto.api_errors import StreamDuplicateMessageConflictError
from jsproto.errors import (
    Error,
    InternalError,
    LocalProtocolError,
    MaxPayloadError,
    NoRespondersError,
    PermissionsViolationError,
    TimeoutError,
    WrongTypeError,
)
from jsproto.events import ConversationFailed, MessageTooLarge, UnexpectedMessage
from jsproto.grammar.headers import HeadersLike, encode_headers, status_line
from jsproto.grammar.times import Duration, seconds, unchecked_seconds
from jsproto.outbox import Conversation
from jsproto.rules.status import NO_RESPONDERS
from jsproto.ticket import Ticket
from jsproto.timers import Deadlines, earliest
from jsproto.wire.frames import Msg

if TYPE_CHECKING:
    from jsproto.client.connection.session import Session

T = TypeVar("T")


class RetryPolicy(NamedTuple):
    """How often a request without a responder is sent again, -1 for until its time is over, and after how many seconds.

    The defaults are those of ADR-22.
    """

    attempts: int = 2
    wait: float = 0.25


NO_RETRY: Final = RetryPolicy(0)
DEFAULT_RETRY: Final = RetryPolicy()


def retry_policy(attempts: int | None, wait: Duration | None, default: RetryPolicy = DEFAULT_RETRY) -> RetryPolicy:
    """What ``retry_attempts`` and ``retry_wait`` say. None: as in ``default``.

    Raises:
        LocalProtocolError: ``attempts`` is no number of -1 or more, or ``wait`` is not more than 0 seconds.
    """
    if attempts is None and wait is None:
        return default
    if attempts is not None and (type(attempts) is not int or attempts < -1):
        raise LocalProtocolError(f"retry_attempts is 0 or more, or -1 for no limit, not {attempts!r:.100}")
    pause = seconds(wait, "retry_wait", default=default.wait)
    if not pause > 0:
        raise LocalProtocolError(f"retry_wait must be greater than 0 seconds, not {wait!r:.100}")
    return RetryPolicy(default.attempts if attempts is None else attempts, pause)


def is_no_responders(message: Msg) -> bool:
    """Whether this is the server's own answer to a subject that lacks a subscription: a bare status 503.

    A stored message may look like that, but what Direct Get delivers has a sequence.
    """
    if message.header is None or message.payload or b"\r\nNats-Sequence:" in message.header:
        return False
    try:
        status = status_line(message.header)
    except Error:
        return False
    return status is not None and status[0] == NO_RESPONDERS


class Question(NamedTuple):
    """What a request asks. The fields are arguments of ``Requests.request``."""

    subject: str
    payload: bytes
    decode: Callable[[Msg], Any]
    no_responders: Callable[[str], Error]


class _Request:
    """What is kept of one request under way."""

    __slots__ = (
        "block", "decode", "ends", "fallback", "left", "no_responders", "payload", "subject", "ticket", "timeout",
        "token", "wait",
    )  # fmt: skip

    def __init__(
        self,
        token: bytes,
        subject: str,
        timeout: float,
        ticket: Ticket[Any],
        decode: Callable[[Msg], Any],
        no_responders: Callable[[str], Error],
        fallback: Question | None,
        message: tuple[bytes, bytes | None],
        retry: RetryPolicy,
        now: float,
    ) -> None:
        self.payload, self.block = message
        self.left, self.wait = retry
        self.ends = now + timeout
        self.token = token
        self.subject = subject
        self.timeout = timeout
        self.ticket = ticket
        self.decode = decode
        self.no_responders = no_responders
        self.fallback = fallback


class Requests(Conversation):
    """All requests of one session.

    Attributes: ``last_message`` (which message of the session the last request was, by ``Session.published``).
    """

    __slots__ = (
        "_deadlines", "_draw", "_inbox", "_open", "_outbox", "_prefix", "_retries", "_sid", "_told",
        "last_message",
    )  # fmt: skip

    def __init__(self, outbox: Session, inbox: str, draw: Callable[[], bytes]) -> None:
        """``inbox``: the subject below which this session's answers arrive, unique to it. ``draw`` makes tokens."""
        self._outbox = outbox
        self._inbox = inbox
        self._prefix = f"{inbox}.".encode()
        self._sid: int | None = None
        self._draw = draw
        self._open: dict[bytes, _Request] = {}
        self.last_message = 0
        self._deadlines: Deadlines[bytes] = Deadlines()
        self._retries: Deadlines[bytes] = Deadlines()  # when what nobody has answered is sent again
        self._told: float | None = None  # the deadline that the session knows

    def __len__(self) -> int:
        return len(self._open)

    @property
    def is_busy(self) -> bool:
        """Whether answers are missing."""
        return bool(self._open)

    def request(
        self,
        subject: str,
        payload: bytes,
        *,
        timeout: Duration,
        now: float,
        decode: Callable[[Msg], T],
        headers: HeadersLike | None = None,
        no_responders: Callable[[str], Error] = NoRespondersError,
        fallback: Question | None = None,
        wildcards: bool = False,
        retry: RetryPolicy = NO_RETRY,
    ) -> Ticket[T]:
        """Ask ``subject``; the ticket takes ``decode(answer)``, or the Error that ``decode`` raises.

        * ``timeout``: seconds, or a timedelta. ``wildcards``: the subject may have some, and headers are left out.
        * ``no_responders``: makes the error for a subject that lacks a responder.
        * ``fallback``: what to ask then instead, for ``timeout`` seconds more.
        * ``retry``: how often a request to a literal subject is sent again before that.

        Raises, with nothing sent:
            LocalProtocolError: the subject, a header or the size is not allowed.
        """
        limit: Any = timeout
        try:
            ends = now + limit
        except TypeError:
            if unchecked_seconds(timeout) is timeout:  # which is no timedelta
                raise WrongTypeError(f"timeout is a number of seconds, or a timedelta, not {timeout!r:.100}") from None
            limit = seconds(timeout)
            ends = now + limit
        block = None if headers is None else encode_headers(headers)
        if self._sid is None:
            self._sid = self._outbox.subscribe(f"{self._inbox}.*", self)
        token = self._draw()
        if wildcards:
            self._outbox.publish_to_pattern(subject, payload, self._prefix + token, block)
        else:
            self._outbox.publish(subject, payload, self._prefix + token, block)
        self._outbox.flush()
        self.last_message = self._outbox.published
        ticket: Ticket[T] = Ticket()
        self._open[token] = _Request(
            token, subject, limit, ticket, decode, no_responders, fallback, (payload, block), retry, now
        )
        self._set_deadline(token, ends)
        return ticket

    def receive(self, message: Msg, now: float) -> None:
        """An answer."""
        token = message.subject[len(self._prefix) :]
        request = self._open.get(token)
        if request is None:
            self._outbox.emit(UnexpectedMessage(message.subject.decode("utf-8", "replace"), "no request waits for it"))
            return
        if message.header is not None and is_no_responders(message):
            if self._may_retry(request, now):
                return
            self._end_request(token)
            if request.fallback is None:
                self._fail(request, request.no_responders(request.subject))
            else:
                self._fall_back(request, request.fallback, now)
            return
        try:
            value = request.decode(message)
        except Error as error:
            if not (isinstance(error, StreamDuplicateMessageConflictError) and self._may_retry(request, now)):
                self._fail(self._end_request(token), error)
            return
        except Exception as bug:
            failed = InternalError(f"the answer from {request.subject}", bug)
            self._outbox.emit(ConversationFailed("Requests", failed))
            self._fail(self._end_request(token), failed)
            return
        self._end_request(token)
        request.ticket.succeed(value)
        self._outbox.completed(request.ticket)

    def handle_timeout(self, now: float) -> None:
        """Fail the requests whose time is over, and send those again that it is time for."""
        for token in self._deadlines.due(now):
            request = self._open.pop(token)
            self._fail(request, TimeoutError(f"no answer from {request.subject} within {request.timeout:g} s"))
        for token in self._retries.due(now):
            if (waiting := self._open.get(token)) is not None:  # else it has ended meanwhile
                self._retry(waiting)

    def deadline(self) -> float | None:
        """The earliest end of a request's time, or when one is sent again, if that is before it."""
        self._told = earliest((self._deadlines.next(), self._retries.next()))
        return self._told

    def denied(self, violation: PermissionsViolationError, now: float) -> None:
        """Fail the requests that were refused. Fail all of them when the inbox is forbidden."""
        if violation.operation == "subscribe":
            assert self._sid is not None  # it is the subscription in question
            self._outbox.unsubscribe(self._sid)
            self._sid = None  # the next request subscribes again
            self.link_lost(violation, now)
            return
        for token in [token for token, request in self._open.items() if request.subject == violation.subject]:
            self._fail(self._end_request(token), violation)

    def dropped(self, subject: bytes, reply: bytes | None, size: int, most: int) -> None:
        """A message that waited is larger than the ``most`` bytes that a server takes. A request with it has failed."""
        self._outbox.emit(MessageTooLarge(subject.decode("utf-8", "replace"), size, most))
        token = (reply or b"").removeprefix(self._prefix)
        if token in self._open:
            self._fail(self._end_request(token), MaxPayloadError(size, most))

    def link_lost(self, error: Error, now: float) -> None:
        """Fail all requests: their answers are lost with the link."""
        requests, self._open = self._open, {}
        self._deadlines, self._retries = Deadlines(), Deadlines()
        for request in requests.values():
            self._fail(request, error)

    def crashed(self, error: Error, now: float) -> None:
        """Fail all requests. The next one subscribes again."""
        self._sid = None
        self.link_lost(error, now)

    def _fall_back(self, request: _Request, fallback: Question, now: float) -> None:
        """Ask what ``fallback`` says. The ticket of ``request`` ends with what becomes of that."""
        token = self._draw()
        try:
            self._outbox.publish(fallback.subject, fallback.payload, self._prefix + token)
        except Error as error:
            self._fail(request, error)
            return
        self._outbox.flush()
        self._open[token] = _Request(
            token, fallback.subject, request.timeout, request.ticket, fallback.decode, fallback.no_responders, None,
            (fallback.payload, None), NO_RETRY, now,
        )  # fmt: skip
        self._set_deadline(token, now + request.timeout)

    def _set_deadline(self, token: bytes, when: float) -> None:
        self._deadlines.set(token, when)
        if self._told is None or when < self._told:  # else the session asks early enough
            self._outbox.rearm(self)

    def _end_request(self, token: bytes) -> _Request:
        self._deadlines.set(token, None)
        return self._open.pop(token)

    def _may_retry(self, request: _Request, now: float) -> bool:
        """Send a request that was not taken again after a pause, if it may be. Returns whether it may.

        Its answer then has as long to come, or nobody could tell a refusal from silence.
        """
        if not request.left or now + 2 * request.wait >= request.ends:
            return False
        request.left -= 1
        self._retries.set(request.token, now + request.wait)
        self._outbox.rearm(self)
        return True

    def _retry(self, request: _Request) -> None:
        try:
            self._outbox.publish(request.subject, request.payload, self._prefix + request.token, request.block)
        except Error as error:  # no room for it, for example
            self._end_request(request.token)
            self._fail(request, error)
            return
        self._outbox.flush()
        self.last_message = self._outbox.published

    def _fail(self, request: _Request, error: Error) -> None:
        request.ticket.fail(error)
        self._outbox.completed(request.ticket)
