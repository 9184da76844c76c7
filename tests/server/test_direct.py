"""Direct Get and the API's reads in the server role: each form, each status, old releases, the draft."""

from __future__ import annotations

import json
from typing import Any, Final

import hypothesis.strategies as st
import pytest
from hypothesis import given

from jsproto.grammar.headers import status_line
from jsproto.server.read.direct import FIELDS, MAX_SUBJECTS
from tests.marks import requirement
from tests.server.harness import Reader

SECOND: Final = 1_000_000_000
OLD: Final = (2, 11, 11)


def filled(**options: Any) -> Reader:
    """Stream S with six messages, one a second, the third of them deleted."""
    reader = Reader(**options)
    stream = reader.make(max_msgs_per_subject=9)
    for second, subject in enumerate(["s.a", "s.b", "s.c", "s.a", "s.d", "s.b"], 1):
        reader.now = float(second)
        reader.store(subject, b"%d" % second)
    assert stream.remove(3)
    return reader


@requirement(123)
@pytest.mark.parametrize(
    ("body", "answers"),
    [
        ({"seq": 2}, [2]),
        ({"seq": 3}, ["404 Message Not Found"]),
        ({"seq": 99}, ["404 Message Not Found"]),
        ({"SEQ": 2, "colour": "red", "batch": None}, [2]),
        ({"last_by_subj": "s.b"}, [6]),
        ({"last_by_subj": "s.*"}, [6]),
        ({"last_by_subj": ">"}, [6]),
        ({"last_by_subj": "s.z"}, ["404 Message Not Found"]),
        ({"next_by_subj": "s.b"}, [2]),
        ({"next_by_subj": "s.b", "seq": 3}, [6]),
        ({"next_by_subj": "s.b", "seq": 7}, ["404 Message Not Found"]),
        ({"start_time": "1970-01-01T00:00:02Z"}, [2]),
        ({"start_time": "1970-01-01T00:00:02.000000001Z"}, [4]),
        ({"start_time": "1970-01-01T01:00:06+01:00"}, [6]),
        ({"start_time": "1970-01-01T00:00:07Z"}, ["404 Message Not Found"]),
        ({"start_time": "1970-01-01T00:00:03Z", "next_by_subj": "s.b"}, [6]),
        ({"seq": 2, "batch": 2}, [2, 4, "204 EOB"]),
        ({"seq": 3, "batch": 1}, [4, "204 EOB"]),
        ({"next_by_subj": "s.>", "batch": 9}, [1, 2, 4, 5, 6, "204 EOB"]),
        ({"next_by_subj": "s.z", "batch": 9}, ["404 Message Not Found"]),
        ({"next_by_subj": "s.a", "batch": 9, "start_time": "1970-01-01T00:00:02Z"}, [4, "204 EOB"]),
        ({"seq": 1, "batch": 9, "max_bytes": 8}, [1, 2, "204 EOB"]),
        ({"seq": 1, "batch": 9, "max_bytes": 1}, [1, "204 EOB"]),
        ({"seq": 1, "batch": 9, "max_bytes": -1}, [1, "204 EOB"]),
        ({"seq": 1, "batch": -1}, ["204 EOB"]),
        ({"seq": 1, "batch": 0}, [1]),
        ({"multi_last": ["s.a", "s.d"]}, [4, 5, "204 EOB"]),
        ({"multi_last": ["s.*", "s.a", ">"]}, [4, 5, 6, "204 EOB"]),
        ({"multi_last": ["s.>"], "up_to_seq": 4}, [2, 4, "204 EOB"]),
        ({"multi_last": ["s.>"], "up_to_seq": 99}, [4, 5, 6, "204 EOB"]),
        ({"multi_last": ["s.>"], "up_to_time": "1970-01-01T00:00:04Z"}, [1, 2, "204 EOB"]),
        ({"multi_last": ["s.>"], "up_to_time": "1970-01-01T00:00:01Z"}, ["404 No Results"]),
        ({"multi_last": ["s.>"], "batch": 2}, [4, 5, "204 EOB"]),
        ({"multi_last": ["s.>"], "seq": 6, "up_to_seq": 6}, [6, "204 EOB"]),
        ({"multi_last": ["s.>"], "seq": 7}, ["204 EOB"]),
        ({"multi_last": ["s.z", "\ud800"]}, ["404 No Results"]),
        ({"seq": 2, "no_hdr": True}, [b"2"]),
        ({"seq": 1, "batch": 2, "no_hdr": True}, [b"1", b"2", "204 EOB"]),
        (b"", ["408 Empty Request"]),
        (b"null", ["408 Empty Request"]),
        ({"batch": 2}, ["408 Empty Request"]),
        ({"seq": 0, "up_to_seq": 3, "multi_last": [], "last_by_subj": ""}, ["408 Empty Request"]),
    ],
)  # fmt: skip
def test_what_is_asked_for_is_answered(body: Any, answers: list[Any]) -> None:
    assert filled().read(body) == answers


