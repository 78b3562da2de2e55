"""Check all types with mypy: the packages and examples, their tests, and everything else.

These are four runs, because modules of the second, third and fourth have the same names. Two more check the packages
and examples as on Windows and on macOS, where Python lacks some functions.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent

OTHER_SYSTEMS: Final = ("win32", "darwin")


def runs() -> Iterator[Sequence[str]]:
    """Yield the arguments of each run."""
    parts = sorted([*ROOT.glob("packages/*"), *ROOT.glob("examples/*")])
    sources, tests = (
        [str((part / folder).relative_to(ROOT)) for part in parts if (part / folder).is_dir()]
        for folder in ("src", "tests")
    )
    yield sources
    for system in OTHER_SYSTEMS:
        yield ["--platform", system, "--cache-dir", f".mypy_cache/{system}", *sources]
    yield tests
    yield ["tests", "demo", "benchmarks", "tools"]
    yield ["conftest.py"]


def main() -> int:
    """Return 0 if mypy finds nothing."""
    return max(subprocess.run([sys.executable, "-m", "mypy", *run], cwd=ROOT, check=False).returncode for run in runs())


if __name__ == "__main__":
    sys.exit(main())
