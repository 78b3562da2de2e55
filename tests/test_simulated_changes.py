"""A simulated coordinator that forgets a transactional id, or gets another protocol, answers as a real one does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import pytest
from conversations import Conversation, RealPeer, SimulatedPeer
from shared_clusters import started
from transaction_conversations import BEFORE_KIP_890, SINCE_KIP_890, Owner, Versions
from two_clusters import TwoClusters, two_clusters

from ottla.errors import ErrorCode
from ottla.protocol.messages.describe_transactions import DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest
from ottla.protocol.messages.find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.kafka_cluster.features import TRANSACTION_VERSION, set_feature

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]

FORGETFUL: Final = {
    "transactional.id.expiration.ms": 1_000,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 200,
}
"""Properties of brokers that forget a transactional id after a second without a transaction."""

LEVELS: Final = {1: BEFORE_KIP_890, 2: SINCE_KIP_890}


@pytest.fixture(scope="module")
def forgetful() -> Iterator[KafkaCluster]:
    with started(config=FORGETFUL) as kafka:
        yield kafka


def forget(clusters: TwoClusters, owner: Owner) -> None:
    """Have the coordinator of a conversation forget its transactional id."""
    if isinstance(owner.talk.peer, SimulatedPeer):
        clusters.simulated.transactions.forget(owner.id)
        return
    assert isinstance(owner.talk.peer, RealPeer)
    peer = RealPeer(owner.talk.peer.address)
    aside = Conversation(peer)
    request = DescribeTransactionsRequest(transactional_ids=[owner.id])
    deadline = time.monotonic() + 30
    while True:
        found = aside.ask("describe", DESCRIBE_TRANSACTIONS, 0, request).transaction_states[0]
        if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            break
        assert time.monotonic() < deadline, f"{owner.id} is {found.transaction_state}"
        time.sleep(0.1)
    peer.close()


@pytest.mark.parametrize("level", LEVELS)
def test_a_forgotten_id_is_unknown_as_to_a_real_coordinator(forgetful: KafkaCluster, level: int) -> None:
    set_feature(forgetful.address(1), TRANSACTION_VERSION, level)

    def script(talk: Conversation) -> None:
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=["group"])
        talk.ask("the group's coordinator", FIND_COORDINATOR, 4, find, until_not_busy=True)
        owner = Owner(talk, clusters)
        owner.initialize("new")
        owner.begin()
        before = owner.now
        owner.end("commit")
        forget(clusters, owner)
        owner.add("add", clusters.plain)
        owner.add_group("a group")
        owner.commit_offsets("offsets")
        owner.send("a batch")
        owner.send("a batch of another partition", partition=1, sequence=0)
        owner.send("the written batch again", who=before, sequence=0)
        owner.end("commit the next")
        owner.end("abort the next", commit=False)
        owner.end("commit again", who=before)
        known = owner.now
        owner.initialize("a new epoch of the forgotten id", known)
        owner.initialize("the same again, whose answer was lost", known)
        owner.begin("another producer")
        owner.end("abort", commit=False)
        forget(clusters, owner)
        owner.initialize("another process")
        owner.send("a batch of the producer before", who=before, sequence=1)
        owner.begin("the last")
        owner.end("commit the last")

    with two_clusters(forgetful) as clusters:
        clusters.compare(script, exact_offsets=False)


@pytest.mark.parametrize(("first", "then"), [(1, 2), (2, 1)])
def test_a_changed_protocol_is_answered_as_by_a_real_coordinator(
    spare_kafka: KafkaCluster, first: int, then: int
) -> None:
    """A producer learns of it with its next connection, so it uses the protocol of before for a while."""

    def change(talk: Conversation, level: int) -> None:
        if isinstance(talk.peer, SimulatedPeer):
            clusters.simulated.transaction_version = level
        else:
            set_feature(spare_kafka.address(1), TRANSACTION_VERSION, level)

    def transaction(owner: Owner, title: str, *, commit: bool) -> None:
        owner.begin(title)
        before = owner.now
        owner.end(f"{title}: end", commit=commit)
        owner.end(f"{title}: end again", commit=commit, who=before)

    def script(talk: Conversation, versions: Versions, later: Versions) -> None:
        change(talk, first)
        owner = Owner(talk, clusters, versions=versions)
        owner.initialize("new")
        owner.begin("before the change")
        change(talk, then)
        owner.send("in the same transaction")
        owner.send("another partition", partition=1) if first == 2 else owner.add(
            "another", clusters.plain, partition=1
        )
        before = owner.now
        owner.end("after the change")
        owner.end("again", who=before)
        for commit in (True, False):
            transaction(owner, f"the protocol of before, {commit}", commit=commit)
        owner.versions = later
        owner.initialize("a new epoch", owner.now)
        owner.sequences.clear()
        for commit in (True, False):
            transaction(owner, f"the new protocol, {commit}", commit=commit)
        owner.initialize("another process")

    with two_clusters(spare_kafka) as clusters:
        clusters.compare(lambda talk: script(talk, LEVELS[first], LEVELS[then]), exact_offsets=False)
