"""Finds programs to which the server role and a real server answer differently, and shortens them.

Rules: a difference counts if careful runs show it too, in which the real server gets time after each step, and as long
as it needs for what it has to say. Shortening leaves out steps, then fields of bodies and headers, as long as a careful
run shows a difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.integration.differential.links import (
    CAREFUL,
    GRACE,
    PATIENCE,
    PATIENT,
    OnARealServer,
    OnTheRole,
    Program,
    Step,
)
from tests.integration.differential.said import said

Difference = tuple[str, Any, Any]


class Search:
    """A real server on ``port`` to compare the role with."""

    def __init__(self, port: int) -> None:
        self._role = OnTheRole()
        self._real = OnARealServer(port, self._role)

    def close(self) -> None:
        """Close the connection."""
        self._real.close()

    def difference(self, program: Program, grace: float = GRACE, patience: float = PATIENCE) -> Difference | None:
        """The first step or subscription that got something else, and what it got. None: there is none."""
        self._real.grace, self._real.is_careful, self._real.patience = grace, grace > GRACE, patience
        here, there = said(self._role.run(program), program), said(self._real.run(program), program)
        differing = [of for of in {**here, **there} if here.get(of) != there.get(of)]
        if not differing:
            return None
        first = min(differing, key=lambda of: (not of.isdigit(), int(of) if of.isdigit() else 0, of))
        return first, here.get(first), there.get(first)

    def confirmed(self, program: Program) -> Difference | None:
        """The difference, if careful runs show it too."""
        return (
            self.difference(program)
            and self.difference(program, CAREFUL / 4)
            and self.difference(program, CAREFUL, PATIENT)
        )

    def shortened(self, program: Program) -> list[Step]:
        """``program`` without what its difference does not need."""
        steps = list(program)
        size = len(steps) // 2
        while size:
            end = len(steps)
            while end > 0:
                fewer = steps[: max(0, end - size)] + steps[end:]
                if self._differs(fewer):
                    steps = fewer
                end -= size
            size //= 2
        for place in range(len(steps)):
            is_shorter = True
            while is_shorter:
                is_shorter = False
                for simpler in _simpler(steps[place]):
                    fewer = [*steps[:place], simpler, *steps[place + 1 :]]
                    if self._differs(fewer):
                        steps, is_shorter = fewer, True
                        break
        return steps

    def _differs(self, program: Program) -> bool:
        return self.difference(program, CAREFUL / 4) is not None and self.difference(program, CAREFUL / 2) is not None


def _simpler(step: Step) -> Iterator[Step]:
    """``step`` without one thing, in each way."""
    if step.headers:
        for name in step.headers:
            headers = {other: value for other, value in step.headers.items() if other != name}
            yield step._replace(headers=headers or None)
    if isinstance(step.payload, dict):
        for payload in _without_one(step.payload):
            yield step._replace(payload=payload)


def _without_one(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name, value in body.items():
        if name not in ("name", "stream_name", "config"):
            yield {other: each for other, each in body.items() if other != name}
        if isinstance(value, dict):
            for within in _without_one(value):
                yield body | {name: within}
