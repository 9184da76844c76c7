"""The facade for event loops, continued: keeping the messages that a consumer gave up.

Rules: those of ``_aio.connection``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jsproto.client.consume.dead_letters import DeadLetterSpec
from jsproto.grammar.times import seconds
from jsproto_io._aio.asking import Asks
from jsproto_io._aio.consume_context import ConsumeContext
from jsproto_io._aio.consuming import JSMsg, PullSubscription
from jsproto_io._state.common import Timeout

if TYPE_CHECKING:
    pass


class KeepsDeadLetters(Asks):
    """The verb of ``JetStream`` that keeps dead letters."""

    async def dead_letters(
        self,
        stream: str,
        consumer: str | None = None,
        *,
        to: str,
        subject: str | None = None,
        advisories: str | None = None,
        retry_delay: Timeout = 5.0,
        sweep_every: Timeout | None = 60.0,
        timeout: Timeout | None = None,
    ) -> ConsumeContext:
        """Store what a consumer gave up in another stream: messages with ``max_deliver`` deliveries, or terminated.

        It goes on until it is stopped. It reads the server's advisories from a stream by a durable consumer, so what
        was given up while no program was at work is stored by the next one. Where acknowledged messages are deleted, a
        sweep finds those whose advisory was lost. A dead letter has the payload and the headers of its message, and
        headers that begin with ``Dead-Letter-``. Each is stored once.

        Args:
            stream: the name of the consumer's stream.
            consumer: its name. None: all consumers of the stream.
            to: the name of the stream for dead letters, which exists.
            subject: the subject of a dead letter. It may have ``{stream}``, ``{consumer}``, ``{seq}`` and ``{subject}``
                in it. None: the first subject of ``to``, with ``{stream}.{consumer}.{seq}`` instead of its ``>``.
            advisories: the stream that keeps the advisories, which is created where there is none. None: the one that
                takes them, or ``<stream>-GIVEN-UP``.
            retry_delay: seconds, or a timedelta, until a dead letter that was refused is tried again.
            sweep_every: seconds, or a timedelta, from one sweep to the next. None: no sweeps.
            timeout: seconds, or a timedelta, for each question to the server. None: that of ``jetstream()``.

        Returns:
            The work, as ``PullSubscription.consume`` does. ``finished`` counts the advisories that were worked on.

        Raises:
            DeadLetterError: ``to`` does not take ``subject``, or ``advisories`` does not take the advisories.
            StreamNotFoundError: ``stream`` or ``to`` does not exist.
            UnsupportedByServerError: the server is older than 2.10.
            LocalProtocolError: an argument is impossible.
        """
        core, connection = self._core, self._connection
        limit, delay = seconds(timeout, default=core.timeout), seconds(retry_delay, "retry_delay")
        pause = seconds(sweep_every, "sweep_every")
        spec = DeadLetterSpec(stream, consumer, to, subject, advisories)
        plan = await connection._ask(lambda now: core.dead_letters(spec, now=now, timeout=limit), None)
        pull = connection._call(lambda now: core.pull_consumer(plan.info, JSMsg, facade=connection))

        async def bury(message: JSMsg) -> None:
            await connection._ask(lambda now: core.bury(plan, message.data, now=now, timeout=limit), None)

        work = PullSubscription(pull, plan.info.config, core, connection).consume(bury, retry_delay=delay)
        sweep = connection._call(lambda now: core.sweep(plan, every=pause, now=now, timeout=limit))

        def end(now: float) -> None:
            pull.unsubscribe(now)
            sweep.close(now)

        work._at_end = end
        return work
