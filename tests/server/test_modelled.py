"""What the role does not do is refused, unless its server is lenient. Corners of what it does."""

from __future__ import annotations

from typing import Any

import pytest

from jsproto.server.store.stream import Publication
from jsproto.wire.encoder import encode_pub
from tests.server.harness import Reader
from tests.server.sides import OnTheRole

BODY: dict[str, Any] = {"name": "S", "subjects": ["s.>"], "storage": "memory"}


def test_what_is_not_modelled_is_refused_unless_the_server_is_lenient() -> None:
    asked = {"name": "T", "storage": "memory", "sources": [{"name": "S", "external": {"api": "$JS.hub.API"}}]}
    for domain, lenient in (("hub", False), ("hub", True), (None, False)):
        said = OnTheRole(domain=domain, lenient=lenient).api("STREAM.CREATE.T", asked)
        is_refused = domain is not None and not lenient
        assert ("error" in said) is is_refused
        assert not is_refused or "lenient=True" in said["error"]["description"]


def test_a_rate_limit_lets_messages_wait() -> None:
    """The first bytes are free, as many as a message may have. After that each message waits for its own."""
    role = OnTheRole()
    role.reader.make(max_msg_size=1_000)
    role.listen("d")
    config = {"name": "C", "deliver_subject": "d", "ack_policy": "none", "rate_limit_bps": 8_000}
    role.api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config})
    for _ in range(4):
        role.publish("s.a", b"x" * 900)
    consumer = role.reader.server.api.consumers.find("S", "C")
    said = [consumer.info(0.0).delivered.consumer_seq]
    for _ in range(3):
        role.wait(1.0)
        said.append(consumer.info(0.0).delivered.consumer_seq)
    assert said == [1, 2, 3, 4]
    role.reader.say(b"UNSUB s1\r\n")
    role.api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config | {"rate_limit_bps": 0}})
    role.listen("d")
    for _ in range(4):
        role.publish("s.a", b"x" * 900)
    assert consumer.info(0.0).delivered.consumer_seq == 8


def test_a_counter_that_is_broken() -> None:
    role = OnTheRole()
    stream = role.reader.make(allow_msg_counter=True)
    for payload, code in ((b"junk", 10172), (b'{"val":3}', 10172), (b'{"val":"x"}', None), (b"{}", None)):
        stream.append(Publication(b"s.a", None, payload), 0.0)
        answer = role.ask("s.a", b"", {"Nats-Incr": "2"})
        assert answer.get("error", {}).get("err_code") == code
        assert answer.get("val") == (None if code else "2")
    assert role.ask("s.a", b"", {"Nats-Incr": "9" * 1000})["error"]["err_code"] == 10172


def test_a_message_to_a_wildcard_is_not_published_again() -> None:
    reader = Reader()
    reader.make(republish={"src": "s.>", "dest": "r.>"})
    reader.say(b"SUB r.> 7\r\n")
    assert reader.say(encode_pub(b"s.*", None, None, b"x")) == []
    assert len(reader.say(encode_pub(b"s.a", None, None, b"x"))) == 1


def test_a_snapshot_is_refused() -> None:
    role = OnTheRole()
    role.reader.make()
    assert role.api("STREAM.SNAPSHOT.S", {"deliver_subject": "d"})["error"]["err_code"] == 10064


def test_a_message_that_went_before_its_end() -> None:
    role = OnTheRole()
    stream = role.reader.make(allow_msg_ttl=True)
    role.ask("s.a", b"x", {"Nats-TTL": "5"})
    assert role.api("STREAM.MSG.DELETE.S", {"seq": 1}) == {"success": True}
    role.wait(6.0)
    assert (len(stream), stream.deadline()) == (0, None)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"storage": "file"}), ({}, {"retention": "workqueue"}), ({"deny_delete": True}, {}),
        ({"deny_purge": True}, {}), ({"allow_msg_ttl": True}, {}),
        ({"allow_msg_counter": True}, {}),
    ],
)  # fmt: skip
def test_what_an_update_cannot_change(before: dict[str, Any], after: dict[str, Any]) -> None:
    role = OnTheRole()
    role.api("STREAM.CREATE.S", BODY | before)
    assert role.api("STREAM.UPDATE.S", BODY | after)["error"]["err_code"] == 10052


def test_deleting_what_is_not_there_depends_on_the_storage() -> None:
    role = OnTheRole()
    role.api("STREAM.CREATE.S", BODY | {"storage": "file"})
    said = [role.api("STREAM.MSG.DELETE.S", {"seq": seq})["error"]["description"] for seq in (0, 1)]
    assert said == ["no message found", "stream store EOF"]


def test_a_filter_that_matches_nothing() -> None:
    role = OnTheRole()
    role.api("STREAM.CREATE.S", BODY)
    said = role.api("STREAM.INFO.S", {"subjects_filter": "s.>"})
    assert (said["total"], said["limit"], "subjects" in said["state"]) == (0, 0, False)
