"""What a server keeps over a restart, as bytes: its streams with file storage, their messages and their consumers.

Rules:

* As with a real server, streams in memory are lost, and so are consumers with ``mem_storage`` (FACTS.md F0.14).
* Consumers go on with all that they know. A real server forgets the moments of their last activity.
* Open batches, waiting requests, pins, subscriptions and links are lost. Counters of requests begin again at 0.
* The first line says the format, its version, and the length and the hash of what follows, which is JSON.
* What is foreign, of another version, cut off or changed is refused, and leaves the server as it was.

Not here: files (``jsproto_io.testing.store``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from jsproto.errors import APIError, LocalProtocolError, RemoteProtocolError
from jsproto.grammar.bodies import dumps, loads
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.server.server import Server
from jsproto.server.store.stream import Stream

VERSION: Final = 2
_HEAD: Final = re.compile(rb"jsproto-server ([0-9]{1,4}) ([0-9]{1,18}) ([0-9a-f]{64})\n")


def save(server: Server, now: float) -> bytes:
    """What ``server`` keeps over a restart. ``now``: seconds."""
    server.handle_timeout(now)
    streams = []
    for name, inlet in server.api.streams.items():
        if inlet.stream.config.storage == "file":
            consumers = [each.saved() for each in inlet.consumers.values() if not each.config.mem_storage]
            sources = server.api.replica_sets[name].sources.saved()
            streams.append({"stream": inlet.stream.saved(), "sources": sources, "consumers": consumers})
    body = dumps({"streams": streams})
    return b"jsproto-server %d %d %b\n" % (VERSION, len(body), sha256(body).hexdigest().encode()) + body


def restore(server: Server, saved: bytes, now: float) -> None:
    """Give ``server``, which has no streams, those that ``save`` returned. ``now``: seconds.

    Raises:
        LocalProtocolError: ``saved`` is of something else, of another version or damaged, or has what this release
            refuses. The server has no streams then.
    """
    body = _checked(saved)
    try:
        _fill(server, body["streams"], now)
    except (APIError, KeyError, RemoteProtocolError, TypeError, ValueError) as error:
        for name in list(server.api.streams):
            server.api.delete(name, now)
        raise LocalProtocolError(f"what was saved cannot be taken up: {error}") from error


def _checked(saved: bytes) -> dict[str, Any]:
    """The JSON object in ``saved``."""
    head = _HEAD.match(saved)
    if head is None:
        raise LocalProtocolError("this was not saved by a jsproto server")
    version, length, digest = int(head[1]), int(head[2]), head[3].decode()
    if version != VERSION:
        raise LocalProtocolError(f"this was saved in version {version} of the format, and version {VERSION} is known")
    body = saved[head.end() :]
    if len(body) != length:
        raise LocalProtocolError(f"what was saved is {len(body)} bytes long, and should be {length}")
    if sha256(body).hexdigest() != digest:
        raise LocalProtocolError("what was saved has been changed since: its hash is another one")
    return loads(body)


def _fill(server: Server, streams: list[Mapping[str, Any]], now: float) -> None:
    api = server.api
    for one in streams:
        saved = one["stream"]
        stream = Stream(StreamConfig.from_json(saved["config"]), server.context, now)
        stream.restore(saved)
        api.take_up(stream, now)
        api.replica_sets[stream.config.name].sources.restore(one["sources"])
    for one in streams:
        for saved in one["consumers"]:
            config = ConsumerConfig.from_json(saved["config"])
            api.consumers.take_up(one["stream"]["config"]["name"], saved["name"], config, now).restore(saved)
