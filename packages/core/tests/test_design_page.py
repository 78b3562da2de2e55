"""DESIGN.md names modules that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ottla

ROOT = Path(__file__).parents[3]
SOURCES = Path(ottla.__file__).parent
TITLE = "## Where Java's classes are"


def rows() -> list[tuple[str, str]]:
    """The table of Java's classes: what is there, and what it is here."""
    section = (ROOT / "DESIGN.md").read_text("utf-8").partition(TITLE)[2].partition("\n## ")[0]
    cells = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return [(java.strip(), here.strip()) for java, here in cells]


@pytest.mark.parametrize(("java", "here"), rows())
def test_each_java_class_is_where_the_page_says(java: str, here: str) -> None:
    package = next((name for name in re.findall(r"`(ottla_\w+)`", here)), None)
    folder = ROOT / f"packages/{package.removeprefix('ottla_').replace('_', '-')}/src/{package}" if package else SOURCES
    found = [SOURCES, folder]

    for name in re.findall(r"`([a-z_.]+)`", here):
        path = Path(*name.split("."))
        assert name == package or any((each / path).is_dir() or (each / f"{path}.py").is_file() for each in found), name


def test_the_table_has_the_producer_and_the_network() -> None:
    assert {"`NetworkClient`", "`Sender.runOnce`, `sendProducerData`"} <= {java for java, _ in rows()}