@pytest.mark.parametrize(
    "body",
    [
        b"junk", b"[]", b'{"seq":1}x', {"seq": -1}, {"seq": 1.0}, {"seq": True}, {"seq": 2**64}, {"seq": "1"},
        {"batch": 2**63, "seq": 1}, {"max_bytes": "1", "seq": 1}, {"last_by_subj": 1}, {"next_by_subj": ["s.a"]},
        {"multi_last": "s.a"}, {"multi_last": [1]}, {"no_hdr": 1, "seq": 1}, {"start_time": 3}, {"start_time": ""},
        {"start_time": "1970-01-01 00:00:01Z"}, {"start_time": "1970-01-01T00:00:01"},
        {"start_time": "1970-02-31T00:00:01Z"}, {"up_to_time": "yesterday", "multi_last": ["s.a"]},
    ],
)  # fmt: skip
def test_a_malformed_request(body: Any) -> None:
    assert filled().read(body) == ["408 Malformed Request"]


TIME: Final = "1970-01-01T00:00:02Z"


@pytest.mark.parametrize(
    "body",
    [
        {"seq": 1, "last_by_subj": "s.a"}, {"seq": 1, "start_time": TIME}, {"start_time": TIME, "last_by_subj": "s.a"},
        {"last_by_subj": "s.a", "next_by_subj": "s.a"}, {"last_by_subj": "s.a", "batch": 1},
        {"last_by_subj": "s.a", "multi_last": ["s.a"]}, {"next_by_subj": "s.a", "multi_last": ["s.a"]},
        {"multi_last": ["s.a"], "up_to_seq": 1, "up_to_time": TIME},
    ],
)  # fmt: skip
def test_fields_that_exclude_each_other(body: Any) -> None:
    assert filled().read(body) == ["408 Bad Request"]


def test_of_all_subjects_the_last_message_is_the_one_that_was_stored_last() -> None:
    reader = filled()
    reader.server.stream("S").remove(6)
    assert reader.last(">") == "404 Message Not Found"  # as servers say it
    assert reader.last("s.>") == 5


@requirement(118)
@pytest.mark.parametrize(
    ("subject", "body", "answers"),
    [
        ("s.a", b"", [4]),
        ("s.z", b"", ["404 Message Not Found"]),
        ("s.a", b"{}", [4]),
        ("s.a", {"no_hdr": True}, [b"4"]),
        ("s.a", {"max_bytes": 3, "no_hdr": False}, [4]),
        ("s.a", {"seq": 1}, ["408 Bad Request"]),
        ("s.a", {"batch": 1}, ["408 Bad Request"]),
        ("s.a", {"up_to_seq": 1}, ["408 Bad Request"]),
        ("s.a", {"up_to_time": TIME}, ["408 Bad Request"]),
        ("s.a", b"junk", ["408 Malformed Request"]),
    ],
)
def test_the_subject_behind_the_name_of_the_stream(subject: str, body: Any, answers: list[Any]) -> None:
    assert filled().read(body, f"S.{subject}") == answers


