"""Where messages enter a stream: all that is published to its subjects, alone or in batches.

Rules: the transform of the stream gives a message its subject. A fast-ingest reply subject decides next, then a batch
id. All other messages are stored alone. So are those of batches where the release has none (FACTS.md F1.4, F2.27).
One machine has one deadline, for silent batches and for messages that grow too old.

Not here: which subjects a stream has and who else listens (``server``), the JetStream API (``api``).
"""

from __future__ import annotations

from functools import partial

from jsproto.errors import APIError
from jsproto.grammar.batch import BATCH_ID
from jsproto.grammar.config import StreamConfig
from jsproto.outbox import Conversation, Outbox
from jsproto.server.consume.consumer import Consumer
from jsproto.server.publish.checks import Checked, check
from jsproto.server.publish.fast import FastBatches
from jsproto.server.publish.proposals import Proposals
from jsproto.server.publish.replies import PublishReplies
from jsproto.server.publish.republish import Republisher
from jsproto.server.publish.schedules import Schedules
from jsproto.server.publish.staged import AtomicBatches
from jsproto.server.store.context import ServerContext
from jsproto.server.store.stream import Publication, Stream
from jsproto.timers import earliest
from jsproto.wire.frames import Msg

_FAST = b".$FI"
_ATOMIC_SINCE = (2, 12, 0)
_FAST_SINCE = (2, 14, 0)


class StreamInlet(Conversation):
    """Stores what is published to one stream, and answers.

    Attributes: ``stream``, ``proposals`` (what it has accepted and not stored), ``atomic`` and ``fast`` (its open
    batches), ``consumers`` (those of the stream, by name).
    """

    __slots__ = ("_answers", "_schedules", "atomic", "consumers", "fast", "proposals", "stream")

    def __init__(self, stream: Stream, context: ServerContext, outbox: Outbox) -> None:
        """No batch is open. ``outbox`` takes the answers."""
        self.stream = stream
        self.proposals = Proposals(stream)
        self.atomic = AtomicBatches(stream, context, outbox, self.proposals)
        self.fast = FastBatches(stream, context, outbox)
        self.consumers: dict[str, Consumer] = {}
        self._schedules = Schedules(stream)
        self._answers = PublishReplies(stream, context, outbox)
        stream.followers.append(self._schedules)
        stream.is_led = True
        stream.followers.append(Republisher(stream, outbox))

    def receive(self, message: Msg, now: float) -> None:
        """Take a message on one of the stream's subjects. ``now``: seconds."""
        self.proposals.handle_timeout(now)
        self.stream.expire(now)
        subject = self.stream.renamed(message.subject)
        if subject != message.subject:
            message = Msg(subject, message.sid, message.reply, message.header, message.payload)
        publication = Publication(message.subject, message.header, message.payload)
        is_fast = message.reply is not None and message.reply.endswith(_FAST) and message.reply != _FAST
        if is_fast and self.stream.context.release >= _FAST_SINCE:
            self.proposals.settle(now)
            self.fast.receive(message, now)
        elif publication.value(BATCH_ID) and self.stream.context.release >= _ATOMIC_SINCE:
            self.atomic.receive(message, now)
        else:
            self._store(message.reply, publication, now)

    def handle_timeout(self, now: float) -> None:
        """Store what was accepted, forget silent batches and old messages, and publish what is scheduled."""
        self.proposals.handle_timeout(now)
        self.atomic.handle_timeout(now)
        self.fast.handle_timeout(now)
        self.stream.expire(now)
        self._schedules.handle_timeout(now)

    def deadline(self) -> float | None:
        """When ``handle_timeout`` is due, in seconds. None: nothing is due by time alone."""
        timed = (self.proposals, self.atomic, self.fast, self.stream, self._schedules)
        return earliest([each.deadline() for each in timed])

    def update(self, config: StreamConfig) -> None:
        """Change the stream's configuration. Open batches of a kind that is switched off are forgotten.

        Raises:
            APIError: servers refuse ``config``, or the change.
        """
        self.stream.update(config)
        self._schedules.configure()
        if not self.stream.config.allow_atomic:
            self.atomic.forget()
        if not self.stream.config.allow_batched:
            self.fast.forget()

    def lead(self, now: float) -> None:
        """Become the stream's leader. Atomic batches are lost, fast ones go on after what is stored."""
        self.proposals.forget()
        self.atomic.forget()
        self.fast.lead(now)
        for consumer in self.consumers.values():
            consumer.lead(now)

    def close(self, now: float) -> None:
        """End its batches and consumers, because the stream is deleted."""
        self.atomic.forget()
        self.fast.forget()
        for consumer in self.consumers.values():
            consumer.close(now)
        self.consumers.clear()

    def _store(self, reply: bytes | None, publication: Publication, now: float) -> None:
        try:
            if self.proposals.delay:
                staged = self.proposals.stage()
                checked = staged.check_alone(publication, now)
                if checked.original is None:
                    stored = partial(self._acknowledge, reply, checked)
                    self.proposals.propose(staged, [checked.message], stored, now)
                    return
            else:
                checked = check(self.stream, publication, now)
            original = checked.original
            seq = self.stream.append(checked.message, now) if original is None else original
        except APIError as error:
            self._answers.refuse(reply, error)
            return
        self._acknowledge(reply, checked, seq)

    def _acknowledge(self, reply: bytes | None, checked: Checked, seq: int) -> None:
        if self._answers.acknowledges:
            self._answers.pub_ack(reply, seq, duplicate=checked.original is not None, value=checked.value)
