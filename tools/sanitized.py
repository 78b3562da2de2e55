"""Build ottla-accel with gcc's sanitizers, in a folder of its own, and run its tests with that build.

`python tools/sanitized.py FOLDER [PYTEST'S ARGUMENTS]`. A read or write outside of allocated memory, or of freed
memory, ends the run with a report. Tests that change buffers during reads last OTTLA_ATTACK_SECONDS each, a minute by
default.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
SANITIZERS: Final = "-fsanitize=address,undefined"
LIBRARIES: Final = ("libasan.so", "libubsan.so", "libstdc++.so.6")
"""Libraries that are loaded before Python, which was built without them."""

WITHOUT: Final = "not bounded_amount_of_memory"
"""The address sanitizer keeps freed memory for a while."""


def build(folder: Path) -> Path:
    """Build a copy of the package with instrumented extension modules; return the folder to import it from."""
    package = folder / "accel"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(
        ROOT / "packages" / "accel", package, ignore=shutil.ignore_patterns("*.so", "*.c", "build", "tests")
    )
    flags = {"CFLAGS": f"{SANITIZERS} -fno-sanitize-recover=undefined -g -O1", "LDFLAGS": SANITIZERS}
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    subprocess.run(command, cwd=package, env={**os.environ, **flags}, check=True)
    return package / "src"


def library(name: str) -> str:
    """Return the path of a gcc library."""
    found = subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def main(folder: Path, arguments: Sequence[str]) -> int:
    """Build and test; return pytest's exit code."""
    settings = {
        "PYTHONPATH": os.pathsep.join([str(build(folder)), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "LD_PRELOAD": " ".join(map(library, LIBRARIES)),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",  # Python frees little memory at exit
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
        "OTTLA_ATTACK_SECONDS": os.environ.get("OTTLA_ATTACK_SECONDS", "60"),
    }
    command = [sys.executable, "-m", "pytest", "packages/accel", "-k", WITHOUT, *arguments]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **settings}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
