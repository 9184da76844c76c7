"""What a consumer delivered, as messages to publish: with the origin of each in its header block, and a fence.

* A copy has its original's subject after a prefix, its payload, and the headers that ``grammar.copies`` keeps.
* Each origin has a witness, so that the last copy in the target proves what the target has.
* The fence is the sequence that the target's last message must have, in a header of each copy. A target that somebody
  else has written to refuses the copy.
* Messages of a consumer come in ascending order of their sequences.

How it works: where a run of messages has no holes in its sequences, all its numbers count up, and one join encodes it
(``bulk_encoder.encode_counting``). Otherwise each message takes one format. Pays: ``copy``.

Not here: what becomes of a copy that is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from jsproto.grammar.columns import MessageColumns
from jsproto.grammar.copies import COPY_SOURCE, kept_lines, kept_lines_of_all, origin_parts
from jsproto.grammar.decimals import MAX_DIGITS
from jsproto.grammar.headers import FIRST_LINE, Headers
from jsproto.grammar.jsack import jsack_sequences, jsack_times
from jsproto.grammar.publish_headers import EXPECTED_LAST_SEQUENCE
from jsproto.wire.bulk_encoder import HeaderLines, all_equal, encode_counting, pub_head
from jsproto.wire.frames import RawMsg

_FENCE: Final = b"%b: " % EXPECTED_LAST_SEQUENCE.encode()
_LINE: Final = len("HPUB    \r\n\r\n") + 3 * MAX_DIGITS  # bytes besides subjects, header block and payload, at most
_MAX_SUBJECTS: Final = 10_000  # beyond it the cache of control lines starts over


class CopyForm:
    """What all copies have in common.

    Attribute: ``keeps_ttl`` (whether the target takes a time to live).
    """

    __slots__ = ("_check", "_lines", "_prefix", "keeps_ttl")

    def __init__(self, prefix: str, check: Callable[[str], None], *, keeps_ttl: bool) -> None:
        """``prefix``: text before each subject. ``check``: raises if the target does not take a subject."""
        self._prefix = prefix
        self._check = check
        self._lines: dict[bytes, bytes] = {}
        self.keeps_ttl = keeps_ttl

    def subject(self, subject: bytes) -> str:
        """The subject of the copy of a message with this one."""
        return self._prefix + subject.decode("utf-8", "surrogateescape")

    def lines(self, subjects: Sequence[bytes]) -> bytes | list[bytes]:
        """How the control lines of messages to these subjects begin: the one that all have, or each its own."""
        lines = self._lines
        if all_equal(subjects):
            subjects = subjects[:1]
        new = set(subjects).difference(lines)
        if len(lines) + len(new) > _MAX_SUBJECTS:
            lines.clear()
            new = set(subjects)
        for subject in new:
            text = self.subject(subject)
            self._check(text)
            lines[subject] = pub_head(text.encode("utf-8", "surrogateescape"))
        found = [*map(lines.__getitem__, subjects)]
        return found[0] if len(found) == 1 else found

    def kept(self, header: bytes | None) -> bytes:
        """The header lines that the copy has of its original."""
        return b"" if header is None else kept_lines(header, keep_ttl=self.keeps_ttl)


class CopyColumns(MessageColumns):
    """Copies of messages that follow each other in a consumer, with the fence."""

    __slots__ = ("_after", "_before", "_between", "_expected", "_form", "_more", "_origin", "_raws", "seqs")

    def __init__(
        self,
        form: CopyForm,
        origin: tuple[str, str, str | None],
        raws: Sequence[RawMsg],
        seqs: Sequence[int],
        expected: int,
    ) -> None:
        """``origin``: the stream, the filters and the identity. ``seqs``: stream sequences of ``raws``.

        ``expected``: the last sequence of the target, before the first of these is stored.
        """
        before, self._between, after = origin_parts(*origin)
        self._form = form
        self._origin = origin
        self._raws = raws
        self.seqs = seqs
        self._expected = expected
        self._before = b"\r\n%b: %b" % (COPY_SOURCE.encode(), before)
        self._after = after + b"\r\n\r\n"
        parts = (FIRST_LINE, _FENCE, self._before, self._between, self._after)
        self._more = sum(map(len, parts)) + 3 * MAX_DIGITS

    @property
    def subjects(self) -> Sequence[str]:
        """Where each copy goes."""
        return [self._form.subject(raw[0]) for raw in self._raws]

    @property
    def payloads(self) -> Sequence[bytes]:
        """What each copy carries."""
        return [raw[3] for raw in self._raws]

    @property
    def headers(self) -> list[Headers]:
        """The header lines that each copy keeps, the fence and the origin."""
        return [headers for _, _, headers in self]

    def encoded(self, reply: tuple[bytes, bytes], first: int, largest: int, most: int) -> tuple[int, bytes]:
        """How many copies from the front on were encoded, and their HPUBs.

        ``largest`` is for headers and payload together. CopyTargetError: the target does not take a subject.
        """
        subjects, replies, headers, payloads = zip(*self._raws, strict=True) if self._raws else ((), (), (), ())
        seqs, count, sizes = self.seqs, len(payloads), [*map(len, payloads)]
        is_plain, more = headers.count(None) == count, self._more
        whole = sizes if is_plain else [size + len(header or b"") for size, header in zip(sizes, headers, strict=True)]
        control = len(reply[0]) + len(reply[1]) + max(map(len, subjects), default=0) + _LINE
        if max(whole, default=0) + more > largest or sum(whole) + count * (more + control) > most:
            count = self._fitting(largest, most, control)
            subjects, replies = subjects[:count], replies[:count]
            headers, payloads = headers[:count], payloads[:count]
            seqs, sizes, is_plain = seqs[:count], sizes[:count], headers.count(None) == count
        if not count:
            return 0, b""
        lines = self._form.lines(subjects)
        times = jsack_times(replies)
        if seqs[-1] - seqs[0] == count - 1:
            kept = None
            if not is_plain:
                each_kept = kept_lines_of_all(headers, keep_ttl=self._form.keeps_ttl)
                kept = HeaderLines((each_kept,), [*map(len, each_kept)])
            block = (_FENCE, self._before, self._between, self._after)
            firsts = (self._expected, seqs[0])
            pieces = encode_counting(reply, first, lines, block, firsts, times, sizes, payloads, kept)
            return count, b"".join(pieces)
        before, after = reply
        frames = []
        each = [lines] * count if isinstance(lines, bytes) else lines
        for place, (line, header, payload) in enumerate(zip(each, headers, payloads, strict=True)):
            block_of_one = self._block(place, header, times[place])
            size = len(block_of_one)
            sizes_of_one = (first + place, after, size, size + len(payload))
            frames.append(b"H%b%b%d%b %d %d\r\n%b%b\r\n" % (line, before, *sizes_of_one, block_of_one, payload))
        return count, b"".join(frames)

    def _fitting(self, largest: int, most: int, control: int) -> int:
        """How many from the front on are surely small enough, and start before ``most`` bytes.

        ``control``: bytes of a control line, about.
        """
        count = 0
        for _, _, header, payload in self._raws:
            size = len(payload) + len(header or b"") + self._more
            if size > largest or most < 0:
                break
            most -= size + control
            count += 1
        return count

    def _block(self, place: int, header: bytes | None, time: bytes) -> bytes:
        """The header block of one copy."""
        fence = b"%b%b%b%d" % (FIRST_LINE, self._form.kept(header), _FENCE, self._expected + place)
        return b"%b%b%d%b%b%b" % (fence, self._before, self.seqs[place], self._between, time, self._after)

    def __len__(self) -> int:
        return len(self._raws)

    def __iter__(self) -> Iterator[Any]:
        """Subject, payload and headers of each copy, for publishers that take it by itself."""
        for place in range(len(self._raws)):
            yield self[place]

    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            start, _, step = place.indices(len(self._raws))
            assert step == 1  # whoever cuts a run takes the next part of it
            return CopyColumns(self._form, self._origin, self._raws[place], self.seqs[place], self._expected + start)
        subject, reply, header, payload = self._raws[place]
        text = self._form.subject(subject)
        self._form.lines((subject,))  # which checks it
        return text, payload, Headers.parse(self._block(place, header, *jsack_times([reply])))


def sequences_of(raws: Sequence[RawMsg]) -> Sequence[int]:
    """The stream sequences of these messages: a range where none is missing between the first and the last."""
    first, _ = jsack_sequences(raws[0][1])
    last, _ = jsack_sequences(raws[-1][1])
    if last - first == len(raws) - 1:
        return range(first, last + 1)
    return [jsack_sequences(raw[1])[0] for raw in raws]
