"""Builds the distributions of all packages as they are published, and checks them, on Linux.

`python tools/packages.py FOLDER` builds a source distribution of each package, and from it a wheel, into FOLDER/dist.
It does so twice, and compares the hashes. Then it checks their metadata and files, and tries the wheels
(tools/try_wheels.py). Ends with the hashes, the sizes, and the processor time of importing a producer.
"""

from __future__ import annotations

import gzip
import hashlib
import shutil
import statistics
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from try_wheels import clean_environment, run, send_a_record

ROOT: Final = Path(__file__).parent.parent
PACKAGES: Final = (
    "core",
    "transport-plaintext",
    "transport-ssl",
    "authenticator-sasl",
    "opentelemetry",
    "reporter-prometheus",
    "serializer-schema-registry",
    "accel",
    "testkit",
    "spark",
)
IGNORED: Final = "W009"
"""Of check-wheel-contents: several packages in one wheel. ottla-spark has the one that Spark looks for, too."""

IMPORT: Final = (
    "import time; begun = time.process_time(); from ottla import Producer; print(time.process_time() - begun)"
)
"""With a name: `import ottla` alone imports no part of a producer."""
IMPORTS: Final = 9


def time_of_commit() -> int:
    """The time that the files of all archives get, in seconds since 1970."""
    return int(run("git", "log", "-1", "--format=%ct", cwd=ROOT))


def build(folder: Path, moment: int) -> None:
    """Build all distributions into *folder*, each wheel from its source distribution."""
    shutil.rmtree(folder, ignore_errors=True)
    settings = {
        "SOURCE_DATE_EPOCH": str(moment),
        "CFLAGS": "-g0",  # debugging symbols would have the names of temporary folders
    }
    for name in PACKAGES:
        source = ROOT / "packages" / name
        run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, source, environment=settings)
    for archive in folder.glob("*.tar.gz"):
        set_times(archive, moment)
    for wheel in folder.glob("*-linux_*.whl"):
        command = (sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", folder, wheel)
        run(*command, environment=settings)
        wheel.unlink()


def set_times(archive: Path, moment: int) -> None:
    """Write the archive with this time, and without the names of users: setuptools leaves those of this machine."""
    made = archive.with_suffix(".made")
    with (
        tarfile.open(archive) as old,
        made.open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=moment) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = moment, 0, 0, "", ""
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    made.replace(archive)


def hashes(folder: Path) -> dict[str, str]:
    """The SHA-256 of each distribution."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def check(dist: Sequence[Path]) -> None:
    """Check metadata, long descriptions, and the files of wheels."""
    run(sys.executable, "-m", "twine", "check", "--strict", *dist)
    wheels = [path for path in dist if path.suffix == ".whl"]
    run(sys.executable, "-m", "check_wheel_contents", "--ignore", IGNORED, *wheels)


def import_times(python: Path, cwd: Path) -> Sequence[float]:
    """Return the processor seconds of imports of a producer, the shortest first. Other programs may lengthen some."""
    return sorted(float(run(python, "-c", IMPORT, cwd=cwd)) for _ in range(IMPORTS))


def main(folder: Path) -> None:
    """Build, compare, check and use the distributions."""
    moment, dist, second = time_of_commit(), folder / "dist", folder / "second"
    build(dist, moment)
    build(second, moment)
    made, again = hashes(dist), hashes(second)
    if made != again:
        different = sorted(name for name in made.keys() | again.keys() if made.get(name) != again.get(name))
        sys.exit(f"two builds differ: {', '.join(different)}; compare {dist} and {second}")
    check(sorted(dist.iterdir()))
    python = clean_environment(folder / "environment", dist)
    print(send_a_record(python, folder))
    for name, digest in made.items():
        print(f"{digest}  {name}  {(dist / name).stat().st_size:,} bytes")
    times = import_times(python, folder)
    shortest, median = 1000 * times[0], 1000 * statistics.median(times)
    print(
        f"from ottla import Producer: {shortest:.0f} ms of processor time, median {median:.0f} ms, of {IMPORTS} imports"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
