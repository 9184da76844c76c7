"""``python -m fuzz``: run targets on their corpus and on mutations of it, or hand one over to atheris."""

from __future__ import annotations

import argparse
import hashlib
import importlib
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

from fuzz.engine import CORPUS, LARGEST, Finding, attempt, mutations, seeds

NAMES = (
    "client_bytes", "server_bytes", "header_block", "control_json", "ack_subject", "batch_member", "stored_reply",
    "api_body", "advisory", "position", "handshake", "server_requests", "fast_batch", "atomic_batch", "pull_consumer",
    "ordered_consumer", "sourcing_consumer", "direct_read", "server_machines",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0: nothing found; 1: a finding, saved in the corpus so that the test suite replays it."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="target", help=f"{', '.join(NAMES)}; else all")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each target (default: 10)")
    parser.add_argument("--seed", type=int, default=0, help="of the mutations (default: 0)")
    parser.add_argument("--atheris", action="store_true", help="search with atheris; one target")
    parser.add_argument("--flag", action="append", default=[], help="for libFuzzer, as --flag=-runs=1000")
    options = parser.parse_args(arguments)
    names = options.targets or list(NAMES)
    if unknown := sorted(set(names) - set(NAMES)):
        parser.error(f"no such target: {', '.join(unknown)}")
    if options.atheris:
        if len(names) != 1:
            parser.error("--atheris takes one target")
        hand_over(names[0], options.seconds, options.flag)
        return 0  # not reached: libFuzzer ends the process
    targets = importlib.import_module("fuzz.targets").TARGETS
    return max(search(name, targets[name], options.seconds, options.seed) for name in names)


def search(name: str, run: Callable[[bytes], None], seconds: float, seed: int) -> int:
    """The corpus, then mutations of it until the time is over or something was found."""
    corpus = seeds(name)
    for data in corpus:
        if (finding := attempt(run, data)) is not None:
            return report(name, finding, saved=True)
    start, count = time.perf_counter(), 0
    for data in mutations(corpus, seed):
        if (finding := attempt(run, data)) is not None:
            return report(name, finding, saved=False)
        count += 1
        if count % 256 == 0 and time.perf_counter() - start > seconds:
            break
    rate = count / (time.perf_counter() - start)
    print(f"{name}: {count} inputs, {rate:.0f} a second, nothing found (seed {seed})")
    return 0


def report(name: str, finding: Finding, *, saved: bool) -> int:
    """Print the finding and, unless it comes from there, put its input into the corpus."""
    print(f"{name}: {finding}", file=sys.stderr)
    if not saved:
        path = CORPUS / name / f"found-{hashlib.sha256(finding.data).hexdigest()[:12]}"
        path.write_bytes(finding.data)
        print(f"  saved as {path}", file=sys.stderr)
    return 1


def hand_over(name: str, seconds: float, flags: list[str]) -> None:
    """Let atheris search. What breaks is saved in the corpus; inputs that reach new code are not kept."""
    atheris = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["jsproto"]):
        targets = importlib.import_module("fuzz.targets").TARGETS
    folder = CORPUS / name
    with tempfile.TemporaryDirectory() as reached:
        limits = ["-timeout=1", "-rss_limit_mb=512", f"-max_len={LARGEST}", f"-max_total_time={seconds:.0f}"]
        atheris.Setup(
            [sys.argv[0], *limits, f"-artifact_prefix={folder}/", *flags, reached, str(folder)], targets[name]
        )
        atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
