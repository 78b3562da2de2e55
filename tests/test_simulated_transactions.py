"""A simulated broker answers the requests of transactions as a real one does, right ones and wrong ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Final

import attrs
import pytest
from confluent_kafka import Consumer
from conversations import Conversation, SimulatedPeer
from handmade_batches import Batch
from transaction_conversations import BEFORE_KIP_890, SINCE_KIP_890, Owner, Versions
from two_clusters import UNKNOWN, TwoClusters, produced, two_clusters

from ottla.protocol import PRODUCE
from ottla.protocol.messages.find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest
from ottla.protocol.messages.produce import PartitionProduceData
from ottla.transactions import ConsumerGroupMetadata
from ottla.transactions.group_metadata import group_of
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.simulation import SimulatedGroup
from ottla_testkit.simulation.transactions import TXN_V2
from transactions_kit import await_true

FIRST_WITH_MEMBERS: Final = 3
"""From this version on, TxnOffsetCommit has the consumer's membership."""

pytestmark = [pytest.mark.kafka, pytest.mark.generations("all", since="4.0")]


@pytest.fixture
def clusters(broker: KafkaCluster) -> Iterator[TwoClusters]:
    with two_clusters(broker) as both:
        yield both


def find_group(talk: Conversation) -> None:
    """Ask for the coordinator of the group, which creates the topic of its offsets."""
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=["group"])
    talk.ask("the group's coordinator", FIND_COORDINATOR, 4, find, until_not_busy=True)


def test_producer_ids_are_given_as_by_a_real_broker(clusters: TwoClusters) -> None:
    def script(talk: Conversation) -> None:
        owner = Owner(talk, clusters)
        owner.initialize("new")
        owner.initialize("another process")
        first = owner.now
        owner.initialize("a new epoch for itself", first)
        owner.initialize("the same again", first)
        owner.initialize("the older one", (first[0], 0))
        owner.initialize("an epoch of the future", (first[0], 77))
        owner.initialize("another producer", (first[0] + 1_000_000, first[1]))
        owner.initialize("afterwards")
        owner.initialize("version 2", version=2)
        owner.initialize("no time", timeout=0)
        owner.initialize("negative time", timeout=-1)
        owner.initialize("more time than allowed", timeout=2**31 - 1)
        owner.initialize("an empty id", transactional_id="")
        owner.initialize("an id without its epoch", (first[0], -1))
        owner.initialize("an epoch without its id", (-1, 3))
        other = Owner(talk, clusters, 2)
        other.initialize("unknown, with a producer of its own", (first[0] + 1_000_000, 3))
        request = InitProducerIdRequest(transactional_id=None, producer_id=first[0], producer_epoch=3)
        talk.ask("without a transactional id, with a producer", INIT_PRODUCER_ID, 4, request)
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-5)
        talk.ask("without a transactional id, negative time", INIT_PRODUCER_ID, 4, request)

    clusters.compare(script, exact_offsets=False)


def test_transactions_end_as_at_a_real_broker(clusters: TwoClusters) -> None:
    def script(talk: Conversation) -> None:
        owner = Owner(talk, clusters)
        owner.initialize("new")
        owner.end("commit nothing")
        owner.begin()
        before = owner.now
        owner.end("a commit of an epoch of the future", who=(before[0], before[1] + 1))
        owner.end("a commit of another producer", who=(before[0] + 1_000_000, before[1]))
        owner.end("a commit of an unknown id", name="nobody")
        owner.end("a commit without an id", name="")
        owner.end("commit")
        owner.end("commit again", who=before)
        owner.end("abort what was committed", who=before, commit=False)
        owner.end("commit nothing again")
        owner.begin("second")
        before = owner.now
        owner.end("abort", commit=False)
        owner.end("abort again", commit=False, who=before)
        owner.end("commit what was aborted", who=before)
        owner.begin("third")
        owner.end("commit the third")
        owner.send("an old epoch", who=before, sequence=9)
        owner.end("an old epoch's commit", who=(before[0], 0))
        owner.end("the current epoch aborts nothing", commit=False)
        owner.end("and again", commit=False)
        owner.end("and commits nothing")

    clusters.compare(script, exact_offsets=False)


