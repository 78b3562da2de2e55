"""Check the types of programs in the pages about asyncio and services, with mypy --strict and pyright.

Each block of Python becomes a module in build/page-programs. The block of a section is also a module with a name that
other blocks import (`MODULES`).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from documents import Block, blocks  # noqa: E402  # found on the line above

PAGES: Final = ("docs/asyncio.md", "docs/web-applications.md", "docs/shutting-down.md")
MODULES: Final[Mapping[str, str]] = {"flask.Flask(__name__)": "shop"}
"""The name of a module, by what its block contains."""


def programs() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each module."""
    for page in PAGES:
        for block in blocks(ROOT / page):
            if block.language == "python" and not _depends_on_others(block):
                yield f"{Path(page).stem.replace('-', '_')}_{block.line}", block.text
                yield from ((name, block.text) for text, name in MODULES.items() if text in block.text)


def _depends_on_others(block: Block) -> bool:
    return bool(block.given) or block.continues or not block.compiled


def main() -> int:
    """Write the modules and return 0 if both checkers find nothing."""
    folder = ROOT / "build" / "page-programs"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.py"):
        old.unlink()
    for name, text in programs():
        (folder / f"{name}.py").write_text(text)
    (folder / "pyrightconfig.json").write_text("{}\n")
    (folder / "mypy.ini").write_text("[mypy]\nstrict = True\n")
    checkers = (["mypy", "--config-file", "mypy.ini", "."], ["pyright", "--pythonpath", sys.executable, "."])
    codes = [subprocess.run([sys.executable, "-m", *each], cwd=folder, check=False).returncode for each in checkers]
    return int(any(codes))  # the code of a checker that a signal ended is below 0


if __name__ == "__main__":
    sys.exit(main())
