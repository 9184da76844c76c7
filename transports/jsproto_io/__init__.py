"""jsproto on real sockets: the impure half.

``jsproto_io.sync`` (threads), ``jsproto_io.asyncio`` and ``jsproto_io.trio`` offer the same verbs under the same names.
``jsproto_io.nats_server`` runs a nats-server for tests and demos; ``jsproto_io.cli`` is the command line.

Rule: what is protocol belongs to the core, ``jsproto``; a driver moves bytes, sleeps and parks callers.

Nothing of the drivers is imported here, so that using one never needs another's dependencies.
"""

import os

from jsproto.client.connection.options import ConnectKeywords as CoreKeywords


class ConnectKeywords(CoreKeywords, total=False):
    """The keyword arguments of each driver's ``connect()``: of ``jsproto.ConnectOptions``, and these.

    ``user_credentials`` is the path of a ``.creds`` file, or its content, or a pair of paths: of the JWT and of the
    seed. ``nkeys_seed`` is the path of a file with the seed of a user's nkey, ``nkeys_seed_str`` is the seed itself.
    Files are read for each link again. All of them need an extra: ``pip install 'jsproto[nkeys]'``.
    """

    user_credentials: str | os.PathLike[str] | tuple[str | os.PathLike[str], str | os.PathLike[str]] | None
    nkeys_seed: str | os.PathLike[str] | None
    nkeys_seed_str: str | None


class DurabilityWarning(UserWarning):
    """A stream is to acknowledge messages before they are on disk: what it acknowledged can be lost.

    ``create_stream`` gives it, by way of ``warnings.warn``, for ``persist_mode="async"``.
    """
