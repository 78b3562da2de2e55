"""The guide for authors of plugins shows the plaintext transport as it is."""

from __future__ import annotations

import re
import socket
import textwrap
from typing import Any

import attrs
import pytest

from documents import ROOT, blocks
from ottla import errors, interfaces
from ottla.interfaces import Transport, TransportLayer
from ottla.plugins.registry import KINDS
from ottla_testkit import conformance
from ottla_testkit.conformance import TransportConformance
from ottla_testkit.conformance.harness.transport_connections import MakePeer
from ottla_transport_plaintext import PlaintextTransport

GUIDE = ROOT / "docs" / "plugins.md"
TRANSPORT = ROOT / "packages" / "transport-plaintext" / "src" / "ottla_transport_plaintext" / "plugin.py"


def test_every_line_of_the_transport_is_shown_unchanged() -> None:
    source = textwrap.dedent(TRANSPORT.read_text())
    shown = [block.text for block in blocks(GUIDE) if block.says.startswith("compiled")]
    body = source[source.index("from ottla.hookspecs") :]
    left = "".join(line.strip() for line in body.splitlines())
    for text in shown:
        piece = "".join(line.strip() for line in text.splitlines())
        assert piece in left, f"the transport has no such lines:\n{text}"
        left = left.replace(piece, "", 1)

    assert left == ""


class TestTheGreetingLayer(TransportConformance):
    """The layer that the guide writes keeps the whole contract, at the far end that the guide writes."""

    @pytest.fixture
    def written(self) -> dict[str, Any]:
        names: dict[str, Any] = {}
        for block in blocks(GUIDE):
            if "GREETING" in block.text:
                exec(compile(block.program, str(block), "exec"), names)
        return names

    @pytest.fixture
    def transport(self, written: dict[str, Any]) -> Transport:
        return Greeting(written["GreetingLayer"])

    @pytest.fixture
    def peer(self, written: dict[str, Any]) -> MakePeer:
        peer: MakePeer = written["GreetedPeer"]
        return peer


@attrs.frozen
class Greeting:
    """The template's code around the layer."""

    layer: Any

    def targets(self, host: str, port: int) -> None:
        return None

    def open(self, sock: socket.socket, host: str, port: int) -> TransportLayer:
        layer: TransportLayer = self.layer(sock, open_inner=lambda: PlaintextTransport().open(sock, host, port))
        return layer


def test_every_kind_is_in_the_table_with_its_group_and_hook() -> None:
    page = GUIDE.read_text()
    for kind in KINDS.values():
        assert f"| {kind.name} | `{kind.group}` | `{kind.hook}(" in page


def test_every_contract_member_named_in_the_guide_exists() -> None:
    page = GUIDE.read_text()
    named = set(re.findall(r"`([A-Z][a-z]+[A-Z]\w+)`", page)) - {"DeprecationWarning", "KeyboardInterrupt"}
    known = {*vars(interfaces), *vars(errors), *vars(conformance), "ValueError", "TypeError", "OSError"}

    assert "PluginNotFoundError" in named
    assert named - known == set()
