"""A client with a bucket of objects on the server role, for the tests of objects, and a link that loses answers."""

from __future__ import annotations

from typing import Any

from jsproto.client.connection.connect_options import connect_options
from jsproto.client.objects.get import Get
from jsproto.client.objects.object_store import ObjectStore
from jsproto.client.objects.put import Put
from jsproto.grammar.object_info import ObjectInfo
from jsproto.testing.pair import Pair


class LossyPair(Pair):
    """Breaks the link at some of the moments when bytes come or go: ``cuts`` are their numbers.

    Attribute: ``moments`` (how many there were so far).
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(
            connect_options(reconnect_time_wait=0.01, reconnect_jitter=0.0, max_reconnect_attempts=-1), **options
        )
        self.cuts: frozenset[int] = frozenset()
        self.moments = 0

    def _client(self) -> bool:
        if self._link is not None and self.client.wants_send(self.now) and self._is_cut():
            self.lose_now()
            return True
        return super()._client()

    def _receive(self) -> bool:
        if self._link is not None and self._link._inbox and self._is_cut():
            self.lose_now()
        return super()._receive()

    def _is_cut(self) -> bool:
        self.moments += 1
        return self.moments in self.cuts

    def lose_now(self) -> None:
        """The link breaks, with what is under way on it."""
        assert self._link is not None
        self.world.break_link(self._link, "cut")


class Side:
    """A client with the bucket B."""

    def __init__(self, pair: Pair | None = None, **options: Any) -> None:
        self.pair = pair or Pair()
        self.pair.connect()
        self.store: ObjectStore = self.ask("create_object_store", "B", **options)

    def ask(self, verb: str, *arguments: Any, **options: Any) -> Any:
        """A verb of JetStream."""
        return self.pair.run_until(getattr(self.pair.js, verb)(*arguments, now=self.pair.now, **options))

    def do(self, verb: str, *arguments: Any, **options: Any) -> Any:
        """A verb of the bucket."""
        return self.pair.run_until(getattr(self.store, verb)(*arguments, now=self.pair.now, **options))

    def begin(self, name: str, **options: Any) -> Put:
        """A put."""
        return self.store.put(name, now=self.pair.now, **options)

    def feed(self, put: Put, data: bytes) -> None:
        """Give all of ``data``."""
        for at in range(0, len(data), put.chunk_size):
            self.pair.run_until(put.ready())
            put.add(data[at : at + put.chunk_size], self.pair.now)

    def put(self, name: str, data: bytes, **options: Any) -> ObjectInfo:
        """Put an object."""
        put = self.begin(name, **options)
        self.feed(put, data)
        return self.pair.run_until(put.finish(self.pair.now))

    def open(self, name: str, **options: Any) -> Get:
        """Begin to read an object."""
        get: Get = self.do("open", name, **options)
        return get

    def take(self, get: Get, most: int = 4) -> bytes:
        """What is left of an object."""
        taken = []
        while (pieces := get.pop_many(most, self.pair.now)) or not get.finished:
            taken += pieces
            if not pieces:
                self.pair.run_until(get.readable())
        return b"".join(taken)

    def get(self, name: str, **options: Any) -> bytes:
        """Read an object."""
        return self.take(self.open(name, **options))

    def subjects(self) -> dict[str, int]:
        """How many chunks there are, by put."""
        found: dict[str, int] = self.ask("stream_subjects", "OBJ_B", "$O.B.C.>")
        return {self.store.space.nuid(subject): count for subject, count in found.items()}

    def raw(self, subject: str, data: bytes = b"", **options: Any) -> int:
        """Store a message as another client would."""
        seq: int = self.ask("publish", subject, data, **options).seq
        return seq
