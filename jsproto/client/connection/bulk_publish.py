"""Messages by the thousand, from tuples or columns to the bytes that publish them.

Rules

* A run is the messages at the front that are plain: a subject that may be published to, small headers that can be sent,
  and a small payload of bytes.
* A message that ends a run (a bad subject, headers that need a look, a large payload, a full buffer) is for
  ``Session.publish``, which raises if it must.
* All messages at once are tried first, because nearly always all of them are plain.

How it works: subjects, payloads and headers become columns. Each check is one call for a column. The control lines of
subjects come out of a cache. Pays: ``core-publish-many``, ``fast-ingest``, ``fast-ingest-headers``,
``atomic`` and ``atomic-headers``.

Not here: the bytes themselves (``wire.bulk_encoder``). The write buffer (``session``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import add
from typing import Any, Final, TypeAlias

from jsproto.errors import LocalProtocolError
from jsproto.grammar.columns import message_columns
from jsproto.grammar.headers import FIRST_LINE, LINE_END
from jsproto.grammar.subjects import check_subject
from jsproto.wire.bulk_encoder import Column, HeaderLines, all_equal, pub_head
from jsproto.wire.bulk_headers import header_lines, lines_of_columns
from jsproto.wire.limits import MAX_CONTROL_LINE

MAX_CACHED_SUBJECTS: Final = 10_000  # beyond it a cache of checked subjects starts over: memory stays bounded
SPLIT_WRITES_AT: Final = 1_024  # bytes: a larger payload is queued after its head instead of being copied
LONGEST_LINE: Final = MAX_CONTROL_LINE + 2 * SPLIT_WRITES_AT  # bytes of a message that is queued in one piece, about

Encode: TypeAlias = Callable[[Column, Sequence[int], Sequence[bytes], HeaderLines | None], list[bytes]]
"""Makes the bytes of messages, in pieces, of their control lines, the sizes and bytes of their payloads, and their
headers, if there are any."""

_ONLY_BYTES: Final = frozenset({bytes})
_NO_LINES: Final = len(FIRST_LINE) + len(LINE_END)  # bytes of a header block without lines


class BulkPublisher:
    """Encodes runs. It keeps the beginnings of the control lines of the subjects that it has seen.

    Attribute: ``takes_headers`` (whether the server does. A message with headers ends the run if not).
    """

    def __init__(self) -> None:
        self.takes_headers = True  # until INFO says otherwise
        self._lines: dict[str, bytes] = {}

    def encode(
        self, messages: Sequence[Any], largest: int, room: int, encode: Encode, reserved: str
    ) -> tuple[Sequence[str], list[bytes]]:
        """The subjects of the run at the front of ``messages``, and what ``encode`` makes of it: perhaps nothing.

        ``largest``: bytes of headers and payload, at most. ``room``: bytes of the run, about. ``reserved``: a message
        with a header whose name begins so ends the run.
        """
        subjects, pieces = self._encode_all(messages, largest, encode, reserved)
        if not subjects or sum(map(len, pieces)) > room:
            plain = self._plain(messages[: room // LONGEST_LINE + 1], largest, reserved)
            subjects, pieces = self._encode_all(messages[:plain], largest, encode, reserved)
        return subjects, pieces

    def _encode_all(
        self, messages: Sequence[Any], largest: int, encode: Encode, reserved: str
    ) -> tuple[Sequence[str], list[bytes]]:
        """``encode`` for all of ``messages``: b"" for an empty list, or when one of them needs a look."""
        try:
            subjects, payloads, headers = message_columns(messages)
            sizes = [*map(len, payloads)]
            if _largest(sizes) > min(largest, SPLIT_WRITES_AT) or not _ONLY_BYTES.issuperset(map(type, payloads)):
                return (), []
            lines = None if headers is None else _lines(messages, headers, len(sizes), reserved)
            if lines is not None and not self._may_have(lines, sizes, largest):
                return (), []
            return subjects, encode(self._lines_of(subjects), sizes, payloads, lines)
        except (TypeError, ValueError, LookupError, LocalProtocolError):  # no messages, or what cannot be published
            return (), []

    def _plain(self, messages: Sequence[Any], largest: int, reserved: str) -> int:
        """How many messages at the front are plain."""
        count = 0
        try:
            for message in messages:
                (subject,), (payload,), headers = message_columns([message])
                if len(payload) > min(largest, SPLIT_WRITES_AT) or type(payload) is not bytes:
                    break
                lines = None if headers is None else header_lines(headers, reserved)
                if lines is not None and not self._may_have(lines, (len(payload),), largest):
                    break
                self._lines_of((subject,))
                count += 1
        except (TypeError, ValueError, LocalProtocolError):
            pass
        return count

    def _may_have(self, lines: HeaderLines, payloads: Sequence[int], largest: int) -> bool:
        """Whether messages with payloads of these sizes are plain with these headers."""
        sizes, room = lines.sizes, largest - _NO_LINES
        most = _largest(sizes)
        if not self.takes_headers or most > SPLIT_WRITES_AT:
            return False
        return most + _largest(payloads) <= room or max(map(add, sizes, payloads)) <= room

    def _lines_of(self, subjects: Sequence[str]) -> Column:
        if all_equal(subjects):
            subjects = subjects[:1]
        lines = self._lines
        try:
            found = [*map(lines.__getitem__, subjects)]
        except KeyError:
            new = {subject: pub_head(check_subject(subject)) for subject in set(subjects).difference(lines)}
            if len(lines) >= MAX_CACHED_SUBJECTS:
                lines.clear()
            lines |= new
            found = [lines.get(subject) or pub_head(check_subject(subject)) for subject in subjects]
        return found[0] if len(found) == 1 else found


def _largest(sizes: Sequence[int]) -> int:
    """``max(sizes)``. Nearly always all are the same, and to see that costs a quarter."""
    return sizes[0] if all_equal(sizes) else max(sizes)


def _lines(messages: Sequence[Any], headers: Any, count: int, reserved: str) -> HeaderLines | None:
    """The header lines of ``messages``, whose ``headers`` are one for each, or columns."""
    if not isinstance(headers, Mapping):
        return header_lines(headers, reserved)
    return lines_of_columns(headers, count, reserved) or header_lines([own for _, _, own in messages], reserved)
