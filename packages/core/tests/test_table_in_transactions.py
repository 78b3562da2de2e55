"""A table is part of the transaction that is open, and goes nowhere without one."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ottla.errors import IllegalStateError
from ottla_testkit.simulation import SimulatedCluster
from simulated_producer import simulated


def cluster() -> SimulatedCluster:
    made = SimulatedCluster.of(1, 2)
    made.create("t", 1, 2)
    return made


@pytest.mark.parametrize("encoder", ["python", "native"])
def test_rows_become_visible_with_the_transaction(encoder: str) -> None:
    if encoder == "native":
        pytest.importorskip("ottla_accel", exc_type=ImportError)
    config = {"transactional.id": "mine", "record.encoder": encoder}
    with simulated(config=config, cluster=cluster()) as simulation:
        producer = simulation.producer
        table = pa.table({"value": [b"a", b"b"], "key": [b"1", b"1"]})
        producer.init_transactions()
        with pytest.raises(IllegalStateError):
            producer.send_table("t", table)

        with producer.transaction():
            delivery = producer.send_table("t", table)

        assert delivery.result(0).rows == 2
        log = simulation.cluster.topics["t"]
        assert [b"a", b"b"] in (log.committed(0), log.committed(1))  # one key, one partition
