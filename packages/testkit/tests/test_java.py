from pathlib import Path

import pytest

from ottla_testkit.errors import KafkaUnavailableError
from ottla_testkit.java.runtime import java_command
from ottla_testkit.kafka_cluster import KafkaCluster


def fake_java(folder: Path, *, says: str) -> Path:
    folder.mkdir(parents=True)
    java = folder / "java"
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)
    return java


def test_without_java_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)

    with pytest.raises(KafkaUnavailableError, match=r"no `java` on PATH.*install a Java runtime of version 17"):
        KafkaCluster().__enter__()


def test_a_java_too_old_for_kafka_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = fake_java(tmp_path / "bin", says='openjdk version "1.8.0_402"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(KafkaUnavailableError, match=f"{java} is Java 8, too old"):
        java_command()


def test_java_home_takes_precedence_over_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = fake_java(tmp_path / "bin", says='openjdk version "21.0.2" 2024-01-16')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert str(java) == java_command()


def test_a_java_without_a_version_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_java(tmp_path / "bin", says="no runtime present")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(KafkaUnavailableError, match="no runtime present"):
        java_command()
