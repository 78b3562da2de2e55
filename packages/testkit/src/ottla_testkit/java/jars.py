"""Jars of a Kafka broker, and the cache where they are kept.

A folder in the cache is complete or absent: jars are fetched into a temporary folder that is renamed at the end. Java
runs no jar whose digest differs from the pinned one (`jar_digests`), whether fetched now or cached before. `download`
fetches them.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ottla_testkit.errors import KafkaUnavailableError
from ottla_testkit.java.download import Artifact, Route, choose_route
from ottla_testkit.java.jar_digests import verify
from ottla_testkit.java.release import Release, release

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

KAFKA_VERSION = "4.3.0"
CACHE_VARIABLE = "OTTLA_KAFKA_CACHE"
DUMPER_APART: Release = (4, 3)  # from here on DumpLogSegments is not in the broker's jar but in kafka-tools
TRIES = 3  # registries hiccup


def kafka_jars(
    version: str = KAFKA_VERSION,
    *,
    cache: Path | None = None,
    route: Route | None = None,
    pause: float = 2.0,
    digests: Mapping[str, str] | None = None,
) -> Path:
    """Return the folder of a broker's jars; the first call fetches them, which takes from seconds to a minute.

    `cache` overrides OTTLA_KAFKA_CACHE and `~/.cache/ottla/kafka`; `pause` is the wait between attempts, in seconds.
    `digests` maps the names of the jars to their SHA-512, by default the pinned ones. Raises `KafkaUnavailableError`,
    and `JarDigestError` for a jar that differs from the pinned one.
    """
    return fetched_jars(version, broker_artifacts(version), cache=cache, route=route, pause=pause, digests=digests)


def fetched_jars(
    name: str,
    artifacts: Sequence[Artifact],
    *,
    cache: Path | None = None,
    route: Route | None = None,
    pause: float = 2.0,
    digests: Mapping[str, str] | None = None,
) -> Path:
    """Return the cache's folder `name` with these artifacts and their dependencies; the first call fetches them."""
    root = cache or cache_folder()
    target = root / name
    if target.is_dir():
        verify(target, digests=digests)
        return target
    root.mkdir(parents=True, exist_ok=True)
    with _alone(root):
        if not target.is_dir():
            with tempfile.TemporaryDirectory(dir=root, prefix=".fetching-", ignore_cleanup_errors=True) as scratch:
                fetched, route = Path(scratch, "jars"), route or choose_route()
                fetched.mkdir()
                _fetch(name, artifacts, folder=fetched, scratch=Path(scratch), route=route, pause=pause)
                verify(fetched, digests=digests)
                _publish(fetched, target)
    verify(target, digests=digests)  # another process may have created the folder
    return target


@contextlib.contextmanager
def _alone(root: Path) -> Iterator[None]:
    """Let one process at a time fetch jars: Maven's local repository is not safe for several.

    The lock is that of the cache's folder, and ends with the process. Windows and some file systems have no such lock.
    """
    if sys.platform == "win32" or fcntl is None:
        yield
        return
    descriptor = os.open(root, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # such as of NFS, which locks only what is open for writing
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def cache_folder() -> Path:
    """Return the folder with the jars of every version."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "ottla" / "kafka"


def broker_artifacts(version: str) -> list[Artifact]:
    """Return the artifacts: the broker, a logger, and libraries that newer Javas or the broker's dependencies lack."""
    numbers = release(version)
    scala = "2.13" if numbers >= (2, 4) else "2.12"
    artifacts = [Artifact(group="org.apache.kafka", name=f"kafka_{scala}", version=version)]
    if numbers < (1, 0):
        # This version has a logger of its own, log4j; JAXB was removed from Java in 11.
        artifacts.append(Artifact(group="javax.xml.bind", name="jaxb-api", version="2.3.1"))
    else:
        artifacts.append(Artifact(group="org.slf4j", name="slf4j-simple", version="1.7.36"))
    if (2, 0) <= numbers < (2, 4):
        # The ZooKeeper client among its dependencies cannot connect on Java 14 and later (ZOOKEEPER-3779).
        artifacts.append(Artifact(group="org.apache.zookeeper", name="zookeeper", version="3.4.10", alone=True))
    if numbers >= DUMPER_APART:
        # The broker's jars include all its dependencies that our tools need (Kafka Connect is among them).
        artifacts.append(Artifact(group="org.apache.kafka", name="kafka-tools", version=version, alone=True))
    return artifacts


def _fetch(
    name: str, artifacts: Sequence[Artifact], *, folder: Path, scratch: Path, route: Route, pause: float
) -> None:
    for tries_left in reversed(range(TRIES)):
        try:
            route(artifacts, folder=folder, scratch=scratch)
            _verify(name, artifacts, folder)
            return
        except KafkaUnavailableError:
            if not tries_left:
                raise
            time.sleep(pause)


def _verify(name: str, artifacts: Sequence[Artifact], folder: Path) -> None:
    names = sorted(jar.name for jar in folder.glob("*.jar"))
    missing = [a.name for a in artifacts if f"{a.name}-{a.version}.jar" not in names]
    if missing:
        raise KafkaUnavailableError(f"the download of {name} lacks {', '.join(missing)} (found: {names})")


def _publish(fetched: Path, target: Path) -> None:
    try:
        fetched.rename(target)
    except OSError:
        if not target.is_dir():  # otherwise another process created the folder, with the same jars
            raise
