"""Decimal digits in subjects and header blocks, as numbers.

Rules: digits are ASCII. A number has at most ``MAX_DIGITS`` of them, which spares ``int()`` giants.

Not here: consecutive numbers at once (``consecutive``), JSON (``fields``), sizes on control lines (``wire``).
"""

from __future__ import annotations

from typing import Final

MAX_DIGITS: Final = 20
"""Digits of a number of 64 bits, at most."""

NO_NUMBER: Final = -1
"""What ``saturated`` returns for something else than digits."""


def saturated(token: bytes | None) -> int:
    """The number that ``token`` is, leading zeros allowed. 2**64 for one with more than 20 digits, else NO_NUMBER."""
    if token is None or not token.isdigit():
        return NO_NUMBER
    digits = token.lstrip(b"0")
    return int(digits or b"0") if len(digits) <= MAX_DIGITS else 2**64
