"""Settings name files that Spark distributed by their bare names. No broker: a call without the file raises before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkFiles

from ottla import TransactionTimeoutError
from ottla_spark.atomic.transaction_owner import TransactionOwner
from ottla_spark.exactly_once.status import ledger_status
from ottla_spark.options.shipped_files import with_shipped_files
from ottla_testkit.kafka_cluster.certificates import Certificates


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of Spark's on an executor, with one file."""
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", True)
    folder, here = tmp_path / "shipped", tmp_path / "here"
    folder.mkdir()
    here.mkdir()
    monkeypatch.setattr(SparkFiles, "_root_directory", str(folder))
    monkeypatch.chdir(here)
    (folder / "ca.pem").write_text("")
    return folder


def test_a_file_shipped_by_spark_is_found_by_its_name(shipped: Path) -> None:
    found = with_shipped_files({"ssl.truststore.location": "ca.pem", "acks": "1"})

    assert dict(found) == {"ssl.truststore.location": str(shipped / "ca.pem"), "acks": "1"}


@pytest.mark.parametrize("path", ["/etc/ca.pem", "other.pem", ""])
def test_other_paths_are_unchanged(shipped: Path, path: str) -> None:
    assert dict(with_shipped_files({"ssl.keystore.location": path})) == {"ssl.keystore.location": path}


@pytest.mark.usefixtures("shipped")
def test_an_existing_file_takes_precedence_over_a_shipped_one() -> None:
    Path("ca.pem").write_text("")

    assert dict(with_shipped_files({"ssl.keystore.location": "ca.pem"})) == {"ssl.keystore.location": "ca.pem"}


@pytest.fixture
def unreachable(shipped: Path, tmp_path: Path) -> dict[str, Any]:
    """Settings of a broker that is not there, with a certificate that Spark distributed."""
    Certificates(tmp_path / "certificates").authority.replace(shipped / "ca.pem")
    return {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SSL", "ssl.truststore.location": "ca.pem"}


def test_all_or_nothing_batches_find_shipped_files_on_the_driver(unreachable: dict[str, Any]) -> None:
    owner = TransactionOwner(
        settings=unreachable, transactional_id="orders", transaction_timeout_ms=1000, marker_topic="t", timeout=0.2
    )
    for request in (owner.cluster_id, lambda: owner.partitions(["t"]), lambda: owner.open(None), owner.marker):
        with pytest.raises(TransactionTimeoutError):
            request()


def test_the_status_of_a_ledger_finds_shipped_files(unreachable: dict[str, Any]) -> None:
    options = {f"kafka.{key}": value for key, value in unreachable.items()}
    with pytest.raises(TransactionTimeoutError):
        ledger_status({**options, "transactional.id.prefix": "orders"}, timeout=0.2)
