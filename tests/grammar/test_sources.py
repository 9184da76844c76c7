"""What servers say of the streams that a stream copies, and the check of their consumers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.api_errors import SourceConsumerRequiresAckFCError
from jsproto.errors import BadSubjectError, LocalProtocolError, RemoteProtocolError
from jsproto.grammar.bodies import dumps
from jsproto.grammar.config import StreamConfig, StreamInfo
from jsproto.grammar.sources import StreamSourceInfo
from tests.marks import requirement

NAMED = {"name": "Q", "consumer": {"name": "D", "deliver_subject": "to.d"}}
ERROR = {
    "code": 400, "err_code": 10217, "description": "stream source consumer requires flow control ack policy",
}  # fmt: skip


def info(sources: list[Any], said: list[Any]) -> list[StreamSourceInfo]:
    found = StreamInfo.from_json({"config": {"name": "A", "sources": sources}, "sources": said})
    assert found.sources is not None
    return found.sources


@requirement(166)
def test_a_source() -> None:
    said = {"name": "Q", "lag": 3, "seq": 7, "active": 1_500_000_001, "error": ERROR, "newer": 1}
    (source,) = info([NAMED], [said])
    assert (source.name, source.lag, source.seq, source.active) == ("Q", 3, 7, 1.500000001)
    assert type(source.failure) is SourceConsumerRequiresAckFCError
    assert (source.error, source.consumer, source.extra) == (ERROR, "D", {"newer": 1})
    assert source.to_json() == said


def test_a_mirror() -> None:
    body = {"config": {"name": "M", "mirror": NAMED}, "mirror": {"name": "Q", "lag": 0, "active": -1}}
    mirror = StreamInfo.from_json(body).mirror
    assert mirror == StreamSourceInfo("Q", consumer="D")
    assert (mirror.active, mirror.failure, mirror.seq) == (None, None, None)
    assert StreamInfo.from_json(body).to_json()["mirror"] == body["mirror"]
    assert StreamInfo.from_json({**body, "config": {"name": "M"}}).mirror == StreamSourceInfo("Q")


FAR = {"name": "Q", "external": {"api": "$JS.far.API", "deliver": ""}, "consumer": {"name": "F"}}


@pytest.mark.parametrize(
    ("sources", "said", "consumers"),
    [
        ([NAMED], [{"name": "Q"}], ["D"]),
        ([NAMED, FAR], [{"name": "Q", "external": FAR["external"]}, {"name": "Q"}], ["F", "D"]),
        ([{"name": "Q"}], [{"name": "Q"}], [None]),
        ([{"name": "Q", "consumer": None}], [{"name": "Q", "filter_subject": ""}], [None]),
        ([NAMED, {"name": "Q"}], [{"name": "Q"}, {"name": "Q"}], [None, None]),
        ([NAMED, {"name": "Q", "filter_subject": "q.a"}], [{"name": "Q", "filter_subject": "q.a"}], [None]),
        ([], [{"name": "Q"}], [None]),
    ],
)
def test_whose_consumer_it_is(sources: Any, said: Any, consumers: Any) -> None:
    assert [source.consumer for source in info(sources, said)] == consumers


@pytest.mark.parametrize("bad", [{}, {"name": 5}, {"name": "Q", "lag": -1}, {"name": "Q", "active": "1s"}, []])
def test_what_is_no_source(bad: Any) -> None:
    with pytest.raises(RemoteProtocolError):
        StreamSourceInfo.from_json(bad)
    for body in ({"sources": [bad]}, {"mirror": bad}):
        with pytest.raises(RemoteProtocolError):
            StreamInfo.from_json({"config": {"name": "A"}, **body})


counts = st.integers(0, 2**64 - 1)
external = st.fixed_dictionaries({"api": st.text(), "deliver": st.text()})
sources = st.fixed_dictionaries(
    {"name": st.text(), "lag": counts, "active": st.integers(-(2**63), 2**63 - 1)},
    optional={
        "seq": counts, "external": external, "filter_subject": st.text(), "newer": st.none() | st.booleans(),
        "subject_transforms": st.lists(st.fixed_dictionaries({"src": st.text(), "dest": st.text()})),
        "error": st.fixed_dictionaries({"code": counts, "description": st.text()}),
    },
)  # fmt: skip


@requirement(166)
@given(st.lists(sources), sources)
def test_any_information_is_written_as_it_was_read(said: list[Any], mirror: Any) -> None:
    body = {"config": {"name": "A"}, "sources": said, "mirror": mirror}
    found = StreamInfo.from_json(dumps(body))
    written = found.to_json()
    assert {"sources": written["sources"], "mirror": written["mirror"]} == {"sources": said, "mirror": mirror}
    assert StreamInfo.from_json(written) == found


# -- the consumer of a source ------------------------------------------------------------------------------------------

INCOMPLETE: list[tuple[dict[str, Any], str]] = [
    ({"consumer": {}}, "has no name and no deliver_subject"),
    ({"consumer": {"name": "D"}}, "has no deliver_subject: sourcing_consumer makes one"),
    ({"consumer": {"deliver_subject": "to.d"}}, "has no name"),
    ({"consumer": {"name": "D", "deliver_subject": "to.*"}}, "wildcard"),
    ({"consumer": {"name": "a.b", "deliver_subject": "to.d"}}, "a.b"),
    ({"opt_start_seq": 3}, "cannot have opt_start_seq: set it in the consumer's"),
    ({"opt_start_time": "2026-01-01T00:00:00Z"}, "cannot have opt_start_time"),
    ({"filter_subject": "q.a", "opt_start_seq": 3}, "cannot have opt_start_seq and filter_subject"),
]
"""What servers refuse with 10215, or with 10213 for a mirror."""


@requirement(158, 160)
@pytest.mark.parametrize(("changes", "words"), INCOMPLETE)
def test_a_consumer_that_servers_refuse(changes: dict[str, Any], words: str) -> None:
    block: Any = {**NAMED, **changes}
    for options in ({"mirror": block}, {"sources": [{"name": "P"}, block]}):
        keywords: Any = options
        with pytest.raises(LocalProtocolError, match=words) as caught:
            StreamConfig.from_options("A", **keywords)
        assert isinstance(caught.value, BadSubjectError) or ("mirror" if "mirror" in keywords else "source Q") in str(
            caught.value
        )


@requirement(158)
@pytest.mark.parametrize(
    "block",
    [
        NAMED,
        {**NAMED, "opt_start_seq": 0, "filter_subject": "", "subject_transforms": [{"src": "a", "dest": "b"}]},
        {"name": "Q", "opt_start_seq": 3, "filter_subject": "q.a"},
        {"name": "Q", "opt_start_seq": 3, "consumer": {"name": "D", "server_managed": True}},
    ],
)
def test_a_consumer_that_servers_may_take(block: Any) -> None:
    assert StreamConfig.from_options("A", sources=[block]).to_json()["sources"] == [block]


def test_a_managed_consumer_needs_a_name() -> None:
    with pytest.raises(LocalProtocolError, match="has no name"):
        StreamConfig.from_options("A", mirror={"name": "Q", "consumer": {"server_managed": True}})


@pytest.mark.parametrize("start", [datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), 1_700_000_000_000_000_000])
def test_a_source_begins_at_a_moment(start: Any) -> None:
    config = StreamConfig.from_options("T", sources=[{"name": "S", "opt_start_time": start}])
    assert config.to_json()["sources"] == [{"name": "S", "opt_start_time": "2023-11-14T22:13:20Z"}]
    mirror = StreamConfig.from_options("T", mirror={"name": "S", "opt_start_time": start})
    assert mirror.to_json()["mirror"] == {"name": "S", "opt_start_time": "2023-11-14T22:13:20Z"}


def test_a_source_that_begins_at_no_moment() -> None:
    wrong: Any = [{"name": "S", "opt_start_time": 1.5}]
    with pytest.raises(LocalProtocolError, match=r"sources\[0\].opt_start_time must be nanoseconds"):
        StreamConfig.from_options("T", sources=wrong)
    nobody: Any = {"name": 3}
    with pytest.raises(LocalProtocolError, match="mirror.name must be a string"):
        StreamConfig("T", mirror=nobody)
