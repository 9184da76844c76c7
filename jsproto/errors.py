"""Every error of the library. Who is to blame is in the type.

``LocalProtocolError``: the caller's mistake, raised at the call with nothing written and no state changed.
``RemoteProtocolError``: the peer broke the protocol. ``APIError``: a valid "no" of the server, with a subclass for
each known code (``jsproto.api_errors``). An unknown code stays ``APIError``. ``StatusError``: a "no" in a status line.
Receiving never raises any of them: they come in tickets, in events, or as why something ended.

Names are those that NATS users in Python know from nats-py, where it has one.
"""

from __future__ import annotations

import builtins
import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from jsproto.grammar.acks import PubAck

MAX_QUOTED = 256  # bytes of the offending input that an error keeps
MAX_NAMED = 5  # streams that a text lists by name


def _restore(kind: type[Error], args: tuple[object, ...]) -> Error:
    """Copy an error without its ``__init__``, whose arguments are not the ``args`` of the exception."""
    error = kind.__new__(kind)
    error.args = args  # OSError, among the bases, does not set them without its own __init__
    return error


class Error(Exception):
    """The root of every error of this library. Errors can be pickled and copied."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args), self.__dict__


# -- the protocol broken -----------------------------------------------------------------------------------------------


class ProtocolError(Error):
    """The protocol was broken, by one side or the other."""


class LocalProtocolError(ProtocolError):
    """The caller asked for something that cannot be. Nothing was written and no state has changed."""


class WrongTypeError(LocalProtocolError, TypeError):
    """A value of a wrong type, such as a text for a payload, or a keyword that a verb does not have."""


class BadSubjectError(LocalProtocolError):
    """A subject, queue group or name that would break the wire's frames."""


class BadHeaderError(LocalProtocolError):
    """A header name or value that would break the wire's frames."""


class MaxPayloadError(LocalProtocolError):
    """A message of ``size`` bytes, headers included, where the server takes ``limit``."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"the message has {size} bytes with its headers, the server takes at most {limit}")
        self.size = size
        self.limit = limit


class OutboundBufferLimitError(LocalProtocolError):
    """``pending`` bytes wait to be written already, more than the ``limit``."""

    def __init__(self, pending: int, limit: int) -> None:
        super().__init__(f"{pending} bytes wait to be written, the limit is {limit}: let them leave first")
        self.pending = pending
        self.limit = limit


class ConnectionClosedError(LocalProtocolError):
    """A verb on a connection, or a subscription, that has ended."""


class ForkedError(LocalProtocolError):
    """A verb, in a child process, on a connection that was made before the fork. It is the parent's: connect again."""


class BatchClosedError(LocalProtocolError):
    """A verb on a batch that was committed or abandoned."""


class BatchFullError(LocalProtocolError):
    """One message more than an atomic batch may have. ``limit`` is how many that is."""

    def __init__(self, limit: int, note: str = "") -> None:
        super().__init__(f"a batch has at most {limit} messages" + (f": {note}" if note else ""))
        self.limit = limit


class CredentialsError(LocalProtocolError):
    """Credentials that are unreadable or unusable. The text keeps their content secret."""


class SettingsError(LocalProtocolError):
    """A setting that is unusable. The text leaves secrets out.

    ``path``: the context of the NATS command line that has it, or None for a variable or an argument. ``field``: the
    name of the field, variable or argument, or None for the context as a whole.
    """

    def __init__(self, text: str, path: str | None = None, field: str | None = None) -> None:
        super().__init__(": ".join([*filter(None, (path, field)), text]))
        self.path = path
        self.field = field


class ContextNotFoundError(SettingsError):
    """The NATS command line lacks a context of this name."""


class BadTokenError(LocalProtocolError):
    """Bytes other than a session token."""


class RemoteProtocolError(ProtocolError):
    """The peer broke the protocol. ``data`` is the offending piece, cut to 256 bytes."""

    def __init__(self, message: str, data: bytes = b"") -> None:
        super().__init__(message)
        self.data = data[:MAX_QUOTED]


# -- no answer ---------------------------------------------------------------------------------------------------------


class TimeoutError(Error, builtins.TimeoutError):
    """The answer failed to come in time."""


class NoRespondersError(Error):
    """A request to ``subject`` found no subscriber. The server says so at once (status 503)."""

    explanation: ClassVar[str] = "nobody answers there"

    def __init__(self, subject: str, note: str = "") -> None:
        super().__init__(f"no responders for {subject}: {note or self.explanation}")
        self.subject = subject


