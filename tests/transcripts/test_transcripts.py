"""Recorded conversations with real servers, decoded in both roles and encoded again, byte for byte.

``INDEX.json`` lists the files. Each holds the frames of one connection in their order, ``s2c`` or ``c2s``;
``elided`` stands for frames that were left out of the record.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from jsproto.wire.decoder import Decoder, Role
from jsproto.wire.encoder import encode
from jsproto.wire.frames import Frame
from tests.effort import examples

FOLDER: Final = Path(__file__).parent
INDEX: Final[list[dict[str, Any]]] = json.loads((FOLDER / "INDEX.json").read_bytes())
DIRECTIONS: Final[dict[str, Role]] = {"s2c": "client", "c2s": "server"}


def recorded(name: str) -> list[dict[str, Any]]:
    transcript: list[dict[str, Any]] = json.loads((FOLDER / name).read_bytes())["transcript"]
    return transcript


def raw_frames(name: str, direction: str) -> list[bytes]:
    return [line["raw"].encode("latin-1") for line in recorded(name) if line["dir"] == direction]


def decode(role: Role, pieces: list[bytes]) -> list[Frame]:
    decoder = Decoder(role)
    frames = [frame for piece in pieces for frame in decoder.feed(piece)]
    assert decoder.error is None
    assert decoder.pending == 0
    return frames


def test_the_index_lists_every_transcript() -> None:
    files = {path.name for path in FOLDER.glob("*.json")}
    assert {entry["file"] for entry in INDEX} == files - {"INDEX.json"}
    for entry in INDEX:
        directions = [line["dir"] for line in recorded(entry["file"])]
        assert (len(directions), directions.count("s2c")) == (entry["frames"], entry["s2c"])
        assert set(directions) <= {"s2c", "c2s", "elided"}


@pytest.mark.parametrize("name", [entry["file"] for entry in INDEX])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_every_frame_encodes_to_what_was_recorded_whole_and_byte_by_byte(name: str, direction: str) -> None:
    raw = raw_frames(name, direction)
    data = b"".join(raw)
    frames = decode(DIRECTIONS[direction], [data])
    assert [encode(frame) for frame in frames] == raw
    assert decode(DIRECTIONS[direction], [data[place : place + 1] for place in range(len(data))]) == frames


@settings(max_examples=examples(300))
@given(st.data())
def test_every_frame_encodes_to_what_was_recorded_however_it_is_cut(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([entry["file"] for entry in INDEX]))
    for direction, role in DIRECTIONS.items():
        raw = raw_frames(name, direction)
        whole = b"".join(raw)
        places = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=12)))
        pieces = [whole[start:end] for start, end in zip([0, *places], [*places, len(whole)], strict=True)]
        assert [encode(frame) for frame in decode(role, pieces)] == raw
