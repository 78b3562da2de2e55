"""The suite for partitioners catches what is wrong, and says what it is."""

from __future__ import annotations

import pytest
from suite_runs import Suite, assert_caught, each_of

pytest_plugins = ["pytester"]

SUITE = Suite(
    name="PartitionerConformance",
    subject="partitioner",
    module="wrong_partitioners",
    more=lambda _timeout: "avoids_lost_leaders = True",
)

WRONG = [
    ("OneTooMany", "in_range", r"chose partition \d+ of a topic that has \d+"),
    ("Negative", "in_range", "chose partition -1 of a topic that has"),
    ("RemembersTheFirstView", "grows_or_shrinks", r"chose partition \d+ of a topic that has \d+"),
    (
        "KeepsTheFirstNumber",
        "that_are_added",
        r"had grown from 2 to 24 partitions, .* went to the partitions \[0, 1\]: .* so do not keep it",
    ),
    ("OneCountForAllTopics", "topics_are_independent", r"chose partition \d+ of a topic that has 2"),
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
    ("DividesHalfOfThePartitions", "in_range", r"for the key b'eu-.*raised ZeroDivisionError"),
    ("HashesARegionAsPython", "every_process", r"the key b'eu' goes to .* depending on Python's hash\(\)"),
    ("ReadsTextOnly", "in_range", r"for the key b'.xff.xfe not UTF-8'.*raised UnicodeDecodeError"),
    ("FloatingPoint", "in_range", "returned 0.0, a float; a partition is an int"),
    ("RollsDice", "same_partition", r"records of one key have to stay in order"),
    ("FollowsTheLeaders", "same_partition", "only the key and the number of partitions may decide"),
    (
        "IgnoresLeaders",
        "with_a_leader",
        r"without a key was put on partition \d+, which has no leader now",
    ),
    (
        "IgnoresSlowLeaders",
        "slow_leader",
        r"put on partition \d+, whose leader is slow, while 1 of 2 partitions .*: leave out those in view.slow",
    ),
    ("ForgetsThatTheFirstIsSlow", "slow_leader", "put on partition 0, whose leader is slow, while 1 of 2 partitions"),
    ("TakesNotesInTheView", "change_the_view", "changed the view: its lists are the core's own"),
    ("OtherColumn", "many_keys_at_once", r"partition_column\(\) put the key .* and partition\(\) on"),
    ("ColumnOfTexts", "many_keys_at_once", r"partition_column\(\) returned '\d+', a str; a partition is an int"),
    ("ShortColumn", "many_keys_at_once", r"partition_column\(\) gave 1 partitions for 2 keys"),
    (
        "ColumnOfAGenerator",
        "many_keys_at_once",
        r"returned <generator .*, a generator; a sequence of partitions is needed",
    ),
    ("EatsTheKeys", "many_keys_at_once", r"partition_column\(\) changed the list of keys"),
    ("NearlyMurmur2", "javas_producer", 'hashes is "murmur2", and the key .* Java\'s producer puts it on'),
    ("StaysForEver", "appended_bytes_change", r"only the partitions \[0\] of 4 were chosen"),
    ("LearnsNothing", "notified_of_appended", "sticky is True without `appended`"),
    ("KnowsOnlyItsTopics", "unknown_partitions", r"appended\(\) for partition 0 raised KeyError"),
    (
        "TornByThreads",
        "many_threads",
        r"chose partition \d+ of a topic|by many threads at once, a key went",
    ),
    ("AlwaysTheFirst", "reach_many", r"2000 different keys went to 1 of 12 partitions \(\[0\]\)"),
    ("AsksADatabase", "takes_much_less", r"partition\(\) took 5\d(\.\d)? ms or more in each of 20 calls"),
    ("TornBetweenLines", "at_any_line", r"when they change between two of its lines, (partition|a key went)"),
    ("CountsWithAGenerator", "at_any_line", "not safe for threads: .*generator already executing"),
    ("WaitsForItself", "every_call", r"partition\(\) did not return within 1 s; the caller of send\(\) waits for it"),
    ("NeedsAHeader", "every_record", r"partition_record\(\) for RecordView\(.*raised IndexError"),
    ("LongValues", "every_record", r"partition_record\(\) chose partition \d+ of a topic that has"),
    ("ForgetsInOnNewBatch", "called_again", r"on_new_batch\(\) for partition 0 raised KeyError"),
    ("OneTurnForAllTopics", "by_turns", r"of 2 topics by turns only \[\d\] of one of them: keep a count for each"),
    ("NeverTheLast", "reach_all", r"never went to the partitions \[\d+\] of \d+, which have a leader"),
    ("NeverTheLastForKeys", "reach_many", "none of 2000 different keys went to the last of 12 partitions"),
    ("ReadsThePrefix", "reach_many", r"2000 different keys that differ after the 32nd byte went to 1 of 12"),
    ("ColumnFollowsTheLeaders", "in_any_view", r"on partition \d+ of \d+ when \d+ have a leader, and partition\(\)"),
    ("HashesAsPython", "every_process", r"depending on Python's hash\(\), which differs in each process"),
    ("HashesTextAsPython", "every_process", r"depending on Python's hash\(\), which differs in each process"),
    ("ShowsAnEmptyTable", "unknown_size", r"of threads that are the first to ask for \d partitions, one saw|different"),
]


