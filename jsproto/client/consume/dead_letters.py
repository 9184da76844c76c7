"""Dead letters: the messages that a consumer gave up, stored in a stream of their own.

Servers publish an advisory for each message that a consumer gave up. An advisory is lost unless somebody listens, so a
stream keeps them. A durable consumer of that stream delivers them to the program at work.

Rules:

* A dead letter has the payload and the headers of its message, and says why it was given up (``DEAD_LETTER_*``).
* Headers that begin with ``Nats-`` are instructions to servers. Their names get ``Original-`` before them.
* A message that is gone, or too large with these headers, is a dead letter without payload that says so.
* The message of that sequence is the right one only if it was stored before the advisory.
* The last message of the dead letter's subject is looked at first. The server stores the letter only if that one is the
  last one still (``Nats-Expected-Last-Subject-Sequence``). So a letter with a subject of its own is stored once.
* The message id is made of stream, consumer, sequence and the creation time of the stream.

Not here: who takes the advisories, and repeats what failed (``work``, and the drivers). Messages whose advisory was
lost (``sweep``).
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final

from jsproto._event import event
from jsproto.api_errors import (
    ConsumerNotFoundError,
    StreamNotFoundError,
    StreamWrongLastSequenceError,
)
from jsproto.errors import (
    BadSubjectError,
    DeadLetterError,
    LocalProtocolError,
    MaxPayloadError,
    MessageNotFoundError,
    RemoteProtocolError,
)
from jsproto.events import UnexpectedMessage
from jsproto.grammar.advisory import MessageGivenUp, given_up_subjects, parse_given_up
from jsproto.grammar.config import StreamConfig, StreamInfo
from jsproto.grammar.consumer import ConsumerConfig, ConsumerInfo
from jsproto.grammar.headers import Headers
from jsproto.grammar.publish_headers import MSG_ID
from jsproto.grammar.stored import StoredMsg
from jsproto.grammar.subjects import check_name, check_subject, contains, has_wildcards
from jsproto.grammar.times import format_timestamp
from jsproto.ticket import Ticket

if TYPE_CHECKING:
    from jsproto.client.jetstream import JetStream
    from jsproto.grammar.acks import PubAck

PREFIX: Final = "Dead-Letter-"
STREAM: Final = PREFIX + "Stream"
CONSUMER: Final = PREFIX + "Consumer"
SEQUENCE: Final = PREFIX + "Sequence"
SUBJECT: Final = PREFIX + "Subject"
"""The subject of the message. It is not there when the message was gone."""
DELIVERIES: Final = PREFIX + "Deliveries"
REASON: Final = PREFIX + "Reason"
"""``max_deliver`` or ``terminated``, or ``unacknowledged`` where no advisory came."""
NOTE: Final = PREFIX + "Note"
"""The reason that a client gave with ``term``, if it did."""
TIME: Final = PREFIX + "Time"
"""When the server gave the message up, as RFC 3339 writes it. Only an advisory says that."""
ADVISORY: Final = PREFIX + "Advisory"
"""The id of the advisory."""
MISSING: Final = PREFIX + "Missing"
"""Why payload and headers are not there: ``gone`` or ``too large``."""

UNACKNOWLEDGED: Final = "unacknowledged"
"""The reason of a letter without an advisory: its consumer has passed the message, and nobody acknowledged it."""

SWEPT: Final = "swept."
"""Before the name of a consumer: the metadata of the advisories' consumer that say how far it was swept."""

FIELDS: Final = ("stream", "consumer", "seq", "subject")
"""What a template for subjects may have in braces."""

_ORIGINAL: Final = "Original-"
_FIELD: Final = re.compile(r"\{([^{}]*)\}")
_FENCES: Final = 5  # attempts against others who write to the same subject


@event
class DeadLetterSpec:
    """Which dead letters are kept, and where.

    ``consumer``: None for all consumers of ``stream``. ``to``: the stream of the dead letters. ``subject``: a template
    for their subjects, with the ``FIELDS`` in braces. None: it follows from the subjects of ``to``. ``advisories``: the
    stream of the advisories, which is created where it is missing. None: the one that takes them, or else a new one.
    """

    stream: str
    consumer: str | None
    to: str
    subject: str | None
    advisories: str | None

    def check(self) -> None:
        """Raise LocalProtocolError for impossible values."""
        check_name(self.stream)
        check_name(self.to)
        if self.consumer is not None:
            check_name(self.consumer, "consumer")
        if self.advisories is not None:
            check_name(self.advisories)
        if self.to == self.stream:
            raise LocalProtocolError(f"dead letters of {self.stream} would go to {self.to} itself: give another stream")
        if self.subject is not None:
            check_subject(_fill(self.subject, dict.fromkeys(FIELDS, "x")))


@event
class DeadLetterPlan:
    """How the dead letters are kept: ``subject`` is the template, ``info`` the consumer of the advisories.

    ``is_kept_apart``: each letter has a subject of its own, and stays. So its absence says that it was never stored.
    """

    spec: DeadLetterSpec
    subject: str
    info: ConsumerInfo
    is_kept_apart: bool


