"""Transactions are found and shown although one of three brokers cannot be reached from here."""

from __future__ import annotations

import contextlib
import json
import logging

import pytest
from click.testing import CliRunner

from ottla import transactions
from ottla.cli.commands import ottla
from ottla_testkit.errors import KafkaUnavailableError
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.kafka_cluster.admin_requests import transaction_coordinator
from ottla_testkit.pytest_plugin import go_without
from transactions_kit import transactional

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

IDS = [f"job-{number}" for number in range(8)]
FAILED = 1


def test_one_broker_that_cannot_be_reached_hides_only_its_own(caplog: pytest.LogCaptureFixture) -> None:
    with contextlib.ExitStack() as stack:
        try:
            kafka = stack.enter_context(KafkaCluster(nodes=3, round_trip=0.0))
        except KafkaUnavailableError as error:
            go_without(error)
        kafka.create_topic("t")
        for name in IDS:
            producer = stack.enter_context(transactional(kafka, name))
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("t", b"open").result(60)
        coordinators = {name: transaction_coordinator(kafka.address(1), name) for name in IDS}
        lost = coordinators[IDS[0]]
        reachable = [name for name in IDS if coordinators[name] != lost]
        near = ",".join(server for node, server in enumerate(kafka.bootstrap_servers.split(","), 1) if node != lost)
        kafka.links[lost].hold()
        with caplog.at_level(logging.WARNING, "ottla.transactions"):
            found = transactions.find_open_transactions({"bootstrap.servers": near}, "job-", timeout=30)
        arguments = ["transactions", "job-", "--bootstrap-servers", near, "--timeout", "10"]
        shown, document = (CliRunner().invoke(ottla, [*arguments, *more]) for more in ([], ["--json"]))
        kafka.links[lost].release()

    assert sorted(each.transactional_id for each in found) == reachable
    assert found.missing.keys() == {lost}
    assert "it took the connection and has sent nothing" in str(found.missing[lost])
    assert f"broker {lost} could not be asked: " in caplog.text
    assert shown.exit_code == document.exit_code == FAILED
    assert f"{len(reachable)} of {len(reachable)} open." in shown.stdout
    assert f"broker {lost} could not be asked: " in shown.stderr
    parsed = json.loads(document.stdout)
    assert [each["transactional_id"] for each in parsed["transactional_ids"]] == reachable
    assert [each["broker"] for each in parsed["missing"]] == [lost]
