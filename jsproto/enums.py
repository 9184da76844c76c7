"""Enumerations whose members are keys on hot paths.

Rule: a member is equal to itself alone, so its identity is its hash.

Pays: an ``Enum`` hashes the name of a member, by a call of Python's, and each step of a table asks twice.
``fast-ingest``, and all verbs that are called one by one.

Not here: the enumerations.
"""

from __future__ import annotations

from enum import Enum


class IdentityEnum(Enum):
    """An ``Enum`` that hashes as objects do."""

    __hash__ = object.__hash__
