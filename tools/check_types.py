"""Check all types with mypy: the packages and examples, their tests, and everything else.

These are four runs, because modules of the second, third and fourth have the same names.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent


def runs() -> Iterator[Sequence[str]]:
    """Yield the files and folders of each run."""
    parts = sorted([*ROOT.glob("packages/*"), *ROOT.glob("examples/*")])
    for folder in ("src", "tests"):
        yield [str((part / folder).relative_to(ROOT)) for part in parts if (part / folder).is_dir()]
    yield ["tests", "demo", "benchmarks", "tools"]
    yield ["conftest.py"]


def main() -> int:
    """Return 0 if mypy finds nothing."""
    return max(subprocess.run([sys.executable, "-m", "mypy", *run], cwd=ROOT, check=False).returncode for run in runs())


if __name__ == "__main__":
    sys.exit(main())
