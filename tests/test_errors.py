"""Errors: what they say, what they carry, and that the generated ones match the server's table."""

from __future__ import annotations

import builtins
import copy
import pickle
import re
from collections.abc import Callable

import pytest

import jsproto_io.sync
from jsproto import api_errors, errors
from jsproto._event import event
from jsproto.errors import APIError, Error, StatusError
from tests.marks import known_fault, promise, requirement
from tests.sentences import documented
from tests.tools import generate_errors

TABLE = generate_errors.TABLE.read_text(encoding="utf-8")

SAMPLES: list[Error] = [
    errors.Error("x"),
    errors.LocalProtocolError("x"),
    errors.MaxPayloadError(9, 8),
    errors.OutboundBufferLimitError(9, 8),
    errors.RemoteProtocolError("x", b"junk"),
    errors.NoRespondersError("s"),
    errors.NoStreamResponseError("s"),
    errors.SourceBusyError("S", "C"),
    errors.SourcePositionError("S", 9, 8),
    errors.SourcePositionError("S", 9, 10),
    errors.SourceScheduleError("S", 9, "s.later"),
    errors.CopyTargetError("T", "it is a mirror"),
    errors.DeadLetterError("D", "it takes no such subject"),
    errors.CopyFencedError("T"),
    errors.NoServersError((("nats://a", "refused"), ("nats://b", "timed out"))),
    errors.PermissionsViolationError('Permissions Violation for Publish to "a"', "publish", "a"),
    errors.UnsupportedByServerError("fast ingest", "2.14", "2.12.1", "a note"),
    APIError.from_fields(404, 10059, "stream not found"),
    StatusError.from_status(413, "Too Many Results"),
    errors.BatchGapError("x", first_missing=2, last_missing=3, batch_id="b", sequence=9, acked=1, ack=None),
    errors.BatchMessageError("x", message_sequence=2, batch_id="b", sequence=9, acked=1, ack=None),
    errors.BatchStalledError("x", batch_id="b", sequence=9, acked=1, ack=None),
    errors.IncompleteBatchError("x", 7),
    errors.AsyncPublishError([(("s", b"1"), errors.TimeoutError("late"))]),
    errors.MessagesDroppedError(4, 9),
    errors.MirrorAnswerError("S", "M"),
    errors.StreamRecreatedError("S"),
    errors.StreamRolledBackError("S", 9),
    errors.SnapshotError("x", 7),
    errors.SettingsError("it is no seed", "prod", "user_seed"),
]


def test_what_the_messages_say() -> None:
    assert [str(error) for error in SAMPLES] == [
        "x",
        "x",
        "the message has 9 bytes with its headers, the server takes at most 8",
        "9 bytes wait to be written, the limit is 8: let them leave first",
        "x",
        "no responders for s: nobody answers there",
        "no responders for s: no stream listens to this subject, or it has no leader now, or JetStream is off",
        "consumer C of stream S is sourced from by another program",
        "stream S is not the one that was read up to 9: it ends at 8, since it came back shorter. "
        "What is new in it is neither read nor acknowledged: begin with a new target, marker or position",
        "stream S is not the one that was read up to 9: it has another message there, since it came back shorter. "
        "What is new in it is neither read nor acknowledged: begin with a new target, marker or position",
        "message 9 of stream S (subject s.later) is a schedule, which an acknowledgement may delete: "
        "give the consumer filter_subjects that leave schedules out, and a copy a new target or marker",
        "stream T cannot be copied to: it is a mirror",
        "stream D does not do for dead letters: it takes no such subject",
        "another program writes to stream T, so the copy cannot know what it has",
        "cannot connect: nats://a: refused; nats://b: timed out",
        'Permissions Violation for Publish to "a"',
        "fast ingest needs nats-server 2.14; the server is 2.12.1 (a note)",
        "stream not found (code 404, err_code 10059)",
        "status 413 Too Many Results",
        "x",
        "x",
        "x",
        "x (received up to sequence 7)",
        "messages without an acknowledgement: 1; the first one, to s: late",
        "messages 4 to 8 are not in the stream any more",
        "stream S was asked, and only its mirror M answered, which may hold a part of it: read M by its own name, or "
        "let S answer (allow_direct)",
        "stream S was deleted and made anew while it was read (a consistent session goes on after forget('S'))",
        "stream S came back shorter than it was: its message 9 is gone, or is another one (a consistent session goes "
        "on after forget('S'))",
        "x (the snapshot is as of sequence 7)",
        "prod: user_seed: it is no seed",
    ]
    assert str(errors.NoRespondersError("s", "why")) == "no responders for s: why"
    assert str(errors.UnsupportedByServerError("f", "2.14", None)) == (
        "f needs nats-server 2.14; the server is of an unknown version"
    )
    assert str(StatusError.from_status(503, "")) == "status 503"


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("clone", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))], ids=["copy", "pickle"])
def test_errors_can_cross_processes(error: Error, clone: Callable[[Error], Error]) -> None:
    other = clone(error)
    assert type(other) is type(error)
    assert str(other) == str(error)
    assert repr(vars(other)) == repr(vars(error))


