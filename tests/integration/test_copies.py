"""What a real server's mirrors and sources make of atomic batches and of expectations: they copy, and check nothing."""

from __future__ import annotations

import pytest

from jsproto.errors import APIError
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import JetStream, connect
from tests.marks import requirement


def wait_for(js: JetStream, stream: str, count: int) -> None:
    for _ in range(100_000):
        if js.stream_info(stream).state.messages >= count:
            return
    raise AssertionError(f"{stream} never came to {count} messages")


@requirement(106)
def test_mirrors_and_sources_copy_without_the_headers_of_the_publish(server: NatsServer) -> None:
    with connect(server.url) as nc, nc.subscribe("copied.>") as origin:
        js = nc.jetstream()
        js.create_stream("COPIED", subjects=["copied.>"], allow_atomic=True, storage="memory", allow_direct=True)
        js.create_stream("MIRROR", mirror={"name": "COPIED"}, storage="memory", allow_direct=True)
        # It may have batches of its own, and is ahead: no expectation holds there.
        js.create_stream(
            "SOURCED", subjects=["own"], sources=[{"name": "COPIED"}], storage="memory",
            allow_atomic=True, allow_direct=True,
        )  # fmt: skip
        js.publish_batch([("own", b"a"), ("own", b"b")])
        js.publish("copied.a", b"1", headers={"K": "v"}, expected_last_seq=0, expected_stream="COPIED")
        expecting = {"Nats-Expected-Last-Sequence": "1"}
        js.publish_batch([("copied.a", b"2", expecting), ("copied.b", b"3", {"K": "w"}), ("copied.a", b"4")])
        published = [set(origin.next_msg(timeout=5).headers) for _ in range(4)]
        assert all("Nats-Batch-Id" in names for names in published[1:])
        assert "Nats-Expected-Last-Sequence" in published[0] & published[1]
        for name, before in (("MIRROR", 0), ("SOURCED", 2)):
            wait_for(js, name, before + 4)
            copies = list(js.get_batch(name, seq=before + 1))
            assert [(copy.subject, copy.data) for copy in copies] == [
                ("copied.a", b"1"), ("copied.a", b"2"), ("copied.b", b"3"), ("copied.a", b"4")
            ]  # fmt: skip
            headers = [set(copy.headers) - {"Nats-Stream-Source"} for copy in copies]
            assert headers == [{"K"}, set(), {"K"}, set()]
        with pytest.raises(APIError):
            js.publish("copied.a", expected_last_seq=0)
        for name in ("SOURCED", "MIRROR", "COPIED"):
            js.delete_stream(name)
