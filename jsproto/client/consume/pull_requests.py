"""The pull requests under way: what they asked for, and how much of that may still come (ADR-13, ADR-42).

Each request has a reply subject of its own, so a status belongs to one request. A message leaves open which request it
serves, and a server serves several in turn. So messages and bytes are counted for all requests together:

* A request adds what it asks for to the sums.
* A message is taken off the sums. When all is taken off, all requests have ended.
* A status ends its request, and what it reports as unserved is taken off.
* The sums stay within what the requests in the ledger asked for.

Rules:

* A request that is unanswered ``ANSWER_GRACE`` seconds after its expiry was served whole, or was lost.
* The ledger holds ``MAX_REQUESTS`` requests. The oldest one leaves it first.
* A pinned client's requests say its id, which the consumer puts into its messages (priority groups).

Not here: when to ask, and what follows from a status (``fetch_queue``, ``message_stream``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from jsproto.client.connection.message_buffer import size_of
from jsproto.client.consume.heartbeats import SilenceWatch
from jsproto.errors import PinnedError
from jsproto.grammar.bodies import dumps
from jsproto.grammar.headers import last_value
from jsproto.outbox import Outbox
from jsproto.rules.status import ConsumerStatus
from jsproto.wire.frames import RawMsg

if TYPE_CHECKING:
    from jsproto.client.consume.fetch import Fetch

ANSWER_GRACE: Final = 1.0  # seconds
MAX_REQUESTS: Final = 512  # nats-server's default for waiting requests


class PullRequest:
    """A pull request under way.

    Attributes:

    * ``batch``: messages that it asked for.
    * ``max_bytes``: bytes that it asked for, 0 for any number.
    * ``lost_at``: monotonic seconds at which it must have ended.
    * ``fetch``: the fetch that asked, None for the stream of messages.
    * ``pin``: the pinned client's id that it says, None without one.
    """

    __slots__ = ("batch", "fetch", "lost_at", "max_bytes", "pin")

    def __init__(self, batch: int, max_bytes: int, lost_at: float, fetch: Fetch | None, pin: bytes | None) -> None:
        self.batch = batch
        self.max_bytes = max_bytes
        self.lost_at = lost_at
        self.fetch = fetch
        self.pin = pin


class PullRequests:
    """The ledger of one consumer's pull requests.

    Attributes:

    * ``msgs`` and ``bytes``: what was asked for and may still come.
    * ``linked``: whether requests can be sent.
    * ``heartbeats_missed``: how many intervals of silence are an alarm.
    """

    __slots__ = (
        "_api_subject", "_inbox", "_inboxes", "_ledger", "_options", "_outbox", "_pin", "_reply_prefix", "_sent",
        "_watch", "bytes", "heartbeats_missed", "linked", "msgs",
    )  # fmt: skip

    def __init__(
        self,
        outbox: Outbox,
        watch: SilenceWatch,
        *,
        api_subject: str,
        inbox: str,
        options: Mapping[str, Any],
        heartbeats_missed: float,
    ) -> None:
        """``options``: fields of every request. ``inbox``: the prefix of all reply subjects."""
        self.msgs = 0
        self.bytes = 0
        self.linked = True
        self.heartbeats_missed = heartbeats_missed
        self._outbox = outbox
        self._watch = watch
        self._api_subject = api_subject
        self._inbox = inbox
        self._inboxes = 0
        self._options = dict(options)
        self._pin: bytes | None = None
        self._reply_prefix = b""
        self._sent = 0
        self._ledger: dict[bytes, PullRequest] = {}

    def __len__(self) -> int:
        return len(self._ledger)

    def __contains__(self, reply: bytes | None) -> bool:
        return reply in self._ledger

    def new_inbox(self) -> str:
        """Forget all requests. Returns the subject, with a wildcard, to subscribe to for those that follow."""
        self.clear()
        self._inboxes += 1
        prefix = f"{self._inbox}.{self._inboxes}."
        self._reply_prefix = prefix.encode()
        return prefix + "*"

    def clear(self) -> None:
        """Nothing is under way."""
        self._ledger.clear()
        self.msgs = self.bytes = 0

    # -- asking --------------------------------------------------------------------------------------------------------

    def send(
        self, body: dict[str, Any], lost_at: float, *, now: float, heartbeat: float, fetch: Fetch | None = None
    ) -> bytes:
        """Send a pull request. Returns its reply subject. ``body`` has ``batch``, and may have ``max_bytes``.

        ``heartbeat``: seconds, the same as in ``body``. ``lost_at``: monotonic seconds at which it must have ended.

        Raises:
            OutboundBufferLimitError: the outbox has no room.
            LocalProtocolError: it cannot be sent at all.
        """
        self._sent += 1
        reply = b"%b%d" % (self._reply_prefix, self._sent)
        request = PullRequest(body["batch"], body.get("max_bytes", 0), lost_at, fetch, self._pin)
        if self._pin is not None:
            body["id"] = self._pin.decode("utf-8", "replace")
        if self._options:
            body |= self._options
        self._outbox.publish(self._api_subject, dumps(body), reply)
        self._outbox.flush()
        self._ledger[reply] = request
        self.msgs += request.batch
        self.bytes += request.max_bytes
        if heartbeat:
            self.expect_heartbeats(now, heartbeat)
        return reply

    def expect_heartbeats(self, now: float, heartbeat: float) -> None:
        """From ``now`` on a sign of life is due every ``heartbeat`` seconds."""
        self._watch.extend(now, heartbeat * self.heartbeats_missed)

    def make_room(self, now: float) -> None:
        """Forget the oldest requests, as long as there are too many or their time is over.

        A request that was served whole differs from one that waits by its age alone.
        """
        ledger = self._ledger
        while ledger:
            reply, request = next(iter(ledger.items()))
            if len(ledger) < MAX_REQUESTS and now < request.lost_at:
                break
            del ledger[reply]
            self._take_off(0, 0)

    def forget_overdue(self, now: float) -> None:
        """Forget the requests that must have ended by ``now``."""
        for reply in [reply for reply, request in self._ledger.items() if request.lost_at <= now]:
            del self._ledger[reply]
        self._take_off(0, 0)

    def next_overdue(self) -> float | None:
        """Monotonic seconds at which the first request must have ended. None when there is none."""
        return min([request.lost_at for request in self._ledger.values()], default=None)

    # -- what comes ----------------------------------------------------------------------------------------------------

    def served(self, raws: Sequence[RawMsg]) -> None:
        """These messages have come."""
        count = len(raws)
        if self.msgs > count:
            self.msgs -= count
        elif self.msgs:
            self.clear()
        if self.bytes:
            self.bytes = max(self.bytes - wire_size(raws), 0)

    def ended(self, reply: bytes, status: ConsumerStatus) -> PullRequest | None:
        """A status has ended the request with this reply subject. None: it was served whole, or forgotten."""
        request = self._ledger.pop(reply, None)
        if request is not None:
            # Without counts nothing is known to have come of it: rather ask for too much than wait for ever.
            self._take_off(
                request.batch if status.pending_msgs is None else status.pending_msgs,
                request.max_bytes if status.pending_bytes is None else status.pending_bytes,
            )
        return request

    def withdraw(self, reply: bytes) -> None:
        """Stop expecting anything of the request with this reply subject."""
        request = self._ledger.pop(reply)
        self._take_off(request.batch, request.max_bytes)

    def _take_off(self, messages: int, size: int) -> None:
        """A request has left the ledger, ``messages`` and ``size`` bytes of it unserved: correct the sums."""
        ledger = self._ledger.values()
        self.msgs = min(max(self.msgs - messages, 0), sum([request.batch for request in ledger]))
        self.bytes = min(max(self.bytes - size, 0), sum([request.max_bytes for request in ledger]))

    # -- the pinned client ---------------------------------------------------------------------------------------------

    def learn_pin(self, header: bytes | None) -> bool:
        """Read the pinned client's id from a message's header block. Whether it is a new one."""
        pin = None if header is None else last_value(header, b"Nats-Pin-Id")
        if not pin or pin == self._pin:
            return False
        self._pin = pin
        return True

    def lost_pin(self, request: PullRequest, status: ConsumerStatus) -> bool:
        """Whether ``request`` was refused because of the id it says. One that lacks the id can be served."""
        if type(status.error) is not PinnedError or request.pin is None:
            return False
        if self._pin == request.pin:
            self._pin = None
        return True


def wire_size(raws: Sequence[RawMsg]) -> int:
    """The bytes that a server counts against ``max_bytes``: subjects, reply subjects, header blocks and payloads."""
    return size_of(raws) + sum([len(subject) + len(reply) for subject, reply, _, _ in raws])