class NoStreamResponseError(NoRespondersError):
    """No stream listens to the subject that was published to."""

    explanation = "no stream listens to this subject, or it has no leader now, or JetStream is off"


class JetStreamNotAvailableError(NoRespondersError):
    """Nobody answers the JetStream API."""

    explanation = "JetStream is not enabled on the server, or not for this account or domain"


# -- the connection ----------------------------------------------------------------------------------------------------


class NoServersError(Error, builtins.ConnectionError):
    """No server could be reached. ``attempts`` lists each address tried and why it failed."""

    def __init__(self, attempts: tuple[tuple[str, str], ...]) -> None:
        times = Counter(attempts)
        shown = [
            f"{url}: {reason}" + (f" ({count} times)" if count > 1 else "") for (url, reason), count in times.items()
        ]
        super().__init__("cannot connect: " + "; ".join(shown))
        self.attempts = attempts


class ConnectionLostError(Error, builtins.ConnectionError):
    """The connection ended by the server's doing, or the network's."""


class StaleConnectionError(ConnectionLostError):
    """The server left PINGs unanswered: the link is dead, and still open."""


class ServerError(ConnectionLostError):
    """The server said ``-ERR`` and closed the connection."""


class AuthorizationError(ServerError):
    """The server refused the credentials, or has stopped accepting them."""


class TLSError(ConnectionLostError):
    """The TLS handshake failed: one side refused the other's certificate, or the peer speaks something else."""


class TLSRequiredError(TLSError):
    """One side requires TLS, the other forbids it."""


class PermissionsViolationError(Error):
    """The server forbids this user to publish, or subscribe, to ``subject``. The message was dropped.

    ``operation``: "publish" or "subscribe". The text is the server's. Permissions hold for as long as a link, so every
    other message to ``subject`` on it was dropped as well.
    """

    def __init__(self, text: str, operation: Literal["publish", "subscribe"], subject: str) -> None:
        super().__init__(text)
        self.operation = operation
        self.subject = subject

    @staticmethod
    def from_text(text: str) -> PermissionsViolationError | None:
        """The violation that ``-ERR`` reports, or None for any other text."""
        found = _VIOLATION.match(text)
        if found is None:
            return None
        subject = re.sub(r"\\(.)", r"\1", found["subject"])
        return PermissionsViolationError(text, "publish" if found["verb"] == "Publish" else "subscribe", subject)


# The server quotes the subject as Go does.
_VIOLATION = re.compile(r'Permissions Violation for (?P<verb>Publish|Subscription) to "(?P<subject>(?:[^"\\]|\\.)*)"')


class UnsupportedByServerError(Error):
    """The server is too old for ``feature``: it needs version ``needed``. ``found`` is its own, or None if unknown."""

    def __init__(self, feature: str, needed: str, found: str | None, note: str = "") -> None:
        text = f"{feature} needs nats-server {needed}; the server is {found or 'of an unknown version'}"
        super().__init__(f"{text} ({note})" if note else text)
        self.feature = feature
        self.needed = needed
        self.found = found


class InternalError(Error):
    """This library has failed. What it was doing ends, and nothing else does. ``__cause__`` is the exception."""

    def __init__(self, what: str, cause: Exception) -> None:
        super().__init__(f"{what} has failed, please report it: {type(cause).__name__}: {cause}")
        self.__cause__ = cause


# -- messages ----------------------------------------------------------------------------------------------------------


class NotJSMessageError(Error):
    """The message comes from outside JetStream: its reply subject is something other than an ack subject (ADR-15)."""


class NotJSONError(Error, ValueError):
    """The payload of a message is malformed JSON. ``subject`` is the message's. The text leaves the payload out."""

    def __init__(self, subject: str, why: str) -> None:
        super().__init__(f"the message on {subject!r} is no JSON: {why}")
        self.subject = subject


# -- the server's "no" -------------------------------------------------------------------------------------------------


BY_ERR_CODE: dict[int, type[APIError]] = {}  # filled by ``api_errors``


