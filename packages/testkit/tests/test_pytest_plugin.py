import re
import subprocess
import sys

import pytest

from ottla_testkit.kafka_cluster import ExistingKafka, KafkaCluster
from ottla_testkit.manual_clock import ManualClock
from ottla_testkit.pytest_plugin import MakeTopic

pytestmark = pytest.mark.unmeasured

pytest_plugins = ["pytester"]


@pytest.fixture
def without_java(monkeypatch: pytest.MonkeyPatch, pytester: pytest.Pytester) -> pytest.Pytester:
    """A project whose only test wants a Kafka, on a machine without Java."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("CI", raising=False)
    pytester.makepyfile("def test_it(kafka): pass")
    return pytester


def test_without_java_a_test_is_skipped_locally_with_the_reason(without_java: pytest.Pytester) -> None:
    result = without_java.runpytest_subprocess("-rs", "-W", "error")

    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*no `java` on PATH*"])


def test_without_java_a_test_fails_in_ci(without_java: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")

    result = without_java.runpytest_subprocess("-W", "error")

    result.assert_outcomes(errors=1)
    reported, _, _summary = result.stdout.str().partition("short test summary info")
    assert reported.count("no `java` on PATH") == 1


def test_loading_the_plugin_imports_nothing_but_pytest() -> None:
    script = (
        "import sys, pytest; before = set(sys.modules); import ottla_testkit.pytest_plugin;"
        "print(sorted(name for name in set(sys.modules) - before if not name.startswith('_')))"
    )

    ran = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)

    imported = set(re.findall(r"'([^']+)'", ran.stdout))
    assert {"ottla_testkit", "ottla_testkit.pytest_plugin"} <= imported
    assert not [name for name in imported if name.split(".")[0] in ("attr", "attrs", "ctypes", "subprocess")]


@pytest.mark.kafka
def test_each_topic_has_its_own_name(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    first, second = make_topic(), make_topic(2, max_message_bytes=1000)

    assert first != second
    assert first.startswith("test_each_topic_has_its_own_name.")
    assert [kafka.leader(first, 0), kafka.leader(first, 1)] == [1, -1]
    assert [kafka.leader(second, 0), kafka.leader(second, 1)] == [1, 1]


def test_the_clock_of_a_test_starts_at_zero(manual_clock: ManualClock) -> None:
    assert manual_clock() == 0.0


USES_TOPICS = """
def test_it(kafka, make_topic):
    topic = make_topic(partitions=2)
    assert kafka.leader(topic, 1) in kafka.nodes
    assert kafka.end_offset(topic, 1) == 0
    assert not hasattr(kafka, "dump_log")
    print("made", topic, "on", kafka.bootstrap_servers)
"""


@pytest.mark.kafka
@pytest.mark.parametrize("way", ["option", "environment", "setting"])
def test_the_fixture_uses_a_cluster_that_runs_already(
    way: str, kafka: KafkaCluster, without_java: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_java.makepyfile(USES_TOPICS)
    options = ["--ottla-kafka", kafka.bootstrap_servers] if way == "option" else []
    if way == "setting":
        without_java.makeini(f"[pytest]\nottla_kafka = {kafka.bootstrap_servers}")
    else:
        monkeypatch.setenv("OTTLA_TEST_KAFKA", kafka.bootstrap_servers if way == "environment" else "127.0.0.1:1")

    result = without_java.runpytest_subprocess("-s", "-W", "error", *options)

    result.assert_outcomes(passed=1)
    [topic] = re.findall(rf"made (\S+) on {re.escape(kafka.bootstrap_servers)}", result.stdout.str())
    assert kafka.leader(topic) == -1, "the topic is deleted at the end of the session"


def test_an_existing_cluster_that_does_not_answer_fails_the_test(without_java: pytest.Pytester) -> None:
    result = without_java.runpytest_subprocess("-W", "error", "--ottla-kafka", "127.0.0.1:1")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*no broker of the existing cluster can be reached: 127.0.0.1:1: *refused*"])


def test_an_existing_cluster_says_what_only_started_brokers_can_do() -> None:
    with pytest.raises(AttributeError, match=r"existing cluster kafka:9092 has no 'kill'.*make a KafkaCluster"):
        ExistingKafka("kafka:9092").kill(1)
