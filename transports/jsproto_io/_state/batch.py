"""What fast-ingest batches and atomic batches have in common.

Rules: those of ``_state.shared``.
"""

from __future__ import annotations

from jsproto.client.publish.atomic import AtomicBatch
from jsproto.client.publish.fast import FastPublisher
from jsproto.errors import Error
from jsproto.grammar.acks import PubAck


class BatchBase:
    """The state of a batch."""

    _core: AtomicBatch | FastPublisher

    def __repr__(self) -> str:
        core = self._core
        failure = "" if core.error is None else f", failed: {core.error}"
        state = f"{core.sequence} sent, {core.acked} acknowledged"
        return f"<{type(self).__name__} {core.batch_id}: {core.phase.name.lower()}, {state}{failure}>"

    @property
    def batch_id(self) -> str:
        """The batch's name on the server."""
        return self._core.batch_id

    @property
    def sequence(self) -> int:
        """The batch sequence of the last message. 0: there was none."""
        return self._core.sequence

    @property
    def ack(self) -> PubAck | None:
        """The acknowledgement of the commit. None: there is none yet."""
        return self._core.ack

    @property
    def error(self) -> Error | None:
        """Why the batch failed. None: it has not."""
        return self._core.error
