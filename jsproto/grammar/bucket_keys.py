"""Buckets of keys and values (ADR-8): names, keys and filters, and what a stored message says of its key.

Rules:

* A bucket ``B`` is the stream ``KV_B``. Its key ``K`` is the subject ``$KV.B.K``.
* A key is tokens of ``A-Z a-z 0-9 - / _ =`` joined by dots. A filter may have ``*`` and ``>`` as whole tokens.
* Names, keys and filters that callers give are checked. Readers take every key that a server has.
* Keys that begin with ``_kv`` are reserved: they are refused, and not shown. ``validate_keys=False`` has them.
* Keys in a mirror have the subjects of the origin: they are read there, and written to the origin.
* ``KV-Operation`` marks a key as deleted. So does ``Nats-Marker-Reason``, by which servers mark what has expired.
* A marker for a reason that is unknown deletes, too: markers have no value.

Not here: configurations (``bucket_config``), other spellings of keys (``key_codecs``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, Literal, Protocol, TypeAlias

from jsproto._event import event
from jsproto.errors import LocalProtocolError, WrongTypeError
from jsproto.grammar.decimals import MAX_DIGITS
from jsproto.grammar.headers import first_value, last_value
from jsproto.grammar.jsack import JSAck
from jsproto.grammar.stored import StoredMsg
from jsproto.grammar.subjects import check_subject
from jsproto.grammar.times import Moment, as_datetime

STREAM_PREFIX: Final = "KV_"
OPERATION: Final = b"KV-Operation"
MARKER_REASON: Final = b"Nats-Marker-Reason"
MESSAGE_SIZE: Final = b"Nats-Msg-Size"
"""In a delivery of headers alone: the size of the payload that was left out, in bytes."""

GUARD_KEY: Final = "_kv.guard"
"""The reserved key to which transactions publish markers, each with a check of another key in its headers."""

Operation: TypeAlias = Literal["PUT", "DEL", "PURGE"]
"""What a revision did. "DEL" keeps the history of the key, and "PURGE" does not."""

_PURGED: Final = (b"MaxAge", b"Purge")  # reasons of markers that keep no history
_RESERVED: Final = "_kv"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_TOKEN: Final = r"[-/_=A-Za-z0-9]+"
_KEY: Final = re.compile(rf"(?!{_RESERVED}){_TOKEN}(?:\.{_TOKEN})*")
_FILTER: Final = re.compile(rf"(?!{_RESERVED})(?:(?:\*|{_TOKEN})\.)*(?:\*|>|{_TOKEN})")


def check_bucket(name: str) -> str:
    """``name``, which is that of a bucket.

    Raises:
        LocalProtocolError: it has other characters than ``A-Z a-z 0-9 _ -``, or none.
    """
    if not is_bucket(name):
        raise LocalProtocolError(f"a bucket's name has the characters A-Z a-z 0-9 _ - alone, not {name!r:.200}")
    return name


def check_key(key: str) -> str:
    """``key``, which every client takes.

    Raises:
        LocalProtocolError: it is no text, or has other characters, an empty token, or a dot at its end, or is reserved.
    """
    if not _is(_KEY, key):
        if str(key).startswith(_RESERVED):
            raise LocalProtocolError(f"keys that begin with {_RESERVED} are reserved: {key!r:.200}")
        raise LocalProtocolError(f"a key is tokens of A-Z a-z 0-9 - / _ = joined by dots, not {key!r:.200}")
    return key


def key_list(keys: Iterable[str]) -> list[str]:
    """Several keys that a caller gives, which are checked one by one later.

    Raises:
        WrongTypeError: they are one text, which would be a key for each letter, or nothing to iterate over.
    """
    if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
        raise WrongTypeError(f"keys are a list of keys, not {keys!r:.100}")
    return list(keys)


def check_filter(pattern: str) -> str:
    """``pattern``, a key in which ``*`` stands for any token, and ``>`` at the end for all that follow.

    Raises:
        LocalProtocolError: it can match no key.
    """
    if not _is(_FILTER, pattern):
        raise LocalProtocolError(f"a filter is a key with * and > as whole tokens, not {pattern!r:.200}")
    return pattern


def _is(grammar: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and grammar.fullmatch(value) is not None


def is_bucket(name: str) -> bool:
    """Whether a bucket may have this name."""
    return _is(_NAME, name)


def stream_of(bucket: str) -> str:
    """The name of a bucket's stream. Errors as of ``check_bucket``."""
    return STREAM_PREFIX + check_bucket(bucket)


def bucket_of(stream: str) -> str | None:
    """The name of a stream's bucket. None: it is the stream of none."""
    name = stream.removeprefix(STREAM_PREFIX)
    return name if name != stream and is_bucket(name) else None


def subjects_of(bucket: str) -> str:
    """The subjects of all keys of a bucket."""
    return f"$KV.{bucket}.>"


class KeyCodec(Protocol):
    """Another spelling of keys: what an application calls a key, and what the stream does (``key_codecs``)."""

    def encode(self, key: str) -> str:
        """The stream's spelling of a key."""

    def encode_filter(self, pattern: str) -> str:
        """The stream's spelling of a filter."""

    def decode(self, key: str) -> str:
        """The application's spelling. ValueError if no key has the one given."""


