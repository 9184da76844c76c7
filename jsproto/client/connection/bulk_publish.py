"""Messages by the thousand, from pairs or columns to the bytes that publish them.

Rules

* A run is the messages at the front that are plain: a subject that may be published to, and a small payload of bytes.
* A message that ends a run (headers, a bad subject, a large payload, no room) is for ``Session.publish``, which raises
  if it must.
* All messages at once are tried first, because nearly always all of them are plain.

How it works: subjects and payloads become two columns. Each check is one call for a column. The control lines of
subjects come out of a cache. Pays: ``core-publish-many``, ``fast-ingest`` and ``atomic``.

Not here: the bytes themselves (``wire.bulk_encoder``). The write buffer (``session``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from jsproto.errors import LocalProtocolError
from jsproto.grammar.columns import MessageColumns
from jsproto.grammar.subjects import check_subject
from jsproto.wire.bulk_encoder import Column, all_equal, pub_head
from jsproto.wire.limits import MAX_CONTROL_LINE

MAX_CACHED_SUBJECTS: Final = 10_000  # beyond it a cache of checked subjects starts over: memory stays bounded
SPLIT_WRITES_AT: Final = 1_024  # bytes: a larger payload is queued after its head instead of being copied
LONGEST_LINE: Final = MAX_CONTROL_LINE + SPLIT_WRITES_AT  # bytes of a message that is queued in one piece, about

Encode: TypeAlias = Callable[[Column, Sequence[int], Sequence[bytes]], list[bytes]]
"""Makes the bytes of messages, in pieces, of their control lines, and of the sizes and bytes of their payloads."""

_ONLY_BYTES: Final = frozenset({bytes})


class BulkPublisher:
    """Encodes runs. It keeps the beginnings of the control lines of the subjects that it has seen."""

    def __init__(self) -> None:
        self._lines: dict[str, bytes] = {}

    def encode(
        self, messages: Sequence[Any], largest: int, room: int, encode: Encode
    ) -> tuple[Sequence[str], list[bytes]]:
        """The subjects of the run at the front of ``messages``, and what ``encode`` makes of it: perhaps nothing.

        ``largest``: bytes of a payload, at most. ``room``: bytes of the run, about.
        """
        largest = min(largest, SPLIT_WRITES_AT)
        subjects, pieces = self._encode_all(messages, largest, encode)
        if not subjects or sum(map(len, pieces)) > room:
            plain = self._plain(messages[: room // LONGEST_LINE + 1], largest)
            subjects, pieces = self._encode_all(messages[:plain], largest, encode)
        return subjects, pieces

    def _encode_all(self, messages: Sequence[Any], largest: int, encode: Encode) -> tuple[Sequence[str], list[bytes]]:
        """``encode`` for all of ``messages``: nothing when there are none, or one of them is not plain."""
        try:
            if isinstance(messages, MessageColumns):
                if messages.has_headers:
                    return (), []
                subjects, payloads = messages.subjects, messages.payloads
            else:
                subjects = [subject for subject, _ in messages]
                payloads = [payload for _, payload in messages]
            sizes = [*map(len, payloads)]
            if max(sizes) > largest or not _ONLY_BYTES.issuperset(map(type, payloads)):
                return (), []
            return subjects, encode(self._lines_of(subjects), sizes, payloads)
        except (TypeError, ValueError, LocalProtocolError):  # no pairs, or nothing that can be published
            return (), []

    def _plain(self, messages: Sequence[Any], largest: int) -> int:
        """How many messages at the front are plain."""
        count = 0
        try:
            for subject, payload in messages:
                if len(payload) > largest or type(payload) is not bytes:
                    break
                self._lines_of((subject,))
                count += 1
        except (TypeError, ValueError, LocalProtocolError):
            pass
        return count

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
