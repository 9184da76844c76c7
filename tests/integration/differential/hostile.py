"""What a server should not get: spoilt requests, and bytes that are not the protocol.

Not here: what a server makes of them.
"""

from __future__ import annotations

import json
import random
from typing import Any, Final

from tests.integration.differential.links import API, Step

_VALUES: Final[tuple[Any, ...]] = (
    None,
    True,
    0,
    -1,
    1.5,
    2**63,
    2**64,
    10**30,
    "",
    "x",
    "5",
    [],
    [1],
    {},
    {"x": 1},
    "2020-01-01T00:00:00Z",
)
_GARBAGE: Final = (
    b"", b" ", b"{", b"}", b"[]", b"null", b"1", b'"x"', b"{}x", b'{"name":}', b"\xff\xfe", b"{'a':1}", b"{} {}",
    b"[" * 200, b'{"a":' * 50 + b"1" + b"}" * 50, b'{"name":"S","name":"T"}', b'{"name":"\\ud800"}', b"true", b"-",
    b"{}\n", b"\n{}", b'{"seq":1e2}', b'{"seq":1.0}', b'{"SEQ":1}', b'{"seq":01}',
)  # fmt: skip
_TAILS: Final = (
    "",
    ".",
    ".x",
    ".*",
    ".>",
    ".S.",
    ".S.C",
    ".S.C.x",
    ".S.C.x.y",
    ".\u00e9",
    ".S x",
    ".S\tC",
    "." + "x" * 260,
)
_VERBS: Final = (
    "STREAM.CREATE", "STREAM.UPDATE", "STREAM.INFO", "STREAM.DELETE", "STREAM.PURGE", "STREAM.NAMES", "STREAM.LIST",
    "STREAM.MSG.GET", "STREAM.MSG.DELETE", "STREAM.SNAPSHOT", "STREAM.RESTORE", "STREAM.X", "STREAM", "CONSUMER",
    "CONSUMER.CREATE", "CONSUMER.DURABLE.CREATE", "CONSUMER.INFO", "CONSUMER.DELETE", "CONSUMER.NAMES",
    "CONSUMER.LIST", "CONSUMER.PAUSE", "CONSUMER.RESET", "CONSUMER.UNPIN", "CONSUMER.MSG.NEXT", "CONSUMER.MSG",
    "CONSUMER.LEADER.STEPDOWN", "STREAM.LEADER.STEPDOWN", "DIRECT.GET", "DIRECT", "INFO", "META.LEADER.STEPDOWN",
    "SERVER.REMOVE", "ACCOUNT.PURGE", "STREAM.TEMPLATE.NAMES", "X",
)  # fmt: skip
_REPLIES: Final = (
    "{}",
    "",
    "{}.x",
    "{}.>",
    "$JS.API.INFO",
    "x..y",
    ".x",
    "x.",
    "*",
    ">",
    "no.body",
    "$JS.ACK.S.C.1.1.1.1.0",
)


def spoilt(chance: random.Random, step: Step) -> Step:
    """``step`` with something wrong."""
    kind = chance.random()
    if kind < 0.25:
        return step._replace(payload=chance.choice(_GARBAGE))
    if kind < 0.6 and isinstance(step.payload, dict) and step.payload:
        return step._replace(payload=_with_a_wrong_value(chance, step.payload))
    if kind < 0.7 and isinstance(step.payload, dict):
        return step._replace(payload=step.payload | {chance.choice(("unknown", "Name", "CONFIG", "")): 1})
    if kind < 0.9 and step.subject.startswith(API):
        return step._replace(
            subject=API + chance.choice(_VERBS) + chance.choice(_TAILS).replace(" ", "_").replace("\t", "_")
        )
    return step._replace(reply=chance.choice(_REPLIES))


def _with_a_wrong_value(chance: random.Random, body: dict[str, Any]) -> dict[str, Any]:
    name = chance.choice(sorted(body))
    if isinstance(body[name], dict) and body[name] and chance.random() < 0.8:
        return body | {name: _with_a_wrong_value(chance, body[name])}
    return body | {name: chance.choice(_VALUES)}


