"""Names of options that are not ours: Spark's own, which pass, and those of other sources, answered with ours.

Rules: an option that is neither is refused, because it might have changed what is read or written. All names are in
lower case, as Spark hands them over.

Not here: our own options (``options``), and which of them is near a misspelt one (``option_fields``).
"""

from __future__ import annotations

from typing import Final

SPARKS: Final = frozenset({
    "checkpointlocation", "comment", "external", "is_managed_location", "location", "owner", "path", "paths",
    "provider", "queryname",
})  # fmt: skip
"""What Spark adds, and what it takes from the same place."""
SPARKS_PREFIXES: Final = ("option.", "__", "asyncprogresstracking")

_STREAM: Final = "a topic is a stream here: give option stream"
_START: Final = "give option startingOffsets"
_TIME: Final = "give option startingTimestamp"
_SUBJECT: Final = "give option subject, or filter the DataFrame"
_NONE: Final = "leave it out: a read has no consumer and no group"
_KEPT: Final = "leave it out: a stream has each change as a message of its own"
_ONCE: Final = "give option delivery (fast, fastDedup or atomic)"
ANSWERS: Final = {
    # Kafka's
    "kafka.bootstrap.servers": "give option servers",
    "subscribe": f"{_STREAM}, several with commas between them",
    "subscribepattern": "give option streamPattern",
    "assign": f"{_STREAM}. It has no partitions",
    "startingoffsetsbytimestamp": f"{_TIME}, which takes JSON too",
    "endingoffsetsbytimestamp": "give option endingTimestamp",
    "startingoffsetsbytimestampstrategy": "give option startingTimestampStrategy",
    "groupidprefix": _NONE,
    "kafkaconsumer.polltimeoutms": "give option requestTimeout",
    "fetchoffset.numretries": "give option fetch.numRetries",
    "fetchoffset.retryintervalms": "leave it out: pauses grow by themselves",
    "includetimestamp": "leave it out: there is a column timestamp",
    "topic": f"{_STREAM}, and for a write option or column subject",
    "key": "add a column subject",
    # Delta's and those of files
    "maxfilespertrigger": "give option maxOffsetsPerTrigger",
    "startingversion": _START,
    "startversion": _START,
    "versionasof": "give option endingOffsets",
    "timestampasof": "give option endingTimestamp",
    "ignorechanges": _KEPT,
    "ignoredeletes": _KEPT,
    "skipchangecommits": _KEPT,
    "readchangefeed": "leave it out: readStream of option kvBucket has each change",
    "mergeschema": "leave it out: columns are fixed",
    # Pulsar's, Kinesis' and of other connectors
    "service.url": "give option servers",
    "topics": f"{_STREAM}, several with commas between them",
    "topicspattern": "give option streamPattern",
    "streamname": "give option stream",
    "startingposition": _START,
    "startoffset": _START,
    "endoffset": "give option endingOffsets",
    "filter": _SUBJECT,
    "filters": _SUBJECT,
    "subjects": _SUBJECT,
    "query": _SUBJECT,
    "limit": "call limit() of the DataFrame, or give option endingOffsets",
    "group": _NONE,
    "durable": _NONE,
    "msgid": "add a column msg_id, or give delivery=fastDedup",
    "exactlyonce": _ONCE,
    "guarantee": _ONCE,
    "url": "give option servers",
    "host": "give option servers",
    "bucket": "give option kvBucket",
    "table": "give option stream, or kvBucket",
}  # fmt: skip
"""Of names that others have for what is done otherwise here, what to do."""
_PREFIXES: Final = {
    "kafka.": "options of the connection are servers and nats.*",
    "pulsar.": "options of the connection are servers and nats.*",
}


def is_sparks(name: str) -> bool:
    """Whether an option is Spark's own."""
    return name in SPARKS or name.startswith(SPARKS_PREFIXES)


def answer(name: str) -> str | None:
    """What to do instead of giving an option that others have. None: nobody is known to have it."""
    return ANSWERS.get(name) or next((text for each, text in _PREFIXES.items() if name.startswith(each)), None)
