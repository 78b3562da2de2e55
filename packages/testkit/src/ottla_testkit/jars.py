"""Which jars make a Kafka broker, and where they are kept once fetched.

A folder in the cache is complete or absent: jars come into a temporary folder that is renamed at the end.
Knows nothing of how they are fetched.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from ottla_testkit.errors import KafkaUnavailable
from ottla_testkit.jar_routes import Artifact, Route, choose_route

KAFKA_VERSION = "4.3.0"
CACHE_VARIABLE = "OTTLA_KAFKA_CACHE"
TRIES = 3  # registries hiccup


def kafka_jars(
    version: str = KAFKA_VERSION, *, cache: Path | None = None, route: Route | None = None, pause: float = 2.0
) -> Path:
    """The folder of a broker's jars, fetched at the first call, which takes from seconds to a minute.

    `cache` overrides OTTLA_KAFKA_CACHE and `~/.cache/ottla/kafka`; `pause` is the wait between tries, in
    seconds. Raises `KafkaUnavailable`.
    """
    root = cache or cache_folder()
    target = root / version
    if target.is_dir():
        return target
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix=".fetching-", ignore_cleanup_errors=True) as scratch:
        fetched = Path(scratch, "jars")
        fetched.mkdir()
        _fetch(version, folder=fetched, scratch=Path(scratch), route=route or choose_route(), pause=pause)
        _publish(fetched, target)
    return target


def cache_folder() -> Path:
    """Where the jars of every version are kept."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "ottla" / "kafka"


def broker_artifacts(version: str) -> list[Artifact]:
    """The broker, a logger that prints to its standard error, and the tools that read its files."""
    return [
        Artifact(group="org.apache.kafka", name="kafka_2.13", version=version),
        Artifact(group="org.slf4j", name="slf4j-simple", version="1.7.36"),
        # All that our tools need of its dependencies (Kafka Connect among them) comes with the broker.
        Artifact(group="org.apache.kafka", name="kafka-tools", version=version, alone=True),
    ]


def _fetch(version: str, *, folder: Path, scratch: Path, route: Route, pause: float) -> None:
    for tries_left in reversed(range(TRIES)):
        try:
            route(broker_artifacts(version), folder=folder, scratch=scratch)
            _verify(version, folder)
            return
        except KafkaUnavailable:
            if not tries_left:
                raise
            time.sleep(pause)


def _verify(version: str, folder: Path) -> None:
    names = sorted(jar.name for jar in folder.glob("*.jar"))
    missing = [a.name for a in broker_artifacts(version) if f"{a.name}-{a.version}.jar" not in names]
    if missing:
        raise KafkaUnavailable(f"the fetch of Kafka {version} brought no {', '.join(missing)} (found: {names})")


def _publish(fetched: Path, target: Path) -> None:
    try:
        fetched.rename(target)
    except OSError:
        if not target.is_dir():  # else another process came first, with the same jars
            raise
