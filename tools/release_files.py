"""The files that a release publishes, and their hashes in SHA256SUMS.

python tools/release_files.py FOLDER WHEELS     adds to a built release the wheels that other systems have built

FOLDER is what `tools/release.py build` wrote. Its files must still have the hashes of SHA256SUMS. From WHEELS come only
wheels of ottla-accel in the version of the release. A wheel that FOLDER has already stays: its build can be repeated.
Needs nothing but Python, because the hosted job that runs it decides which files are published.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
from pathlib import Path
from typing import Final

SUMS: Final = "SHA256SUMS"


class ReleaseFilesError(Exception):
    """The files are not those of one release; the message says which file, and why."""


def sums(folder: Path) -> str:
    """Return the lines of SHA256SUMS for the other files of a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / SUMS)
    return "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}\n" for path in files
    )


def version_of_core(dist: Path) -> str:
    """Return the version of the wheel of the core among these distributions."""
    wheels = list(dist.glob("ottla-*.whl"))
    if len(wheels) != 1:
        raise ReleaseFilesError(f"{dist} has {len(wheels)} wheels of ottla and not one; build the release again")
    return wheels[0].name.split("-")[1]


def gather(folder: Path, wheels: Path) -> None:
    """Add wheels of other systems to a built release, and write its hashes."""
    expected = (folder / SUMS).read_text(encoding="utf-8")
    if different := set(expected.splitlines()) ^ set(sums(folder).splitlines()):
        names = sorted({line.split("  ", 1)[-1] for line in different})
        raise ReleaseFilesError(f"not the files of {SUMS}: {', '.join(names)}; build the release again")
    version = version_of_core(folder / "dist")
    for wheel in sorted(path for path in wheels.rglob("*") if path.is_file()):
        if not re.fullmatch(rf"ottla_accel-{re.escape(version)}-cp\d+-cp\d+-[\w.]+\.whl", wheel.name):
            raise ReleaseFilesError(f"{wheel.name} is not a wheel of ottla-accel {version}; nothing else is added")
        if not (folder / "dist" / wheel.name).exists():
            shutil.copy(wheel, folder / "dist")
    (folder / SUMS).write_text(sums(folder), encoding="utf-8")


def main(folder: str, wheels: str) -> int:
    """Gather, and print the hashes; return the exit code."""
    try:
        gather(Path(folder), Path(wheels))
    except ReleaseFilesError as problem:
        print(problem, file=sys.stderr)
        return 1
    print((Path(folder) / SUMS).read_text(encoding="utf-8"), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
