"""The shop in one thread: a worker that acknowledges an order before it has stored the bill, and the right one."""

from __future__ import annotations

import time

from jsproto.errors import Error
from jsproto_io.sync import connect
from jsproto_io.testing.simulation import Report, current

URL = "nats://somewhere"
ORDERS = {b"%d" % number for number in range(12)}


def shop(*, acks_first: bool) -> None:
    """Place all orders, then write their bills. Whoever fails begins again."""
    while True:
        try:
            with connect(URL, max_reconnect_attempts=-1, timeout=2) as nc:
                js = nc.jetstream()
                js.create_stream("ORDERS", subjects=["orders.*"], storage="file", retention="workqueue")
                js.create_stream("BILLS", subjects=["bills.*"], storage="file")
                for order in sorted(ORDERS):
                    js.publish("orders.new", order, msg_id=order.decode())
                with js.pull_subscribe("orders.*", durable="workers", ack_wait=5) as orders:
                    while taken := orders.fetch(1, timeout=8):
                        for job in taken:
                            if acks_first:
                                job.ack_sync()
                            js.publish("bills.new", job.data, msg_id=job.data.decode())
                            if not acks_first:
                                job.ack_sync()
                    if current().world.now > 60:
                        return
        except (Error, OSError):
            time.sleep(1)


def check(report: Report) -> None:
    stored: list[set[object]] = [
        {message.payload for message in report.server.stream(name)} for name in ("BILLS", "ORDERS")
    ]
    assert not ORDERS - set.union(*stored), "an order was acknowledged, and has no bill"


def check_progress(report: Report) -> None:
    check(report)
    assert len(report.server.stream("ORDERS")) == 0, "the worker is stuck"


def wrong() -> None:
    """The shop with the bug."""
    shop(acks_first=True)
