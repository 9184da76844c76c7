"""jsproto on real sockets: the drivers.

``jsproto_io.sync`` (threads), ``jsproto_io.asyncio`` and ``jsproto_io.trio`` have the same verbs under the same names.
``jsproto_io.nats_server`` runs a nats-server for tests and demos. ``jsproto_io.cli`` is the command line.

Rules
 * The protocol belongs to the core, ``jsproto``. A driver moves bytes, sleeps and parks callers.
 * No driver is imported here, so that the use of one needs no dependency of another.
"""

import os

from jsproto.client.connection.options import ConnectKeywords as CoreKeywords


class ConnectKeywords(CoreKeywords, total=False):
    """The keyword arguments of each driver's ``connect()``: those of ``jsproto.ConnectOptions``, and three for files.

    * ``user_credentials``: the path of a ``.creds`` file, or its content. A pair of paths is one of the JWT and one of
      the seed.
    * ``nkeys_seed``: the path of a file with the seed of a user's nkey.
    * ``nkeys_seed_str``: the seed itself, "SU" and 56 more characters.

    Files are read by ``connect()``, and again for each link. At most one of the three may be given. They need an extra:
    ``pip install 'jsproto[nkeys]'``.
    """

    user_credentials: str | os.PathLike[str] | tuple[str | os.PathLike[str], str | os.PathLike[str]] | None
    nkeys_seed: str | os.PathLike[str] | None
    nkeys_seed_str: str | None


class DurabilityWarning(UserWarning):
    """A stream acknowledges messages before they are on disk: a crash can lose acknowledged messages.

    ``create_stream`` issues it through ``warnings.warn`` for ``persist_mode="async"``.
    """
