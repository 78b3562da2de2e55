"""The guide for authors of plugins: the code that it shows works, and the names that it uses exist."""

from __future__ import annotations

import re
from typing import Any

import pytest

from documents import ROOT, blocks
from ottla import errors, interfaces
from ottla.interfaces import Transport
from ottla.plugins import transports
from ottla.plugins.registry import KINDS
from ottla_testkit import conformance
from ottla_testkit.conformance import TransportConformance
from ottla_testkit.conformance.harness.transport_connections import MakePeer
from ottla_transport_plaintext import PlaintextTransport

GUIDE = ROOT / "docs" / "plugins.md"
PAGES = sorted((ROOT / "docs").glob("plugins*.md"))
TRANSPORT_PAGE = ROOT / "docs" / "plugins-transport.md"
TRANSPORT = ROOT / "packages" / "transport-plaintext" / "src" / "ottla_transport_plaintext" / "plugin.py"
LAYER = ROOT / "packages" / "core" / "src" / "ottla" / "plugins" / "transports" / "socket_layer.py"


def test_every_line_of_the_transport_and_its_layer_is_shown_unchanged() -> None:
    transport, layer = TRANSPORT.read_text(), LAYER.read_text()
    shown = [block.text for block in blocks(TRANSPORT_PAGE) if block.says.startswith("compiled")]
    body = transport[transport.index("from ottla.hookspecs") :] + layer[layer.index("from ottla.interfaces") :]
    left = "".join(line.strip() for line in body.splitlines())
    for text in shown:
        piece = "".join(line.strip() for line in text.splitlines())
        assert piece in left, f"the transport has no such lines:\n{text}"
        left = left.replace(piece, "", 1)

    assert left == ""


class TestTheGateway(TransportConformance):
    """The transport that the guide writes keeps the whole contract, at the far end that the guide writes."""

    @pytest.fixture
    def written(self) -> dict[str, Any]:
        names: dict[str, Any] = {}
        for block in blocks(TRANSPORT_PAGE):
            if "GREETING" in block.text:
                exec(compile(block.program, str(block), "exec"), names)
        return names

    @pytest.fixture
    def transport(self, written: dict[str, Any]) -> Transport:
        transport: Transport = written["GatewayTransport"](inner=PlaintextTransport())
        return transport

    @pytest.fixture
    def peer(self, written: dict[str, Any]) -> MakePeer:
        peer: MakePeer = written["GreetedPeer"]
        return peer


def test_every_kind_is_in_the_table_with_its_group_and_hook() -> None:
    page = GUIDE.read_text()
    for kind in KINDS.values():
        assert f"| {kind.name} | `{kind.group}` | `{kind.hook}(" in page


def test_every_kind_has_a_page() -> None:
    page = GUIDE.read_text()

    assert [name for name in KINDS if f"(plugins-{name.replace('_', '-')}.md)" not in page] == []


def test_every_contract_member_named_in_the_guide_exists() -> None:
    text = "\n".join(page.read_text() for page in PAGES)
    named = set(re.findall(r"`([A-Z][a-z]+[A-Z]\w+)`", text)) - {"DeprecationWarning", "KeyboardInterrupt"}
    known = {
        *vars(interfaces),
        *vars(errors),
        *vars(transports),
        *vars(conformance),
        "ValueError",
        "TypeError",
        "OSError",
    }

    assert "PluginNotFoundError" in named
    assert named - known == set()
