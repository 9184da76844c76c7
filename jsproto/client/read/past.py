"""What a stream shows of an earlier sequence: the questions of a snapshot at it, and what their answers prove.

* Only the leader is asked.
* A subject without a message up to that sequence has to be newer, or gone. Where its messages may have been
  overwritten, nobody can tell, and the snapshot fails.
* A rollup of the whole stream that is newer has replaced what was there.

Not here: the messages themselves (``snapshot``).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from jsproto.client.read.subject_list import SubjectList
from jsproto.errors import LocalProtocolError, MessageNotFoundError, RemoteProtocolError, SnapshotError
from jsproto.grammar.publish_headers import ROLLUP
from jsproto.grammar.stored import StoredMsg, check_seq
from jsproto.grammar.times import instant
from jsproto.ticket import Ticket

if TYPE_CHECKING:
    from jsproto.client.read.reads import Reads
    from jsproto.grammar.config import StreamInfo
    from jsproto.grammar.times import Point


class Past:
    """The questions of one snapshot."""

    __slots__ = ("_js", "_list", "_stream", "_timeout")

    def __init__(self, js: Reads, stream: str, listed: SubjectList, *, timeout: float) -> None:
        """``listed``: the subjects that are wanted. ``timeout``: seconds for each question."""
        self._js = js
        self._stream = stream
        self._list = listed
        self._timeout = timeout

    def check_gap(self, info: StreamInfo, last: int, up_to: int) -> None:
        """Check that a replica that lags cannot show what was overwritten. ``last``: the sequence of the witness.

        Replicas of streams on disk show nothing up to a sequence that they have not reached. Those in memory do.

        Raises:
            SnapshotError: a replica that has come to ``last`` only might answer.
        """
        config = info.config
        forgets = (config.max_msgs_per_subject or 0) > 0 or config.allow_rollup_hdrs
        if last < up_to and forgets and config.storage == "memory" and (config.num_replicas or 1) > 1:
            raise SnapshotError(
                f"message {up_to} is gone, and a replica in memory does not say that it has not come so far", up_to
            )

    def check_rollup(self, info: StreamInfo, up_to: int) -> Generator[Ticket[Any], Any, None]:
        """SnapshotError where the stream begins with a rollup of all subjects that is newer than ``up_to``."""
        if not info.config.allow_rollup_hdrs or info.state.first_seq <= up_to or not info.state.messages:
            return
        try:
            first: StoredMsg = yield self._js.get_msg(
                self._stream, info.state.first_seq, level="leader", now=self._js.session.now, timeout=self._timeout
            )
        except MessageNotFoundError:
            return  # dropped just now: deletions have no sequence
        if rolls_up_all(first):
            raise SnapshotError(f"message {first.seq} has replaced all messages before it", up_to)

    def explain(
        self, missing: list[str], info: StreamInfo, is_dropping: bool, up_to: int
    ) -> Generator[Ticket[Any], Any, None]:
        """Show that subjects which did not come are newer, or gone.

        ``is_dropping``: the stream lost its first messages meanwhile.

        Raises:
            SnapshotError: it cannot be shown of one.
        """
        config, state = info.config, info.state
        if not missing or state.messages == state.last_seq:
            return  # nothing was ever removed: what did not come is newer
        kept = config.max_msgs_per_subject or 0
        counts = yield from self._list.counts()
        for name in missing:
            count = counts.get(name, 0)
            if not count:
                continue
            is_doubtful = is_dropping or 0 < kept <= count
            if not is_doubtful and config.allow_rollup_hdrs:
                is_doubtful = yield from self._was_rolled_up(name)
            if is_doubtful:
                limit = f"; max_msgs_per_subject is {kept}" if kept else ""
                raise SnapshotError(f"{name} may have been overwritten since, or before it was read{limit}", up_to)

    def _was_rolled_up(self, name: str) -> Generator[Ticket[Any], Any, bool]:
        """Whether the first message of a subject took the place of those before it, or is gone again."""
        try:
            first: StoredMsg = yield self._js.get_msg(
                self._stream, subject=name, next=True, level="leader", now=self._js.session.now, timeout=self._timeout
            )
        except MessageNotFoundError:
            return True
        return ROLLUP in first.headers

    def sequence_at(self, at: Point, info: StreamInfo) -> Generator[Ticket[Any], Any, int]:
        """The last sequence that belongs to the snapshot."""
        if not isinstance(at, int) and info.ts is not None and instant(at) > info.ts:
            raise LocalProtocolError("at is later than the server's clock: nobody knows the stream of then yet")
        last_seq = info.state.last_seq
        if isinstance(at, int):
            check_seq(at, "at")
            if at > last_seq:
                raise LocalProtocolError(f"the stream ends at sequence {last_seq}: nobody knows it at {at} yet")
            return at
        try:
            first: StoredMsg = yield self._js.get_msg(
                self._stream, start_time=at, level="leader", now=self._js.session.now, timeout=self._timeout
            )
        except MessageNotFoundError:
            return last_seq
        return first.seq - 1

    def last_until(self, seq: int) -> Generator[Ticket[Any], Any, tuple[str, int]]:
        """Subject and sequence of the leader's last message up to ``seq``. The sequence is 0 without one."""
        low, subject, high = 0, "", seq
        step = 0
        while low < high:  # (high, seq] is empty: first by steps that double, then by halves
            guess = (low + high + 1) // 2 if low else max(high - step, 1)
            found: StoredMsg | None
            try:
                found = yield self._js.get_msg(
                    self._stream, guess, next=True, level="leader", now=self._js.session.now, timeout=self._timeout
                )
            except MessageNotFoundError:
                found = None
            if found is not None and found.seq < guess:
                raise RemoteProtocolError(f"message {found.seq} where the next from {guess} on was asked for")
            if found is not None and found.seq <= seq:
                low, subject = found.seq, found.subject
            else:
                high = guess - 1
                step = 2 * step + 1
        return subject, low


def rolls_up_all(message: StoredMsg) -> bool:
    """Whether it replaced all messages before it, of any subject."""
    return ROLLUP.encode() in message.raw_headers and (message.headers.get(ROLLUP) or "").lower() == "all"
