"""Publish acknowledgements and flow messages: two dialects, one set of values."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.errors import APIError, RemoteProtocolError
from jsproto.grammar.acks import (
    DRAFT_ERRORS,
    FlowAck,
    FlowError,
    FlowGap,
    FlowMessage,
    PubAck,
    encode_error_ack,
    encode_flow,
    encode_pub_ack,
    is_plain_ack,
    parse_flow,
    parse_plain_acks,
    parse_pub_ack,
    plain_runs,
)
from tests.grammar.recorded import messages
from tests.marks import known_fault, promise, requirement

BIG = 2**64 - 1
WRONG_LAST = b'{"code":400,"err_code":10071,"description":"wrong last sequence: 1"}'


def fields(error: object) -> tuple[int, int, str]:
    assert isinstance(error, APIError)
    return error.code, error.err_code, error.description


def same(one: object, other: object) -> bool:
    """Equality of answers; errors compare by identity, so by their fields."""
    if isinstance(one, APIError):
        return isinstance(other, APIError) and fields(one) == fields(other)
    if isinstance(one, FlowError):
        return isinstance(other, FlowError) and one.seq == other.seq and same(one.error, other.error)
    return one == other


# -- recorded ----------------------------------------------------------------------------------------------------------


def canonical(payload: bytes) -> bytes:
    """Server 2.11 writes a blank in front of some names."""
    return payload.replace(b', "seq":', b',"seq":').replace(b', "domain":', b',"domain":')


def test_every_recorded_answer_is_read_and_written_again() -> None:
    kinds: dict[type, set[str]] = {PubAck: set(), APIError: set(), FlowAck: set(), FlowGap: set(), FlowError: set()}
    for frame, _, payload in messages():
        names = set(json.loads(payload)) if payload.startswith(b"{") else set()
        if not ({"stream", "seq"} <= names or {"type", "seq"} <= names) or "io.nats" in payload.decode():
            continue
        if "name" in names or "config" in names or "created" in names:
            continue
        answer = parse_flow(payload)
        kind = APIError if isinstance(answer, APIError) else type(answer)
        kinds[kind].add(frame.version)
        if isinstance(answer, PubAck):
            assert answer == parse_pub_ack(payload)
            written = encode_pub_ack(answer)
        elif isinstance(answer, APIError):
            assert same(answer, parse_pub_ack(payload))
            written = encode_error_ack(answer, json.loads(payload)["stream"])
        else:
            written = encode_flow(answer)
        if frame.version == "2.11.11":
            assert written == canonical(payload)
        else:
            assert written == payload
    assert {"2.11.11", "2.12.0", "2.12.8", "2.14.0", "2.15.1"} <= kinds[PubAck] & kinds[APIError]
    for kind in (FlowAck, FlowGap, FlowError):
        assert kinds[kind] >= {"2.15.1"}


# -- publish acknowledgements ------------------------------------------------------------------------------------------

PUB_ACKS = [
    (b'{"stream":"S","seq":1}', PubAck("S", 1)),
    (b'{"stream":"AB","domain":"hub","seq":2,"batch":"b1","count":2}', PubAck("AB", 2, "hub", batch="b1", count=2)),
    (
        b'{"stream":"FI","seq":1,"duplicate": true,"batch":"u3","count":1}',
        PubAck("FI", 1, duplicate=True, batch="u3", count=1),
    ),
    (b'{"stream":"FI","seq":0,"batch":"u1","count":0}', PubAck("FI", 0, batch="u1", count=0)),
    (b'{"stream":"CNT","domain":"hub","seq":1,"val":"5"}', PubAck("CNT", 1, "hub", value="5")),
    (b'{"stream":"FI","seq":31,"batch":"a\\"\\\\<b>&","count":1}', PubAck("FI", 31, batch='a"\\<b>&', count=1)),
    ('{"stream":"é","seq":18446744073709551615}'.encode(), PubAck("é", BIG)),
]


@requirement(29, 94)
@promise("The stream sequences of what it acknowledges, in order")
@pytest.mark.parametrize(("payload", "ack"), PUB_ACKS)
def test_pub_acks(payload: bytes, ack: PubAck) -> None:
    assert parse_pub_ack(payload) == ack
    assert parse_flow(payload) == ack
    assert encode_pub_ack(ack) == payload


def test_pub_acks_of_old_servers() -> None:
    assert parse_pub_ack(b'{"stream":"AB", "domain":"hub", "seq":2}') == PubAck("AB", 2, "hub")
    assert parse_pub_ack(b'{"stream":"S", "seq":1,"duplicate": true}') == PubAck("S", 1, duplicate=True)


@given(
    st.sampled_from(["S", "a b", "~!#[]", "é", "", '"', "\\", "\\u0041", "\x7f", "\n"]),
    st.sampled_from(["", " ", "  "]),
    st.sampled_from(["0", "1", "9" * 18, "9" * 19, str(BIG), str(BIG + 1), "01", "-1", "1.0", "null", ""]),
    st.sampled_from(["", ',"duplicate": true', ',"duplicate":true', ',"duplicate": false', ',"new":1', ","]),
    st.sampled_from(["", " ", "x"]),
)
def test_the_short_cut_for_plain_acks_reads_what_json_says(
    stream: str, blank: str, number: str, rest: str, behind: str
) -> None:
    payload = f'{{"stream":"{stream}",{blank}"seq":{number}{rest}}}{behind}'.encode()
    try:
        answer = parse_flow(payload)  # which has no short cut
    except RemoteProtocolError:
        assert not is_plain_ack(payload)
        with pytest.raises(RemoteProtocolError):
            parse_pub_ack(payload)
    else:
        assert parse_pub_ack(payload) == answer


@given(
    st.sampled_from(["0", "1", "00", "9" * 18, "9" * 19, str(BIG), str(BIG + 1), "-1", "1.0", "null", ""]),
    st.sampled_from(["0", "1", "01", "9999", "65535", "65536", "-1", "1.0", "null", ""]),
    st.sampled_from(["", " "]),
    st.sampled_from(["", ',"new":1', ","]),
)
def test_the_short_cut_for_flow_acks_reads_what_json_says(seq: str, msgs: str, blank: str, rest: str) -> None:
    payload = f'{{"type":"ack",{blank}"seq":{seq},"msgs":{msgs}{rest}}}'.encode()
    general = payload + b" "  # a blank at the end keeps it from the short cut
    try:
        answer = parse_flow(general)
    except RemoteProtocolError:
        with pytest.raises(RemoteProtocolError):
            parse_flow(payload)
    else:
        assert parse_flow(payload) == answer


def test_a_plain_ack_is_known_without_reading_json() -> None:
    assert is_plain_ack(b'{"stream":"S","seq":1}')
    assert is_plain_ack(b'{"stream":"S", "seq":1,"duplicate": true}')
    for payload in (b'{"stream":"S","domain":"hub","seq":1}', b'{"error":{"code":400},"stream":"S","seq":0}', b""):
        assert not is_plain_ack(payload)


answers = st.lists(
    st.sampled_from(
        [
            b'{"stream":"S","seq":1}',
            b'{"stream":"S", "seq":2,"duplicate": true}',
            b'{"stream":"T x","seq":9999999999999999999}',
            b'{"stream":"S","seq":01}',
            b'{"stream":"S","domain":"hub","seq":1}',
            b"",
            b"\n",
            b'{"stream":"S","seq":1}\n',
            b'{"stream":"S","seq":1}\n{"stream":"S","seq":2}',
            b'{"stream":"S\n","seq":1}',
        ]
    ),
    max_size=9,
)


@given(answers)
def test_many_plain_acks_are_those_one_by_one(payloads: list[bytes]) -> None:
    start, runs = 0, [*plain_runs(payloads)]
    for is_plain, stop in runs:
        assert start < stop
        if is_plain:
            assert parse_plain_acks(payloads[start:stop]) == [*map(parse_pub_ack, payloads[start:stop])]
            assert all(map(is_plain_ack, payloads[start:stop]))
        else:
            assert stop == start + 1
            assert not is_plain_ack(payloads[start]) or any(b"\n" in payload for payload in payloads)
        start = stop
    assert start == len(payloads)


def test_plain_acks_are_found_between_others() -> None:
    plain, other = b'{"stream":"S","seq":1}', b'{"error":{"code":503}}'
    assert [*plain_runs([plain, plain, other, other, plain])] == [(True, 2), (False, 3), (False, 4), (True, 5)]
    assert [*plain_runs([plain, other])] == [(True, 1), (False, 2)]
    assert [*plain_runs([])] == []


def test_an_answer_with_a_line_feed_does_not_pass_for_two() -> None:
    plain = b'{"stream":"S","seq":1}'
    for payloads in (
        [plain + b"\n" + plain, b""],
        [plain + b"\n" + plain],
        [b"", plain + b"\n" + plain],
        [plain, b"\n"],
    ):
        assert [*plain_runs(payloads)] == [(False, place) for place in range(1, len(payloads) + 1)]


def test_unknown_fields_and_nulls_are_nothing() -> None:
    payload = b'{"stream":"S","seq":1,"new":[1],"error":null,"domain":null,"duplicate":null,"batch":null,"count":null}'
    assert parse_pub_ack(payload) == parse_flow(payload) == PubAck("S", 1)
    assert parse_pub_ack(b'{"stream":"S","seq":1,"duplicate":false}') == PubAck("S", 1)


def test_an_error_is_returned() -> None:
    payload = b'{"error":{"code":400,"err_code":10208,"description":"batch publish ID unknown"},"stream":"FI","seq":0}'
    for answer in (parse_pub_ack(payload), parse_flow(payload)):
        assert fields(answer) == (400, 10208, "batch publish ID unknown")
        assert type(answer).__name__ == "BatchPublishUnknownBatchIDError"
    answer = parse_pub_ack(payload)
    assert isinstance(answer, APIError)
    assert encode_error_ack(answer, "FI") == payload


def test_an_error_alone_is_an_error() -> None:
    for parse in (parse_pub_ack, parse_flow):
        assert fields(parse(b'{"error":{"code":503}}')) == (503, 0, "")


def test_errors_are_escaped_as_servers_do() -> None:
    error = APIError(400, 10025, 'unknown field "<x>&\u2028"')
    payload = encode_error_ack(error, "a<b")
    assert payload == (
        b'{"error":{"code":400,"err_code":10025,"description":"unknown field \\"\\u003cx\\u003e\\u0026\\u2028\\""},'
        b'"stream":"a\\u003cb","seq":0}'
    )
    assert fields(parse_pub_ack(payload)) == fields(error)
    assert encode_error_ack(APIError(500, 0, ""), "S") == b'{"error":{"code":500},"stream":"S","seq":0}'
    assert encode_error_ack(APIError(400, 1, "\ud800"), "S") == (
        b'{"error":{"code":400,"err_code":1,"description":"?"},"stream":"S","seq":0}'
    )


@pytest.mark.parametrize(
    "payload",
    [
        b"", b"+OK", b"[]", b"null", b"{", b"{}", b'{"stream":"S"}', b'{"seq":1}', b'{"stream":"","seq":1}',
        b'{"stream":1,"seq":1}', b'{"stream":"S","seq":-1}', b'{"stream":"S","seq":1.0}', b'{"stream":"S","seq":true}',
        b'{"stream":"S","seq":"1"}', b'{"stream":"S","seq":18446744073709551616}', b'{"stream":"S","seq":1} x',
        b'{"stream":"S","seq":1,"duplicate":1}', b'{"stream":"S","seq":1,"duplicate":"true"}',
        b'{"stream":"S","seq":1,"domain":7}', b'{"stream":"S","seq":1,"batch":[]}', b'{"stream":"S","seq":1,"val":3}',
        b'{"stream":"S","seq":1,"count":-1}', b'{"stream":"S","seq":1,"count":NaN}', b'{"stream":"S","seq":NaN}',
        b'{"stream":"S","seq":1,"batch":"b"}', b'{"stream":"S","seq":1,"batch":"b","count":null}',
        b'{"error":"no"}', b'{"error":[],"stream":"S","seq":0}', b'{"error":{"code":"400"}}',
        b'{"stream":"S","seq":1,"error":false}', b"\xff", b"[" * 100_000,
    ],
)  # fmt: skip
def test_what_is_no_pub_ack(payload: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        parse_pub_ack(payload)


# -- flow messages -----------------------------------------------------------------------------------------------------

FLOW: list[tuple[FlowMessage, bytes, bytes]] = [
    (FlowAck(0, 10), b'{"type":"ack","seq":0,"msgs":10}', b'{"ack_msgs":10}'),
    (FlowAck(10, 10), b'{"type":"ack","seq":10,"msgs":10}', b'{"seq":10,"ack_msgs":10}'),
    (FlowAck(BIG, 65535), b'{"type":"ack","seq":%d,"msgs":65535}' % BIG, b'{"seq":%d,"ack_msgs":65535}' % BIG),
    (FlowGap(3, 5), b'{"type":"gap","last_seq":3,"seq":5}', b'{"last_seq":2,"seq":5}'),
    (FlowGap(1, 2), b'{"type":"gap","last_seq":1,"seq":2}', b'{"seq":2}'),
    (FlowGap(3, 2), b'{"type":"gap","last_seq":3,"seq":2}', b'{"last_seq":2,"seq":2}'),
    (
        FlowError(2, APIError(400, 10071, "wrong last sequence: 1")),
        b'{"type":"err","seq":2,"error":%b}' % WRONG_LAST,
        b'{"seq":2,"error":%b}' % WRONG_LAST,
    ),
]


@requirement(65)
@promise("Both dialects of ADR-50's acknowledgements are understood")
@known_fault("a gap is told with the wrong numbers")
@pytest.mark.parametrize(("message", "released", "draft"), FLOW)
def test_both_dialects_say_the_same(message: FlowMessage, released: bytes, draft: bytes) -> None:
    for payload in (released, draft):
        assert same(parse_flow(payload), message)
    assert encode_flow(message) == encode_flow(message, "released") == released
    assert encode_flow(message, "draft") == draft


def test_the_draft_may_write_its_zeros() -> None:
    assert parse_flow(b'{"seq":0,"ack_msgs":10}') == FlowAck(0, 10)
    assert parse_flow(b'{"last_seq":0,"seq":2}') == FlowGap(1, 2)
    assert parse_flow(b'{"last_seq":2,"seq":5,"ack_msgs":10}') == FlowGap(3, 5)  # a gap tells no rate


@requirement(81)
@known_fault("acknowledgements are told apart by their bytes")
def test_the_type_decides_before_anything_else() -> None:
    assert parse_flow(b'{"type":"ack","seq":1,"msgs":2,"stream":"S","batch":"b","error":{},"last_seq":9}') == FlowAck(
        1, 2
    )


def test_the_draft_ends_a_batch_with_count_and_error() -> None:
    payload = b'{"error":%b,"stream":"FI","seq":4,"batch":"u1","count":2}' % WRONG_LAST
    ack = parse_flow(payload)
    assert isinstance(ack, PubAck)
    assert (ack.stream, ack.seq, ack.batch, ack.count) == ("FI", 4, "u1", 2)
    assert fields(ack.error) == (400, 10071, "wrong last sequence: 1")
    assert encode_pub_ack(ack) == payload
    assert fields(parse_pub_ack(payload)) == (400, 10071, "wrong last sequence: 1")  # of a single publish: refused


@pytest.mark.parametrize(
    "payload",
    [
        b"", b"{", b"[]", b"{}", b'{"type":null}', b'{"type":7,"seq":1}', b'{"type":"ACK","seq":1,"msgs":1}',
        b'{"type":"io.nats.jetstream.api.v1.pub_ack","stream":"S","seq":1}',
        b'{"type":"ack"}', b'{"type":"ack","seq":1}', b'{"type":"ack","msgs":1}', b'{"type":"ack","seq":1,"msgs":0}',
        b'{"type":"ack","seq":1,"msgs":65536}', b'{"type":"ack","seq":-1,"msgs":1}',
        b'{"type":"ack","seq":1,"msgs":true}',
        b'{"type":"ack","seq":18446744073709551616,"msgs":1}', b'{"type":"ack","seq":1,"ack_msgs":1}',
        b'{"type":"gap","seq":2}', b'{"type":"gap","last_seq":1}', b'{"type":"gap","last_seq":0,"seq":2}',
        b'{"type":"gap","last_seq":1,"seq":0}', b'{"type":"gap","last_seq":"1","seq":2}',
        b'{"type":"err","seq":1}', b'{"type":"err","error":{"code":1}}', b'{"type":"err","seq":0,"error":{"code":1}}',
        b'{"type":"err","seq":1,"error":null}', b'{"type":"err","seq":1,"error":"x"}',
        b'{"ack_msgs":0}', b'{"seq":1,"ack_msgs":0}', b'{"seq":1,"ack_msgs":65536}', b'{"seq":-1,"ack_msgs":1}',
        b'{"seq":0}', b'{"last_seq":3}', b'{"last_seq":2,"seq":0}', b'{"last_seq":-1,"seq":3}',
        b'{"last_seq":18446744073709551615,"seq":3}', b'{"seq":0,"error":{"code":1}}', b'{"seq":1,"error":7}',
        b'{"stream":null,"seq":1}', b'{"stream":"FI","seq":1,"batch":7}', b'{"batch":"u1","error":{"code":1}}',
    ],
)  # fmt: skip
def test_what_is_no_flow_message(payload: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        parse_flow(payload)


# -- properties --------------------------------------------------------------------------------------------------------

uint64 = st.integers(0, BIG)
texts = st.text(st.characters(exclude_categories=["Cs"]))
errors = st.builds(APIError.from_fields, uint64, uint64, texts)
acks = st.builds(
    PubAck, texts.filter(bool), uint64, st.none() | texts, st.booleans(), st.none() | texts, st.none() | texts,
    st.none() | uint64,
).filter(lambda ack: ack.batch is None or ack.count is not None)  # fmt: skip
flow: st.SearchStrategy[FlowMessage] = st.one_of(
    st.builds(FlowAck, uint64, st.integers(1, 65535)),
    st.builds(FlowGap, st.integers(1, BIG), st.integers(1, BIG)),
    st.builds(FlowError, st.integers(1, BIG), errors),
)


@requirement(94)
@given(acks)
def test_pub_acks_survive(ack: PubAck) -> None:
    assert parse_pub_ack(encode_pub_ack(ack)) == ack
    assert parse_flow(encode_pub_ack(ack)) == ack


@given(errors, texts.filter(bool))
def test_errors_survive(error: APIError, stream: str) -> None:
    payload = encode_error_ack(error, stream)
    for answer in (parse_pub_ack(payload), parse_flow(payload)):
        assert type(answer) is type(error)
        assert same(answer, error)


@requirement(82)
@given(flow)
def test_flow_messages_survive_in_both_dialects(message: FlowMessage) -> None:
    assert same(parse_flow(encode_flow(message)), message)
    assert same(parse_flow(encode_flow(message, "draft")), message)


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just([]), st.just({"code": 400})
)
bodies = st.dictionaries(
    st.sampled_from(["type", "seq", "msgs", "last_seq", "ack_msgs", "error", "stream", "batch", "count", "duplicate"]),
    scalars | st.sampled_from(["ack", "gap", "err", 1, 10]),
)


@given(st.binary() | bodies.map(lambda body: json.dumps(body).encode()))
def test_whatever_arrives_is_an_answer_or_is_refused(payload: bytes) -> None:
    for parse in (parse_pub_ack, parse_flow):
        try:
            answer = parse(payload)
        except RemoteProtocolError:
            continue
        assert isinstance(answer, PubAck | APIError | FlowAck | FlowGap | FlowError)
        if isinstance(answer, FlowAck):
            assert 1 <= answer.msgs <= 65535
        if isinstance(answer, FlowGap):
            assert min(answer.first_missing, answer.seq) >= 1
        if isinstance(answer, FlowError):
            assert answer.seq >= 1


@requirement(83)
@pytest.mark.parametrize(("released", "draft"), DRAFT_ERRORS.items())
def test_an_error_of_the_draft_is_the_released_one(released: int, draft: tuple[int, str]) -> None:
    number, words = draft
    kind = type(APIError.from_fields(400, released, ""))
    error = {"code": 400, "err_code": number, "description": words}
    for shape in ({"error": error, "stream": "S", "seq": 0}, {"type": "err", "seq": 1, "error": error}):
        found = parse_flow(json.dumps(shape).encode())
        refused = found.error if isinstance(found, FlowError) else found
        assert isinstance(refused, kind)
        assert (refused.err_code, refused.description) == (released, words)


@requirement(83)
@pytest.mark.parametrize("number", [10203, 10205, 10206])
def test_the_same_numbers_with_other_words_are_other_errors(number: int) -> None:
    error = {"code": 400, "err_code": number, "description": "message schedules source is invalid"}
    found = parse_flow(json.dumps({"error": error, "stream": "S", "seq": 0}).encode())
    assert isinstance(found, APIError)
    assert found.err_code == number
