"""The bytes of an input as decisions: numbers and pieces, one after the other. At its end everything is 0 and empty."""

from __future__ import annotations

from fuzz.engine import DICTIONARY


class Tape:
    """An input that is read from the front. Attribute: ``ended``."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def ended(self) -> bool:
        """Whether nothing is left."""
        return self._at >= len(self._data)

    def number(self, below: int) -> int:
        """A number of 0 to ``below - 1``, at most 255."""
        piece = self.piece(1)
        return piece[0] % below if piece else 0

    def piece(self, most: int) -> bytes:
        """The next bytes, fewer at the end."""
        start = self._at
        self._at = min(start + most, len(self._data))
        return self._data[start : self._at]

    def spliced(self, data: bytes) -> bytes:
        """``data`` with a part of it replaced, by bytes of the tape or by a word that parsers know."""
        start = (self.number(256) * 256 + self.number(256)) % (len(data) + 1)
        end = start + self.number(12)
        word = self.number(2 * len(DICTIONARY))
        return data[:start] + (DICTIONARY[word] if word < len(DICTIONARY) else self.piece(self.number(8))) + data[end:]
