"""What is short is decoded as what is long, so that examples can be small."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jsproto.wire import decoder


@pytest.fixture(autouse=True, scope="package")
def examples_are_long() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder, "_SHORT", 0)
        yield
