"""The suite for interceptors catches what is wrong, and says what it is."""

from __future__ import annotations

import pytest
from suite_runs import assert_caught, assert_passed, raise_if_missing, run_suite, timeout_for

pytest_plugins = ["pytester"]

RECORDS = 'records = ((b"key", b"value"), (None, {"a": 1}), (b"key", None), (None, "text"))'
WRONG = [
    ("HasAnotherName", "contract", r"lacks `.+` of ottla.interfaces.Interceptor"),
    ("CannotBeClosed", "background_work", r"close of .*\.CannotBeClosed is of type str, and cannot be called"),
    ("CrashesOnATombstone", "every_record_can", "the value None and 0 headers raised TypeError"),
    ("ReturnsNothing", "every_record_can", "returned None; it must be a ProducerRecord"),
    ("ForgetsTheHeaders", "every_record_can", r"returned \(.*\); it must be a ProducerRecord"),
    ("GivesADictOfHeaders", "every_record_can", "returned headers of the type dict; they must be a sequence of pairs"),
    ("SendsItElsewhere", "every_record_can", "returned the topic 'audit'; it cannot be changed"),
    ("CountsPartitionsFromTheEnd", "every_record_can", "returned partition -1; it must be an int of at least 0, or"),
    ("TimesInSeconds", "every_record_can", r"returned timestamp_ms [\d.]+; it must be an int of at least 0, or None"),
    ("DropsTheHeaders", "besides_key_and", r"on_send\(\) of the headers .* the program's are lost or in another order"),
    (
        "DropsTheTimestamp",
        "besides_key_and",
        r"on_send\(\) of the timestamp_ms 1700000000000 returned None: change a c",
    ),
    ("PutsAllOnOnePartition", "besides_key_and", r"on_send\(\) of the partition 2 returned 0: .* `keeps` without part"),
    ("DropsHeadersForAll", "besides_keys_and", r"on_send_table\(\) of the headers .* the program's are lost"),
    ("DropsHeadersOfRows", "besides_keys_and", r"on_send_table\(\) of the headers .* the program's are lost"),
    ("DropsTimestampsOfRows", "besides_keys_and", r"on_send_table\(\) of the timestamp_ms 1700000000000 returned None"),
    ("KeepsTheRecordAside", "at_any_line", r"between two of its lines, \(.*\) became \(.*\), and alone"),
    (
        "KeepsTheSpanAside",
        "at_any_line",
        "two records got the same object as their `context`, and each one has its own",
    ),
    ("NeedsItsContext", "every_outcome", "raised TypeError"),
    ("ForgetsItsContext", "context", r"on_acknowledgement\(\) .* raised AssertionError"),
    (
        "WritesATextHeader",
        "every_record_can",
        r"returned the header \('seen', 'yes'\); it must be a pair of str and bytes",
    ),
    ("MakesTextOfValues", "every_record_can", "made a str of the value, which no producer without a serializer takes"),
    ("AppendsToTheTuple", "every_record_can", "raised AttributeError.*; the record would go on without what it adds"),
    ("RefusesItsOwnHeader", "another_interceptor", "and 5 headers raised AssertionError"),
    ("StampsWhatItIsGiven", "arguments_are_not_changed", "was changed into .*: it is the caller's"),
    ("WaitsABit", "at_once", r"on_send\(\) waited for 0.0\d+ s or more in each of 5 calls: the caller of send"),
    ("WaitsABitForOutcomes", "at_once", r"on_acknowledgement\(\) waited for 0.0\d+ s or more in each of 5 calls"),
    ("AsksAServerFirst", "at_once", r"on_send\(\) did not return within 1 s; the caller of send\(\) waits for it"),
    (
        "ReportsSlowly",
        "at_once",
        r"on_acknowledgement\(\) did not return within 1 s; the I/O thread waits for it",
    ),
    ("ExpectsWhatItHasSent", "every_outcome", r"on_acknowledgement\(\) of .* raised KeyError\('orders'\)"),
    ("ExpectsWordsInErrors", "every_outcome", r"on_acknowledgement\(\) of .* and RuntimeError\(\) raised IndexError"),
    ("TornByThreads", "while_other", "by many threads at once, .* became .*, and alone|made a (dict|str) of the value"),
    ("RaisesAtItsEnd", "background_work", r"close\(\) raised OSError\('no such file'\)"),
    ("LeavesItsThread", "background_work", r"it has no close\(\), and left threads behind: audit"),
    ("KeepsTheProgram", "background_work", "it began 'audit', which is not a daemon thread"),
    ("ForgetsTheRows", "outcomes_of_tables", "no on_send_table, so a producer with it refuses every table"),
    ("ReturnsNoRows", "rows_of_every_kind", "5 rows with values .binary. returned NoneType; it must be ProducerRows"),
    ("ReturnsOnlyHeaders", "rows_of_every_kind", "returned tuple; it must be ProducerRows"),
    ("SendsTablesElsewhere", "rows_of_every_kind", "on_send_table returned another topic, which cannot be changed"),
    ("DropsTombstones", "rows_of_every_kind", "on_send_table returned values of 4 rows for 5 rows"),
    ("CountsItsOwnRow", "rows_of_every_kind", "on_send_table returned a count of 6 for 5 rows"),
    ("ReturnsLists", "rows_of_every_kind", "on_send_table returned keys as list, not as a pyarrow.Array"),
    ("NumbersTheKeys", "rows_of_every_kind", "returned keys of type int64; it must be binary, string"),
    (
        "WritesTextOfFormattedValues",
        "rows_of_every_kind",
        "returned values of type string; it must be int64, which the serializer has accepted",
    ),
    ("CountsPartitionsOfTablesFromTheEnd", "rows_of_every_kind", "returned partitions with a negative number"),
    ("WritesATextHeaderForAll", "rows_of_every_kind", "name is str and its value bytes or None, not str and str"),
    ("NeedsKeys", "rows_of_every_kind", "raised AttributeError.*; the rows would go on without what it adds"),
    ("RefusesHeadersOfOthers", "rows_changed_by", "raised AssertionError"),
    ("RefusesAddressesInTables", "rows_of_every_kind", r"raised RuntimeError\('an address'\); the rows would go on"),
    (
        "LeavesTablesAsTheyAre",
        "what_records_become",
        r"on_send\(\) adds the header seen, and on_send_table\(\) does not",
    ),
    (
        "HidesValuesOfRecordsOnly",
        "what_records_become",
        r"on_send\(\) makes b'\*\*\*\*' of the value b'value', and on_send_table\(\) makes b'value' of it",
    ),
    (
        "HidesKeysOfRecordsOnly",
        "what_records_become",
        r"on_send\(\) makes b'\*\*\*\*' of the key b'key', and on_send_table\(\) makes b'key' of it",
    ),
    (
        "HidesTextsOfRecordsOnly",
        "what_records_become",
        r"on_send\(\) makes '\*\*\*\*' of the value 'text', and on_send_table\(\) makes 'text' of it",
    ),
    (
        "MarksTheFirstRow",
        "what_records_become",
        r"on_send\(\) adds the header seen, and on_send_table\(\) does not",
    ),
    ("ForgetsTheContextOfATable", "context", r"on_table_acknowledgement\(\) .* raised AssertionError"),
    ("BeginsATableOnce", "context", r"on_send_table\(\) .* raised AssertionError"),
    ("NeedsTheContextOfATable", "every_outcome_of_a_table", r"on_table_acknowledgement\(\) .* raised TypeError"),
    ("ExpectsTableErrors", "every_outcome_of_a_table", "raised AttributeError.*'InvalidRecordError' object has no"),
    ("DividesByTheRows", "every_outcome_of_a_table", "raised ZeroDivisionError"),
    (
        "WaitsForATable",
        "for_a_table",
        r"on_send_table\(\) of 5 rows did not return within 1 s; the caller of send_table",
    ),
    (
        "WaitsAfterATable",
        "for_a_table",
        r"on_table_acknowledgement\(\) did not return within 1 s; the I/O thread waits",
    ),
    ("MixesTables", "many_threads", r"by many threads at once, .* made .*, and alone|on_send_table returned values"),
]


