"""Record how other clients keep keys and objects, into ``tests/transcripts``.

    python -m tests.tools.record_clients NAME COMMAND...

``COMMAND`` runs twice, with the URL of a server and the word ``bucket`` or ``objects`` added. Its one connection passes
a relay, which keeps the frames of both directions. Blanks in them are ours. The programs are in ``clients``:

* ``record_clients js node client.mjs``, in a folder with @nats-io/kv, @nats-io/obj and @nats-io/transport-node
* ``record_clients go ./client``, built from ``client.go`` with nats.go

Not here: what must be read from the records (``tests/transcripts/test_clients.py``).
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Final

from jsproto.wire.decoder import Decoder
from jsproto.wire.encoder import encode
from jsproto.wire.frames import Info
from jsproto_io.nats_server import NatsServer
from tests.servers import NEWEST, binary
from tests.tools.record_batches import greeting, write

ABOUT: Final = {
    "bucket": "a bucket: put, create, update, delete, purge, lifetimes, keys, history, watch",
    "objects": "an object store: put, replace, delete, links, rename, get, list",
}


class Relay:
    """Passes one connection on, and keeps its frames as ``lines``."""

    def __init__(self, port: int) -> None:
        self.lines: list[dict[str, str]] = []
        self._port = port

    async def __call__(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        server, to_server = await asyncio.open_connection("127.0.0.1", self._port)
        await asyncio.gather(
            self._carry("c2s", Decoder("server"), client, to_server),
            self._carry("s2c", Decoder("client"), server, to_client),
        )

    async def _carry(
        self, direction: str, decoder: Decoder, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(65_536):
            for frame in decoder.feed(data):
                raw = encode(frame)
                if isinstance(frame, Info):
                    if direction == "s2c" and any(line["dir"] == "s2c" for line in self.lines):
                        continue
                    raw = greeting(json.loads(frame.raw))
                self.lines.append({"dir": direction, "raw": raw.decode("latin-1")})
            writer.write(data)
        writer.close()


async def record(name: str, what: str, command: list[str]) -> None:
    """Write the conversation of one run of a client."""
    with NatsServer(binary(NEWEST)) as server:
        relay = Relay(server.port)
        listener = await asyncio.start_server(relay, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        process = await asyncio.create_subprocess_exec(*command, f"nats://127.0.0.1:{port}", what)
        code = await process.wait()
        assert code == 0, f"{command} ended with {code}"
        listener.close()
        await asyncio.sleep(0.2)
        write(f"client-{name}_{what}", server.version, ABOUT[what], [], relay.lines)


if __name__ == "__main__":
    for word in ABOUT:
        asyncio.run(record(sys.argv[1], word, sys.argv[2:]))
