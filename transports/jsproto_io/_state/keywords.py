"""Keyword arguments that several verbs share.

Rules: a keyword that is left out has the default of the core. An unknown one raises TypeError.

Not here: the keywords of ``connect()`` (``connecting``), of streams and of consumers (``jsproto.grammar``).
"""

from __future__ import annotations

from typing import Any, Final, TypedDict

from jsproto.client.jetstream import publish_headers
from jsproto.grammar.headers import HeadersLike
from jsproto.grammar.times import Instant
from jsproto_io._state.common import Timeout, seconds


class PublishOptions(TypedDict, total=False):
    """What a message to a stream may carry, and what the stream checks before it stores the message.

    Attributes:
        headers: a mapping of names to a value, or to several.
        msg_id: the ``Nats-Msg-Id``. The stream stores it once within its duplicate window.
        expected_stream: the name of the stream that must store it.
        expected_last_seq: the stream's last sequence, or else it is refused.
        expected_last_subject_seq: the last sequence of its subject, or else it is refused. 0: there is none.
    """

    headers: HeadersLike | None
    msg_id: str | None
    expected_stream: str | None
    expected_last_seq: int | None
    expected_last_subject_seq: int | None


class AtomicOptions(TypedDict, total=False):
    """How an atomic batch is sent.

    Attributes:
        batch_id: up to 64 characters without dots. None: one is made up.
        max_messages: what the server takes, 1000 unless it is configured otherwise. None: the server alone checks.
        ack_first: wait until the server has accepted the first message (the default).
        ack_every: wait for an answer after so many messages. 0: for no further answers (the default).
        required_api_level: the API level that the server must have, or refuse the batch.
        ack_timeout: seconds, or a timedelta, after which an answer that is due counts as missing.
    """

    batch_id: str | None
    max_messages: int | None
    ack_first: bool
    ack_every: int
    required_api_level: int | None
    ack_timeout: Timeout | None


class ReadOptions(TypedDict, total=False):
    """Which message to read.

    Attributes:
        subject: the last message of this subject. Wildcards are allowed.
        next: the first message at or after ``seq`` or ``start_time``, and of ``subject`` if given.
        start_time: the first message stored at this time or later.
    """

    subject: str | None
    next: bool
    start_time: Instant | None


_NO_OPTIONS: Final[dict[str, Any]] = dict.fromkeys(PublishOptions.__annotations__)


def merged_headers(options: PublishOptions) -> HeadersLike | None:
    """The headers of a message, with those that ``options`` stand for."""
    return publish_headers(**{**_NO_OPTIONS, **options}) if options else None


def atomic_options(options: AtomicOptions) -> dict[str, Any]:
    """``options`` as the core has them: with seconds."""
    return {**options, "ack_timeout": seconds(options.get("ack_timeout"), "ack_timeout")}
