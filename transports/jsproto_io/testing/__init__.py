"""A JetStream server in memory for tests: the server role of the core on real sockets. It is no database.

    from jsproto_io.testing import serve

    with serve() as server:
        connect(server.url)

``in_process`` is the same without sockets, for clients of ``jsproto_io`` in the same process.

``serve`` runs it in a thread. ``jsproto_io.testing.asyncio.serve`` and ``jsproto_io.testing.trio.serve`` run it in an
event loop. ``jsproto_io.testing.plugin`` has fixtures for pytest. README.md, beside this file, shows them.

Rules
 * What the server does belongs to the core (``jsproto.server``). Here bytes are moved, and one deadline is kept.
 * Nothing is imported here before it is used: each run of pytest loads the plugin.

Not here: tests without sockets and clocks (``jsproto.testing``), a real server (``jsproto_io.nats_server``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsproto_io.testing.pipes.server import InProcessServer, in_process
    from jsproto_io.testing.threads import MemoryServer, serve

__all__ = ["InProcessServer", "MemoryServer", "in_process", "serve"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from jsproto_io.testing import threads
    from jsproto_io.testing.pipes import server

    return getattr(threads if name in ("MemoryServer", "serve") else server, name)
