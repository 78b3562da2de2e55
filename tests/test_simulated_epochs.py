"""A simulated coordinator gives another producer id when the epochs of one are used up, as a real one does.

It takes a real one half a minute to use up its 32,767 epochs, so these tests are long ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from conversations import CLIENT_ID, Conversation, RealPeer, SimulatedPeer
from long_forms import only_long
from transaction_conversations import BEFORE_KIP_890, SINCE_KIP_890, Owner, Versions
from two_clusters import TwoClusters, two_clusters

from ottla.protocol import read_response_header, request_header
from ottla.protocol.messages.init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.simulation.transactions import LAST_EPOCH

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.generations("one", since="4.0"),
    pytest.mark.timeout(300),
    only_long("a broker needs half a minute for 32,767 epochs"),
]

AT_ONCE: Final = 50
"""Requests that are sent before the first response is read."""

VERSIONS: Final = pytest.mark.parametrize(
    "versions", [BEFORE_KIP_890, SINCE_KIP_890], ids=["before KIP-890", "since KIP-890"]
)


@pytest.fixture
def clusters(broker: KafkaCluster) -> Iterator[TwoClusters]:
    with two_clusters(broker) as both:
        yield both


def use_up_epochs(owner: Owner, *, last: int) -> None:
    """Initialize an owner again and again, until its epoch is *last*."""
    peer = owner.talk.peer
    owner.initialize("new")
    if isinstance(peer, SimulatedPeer):
        owner.clusters.simulated.transactions.ids[owner.id].epoch = owner.epoch = last
        return
    assert isinstance(peer, RealPeer)
    request = InitProducerIdRequest(transactional_id=owner.id, transaction_timeout_ms=60_000)
    body = INIT_PRODUCER_ID.request(4).encode(request)
    frame = request_header(INIT_PRODUCER_ID, 4, 7, CLIENT_ID) + body
    while owner.epoch < last:
        frames = [frame] * min(AT_ONCE, last - owner.epoch)
        for answer in peer.exchange_all(frames):
            _correlation_id, offset = read_response_header(INIT_PRODUCER_ID, 4, answer)
            owner.epoch = INIT_PRODUCER_ID.response(4).decode(memoryview(answer)[offset:]).producer_epoch
    assert owner.epoch == last


@VERSIONS
def test_the_last_epochs_end_as_at_a_real_broker(clusters: TwoClusters, versions: Versions) -> None:
    def script(talk: Conversation) -> None:
        owner = Owner(talk, clusters, versions=versions)
        use_up_epochs(owner, last=LAST_EPOCH - 1)
        owner.begin("in the last epoch but one")
        owner.end("commit")
        if owner.epoch < LAST_EPOCH:
            owner.initialize("the last epoch", owner.now)
        owner.begin("in the last epoch")
        last = owner.now
        owner.end("the commit of the last epoch")
        owner.end("the commit of the last epoch again", who=last)
        owner.end("its opposite", who=last, commit=False)
        owner.send("the old id", who=last, sequence=7)
        owner.add("the old id adds", clusters.plain, who=last)
        owner.commit_offsets("the old id's offsets", who=last)
        owner.initialize("a new epoch for the old id", last)
        owner.initialize("the same again", last)
        owner.initialize("the same a third time", last)
        owner.initialize("the old id's epoch before", (last[0], last[1] - 1))
        owner.begin("a new transaction")
        owner.end("abort", commit=False)
        owner.initialize("a new epoch", owner.now)

    clusters.compare(script, exact_offsets=False)


@VERSIONS
@pytest.mark.parametrize("knows", [True, False], ids=["itself", "another"])
def test_a_fence_in_the_last_epoch_is_that_of_a_real_broker(
    clusters: TwoClusters, versions: Versions, knows: bool
) -> None:
    def script(talk: Conversation) -> None:
        owner = Owner(talk, clusters, versions=versions)
        use_up_epochs(owner, last=LAST_EPOCH)
        last = owner.now
        owner.begin("in the last epoch")
        owner.initialize("fences", last if knows else (-1, -1), settled=False)
        owner.send("fenced", sequence=1)
        owner.end("fenced, commit")
        owner.initialize("with the last epoch", last)
        owner.initialize("with the epoch of the fence", (last[0], LAST_EPOCH + 1))
        owner.initialize("without an epoch")
        owner.begin("a new transaction")
        owner.end("commit")

    clusters.compare(script, exact_offsets=False)


@VERSIONS
def test_a_time_out_in_the_last_epoch_is_that_of_a_real_broker(clusters: TwoClusters, versions: Versions) -> None:
    def script(talk: Conversation) -> None:
        owner = Owner(talk, clusters, versions=versions)
        use_up_epochs(owner, last=LAST_EPOCH - 1)
        owner.initialize("the last epoch", owner.now, timeout=500)
        last = owner.now
        owner.begin("in the last epoch")
        if isinstance(talk.peer, SimulatedPeer):
            clusters.simulated.transactions.time_out(owner.id)
        talk.peer.await_end(owner.id)
        owner.send("too late", sequence=1)
        owner.end("too late: commit")
        owner.end("too late: abort", commit=False)
        owner.initialize("with the last epoch", last)
        owner.initialize("without an epoch")
        owner.begin("a new transaction")
        owner.end("commit")

    clusters.compare(script, exact_offsets=False)
