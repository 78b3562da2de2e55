"""The encoder of the guide for authors of plugins, installed as a package of another author."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Final

import pytest

from documents import ROOT, blocks
from plugin_site import Site, plugin_site

__all__ = ["plugin_site"]

NAMED: Final = r"the encoder 'first' of acme 1\.0 \(ottla_test_\w+\) "
PAGE: Final = ROOT / "docs" / "plugins-encoder.md"
HOOK: Final = "@hookimpl\ndef ottla_encoder():\n    return TableEncoder()\n"

Install = Callable[..., None]


def code() -> list[str]:
    """The code of the guide's encoder, and of its abilities for tables."""
    return [block.text for block in blocks(PAGE) if "class ListColumns" in block.text or "def cut_rows" in block.text]


@pytest.fixture
def install(plugin_site: Site) -> Install:
    """Install the encoder of the guide under the name `first`; *change* is more code of its module."""

    def install(change: str = "") -> None:
        plugin_site.install("\n".join([*code(), textwrap.dedent(change), HOOK]), kind="encoder")

    return install
