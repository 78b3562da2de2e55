"""The guide for authors of plugins shows the plaintext transport as it is."""

from __future__ import annotations

import re
import textwrap

from documents import ROOT, blocks
from ottla import errors, interfaces
from ottla.registry import KINDS
from ottla_testkit import conformance

GUIDE = ROOT / "docs" / "plugins.md"
TRANSPORT = ROOT / "packages" / "transport-plaintext" / "src" / "ottla_transport_plaintext" / "plugin.py"


def test_every_line_of_the_transport_is_shown_as_it_is() -> None:
    source = textwrap.dedent(TRANSPORT.read_text())
    shown = [block.text for block in blocks(GUIDE) if block.says.startswith("compiled")]
    body = source[source.index("from ottla.hookspecs") :]
    left = "".join(line.strip() for line in body.splitlines())
    for text in shown:
        piece = "".join(line.strip() for line in text.splitlines())
        assert piece in left, f"the transport has no such lines:\n{text}"
        left = left.replace(piece, "", 1)

    assert left == ""


def test_every_kind_is_in_the_table_with_its_group_and_hook() -> None:
    page = GUIDE.read_text()
    for kind in KINDS.values():
        assert f"`{kind.group}`" in page
        if kind.wanted:
            assert f"| {kind.name} | `{kind.group}` | `{kind.hook}(" in page


def test_everything_that_it_names_in_the_contract_exists() -> None:
    page = GUIDE.read_text()
    named = set(re.findall(r"`([A-Z][a-z]+[A-Z]\w+)`", page)) - {"DeprecationWarning"}
    known = {*vars(interfaces), *vars(errors), *vars(conformance), "ValueError", "TypeError", "OSError"}

    assert "PluginMissing" in named
    assert named - known == set()