class APIError(Error):
    """A JetStream API error: ``code`` (like HTTP), ``err_code`` (what exactly), ``description``.

    ``about``: what was asked about, such as "consumer C of stream S". Empty where that is not known.
    """

    code: int
    err_code: int
    description: str

    hint: ClassVar[str] = ""
    """Advice that goes beyond the server's text. It is part of ``str(error)``."""

    template: ClassVar[str] = ""
    """The description as the server's source has it, ``{names}`` for what it fills in, empty when it is fixed."""

    def __init__(self, code: int, err_code: int, description: str, about: str = "") -> None:
        hint = f"; {self.hint}" if self.hint else ""
        where = f": {about}" if about else ""
        super().__init__(f"{description}{where} (code {code}, err_code {err_code}){hint}")
        self.code = code
        self.err_code = err_code
        self.description = description
        self.about = about

    @property
    def details(self) -> dict[str, str]:
        """What the server filled into its text, by name: ``size`` for a batch that is too large, ``seq`` for a wrong
        last sequence. Empty when the text is a fixed one, or another than expected."""
        pieces = re.split(r"\{(\w+)\}", self.template)  # text, name, text, name, ..., text
        pattern = "".join(f"(?P<{piece}>.*)" if at % 2 else re.escape(piece) for at, piece in enumerate(pieces))
        found = re.fullmatch(pattern, self.description, re.DOTALL)
        return {} if found is None else found.groupdict()

    @staticmethod
    def from_fields(code: int, err_code: int, description: str, about: str = "") -> APIError:
        """The subclass for ``err_code``. APIError itself when the code is unknown."""
        return BY_ERR_CODE.get(err_code, APIError)(code, err_code, description, about)

    def __init_subclass__(cls, says: tuple[int, int, str] | None = None) -> None:
        """``says``: code, err_code and description of the server's "no" for which the subclass stands."""
        if says is not None:
            cls.code, cls.err_code, cls.description = says
            cls.__doc__ = "{}/{}: {}.".format(*says)
            cls.template = cls.description if "{" in cls.description else ""
            BY_ERR_CODE[cls.err_code] = cls


class StatusError(Error):
    """A status line of failure: ``code`` and ``description``.

    ``about``: what was asked about, such as "message 7 of stream S". Empty where that is not known.
    """

    code: int = 0

    def __init__(self, code: int, description: str, about: str = "") -> None:
        super().__init__(f"status {code} {description}".rstrip() + (f": {about}" if about else ""))
        self.code = code
        self.description = description
        self.about = about

    @staticmethod
    def from_status(code: int, description: str, about: str = "") -> StatusError:
        """The subclass for ``code``. StatusError itself for other codes."""
        return _BY_STATUS.get(code, StatusError)(code, description, about)


class MessageNotFoundError(StatusError):
    """404: nothing stored matches."""

    code = 404


class BadRequestError(StatusError):
    """408: the request is empty, malformed or contradicts itself."""

    code = 408


class RequiredApiLevelError(StatusError):
    """412: the server's API level is lower than the request demands."""

    code = 412


class TooManyResultsError(StatusError):
    """413: the request matches more subjects than the server answers at once."""

    code = 413


# -- what consumers say ------------------------------------------------------------------------------------------------


class BadPullError(StatusError):
    """400: the server does not understand the pull request."""

    code = 400


class ConflictError(StatusError):
    """409: the pull request conflicts with the consumer, or with what is going on at the server."""

    code = 409


class ConsumerDeletedError(ConflictError):
    """The consumer, or its stream, was deleted."""


class PushBasedError(ConflictError):
    """A pull request reached a push consumer."""


class PullLimitError(ConflictError):
    """The pull request asks for more than the consumer's ``max_batch``, ``max_expires`` or ``max_bytes``."""


class MessageSizeError(ConflictError):
    """The next message is larger than the ``max_bytes`` of the pull request."""


class MaxWaitingError(ConflictError):
    """More pull requests wait than the consumer's ``max_waiting``."""


class LeadershipChangedError(ConflictError):
    """Another server leads the consumer now."""


class ServerShutdownError(ConflictError):
    """The server that leads the consumer shuts down."""


class PinnedError(StatusError):
    """423: the consumer serves another client of the priority group, which is pinned."""

    code = 423


class ConsumerSilentError(TimeoutError):
    """A consumer was silent for too long: even the heartbeats that were asked for stayed away."""


class SourceBusyError(TimeoutError):
    """Another program sources from the consumer, and went on until the timeout. Attributes: the names."""

    def __init__(self, stream: str, consumer: str) -> None:
        super().__init__(f"consumer {consumer} of stream {stream} is sourced from by another program")
        self.stream = stream
        self.consumer = consumer


