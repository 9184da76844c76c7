"""What a stream checks before it stores a message: size, headers that expect something of the stream, message ids.

The checks have two orders, as in nats-server. ``check`` is for a message alone on a stream that stores it at once.
``Staged.check`` is for the members of batches, and for messages that wait, under what the batch and all that waits will
have changed before they are stored.

Rules (FACTS.md F1, F2)
 * A failed check raises APIError.
 * A duplicate is no error. It is not stored.
 * A malformed number matches no sequence.

Not here: whether batches are allowed, sequences inside a batch.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections import Counter as Counts
from collections.abc import Sequence
from typing import Final, NamedTuple

from jsproto.grammar.decimals import MAX_DIGITS
from jsproto.grammar.headers import without
from jsproto.grammar.publish_headers import (
    EXPECTED_LAST_MSG_ID,
    EXPECTED_LAST_SEQUENCE,
    EXPECTED_LAST_SUBJECT_SEQUENCE,
    EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT,
    EXPECTED_STREAM,
    MSG_ID,
    REQUIRED_API_LEVEL,
    SCHEDULE,
    TTL,
    time_to_live,
)
from jsproto.server.publish.counters import Counter, check_increment, counted, counter_of
from jsproto.server.publish.schedule_headers import check_schedule
from jsproto.server.store.refusals import refusal
from jsproto.server.store.stream import MAX_SEQUENCE, STREAM_SOURCE, Publication, Stream

MAX_HEADER: Final = 65_535
"""Bytes of a header block: servers keep its length in 16 bits."""

_SOURCE_REFUSED_SINCE: Final = (2, 15, 0)
_RIGHT_SINCE: Final = (2, 14, 4)  # what batches expect of subjects that they name
_NEVER: Final = -1
_LEVEL: Final = re.compile(rb"[+-]?[0-9]{1,18}")


class Checked(NamedTuple):
    """A message that a stream takes, as it is stored.

    ``original``: the sequence of the message of which it is a duplicate, 0 when that is staged too. None: it is none.
    ``value``: of its counter. None: the stream does not count.
    """

    message: Publication
    original: int | None = None
    value: str | None = None


def check_size(stream: Stream, message: Publication) -> None:
    """Raises: APIError (10054): the message is larger than the stream allows."""
    limit = -1 if stream.config.max_msg_size is None else stream.config.max_msg_size
    if 0 <= limit < len(message.header or b"") + len(message.payload):
        raise refusal(10054)


def check_account(stream: Stream, size: int) -> None:
    """Raises: APIError (10002): the streams of the account have no room for ``size`` bytes. The first message has."""
    context, storage = stream.context, stream.config.storage
    most = context.account_limits.most_bytes(storage)
    if context.has_stored and 0 <= most < context.used(storage) + size:
        raise refusal(10002)


def check_open(stream: Stream) -> None:
    """Raises: APIError (10109): the stream is sealed."""
    if stream.config.sealed:
        raise refusal(10109)


def check_level(message: Publication, api_level: int) -> Publication:
    """The message without the header with the API level that it requires.

    Raises: APIError (10185): it requires more than ``api_level``.
    """
    level = message.value(REQUIRED_API_LEVEL)
    if message.header is None or not level:
        return message
    if _LEVEL.fullmatch(level) is None or int(level) > api_level:
        raise refusal(10185)
    return Publication(message.subject, without(message.header, REQUIRED_API_LEVEL.encode()), message.payload)


def check(stream: Stream, message: Publication, now: float) -> Checked:
    """Check a message that belongs to no batch. ``now``: seconds.

    Raises: APIError: the stream does not take it.
    """
    check_open(stream)
    check_size(stream, message)
    if message.header is None and not stream.config.allow_msg_counter:  # it asks for nothing
        if stream.is_wanted(message.subject):
            check_account(stream, stream.size(message))
        return Checked(message)
    check_increment(stream, message)
    _check_stream_name(stream, message)
    _check_ttl(stream, message)
    _check_subject_sequence(stream, message)
    expected = _number(message, EXPECTED_LAST_SEQUENCE)
    if expected not in (None, stream.last_seq):
        raise refusal(10071, stream.last_seq)
    message = check_schedule(stream, message, now)
    _check_source(stream, message)
    msg_id = message.value(MSG_ID)
    if msg_id and (original := stream.duplicate_of(msg_id, now)) is not None:
        return Checked(message, original)
    check_last_msg_id(stream, message)
    _check_header_size(message)
    _check_rollup(stream, message)
    value = None
    if stream.config.allow_msg_counter:
        message, counter = counted(counter_of(stream, message.subject), message)
        value = str(counter.value)
        check_size(stream, message)
    if stream.is_wanted(message.subject):
        check_account(stream, stream.size(message))
        check_lifetime(message)
    return Checked(message, None, value)


def check_copy(stream: Stream, message: Publication, now: float) -> Publication | None:
    """Check a copy that a source makes. Returns it as it is stored. None: its message id is known already.

    Raises: APIError: the stream does not take it.
    """
    check_open(stream)
    msg_id = message.value(MSG_ID)
    if msg_id and stream.duplicate_of(msg_id, now) is not None:
        return None
    if stream.config.allow_msg_counter:
        message, _ = counted(counter_of(stream, message.subject), message)
    check_size(stream, message)
    _check_header_size(message)
    return message


class Staged:
    """What a batch will have changed: the running sequence, ids, counters and subjects of its members, their size."""

    __slots__ = (
        "_bytes", "_counters", "_guards", "_ids", "_schedules", "_sequence", "_stream", "_subjects", "_waiting",
        "_wanted",
    )  # fmt: skip

    def __init__(self, stream: Stream, waiting: Sequence[Staged] = ()) -> None:
        """``waiting``: what was accepted before and is not stored yet, oldest first."""
        self._stream = stream
        self._waiting = waiting
        self._sequence = stream.last_seq + sum(before.count for before in waiting)
        self._ids: set[bytes] = set()
        self._subjects: Counts[bytes] = Counts()
        self._wanted: set[bytes] = set()  # subjects of which members expect something
        self._guards: list[int] = []  # the last sequences of those that members name
        self._counters: dict[bytes, Counter] = {}
        self._schedules: ChainMap[bytes, bool] = ChainMap(
            {}, *(before._schedules.maps[0] for before in reversed(waiting))
        )
        self._bytes = 0

    @property
    def count(self) -> int:
        """How many members are staged."""
        return self._subjects.total()

    def check_alone(self, message: Publication, now: float) -> Checked:
        """Check a message that belongs to no batch, and stage it. ``now``: seconds.

        Raises: APIError: the stream does not take it.
        """
        check_open(self._stream)
        check_size(self._stream, message)
        checked = self.check(message, now)
        if checked.original is None:
            check_last_msg_id(self._stream, message)
        return checked

    def check(self, message: Publication, now: float) -> Checked:
        """Check the next member, and stage it. A duplicate is not staged. ``now``: seconds.

        Raises: APIError: the stream does not take it.
        """
        stream = self._stream
        if message.header is None and not stream.config.allow_msg_counter:
            return self._stage(message)  # it asks for nothing
        _check_header_size(message)
        check_increment(stream, message)
        _check_stream_name(stream, message)
        if time_to_live(message.value(TTL)) != 0 and not stream.config.allow_msg_ttl:
            raise refusal(10166)
        check_lifetime(message)
        msg_id = message.value(MSG_ID)
        if msg_id:
            if msg_id in self._ids:
                return Checked(message, 0)
            if (original := stream.duplicate_of(msg_id, now)) is not None:
                return Checked(message, original)
            if any(msg_id in before._ids for before in self._waiting):
                raise refusal(10158)
            self._ids.add(msg_id)
        _check_source(stream, message)
        message = self._counted(message)
        self._check_last_sequence(message)
        self._check_subject_sequence(message)
        message = check_schedule(stream, message, now, self._schedules)
        rollup = _check_rollup(stream, message)
        if rollup == "sub" and message.subject in self._subjects:
            raise refusal(10111, "batch rollup sub invalid")
        if rollup == "all" and self._subjects:
            raise refusal(10111, "batch rollup all invalid")
        return self._stage(message)

    def _stage(self, message: Publication) -> Checked:
        """Count a member that passed its checks, if there is room for it."""
        self._subjects[message.subject] += 1
        self._schedules[message.subject] = bool(message.value(SCHEDULE))
        self._bytes += self._stream.size(message)
        self._check_room(message)
        self._sequence += 1
        counter = self._counters.get(message.subject)
        return Checked(message, None, None if counter is None else str(counter.value))

    def _counted(self, message: Publication) -> Publication:
        """A message that counts, as it is stored after the members before it."""
        if not self._stream.config.allow_msg_counter:
            return message
        subject = message.subject
        staged = (one._counters[subject] for one in (self, *reversed(self._waiting)) if subject in one._counters)
        message, self._counters[subject] = counted(next(staged, None) or counter_of(self._stream, subject), message)
        check_size(self._stream, message)
        return message

    def _check_last_sequence(self, message: Publication) -> None:
        expected = _number(message, EXPECTED_LAST_SEQUENCE)
        if expected is None:
            return
        if expected != self._sequence:
            raise refusal(10071, self._sequence)
        if self._subjects:
            raise refusal(10164)

    def _check_subject_sequence(self, message: Publication) -> None:
        """The state before the batch decides, so no member may have written the subject.

        Nothing that waits may write it, or expect something of it. A pattern matches what is stored alone.
        """
        expected = _expected(message)
        if expected is None:
            return
        subject = expected.subject or message.subject
        waits = any(subject in before._subjects or subject in before._wanted for before in self._waiting)
        if waits or subject in self._subjects:
            raise refusal(10164)
        last = self._mistaken() if expected.subject else None
        if last is None:
            last = _last_of(self._stream, message, expected)
        expected.check(last)
        self._wanted.add(subject)
        if expected.subject:
            self._guards.append(last)

    def _mistaken(self) -> int | None:
        """What was found for an earlier guard, and an old release takes for what it should find (FACTS.md F1.35)."""
        context = self._stream.context
        if context.wrong_guards is None or context.release >= _RIGHT_SINCE or not self._guards:
            return None
        taken = context.wrong_guards(len(self._guards))
        return None if taken is None else self._guards[taken]

    def _check_room(self, message: Publication) -> None:
        """Whether there is a sequence left, and whether account and stream have room for all that is staged."""
        stream, config, staged = self._stream, self._stream.config, (*self._waiting, self)
        size = sum(one._bytes for one in staged)
        check_account(stream, size)
        if self._sequence >= MAX_SEQUENCE:
            raise refusal(10077, "no sequence is left")
        if config.discard != "new":
            return
        if 0 < (config.max_msgs or 0) < len(stream) + sum(one.count for one in staged):
            raise refusal(10077, "maximum messages exceeded")
        if 0 < (config.max_bytes or 0) < stream.stored_bytes + size:
            raise refusal(10077, "maximum bytes exceeded")
        at_most = config.max_msgs_per_subject or 0
        there = stream.count_of(message.subject) + sum(one._subjects[message.subject] for one in staged)
        if config.discard_new_per_subject and 0 < at_most < there and not stream.takes_its_place(message):
            raise refusal(10077, "maximum messages per subject exceeded")


def _number(message: Publication, name: str) -> int | None:
    """The number in a header. None when there is none, -1 when it is something else."""
    value = message.value(name)
    if not value:
        return None
    return int(value) if value.isdigit() and len(value) <= MAX_DIGITS else _NEVER


def _check_header_size(message: Publication) -> None:
    if message.header is not None and len(message.header) > MAX_HEADER:
        raise refusal(10097)


def _check_stream_name(stream: Stream, message: Publication) -> None:
    name = message.value(EXPECTED_STREAM)
    if name and name != stream.config.name.encode():
        raise refusal(10060)


def check_lifetime(message: Publication) -> None:
    """Raises: APIError (10165): the time to live cannot be read. Servers look at a message alone for that last."""
    if time_to_live(message.value(TTL)) is None:
        raise refusal(10165)


def _check_ttl(stream: Stream, message: Publication) -> None:
    if time_to_live(message.value(TTL)) and not stream.config.allow_msg_ttl:
        raise refusal(10166)


def check_last_msg_id(stream: Stream, message: Publication) -> None:
    """Raises: APIError (10070): the last message of the stream has another id than the one that is expected."""
    last_id = message.value(EXPECTED_LAST_MSG_ID)
    if last_id and last_id != stream.last_msg_id:
        raise refusal(10070, stream.last_msg_id.decode("utf-8", "replace"))


class _Expected(NamedTuple):
    """What a message expects of a subject. ``subject``: the one that it names, or nothing."""

    sequence: int
    subject: bytes

    def check(self, last: int) -> None:
        """Raises: APIError (10071): the subject has another last sequence, ``last``."""
        if self.sequence != last:
            raise refusal(10071, last)


def _expected(message: Publication) -> _Expected | None:
    """What a message expects of its subject or another one. None: nothing.

    Raises: APIError (10193): it names a subject, and no sequence.
    """
    expected = _number(message, EXPECTED_LAST_SUBJECT_SEQUENCE)
    subject = message.value(EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT) or b""
    if expected is None and subject:
        raise refusal(10193)
    return None if expected is None else _Expected(expected, subject)


def _last_of(stream: Stream, message: Publication, expected: _Expected) -> int:
    """The last sequence of the subject of which ``message`` expects something. 0: there is none."""
    if not expected.subject:
        return stream.last_of(message.subject)
    found = stream.last_seq if expected.subject == b">" else stream.last_matching(expected.subject)
    return 0 if stream.get(found) is None else found


def _check_subject_sequence(stream: Stream, message: Publication) -> None:
    expected = _expected(message)
    if expected is not None:
        expected.check(_last_of(stream, message, expected))


def _check_source(stream: Stream, message: Publication) -> None:
    """Only streams that copy say where a message is from, from 2.15 (FACTS.md F4.20)."""
    if message.value(STREAM_SOURCE) and stream.context.release >= _SOURCE_REFUSED_SINCE:
        raise refusal(10227)


def _check_rollup(stream: Stream, message: Publication) -> str:
    rollup = message.rollup
    if rollup and not stream.config.allow_rollup_hdrs:
        raise refusal(10111, "rollup not permitted")
    if rollup not in ("", "sub", "all"):
        raise refusal(10111, f'rollup value invalid: "{rollup}"')
    return rollup
