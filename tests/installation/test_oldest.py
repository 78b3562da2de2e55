"""`tox run -e oldest` tests what our packages say they work with: the versions of its list are their lower bounds."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator

from installation.clean_environment import ROOT
from packaging.requirements import Requirement
from packaging.version import Version

NOT_TRIED = {
    "gssapi": "it is built from source, against the system's Kerberos",
    "pandas": "only PySpark looks for it, and names the oldest that it takes",
    "pyspark": "`tox run -e spark35` tests its oldest",
}


def needed() -> Iterator[Requirement]:
    for path in (ROOT / "packages").glob("*/pyproject.toml"):
        project = tomllib.loads(path.read_text())["project"]
        for group in (project["dependencies"], *project.get("optional-dependencies", {}).values()):
            yield from map(Requirement, group)


def test_the_oldest_tested_versions_are_the_oldest_allowed() -> None:
    lowest: dict[str, Version] = {}
    for one in needed():
        if one.name.startswith("ottla"):
            continue  # installed from this tree, which is the only version that our packages allow
        for bound in one.specifier:
            # Of two packages that need the same, the stricter one decides what both can be tested with.
            lowest[one.name] = max(lowest.get(one.name, Version("0")), Version(bound.version))
    tried = {}
    for line in (ROOT / "tests" / "installation" / "oldest.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            pinned = Requirement(line)
            [exactly] = pinned.specifier
            tried[pinned.name] = Version(exactly.version)

    assert tried == {name: version for name, version in lowest.items() if name not in NOT_TRIED}