class SourcePositionError(Error):
    """A stream came back shorter than it was, so a sink's position means another message there.

    It was restored, its server has lost messages, or it was created again. It ends before the position, or has another
    message there, so its new messages would pass for what the sink has. They stay unacknowledged.

    What to do: copy to a new target, or with a new marker, which gets all that the stream has now. A sink of its own
    begins with the position of the last message that both have, or with 0.

    Attributes: ``stream``, ``position``, ``last_seq`` (of the stream).
    """

    def __init__(self, stream: str, position: int, last_seq: int) -> None:
        found = f"ends at {last_seq}" if last_seq < position else "has another message there"
        super().__init__(
            f"stream {stream} is not the one that was read up to {position}: it {found}, since it came back shorter. "
            "What is new in it is neither read nor acknowledged: begin with a new target, marker or position"
        )
        self.stream = stream
        self.position = position
        self.last_seq = last_seq


class SourceScheduleError(Error):
    """A schedule, which stands for messages that its stream will publish, holds back all acknowledgements after it.

    A work queue would delete it with them. The consumer waits for them before it delivers more.

    What to do: give the consumer filter subjects that leave schedules out. A copy needs a new target for that, or a
    new marker. Attributes: ``stream``, ``seq``, ``subject`` (of the schedule).
    """

    def __init__(self, stream: str, seq: int, subject: str) -> None:
        super().__init__(
            f"message {seq} of stream {stream} (subject {subject}) is a schedule, which an acknowledgement may delete: "
            "give the consumer filter_subjects that leave schedules out, and a copy a new target or marker"
        )
        self.stream = stream
        self.seq = seq
        self.subject = subject


class CopyTargetError(Error):
    """A stream is unfit as the target of a copy. Attributes: ``target`` (its name), ``reason``."""

    def __init__(self, target: str, reason: str) -> None:
        super().__init__(f"stream {target} cannot be copied to: {reason}")
        self.target = target
        self.reason = reason


class DeadLetterError(Error):
    """A stream is unfit for dead letters as asked for. Attributes: ``stream`` (the unfit one), ``reason``."""

    def __init__(self, stream: str, reason: str) -> None:
        super().__init__(f"stream {stream} does not do for dead letters: {reason}")
        self.stream = stream
        self.reason = reason


class CopyFencedError(Error):
    """Somebody else writes to the target of a copy, again and again. Attribute: ``target`` (its name)."""

    def __init__(self, target: str) -> None:
        super().__init__(f"another program writes to stream {target}, so the copy cannot know what it has")
        self.target = target


_BY_STATUS = {
    kind.code: kind for kind in (MessageNotFoundError, BadRequestError, RequiredApiLevelError, TooManyResultsError)
}


class StaleReadError(TimeoutError):
    """Each answer to a read was older, or possibly older, than what its session has written or read.

    Attributes: ``stream``, ``wanted`` (the sequence that an answer must reach), ``found`` (the highest sequence any
    server reported, or None).
    """

    def __init__(self, stream: str, wanted: int, found: int | None) -> None:
        answer = "nothing" if found is None else f"sequence {found}"
        super().__init__(
            f"stream {stream} must be read at sequence {wanted} or later, the best answer showed {answer}"
            " (a stream that was made anew or restored is to be forgotten by the session)"
        )
        self.stream = stream
        self.wanted = wanted
        self.found = found


# -- batches -----------------------------------------------------------------------------------------------------------


class BatchError(Error):
    """A batch ended before the acknowledgement that its sender wanted.

    Attributes: ``batch_id``, ``sequence`` (of the last message sent), ``acked`` (the highest acknowledged sequence),
    ``ack`` (the terminal acknowledgement, which counts what was stored, or None).
    """

    def __init__(self, message: str, *, batch_id: str, sequence: int, acked: int, ack: PubAck | None) -> None:
        super().__init__(message)
        self.batch_id = batch_id
        self.sequence = sequence
        self.acked = acked
        self.ack = ack


class BatchGapError(BatchError):
    """Messages ``first_missing`` to ``last_missing`` of the batch were lost."""

    def __init__(
        self, message: str, *, first_missing: int, last_missing: int, batch_id: str, sequence: int, acked: int,
        ack: PubAck | None,
    ) -> None:  # fmt: skip
        super().__init__(message, batch_id=batch_id, sequence=sequence, acked=acked, ack=ack)
        self.first_missing = first_missing
        self.last_missing = last_missing


