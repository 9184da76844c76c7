"""Worlds on a real server: one stream, mirrors that hold parts of it, writers, and a client that reads meanwhile.

Truth is what the server acknowledged. Every change is made to the server first, then to a stream of the server role
with the same limits, which says what the limits took; both under one lock. A read knows what had been acknowledged when
it began, and waits at its end for what is under way: so it is judged by no less than the states that it can have seen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from threading import Condition, Thread
from types import TracebackType
from typing import Any, Final, Self

from jsproto.errors import Error
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.stored import StoredMsg
from jsproto.server.store.context import ServerContext
from jsproto.server.store.stream import Publication, Stored, Stream
from jsproto_io.sync import JetStream, connect
from tests.worlds.checker import Scene, Span, WrongAnswerError, check_as_of, check_batch, check_last_of_each, check_one
from tests.worlds.truth import Life, Message, Witness

TIMEOUT: Final = 3.0


class _Acknowledged(Witness):
    """Nobody knows when the server stored a message."""

    def stored(self, message: Stored, now: float) -> None:
        self._last = message.subject
        self.life.store(Message(message.seq, message.subject.decode(), message.payload, None))


class RealWorld:
    """The stream ``name`` and what is done to it. Use it as a context: the writers stop, and the streams go."""

    def __init__(self, url: str, name: str, **options: Any) -> None:
        self.name = name
        self.url = url
        self.nc = connect(url)
        self.js: JetStream = self.nc.jetstream(timeout=TIMEOUT)
        self.options = options
        self.lives: list[Life] = []
        self.written = 0
        self.failed: list[BaseException] = []
        self.errors: list[tuple[str, str]] = []
        self.session = self.js.consistent_session()
        self.floor = 0
        self._known_lives = 1  # to the session
        self._mirrors: list[str] = []
        self._changing = Condition()
        self._waiting = 0
        self._ended = False
        self._writers: list[Thread] = []
        self._create()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
        for writer in self._writers:
            writer.join()
        for name in (*self._mirrors, self.name):
            self.js.delete_stream(name)
        self.nc.close()
        if self.failed and error is None:
            raise self.failed[0]

    # -- what happens --------------------------------------------------------------------------------------------------

    def _create(self) -> None:
        wanted = {"storage": "memory", "allow_direct": True, "subjects": [f"{self.name}.>"], **self.options}
        self.js.create_stream(self.name, **wanted)
        self._stream = Stream(StreamConfig.from_options(self.name, **wanted), ServerContext(b"token"), 0.0)
        self._witness = _Acknowledged(self._stream)
        self.lives.append(self._witness.life)

    def mirror(self, name: str, mirror: Mapping[str, Any] | None = None, **options: Any) -> None:
        """Have a mirror that answers for what it mirrors."""
        source: Any = {"name": self.name, **(mirror or {})}
        self.js.create_stream(
            name, storage="memory", allow_direct=True, mirror_direct=True, mirror=source, **options
        )  # fmt: skip
        self._mirrors.insert(0, name)

    def wait_for_mirror(self, name: str) -> None:
        """Until it has answered for the stream."""
        while self.js.get_last_msg(self.name, f"{self.name}.1").stream != name:
            pass

    @contextmanager
    def _change(self) -> Iterator[None]:
        """Nobody else changes anything, and nobody begins or ends a read."""
        with self._changing:
            self._changing.wait_for(lambda: not self._waiting)
            yield

    def write(self, subjects: Sequence[str], js: Any = None) -> None:
        """Write one message each; by ``js``, if it is given."""
        with self._change():
            for subject in subjects:
                self._write(subject, js or self.js)

    def write_own(self, subject: str) -> None:
        """Write one message in the session."""
        with self._change():
            self._forget()
            self.floor = self._write(subject, self.session)

    def fill(self, subjects: Sequence[str]) -> None:
        """Write many messages at once; nobody else may write."""
        publisher = self.js.fast_publisher()
        for number, subject in enumerate(subjects, 1):
            self.written += 1
            subject, payload = f"{self.name}.{subject}", b"%d" % self.written
            (publisher.publish if number < len(subjects) else publisher.commit)(subject, payload)
            self._store(subject, payload)
        assert self.js.stream_info(self.name).state.last_seq == self._stream.last_seq

    def _forget(self) -> None:
        """Tell the session of a stream that was made anew since it read or wrote last."""
        if len(self.lives) != self._known_lives:
            self.session.forget(self.name)
            self.floor = 0
            self._known_lives = len(self.lives)

    def _write(self, subject: str, js: Any) -> int:
        self.written += 1
        payload = b"%d" % self.written
        ack = js.publish(f"{self.name}.{subject}", payload)
        seq = self._store(f"{self.name}.{subject}", payload)
        assert ack.seq == seq
        return seq

    def _store(self, subject: str, payload: bytes) -> int:
        self._witness.deletes = False
        return self._stream.append(Publication(subject.encode(), None, payload), 0.0)

    def purge(self, subject: str | None = None, *, keep: int = 0, before: int = 0) -> None:
        """Purge the stream, or one subject; ``keep`` the newest, or only what is ``before`` a sequence."""
        body: dict[str, Any] = {"filter": f"{self.name}.{subject}"} if subject else {}
        body |= {"keep": keep} if keep else {}
        body |= {"seq": before} if before else {}
        with self._change():
            self._ask(f"STREAM.PURGE.{self.name}", body)
            self._witness.deletes = True
            self._witness.life.moved |= not subject and before > self._stream.last_seq
            self._stream.purge(body.get("filter"), keep=keep, before=before)

    def delete(self, back: int) -> None:
        """Delete one of the last messages, if it is there."""
        with self._change():
            seq = self._stream.last_seq - back
            if self._stream.get(seq) is not None:
                self._ask(f"STREAM.MSG.DELETE.{self.name}", {"seq": seq})
                self._witness.deletes = True
                self._stream.remove(seq)

    def recreate(self) -> None:
        """Delete the stream and make it anew."""
        with self._change():
            self.js.delete_stream(self.name)
            self._witness.life.end()
            self._create()

    def _ask(self, subject: str, body: Mapping[str, Any]) -> None:
        answer = json.loads(self.nc.request(f"$JS.API.{subject}", json.dumps(body).encode()).data)
        assert answer.get("success"), answer

    def start_writer(self, seed: int, keys: int, *, can_recreate: bool = False, can_delete: bool = True) -> None:
        """A thread that overwrites, purges, deletes and recreates until the world ends."""
        thread = Thread(target=self._write_on, args=(Random(seed), keys, can_recreate, can_delete))
        self._writers.append(thread)
        thread.start()

    def _write_on(self, random: Random, keys: int, can_recreate: bool, can_delete: bool) -> None:
        try:
            with connect(self.url) as nc:
                js = nc.jetstream()
                while not self._ended:
                    self._do_something(random, js, keys, can_recreate, can_delete)
        except BaseException as error:
            self.failed.append(error)
            raise

    def _do_something(self, random: Random, js: Any, keys: int, can_recreate: bool, can_delete: bool) -> None:
        chance = random.random()
        if chance < 0.9 or not can_delete:
            self.write([str(random.randrange(keys)) for _ in range(random.choice((1, 1, 5, 20)))], js)
        elif chance < 0.93:
            self.purge(str(random.randrange(keys)), keep=random.choice((0, 1)))
        elif chance < 0.94:
            self.purge(before=self._stream.first_seq + random.randrange(5))
        elif chance < 0.945 and can_recreate:
            self.recreate()
        else:
            self.delete(random.randrange(4))

    # -- reading -------------------------------------------------------------------------------------------------------

    def scene(self, began: Scene | None = None, *, is_session: bool = False) -> Scene:
        """The scene of a read that begins now, or that began so and ends now."""
        with self._changing:
            self._waiting += 1
        try:
            with self._changing:
                if began is None:
                    self._forget()
                    life = self.lives[-1]
                    span = Span(life, life.count, life.last_seq, life.count, life.last_seq, life.count)
                    return Scene(self.name, [span], {}, self.floor if is_session else 0)
                first = began.spans[0]
                spans = [Span(first.life, first.low, first.last, first.began, first.leader_last, first.life.count)]
                later = self.lives[self.lives.index(first.life) + 1 :]
                spans += [Span(life, 0, 0, 0, 0, life.count) for life in later]
                return Scene(self.name, spans, {}, began.floor)
        finally:
            with self._changing:
                self._waiting -= 1
                self._changing.notify_all()

    def read(self, verb: str, *, session: bool = False, **asked: Any) -> list[StoredMsg]:
        """Read, and check what comes of it: WrongAnswerError. Returns the messages."""
        began = self.scene(is_session=session)
        reads: Any = self.session if session else self.js
        messages: list[StoredMsg] = []
        error: Error | None = None
        up_to: int | None = None
        keywords = dict(asked)
        try:
            if verb in ("get_msg", "get_last_msg"):
                messages.append(getattr(reads, verb)(self.name, **keywords))
            else:
                arguments = () if verb == "get_batch" else (keywords.pop("subjects"),)
                with getattr(reads, verb)(self.name, *arguments, **keywords) as reader:
                    messages.extend(reader)  # what came before an error counts
                    up_to = reader.up_to_seq
        except Error as failed:
            error = failed
        scene = self.scene(began)
        self.errors.append(
            (f"{'session ' if session else ''}{verb}", "none" if error is None else type(error).__name__)
        )
        if session and scene.lives_on and messages:
            self.floor = max(self.floor, *(message.seq for message in messages))
        try:
            with self._changing:  # nobody writes while the lives are looked through
                self._check(verb, scene, messages, error, up_to, session, asked)
        except WrongAnswerError as wrong:
            raise WrongAnswerError(f"{verb}({asked}), session: {session}, {len(messages)} messages: {wrong}") from None
        return messages

    def _check(
        self, verb: str, scene: Scene, messages: list[StoredMsg], error: Error | None, up_to: int | None,
        session: bool, asked: dict[str, Any],
    ) -> None:  # fmt: skip
        if verb in ("get_msg", "get_last_msg"):
            answer: Any = messages[0] if error is None else error
            level = asked.get("level", "direct")
            if not session and level == "direct" and (error is not None or answer.stream != self.name):
                return  # of a mirror: it may hold anything
            check_one(
                scene, answer, seq=asked.get("seq"), subject=asked.get("subject"), following=asked.get("next", False),
                level=level, is_session=session,
            )  # fmt: skip
        elif verb == "get_batch":
            keywords = {name: value for name, value in asked.items() if name != "max_bytes"}
            check_batch(scene, messages, error, **keywords)
        elif "at" in asked:
            check_as_of(scene, messages, error, subjects=asked["subjects"], at=asked["at"])
        else:
            check_last_of_each(
                scene, messages, error, subjects=asked["subjects"], up_to=up_to, is_snapshot=verb == "snapshot"
            )
