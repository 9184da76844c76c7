"""Every page of the repository has a place on the site, and links lead to those places. CI builds it, strictly."""

from __future__ import annotations

import re

import pytest

from tests.readmes import SHOWN
from tests.site.build import ROOT, copied
from tests.site.pages import MODULES, SECTIONS, Page

PAGES = [page for pages in SECTIONS.values() for page in pages]
README = next(page for page in PAGES if page.source == "README.md")


def test_every_page_of_the_repository_has_a_place() -> None:
    sources = {page.source for page in PAGES}
    shown = {(name if name.endswith(".md") else f"{name}/README.md").removeprefix("./") for name in SHOWN}
    assert shown <= sources
    assert len({page.place for page in PAGES}) == len(PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.source)
def test_links_lead_to_places(page: Page) -> None:
    text = copied((ROOT / page.source).read_text(), page)
    places = {each.place for each in PAGES}
    for target in re.findall(r"\]\(([^)\s#]+\.md)", text):
        there = (ROOT / "docs" / page.place).parent.joinpath(target).resolve()
        assert str(there.relative_to(ROOT / "docs")) in places


def test_a_link_is_rewritten_and_code_stays() -> None:
    text = "[drivers](transports/jsproto_io/README.md#publishing) [code](tests/marks.py) [web](https://a.b/c.md)\n"
    page = copied(f"{text}```md\n[drivers](transports/jsproto_io/README.md)\n```\n", README)
    assert page.splitlines() == [
        "[drivers](guides/drivers.md#publishing) code [web](https://a.b/c.md)",
        "```md",
        "[drivers](transports/jsproto_io/README.md)",
        "```",
    ]
    assert (
        copied("[tour](TOUR.md)", next(page for page in PAGES if page.source == "jsproto/README.md"))
        == "[tour](tour.md)"
    )


def test_a_page_of_quotes_has_no_links() -> None:
    promises = next(page for page in PAGES if page.quotes)
    assert copied("see [it](README.md#it)", promises) == "see it"


def test_modules_of_the_reference_exist() -> None:
    for module in MODULES:
        path = module.replace(".", "/")
        places = [ROOT / folder / f"{path}{end}" for folder in ("", "transports") for end in (".py", "/__init__.py")]
        assert any(place.exists() for place in places)
