"""The doctor on real brokers: one that is well, one that sends its clients to the wrong place, one that is frozen."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result
from wrong_addresses import Misdirecting

from ottla.cli.commands import ottla
from ottla.doctor import Status, Step, examine
from ottla.doctor.broker_versions import MARKS
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from readback import read_back

pytestmark = pytest.mark.kafka

TIMEOUT = 60.0


def run(servers: str, *arguments: str) -> Result:
    return CliRunner().invoke(ottla, ["doctor", "--bootstrap-servers", servers, *arguments])


def test_a_healthy_broker_gets_a_record_and_every_step_is_ok(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    result = run(kafka.bootstrap_servers, "--topic", topic, "--send", "--json")

    document = json.loads(result.stdout)
    assert result.exit_code == 0
    not_used = {"tls", "sasl"}
    assert {f["step"]: f["status"] for f in document["findings"]} == {
        step.value: "skipped" if step.value in not_used else "ok" for step in Step
    }
    [record] = read_back(kafka.bootstrap_servers, topic, partitions=2)
    assert record.value == b"a test record of ottla doctor"
    assert document["findings"][-1]["message"] == f"acknowledged: partition {record.partition}, offset {record.offset}"
    [versions] = [f["message"] for f in document["findings"] if f["step"] == "api versions"]
    assert versions.startswith(f"Kafka {MARKS[0].release} or newer")


def test_with_acks_0_the_record_is_sent_unconfirmed(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic()
    examination = examine(
        {"bootstrap.servers": kafka.bootstrap_servers, "acks": "0"}, topic=topic, send=True, timeout=TIMEOUT
    )

    assert examination.findings[-1].message == "sent to partition 0; with acks=0 no broker confirms it"
    assert len(read_back(kafka.bootstrap_servers, topic, partitions=1)) == 1


def test_a_record_that_the_broker_refuses_is_reported_with_its_code(kafka: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(cleanup_policy="compact")  # takes no record without a key
    examination = examine({"bootstrap.servers": kafka.bootstrap_servers}, topic=topic, send=True, timeout=TIMEOUT)

    assert examination.cause is not None
    assert examination.cause.step is Step.RECORD
    assert "INVALID_RECORD" in examination.cause.message


def test_serializers_and_timeouts_of_the_user_do_not_affect_the_doctor(
    kafka: KafkaCluster, make_topic: MakeTopic
) -> None:
    settings = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "linger.ms": "600000",
        "delivery.timeout.ms": "1200000",
        "key.serializer": "org.apache.kafka.common.serialization.StringSerializer",
        "value.serializer": "org.apache.kafka.common.serialization.StringSerializer",
        "compression.type": "gzip",
    }
    examination = examine(settings, topic=make_topic(), send=True, timeout=TIMEOUT)

    assert examination.findings[-1].message == "acknowledged: partition 0, offset 0"


@pytest.mark.thorough("needs a broker of its own")
@pytest.mark.slow
def test_a_missing_topic_is_not_created_by_the_examination() -> None:
    with KafkaCluster(config={"auto.create.topics.enable": "true"}) as kafka:
        first = run(kafka.bootstrap_servers, "--topic", "typo", "--send")
        second = run(kafka.bootstrap_servers, "--topic", "typo", "--send")

    for result in (first, second):
        assert result.exit_code == 1
        assert result.stdout.splitlines()[-1].startswith("typo: the topic does not exist")


@pytest.mark.slow
@pytest.mark.parametrize("address", ["without a name", "reserved"])
def test_wrong_advertised_listeners_are_reported_with_the_setting(
    misdirecting_kafka: Misdirecting, address: str
) -> None:
    advertised = misdirecting_kafka.advertised[address]
    result = run(misdirecting_kafka.listener(address))

    assert result.exit_code == 1
    last = result.stdout.splitlines()[-1]
    assert last.startswith(f"broker 1 at {advertised}: the broker advertises an address that does not work from here")
    assert "set advertised.listeners of broker 1" in last


@pytest.mark.slow
def test_a_frozen_broker_is_reported_differently_from_a_missing_one(spare_kafka: KafkaCluster) -> None:
    spare_kafka.pause(1)
    frozen = examine({"bootstrap.servers": spare_kafka.bootstrap_servers}, timeout=3.0)
    spare_kafka.kill(1)
    gone = examine({"bootstrap.servers": spare_kafka.bootstrap_servers}, timeout=3.0)

    assert frozen.cause is not None
    assert gone.cause is not None
    assert (frozen.cause.step, gone.cause.step) == (Step.API_VERSIONS, Step.TCP)
    assert "but sent nothing for" in frozen.cause.message
    assert "refused" in gone.cause.message
    assert frozen.findings[-1].status is Status.SKIPPED
