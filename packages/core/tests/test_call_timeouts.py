"""A time-out that is no number is refused by each method, in words, before the method does anything."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from fractions import Fraction
from typing import Any, Final

import pytest

from ottla import Producer
from ottla.config.wait_limit import check_timeout
from ottla_testkit.mock_producer import MockProducer
from simulated_producer import simulated

CALLS: Final[dict[str, Callable[[Producer, Any], object]]] = {
    "send": lambda producer, timeout: producer.send("t", b"v", timeout=timeout),
    "partitions_for": lambda producer, timeout: producer.partitions_for("t", timeout=timeout),
    "client_instance_id": lambda producer, timeout: producer.client_instance_id(timeout),
    "flush": lambda producer, timeout: producer.flush(timeout),
    "close": lambda producer, timeout: producer.close(timeout),
}
TRANSACTIONAL: Final[dict[str, Callable[[Producer, Any], object]]] = {
    "init_transactions": lambda producer, timeout: producer.init_transactions(timeout),
    "send_offsets_to_transaction": lambda producer, timeout: producer.send_offsets_to_transaction({}, "g", timeout),
    "commit_transaction": lambda producer, timeout: producer.commit_transaction(timeout),
    "abort_transaction": lambda producer, timeout: producer.abort_transaction(timeout),
    "prepare_transaction": lambda producer, timeout: producer.prepare_transaction(timeout),
    "leave_transaction": lambda producer, timeout: producer.leave_transaction(timeout),
}


@pytest.mark.parametrize("encoder", ["python", "native"])
@pytest.mark.parametrize("method", CALLS)
def test_a_timeout_that_is_no_number_is_refused(method: str, encoder: str) -> None:
    if encoder == "native":
        pytest.importorskip("ottla_accel", exc_type=ImportError)
    with simulated(1, config={"record.encoder": encoder}) as simulation:
        simulation.producer.send("t", b"into the open batch")

        with pytest.raises(TypeError, match=r"^timeout must be a number of seconds, not '3'$"):
            CALLS[method](simulation.producer, "3")
        simulation.run_until_idle()

        assert ", closed" not in repr(simulation.producer), "it is still to be closed when the program ends"
        assert simulation.producer.send("t", b"still open").topic == "t"
        assert [len(log) for log in simulation.cluster.topics["t"].log.values()] == [1]


@pytest.mark.parametrize("method", TRANSACTIONAL)
def test_a_wrong_timeout_leaves_a_transaction_as_it_is(method: str) -> None:
    with MockProducer(transactional_id="mover") as producer:
        if method != "init_transactions":
            producer.init_transactions()
            producer.begin_transaction()

        with pytest.raises(TypeError, match="timeout must be a number of seconds"):
            TRANSACTIONAL[method](producer, "3")

        if method == "init_transactions":
            producer.init_transactions()
            producer.begin_transaction()
        producer.send("t", b"v")
        producer.commit_transaction()
        assert producer.commit_count == 1


def test_a_delivery_refuses_a_timeout_that_is_no_number() -> None:
    with MockProducer() as producer:
        delivery = producer.send("t", b"v")

        for wait in (delivery.result, delivery.exception):
            with pytest.raises(TypeError, match=r"^timeout must be a number of seconds, not '3'$"):
                wait("3")  # type: ignore[arg-type]


def test_a_table_with_a_wrong_timeout_is_not_opened() -> None:
    pa = pytest.importorskip("pyarrow")
    reader = pa.table({"value": [b"v"]}).to_reader()
    with MockProducer() as producer:
        with pytest.raises(TypeError, match="timeout must be a number of seconds"):
            producer.send_table("t", reader, timeout="3")  # type: ignore[arg-type]

        assert producer.send_table("t", reader).rows == 1


def test_a_delivery_of_a_table_refuses_a_timeout_that_is_no_number() -> None:
    pa = pytest.importorskip("pyarrow")
    with MockProducer() as producer:
        delivery = producer.send_table("t", pa.table({"value": [b"v"]}))

        with pytest.raises(TypeError, match="timeout must be a number of seconds"):
            delivery.result("3")  # type: ignore[arg-type]


def test_a_timedelta_as_timeout_is_refused_with_what_to_pass() -> None:
    with pytest.raises(TypeError, match=r"not datetime.timedelta\(seconds=3\); pass its total_seconds\(\)"):
        check_timeout(timedelta(seconds=3))


@pytest.mark.parametrize("timeout", [0, 3, -1, 2.5, True, Fraction(1, 2), float("inf")])
def test_any_number_is_a_timeout(timeout: Any) -> None:
    check_timeout(timeout)


def test_a_timeout_that_is_not_a_number_by_its_name_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^timeout must be a number of seconds, not nan$"):
        check_timeout(float("nan"))
