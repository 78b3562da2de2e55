"""The ids of topics, and what they say about the cluster of a response."""

from __future__ import annotations

import pytest

from ottla.network.cluster import Topic
from ottla.network.topic_ids import ASKED, MOST_KNOWN, CheckResult, TopicIds
from ottla.protocol.notation import ZERO_UUID

pytestmark = pytest.mark.rule("metadata.again.topics")


def topic(name: str, number: int, *, partitions: int = 1) -> Topic:
    return Topic(name=name, id=bytes([number]) * 16, leaders=(1,) * partitions)


def learned(*topics: Topic, now: float = 10.0) -> TopicIds:
    ids = TopicIds()
    assert not ids.update(topics, now=now, connected_at=5.0)
    return ids


def test_other_ids_on_a_newer_connection_may_be_of_another_cluster() -> None:
    assert learned(topic("t", 1)).update([topic("t", 2)], now=12.0, connected_at=11.0)


def test_other_ids_on_an_older_connection_are_of_new_topics() -> None:
    assert not learned(topic("t", 1)).update([topic("t", 2)], now=12.0, connected_at=9.0)


def test_ids_are_compared_with_those_of_the_same_topics_if_there_are_any() -> None:
    ids = TopicIds()
    compared = []
    for at, name in ((10.0, "t"), (20.0, "u"), (30.0, "t")):
        ids.update([topic(name, 1)], now=at, connected_at=at - 5.0)
        compared.append(ids.compared)

    assert compared == [True, False, True]


def test_one_topic_that_has_kept_its_id_is_enough() -> None:
    ids = learned(topic("t", 1), topic("u", 2))

    assert not ids.update([topic("t", 3), topic("u", 2)], now=12.0, connected_at=11.0)


def test_a_topic_that_was_learned_on_the_same_connection_says_nothing() -> None:
    ids = learned(topic("t", 1))
    assert not ids.update([topic("new", 2)], now=12.0, connected_at=11.0)  # t does not exist there yet

    assert ids.update([topic("t", 3), topic("new", 2)], now=13.0, connected_at=11.0)


def test_a_topic_that_was_learned_later_says_nothing_of_before() -> None:
    """It is of the new cluster already, where the first topic was not in use yet."""
    ids = learned(topic("t", 1))
    assert not ids.update([topic("new", 2)], now=12.0, connected_at=11.0)

    assert ids.check({"t": bytes([3]) * 16, "new": bytes([2]) * 16}, 14.0) is CheckResult.OTHER


def test_a_topic_that_an_older_connection_has_is_of_the_same_cluster() -> None:
    """The broker of that connection belongs to the cluster of the first topic, and has the new one."""
    ids = learned(topic("t", 1))
    assert not ids.update([topic("new", 2)], now=12.0, connected_at=9.0)

    assert not ids.update([topic("t", 3), topic("new", 2)], now=14.0, connected_at=13.0)


@pytest.mark.rule("metadata.again.only-new")
def test_a_response_shows_its_cluster_by_a_known_topic_or_its_connection() -> None:
    ids = learned(topic("t", 1))
    assert ids.compared

    ids.update([topic("new", 2)], now=12.0, connected_at=10.0)
    assert ids.compared
    ids.update([topic("newer", 3)], now=14.0, connected_at=13.0)
    assert not ids.compared
    ids.update([topic("t", 1)], now=15.0, connected_at=13.0)
    assert ids.compared
    ids.update([], now=17.0, connected_at=16.0)
    assert not ids.compared


def test_a_topic_that_is_older_shows_that_the_cluster_is_the_same() -> None:
    ids = learned(topic("t", 1), topic("u", 2))
    ids.update([topic("u", 2)], now=12.0, connected_at=11.0)

    assert ids.check({"t": bytes([3]) * 16, "u": bytes([2]) * 16}, 14.0) is CheckResult.SAME


def test_the_topic_that_has_kept_its_id_for_longest_counts() -> None:
    ids = learned(topic("t", 1), topic("u", 2))
    ids.update([topic("u", 2)], now=12.0, connected_at=11.0)
    ids.update([topic("u", 2), topic("new", 4)], now=13.0, connected_at=11.0)

    found = {"t": bytes([3]) * 16, "u": bytes([2]) * 16, "new": bytes([4]) * 16}
    assert ids.check(found, 14.0) is CheckResult.SAME


def test_a_topic_that_is_missing_for_a_while_keeps_its_id() -> None:
    ids = learned(topic("t", 1))
    assert not ids.update([Topic(name="t")], now=12.0, connected_at=11.0)
    assert not ids.update([], now=13.0, connected_at=11.0)

    assert ids.update([topic("t", 2)], now=14.0, connected_at=11.0)


def test_brokers_without_ids_of_topics_say_nothing() -> None:
    ids = learned(Topic(name="t", id=ZERO_UUID))

    assert ids.sample({}) == []
    assert not ids.update([topic("t", 1)], now=12.0, connected_at=11.0)