class BatchMessageError(BatchError):
    """Message ``message_sequence`` of the batch was refused. The cause (``__cause__``) is the server's APIError."""

    def __init__(
        self, message: str, *, message_sequence: int, batch_id: str, sequence: int, acked: int, ack: PubAck | None
    ) -> None:
        super().__init__(message, batch_id=batch_id, sequence=sequence, acked=acked, ack=ack)
        self.message_sequence = message_sequence


class BatchTruncatedError(BatchError):
    """The server ended the batch with fewer messages stored than were sent, and left the reason out."""


class BatchExpiredError(BatchError):
    """The batch was silent for so long that the server has forgotten it."""


class BatchUnknownError(BatchError):
    """The server has forgotten the batch (it restarted, or waited too long)."""


class BatchLostError(BatchError):
    """The connection was lost with the batch open."""


class BatchStalledError(BatchError, TimeoutError):
    """The server's acknowledgements stayed away for too long."""


class AsyncPublishError(Error):
    """Messages that were published in bulk failed. ``failed`` is how many.

    ``failures``: pairs of a message, as it was given to ``publish_many``, and its error. One or more, in the order in
    which they failed. The cause (``__cause__``) is the first error.
    """

    def __init__(self, failures: Sequence[tuple[tuple[Any, ...], Error]]) -> None:
        (subject, *_), error = failures[0]
        super().__init__(f"messages without an acknowledgement: {len(failures)}; the first one, to {subject}: {error}")
        self.failed = len(failures)
        self.failures = failures


class IncompleteBatchError(Error):
    """A Direct Get batch broke off. Everything up to stream sequence ``last_seq`` was received."""

    def __init__(self, message: str, last_seq: int) -> None:
        super().__init__(f"{message} (received up to sequence {last_seq})")
        self.last_seq = last_seq


class MessagesDroppedError(Error):
    """A read was to begin at sequence ``wanted``, and the stream now begins at ``first_seq``: limits, or a purge."""

    def __init__(self, wanted: int, first_seq: int) -> None:
        several = first_seq - wanted > 1
        which = f"messages {wanted} to {first_seq - 1} are" if several else f"message {wanted} is"
        super().__init__(f"{which} not in the stream any more")
        self.wanted = wanted
        self.first_seq = first_seq


class MirrorAnswerError(Error):
    """A read of ``stream`` was answered by a mirror each time, and a mirror may hold a part of its origin.

    ``mirror``: the name of the mirror that answered last.
    """

    def __init__(self, stream: str, mirror: str) -> None:
        super().__init__(
            f"stream {stream} was asked, and only its mirror {mirror} answered, which may hold a part of it: read "
            f"{mirror} by its own name, or let {stream} answer (allow_direct)"
        )
        self.stream = stream
        self.mirror = mirror


class StreamRecreatedError(Error):
    """``stream`` was deleted and made anew while it was read: the messages received are of the old one.

    A consistent session goes on with the new one after ``forget(stream)``.
    """

    def __init__(self, stream: str) -> None:
        super().__init__(
            f"stream {stream} was deleted and made anew while it was read"
            f" (a consistent session goes on after forget({stream!r}))"
        )
        self.stream = stream


class StreamRolledBackError(Error):
    """``stream`` came back shorter than it was, as from a backup or a crash: its sequences mean other messages now.

    Message ``seq``, which was read or stored, has gone from it. A consistent session goes on with what there is after
    ``forget(stream)``.
    """

    def __init__(self, stream: str, seq: int) -> None:
        super().__init__(
            f"stream {stream} came back shorter than it was: its message {seq} is gone, or is another one"
            f" (a consistent session goes on after forget({stream!r}))"
        )
        self.stream = stream
        self.seq = seq


class SnapshotError(Error):
    """The state at sequence ``up_to_seq`` is lost, since a part of it was overwritten, or is beyond each replica that
    answered.
    """

    def __init__(self, message: str, up_to_seq: int) -> None:
        super().__init__(f"{message} (the snapshot is as of sequence {up_to_seq})")
        self.up_to_seq = up_to_seq


# -- buckets, then consumers -------------------------------------------------------------------------------------------


class BucketError(Error):
    """A verb of a bucket of keys and values failed. ``bucket`` is its name."""

    def __init__(self, bucket: str, text: str) -> None:
        super().__init__(f"bucket {bucket}: {text}")
        self.bucket = bucket


class BucketNotFoundError(BucketError):
    """There is no such bucket."""

    def __init__(self, bucket: str) -> None:
        super().__init__(bucket, "it does not exist")


