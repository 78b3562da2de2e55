"""The state behind the log of outages: failures, their start and counts, and the lines that are due."""

from __future__ import annotations

from typing import TypeAlias

import pytest

from ottla.errors.outages import FORGET_AFTER, OutageEnd, Outages, OutageUpdate, one_line

Partitions: TypeAlias = Outages[tuple[str, int], str]


@pytest.fixture
def outages() -> Partitions:
    return Outages()


def fail(outages: Partitions, count: int, now: float, reason: str = "away") -> None:
    for partition in range(count):
        outages.failed(("t", partition), reason, f"{reason}: at {now}", now)


def test_the_first_failure_is_logged_at_once(outages: Partitions) -> None:
    fail(outages, 1, 5.0)

    [line] = outages.take_lines(5.0)

    assert line == OutageUpdate(
        first=True, reason="away", error="away: at 5.0", shown=(("t", 0),), count=1, failures=1, lasting=0.0
    )


def test_five_thousand_partitions_that_fail_at_once_are_one_line(outages: Partitions) -> None:
    fail(outages, 5_000, 0.0)

    [line] = outages.take_lines(0.0)

    assert isinstance(line, OutageUpdate)
    assert (line.count, line.failures, line.shown) == (5_000, 5_000, (("t", 0), ("t", 1), ("t", 2)))


def test_five_thousand_partitions_that_fail_one_by_one_are_few_lines(outages: Partitions) -> None:
    lines = 0
    for partition in range(5_000):
        now = partition / 100
        outages.failed(("t", partition), "away", "away", now)
        lines += len(outages.take_lines(now))

    assert lines <= 8


def test_a_permanent_failure_is_repeated_every_half_minute(outages: Partitions) -> None:
    at = []
    for tenth in range(1_200):
        now = tenth / 10
        fail(outages, 2, now)
        at += [(now, line.failures) for line in outages.take_lines(now) if isinstance(line, OutageUpdate)]

    assert at == [(0.0, 2), (30.0, 600), (60.0, 600), (90.0, 600)]


def test_a_failure_is_not_repeated_before_it_happens_again() -> None:
    outages: Partitions = Outages(repeat_by_failure=True)
    fail(outages, 1, 0.0)
    first = len(outages.take_lines(0.0))
    fail(outages, 1, 15.0)
    quiet = len(outages.take_lines(31.0))
    fail(outages, 1, 40.0)
    [again] = outages.take_lines(40.0)

    assert (first, quiet) == (1, 0)
    assert isinstance(again, OutageUpdate)
    assert (again.first, again.failures, again.lasting) == (False, 2, 40.0)


def test_a_failure_with_a_future_end_is_not_repeated_early() -> None:
    outages: Partitions = Outages(repeat_by_failure=True)
    fail(outages, 1, 0.0)
    outages.take_lines(0.0)
    fail(outages, 1, 45.0)

    assert [len(outages.take_lines(now)) for now in (5.0, 29.0, 30.0)] == [0, 0, 1]


def test_a_recovery_line_has_the_duration_and_the_number_of_failures(outages: Partitions) -> None:
    for now in (1.0, 2.0, 3.0):
        fail(outages, 1, now)
        outages.take_lines(now)

    outages.recovered(("t", 0), 4.5)

    assert list(outages.take_lines(4.5)) == [
        OutageEnd(recovered=True, shown=(("t", 0),), count=1, failures=3, lasting=3.5)
    ]


def test_consecutive_recoveries_are_a_handful_of_lines(outages: Partitions) -> None:
    fail(outages, 5_000, 0.0)
    outages.take_lines(0.0)
    lines = 0
    reported = 0
    for partition in range(5_000):
        now = 1 + partition / 100
        outages.recovered(("t", partition), now)
        for line in outages.take_lines(now):
            lines += 1
            reported += line.count

    assert lines <= 8
    assert reported == 5_000


def test_a_subject_that_recovers_twice_before_a_line_is_counted_once(outages: Partitions) -> None:
    fail(outages, 2, 0.0)
    outages.take_lines(0.0)
    outages.recovered(("t", 0), 0.2)
    outages.take_lines(0.2)
    outages.failed(("t", 0), "moved", "moved", 0.3)
    outages.take_lines(0.3)
    for _ in range(2):
        outages.recovered(("t", 1), 0.4)
        outages.failed(("t", 1), "moved again", "moved again", 0.5)
        outages.take_lines(0.5)
    outages.recovered(("t", 1), 0.6)
    outages.recovered(("t", 0), 0.6)

    [line] = [line for line in outages.take_lines(0.7) if isinstance(line, OutageEnd)]
    assert (line.count, sorted(line.shown)) == (2, [("t", 0), ("t", 1)])


def test_memory_is_freed_with_the_recovery(outages: Partitions) -> None:
    fail(outages, 100, 0.0)
    outages.take_lines(0.0)
    for partition in range(100):
        outages.recovered(("t", partition), 1.0)
    outages.take_lines(1.0)
    outages.take_lines(60.0)

    assert not outages


def test_a_second_failure_soon_after_the_first_is_logged_within_seconds(outages: Partitions) -> None:
    for now in (0.0, 30.0, 60.0, 90.0, 120.0):
        fail(outages, 1, now)
        outages.take_lines(now)
    outages.recovered(("t", 0), 120.5)
    outages.take_lines(120.5)

    fail(outages, 1, 121.0)

    assert list(outages.take_lines(121.0)) == []
    assert outages.due_at() == 125.5
    [line] = outages.take_lines(125.5)
    assert isinstance(line, OutageUpdate)
    assert line.first


def test_another_reason_causes_its_own_line(outages: Partitions) -> None:
    fail(outages, 1, 0.0, "away")
    fail(outages, 1, 0.1, "no leader")

    [line] = outages.take_lines(0.1)

    assert isinstance(line, OutageUpdate)
    assert line.reason == "no leader"
    assert line.lasting == pytest.approx(0.1)  # the partition fails since then, whatever the reason


def test_alternating_reasons_do_not_cause_a_line_each_time(outages: Partitions) -> None:
    lines = 0
    for tenth in range(300):
        now = tenth / 10
        fail(outages, 1, now, "away" if tenth % 2 else "no leader")
        lines += len(outages.take_lines(now))

    assert lines <= 12


def test_a_failure_that_was_never_logged_does_not_log_its_recovery(outages: Partitions) -> None:
    fail(outages, 1, 0.0)
    outages.take_lines(0.0)
    outages.failed(("t", 1), "away", "away", 0.1)
    outages.take_lines(0.1)
    outages.recovered(("t", 1), 0.2)

    assert list(outages.take_lines(0.2)) == []


def test_an_outage_of_an_unused_partition_has_its_own_last_line(outages: Partitions) -> None:
    fail(outages, 2, 0.0)
    outages.take_lines(0.0)
    fail(outages, 2, 7.0)

    [line] = outages.take_lines(7.0 + FORGET_AFTER)

    assert line == OutageEnd(recovered=False, shown=(("t", 0), ("t", 1)), count=2, failures=4, lasting=7.0)
    assert len(outages) == 0


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("two\nlines", "two\\nlines"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("x" * 501, "x" * 497 + "..."),
    ],
)
def test_the_text_of_a_broker_is_one_short_line(text: str, shown: str) -> None:
    assert one_line(text) == shown
