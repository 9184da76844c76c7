"""Dialling on asyncio, by default: the addresses of a name race, and the first that is connected wins.

Rules: it asks of the loop only what all loops have. Whatever happens, the sockets of the losers are closed.

Not here: which address is dialled when (``_state.dialling``), the time for all of it (``asyncio``).
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack
from math import inf

from jsproto_io._state.dialling import AddressInfo, AddressRace


async def dial(host: str, port: int) -> socket.socket:
    """A connected socket, which never blocks.

    Raises:
        OSError: the name is not known, or none of its addresses can be reached.
    """
    loop = asyncio.get_running_loop()
    race = AddressRace(await _look_up(host, port), loop.time())
    attempts: set[asyncio.Task[None]] = set()
    won: list[socket.socket] = []

    async def attempt(address: AddressInfo) -> None:
        family, kind, protocol, _, place = address
        try:
            with ExitStack() as loser:
                sock = loser.enter_context(socket.socket(family, kind, protocol))
                sock.setblocking(False)
                await loop.sock_connect(sock, place)
                if not won:
                    won.append(sock)
                    loser.pop_all()
        except OSError as error:
            race.failed(error)

    try:
        while not won and race.error is None:
            while (address := race.take(loop.time())) is not None:
                attempts.add(loop.create_task(attempt(address)))
            pause = None if race.next_at == inf else race.next_at - loop.time()
            ended, attempts = await asyncio.wait(attempts, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            for each in ended:
                each.result()
    except BaseException:
        for sock in won:
            sock.close()
        raise
    finally:
        for each in attempts:
            each.cancel()
    if race.error is not None:
        raise race.error
    return won[0]


async def _look_up(host: str, port: int) -> list[AddressInfo]:
    """The addresses of a host. A number needs no thread."""
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
