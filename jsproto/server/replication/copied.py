"""How mirrors and sources copy a message.

Rules (FACTS.md F1.24): headers of batches and expectations belong to the publish, so a copy does not have them. A copy
is stored unchecked. All other headers stay as they are.

Not here: how copies travel.
"""

from __future__ import annotations

import re
from typing import Final

from jsproto.grammar.headers import without
from jsproto.server.store.stream import STREAM_SOURCE, Publication, Stored

_OF_THE_PUBLISH: Final = re.compile(rb"(?<=\r\n)Nats-(?:Batch|Expected)-[^\r\n]*+\r\n")
_NOTHING: Final = b"NATS/1.0\r\n\r\n"


def copied(stored: Stored, *, of_source: bool = False) -> Publication:
    """The message as a mirror stores it, or without the header that says its origin, to which a source adds its own."""
    header = stored.header
    if header is not None:
        header = _OF_THE_PUBLISH.sub(b"", header)
        if of_source:
            header = without(header, STREAM_SOURCE.encode()) or _NOTHING
        if header == _NOTHING:
            header = None
    return Publication(stored.subject, header, stored.payload)
