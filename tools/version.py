"""The one version of all packages, which are released together: prints it, or sets it.

python tools/version.py            prints the version; ends with 1 if a file has another
python tools/version.py 0.2.0      sets it in all files that have it

The version of the core is the one that the others are compared with.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from packaging.version import Version

ROOT: Final = Path(__file__).resolve().parent.parent
CORE: Final = "packages/core/src/ottla/version.py"
PLACES: Final = (
    (CORE, r'(?m)^__version__ = "([^"]+)"'),
    ("packages/*/src/ottla_*/__init__.py", r'(?m)^__version__ = "([^"]+)"'),
    # Requirements of exactly this version: of accel and spark, and those of extras.
    ("packages/*/pyproject.toml", r'"ottla[a-z-]*(?:\[\w+\])?==([^"]+)"'),
    ("CITATION.cff", r"(?m)^version: (\S+)$"),
)
"""Patterns of files, and what has the version there."""


def found(root: Path) -> Iterator[tuple[str, str]]:
    """Yield each file with a version, and the version."""
    for pattern, expression in PLACES:
        for path in sorted(root.glob(pattern)):
            for match in re.finditer(expression, path.read_text(encoding="utf-8")):
                yield path.relative_to(root).as_posix(), match[1]


def version_of(root: Path) -> str:
    """Return the version of the core."""
    return dict(found(root))[CORE]


def differences(root: Path) -> Iterator[str]:
    """Yield a sentence for each file with another version than the core."""
    core = version_of(root)
    yield from (f"{path} has version {version}, the core {core}" for path, version in found(root) if version != core)


def set_version(root: Path, version: str) -> None:
    """Write the version to all files that have it."""

    def replaced(match: re.Match[str]) -> str:
        start, end = match.start(1) - match.start(), match.end(1) - match.start()
        return match[0][:start] + version + match[0][end:]

    for pattern, expression in PLACES:
        for path in sorted(root.glob(pattern)):
            text = path.read_text(encoding="utf-8")
            if (changed := re.sub(expression, replaced, text)) != text:
                path.write_text(changed, encoding="utf-8")


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Print or set; return the exit code."""
    if arguments:
        set_version(root, str(Version(arguments[0])))
    problems = list(differences(root))
    print(*problems or [version_of(root)], sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
