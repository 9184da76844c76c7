"""Recorded conversations about flow-control consumers, resets and sources, answered again by the server role.

They are replayed as those about consumers are. ``DIFFERS`` says where the role answers otherwise, and why.

Not here: resets.
"""

from __future__ import annotations

import json
import re
from typing import Final

import pytest

from jsproto.wire.frames import Msg
from tests.transcripts.test_server_role_consuming import Replay
from tests.transcripts.test_transcripts import INDEX

SCENARIO: Final = re.compile(r"source-(\w+@\S+)\.json")
RECORDED: Final = {match[1]: entry["file"] for entry in INDEX if (match := SCENARIO.fullmatch(entry["file"]))}

SOURCES: Final = "the role follows no sources that have a consumer"
STRICTER: Final = "an answer beyond what was delivered deletes messages, which the role does not do"
DIFFERS: Final = {
    "auto_durable@2.15.1": SOURCES,
    "auto_mirror@2.15.1": "mirrors copy the store, without a consumer",
    "durable_mirror_works@2.15.1": SOURCES,
    "durable_source_user_reset@2.15.1": SOURCES,
    "durable_source_with_spy@2.15.1": SOURCES,
    "durable_source_works@2.14.6": SOURCES,
    "durable_source_works@2.15.1": SOURCES,
    "fc_create@2.12.8": "consumers answer as the reference does",
    "fc_reply_variants@2.15.1": STRICTER,
}


ANSWERED: Final = [name for name in RECORDED if name not in DIFFERS and not name.startswith("reset_")]


class Unordered(Replay):
    """A replay that compares JSON objects whatever the order of their fields."""

    def known(self, message: Msg, said: dict[bytes, bytes]) -> tuple[object, ...]:
        *rest, payload = super().known(message, said)
        return (*rest, json.loads(payload) if isinstance(payload, str) else payload)


@pytest.mark.parametrize("name", ANSWERED)
def test_the_server_role_answers_as_the_release(name: str) -> None:
    Unordered(name, RECORDED[name]).run({})


@pytest.mark.parametrize("name", DIFFERS)
def test_what_differs_is_recorded_and_differs_still(name: str) -> None:
    with pytest.raises(AssertionError):
        Unordered(name, RECORDED[name]).run({})
