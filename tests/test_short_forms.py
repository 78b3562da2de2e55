"""The list of tests with a short and a long form is complete."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = Path(__file__).with_name("short_forms.md")
HAS_BOTH = re.compile(
    r"^from long_forms import .*\b(?:LONG|only_long)\b|os\.environ.*OTTLA_(?:SOAK|EVERY)", re.MULTILINE
)
OTHERS = "third_party_packages"  # packages with tests of their own


def modules() -> Iterator[str]:
    for folder in (ROOT / "tests", *ROOT.glob("packages/*/tests"), *ROOT.glob("examples/*/tests")):
        for path in folder.rglob("*.py"):
            if OTHERS not in path.parts and HAS_BOTH.search(path.read_text("utf-8")):
                yield path.relative_to(ROOT).as_posix()


def test_each_module_with_two_forms_is_listed() -> None:
    rows = re.findall(r"^\| `([\w./-]+)` \| [^|]+ \| [^|]+ \|$", PAGE.read_text("utf-8"), re.MULTILINE)

    assert rows == sorted(modules())
