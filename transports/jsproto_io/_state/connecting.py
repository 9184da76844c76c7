"""The keyword arguments of ``connect()``, and the warning about streams that are not durable.

Not here: the keywords of other verbs (``keywords``).
"""

from __future__ import annotations

import os

from jsproto.client.connection.connect_options import ConnectKeywords as CoreKeywords


class ConnectKeywords(CoreKeywords, total=False):
    """The keyword arguments of each driver's ``connect()``: those of ``jsproto.ConnectOptions``, and three for files.

    * ``user_credentials``: the path of a ``.creds`` file, or its content. A pair of paths is one of the JWT and one of
      the seed.
    * ``nkeys_seed``: the path of a file with the seed of a user's nkey, as ``nk`` or ``nsc`` writes it.
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