@event
class DeadLetter:
    """What becomes a dead letter.

    ``origin`` tells the stream from others of its name. ``message``: None if it is gone. ``told``: what the advisory
    says, or None.
    """

    stream: str
    consumer: str
    seq: int
    origin: str
    message: StoredMsg | None
    told: MessageGivenUp | None

    @property
    def msg_id(self) -> str:
        """The message id of the letter."""
        return f"dead-letter:{self.stream}:{self.consumer}:{self.seq}:{self.origin}"


def open_dead_letters(
    js: JetStream, spec: DeadLetterSpec, now: float, timeout: float | None
) -> Generator[Ticket[Any], Any, DeadLetterPlan]:
    """Check both streams, find or create the stream of the advisories, and its consumer.

    Raises:
        DeadLetterError: one of the streams does not fit.
        StreamNotFoundError: one of both streams does not exist.
        APIError: the server refuses.
    """
    source: StreamInfo = yield js.stream_info(spec.stream, now=now, timeout=timeout)
    target: StreamInfo = yield js.stream_info(spec.to, now=now, timeout=timeout)
    subject = _subject(spec, source.config, target.config)
    advisories = yield from _advisories(js, spec, source.config, now, timeout)
    name = "-".join(["dead-letters", spec.stream, *([] if spec.consumer is None else [spec.consumer]), "to", spec.to])
    config = ConsumerConfig(
        name=name, durable_name=name, ack_policy="explicit",
        filter_subjects=given_up_subjects(spec.stream, spec.consumer),
    )  # fmt: skip
    try:
        info: ConsumerInfo | None = yield js.consumer_info(advisories, name, now=now, timeout=timeout)
    except ConsumerNotFoundError:
        info = None
    if info is None or set(info.config.filters) != set(config.filters):
        info = yield js.create_consumer(advisories, config, now=now, timeout=timeout)
    is_kept_apart = target.config.retention == "limits" and {"stream", "seq"} <= set(_FIELD.findall(subject))
    return DeadLetterPlan(spec, subject, info, is_kept_apart)


def bury(
    js: JetStream, plan: DeadLetterPlan, advisory: bytes, now: float, timeout: float | None
) -> Generator[Ticket[Any], Any, PubAck | None]:
    """Store the dead letter of this advisory. None: it is stored already, or the advisory is none.

    Raises:
        APIError: a server refuses.
        DeadLetterError: others write to the subject, again and again.
    """
    try:
        told = parse_given_up(advisory)
    except RemoteProtocolError as error:
        js.session.emit(UnexpectedMessage(plan.info.stream_name, str(error)))
        return None
    message, origin = yield from _find(js, told, now, timeout)
    letter = DeadLetter(told.stream, told.consumer, told.seq, origin, message, told)
    return (yield from store_letter(js, plan, letter, now, timeout))


def _find(
    js: JetStream, told: MessageGivenUp, now: float, timeout: float | None
) -> Generator[Ticket[Any], Any, tuple[StoredMsg | None, str]]:
    """The message, or None if it is gone, and what tells its stream from others of that name."""
    origin = told.id
    try:
        info: StreamInfo = yield js.stream_info(told.stream, now=now, timeout=timeout)
        if info.created is None or info.created > told.timestamp:
            return None, origin
        origin = str(info.created)
        message: StoredMsg = yield js.get_msg(told.stream, told.seq, level="leader", now=now, timeout=timeout)
    except (StreamNotFoundError, MessageNotFoundError):
        return None, origin
    return (message if message.timestamp <= told.timestamp else None), origin


def store_letter(
    js: JetStream, plan: DeadLetterPlan, letter: DeadLetter, now: float, timeout: float | None
) -> Generator[Ticket[Any], Any, PubAck | None]:
    """Store a dead letter, and leave the payload out where it is too large. None: it is stored already. Raises as
    ``bury``.
    """
    try:
        ack: PubAck | None = yield from _store(js, plan, letter, now, timeout)
    except MaxPayloadError:
        ack = yield from _store(js, plan, letter, now, timeout, missing="too large")
    return ack


def _store(
    js: JetStream, plan: DeadLetterPlan, letter: DeadLetter, now: float, timeout: float | None, *, missing: str = "gone"
) -> Generator[Ticket[Any], Any, PubAck | None]:
    to, message, told = plan.spec.to, letter.message, letter.told
    original = "gone" if message is None else message.subject
    whole = message if missing == "gone" else None
    subject = _fill(
        plan.subject,
        {"stream": letter.stream, "consumer": letter.consumer, "seq": str(letter.seq), "subject": original},
    )
    headers = _headers(letter, whole, missing)
    msg_id = letter.msg_id
    for _ in range(_FENCES):
        last_seq = 0
        try:
            last: StoredMsg = yield js.get_last_msg(to, subject, level="leader", now=now, timeout=timeout)
            if told and last.headers.get(ADVISORY) == told.id:
                return None
            if last.headers.get(MSG_ID) == letter.msg_id and message is not None and message.timestamp > last.timestamp:
                msg_id = (
                    f"{letter.msg_id}:{message.timestamp}"  # that one is of the message which had the sequence before
                )
            elif (last.headers.get(MSG_ID) or "").startswith(letter.msg_id):
                return None
            last_seq = last.seq
        except MessageNotFoundError:
            pass
        try:
            ack: PubAck = yield js.publish(
                subject, b"" if whole is None else whole.data, headers=headers, msg_id=msg_id,
                expected_stream=to, expected_last_subject_seq=last_seq, now=now, timeout=timeout,
            )  # fmt: skip
        except StreamWrongLastSequenceError:
            continue
        return ack
    raise DeadLetterError(to, f"others write to {subject}, so it cannot be known whether the dead letter is stored")