def test_the_bytes_of_a_batch() -> None:
    reader = Reader(epoch=5 * SECOND)
    reader.make()
    reader.store("s.a", b"one", b"NATS/1.0\r\nNats-Sequence: 777\r\n\r\n")
    reader.store("s.b", b"two")
    assert reader.ask("DIRECT.GET.S", {"next_by_subj": "s.a", "batch": 3}) == [
        (
            b"NATS/1.0\r\nNats-Sequence: 777\r\nNats-Stream: S\r\nNats-Subject: s.a\r\nNats-Sequence: 1\r\n"
            b"Nats-Time-Stamp: 1970-01-01T00:00:05Z\r\nNats-Num-Pending: 0\r\nNats-Last-Sequence: 0\r\n\r\n",
            b"one",
        ),
        (b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\nNats-Last-Sequence: 1\r\n\r\n", b""),
    ]


def pending(reader: Reader, body: Any) -> list[bytes]:
    """The pending counts of all answers."""
    answers = reader.ask("DIRECT.GET.S", body)
    return [header.partition(b"Nats-Num-Pending: ")[2].partition(b"\r\n")[0] for header, _ in answers if header]


def test_the_pending_counts_of_this_release_and_of_old_ones() -> None:
    new, old = filled(), filled(release=OLD)
    for body, counts, old_counts in (
        ({"seq": 1, "batch": 2}, [b"4", b"3", b"3"], [b"5", b"4", b"3"]),
        ({"multi_last": ["s.>"]}, [b"2", b"1", b"0", b"0"], [b"2", b"1", b"0", b"0"]),
        ({"multi_last": ["s.>"], "batch": 1}, [b"2", b"2"], [b"2", b"1"]),
        ({"seq": 1, "batch": 2, "no_hdr": True}, [b"5"], [b"5", b"4", b"3"]),
    ):
        assert pending(new, body) == counts
        assert pending(old, body) == old_counts


@requirement(118)
def test_old_releases_know_no_body_behind_a_subject_and_no_level() -> None:
    level = b"NATS/1.0\r\nNats-Required-Api-Level: 99\r\n\r\n"
    old, new = filled(release=OLD), filled()
    assert old.read({}, "S.s.a") == ["408 Bad Request"]
    assert old.read(b"", "S.s.a") == [4]
    for form, body in (("DIRECT.GET.S", {"seq": 1}), ("DIRECT.GET.S.s.a", b"")):
        assert new.ask(form, body, level) == [(b"NATS/1.0 412 Required Api Level\r\n\r\n", b"")]
        ((header, _),) = old.ask(form, body, level)
        assert header is not None
        assert status_line(header) is None


@requirement(118)
def test_the_draft() -> None:
    reader = filled(dialect="draft")
    ((header, _),) = reader.ask("DIRECT.GET.S", {"seq": 2})
    assert header is not None
    assert b"\r\nNats-Time-Stamp: 1970-01-01 00:00:02 +0000 UTC\r\n" in header
    assert reader.read({}, "S.s.a") == ["408 Bad Request"]
    assert reader.read({"next_by_subj": "s.a", "batch": 2}) == ["408 Bad Request"]
    assert reader.read({"seq": 1, "batch": 2}) == ["408 Bad Request"]
    assert reader.read({"seq": 1, "batch": 2, "next_by_subj": "s.a"}) == [1, 4, "204 EOB"]
    assert reader.read({"start_time": TIME, "batch": 2, "next_by_subj": "s.a"}) == [4, "204 EOB"]
    assert reader.read({"multi_last": ["s.a"], "up_to_time": "1970-01-01T00:00:04Z"}) == [4, "204 EOB"]


@requirement(134)
def test_at_most_1024_subjects() -> None:
    reader = Reader()
    stream = reader.make()
    for number in range(MAX_SUBJECTS + 1):
        reader.store(f"s.{number}")
    for more in ({}, {"batch": 1}):
        assert reader.read({"multi_last": ["s.>"]} | more) == ["413 Too Many Results"]
    assert len(reader.read({"multi_last": ["s.>"], "up_to_seq": MAX_SUBJECTS})) == MAX_SUBJECTS + 1
    stream.remove(1)
    assert len(reader.read({"multi_last": ["s.>"]})) == MAX_SUBJECTS + 1


def test_a_bound_beyond_the_end_of_a_stream_on_disk() -> None:
    reader = Reader()
    reader.make(storage="file")
    reader.store("s.a")
    assert reader.read({"multi_last": ["s.a"], "up_to_seq": 1}) == [1, "204 EOB"]
    assert reader.read({"multi_last": ["s.a"], "up_to_seq": 2}) == ["404 No Results"]


@requirement(124)
def test_a_batch_has_an_end_that_nobody_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jsproto.server.read.direct.MAX_PENDING", 8)
    for body in ({"seq": 1, "batch": 9}, {"seq": 1, "batch": 9, "max_bytes": 0}):
        assert filled().read(body) == [1, 2, "204 EOB"]
    assert filled().read({"multi_last": ["s.>"]}) == [4, 5, "204 EOB"]
    assert len(filled().read({"seq": 1, "batch": 9, "max_bytes": 1000})) == 6


def test_what_is_too_old_is_not_read() -> None:
    reader = Reader()
    reader.make(max_age=2)
    reader.store("s.a")
    reader.now = 1.5
    assert reader.last() == 1
    reader.now = 2.0
    assert reader.last() == "404 Message Not Found"
    reader.store("s.a")
    reader.now = 4.0
    assert reader.api("STREAM.INFO.S")["state"]["messages"] == 0


@requirement(109, 112)
@pytest.mark.parametrize(("release", "header"), [
    ((2, 15, 1), b"NATS/1.0 503\r\nNats-Subject: $JS.API.DIRECT.GET.S\r\n\r\n"), (OLD, b"NATS/1.0 503\r\n\r\n"),
])  # fmt: skip
def test_nobody_answers_for_a_stream_that_does_not_allow_it(release: Any, header: bytes) -> None:
    reader = Reader(release=release)
    reader.make(allow_direct=False)
    reader.store("s.a")
    assert reader.ask("DIRECT.GET.S", {"seq": 1}) == [(header, b"")]
    assert reader.read(b"", "S.s.a") == ["503 "]
    body = {"name": "S", "subjects": ["s.>"], "storage": "memory", "allow_direct": True}
    reader.api("STREAM.UPDATE.S", body)
    assert reader.read({"seq": 1}) == reader.read(b"", "S.s.a") == [1]
    reader.api("STREAM.UPDATE.S", body | {"allow_direct": False})
    assert reader.read({"seq": 1}) == ["503 "]
    reader.api("STREAM.UPDATE.S", body)
    reader.api("STREAM.DELETE.S")
    assert reader.read({"seq": 1}) == ["503 "]


def test_a_domain_has_a_prefix_of_its_own() -> None:
    reader = Reader(domain="hub")
    reader.make()
    reader.store("s.a")
    answers = reader.say(b"PUB $JS.hub.API.DIRECT.GET.S.s.a i 0\r\n\r\n")
    assert [answer.payload for answer in answers] == [b"x"]
    assert reader.last() == 1


def test_a_request_without_a_reply_subject_is_not_looked_at() -> None:
    reader = filled()
    assert reader.say(b'PUB $JS.API.DIRECT.GET.S 9\r\n{"seq":1}\r\n') == []
    assert reader.say(b'PUB $JS.API.DIRECT.GET.S \xff 9\r\n{"seq":1}\r\n') == []


# -- whatever is asked -------------------------------------------------------------------------------------------------

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
likely = st.sampled_from([0, 1, 3, 6, -1, "s.a", "s.>", "", ["s.a"], ["s.>", "s.b"], TIME, True])
bodies = st.dictionaries(st.sampled_from(sorted(FIELDS)), likely | anything, max_size=5)
READER: Final = filled()


@given(bodies.map(lambda body: json.dumps(body).encode()) | st.binary(max_size=40), st.booleans())
def test_every_request_has_one_answer(body: bytes, is_appended: bool) -> None:
    """One status, or one message, or messages in ascending sequence with one end."""
    answers = READER.read(body, "S.s.a" if is_appended else "S")
    messages, end = answers[:-1], answers[-1]
    assert messages == sorted(messages)
    if end == "204 EOB":
        assert all(isinstance(message, int | bytes) for message in messages)
    else:
        assert messages == []
        assert isinstance(end, int | bytes) or end[:4] in ("404 ", "408 ")


# -- the leader's answers ----------------------------------------------------------------------------------------------


@requirement(147, 148)
@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ({"seq": 2}, 2), ({"last_by_subj": "s.a"}, 4), ({"next_by_subj": "s.b", "seq": 3}, 6), ({"seq": 3}, 10037),
        ({"start_time": TIME}, 2), ({"seq": 1, "up_to_seq": 1, "up_to_time": TIME, "multi_last": ["s.a"]}, 1),
        ({"seq": 1, "batch": -1}, 1), (b"", 10003), ({}, 10003), ({"seq": 1, "batch": 1}, 10003),
        ({"seq": 1, "max_bytes": 1}, 10003), ({"multi_last": ["s.a"]}, 10003), ({"seq": 1, "start_time": TIME}, 10003),
        (b"junk", 10025), ({"seq": -1}, 10025), ({"seq": 1, "colour": "red"}, 10025),
    ],
)  # fmt: skip
def test_reading_through_the_leader(body: Any, answer: int) -> None:
    said = filled().api("STREAM.MSG.GET.S", body)
    assert (said["error"]["err_code"] if "error" in said else said["message"]["seq"]) == answer


