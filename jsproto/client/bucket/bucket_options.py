"""The options of the verbs of buckets: what each means, its default and its check (``grammar.options``).

Not here: what a bucket is like (``grammar.bucket_config``), which options of a watch go together (``watch``).
"""

from __future__ import annotations

from typing import Annotated, Final, TypedDict

from jsproto.client.consume.heartbeats import DEFAULT_HEARTBEAT
from jsproto.errors import LocalProtocolError
from jsproto.grammar.bucket_config import BucketOptions
from jsproto.grammar.bucket_keys import KeyCodec
from jsproto.grammar.options import Option, of_flag, of_time
from jsproto.grammar.stored import check_seq
from jsproto.grammar.times import Duration

MIN_HEARTBEAT: Final = 0.1  # seconds, of any consumer


def _of_codec(name: str, value: KeyCodec) -> KeyCodec:
    if not all(callable(getattr(value, verb, None)) for verb in ("encode", "encode_filter", "decode")):
        raise LocalProtocolError(f"{name} must be a KeyCodec, not {type(value).__name__}")
    return value


def _of_revision(name: str, value: int) -> int:
    check_seq(value, name)
    return value


def _of_heartbeat(name: str, value: Duration) -> float:
    if not (interval := of_time(name, value)) >= MIN_HEARTBEAT:
        raise LocalProtocolError(f"{name} is {MIN_HEARTBEAT} s or more, not {value!r:.100}")
    return interval


class KeyOptions(TypedDict, total=False):
    """How the application and the stream spell keys.

    Attributes:
        codec: another spelling of keys, for keys of any characters: see ``jsproto.grammar.key_codecs``.
        validate_keys: False for keys that some clients refuse, and the server takes.
    """

    codec: Annotated[KeyCodec | None, Option(None, _of_codec)]
    validate_keys: Annotated[bool, Option(True, of_flag)]


class NewBucketOptions(BucketOptions, KeyOptions, total=False):
    """What a new bucket is like, and how its keys are spelt."""


class WatchOptions(TypedDict, total=False):
    """What a watcher sees.

    Attributes:
        history: all revisions that the bucket keeps, not the last one of each key alone.
        updates_only: neither present entries nor their end.
        ignore_deletes: values alone, without markers.
        meta_only: entries without their values.
        since: all revisions from this one on, as far as the bucket keeps them.
        track_keys: keep the names of keys in memory, and show those as purged that are gone after a gap.
        heartbeat: seconds, or a timedelta. A watcher that hears nothing three times as long asks for another consumer.
    """

    history: Annotated[bool, Option(False, of_flag)]
    updates_only: Annotated[bool, Option(False, of_flag)]
    ignore_deletes: Annotated[bool, Option(False, of_flag)]
    meta_only: Annotated[bool, Option(False, of_flag)]
    since: Annotated[int | None, Option(None, _of_revision)]
    track_keys: Annotated[bool, Option(False, of_flag)]
    heartbeat: Annotated[Duration, Option(DEFAULT_HEARTBEAT, _of_heartbeat)]
