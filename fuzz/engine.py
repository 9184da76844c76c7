"""A small mutation fuzzer in pure Python: no coverage feedback, but it runs anywhere and can be replayed.

With atheris installed ``python -m fuzz --atheris`` is the better search; the targets are the same.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CORPUS: Final = Path(__file__).parent / "corpus"
LARGEST: Final = 512  # bytes of a mutated input
SLOW: Final = 1.0  # seconds: an input that takes longer is a finding
DICTIONARY: Final = (
    b"\r\n", b"\n", b"\r", b" ", b"  ", b"\t", b"\0", b"\v", b"\xff", b"0", b"00", b"-1", b"999999999",
    b"1_0", b"MSG ", b"HMSG ", b"PUB ", b"HPUB ", b"SUB ", b"UNSUB ", b"INFO ", b"CONNECT ", b"PING\r\n",
    b"+OK\r\n", b"-ERR '", b"NATS/1.0", b": ", b"Status: 204\r\n", b'{"', b'":', b"null", b"true", b"1e400",
    b"[", b"[[[[[[[[", b"18446744073709551616", b'"type":"ack"', b'"seq":0', b'"batch":"b"', b'"error":{',
    b'"last_seq":', b"\\ud800",
)  # fmt: skip


@dataclass
class Finding:
    """An input that broke a target, and how."""

    data: bytes
    error: Exception | None
    seconds: float

    def __str__(self) -> str:
        error = self.error
        why = f"took {self.seconds:.1f} s" if error is None else f"{type(error).__name__}: {error}"
        return f"{why}\n  input: {self.data!r}"


def seeds(target: str) -> list[bytes]:
    """The corpus of a target, in the order of the file names."""
    return [path.read_bytes() for path in sorted((CORPUS / target).iterdir())]


def attempt(run: Callable[[bytes], None], data: bytes) -> Finding | None:
    """One input: None when all is well."""
    start = time.perf_counter()
    try:
        run(data)
    except Exception as error:  # whatever it is, it is a finding
        return Finding(data, error, time.perf_counter() - start)
    seconds = time.perf_counter() - start
    return Finding(data, None, seconds) if seconds > SLOW else None


def mutations(corpus: Sequence[bytes], seed: int) -> Iterator[bytes]:
    """Inputs without end, the same for the same corpus and seed."""
    source = random.Random(seed)
    while True:
        data = bytearray(source.choice(corpus))
        for _ in range(source.randint(1, 5)):
            start = source.randint(0, len(data))
            end = min(len(data), start + source.choice((0, 0, 1, 2, 8, 64)))
            kind = source.randrange(5)
            if kind == 0:
                data[start:end] = source.randbytes(source.randint(0, 3))
            elif kind == 1:
                data[start:end] = source.choice(DICTIONARY)
            elif kind == 2:
                data[start:end] = b""
            elif kind == 3:
                data[start:end] = data[start:end] * source.randint(2, 9)
            else:
                other = source.choice(corpus)
                data[start:] = other[source.randint(0, len(other)) :]
        yield bytes(data[:LARGEST])
