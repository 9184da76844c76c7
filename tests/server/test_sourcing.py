"""Copies that mirrors and sources make: what belongs to the publish is neither kept nor checked."""

from __future__ import annotations

import pytest

from jsproto.errors import APIError
from jsproto.grammar.headers import Headers, encode_headers
from jsproto.server.publish.checks import check
from jsproto.server.replication.copied import copied
from jsproto.server.store.stream import Publication, Stored
from tests.marks import requirement
from tests.server.harness import Inlet

OF_THE_PUBLISH = {
    "Nats-Batch-Id": "b", "Nats-Batch-Sequence": "2", "Nats-Batch-Commit": "1", "Nats-Expected-Stream": "ORIGIN",
    "Nats-Expected-Last-Sequence": "7", "Nats-Expected-Last-Msg-Id": "m", "Nats-Expected-Last-Subject-Sequence": "3",
}  # fmt: skip


@requirement(106)
@pytest.mark.parametrize("name", [name for name in OF_THE_PUBLISH if name.startswith("Nats-Expected")])
def test_what_was_expected_of_the_origin_is_not_expected_of_a_copy(name: str) -> None:
    inlet = Inlet()
    inlet.publish("s.a")
    header = encode_headers({"K": "v", name: OF_THE_PUBLISH[name], "X-Nats-Expected-Stream": "kept"})
    with pytest.raises(APIError):
        check(inlet.stream, Publication(b"s.a", header, b"x"), inlet.now)
    copy = copied(Stored(8, b"s.a", header, b"x", 0, 0.0))
    assert check(inlet.stream, copy, inlet.now).original is None
    assert copy.header is not None
    assert dict(Headers.parse(copy.header).items()) == {"K": "v", "X-Nats-Expected-Stream": "kept"}


@requirement(106)
def test_a_member_of_a_batch_is_copied_as_a_message_of_its_own() -> None:
    copy = copied(Stored(8, b"s.a", encode_headers(OF_THE_PUBLISH), b"x", 0, 0.0))
    assert (copy.subject, copy.header, copy.payload) == (b"s.a", None, b"x")
