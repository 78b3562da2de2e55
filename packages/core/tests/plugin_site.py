"""Packages with plugins that are really installed, in a folder of a test's own on `sys.path`."""

from __future__ import annotations

import importlib
import itertools
import pathlib
import sys
import textwrap
from collections.abc import Iterator
from importlib.metadata import EntryPoint

import pytest

from ottla.plugins.registry import KINDS


class Site:
    """A directory on `sys.path` where packages get installed."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._modules = itertools.count()

    def install(
        self,
        source: str,
        *,
        dist: str = "acme",
        name: str = "first",
        kind: str = "partitioner",
        attr: str = "",
    ) -> str:
        """Install a distribution with one module and one entry point; the module's name."""
        module = f"ottla_test_{id(self)}_{next(self._modules)}"
        (self._path / f"{module}.py").write_text(textwrap.dedent(source))
        group = KINDS[kind].group  # type: ignore[index]
        self.install_metadata(dist, f"[{group}]\n{name} = {module}{attr}\n")
        return module

    def install_metadata(self, dist: str, entry_points: str, *, metadata: str | None = "1.0") -> None:
        info = self._path / f"{dist}-1.0.dist-info"
        info.mkdir()
        if metadata is not None:
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist}\nVersion: {metadata}\n")
        (info / "entry_points.txt").write_text(entry_points)
        importlib.invalidate_caches()

    def version(self, dist: str, version: str) -> None:
        """Change the version that a package's metadata has."""
        (self._path / f"{dist}-1.0.dist-info" / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {dist}\nVersion: {version}\n"
        )

    def has(self, entry: EntryPoint) -> bool:
        """Return whether a package of this folder announces the entry point."""
        return entry.dist is not None and pathlib.Path(str(entry.dist.locate_file(""))) == self._path


@pytest.fixture
def plugin_site(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A folder to install into; what is imported from it is forgotten at the end."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield Site(tmp_path)
    for module in set(sys.modules) - before:
        if module.startswith("ottla_test_"):
            del sys.modules[module]
