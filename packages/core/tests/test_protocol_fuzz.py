"""No bytes bring a decoder down. OTTLA_FUZZ_INPUTS and OTTLA_FUZZ_SEED: see `fuzzing`."""

from __future__ import annotations

from typing import Any

import pytest
from fuzz_protocol import EACH, crowded, targets
from fuzzing import SEED, fuzz, within_bounds

from ottla.protocol import Message
from ottla.protocol.catalogue import MESSAGES

pytestmark = pytest.mark.unmeasured


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.name)
def test_hostile_bytes_are_read_or_refused_within_bounds(message: Message[Any, Any]) -> None:
    print(f"OTTLA_FUZZ_SEED={SEED}")
    outcomes = [fuzz(target, seed=SEED, inputs=EACH) for target in targets(message)]

    assert sum(outcome.read for outcome in outcomes) > 0, "every input was refused, so nothing deep was reached"
    assert sum(outcome.refused for outcome in outcomes) > 0, "every input was read, so nothing hostile was tried"


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.name)
def test_many_items_that_are_as_small_as_can_be_are_read_within_bounds(message: Message[Any, Any]) -> None:
    for target, data in crowded(message):
        target.read(data)  # What is made once for each decoder is not measured.
        with within_bounds(target, data):
            target.read(data)
