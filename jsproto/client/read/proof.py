"""Proving a position at the stream's leader: the questions of ``rules.position``, as a script.

* Only the leader is asked. A replica that lags knows less than the position says.
* One run asks once. After ``ASK_AGAIN`` the caller waits until ``PositionCheck.again_at``, and runs it again.

Not here: the rule (``rules.position``), an ordered consumer, which asks by itself (``consume.ordered``).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from jsproto.errors import MessageNotFoundError
from jsproto.grammar.config import StreamInfo
from jsproto.grammar.stored import StoredMsg
from jsproto.rules.position import LOOKS, PositionCheck, StreamFacts, Verdict
from jsproto.ticket import Ticket

if TYPE_CHECKING:
    from jsproto.client.jetstream import JetStream


def prove(
    js: JetStream, check: PositionCheck, *, now: float, info: StreamInfo | None = None, timeout: float | None = None
) -> Generator[Ticket[Any], Any, Verdict]:
    """What the stream's leader says about the position of ``check``.

    Run it with ``js.session.run``. ``info``: the stream's state, if the caller has just asked for it. ``timeout``:
    seconds for each question, those of ``js`` when None.

    Raises:
        APIError: the server refuses a question, for example with StreamNotFoundError.
        JetStreamNotAvailableError, TimeoutError: nobody answered.
        PermissionsViolationError: the user may not ask.
    """
    position = check.position
    if info is None:
        info = yield js.stream_info(position.stream, now=now, timeout=timeout)
        assert info is not None  # a ticket has the type of what it is asked for
    verdict = check.state(StreamFacts.of(info), now)
    while verdict in LOOKS:
        if verdict is Verdict.LOOK:
            wanted = js.get_msg(position.stream, position.seq, level="leader", now=now, timeout=timeout)
        else:
            wanted = js.get_msg(
                position.stream, start_time=check.since, subject=">", next=True, level="leader",
                now=now, timeout=timeout,
            )  # fmt: skip
        try:
            found: StoredMsg = yield wanted
        except MessageNotFoundError:
            verdict = check.message(None, now)
        else:
            verdict = check.message((found.seq, found.timestamp), now)
    return verdict
