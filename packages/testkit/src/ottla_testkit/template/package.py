"""A new plugin package, created from templates: the folder `every`, and the folder of the plugin's kind.

Their files end in `.in`, so that no tool treats them as Python; `@WORDS@` in them, and in their paths, are filled in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

import attrs

from ottla.plugins.registry import KINDS, KindName
from ottla.version import __version__

_EVERY: Final = "every"
_SUFFIX: Final = ".in"
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*([-_][A-Za-z0-9]+)*")
_LONGEST: Final = 24
_LONGEST_MECHANISM: Final = 20
_WORD: Final = re.compile(r"@[A-Z]+@")


@attrs.frozen(kw_only=True)
class Package:
    """A package with one plugin. Created by `named`."""

    kind: KindName
    name: str

    @classmethod
    def named(cls, kind: KindName, name: str) -> Package:
        """Create a package for a plugin that configurations select by this name. Raises ValueError for a wrong name."""
        longest = _LONGEST_MECHANISM if kind == "authenticator" else _LONGEST
        if not _NAME.fullmatch(name) or len(name) > longest:
            raise ValueError(
                f"{name!r} is not a valid plugin name; use up to {longest} letters and digits, beginning with a "
                "letter, with single hyphens or underscores between them"
            )
        # RFC 4422: the names of mechanisms are in upper case.
        return cls(kind=kind, name=name.upper() if kind == "authenticator" else name)

    @property
    def distribution(self) -> str:
        """The name for `pip install`."""
        return f"ottla-{self.kind.replace('_', '-')}-{self._plain('-')}"

    @property
    def module(self) -> str:
        """The name of the Python module."""
        return f"ottla_{self.kind}_{self._plain('_')}"

    def write(self, folder: Path) -> Path:
        """Write the package and return its folder. FileExistsError unless it is new or empty: no overwrites."""
        if folder.exists() and any(folder.iterdir()):
            raise FileExistsError(f"{folder} exists and is not empty; name another folder with --directory")
        words = self._words()
        for path, text in self._files():
            target = folder / _filled(path, words)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(_filled(text, words), encoding="utf-8")
        return folder

    def _files(self) -> Iterator[tuple[str, str]]:
        for part in (_EVERY, self.kind):
            yield from _below(files("ottla_testkit.template") / part)

    def _words(self) -> Mapping[str, str]:
        return {
            "@KIND@": self.kind,
            "@AKIND@": _article(self.kind),
            "@NAME@": self.name,
            "@DISTRIBUTION@": self.distribution,
            "@MODULE@": self.module,
            "@CLASS@": "".join(part.capitalize() for part in re.split("[-_]", self.name)),
            "@KEY@": self._plain("."),
            "@GROUP@": KINDS[self.kind].group,
            "@VERSION@": __version__,
        }

    def _plain(self, between: str) -> str:
        return re.sub("[-_]", between, self.name.lower())


def _below(folder: Traversable, path: str = "") -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _below(entry, f"{path}{entry.name}/")
        elif entry.name.endswith(_SUFFIX):
            yield path + entry.name.removesuffix(_SUFFIX), entry.read_text(encoding="utf-8")


def _filled(text: str, words: Mapping[str, str]) -> str:
    return _WORD.sub(lambda word: words[word[0]], text)


def _article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