def test_data_that_earlier_tests_let_it_change_is_changed_data(pytester: pytest.Pytester) -> None:
    both = "another_interceptor or arguments_are_not_changed"
    stamps = "wrong_interceptors.StampsWhatItIsGiven()"
    result = run_suite(pytester, "InterceptorConformance", "interceptor", stamps, "-k", both, more=RECORDS)

    assert_caught(result, "{'a': 1}\\) was changed into")


@pytest.mark.parametrize(("interceptor", "test", "said"), WRONG, ids=[wrong for wrong, _test, _said in WRONG])
def test_a_broken_promise_of_an_interceptor_is_named(
    pytester: pytest.Pytester, interceptor: str, test: str, said: str
) -> None:
    more = "" if interceptor in ("CrashesOnATombstone", "MakesTextOfValues") else RECORDS
    result = run_suite(
        pytester,
        "InterceptorConformance",
        "interceptor",
        f"wrong_interceptors.{interceptor}()",
        "-x",
        "-k",
        test,
        timeout=timeout_for(said),
        more=more,
    )

    assert_caught(result, said)


@pytest.mark.parametrize(
    ("interceptor", "keeps"),
    [
        ("DropsTheHeaders", "('partition', 'timestamp_ms')"),
        ("DropsTheTimestamp", "('headers', 'partition')"),
        ("PutsAllOnOnePartition", "('headers', 'timestamp_ms')"),
        ("DropsHeadersOfRows", "('partition', 'timestamp_ms')"),
    ],
)
def test_an_interceptor_may_declare_what_it_changes(pytester: pytest.Pytester, interceptor: str, keeps: str) -> None:
    plugin = f"wrong_interceptors.{interceptor}()"
    more = f"keeps = {keeps}"
    result = run_suite(pytester, "InterceptorConformance", "interceptor", plugin, "-k", "besides_key", more=more)

    assert_passed(result)


