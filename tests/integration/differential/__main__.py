"""The command: tries the programs of many seeds, on several processes, and prints each that shows a difference."""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from jsproto_io.nats_server import NatsServer
from tests.integration.differential.programs import THEMES, program
from tests.integration.differential.said import differing
from tests.integration.differential.search import Search


def try_seeds(seeds: range, steps: int, themes: str = "") -> list[tuple[int, str]]:
    """The seeds whose programs show a difference, each with a text that tells which."""
    found: list[tuple[int, str]] = []
    with NatsServer() as running:
        search = Search(running.port)
        for seed in seeds:
            made = program(seed, steps, themes)
            if search.confirmed(made) is not None:
                found.append((seed, _report(seed, search, made)))
                print(found[-1][1], flush=True)
        search.close()
    return found


def _report(seed: int, search: Search, made: Any) -> str:
    steps = search.shortened(made)
    of, here, there = search.confirmed(steps) or ("", None, None)
    return "\n  ".join([f"seed {seed}:", *map(_line, steps), f"at {of}", *differing(here, there)])


def _line(step: Any) -> str:
    fields = (
        step._asdict() if step.kind != "pub" else {name: step[place] for place, name in enumerate(step._fields[1:], 1)}
    )
    defaults = {"kind": None, "subject": "", "payload": b"", "headers": None, "reply": "{}", "wait": 0.0}
    return ", ".join(f"{name}={value!r}" for name, value in fields.items() if value != defaults[name])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.integration.differential", description=__doc__)
    parser.add_argument("--seeds", default="0:100", help="first:end")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--workers", type=int, default=2, help="processes, each with a server of its own")
    parser.add_argument("--themes", default="", help=f"a word of those that programs may have: {', '.join(THEMES)}")
    asked = parser.parse_args()
    first, end = map(int, asked.seeds.split(":"))
    began = time.monotonic()
    parts = [range(first + worker, end, asked.workers) for worker in range(asked.workers)]
    with ProcessPoolExecutor(asked.workers) as pool:
        runs = [pool.submit(try_seeds, part, asked.steps, asked.themes) for part in parts]
        bad = sorted(seed for run in runs for seed, _ in run.result())
    seconds = time.monotonic() - began
    print(f"{end - first} programs in {seconds:.0f} s, {len(bad)} with a difference: {bad}")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