def test_epochs_of_older_versions_of_end_txn_are_those_of_a_real_broker(clusters: TwoClusters) -> None:
    def script(talk: Conversation) -> None:
        owner = Owner(talk, clusters, versions=BEFORE_KIP_890)
        owner.initialize("new", version=3)
        owner.end("abort nothing", commit=False, version=3)
        owner.begin()
        owner.end("commit", version=3)
        owner.end("commit again", version=3)
        owner.end("abort", commit=False, version=3)
        owner.begin("second")
        owner.end("abort the second", commit=False, version=3)
        owner.end("abort it again", commit=False, version=3)
        owner.initialize("a new epoch", owner.now, version=3)
        owner.send("a batch without a transaction", sequence=0)

    clusters.compare(script, exact_offsets=False)


def test_partitions_are_added_to_transactions_as_at_a_real_broker(clusters: TwoClusters) -> None:
    def script(talk: Conversation) -> None:
        owner = Owner(talk, clusters)
        owner.add("before any InitProducerId", clusters.plain, who=(5, 0))
        owner.initialize("new")
        owner.add("unknown topic", UNKNOWN)
        owner.add("unknown partition", clusters.plain, partition=9)
        owner.add("one of two unknown", clusters.plain, UNKNOWN)
        owner.end("commit what was not added")
        owner.add("two", clusters.plain, clusters.small)
        owner.add("the same again", clusters.plain)
        owner.add("an old epoch", clusters.plain, who=(owner.producer_id, owner.epoch - 1))
        owner.add("a new epoch", clusters.plain, who=(owner.producer_id, owner.epoch + 1))
        owner.add("another producer", clusters.plain, who=(owner.producer_id + 1_000_000, 0))
        owner.add("an unknown id", clusters.plain, name="nobody")
        owner.add("no topics")
        owner.end("commit")
        owner.add("after the commit", clusters.plain)
        owner.end("abort", commit=False)

    clusters.compare(script, exact_offsets=False)


def test_batches_of_transactions_are_judged_as_by_a_real_broker(clusters: TwoClusters) -> None:
    def script(talk: Conversation) -> None:
        owner = Owner(talk, clusters)
        owner.initialize("new")
        owner.send("not added, version 11", sequence=0, version=11)
        owner.send("a batch without a transaction", sequence=0, transactional=False, partition=1)
        owner.begin()
        owner.send("again", sequence=0)
        owner.send("a gap", sequence=5)
        owner.send("an old epoch", who=(owner.producer_id, owner.epoch - 1), sequence=0)
        owner.send("a new epoch", who=(owner.producer_id, owner.epoch + 1), sequence=0)
        owner.send("another producer", who=(owner.producer_id + 1_000_000, 0), sequence=0)
        owner.send("an unknown id", name="nobody", partition=1, sequence=0)
        owner.send("no id", name="", partition=1, sequence=0)
        before = owner.now
        owner.end("commit")
        owner.send("the written batch again", who=before, sequence=0)
        owner.send("one more of the old transaction", who=before, sequence=1)
        owner.begin("second")
        owner.send("a late copy of the old transaction", who=before, sequence=0)
        owner.send("the next number", sequence=1)
        owner.send("a batch without a transaction in one", sequence=2, transactional=False)
        owner.end("abort", commit=False)
        owner.begin("third")
        owner.initialize("fenced by itself", owner.now, until_not_busy=False)
        owner.initialize("then", owner.now)
        owner.begin("fourth")

    clusters.compare(script, exact_offsets=False)


def test_fenced_producers_are_refused_as_by_a_real_broker(clusters: TwoClusters) -> None:
    def script(talk: Conversation) -> None:
        old = Owner(talk, clusters)
        old.initialize("new")
        old.begin()
        new = Owner(talk, clusters)
        new.initialize("the same id, first answer", until_not_busy=False)
        new.initialize("the same id")
        old.begin("fenced")
        old.send("fenced, another partition", partition=1, sequence=0)
        old.add("fenced: add another", clusters.plain, partition=1)
        old.end("fenced: commit")
        old.end("fenced: abort", commit=False)
        old.add_group("fenced: add a group")
        old.commit_offsets("fenced: offsets")
        old.initialize("fenced: a new epoch", old.now)
        new.begin("the new one")
        new.end("the new one's commit")

    clusters.compare(script, exact_offsets=False)


