"""Writing keys of a bucket: the scripts.

Rules:

* A revision that was expected in vain is a KeyWrongLastSequenceError.
* What is larger than the bucket takes is a ValueTooLargeError.
* A key is created where it has neither value nor marker, or over its marker. For that the present one is read from the
  leader. What others do meanwhile is looked at again, up to ``TRIES`` times.

A mirror that lags may show no value where its origin has one. Then ``create`` ends with KeyWrongLastSequenceError.

Not here: what is published (``bucket``). A write whose answer did not come is not repeated: it may be stored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, Unpack

from jsproto.api_errors import StreamMessageExceedsMaximumError, StreamWrongLastSequenceError
from jsproto.client.bucket.entries import last_entry, unanswered
from jsproto.errors import Error, KeyExistsError, KeyWrongLastSequenceError, NoRespondersError, ValueTooLargeError
from jsproto.grammar.bucket_config import limit_of
from jsproto.grammar.bucket_keys import KeySpace
from jsproto.grammar.headers import Headers, HeadersLike, encode_headers
from jsproto.grammar.publish_headers import PublishOptions, publish_headers
from jsproto.ticket import Ticket

if TYPE_CHECKING:
    from jsproto.client.jetstream import JetStream
    from jsproto.grammar.acks import PubAck
    from jsproto.grammar.config import StreamInfo

NOT_TAKEN: Final = (NoRespondersError, StreamMessageExceedsMaximumError)
"""What servers say of a message that was not stored, whatever its key has."""

TRIES: Final = 5  # to create a key that others create and delete meanwhile
_PRESENT: Final = re.compile(r"wrong last sequence: ([0-9]{1,20})")


class KeyMessage(NamedTuple):
    """A revision of ``key`` that is to be published to ``target``."""

    key: str
    target: str
    value: bytes
    headers: HeadersLike | None

    @property
    def size(self) -> int:
        """Its bytes with its headers, as servers count them."""
        return len(self.value) + (0 if self.headers is None else len(encode_headers(Headers.of(self.headers))))


def key_message(
    js: JetStream,
    keys: KeySpace,
    key: str,
    value: bytes,
    headers: HeadersLike | None = None,
    **options: Unpack[PublishOptions],
) -> KeyMessage:
    """A message to a key. Errors as of ``publish_headers``, and LocalProtocolError if it is no key."""
    target = keys.target(key)
    return KeyMessage(key, target, value, publish_headers(target, value, js.session.server, headers=headers, **options))


def written(
    js: JetStream, keys: KeySpace, message: KeyMessage, asked: Ticket[PubAck], timeout: float | None
) -> Generator[Ticket[Any], Any, int]:
    """The revision that a publish has made.

    Raises:
        BucketNotFoundError: there is no bucket.
        KeyWrongLastSequenceError: the key has another revision than expected.
        ValueTooLargeError: the message is larger than the bucket takes.
    """
    try:
        ack: PubAck = yield asked
    except StreamWrongLastSequenceError as error:
        raise _wrong(keys, message.key, error) from error
    except NOT_TAKEN as error:
        yield from not_taken(js, keys, message, error, timeout)
    return ack.seq


def not_taken(
    js: JetStream,
    keys: KeySpace,
    message: KeyMessage,
    error: NoRespondersError | StreamMessageExceedsMaximumError,
    timeout: float | None,
) -> Generator[Ticket[Any], Any, NoReturn]:
    """Raise why ``message`` was not stored, whatever its key has.

    Raises:
        BucketNotFoundError: there is no bucket.
        NoStreamResponseError: nobody leads its stream.
        ValueTooLargeError: the message is larger than the bucket takes.
    """
    if isinstance(error, NoRespondersError):
        yield from unanswered(js, keys, error, timeout)
    try:
        info: StreamInfo = yield js.stream_info(keys.stream, now=js.session.now, timeout=timeout)
        limit = limit_of(info.config.max_msg_size)
    except Error:
        limit = None
    raise ValueTooLargeError(keys.bucket, message.key, message.size, limit) from error


def create(
    js: JetStream,
    keys: KeySpace,
    message: Callable[[int], KeyMessage],
    asked: Ticket[PubAck],
    send: Callable[[KeyMessage, float], Ticket[PubAck]],
    timeout: float | None,
) -> Generator[Ticket[Any], Any, int]:
    """The revision of a key that was created.

    ``message`` has the value for a key with the last revision given. That for 0 was ``asked`` for, others are sent.

    Raises:
        KeyExistsError: it has a value.
        KeyWrongLastSequenceError: it was created and deleted by others again and again.
        BucketNotFoundError, ValueTooLargeError: as ``written``.
    """
    last, tries_left = 0, TRIES
    while True:
        tries_left -= 1
        try:
            ack: PubAck = yield asked
        except StreamWrongLastSequenceError as error:
            if not tries_left:
                raise _wrong(keys, message(last).key, error) from error
        except NOT_TAKEN as error:
            yield from not_taken(js, keys, message(last), error, timeout)
        else:
            return ack.seq
        last = yield from _last(js, keys, message(last).key, timeout)
        asked = send(message(last), js.session.now)


def _last(js: JetStream, keys: KeySpace, key: str, timeout: float | None) -> Generator[Ticket[Any], Any, int]:
    """The revision of the marker of ``key``, 0 without one. KeyExistsError where it has a value."""
    present = yield from last_entry(js, keys, key, timeout)
    if present is not None and not present.is_marker:
        raise KeyExistsError(keys.bucket, key, present.revision)
    return 0 if present is None else present.revision


def present_revision(error: StreamWrongLastSequenceError) -> int | None:
    """The last revision that a refused key has, or the first of several. None: the server does not say."""
    present = _PRESENT.fullmatch(error.description)
    return int(present[1]) if present else None


def _wrong(keys: KeySpace, key: str, error: StreamWrongLastSequenceError) -> KeyWrongLastSequenceError:
    return KeyWrongLastSequenceError(keys.bucket, key, present_revision(error))
