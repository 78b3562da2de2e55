"""Optional abilities of plugins: protocols that `supports` finds, and clear errors for attributes of another kind."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from ottla import interfaces
from ottla.accumulator.partitioner_abilities import PartitionerAbilities
from ottla.errors import InvalidPluginError
from ottla.hookspecs import hookimpl
from ottla.interfaces import (
    SupportsAvroRows,
    SupportsAvroValues,
    SupportsCipher,
    SupportsClose,
    SupportsCutRows,
    SupportsDetails,
    SupportsIdentity,
    SupportsJsonRows,
    SupportsMurmur2Partitions,
    SupportsRefused,
    supports,
)
from ottla.plugins.partitioners.round_robin import RoundRobin
from ottla.plugins.registry import KINDS, Registry
from ottla_accel.plugin import NativeEncoder

ROOT: Final = Path(__file__).resolve().parents[3]
ABILITIES: Final = {name: value for name, value in vars(interfaces).items() if name.startswith("Supports")}
OF_NO_HOOK: Final = {SupportsCipher, SupportsDetails, SupportsRefused}
"""Abilities of objects that other objects of plugins make."""


def attributes(ability: Any) -> set[str]:
    """The attributes of an ability."""
    return {*ability.__annotations__, *(name for name in vars(ability) if not name.startswith("_"))}


class Closes:
    def close(self) -> None:
        """Nothing to end."""


class Subclass(SupportsClose):
    def close(self) -> None:
        """Nothing to end."""


class ClosesInstance:
    def __init__(self) -> None:
        self.close = lambda: None


class Wrapper:
    """Passes every attribute on to another object."""

    def __init__(self, inner: object) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Empty(Closes):
    """Has no elements, so that it is false."""

    def __len__(self) -> int:
        return 0


@pytest.mark.parametrize("plugin", [Closes(), Subclass(), ClosesInstance(), Wrapper(Closes()), Empty()])
def test_a_plugin_supports_an_ability_with_or_without_base_class(plugin: object) -> None:
    assert supports(plugin, SupportsClose)


def test_the_method_of_the_protocol_itself_is_not_an_ability() -> None:
    class Misspelt(SupportsClose):
        def closes(self) -> None:
            """Ends nothing, because the core does not call it."""

    assert not supports(Misspelt(), SupportsClose)  # type: ignore[abstract]


@attrs.define
class WithValues:
    close: Any = None
    identity: Any = None


@pytest.mark.parametrize("plugin", [None, object(), WithValues(), Wrapper(WithValues())])
def test_an_attribute_that_is_none_counts_as_missing(plugin: object) -> None:
    assert not supports(plugin, SupportsClose)
    assert not supports(plugin, SupportsIdentity)


def test_a_value_is_supported_while_it_is_not_none() -> None:
    plugin = WithValues()
    assert not supports(plugin, SupportsIdentity)

    plugin.identity = "ann"

    assert supports(plugin, SupportsIdentity)


def test_a_method_that_cannot_be_called_is_an_error_with_its_name() -> None:
    with pytest.raises(InvalidPluginError, match=r"close of .*\.WithValues is of type str, and cannot be called"):
        supports(WithValues(close="secret"), SupportsClose)


def test_flags_that_are_none_and_methods_that_are_none_have_defaults() -> None:
    class Declared(RoundRobin):
        sticky = ignores_keys = hashes = partition_column = on_new_batch = finished = None

        def appended(self, topic: str, partition: int, size: int) -> None:
            """Nothing to count."""

    partitioner = Declared()

    assert attrs.asdict(PartitionerAbilities.of(partitioner)) == {
        "partition": partitioner.partition,
        "partition_record": None,
        "partition_column": None,
        "on_new_batch": None,
        "appended": partitioner.appended,
        "finished": partitioner.appended,
        "sticky": False,
        "ignores_keys": False,
        "hashes": None,
    }


def test_the_native_encoder_has_every_ability_of_encoders() -> None:
    encoder = NativeEncoder()
    typed: tuple[SupportsCutRows, SupportsMurmur2Partitions, SupportsJsonRows, SupportsAvroRows, SupportsAvroValues]
    typed = (encoder, encoder, encoder, encoder, encoder)

    *own, close = KINDS["encoder"].abilities
    assert [supports(encoder, ability) for ability in own] == [True] * len(typed)
    assert close is SupportsClose


class Wrong:
    """Hooks whose objects have everything, but `wrong` is a number."""

    wrong = ""

    def make(self) -> Any:
        made = Everything()
        setattr(made, type(self).wrong, 5)
        return made

    @hookimpl
    def ottla_authenticator(self) -> Any:
        return self.make()

    @hookimpl
    def ottla_partitioner(self) -> Any:
        return self.make()

    @hookimpl
    def ottla_encoder(self) -> Any:
        return self.make()

    @hookimpl
    def ottla_serializer(self, is_key: bool = False) -> Any:
        return self.make()

    @hookimpl
    def ottla_transport(self) -> Any:
        return self.make()

    @hookimpl
    def ottla_compressor(self) -> Any:
        return self.make()

    @hookimpl
    def ottla_reporter(self) -> Any:
        return self.make()

    @hookimpl
    def ottla_config_provider(self) -> Any:
        return self.make()

    @hookimpl
    def ottla_interceptor(self) -> Any:
        return self.make()


class Everything:
    name, blocking, priority, record_cost, codec_id = "MINE", False, 1, 1, 1

    def nothing(self, *_: object) -> None:
        """Every method."""

    authenticator = partition = columns = serialize = on_send = on_acknowledgement = nothing
    partition_record = targets = open = compress = decompress = start = close = get = nothing


EXTRA: Final[dict[str, dict[str, Any]]] = {"serializer": {"is_key": False}, "transport": {"inner": None}}
"""The other arguments of hooks."""

METHODS: Final[list[tuple[str, str]]] = [
    (kind.name, name)
    for kind in KINDS.values()
    for ability in kind.abilities
    for name, value in vars(ability).items()
    if callable(value) and not name.startswith("_")
]


@pytest.mark.parametrize(("kind", "method"), [*METHODS, ("partitioner", "partition"), ("reporter", "close")])
def test_a_plugin_with_a_method_of_another_kind_is_refused(
    monkeypatch: pytest.MonkeyPatch, kind: Any, method: str
) -> None:
    monkeypatch.setattr(Wrong, "wrong", method)
    registry = Registry([EntryPoint("mine", f"{__name__}:Wrong", KINDS[kind].group)])

    with pytest.raises(InvalidPluginError, match=rf"{kind} 'mine' of .* are not methods: {method}$"):
        registry.plugin(kind, "mine").create({}, **EXTRA.get(kind, {}))


def test_every_ability_belongs_to_a_kind_and_is_documented() -> None:
    of_kinds = {ability for kind in KINDS.values() for ability in kind.abilities}
    guide = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")

    assert of_kinds | OF_NO_HOOK == set(ABILITIES.values())
    assert [name for name in ABILITIES if f"`{name}`" not in guide] == []
    assert [name for name, ability in ABILITIES.items() if not ability.__doc__] == []


@pytest.mark.parametrize("ability", ABILITIES.values(), ids=ABILITIES)
def test_an_ability_is_named_after_its_attribute(ability: Any) -> None:
    (attribute,) = attributes(ability)

    assert ability.__name__ == "Supports" + "".join(word.capitalize() for word in attribute.split("_"))


def test_no_code_reads_an_ability_by_getattr() -> None:
    names = "|".join(sorted(name for ability in ABILITIES.values() for name in attributes(ability)))
    by_name = re.compile(rf'(?:get|has)attr\([^()]*, "(?:{names})"')
    sources = [*ROOT.glob("packages/*/src/**/*.py"), *ROOT.glob("packages/*/src/**/*.pyx")]
    checked = [path for path in sources if "conformance" not in path.parts]  # there any value may be found

    assert [str(path) for path in checked if by_name.search(path.read_text(encoding="utf-8"))] == []
