"""Whole programs in simulated time: unmodified asyncio code against the server role, over a network that misbehaves.

    report = simulate(main, seed=7)
    search(main, seeds=range(500), check=check)

``simulate`` runs one seed, ``search`` many. A failure raises SimulationFailedError with its report, which ``search``
has shrunk. ``python -m jsproto_io.testing.simulate`` does it from a shell, and the fixture ``simulation`` in pytest.
README.md, beside the folder above, shows them.

Where to look: one simulation (``run``), many (``search``), the event loop (``loop``), what surrounds it (``sandbox``).

Not here: the server, its links and the faults (``jsproto.testing``).
"""

from __future__ import annotations

from jsproto_io.testing.simulation.engine import NotSimulatedError
from jsproto_io.testing.simulation.run import Report, Simulation, SimulationFailedError, current, simulate
from jsproto_io.testing.simulation.search import NotDeterministicError, search

__all__ = [
    "NotDeterministicError", "NotSimulatedError", "Report", "Simulation", "SimulationFailedError", "current", "search",
    "simulate",
]  # fmt: skip