def test_who_is_to_blame_is_in_the_type() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, BaseException)]
    assert all(issubclass(kind, Error) for kind in kinds if kind.__module__ == "jsproto.errors")
    assert not issubclass(errors.RemoteProtocolError, errors.LocalProtocolError)
    for caller in (errors.BadSubjectError, errors.BadHeaderError, errors.MaxPayloadError, errors.BatchClosedError,
                   errors.ConnectionClosedError, errors.OutboundBufferLimitError):  # fmt: skip
        assert issubclass(caller, errors.LocalProtocolError)


def test_builtin_bases_let_plain_python_catch_them() -> None:
    assert issubclass(errors.TimeoutError, builtins.TimeoutError)
    assert issubclass(errors.BatchStalledError, builtins.TimeoutError)
    assert issubclass(errors.NoServersError, builtins.ConnectionError)
    assert issubclass(errors.AuthorizationError, builtins.ConnectionError)


def test_a_remote_error_keeps_a_bounded_piece() -> None:
    assert errors.RemoteProtocolError("x", b"a" * 1000).data == b"a" * errors.MAX_QUOTED
    assert errors.RemoteProtocolError("x").data == b""


def test_an_api_error_finds_its_class() -> None:
    error = APIError.from_fields(404, 10059, "stream not found")
    assert type(error) is api_errors.StreamNotFoundError
    assert (error.code, error.err_code, error.description) == (404, 10059, "stream not found")
    unknown = APIError.from_fields(418, 19999, "teapot")
    assert type(unknown) is APIError
    assert (unknown.code, unknown.err_code, unknown.description) == (418, 19999, "teapot")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (404, errors.MessageNotFoundError),
        (408, errors.BadRequestError),
        (412, errors.RequiredApiLevelError),
        (413, errors.TooManyResultsError),
        (409, StatusError),
    ],
)
def test_a_status_finds_its_class(code: int, kind: type[StatusError]) -> None:
    error = StatusError.from_status(code, "why")
    assert type(error) is kind
    assert (error.code, error.description) == (code, "why")


def test_a_batch_error_says_how_far_it_came() -> None:
    gap = errors.BatchGapError("x", first_missing=2, last_missing=3, batch_id="b", sequence=9, acked=1, ack=None)
    assert (gap.first_missing, gap.last_missing, gap.batch_id, gap.sequence, gap.acked, gap.ack) == (
        2,
        3,
        "b",
        9,
        1,
        None,
    )
    refused = errors.BatchMessageError("x", message_sequence=4, batch_id="b", sequence=9, acked=1, ack=None)
    assert refused.message_sequence == 4


@promise("of a class of its own for every code the server is known to send")
def test_the_generated_module_is_up_to_date() -> None:
    assert generate_errors.MODULE.read_text(encoding="utf-8") == generate_errors.render(TABLE), (
        "run: python -m tests.tools.generate_errors"
    )


