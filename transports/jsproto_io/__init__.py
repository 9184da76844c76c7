"""jsproto on real sockets: the impure half.

``jsproto_io.sync`` (threads), ``jsproto_io.asyncio`` and ``jsproto_io.trio`` offer the same verbs under the same names.
``jsproto_io.nats_server`` runs a nats-server for tests and demos; ``jsproto_io.cli`` is the command line.

Rule: what is protocol belongs to the core, ``jsproto``; a driver moves bytes, sleeps and parks callers.

Nothing is imported here, so that using one driver never needs another's dependencies.
"""


class DurabilityWarning(UserWarning):
    """A stream is to acknowledge messages before they are on disk: what it acknowledged can be lost.

    ``create_stream`` gives it, by way of ``warnings.warn``, for ``persist_mode="async"``.
    """
