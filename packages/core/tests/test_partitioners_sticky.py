"""Records without a key fill one batch, then move on to a partition that can take more."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from random import Random

import attrs
import pytest

from ottla.interfaces import TopicView
from ottla.plugins.partitioners.sticky import StickyChoice
from ottla_testkit.manual_clock import ManualClock

BATCH_SIZE = 1000


def view(
    partitions: int = 4,
    *,
    available: Sequence[int] | None = None,
    queued: Sequence[int] | None = None,
    slow: Sequence[int] = (),
    racks: Sequence[str | None] = (),
) -> TopicView:
    """A view; partition p is led by node p, which is in `racks[p]`."""
    return TopicView(
        partitions=partitions,
        leaders=[p if available is None or p in available else -1 for p in range(partitions)],
        racks={node: rack for node, rack in enumerate(racks) if rack is not None},
        available=range(partitions) if available is None else available,
        queued_bytes=[0] * partitions if queued is None else queued,
        slow=frozenset(slow),
    )


@pytest.fixture
def choice() -> StickyChoice:
    return StickyChoice(batch_size=BATCH_SIZE, adaptive=True, random=Random(7))


def moves(choice: StickyChoice, topic_view: TopicView, count: int) -> Counter[int]:
    """Counts of the chosen partitions, over *count* choices."""
    chosen: Counter[int] = Counter()
    for _ in range(count):
        partition = choice.partition("t", topic_view)
        chosen[partition] += 1
        choice.appended("t", partition, BATCH_SIZE)
    return chosen


@pytest.mark.rule("partitioner.sticky")
def test_the_sticky_partition_changes_once_a_batch_is_full(choice: StickyChoice) -> None:
    same = view(1000)
    stays: list[int] = []
    for _ in range(90):
        stays.append(choice.partition("t", same))
        choice.appended("t", stays[-1], 98)

    stretches = [stays[start : start + 9] for start in range(0, 90, 9)]
    assert [len(set(stretch)) for stretch in stretches] == [1] * 10
    assert len({stretch[0] for stretch in stretches}) > 5


def stretch(choice: StickyChoice, clock: ManualClock, *, size: int, pause: float) -> tuple[int, float]:
    """The bytes that go to one partition in a row, *size* at a time, and how long that takes."""
    same = view(1000)
    first, began, sent = choice.partition("t", same), clock(), 0
    while choice.partition("t", same) == first:
        assert sent < 1 << 24, "it does not come to an end"
        clock.advance(pause)
        choice.appended("t", first, size)
        sent += size
    return sent, clock() - began


LINGER = 0.005


@pytest.mark.parametrize(
    ("pause", "stays"),
    [
        (0.020, BATCH_SIZE),  # slowly: a batch's worth
        (0.001, 5 * BATCH_SIZE),  # more than a batch in the time that batches linger: for that time
        (0.0, 1 << 20),  # at once: not without end
    ],
)
def test_quick_records_keep_their_sticky_partition_during_linger(pause: float, stays: int) -> None:
    clock = ManualClock()
    choice = StickyChoice(batch_size=BATCH_SIZE, adaptive=True, random=Random(7), linger=LINGER, clock=clock)
    stretch(choice, clock, size=BATCH_SIZE, pause=pause)  # the first stay has begun before the first record

    sent, _took = stretch(choice, clock, size=BATCH_SIZE, pause=pause)

    assert stays <= sent <= stays + BATCH_SIZE


def test_a_long_linger_does_not_prevent_a_new_sticky_partition() -> None:
    clock = ManualClock()
    choice = StickyChoice(batch_size=BATCH_SIZE, adaptive=True, random=Random(7), linger=60.0, clock=clock)
    stretch(choice, clock, size=BATCH_SIZE, pause=0.001)

    _sent, took = stretch(choice, clock, size=BATCH_SIZE, pause=0.001)

    assert took == pytest.approx(0.010)


def test_finished_batches_change_partition_after_a_batch_size() -> None:
    clock = ManualClock()
    choice = StickyChoice(batch_size=BATCH_SIZE, adaptive=True, random=Random(7), linger=LINGER, clock=clock)
    same = view(1000)
    places = []
    for _ in range(20):
        places.append(choice.partition("t", same))
        choice.finished("t", places[-1], BATCH_SIZE // 2)

    assert len(set(places[0::2])) > 8
    assert places[0::2] == places[1::2]


def test_without_linger_a_batch_size_ends_the_sticky_partition(choice: StickyChoice) -> None:
    clock = ManualClock()
    assert stretch(choice, clock, size=BATCH_SIZE, pause=0.0) == (BATCH_SIZE, 0.0)


@pytest.mark.rule("partitioner.sticky")
def test_the_sticky_partition_changes_when_no_record_would_fit(choice: StickyChoice) -> None:
    same = view(1000)
    first = choice.partition("t", same)

    choice.appended("t", first, BATCH_SIZE * 13 // 16)
    assert choice.partition("t", same) == first

    choice.appended("t", first, BATCH_SIZE // 15)
    assert choice.partition("t", same) != first


def test_a_large_topic_is_not_scanned_for_every_new_sticky_partition() -> None:
    looks = 0

    class Looked(list[int]):
        def __getitem__(self, index: object) -> int:  # type: ignore[override]
            nonlocal looks
            looks += 1
            return 0

    choice = StickyChoice(batch_size=BATCH_SIZE, adaptive=True, random=Random(7))
    large = TopicView(partitions=800, available=range(800), queued_bytes=Looked())
    moves(choice, large, 800)

    assert looks <= 10 * 800


def test_a_record_larger_than_a_batch_changes_the_partition_at_once(choice: StickyChoice) -> None:
    assert len(moves(choice, view(1000), 50)) > 40


def test_topics_do_not_affect_each_other(choice: StickyChoice) -> None:
    same = view(1000)
    first = choice.partition("a", same)
    for _ in range(50):
        choice.appended("b", choice.partition("b", same), BATCH_SIZE)

    assert first == choice.partition("a", same)


def test_records_of_other_partitions_do_not_count(choice: StickyChoice) -> None:
    same = view(1000)
    first = choice.partition("t", same)
    choice.appended("t", first + 1, 10 * BATCH_SIZE)
    choice.appended("never asked", 0, 10 * BATCH_SIZE)

    assert first == choice.partition("t", same)


def test_equal_queues_are_chosen_equally_often(choice: StickyChoice) -> None:
    chosen = moves(choice, view(4, queued=[500, 1000, 1, 900]), 4000)  # one batch each

    assert all(850 < chosen[partition] < 1150 for partition in range(4))


@pytest.mark.rule("partitioner.adaptive")
def test_shorter_queues_are_chosen_more_often(choice: StickyChoice) -> None:
    chosen = moves(choice, view(3, queued=[0, 2000, 3000]), 7000)  # weights 4, 2, 1

    assert 3800 < chosen[0] < 4200
    assert 1850 < chosen[1] < 2150
    assert 850 < chosen[2] < 1150


@pytest.mark.rule("partitioner.adaptive")
def test_queues_do_not_matter_when_adaptive_partitioning_is_off() -> None:
    choice = StickyChoice(batch_size=BATCH_SIZE, adaptive=False, random=Random(7))

    chosen = moves(choice, view(3, queued=[0, 2000, 300_000]), 3000)

    assert all(850 < chosen[partition] < 1150 for partition in range(3))


def test_queues_are_read_when_the_sticky_partition_changes(choice: StickyChoice) -> None:
    queued = [0, 0]
    live = view(2, queued=queued)
    queued[0] = 10_000_000

    assert moves(choice, live, 1000)[1] > 980


@pytest.mark.rule("partitioner.available")
def test_only_available_partitions_are_chosen(choice: StickyChoice) -> None:
    assert {1, 3} == moves(choice, view(4, available=[1, 3]), 100).keys()


@pytest.mark.rule("partitioner.available")
def test_all_partitions_are_candidates_when_none_is_available(choice: StickyChoice) -> None:
    assert {0, 1, 2, 3} == moves(choice, view(4, available=[], queued=[0, 10**6, 0, 0]), 400).keys()


@pytest.mark.rule("partitioner.slow")
def test_slow_partitions_are_skipped_unless_all_are_slow(choice: StickyChoice) -> None:
    assert {0, 2} == moves(choice, view(3, slow=[1]), 100).keys()
    assert {0, 2} == moves(choice, view(3, available=[0, 2], slow=[0, 2]), 100).keys()


@pytest.mark.rule("partitioner.news")
def test_a_partition_that_lost_its_leader_is_left_at_once(choice: StickyChoice) -> None:
    before = view(4)
    first = choice.partition("t", before)
    rest = [partition for partition in range(4) if partition != first]

    assert choice.partition("t", view(4, available=rest)) in rest


def test_a_cluster_update_alone_does_not_change_the_partition(choice: StickyChoice) -> None:
    first = choice.partition("t", view(100))

    assert [first] * 50 == [choice.partition("t", view(100)) for _ in range(50)]


def test_a_recreated_topic_with_fewer_partitions_is_respected(choice: StickyChoice) -> None:
    for _ in range(20):
        choice.partition("t", view(1000))
        assert choice.partition("t", view(2)) in (0, 1)


def test_concurrent_threads_always_get_an_existing_partition(choice: StickyChoice) -> None:
    views = [view(3), view(5, available=[0, 4]), view(5, queued=[9000, 0, 0, 0, 1])]
    wrong: list[int] = []

    def work(number: int) -> None:
        for turn in range(3000):
            topic_view = views[(number + turn // 100) % 3]
            partition = choice.partition("t", topic_view)
            if partition not in topic_view.available:
                wrong.append(partition)
            choice.appended("t", partition, 300)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not wrong


def test_a_view_changed_with_attrs_is_a_new_view(choice: StickyChoice) -> None:
    topic_view = view(2)
    first = choice.partition("t", topic_view)

    assert choice.partition("t", attrs.evolve(topic_view, slow=frozenset({first}))) == 1 - first


# Racks (KIP-1123), with the cases of Kafka's BuiltInPartitionerTest: of four nodes, 0 and 2 are in rack0

RACKS = ("rack0", "rack1", "rack0", "rack2")


def rack_choice(rack: str, *, adaptive: bool = True) -> StickyChoice:
    return StickyChoice(batch_size=BATCH_SIZE, adaptive=adaptive, random=Random(7), rack=rack)


@pytest.mark.rule("partitioner.rack")
@pytest.mark.parametrize("adaptive", [True, False])
def test_leaders_in_the_rack_of_the_client_are_preferred_if_there_are_any(adaptive: bool) -> None:
    choice = rack_choice("rack0", adaptive=adaptive)

    assert moves(choice, view(racks=RACKS), 100).keys() == {0, 2}
    assert moves(choice, view(available=[0, 1, 3], racks=RACKS), 100).keys() == {0}
    assert moves(choice, view(available=[1, 3], racks=RACKS), 100).keys() == {1, 3}
    assert moves(choice, view(racks=RACKS), 100).keys() == {0, 2}
    assert moves(choice, view(racks=()), 100).keys() == {0, 1, 2, 3}


@pytest.mark.rule("partitioner.rack", "partitioner.available")
@pytest.mark.parametrize("rack", ["rack0", "rack1", "rack2"])
def test_a_preferred_rack_never_chooses_a_partition_without_a_leader(rack: str) -> None:
    choice = rack_choice(rack)

    assert moves(choice, view(3, available=[0, 2], racks=RACKS), 100).keys() == {0, 2}
    assert moves(choice, view(2, available=[1], racks=RACKS), 100).keys() == {1}
    assert moves(choice, view(1, available=[], racks=RACKS), 10).keys() == {0}


@pytest.mark.rule("partitioner.rack", "partitioner.adaptive")
def test_in_the_preferred_rack_shorter_queues_are_chosen_more_often() -> None:
    queued = [5 * BATCH_SIZE, 0, 3 * BATCH_SIZE, 0]
    chosen = moves(rack_choice("rack0"), view(queued=queued, racks=RACKS), 4000)  # weights 1 and 3

    assert chosen.keys() == {0, 2}
    assert 900 < chosen[0] < 1100


@pytest.mark.rule("partitioner.adaptive")
@pytest.mark.parametrize("rack", [None, "rack0"])
def test_without_racks_of_brokers_queues_weigh_as_they_do_without_one(rack: str | None) -> None:
    choice = StickyChoice(batch_size=BATCH_SIZE, adaptive=True, random=Random(7), rack=rack)
    queued = [5 * BATCH_SIZE, 0, 3 * BATCH_SIZE, 0, BATCH_SIZE]  # weights 1, 6, 3, 6, 5
    chosen = moves(choice, view(5, queued=queued), 21_000)

    assert all(abs(chosen[p] - 1000 * weight) < 350 for p, weight in enumerate([1, 6, 3, 6, 5]))


@pytest.mark.rule("partitioner.rack", "partitioner.slow")
def test_slow_leaders_of_the_preferred_rack_are_left_out() -> None:
    choice = rack_choice("rack0")

    assert moves(choice, view(slow=[0], racks=RACKS), 100).keys() == {2}
    assert moves(choice, view(slow=[0, 2], racks=RACKS), 100).keys() == {1, 3}
    assert moves(choice, view(slow=[0, 1, 2, 3], racks=RACKS), 100).keys() == {0, 2}


@pytest.mark.rule("partitioner.rack", "partitioner.news")
def test_a_partition_whose_leader_moved_to_another_rack_is_left_at_once() -> None:
    choice = rack_choice("rack0")
    first = choice.partition("t", view(2, racks=["rack0", "rack1"]))
    second = choice.partition("t", view(2, racks=["rack1", "rack0"]))

    assert (first, second) == (0, 1)
