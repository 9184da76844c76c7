"""Trying a transaction again after conflicts: how often, and after which pauses.

Rules:

* Each try is a new transaction, which reads anew. It reads what made the one before a conflict, or later.
* Pauses have full jitter (``jsproto.backoff``). Chance is an argument, and so is time.
* A revision that was given to a guard twice, and is past, ends it at once: no later try can meet it.
* Tries end it, not time: whoever has had bad luck for long is not told to give up sooner.
* The last conflict names its keys. The others need not, because the next try reads them.

Not here: the function that is tried, and who waits (the drivers).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from jsproto.backoff import full_jitter
from jsproto.client.bucket.transaction import Isolation, Transaction
from jsproto.errors import TransactionConflictError
from jsproto.grammar.fields import check_count

if TYPE_CHECKING:
    from jsproto.client.bucket.bucket import Bucket
    from jsproto.client.jetstream import JetStream

TRIES: Final = 20
FIRST_PAUSE: Final = 0.002  # seconds, at most
LONGEST_PAUSE: Final = 0.05


class Attempts:
    """The tries of one function. Made by ``Bucket.attempts``.

    Attribute: ``tried``, how many tries have begun.
    """

    __slots__ = (
        "_bucket", "_chance", "_isolation", "_js", "_least", "_passed", "_timeout", "_transaction", "_tries", "tried",
    )  # fmt: skip

    def __init__(
        self,
        js: JetStream,
        bucket: Bucket,
        isolation: Isolation,
        *,
        tries: int,
        chance: Callable[[], float],
        timeout: float | None,
    ) -> None:
        """``tries``: at most. ``chance`` draws numbers from 0 to 1, without 1. The others: see ``Transaction``."""
        check_count("tries", tries)
        self._js = js
        self._bucket = bucket
        self._isolation: Isolation = isolation
        self._tries = tries
        self._chance = chance
        self._timeout = timeout
        self._least = 0
        self._passed: set[tuple[str, int]] = set()
        self._transaction: Transaction | None = None
        self.tried = 0

    def begin(self) -> Transaction:
        """The next transaction. Errors as of ``Transaction``."""
        self.tried += 1
        self._transaction = transaction = Transaction(
            self._js, self._bucket, self._isolation, least=self._least, names_conflicts=self.tried >= self._tries,
            timeout=self._timeout,
        )  # fmt: skip
        return transaction

    def failed(self, error: TransactionConflictError) -> float:
        """The seconds until the next try, after a conflict.

        Raises:
            TransactionConflictError: it is not this one's, or it was the last try's, or another one would end likewise.
        """
        transaction = self._transaction
        if transaction is None or transaction.error is not error or self.tried >= self._tries:
            raise error
        if transaction.passed & self._passed:
            raise error
        self._passed = transaction.passed
        self._least = max(self._least, error.revision or 0)
        return full_jitter(self.tried, FIRST_PAUSE, LONGEST_PAUSE, self._chance())
