"""The table of modules in the README."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

import ottla_authenticator_sasl

README = Path(__file__).resolve().parents[1] / "README.md"


def test_the_readme_lists_every_module() -> None:
    _, _, table = README.read_text(encoding="utf-8").partition("| Module | What |")
    listed = [
        name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1] if "|" in row else "")
    ]

    assert sorted(listed) == sorted(module.name for module in pkgutil.iter_modules(ottla_authenticator_sasl.__path__))
