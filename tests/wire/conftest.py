"""Short bytes are decoded as long ones, so that examples can be small. And a look at what the general reader reads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jsproto.wire import bulk_decoder
from jsproto.wire.decoder import Decoder
from jsproto.wire.frames import Frame


@pytest.fixture(autouse=True, scope="package")
def examples_are_long() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk_decoder, "_SHORT", 0)
        yield


@pytest.fixture
def general(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where the general way of reading was taken, while the test runs."""
    places: list[int] = []
    take = Decoder._take

    def noted(decoder: Decoder, data: bytes, position: int, frames: list[Frame]) -> int:
        if position < len(data):
            places.append(position)
        return take(decoder, data, position, frames)

    monkeypatch.setattr(Decoder, "_take", noted)
    return places