def test_transactions_that_last_too_long_end_as_at_a_real_broker(clusters: TwoClusters) -> None:
    def script(talk: Conversation) -> None:
        find_group(talk)
        owner = Owner(talk, clusters)
        owner.initialize("new", timeout=500)
        owner.begin()
        if isinstance(talk.peer, SimulatedPeer):
            clusters.simulated.transactions.time_out(owner.id)
        talk.peer.await_end(owner.id)
        owner.send("too late", sequence=1)
        owner.send("too late, another partition", sequence=0, partition=1)
        owner.add("too late: add", clusters.plain)
        owner.commit_offsets("too late: offsets")
        owner.end("too late: commit")
        owner.end("too late: abort", commit=False)
        owner.initialize("a new epoch", owner.now)
        owner.begin("second")
        owner.end("commit")

    clusters.compare(script, exact_offsets=False)


def test_offsets_are_committed_as_at_a_real_broker(clusters: TwoClusters) -> None:
    def script(talk: Conversation) -> None:
        owner = Owner(talk, clusters)
        find_group(talk)
        owner.initialize("new")
        owner.commit_offsets("without a transaction, version 4", version=4)
        if owner.versions.commit_offsets < SINCE_KIP_890.commit_offsets:
            owner.add_group("add")
        owner.commit_offsets("offsets")
        owner.commit_offsets("an unknown topic", topic=UNKNOWN)
        owner.commit_offsets("an unknown partition", partition=9)
        owner.commit_offsets("an old epoch", who=(owner.producer_id, owner.epoch - 1))
        owner.commit_offsets("a new epoch", who=(owner.producer_id, owner.epoch + 1))
        owner.commit_offsets("another producer", who=(owner.producer_id + 1_000_000, 0))
        owner.commit_offsets("another group", group="another")
        owner.commit_offsets("an empty group", group="")
        before = owner.now
        owner.end("commit")
        owner.commit_offsets("after the commit", who=before)
        owner.add_group("an empty group added", group="")
        owner.add_group("an old epoch adds", who=(owner.producer_id, owner.epoch - 1))
        owner.add_group("another producer adds", who=(owner.producer_id + 1_000_000, 0))
        owner.add_group("add again")
        owner.end("abort", commit=False)

    clusters.compare(script, exact_offsets=False)


OLDEST = Versions(initialize=0, add=0, add_group=0, produce=3, commit_offsets=0, end=0)
OLDER = Versions(initialize=2, add=1, add_group=2, produce=8, commit_offsets=2, end=2)
MIXED = Versions(produce=11, commit_offsets=4, end=5)
CONTRARY = Versions(produce=12, commit_offsets=5, end=4)


@pytest.mark.parametrize(
    "versions",
    [OLDEST, OLDER, BEFORE_KIP_890, SINCE_KIP_890, MIXED, CONTRARY],
    ids=["oldest", "older", "before KIP-890", "since KIP-890", "mixed", "contrary"],
)
def test_each_version_of_requests_is_answered_as_by_a_real_broker(clusters: TwoClusters, versions: Versions) -> None:
    if clusters.level == 0 and SINCE_KIP_890.end in (versions.end, versions.commit_offsets):
        pytest.skip("a real broker's coordinator fails then, and is busy with the transaction for ever")

    def script(talk: Conversation) -> None:
        find_group(talk)
        owner = Owner(talk, clusters, versions=versions)
        owner.initialize("new")
        for commit in (True, False):
            title = "commit" if commit else "abort"
            owner.begin(title)
            owner.begin(f"{title}, another partition", partition=1)
            if versions.commit_offsets < SINCE_KIP_890.commit_offsets:
                owner.commit_offsets(f"{title}, offsets of a group that was not added")
                owner.add_group(f"{title}, a group")
            owner.commit_offsets(f"{title}, offsets")
            before = owner.now
            owner.send(f"{title}, without an id", without_id=True, sequence=5)
            owner.end(title, commit=commit)
            owner.end(f"{title} again", commit=commit, who=before)
            owner.end(f"the opposite of {title}", commit=not commit, who=before)
            owner.send(f"{title}, a batch without a transaction", sequence=9)
            owner.commit_offsets(f"{title}, offsets without a transaction")
            owner.end(f"{title}, the end of what has begun", commit=False)
        owner.initialize("another process")
        owner.begin("afterwards")
        owner.end("the last one")

    clusters.compare(script, exact_offsets=False)


