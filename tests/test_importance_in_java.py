"""The importance of settings is the one that Java's producer declares."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ottla.config.importance import importance_of
from ottla_testkit.java.jars import kafka_jars
from ottla_testkit.java.runtime import java_command

pytestmark = pytest.mark.kafka

PROGRAM = """
import org.apache.kafka.clients.producer.ProducerConfig;

public class Importances {
    public static void main(String[] arguments) {
        ProducerConfig.configDef().configKeys().values().forEach(
            key -> System.out.println(key.name + " " + key.importance));
    }
}
"""


@pytest.mark.thorough("Java's list changes with a new version of Kafka only")
def test_each_setting_has_the_importance_that_java_declares(tmp_path: Path) -> None:
    source = tmp_path / "Importances.java"
    source.write_text(PROGRAM)
    command = [java_command(), "-cp", f"{kafka_jars()}/*", str(source)]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout

    of_java = dict(line.split() for line in printed.splitlines())
    assert len(of_java) > 100
    assert {key: importance_of(key) for key in of_java} == {key: each.lower() for key, each in of_java.items()}