class BucketExistsError(BucketError):
    """A bucket of that name exists, with another configuration."""

    def __init__(self, bucket: str, verb: str = "update_bucket") -> None:
        super().__init__(bucket, f"it exists with another configuration: bind to it, or change it by {verb}")


class BadBucketError(BucketError):
    """The stream of that name is no bucket. ``field`` of its configuration says so."""

    def __init__(self, bucket: str, field: str, value: object) -> None:
        super().__init__(bucket, f"its stream is no bucket, because {field} is {value!r:.100}")
        self.field = field


class KeyNotFoundError(BucketError):
    """A key has no value. ``key`` is its name.

    ``revision``: the one that was asked for, or that of the marker. 0 without either.
    """

    def __init__(self, bucket: str, key: str, text: str = "it has no value", revision: int = 0) -> None:
        super().__init__(bucket, f"key {key!r:.200}: {text}")
        self.key = key
        self.revision = revision


class KeyDeletedError(KeyNotFoundError):
    """A key was deleted, or has expired. ``operation`` of its marker is "DEL" or "PURGE"."""

    def __init__(self, bucket: str, key: str, operation: str, revision: int) -> None:
        super().__init__(bucket, key, f"revision {revision} deleted it ({operation})", revision)
        self.operation = operation


class KeyWrongLastSequenceError(BucketError):
    """A key has another revision than expected. ``revision``: the present one, None where the server does not tell.

    0 says that the key has neither a value nor a marker.
    """

    def __init__(self, bucket: str, key: str, revision: int | None, text: str = "") -> None:
        present = "is another one" if revision is None else f"is {revision}"
        super().__init__(bucket, f"key {key!r:.200}: " + (text or f"the last revision {present}"))
        self.key = key
        self.revision = revision


class KeyExistsError(KeyWrongLastSequenceError):
    """A key that was to be created has a value. ``revision`` is that of the value."""

    def __init__(self, bucket: str, key: str, revision: int) -> None:
        super().__init__(bucket, key, revision, f"it exists, with revision {revision}")


class TransactionConflictError(BucketError):
    """A key was changed by others while a transaction was at work. Nothing of it is stored.

    ``keys``: which keys, as far as is known. ``revision``: the present one of the first key that the server has checked
    in vain, None where it does not tell.
    """

    def __init__(self, bucket: str, keys: Sequence[str] = (), revision: int | None = None, note: str = "") -> None:
        more = f" and {len(keys) - MAX_NAMED} more" if len(keys) > MAX_NAMED else ""
        named = ", ".join(f"{key!r:.100}" for key in keys[:MAX_NAMED]) + more
        text = f"others have changed keys of the transaction ({named or 'which ones is unknown'})"
        super().__init__(bucket, f"{text}: {note}" if note else text)
        self.keys = tuple(keys)
        self.revision = revision


class TransactionUnknownError(BucketError):
    """Nobody can tell what became of a transaction. The cause (``__cause__``) is why its answer was lost.

    ``applied``: True, all of it is stored, and only its revisions are unknown. None: all of it is stored, or nothing.
    """

    def __init__(self, bucket: str, applied: Literal[True] | None = None) -> None:
        known = "the transaction is stored, under unknown revisions: others have written each of its keys since"
        super().__init__(bucket, known if applied else "whether the transaction is stored is unknown: look at its keys")
        self.applied = applied


class ValueTooLargeError(BucketError):
    """A value has ``size`` bytes with its headers, more than the bucket's ``max_value_size``. Nothing was stored.

    ``key``: its name, or a lock's. ``limit``: bytes, None where the server does not tell.
    """

    def __init__(self, bucket: str, key: str, size: int, limit: int | None) -> None:
        super().__init__(
            bucket,
            f"key {key!r:.200}: the value has {size} bytes with its headers, max_value_size is "
            f"{'unknown' if limit is None else limit}: raise it with update_bucket({bucket!r}, max_value_size=...)",
        )
        self.key = key
        self.size = size
        self.limit = limit


class DirectReadsDisabledError(BucketError, NoRespondersError):
    """The bucket allows no Direct Get, which reads of several keys need. ``subject``: where it was asked for."""

    def __init__(self, bucket: str, subject: str) -> None:
        text = f"it allows no Direct Get: switch it on with update_bucket({bucket!r}, direct=True)"
        Error.__init__(self, f"bucket {bucket}: {text}")
        self.bucket = bucket
        self.subject = subject


