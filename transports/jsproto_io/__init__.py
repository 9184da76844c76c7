"""jsproto on real sockets: the drivers.

``jsproto_io.sync`` (threads), ``jsproto_io.asyncio`` and ``jsproto_io.trio`` have the same verbs under the same names.
``jsproto_io.nats_server`` runs a nats-server for tests and demos, ``jsproto_io.testing`` a server in memory.
``jsproto_io.contexts`` reads environment variables and contexts, ``jsproto_io.cli`` is the command line.

Rules
 * The protocol belongs to the core, ``jsproto``. A driver moves bytes, sleeps and parks callers.
 * Drivers are imported one by one, so that each needs its own dependencies alone.
 * Names are imported at their first use: each run of pytest loads the plugin in ``jsproto_io.testing``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsproto_io._state.connecting import ConnectKeywords, DurabilityWarning
    from jsproto_io.contexts import from_env

__all__ = ["ConnectKeywords", "DurabilityWarning", "from_env"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from jsproto_io import contexts
    from jsproto_io._state import connecting

    return contexts.from_env if name == "from_env" else getattr(connecting, name)
