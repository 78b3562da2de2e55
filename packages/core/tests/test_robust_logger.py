"""Loggers of ours: what handlers and filters of a program raise does not reach the producer."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from ottla import Producer
from ottla.errors.robust_logger import RobustLogger, robust_logger
from ottla_testkit.mock_cluster import MockCluster

WITHIN = 30.0


class NeedsUser(logging.Filter):
    """A filter of a web program that has forgotten about threads without a request."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.startswith("ottla."):
            raise KeyError("user_id")
        return True


class WithoutText(Exception):
    """An exception that cannot even be asked for its traceback."""

    def __getattribute__(self, name: str) -> object:
        raise KeyError(name)


@pytest.fixture
def handler() -> Iterator[logging.Handler]:
    found = logging.StreamHandler()
    logging.getLogger().addHandler(found)
    yield found
    logging.getLogger().removeHandler(found)


@pytest.fixture
def sending(mock_cluster: MockCluster) -> Iterator[Producer]:
    mock_cluster.create_topic("t", partitions=1)
    with Producer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer:
        producer.send("t", b"known").result(WITHIN)
        yield producer


def test_records_are_delivered_although_a_filter_raises(
    sending: Producer, handler: logging.Handler, capfd: pytest.CaptureFixture[str]
) -> None:
    handler.addFilter(NeedsUser())

    first = sending.send("t", b"a", on_delivery=lambda _delivery: 1 / 0)
    assert first.result(WITHIN).offset == 1
    assert sending.send("t", b"b").result(WITHIN).offset == 2

    handler.filters.clear()
    printed = capfd.readouterr().err
    assert "--- Logging error in a line of ottla.accumulator.batch_result ---" in printed
    assert "KeyError: 'user_id'" in printed


def test_records_are_delivered_although_an_error_has_no_text(sending: Producer, handler: logging.Handler) -> None:
    def fail(_delivery: object) -> None:
        raise WithoutText

    sending.send("t", b"a", on_delivery=fail).result(WITHIN)

    assert sending.send("t", b"b").result(WITHIN).offset == 2


def test_without_raise_exceptions_nothing_is_printed(
    handler: logging.Handler, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    handler.addFilter(NeedsUser())
    robust_logger("ottla.test").warning("a line")
    handler.filters.clear()

    assert capfd.readouterr().err == ""


def test_an_endless_recursion_ends() -> None:
    logger = robust_logger("ottla.test.recursive")

    class Recursive(logging.Handler):
        def handle(self, record: logging.LogRecord) -> bool:
            logger.warning("again")
            return True

    recursive = Recursive()
    logger.addHandler(recursive)
    try:
        with pytest.raises(RecursionError):
            logger.warning("a line")
    finally:
        logger.removeHandler(recursive)


def test_loggers_of_a_class_of_the_program_stay_as_they_are() -> None:
    class Own(logging.Logger):
        pass

    before = logging.getLoggerClass()
    logging.setLoggerClass(Own)
    try:
        assert type(robust_logger("ottla.test.own")) is Own
    finally:
        logging.setLoggerClass(before)
    assert type(robust_logger("ottla.test.usual")) is RobustLogger