class TransactionTooLargeError(BucketError, LocalProtocolError):
    """A transaction is more than a server takes at once. Nothing of it is stored.

    ``keys``: those whose messages are too large. Empty: there are too many messages.
    """

    def __init__(self, bucket: str, text: str, keys: Sequence[str] = ()) -> None:
        super().__init__(bucket, text)
        self.keys = tuple(keys)


class TransactionsDisabledError(BucketError):
    """The bucket allows no transaction over several keys. Nothing of it is stored."""

    def __init__(self, bucket: str) -> None:
        text = "it allows no transactions over several keys: switch them on with update_bucket"
        super().__init__(bucket, f"{text}({bucket!r}, atomic=True)")


class LockLostError(BucketError):
    """A lock, or an election, is no longer the caller's: it has expired, or another one has it.

    ``token``: of its acquisition. What was to be written was not stored.
    """

    def __init__(self, bucket: str, name: str, token: int, kind: Literal["lock", "election"] = "lock") -> None:
        super().__init__(bucket, f"{kind} {name!r:.200} was lost: token {token} holds it no longer")
        self.name = name
        self.token = token


class LockTimeoutError(BucketError, TimeoutError):
    """A lock, or an election, was not acquired in time: another one has it, or no answer came.

    ``owner`` is what the other one said of itself. None: no answer came, as ``__cause__`` says. Then it may be held by
    nobody until its ``ttl`` has passed.
    """

    def __init__(self, bucket: str, name: str, owner: str | None, kind: Literal["lock", "election"] = "lock") -> None:
        why = "was not acquired in time: no answer came" if owner is None else "is another one's"
        super().__init__(bucket, f"{kind} {name!r:.200} {why}" + (f": {owner!r:.200}" if owner else ""))
        self.name = name
        self.owner = owner


class ObjectError(BucketError):
    """A verb of a bucket of objects failed. ``name`` is that of the object."""

    def __init__(self, bucket: str, name: str, text: str) -> None:
        super().__init__(bucket, f"object {name!r:.200}: {text}")
        self.name = name


class ObjectNotFoundError(ObjectError):
    """There is no object of this name. ``revision`` is that of the marker of a deleted one, 0 without one."""

    def __init__(self, bucket: str, name: str, revision: int = 0) -> None:
        super().__init__(bucket, name, f"revision {revision} deleted it" if revision else "it does not exist")
        self.revision = revision


class ObjectChangedError(ObjectError):
    """An object was replaced, or deleted, meanwhile. Or it is another one than expected.

    ``expected`` and ``found``: the puts of the two (``nuid``). ``found`` is empty where there is none.
    ``revision`` is that of the present description, 0 without one.
    """

    def __init__(self, bucket: str, name: str, expected: str, found: str, revision: int, text: str = "") -> None:
        present = f"replaced by {found}" if found else "deleted"
        super().__init__(bucket, name, text or f"put {expected} was {present} meanwhile")
        self.expected = expected
        self.found = found
        self.revision = revision


class ObjectExistsError(ObjectChangedError):
    """An object that was to be created exists."""

    def __init__(self, bucket: str, name: str, found: str, revision: int) -> None:
        super().__init__(bucket, name, "", found, revision, f"it exists, with revision {revision}")


class ObjectDamagedError(ObjectError):
    """What is stored of an object is not what was put: it is missing, doubled or altered."""


class DigestMismatchError(ObjectDamagedError):
    """The content of an object has another digest than its description. ``expected`` and ``found``: SHA-256."""

    def __init__(self, bucket: str, name: str, expected: bytes, found: bytes) -> None:
        super().__init__(bucket, name, f"its SHA-256 is {found.hex()}, and was {expected.hex()} when it was put")
        self.expected = expected
        self.found = found


class ObjectLinkError(ObjectError):
    """A link that cannot be followed, or cannot be made. ``link`` says where it leads."""

    def __init__(self, bucket: str, name: str, link: str, text: str) -> None:
        super().__init__(bucket, name, f"the link to {link:.200}: {text}")
        self.link = link


class ObjectChunksLeftError(ObjectError):
    """An object was not put, and chunks of it are left, or may be. The cause (``__cause__``) says why.

    ``nuid`` names the put. ``chunks``: how many are left, None if that is unknown. ``gc()`` removes them.
    """

    def __init__(self, bucket: str, name: str, nuid: str, chunks: int | None, why: str) -> None:
        left = f"chunks may be left of put {nuid}" if chunks is None else f"chunks left of put {nuid}: {chunks}"
        super().__init__(bucket, name, f"it was not put, because {why}; {left}")
        self.nuid = nuid
        self.chunks = chunks


