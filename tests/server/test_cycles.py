"""Streams that would copy from themselves: the role refuses what a real server refuses, in the same words."""

from __future__ import annotations

from typing import Any, Final

import pytest

from jsproto.errors import APIError
from jsproto.grammar.bodies import dumps, loads
from jsproto.grammar.config import StreamConfig
from jsproto.server.server import Server
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import connect

CYCLE: Final = (500, 10052, "detected cycle")
ELSEWHERE: Final = {"api": "$JS.x.API", "deliver": "d"}
# Streams in the order of their creation, or of an update of one that is there. The last one may close a cycle.
CASES: Final[dict[str, tuple[tuple[tuple[str, dict[str, Any]], ...], bool]]] = {
    "itself": ((("A", {"sources": [{"name": "A"}]}),), True),
    "mirror_of_itself": ((("A", {"mirror": {"name": "A"}}),), True),
    "of_another_server": ((("A", {"sources": [{"name": "A", "external": ELSEWHERE}]}),), False),
    "update": ((("A", {}), ("B", {"sources": [{"name": "A"}]}), ("A", {"sources": [{"name": "B"}]})), True),
    "filtered": (
        (
            ("A", {}),
            ("B", {"sources": [{"name": "A"}]}),
            ("C", {"sources": [{"name": "B"}]}),
            ("A", {"sources": [{"name": "C", "filter_subject": "c.x"}]}),
        ),
        True,
    ),
    "made_later": ((("P", {"sources": [{"name": "Q"}]}), ("Q", {"sources": [{"name": "P"}]})), True),
    "mirrors": ((("M", {"mirror": {"name": "N"}}), ("N", {"mirror": {"name": "M"}})), True),
    "mirror_and_source": ((("M", {"mirror": {"name": "N"}}), ("N", {"sources": [{"name": "M"}]})), True),
    "itself_by_other_subjects": ((("A", {"sources": [{"name": "A", "filter_subject": "other.x"}]}),), False),
    "itself_by_its_subjects": ((("A", {"sources": [{"name": "A", "filter_subject": "cycles.a.x"}]}),), True),
    "itself_transformed": (
        (("A", {"sources": [{"name": "A", "subject_transforms": [{"src": "other.x", "dest": "other.y"}]}]}),),
        True,
    ),
    "the_last_one_filtered": (
        (("A", {"sources": [{"name": "B", "filter_subject": "other.x"}]}), ("B", {"sources": [{"name": "A"}]})),
        False,
    ),
    "a_short_and_a_long_way": (
        (("A", {}), ("B", {"sources": [{"name": "A"}]}), ("D", {"sources": [{"name": "A"}, {"name": "B"}]})),
        True,  # which is none, but servers do not look closer
    ),
    "a_long_and_a_short_way": (
        (("A", {}), ("B", {"sources": [{"name": "A"}]}), ("D", {"sources": [{"name": "B"}, {"name": "A"}]})),
        False,
    ),
    "two_ways": (
        (
            ("A", {}),
            ("B", {"sources": [{"name": "A"}]}),
            ("C", {"sources": [{"name": "A"}]}),
            ("D", {"sources": [{"name": "B"}, {"name": "C"}]}),
        ),
        False,
    ),
}


def named(stream: str) -> str:
    return f"CYCLES_{stream}"


def configs(name: str) -> list[dict[str, Any]]:
    made = []
    for stream, more in CASES[name][0]:
        config: dict[str, Any] = {"name": named(stream), "storage": "memory"}
        if "mirror" in more:
            config["mirror"] = {"name": named(more["mirror"]["name"])}
        else:
            config["subjects"] = [f"cycles.{stream.lower()}.>"]
            config["sources"] = [source | {"name": named(source["name"])} for source in more.get("sources", ())]
        made.append(config)
    return made


@pytest.mark.parametrize("name", CASES)
def test_the_role_refuses_cycles(name: str) -> None:
    server = Server(token=b"t")
    *before, last = [StreamConfig.from_json(config) for config in configs(name)]
    for config in before:
        server.add_stream(config, 0.0)
    exists = last.name in server.api.streams
    put = server.api.update if exists else server.add_stream
    if not CASES[name][1]:
        put(last, 0.0)
        return
    with pytest.raises(APIError) as caught:
        put(last, 0.0)
    assert (caught.value.code, caught.value.err_code, caught.value.description) == CYCLE
    assert (last.name in server.api.streams) is exists


@pytest.mark.parametrize("name", CASES)
def test_a_real_server_refuses_them_too(name: str, server: NatsServer) -> None:
    made: list[str] = []
    answer: dict[str, Any] = {}
    with connect(server.url) as nc:
        for config in configs(name):
            verb = "UPDATE" if config["name"] in made else "CREATE"
            answer = loads(nc.request(f"$JS.API.STREAM.{verb}.{config['name']}", dumps(config)).data)
            made.append(config["name"])
        for stream in dict.fromkeys(made):
            nc.request(f"$JS.API.STREAM.DELETE.{stream}", b"")
    error = answer.get("error", {})
    code = (error.get("code"), error.get("err_code"), error.get("description"))
    assert code == (CYCLE if CASES[name][1] else (None, None, None))
