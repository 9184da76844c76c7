"""What README.md shows is run: a promise there that does not hold fails here."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jsproto import FastPublisher
from jsproto_io.nats_server import NatsServer

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.fixture
def fresh(server_for: Any) -> NatsServer:
    server: NatsServer = server_for()
    return server


def run(code: str, server: NatsServer) -> str:
    """Run a program of the README in an interpreter of its own, against this server."""
    program = code.replace("nats://localhost:4222", server.url)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_programs_on_threads_and_loops(fresh: NatsServer) -> None:
    blocking, looping = BLOCKS[0], BLOCKS[1]
    assert run(blocking, fresh) == "10000 stored, the last one as 10000\n38890 bytes read back\n"
    for module, start in (("asyncio", "import asyncio\nasyncio.run(main())"), ("trio", "import trio\ntrio.run(main)")):
        program = looping.replace("jsproto_io.asyncio", f"jsproto_io.{module}") + start
        lines = run(program, fresh).splitlines()
        assert lines[0] == "9990 events.click b'9989'"


def test_atomic_batches_and_acknowledgements_under_way(fresh: NatsServer) -> None:
    (program,) = [block for block in BLOCKS if "atomic_batch" in block]
    assert run(program, fresh) == "3 stored together, the last one as 3\n103\n"


def test_reading(fresh: NatsServer) -> None:
    (program,) = [block for block in BLOCKS if "js.snapshot(" in block]
    assert run(program, fresh).splitlines() == [
        "b'98' b'41'", "[94, 99]", "[46, 47, 48, 49, 50]", "5 subjects as of sequence 100",
    ]  # fmt: skip


def test_sessions(fresh: NatsServer) -> None:
    (program,) = [block for block in BLOCKS if "session.token" in block]
    assert run(program, fresh) == "b'3.20'\n[1]\n"


def test_pulling(fresh: NatsServer) -> None:
    program, _ = [block for block in BLOCKS if "pull_subscribe" in block]
    assert run(program, fresh) == "8 jobs done\nb'page 8' 9\nb'page 9' 10\n[]\n"


def test_a_pool_of_workers(fresh: NatsServer) -> None:
    (program,) = [block for block in BLOCKS if "ThreadPoolExecutor" in block]
    assert run(program, fresh) == "100 pages printed\n[None, None, None, None]\n"


def test_what_is_pushed(fresh: NatsServer) -> None:
    (program,) = [block for block in BLOCKS if "ordered=True" in block]
    assert run(program, fresh) == "100 orders billed\nb'0' audit\nTrue\n"


def test_a_client_and_a_server_in_simulated_time() -> None:
    (program,) = [block for block in BLOCKS if "jsproto.testing" in block]
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "1000 taken, 13 reported as lost, 987 stored, in 0.25 simulated seconds\n"


def test_the_driver_on_a_plain_socket(fresh: NatsServer) -> None:
    (plain,) = [block for block in BLOCKS if "socket.create_connection" in block]
    assert "AccountInfo" in run(plain, fresh)


def test_the_outbox_for_another_client() -> None:
    (outbox,) = [block for block in BLOCKS if "class NatsPyOutbox" in block]
    names: dict[str, Any] = {}
    exec(outbox, names)

    async def scenario() -> list[str]:
        sent: list[str] = []

        class Client:
            async def publish(self, subject: str, payload: bytes, reply: str, headers: object) -> None:
                sent.append(f"{subject} {payload!r} {reply}")

            async def subscribe(self, subject: str, cb: object) -> None:
                sent.append(f"SUB {subject}")

            async def flush(self) -> None:
                sent.append("flush")

        box = names["NatsPyOutbox"](Client())
        worker = asyncio.ensure_future(box.carry())
        FastPublisher(box, inbox="_INBOX.x", batch_id="b").publish("s.a", b"1", now=0.0)
        while len(sent) < 3:
            await asyncio.sleep(0)
        worker.cancel()
        return sent

    assert asyncio.run(scenario()) == ["SUB _INBOX.x.b.>", "s.a b'1' _INBOX.x.b.500.fail.1.0.$FI", "flush"]
