import importlib.util
import shutil
import sys
from pathlib import Path

import pytest
from long_forms import LONG, only_long

from ottla_testkit.errors import KafkaUnavailableError
from ottla_testkit.java.download import Artifact, Route, choose_route, fetch_by_ivy, fetch_by_maven
from ottla_testkit.java.jars import KAFKA_VERSION, kafka_jars

NOWHERE = Artifact(group="org.apache.kafka", name="kafka_2.13", version="0.0.0-never-released")

needs_maven = pytest.mark.skipif(shutil.which("mvn") is None, reason="needs Maven")
needs_pyspark = pytest.mark.skipif(importlib.util.find_spec("pyspark") is None, reason="needs PySpark's Ivy")
long_form = only_long("half a minute")
by_maven = pytest.param(fetch_by_maven, marks=needs_maven)
by_ivy = pytest.param(fetch_by_ivy, marks=needs_pyspark)
both_routes = pytest.mark.parametrize("route", [by_maven, by_ivy])
in_short_by_one = (
    both_routes if LONG else pytest.mark.parametrize("route", [by_ivy if shutil.which("mvn") is None else by_maven])
)


@pytest.mark.slow
@pytest.mark.thorough("brokers of all other tests start from what this fetches, and the gate fetches fewer artifacts")
@pytest.mark.parametrize("route", [by_maven, pytest.param(fetch_by_ivy, marks=[needs_pyspark, long_form])])
def test_a_source_fetches_everything_a_broker_needs(route: Route, tmp_path: Path) -> None:
    jars = kafka_jars(cache=tmp_path, route=route)

    names = {jar.name for jar in jars.iterdir()}
    assert {f"kafka_2.13-{KAFKA_VERSION}.jar", f"kafka-clients-{KAFKA_VERSION}.jar"} <= names
    assert f"kafka-tools-{KAFKA_VERSION}.jar" in names
    assert not any(name.startswith("connect-") for name in names)


@pytest.mark.slow
@both_routes
def test_requested_versions_win_and_an_artifact_may_come_alone(route: Route, tmp_path: Path) -> None:
    wanted = [
        Artifact(group="org.slf4j", name="slf4j-simple", version="1.7.36"),
        Artifact(group="org.slf4j", name="slf4j-api", version="1.7.25"),  # slf4j-simple names 1.7.36
        Artifact(group="org.apache.kafka", name="kafka-tools", version=KAFKA_VERSION, alone=True),  # names many
    ]
    (tmp_path / "jars").mkdir()

    route(wanted, folder=tmp_path / "jars", scratch=tmp_path)

    names = sorted(jar.name for jar in (tmp_path / "jars").iterdir())
    assert names == [f"kafka-tools-{KAFKA_VERSION}.jar", "slf4j-api-1.7.25.jar", "slf4j-simple-1.7.36.jar"]


@pytest.mark.slow
@in_short_by_one
def test_a_failed_fetch_reports_the_command_and_its_output(route: Route, tmp_path: Path) -> None:
    with pytest.raises(KafkaUnavailableError, match=r"ran: .*(mvn|java) (.|\n)*never-released"):
        route([NOWHERE], folder=tmp_path, scratch=tmp_path)


def test_maven_is_preferred_to_ivy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    without: Route = choose_route()
    (tmp_path / "mvn").touch(0o755)

    assert fetch_by_ivy is without
    assert fetch_by_maven is choose_route()


def test_without_maven_and_pyspark_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setitem(sys.modules, "pyspark", None)

    with pytest.raises(KafkaUnavailableError, match="no `mvn` on PATH, and PySpark is not installed"):
        fetch_by_ivy([NOWHERE], folder=tmp_path, scratch=tmp_path)
