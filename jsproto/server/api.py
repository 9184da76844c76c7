"""The JetStream API of the server role: the account, and the streams.

Rules: a request is answered on its reply subject, in nats-server's words and with its error codes; one without a reply
subject is not looked at. A stream that is created again with the same configuration is found. No two streams take the
same subject.

Not here: what streams do (``publish``), routing, consumers and reading (nobody answers those), mirrors and sources,
which are stored and never followed, limits of accounts, filters and details of STREAM.INFO.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from jsproto.errors import APIError, LocalProtocolError, RemoteProtocolError
from jsproto.grammar.api import DEFAULT_PREFIX, ApiSubjects
from jsproto.grammar.bodies import dumps, loads
from jsproto.grammar.config import AccountInfo, StreamConfig, StreamInfo
from jsproto.grammar.subjects import check_name, check_subject
from jsproto.outbox import Conversation, Outbox
from jsproto.server.checks import check_level
from jsproto.server.node import Node
from jsproto.server.publish import StreamInlet
from jsproto.server.refusals import refusal
from jsproto.server.settings import accept
from jsproto.server.stream import Publication, Stream
from jsproto.wire.frames import Msg

NAMES_AT_ONCE: Final = 1_024
INFOS_AT_ONCE: Final = 256
_TYPE: Final = "io.nats.jetstream.api.v1.{}_response"
_UNLIMITED: Final[dict[str, Any]] = {
    "max_memory": -1, "max_storage": -1, "max_streams": -1, "max_consumers": -1, "max_ack_pending": -1,
    "memory_max_stream_bytes": -1, "storage_max_stream_bytes": -1, "max_bytes_required": False,
}  # fmt: skip

Body = dict[str, Any]


class JetStreamApi(Conversation):
    """The streams of one server, by name, and the answers to those who ask for them."""

    __slots__ = ("_errors", "_node", "_outbox", "_prefixes", "_requests", "_verbs", "streams")

    def __init__(self, node: Node, outbox: Outbox) -> None:
        """Answer from now on, below ``$JS.API`` and, with a domain, below its own prefix too."""
        self.streams: dict[str, StreamInlet] = {}
        self._node = node
        self._outbox = outbox
        self._requests = 0
        self._errors = 0
        self._verbs: dict[str, tuple[str, Callable[[str, bytes, float], Body]]] = {
            "INFO": ("account_info", self._account),
            "STREAM.CREATE": ("stream_create", self._create),
            "STREAM.UPDATE": ("stream_update", self._update),
            "STREAM.INFO": ("stream_info", self._info),
            "STREAM.DELETE": ("stream_delete", self._delete),
            "STREAM.NAMES": ("stream_names", self._names),
            "STREAM.LIST": ("stream_list", self._list),
        }
        self._prefixes = [f"{DEFAULT_PREFIX}."]
        if node.domain is not None:
            self._prefixes.append(f"{ApiSubjects(domain=node.domain).prefix}.")
        for prefix in self._prefixes:
            outbox.subscribe(f"{prefix}INFO", self)
            outbox.subscribe(f"{prefix}STREAM.>", self)

    def receive(self, message: Msg, now: float) -> None:
        """A request."""
        subject = message.subject.decode("utf-8", "surrogateescape")
        asked = next(subject.removeprefix(prefix) for prefix in self._prefixes if subject.startswith(prefix))
        verb, name = asked, ""
        if verb not in self._verbs:
            verb, _, name = asked.rpartition(".")
        if verb not in self._verbs or not message.reply:
            return
        kind, answer = self._verbs[verb]
        self._requests += 1
        try:
            check_level(Publication(message.subject, message.header, message.payload), self._node.api_level)
            body = answer(name, message.payload, now)
        except APIError as error:
            self._errors += 1
            said = {"code": error.code, "err_code": error.err_code, "description": error.description}
            body = {"error": said}
        try:
            self._outbox.publish(message.reply.decode(), dumps({"type": _TYPE.format(kind)} | body))
        except (UnicodeDecodeError, LocalProtocolError):
            return  # not a subject: nobody can be there

    # -- the verbs, for whoever lives beside the server ----------------------------------------------------------------

    def create(self, config: StreamConfig, now: float) -> tuple[Stream, bool]:
        """Create a stream, or find it there with the same configuration; True when it is new. APIError."""
        try:
            check_name(config.name)
        except LocalProtocolError as error:
            raise refusal(10052, str(error)) from None
        accepted = accept(config, self._node)
        inlet = self.streams.get(config.name)
        if inlet is not None:
            if inlet.stream.config != accepted:
                raise _error(400, 10058, "stream name already in use with a different configuration")
            return inlet.stream, False
        self._check_subjects(accepted)
        stream = Stream(config, self._node, now)
        self.streams[config.name] = StreamInlet(stream, self._node, self._outbox)
        return stream, True

    def update(self, config: StreamConfig) -> Stream:
        """Change a stream. APIError."""
        inlet = self._find(config.name)
        self._check_subjects(accept(config, self._node))
        inlet.update(config)
        return inlet.stream

    def delete(self, name: str) -> None:
        """Delete a stream with all its messages and batches. APIError."""
        self._find(name).close()
        del self.streams[name]

    # -- inside --------------------------------------------------------------------------------------------------------

    def _find(self, name: str) -> StreamInlet:
        inlet = self.streams.get(name)
        if inlet is None:
            raise _error(404, 10059, "stream not found")
        return inlet

    def _check_subjects(self, config: StreamConfig) -> None:
        subjects = config.subjects or []
        for subject in subjects:
            try:
                check_subject(subject, wildcards=True)
            except LocalProtocolError as error:
                raise refusal(10052, str(error)) from None
            if not config.no_ack and any(_overlap(subject, f"{prefix}>") for prefix in self._prefixes):
                raise refusal(10052, "subjects that overlap with jetstream api require no-ack to be true")
        others = (inlet.stream.config for name, inlet in self.streams.items() if name != config.name)
        if any(_overlap(one, another) for other in others for one in other.subjects or () for another in subjects):
            raise _error(400, 10065, "subjects overlap with an existing stream")

    def _describe(self, stream: Stream, now: float) -> Body:
        node = self._node
        info = StreamInfo(stream.config, stream.created, stream.state(), node.domain, ts=node.timestamp(now))
        return info.to_json()

    def _account(self, name: str, payload: bytes, now: float) -> Body:
        sizes = {"memory": 0, "file": 0}
        for inlet in self.streams.values():
            kind = "memory" if inlet.stream.config.storage == "memory" else "file"
            sizes[kind] += inlet.stream.stored_bytes
        api = {"level": self._node.api_level, "total": self._requests, "errors": self._errors}
        return AccountInfo(
            sizes["memory"], sizes["file"], 0, 0, len(self.streams), 0, dict(_UNLIMITED), self._node.domain, api
        ).to_json()

    def _create(self, name: str, payload: bytes, now: float) -> Body:
        stream, created = self.create(_config(name, payload), now)
        return self._describe(stream, now) | ({"did_create": True} if created else {})

    def _update(self, name: str, payload: bytes, now: float) -> Body:
        return self._describe(self.update(_config(name, payload)), now)

    def _info(self, name: str, payload: bytes, now: float) -> Body:
        return self._describe(self._find(name).stream, now)

    def _delete(self, name: str, payload: bytes, now: float) -> Body:
        self.delete(name)
        return {"success": True}

    def _names(self, name: str, payload: bytes, now: float) -> Body:
        body, page = self._page(payload, NAMES_AT_ONCE)
        return body | {"streams": [stream.config.name for stream in page]}

    def _list(self, name: str, payload: bytes, now: float) -> Body:
        body, page = self._page(payload, INFOS_AT_ONCE)
        return body | {"streams": [self._describe(stream, now) for stream in page]}

    def _page(self, payload: bytes, limit: int) -> tuple[Body, list[Stream]]:
        """The streams that are asked for, in the order of their names, from an offset on."""
        asked = _read(payload) if payload else {}
        offset, wanted = asked.get("offset", 0), asked.get("subject")
        if type(offset) is not int or not isinstance(wanted, str | None):
            raise _error(400, 10025, "invalid JSON: offset is a number, subject a string")
        streams = [self.streams[name].stream for name in sorted(self.streams)]
        if wanted:
            streams = [found for found in streams if any(_overlap(wanted, own) for own in found.config.subjects or ())]
        offset = max(0, min(offset, len(streams)))
        return {"total": len(streams), "offset": offset, "limit": limit}, streams[offset : offset + limit]


def _read(payload: bytes) -> Body:
    try:
        return loads(payload)
    except RemoteProtocolError as error:
        raise _error(400, 10025, f"invalid JSON: {error}") from None


def _config(name: str, payload: bytes) -> StreamConfig:
    """The configuration in a request for the stream ``name``."""
    body = _read(payload)
    try:
        config = StreamConfig.from_json(body)
    except RemoteProtocolError as error:
        raise _error(400, 10025, f"invalid JSON: {error}") from None
    if config.name != name:
        raise _error(400, 10056, "stream name in subject does not match request")
    if config.extra:
        raise _error(400, 10025, f'invalid JSON: json: unknown field "{next(iter(config.extra))}"')
    return config


def _overlap(one: str, another: str) -> bool:
    """Whether some subject matches both patterns."""
    left, right = one.split("."), another.split(".")
    for mine, theirs in zip(left, right, strict=False):
        if ">" in (mine, theirs):
            return True
        if mine != theirs and "*" not in (mine, theirs):
            return False
    return len(left) == len(right)


def _error(code: int, err_code: int, description: str) -> APIError:
    return APIError.from_fields(code, err_code, description)