def test_an_interceptor_that_keeps_all_promises_passes(pytester: pytest.Pytester) -> None:
    result = run_suite(pytester, "InterceptorConformance", "interceptor", "wrong_interceptors.Right()", more=RECORDS)

    assert_passed(result)
    result.assert_outcomes(passed=14, skipped=9)


def test_an_interceptor_of_tables_that_keeps_all_promises_passes(pytester: pytest.Pytester) -> None:
    result = run_suite(
        pytester, "InterceptorConformance", "interceptor", "wrong_interceptors.RightForTables()", more=RECORDS
    )

    assert_passed(result)
    raise_if_missing(result)
    result.assert_outcomes(passed=22, skipped=1)


def run_rows_and_records(pytester: pytest.Pytester, interceptor: str, more: str) -> pytest.RunResult:
    """Run the test that compares rows with records."""
    plugin, test = f"wrong_interceptors.{interceptor}()", ("-k", "what_records_become")
    return run_suite(pytester, "InterceptorConformance", "interceptor", plugin, *test, more=more)


@pytest.mark.parametrize("interceptor", ["EncodesTextsOfRecords", "WritesHeadersOfEachRow", "DiffersEachTime"])
def test_rows_and_records_may_have_the_same_in_different_forms(pytester: pytest.Pytester, interceptor: str) -> None:
    assert_passed(run_rows_and_records(pytester, interceptor, RECORDS))


@pytest.mark.parametrize("interceptor", ["LeavesTablesAsTheyAre", "HidesValuesOfRecordsOnly"])
def test_an_interceptor_may_declare_that_tables_differ_from_records(
    pytester: pytest.Pytester, interceptor: str
) -> None:
    assert_passed(run_rows_and_records(pytester, interceptor, f"{RECORDS}; tables_as_records = False"))


def test_an_interceptor_that_changes_types_may_declare_it(pytester: pytest.Pytester) -> None:
    more = "keeps_types = False"
    result = run_suite(
        pytester, "InterceptorConformance", "interceptor", "wrong_interceptors.MakesTextOfValues()", more=more
    )

    assert "made a str" not in result.stdout.str()
