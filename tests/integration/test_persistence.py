"""What a real server does with its disk: ``sync_interval: always``, and streams that persist asynchronously.

That a server has synced a message cannot be seen from outside; that it has not even written it can.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress

import pytest

from jsproto.errors import ConnectionLostError, StreamRolledBackError
from jsproto_io import DurabilityWarning
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import Connection, connect
from tests import servers
from tests.marks import promise, requirement

ASYNCHRONOUS_SINCE = "2.12.8"
TRIES = 1_000  # messages, of which one must be acknowledged before it is written: nearly each of them is


@requirement(245)
@promise('With `persist_mode="async"` a stream acknowledges before it writes to disk')
@pytest.mark.parametrize("release", [ASYNCHRONOUS_SINCE, servers.NEWEST])
def test_asynchronous_persistence_overrides_sync_always(server_for: Callable[..., NatsServer], release: str) -> None:
    server = server_for(release, jetstream="sync_interval: always")
    with connect(server.url) as nc:
        js = nc.jetstream()

        def is_written(stream: str, payload: bytes) -> bool:
            """Whether the server has handed a message that it has acknowledged to the system."""
            js.publish(stream.lower(), payload)
            blocks = list(server.directory.glob(f"store/**/streams/{stream}/msgs/*.blk"))
            assert blocks
            return any(payload in block.read_bytes() for block in blocks)

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            js.create_stream("SYNCED", subjects=["synced"], storage="file")
        with pytest.warns(DurabilityWarning, match="LATER acknowledges messages before they are on disk"):
            later = js.create_stream("LATER", subjects=["later"], storage="file", persist_mode="async")
        assert later.config.persist_mode == js.stream_info("LATER").config.persist_mode == "async"
        assert js.stream_info("SYNCED").config.persist_mode is None
        assert all(is_written("SYNCED", b"payload %d." % number) for number in range(20))
        assert not all(is_written("LATER", b"payload %d." % number) for number in range(TRIES))


def reach(nc: Connection) -> None:
    """Wait for a link to the server that was started again."""
    while True:
        with suppress(ConnectionLostError):
            nc.flush(timeout=60)
            return


@promise("A crash of the server, the machine or the disk loses acknowledged messages")
def test_a_server_that_is_killed_gives_sequences_out_again(server_for: Callable[..., NatsServer]) -> None:
    """What it acknowledged and had not written is gone, and other messages get the sequences; not so by default."""
    server = server_for()
    with connect(server.url, reconnect_time_wait=0.02, max_reconnect_attempts=-1) as nc:
        js = nc.jetstream()
        js.create_stream("SYNCED", subjects=["synced"], storage="file")
        with pytest.warns(DurabilityWarning):
            js.create_stream("LATER", subjects=["later"], storage="file", persist_mode="async")

        def killed(subject: str) -> tuple[int, int]:
            """The last sequence that the server acknowledged before it was killed, and the first one after that."""
            last = max(js.publish(subject, b"before").seq for _ in range(10))
            server.kill()
            server.start()
            reach(nc)
            return last, js.publish(subject, b"after").seq

        assert killed("synced") == (10, 11)
        last, after = killed("later")
        while after > last and after < 500:  # what the server had time to write is not lost
            last, after = killed("later")
        assert after <= last
        assert js.get_msg("LATER", after, level="leader").data == b"after"


@promise("`StreamRolledBackError` reports a stream that came back shorter, also one that has grown again.")
def test_a_session_notices_what_a_killed_server_lost(server_for: Callable[..., NatsServer]) -> None:
    """Over the new link, and with its token in another process. As long as nothing is lost, it reads on."""
    server = server_for()
    with connect(server.url, reconnect_time_wait=0.02, max_reconnect_attempts=-1) as nc:
        js = nc.jetstream()
        with pytest.warns(DurabilityWarning):
            js.create_stream("LOST", subjects=["lost"], storage="file", persist_mode="async", allow_direct=True)
        session = js.consistent_session(timeout=10)
        last = after = 0
        while after == last or (after == last + 20 and after < 1_500):  # what it had time to write is not lost
            if after:
                assert session.get_last_msg("LOST", "lost").seq == after
            last = max(session.publish("lost", b"before").seq for _ in range(10))
            assert session.get_last_msg("LOST", "lost").seq == last
            server.kill()
            server.start()
            reach(nc)
            after = max(js.publish("lost", b"after").seq for _ in range(20))
        assert after < last + 20
        token = session.token.to_bytes()
        with js.consistent_session(token=token, timeout=10) as another:
            for reader in (session, another):
                with pytest.raises(StreamRolledBackError) as found:
                    reader.get_last_msg("LOST", "lost")
                assert (found.value.stream, found.value.seq) == ("LOST", last)
        session.forget("LOST")
        assert session.get_last_msg("LOST", "lost").data == b"after"
