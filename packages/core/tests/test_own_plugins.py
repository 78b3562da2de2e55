"""Ottla's own plugins use what any plugin may use; the guide names each exception."""

from __future__ import annotations

import ast
import re
import tomllib
from abc import ABC
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

import pytest

from ottla import interfaces
from ottla.recordbatch import core_abilities
from ottla.recordbatch.objects import ObjectColumns, ObjectEncoder
from ottla_accel.columns import NativeColumns
from ottla_accel.plugin import NativeEncoder

ROOT: Final = Path(__file__).resolve().parents[3]
GUIDE: Final = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
CORE: Final = ROOT / "packages" / "core" / "src" / "ottla"
PLUGINS: Final = CORE / "plugins"
CODECS: Final = ("gzip", "lz4", "snappy", "zstd")
CONTRACT: Final = {
    "ottla",
    "ottla.config.allow_lists",
    "ottla.errors",
    "ottla.hookspecs",
    "ottla.interfaces",
    "ottla.plugins.transports",
}

PARTITIONERS: Final = ("murmur2", "murmur2_random", "consistent", "consistent_random", "fnv1a", "fnv1a_random")
"""Built-in partitioners that share modules."""

SOURCES: Final[Mapping[str, Sequence[Path]]] = {
    "ottla-transport-plaintext": [ROOT / "packages" / "transport-plaintext" / "src"],
    "ottla-transport-ssl": [ROOT / "packages" / "transport-ssl" / "src"],
    "ottla-authenticator-sasl": [ROOT / "packages" / "authenticator-sasl" / "src"],
    "ottla-opentelemetry": [ROOT / "packages" / "opentelemetry" / "src"],
    "ottla-reporter-prometheus": [ROOT / "packages" / "reporter-prometheus" / "src"],
    "ottla-serializer-schema-registry": [ROOT / "packages" / "serializer-schema-registry" / "src"],
    "native": [ROOT / "packages" / "accel" / "src"],
    "python": [CORE / "recordbatch" / "objects.py"],
    **dict.fromkeys(PARTITIONERS, sorted((PLUGINS / "partitioners").glob("[!r_]*.py"))),
    "round_robin": [PLUGINS / "partitioners" / "round_robin.py"],
    **{name: [PLUGINS / "compressors" / f"{name}.py", PLUGINS / "compressors" / "codec_errors.py"] for name in CODECS},
    "bytes": [PLUGINS / "serializers" / "bytes.py"],
    "string": [PLUGINS / "serializers" / "string.py"],
    "json": [*sorted((PLUGINS / "serializers").glob("json*.py")), PLUGINS / "serializers" / "packed_columns.py"],
    **{
        name: [PLUGINS / "config_providers" / f"{name}.py", PLUGINS / "config_providers" / "allowed_paths.py"]
        for name in ("env", "directory", "file")
    },
}
"""The modules of each plugin, or of all plugins of a package."""

ABILITIES: Final = [
    each
    for each in vars(core_abilities).values()
    if isinstance(each, type) and each.__module__ == core_abilities.__name__
]

_CIMPORT: Final = re.compile(r"^\s*(?:from|import) (ottla(?:\.\w+)*)(?: import (\w+))?", re.MULTILINE)
_NAMED: Final = re.compile(r'"(ottla(?:\.\w+)+)"')


def section() -> str:
    return GUIDE.partition("## What only Ottla's own plugins use\n")[2].partition("\n## ")[0]


def table(heading: str) -> list[list[str]]:
    """The cells of the rows of a table of the section."""
    rows = section().partition(f"| plugin | {heading} | reason |\n|---|---|---|\n")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows.splitlines()]


def modules(plugin: str) -> Iterator[Path]:
    for source in SOURCES[plugin]:
        yield from (
            [source] if source.is_file() else [each for each in source.rglob("*.p[yx]*") if each.suffix != ".pyc"]
        )


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """Each imported module of the core, with the imported name."""
    text = path.read_text(encoding="utf-8")
    if path.suffix in (".pyx", ".pxd"):
        yield from _CIMPORT.findall(text)
        yield from ((name, "") for name in _NAMED.findall(text))
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", each.name) for each in node.names)


def module_of(imported: str, name: str) -> str:
    """The module from which *name* is: also `ottla.config.allow_lists` for `from ottla.config import allow_lists`."""
    path = CORE.parent.joinpath(*imported.split("."), f"{name}.py")
    return f"{imported}.{name}" if path.exists() else imported


def beyond_contract(plugin: str) -> set[str]:
    """The modules of the core that a plugin imports, without its own and those of the contract."""
    paths = list(modules(plugin))
    own = {".".join(each.relative_to(CORE.parent).with_suffix("").parts) for each in paths if CORE in each.parents}
    found = {module_of(imported, name) for path in paths for imported, name in imports(path)}
    return {each for each in found if each.partition(".")[0] == "ottla"} - own - CONTRACT


def test_each_plugin_of_ottla_is_checked() -> None:
    plugins: set[str] = set()
    for path in ROOT.glob("packages/*/pyproject.toml"):
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        groups = [names for group, names in project.get("entry-points", {}).items() if group.startswith("ottla.")]
        if groups:
            plugins |= {*chain(*groups)} if project["name"] in ("ottla", "ottla-accel") else {project["name"]}

    assert not plugins - SOURCES.keys(), "add the modules of each to SOURCES in this test"
    assert not SOURCES.keys() - plugins, "no package has an entry point for these"
    assert [plugin for plugin in SOURCES if not all(path.exists() for path in modules(plugin))] == []


def test_the_guide_names_the_modules_of_the_contract() -> None:
    [sentence] = re.findall(r"^The contract consists of .*?\. Everything else", GUIDE, re.MULTILINE | re.DOTALL)

    assert set(re.findall(r"`([\w.]+)`", sentence)) == CONTRACT


def test_own_plugins_import_only_the_contract_and_what_the_guide_names() -> None:
    named: dict[str, set[str]] = {}
    for plugin, beyond, _reason in table("modules beyond the contract"):
        for name in re.findall(r"`([\w-]+)`", plugin):
            named.setdefault(name, set()).update(re.findall(r"`([\w.]+)`", beyond))

    assert {plugin: found for plugin in SOURCES if (found := beyond_contract(plugin))} == named


def attributes(ability: type) -> set[str]:
    return {name for name in vars(ability) if not name.startswith("_")}


def test_the_guide_names_the_abilities_that_only_own_encoders_have() -> None:
    classes: dict[str, tuple[type, ...]] = {
        "python": (ObjectColumns, ObjectEncoder),
        "native": (NativeColumns, NativeEncoder),
    }
    found = []
    for ability in ABILITIES:
        plugins = [name for name, own in classes.items() if any(issubclass(each, ability) for each in own)]
        found.append((", ".join(f"`{name}`" for name in plugins), attributes(ability)))

    assert found == [(name, set(re.findall(r"`(\w+)`", has))) for name, has, _reason in table("what only it has")]
    assert [each for each in ABILITIES if not issubclass(each, ABC)] == []


@pytest.mark.parametrize("ability", ABILITIES)
def test_an_ability_of_own_encoders_is_in_no_public_interface(ability: type) -> None:
    public = {name for kind in vars(interfaces).values() if isinstance(kind, type) for name in vars(kind)}

    assert attributes(ability) & public == set()
