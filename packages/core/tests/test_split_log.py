"""The lines about batches that are too large for their topic: few, with counts, and with what helps."""

from __future__ import annotations

import logging

import pytest

from ottla.errors.log_throttle import SILENCE_SECONDS
from simulated_producer import simulated

RECORDS = 400


def test_many_batches_that_are_too_large_for_a_topic_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with simulated(1, linger_ms=10, batch_size=4_000) as simulation:
        simulation.cluster.topics["t"].max_message_bytes = 200
        for wait in (0.0, SILENCE_SECONDS):
            simulation.clock.advance(wait)
            for number in range(RECORDS):
                simulation.producer.send("t", b"%099d" % number)
            simulation.run_until_idle()
    lines = [record for record in caplog.records if record.name == "ottla.sender.split_log"]

    assert [line.levelno for line in lines] == [logging.WARNING] * len(lines)
    assert 1 <= len(lines) <= 2
    assert "; raise the topic's max.message.bytes, or lower batch.size" in lines[0].getMessage()