def _headers(letter: DeadLetter, whole: StoredMsg | None, missing: str) -> Headers:
    """The headers of the message, and those of the dead letter."""
    kept = [] if whole is None else whole.headers.items()
    own = [(STREAM, letter.stream), (CONSUMER, letter.consumer), (SEQUENCE, str(letter.seq))]
    if letter.message is not None:
        own.append((SUBJECT, letter.message.subject))
    own += [(REASON, UNACKNOWLEDGED)] if letter.told is None else _advised(letter.told)
    if whole is None:
        own.append((MISSING, missing))
    renamed = [(_ORIGINAL + name if name.startswith(("Nats-", PREFIX)) else name, value) for name, value in kept]
    return Headers([*renamed, *own])


def _advised(told: MessageGivenUp) -> list[tuple[str, str]]:
    """What the advisory says, as headers."""
    note = " ".join((told.note or "").split()).replace("\0", " ")
    return [
        (DELIVERIES, str(told.deliveries)),
        (REASON, told.reason),
        *([(NOTE, note)] if note else []),
        (TIME, format_timestamp(told.timestamp)),
        (ADVISORY, told.id),
    ]


# -- how it is opened --------------------------------------------------------------------------------------------------


def _fill(template: Any, values: dict[str, str]) -> str:
    """The subject. LocalProtocolError for unknown braces."""
    text = template if isinstance(template, str) else "{}"
    filled = _FIELD.sub(lambda found: values.get(found[1], found[0]), text)
    if "{" in _FIELD.sub("", text) or not values.keys() >= set(_FIELD.findall(text)):
        known = ", ".join(f"{{{name}}}" for name in FIELDS)
        raise LocalProtocolError(f"the subject of dead letters may have {known} in braces, not {template!r:.200}")
    return filled


def _subject(spec: DeadLetterSpec, source: StreamConfig, target: StreamConfig) -> str:
    """The template of the subjects, which the target takes."""
    taken = target.subjects or [target.name]
    if target.mirror is not None:
        raise DeadLetterError(target.name, "it is a mirror, which takes no message")
    template = spec.subject
    if template is None:
        first = taken[0]
        template = f"{first[:-1]}{{stream}}.{{consumer}}.{{seq}}" if first.endswith(".>") else first
        if has_wildcards(template):
            raise DeadLetterError(target.name, f"it takes {first} first: give subject= for the subject of its letters")
    for pattern in [*(source.subjects or [source.name]), "gone"]:
        names = {"stream": spec.stream, "consumer": spec.consumer or "*", "seq": "*", "subject": pattern}
        try:
            wanted = check_subject(_fill(template, names), wildcards=True).decode()
        except BadSubjectError as error:
            raise DeadLetterError(target.name, f"{template} is no subject: {error}") from None
        if not any(contains(each, wanted) for each in taken):
            text = f"it takes {', '.join(taken)}, not {wanted}: give it a subject that ends with .>, or give subject="
            raise DeadLetterError(target.name, text)
    return template


def _advisories(
    js: JetStream, spec: DeadLetterSpec, source: StreamConfig, now: float, timeout: float | None
) -> Generator[Ticket[Any], Any, str]:
    """The name of the stream that keeps the advisories."""
    wanted = given_up_subjects(spec.stream)
    found: list[str] = []
    for subject in wanted:
        names: list[str] = yield js.stream_names(subject, now=now, timeout=timeout)
        found += [name for name in names if name not in found]
    if not found:
        config = StreamConfig(
            spec.advisories or f"{spec.stream}-GIVEN-UP", subjects=wanted, retention="interest",
            storage="memory" if source.storage == "memory" else "file", num_replicas=source.num_replicas,
            description=f"what consumers of {spec.stream} gave up, for dead letters",
        )  # fmt: skip
        yield js.create_stream(config, now=now, timeout=timeout)
        return config.name
    name = spec.advisories or found[0]
    info: StreamInfo = yield js.stream_info(name, now=now, timeout=timeout)
    for subject in given_up_subjects(spec.stream, spec.consumer):
        if not any(contains(each, subject) for each in info.config.subjects or [name]):
            others = ", ".join(found)
            raise DeadLetterError(name, f"it does not take {subject}. Streams that take such advisories: {others}")
    return name
