"""The suite for reporters catches what is wrong, and says what it is."""

from __future__ import annotations

import pytest
from suite_runs import assert_caught, assert_passed, run_suite, timeout_for

pytest_plugins = ["pytester"]

WRONG = [
    ("HasAnotherName", "contract", r"lacks `.+` of ottla.interfaces.MetricsReporter"),
    ("RaisesAtItsStart", "at_once", r"start\(\) raised OSError.*the producer continues without it"),
    ("RaisesAtItsEnd", "at_once", r"close\(\) raised OSError"),
    ("WaitsForItsServer", "at_once", r"start\(\) did not return within 1 s; the program waits for it"),
    ("WaitsAtItsEnd", "at_once", r"close\(\) did not return within 1 s; the program waits for it"),
    ("LosesTheLastFigures", "are_read", "nothing was read between .*: the last figures would be lost"),
    ("ReadsAtItsStartAlone", "are_read", "nothing was read between .*: the last figures would be lost"),
    ("ReportsAtItsStart", "are_read", r"nothing was read between the call of close\(\)"),
    ("BeginsInItsConstructor", "before_its_start", r"making the reporter began the thread reporter; start\(\) begins"),
    ("LeavesItsThread", "are_read", r"close\(\) left threads behind: reporter"),
    ("ReadsAllTheTime", "without_a_pause", r"the metrics were read \d+ times in [\d.]+ s: its thread takes"),
    ("NeedsADescription", "unexpected_metrics", r"close\(\) raised KeyError"),
    ("ExpectsTheSameNames", "unexpected_metrics", r"close\(\) raised KeyError"),
    ("TakesFiguresOut", "metrics_it_reads", "it changed the snapshot that it was given"),
    ("HasNoWordForNan", "unexpected_metrics", r"close\(\) raised ValueError\('cannot convert float NaN to integer'\)"),
    ("NeedsTags", "unexpected_metrics", r"close\(\) raised IndexError"),
    ("DiesInItsThread", "at_once", "its thread 'reporter' ended by ValueError.*: from then on nothing is reported"),
    (
        "DoesNotJoin",
        "waits_for_the_last_read",
        r"close\(\) returned while its thread reporter read the metrics: .*; join the thread in close\(\)",
    ),
    (
        "ExportsNothing",
        "is_exported",
        r"it read the metrics record-queue-time-avg, .* `exported` returned 0 characters .*: nothing has left the rep",
    ),
    (
        "ExportsFive",
        "every_topic",
        r"of the metrics of 20 topics, those of topic-\d+, .* are not in what `exported` returned",
    ),
    ("LeavesItsThread", "that_it_started", r"close\(\) left threads behind: reporter"),
    ("KeepsTheProgram", "that_it_started", r"start\(\) began 'reporter', which is not a daemon thread"),
    ("OneForAll", "two_reporters", "of two reporters only one has read its figures"),
    ("TakesTheOnlyPlace", "two_reporters", r"start\(\) raised ValueError\('duplicated timeseries'\)"),
]


@pytest.mark.parametrize(("reporter", "test", "said"), WRONG, ids=[wrong for wrong, _test, _said in WRONG])
def test_a_broken_promise_of_a_reporter_is_named(
    pytester: pytest.Pytester, reporter: str, test: str, said: str
) -> None:
    result = run_suite(
        pytester,
        "MetricsReporterConformance",
        "reporter",
        f"wrong_reporters.{reporter}()",
        "-x",
        "-k",
        test,
        timeout=timeout_for(said),
        more=another(reporter),
    )

    assert_caught(result, said)


def test_a_reporter_that_keeps_all_promises_passes(pytester: pytest.Pytester) -> None:
    result = run_suite(
        pytester, "MetricsReporterConformance", "reporter", "wrong_reporters.Right()", more=another("Right")
    )

    assert_passed(result)
    result.assert_outcomes(passed=12, skipped=2)


def test_without_a_second_reporter_its_test_is_skipped_with_the_reason(pytester: pytest.Pytester) -> None:
    result = run_suite(pytester, "MetricsReporterConformance", "reporter", "wrong_reporters.Right()", "-rs")

    result.assert_outcomes(passed=11, skipped=3)
    assert "give a fixture `another`" in result.stdout.str()
    assert "give a method `exported`" in result.stdout.str()


@pytest.mark.parametrize("reporter", ["Exports", "ExportsOneInItsOwnForm", "IsReadByOthers"])
def test_a_reporter_whose_export_can_be_seen_passes(pytester: pytest.Pytester, reporter: str) -> None:
    plugin = f"wrong_reporters.{reporter}()"
    result = run_suite(pytester, "MetricsReporterConformance", "reporter", plugin, more=another(reporter))

    assert_passed(result)
    left_out = reporter == "ExportsOneInItsOwnForm"
    result.assert_outcomes(passed=14 - left_out, skipped=int(left_out))


def another(reporter: str) -> str:
    """What the suite has besides the fixture for its subject."""
    more = f"another = pytest.fixture(lambda self: wrong_reporters.{reporter}())"
    if reporter.startswith(("Exports", "IsRead")):
        more += "; exported = lambda self, reporter: reporter.lines"
    if reporter == "ExportsOneInItsOwnForm":
        more += "; exports_topics = False"
    return more + ("; collect = lambda self, reporter: reporter.report()" if reporter.startswith("IsRead") else "")
