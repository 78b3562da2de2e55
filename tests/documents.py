"""The blocks of code in our documents, and what a comment before a block says about running it.

    <!-- block: given producer; ends 1; with `5` for `500`; continues -->
    <!-- block: compiled, the reason -->
    <!-- block: not run, the reason -->

Without a comment a block stands for itself. `given` names what the block leaves to its surroundings, `ends` the exit
code of its commands, `with` replaces text before the block is run, and `continues` goes on where the last block of the
page ended. Readers do not see such comments.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs

ROOT: Final = Path(__file__).resolve().parents[1]
PAGES: Final = ("*.md", "docs/**/*.md", "packages/*/README.md", "examples/*/README.md", "benchmarks/*.md", "demo/*.md")

_FENCE: Final = re.compile(
    r"(?ms)^(?P<indent> *)(?P<fence>```+)(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)(?P=fence) *$"
)
_COMMENT: Final = re.compile(r"<!-- block: (?P<says>[^\n]*?) -->\s*\Z")
_INSTEAD: Final = re.compile(r"with `(?P<new>[^`]*)` for `(?P<old>[^`]*)`")
_ANY_COMMENT: Final = re.compile(r"(?m)^ *<!-- block:")


@attrs.frozen(kw_only=True)
class Block:
    """One block: where it stands, what it says, and how it wants to be run."""

    page: str
    line: int
    language: str
    text: str
    says: str = ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def runs(self) -> bool:
        """Whether it is run at all."""
        return not self.says.startswith(("compiled", "not run"))

    @property
    def compiled(self) -> bool:
        """Whether it must at least be valid."""
        return not self.says.startswith("not run")

    @property
    def reason(self) -> str:
        """Why it is not run."""
        return "" if self.runs else self.says.partition(",")[2].strip()

    @property
    def continues(self) -> bool:
        return "continues" in self._parts()

    @property
    def given(self) -> Sequence[str]:
        """What it takes from its surroundings."""
        found = [part.removeprefix("given ") for part in self._parts() if part.startswith("given ")]
        return [name.strip() for part in found for name in part.split(",")]

    @property
    def exit_code(self) -> int:
        return next((int(part.removeprefix("ends ")) for part in self._parts() if part.startswith("ends ")), 0)

    @property
    def program(self) -> str:
        """The text as it is run."""
        text = self.text
        for instead in _INSTEAD.finditer(self.says):
            assert instead["old"] in text, f"{self}: {instead['old']!r} is not in the block"
            text = text.replace(instead["old"], instead["new"])
        return text

    def _parts(self) -> Sequence[str]:
        return [part.strip() for part in self.says.split(";")] if self.runs else []


def pages() -> Sequence[Path]:
    """Every document of the repository."""
    return sorted({path for pattern in PAGES for path in ROOT.glob(pattern)})


def blocks(path: Path) -> Iterator[Block]:
    """The blocks of a page in their order."""
    text = path.read_text(encoding="utf-8")
    page = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    end = noted = 0
    for fence in _FENCE.finditer(text):
        comment = _COMMENT.search(text[end : fence.start()])
        noted += comment is not None
        end = fence.end()
        yield Block(
            page=page,
            line=text.count("\n", 0, fence.start()) + 2,
            language=fence["language"],
            text=textwrap.dedent(fence["text"]),
            says=comment["says"].strip() if comment else "",
        )
    if noted != len(_ANY_COMMENT.findall(text)) - len(_quoted_comments(text)):
        raise ValueError(f"{page} has a comment about a block that does not stand right before one")


def chains(path: Path, language: str) -> Iterator[Sequence[Block]]:
    """The blocks of one language that are to be run, each with those that continue it."""
    chain: list[Block] = []
    for block in blocks(path):
        if block.language != language or not block.runs:
            continue
        if chain and not block.continues:
            yield chain
            chain = []
        chain.append(block)
    if chain:
        yield chain


def _quoted_comments(text: str) -> Sequence[str]:
    """Comments inside of blocks, which show how such comments are written."""
    return [each for fence in _FENCE.finditer(text) for each in _ANY_COMMENT.findall(fence["text"])]
