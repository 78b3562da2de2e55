"""The suite for serializers catches what is wrong, and says what it is."""

from __future__ import annotations

import pytest
from suite_runs import Suite, each_of

pytest_plugins = ["pytester"]

SAMPLES = """samples = (({"a": 1, "b": [None]}, b'{"a": 1, "b": [null]}'), ({}, b"{}"))
    refused = (1, "text", object())

    def columns(self):
        import pyarrow as pa
        return (pa.array([{"a": 1}, None, {"a": 2}, {"a": None}]),)

    def refused_columns(self):
        import pyarrow as pa
        return (pa.array([1, 2]),)"""
SUITE = Suite(
    name="SerializerConformance", subject="serializer", module="wrong_serializers", more=lambda _timeout: SAMPLES
)
WRONG = [
    ("HasAnotherName", "contract", r"lacks `.+` of ottla.interfaces.Serializer"),
    ("NullIsAText", "null", "None became b'null'; it must stay None"),
    ("CrashesOnNull", "null", r"serialize\(\) of None for topic 'orders' with 0 headers raised AttributeError"),
    ("ReturnsText", "samples", r"returned a str; it must be bytes, or None"),
    ("ReturnsItsBuffer", "samples", r"returned a bytearray; it must be bytes, or None"),
    ("WritesOtherBytes", "samples", r"became b'{\"a\":1,\"b\":\[null\]}', and should be"),
    ("NeedsAHeader", "null", "with 0 headers raised IndexError"),
    ("NeedsATextInEachHeader", "null", "with 4 headers raised AttributeError"),
    ("KnowsItsTopic", "samples", "for topic 'x' with 0 headers became b'', and should be"),
    ("NumbersRecords", "samples", r"became b'{\"a\": 1, \"b\": \[null\], \"number\": 1}', and should be"),
    ("StampsWhatItIsGiven", "arguments_are_not_changed", "was changed into .*: it is the caller's"),
    ("TakesEverything", "with_a_reason", r"serialize\(\) took 1, and made b'1' of it; it must be refused"),
    ("RaisesAttributeError", "with_a_reason", "raised AttributeError.*it must be a TypeError or a ValueError"),
    ("HasNoWords", "with_a_reason", r"1 was refused by ValueError\(\), which has no words"),
    ("NeverRecovers", "does_not_affect", "after 'text' was refused|after 1 was refused, .* became b''"),
    ("WaitsABit", "at_once", r"serialize\(\) of None waited for 0.0\d+ s or more in each of 5 calls: the caller of"),
    (
        "AsksARegistryForEver",
        "at_once",
        r"serialize\(\) of None did not return within 1 s; the caller of send\(\) waits for it",
    ),
    ("FillsNulls", "as_its_cells", r"row 1 of a column of struct<a: int64> became b'{}', and .* None makes None"),
    ("ForgetsTheOffset", "as_its_cells", r"row 0 of a column .* became b'{\"a\": 1}', and .* makes None"),
    ("MakesAList", "as_its_cells", r"4 rows of struct<a: int64> returned a list, .*must return an Arrow array"),
    (
        "MakesAChunkedArray",
        "as_its_cells",
        "returned a ChunkedArray of 4 rows of binary, and must return an Arrow array",
    ),
    ("MakesViews", "as_its_cells", "returned a BinaryViewArray of 4 rows of binary_view, .* of type binary, large_b"),
    ("HasNoTypeWhenEmpty", "as_its_cells", "returned a NullArray of 0 rows of null, and must return an Arrow array"),
    ("HasTheTypeOfItsRows", "same_type", r"4 rows of .* returned an array of binary, and of large_binary for no rows"),
    ("RecursesForEver", "holds_itself", r"which holds itself, raised RecursionError; refuse too deep data with a Val"),
    ("MakesNumbers", "as_its_cells", "must return an Arrow array of as many bytes or texts"),
    ("LosesARow", "as_its_cells", "must return an Arrow array of as many bytes or texts"),
    ("FailsWhenEmpty", "as_its_cells", r"serialize_column\(\) of 0 rows .* raised IndexError"),
    (
        "RefusesAtTheFirstCell",
        "unsupported_type",
        "took 0 rows of int64; it must refuse the type, even with no row",
    ),
    ("RefusesByCrashing", "unsupported_type", "of int64 raised KeyError.*; it must be a TypeError"),
    (
        "SetsTexts",
        "headers_that_it_sets",
        r"set the header \('schema', '7'\); a header is a pair of a str",
    ),
    ("NumbersHeaders", "headers_that_it_sets", r"set \[\('schema', b'6.*, and then .* on the same headers"),
    (
        "SetsTextsForColumns",
        "headers_for_columns",
        r"returned the header \('schema', '7'\); a header is a pair of a str",
    ),
    ("NumbersColumns", "headers_for_columns", r"returned \[\('schema', b'1'\)\], and then \[\('schema', b'2'\)\]"),
    ("ForgetsItsLookups", "the_same_data_needs_none", "needed another lookup each time: the schema of orders"),
    ("LearnsNothing", "samples", r"raised NotPreparedError\('the schema of orders is not known'\)"),
    ("CannotPrepare", "samples", r"needs a lookup, by NotPreparedError.*, and the serializer has no prepare\(\)"),
    (
        "WaitsTooLong",
        "within_its_time",
        r"prepare\(\) of .* with timeout=0.0 did not return within 1 s; it must return",
    ),
    ("WaitsInSerialize", "at_once", r"did not return within 1 s; .* what has to wait belongs into prepare"),
    (
        "KeepsTheCallInItself",
        "at_any_line",
        r"not safe for threads: when they change between two of its lines, .* became .*; keep what belongs to a call",
    ),
    (
        "KeepsTheColumnInItself",
        "columns_may_change_at_any_line",
        r"not safe for threads: .* lines, (a column of struct.* became .*, and alone|serialize_column\(\) of . rows)",
    ),
    ("TornByThreads", "many_threads", "by many threads at once, .* became|raised TypeError"),
]