def test_a_new_connection_is_of_this_cluster_if_one_topic_has_its_id() -> None:
    ids = learned(topic("t", 1), topic("u", 2))

    assert ids.check({"t": bytes([1]) * 16, "u": bytes([9]) * 16}, 12.0) is CheckResult.SAME
    assert ids.check({}, 12.0) is CheckResult.SAME
    assert ids.check({"t": bytes([8]) * 16, "u": bytes([9]) * 16}, 12.0) is CheckResult.OTHER
    assert ids.check({"t": bytes([1]) * 16, "not asked for": bytes([7]) * 16}, 12.0) is CheckResult.SAME


def test_the_second_contradiction_counts_where_metadata_has_no_ids() -> None:
    ids = learned(topic("t", 1))
    other = {"t": bytes([2]) * 16}
    assert ids.check(other, 12.0) is CheckResult.OTHER
    assert ids.check(other, 12.5) is CheckResult.OTHER  # there was no metadata yet
    assert not ids.update([Topic(name="t", leaders=(1,))], now=13.0, connected_at=12.5)  # of an older broker

    assert ids.check(other, 14.0) is CheckResult.LEARNED
    assert ids.check(other, 15.0) is CheckResult.SAME


def test_ids_of_another_cluster_are_forgotten() -> None:
    ids = learned(topic("t", 1))
    ids.forget()

    assert ids.check({"t": bytes([2]) * 16}, 12.0) is CheckResult.SAME


def test_ids_that_a_new_connection_has_confirmed_are_seen_then() -> None:
    ids = learned(topic("t", 1))
    assert ids.check({"t": bytes([1]) * 16}, 12.0) is CheckResult.SAME

    assert not ids.update([topic("t", 2)], now=13.0, connected_at=11.0)


def test_a_connection_is_asked_for_few_topics_with_few_partitions() -> None:
    topics = {name: topic(name, 1, partitions=count) for name, count in [("a", 5_000), ("b", 3), ("c", 1), ("d", 2)]}
    ids = learned(*topics.values(), topic("not in use", 1))

    assert ids.sample(topics) == ["c", "d", "b"]
    assert ASKED == 3


def test_the_number_of_known_topics_is_bounded() -> None:
    ids = learned(*(topic(f"t-{number}", 1) for number in range(MOST_KNOWN)))
    ids.update([topic("t-0", 1)], now=11.0, connected_at=5.0)
    ids.update([topic("new", 1)], now=12.0, connected_at=5.0)

    assert not ids.update([topic("t-1", 2)], now=14.0, connected_at=13.0)  # the one that was seen first is forgotten
    assert ids.update([topic("t-0", 2)], now=14.0, connected_at=13.5)


def test_a_broker_that_lags_behind_metadata_stays_in_contradiction() -> None:
    """Topics were created again in a living cluster, and the broker has their old ids for some seconds."""
    ids = learned(topic("t", 2))
    old = {"t": bytes([1]) * 16}
    for at in (12.0, 14.0, 16.0):
        assert ids.check(old, at) is CheckResult.OTHER
        assert not ids.update([topic("t", 2)], now=at + 1, connected_at=5.0)  # of a broker that does not lag

    assert ids.check({"t": bytes([2]) * 16}, 18.0) is CheckResult.SAME


def test_the_second_contradiction_counts_if_no_topic_is_in_use() -> None:
    ids = learned(topic("t", 1))
    other = {"t": bytes([2]) * 16}
    assert ids.check(other, 12.0) is CheckResult.OTHER
    assert not ids.update([], now=13.0, connected_at=12.5)

    assert ids.check(other, 14.0) is CheckResult.LEARNED


def test_a_topic_that_metadata_confirms_does_not_confirm_an_idle_one() -> None:
    """The cluster was set up again, and the topic in use was learned there."""
    ids = learned(topic("idle", 1))
    both = {"idle": bytes([2]) * 16, "new": bytes([3]) * 16}
    assert not ids.update([topic("new", 3)], now=12.0, connected_at=11.0)
    assert ids.check(both, 13.0) is CheckResult.OTHER
    assert not ids.update([topic("new", 3)], now=14.0, connected_at=11.0)

    assert ids.check(both, 15.0) is CheckResult.LEARNED


def test_one_topic_that_metadata_confirms_shows_that_a_broker_lags() -> None:
    """The other topic is not in use, so metadata says nothing of it."""
    ids = learned(topic("t", 1), topic("idle", 2))
    other = {"t": bytes([3]) * 16, "idle": bytes([4]) * 16}
    assert ids.check(other, 12.0) is CheckResult.OTHER
    assert not ids.update([topic("t", 1)], now=13.0, connected_at=5.0)

    assert ids.check(other, 14.0) is CheckResult.OTHER
