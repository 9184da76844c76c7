"""What the server role and a real server said, in a form in which it can be compared.

Rules:

* Ids, moments and durations that the server chose become their names.
* What may differ is in ``EXPLAINED``, with its reason, and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from jsproto.errors import RemoteProtocolError
from jsproto.grammar.bodies import loads
from jsproto.wire.frames import Err, Frame, Msg
from tests.integration.differential.links import Answer, Program, shown

_MOMENTS: Final = frozenset({
    "created", "ts", "last_active", "first_ts", "last_ts", "time", "timestamp", "pause_remaining", "active",
    "pinned_ts",
})  # fmt: skip
_IDS: Final = frozenset({"id", "pinned_id", "pinned_client_id", "leader"})
_CHOSEN_NAME: Final = re.compile(r"[A-Za-z0-9]{8}")
_ACK_SUBJECT: Final = re.compile(r"(\$JS\.ACK\.[^.]+\.)([^.]+)((?:\.[^.]+){3}\.)[^.]+(\.[^.]+)")
_FLOW_SUBJECT: Final = re.compile(r"(\$JS\.FC\.[^.]+\.[^.]+\.).+")
_HEADERS: Final = re.compile(r"(?m)^(Nats-Time-Stamp|Nats-Pin-Id|Nats-Stream-Identity): [^\r]+")
_JSON_WORDS: Final = re.compile(
    r"(400 Bad Request - )(?:json: |invalid character|unexpected end|not a JSON body)[^\r]*"
)
_INBOX: Final = re.compile(r"\bi[0-9]+(\.[0-9]+)")


def _always(program: Program) -> bool:
    return True


class Explained(NamedTuple):
    """A difference that is meant. ``hide`` changes a message so that it is not seen.

    ``of``: whether it may be seen in a program. A message has ``subject``, ``reply``, ``header`` and ``payload``, all
    but the first one only if it is there.
    """

    reason: str
    hide: Callable[[dict[str, Any]], None]
    of: Callable[[Program], bool] = _always


def _hide_json_words(message: dict[str, Any]) -> None:
    body = message.get("payload")
    error = body.get("error") if isinstance(body, dict) else None
    if isinstance(error, dict) and error.get("err_code") in (10025, 10095):
        del error["description"]


def _hide_totals(message: dict[str, Any]) -> None:
    body = message.get("payload")
    if isinstance(body, dict) and isinstance(body.get("api"), dict):
        body["api"] = {"level": body["api"].get("level")}


def _hide_empty_replies(message: dict[str, Any]) -> None:
    if not message.get("reply"):
        message.pop("reply", None)


def _hide_json_words_of_statuses(message: dict[str, Any]) -> None:
    if "header" in message:
        message["header"] = _JSON_WORDS.sub(r"\1<words>", message["header"])


def _hide_what_is_passed_over(message: dict[str, Any]) -> None:
    body = message.get("payload")
    listed = body.get("consumers") if isinstance(body, dict) else None
    infos: list[Any] = [body, *listed] if isinstance(listed, list) else [body]
    for info in infos:
        config = info.get("config") if isinstance(info, dict) else None
        if isinstance(config, dict) and (config.get("filter_subject") or config.get("filter_subjects")):
            for place in ("delivered", "ack_floor"):
                info.get(place, {}).pop("stream_seq", None)
            info.get("ack_floor", {}).pop("last_active", None)  # of an acknowledgement of what is passed over


def _hide_pending(message: dict[str, Any]) -> None:
    if str(message.get("reply")).startswith("$JS.ACK."):
        message["reply"] = message["reply"].rpartition(".")[0]


def _may_make_room(program: Program) -> bool:
    """Whether storing a message may drop another one for which a full consumer waits."""
    bodies = [step.payload for step in program if isinstance(step.payload, dict)]
    bodies += [body["config"] for body in bodies if isinstance(body.get("config"), dict)]
    limits = {name for body in bodies for name, value in body.items() if isinstance(value, int) and value > 0}
    drops = limits & {"max_msgs", "max_bytes", "max_msgs_per_subject"}
    return "max_ack_pending" in limits and (
        bool(drops) or any("Nats-Rollup" in (step.headers or ()) for step in program)
    )


EXPLAINED: Final = (
    Explained("What Go's libraries say of JSON and numbers is for people, and changes with Go.", _hide_json_words),
    Explained("The same, in the status of a pull request.", _hide_json_words_of_statuses),
    Explained("A real server counts the requests of all programs that it ran.", _hide_totals),
    Explained(
        "When a consumer passes over messages that its filters do not take depends on when its server looks for more.",
        _hide_what_is_passed_over,
    ),
    Explained("A real server writes an empty reply, which is none, into some answers.", _hide_empty_replies),
    Explained(
        "Whether what makes room for a message is counted already when that is delivered is chance (FACTS.md F5.38).",
        _hide_pending,
        _may_make_room,
    ),
)
"""What may differ, and why."""


def said(answers: list[Answer], program: Program = ()) -> dict[str, Any]:
    """The comparable form of the answers to ``program``: by step or subscription."""
    explained = [one for one in EXPLAINED if one.of(program)]
    return {answer.of: _answer(answer, explained) for answer in answers}


def _answer(answer: Answer, explained: list[Explained]) -> list[Any]:
    frames: list[Any] = []
    for each in answer.frames:
        frame = _frame(each, explained)
        if not (frames and frame == frames[-1] and "Idle Heartbeat" in str(frame)):  # how many is a matter of time
            frames.append(frame)
    if not answer.of.isdigit():  # what several consumers send to one subscription comes in any order
        frames.sort(key=_consumer)
    return frames + ["closed"] * answer.is_closed


def _consumer(frame: Any) -> list[str]:
    return str(frame.get("reply", "")).split(".")[:4] if isinstance(frame, dict) else []


def _frame(frame: Frame, explained: list[Explained]) -> Any:
    if isinstance(frame, Err):
        return f"-ERR {shown(frame.text)}"
    if not isinstance(frame, Msg):
        return str(frame)
    found: dict[str, Any] = {"subject": _subject(shown(frame.subject))}
    if frame.reply is not None:
        found["reply"] = _subject(shown(frame.reply))
    if frame.header is not None:
        found["header"] = _INBOX.sub(r"i\1", _HEADERS.sub(r"\1: <>", shown(frame.header)))
    if frame.payload:
        found["payload"] = _payload(frame.payload)
    for one in explained:
        one.hide(found)
    return found


def _subject(subject: str) -> str:
    subject = _INBOX.sub(r"i\1", subject)
    ack = _ACK_SUBJECT.fullmatch(subject)
    if ack is not None:
        return f"{ack[1]}{_name(ack[2])}{ack[3]}<>{ack[4]}"
    return _FLOW_SUBJECT.sub(r"\1<>", subject)


def _name(name: str) -> str:
    return "<name>" if _CHOSEN_NAME.fullmatch(name) else name


def _payload(payload: bytes) -> Any:
    try:
        body = loads(payload)
    except RemoteProtocolError:
        return shown(payload)
    return _value("", body)


def _value(name: str, value: Any) -> Any:
    if name in _MOMENTS and value:
        return "<>"
    if name in _IDS and isinstance(value, str):
        return "<>"
    if isinstance(value, dict):
        return {field: _value(field, each) for field, each in value.items()}
    if isinstance(value, list):
        values = [_value(name, each) for each in value]
        return sorted(values, key=str) if name == "consumers" else values
    if name in ("name", "consumers", "consumer") and isinstance(value, str):
        return _name(value)
    return value


def differing(here: Any, there: Any, where: str = "") -> list[str]:
    """What two answers differ in, one text for each place."""
    if here == there:
        return []
    if isinstance(here, dict) and isinstance(there, dict):
        names = dict.fromkeys((*here, *there))
        return [text for name in names for text in differing(here.get(name), there.get(name), f"{where}.{name}")]
    if isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        pairs = zip(here, there, strict=True)
        return [text for number, pair in enumerate(pairs) for text in differing(*pair, f"{where}[{number}]")]
    return [f"{where or 'answer'}: role {here!r}, real {there!r}"]
