"""Download of jars by Maven, or by the Ivy that PySpark contains.

Each route puts artifacts and their dependencies into a folder, or raises `KafkaUnavailableError`; neither caches. Where
a dependency names another version of a requested artifact, the requested version is used.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import attrs

from ottla_testkit.errors import KafkaUnavailableError, tail
from ottla_testkit.java.runtime import java_command

DEADLINE = 600.0  # seconds for one command

_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>ottla</groupId><artifactId>kafka-jars</artifactId><version>1</version>
  <dependencies>{dependencies}</dependencies>
</project>
"""
_IVY = """\
<ivy-module version="2.0">
  <info organisation="ottla" module="kafka-jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>{dependencies}</dependencies>
</ivy-module>
"""
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


@attrs.frozen(kw_only=True)
class Artifact:
    """An artifact to download; `alone` means without its dependencies."""

    group: str
    name: str
    version: str
    alone: bool = False


class Route(Protocol):
    """Put the artifacts' jars into `folder`; keep files for a later attempt in `scratch`."""

    def __call__(self, artifacts: Sequence[Artifact], *, folder: Path, scratch: Path) -> None: ...


def choose_route() -> Route:
    """Return Maven where it is installed, else Ivy."""
    return fetch_by_maven if shutil.which("mvn") else fetch_by_ivy


def fetch_by_maven(artifacts: Sequence[Artifact], *, folder: Path, scratch: Path) -> None:
    """Download with `mvn`, with the user's own settings and local repository."""
    pom = scratch / "pom.xml"
    pom.write_text(_POM.format(dependencies="".join(_pom_dependency(artifact) for artifact in artifacts)))
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}", "-DincludeScope=runtime"]
    _run(["mvn", "--batch-mode", "--quiet", "--file", str(pom), *goal])


def fetch_by_ivy(artifacts: Sequence[Artifact], *, folder: Path, scratch: Path) -> None:
    """Download with the Ivy among PySpark's jars; needs Java and PySpark, but not Maven."""
    module = scratch / "ivy.xml"
    module.write_text(_IVY.format(dependencies="".join(_ivy_dependency(artifact) for artifact in artifacts)))
    pattern = f"{folder}/[artifact]-[revision](-[classifier]).[ext]"
    ivy = ["-cp", str(_ivy_jar()), "org.apache.ivy.Main", "-cache", str(scratch / "ivy"), "-ivy", str(module)]
    _run([java_command(), *ivy, "-confs", "default", "-retrieve", pattern])


def _pom_dependency(artifact: Artifact) -> str:
    return (
        f"<dependency><groupId>{artifact.group}</groupId><artifactId>{artifact.name}</artifactId>"
        f"<version>{artifact.version}</version>{_ALONE if artifact.alone else ''}</dependency>"
    )


def _ivy_dependency(artifact: Artifact) -> str:
    return (
        f'<dependency org="{artifact.group}" name="{artifact.name}" rev="{artifact.version}" force="true"'
        f' transitive="{str(not artifact.alone).lower()}" conf="default->default"/>'
    )


def _ivy_jar() -> Path:
    pyspark = importlib.util.find_spec("pyspark")
    for place in (pyspark.submodule_search_locations or ()) if pyspark else ():
        for jar in sorted(Path(place, "jars").glob("ivy-*.jar")):
            return jar
    found = "PySpark is installed without its jars" if pyspark else "PySpark is not installed"
    raise KafkaUnavailableError(
        f"Kafka's jars cannot be downloaded: there is no `mvn` on PATH, and {found}; install one of the two"
    )


def _run(command: Sequence[str]) -> None:
    try:
        ran = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", timeout=DEADLINE, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise KafkaUnavailableError(f"could not download Kafka's jars: {error}") from error
    if ran.returncode:
        raise KafkaUnavailableError(
            f"could not download Kafka's jars; check the network, or configure a mirror in Maven's settings\n"
            f"ran: {' '.join(command)}\nexit code {ran.returncode}, it printed:\n{tail(ran.stdout)}"
        )
