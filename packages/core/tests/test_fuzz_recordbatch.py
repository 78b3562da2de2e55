"""No bytes bring the reading of batches or a codec down. OTTLA_FUZZ_INPUTS and OTTLA_FUZZ_SEED: see `fuzzing`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fuzz_recordbatch import CODECS, FORMATS, batches, codec, genuine_batches, put_right
from fuzzing import SEED, Bounds, Target, fuzz, inputs, spoiled

from ottla.errors import CorruptBatchError

pytestmark = pytest.mark.unmeasured

INPUTS = inputs(100_000)
CHECKSUM_AT = (12, 12, 17)


@pytest.mark.parametrize("magic", FORMATS)
def test_hostile_batches_are_read_or_refused_within_bounds(magic: int) -> None:
    print(f"OTTLA_FUZZ_SEED={SEED}")
    share = INPUTS // 2 // len(FORMATS)
    outcome = fuzz(batches(magic), seed=SEED, inputs=share)

    shallow = sum(times for words, times in outcome.refusals.items() if "cut off" in words or "checksum" in words)
    assert outcome.read > 0, "every input was refused, so nothing deep was reached"
    assert share - shallow > share / 2, "most inputs got no further than length and checksum"


@pytest.mark.parametrize("name", CODECS)
def test_hostile_compressed_data_is_read_or_refused_within_bounds(name: str) -> None:
    print(f"OTTLA_FUZZ_SEED={SEED}")
    outcome = fuzz(codec(name), seed=SEED, inputs=INPUTS // 2 // len(CODECS))

    assert outcome.read > 0, "every input was refused, so nothing deep was reached"
    assert sum(outcome.refusals.values()) > 0, "every input was read, so nothing hostile was tried"


def careless(read: Callable[[bytes], object]) -> Target:
    """A reader that refuses nothing but emptiness."""

    def guarded(data: bytes) -> object:
        if not data:
            raise CorruptBatchError("nothing there")
        return read(data)

    return Target(
        label="a careless reader",
        read=guarded,
        spoiled=lambda chance: spoiled([bytes(range(1, 30))], chance),
        bounds=Bounds(steps=1_000, steps_per_byte=10, memory=10_000, memory_per_byte=10),
    )


def overruns(data: bytes) -> int:
    return data[12]


def loops(data: bytes) -> None:
    for _ in range(data[0] << 10):
        pass


def hoards(data: bytes) -> None:
    bytearray(data[0] << 16)


@pytest.mark.parametrize(
    ("read", "said"), [(overruns, "IndexError"), (loops, "steps for"), (hoards, "bytes of memory for")]
)
def test_a_harmful_reader_is_found_again_with_its_seed(read: Callable[[bytes], object], said: str) -> None:
    found = []
    for _ in range(2):
        with pytest.raises(AssertionError, match=rf"a careless reader: .*{said}.*OTTLA_FUZZ_SEED=7") as caught:
            fuzz(careless(read), seed=7, inputs=10_000)
        found.append(str(caught.value).partition("came of")[2])

    assert found[0] == found[1]


def test_refusals_are_counted_by_text_without_numbers() -> None:
    numbers = iter(range(100))

    def refuse(_data: bytes) -> None:
        raise CorruptBatchError(f"wrong at {next(numbers)}")

    outcome = fuzz(careless(refuse), seed=1, inputs=20)

    assert outcome.refusals["wrong at "] >= 15
    assert outcome.read == 0


def test_a_repaired_batch_has_the_length_and_checksum_of_java() -> None:
    for batch in genuine_batches():
        spoiled_outside = batch[:8] + b"\xff" * 4 + batch[12:]
        at = CHECKSUM_AT[batch[16]]
        spoiled_outside = spoiled_outside[:at] + bytes(4) + spoiled_outside[at + 4 :]

        assert put_right(spoiled_outside) == batch
