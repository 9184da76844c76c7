"""What the library refuses before it asks: a real server refuses all of it, which is what makes it certain."""

from __future__ import annotations

from typing import Any

import pytest

from jsproto.errors import APIError, LocalProtocolError
from jsproto.grammar.api import decode_response
from jsproto.grammar.bodies import dumps
from jsproto.grammar.config import StreamConfig
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import connect
from tests.marks import requirement


@requirement(32, 101, 105, 246)
@pytest.mark.parametrize(
    ("options", "err_code"),
    [
        ({"allow_atomic": True, "persist_mode": "async"}, 10052),
        ({"persist_mode": "async", "storage": "memory"}, 10052),
        ({"mirror": {"name": "T"}, "allow_atomic": True}, 10198),
        ({"mirror": {"name": "T"}, "allow_batched": True}, 10209),
    ],
)
def test_the_server_would_refuse_it_too(server: NatsServer, options: dict[str, Any], err_code: int) -> None:
    config = StreamConfig("REFUSED", **options)
    with connect(server.url) as nc:
        with pytest.raises(LocalProtocolError):
            nc.jetstream().create_stream(config)
        answer = nc.request("$JS.API.STREAM.CREATE.REFUSED", dumps(config.to_json())).data
    with pytest.raises(APIError) as caught:
        decode_response(answer)
    assert caught.value.err_code == err_code
    assert type(caught.value).__module__ == "jsproto.api_errors"


@requirement(100, 103, 104)
def test_the_api_levels_of_server_and_stream(server: NatsServer) -> None:
    with connect(server.url) as nc:
        js = nc.jetstream()
        info = js.create_stream("LEVELS", subjects=["levels"], allow_batched=True, storage="memory")
        assert nc.server_info is not None
        assert nc.server_info.api_level == js.account_info().api_level == 5
        assert info.required_api_level == 4  # of allow_batched; ADR-50 says 3
        assert js.update_stream("LEVELS", allow_batched=False, allow_atomic=True).required_api_level == 2
        js.delete_stream("LEVELS")
