"""Direct Get in batches (ADR-31), the client's side: a stream by sequence or time, page by page.

The server sends a page without flow control. So a page is bounded by messages and bytes, and the next one is requested
only when half of the last was taken. Memory stays bounded however slow the reader is. A page ends with a status
``204 EOB``, which says how many messages are left.

What a read believes, and of which server, is a table: ``rules.belief``. ``paged_read`` steps it.

* *Without an answer from any server* the leader says whether the stream exists and allows Direct Gets. If so, the page
  is requested again: the server that had the stream has died, or is about to stop.
* *Holes before 2.12*: such a server may lose messages to limits in the middle of a page without a word. So with
  ``if_dropped="error"`` a page with a hole is given out only after the leader said that its start is still there.
* *The end*: an empty answer does not say which server sent it, and a replica may lag behind another one. "There is
  nothing more" is believed of one server that showed all messages, else of the stream's leader.
* *A message that only the leader has*: after ``LAGS_ALLOWED`` answers without it the leader's copy is taken.
* *A mirror that was created anew* has the same messages: this shows only when the leader was asked before.

A read that cannot go on fails with an error. It is never short without one.

Not here: single gets (``single``), reads of many subjects (``multi``), the machine (``paged_read``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Unpack

from jsproto.client.read.feed import PAGE_MESSAGES
from jsproto.client.read.leader import Guard
from jsproto.client.read.paged_read import PagedRead
from jsproto.client.read.plans import StreamPlan
from jsproto.client.read.read_options import BatchOptions
from jsproto.errors import LocalProtocolError
from jsproto.grammar.api import ApiSubjects
from jsproto.grammar.fields import check_count
from jsproto.grammar.options import checked
from jsproto.grammar.times import format_timestamp, instant
from jsproto.outbox import Outbox

HOLDS_MESSAGES_BACK: Final = "2.12"  # the first server whose limits drop nothing of a page while it is sent


class DirectBatch(PagedRead):
    """One read of a stream from a sequence, or a time, on. Its attributes and verbs are those of ``PagedRead``.

    Example:

        read = js.get_batch("ORDERS", seq=1, now=now())
        while (found := read.pop_many(100, now())) or not read.finished:
            if not found:
                wait(read.readable())
    """

    __slots__ = ()

    def __init__(
        self,
        outbox: Outbox,
        stream: str,
        *,
        api: ApiSubjects,
        inbox: str,
        draw: Callable[[], bytes] = bytes,
        now: float,
        at_least: int = 0,
        page_messages: int = PAGE_MESSAGES,
        timeout: float = 5.0,
        guard: Guard | None = None,
        proves_itself: bool = False,
        **options: Unpack[BatchOptions],
    ) -> None:
        """Ask for the messages of ``stream`` that ``options`` name (``BatchOptions``), by default all.

        * ``api``: the subjects of the API that knows the stream.
        * ``inbox``: a subject that nobody else uses. ``draw`` makes text that cannot be computed from others
          (``Session.draw``): the reply subject of one page does not give away that of the next.
        * ``at_least``: a sequence. Before it the end is believed of the stream's leader alone.
        * ``page_messages`` and ``max_bytes`` bound one page. At most about two pages are under way and buffered.
        * ``timeout``: seconds of silence in a page after which the rest is requested again.
        * ``guard``: what a session demands besides.
        * ``proves_itself``: the reader notices what is missing, and another stream of the name. So a page that has no
          anchor does not wait for the leader's word.

        The read fails with:
            IncompleteBatchError: a page brought nothing twice in a row, replicas lagged for ``timeout`` seconds, or the
                connection has ended.
            MirrorAnswerError: only mirrors answered for ``timeout`` seconds.
            MessagesDroppedError: with ``if_dropped="error"``, the next message wanted lies before the first one.
            StreamRecreatedError: the stream was deleted and created anew meanwhile.
            StreamRolledBackError: the stream came back shorter than what was given out.
            NoRespondersError, JetStreamNotAvailableError: the stream allows no Direct Get, or no API answers.
            PermissionsViolationError, StatusError, APIError: the server refused a request.
            UnsupportedByServerError: the server is older than 2.11.
            RemoteProtocolError: a reply is not as the protocol has it.

        Raises:
            LocalProtocolError: an argument is out of its range, or ``seq`` and ``start_time`` are both given.
            ConnectionClosedError: the connection has ended.
        """
        asked = checked(BatchOptions, options)
        seq, start_time = asked["seq"], asked["start_time"]
        if seq is not None and start_time is not None:
            raise LocalProtocolError("give seq or start_time, not both")
        check_count("page_messages", page_messages)
        server = outbox.server
        plan = StreamPlan(
            from_first=seq is None,
            start_time=None if start_time is None else format_timestamp(instant(start_time)),
            subject=asked["subject"], if_dropped=asked["if_dropped"],
            holds_back=server is None or not server.is_before(HOLDS_MESSAGES_BACK), proves_itself=proves_itself,
        )  # fmt: skip
        super().__init__(
            outbox, stream, plan, api=api, inbox=inbox, draw=draw, now=now, after=0 if seq is None else seq - 1,
            batch=asked["batch"], at_least=at_least, page_messages=page_messages, max_bytes=asked["max_bytes"],
            timeout=timeout, guard=guard,
        )  # fmt: skip
