"""A volume that goes back: what a stream had earlier is put back, as from a backup.

Not here: what then becomes of readers and writers.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from jsproto.errors import ConnectionLostError, Error, TimeoutError
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import Connection, connect


def publish(url: str, subject: str, payloads: list[bytes]) -> int:
    """Publish, with a connection of its own. Returns the last sequence."""
    with connect(url, max_reconnect_attempts=-1, reconnect_time_wait=0.05) as nc:
        reach(nc)
        js = nc.jetstream()
        acks = [js.publish_async(subject, payload) for payload in payloads]
        return max(ack.result().seq for ack in acks)


def reach(nc: Connection) -> None:
    """Wait for a link to a server that was started again, and for its JetStream."""
    while True:
        with suppress(ConnectionLostError, TimeoutError):
            nc.flush(timeout=60)
            with suppress(Error):
                nc.jetstream(timeout=1).account_info()
                return


def back_up(server: NatsServer) -> Path:
    """Copy what the server has on its disk. It is stopped and started for that. Returns the copy."""
    server.stop()
    backup = server.directory / "backup"
    shutil.copytree(server.directory / "store", backup)
    server.start()
    return backup


def put_back(server: NatsServer, backup: Path, stream: str) -> None:
    """Give ``stream`` its files of the copy. The server is stopped and started for that."""
    server.stop()
    for folder in [each for each in backup.rglob(stream) if each.is_dir() and each.parent.name == "streams"]:
        target = server.directory / "store" / folder.relative_to(backup)
        shutil.rmtree(target)
        shutil.copytree(folder, target)
    server.start()
