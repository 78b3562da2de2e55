"""Brokers before Kafka 2.4 forget a producer with its records: simulated ones do it alike, and a producer goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from conversations import Conversation
from handmade_batches import Batch
from old_brokers.versions import MORE_VERSIONS
from two_clusters import TwoClusters, delete_records, new_producer, produced, two_clusters

from ottla import Producer
from ottla.protocol import PRODUCE
from ottla_testkit.errors import KafkaUnavailableError
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import go_without

pytestmark = [pytest.mark.kafka, pytest.mark.slow, MORE_VERSIONS]
VERSION = 6


@pytest.fixture(scope="module")
def forgetful() -> Iterator[KafkaCluster]:
    """A broker of its own: each refused batch is an error in its log."""
    try:
        with KafkaCluster(version="2.0.1") as kafka:
            yield kafka
    except KafkaUnavailableError as error:
        go_without(error)


def test_a_producer_is_forgotten_with_its_records_as_by_a_real_broker(forgetful: KafkaCluster) -> None:
    def script(talk: Conversation, clusters: TwoClusters) -> None:
        producer, other = new_producer(talk, version=1), new_producer(talk, version=1)

        def send(title: str, sequence: int, records: int = 1, *, epoch: int = 0, owner: int = producer) -> None:
            batch = Batch(producer_id=owner, epoch=epoch, sequence=sequence, records=records)
            talk.ask(title, PRODUCE, VERSION, produced(clusters.plain, batch))

        send("without state, in the middle", 7)
        send("first", 0, 3)
        send("second", 3)
        send("another producer", 0, owner=other)
        clusters.delete_records(talk, clusters.plain, 3)
        send("the first again, which is deleted, and remembered", 0, 3)
        send("the second again, which is not", 3)
        send("the next number", 4)
        clusters.delete_records(talk, clusters.plain, 5)
        send("the other one, after the deletion of its records", 1, owner=other)
        send("the same again", 1, owner=other)
        send("in another epoch", 1, epoch=1, owner=other)
        send("from its first number on", 0, owner=other)
        send("the next number of the first one", 5)
        clusters.delete_records(talk, clusters.plain, 7)
        send("without state again", 6)
        send("a late copy of the first batch", 0, 3)

    with two_clusters(forgetful, older_logs=True) as clusters:
        clusters.compare(lambda talk: script(talk, clusters))


@pytest.mark.rule("sender.answer.sequence")
def test_a_transaction_after_the_deletion_of_all_records_commits(forgetful: KafkaCluster) -> None:
    topic, offsets = "emptied", []
    forgetful.create_topic(topic)
    with Producer(bootstrap_servers=forgetful.bootstrap_servers, transactional_id="emptied") as producer:
        producer.init_transactions()
        for number in range(4):
            if number == 2:
                delete_records(forgetful.address(1), topic, forgetful.end_offset(topic))
            with producer.transaction():
                delivery = producer.send(topic, b"%d" % number)
            offsets.append(delivery.result(30).offset)

    assert offsets == [0, 2, 4, 6]  # each transaction ends with a marker
