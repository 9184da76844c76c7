"""The commit of a transaction: its messages, sent until it is known what became of them. The script.

How it works: several messages are one atomic batch, and go out in one burst. One message alone is a plain publish,
which costs servers a hundredth of a batch. The first message has the transaction's id as its message id.

Rules:

* A lost answer is decided by the same messages, sent again as a new batch. Servers look for the message id first.
* So an acknowledgement says that all is stored now. A known id says that it was stored before.
* Every written key has an expected revision. So nothing is stored twice where a server has forgotten the id.
* What is refused as a conflict after a lost answer is looked for. A message that is found names all revisions.
* Nothing is in doubt where one of the keys has nothing new, or where the server has its memory still.
* A conflict with what is in flight is no answer after a lost one: the transaction itself may be in flight.
* One check of another key leaves none for the written one (``is_blind``). Then it is looked for, and never sent again.
* Where nobody leads the stream, the pauses grow. Nobody has taken anything then.

Not found: messages that a server was to store, and that others have overwritten since. An isolated leader of the past
may answer that nothing is new.

Not here: which messages (``transaction``), atomic batches (``publish.atomic``).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jsproto.api_errors import (
    AtomicPublishContainsDuplicateMessageError,
    AtomicPublishDisabledError,
    AtomicPublishIncompleteBatchError,
    AtomicPublishTooLargeBatchError,
    AtomicPublishTooManyInflightError,
    AtomicPublishUnsupportedHeaderBatchError,
    ClusterNotAvailError,
    StreamDuplicateMessageConflictError,
    StreamMessageExceedsMaximumError,
    StreamWrongLastSequenceConstantError,
    StreamWrongLastSequenceError,
)
from jsproto.backoff import Backoff
from jsproto.client.connection.pause import Pause
from jsproto.client.publish.atomic import MSG_IDS_SINCE
from jsproto.errors import (
    MAX_NAMED,
    APIError,
    BatchMessageError,
    ConnectionClosedError,
    Error,
    LocalProtocolError,
    MessageNotFoundError,
    NoRespondersError,
    PermissionsViolationError,
    TransactionsDisabledError,
    TransactionTooLargeError,
    TransactionUnknownError,
    UnsupportedByServerError,
)
from jsproto.grammar.batch import CheckedLines, batch_head, parse_batch_headers
from jsproto.grammar.bucket_config import BucketConfig
from jsproto.grammar.headers import FIRST_LINE, LINE_END, Headers, first_value
from jsproto.grammar.publish_headers import MSG_ID
from jsproto.rules.transaction import TransactionStep
from jsproto.ticket import Ticket

if TYPE_CHECKING:
    from jsproto.client.jetstream import JetStream
    from jsproto.grammar.acks import PubAck
    from jsproto.grammar.stored import StoredMsg

PATIENCE: Final = 30.0  # seconds in which a lost answer is decided. A cluster elects a leader in less
FIRST_PAUSE: Final = 0.05  # seconds
LONGEST_PAUSE: Final = 1.0
SEVERAL: Final = "a transaction over several keys"
_MSG_ID: Final = MSG_ID.encode()
_ROOM: Final = 64  # bytes, for what a batch adds to the headers of a message
_WINDOW: Final = 120.0  # seconds in which servers know message ids, unless the stream says otherwise

_S = TransactionStep
# Nobody has taken the messages, and may do so later.
_PASSES: Final = (
    NoRespondersError, StreamDuplicateMessageConflictError, AtomicPublishTooManyInflightError,
    AtomicPublishIncompleteBatchError, ClusterNotAvailError,
)  # fmt: skip
# The server, or this side, has refused them. Whatever else may have lost an answer.
_REFUSES: Final = (APIError, NoRespondersError, UnsupportedByServerError, LocalProtocolError)


class _Undecided(Error):
    """An answer that leaves open what became of the messages that were sent before."""


class TransactionMessage(NamedTuple):
    """One message of ``key``. ``target``: where it is published. ``subject``: under which the stream has it.

    ``lines``: its headers, each with its end. ``expected``: the last revision of ``subject`` before it, None where that
    is not checked.
    """

    key: str
    target: str
    subject: str
    value: bytes
    lines: bytes
    expected: int | None


class Commit:
    """The commit of one transaction, whose ``messages`` begin with those that write keys.

    Attribute: ``id``, which the first message has as its message id, and batches as the beginning of theirs.
    """

    __slots__ = ("_began", "_config", "_head", "_is_out", "_js", "_messages", "_server_id", "_step", "_timeout", "id")

    def __init__(
        self,
        js: JetStream,
        config: BucketConfig,
        messages: Sequence[TransactionMessage],
        step: Callable[[TransactionStep], None],
        timeout: float,
    ) -> None:
        """``step`` takes each step of the transaction. ``timeout``: seconds for an answer.

        Raises:
            TransactionTooLargeError: a message is larger than the server takes.
            UnsupportedByServerError: the server is too old for several messages.
        """
        self.id = js.session.draw().decode()
        self._head = len(batch_head(self.id)) + _ROOM  # bytes of headers besides those of the messages
        self._js = js
        self._config = config
        first = messages[0]
        named = first._replace(lines=b"%b%b: %b\r\n" % (first.lines, _MSG_ID, self.id.encode()))
        self._messages = [named, *messages[1:]]
        self._step = step
        self._timeout = timeout
        self._began = 0.0
        self._is_out = False  # what commits was sent
        self._server_id = ""
        self._check()

    def run(self, now: float) -> Generator[Ticket[Any], Any, int]:
        """Send the messages until it is known what became of them. Returns the revision of the first one.

        Raises:
            StreamWrongLastSequenceError: a key has another revision than expected.
            TransactionUnknownError: whether all is stored, or under which revisions, is unknown.
            TransactionsDisabledError, TransactionTooLargeError, APIError: the server refuses.
            NoStreamResponseError: nobody led the stream for ``timeout`` seconds.
        """
        session, backoff = self._js.session, Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        self._began = now
        self._server_id = "" if session.server is None else session.server.server_id
        lost: Error | None = None
        number = 0
        while True:
            number += 1
            try:
                if lost is None:
                    first = yield from self._send(number, is_batch=len(self._messages) > 1)
                elif session.is_connected:
                    first = yield from self._decide(number)
                else:
                    raise lost
            except StreamWrongLastSequenceError:
                self._step(_S.CHANGED)
                raise
            except TransactionUnknownError as error:
                self._step(_S.UNKNOWABLE)
                raise error from lost
            except Error as error:
                last = error
            else:
                self._step(_S.STORED)
                return first
            if lost is None and self._is_lost(last):
                lost = last
                self._step(_S.LOST)
            elif lost is None and not isinstance(last, _PASSES):
                self._step(_S.REFUSED)
                raise self._refusal(last) from last
            pause = backoff.failed(session.now) or 0.0
            if session.closed or session.now + pause > now + (self._timeout if lost is None else PATIENCE):
                self._step(_S.REFUSED if lost is None else _S.UNKNOWABLE)
                raise last if lost is None else TransactionUnknownError(self._config.bucket) from lost
            try:
                yield Pause(session, session.now + pause).over
            except Error:
                continue  # the session ends, which the next try will say

    def _decide(self, number: int) -> Generator[Ticket[Any], Any, int]:
        """Send the messages again, or look for them. Returns the revision of the first one.

        Raises:
            StreamWrongLastSequenceError: nothing is stored.
            TransactionUnknownError: nobody can tell.
            Error: this try has told nothing.
        """
        refused: Error | None = None
        is_batch = self._config.atomic
        if not self._is_blind:
            try:
                return (yield from self._send(number, is_batch=is_batch))
            except StreamWrongLastSequenceConstantError as error:
                raise _Undecided from error
            except APIError as error:
                if isinstance(error, _PASSES):
                    raise
                refused = error
        first, is_nothing_new = yield from self._find()
        if first is not None:
            return first
        if isinstance(refused, AtomicPublishContainsDuplicateMessageError):
            raise TransactionUnknownError(self._config.bucket, applied=True)
        if isinstance(refused, StreamWrongLastSequenceError) and (is_nothing_new or (is_batch and self._is_remembered)):
            raise refused
        raise TransactionUnknownError(self._config.bucket)

    def _send(self, number: int, *, is_batch: bool) -> Generator[Ticket[Any], Any, int]:
        """Send the messages, for the ``number``-th time. Returns the revision of the first one."""
        js, session, messages = self._js, self._js.session, self._messages
        self._is_out = False
        if not is_batch:
            _, target, _, value, lines, _ = messages[0]
            headers = Headers.parse(b"%b%b\r\n" % (FIRST_LINE, lines))
            asked = js.publish(target, value, now=session.now, timeout=self._timeout, headers=headers)
            self._is_out = True
            ack: PubAck = yield asked
            return ack.seq
        batch = js.atomic_batch(batch_id=f"{self.id}-{number}", ack_first=False, ack_timeout=self._timeout)
        try:
            for _, target, _, value, lines, _ in messages:
                if session.congested:
                    yield session.sendable()
                if batch.sequence + 1 < len(messages):
                    batch.add(target, value, CheckedLines(lines + LINE_END), now=session.now)
            asked = batch.commit(session.now, target, value, CheckedLines(lines + LINE_END))
            self._is_out = True
            ack = yield asked
        except Error as error:
            batch.discard(session.now)
            if isinstance(error, BatchMessageError) and isinstance(error.__cause__, Error):
                raise error.__cause__ from None  # the batch could go on, and this one does not
            raise
        return ack.seq + 1 - len(messages)

    def _find(self) -> Generator[Ticket[Any], Any, tuple[int | None, bool]]:
        """Look for a message of this transaction. Returns the revision of the first one, None where none is left.

        And whether one of the keys has nothing newer than expected, so that nothing was stored.
        """
        js, is_nothing_new = self._js, False
        for place, message in enumerate(self._messages):
            expected = message.expected
            if expected is None and place:
                break  # these are guards, which others overwrite first
            try:
                found: StoredMsg = yield js.get_msg(
                    self._config.stream.name, None if expected is None else expected + 1, subject=message.subject,
                    next=expected is not None, level="leader", now=js.session.now, timeout=self._timeout,
                )  # fmt: skip
            except MessageNotFoundError:
                is_nothing_new = True
                continue
            block = found.raw_headers
            batch = parse_batch_headers(block)
            if batch is not None and batch.batch_id.partition("-")[0] == self.id:
                return found.seq + 1 - batch.sequence, False
            if first_value(block, _MSG_ID) == self.id.encode():
                return found.seq - place, False
        return None, is_nothing_new

    @property
    def _is_blind(self) -> bool:
        """Whether the one message checks another key than the one that it writes."""
        return self._messages[0].expected is None

    @property
    def _is_remembered(self) -> bool:
        """Whether a message id that was stored is known still: the one server there is has lived all along."""
        session, window = self._js.session, self._config.stream.duplicate_window or _WINDOW
        server = session.server
        if server is None or server.cluster is not None or server.server_id != self._server_id:
            return False
        return session.now - self._began < window

    def _is_lost(self, error: Error) -> bool:
        """Whether the messages may be stored all the same."""
        if isinstance(error, PermissionsViolationError):
            return self._is_out and error.operation == "subscribe"
        return self._is_out and (isinstance(error, ConnectionClosedError) or not isinstance(error, _REFUSES))

    def _refusal(self, error: Error) -> Error:
        """What the caller is told."""
        bucket = self._config.bucket
        if isinstance(error, AtomicPublishDisabledError):
            return TransactionsDisabledError(bucket)
        if isinstance(error, AtomicPublishTooLargeBatchError):
            return TransactionTooLargeError(bucket, f"the server refuses the transaction: {error}")
        if isinstance(error, StreamMessageExceedsMaximumError):
            largest = max(self._messages, key=self._size)
            text = f"the server refuses the transaction, in which key {largest.key!r:.200} is the largest: {error}"
            return TransactionTooLargeError(bucket, text, [largest.key])
        if isinstance(error, AtomicPublishUnsupportedHeaderBatchError):
            return UnsupportedByServerError(SEVERAL, MSG_IDS_SINCE, None, str(error))
        return error

    def _check(self) -> None:
        """Refuse what the server would refuse, before anything is sent."""
        session, messages = self._js.session, self._messages
        server = session.server
        if len(messages) > 1 and server is not None and server.is_before(MSG_IDS_SINCE):
            raise UnsupportedByServerError(SEVERAL, MSG_IDS_SINCE, server.version)
        most, of_server = self._config.max_value_size, session.max_payload
        limit = of_server if most is None else min(most, of_server)
        head = self._head
        large = [each for each in messages if head + len(each.lines) + len(each.value) > limit]
        if large:
            named = [f"key {each.key!r:.100} has {self._size(each)} bytes with its headers" for each in large]
            what = "the server takes" if limit == of_server else "max_value_size is"
            text = f"{', '.join(named[:MAX_NAMED])}: {what} {limit}"
            raise TransactionTooLargeError(self._config.bucket, text, [each.key for each in large])

    def _size(self, message: TransactionMessage) -> int:
        """Bytes of a message with its headers, at most."""
        return self._head + len(message.lines) + len(message.value)
