"""Whatever a client publishes, the server role raises nothing, and writes what a client can read.

The subjects are those of the API, of batches, of acknowledgements and of flow control, with any payload, headers and
reply. See ``fuzz.play`` for what else holds.
"""

from __future__ import annotations

from typing import Final

from fuzz.play import Play
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.wire.encoder import encode_pub, encode_sub

API: Final = tuple(
    f"$JS.API.{verb}".encode() for verb in (
        "INFO", "STREAM.CREATE.S", "STREAM.CREATE.T", "STREAM.UPDATE.S", "STREAM.INFO.S", "STREAM.NAMES", "STREAM.LIST",
        "STREAM.PURGE.S", "STREAM.DELETE.T", "STREAM.MSG.GET.S", "STREAM.MSG.DELETE.S", "DIRECT.GET.S",
        "DIRECT.GET.S.s.a", "CONSUMER.CREATE.S", "CONSUMER.CREATE.S.C", "CONSUMER.CREATE.S.D.s.a",
        "CONSUMER.DURABLE.CREATE.S.E", "CONSUMER.INFO.S.C", "CONSUMER.NAMES.S", "CONSUMER.LIST.S",
        "CONSUMER.MSG.NEXT.S.C", "CONSUMER.PAUSE.S.C", "CONSUMER.RESET.S.C", "CONSUMER.UNPIN.S.C",
        "CONSUMER.DELETE.S.D",
    )
)  # fmt: skip
BODIES: Final = (
    b"", b"{}", b'{"batch":3,"expires":2000000000}', b'{"batch":2,"no_wait":true}', b'{"seq":2,"batch":3}',
    b'{"last_by_subj":"s.a"}', b'{"multi_last":["s.a","s.b"],"batch":2,"up_to_seq":9}',
    b'{"next_by_subj":"s.*","seq":1}',
    b'{"name":"S","subjects":["s.>"],"max_msgs":5,"allow_direct":true,"allow_batched":true,"allow_atomic":true}',
    b'{"name":"T","subjects":["t.>"],"allow_msg_counter":true}', b'{"name":"T","mirror":{"name":"S"}}',
    b'{"name":"T","subjects":["t.>"],"allow_msg_schedules":true,"allow_msg_ttl":true,"allow_rollup_hdrs":true}',
    b'{"name":"T","sources":[{"name":"S","filter_subject":"s.a"}]}',
    b'{"name":"T","sources":[{"name":"S","subject_transforms":[{"src":"s.*","dest":"t.{{wildcard(1)}}"}]}]}',
    b'{"stream_name":"S","config":{"name":"C","durable_name":"C","ack_policy":"explicit","max_deliver":2,"backoff":[1,2]}}',
    b'{"stream_name":"S","config":{"name":"D","deliver_subject":"_D","flow_control":true,"idle_heartbeat":1000000000,'
    b'"filter_subject":"s.a"}}',
    b'{"stream_name":"S","config":{"name":"C","ack_policy":"explicit","priority_groups":["g"],'
    b'"priority_policy":"pinned_client","priority_timeout":1000000000}}',
    b'{"stream_name":"S","config":{"durable_name":"E","deliver_policy":"last_per_subject","filter_subject":"s.*"}}',
    b'{"pause_until":"2099-01-01T00:00:00Z"}', b'{"seq":3}', b'{"filter":"s.a","keep":1}', b'{"group":"g"}',
    b'{"subjects_filter":">"}', b"+ACK", b"-NAK", b'-NAK {"delay":1}', b"+WPI", b"+TERM no", b'+NXT {"batch":2}', b"5",
)  # fmt: skip
SUBJECTS: Final = (
    b"s.a", b"s.b", b"t.a", b"$JS.ACK.S.C.1.1.1.1.0", b"$JS.ACK.S.C.1.2.2.1.0", b"$JS.ACK.hub.x.S.C.1.3.3.1.0",
    b"$JS.FC.S.D.1",
)  # fmt: skip
REPLIES: Final = (
    b"_I.1", b"_I.b.10.ok.1.0.$FI", b"_I.b.10.ok.2.1.$FI", b"_I.b.1.fail.1.0.$FI", b"_I.b.10.ok.3.2.$FI",
    b"_I.b.10.ok.3.3.$FI", b"_I.b.10.ok.2.4.$FI", b"_D",
)  # fmt: skip
BLOCKS: Final = tuple(
    b"NATS/1.0\r\n%b\r\n\r\n" % lines for lines in (
        b"Nats-Batch-Id: b\r\nNats-Batch-Sequence: 1",
        b"Nats-Batch-Id: b\r\nNats-Batch-Sequence: 2\r\nNats-Batch-Commit: 1",
        b"Nats-Batch-Id: b\r\nNats-Batch-Sequence: 3\r\nNats-Batch-Commit: eob", b"Nats-Msg-Id: x", b"Nats-TTL: 5s",
        b"Nats-Rollup: sub", b"Nats-Expected-Last-Sequence: 3", b"Nats-Expected-Last-Subject-Sequence: 3",
        b"Nats-Incr: +5",
        b"Nats-Schedule: @every 1s\r\nNats-Schedule-Target: t.b",
        b"Nats-Schedule: 0 * * * * *\r\nNats-Schedule-TTL: 5s",
        b"Nats-Last-Consumer: 1\r\nNats-Last-Stream: 1", b"Nats-Required-Api-Level: 9",
        b"Nats-Stream-Source: T 1 > > x",
    )
)  # fmt: skip


class Requests(Play):
    """A client that says anything."""

    def begin(self) -> None:
        """Its subscriptions, and a consumer whose messages it reads."""
        config = ConsumerConfig(name="C", durable_name="C", ack_policy="explicit", ack_wait=2.0)
        self.js.create_consumer("S", config, now=self.now)
        self.settle()
        self.to_far(b"".join(encode_sub(subject, None, sid) for subject, sid in ((b"_I.>", b"90"), (b"_D", b"91"))))
        ask = self.ask
        self.verbs = (ask, ask, ask, self.publish, self.publish, lambda: self.store(5))

    def ask(self) -> None:
        """A request of the API, sometimes with a spliced body."""
        subject, body = API[self.tape.number(len(API))], BODIES[self.tape.number(len(BODIES))]
        self.say(subject, REPLIES[0], None, body)

    def publish(self) -> None:
        """A message, with any reply and header block."""
        tape = self.tape
        subject, kind = SUBJECTS[tape.number(len(SUBJECTS))], tape.number(4)
        reply = REPLIES[tape.number(len(REPLIES))] if kind & 1 else None
        header = BLOCKS[tape.number(len(BLOCKS))] if kind & 2 else None
        self.say(subject, reply, header, BODIES[tape.number(len(BODIES))])

    def say(self, subject: bytes, reply: bytes | None, header: bytes | None, body: bytes) -> None:
        """Publish it, and let a part of it be something else now and then."""
        tape = self.tape
        what = tape.number(8)
        if what == 5:
            body = tape.spliced(body)
        elif what == 6 and header is not None:
            header = tape.spliced(header)
        elif what == 7:
            subject = tape.spliced(subject).translate(None, b" \t\r\n") or b"s.a"
        self.to_far(encode_pub(subject, reply, header, body))


def run(data: bytes) -> None:
    """One input."""
    Requests(data).play()
