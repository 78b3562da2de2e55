"""The suite for compressors catches what is wrong, and says what it is."""

from __future__ import annotations

import pytest
from suite_runs import Suite, assert_caught, each_of

pytest_plugins = ["pytester"]

SUITE = Suite(
    name="CompressorConformance",
    subject="compressor",
    module="wrong_compressors",
    more=lambda _timeout: "levels = (1, 9)",
)

WRONG = [
    ("IsNoCodecOfKafkas", "has_all", "codec_id is 7, and none of Kafka's: 1 gzip, 2 snappy"),
    ("HasATextualId", "has_all", "codec_id is 'gzip', and none of Kafka's"),
    (
        "PacksTheFirstChunk",
        "is_decompressed",
        r"bytes in 6 chunks were packed \(level None\), and 0 other bytes unpacked",
    ),
    ("NeedsAChunk", "empty_data", r"compress\(\) of 0 chunks \(none\) with level None raised IndexError"),
    ("TakesBytesOnly", "is_decompressed", r"compress\(\) of 1 chunks \(memoryview\) .*raised AttributeError"),
    ("KeepsSmallChunks", "chunk_boundaries", r"70000 bytes in 10000 chunks .* 7000 other bytes unpacked"),
    ("WantsAList", "is_decompressed", r"compress\(\) of 2 chunks \(bytes, memoryview\) .*raised AttributeError"),
    ("EatsTheList", "arguments_are_not_changed", r"compress\(\) changed the list of chunks"),
    ("WipesWhatItWasGiven", "arguments_are_not_changed", r"decompress\(\) changed the bytes that it was given"),
    ("ReturnsABytearray", "is_decompressed", r"compress\(\) returned a bytearray; it must be bytes"),
    ("ReturnsAView", "is_decompressed", r"decompress\(\) returned a memoryview; it must be bytes"),
    ("UnpacksBytesOnly", "any_kind_of_buffer", r"decompress\(\) of .* raised AttributeError"),
    (
        "HasAFramingOfItsOwn",
        "compressed_by_kafka",
        "what Java's producer packed with gzip was refused with CorruptBatchError",
    ),
    ("WritesAnUnknownFormat", "codec_of_the_core", r"ottla's own gzip cannot read what compress\(\) made of 1 bytes"),
    ("BreaksAtALevel", "is_decompressed", r"\(level 9\), and 0 other bytes unpacked"),
    ("KnowsNoLevels", "is_decompressed", r"with level None raised TypeError"),
    ("HasNoLimit", "exactly_the_limit", r"decompress\(\) gave 1 bytes with a limit of 0"),
    ("CutsAtTheLimit", "exactly_the_limit", r"with a limit of \d+; it must raise ProtocolError"),
    (
        "LimitsTooEarly",
        "exactly_the_limit",
        r"decompress\(\) of 1 bytes with a limit of 1 refused it with CorruptBatchError",
    ),
    ("LooksAtTheLimitAfterwards", "bomb", r"took \d+ bytes of memory before it refused a bomb"),
    ("LooksAtTheLimitAfterEachMember", "bomb_of_another", r"took \d+ bytes of memory for a bomb that ottla's own gzip"),
    ("RaisesWhatTheLibraryRaises", "truncated_data", "raised BadGzipFile.*malformed input, and more than the limit"),
    ("RaisesWhatTheLibraryRaises", "garbage", "raised BadGzipFile"),
    ("RaisesWhatTheLibraryRaises", "damage", r"raised (zlib.error|error|BadGzipFile|EOFError)"),
    ("ReadsAsFarAsItGets", "truncated_data", r"packed bytes 1 were given, and decompress\(\) made 0 bytes of them"),
    ("WaitsForTheEnd", "truncated_data", r"did not return within 1 s; input that never ends must be refused"),
    ("NeverRecovers", "garbage", r"chunks were packed .*, and refused with CorruptBatchError\('again'\)"),
    (
        "IgnoresTheLevel",
        "level_is_used",
        r"the same bytes of a text at each of the levels \(1, 9\); is `level` ignored",
    ),
    (
        "TornBetweenLines",
        "at_any_line",
        "when they change between two of its lines, .* (other bytes unpacked|refused with)",
    ),
    ("OneBufferForAll", "many_threads", "by many threads at once, .*: a compressor is shared by threads"),
]


@each_of(WRONG)
def test_a_broken_promise_of_a_compressor_is_named(
    pytester: pytest.Pytester, plugin: str, test: str, said: str
) -> None:
    SUITE.assert_catches(pytester, plugin + "()", test, said)


def test_a_compressor_that_keeps_all_promises_passes(pytester: pytest.Pytester) -> None:
    SUITE.assert_passes(pytester, "Right()", more="levels = (-1, 1, 9)")


def test_a_slow_codec_is_reported_with_its_level_and_time(pytester: pytest.Pytester) -> None:
    result = SUITE.run(pytester, "TakesItsTime()", "-x", more="time_limit = 1.0")

    assert_caught(result, r"the suite has taken 1 s, .*compress\(\) at level None took \S+ ms .* states `time_limit`")
