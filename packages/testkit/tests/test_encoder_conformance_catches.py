"""The suite for record encoders catches what is wrong, and says what it is."""

from __future__ import annotations

import re

import pytest
from suite_runs import Suite, each_of
from wrong_encoders import WrongEncoder

from ottla_testkit.conformance import RecordEncoderConformance

pytest_plugins = ["pytester"]

SUITE = Suite(name="RecordEncoderConformance", subject="encoder", module="wrong_encoders")

WRONG_COLUMNS = [
    ("SecondsForMilliseconds", "bytes_are_those", r"they part at byte \d+|(first|max)_timestamp of"),
    ("NullIsEmpty", "come_late", r"4 records became \d+ bytes in format v2, and \d+ by the core's own encoder"),
    ("LosesHeaders", "come_late", r"4 records became \d+ bytes in format v2, and \d+ by the core's own encoder"),
    ("CountsFromOne", "bytes_are_those", r"append\(\) returned index 1 for record 0"),
    ("LastIsHighest", "bytes_are_those", r"max_timestamp of \d+ records in format v2 is \d+, for \d+"),
    ("HasNoOldFormats", "older_formats", r"records became \d+ bytes in format v0"),
    ("DropsHeadersInOldFormats", "refuses_headers", r"encode\(0\) did not refuse headers"),
    ("RaisesValueErrorForHeaders", "refuses_headers", r"raised ValueError.*it must be UnsupportedVersionError"),
    ("ReusesItsMemory", "outlive", "encoded bytes changed after the columns were released"),
    ("NeedsRoomForTheFirst", "empty_batch", r"append\(\) returned None .* although the first one has room"),
    ("TakesOneTooMany", "further_records", r"took a record, and memory\(\) is \d+ with \d+ allowed"),
    ("ChargesForWhatItRefuses", "further_records", r"append\(\) returned None, and the columns have changed"),
    ("AllowsNothing", "larger_limit", r"append\(\) returned None .* although allow\(\) has made room for two"),
    ("AllowsOnlyMore", "lower_limit", r"append\(\) took a record, although allow\(\) has set a limit without room"),
    ("StaysBelowItsLimit", "fill_the_limit", r"append\(\) returned None .* although memory\(\) is then the limit"),
    ("EstimatesNearTimes", "far_and_large", r"have \d+ bytes, and size_estimate\(\) said \d+: the difference of times"),
    ("CountsAThirdOfItsMemory", "occupy_what", r"2000 records occupy \d+ bytes, .* and memory\(\) said \d+: the prod"),
    ("KeepsItsRecords", "are_released", r"after (encode|release)\(\), the columns of 20 records of 50000 bytes hold 1"),
    ("OpensAgain", "closed_columns", r"append\(\) took a record after close\(\) and allow\(\)"),
    ("KeepsTheBad", "refused_alone", r"append\(\) returned|records became \d+ bytes"),
    ("RaisesWhatUnicodeRaises", "refused_alone", "raised UnicodeEncodeError.*it must be InvalidRecordError"),
    ("ReplacesWhatUtf8CannotHold", "refused_alone", r"append\(\) took timestamp .*, which no format can hold"),
    ("HasNoTimeBefore1970", "every_timestamp", r"append\(\) raised InvalidRecordError.*timestamp -1"),
    ("SwapsKeyAndValue", "bytes_are_those", r"they part at byte \d+"),
    ("OffsetsFromOne", "bytes_are_those", r"they part at byte [34]: "),
    ("SortsByKey", "bytes_are_those", r"they part at byte \d+|(first|max)_timestamp of"),
    ("FirstIsLowest", "bytes_are_those", r"first_timestamp of \d+ records in format v2 is \d+, for \d+"),
    ("ChecksumOfTheValue", "older_formats", r"they part at byte 1[2-5]: "),
    ("ReleasesWhatItRefuses", "refuses_headers", r"encode\(1\) of headers raised|encode\(2\) of 0 records raised"),
    ("SizeOfWhatIsLeft", "size_estimates", r"and size_estimate\(\) said \d+ after encode\(\)"),
    ("EstimatesTooLittle", "size_estimates", r"\d+ bytes, and size_estimate\(\) said \d+"),
    ("CountsBytesAlone", "size_estimates", r"and memory\(\) said \d+: it is never less"),
    ("LeavesTheLastOut", "bytes_are_those", r"count of \d+ records in format v2 is \d+, for \d+"),
    ("ChunksForOneReader", "bytes_are_those", r"returned chunks of type \w+; they must be a list, which can be read"),
    ("ChunksOfNumbers", "bytes_are_those", r"returned a chunk of type array, which is not bytes"),
    ("TimesWithFractions", "bytes_are_those", r"returned [\d.e+-]+ as max_timestamp; it must be an int"),
    ("BeginsWithOne", "bytes_are_those", r"returned columns with 1 records; new ones are empty"),
    ("MovesNothing", "move_only", r"with \d+ records took 0; the first one always has room"),
    ("FactsOfFewer", "facts_and_count", r"facts\(\) before has other timestamps than were appended"),
    ("FactsOfNothing", "facts_and_count", r"facts\(\) before has None where there must be numbers"),
    ("ForgetsItsNumber", "facts_and_count", r"after encode\(\), \d+ records are 0 by len\(\)"),
    ("ForgetsItsFacts", "facts_and_count", r"facts\(\) after encode\(\) has other timestamps"),
    ("ZeroForNull", "facts_and_count", r"facts\(\) before has other sizes of values; null has -1"),
    ("KeysWithoutNulls", "keys_are_those", r"keys\(\) of \d+ records gave other keys"),
    ("MovesTheFirstOnes", "move_to_other", r"records became \d+ bytes|facts\(\) after extend\(\) has other"),
    ("MovesAllOrNothing", "move_only", r"extend\(\) took \d+ records, and memory\(\) is \d+ with \d+ allowed"),
    ("SaysItMovedAll", "full_columns", r"extend\(\) took 3 records, with no room for any"),
    ("BorrowsWhatItMoves", "move_to_other", r"records became \d+ bytes"),
    ("ForgetsTimesInMoves", "move_to_other", r"facts\(\) after extend\(\) has other timestamps"),
    ("TakesAwayWhatItMoves", "move_to_other", r"records became \d+ bytes"),
]
WRONG_ENCODERS = [
    ("ForTablesOnly", "contract", r"columns\(OBJECTS\) returned None: no producer asks for any other kind"),
    ("FirstOfAll", "contract", "priority is 'highest', and must be an int"),
    ("CheaperThanItIs", "no_more_memory", "record_cost says 50 for each, so"),
    ("OneForAll", "its_own_columns", "a record that was appended to one batch's columns is in another's"),
    (
        "TornByThreads",
        "many_threads",
        r"returned index|records became|raised|returned None|first_timestamp of|new ones are empty",
    ),
]

