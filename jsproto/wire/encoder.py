"""Frames to bytes, as servers and clients write them. The caller has checked all of it (``grammar``).

Every function takes the fields of one verb, and ``encode`` takes any frame. Other shapes that the decoder accepts
(letter case, tabs, runs of blanks, leading zeros) come out in the one shape written here.
"""

from __future__ import annotations

from typing import Final

from jsproto.wire.frames import (
    Connect,
    DeliveryRun,
    Err,
    Frame,
    Info,
    Msg,
    MsgRun,
    Ping,
    PlainRun,
    Pong,
    Pub,
    Sub,
    Unsub,
)

PING: Final = b"PING\r\n"
PONG: Final = b"PONG\r\n"
OK: Final = b"+OK\r\n"


def encode_info(raw: bytes) -> bytes:
    """``INFO`` with this JSON."""
    return b"INFO %b\r\n" % raw


def encode_connect(raw: bytes) -> bytes:
    """``CONNECT`` with this JSON."""
    return b"CONNECT %b\r\n" % raw


def encode_err(quoted: bytes) -> bytes:
    """``-ERR`` with this text, which stands in single quotes already, as servers write it."""
    return b"-ERR %b\r\n" % quoted


def encode_sub(subject: bytes, queue: bytes | None, sid: bytes) -> bytes:
    """``SUB``."""
    return b"SUB %b %b\r\n" % (subject, sid) if queue is None else b"SUB %b %b %b\r\n" % (subject, queue, sid)


def encode_unsub(sid: bytes, max_msgs: int | None = None) -> bytes:
    """``UNSUB``."""
    return b"UNSUB %b\r\n" % sid if max_msgs is None else b"UNSUB %b %d\r\n" % (sid, max_msgs)


def encode_pub(subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> bytes:
    """``PUB``, or ``HPUB`` when there is a header block."""
    return _message(b"PUB", subject if reply is None else b"%b %b" % (subject, reply), header, payload)


def encode_msg(subject: bytes, sid: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> bytes:
    """``MSG``, or ``HMSG`` when there is a header block. An empty ``reply`` is written, None is left out."""
    where = b"%b %b" % (subject, sid) if reply is None else b"%b %b %b" % (subject, sid, reply)
    return _message(b"MSG", where, header, payload)


def encode(frame: Frame) -> bytes:
    """Any frame."""
    if isinstance(frame, Msg):
        return encode_msg(frame.subject, frame.sid, frame.reply, frame.header, frame.payload)
    if isinstance(frame, MsgRun | DeliveryRun | PlainRun):
        return b"".join(map(encode, frame.messages()))
    if isinstance(frame, Pub):
        return encode_pub(frame.subject, frame.reply, frame.header, frame.payload)
    if isinstance(frame, Sub):
        return encode_sub(frame.subject, frame.queue, frame.sid)
    if isinstance(frame, Unsub):
        return encode_unsub(frame.sid, frame.max_msgs)
    if isinstance(frame, Info):
        return encode_info(frame.raw)
    if isinstance(frame, Connect):
        return encode_connect(frame.raw)
    if isinstance(frame, Err):
        return encode_err(b"'%b'" % frame.text)
    if isinstance(frame, Ping):
        return PING
    return PONG if isinstance(frame, Pong) else OK


def _message(verb: bytes, where: bytes, header: bytes | None, payload: bytes) -> bytes:
    if header is None:
        return b"%b %b %d\r\n%b\r\n" % (verb, where, len(payload), payload)
    total = len(header) + len(payload)
    return b"H%b %b %d %d\r\n%b%b\r\n" % (verb, where, len(header), total, header, payload)