class ObjectStoreFullError(ObjectError):
    """An object does not fit. ``max_bytes``: what the bucket takes, None if that is unknown."""

    def __init__(self, bucket: str, name: str, max_bytes: int | None, why: str) -> None:
        limit = "" if max_bytes is None else f" (max_bytes={max_bytes})"
        super().__init__(bucket, name, f"it does not fit, the bucket is full{limit}: {why}")
        self.max_bytes = max_bytes


class ObjectStoreSealedError(BucketError):
    """The bucket is sealed: nothing in it can change."""

    def __init__(self, bucket: str) -> None:
        super().__init__(bucket, "it is sealed")


class SubscribeError(Error):
    """A subscription conflicts with what the server has already (ADR-15)."""


class RetentionError(SubscribeError):
    """An ordered reading of ``stream`` would lose messages, because of its retention "interest".

    The server deletes what it has sent to a consumer of ack policy "none", even if that got lost (FACTS.md F5.43).
    """

    def __init__(self, stream: str) -> None:
        super().__init__(
            f"stream {stream} keeps only what consumers wait for (retention interest), so an ordered reading would lose"
            " messages with its link: take js.source(), which hands them on in order, or subscribe with a durable"
        )
        self.stream = stream


class NoMatchingStreamError(SubscribeError):
    """The stream of ``subject`` is ambiguous, or missing: ``streams`` has all that take it."""

    def __init__(self, subject: str, streams: Sequence[str]) -> None:
        more = f" and {len(streams) - MAX_NAMED} more" if len(streams) > MAX_NAMED else ""
        some = ", ".join(streams[:MAX_NAMED])
        found = f"several streams have it: {some}{more} (name one)" if streams else "no stream has it"
        super().__init__(f"no single stream for {subject!r}: {found}")
        self.subject = subject
        self.streams = tuple(streams)


class BindError(SubscribeError):
    """The consumer ``consumer`` of ``stream`` differs from what the subscription needs."""

    explanation: ClassVar[str] = "it does not fit"

    def __init__(self, stream: str, consumer: str, note: str = "") -> None:
        super().__init__(f"consumer {consumer} of stream {stream}: {self.explanation}" + (f" ({note})" if note else ""))
        self.stream = stream
        self.consumer = consumer


class DuplicateSubscriptionError(BindError):
    """Another subscriber has the consumer already, which serves a single one."""

    explanation = "it has a subscriber already"


class QueueRequiredError(BindError):
    """The consumer delivers to a queue group, and the caller left ``queue`` out."""

    explanation = "it is for a queue group"


class WrongQueueError(BindError):
    """The consumer delivers to another queue group."""

    explanation = "it is for another queue group"


class NoQueueError(BindError):
    """The caller gave ``queue``, and the consumer delivers to single subscribers."""

    explanation = "it is for no queue group"


class QueueHeartbeatError(BindError):
    """The consumer has idle heartbeats, which would go to any one member of a queue group."""

    explanation = "idle heartbeats do not work with a queue group"


class QueueFlowControlError(BindError):
    """The consumer has flow control, which would go to any one member of a queue group."""

    explanation = "flow control does not work with a queue group"


class FlowControlAckError(BindError):
    """The consumer is acknowledged by flow control, which is for streams that source, and for ``source()``."""

    explanation = "ack_policy 'flow_control' is for streams that source, and for source(), not for subscriptions"


class PullConsumerError(BindError):
    """It is a pull consumer: ``pull_subscribe`` is for those."""

    explanation = "it is pulled from, and delivers nothing by itself"


class PushConsumerError(BindError):
    """It is a push consumer: ``subscribe`` is for those."""

    explanation = "it delivers by itself, and cannot be pulled from"


class ConfigMismatchError(BindError):
    """The consumer is configured otherwise than asked for. ``fields`` are the fields that differ.

    A subscription leaves consumers as they are: ``update_consumer`` changes them.
    """

    explanation = "it is configured otherwise"

    def __init__(self, stream: str, consumer: str, fields: Sequence[str], note: str = "") -> None:
        super().__init__(stream, consumer, note or ", ".join(fields))
        self.fields = tuple(fields)


class FilterMismatchError(ConfigMismatchError):
    """The consumer filters other subjects than the one subscribed to."""

    explanation = "it filters other subjects"
