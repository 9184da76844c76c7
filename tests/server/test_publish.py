"""The front door: messages alone, which machine takes what, changes of the stream."""

from __future__ import annotations

import pytest

from jsproto.errors import APIError
from jsproto.server.store.context import ServerContext
from tests.server.harness import Inlet, config

MEMBER = {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1"}


def test_a_message_alone() -> None:
    inlet = Inlet()
    assert inlet.publish(payload=b"one") == [{"seq": 1}]
    assert inlet.publish(payload=b"two", reply=None) == []
    assert inlet.publish(payload=b"three", reply="") == []
    assert inlet.payloads == [b"one", b"two", b"three"]


def test_a_duplicate_alone() -> None:
    inlet = Inlet()
    inlet.publish(headers={"Nats-Msg-Id": "A"})
    assert inlet.publish(headers={"Nats-Msg-Id": "A"}) == [{"seq": 1, "duplicate": True}]
    assert len(inlet.stream) == 1
    inlet.now += 120.0
    assert inlet.publish(headers={"Nats-Msg-Id": "A"}) == [{"seq": 2}]


def test_a_message_that_is_refused() -> None:
    inlet = Inlet(max_msgs=1, discard="new")
    assert inlet.publish(headers={"Nats-Expected-Last-Sequence": "7"}) == [10071]
    assert inlet.publish() == [{"seq": 1}]
    assert inlet.publish() == [10077]


def test_a_domain_is_told() -> None:
    inlet = Inlet(context=ServerContext(b"t", domain="hub"))
    assert inlet.publish() == [{"domain": "hub", "seq": 1}]


def test_a_stream_that_does_not_acknowledge() -> None:
    inlet = Inlet(no_ack=True)
    assert inlet.publish() == []
    assert inlet.publish(headers={"Nats-Expected-Last-Sequence": "7"}) == []
    assert len(inlet.stream) == 1


def test_the_reply_subject_decides_before_the_headers() -> None:
    inlet = Inlet()
    assert inlet.publish(headers=MEMBER, reply="in.b.10.ok.1.0.$FI") == [("ack", 0, 10)]
    assert inlet.publish(headers=MEMBER) == [None]
    assert inlet.publish(headers={"Nats-Batch-Id": ""}) == [{"seq": 2}]
    assert inlet.publish(reply=b".$FI") == []  # too short for fast ingest, and no subject
    assert inlet.publish(reply="$FI") == [{"seq": 4}]
    assert (len(inlet.inlet.fast), len(inlet.inlet.atomic)) == (1, 1)


def test_one_deadline_for_all() -> None:
    inlet = Inlet(max_age=30.0)
    assert inlet.inlet.deadline() is None
    inlet.publish()
    assert inlet.inlet.deadline() == 130.0
    inlet.now = 125.0
    inlet.publish(headers=MEMBER)
    inlet.publish(reply="in.b.10.ok.1.0.$FI")
    assert inlet.inlet.deadline() == 130.0
    assert inlet.advance(5.0) == []
    assert (inlet.stream.first_seq, inlet.inlet.deadline()) == (2, 135.0)
    assert inlet.advance(5.0) == ["timeout b"]
    assert inlet.inlet.deadline() == 155.0
    assert inlet.advance(100.0) == []
    assert (len(inlet.stream), inlet.inlet.deadline()) == (0, None)


def test_what_is_too_old_is_gone_before_the_next_message() -> None:
    inlet = Inlet(max_age=1.0)
    inlet.publish()
    inlet.now += 1.0
    inlet.publish(headers={"Nats-Expected-Last-Subject-Sequence": "0"})
    assert (inlet.stream.first_seq, inlet.stream.last_seq) == (2, 2)


def test_batches_that_are_switched_off_are_gone() -> None:
    inlet = Inlet()
    inlet.publish(headers=MEMBER)
    inlet.publish(reply="in.b.10.ok.1.0.$FI")
    inlet.inlet.update(config({"max_msgs": 5}))
    assert (len(inlet.inlet.fast), len(inlet.inlet.atomic)) == (1, 1)
    with pytest.raises(APIError):
        inlet.inlet.update(config({"persist_mode": "async", "allow_atomic": None, "storage": "file"}))
    inlet.inlet.update(config({"allow_atomic": None}))
    assert (len(inlet.inlet.fast), len(inlet.inlet.atomic)) == (1, 0)
    inlet.inlet.update(config({"allow_batched": None}))
    assert (len(inlet.inlet.fast), len(inlet.inlet.atomic)) == (0, 0)
    assert inlet.publish(headers=MEMBER) == [None]
    assert inlet.publish(reply="in.b.10.ok.2.1.$FI") == [10205]


def test_a_new_leader_has_no_atomic_batches() -> None:
    inlet = Inlet()
    inlet.publish(headers=MEMBER)
    inlet.publish(reply="in.b.10.ok.1.0.$FI")
    inlet.inlet.lead(inlet.now)
    assert inlet.answers() == [("ack", 1, 10)]
    assert (len(inlet.inlet.fast), len(inlet.inlet.atomic)) == (1, 0)


def test_a_stream_that_is_deleted_has_no_batches() -> None:
    inlet = Inlet(context=ServerContext(b"t", epoch=5))
    inlet.publish(headers=MEMBER)
    inlet.publish(reply="in.b.10.ok.1.0.$FI")
    inlet.inlet.close(inlet.now)
    assert (inlet.context.fast_open, inlet.context.atomic_open, inlet.inlet.deadline()) == (0, 0, None)
