"""The guide for authors of plugins: the code that it shows works, and the names that it uses exist."""

from __future__ import annotations

import builtins
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest

import ottla
from documents import ROOT, blocks
from ottla import errors, interfaces
from ottla.config import allow_lists
from ottla.interfaces import (
    Authenticator,
    Columns,
    RecordEncoder,
    SupportsCipher,
    SupportsClose,
    SupportsDetails,
    SupportsRefused,
    TransportLayer,
)
from ottla.plugins import transports
from ottla.plugins.registry import KINDS
from ottla.plugins.registry.kinds import Kind
from ottla_testkit import conformance
from ottla_testkit.conformance import RecordEncoderConformance
from plugin_contracts import contract

GUIDE = ROOT / "docs" / "plugins.md"
PAGES = sorted((ROOT / "docs").glob("plugins*.md"))
TRANSPORT_PAGE = ROOT / "docs" / "plugins-transport.md"
ENCODER_PAGE = ROOT / "docs" / "plugins-encoder.md"
TRANSPORT = ROOT / "packages" / "transport-plaintext" / "src" / "ottla_transport_plaintext" / "plugin.py"
LAYER = ROOT / "packages" / "core" / "src" / "ottla" / "plugins" / "transports" / "socket_layer.py"

MADE_BY_OTHERS: Final[Mapping[str, Sequence[Any]]] = {
    "transport": (TransportLayer, SupportsCipher, SupportsDetails),
    "authenticator": (Authenticator, SupportsRefused),
    "encoder": (Columns,),
}
"""Protocols of objects that the objects of hooks make."""
NUMBERS: Final = {"priority", "record_cost", "codec_id"}
"""Attributes that are no methods, and change no thread."""


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


class TestTheEncoder(RecordEncoderConformance):
    """The encoder that the guide writes keeps the whole contract."""

    @pytest.fixture
    def encoder(self) -> RecordEncoder:
        [block] = [block for block in blocks(ENCODER_PAGE) if "def ottla_encoder" in block.text]
        names: dict[str, Any] = {}
        exec(compile(block.program, str(block), "exec"), names)
        encoder: RecordEncoder = names["ListEncoder"]()
        return encoder


class TestTheEncoderOfTables(RecordEncoderConformance):
    """So does the one with the abilities for tables that the guide adds."""

    @pytest.fixture
    def encoder(self) -> RecordEncoder:
        names: dict[str, Any] = {}
        for block in blocks(ENCODER_PAGE):
            if "def ottla_encoder" in block.text or "def cut_rows" in block.text:
                exec(compile(block.program, str(block), "exec"), names)
        encoder: RecordEncoder = names["TableEncoder"]()
        return encoder


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_method_of_a_kind_is_in_its_contract_with_its_thread(kind: Kind) -> None:
    protocols = {kind.protocol, *kind.abilities, *MADE_BY_OTHERS.get(kind.name, ())}
    if kind.name != "reporter":
        protocols -= {SupportsClose}  # the same for every kind
    members = {name for each in protocols for name in {*vars(each), *each.__annotations__} if not name.startswith("_")}
    rows = contract(kind.name)

    assert sorted(row.method for row in rows if row.method != "__len__") == sorted((members - NUMBERS) | {kind.hook})
    assert {thread for row in rows for thread in row.threads} <= {"caller", "I/O", "helper"}


def test_every_kind_is_in_the_table_with_its_group_and_hook() -> None:
    page = GUIDE.read_text()
    for kind in KINDS.values():
        assert f"| {kind.name} | `{kind.group}` | `{kind.hook}(" in page


def test_every_kind_has_a_page() -> None:
    page = GUIDE.read_text()

    assert [name for name in KINDS if f"(plugins-{name.replace('_', '-')}.md)" not in page] == []


def test_every_contract_member_named_in_the_guide_exists() -> None:
    text = "\n".join(page.read_text() for page in PAGES)
    named = set(re.findall(r"`([A-Z][a-z]+[A-Z]\w+)`", text))
    known = {
        *vars(interfaces),
        *vars(errors),
        *vars(transports),
        *vars(conformance),
        *vars(allow_lists),
        *ottla.__all__,
        *vars(builtins),
        "AsyncProducer",
        "ClassVar",
        "MockProducer",
    }

    assert "PluginNotFoundError" in named
    assert named - known == set()


def test_the_generations_of_every_kind_are_in_the_table() -> None:
    page = GUIDE.read_text()
    several = {kind.name: kind.generations for kind in KINDS.values() if kind.generations != (1,)}

    assert "| all other kinds | 1 |" in page
    for name, generations in several.items():
        assert f"| {name} | {', '.join(map(str, generations))} |" in page
    assert len(several) == page.partition("| kind | generations")[2].partition("| all other")[0].count("\n|") - 1
