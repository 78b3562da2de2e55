"""The suite for compressors catches what is wrong, and says what it is."""

from __future__ import annotations

import pytest
from suite_runs import Suite, each_of

pytest_plugins = ["pytester"]

SUITE = Suite(
    name="CompressorConformance",
    subject="compressor",
    module="wrong_compressors",
    more=lambda _patience: "levels = (1, 9)",
)

WRONG = [
    ("IsNoCodecOfKafkas", "everything_of_the_contract", "codec_id is 7, and none of Kafka's: 1 gzip, 2 snappy"),
    ("HasATextualId", "everything_of_the_contract", "codec_id is 'gzip', and none of Kafka's"),
    ("PacksTheFirstChunk", "is_unpacked", r"bytes in 6 chunks were packed \(level None\), and 0 other bytes unpacked"),
    ("NeedsAChunk", "nothing_is_packed", r"compress\(\) of 0 chunks \(none\) with level None raised IndexError"),
    ("TakesBytesOnly", "is_unpacked", r"compress\(\) of 1 chunks \(memoryview\) .*raised AttributeError"),
    ("KeepsSmallChunks", "where_chunks_end", r"70000 bytes in 10000 chunks .* 7000 other bytes unpacked"),
    ("WantsAList", "is_unpacked", r"compress\(\) of 2 chunks \(bytes, memoryview\) .*raised AttributeError"),
    ("EatsTheList", "stays_as_it_is", r"compress\(\) changed the list of chunks"),
    ("WipesWhatItWasGiven", "stays_as_it_is", r"decompress\(\) changed the bytes that it was given"),
    ("ReturnsABytearray", "is_unpacked", r"compress\(\) returned a bytearray; it must be bytes"),
    ("ReturnsAView", "is_unpacked", r"decompress\(\) returned a memoryview; it must be bytes"),
    ("UnpacksBytesOnly", "any_kind_of_buffer", r"decompress\(\) of .* raised AttributeError"),
    ("HasAFramingOfItsOwn", "kafka_s_own", "what Java's producer packed with gzip was read as None"),
    ("WritesWhatNobodyReads", "core_s_own_codec", r"ottla's own gzip cannot read what compress\(\) made of 1 bytes"),
    ("BreaksAtALevel", "is_unpacked", r"\(level 9\), and 0 other bytes unpacked"),
    ("KnowsNoLevels", "is_unpacked", r"with level None raised TypeError"),
    ("HasNoLimit", "just_the_limit", r"decompress\(\) gave 1 bytes with a limit of 0"),
    ("CutsAtTheLimit", "just_the_limit", r"with a limit of \d+; it must raise ProtocolError"),
    ("LimitsTooEarly", "just_the_limit", r"decompress\(\) refused 1 bytes with a limit of 1"),
    ("LooksAtTheLimitAfterwards", "bomb", r"took \d+ bytes of memory before it refused a bomb"),
    ("RaisesWhatTheLibraryRaises", "cut", "raised BadGzipFile.*malformed input, and more than the limit"),
    ("RaisesWhatTheLibraryRaises", "garbage", "raised BadGzipFile"),
    ("RaisesWhatTheLibraryRaises", "damage", r"raised (zlib.error|error|BadGzipFile|EOFError)"),
    ("ReadsAsFarAsItGets", "cut", r"packed bytes 1 were given, and decompress\(\) made 0 bytes of them"),
    ("WaitsForTheEnd", "cut", r"was not back after 1 s; input that never ends must be refused"),
    ("NeverRecovers", "garbage", "chunks were packed .*, and refused"),
    ("OneBufferForAll", "many_threads", "by many threads at once, other bytes were unpacked than were packed"),
]


@each_of(WRONG)
def test_a_compressor_that_breaks_a_promise_is_told_which(
    pytester: pytest.Pytester, plugin: str, test: str, said: str
) -> None:
    SUITE.assert_catches(pytester, plugin + "()", test, said)


def test_a_compressor_that_keeps_all_promises_passes(pytester: pytest.Pytester) -> None:
    SUITE.assert_passes(pytester, "Right()", more="levels = (-1, 1, 9)")
