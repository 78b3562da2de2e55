"""Which errors of a failed batch were read: they are expected, read and given up in any order."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ottla.accumulator.error_reads import ErrorReads

COUNT = 4
CALLS = st.tuples(st.sampled_from(["read", "expect", "give_up"]), st.integers(0, COUNT - 1)) | st.tuples(
    st.sampled_from(["read_all", "expect_all", "give_up_all"])
)


def called(reads: ErrorReads, calls: list[tuple[str, int] | tuple[str]]) -> None:
    for name, *arguments in calls:
        getattr(reads, name)(*arguments)


@pytest.mark.rule("producer.report.retrieved")
@given(st.lists(CALLS))
@example([("expect", 1), ("expect", 2), ("give_up", 1)])
@example([("expect_all",), ("read", 3), ("give_up_all",)])
def test_an_error_is_unread_unless_it_was_read_or_is_expected(calls: list[tuple[str, int] | tuple[str]]) -> None:
    read, expected = set[int](), set[int]()
    for name, *arguments in calls:
        indexes = set(arguments) or set(range(COUNT))
        if name.startswith("read"):
            read |= indexes
        elif name.startswith("expect"):
            expected |= indexes
        else:
            expected -= indexes
    reads = ErrorReads(COUNT)
    called(reads, calls)

    assert reads.unread == COUNT - len(read | expected)


@pytest.mark.rule("producer.report.retrieved")
@given(st.lists(CALLS))
def test_errors_that_are_expected_after_a_report_are_for_the_next_one(
    calls: list[tuple[str, int] | tuple[str]],
) -> None:
    reads = ErrorReads(COUNT)
    called(reads, calls)
    in_report = reads.unread
    unread, others = reads.report()
    assert unread == in_report
    assert reads.unread == (0 if others else in_report)

    reads.give_up_all()
    if others:
        assert 0 < reads.unread <= COUNT - in_report
    reads.read_all()
    assert reads.unread == 0
    assert reads.report() == (0, False)
