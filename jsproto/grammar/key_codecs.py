"""Other spellings of keys: text of any kind as base64, and paths with slashes.

Rules:

* A codec spells the tokens between the dots of a key. So filters go on to match tokens.
* base64 has the alphabet for URLs and no padding. ``*`` and ``>`` of a filter stay.
* A path has a dot for each slash. A leading slash is the token ``_root_``, and a trailing one is cut off.
* ``chained`` codecs encode in their order, and decode in the reverse one.
* ``decode`` raises ValueError for what ``encode`` would not make of any key.

Not here: codecs of values. They are bytes.
"""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Final

from jsproto.grammar.bucket_keys import KeyCodec

_ROOT: Final = "_root_"
_WILDCARDS: Final = ("*", ">")


class Base64Keys:
    """Each token of a key in base64."""

    def encode(self, key: str) -> str:
        """The tokens in base64."""
        return ".".join(map(_encoded, key.split(".")))

    def encode_filter(self, pattern: str) -> str:
        """The tokens in base64, wildcards as they are."""
        return ".".join([token if token in _WILDCARDS else _encoded(token) for token in pattern.split(".")])

    def decode(self, key: str) -> str:
        """The text of each token. ValueError when one is no base64 of UTF-8."""
        return ".".join(map(_decoded, key.split(".")))


class PathKeys:
    """Keys as paths: ``/etc/hosts`` is the key ``_root_.etc.hosts``."""

    def encode(self, key: str) -> str:
        """The path with dots."""
        path = key.removesuffix("/") if key != "/" else ""
        rooted = _ROOT + path if key.startswith("/") else path
        return rooted.replace("/", ".")

    def encode_filter(self, pattern: str) -> str:
        """As ``encode``: wildcards are tokens like others."""
        return self.encode(pattern)

    def decode(self, key: str) -> str:
        """The path with slashes."""
        path = key.replace(".", "/")
        if path == _ROOT:
            return "/"
        return path.removeprefix(_ROOT) if path.startswith(f"{_ROOT}/") else path


class _Chain:
    """Several codecs, one after the other."""

    def __init__(self, codecs: Sequence[KeyCodec]) -> None:
        self._codecs = codecs

    def encode(self, key: str) -> str:
        for codec in self._codecs:
            key = codec.encode(key)
        return key

    def encode_filter(self, pattern: str) -> str:
        for codec in self._codecs:
            pattern = codec.encode_filter(pattern)
        return pattern

    def decode(self, key: str) -> str:
        for codec in reversed(self._codecs):
            key = codec.decode(key)
        return key


def chained(*codecs: KeyCodec) -> KeyCodec:
    """A codec of several: the first is the nearest to the application."""
    return _Chain(codecs)


def _encoded(token: str) -> str:
    return urlsafe_b64encode(token.encode()).rstrip(b"=").decode()


def _decoded(token: str) -> str:
    text = b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True).decode()
    if _encoded(text) != token:
        raise ValueError(f"{token!r:.100} is no base64 of a token")
    return text
