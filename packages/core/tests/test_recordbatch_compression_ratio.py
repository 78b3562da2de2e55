"""Bad news counts at once, good news a little at a time: batches seldom come out larger than wanted."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.plugins.compressors.gzip import Gzip
from ottla.recordbatch.compression_ratio import ESTIMATION_FACTOR, CompressionRatios
from ottla.recordbatch.objects import ObjectColumns
from ottla.recordbatch.sealed_records import SealedRecords, finish

GZIP = Gzip(-1)


def ratio(ratios: CompressionRatios) -> float:
    return ratios.ratio("t", codec_id=1)


def observed(*seen: float) -> CompressionRatios:
    ratios = CompressionRatios()
    for each in seen:
        ratios.observe("t", codec_id=1, ratio=each)
    return ratios


def test_the_first_estimate_of_a_codec_is_1() -> None:
    assert ratio(CompressionRatios()) == 1.0


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ([0.2], 0.995),
        ([0.2, 0.2], 0.99),
        ([0.997], 0.997),
        ([1.01], 1.05),
        ([1.3], 1.3),
        ([0.2, 0.996], 1.045),
        ([0.2, 0.995], 0.995),
        ([1.0], 1.0),
    ],
)
def test_the_estimate_falls_in_small_steps_and_rises_in_large_ones(seen: list[float], expected: float) -> None:
    assert ratio(observed(*seen)) == pytest.approx(expected, abs=1e-12)


@given(st.floats(0.01, 2.0))
def test_a_constant_ratio_becomes_the_estimate(steady: float) -> None:
    assert ratio(observed(*[steady] * 210)) == pytest.approx(steady, abs=0.05)


@given(st.lists(st.floats(0.001, 3.0), min_size=1, max_size=50))
def test_the_estimate_is_never_below_the_ratio_of_the_last_batch(seen: list[float]) -> None:
    assert ratio(observed(*seen)) >= seen[-1]


def test_each_topic_and_codec_has_its_own_estimate() -> None:
    ratios = observed(2.0)

    assert ratios.ratio("other", codec_id=1) == ratios.ratio("t", codec_id=2) == 1.0


@pytest.mark.parametrize(("split", "expected"), [(0.3, 1.0), (1.4, 1.4)])
def test_after_a_split_the_estimate_is_at_least_1(split: float, expected: float) -> None:
    ratios = observed(*[0.1] * 100)

    ratios.start_over("t", codec_id=1, ratio=split)

    assert ratio(ratios) == expected


def test_batches_of_steady_records_grow_until_they_fill_their_size() -> None:
    ratios, size = CompressionRatios(), 4096
    sealed: list[SealedRecords] = []
    for _ in range(200):
        columns, limit = ObjectColumns(1 << 20), size / (ratio(ratios) * ESTIMATION_FACTOR)
        while columns.size_estimate() + 40 <= limit:
            columns.append(None, b"%d some words, said again" % (len(columns) * 7919 % 1000), (), 5)
        sealed.append(finish(columns.encode(2), magic=2, compressor=GZIP))
        ratios.observe("t", codec_id=1, ratio=sealed[-1].ratio)

    assert sealed[0].plain_size <= size
    assert sealed[-1].plain_size > 3 * size
    assert 0.8 * size < sealed[-1].size <= size
    assert max(batch.size for batch in sealed) <= size


def test_concurrent_observations_are_not_lost() -> None:
    ratios = CompressionRatios()
    together = threading.Barrier(8)

    def improve() -> None:
        together.wait()
        for _ in range(20):
            ratios.observe("t", codec_id=1, ratio=0.0001)

    threads = [threading.Thread(target=improve) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert ratio(ratios) == pytest.approx(1.0 - 8 * 20 * 0.005)
