"""`python -m ottla_testkit.pin_jars [VERSION ...]` prints the SHA-512 of jars, as `sha512sum` does.

It fetches into a temporary folder, by Maven and by Ivy where both are available, because they may resolve different
versions. Without a version, these are all jars that the package pins. The digests are of the files that the registry
serves now: compare them with those of another network before you rely on them.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ottla_testkit.java import spark_sink
from ottla_testkit.java.download import Artifact, Route, fetch_by_ivy, fetch_by_maven
from ottla_testkit.java.jar_digests import digest_of
from ottla_testkit.java.jars import KAFKA_VERSION, broker_artifacts
from ottla_testkit.kafka_cluster import identity_server

VERSIONS: Final = ("0.10.2.2", "0.11.0.3", "1.1.1", "2.0.1", "2.8.2", "3.9.1", KAFKA_VERSION)
"""Broker versions whose jars the package pins."""


def routes() -> Iterator[Route]:
    """Yield the download routes that are available on this machine."""
    if shutil.which("mvn"):
        yield fetch_by_maven
    if find_spec("pyspark"):
        yield fetch_by_ivy


def digests(sets: Sequence[Sequence[Artifact]], *, by: Sequence[Route]) -> Mapping[str, str]:
    """Return the digests of these artifacts and their dependencies, by the jar's name.

    Raises ValueError where two routes disagree.
    """
    found: dict[str, str] = {}
    for route in by:
        for artifacts in sets:
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch, "jars")
                folder.mkdir()
                route(artifacts, folder=folder, scratch=Path(scratch))
                for jar in sorted(folder.glob("*.jar")):
                    digest = digest_of(jar)
                    if found.setdefault(jar.name, digest) != digest:
                        raise ValueError(f"two files are called {jar.name}: {found[jar.name]} and {digest}")
    return found


def main(arguments: Sequence[str]) -> None:
    """Print a line for each jar: its digest and its name."""
    parser = argparse.ArgumentParser(prog="python -m ottla_testkit.pin_jars", description=__doc__)
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="a Kafka version, such as 4.2.0")
    versions = parser.parse_args(arguments).versions
    sets = [broker_artifacts(version) for version in versions or VERSIONS]
    if not versions:
        sets += [[identity_server.SERVER], list(spark_sink.ARTIFACTS)]
    for name, digest in sorted(digests(sets, by=list(routes())).items()):
        print(f"{digest}  {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
