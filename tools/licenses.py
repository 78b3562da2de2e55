"""The licenses of all that our packages and their tests import: writes docs/licenses.md, or checks it.

python tools/licenses.py           writes the page
python tools/licenses.py --check   changes nothing; prints what is wrong, and ends with 1 if anything is

It reads the requirements of the packages and of the tests' environment, in which it runs, and the metadata of the
installed distributions with all their requirements. A license that is not allowed is an error, and so is one that is
not on the page. Lines for distributions of another Python or system stay on the page.
"""

from __future__ import annotations

import argparse
import configparser
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PAGE: Final = "docs/licenses.md"
TESTING: Final = "ottla-testkit"
"""A package of ours that only tests import."""

PERMISSIVE: Final = frozenset(
    (
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "CC0-1.0",
        "ISC",
        "MIT",
        "MIT-0",
        "PSF-2.0",
        "Unlicense",
        "Zlib",
    )
)
IN_TESTS: Final = PERMISSIVE | {"MPL-2.0"}
"""Licenses allowed for distributions that only tests import and no package requires."""

EXCEPTIONS: Final[Mapping[str, str]] = {"crc32c": "LGPL-2.1-or-later"}
"""Distributions allowed by name, each explained on the page."""

NOT_INSTALLED: Final[Mapping[str, tuple[str, Sequence[str]]]] = {
    "gssapi": ("ISC", ["decorator"]),
    "decorator": ("BSD-2-Clause", []),
    "pyjwt": ("MIT", ["cryptography"]),
}
"""Distributions that a test environment may lack, with license and requirements. gssapi needs system libraries."""

SPDX: Final[Mapping[str, str]] = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "CC0": "CC0-1.0",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
"""Metadata from before PEP 639, as SPDX."""

INTRODUCTION: Final = """\
# Licenses

Ottla's packages have the Apache License 2.0. This page lists the licenses of the packages that they import, and of
those that these require. Written by `python tools/licenses.py` from the packages' metadata; do not edit. `tox run -e
audit` and the tests check it: a new dependency fails them until it is on this page, and so does a license that is not
allowed. The jars that tests run (Apache Kafka, Apache License 2.0, and its dependencies) are fetched by each user and
not shipped.

## crc32c

crc32c computes the checksum of record batches. It is the only dependency of a package with a copyleft license:
LGPL-2.1-or-later. Programs that install it from a registry and import it, as Ottla does, leave it a package of its
own, which users can replace; the license asks nothing else of them. A bundle, such as a container image or a frozen
executable, contains a copy of crc32c: distribute its license and a way to its source with it, and let users exchange
the library. This is a summary, not legal advice.

ottla-accel has its own CRC-32C under the Apache License 2.0. Where ottla-accel is installed, crc32c is not imported,
and a bundle can leave it out; pip still installs it, as a requirement of `ottla`.
"""


@dataclass(frozen=True, order=True)
class Dependency:
    """An imported distribution: its license as SPDX, and whether packages import it or only tests."""

    name: str
    license: str
    tests_only: bool

    @property
    def allowed(self) -> bool:
        """Whether its license is allowed."""
        if EXCEPTIONS.get(self.name) == self.license:
            return True
        good = IN_TESTS if self.tests_only else PERMISSIVE
        choices = self.license.replace("(", "").replace(")", "").split(" OR ")
        return any(all(part in good for part in choice.split(" AND ")) for choice in choices)


def requirements(root: Path) -> tuple[list[Requirement], list[Requirement]]:
    """Return the requirements of our packages, with all extras, and those of tests only."""
    shipped: list[Requirement] = []
    tested: list[Requirement] = []
    for file in sorted([*root.glob("packages/*/pyproject.toml"), *root.glob("examples/*/pyproject.toml")]):
        project = tomllib.loads(file.read_text())["project"]
        optional = chain.from_iterable(project.get("optional-dependencies", {}).values())
        lines = [*project.get("dependencies", ()), *optional]
        is_test = project["name"] == TESTING or file.is_relative_to(root / "examples")
        (tested if is_test else shipped).extend(map(Requirement, lines))
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(root / "tox.ini")
    lines = tox["testenv:tests"]["deps"].splitlines()
    tested.extend(Requirement(line) for line in lines if line.strip() and not line.strip().startswith(("-", "#")))
    return shipped, tested


