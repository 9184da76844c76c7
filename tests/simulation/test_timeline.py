"""How a failure is shown: its faults, the frames around them, and a page."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

from jsproto.testing import Fault
from jsproto.testing.world import Entry
from jsproto_io.asyncio import connect
from jsproto_io.testing.simulation import Report, simulate
from jsproto_io.testing.simulation.timeline import AROUND, EARLY, Line, lines_of, shown, text_of
from tests.simulation.test_determinism import ROOT

FAULTS = [Fault("pause", 1.0, 0.1), Fault("pause", 20.0, 0.1)]


async def publishing() -> None:
    """It fails after half a minute."""
    async with connect("nats://somewhere") as nc:
        js = nc.jetstream()
        await js.create_stream("S", subjects=["s"])
        for number in range(60):
            await js.publish("s", f"<b>{number}</b>".encode() + b"x" * 3_000, headers={"Shop": "a & b"})
            await asyncio.sleep(0.5)
        raise LookupError("<lost>")


def failing() -> Report:
    return simulate(publishing, faults=FAULTS, must_pass=False)


class Page(HTMLParser):
    """What a page consists of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [name for name, _ in attrs if name in ("src", "href", "onclick")]


def test_a_failure_shows_frames_with_headers_payloads_and_early_faults() -> None:
    text = str(failing())
    timeline = text.partition("timeline:\n")[2].splitlines()
    for fault in FAULTS:
        assert sum(f"{fault!r} begins" in line for line in timeline) == 1
        assert sum(f"{fault!r} ends" in line for line in timeline) == 1
    assert re.search(r'-> HPUB s reply _INBOX\S+ 25\+30\d\d B \{Shop: a & b\} "<b>\d+</b>x+\.\.\."', text)
    assert re.search(r"<- MSG _INBOX\S+ \d+ B for s \| stored as \d+ of S\n", text)
    assert len(re.findall(r"\.\.\.  \d+ lines", text)) >= 2
    assert len(timeline) < 2 * AROUND
    assert text.endswith("(report.to_html() has all lines, and report.log all bytes)")


def test_a_short_log_is_shown_whole() -> None:
    log = [Entry(0.5, 1, "link 1 is dialed"), Entry(1.0, 1, "up", b"PI"), Entry(1.5, 1, "up", b"NG\r\nPING\r\n")]
    assert text_of([*log, Entry(2.0, 1, "down")]) == [
        "    0.500000  link 1 is dialed", "    1.500000  link 1 -> PING", "    1.500000  link 1 -> PING",
        "    2.000000  link 1 <- the end",
    ]  # fmt: skip


def test_bytes_whose_beginning_is_gone_are_shown_as_bytes() -> None:
    lines = lines_of([Entry(1.0, 1, "up", b"ayload\r\n"), Entry(2.0, 1, "up", b"PING\r\n")])
    assert [line.text.split("link 1 ")[1] for line in lines] == [
        "-> no frame of a client (an unknown verb): from here on only bytes, passed on",
        r"-> 6 bytes: PING\r\n",
    ]


def test_what_is_left_out_is_counted() -> None:
    """With a thousand faults the first ones and the last ones are kept, and nothing is counted twice."""
    lines = [Line(str(number), is_fault=number % 10 == 0) for number in range(10_000)]
    parts = shown(lines)
    kept = [part for part in parts if isinstance(part, Line)]
    assert len(kept) + sum(part for part in parts if isinstance(part, int)) == len(lines)
    faults = [int(line.text) for line in kept if line.is_fault]
    assert faults[:EARLY] == [*range(0, EARLY * 10, 10)]
    assert faults[-1] == 9_990
    assert kept[-1].text == "9999"
    early = [Line(str(number), is_fault=number == 0) for number in range(1_000)]
    assert [part.text for part in shown(early)[-5:] if isinstance(part, Line)] == ["995", "996", "997", "998", "999"]
    assert shown(lines, 20_000)[-9_990:] == lines[-9_990:]


def test_a_page_has_all_of_it_and_needs_nothing() -> None:
    report = failing()
    html = report.to_html()
    page = Page(html)
    assert page.links == []
    assert page.tags.isdisjoint({"script", "link", "img", "iframe", "b", "lost"})
    assert "default-src 'none'" in html
    assert "<h1>seed 0 fails: LookupError</h1>" in html
    assert "LookupError: &lt;lost&gt;" in html
    assert html.count('<p class="fault">') == 4
    for number in range(60):
        assert f"Shop: a &amp; b\n\n&lt;b&gt;{number}&lt;/b&gt;xxx" in html
    assert re.search(r"x\.\.\. 30\d\d bytes</pre>", html)
    assert 'class="gap"' not in html


def test_the_command_writes_a_page(tmp_path: Path) -> None:
    file = tmp_path / "failure.html"
    done = subprocess.run(
        [sys.executable, "-m", "jsproto_io.testing.simulate", f"{__name__}:publishing", "--seed", "0", "--faults",
         repr(FAULTS), "--html", str(file)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")
    assert "seed 0 fails: LookupError: <lost>" in done.stdout
    assert "<h1>seed 0 fails: LookupError</h1>" in file.read_text("utf-8")
