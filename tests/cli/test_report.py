"""What is shown and printed at the end: numbers add up, nothing is claimed that was not measured."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from jsproto.events import FlowRateChanged, GapReported
from jsproto.grammar.acks import PubAck
from jsproto_io.cli import report
from jsproto_io.cli.demo import Demo
from jsproto_io.cli.ingesting import MAX_SAMPLES, Ingest, Meter


def shown(renderable: RenderableType, width: int = 80, encoding: str = "utf-8", colour: bool = False) -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding)
    Console(file=file, width=width, force_terminal=colour, color_system="truecolor" if colour else None).print(
        renderable
    )
    file.seek(0)
    return file.read()


def a_demo() -> Demo:
    demo = Demo(server="2.15.1", url="nats://127.0.0.1:1", own_server=True, stream="FLIGHTS")
    for digest in (demo.went_in, demo.came_out):
        digest.add("flights.UA.EWR", b"2013,1,1")
    demo.ingest = Ingest(
        sent=1,
        acked=1,
        acks=2,
        ack=PubAck("FLIGHTS", 1, batch="b", count=1),
        flow=[FlowRateChanged("b", 0, 500, 0)],
        meter=Meter([(0.0, 0), (0.5, 200_000), (1.0, 300_000)], seconds=1.0, cpu=0.5, bytes=8),
    )
    demo.reading = Meter([(0.0, 0), (2.0, 300_000)], seconds=2.0, cpu=0.25, bytes=8)
    return demo


# -- numbers -------------------------------------------------------------------------------------------------


def test_throughput_spreads_what_came_between_two_samples() -> None:
    assert report.throughput([(0.0, 0), (1.0, 100), (2.0, 400)], 4) == [
        (0.25, 100.0),
        (0.75, 100.0),
        (1.25, 300.0),
        (1.75, 300.0),
    ]


@given(
    st.lists(st.tuples(st.floats(0.001, 10), st.integers(0, 10_000)), min_size=1, max_size=30),
    st.integers(1, 50),
)
def test_throughput_adds_up_to_all_messages(steps: list[tuple[float, int]], slices: int) -> None:
    samples = [(0.0, 0)]
    for seconds, messages in steps:
        samples.append((samples[-1][0] + seconds, samples[-1][1] + messages))
    rates = report.throughput(samples, slices)
    width = samples[-1][0] / slices
    assert len(rates) == slices
    assert sum(rate * width for _, rate in rates) == pytest.approx(samples[-1][1])


@pytest.mark.parametrize("samples", [[], [(0.0, 0)], [(0.0, 0), (0.0, 5)]])
def test_no_time_no_throughput(samples: list[tuple[float, int]]) -> None:
    assert report.throughput(samples, 10) == []


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (999, "999"), (1000, "1k"), (312_400, "312k"), (1_500_000, "1.5M")]
)
def test_compact_numbers(number: float, text: str) -> None:
    assert report.compact(number) == text


@given(st.floats(1e-6, 1e9))
def test_an_axis_ends_at_a_round_number_and_has_round_steps(number: float) -> None:
    end, steps = report.round_up(number)
    assert number <= end <= 2 * number * (1 + 1e-9)
    assert float(f"{end / steps:.2g}") == pytest.approx(end / steps)


def test_no_time_no_rate() -> None:
    assert report.per_second(5, 0.0) == 0
    assert report.per_second(5, 2.0) == 2


def test_a_meter_keeps_its_memory_bounded_and_the_whole_way() -> None:
    meter = Meter(_apart=0.0)
    meter.start()
    for count in range(1, 3 * MAX_SAMPLES):
        meter._apart = min(meter._apart, 0.0)
        assert meter.sample(count)
    meter.stop(3 * MAX_SAMPLES)
    assert len(meter.samples) <= MAX_SAMPLES + 1
    assert meter.samples[0] == (0.0, 0)
    assert meter.samples[-1] == (meter.seconds, 3 * MAX_SAMPLES)
    assert sorted(meter.samples) == meter.samples


def test_a_meter_refuses_samples_that_come_too_soon() -> None:
    meter = Meter(_apart=1e9)
    meter.start()
    assert not meter.sample(1)
    assert meter.samples == [(0.0, 0)]


# -- the demo ------------------------------------------------------------------------------------------------


def test_the_verdict() -> None:
    demo = a_demo()
    assert (demo.equal, report.demo_verdict(demo)) == (True, "1 in, 1 out, digests equal")
    demo.came_out.add("flights.UA.EWR", b"again")
    assert (demo.equal, report.demo_verdict(demo)) == (False, "1 in, 2 out, digests DIFFERENT")


def test_a_digest_tells_subjects_payloads_and_order_apart() -> None:
    texts = []
    for messages in (
        [("a", b"b c")],
        [("a", b"b"), ("c", b"")],
        [("c", b""), ("a", b"b")],
        [("a.b", b"c")],
        [("a", b"3 b c")],
        [],
    ):
        digest = Demo().went_in
        for subject, payload in messages:
            digest.add(subject, payload)
        texts.append(digest.hexdigest())
    assert len(set(texts)) == len(texts)


def test_the_demo_table_fits_a_terminal_of_80_columns() -> None:
    text = shown(report.demo_table(a_demo()))
    lines = [line.split() for line in text.splitlines()]
    assert max(map(len, text.splitlines())) <= 80
    assert ["messages/s", "1", "0"] in lines
    assert ["time", "1.00", "s", "2.00", "s"] in lines
    assert ["acknowledgements", "2"] in lines
    assert ["messages", "per", "acknowledgement", "500", "throughout"] in lines


def test_the_demo_as_json() -> None:
    data = json.loads(json.dumps(report.demo_json(a_demo())))
    assert data["ok"] is True
    assert data["server"] == {"version": "2.15.1", "url": "nats://127.0.0.1:1", "started_here": True}
    assert data["in"]["sha256"] == data["out"]["sha256"]
    assert data["in"]["flow"] == [{"from_message": 0, "messages_per_ack": 500}]
    assert data["out"]["messages"] == 1


def test_the_flow_rate_in_words() -> None:
    result = Ingest()
    assert report.flow_text(result) == "-"
    for sequence, msgs in enumerate((1, 2, 4, 8, 16, 32)):
        result.on_event(FlowRateChanged("b", sequence * 1000, msgs, msgs // 2))
        if msgs == 2:
            assert report.flow_text(result) == "1, 2 from message 1,000"
    assert report.flow_text(result) == (
        "1, 2 from message 1,000, 4 from message 2,000, 8 from message 3,000, … 32 from message 5,000"
    )


@pytest.mark.parametrize("width", [60, 80, 120, 300])
def test_the_plot_fits_the_terminal(width: int) -> None:
    text = shown(
        report.Throughput(("in", "green", [(0.0, 0), (1.0, 1000)]), ("out", "cyan", [(0.0, 0), (1.0, 500)])),
        width,
    )
    assert "msgs/s" in text
    assert "in" in text
    assert "out" in text
    assert max(map(len, text.splitlines())) <= min(width, 100)
    assert "1k" in text
    assert "\x1b" not in text


def test_the_plot_has_colours_where_they_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[32m" in shown(report.Throughput(("in", "green", [(0.0, 0), (1.0, 10)])), colour=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[32m" not in shown(report.Throughput(("in", "green", [(0.0, 0), (1.0, 10)])), colour=True)


@pytest.mark.parametrize(
    ("samples", "width", "encoding"),
    [
        ([(0.0, 0), (1.0, 10)], 30, "utf-8"),
        ([(0.0, 0), (1.0, 10)], 80, "ascii"),
        ([], 80, "utf-8"),
        ([(0.0, 0), (1.0, 0)], 80, "utf-8"),
    ],
)
def test_there_is_no_plot_where_it_cannot_be_shown(samples: list[tuple[float, int]], width: int, encoding: str) -> None:
    assert shown(report.Throughput(("in", "green", samples)), width, encoding).strip() == ""


# -- ingest --------------------------------------------------------------------------------------------------


def test_an_ingest_in_words_and_as_json() -> None:
    result = Ingest(sent=10, acked=10, acks=1, ack=PubAck("S", 110, batch="b", count=10), first_stream_seq=101)
    text = shown(report.ingest_table(result))
    assert "101 to 110" in text
    assert "10 of 10 sent" in text
    data = report.ingest_json(result, skipped=5)
    assert (data["resume_at"], data["first_stream_seq"], data["last_stream_seq"], data["stream"]) == (
        15,
        101,
        110,
        "S",
    )


def test_losses_are_counted() -> None:
    result = Ingest(sent=10, acked=10, ack=PubAck("S", 8, batch="b", count=10))
    result.on_event(GapReported("b", 3, 4))
    assert result.missing == 2
    text = shown(report.ingest_table(result))
    assert "up to 8" in text
    assert "not stored" in text
    assert report.ingest_json(result, 0)["lost"] == [[3, 4]]
