import errno
import hashlib
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from ottla_testkit.errors import KafkaUnavailableError
from ottla_testkit.java.download import Artifact
from ottla_testkit.java.jars import broker_artifacts, cache_folder, kafka_jars

VERSION = "9.9.9"
JARS = ["kafka-tools-9.9.9.jar", "kafka_2.13-9.9.9.jar", "slf4j-simple-1.7.36.jar", "theirs.jar"]
DIGESTS = dict.fromkeys(JARS, hashlib.sha512(b"jar").hexdigest())


class Registry:
    """A route that brings the jars after it has met each of `troubles`, once each, half way."""

    def __init__(self, *troubles: BaseException) -> None:
        self.troubles = list(troubles)
        self.calls = 0

    def __call__(self, artifacts: Sequence[Artifact], *, folder: Path, scratch: Path) -> None:
        self.calls += 1
        for artifact in artifacts:
            (folder / f"{artifact.name}-{artifact.version}.jar").write_bytes(b"jar")
            if self.troubles:
                raise self.troubles.pop(0)


def jar_names(folder: Path) -> list[str]:
    return sorted(jar.name for jar in folder.glob("*.jar"))


def test_the_jars_are_fetched_once(tmp_path: Path) -> None:
    registry = Registry()

    first = kafka_jars(VERSION, cache=tmp_path, route=registry, digests=DIGESTS)
    second = kafka_jars(VERSION, cache=tmp_path, route=registry, digests=DIGESTS)

    assert tmp_path / VERSION == first == second
    assert jar_names(first) == JARS[:3]
    assert registry.calls == 1


def test_an_interrupted_fetch_leaves_no_cache(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        kafka_jars(VERSION, cache=tmp_path, route=Registry(KeyboardInterrupt()), digests=DIGESTS)

    assert list(tmp_path.iterdir()) == []


def test_a_registry_with_a_temporary_error_is_asked_again(tmp_path: Path) -> None:
    registry = Registry(KafkaUnavailableError("hiccup"), KafkaUnavailableError("hiccup"))

    assert kafka_jars(VERSION, cache=tmp_path, route=registry, pause=0, digests=DIGESTS).is_dir()
    assert registry.calls == 3


def test_an_unavailable_registry_is_abandoned_after_three_attempts(tmp_path: Path) -> None:
    registry = Registry(*[KafkaUnavailableError("away")] * 9)

    with pytest.raises(KafkaUnavailableError, match="away"):
        kafka_jars(VERSION, cache=tmp_path, route=registry, pause=0, digests=DIGESTS)

    assert registry.calls == 3
    assert list(tmp_path.iterdir()) == []


def test_a_fetch_without_the_broker_jar_is_a_failure(tmp_path: Path) -> None:
    def bring_nothing(artifacts: Sequence[Artifact], *, folder: Path, scratch: Path) -> None:
        pass

    with pytest.raises(KafkaUnavailableError, match=r"lacks kafka_2\.13, slf4j-simple, kafka-tools"):
        kafka_jars(VERSION, cache=tmp_path, route=bring_nothing, pause=0, digests=DIGESTS)


def test_another_process_may_fill_the_cache_first(tmp_path: Path) -> None:
    def lose_the_race(artifacts: Sequence[Artifact], *, folder: Path, scratch: Path) -> None:
        Registry()(artifacts, folder=folder, scratch=scratch)
        (tmp_path / VERSION).mkdir()
        (tmp_path / VERSION / "theirs.jar").write_bytes(b"jar")

    jars = kafka_jars(VERSION, cache=tmp_path, route=lose_the_race, digests=DIGESTS)

    assert jar_names(jars) == ["theirs.jar"]
    assert [jars] == list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such lock")
def test_jars_are_fetched_where_a_folder_cannot_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(descriptor: int, operation: int) -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr("fcntl.flock", refused)

    assert kafka_jars(VERSION, cache=tmp_path, route=Registry(), digests=DIGESTS).is_dir()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such lock")
def test_one_caller_at_a_time_fetches_and_the_next_one_finds_the_jars(tmp_path: Path) -> None:
    """The groups of the gate begin at the same time, and Maven's local repository is not safe for several."""
    registry, others = Registry(), list[Path]()

    def fetch() -> None:
        others.append(kafka_jars(VERSION, cache=tmp_path, route=registry, digests=DIGESTS))

    def slow(artifacts: Sequence[Artifact], *, folder: Path, scratch: Path) -> None:
        other.start()
        other.join(0.3)
        assert registry.calls == 0
        registry(artifacts, folder=folder, scratch=scratch)

    other = threading.Thread(target=fetch)
    mine = kafka_jars(VERSION, cache=tmp_path, route=slow, digests=DIGESTS)
    other.join()

    assert others == [mine]
    assert registry.calls == 1


def test_the_environment_names_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OTTLA_KAFKA_CACHE", str(tmp_path))

    assert tmp_path == cache_folder()

    monkeypatch.delenv("OTTLA_KAFKA_CACHE")

    assert Path.home() / ".cache" / "ottla" / "kafka" == cache_folder()


@pytest.mark.parametrize(
    ("version", "kafka", "others"),
    [
        ("0.10.2.2", "kafka_2.12", {"jaxb-api"}),
        ("0.11.0.3", "kafka_2.12", {"jaxb-api"}),
        ("1.1.1", "kafka_2.12", {"slf4j-simple"}),
        ("2.0.1", "kafka_2.12", {"slf4j-simple", "zookeeper"}),
        ("2.3.1", "kafka_2.12", {"slf4j-simple", "zookeeper"}),
        ("2.4.0", "kafka_2.13", {"slf4j-simple"}),
        ("2.8.2", "kafka_2.13", {"slf4j-simple"}),
        ("3.9.1", "kafka_2.13", {"slf4j-simple"}),
        ("4.3.0", "kafka_2.13", {"slf4j-simple", "kafka-tools"}),
    ],
)
def test_each_version_is_fetched_with_its_additional_jars(version: str, kafka: str, others: set[str]) -> None:
    first, *rest = broker_artifacts(version)

    assert (first.group, first.name, first.version) == ("org.apache.kafka", kafka, version)
    assert {artifact.name for artifact in rest} == others


def test_the_broker_and_its_tools_have_the_same_version() -> None:
    kafkas = [artifact for artifact in broker_artifacts("4.3.0") if artifact.group == "org.apache.kafka"]

    assert {artifact.name: artifact.version for artifact in kafkas} == {"kafka_2.13": "4.3.0", "kafka-tools": "4.3.0"}


def test_no_second_logger_is_fetched() -> None:
    alone = {a.name for version in ("2.0.1", "4.3.0") for a in broker_artifacts(version) if a.alone}

    assert alone == {"zookeeper", "kafka-tools"}
