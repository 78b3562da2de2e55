import pytest

from ottla_testkit.errors import ClusterError
from ottla_testkit.java.release import needs_zookeeper, release
from ottla_testkit.kafka_cluster import KafkaCluster


def test_releases_compare_by_number() -> None:
    versions = ["0.10.2.2", "0.11.0.3", "1.1.1", "2.0.1", "2.8.2", "3.9.1", "3.10.0", "4.3.0"]

    assert sorted(reversed(versions), key=release) == versions


def test_a_release_candidate_counts_as_its_release() -> None:
    assert release("4.3.0-rc1") == (4, 3, 0)


@pytest.mark.parametrize("version", ["", "four", "4", "4.3.x", "v4.3.0"])
def test_an_invalid_version_is_refused(version: str) -> None:
    with pytest.raises(ClusterError, match=r"is not a version of Kafka; write it as 4\.3\.0"):
        release(version)


@pytest.mark.parametrize("version", ["0.8.2.2", "0.10.1.1"])
def test_an_unsupported_version_is_refused_before_anything_is_fetched(version: str) -> None:
    with pytest.raises(ClusterError, match=rf"Kafka {version} is too old.*0\.10\.2 and later"):
        KafkaCluster(version=version)


@pytest.mark.parametrize(
    ("version", "needs"), [("0.10.2.2", True), ("3.2.3", True), ("3.3.0", False), ("4.3.0", False)]
)
def test_zookeeper_is_used_for_versions_without_mature_kraft(version: str, needs: bool) -> None:
    assert needs_zookeeper(version) is needs
