"""Shared parts of the fuzz tests: the seed, the number of inputs, the mutations of bytes, and the bounds of a read.

OTTLA_FUZZ_SEED repeats a run, OTTLA_FUZZ_INPUTS is the number of inputs of each module, OTTLA_SOAK sends thirty times
as many as the short form.
Nothing here knows a format: `fuzz_recordbatch` says what is read, and what counts as a refusal is a ProtocolError.
"""

from __future__ import annotations

import os
import random
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import Any, Final

import attrs
from long_forms import LONG

from ottla.errors import ProtocolError

SEED: Final = int(os.environ.get("OTTLA_FUZZ_SEED", random.SystemRandom().randrange(2**32)))

MEASURED_EACH: Final = 40
"""One input of so many is read with its steps counted and its memory measured, which makes it slow."""

LONGEST: Final = 64 * 1024
"""The maximum size of a repeated part: repeating it again and again would take all memory."""

EXTREMES: Final = tuple(
    bytes.fromhex(extreme)
    for extreme in (
        *("00", "01", "7f", "80", "ff", "7fff", "8000", "ffff", "00000000", "00ffffff", "7fffffff", "80000000"),
        *("ffffffff", "fffffffe", "8100", "ffffffff0f", "ffffffff1f", "808080808000", "7fffffffffffffff"),
    )
)
"""Lengths, counts and variable-length integers at the edge of what they can say."""

TRACE_MEMORY: Final = 30_000 if sys.version_info >= (3, 12) else 0
"""What the interpreter itself takes at most, to note which of the code is traced (PEP 669)."""


@attrs.frozen(kw_only=True)
class Bounds:
    """The maximum cost of reading: a fixed part, and a part for each byte. Steps are lines of Python."""

    steps: int
    steps_per_byte: int
    memory: int
    memory_per_byte: int


@attrs.frozen(kw_only=True)
class Target:
    """A reader under fire; `spoiled` makes an input. `unpacked` is what an input may grow to before it is refused."""

    label: str
    read: Callable[[bytes], object]
    spoiled: Callable[[random.Random], bytes]
    bounds: Bounds
    unpacked: int = 0


@attrs.frozen(kw_only=True)
class Outcome:
    """The number of inputs that were read, and counts of the refusals of the others."""

    read: int
    refusals: dict[str, int]

    @property
    def refused(self) -> int:
        return sum(self.refusals.values())


def inputs(default: int) -> int:
    """The number of inputs of a module, *default* in the short form."""
    return int(os.environ.get("OTTLA_FUZZ_INPUTS") or default * (30 if LONG else 1))


def fuzz(target: Target, *, seed: int, inputs: int) -> Outcome:
    """Send inputs to a reader. Raises AssertionError for the first that does harm."""
    chance = random.Random(f"{seed} {target.label}")
    read, refusals = 0, dict[str, int]()
    for number in range(inputs):
        data = target.spoiled(chance)
        try:
            with within_bounds(target, data) if number % MEASURED_EACH == MEASURED_EACH - 1 else nullcontext():
                refusal = _refusal(target, data)
        except Exception as error:
            raise AssertionError(
                f"{target.label}: {error!r} came of {data.hex()}; again with OTTLA_FUZZ_SEED={seed}"
            ) from error
        if refusal is None:
            read += 1
        else:
            refusals[refusal] = refusals.get(refusal, 0) + 1
    return Outcome(read=read, refusals=refusals)


def spoiled(genuine: Sequence[bytes], chance: random.Random) -> bytes:
    """Genuine bytes after one to three accidents, or, now and then, noise."""
    if chance.random() < 0.05:
        return chance.randbytes(chance.randrange(100))
    data = chance.choice(genuine)
    for _ in range(chance.choice((1, 1, 2, 3))):
        data = chance.choice(ACCIDENTS)(data, genuine, chance)
    return data


def _truncate(data: bytes, _genuine: Sequence[bytes], chance: random.Random) -> bytes:
    return data[: _place(data, chance)]


def _flip_a_bit(data: bytes, _genuine: Sequence[bytes], chance: random.Random) -> bytes:
    at = _place(data, chance)
    return data[:at] + bytes(byte ^ 1 << chance.randrange(8) for byte in data[at : at + 1]) + data[at + 1 :]


def _overwrite(data: bytes, _genuine: Sequence[bytes], chance: random.Random) -> bytes:
    at, extreme = _place(data, chance), chance.choice(EXTREMES)
    return data[:at] + extreme + data[at + len(extreme) :]


def _insert(data: bytes, _genuine: Sequence[bytes], chance: random.Random) -> bytes:
    at = _place(data, chance)
    return data[:at] + chance.choice((*EXTREMES, chance.randbytes(3))) + data[at:]


def _remove(data: bytes, _genuine: Sequence[bytes], chance: random.Random) -> bytes:
    at = _place(data, chance)
    return data[:at] + data[at + chance.randrange(1, 6) :]


def _repeat(data: bytes, _genuine: Sequence[bytes], chance: random.Random) -> bytes:
    start, end = sorted((_place(data, chance), _place(data, chance)))
    return (data[:end] + data[start:end] * chance.randrange(1, 10) + data[end:])[:LONGEST]


def _splice(data: bytes, genuine: Sequence[bytes], chance: random.Random) -> bytes:
    other = chance.choice(genuine)
    return data[: _place(data, chance)] + other[_place(other, chance) :]


ACCIDENTS: Final = (_truncate, _flip_a_bit, _overwrite, _insert, _remove, _repeat, _splice)


def _place(data: bytes, chance: random.Random) -> int:
    return chance.randrange(len(data) + 1)


def _refusal(target: Target, data: bytes) -> str | None:
    """The words of the refusal, without the numbers in them; None when the bytes were read."""
    try:
        target.read(data)
    except ProtocolError as error:
        return "".join(letter for letter in str(error) if not letter.isdigit())
    return None


@contextmanager
def within_bounds(target: Target, data: bytes) -> Iterator[None]:
    """Count the steps and measure the memory of what is done in the block. Raises AssertionError if it is too much."""
    steps = 0

    def step(_frame: FrameType, _event: str, _argument: object) -> Any:
        nonlocal steps
        steps += 1
        return step

    before = sys.gettrace()
    tracemalloc.start()
    sys.settrace(step)
    try:
        yield
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        sys.settrace(before)
        tracemalloc.stop()
    bounds, size = target.bounds, len(data) + target.unpacked
    memory = bounds.memory + TRACE_MEMORY
    assert steps <= bounds.steps + bounds.steps_per_byte * size, f"{steps} steps for {len(data)} bytes"
    assert peak <= memory + bounds.memory_per_byte * size, f"{peak} bytes of memory for {len(data)} bytes"
