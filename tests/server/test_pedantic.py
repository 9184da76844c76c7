"""Requests that ask to be taken literally. What real servers say is compared in ``test_faithful_settings``."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.sides import OnTheRole
from tests.server.test_faithful_settings import CONSUMERS, LIMITED, STREAMS, VERBS, consumers, streams, verbs


def codes(answers: Any) -> list[int]:
    return [answer[-1].get("error", {}).get("err_code", 0) for answer in answers]


def test_streams() -> None:
    found = codes(streams(OnTheRole()))
    assert found == [
        0, 10157, 10157, 10157, 10157, 10157, 10157, 0, 10052, 10052, 10052, 10052, 10157, 10157, 0, 10157, 0,
    ]  # fmt: skip
    assert len(found) == len(STREAMS) + 2


def test_consumers() -> None:
    found = codes(consumers(OnTheRole()))
    assert found[::2] == [0, *[10157] * 10, 0, 10157, 10157, 10121, 10153, 10219, 10052, 0, 10219]
    assert found[1::2] == [0] * 14 + [10121, 10153, 0, 0, 0, 0]
    assert len(found) == 2 * len(CONSUMERS)


def test_verbs_that_one_server_refuses() -> None:
    assert codes(verbs(OnTheRole())) == [10003, 10059, 10003, 10003, 10010, 10010, 10010, 10010, 10010, 10025]
    assert len(VERBS) == 10


def test_the_limits_of_a_stream_are_the_defaults_of_its_consumers() -> None:
    role = OnTheRole()
    role.api("STREAM.CREATE.T", {"name": "T", "subjects": ["t.>"], "storage": "memory", "consumer_limits": LIMITED})
    made = role.api("CONSUMER.CREATE.T.C", {"stream_name": "T", "config": {"name": "C", "ack_policy": "none"}})
    assert {name: made["config"][name] for name in LIMITED} == LIMITED


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"deny_purge": True, "allow_rollup_hdrs": True}, 10052),
        ({"discard_new_per_subject": True}, 10052),
        ({"discard_new_per_subject": True, "discard": "new"}, 10052),
        ({"placement": {"preferred": "x"}}, 10052),
        ({"allow_msg_counter": True, "discard": "new"}, 10052),
        ({"allow_msg_counter": True, "allow_msg_schedules": True}, 10052),
        ({"mirror": {"name": "O"}, "subjects": None, "allow_msg_counter": True}, 10173),
        ({"mirror": {"name": "O"}, "subjects": None, "allow_msg_schedules": True}, 10186),
        ({"mirror": {"name": "O"}, "subjects": None, "subject_delete_marker_ttl": 10**9}, 10052),
        ({"sources": [{"name": "O"}], "allow_msg_schedules": True}, 10187),
        ({"placement": {}}, 0),
        ({"placement": {"cluster": "x"}, "compression": "s2"}, 0),
    ],
)
def test_what_is_refused_together(options: dict[str, Any], code: int) -> None:
    body = {"name": "T", "subjects": ["t.>"], "storage": "memory", **options}
    asked = {name: value for name, value in body.items() if value is not None}
    assert codes([[OnTheRole().api("STREAM.CREATE.T", asked)]]) == [code]
