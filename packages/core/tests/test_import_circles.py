"""No module of the packages imports itself through others, also not for types only or inside a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

pytestmark = pytest.mark.unmeasured

ROOT: Final = Path(__file__).resolve().parents[3]
SOURCES: Final = (*ROOT.glob("packages/*/src"), *ROOT.glob("examples/*/src"))


def modules_in(source: Path) -> Iterator[tuple[str, Path]]:
    for path in source.rglob("*.py"):
        parts = path.relative_to(source).with_suffix("").parts
        yield ".".join(parts[:-1] if path.name == "__init__.py" else parts), path


def imported_by(name: str, path: Path) -> Iterator[str]:
    """The modules, and the names in them, that a file imports anywhere."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{origin}.{each.name}" for each in node.names)


def graph_of(modules: Mapping[str, Path]) -> dict[str, set[str]]:
    """The modules that each module imports; a name of a package is an import of its `__init__`."""
    graph: dict[str, set[str]] = {}
    for name, path in modules.items():
        imported = (each if each in modules else each.rpartition(".")[0] for each in imported_by(name, path))
        graph[name] = {each for each in imported if each in modules and each != name}
    return graph


def circle_in(graph: Mapping[str, set[str]]) -> list[str]:
    """The modules of one circle, in the order of their imports, or nothing."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_imports_itself_through_others() -> None:
    modules = dict(pair for source in SOURCES for pair in modules_in(source))

    assert modules
    assert circle_in(graph_of(modules)) == []


@pytest.mark.parametrize(
    "second",
    [
        "from circular.first import A",
        "import circular.first",
        "from circular import first",
        "from . import first",
        "from .first import A",
        "if TYPE_CHECKING:\n    from circular.first import A",
        "def later():\n    from circular.first import A",
    ],
)
def test_every_form_of_an_import_is_part_of_a_circle(tmp_path: Path, second: str) -> None:
    package = tmp_path / "circular"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "first.py").write_text("from circular.second import B\n")
    (package / "second.py").write_text(f"{second}\n")

    assert set(circle_in(graph_of(dict(modules_in(tmp_path))))) == {"circular.first", "circular.second"}
