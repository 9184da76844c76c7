"""Whether a history of transactions over keys could have come from running them one after the other. It is exact.

How it works: the revisions of a key are its versions, in their order. So who read what, and who overwrote it, follows
from the revisions that each transaction has read and written. Each such pair is an edge of a graph:

* from who wrote a version to who read it
* from who wrote a version to who wrote the next one
* from who read a version to who wrote the next one

A history is serializable if the graph has no cycle. Cycles are found as strongly connected components (Tarjan).

Not here: how the history was made (``integration.soak_transactions``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Done:
    """A transaction that is stored. ``reads`` and ``writes``: revisions by key. 0: the key had none."""

    name: str
    reads: Mapping[str, int]
    writes: Mapping[str, int]


def violations(history: Sequence[Done], given: Mapping[str, int] | None = None) -> list[str]:
    """What is wrong in a history, in words. ``given``: the revisions of keys before it."""
    made = Counter((key, revision) for done in history for key, revision in done.writes.items())
    wrong = [
        f"{count} transactions wrote revision {revision} of {key}"
        for (key, revision), count in made.items()
        if count > 1
    ]
    known = {*made, *(given or {}).items()}
    wrong += [
        f"{done.name} has read revision {revision} of {key}, which nobody wrote"
        for done in history
        for key, revision in done.reads.items()
        if revision and (key, revision) not in known
    ]
    return wrong + [f"a cycle of {len(names)}: {', '.join(names[:5])}" for names in cycles(history)]


def cycles(history: Sequence[Done]) -> list[list[str]]:
    """The names of transactions that depend on each other in a circle: one list for each component."""
    writers = {(key, revision): at for at, done in enumerate(history) for key, revision in done.writes.items()}
    versions: dict[str, list[int]] = {}
    for key, revision in writers:
        versions.setdefault(key, []).append(revision)
    following = {
        (key, before): after
        for key, revisions in versions.items()
        for before, after in pairwise([0, *sorted(revisions)])
    }
    for done in history:  # versions from before the history are followed by its first one
        for key, revision in done.reads.items():
            if (key, revision) not in writers and key in versions:
                following[key, revision] = min(versions[key])
    edges: list[set[int]] = [set() for _ in history]
    for at, done in enumerate(history):
        for key, revision in done.reads.items():
            if (writer := writers.get((key, revision))) is not None:
                edges[writer].add(at)
            if (following_one := following.get((key, revision))) is not None:
                edges[at].add(writers[key, following_one])
        for key, revision in done.writes.items():
            if (following_one := following.get((key, revision))) is not None:
                edges[at].add(writers[key, following_one])
    return [
        [history[at].name for at in sorted(component)]
        for component in _components([sorted(each - {at}) for at, each in enumerate(edges)])
        if len(component) > 1
    ]


def _components(edges: Sequence[Sequence[int]]) -> Iterable[list[int]]:
    """The strongly connected components (Tarjan), without recursion."""
    index: dict[int, int] = {}
    lowest: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for root in range(len(edges)):
        if root in index:
            continue
        work = [(root, iter(edges[root]))]
        index[root] = lowest[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in index:
                    index[other] = lowest[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(edges[other])))
                    break
                if other in on_stack:
                    lowest[node] = min(lowest[node], index[other])
            else:
                work.pop()
                if work:
                    above = work[-1][0]
                    lowest[above] = min(lowest[above], lowest[node])
                if lowest[node] == index[node]:
                    at = stack.index(node)
                    component = stack[at:]
                    del stack[at:]
                    on_stack.difference_update(component)
                    yield component