def test_sequence_numbers_of_transactions_are_judged_as_by_a_real_broker(clusters: TwoClusters) -> None:
    def script(talk: Conversation) -> None:
        owner = Owner(talk, clusters)
        owner.initialize("new")
        owner.add("add", clusters.plain)
        owner.send("in the middle", sequence=5)
        owner.send("after it", sequence=6)
        owner.send("before it", sequence=4)
        owner.send("from the beginning", sequence=0)
        owner.end("commit")
        owner.add("add again", clusters.plain)
        owner.send("the next number", sequence=7)
        owner.send("number 0", sequence=0)
        owner.send("number 1", sequence=1)
        owner.end("abort", commit=False)
        owner.send("2, before it is added, version 11", sequence=2, version=11)
        owner.send("1, before it is added, version 11", sequence=1, version=11)
        owner.add("add a third time", clusters.plain)
        owner.send("2", sequence=2)
        owner.send("3", sequence=3)
        owner.send("0", sequence=0)
        owner.send("1", sequence=1)
        owner.initialize("fences itself", until_not_busy=False)
        owner.initialize("fenced itself")
        owner.add("add a fourth time", clusters.plain)
        owner.send("a gap in a new epoch", sequence=3)
        owner.send("0 in a new epoch", sequence=0)
        owner.end("the end")

    clusters.compare(script, exact_offsets=False)


def test_requests_with_several_batches_are_judged_as_by_a_real_broker(clusters: TwoClusters) -> None:
    def script(talk: Conversation) -> None:
        owner, other = Owner(talk, clusters), Owner(talk, clusters, 2)
        owner.initialize("new")
        other.initialize("other")
        one, two = (
            Batch(producer_id=each.producer_id, epoch=each.epoch, sequence=0, transactional=True)
            for each in (owner, other)
        )
        bare, unwritten = Batch(), one.encode()[:-9]
        version = owner.versions.produce
        owner.add("add", clusters.plain)

        def send(title: str, *batches: Batch | bytes, name: str | None = owner.id) -> None:
            request = produced(clusters.plain, None, transactional_id=name)
            request.topic_data[0].partition_data = [
                PartitionProduceData(index=index, records=each if isinstance(each, bytes) else each.encode())
                for index, each in enumerate(batches)
            ]
            talk.ask(title, PRODUCE, version, request)

        send("a transaction's and another batch", one, bare)
        send("of two transactions", one, two)
        send("a transaction's and half of a batch", one, unwritten)
        send("without an id", one, bare, name=None)
        send("half of a batch, without an id", one, unwritten, name=None)
        send("with an empty id", one, bare, name="")
        send("one that was not added, too, and again", one, attrs.evolve(one, sequence=0))
        owner.end("commit")
        send("neither was added", one, one)

    clusters.compare(script, exact_offsets=False)


def test_two_transactions_in_one_partition_are_judged_as_by_a_real_broker(clusters: TwoClusters) -> None:
    def script(talk: Conversation) -> None:
        owners = [Owner(talk, clusters, number) for number in range(3)]
        for number, owner in enumerate(owners):
            owner.initialize(f"new {number}")
        for number, owner in enumerate(owners):
            owner.begin(f"begin {number}")
        for number, owner in enumerate(owners):
            owner.send(f"more of {number}")
            owner.send(f"{number} with the id of another", name=owners[number - 1].id, sequence=2)
        for number, owner in enumerate(owners):
            owner.end(f"end {number}", commit=number != 1)
            owner.begin(f"another of {number}")
        for number, owner in enumerate(owners):
            owner.end(f"end {number} again", commit=number == 1)

    clusters.compare(script, exact_offsets=False)


@contextmanager
def group_member(clusters: TwoClusters, group: str, **config: str) -> Iterator[ConsumerGroupMetadata]:
    """A consumer in a group of the real cluster, which the simulated cluster then has, too."""
    settings = {"bootstrap.servers": clusters.kafka.bootstrap_servers, "group.id": group, **config}
    with closing(Consumer(settings)) as consumer:
        consumer.subscribe([clusters.plain])

        def joined() -> bool:
            consumer.poll(0.1)
            return bool(consumer.assignment())

        await_true(joined)
        known = group_of(consumer.consumer_group_metadata())
        clusters.simulated.groups[group] = SimulatedGroup(
            generation_id=known.generation_id,
            members={known.member_id: known.group_instance_id},
            classic=config.get("group.protocol") != "consumer",
        )
        yield known
    if known.group_instance_id is None:  # a static member is only away for a while
        clusters.simulated.groups[group].members.clear()