@requirement(84)
@promise("of a class of its own for every code the server is known to send")
@known_fault("error codes of fast ingest that mean something else by now")
def test_every_row_has_a_class_of_its_own() -> None:
    rows = TABLE.splitlines()[1:]
    own = {name for name, kind in vars(api_errors).items() if isinstance(kind, type) and issubclass(kind, APIError)}
    own.remove("APIError")
    assert len(own) == len(rows) == 189
    hidden = {name for name in own if getattr(errors, name, None) not in (None, APIError)}
    assert hidden == set()
    for row in rows:
        err_code = int(row.split(",")[2])
        kind = type(APIError.from_fields(400, err_code, ""))
        assert kind.__name__ in own
        assert kind.err_code == err_code
        assert re.match(rf"[45][0-9][0-9]/{err_code}:", kind.__doc__ or "")
        assert re.fullmatch(r"[A-Z][A-Za-z]+Error", kind.__name__)


def test_a_wrong_last_sequence_is_one_error_whatever_its_code() -> None:
    for err_code in (10071, 10164):
        error = APIError.from_fields(400, err_code, "wrong last sequence")
        assert isinstance(error, api_errors.StreamWrongLastSequenceError)
        assert error.details == {}


def test_a_class_says_what_the_server_says() -> None:
    kind = api_errors.SequenceNotFoundError
    assert (kind.code, kind.err_code, kind.description) == (400, 10043, "sequence {seq} not found")
    assert kind.template == kind.description
    assert kind.__doc__ == "400/10043: sequence {seq} not found."
    assert api_errors.StreamNotFoundError.template == ""  # its text is a fixed one


@pytest.mark.parametrize("name", jsproto_io.sync.__all__)
def test_the_errors_that_a_docstring_names_are_there(name: str) -> None:
    places: tuple[object, ...] = (errors, api_errors, builtins)
    named = {word for text in documented(jsproto_io.sync, name) for word in re.findall(r"\b[A-Z]\w*Error\b", text)}
    assert {word for word in named if not any(hasattr(place, word) for place in places)} == set()


@pytest.mark.parametrize(
    ("constant", "name"),
    [
        ("JSAtomicPublishDisabledErr", "AtomicPublishDisabledError"),
        ("JSAtomicPublishTooLargeBatchErrF", "AtomicPublishTooLargeBatchError"),
        ("JSStreamStoreFailedF", "StreamStoreFailedError"),
        ("JSBatchPublishTooManyInflight", "BatchPublishTooManyInflightError"),
        ("JSBadRequestErr", "APIBadRequestError"),
    ],
)
def test_names_of_classes(constant: str, name: str) -> None:
    assert generate_errors.class_name(constant, generate_errors.taken_names()) == name


def test_an_event_is_a_slots_value() -> None:
    @event
    class Sample:
        a: int
        b: str = "x"

    assert Sample(1) == Sample(1, "x")
    assert repr(Sample(1)) == "test_an_event_is_a_slots_value.<locals>.Sample(a=1, b='x')"
    with pytest.raises(AttributeError):
        Sample(1).c = 2  # type: ignore[attr-defined]


def test_what_the_server_fills_into_a_text_is_kept_by_name() -> None:
    def details(err_code: int, description: str) -> dict[str, str]:
        return APIError.from_fields(400, err_code, description).details

    assert details(10199, "atomic publish batch is too large: 1000") == {"size": "1000"}
    assert details(10177, "atomic publish unsupported header used: A: (b)") == {"header": "A: (b)"}
    assert details(10021, "stream external api prefix a must not overlap with b.c") == {"prefix": "a", "subject": "b.c"}
    assert details(10057, "two\nlines") == {"err": "two\nlines"}
    assert details(10199, "atomic publish batch is too large") == {}
    assert details(10174, "atomic publish is disabled") == {}
    assert details(1, "") == {}


@pytest.mark.parametrize(
    ("err_code", "text", "field"),
    [(10174, "atomic publish is disabled", "allow_atomic"), (10205, "batch publish is disabled", "allow_batched")],
)
def test_what_can_be_switched_on_is_named_behind_the_text_of_the_server(err_code: int, text: str, field: str) -> None:
    error = APIError.from_fields(400, err_code, text)
    assert error.description == text
    assert str(error).startswith(f"{text} (code 400, err_code {err_code}); switch it on with {field}=True ")


def test_an_error_of_the_application_stands_for_no_code() -> None:
    class OwnError(APIError):
        """Without a code of the server."""

    assert type(APIError.from_fields(400, 0, "no")) is APIError
    assert OwnError(400, 0, "no").description == "no"
