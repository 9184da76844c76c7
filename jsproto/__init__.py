"""NATS JetStream as pure state machines: no sockets, no clock, no threads, no dependencies.

A client that embeds the protocol starts here. ``Session`` takes bytes in and gives bytes out. ``JetStream`` is the API
on it. The conversations speak messages through an ``Outbox``, so they fit into any client: ``FastPublisher``,
``AtomicBatch``, ``PipelinedPublisher``, ``BatchAdvisories``, ``DirectBatch``, ``LastMessages``, ``Snapshot`` and
``Subscription``. Applications use a driver: ``jsproto_io.sync``, ``jsproto_io.asyncio`` or ``jsproto_io.trio``.

The README of this folder has the map, its TOUR the glossary. The roles import nothing of each other.
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