@pytest.mark.parametrize("version", [2, 3, 5])
@pytest.mark.parametrize(
    "config",
    [{}, {"group.instance.id": "static"}, {"group.protocol": "consumer"}],
    ids=["classic", "static", "consumer"],
)
def test_members_of_groups_are_judged_as_by_a_real_broker(
    clusters: TwoClusters, config: dict[str, str], version: int
) -> None:
    """Only the member and the generation that a group has may commit offsets (KIP-447)."""
    if clusters.level < TXN_V2 and version >= SINCE_KIP_890.commit_offsets:
        pytest.skip("this version needs the newer protocol")
    group = f"group-{clusters.plain}"

    def commit(owner: Owner, title: str, named: ConsumerGroupMetadata) -> None:
        if version < FIRST_WITH_MEMBERS:
            named = ConsumerGroupMetadata(named.group_id)
        owner.commit_offsets(
            title,
            group=named.group_id,
            member=named.member_id,
            generation=named.generation_id,
            instance=named.group_instance_id,
            version=version,
        )

    def script(talk: Conversation, known: ConsumerGroupMetadata, *, left: bool) -> None:
        owner = Owner(talk, clusters, versions=None if version >= SINCE_KIP_890.commit_offsets else BEFORE_KIP_890)
        find = FindCoordinatorRequest(key_type=1, coordinator_keys=[owner.id])
        talk.ask("the transaction's coordinator", FIND_COORDINATOR, 4, find, until_not_busy=True)
        owner.initialize("new")
        if version < SINCE_KIP_890.commit_offsets:
            commit(owner, "a group that was not added", known)
            owner.add_group("add", group=group)
            owner.add_group("add another", group=f"another-{group}")
        commit(owner, "the member", known)
        if version >= FIRST_WITH_MEMBERS:
            commit(owner, "an older generation", attrs.evolve(known, generation_id=known.generation_id - 1))
            commit(owner, "a newer generation", attrs.evolve(known, generation_id=known.generation_id + 1))
            commit(owner, "no generation", attrs.evolve(known, generation_id=-1))
            commit(owner, "another member", attrs.evolve(known, member_id="another"))
            commit(owner, "another member, no generation", ConsumerGroupMetadata(group, -1, "another"))
            commit(owner, "a generation without a member", ConsumerGroupMetadata(group, known.generation_id))
            commit(owner, "an unknown instance", attrs.evolve(known, group_instance_id="unknown"))
            commit(owner, "an instance alone", ConsumerGroupMetadata(group, -1, "", "static"))
            commit(owner, "another member of the instance", attrs.evolve(known, member_id="another"))
            commit(owner, "another group", ConsumerGroupMetadata(f"another-{group}", 3, "another"))
            old = attrs.evolve(known, generation_id=known.generation_id - 1)
            before = owner.now
            owner.commit_offsets(
                "an older generation of a fenced producer",
                group=group,
                member=old.member_id,
                generation=old.generation_id,
                who=(before[0], before[1] + 1),
                version=version,
            )
        commit(owner, "the group alone", ConsumerGroupMetadata(group))
        owner.end("commit" if not left else "commit without a member")

    with group_member(clusters, group, **config) as known:
        clusters.compare(partial(script, known=known, left=False), exact_offsets=False)
    clusters.compare(partial(script, known=known, left=True), exact_offsets=False)


def test_groups_are_added_to_transactions_as_at_a_real_broker(clusters: TwoClusters) -> None:
    def script(talk: Conversation) -> None:
        find_group(talk)
        owner = Owner(talk, clusters)
        owner.add_group("before any InitProducerId", who=(1, 0))
        owner.initialize("new")
        owner.add_group("a group alone")
        owner.end("commit the group alone")
        owner.add_group("a group")
        owner.add_group("another", group="another")
        owner.commit_offsets("of the group")
        owner.commit_offsets("of the group, again")
        owner.commit_offsets("of the other group", group="another")
        owner.add("a partition", clusters.plain)
        owner.send("a batch")
        owner.end("abort", commit=False)
        owner.commit_offsets("after the abort")
        owner.end("the end of what has begun", commit=False)

    clusters.compare(script, exact_offsets=False)
