"""What the target of a copy has already: from where the copy goes on, and whether it can.

* Without a marker, the last message of the target names its original (``grammar.copies``). The target has no other
  writer, which its last sequence proves from then on.
* With a marker, the last message of the marker's subject does. The target may have other writers, and the sequence of
  the marker proves that no other copy is at work.
* Copying to an empty target, or to one that lacks a marker, begins with what the consumer has yet to acknowledge.
* All copies are by one filter. A consumer with another one would pass over what was never copied.
* Each subject of the source must be one that the target takes. Otherwise a copy could go back to its source.

Not here: what a copy does when the proof fails (``copier``).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from jsproto._event import event
from jsproto.errors import CopyTargetError, LocalProtocolError, MessageNotFoundError
from jsproto.grammar.config import StreamConfig, StreamInfo
from jsproto.grammar.copies import CopyOrigin, origin_of, parse_origin
from jsproto.grammar.fields import checked_word
from jsproto.grammar.position import StreamPosition
from jsproto.grammar.stored import StoredMsg
from jsproto.grammar.subjects import check_name, check_subject, matches
from jsproto.ticket import Ticket

if TYPE_CHECKING:
    from jsproto.client.jetstream import JetStream

CopyDelivery: TypeAlias = Literal["fast", "atomic"]
"""How copies are stored: by fast ingest into a stream of their own, or by atomic batches with a marker in each."""


_ANY: Final = ("*.>", "*")  # all subjects; for ">" servers look at the last sequence alone, be it deleted or not


@event
class CopyTarget:
    """The target, when it was last looked at.

    Attributes:
        name: of the stream.
        subjects: what it takes.
        last_seq: its last sequence. With a marker, that of the marker. 0: there is none.
        origin: the original of its last copy. None: it has no copies.
        keeps_ttl: whether it takes a time to live.
    """

    name: str
    subjects: tuple[str, ...]
    last_seq: int
    origin: CopyOrigin | None
    keeps_ttl: bool

    def position(self, stream: str) -> StreamPosition:
        """Up to which message of ``stream`` it has all."""
        return StreamPosition(stream, 0) if self.origin is None else self.origin.position

    def check_filters(self, filters: str) -> None:
        """Raise CopyTargetError if it has copies by a consumer with other filters (``grammar.copies.filter_text``)."""
        if self.origin is not None and self.origin.filters != filters:
            text = f"it has copies by the filter {self.origin.filters}, not {filters}: one target is for one filter"
            raise CopyTargetError(self.name, text)

    def check(self, subject: str) -> None:
        """Raise CopyTargetError if it does not take a message with this subject."""
        if not any(matches(pattern, subject) for pattern in self.subjects):
            raise CopyTargetError(self.name, f"it does not take the subject {subject}")


def find_target(
    js: JetStream, name: str, marker: str | None, source: str, now: float, timeout: float | None
) -> Generator[Ticket[Any], Any, CopyTarget]:
    """Look the target up, and what it has of the stream ``source``.

    ``marker``: the subject of the markers, None for fast ingest. ``timeout``: seconds for each question.

    Raises:
        CopyTargetError: the stream cannot be the target.
        APIError: the server refuses, for example with StreamNotFoundError.
    """
    while True:
        info: StreamInfo = yield js.stream_info(name, now=now, timeout=timeout)
        check_target(info.config, marker)
        last: StoredMsg | None = None
        for pattern in (_ANY if marker is None else (marker,)) if info.state.messages else ():
            try:
                found: StoredMsg = yield js.get_last_msg(name, pattern, level="leader", now=now, timeout=timeout)
            except MessageNotFoundError:
                continue
            last = found if last is None or found.seq > last.seq else last
        if last is None or last.seq <= info.state.last_seq:
            break
    origin = None
    if last is not None:
        origin = origin_of(last.raw_headers) if marker is None else parse_origin(last.data)
        if origin is None:
            what = "the last message" if marker is None else f"the last message of {marker}"
            raise CopyTargetError(name, f"{what}, {last.seq}, is not from a copy")
        if origin.position.stream != source:
            raise CopyTargetError(name, f"it has copies of the stream {origin.position.stream}")
    last_seq = info.state.last_seq if marker is None else 0 if last is None else last.seq
    return CopyTarget(name, tuple(info.config.subjects or (name,)), last_seq, origin, bool(info.config.allow_msg_ttl))


def check_target(config: StreamConfig, marker: str | None) -> None:
    """Raise CopyTargetError if a stream cannot be the target. ``marker``: as in ``find_target``."""
    if config.mirror is not None:
        raise CopyTargetError(config.name, "it is a mirror")
    if marker is None:
        if not config.allow_batched:
            raise CopyTargetError(config.name, "it does not take fast ingest: switch allow_batched on")
    elif not config.allow_atomic:
        raise CopyTargetError(config.name, "it does not take atomic batches: switch allow_atomic on")
    elif not any(matches(pattern, marker) for pattern in config.subjects or (config.name,)):
        raise CopyTargetError(config.name, f"it does not take the marker's subject {marker}")


def check_copy(target: str, delivery: str, marker: str | None, prefix: str) -> None:
    """Raise LocalProtocolError if these cannot be the arguments of a copy."""
    check_name(target)
    if not isinstance(prefix, str):
        raise LocalProtocolError(f"prefix is text before each subject, not {prefix!r:.100}")
    checked_word("delivery", delivery, get_args(CopyDelivery))
    if (delivery == "atomic") != (marker is not None):
        raise LocalProtocolError("a marker goes with delivery='atomic', and that needs one: the subject of the markers")
    if marker is not None:
        check_subject(marker)
    if prefix:
        check_subject(f"{prefix}x")
