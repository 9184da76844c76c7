"""Both roles: a client manages streams, messages and consumers of the server role, without sockets."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from jsproto.api_errors import (
    APIRequiredApiLevelError,
    ConsumerNotFoundError,
    PedanticError,
    StreamNotFoundError,
)
from jsproto.errors import MessageNotFoundError, NoMatchingStreamError
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.testing.pair import Pair


class Managed:
    """A client, and a server with a stream S of ten messages."""

    def __init__(self) -> None:
        self.pair = Pair()
        self.pair.connect()
        self.make("S", subjects=["s.>"])
        for number in range(1, 11):
            self.do("publish", f"s.{number % 2}", b"%d" % number)

    def make(self, name: str, **options: Any) -> None:
        self.do("create_stream", StreamConfig(name, **options))

    def do(self, verb: str, *arguments: Any, **options: Any) -> Any:
        return self.pair.run_until(getattr(self.pair.js, verb)(*arguments, now=self.pair.now, **options))

    def do_each(self, verb: str, *arguments: tuple[Any, ...]) -> list[Any]:
        """The verb with each of these, asked together."""
        asked = [getattr(self.pair.js, verb)(*each, now=self.pair.now) for each in arguments]
        return [self.pair.run_until(each) for each in asked]

    def all(self, listed: Any) -> list[Any]:
        return self.pair.run_until(self.pair.client.run(listed.whole(self.pair.now)))


@pytest.mark.slow
def test_lists() -> None:
    side = Managed()
    names = [f"L{number:03d}" for number in range(300)]
    side.do_each("create_stream", *((StreamConfig(name, subjects=[f"l.{name}"]),) for name in names))
    assert side.do("stream_names") == [*names, "S"]
    assert side.do("stream_names", "l.*") == names
    assert [info.config.name for info in side.all(side.pair.js.streams("l.*"))] == names
    assert side.do("find_stream", "s.x") == "S"
    with pytest.raises(NoMatchingStreamError, match=r"'l\.\*': several streams have it: L000, .* and 295 more"):
        side.do("find_stream", "l.*")
    with pytest.raises(NoMatchingStreamError, match="'nowhere': no stream has it"):
        side.do("find_stream", "nowhere")
    assert side.do("stream_subjects", "S") == {"s.0": 5, "s.1": 5}
    side.do_each("create_consumer", *(("S", ConsumerConfig(durable_name=f"C{n:03d}")) for n in range(300)))
    assert len(side.do("consumer_names", "S")) == 300
    assert [info.name for info in side.all(side.pair.js.consumers("S"))] == [f"C{n:03d}" for n in range(300)]


def test_messages() -> None:
    side = Managed()
    assert side.do("delete_msg", "S", 2) is True
    assert side.do("secure_delete_msg", "S", 4) is True
    for seq in (2, 11):
        with pytest.raises(MessageNotFoundError, match=f"message {seq} of stream S"):
            side.do("delete_msg", "S", seq)
    assert side.do("purge_stream", "S", seq=4) == 2
    assert side.do("purge_stream", "S", subject="s.1", keep=1) == 2
    assert side.do("purge_stream", "S") == 4
    with pytest.raises(StreamNotFoundError, match="stream NONE"):
        side.do("purge_stream", "NONE")


def test_the_last_message_without_direct_gets() -> None:
    side = Managed()
    assert side.do("get_last_msg", "S", "s.0").data == b"10"
    with pytest.raises(MessageNotFoundError, match="'s.9' in stream S"):
        side.do("get_last_msg", "S", "s.9")


def test_configurations() -> None:
    side = Managed()
    before = side.do("stream_info", "S").config.to_json()
    after = side.do("change_stream", "S", {"max_age": timedelta(hours=1)}).config.to_json()
    assert after == before | {"max_age": 3_600_000_000_000}
    with pytest.raises(PedanticError):
        side.do("change_stream", "S", {"max_msgs": -5}, pedantic=True)
    with pytest.raises(APIRequiredApiLevelError):
        side.do("change_stream", "S", {"description": "d"}, required_api_level=6)
    side.do("create_consumer", "S", ConsumerConfig(durable_name="C", filter_subject="s.*"), required_api_level=5)
    with pytest.raises(APIRequiredApiLevelError):
        side.do("change_consumer", "S", "C", {"description": "d"}, required_api_level=6)


def test_pauses_and_the_account() -> None:
    side = Managed()
    side.do("create_consumer", "S", ConsumerConfig(durable_name="C"))
    paused = side.do("pause_consumer", "S", "C", timedelta(hours=1))
    assert (paused.paused, round(paused.pause_remaining)) == (True, 3_600)
    assert not side.do("resume_consumer", "S", "C").paused
    with pytest.raises(ConsumerNotFoundError, match="consumer X of stream S"):
        side.do("pause_consumer", "S", "X", timedelta(hours=1))
    account = side.do("account_info")
    assert (account.streams, account.consumers, account.api.level, account.limits.max_streams) == (1, 1, 5, -1)
