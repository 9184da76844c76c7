"""The part of a consistent session that never waits, for threads and for event loops.

Rules: those of ``_state.shared``.
"""

from __future__ import annotations

from jsproto.client.read.consistent_session import ConsistentSession, SessionLevel
from jsproto.grammar.acks import PubAck
from jsproto.grammar.session_token import SessionToken
from jsproto_io._state.shared import ConnectionBase


class ConsistentSessionBase:
    """The state of a session."""

    _connection: ConnectionBase

    def __init__(self, core: ConsistentSession, timeout: float) -> None:
        self._core = core
        self._timeout = timeout  # of each read

    def __repr__(self) -> str:
        return f"<ConsistentSession {'closed' if self._core.closed else 'open'}: {self.token!r}>"

    def __del__(self) -> None:
        # A session that was dropped would keep its inbox. See BatchReaderBase.
        core = self._core
        self._connection._pending_closes.append(lambda now: core.close())

    @property
    def token(self) -> SessionToken:
        """What the session has written and read so far. ``token.to_bytes()`` can be handed to another process."""
        return self._core.token

    @property
    def level(self) -> SessionLevel:
        """Where reads are sent first: "direct", "leader" or "mirror"."""
        return self._core.level

    def record(self, ack: PubAck) -> None:
        """Make reads show what ``ack`` acknowledges: a message or a batch that was published elsewhere."""
        self._connection._call(lambda now: self._core.record(ack), coalesce=True)

    def observe(self, stream: str, seq: int, timestamp: int | None = None) -> None:
        """Make reads of ``stream`` at least as new as message ``seq``, which was seen elsewhere, for example by a
        consumer.

        Args:
            stream: the stream's name.
            seq: the message's sequence.
            timestamp: when it was stored, in nanoseconds since the epoch (``msg.metadata.timestamp``). It proves later
                that the stream still has this message. None: nothing does.
        """
        self._connection._call(lambda now: self._core.observe(stream, seq, timestamp), coalesce=True)

    def merge(self, token: SessionToken | bytes) -> None:
        """Add the knowledge of another session's ``token``.

        Raises:
            BadTokenError: the bytes are no token.
        """
        self._connection._call(lambda now: self._core.merge(token), coalesce=True)

    def forget(self, stream: str) -> None:
        """Drop the knowledge of ``stream``: it was deleted and created again, or came back shorter.

        Reads show it as it is now. This is the way out of StreamRecreatedError and StreamRolledBackError.
        """
        self._connection._call(lambda now: self._core.forget(stream), coalesce=True)
