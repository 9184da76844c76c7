"""NATS JetStream as pure state machines: no sockets, no clock, no threads, no dependencies.

A client that embeds the protocol starts here. ``Session`` takes bytes in and gives bytes out. ``JetStream`` is the API
on it. The conversations (``FastPublisher``, ``AtomicBatch``, ``PipelinedPublisher``, ``BatchAdvisories``,
``DirectBatch``, ``LastMessages``, ``Snapshot``, ``Subscription``) speak messages through an ``Outbox``, so they fit
into any client. Applications use ``jsproto_io``: ``jsproto_io.sync``, ``jsproto_io.asyncio``, ``jsproto_io.trio``.

Map of the house. A room imports only from those above it, and the two roles never import each other::

    (base)          errors, api_errors    every error by name, and one class for each code of the server
                    events                facts for the application
                    ticket                one outstanding answer, and the shared one of ready() and readable()
                    timers, backoff       named deadlines, and how long to wait before a retry
                    outbox                the seam between conversations and the client that carries them
    grammar/        text to values and back: subjects, header blocks, JSON, ack subjects, times, numbers
    wire/           bytes to frames and back
                      decoder, encoder            any frame, in both roles
                      bulk_decoder, bulk_encoder  the same by the thousand
                      frames, limits              one class for each verb, and what is too long
    rules/          tables and counters of the protocol
                      table                            how a table of phases is written
                      link, fast_batch, atomic_batch   phases, steps and what follows
                      ordered, consistent_read         the same for two readers of the client
                      sourcing, delivery_log           the same for the sourcing end, and its two sequences
                      window, sequence_gaps, status    flow control, lost deliveries, statuses of consumers
    client/         the client role
                      jetstream, scripts   the API, and requests that take several steps
      connection/     session (the one that hosts conversations), link, server_pool, requests, subscription
      publish/        fast (fast ingest), atomic (batches), pipelined (an ack for each), advisories
      copy/           copies of streams: copier (what is stored), columns (many copies at once), target (where to go on)
      consume/        pull, push, ordered, sourcing, resuming (both of them), subscribe, message (acks), heartbeats,
                      prefetch, priority
      read/           direct, single, multi, snapshot, retry, consistent_session (token and levels),
                      consistency (which answers can be believed), consistent_batch (many messages)
      bucket/         buckets of keys and values: bucket (the verbs), manage, entries, writes, watch, listing,
                      lock
    server/         the server role, checked against transcripts of nats-server
                      server, session, inlet
      store/ publish/ consume/ read/ replication/ api/
    testing/        both roles in one process, with one seed: Pair, Network

Where to look. Ordering and loss: ``rules.sequence_gaps``, ``client.consume.ordered``. Retry: ``backoff``,
``client.connection.server_pool``. Flow control: ``rules.window``, ``client.consume.prefetch``,
``client.consume.flow_control``. Acknowledgement: ``client.consume.message``, ``client.publish.fast``. Time: ``timers``.
Each room of a role has a map of its own.

Glossary::

    ack               an answer of the server to a publish, or of the client to a delivery
    advisory          a message by which the server reports an event, such as an abandoned batch
    atomic batch      messages that are stored together or not at all (ADR-50)
    bucket            keys and values in a stream: each key is a subject, each value a message (ADR-8)
    bulk              many messages in one call: a lower price and the same result
    consumer          the server's cursor over a stream. It delivers messages and counts acks
    conversation      a machine that speaks messages through an outbox: one publish batch, one read, one subscription
    delivery          a message from a consumer. Its ack subject carries its numbers
    Direct Get        a read of stored messages that any replica may answer (ADR-31)
    driver            the loop that moves bytes, time and wake-ups between a socket and a session
    fast ingest       a batch with one ack for every so many messages, and a window (ADR-50)
    flow              how many messages the server acknowledges at once in fast ingest
    frame             one verb of the wire with its fields, or a run of messages
    gap               numbers that are missing in a sequence which rises by one
    inbox             a subject of one client alone, for answers
    link              one connection to one server. A session survives its links
    marker            the message that says that a key of a bucket was deleted, or has expired
    outbox            what a conversation sends through: publish, subscribe, tickets, events
    page              the part of a Direct Get batch that one request asks for
    run               messages that follow each other and come, or go, as one value
    revision          the stream sequence of a value or a marker in a bucket
    session           a client's logical connection: it routes messages to conversations and owns the link
    sid               the number by which a subscription is known on the wire
    stream sequence   the number of a message in its stream. The consumer sequence counts deliveries
    ticket            one outstanding answer, completed exactly once
    window            how many messages may be under way without an ack
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from jsproto._version import __version__

if TYPE_CHECKING:
    from jsproto import api_errors, errors, events
    from jsproto.client.bucket.bucket import Bucket
    from jsproto.client.connection.connect_options import Address, ConnectOptions, connect_options
    from jsproto.client.connection.session import Session
    from jsproto.client.connection.subscription import Subscription
    from jsproto.client.consume.message import JSMsg
    from jsproto.client.consume.ordered import OrderedConsumer
    from jsproto.client.consume.pull import PullConsumer
    from jsproto.client.consume.push import PushConsumer
    from jsproto.client.jetstream import JetStream
    from jsproto.client.publish.advisories import BatchAdvisories
    from jsproto.client.publish.atomic import AtomicBatch
    from jsproto.client.publish.fast import FastPublisher
    from jsproto.client.publish.pipelined import PipelinedPublisher
    from jsproto.client.read.consistent_session import ConsistentSession
    from jsproto.client.read.direct import DirectBatch
    from jsproto.client.read.multi import LastMessages
    from jsproto.client.read.snapshot import Snapshot
    from jsproto.errors import APIError, Error, LocalProtocolError, RemoteProtocolError
    from jsproto.grammar.acks import PubAck
    from jsproto.grammar.advisory import BatchAbandoned
    from jsproto.grammar.batch import strip_batch_headers
    from jsproto.grammar.bucket_config import BucketConfig, BucketStatus
    from jsproto.grammar.bucket_keys import KeyValueEntry
    from jsproto.grammar.columns import MessageColumns
    from jsproto.grammar.config import ServerInfo, StreamConfig, StreamInfo
    from jsproto.grammar.consumer import ConsumerConfig, ConsumerInfo
    from jsproto.grammar.counters import CounterEntry
    from jsproto.grammar.headers import Headers
    from jsproto.grammar.jsack import JSAck, parse_jsack
    from jsproto.grammar.object_info import ObjectInfo
    from jsproto.grammar.object_store_config import ObjectStoreConfig, ObjectStoreStatus
    from jsproto.grammar.publish_headers import publish_headers
    from jsproto.grammar.session_token import SessionToken
    from jsproto.grammar.sources import StreamSourceInfo
    from jsproto.grammar.sourcing_consumer import sourcing_consumer
    from jsproto.grammar.stored import StoredMsg
    from jsproto.grammar.times import Seconds
    from jsproto.grammar.trace import Trace, TraceEvent
    from jsproto.outbox import Conversation, Outbox
    from jsproto.ticket import Ticket
    from jsproto.wire.frames import Msg

__all__ = [
    "APIError",
    "Address",
    "AtomicBatch",
    "BatchAbandoned",
    "BatchAdvisories",
    "Bucket",
    "BucketConfig",
    "BucketStatus",
    "ConnectOptions",
    "ConsistentSession",
    "ConsumerConfig",
    "ConsumerInfo",
    "Conversation",
    "CounterEntry",
    "DirectBatch",
    "Error",
    "FastPublisher",
    "Headers",
    "JSAck",
    "JSMsg",
    "JetStream",
    "KeyValueEntry",
    "LastMessages",
    "LocalProtocolError",
    "MessageColumns",
    "Msg",
    "ObjectInfo",
    "ObjectStoreConfig",
    "ObjectStoreStatus",
    "OrderedConsumer",
    "Outbox",
    "PipelinedPublisher",
    "PubAck",
    "PullConsumer",
    "PushConsumer",
    "RemoteProtocolError",
    "Seconds",
    "ServerInfo",
    "Session",
    "SessionToken",
    "Snapshot",
    "StoredMsg",
    "StreamConfig",
    "StreamInfo",
    "StreamSourceInfo",
    "Subscription",
    "Ticket",
    "Trace",
    "TraceEvent",
    "__version__",
    "api_errors",
    "connect_options",
    "errors",
    "events",
    "parse_jsack",
    "publish_headers",
    "sourcing_consumer",
    "strip_batch_headers",
]

_MODULES: Final = ("api_errors", "errors", "events")
# Where the other names live. Each is imported at its first use, so that a program pays for what it takes.
_PLACES: Final = {
    "client.bucket.bucket": "Bucket",
    "client.connection.connect_options": "Address ConnectOptions connect_options",
    "client.connection.session": "Session",
    "client.connection.subscription": "Subscription",
    "client.consume.message": "JSMsg",
    "client.consume.ordered": "OrderedConsumer",
    "client.consume.pull": "PullConsumer",
    "client.consume.push": "PushConsumer",
    "client.jetstream": "JetStream",
    "client.publish.advisories": "BatchAdvisories",
    "client.publish.atomic": "AtomicBatch",
    "client.publish.fast": "FastPublisher",
    "client.publish.pipelined": "PipelinedPublisher",
    "client.read.consistent_session": "ConsistentSession",
    "client.read.direct": "DirectBatch",
    "client.read.multi": "LastMessages",
    "client.read.snapshot": "Snapshot",
    "errors": "APIError Error LocalProtocolError RemoteProtocolError",
    "grammar.acks": "PubAck",
    "grammar.advisory": "BatchAbandoned",
    "grammar.batch": "strip_batch_headers",
    "grammar.bucket_config": "BucketConfig BucketStatus",
    "grammar.bucket_keys": "KeyValueEntry",
    "grammar.columns": "MessageColumns",
    "grammar.config": "ServerInfo StreamConfig StreamInfo",
    "grammar.consumer": "ConsumerConfig ConsumerInfo",
    "grammar.counters": "CounterEntry",
    "grammar.headers": "Headers",
    "grammar.jsack": "JSAck parse_jsack",
    "grammar.object_info": "ObjectInfo",
    "grammar.object_store_config": "ObjectStoreConfig ObjectStoreStatus",
    "grammar.publish_headers": "publish_headers",
    "grammar.session_token": "SessionToken",
    "grammar.sources": "StreamSourceInfo",
    "grammar.sourcing_consumer": "sourcing_consumer",
    "grammar.stored": "StoredMsg",
    "grammar.times": "Seconds",
    "grammar.trace": "Trace TraceEvent",
    "outbox": "Conversation Outbox",
    "ticket": "Ticket",
    "wire.frames": "Msg",
}
_HOMES: Final = {name: f"jsproto.{place}" for place, names in _PLACES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"jsproto.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'jsproto' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