_LINES: Final = (
    b"PING", b"PONG", b"PING x", b"PONG x", b"ping", b"PiNg", b"PING\t", b" PING", b"", b" ", b"+OK", b"-ERR 'x'",
    b"INFO {}", b"INFO", b"MSG a 1 0", b"HMSG a 1 0 0", b"CONNECT {}", b"CONNECT", b"CONNECT x", b"CONNECT []",
    b"CONNECT null", b'CONNECT {"verbose":true}', b'CONNECT {"pedantic":true}', b'CONNECT {"verbose":1}',
    b'CONNECT {"protocol":2}', b'CONNECT {"echo":false}', b'CONNECT {"headers":false}', b'CONNECT {"name":1}',
    b'CONNECT {"no_responders":true}', b'CONNECT {"no_responders":true,"headers":false}', b'CONNECT {"x":1}',
    b"SUB", b"SUB a", b"SUB a 1", b"SUB a q 1", b"SUB a q 1 2", b"SUB a..b 2", b"SUB .a 2", b"SUB a. 2", b"SUB a.> 2",
    b"SUB >.a 2", b"SUB a.*b 2", b"SUB * 2", b"SUB > 2", b"sub a 3", b"SUB\ta\t4", b"SUB a  5", b"SUB  a 6", b"SUB a x",
    b"UNSUB", b"UNSUB 1", b"UNSUB 1 1", b"UNSUB 1 x", b"UNSUB 1 -1", b"UNSUB 1 1 1", b"UNSUB 1 99999999999", b"UNSUB x",
    b"UNSUB 1 0", b"unsub 1", b"PUB", b"PUB a", b"PUB a x", b"PUB a -1", b"PUB a 99999999999", b"PUB a 1048577",
    b"PUB a b c 0", b"X", b"PUBX a 0", b"PI", b"PINGG", b"PIN G", b"HPUB a 0 0", b"HPUB a 12", b"HPUB a 13 12",
    b"HPUB a x 12", b"HPUB", b"GET / HTTP/1.1", b"\x16\x03\x01", b"\x00", b"\xff\xff", b"A+ x", b"RS+ x", b"LS+ x",
)  # fmt: skip
_MESSAGES: Final = (
    b"PUB a 1\r\nx\r\n", b"PUB a b 1\r\nx\r\n", b"PUB a 0\r\n\r\n", b"PUB a 2\r\nx\r\n", b"PUB a 1\r\nxx\r\n",
    b"PUB a 1\nx\n",
    b"PUB a 1\r\nx\n", b"pub a 1\r\nx\r\n", b"PUB\ta\t1\r\nx\r\n", b"PUB a  1\r\nx\r\n", b"PUB a 01\r\nx\r\n",
    b"PUB a 1 \r\nx\r\n",
    b"PUB a +1\r\nx\r\n", b"PUB a.* 1\r\nx\r\n", b"PUB a..b 1\r\nx\r\n", b"PUB \xff 1\r\nx\r\n", b"PUB a 1\r\nx\r\r\n",
    b"HPUB a 12 13\r\nNATS/1.0\r\n\r\nx\r\n", b"HPUB a 12 12\r\nNATS/1.0\r\n\r\n\r\n", b"HPUB a 3 4\r\nabcx\r\n",
    b"HPUB a b 12 13\r\nNATS/1.0\r\n\r\nx\r\n", b"HPUB a 0 1\r\nx\r\n", b"hpub a 12 13\r\nNATS/1.0\r\n\r\nx\r\n",
    b"PUB still.here 0\r\n\r\n", b"HPUB a 1 1\r\nx\r\n",
    b"HPUB a 12 11\r\nNATS/1.0\r\n\r\n\r\n",
)  # fmt: skip
_ENDS: Final = (b"\r\n", b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r", b"", b"\r\r\n", b" \r\n", b"\r\n\r\n")
_LONG: Final = (4080, 4086, 4087, 4088, 4089, 4090, 4091, 4092, 4093, 4095, 4096, 4097, 4098, 4200, 9000)


def bytes_of_a_stranger(chance: random.Random) -> bytes:
    """Lines and messages, some of them wrong, in any order."""
    if chance.random() < 0.1:
        return _long(chance)
    return b"".join(_piece(chance) for _ in range(chance.randint(1, 4)))


def _piece(chance: random.Random) -> bytes:
    if chance.random() < 0.6:
        return chance.choice(_LINES) + chance.choice(_ENDS)
    return chance.choice(_MESSAGES)


def _long(chance: random.Random) -> bytes:
    """A line about as long as one may be. It stands alone, because servers read long lines in pieces."""
    size = chance.choice(_LONG)
    return chance.choice((
        b"SUB " + b"a" * size + b" 1\r\n", b"PING" + b" " * size + b"\r\n", b"X" * size, b"PUB " + b"a" * size,
        b"PUB " + b"a" * size + b" 0\r\n\r\n", b"CONNECT " + json.dumps({"x": "y" * size}).encode() + b"\r\n",
        b"UNSUB " + b"1" * size + b"\r\n", b"PONG" + b"x" * size + b"\r\n",
    ))  # fmt: skip
