"""Facts of replies: what a reply to a page says, header to numbers to ``rules.belief.Fact``, by pure functions.

Each fact travels with its detail (``Finding``): the message to keep, the end of a page, or the words of an error.

Rules:

* *Only the stream itself*: the first message of a page names the stream that sent it. A mirror may hold a part of its
  origin, so its page is dropped.
* *Still the same stream*: an anchor has the same time as before.
* *Nothing was lost on the way*: a message names the one before it. The first of a page names none.
* *No more than was asked for*. Where the anchor has gone one message more may come, and ends the page.

Not here: messages in order, which make no fact (``feed``), what a read wants (``plans``), the leader (``leader``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from jsproto.client.read.read_buffer import NONE
from jsproto.errors import (
    Error,
    MessageNotFoundError,
    RemoteProtocolError,
    StatusError,
    UnsupportedByServerError,
)
from jsproto.grammar.columns import StoredColumns
from jsproto.grammar.headers import FIRST_LINE, status_line
from jsproto.grammar.stored import answerer, number, page_end, paging, stored_at
from jsproto.rules.belief import Fact
from jsproto.rules.position import is_other
from jsproto.rules.status import END_OF_BATCH, NO_RESPONDERS

if TYPE_CHECKING:
    from jsproto.client.read.feed import Feed
    from jsproto.client.read.plans import Plan
    from jsproto.grammar.stored import StoredMsg
    from jsproto.outbox import Outbox


class Finding(NamedTuple):
    """A fact with its detail.

    * ``text``: why, in words. ``error``: the error of a read that ends with it, None where ``text`` makes one.
    * ``columns``: the message to keep. ``copy``: the leader's. ``header``: the header block of a page's end.
    * ``come_to``: the highest sequence that a server had come to which had not come far enough.
    """

    fact: Fact
    text: str = ""
    error: Error | None = None
    columns: StoredColumns | None = None
    header: bytes = b""
    copy: StoredMsg | None = None
    come_to: int | None = None


def replied(
    header: bytes | None, payload: bytes, feed: Feed, plan: Plan, stream: str, outbox: Outbox
) -> Finding | None:
    """What a reply to the page says that ``feed`` did not take. None: it came before. ``outbox``: its way.

    Raises:
        Error: it is not as the protocol has it, or refuses the request.
    """
    if header is None:
        raise RemoteProtocolError("a Direct Get reply without headers", payload)
    if not header.startswith(FIRST_LINE) and number(header, b"Nats-Sequence") is None:
        status = status_line(header)
        assert status is not None  # the first line has one
        return _status(header, *status, feed, plan, stream)
    sequence, pending, previous = paging(header)
    if pending is None or previous is None:
        server = outbox.server
        raise UnsupportedByServerError("Direct Get in batches", "2.11", None if server is None else server.version)
    fact = _further if feed.is_open else _first
    found = fact(header, sequence, previous, feed, plan, stream)
    if found is not None and found.fact in _KEPT:
        return found._replace(columns=StoredColumns(NONE, [sequence], NONE, [payload], [header]))
    return found


_KEPT: Final = {Fact.FIRST, Fact.DOUBTFUL, Fact.MESSAGE}
_EMPTY: Final = {NO_RESPONDERS: Fact.NOBODY, MessageNotFoundError.code: Fact.NOTHING}


def _first(header: bytes, sequence: int, previous: int, feed: Feed, plan: Plan, stream: str) -> Finding:
    """The first message of a page."""
    if previous:
        return Finding(Fact.BROKEN, f"message {sequence} follows {previous}, and nothing had arrived")
    if (name := answerer(header)) != stream:
        return Finding(Fact.MIRROR, name)
    if sequence == feed.seq and feed.is_anchored:
        other = is_other(feed.given_out(stream), stored_at(header))
        return Finding(Fact.OTHER_ANCHOR if other else Fact.ANCHOR)
    if sequence <= feed.seq:
        raise RemoteProtocolError(f"message {sequence} where those after {feed.seq} were asked for", header)
    return Finding(Fact.FIRST if plan.may_begin(sequence, feed) else Fact.DOUBTFUL)


def _further(header: bytes, sequence: int, previous: int, feed: Feed, plan: Plan, stream: str) -> Finding | None:
    """A message of a page that has begun."""
    if sequence <= feed.seq:
        return None
    if previous != feed.seq and sequence != feed.seq + 1:  # else nothing can be missing
        text = f"message {sequence} follows {previous}, but {feed.seq} was the last to arrive"
        return Finding(Fact.BROKEN, text)
    if feed.is_full and feed.lost_anchor:
        assert feed.tail is not None  # the page is full
        return _end(feed.tail.raw_headers[-1], feed, plan)
    if feed.is_overfull:
        raise RemoteProtocolError(f"more than the {feed.asked} messages, or the bytes, asked for")
    return Finding(Fact.MESSAGE)


def _status(header: bytes, code: int, description: str, feed: Feed, plan: Plan, stream: str) -> Finding:
    """The end of a page, or a refusal."""
    if code in _EMPTY:
        if feed.is_open:
            return Finding(Fact.BROKEN, f"the page ended with {description or code!r}")
        return Finding(_EMPTY[code], description)
    if code != END_OF_BATCH:
        raise StatusError.from_status(code, description, f"a batch of stream {stream}")
    end = page_end(header)
    if end.pending is None:
        raise RemoteProtocolError("the end of a page does not say how much is left", header)
    arrived = feed.seq if feed.is_open else 0
    if end.last_seq != arrived:
        return Finding(Fact.BROKEN, f"the page ended at {end.last_seq}, but {arrived} arrived last")
    return _end(header, feed, plan)


def _end(header: bytes, feed: Feed, plan: Plan) -> Finding:
    """The page has ended in order."""
    is_doubtful = plan.holds_pages and feed.is_open and (plan.is_filtered or feed.has_hole)
    return Finding(Fact.DOUBTFUL_END if is_doubtful else Fact.END, header=header)
