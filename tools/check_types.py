"""Check all types with mypy: the packages and examples, their tests, and everything else.

These are four runs, because modules of the second, third and fourth have the same names. With `--other-systems`, two
other runs check the packages and examples as on Windows and on macOS, where Python lacks some functions. They leave out
large libraries, whose types the first run has checked: mypy would analyse each of them again for each system.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent

OTHER_SYSTEMS: Final = ("win32", "darwin")
CACHE: Final = ROOT / ".mypy_cache"
LARGE: Final = (
    "cryptography",
    "fastavro",
    "google",
    "h11",
    "jsonschema_rs",
    "markdown_it",
    "numpy",
    "opentelemetry",
    "pandas",
    "prometheus_client",
    "pyspark",
    "rich",
)
"""Libraries that are the same on all systems. They are of type Any for the other systems."""

LEFT_OUT: Final = f"""
[[tool.mypy.overrides]]
module = {[f"{library}.*" for library in LARGE]}
follow_imports = "skip"
follow_imports_for_stubs = true
"""
WITH_ANY: Final = (
    "--allow-subclassing-any",
    "--allow-untyped-decorators",
    "--no-warn-return-any",
    "--no-warn-unused-ignores",
)
"""Leave out what would be reported of a library that is left out."""


def runs() -> Iterator[Sequence[str]]:
    """Yield the arguments of each run for this system."""
    yield folders("src")
    yield folders("tests")
    yield ["tests", "demo", "benchmarks", "tools"]
    yield ["conftest.py"]


def runs_for_other_systems() -> Iterator[Sequence[str]]:
    """Yield the arguments of each run for another system."""
    settings = settings_of_other_systems()
    for system in OTHER_SYSTEMS:
        cache = str(CACHE / system)
        yield ["--config-file", settings, "--platform", system, "--cache-dir", cache, *WITH_ANY, *folders("src")]


def folders(name: str) -> Sequence[str]:
    """Return the folders with this name of all packages and examples."""
    parts = sorted([*ROOT.glob("packages/*"), *ROOT.glob("examples/*")])
    return [str((part / name).relative_to(ROOT)) for part in parts if (part / name).is_dir()]


def settings_of_other_systems() -> str:
    """Write the project's settings of mypy without the large libraries; return the path of the file."""
    CACHE.mkdir(exist_ok=True)
    file = CACHE / "other_systems.toml"
    file.write_text((ROOT / "pyproject.toml").read_text("utf-8") + LEFT_OUT, "utf-8")
    return str(file)


def main(arguments: Sequence[str]) -> int:
    """Return 0 if mypy finds nothing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--other-systems", action="store_true", help="check as on Windows and on macOS instead")
    chosen = runs_for_other_systems() if parser.parse_args(arguments).other_systems else runs()
    codes = [subprocess.run([sys.executable, "-m", "mypy", *run], cwd=ROOT, check=False).returncode for run in chosen]
    return int(any(codes))  # the code of a run that a signal ended is below 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
