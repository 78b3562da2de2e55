"""The suite for partitioners catches what is wrong, and says what it is."""

from __future__ import annotations

import pytest
from suite_runs import Suite, assert_caught, each_of

pytest_plugins = ["pytester"]

SUITE = Suite(
    name="PartitionerConformance",
    subject="partitioner",
    module="wrong_partitioners",
    more=lambda _patience: "heeds_availability = True",
)

WRONG = [
    ("OneTooMany", "in_range", r"chose partition \d+ of a topic that has \d+"),
    ("Negative", "in_range", "chose partition -1 of a topic that has"),
    ("RemembersTheFirstView", "grows_and_shrinks", r"chose partition \d+ of a topic that has \d+"),
    ("OneCountForAllTopics", "told_apart", r"chose partition \d+ of a topic that has 2"),
    (
        "NeedsAKey",
        "in_range",
        r"for no key .*raised TypeError.*it must have a partition for every record",
    ),
    (
        "NeedsALeader",
        "in_range",
        r"for no key and a topic of 1 partitions, 0 of them .*raised IndexError",
    ),
    ("NeedsAByte", "in_range", r"partition\(\) for the key b'' .*raised IndexError"),
    ("ReadsTextOnly", "in_range", r"for the key b'.xff.xfe not UTF-8'.*raised UnicodeDecodeError"),
    ("FloatingPoint", "in_range", "returned 0.0, a float; a partition is an int"),
    ("RollsDice", "same_partition", r"records of one key have to stay in order"),
    ("FollowsTheLeaders", "same_partition", "only the key and the number of partitions may decide"),
    (
        "IgnoresLeaders",
        "where_a_leader_is",
        r"without a key was put on partition \d+, which has no leader now",
    ),
    ("TakesNotesInTheView", "changes_nothing", "changed the view: its lists are the core's own"),
    ("OtherColumn", "many_keys_at_once", r"partition_column\(\) put the key .* and partition\(\) on"),
    ("ColumnOfTexts", "many_keys_at_once", r"partition_column\(\) returned '\d+', a str; a partition is an int"),
    ("ShortColumn", "many_keys_at_once", r"partition_column\(\) gave 1 partitions for 2 keys"),
    ("EatsTheKeys", "many_keys_at_once", r"partition_column\(\) changed the list of keys"),
    ("NearlyMurmur2", "others_look", 'hashes is "murmur2", and the key .* Java\'s producer puts it on'),
    ("StaysForEver", "moves_a_sticky_one_on", r"only the partitions \[0\] of 4 were chosen"),
    ("LearnsNothing", "can_be_told_what_went_where", "sticky is True without `appended`"),
    ("KnowsOnlyItsTopics", "does_not_know", r"appended\(\) for partition 0 raised KeyError"),
    (
        "TornByThreads",
        "many_threads",
        r"chose partition \d+ of a topic|by many threads at once, a key went",
    ),
    ("WaitsForItself", "comes_back", r"partition\(\) was not back after 1 s; the caller of send\(\) waits for it"),
    ("ForgetsInOnNewBatch", "new_batch", r"on_new_batch\(\) for partition 0 raised KeyError"),
]


@each_of(WRONG)
def test_a_partitioner_that_breaks_a_promise_is_told_which(
    pytester: pytest.Pytester, plugin: str, test: str, said: str
) -> None:
    SUITE.assert_catches(pytester, plugin + "()", test, said)


def test_a_key_that_is_not_where_it_belongs_is_caught(pytester: pytest.Pytester) -> None:
    result = SUITE.run(pytester, "Right()", "-k", "others_look", more="places = {(b'a', 100): 11}")

    assert_caught(result, "the key b'a' went to partition 7 of 100; it belongs on 11")


def test_a_partitioner_that_keeps_all_promises_passes(pytester: pytest.Pytester) -> None:
    SUITE.assert_passes(pytester, "Right()")
