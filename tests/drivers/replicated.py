"""A scripted server whose stream has replicas that lag as a test says (``tests.client.lagging``).

Not here: publishing, several connections.
"""

from __future__ import annotations

import json

from jsproto.wire.encoder import PONG, encode_msg
from jsproto.wire.frames import Ping, Pub, Sub
from tests.client.lagging import Replicas
from tests.drivers.fake import Peer, Script, until_the_end

APPENDED = b"$JS.API.DIRECT.GET.S."


def replicated(replicas: Replicas) -> Script:
    """Answer all reads of the stream S as ``replicas`` do, until the client hangs up."""

    @until_the_end
    def script(peer: Peer) -> None:
        peer.handshake()
        inboxes: dict[bytes, bytes] = {}
        while True:
            frame = peer.next()
            if isinstance(frame, Ping):
                peer.send(PONG)
            elif isinstance(frame, Sub):
                inboxes[frame.subject[:-1]] = frame.sid
            elif isinstance(frame, Pub):
                assert frame.reply is not None
                sid = inboxes[frame.reply[: frame.reply.rindex(b".") + 1]]
                for payload, header in replicas.answers(_as_body(frame)):
                    peer.send(encode_msg(frame.reply, sid, None, header, payload))

    return script


def _as_body(pub: Pub) -> Pub:
    """The form of a Direct Get with the subject appended, as the one with a body."""
    if not pub.subject.startswith(APPENDED):
        return pub
    body = json.dumps({"last_by_subj": pub.subject[len(APPENDED) :].decode()}).encode()
    return Pub(APPENDED[:-1], pub.reply, pub.header, body)