class KeySpace:
    """Where the keys of one bucket are.

    Attributes: ``bucket`` and ``stream``, their names, and ``codec``, None where keys have one spelling alone.
    """

    __slots__ = ("_hidden", "_origin", "_read", "_validates", "_written", "bucket", "codec", "stream")

    def __init__(
        self,
        bucket: str,
        *,
        origin: str | None = None,
        write_prefix: str = "",
        codec: KeyCodec | None = None,
        validate_keys: bool = True,
    ) -> None:
        """``origin``: the bucket that this one mirrors. ``write_prefix``: what publishes have before the subject.

        * ``validate_keys``: False for keys that some clients refuse, and the server takes.
        """
        self.bucket = bucket
        self.stream = stream_of(bucket)
        self.codec = codec
        self._origin = origin or bucket
        self._read = f"$KV.{self._origin}."
        self._written = f"{write_prefix}.{self._read}" if write_prefix else self._read
        self._validates = validate_keys
        self._hidden: str | tuple[()] = self._read + _RESERVED if validate_keys else ()

    def as_stored(self) -> KeySpace:
        """The same keys as the stream has them: no codec, no check but that of subjects."""
        return KeySpace(self.bucket, origin=self._origin, validate_keys=False)

    def subject(self, key: str) -> str:
        """The subject under which the stream has ``key``. LocalProtocolError if it is no key."""
        return self._read + self._checked(key)

    def target(self, key: str) -> str:
        """The subject to which ``key`` is published. LocalProtocolError if it is no key."""
        return self._written + self._checked(key)

    @property
    def guard_target(self) -> str:
        """The subject to which ``GUARD_KEY`` is published."""
        return self._written + GUARD_KEY

    def pattern(self, pattern: str) -> str:
        """The subjects of the keys that a filter matches. LocalProtocolError if it is none."""
        if not isinstance(pattern, str):
            raise WrongTypeError(f"a filter is a str, and several are separate arguments, not {pattern!r:.100}")
        stored = pattern if self.codec is None else _spelled(self.codec.encode_filter, pattern)
        if self._validates:
            check_filter(stored)
        else:
            check_subject(stored, wildcards=True)
        return self._read + stored

    def key(self, subject: str) -> str:
        """The key of a stored message. One that the codec has not made is as the stream has it."""
        stored = subject.removeprefix(self._read)
        if self.codec is not None:
            try:
                return self.codec.decode(stored)
            except ValueError:
                pass
        return stored

    def hides(self, subject: str) -> bool:
        """Whether a stored message is of a key that is reserved."""
        return subject.startswith(self._hidden)

    def _checked(self, key: str) -> str:
        stored = key if self.codec is None else _spelled(self.codec.encode, key)
        if self._validates:
            return check_key(stored)
        check_subject(stored)
        return stored


def _spelled(encode: Callable[[str], str], text: str) -> str:
    """What a codec makes of a key or a filter. LocalProtocolError if it cannot."""
    try:
        return encode(text)
    except (ValueError, TypeError, AttributeError) as error:
        raise LocalProtocolError(f"the codec of the bucket cannot encode {text!r:.200}: {error}") from error


@event
class KeyValueEntry:
    """One revision of a key.

    * ``bucket`` and ``key``: their names.
    * ``value``: bytes, empty in a marker and in an entry without its value (``meta_only``).
    * ``revision``: the sequence of its message in the stream.
    * ``timestamp``: when it was stored, in nanoseconds since the epoch.
    * ``operation``: what it did. A marker is what is left of a deleted key.
    * ``size``: bytes of the value, also where ``meta_only`` drops it.
    * ``delta``: how many entries a watcher had still to come when this one was sent. None outside a watch.
    """

    bucket: str
    key: str
    value: bytes
    revision: int
    timestamp: int
    operation: Operation
    size: int
    delta: int | None = None

    @property
    def created(self) -> Moment:
        """When it was stored: a datetime, in UTC and to the microsecond."""
        return as_datetime(self.timestamp)

    @property
    def is_marker(self) -> bool:
        """Whether it says that the key was deleted."""
        return self.operation != "PUT"


def operation_of(header: bytes | None) -> Operation:
    """What the message with this header block did to its key. Nothing else in the block is looked at."""
    if header is None:
        return "PUT"
    operation = first_value(header, OPERATION)
    if operation in (b"DEL", b"PURGE"):
        return "DEL" if operation == b"DEL" else "PURGE"
    reason = first_value(header, MARKER_REASON)
    return "PUT" if reason is None else "PURGE" if reason in _PURGED else "DEL"


def stored_entry(keys: KeySpace, message: StoredMsg, key: str | None = None) -> KeyValueEntry:
    """The entry in a message that was read. RemoteProtocolError when the server's part of it is malformed.

    ``key``: its key, where that is known.
    """
    data = message.data
    return KeyValueEntry(
        keys.bucket, keys.key(message.subject) if key is None else key, data, message.seq, message.timestamp,
        operation_of(message.raw_headers), len(data),
    )  # fmt: skip


def delivered_entry(keys: KeySpace, subject: str, header: bytes | None, data: bytes, ack: JSAck) -> KeyValueEntry:
    """The entry in a message that a consumer delivered."""
    size = None if data or header is None else last_value(header, MESSAGE_SIZE)
    known = size is not None and size.isdigit() and len(size) <= MAX_DIGITS
    return KeyValueEntry(
        keys.bucket, keys.key(subject), data, ack.sequence.stream, ack.timestamp, operation_of(header),
        int(size or 0) if known else len(data), ack.num_pending,
    )  # fmt: skip
