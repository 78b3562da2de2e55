import re
import subprocess
import sys

import pytest

from ottla_testkit.kafka_cluster import KafkaCluster
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
    result.stdout.fnmatch_lines(["*no `java` on PATH*"])


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