@each_of(WRONG)
def test_a_broken_promise_of_a_partitioner_is_named(
    pytester: pytest.Pytester, plugin: str, test: str, said: str
) -> None:
    SUITE.assert_catches(pytester, plugin + "()", test, said)


def test_a_key_in_the_wrong_partition_is_caught(pytester: pytest.Pytester) -> None:
    result = SUITE.run(pytester, "Right()", "-k", "places_requires", more="places = {(b'a', 100): 11}")

    assert_caught(result, "the key b'a' went to partition 7 of 100; it belongs on 11")


def test_a_partitioner_may_declare_what_it_does_about_slow_leaders(pytester: pytest.Pytester) -> None:
    def run(declared: str) -> pytest.RunResult:
        return SUITE.run(pytester, "IgnoresSlowLeaders()", "-k", "slow_leader", more=declared)

    assert_caught(run("avoids_slow_leaders = True"), "whose leader is slow")
    run("avoids_lost_leaders = True; avoids_slow_leaders = False").assert_outcomes(skipped=1)


def test_a_partitioner_whose_keys_alone_decide_ignores_the_topic(pytester: pytest.Pytester) -> None:
    def run(declared: str) -> pytest.RunResult:
        return SUITE.run(pytester, "HashesTheTopicToo()", "-k", "every_topic", more=declared)

    assert_caught(run("keys_decide = True"), r"goes to partition \d+ of the topic orders and to \d+ of refunds")
    run("keys_decide = None").assert_outcomes(skipped=1)


def test_sample_keys_reach_a_branch_that_the_suite_does_not_find(pytester: pytest.Pytester) -> None:
    declared = "keys_decide = True; sample_keys = (b'7' * 77,)"

    result = SUITE.run(pytester, "RollsDiceForItsOwn()", "-k", "same_partition", more=declared)

    assert_caught(result, "the key b'7+' went to partition .* records of one key have to stay in order")


def test_a_partitioner_may_refuse_the_keys_of_a_prefix(pytester: pytest.Pytester) -> None:
    SUITE.assert_passes(pytester, "RefusesAPrefix()")


def test_skipped_tests_say_that_the_ability_is_optional(pytester: pytest.Pytester) -> None:
    result = SUITE.run(pytester, "RightByTurns()", "-rs", "-k", "any_view", more="keys_decide = True")

    result.stdout.re_match_lines([r".*optional: the plugin has no partition_column \(SupportsPartitionColumn\)"])


def test_a_partitioner_that_keeps_all_promises_passes(pytester: pytest.Pytester) -> None:
    SUITE.assert_passes(pytester, "Right()")


def test_a_partitioner_by_turns_that_keeps_all_promises_passes(pytester: pytest.Pytester) -> None:
    SUITE.assert_passes(pytester, "RightByTurns()", more="avoids_lost_leaders = keys_decide = True")


def test_a_partitioner_by_records_that_keeps_all_promises_passes(pytester: pytest.Pytester) -> None:
    SUITE.assert_passes(pytester, "RightByRecord()", more="")


def test_a_suite_that_takes_too_long_reports_the_slow_call(pytester: pytest.Pytester) -> None:
    result = SUITE.run(pytester, "AsksADatabase()", "-k", "in_range", more="time_limit = 1.0")

    assert_caught(result, r"the suite has taken 1 s, and ends in .*partition\(\) took \S+ ms on average in \d+ calls")
