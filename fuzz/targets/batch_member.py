"""Any reply subject, and any header block, says to which batch a message belongs, or that it belongs to none.

Reading never raises. What belongs to a fast-ingest batch is written and read as the same, unless the id cannot be sent.
"""

from __future__ import annotations

from jsproto.errors import LocalProtocolError
from jsproto.grammar.batch import BatchCommit, parse_batch_headers
from jsproto.grammar.fast import MAX_BATCH_ID, MAX_BATCH_SEQUENCE, FastReply, fast_reply_prefix, parse_fast_reply
from jsproto.grammar.publish_headers import NEVER, time_to_live


def run(data: bytes) -> None:
    """One input."""
    lifetime = time_to_live(data)
    assert lifetime is None or lifetime >= 0 or lifetime == NEVER
    member = parse_batch_headers(data)
    assert member is None or isinstance(member.commit, BatchCommit)
    reply = parse_fast_reply(data)
    if not isinstance(reply, FastReply):
        return
    assert 1 <= reply.sequence <= MAX_BATCH_SEQUENCE
    assert 1 <= len(reply.batch_id.encode()) <= MAX_BATCH_ID
    try:
        prefix = fast_reply_prefix(reply.prefix, reply.batch_id, reply.flow, reply.gap)
    except LocalProtocolError:
        return
    assert parse_fast_reply(b"%b%d.%d.$FI" % (prefix, reply.sequence, reply.operation)) == reply
