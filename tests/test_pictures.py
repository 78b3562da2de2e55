"""The pictures of the documentation are those that `tools/pictures.py` draws, and stand on a page."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

import pytest
from pictures import PICTURES, Picture, compared

from documents import ROOT, pages

PERFORMANCE = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_what_the_command_draws(name: str) -> None:
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == PICTURES[name]().svg(), "run: python tools/pictures.py"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_on_a_page_with_its_text(name: str) -> None:
    shown = re.compile(rf"!\[(?P<text>[^\]]+)\]\({re.escape(name)}\)")
    found = [match["text"] for page in pages() for match in shown.finditer(page.read_text(encoding="utf-8"))]

    assert len(found) == 1
    assert len(found[0]) > 40


@pytest.mark.parametrize("name", PICTURES)
def test_all_text_of_a_picture_is_inside_of_it(name: str) -> None:
    root = ET.fromstring(PICTURES[name]().svg())
    _x, _y, width, height = map(float, root.attrib["viewBox"].split())

    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        long = len(text.text or "") * float(text.attrib["font-size"]) * 0.58
        left = float(text.attrib["x"]) - {"start": 0.0, "middle": long / 2, "end": long}[text.attrib["text-anchor"]]
        assert left >= 0, text.text
        assert left + long <= width, text.text
        assert 0 < float(text.attrib["y"]) < height, text.text


def test_the_bars_have_the_figures_that_were_measured() -> None:
    measured = json.loads((ROOT / "benchmarks" / "published" / "clients.json").read_text(encoding="utf-8"))

    found = dict(compared(PERFORMANCE))

    compared_ones = [each for each in measured["figures"]["results"] if each["rates"]]
    assert len(found) == len(compared_ones) > 15
    for each in compared_ones:
        figures = [round(rate["middle"], 2) for rate in each["rates"].values()]
        assert found[f"{each['scenario']['group']}: {each['scenario']['name']}"] == figures[:2]


def test_a_line_that_is_too_wide_for_its_box_is_refused() -> None:
    with pytest.raises(ValueError, match="is too wide for its box"):
        Picture(title="t", height=10).box(0, 0, 40, 20, "a long line of text")
