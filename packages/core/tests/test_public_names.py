"""Public names are those of the packages' `__all__`, and the reference documents them."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import ottla
import ottla.transactions

ROOT: Final = Path(__file__).resolve().parents[3]
REFERENCE: Final = ROOT / "docs" / "reference"


def documented() -> set[str]:
    """The names that the pages of the reference show."""
    lines = [line for page in REFERENCE.glob("*.md") for line in page.read_text(encoding="utf-8").splitlines()]
    return {line.removeprefix("::: ") for line in lines if line.startswith("::: ")}


def test_dir_of_ottla_shows_exactly_the_public_names() -> None:
    assert dir(ottla) == sorted(ottla.__all__)


def test_every_public_name_of_ottla_is_in_the_reference() -> None:
    errors = {name for name in ottla.__all__ if hasattr(ottla.errors.exceptions, name)}

    missing = {name for name in ottla.__all__ if f"ottla.{name}" not in documented()} - errors

    assert missing == {"__version__"}
    assert "ottla.errors.exceptions" in documented()


def test_every_name_exported_by_ottla_transactions_exists() -> None:
    for name in ottla.transactions.__all__:
        assert getattr(ottla.transactions, name).__name__ == name


def test_a_missing_name_of_ottla_transactions_is_an_attribute_error() -> None:
    assert not hasattr(ottla.transactions, "absent")


def test_a_producer_does_not_load_the_messages_of_transactions() -> None:
    program = "import sys, ottla.producer.producer; print(*(name for name in sys.modules if name.startswith('ottla.')))"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()

    assert "ottla.producer.producer" in loaded
    assert "ottla.protocol.messages.end_txn" not in loaded
    assert "ottla.transactions.admin" not in loaded


def test_the_core_has_at_most_22_entries_and_twelve_layers() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    core = next(each for each in settings["tool"]["importlinter"]["contracts"] if each.get("containers") == ["ottla"])
    found = Path(ottla.__file__).parent.iterdir()
    # Without old caches, and without the marker of typed packages, which has no code.
    entries = [each.stem for each in found if each.suffix == ".py" or (each / "__init__.py").exists()]

    assert len(core["layers"]) <= 12
    assert len(entries) <= 22, sorted(entries)