@requirement(147)
def test_a_message_in_json() -> None:
    reader = Reader()
    reader.make(allow_direct=False)
    reader.store("s.a", b"", b"NATS/1.0\r\nA: b\r\n\r\n")
    told = {"subject": "s.a", "seq": 1, "hdrs": "TkFUUy8xLjANCkE6IGINCg0K", "time": "1970-01-01T00:00:00Z"}
    assert reader.api("STREAM.MSG.GET.S", {"seq": 1}) == {"message": told}
    assert "hdrs" not in reader.api("STREAM.MSG.GET.S", {"seq": 1, "no_hdr": True})["message"]
    reader.server.context.release = OLD
    assert "hdrs" in reader.api("STREAM.MSG.GET.S", {"seq": 1, "no_hdr": True})["message"]


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ({"seq": 2}, [1, 4, 5, 6]), ({"seq": 2, "no_erase": True}, [1, 4, 5, 6]), ({"seq": 3}, 10043),
        ({"seq": 0}, 10043), (b"", 10003), ({}, 10003), (b"junk", 10025), ({"seq": "1"}, 10025),
        ({"seq": 1, "colour": "red"}, 10025),
    ],
)  # fmt: skip
def test_deleting_a_message(body: Any, answer: Any) -> None:
    reader = filled()
    said = reader.api("STREAM.MSG.DELETE.S", body)
    if isinstance(answer, list):
        assert said == {"success": True}
        assert [stored.seq for stored in reader.server.stream("S")] == answer
    else:
        assert said["error"]["err_code"] == answer


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (b"", []), ({}, []), (b"junk", []), ({"filter": "s.b"}, [1, 4, 5]), ({"filter": "s.*", "seq": 5}, [5, 6]),
        ({"keep": 2}, [5, 6]), ({"filter": "s.a", "keep": 1}, [2, 4, 5, 6]), ({"keep": 1, "seq": 2}, 10003),
        (b"[]", 10025), (b"{", 10025),
        ({"filter": 1}, 10025), ({"keep": -1}, 10025), ({"colour": "red"}, 10025),
    ],
)  # fmt: skip
def test_purging(body: Any, answer: Any) -> None:
    reader = filled()
    said = reader.api("STREAM.PURGE.S", body)
    if isinstance(answer, list):
        assert said == {"success": True, "purged": 5 - len(answer)}
        assert [stored.seq for stored in reader.server.stream("S")] == answer
    else:
        assert (said["error"]["err_code"], said["purged"]) == (answer, 0)


def test_where_nothing_may_be_deleted() -> None:
    reader = Reader()
    reader.make(deny_delete=True, deny_purge=True)
    reader.store("s.a")
    assert reader.api("STREAM.MSG.DELETE.S", {"seq": 1})["error"] == {
        "code": 500, "err_code": 10057, "description": "message delete not permitted",
    }  # fmt: skip
    assert reader.api("STREAM.PURGE.S")["error"]["err_code"] == 10110
    sealed = reader.make("T")
    reader.api("STREAM.UPDATE.T", {"name": "T", "subjects": ["t.>"], "storage": "memory", "sealed": True})
    assert sealed.config.sealed
    for verb in ("STREAM.MSG.DELETE.T", "STREAM.PURGE.T"):
        assert reader.api(verb, {"seq": 1})["error"]["err_code"] == 10109
    for verb in ("GET", "DELETE"):
        assert reader.api(f"STREAM.MSG.{verb}.X", {"seq": 1})["error"]["err_code"] == 10059
