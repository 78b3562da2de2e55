"""The release of all packages under one version, up to the upload. The hosted release job runs the same commands.

python tools/release.py prepare 0.1.0           sets the version and moves the fragments into the changelog; then commit
python tools/release.py build v0.1.0 FOLDER     builds what is published for this tag, into FOLDER

`build` writes to FOLDER/dist the distributions, which tools/packages.py builds twice and tries; and to FOLDER
`notes.md`, the changes of this version; `sbom.cdx.json`, the distributions of an environment with our packages; and
`SHA256SUMS`. It publishes nothing, and the files are the same whenever it is run, except for new versions of what our
packages require in the second.
"""

from __future__ import annotations

import argparse
import datetime
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from release_files import SUMS, sums
from version import ROOT, differences, set_version, version_of

CHANGELOG: Final = ROOT / "CHANGELOG.md"
CITATION: Final = ROOT / "CITATION.cff"
FRAGMENTS: Final = ROOT / "changelog.d"
REPOSITORY: Final = "https://github.com/ottla/ottla"
BUILT: Final = frozenset({"dist", "notes.md", "sbom.cdx.json", SUMS, "work"})
"""What `build` writes to its folder; the last one until it ends."""
LONGEST_NOTES: Final = 120_000
"""Characters. GitHub refuses a release with more than 125,000, and would do so after the packages were published."""


class ReleaseError(Exception):
    """The tree cannot be released as it is; the message says why."""


def git(*arguments: str) -> str:
    """Return the output of a command of git."""
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def notes(changelog: str, version: str) -> str:
    """Return the section of a version in the changelog."""
    section = re.search(rf"(?ms)^## {re.escape(version)} \([^\n]*\n(.*?)(?=^## |\Z)", changelog)
    if section is None:
        raise ReleaseError(f"CHANGELOG.md has no section {version}: run python tools/release.py prepare {version}")
    return shortened(section[1].strip(), version) + "\n"


def shortened(changes: str, version: str) -> str:
    """Return the changes that fit into a release of GitHub, with a link to all if some do not fit."""
    if len(changes) <= LONGEST_NOTES:
        return changes
    kept = changes[: changes.rindex("\n- ", 0, LONGEST_NOTES)]
    return f"{kept}\n\nThis list is shortened. All changes: {REPOSITORY}/blob/v{version}/CHANGELOG.md"


def check(tag: str) -> str:
    """Return the version of this tag, if the tree is its commit, unchanged and prepared."""
    version = tag.removeprefix("v")
    if problems := list(differences(ROOT)):
        raise ReleaseError("; ".join(problems))
    if tag != f"v{version_of(ROOT)}":
        raise ReleaseError(f"{tag} is not the tag of version {version_of(ROOT)}, which the packages have")
    if git("rev-parse", "HEAD") != git("rev-parse", f"{tag}^{{commit}}"):
        raise ReleaseError(f"the checkout is not the commit of {tag}: run git checkout {tag}")
    if changed := git("status", "--porcelain"):
        raise ReleaseError(f"the checkout was changed:\n{changed}")
    if left := sorted(path.name for path in FRAGMENTS.glob("*.md")):
        raise ReleaseError(f"changelog.d still has {', '.join(left)}: run python tools/release.py prepare {version}")
    return version


def prepare(version: str) -> None:
    """Write version, changelog and date of a release to the tree."""
    set_version(ROOT, version)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    text = CITATION.read_text(encoding="utf-8")
    CITATION.write_text(re.sub(r"(?m)^date-released: .*$", f"date-released: {today}", text), encoding="utf-8")
    towncrier = ("towncrier", "build", "--yes", "--version", version, "--date", today)
    subprocess.run([sys.executable, "-m", *towncrier], cwd=ROOT, check=True)


def clear(folder: Path) -> None:
    """Remove what an earlier build has left. Raises ReleaseError for a folder that contains anything else."""
    if not folder.exists():
        return
    others = sorted({path.name for path in folder.iterdir()} - BUILT)
    if others:
        raise ReleaseError(
            f"{folder} contains {', '.join(others[:3])}, which no build has written: name another folder"
        )
    shutil.rmtree(folder)


def build(tag: str, folder: Path) -> None:
    """Build, try and describe what is published."""
    version = check(tag)
    changes = notes(CHANGELOG.read_text(encoding="utf-8"), version)
    clear(folder)
    work = folder / "work"
    work.mkdir(parents=True)
    subprocess.run([sys.executable, ROOT / "tools" / "packages.py", work], cwd=ROOT, check=True)
    (work / "dist").rename(folder / "dist")
    (folder / "notes.md").write_text(changes, encoding="utf-8")
    bill = (sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--output-format", "JSON")
    python = work / "environment" / "bin" / "python"
    subprocess.run([*bill, "--output-file", folder / "sbom.cdx.json", python], cwd=ROOT, check=True)
    shutil.rmtree(work)
    hashes = sums(folder)
    (folder / SUMS).write_text(hashes, encoding="utf-8")
    print(hashes, end="")


def main(arguments: list[str]) -> int:
    """Run a command; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("prepare").add_argument("version")
    building = commands.add_parser("build")
    building.add_argument("tag")
    building.add_argument("folder", type=Path)
    options = parser.parse_args(arguments)
    try:
        if options.command == "prepare":
            prepare(options.version)
        else:
            build(options.tag, options.folder.resolve())
    except ReleaseError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
