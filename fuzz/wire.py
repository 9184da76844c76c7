"""What must hold when one role decodes any bytes; shared by the targets of both roles."""

from __future__ import annotations

from jsproto.errors import RemoteProtocolError
from jsproto.wire.decoder import Decoder, Role
from jsproto.wire.encoder import encode
from jsproto.wire.frames import Frame

AFTERWARDS = b"PING\r\n"


def check(role: Role, data: bytes) -> None:
    """Raise AssertionError when something does not hold; anything else that comes out is a fault as well."""
    decoder = Decoder(role)
    frames = decoder.feed(data)
    assert decoder.pending <= len(data), "more is kept than was fed"
    step = 1 + len(data) % 7
    cut = Decoder(role)
    again = [frame for place in range(0, len(data), step) for frame in cut.feed(data[place : place + step])]
    assert again == frames, f"other frames in pieces of {step} bytes"
    assert str(cut.error) == str(decoder.error), f"another error in pieces of {step} bytes"
    assert cut.pending == decoder.pending, f"another rest in pieces of {step} bytes"
    if decoder.error is not None:
        assert type(decoder.error) is RemoteProtocolError
        assert decoder.pending == 0
        assert decoder.feed(AFTERWARDS) == [], "a frame after the error"
    written = b"".join(map(encode, frames))
    assert _decode(role, written) == frames, "what was decoded does not come back"


def _decode(role: Role, data: bytes) -> list[Frame]:
    decoder = Decoder(role)
    frames = decoder.feed(data)
    assert decoder.error is None, f"our own bytes are refused: {decoder.error}"
    assert decoder.pending == 0, "our own bytes are incomplete"
    return frames
