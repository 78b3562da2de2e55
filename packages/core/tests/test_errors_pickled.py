"""Errors that leave a process: a worker of a pool, a task of Spark or Celery raises them to its parent."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import failing_worker
import pyarrow as pa
import pytest

import ottla.errors
from ottla import (
    ConfigError,
    DeliveryError,
    FlushTimeoutError,
    OttlaError,
    Producer,
    TableDeliveryError,
    TableReadError,
    UndeliveredError,
)
from ottla.errors import BrokerError, ErrorCode, NameResolutionError, RowSerializationError, TransactionTimeoutError
from simulated_producer import Simulated, simulated

COPIES = pytest.mark.parametrize(
    "copied",
    [lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy],
    ids=["pickle", "copy", "deep"],
)
Copied = Callable[[Any], Any]


def refused(simulation: Simulated) -> None:
    simulation.cluster.brokers[1].codes.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def caught(call: Callable[[], object]) -> OttlaError:
    with pytest.raises(OttlaError) as raised:
        call()
    return raised.value


def of_a_record(simulation: Simulated) -> OttlaError:
    refused(simulation)
    delivery = simulation.producer.send("t", b"a", partition=0)
    simulation.run_until_idle()
    return caught(delivery.result)


def of_records_unread(simulation: Simulated) -> OttlaError:
    refused(simulation)
    simulation.producer.send("t", b"a", partition=0)
    simulation.run_until_idle()
    return caught(simulation.producer.flush)


def of_a_flush(simulation: Simulated) -> OttlaError:
    simulation.cluster.brokers[1].silent = True
    simulation.producer.send("t", b"a", partition=0)
    return caught(lambda: simulation.producer.flush(0))


def of_a_table(simulation: Simulated) -> OttlaError:
    refused(simulation)
    delivery = simulation.producer.send_table("t", pa.table({"value": [b"a"]}))
    simulation.run_until_idle()
    return caught(delivery.result)


def of_reading_a_table(simulation: Simulated) -> OttlaError:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"value": [b"a"]})
        raise OSError("the disk is gone")

    return caught(lambda: simulation.producer.send_table("t", batches()))


def of_the_configuration(_simulation: Simulated) -> OttlaError:
    return caught(lambda: Producer(bootstrap_servers="localhost:9092", linger_ms=-1, acks="most"))


RAISED = {
    DeliveryError: of_a_record,
    UndeliveredError: of_records_unread,
    FlushTimeoutError: of_a_flush,
    TableDeliveryError: of_a_table,
    TableReadError: of_reading_a_table,
    ConfigError: of_the_configuration,
}


@COPIES
@pytest.mark.parametrize("kind", RAISED, ids=lambda kind: kind.__name__)
def test_a_raised_error_is_the_same_when_copied(kind: type[OttlaError], copied: Copied) -> None:
    with simulated(1, config={"bootstrap.servers": "seed:9092"}) as simulation:
        error = RAISED[kind](simulation)
        error.add_note("in the order service")
        other = copied(error)

    assert type(other) is kind
    assert (str(other), other.args, other.__notes__) == (str(error), error.args, error.__notes__)
    for name in error.__dict__.keys() - {"__notes__", "delivery"}:
        assert repr(getattr(other, name)) == repr(getattr(error, name))
    assert other.delivery is None


@COPIES
def test_the_story_and_the_cause_of_a_record_are_copied(copied: Copied) -> None:
    with simulated(1) as simulation:
        error = of_a_record(simulation)
        other = copied(error)

    assert isinstance(error, DeliveryError)
    assert str(other.story) == str(error.story)
    assert other.__cause__.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


KINDS = [kind for kind in vars(ottla.errors).values() if isinstance(kind, type) and issubclass(kind, OttlaError)]

ARGUMENTS: dict[type[OttlaError], OttlaError] = {
    ConfigError: ConfigError(["one", "two"]),
    BrokerError: BrokerError(ErrorCode.NOT_CONTROLLER, "ask another"),
    NameResolutionError: NameResolutionError("no such name", final=True),
    RowSerializationError: RowSerializationError({4: "not a number", 7: "null"}),
    TransactionTimeoutError: TransactionTimeoutError("no response in time"),
}


def example(kind: type[OttlaError]) -> OttlaError:
    if kind in ARGUMENTS:
        return ARGUMENTS[kind]
    if issubclass(kind, DeliveryError):
        return kind("lost", topic="t", partition=1, attempts=2, possibly_persisted=True)
    if kind in (UndeliveredError, FlushTimeoutError, TableDeliveryError):
        return kind(None, "2 records failed")  # type: ignore[arg-type]
    return kind("what happened")


@COPIES
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_of_error_can_be_copied(kind: type[OttlaError], copied: Copied) -> None:
    error = example(kind)
    other = copied(error)

    assert (type(other), str(other), other.__dict__) == (kind, str(error), error.__dict__)


class LostFileError(OttlaError, FileNotFoundError):
    """An error of a plugin that is also a built-in one, with fields of its own."""


class BadTextError(OttlaError, UnicodeDecodeError):
    """Another one."""

    def __init__(self, where: str, *rest: Any) -> None:
        self.where = where
        super().__init__(*rest)


@COPIES
def test_errors_of_plugins_keep_what_builtin_ones_have(copied: Copied) -> None:
    lost = copied(LostFileError(2, "No such file", "orders.csv"))
    bad = copied(BadTextError("row 7", "utf-8", b"\xff", 0, 1, "invalid start byte"))

    assert (str(lost), lost.errno, lost.filename) == ("[Errno 2] No such file: 'orders.csv'", 2, "orders.csv")
    assert (bad.where, bad.object, bad.reason) == ("row 7", b"\xff", "invalid start byte")


@COPIES
def test_causes_in_a_circle_end(copied: Copied) -> None:
    error = OttlaError("first")
    error.__cause__ = OttlaError("second")
    error.__cause__.__cause__ = error
    cause = copied(error).__cause__

    assert str(cause) == "second"
    assert str(cause.__cause__) == "first"


@pytest.mark.timeout(60)
def test_a_worker_raises_an_error_to_its_parent_and_goes_on() -> None:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        error = pool.submit(failing_worker.fail).exception(40)

        assert isinstance(error, DeliveryError)
        assert (str(error), error.topic, error.partition, error.possibly_persisted) == ("lost", "t", 1, True)
        assert pool.submit(len, "next").result(40) == 4
