"""Programs to which the role once answered differently: each is run on the role, and on a real server as well."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from jsproto.errors import APIError
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.grammar.subjects import contains
from jsproto.server.consume.settings import accept
from jsproto.server.store.context import ServerContext
from jsproto_io.nats_server import NatsServer
from tests.integration.differential.links import OnTheRole, Step
from tests.integration.differential.programs import api
from tests.integration.differential.said import said
from tests.integration.differential.search import Search


def stream(**fields: Any) -> Step:
    return api("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "storage": "memory"} | fields)


def consumer(**fields: Any) -> Step:
    config = {"durable_name": "C", "ack_policy": "explicit"} | fields
    return api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config})


def store(subject: str = "s.a", payload: bytes = b"x", reply: str = "{}", **headers: str) -> Step:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Step("pub", subject, payload, named or None, reply)


def ack(seq: int, word: bytes = b"+ACK", consumer_seq: int = 0) -> Step:
    return Step("pub", f"$JS.ACK.S.C.1.{seq}.{consumer_seq or seq}.1.0", word)


def pull(**body: Any) -> Step:
    return api("CONSUMER.MSG.NEXT.S.C", body)


INFO = api("CONSUMER.INFO.S.C")
FAST = "{}.a.10.ok.%d.%d.$FI"

# A program, and what its last step gets in short: the code of an error, a status, or numbers.
PROGRAMS: dict[str, tuple[list[Step], Any]] = {
    "10025 before 10059": ([api("STREAM.INFO.S", {"unknown": 1})], 10025),
    "a body where none may be": ([api("STREAM.DELETE.S", {"a": 1})], 10038),
    "a body where none may be, of a consumer": ([api("CONSUMER.INFO.S.C", {"a": 1})], 10038),
    "the same when it is deleted": ([api("CONSUMER.DELETE.S.C", b"x")], 10038),
    "a word that is null": ([api("STREAM.UPDATE.S", {"name": "S", "storage": None})], 10025),
    "the wrong name": ([api("STREAM.UPDATE.S", {"name": "T"})], 10056),
    "a sealed stream": ([stream(sealed=True)], 10052),
    "a name that is too long": ([api("STREAM.CREATE.S", {"name": "S"}), api("STREAM.UPDATE.S", {"name": "x" * 256})],
    10052),
    "all subjects with replicas": ([stream(subjects=[">"], no_ack=True, num_replicas=2)], 10052),
    "a counter with lifetimes": ([stream(allow_msg_counter=True, allow_msg_ttl=True, discard_new_per_subject=True)],
    10052),
    "literally": (
        [stream(pedantic=True, republish={"src": ">", "dest": ">"}, subject_transform={"src": "s.>", "dest": "t.>"})],
        10157,
    ),
    "a bad restore": ([api("STREAM.RESTORE.S", {"x": 1})], 10025),
    "replicas of a consumer": ([api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"num_replicas": 3}})],
    10074),
    "a long name": (
        [stream(), api("CONSUMER.CREATE.S", {"stream_name": "S", "config": {"name": "a" * 256}})], {"name": "a" * 256},
    ),
    "a long name that lasts": (
        [stream(), api("CONSUMER.CREATE.S." + "a" * 256, {"stream_name": "S", "config": {"durable_name": "a" * 256}})],
        10102,
    ),
    "acks of a push consumer without acks": (
        [stream(), consumer(deliver_subject="d", ack_policy="none", max_ack_pending=2)], 10082,
    ),
    "acks of a work queue": (
        [stream(retention="workqueue"), consumer(deliver_subject="d", ack_policy="all")], 10098,
    ),
    "a filter of another in a work queue": (
        [
            stream(retention="workqueue"), consumer(filter_subject="s.a"),
            api("CONSUMER.CREATE.S.D", {"stream_name": "S", "config": {
                "durable_name": "D", "ack_policy": "explicit", "filter_subject": "s.b"}}),
            consumer(filter_subject="s.b"),
        ],
        10100,
    ),
    "an answer to a subject with a wildcard": ([stream(), store(reply="{}.>")], {"seq": 1}),
    "a request without a reply": ([stream(), consumer()._replace(reply=""), INFO], (0, 0, 0, 0)),
    "a wildcard in an expectation": (
        [stream(), store("s.c"), store(
            Nats_Expected_Last_Subject_Sequence="1", Nats_Expected_Last_Subject_Sequence_Subject="s.>")],
        {"seq": 2},
    ),
    "a lifetime in a batch": (
        [stream(allow_batched=True), store(reply=FAST % (1, 0), Nats_TTL="0")], 10166,
    ),
    "the first sequence after a purge": ([stream(), api("STREAM.PURGE.S"), api("STREAM.INFO.S")], {"first_seq": 1}),
    "a purge up to 1": ([stream(), store(), api("STREAM.PURGE.S", {"seq": 1}), api("STREAM.INFO.S")], {"first_seq": 1}),
    "the deleted 0": ([stream(storage="file"), api("STREAM.INFO.S", {"deleted_details": True})], {"deleted": [0]}),
    "nothing deleted": ([stream(), api("STREAM.INFO.S", {"deleted_details": True})], {"first_seq": 0}),
    "what was deleted": (
        [stream(), store(), store(), store(), api("STREAM.MSG.DELETE.S", {"seq": 2}),
         api("STREAM.INFO.S", {"deleted_details": True})],
        {"deleted": [2]},
    ),
    "an empty list": ([api("STREAM.LIST", b"[]")], 10025),
    "a purge moves a consumer": (
        [stream(), store(), store(), consumer(), pull(batch=2), ack(1, b"-NAK"), api("STREAM.PURGE.S"), INFO],
        (2, 2, 0, 0),
    ),
    "a purge of some, for a consumer of more": (
        [stream(), store(), store("s.b"), consumer(), pull(batch=2), api("STREAM.PURGE.S", {"filter": "s.b"}), INFO],
        (2, 2, 1, 0),
    ),
    "a purge of others": (
        [stream(), store(), store("s.b"), consumer(filter_subject="s.a"), api("STREAM.PURGE.S", {"filter": "s.b"}),
        INFO],
        (0, 0, 0, 1),
    ),
    "a purge of what the filters take": (
        [stream(), store(), store("s.b"), consumer(filter_subject="s.a"), pull(),
        api("STREAM.PURGE.S", {"filter": "s.*"}), INFO],
        (1, 1, 0, 0),
    ),
    "an acknowledgement in the middle": (
        [stream(), store(), store(), store(), consumer(), pull(batch=3), ack(2), ack(1), INFO], (3, 2, 1, 0),
    ),
    "an acknowledgement of no number": ([stream(), consumer(), Step("pub", "$JS.ACK.S.C.x.x.x.x.x", b"+ACK")], None),
    "an acknowledgement by all of nothing": ([stream(), consumer(ack_policy="all"), ack(0, consumer_seq=1)], None),
    "an acknowledgement by all of what is not outstanding": (
        [stream(), store(), consumer(ack_policy="all", filter_subject="s.b"), store("s.c"), ack(1, b"+ACK"), INFO],
        (0, 0, 0, 0),
    ),
    "a pull for 0": ([stream(), store(), consumer(), pull(max_bytes=500)], "409 Batch Completed -1"),
    "a pull for -1": (
        [stream(), store(), consumer(priority_policy="pinned_client", priority_groups=["g"]), pull(group="g"), store(),
         api("CONSUMER.MSG.NEXT.S.C", b"-1"), pull(no_wait=True, group="g")],
        "408 Requests Pending",
    ),
    "a full queue and a heartbeat": (
        [stream(), consumer(max_waiting=1), pull(), pull(idle_heartbeat=10**9, expires=10**10)], None,
    ),
    "a full queue": ([stream(), consumer(max_waiting=1), pull(), pull()], "409 Exceeded MaxWaiting"),
    "deaf": (
        [stream(), consumer(filter_subject="s.a"), consumer(), pull(), store(), INFO], (0, 0, 0, 0),
    ),
    "an inbox that somebody hears": (
        [stream(), Step("sub", "d.*", reply=""), consumer(deliver_subject="d.a"), consumer(deliver_subject="d.b")],
        10013,
    ),
    "too low for a reset": (
        [stream(), consumer(deliver_policy="by_start_sequence", opt_start_seq=3),
        api("CONSUMER.RESET.S.C", {"seq": 2})],
        10204,
    ),
    "no reset": ([stream(), consumer(deliver_policy="last"), api("CONSUMER.RESET.S.C", {"seq": 2})], 10204),
    "an expectation in a batch": (
        [stream(allow_atomic=True), store(Nats_Batch_Id="a", Nats_Batch_Sequence="1", Nats_Batch_Commit="1",
                                          Nats_Expected_Last_Msg_Id="x")],
        10177,
    ),
    "a ping after what was refused": (
        [stream(allow_batched=True), store(reply="{}.a.10.fail.1.0.$FI"),
         store(reply="{}.a.10.fail.2.1.$FI", Nats_Expected_Last_Msg_Id="x"), store(reply="{}.a.10.fail.9.4.$FI")],
        {"type": "gap"},
    ),
    "a refusal after what was refused": (
        [stream(allow_batched=True), store(reply="{}.a.10.fail.1.0.$FI"),
         store(reply="{}.a.10.fail.2.1.$FI", Nats_Expected_Last_Msg_Id="x"),
         store(reply="{}.a.10.fail.3.1.$FI", Nats_TTL="0")],
        {"type": "err"},
    ),
    "a duplicate alone": (
        [stream(allow_batched=True), store(Nats_Msg_Id="m"), store(reply="{}.a.10.fail.1.2.$FI", Nats_Msg_Id="m")],
        {"duplicate": True},
    ),
    "a deletion of what was delivered before the last acknowledgement of all": (
        [stream(), consumer(ack_policy="all"), store(), store(), pull(batch=2), ack(1, b"-NAK"), pull(batch=1),
         ack(1, consumer_seq=3), api("STREAM.MSG.DELETE.S", {"seq": 2}), INFO], (3, 3, 1, 0),
    ),
    "a deletion from a consumer that acknowledges all": (
        [stream(), consumer(ack_policy="all"), store(), store(), store(), pull(batch=3),
         api("STREAM.MSG.DELETE.S", {"seq": 2}), INFO],
        (3, 2, 1, 0),
    ),
    "a consumer without its filters": (
        [stream(), consumer(filter_subject="s.b"), consumer(), store(), pull(), INFO], (1, 0, 1, 0),
    ),
    "a pause of a consumer with sourcing": (
        [stream(), store(), consumer(sourcing=True), pull(), api("CONSUMER.PAUSE.S.C"), INFO], (0, 0, 0, 1),
    ),
    "an end without a batch": (
        [stream(allow_atomic=True), store(Nats_Batch_Id="a", Nats_Batch_Sequence="0", Nats_Batch_Commit="eob")], 10199,
    ),
    "a consumer sequence that was not given": (
        [stream(), store(), consumer(ack_policy="all"), pull(), ack(1, b"+NXT", 2), store(), INFO], (1, 2, 1, 0),
    ),
    "a reset after an acknowledgement of what was passed over": (
        [stream(), Step("sub", "d", reply=""), store("s.b"), store("s.b"),
         consumer(ack_policy="all", filter_subject="s.a", deliver_subject="d"), ack(2, b"+TERM"),
         api("CONSUMER.RESET.S.C", {})],
        {"reset_seq": 3},
    ),
    "a consumer on disk passes over": (
        [stream(storage="file"), consumer(filter_subject="t.*"), store("s.b"), pull(), consumer()],
        {"delivered": {"consumer_seq": 0, "stream_seq": 0}},
    ),
    "a deleted message is passed over": (
        [stream(), store(), store(), store(), consumer(ack_policy="none"), pull(),
         api("STREAM.MSG.DELETE.S", {"seq": 2}), pull(max_bytes=1), INFO],
        {"delivered": {"consumer_seq": 1, "stream_seq": 1, "last_active": "<>"}},
    ),
    "a count ahead of the stream": (
        [stream(), consumer(), api("CONSUMER.RESET.S.C", {"seq": 3}), store(), store(), store(), pull()],
        "$JS.ACK.S.C.1.3.1.<>.2",
    ),
    "a count ahead of the stream, reported": (
        [stream(), consumer(), api("CONSUMER.RESET.S.C", {"seq": 3}), store(), store(), store(), INFO], (0, 0, 0, 1),
    ),
    "a purge of one on disk by a pattern": (
        [stream(storage="file"), consumer(filter_subjects=["s.a", "s.b"]), store(),
         api("STREAM.PURGE.S", {"filter": "s.>"}), store("s.c"), INFO],
        (0, 0, 0, 1),
    ),
    "a purge of one in memory by a pattern": (
        [stream(), consumer(filter_subjects=["s.a", "s.b"]), store(), api("STREAM.PURGE.S", {"filter": "s.>"}),
         store("s.c"), INFO],
        (0, 0, 0, 0),
    ),
    "a purge of all but the newest": (
        [stream(storage="file"), consumer(filter_subject="s.a"), store(), store(),
         api("STREAM.PURGE.S", {"keep": 1}), INFO],
        (0, 0, 0, 1),
    ),
    "a deletion of what was given up": (
        [stream(), store(), store(), consumer(max_deliver=2), pull(batch=2), ack(1, b"-NAK"), pull(),
         ack(1, b"-NAK", 1), pull(no_wait=True), api("STREAM.MSG.DELETE.S", {"seq": 1}), INFO],
        {"num_redelivered": 0},
    ),
    "a purge of what was given up": (
        [stream(), store(), store(), consumer(max_deliver=2), pull(batch=2), ack(1, b"-NAK"), pull(),
         ack(1, b"-NAK", 1), pull(no_wait=True), api("STREAM.PURGE.S", {"seq": 2}), INFO],
        {"num_redelivered": 0},
    ),
    "a deletion beside a deaf consumer": (
        [stream(), store(), store(), store("s.b"), consumer(filter_subject="s.b"), consumer(),
         api("STREAM.MSG.DELETE.S", {"seq": 3}), pull()],
        "$JS.ACK.S.C.1.1.1.<>.2",
    ),
    "a purge of one beside a deaf consumer": (
        [stream(), store(), store(), store("s.b"), consumer(filter_subject="s.b"), consumer(),
         api("STREAM.PURGE.S", {"filter": "s.b"}), pull()],
        "$JS.ACK.S.C.1.1.1.<>.2",
    ),
    "a reset by a consumer that acknowledges all": (
        [stream(), store(), store(), store(), consumer(ack_policy="all"), pull(batch=3), ack(1),
         api("CONSUMER.RESET.S.C"), INFO],
        (0, 0, 0, 2),
    ),
    "the last of no message": (
        [stream(), store(), consumer(deliver_policy="last", filter_subject="s.b"), api("CONSUMER.RESET.S.C")],
        {"reset_seq": 1},
    ),
    "a refused subscription": (
        [Step("bytes", payload=b"SUB >.a 2\r\n"), stream(), consumer(), pull()._replace(reply="no.body"), INFO],
        {"num_waiting": 0},
    ),
    "a refused request wakes nobody": (
        [stream(), consumer(), pull(batch=1), api("CONSUMER.RESET.S.C", {"seq": 5}), pull(batch=1), store(),
         pull(id="x"), pull(no_wait=True)],
        "408 Requests Pending",
    ),
    "a request by nobody wakes all": (
        [stream(), consumer(filter_subject="t.a"), consumer(), pull(), store(), pull()._replace(reply="x..y"), INFO],
        (1, 0, 1, 0),
    ),
    "an acknowledgement wakes nobody": (
        [stream(), consumer(filter_subject="s.a"), store(), pull(), pull(), store("s.b"), ack(1), ack(2)], None,
    ),
    "an acknowledgement at the limit does": (
        [stream(), consumer(filter_subject="s.a", max_ack_pending=1), store(), pull(), pull(), store("s.b"), ack(1),
         ack(2)],
        None,
    ),
    "so does one of all": (
        [stream(), consumer(ack_policy="all", max_ack_pending=2), store(), store(), store(), pull(batch=3), ack(2),
         INFO],
        (3, 2, 1, 0),
    ),
    "the deletion of what is outstanding": (
        [stream(), consumer(max_ack_pending=1), store(), store(), pull(batch=2),
         api("STREAM.MSG.DELETE.S", {"seq": 1}), INFO],
        (2, 1, 1, 0),
    ),
    "a purge wakes nobody": (
        [stream(), consumer(max_ack_pending=1), store(), store(), pull(batch=2), api("STREAM.PURGE.S", {"keep": 1}),
         INFO],
        (1, 1, 0, 1),
    ),
    "another limit": (
        [stream(), consumer(max_ack_pending=1), store(), store(), pull(batch=2), consumer(max_ack_pending=2), INFO],
        (2, 0, 2, 0),
    ),
    "an acknowledgement of nothing": ([stream(), consumer(), ack(0)], None),
    "an acknowledgement of nothing in a queue": ([stream(retention="workqueue"), consumer(), ack(0)], None),
}  # fmt: skip


def brief(answers: list[Any] | None, expected: Any) -> Any:
    """The last answer, as ``expected`` has it."""
    if not answers:
        return None
    last = answers[0] if isinstance(expected, dict) and "type" in expected else answers[-1]
    if "header" in last:
        status, *rest = last["header"].removeprefix("NATS/1.0 ").split("\r\n")
        return " ".join([status, *(line.split(": ")[1] for line in rest if line.startswith("Nats-Pending-Messages"))])
    if str(expected).startswith("$JS.ACK"):
        return last["reply"]
    body = last.get("payload")
    if body is None:
        return None
    if "error" in body and not isinstance(expected, dict):
        return body["error"]["err_code"]
    if isinstance(expected, tuple):
        return (
            body["delivered"]["consumer_seq"], body["ack_floor"]["consumer_seq"], body["num_ack_pending"],
            body["num_pending"],
        )  # fmt: skip
    found = body | body.get("state", {})
    return {name: found.get(name) for name in expected}


@pytest.mark.parametrize("name", PROGRAMS)
def test_on_the_role(name: str) -> None:
    program, expected = PROGRAMS[name]
    assert brief(said(OnTheRole().run(program)).get(str(len(program) - 1)), expected) == expected


@pytest.fixture(scope="module")
def search() -> Iterator[Search]:
    with NatsServer() as running:
        made = Search(running.port)
        yield made
        made.close()


@pytest.mark.server
@pytest.mark.parametrize("name", PROGRAMS)
def test_on_a_real_server(search: Search, name: str) -> None:
    assert search.confirmed(PROGRAMS[name][0]) is None


@pytest.mark.parametrize(("retention", "answered"), [("limits", True), ("workqueue", False), ("interest", False)])
def test_an_acknowledgement_of_nothing(retention: str, answered: bool) -> None:
    assert ("2" in said(OnTheRole().run([stream(retention=retention), consumer(), ack(0)]))) is answered


def test_a_stream_is_a_subscriber() -> None:
    program = [stream(), store(), consumer(), pull()._replace(reply="s.a"), api("STREAM.INFO.S")]
    assert brief(said(OnTheRole().run(program))["4"], {"messages": 0}) == {"messages": 2}


def test_fewer_than_none_are_left() -> None:
    program = [stream(), consumer(filter_subject="s.b"), consumer(), store(), pull()]
    assert said(OnTheRole().run(program))["4"][0]["reply"] == "$JS.ACK.S.C.1.1.1.<>.0"


def test_a_name_that_is_no_text() -> None:
    create = api("CONSUMER.CREATE.S.\udcff", {"stream_name": "S", "config": {}})
    assert brief(said(OnTheRole().run([stream(), create])).get("1"), 0) == 10103


def test_two_names_are_one() -> None:
    config = ConsumerConfig.from_options(name="A", durable_name="B")
    with pytest.raises(APIError, match="have to be equal"):
        accept(config, StreamConfig("S"), ServerContext(b"token"))


def test_which_pattern_contains_another() -> None:
    inside = [("a.>", "a.b.c"), (">", "a"), ("*", "a"), ("a.*", "a.*"), ("a.>", "a.>"), ("a", "a")]
    outside = [("a.b.c", "a.b"), ("a.b", "a.b.c"), ("a.*", "a.>"), ("a", "b"), ("a.b", "a.*")]
    assert all(contains(wide, narrow) for wide, narrow in inside)
    assert not any(contains(wide, narrow) for wide, narrow in outside)