def closure(wanted: Iterable[Requirement]) -> Iterator[str]:
    """Yield the names of the requirements and of theirs, without our own packages."""
    seen: set[tuple[str, str]] = set()
    pending = [(requirement, "") for requirement in wanted]
    while pending:
        requirement, extra = pending.pop()
        name = canonicalize_name(requirement.name)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        for extra_name in (*requirement.extras, ""):
            if (name, extra_name) in seen:
                continue
            seen.add((name, extra_name))
            try:
                lines: Sequence[str] = metadata.requires(name) or []
            except metadata.PackageNotFoundError:
                lines = NOT_INSTALLED.get(name, ("", ()))[1]
            pending += [(Requirement(line), extra_name) for line in lines]
    return (name for name in sorted({name for name, _extra in seen}) if not name.startswith("ottla"))


def license_of(name: str) -> str:
    """Return the license as SPDX. Raises LookupError if it is unknown."""
    try:
        found = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return NOT_INSTALLED[name][0]
    classifiers = [line.rpartition(" :: ")[2] for line in found.get_all("Classifier") or () if line[:7] == "License"]
    for words in (*(found.get_all("License-Expression") or ()), *(found.get_all("License") or ()), *classifiers):
        spdx: str = SPDX.get(words.strip(), words.strip())
        if re.fullmatch(r"[\w.+() -]{2,80}", spdx):
            return spdx
    raise LookupError(name)


def dependencies(root: Path) -> tuple[list[Dependency], list[str]]:
    """Return all dependencies, and problems of those that are missing."""
    shipped, tested = requirements(root)
    imported = set(closure(shipped))
    found, problems = [], []
    for name in sorted(imported | set(closure(tested))):
        try:
            found.append(Dependency(name, license_of(name), name not in imported))
        except LookupError:
            problems.append(f"{name}: no license in its metadata; add it to tools/licenses.py when you know it")
    return found, problems


def page(found: Sequence[Dependency]) -> str:
    """Return the text of the page."""
    lines = [INTRODUCTION]
    for title, tests_only in (("Imported by packages", False), ("Imported by tests only", True)):
        lines.append(f"## {title}\n\n| package | license |\n|---|---|")
        lines += [f"| {each.name} | {each.license} |" for each in sorted(found) if each.tests_only is tests_only]
        lines.append("")
    return "\n".join(lines)


def read(text: str) -> list[Dependency]:
    """Return the dependencies that a page lists."""
    _introduction, _mark, tables = text.partition("## Imported by packages")
    shipped, _mark, tested = tables.partition("## Imported by tests only")
    row = re.compile(r"^\| (?!package )([\w.-]+) \| ([^|]+) \|$", re.MULTILINE)
    return [
        Dependency(name, spdx, tests_only)
        for part, tests_only in ((shipped, False), (tested, True))
        for name, spdx in row.findall(part)
    ]


def problems_of(root: Path) -> Iterator[str]:
    """Yield problems of the page, or of the installed distributions."""
    found, problems = dependencies(root)
    yield from problems
    yield from (f"{each.name}: its license {each.license} is not allowed here" for each in found if not each.allowed)
    text = (root / PAGE).read_text()
    listed = read(text)
    if missing := set(found) - set(listed):
        yield f"{PAGE} lacks {', '.join(each.name for each in sorted(missing))}: run python tools/licenses.py"
    if text != page(listed):
        yield f"{PAGE} was changed by hand: run python tools/licenses.py"
    named = {canonicalize_name(each.name) for group in requirements(root) for each in group}
    names = {each.name for each in found}
    if gone := sorted(each.name for each in listed if each.name not in names | named and _is_installed(each.name)):
        yield f"{PAGE} lists {', '.join(gone)}, which nothing requires any more: run python tools/licenses.py"


def _is_installed(name: str) -> bool:
    try:
        metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def main(arguments: Sequence[str]) -> int:
    """Write or check; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    options = parser.parse_args(arguments)
    if not options.check:
        found, _problems = dependencies(options.root)
        (options.root / PAGE).write_text(page(found))
    problems = list(problems_of(options.root))
    print(*problems, sep="\n", end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
