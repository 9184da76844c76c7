"""The half of a session that never waits: the same for threads and for event loops.

Rules: as of ``_state.shared``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jsproto.client.read.consistent_session import ConsistentSession, SessionLevel
from jsproto.grammar.acks import PubAck
from jsproto.grammar.position import SessionToken

if TYPE_CHECKING:
    from jsproto_io._state.shared import ConnectionBase


class ConsistentSessionBase:
    """What a session knows."""

    _connection: ConnectionBase

    def __init__(self, core: ConsistentSession, timeout: float) -> None:
        self._core = core
        self._timeout = timeout  # of each read

    def __del__(self) -> None:
        # A session that was dropped would keep its inbox. See BatchReaderBase.
        core = self._core
        self._connection._pending_closes.append(lambda now: core.close())

    @property
    def token(self) -> SessionToken:
        """What it has written and read so far; ``token.to_bytes()`` can be handed to another process."""
        return self._core.token

    @property
    def level(self) -> SessionLevel:
        """Who is asked first."""
        return self._core.level

    def record(self, ack: PubAck) -> None:
        """Reads must show what ``ack`` acknowledges: a message or a batch that was published elsewhere."""
        self._connection._call(lambda now: self._core.record(ack), coalesce=True)

    def observe(self, stream: str, seq: int) -> None:
        """Reads must not be older than message ``seq`` of ``stream``, which was seen elsewhere: by a consumer, say."""
        self._connection._call(lambda now: self._core.observe(stream, seq), coalesce=True)

    def merge(self, token: SessionToken | bytes) -> None:
        """Know what another session's ``token`` knows as well. BadTokenError when the bytes are none."""
        self._connection._call(lambda now: self._core.merge(token), coalesce=True)

    def forget(self, stream: str) -> None:
        """Know nothing of ``stream`` any more: it was deleted and made anew, and its sequences begin again."""
        self._connection._call(lambda now: self._core.forget(stream), coalesce=True)
