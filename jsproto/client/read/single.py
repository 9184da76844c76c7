"""Reading one message: the request, and the answer of a Direct Get or of the stream's leader.

Rules:

* A request that the server would refuse, or read in another way than it was meant, is refused before it is sent.
* Both ways of reading give the same ``StoredMsg`` and the same MessageNotFoundError.
* A status is an error only without the server's own headers. A message may be stored with a status in its first line.

Not here: reading many messages (``direct``, ``multi``).
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, get_args

from jsproto.api_errors import NoMessageFoundError, StreamOfflineError
from jsproto.errors import (
    APIError,
    Error,
    LocalProtocolError,
    MessageNotFoundError,
    NoRespondersError,
    RemoteProtocolError,
    StatusError,
)
from jsproto.grammar.api import ApiSubjects, decode_response
from jsproto.grammar.bodies import dumps, loads, text, uint64
from jsproto.grammar.headers import status_line
from jsproto.grammar.stored import StoredMsg, check_seq, number, stored_header
from jsproto.grammar.subjects import check_subject
from jsproto.grammar.times import Instant, format_timestamp, instant
from jsproto.wire.frames import Msg

ReadLevel: TypeAlias = Literal["direct", "leader"]
"""Who answers a read. "direct": any replica or mirror, at once and perhaps behind. "leader": the stream's leader."""
LEVELS: Final = get_args(ReadLevel)

Asked: TypeAlias = Mapping[str, Any] | bytes
"""What ``selection`` returns, or the same as JSON."""

_UNAVAILABLE: Final = 503  # code of an APIError: the stream has no leader just now
_PLAIN: Final = b"NATS/1.0\r\n\r\n"


def selection(seq: int | None, subject: str | None, following: bool, start_time: Instant | None) -> dict[str, Any]:
    """The fields of a request that choose one message.

    Raises:
        LocalProtocolError: they choose none, or contradict each other.
    """
    if seq is not None and start_time is not None:
        raise LocalProtocolError("give seq or start_time, not both")
    body: dict[str, Any] = {}
    if seq is not None:
        check_seq(seq)
        body["seq"] = seq
    if start_time is not None:
        body["start_time"] = format_timestamp(instant(start_time))
    if subject is not None:
        check_subject(subject, wildcards=True)
    if following:
        body["next_by_subj"] = ">" if subject is None else subject
    elif subject is not None:
        if body:
            raise LocalProtocolError(
                "without next=True a subject means its last message, whatever seq or start_time: give one of them"
            )
        body["last_by_subj"] = subject
    if not body:
        raise LocalProtocolError("say which message: its seq, a subject, or a start_time")
    return body


def direct_request(api: ApiSubjects, stream: str, body: dict[str, Any]) -> tuple[str, bytes]:
    """Where to ask for a Direct Get, and with what.

    The last message of a subject is asked for below that subject, because permissions and exports can go by it.
    """
    subject = body.get("last_by_subj")
    if subject is not None and len(body) == 1 and "*" not in subject and ">" not in subject:
        return api.direct_get(stream, subject), b""
    return api.direct_get(stream), dumps(body)


def no_direct_get(stream: str, subject: str) -> NoRespondersError:
    """The error where no server answers Direct Gets of ``stream``."""
    return NoRespondersError(
        subject,
        f"stream {stream} does not exist or does not allow Direct Gets, which "
        f"update_stream({stream!r}, allow_direct=True) switches on, or no server of it answers now",
    )


def is_without_leader(error: Error) -> bool:
    """Whether ``error`` says that the stream has no leader just now, or is offline: ask again."""
    return isinstance(error, APIError) and (error.code == _UNAVAILABLE or isinstance(error, StreamOfflineError))


def asked_for(stream: str, asked: Asked) -> str:
    """What a request asked for, in words."""
    body = loads(asked) if isinstance(asked, bytes) else asked
    seq, start, last, following = map(body.get, ("seq", "start_time", "last_by_subj", "next_by_subj"))
    if last is not None:
        return f"the last message of {last!r} in stream {stream}"
    of = "" if following in (None, ">") else f" of {following!r}"
    if start is not None:
        return f"a message{of} from {start} on in stream {stream}"
    if following is None:
        return f"message {seq} of stream {stream}"
    return f"a message{of} from sequence {seq or 1} on in stream {stream}"


def direct_message(stream: str, asked: Asked, message: Msg) -> StoredMsg:
    """The message in the answer to a Direct Get of ``stream`` that was asked for what ``asked`` says.

    Raises:
        StatusError: the answer is a status, as MessageNotFoundError.
        RemoteProtocolError: it is neither a message nor a status.
    """
    header = message.header
    if header is None:
        raise RemoteProtocolError("a Direct Get reply without headers", message.payload)
    sequence = number(header, b"Nats-Sequence")
    if sequence is None:
        _raise_status(header, stream, asked)
        raise RemoteProtocolError("a Direct Get reply without Nats-Sequence", header)
    return StoredMsg(header, message.payload, sequence)


def direct_data(stream: str, asked: Asked, message: Msg) -> bytes:
    """The payload in the answer to a Direct Get that asked for nothing else.

    Raises:
        StatusError: the answer is a status, as MessageNotFoundError.
    """
    if message.header is not None and number(message.header, b"Nats-Sequence") is None:  # those of 2.11 have it
        _raise_status(message.header, stream, asked)
    return message.payload


def leader_message(stream: str, asked: Asked, message: Msg) -> StoredMsg:
    """The message in the answer of ``stream``'s leader that was asked for what ``asked`` says.

    Raises:
        MessageNotFoundError: nothing was found.
        APIError: the leader refused the request.
        RemoteProtocolError: the answer is no message.
    """
    try:
        found = decode_response(message.payload, about=f"stream {stream}").get("message")
    except NoMessageFoundError as error:
        raise MessageNotFoundError(error.code, error.description, asked_for(stream, asked)) from error
    if not isinstance(found, dict):
        raise RemoteProtocolError("a stored message is an object", message.payload)
    seq = uint64(found, "seq")
    user, data = _binary(found, "hdrs"), _binary(found, "data")
    head = stored_header(user or _PLAIN, stream, text(found, "subject"), seq, text(found, "time"))
    return StoredMsg(head, data, seq)


def _binary(body: dict[str, Any], name: str) -> bytes:
    try:
        return b64decode(text(body, name, ""), validate=True)
    except ValueError:
        raise RemoteProtocolError(f"{name} of a stored message is not base64") from None


def _raise_status(header: bytes, stream: str, asked: Asked) -> None:
    status = status_line(header)
    if status is not None:
        raise StatusError.from_status(*status, asked_for(stream, asked))
