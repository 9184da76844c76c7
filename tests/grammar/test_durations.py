"""Durations of configurations and infos: seconds for people, nanoseconds on the wire, nothing in between."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from jsproto.errors import LocalProtocolError
from jsproto.grammar.bodies import dumps
from jsproto.grammar.config import StreamConfig, StreamInfo
from jsproto.grammar.consumer import ConsumerConfig, ConsumerInfo, ConsumerPause, differences
from tests.grammar.recorded import messages

Config: TypeAlias = StreamConfig | ConsumerConfig

YEARS_292: Final = 2**63 - 1  # nanoseconds
OF_STREAMS: Final = ("max_age", "duplicate_window", "subject_delete_marker_ttl", "consumer_limits")
OF_CONSUMERS: Final = ("ack_wait", "backoff", "idle_heartbeat", "inactive_threshold", "max_expires", "priority_timeout")
FIELDS: Final = [*((StreamConfig, name) for name in OF_STREAMS), *((ConsumerConfig, name) for name in OF_CONSUMERS)]


def given_as(name: str, duration: Any) -> Any:
    """What a field is set to so that ``duration`` is in it."""
    return {"consumer_limits": {"inactive_threshold": duration}, "backoff": [1, duration]}.get(name, duration)


def found_in(name: str, value: Any) -> Any:
    """The duration in a field, of a configuration or of its JSON."""
    return value["inactive_threshold"] if name == "consumer_limits" else value[1] if name == "backoff" else value


def by_constructor(kind: type[Config], name: str, value: Any) -> Config:
    options: Any = {name: value}
    return StreamConfig("S", **options) if kind is StreamConfig else ConsumerConfig(**options)


def by_options(kind: type[Config], name: str, value: Any) -> Config:
    options: Any = {name: value}
    return StreamConfig.from_options("S", **options) if kind is StreamConfig else ConsumerConfig.from_options(**options)


def by_assignment(kind: type[Config], name: str, value: Any) -> Config:
    config = StreamConfig("S") if kind is StreamConfig else ConsumerConfig()
    setattr(config, name, value)
    return config


def by_a_change_inside(kind: type[Config], name: str, value: Any) -> Config:
    """Of the list or object that a field holds; what holds neither is assigned."""
    config = by_assignment(kind, name, given_as(name, 5))
    if name == "consumer_limits":
        getattr(config, name).update(value)
    elif name == "backoff":
        getattr(config, name)[:] = value
    else:
        setattr(config, name, value)
    return config


Way: TypeAlias = Callable[[type[Config], str, Any], Config]
WAYS: Final[list[Way]] = [by_constructor, by_options, by_assignment, by_a_change_inside]
ways: Final = pytest.mark.parametrize("way", WAYS)
every_field: Final = pytest.mark.parametrize(("kind", "name"), FIELDS)


# -- what people write -------------------------------------------------------------------------------------------------


@ways
@every_field
@pytest.mark.parametrize(
    ("duration", "on_the_wire"),
    [
        (3_600, 3_600 * 10**9),
        (0.1, 10**8),
        (timedelta(hours=1, microseconds=1), 3_600_000_001_000),
        (0, 0),
        (9_007_199.254740993, 9_007_199_254_740_993),
    ],
)
def test_a_number_of_seconds_or_a_timedelta(
    way: Way, kind: type[Config], name: str, duration: Any, on_the_wire: int
) -> None:
    config = way(kind, name, given_as(name, duration))
    assert found_in(name, config.to_json()[name]) == on_the_wire


def test_one_hour_is_one_hour() -> None:
    assert StreamConfig("S", max_age=3600).to_json() == {"name": "S", "max_age": 3_600_000_000_000}
    assert StreamConfig("S", max_age=timedelta(hours=1)).max_age == 3600.0
    assert ConsumerConfig(ack_wait=30) == ConsumerConfig.from_options(ack_wait=timedelta(seconds=30))
    assert ConsumerConfig(ack_wait=30).ack_wait == 30.0


durations: Final = (
    st.integers(0, 9_223_372_036)
    | st.floats(0, 9_223_372_036)
    | st.floats(0, 1)
    | st.timedeltas(timedelta(0), timedelta(seconds=9_223_372_036))
)


@given(durations, st.sampled_from(FIELDS), st.sampled_from(WAYS))
def test_it_is_the_nearest_nanosecond(duration: float | timedelta, field: tuple[type[Config], str], way: Way) -> None:
    kind, name = field
    if isinstance(duration, timedelta):
        exact = Fraction(duration // timedelta(microseconds=1) * 1_000)
    else:
        exact = Fraction(duration) * 10**9
    assume(not 0 < exact < 1)  # less than a nanosecond is one: 0 would be "no limit"
    written = found_in(name, way(kind, name, given_as(name, duration)).to_json()[name])
    assert type(written) is int
    assert 2 * abs(written - exact) <= 1


wrong: Final = st.sampled_from(
    [True, False, "5", b"5", [], {}, object(), 1j, float("nan"), float("inf"), -float("inf"), 10**400, 10**5000, 1e300]
) | (st.integers(max_value=-1) | st.integers(9_223_372_037) | st.floats(max_value=-1e-12) | st.floats(9.3e9))


@given(wrong, st.sampled_from(FIELDS), st.sampled_from(WAYS))
def test_what_is_no_duration_is_refused_by_name(duration: Any, field: tuple[type[Config], str], way: Way) -> None:
    kind, name = field
    place = {"consumer_limits": r"consumer_limits\.inactive_threshold", "backoff": r"backoff\[1\]"}.get(name, name)
    with pytest.raises(LocalProtocolError, match=rf"{place} must be"):
        way(kind, name, given_as(name, duration)).to_json()


@pytest.mark.parametrize(
    ("kind", "name", "value"), [(StreamConfig, "consumer_limits", 5), (ConsumerConfig, "backoff", 5)]
)
@pytest.mark.parametrize("way", WAYS[:3])
def test_what_holds_durations_has_the_right_type(kind: type[Config], name: str, value: Any, way: Way) -> None:
    with pytest.raises(LocalProtocolError, match=f"{name} must be"):
        way(kind, name, value)


def test_a_refused_assignment_changes_nothing() -> None:
    config = StreamConfig("S", max_age=1)
    with pytest.raises(LocalProtocolError, match="max_age"):
        config.max_age = -1
    assert config.max_age == 1
    config.max_age = None
    assert config.to_json() == {"name": "S"}


# -- what is read, and written back ------------------------------------------------------------------------------------


nanoseconds: Final = st.integers(-(2**63), 2**63 - 1)
stream_bodies: Final = st.fixed_dictionaries(
    {"name": st.just("S")},
    optional={
        "max_age": nanoseconds, "duplicate_window": nanoseconds, "subject_delete_marker_ttl": nanoseconds,
        "max_msgs": nanoseconds, "new": nanoseconds, "subjects": st.lists(st.text(), max_size=2),
        "consumer_limits": st.fixed_dictionaries(
            {}, optional={"inactive_threshold": nanoseconds, "max_ack_pending": nanoseconds, "new": nanoseconds}
        ),
    },
)  # fmt: skip
consumer_bodies: Final = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("ack_wait", "idle_heartbeat", "inactive_threshold", "max_expires"), nanoseconds),
        "priority_timeout": nanoseconds, "backoff": st.lists(nanoseconds, max_size=3), "max_deliver": nanoseconds,
        "pause_until": st.just("2099-01-01T00:00:00.000000001Z"), "new": nanoseconds,
    },
)  # fmt: skip


@given(stream_bodies | consumer_bodies)
def test_a_configuration_that_is_read_and_written_is_the_same(body: dict[str, Any]) -> None:
    config: Config = StreamConfig.from_json(body) if "name" in body else ConsumerConfig.from_json(body)
    for same in (
        config,
        type(config).from_json(dumps(body)),
        type(config).from_json(config.to_json()),
        replace(config),
        copy.deepcopy(config),
        pickle.loads(pickle.dumps(config)),
        config.updated(),
        config.updated(**{name: getattr(config, name) for name in body if name not in ("name", "new")}),
    ):
        assert same.to_json() == body
        assert same == config
    assert config.updated(description="d").to_json() == body | {"description": "d"}


def test_the_age_of_a_stream_stays_what_it_is() -> None:
    config = StreamConfig.from_json({"name": "S", "max_age": 10**9})
    assert config.max_age == 1.0
    assert config.updated(max_age=config.max_age).to_json() == {"name": "S", "max_age": 10**9}
    assert StreamConfig("T", max_age=config.max_age).to_json() == {"name": "T", "max_age": 10**9}


@pytest.mark.parametrize("count", [YEARS_292, 31_536_000_000_000_001, 2**53 + 1, 1, -1])
def test_a_number_of_nanoseconds_that_no_float_holds(count: int) -> None:
    config = StreamConfig.from_json({"name": "S", "max_age": count})
    assert config.max_age == count / 10**9
    assert StreamConfig("T", max_age=config.max_age).to_json()["max_age"] == count
    assert ConsumerConfig(backoff=[config.max_age or 0]).to_json()["backoff"] == [count]


def test_how_long_ago_a_source_was_heard_of() -> None:
    lines = (Path(__file__).resolve().parent.parent / "data" / "streams.txt").read_text().splitlines()
    answers = {answer["config"]["name"]: answer for answer in map(json.loads, lines)}
    rich, mirror = StreamInfo.from_json(answers["RICH"]), StreamInfo.from_json(answers["MIRROR"])
    assert rich.sources is not None
    assert mirror.mirror is not None
    assert [source.active for source in rich.sources] == [0.866362006, None]
    assert mirror.mirror.active == 0.869865910


def test_how_long_ago_a_replica_was_heard_of() -> None:
    replicas = [{"name": "B", "current": True, "active": 250_000_001}, {"name": "C", "current": True}]
    body = {"config": {"name": "S"}, "cluster": {"name": "c", "leader": "A", "replicas": replicas}}
    info = StreamInfo.from_json(body)
    assert info.cluster is not None
    assert info.cluster["replicas"][0]["active"] == 0.250000001
    assert info.to_json()["cluster"] == body["cluster"]
    body = {"stream_name": "S", "name": "C", "config": {}, "cluster": body["cluster"], "pause_remaining": 1_500_000_001}
    told = ConsumerInfo.from_json(body)
    assert told.cluster is not None
    assert (told.cluster["replicas"][0]["active"], told.pause_remaining) == (0.250000001, 1.500000001)
    assert told.to_json().items() >= body.items()
    pause = ConsumerPause.from_json({"paused": True, "pause_remaining": 1_500_000_001})
    assert pause.pause_remaining == 1.500000001
    assert pause.to_json()["pause_remaining"] == 1_500_000_001


def test_every_recorded_answer_is_in_seconds() -> None:
    seen = 0
    for _, _, payload in messages():
        body = json.loads(payload) if payload.startswith(b'{"type"') else {}
        for answer in body.get("consumers") or [body]:
            if "ack_wait" in answer.get("config", {}):
                info = ConsumerInfo.from_json(answer)
                assert info.config.ack_wait == answer["config"]["ack_wait"] / 10**9
                assert info.to_json()["config"] == answer["config"]
                seen += 1
    assert seen > 50


# -- what was asked for, and what there is -----------------------------------------------------------------------------


@every_field
def test_other_durations_are_other_configurations(kind: type[Config], name: str) -> None:
    found = by_constructor(kind, name, given_as(name, 31_536_000))
    assert found == by_constructor(kind, name, given_as(name, timedelta(days=365)))
    assert found != by_constructor(kind, name, given_as(name, 31_536_001))


@pytest.mark.parametrize("name", OF_CONSUMERS)
def test_drift_is_counted_in_nanoseconds(name: str) -> None:
    year = 365 * 86_400 * 10**9
    has = ConsumerConfig.from_json({name: given_as(name, year + 1) if name != "backoff" else [10**9, year + 1]})
    assert differences(has, has) == []
    asked: Any = by_constructor(ConsumerConfig, name, given_as(name, timedelta(days=365)))
    asked.ack_policy = None
    assert differences(asked, has) == [name]
    assert differences(asked, replace(asked)) == []
