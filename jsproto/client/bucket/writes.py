"""Writing keys of a bucket: the scripts.

Rules:

* A revision that was expected in vain is a KeyWrongLastSequenceError.
* A key is created where it has neither value nor marker, or over its marker. For that the present one is read from the
  leader. What others do meanwhile is looked at again, up to ``TRIES`` times.

A mirror that lags may show no value where its origin has one. Then ``create`` ends with KeyWrongLastSequenceError.

Not here: what is published (``bucket``). A write whose answer did not come is not repeated: it may be stored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final

from jsproto.api_errors import StreamWrongLastSequenceError
from jsproto.client.bucket.entries import last_entry, unanswered
from jsproto.errors import KeyExistsError, KeyWrongLastSequenceError, NoRespondersError
from jsproto.grammar.bucket_keys import KeySpace
from jsproto.ticket import Ticket

if TYPE_CHECKING:
    from jsproto.client.jetstream import JetStream
    from jsproto.grammar.acks import PubAck

TRIES: Final = 5  # to create a key that others create and delete meanwhile
_PRESENT: Final = re.compile(r"wrong last sequence: ([0-9]{1,20})")


def written(
    js: JetStream, keys: KeySpace, key: str, asked: Ticket[PubAck], timeout: float | None
) -> Generator[Ticket[Any], Any, int]:
    """The revision that a publish has made.

    Raises:
        BucketNotFoundError: there is no bucket.
        KeyWrongLastSequenceError: the key has another revision than expected.
    """
    try:
        ack: PubAck = yield asked
    except StreamWrongLastSequenceError as error:
        raise _wrong(keys, key, error) from error
    except NoRespondersError as error:
        yield from unanswered(js, keys, error, timeout)
    return ack.seq


def create(
    js: JetStream,
    keys: KeySpace,
    key: str,
    asked: Ticket[PubAck],
    publish: Callable[[int, float], Ticket[PubAck]],
    timeout: float | None,
) -> Generator[Ticket[Any], Any, int]:
    """The revision of a key that was created. ``asked``: a publish for a key that was never there.

    ``publish`` stores the value if the last revision of the key is the one given.

    Raises:
        KeyExistsError: it has a value.
        KeyWrongLastSequenceError: it was created and deleted by others again and again.
        BucketNotFoundError: there is no bucket.
    """
    tries_left = TRIES
    while True:
        tries_left -= 1
        try:
            ack: PubAck = yield asked
        except StreamWrongLastSequenceError as error:
            if not tries_left:
                raise _wrong(keys, key, error) from error
        except NoRespondersError as error:
            yield from unanswered(js, keys, error, timeout)
        else:
            return ack.seq
        last = yield from _last(js, keys, key, timeout)
        asked = publish(last, js.session.now)


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