@each_of(WRONG)
def test_a_broken_promise_of_a_serializer_is_named(
    pytester: pytest.Pytester, plugin: str, test: str, said: str
) -> None:
    SUITE.assert_catches(pytester, plugin + "()", test, said)


def test_data_that_earlier_tests_let_it_change_is_changed_data(pytester: pytest.Pytester) -> None:
    both = "samples_become or arguments_are_not_changed"
    result = SUITE.run(pytester, "StampsWhatItIsGiven()", "-k", both, more=SAMPLES)

    assert "{'a': 1, 'b': [None]} was changed into" in result.stdout.str()


@pytest.mark.parametrize("right", ["Right()", "RightForColumns()"])
def test_a_serializer_that_keeps_all_promises_passes(pytester: pytest.Pytester, right: str) -> None:
    SUITE.assert_passes(pytester, right)


def test_a_serializer_with_lookups_that_keeps_all_promises_passes(pytester: pytest.Pytester) -> None:
    SUITE.assert_passes(pytester, "RightWithLookups()")


def test_one_sample_is_scheduled_together_with_a_tombstone(pytester: pytest.Pytester) -> None:
    more = """samples = (({}, b"{}"),)"""
    result = SUITE.run(pytester, "KeepsTheCallInItself()", "-k", "threads_may_change_at_any_line", more=more)

    result.assert_outcomes(failed=1)


def test_no_sample_is_not_scheduled(pytester: pytest.Pytester) -> None:
    result = SUITE.run(
        pytester, "KeepsTheCallInItself()", "-k", "threads_may_change_at_any_line", "-rs", more="samples = ()"
    )

    result.assert_outcomes(skipped=1)
    assert "`samples` is empty: None alone is the same in every order" in result.stdout.str()