WRONG_FOR_TABLES = [
    (
        "CutsTooMuch",
        "stay_in_order",
        r"cut_rows\(\) made a batch of \d+ bytes and \d+ rows, where \d+ bytes are",
    ),
    ("LosesTheLastBatch", "encoded_like", r"cut_rows\(\) put 0 rows into batches of partition -1, \[\]; these are its"),
    ("MixesPartitions", "stay_in_order", r"cut_rows\(\) put \d+ rows into batches of partition"),
    ("ForgetsTimesOfRows", "encoded_like", r"facts\(\) before has other timestamps"),
    ("CutsIntoTuples", "encoded_like", r"cut_rows\(\) returned tuple; it must be a Cut"),
    ("CutsOpenColumns", "encoded_like", r"append\(\) of columns of cut_rows\(\) took a record"),
    ("KeepsTheSign", "partitions_of_java", r"murmur2_partitions\(\) put the key .* Java's producer puts it on"),
    ("ReturnsLongs", "partitions_of_java", r"of 40 keys returned 320 bytes, not four for each"),
    ("WritesNulls", "json_of_their", r"json_rows\(\) wrote .*null fields are left out"),
    ("ForgetsQuotes", "json_of_their", r"json_rows\(\) wrote .*, which is no JSON"),
    ("ForgetsTheFirstOffset", "json_of_their", r"json_rows\(\) of 6 rows returned the offsets"),
]


@each_of(WRONG_COLUMNS)
def test_a_broken_promise_of_columns_is_named(pytester: pytest.Pytester, plugin: str, test: str, said: str) -> None:
    SUITE.assert_catches(pytester, f"WrongEncoder(wrong_encoders.{plugin})", test, said)


@each_of([*WRONG_ENCODERS, *WRONG_FOR_TABLES])
def test_a_broken_promise_of_an_encoder_is_named(pytester: pytest.Pytester, plugin: str, test: str, said: str) -> None:
    SUITE.assert_catches(pytester, plugin + "()", test, said)


def test_a_failing_test_says_how_its_inputs_are_made_again(pytester: pytest.Pytester) -> None:
    def failed(seed: str) -> str:
        wrong = "WrongEncoder(wrong_encoders.EstimatesTooLittle)"
        result = SUITE.run(pytester, wrong, "-x", "-k", "size_estimates", more=f"seed = {seed}")
        return "\n".join(line for line in result.outlines if "bytes, and size_estimate" in line or "seed = " in line)

    first = failed("None")
    seed = re.search(r"`seed = (\d+)` in TestIt makes the same again", first)
    assert seed is not None, first
    assert failed(seed[1]) == first


def test_an_encoder_that_keeps_all_promises_passes(pytester: pytest.Pytester) -> None:
    SUITE.assert_passes(pytester, "WrongEncoder()")


class Measured(RecordEncoderConformance):
    """The suite, whose tests are called here."""


@pytest.mark.parametrize("end", ["encode", "release"])
def test_a_right_encoder_is_measured_without_collecting_garbage(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    collected: list[None] = []
    monkeypatch.setattr("gc.collect", lambda *_: collected.append(None))
    suite, encoder = Measured(), WrongEncoder()

    suite.test_records_are_released_by_their_last_call(encoder, end)
    suite.test_records_occupy_what_the_encoder_reports(encoder)

    assert collected == []


def test_an_encoder_with_right_abilities_for_tables_passes(pytester: pytest.Pytester) -> None:
    SUITE.assert_passes(pytester, "RightForTables()")
