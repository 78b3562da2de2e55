"""`ottla transactions`: open transactions of ids with one prefix, their outcome, and the markers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from ottla import transactions
from ottla.cli.commands import ottla
from ottla.errors import UnsupportedVersionError
from ottla.transactions import SharedTransaction
from ottla_spark.atomic.marker import Marker
from ottla_spark.atomic.transaction_owner import TransactionOwner
from ottla_testkit.java.release import release
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from transactions_kit import await_true, new_id, transactional

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def run(kafka: KafkaCluster, *arguments: str) -> Result:
    return CliRunner().invoke(ottla, ["transactions", "--bootstrap-servers", kafka.bootstrap_servers, *arguments])


@pytest.fixture
def owner(kafka: KafkaCluster, make_topic: MakeTopic) -> TransactionOwner:
    """The owner of the batches of a query, of which batch 0 is committed."""
    made = TransactionOwner(
        settings={"bootstrap.servers": kafka.bootstrap_servers},
        transactional_id=f"[{new_id()}]",
        transaction_timeout_ms=60_000,
        marker_topic=make_topic(1),
        timeout=60.0,
    )
    shared = made.open(None)
    made.mark(shared, Marker(query="q", batch=0))
    made.end(shared, commit=True)
    return made


@pytest.fixture
def opened(owner: TransactionOwner) -> Iterator[SharedTransaction]:
    """Batch 1, open and marked."""
    shared = owner.open(None)
    owner.mark(shared, Marker(query="q", batch=1))
    yield shared
    owner.end(shared, commit=False)


def test_a_marker_is_added_and_the_committed_one_returned(owner: TransactionOwner) -> None:
    shared = owner.open(None)
    committed = owner.mark(shared, Marker(query="q", batch=1), read=True)
    unread = owner.mark(shared, Marker(query="q", batch=1))
    owner.end(shared, commit=False)

    assert committed == Marker(query="q", batch=0)
    assert unread is None


def test_an_open_transaction_is_shown_with_its_future_and_the_last_marker(
    kafka: KafkaCluster, owner: TransactionOwner, opened: SharedTransaction
) -> None:
    with transactional(kafka, f"{owner.transactional_id}-2") as another:
        another.init_transactions()
        result = run(kafka, owner.transactional_id)

    assert result.exit_code == 0, result.output
    [line] = [line for line in result.output.splitlines() if line.startswith(f"{owner.transactional_id} ")]
    for word in (
        "Ongoing",
        f"{opened.producer_id}/{opened.epoch}",
        "its writer or the writer's successor ends it; else its coordinator aborts it in ",
        f"{owner.marker_topic}-0: 1",
    ):
        assert word in line
    assert '{"query": "q", "batch": 0}' in line, "a marker that is not committed counts for nothing"
    assert "1 of 2 open." in result.output


def test_json_has_the_same_content(kafka: KafkaCluster, owner: TransactionOwner, opened: SharedTransaction) -> None:
    [found] = json.loads(run(kafka, "--json", owner.transactional_id).output)["transactional_ids"]

    assert (found["state"], found["open"], found["epoch"]) == ("Ongoing", True, opened.epoch)
    assert [offset["offset"] for offset in found["offsets"]] == [1]


def test_an_ended_transaction_is_shown_as_ended(kafka: KafkaCluster, owner: TransactionOwner) -> None:
    def ended() -> bool:
        result = run(kafka, owner.transactional_id)
        return "the last one was committed" in result.output and "0 of 1 open." in result.output

    await_true(ended)  # the markers follow the answer to a commit


def test_unknown_ids_are_shown_as_missing(kafka: KafkaCluster) -> None:
    result = run(kafka, "unknown-prefix-")

    assert result.exit_code == 0
    assert result.output == (
        "No coordinator knows a transactional id that begins with 'unknown-prefix-', or this user may describe none.\n"
    )


def test_without_a_broker_the_exit_code_says_so() -> None:
    arguments = ["transactions", "x", "--bootstrap-servers", "127.0.0.1:1", "--timeout", "0.3"]
    result = CliRunner().invoke(ottla, arguments)

    assert result.exit_code == 1
    assert "TransactionTimeoutError: not done within 0.3 s" in result.stderr


@pytest.mark.generations("all")
def test_markers_are_read_from_every_version_of_brokers(broker: KafkaCluster, topic: str) -> None:
    made = TransactionOwner(
        settings={"bootstrap.servers": broker.bootstrap_servers},
        transactional_id=new_id(),
        transaction_timeout_ms=60_000,
        marker_topic=topic,
        timeout=60.0,
    )
    shared = made.open(None)
    assert made.marker() is None
    for batch in range(3):
        made.mark(shared, Marker(query="q", batch=batch))
        shared = made.end(shared, commit=True).following or made.open(shared)
    made.mark(shared, Marker(query="q", batch=3))
    made.end(shared, commit=False)
    config = {"bootstrap.servers": broker.bootstrap_servers}

    assert made.open(None).epoch > shared.epoch
    assert made.marker() == Marker(query="q", batch=2)
    if release(broker.version) >= (3, 0):
        [found] = transactions.list_transactions(config, made.transactional_id)
        assert not found.open
    else:
        with pytest.raises(UnsupportedVersionError):
            transactions.list_transactions(config, made.transactional_id)
