"""The report as a page and as a JUnit file: whole, self-contained, without a word of a conversation."""

from __future__ import annotations

import re
import shutil
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from planner.gate.cells import run_cell
from planner.gate.evidence import read_evidence
from planner.gate.junit import junit
from planner.gate.picture import MOST_ROWS, SECTIONS, Picture
from planner.gate.report import report
from planner.gate.verdict import Tally
from planner.values.candidate import MatrixCell
from planner.values.gate import CellResult, Expectation, GateResult
from tests.gate.gate_support import asked, candidate, cell, sample, subject

WORDS = ("Never promise", "Which lift", "Question 1")


def made() -> tuple[GateResult, Picture, list[CellResult]]:
    """Run three cells, one of which blocks, with a target that nobody measured."""
    wrong = sample("s3", expect=Expectation(kept=("turn/t<9>",)), request=asked(max_input_tokens=3000))
    results = [run_cell(cell(one), subject()) for one in (sample("s1"), sample("s2", boundary="half"), wrong)]
    picture, tally = Picture(), Tally(candidate(), [("reference", candidate().bundle_digests[0])])
    for result in results:
        tally.add(result)
        picture.add(result)
    row = MatrixCell("1.0", "1" * 64, "llama.cpp", "b1", "Android <16>", "arm64", "acme")
    return tally.result(matrix=[row], evidence=read_evidence(None, candidate(), 0)[0]), picture, results


class _Outline(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.open.append(tag)
        self.loads += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_page_is_whole_and_loads_nothing() -> None:
    """Every tag is closed, the only link leads into the page, and ids with markup are text."""
    result, picture, _ = made()
    page = report(result, picture).decode()
    outline = _Outline()
    outline.feed(page)
    assert ([], ["#main"]) == (outline.open, outline.loads)
    assert not re.search(r"https?://|@import|url\(|<script", page)
    text = " ".join(outline.text)
    assert "turn/t<9>" in text
    assert "Android <16>" in text
    for words in WORDS:
        assert words not in page


def test_the_page_says_what_the_verdict_says() -> None:
    """Reasons with their remedy, targets and evidence that are missing, and what a pass is."""
    result, picture, _ = made()
    page = report(result, picture).decode()
    for reason in result.reasons:
        assert reason.code in page
    for words in ("family_missing", "not evidenced", "uncovered", "authorises nothing", result.candidate_id):
        assert words in page


def test_a_bar_is_the_account() -> None:
    """The sections of a bar add up to the limit, and the text beside it holds the same figures."""
    _, picture, results = made()
    for bar, result in zip(picture.bars, results, strict=True):
        assert result.account is not None
        assert bar.limit == sum(bar.tokens)
        assert result.account.history_tokens == bar.tokens[[name for name, _ in SECTIONS].index("history")]


def test_a_picture_does_not_grow_with_the_cells() -> None:
    """A hundred thousand cells later it holds as many rows as before, and says how many it left out."""
    _, picture, results = made()
    for _ in range(100_000):
        picture.add(results[0])
    assert MOST_ROWS == len(picture.bars)
    assert 100_003 == MOST_ROWS + picture.left_out
    assert 100_003 == sum(picture.headroom["reference"]) == sum(picture.outcomes.values())


def test_junit_has_a_case_for_each_cell_and_each_reason() -> None:
    """A CI system shows as many failures as block."""
    result, _, results = made()
    tree = ET.fromstring(junit(results, result))
    assert ["reference", "release"] == [suite.get("name") for suite in tree]
    assert ("3", "1") == (tree[0].get("tests"), tree[0].get("failures"))
    assert 1 == len(tree[0].findall("testcase/failure"))
    assert int(tree[1].get("failures") or 0) == len(tree[1].findall("testcase/failure")) == 5
    for words in WORDS:
        assert words.encode() not in junit(results, result)


@pytest.fixture(scope="module")
def browser() -> Any:
    """A real browser without a network."""
    found = shutil.which("chromium")
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (make test-adapters)")
    if found is None:
        pytest.skip("no chromium on this machine (make test-adapters installs it where it may)")
    with sync.sync_playwright() as play:
        one = play.chromium.launch(executable_path=found)
        yield one
        one.close()


@pytest.mark.runtime
def test_the_page_in_a_browser(browser: Any, tmp_path: Path) -> None:
    """No request leaves the page, no narrow screen scrolls sideways, and everything is reached by keyboard."""
    result, picture, _ = made()
    path = tmp_path / "report.html"
    path.write_bytes(report(result, picture))
    for width, height in ((1280, 900), (320, 640)):
        context = browser.new_context(offline=True, viewport={"width": width, "height": height})
        page = context.new_page()
        asked_for: list[str] = []
        page.on("request", lambda request, into=asked_for: into.append(request.url))
        page.goto(path.as_uri())
        assert [path.as_uri()] == asked_for
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        heights = page.evaluate("[...document.querySelectorAll('.bar')].map(b => b.getBoundingClientRect().height)")
        assert heights
        assert min(heights) >= 10
        page.keyboard.press("Tab")
        assert "Skip to the verdict" == page.evaluate("document.activeElement.textContent")
        stops = []
        for _ in range(len(page.query_selector_all("[tabindex='0']"))):
            page.keyboard.press("Tab")
            stops.append(page.evaluate("document.activeElement.getAttribute('aria-label')"))
        assert "Reasons" in stops
        assert "Release gate: block" in page.locator("body").aria_snapshot()
        context.close()
