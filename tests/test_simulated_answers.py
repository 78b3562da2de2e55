"""A simulated broker answers requests as a real one does: conversations are held with both, and must be the same.

A conversation is a list of requests, right ones and wrong ones. Those of Produce and of transactions are in modules of
their own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import conversations
import pytest
from conversations import Conversation
from two_clusters import UNKNOWN, UNKNOWN_ID, TwoClusters, topic_ids, two_clusters

from ottla.protocol import API_VERSIONS, METADATA, PRODUCE
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.end_txn import END_TXN
from ottla.protocol.messages.find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import INIT_PRODUCER_ID
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.kafka_cluster.features import TRANSACTION_VERSION

pytestmark = [pytest.mark.kafka, pytest.mark.generations("one", since="4.0")]


@pytest.fixture
def clusters(broker: KafkaCluster) -> Iterator[TwoClusters]:
    with two_clusters(broker) as both:
        yield both


@pytest.mark.parametrize("version", [0, 1, 4, 7, 9, 10, 12, 13])
def test_metadata_are_those_of_a_real_broker(clusters: TwoClusters, version: int) -> None:
    def script(talk: Conversation) -> None:
        def ask(title: str, *topics: MetadataRequestTopic) -> Any:
            request = MetadataRequest(topics=list(topics), allow_auto_topic_creation=False)
            if version < 4:
                request.allow_auto_topic_creation = True
            return talk.ask(title, METADATA, version, request)

        def named(name: str) -> MetadataRequestTopic:
            return MetadataRequestTopic(name=name)

        ask("one", named(clusters.plain))
        ask("two", named(clusters.small), named(clusters.plain))
        ask("unknown", named(UNKNOWN), named(clusters.plain))
        ask("invalid", named("not a name"), named("x" * 250), named(clusters.plain))
        ask("twice", named(clusters.plain), named(clusters.plain))
        if version > 0:
            ask("none")
        if version >= 12:
            [plain] = topic_ids(talk, clusters.plain)
            ask("by id", MetadataRequestTopic(topic_id=plain, name=None))
            ask("unknown id", MetadataRequestTopic(topic_id=UNKNOWN_ID, name=None))

    clusters.compare(script)


def test_metadata_of_all_topics_are_those_of_a_real_broker(clusters: TwoClusters) -> None:
    names = clusters.plain, clusters.small

    def script(talk: Conversation) -> None:
        found = talk.ask("all", METADATA, 12, MetadataRequest(topics=None))
        known = {topic.name: topic for topic in found.topics}
        found.topics = [known[name] for name in names]
        talk.names.clear()
        talk.lines[:] = [conversations.shown(talk, found)]

    clusters.compare(script)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 5, 6])
def test_coordinators_are_found_as_at_a_real_broker(clusters: TwoClusters, version: int) -> None:
    def script(talk: Conversation) -> None:
        def find(title: str, *keys: str, kind: int) -> None:
            request = FindCoordinatorRequest(key_type=kind if version else 0)
            if version < 4:
                request.key = keys[0]
            else:
                request.coordinator_keys = list(keys)
            talk.ask(title, FIND_COORDINATOR, version, request, until_not_busy=True)

        find("a group", "group", kind=0)
        find("an empty group", "", kind=0)
        if version:
            find("a transactional id", "id", kind=1)
            find("an empty transactional id", "", kind=1)
            find("an unknown kind", "key", kind=7)
            find("two", "id", "other", kind=1)

    clusters.compare(script)


def test_versions_are_offered_as_by_a_real_broker(clusters: TwoClusters) -> None:
    names = ApiVersionsRequest(client_software_name="ottla", client_software_version="1")

    offered = set(clusters.simulated.brokers[1].versions)

    def script(talk: Conversation) -> None:
        for version in (0, 1, 2, 3, 4):
            found = talk.ask("versions", API_VERSIONS, version, names)
            found.api_keys = [each for each in found.api_keys if each.api_key in offered]
            found.finalized_features = [each for each in found.finalized_features if each.name == TRANSACTION_VERSION]
            found.supported_features = []
            talk.lines[-1] = conversations.shown(talk, found)
        talk.ask("a version of the future", API_VERSIONS, 99, b"\0")
        wrong = ApiVersionsRequest(client_software_name="-no name-", client_software_version="1")
        talk.ask("a wrong name", API_VERSIONS, 3, wrong)
        talk.ask("a wrong body", API_VERSIONS, 3, b"\xff\xff")

    clusters.compare(script)


def test_misunderstood_requests_close_the_connection_as_at_a_real_broker(clusters: TwoClusters) -> None:
    def script(talk: Conversation) -> None:
        for message in (PRODUCE, METADATA, INIT_PRODUCER_ID, END_TXN, FIND_COORDINATOR):
            talk.ask("a version of the future", message, 99, b"\0")
            talk.ask("a body that ends early", message, message.max_version - 1, b"\0")
        talk.ask("a version of the past", PRODUCE, 2, b"\0" * 10)
        talk.ask_raw("nothing", b"")
        talk.ask_raw("a part of a header", struct.pack(">hhh", METADATA.key, 12, 0))
        talk.ask_raw("an unknown request", struct.pack(">hhih", 9_999, 0, 7, -1))
        talk.ask_raw("a client id that ends early", struct.pack(">hhih", METADATA.key, 1, 7, 9) + b"four")
        talk.ask_raw("a client id of negative length", struct.pack(">hhih", METADATA.key, 1, 7, -2) + b"\0\0\0\0")
        talk.ask_raw("no client id", struct.pack(">hhih", METADATA.key, 1, 7, -1) + b"\0\0\0\0")
        talk.ask("good", METADATA, 12, MetadataRequest(topics=[]))

    clusters.compare(script)
