import os

import pytest

import spark_java
from ottla_testkit.errors import KafkaUnavailableError
from spark_java import QUICK_START, quick_options, start_spark_quickly


@pytest.fixture(autouse=True)
def forgotten() -> None:
    quick_options.cache_clear()


def test_options_that_are_set_already_are_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_java, "quick_options", lambda: "-Dquick=true")
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dmine=true")
    monkeypatch.delenv("SPARK_LAUNCHER_OPTS", raising=False)
    start_spark_quickly()

    assert os.environ["SPARK_SUBMIT_OPTS"] == "-Dmine=true"
    assert os.environ["SPARK_LAUNCHER_OPTS"] == " ".join(QUICK_START)


def test_without_a_java_spark_gets_no_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise KafkaUnavailableError("there is no `java`")

    monkeypatch.setattr(spark_java, "java_command", missing)

    assert quick_options() == " ".join(QUICK_START)
    quick_options.cache_clear()
