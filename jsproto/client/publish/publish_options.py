"""The options of the verbs that publish many messages: what each means, its default and its check.

Rules: those of ``grammar.options``. Durations are seconds or timedeltas.

Not here: the keywords of one message (``grammar.publish_headers``).
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypedDict

from jsproto.errors import LocalProtocolError
from jsproto.grammar.batch import api_level
from jsproto.grammar.fast import GAP_MODES, MAX_FLOW, GapMode, check_batch_id
from jsproto.grammar.headers import HeadersLike
from jsproto.grammar.options import Option, of_count, of_flag, of_range, of_time, of_words, or_none
from jsproto.grammar.publish_headers import PublishOptions
from jsproto.grammar.times import Duration

DEFAULT_FLOW: Final = 500  # servers grant no more
DEFAULT_MAX_PENDING: Final = 4_000
DEFAULT_MAX_PENDING_BYTES: Final = 16 * 1024 * 1024
_MOST: Final = 2**32 - 1
MAX_MESSAGES: Final = 1_000  # in one batch, unless the server is configured otherwise (FACTS.md F1.7)


def _of_id(name: str, value: str) -> str:
    check_batch_id(value)
    return value


def _of_flow(name: str, value: Any) -> int:
    if type(value) is not int or not 1 <= value <= MAX_FLOW:
        raise LocalProtocolError(f"{name} is 1 to {MAX_FLOW} messages for each acknowledgement, not {value!r:.100}")
    return value


def _of_outstanding(name: str, value: Any) -> int:
    if type(value) is not int or not 1 <= value <= 3:
        raise LocalProtocolError(f"{name} is 1, 2 or 3, not {value!r:.100}")
    return value


def _of_level(name: str, value: int) -> int:
    api_level(value)
    return value


def _of_every(name: str, value: Any) -> int:
    if type(value) is not int or value < 0:
        raise LocalProtocolError(f"{name} is 0 or more, not {value!r:.100}")
    return value


class BatchIdOptions(TypedDict, total=False):
    """How a batch is named.

    Attributes:
        batch_id: up to 64 characters without dots. None: one is made up.
    """

    batch_id: Annotated[str | None, Option(None, _of_id)]


class FastOptions(TypedDict, total=False):
    """How a fast-ingest batch is sent.

    Attributes:
        gap: "fail" ends the batch at the first lost or refused message. "ok" reports it as an event and goes on.
        flow: the most messages for each acknowledgement, 1 to 65535. The server may choose fewer.
        max_outstanding_acks: acknowledgements that may be missing before publishing waits, 1 to 3.
        ack_timeout: seconds, or a timedelta, after which an answer that is due counts as missing. None: 10 s.
    """

    gap: Annotated[GapMode, Option("fail", of_words(*GAP_MODES))]
    flow: Annotated[int, Option(DEFAULT_FLOW, _of_flow)]
    max_outstanding_acks: Annotated[int, Option(2, _of_outstanding)]
    ack_timeout: Annotated[Duration | None, Option(None, of_time)]


class FastBatchOptions(FastOptions, BatchIdOptions, total=False):
    """``fast_publisher``."""


class AtomicOptions(TypedDict, total=False):
    """How an atomic batch is sent.

    Attributes:
        max_messages: what the server takes, 1000 unless it is configured otherwise. None: the server alone checks.
        ack_first: wait until the server has accepted the first message. False: an error shows at the commit.
        ack_every: wait for an answer after so many messages. 0: for no further answers.
        required_api_level: the API level that the server must have, or refuse the batch.
        ack_timeout: seconds, or a timedelta, after which an answer that is due counts as missing. None: the
            ``timeout`` of ``jetstream()``.
    """

    max_messages: Annotated[int | None, Option(MAX_MESSAGES, or_none(of_range(1, _MOST)))]
    ack_first: Annotated[bool, Option(True, of_flag)]
    ack_every: Annotated[int, Option(0, _of_every)]
    required_api_level: Annotated[int | None, Option(None, _of_level)]
    ack_timeout: Annotated[Duration | None, Option(None, of_time)]


class AtomicBatchOptions(AtomicOptions, BatchIdOptions, total=False):
    """``atomic_batch`` and ``publish_batch``."""


class AcknowledgedOptions(PublishOptions, total=False):
    """``JetStream.publish``, with the keywords of the message.

    Attributes:
        headers: a mapping of names to a value, or to several.
        timeout: seconds, or a timedelta, for all attempts. None: that of ``jetstream()``.
        retry_attempts: how often it is sent again, -1 for until the timeout. None: that of ``jetstream()``.
        retry_wait: seconds, or a timedelta, before that. None: that of ``jetstream()``.
    """

    headers: HeadersLike | None
    timeout: Duration | None
    retry_attempts: int | None
    retry_wait: Duration | None


class PipelinedOptions(TypedDict, total=False):
    """How far a publisher runs ahead of the acknowledgements.

    Attributes:
        timeout: seconds, or a timedelta, after which an acknowledgement counts as missing. None: that of
            ``jetstream()``.
        max_pending: messages that may be without an acknowledgement.
        max_pending_bytes: payload bytes that may be without an acknowledgement.
    """

    timeout: Annotated[Duration | None, Option(None, of_time)]
    max_pending: Annotated[int, Option(DEFAULT_MAX_PENDING, of_count)]
    max_pending_bytes: Annotated[int, Option(DEFAULT_MAX_PENDING_BYTES, of_count)]
