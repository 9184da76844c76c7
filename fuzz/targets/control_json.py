"""Any answer of a control channel parses or raises RemoteProtocolError; what parses can be written and read.

So does any advisory about an abandoned batch. Both dialects are written.
"""

from __future__ import annotations

from jsproto.errors import APIError, LocalProtocolError, RemoteProtocolError
from jsproto.grammar.acks import (
    FlowAck,
    FlowError,
    FlowGap,
    PubAck,
    encode_error_ack,
    encode_flow,
    encode_pub_ack,
    parse_flow,
    parse_pub_ack,
)
from jsproto.grammar.advisory import BatchAbandoned, encode_batch_abandoned, parse_batch_abandoned


def run(data: bytes) -> None:
    """One input."""
    try:
        answer = parse_pub_ack(data)
    except RemoteProtocolError:
        pass
    else:
        written = write(answer)
        assert write(parse_pub_ack(written)) == written
    try:
        advisory = parse_batch_abandoned(data)
    except RemoteProtocolError:
        pass
    else:
        check(advisory)
    try:
        message = parse_flow(data)
    except RemoteProtocolError:
        return
    written = write(message)
    assert write(parse_flow(written)) == written
    if isinstance(message, FlowAck | FlowGap | FlowError):
        draft = encode_flow(message, "draft")
        assert write(parse_flow(draft)) == written


def check(advisory: BatchAbandoned) -> None:
    """Both spellings say the same."""
    try:
        written = encode_batch_abandoned(advisory)
    except LocalProtocolError:
        return  # an offset may carry a time stamp beyond the years that can be written
    again = parse_batch_abandoned(written)
    assert encode_batch_abandoned(again) == written
    assert parse_batch_abandoned(encode_batch_abandoned(again, "draft")) == again


def write(message: PubAck | APIError | FlowAck | FlowGap | FlowError) -> bytes:
    """The message as released servers write it."""
    if isinstance(message, PubAck):
        return encode_pub_ack(message)
    if isinstance(message, APIError):
        return encode_error_ack(message, "S")
    return encode_flow(message)
