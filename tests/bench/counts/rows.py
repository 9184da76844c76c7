"""Which jobs are counted, for which clients. A job of ``tests.bench.table`` that is hot belongs here.

Not here: jobs on threads of their own, such as callbacks of ``jsproto-sync``, and large payloads, which cost the same.
"""

from __future__ import annotations

from typing import Final, TypeAlias

Row: TypeAlias = tuple[str, str]
"""Job and client."""

CORE: Final = ("core-publish-many", "core-parse-msg", "core-direct-get", "core-deliver")
BULK: Final = ("fast-ingest", "atomic", "async-publish", "direct-get", "fetch-ack", "ordered-push")
ONE: Final = ("publish", "fetch-one", "kv-get", "core-publish")
"""One message at a time."""
ANSWERS: Final = ("request", "callback")
"""Their callbacks have a thread of their own, on threads."""
SINGLE: Final = ("fast-ingest-single", "atomic-single", "async-publish-single", "fetch-ack-single")
KEYS: Final = ("kv-put", "kv-snapshot", "kv-watch", "kv-update", "kv-transaction")
READING_ALL: Final = ("direct-get-headers", "direct-get-fields")
SYNC_ALONE: Final = ("fast-ingest-headers", *READING_ALL)
ON_LOOPS: Final = (*ANSWERS, "consume", "consume-keys", "ordered-push-callback", "shared-publish")
"""On threads they need several."""

ROWS: Final[tuple[Row, ...]] = (
    *((job, "jsproto-core") for job in CORE),
    *((job, "jsproto-sync") for job in (*BULK, *SINGLE, *ONE, *KEYS, "copy", *SYNC_ALONE)),
    *((job, "jsproto-asyncio") for job in (*BULK, *SINGLE, *ONE, *KEYS, "copy", *ON_LOOPS)),
    *((job, "jsproto-trio") for job in (*BULK, *SINGLE, *ONE, *ANSWERS)),  # above them trio is as asyncio
)

MESSAGES: Final = 1_000
FEWER: Final = {
    **dict.fromkeys((*SINGLE, *READING_ALL, "consume", "consume-keys", "kv-snapshot", "kv-watch"), 250),
    **dict.fromkeys(("publish", "fetch-one", "kv-get", "kv-update", "kv-transaction", "request", "shared-publish"), 50),
}
"""Messages of a job that does much for each of them."""


def messages(job: str) -> int:
    """How many are counted."""
    return FEWER.get(job, MESSAGES)
