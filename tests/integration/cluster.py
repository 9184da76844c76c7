"""Three nats-servers that form one cluster on loopback, for tests of what happens when a leader goes.

Rules: a cluster is ready when all three answer for JetStream, which takes a meta leader. Each node is a ``NatsServer``
of its own: kill and start them as you like.

Not here: what is tested.
"""

from __future__ import annotations

import socket
from contextlib import ExitStack, suppress
from random import SystemRandom
from time import monotonic, sleep
from types import TracebackType
from typing import Final, Self

from jsproto.errors import Error
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import JetStream, connect
from tests import servers

SIZE: Final = 3
READY_WITHIN: Final = 30.0  # seconds


class Cluster:
    """Three nodes. ``with Cluster() as cluster: connect(cluster.urls)``."""

    def __init__(self) -> None:
        routes = free_ports(SIZE)
        others = ", ".join(f'"nats://127.0.0.1:{port}"' for port in routes)
        self.nodes = [
            NatsServer(
                config=f"server_name: n{number}\n{servers.config()}\n"
                f'cluster {{ name: c, listen: "127.0.0.1:{port}", routes: [{others}] }}'
            )
            for number, port in enumerate(routes)
        ]
        self._stack = ExitStack()

    @property
    def urls(self) -> list[str]:
        """Where clients connect."""
        return [node.url for node in self.nodes]

    def node(self, name: str) -> NatsServer:
        """The node of that server name, such as the leader of a stream."""
        return self.nodes[int(name.removeprefix("n"))]

    def replace(self, number: int) -> None:
        """Take a node away, and bring one in its place that has another address for clients."""
        node = self.nodes[number]
        node.stop()
        node.port = -1
        node.start()

    def heal(self) -> None:
        """Start what is down, and wait until all are ready."""
        for node in self.nodes:
            if not node.running:
                node.start()
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Until every node knows a meta leader, and so answers for JetStream."""
        until = monotonic() + READY_WITHIN
        for node in self.nodes:
            while True:
                try:
                    with connect(node.url, max_reconnect_attempts=0) as nc:
                        nc.jetstream(timeout=1).account_info()
                    break
                except Error:
                    if monotonic() > until:
                        raise
                    sleep(0.05)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for node in self.nodes:
                stack.enter_context(node)
            self.wait_until_ready()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()


def stored(js: JetStream, stream: str) -> list[int]:
    """The numbers in the messages of the stream, in its order: all that its leader has.

    Direct Get asks any replica, and one that was away answers before it has caught up: then it is asked again.
    """
    until = monotonic() + READY_WITHIN
    while True:
        with suppress(Error):
            numbers = [int(message.data) for message in js.get_batch(stream)]
            messages = js.stream_info(stream).state.messages
            if len(numbers) == messages:
                return numbers
            if monotonic() > until:
                raise AssertionError(f"the leader of {stream} has {messages} messages, {len(numbers)} were read")
        sleep(0.1)


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago: routes must be known before the servers start.

    They lie below those that connections get, so that no client has taken one meanwhile.
    """
    with ExitStack() as stack:
        sockets: list[socket.socket] = []
        while len(sockets) < count:
            with suppress(OSError):
                sockets.append(
                    stack.enter_context(socket.create_server(("127.0.0.1", SystemRandom().randrange(15_000, 32_000))))
                )
        return [bound.getsockname()[1] for bound in sockets]
