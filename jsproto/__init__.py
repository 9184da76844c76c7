"""NATS JetStream as pure state machines: no sockets, no clock, no threads, no dependencies.

What embeds the protocol starts here: ``Session`` (bytes in, bytes out), ``JetStream`` on it, and the conversations
``FastPublisher``, ``AtomicBatch``, ``PipelinedPublisher``, ``BatchAdvisories``, ``DirectBatch``, ``LastMessages``,
``Snapshot`` and ``Subscription``, which speak messages through an ``Outbox`` and so fit into any client. What
applications use is in ``jsproto_io``: ``jsproto_io.sync``, ``jsproto_io.asyncio``, ``jsproto_io.trio``.

Errors are in ``jsproto.errors`` (and, one class for each code of the server, ``jsproto.api_errors``), events in
``jsproto.events``.
"""

from __future__ import annotations

from jsproto import api_errors, errors, events
from jsproto._version import __version__
from jsproto.client.connection.options import Address, ConnectOptions, connect_options
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
from jsproto.grammar.columns import MessageColumns
from jsproto.grammar.config import ServerInfo, StreamConfig, StreamInfo
from jsproto.grammar.consumer import ConsumerConfig, ConsumerInfo
from jsproto.grammar.headers import Headers
from jsproto.grammar.jsack import JSAck, parse_jsack
from jsproto.grammar.position import SessionToken
from jsproto.grammar.stored import StoredMsg
from jsproto.grammar.times import Seconds
from jsproto.outbox import BulkConversation, Conversation, Outbox
from jsproto.ticket import Ticket
from jsproto.wire.frames import Msg, MsgRun

__all__ = [
    "APIError",
    "Address",
    "AtomicBatch",
    "BatchAbandoned",
    "BatchAdvisories",
    "BulkConversation",
    "ConnectOptions",
    "ConsistentSession",
    "ConsumerConfig",
    "ConsumerInfo",
    "Conversation",
    "DirectBatch",
    "Error",
    "FastPublisher",
    "Headers",
    "JSAck",
    "JSMsg",
    "JetStream",
    "LastMessages",
    "LocalProtocolError",
    "MessageColumns",
    "Msg",
    "MsgRun",
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
    "Subscription",
    "Ticket",
    "__version__",
    "api_errors",
    "connect_options",
    "errors",
    "events",
    "parse_jsack",
    "strip_batch_headers",
]
