"""JetStream, the client's side: each verb asks, and returns a ticket or the conversation that does the work.

Rules:

* A verb either sends its request or raises LocalProtocolError with nothing sent.
* A "no" of the server is an APIError in the ticket.
* Where no API answers, the ticket fails with JetStreamNotAvailableError. Where no stream takes a subject, it fails with
  NoStreamResponseError.
* "The drivers' verb" is that of the same name in ``jsproto_io``: its docstring has the arguments and all errors.

Not here: streams (``manage.streams``), the verbs that read (``read.reads``), consumers (``consume.consumers``),
subscriptions (``consume.subscribe``), the verbs of one bucket (``bucket.bucket``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Unpack, cast

from jsproto._lend import lend
from jsproto.client.bucket.bucket import Bucket, bind_bucket, new_bucket
from jsproto.client.bucket.bucket_options import KeyOptions, NewBucketOptions
from jsproto.client.bucket.entries import of_bucket
from jsproto.client.bucket.manage import names as bucket_names
from jsproto.client.bucket.manage import statuses as bucket_statuses
from jsproto.client.bucket.manage import update as update_bucket
from jsproto.client.connection.requests import retry_policy
from jsproto.client.consume.dead_letters import DeadLetterPlan, DeadLetterSpec, bury, open_dead_letters
from jsproto.client.consume.subscribe import Subscriptions
from jsproto.client.consume.sweep import Sweep
from jsproto.client.copy.target import CopyTarget, find_target
from jsproto.client.objects.stores import ObjectStores
from jsproto.client.publish.advisories import BatchAdvisories
from jsproto.client.publish.atomic import AtomicBatch
from jsproto.client.publish.fast import FastPublisher
from jsproto.client.publish.message import Message
from jsproto.client.publish.pipelined import PipelinedPublisher
from jsproto.client.publish.publish_options import (
    MAX_MESSAGES,
    AcknowledgedOptions,
    AtomicBatchOptions,
    AtomicOptions,
    BatchIdOptions,
    FastBatchOptions,
    FastOptions,
    PipelinedOptions,
)
from jsproto.client.read.consistent_session import ConsistentSession, SessionLevel
from jsproto.client.scripts import publish_batch
from jsproto.errors import APIError, BatchFullError, LocalProtocolError, NoStreamResponseError, WrongTypeError
from jsproto.grammar.acks import PubAck, parse_pub_ack
from jsproto.grammar.batch import check_unbatched
from jsproto.grammar.bucket_config import BucketConfig, BucketOptions, BucketStatus
from jsproto.grammar.bucket_keys import stream_of
from jsproto.grammar.columns import MessageColumns
from jsproto.grammar.headers import HeadersLike
from jsproto.grammar.options import checked, explained, split
from jsproto.grammar.publish_headers import PublishOptions, publish_headers
from jsproto.grammar.session_token import SessionToken
from jsproto.grammar.subjects import check_name, check_subject
from jsproto.grammar.times import Duration
from jsproto.ticket import Ticket
from jsproto.wire.frames import Msg


class JetStream(ObjectStores, Subscriptions):
    """JetStream on a session. ``domain`` or ``prefix`` choose another API subject than ``$JS.API``.

    Example:

        js = JetStream(session)
        ack = wait(js.publish("orders.new", b"tea", now=now()))  # wait: see "Driving the core yourself" in the README
    """

    # -- messages ------------------------------------------------------------------------------------------------------

    def publish(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        now: float,
        headers: HeadersLike | None = None,
        timeout: Duration | None = None,
        retry_attempts: int | None = None,
        retry_wait: Duration | None = None,
        **options: Unpack[PublishOptions],
    ) -> Ticket[PubAck]:
        """Publish and wait for the acknowledgement that it is stored.

        Arguments, and what the ticket fails with: as the drivers' verb. ``options``: see ``PublishOptions``.

        Raises, with nothing sent:
            LocalProtocolError: the subject, a header, a keyword or the size is not allowed, or a header is of an atomic
                batch.
            UnsupportedByServerError: the server is too old for a keyword.
        """
        if options:
            headers = publish_headers(subject, payload, self.session.server, headers=headers, **options)
        if headers is not None:
            headers = check_unbatched(headers)
        return self.session.requests.request(
            subject, payload, timeout=self.timeout if timeout is None else timeout, now=now, decode=_pub_ack,
            headers=headers, no_responders=NoStreamResponseError,
            retry=retry_policy(retry_attempts, retry_wait, self.retry),
        )  # fmt: skip

    @explained(PipelinedOptions)
    def async_publisher(
        self,
        **options: Unpack[PipelinedOptions],
    ) -> PipelinedPublisher:
        """Publish ahead of the acknowledgements, as ``PipelinedPublisher`` does."""
        if options.get("timeout") is None:
            options["timeout"] = self.timeout
        return PipelinedPublisher(
            self.session, inbox=self.session.new_inbox(), draw_many=self.session.draw_many, retry=self.retry, **options
        )

    def batch_advisories(self, stream: str, batch_id: str | None = None) -> BatchAdvisories:
        """Watch ``stream`` for abandoned batches, or for the end of one. See ``BatchAdvisories``."""
        return BatchAdvisories(self.session, stream, batch_id)

    @explained(FastOptions, BatchIdOptions)
    def fast_publisher(
        self,
        **options: Unpack[FastBatchOptions],
    ) -> FastPublisher:
        """A new fast-ingest batch. See ``FastPublisher``."""
        checked(FastBatchOptions, options)
        batch_id, sending = self._batch_id(options.pop("batch_id", None)), cast("FastOptions", options)
        return FastPublisher(self.session, inbox=self.session.new_inbox(), batch_id=batch_id, **sending)

    @explained(AtomicOptions, BatchIdOptions)
    def atomic_batch(
        self,
        **options: Unpack[AtomicBatchOptions],
    ) -> AtomicBatch:
        """A new atomic batch. See ``AtomicBatch``."""
        checked(AtomicBatchOptions, options)
        batch_id, sending = self._batch_id(options.pop("batch_id", None)), cast("AtomicOptions", options)
        if sending.get("ack_timeout") is None:
            sending["ack_timeout"] = self.timeout
        inbox, draw = self.session.new_inbox(), self.session.draw
        return AtomicBatch(self.session, inbox=inbox, batch_id=batch_id, draw=draw, **sending)

    @explained(AtomicOptions, BatchIdOptions)
    def publish_batch(
        self,
        messages: Sequence[Message],
        *,
        now: float,
        **options: Unpack[AtomicBatchOptions],
    ) -> Ticket[PubAck]:
        """Store all of ``messages`` in one atomic batch, or none. The last one commits.

        The ticket fails, and nothing is stored, with the error of the first that ``AtomicBatch.add`` refuses. Otherwise
        it ends as ``AtomicBatch.commit`` does.

        Raises, with nothing sent:
            BatchFullError: there are more than ``max_messages``.
            LocalProtocolError: there is no message.
        """
        if not isinstance(messages, Sequence | MessageColumns):
            raise WrongTypeError(f"messages are a sequence of messages, not {messages!r:.100}")
        if not messages:
            raise LocalProtocolError("an atomic batch needs at least one message")
        batch, most = self.atomic_batch(**options), options.get("max_messages", MAX_MESSAGES)
        if most is not None and len(messages) > most:
            raise BatchFullError(most, "these are more")  # how many a driver need not have counted
        return self.session.run(publish_batch(self.session, batch, messages, now))

    def copy_target(
        self, name: str, source: str, *, now: float, marker: str | None = None, timeout: float | None = None
    ) -> Ticket[CopyTarget]:
        """What the stream ``name`` has of the stream ``source`` already. See ``client.copy``.

        ``marker``: the subject of the markers, None for copies by fast ingest. ``timeout``: seconds for each question.

        The ticket fails with:
            CopyTargetError: the stream cannot be the target.
            APIError: the server refuses, for example with StreamNotFoundError.
        """
        check_name(source)
        if marker is not None:
            check_subject(marker)
        return self.session.run(find_target(self, name, marker, source, now, timeout))

    def dead_letters(self, spec: DeadLetterSpec, *, now: float, timeout: float | None = None) -> Ticket[DeadLetterPlan]:
        """Prepare to keep dead letters: check the streams, find or create what is needed. See ``consume.dead_letters``.

        Raises:
            LocalProtocolError: ``spec`` cannot be.

        The ticket fails with:
            DeadLetterError: one of the streams does not fit.
            APIError: the server refuses, for example with StreamNotFoundError.
        """
        spec.check()
        return self.session.run(open_dead_letters(self, spec, now, timeout))

    def bury(
        self, plan: DeadLetterPlan, advisory: bytes, *, now: float, timeout: float | None = None
    ) -> Ticket[PubAck | None]:
        """Store the dead letter of an advisory, once. The ticket takes None when it is stored already.

        The ticket fails with:
            APIError: a server refuses, for example because the stream of the dead letters is full.
            DeadLetterError: others write to the subject of the dead letter, again and again.
        """
        return self.session.run(bury(self, plan, advisory, now, timeout))

    def sweep(self, plan: DeadLetterPlan, *, every: float | None, now: float, timeout: float | None = None) -> Sweep:
        """Look for messages that were given up without an advisory, now and each ``every`` seconds. See ``Sweep``.

        ``every``: None for no look at all. ``timeout``: seconds for each question.
        """
        return Sweep(self, plan, every=every, now=now, timeout=timeout)

    # -- buckets of keys and values ------------------------------------------------------------------------------------

    def create_bucket(
        self, name: str, *, now: float, timeout: float | None = None, **options: Unpack[NewBucketOptions]
    ) -> Ticket[Bucket]:
        """Create a bucket, or find it with the same configuration. ``options``: see ``BucketOptions``, ``KeyOptions``.

        The ticket fails with:
            BucketExistsError: the bucket exists with another configuration.

        Raises:
            LocalProtocolError: the name, or an option, cannot be.
            UnsupportedByServerError: the server is too old for an option.
        """
        given, rest = split(KeyOptions, options)
        keys, wanted = checked(KeyOptions, given), cast("BucketOptions", rest)
        config = BucketConfig.of(name, self.session.server, **wanted)
        asked = self.create_stream(config.stream, now=now, timeout=timeout)
        return self.session.run(new_bucket(self, name, asked, keys))

    @explained(KeyOptions)
    def bucket(
        self, name: str, *, now: float, timeout: float | None = None, **options: Unpack[KeyOptions]
    ) -> Ticket[Bucket]:
        """Bind to a bucket that exists.

        The ticket fails with:
            BucketNotFoundError: it does not exist.
            BadBucketError: its stream is no bucket.

        Raises:
            LocalProtocolError: ``name`` is that of no bucket, or an option cannot be.
        """
        keys = checked(KeyOptions, options)
        asked = self.stream_info(stream_of(name), now=now, timeout=timeout)
        return self.session.run(bind_bucket(self, name, asked, keys))

    def update_bucket(
        self, name: str, *, now: float, timeout: float | None = None, **options: Unpack[BucketOptions]
    ) -> Ticket[BucketStatus]:
        """Change the ``options`` of a bucket that are given. Of two changes at the same time the last one wins.

        The ticket fails with:
            BucketNotFoundError, BadBucketError: there is no such bucket.
            APIError: the server does not change it.

        Raises:
            LocalProtocolError: ``name`` is that of no bucket, or an option cannot be.
        """
        BucketConfig.of(name, **options)  # to check them
        return self.session.run(update_bucket(self, name, options, now, timeout))

    def delete_bucket(self, name: str, *, now: float, timeout: float | None = None) -> Ticket[bool]:
        """Delete a bucket with all its keys. The ticket fails with BucketNotFoundError where there is none."""
        return self.session.run(of_bucket(name, self.delete_stream(stream_of(name), now=now, timeout=timeout)))

    def bucket_names(self, *, now: float, timeout: float | None = None) -> Ticket[list[str]]:
        """The names of all buckets, sorted. ``timeout``: seconds for each page of the list."""
        return self.session.run(bucket_names(self.stream_names(now=now, timeout=timeout)))

    def buckets(self, *, now: float, timeout: float | None = None) -> Ticket[list[BucketStatus]]:
        """All buckets, sorted by name, and how much they hold. ``timeout``: seconds for each page of the list."""
        return self.session.run(bucket_statuses(self, now, timeout))

    # -- sessions ------------------------------------------------------------------------------------------------------

    def consistent_session(
        self,
        *,
        token: SessionToken | bytes | None = None,
        level: SessionLevel = "direct",
        mirrors: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> ConsistentSession:
        """Reads that are never older than what was written and read. See ``ConsistentSession``."""
        return ConsistentSession(self, token=token, level=level, mirrors=mirrors, timeout=timeout)

    def _batch_id(self, given: str | None) -> str:
        """``given``, or one made up. It stands in the messages, so it tells nothing of the batch's inbox."""
        return self.session.new_inbox().rpartition(".")[2] if given is None else given


def _pub_ack(message: Msg) -> PubAck:
    answer = parse_pub_ack(message.payload)
    if isinstance(answer, APIError):
        raise answer
    return answer


lend(JetStream, AcknowledgedOptions, to="jsproto.client")
