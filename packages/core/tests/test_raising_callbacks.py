"""A delivery callback with a fault raises for each record: it is logged seldom, and what is left out is counted."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from machine import columns
from ottla import Delivery, DeliveryError, UndeliveredError
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Acknowledged, Failed
from ottla.accumulator.batch_result import expect_callbacks, give_up_callbacks
from ottla.accumulator.delivery import ObservingCallback
from ottla.accumulator.delivery_counts import DeliveryCounts
from ottla.accumulator.loop_callbacks import LoopCallback
from ottla.accumulator.raising_callbacks import RaisingCallbacks
from ottla.errors.log_throttle import SILENCE_SECONDS
from ottla_testkit.manual_clock import ManualClock
from ottla_testkit.mock_producer import MockProducer

RECORDS = 200
REFUSED = DeliveryError("refused", topic="t", partition=0, attempts=1, possibly_persisted=False)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]


def batch_of(callback: object) -> ProducerBatch:
    batch = ProducerBatch(topic="t", partition=0, columns=columns(100_000), now=0.0)
    for _ in range(RECORDS):
        batch.append(None, b"v", (), 0, callback)  # type: ignore[arg-type]  # a callback of one argument
    return batch


@pytest.mark.parametrize("outcome", [Acknowledged(base_offset=0, log_append_time_ms=-1), Failed(error=REFUSED)])
def test_a_callback_that_raises_for_each_record_is_logged_once(
    outcome: Acknowledged | Failed, caplog: pytest.LogCaptureFixture
) -> None:
    def faulty(delivery: Delivery) -> None:
        raise KeyError(delivery)

    batch_of(faulty).complete_and_call_back(outcome)
    batch_of(faulty).complete_and_call_back(outcome)

    [line] = lines(caplog)
    assert "a delivery callback for topic 't', partition 0 raised" in line
    assert "in faulty" in caplog.text


def test_callbacks_that_raise_on_an_event_loop_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    batch = batch_of(None)
    batch.complete_and_call_back(Failed(error=REFUSED))
    for index in range(RECORDS):
        LoopCallback(lambda delivery: delivery.metadata.offset).run(Delivery(batch, index))

    [line] = lines(caplog)
    assert "raised when it got this error, and the producer continues: refused" in line


def fails(kind: str, callback: Callable[[Any], object]) -> DeliveryCounts:
    """The counts after a batch has failed whose callbacks are of this kind."""
    counts, loop = DeliveryCounts(), kind == "on a loop"
    batch = batch_of(None if loop else callback)
    batch.complete_and_call_back(Failed(error=REFUSED))
    for index in range(RECORDS if loop else 0):
        batch.failed_reads.expect(index)
    counts.add([batch])
    for index in range(RECORDS if loop else 0):
        LoopCallback(callback).run(Delivery(batch, index))
    return counts


@pytest.mark.parametrize("kind", ["on the I/O thread", "on a loop"])
@pytest.mark.parametrize("reads", [False, True])
def test_flush_raises_the_errors_that_raising_callbacks_have_not_read(kind: str, reads: bool) -> None:
    def faulty(delivery: Delivery) -> None:
        raise KeyError(delivery.error if reads else "it is not read")

    assert fails(kind, faulty).take_report([])[1:] == ((0, None) if reads else (RECORDS, REFUSED))


@pytest.mark.parametrize("kind", ["on the I/O thread", "on a loop"])
def test_an_error_that_the_program_has_stays_so_if_a_callback_raises(kind: str) -> None:
    def faulty(delivery: Delivery) -> None:
        raise KeyError("after the others")

    def handled_first(delivery: Delivery) -> None:
        delivery._batch.failed_reads.read(delivery._index)  # as by an earlier callback of the same record

    counts, batch = DeliveryCounts(), batch_of(None if kind == "on a loop" else handled_first)
    for index in range(RECORDS):
        batch.call_when_complete(index, faulty if kind != "on a loop" else handled_first)
    batch.complete_and_call_back(Failed(error=REFUSED))
    for index in range(RECORDS if kind == "on a loop" else 0):
        LoopCallback(faulty).run(Delivery(batch, index))
    counts.add([batch])

    assert counts.take_report([])[1] == 0


def test_the_last_line_names_the_place_in_the_program() -> None:
    raising = RaisingCallbacks()
    delivery = Delivery(batch_of(None), 0)
    for _ in range(2):
        try:
            delivery.offset  # type: ignore[attr-defined]  # noqa: B018  # of confluent-kafka: its hint raises in our code
        except AttributeError:
            raising.line(failed=False)
    summary = raising.summary()

    assert summary is not None
    assert f"1 at {__file__}:" in summary


def test_a_later_line_counts_the_callbacks_in_between() -> None:
    clock = ManualClock()
    raising = RaisingCallbacks(clock=clock)

    def line() -> str | None:
        try:
            raise ValueError("a fault")
        except ValueError:
            return raising.line(failed=False)

    assert [line() for _ in range(100)] == ["", *[None] * 99]
    clock.advance(SILENCE_SECONDS)
    assert line() == "; 99 more callbacks raised there since the last line"
    clock.advance(SILENCE_SECONDS)
    assert line() == ""


def test_a_summary_counts_what_no_line_has_counted() -> None:
    clock = ManualClock()
    raising = RaisingCallbacks(clock=clock)

    def raises(place: str, times: int) -> None:
        for _ in range(times):
            try:
                exec(compile("1 / 0", place, "exec"))
            except ZeroDivisionError:
                raising.line(failed=False)

    def summary(*, at_exit: bool = False) -> str | None:
        """Without the place in this file, which called it."""
        return re.sub(r"\S+ \((\w+) of (\S+)\)", r"\2 (\1)", raising.summary(at_exit=at_exit) or "") or None

    raises("a.py", 1)
    assert summary() is None
    for place, times in {"d.py": 7, "c.py": 7, "b.py": 9, "a.py": 10, "e.py": 8}.items():
        raises(place, times)
    most = "37 more callbacks: 10 at a.py:1 (ZeroDivisionError), 8 at b.py:1 (ZeroDivisionError), "
    assert summary() == most + "7 at e.py:1 (ZeroDivisionError), 2 other places"
    assert summary(at_exit=True) is None

    for place in ("a.py", "b.py", "c.py"):
        raises(place, 1)
    last = summary(at_exit=True) or ""
    assert (last.count("1 at "), "other place" in last) == (3, False)

    raises("a.py", 1)
    assert summary() is None  # of the next producer, which is closed immediately
    assert summary(at_exit=True) == "1 more callback: 1 at a.py:1 (ZeroDivisionError)"
    raises("a.py", 1)
    clock.advance(SILENCE_SECONDS)
    assert summary() == "1 more callback: 1 at a.py:1 (ZeroDivisionError)"


def test_a_summary_names_the_callback_and_the_place_that_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    raising = RaisingCallbacks()
    code: dict[str, Any] = {}
    exec(compile("def called(): 1 / 0", "library.py", "exec"), code)
    exec(compile("def faulty(delivery): called()", "app.py", "exec"), code)
    monkeypatch.setattr("ottla.accumulator.batch_result.raising_callbacks", raising)
    batch_of(code["faulty"]).complete_and_call_back(Acknowledged(base_offset=0, log_append_time_ms=-1))

    assert raising.summary() == "199 more callbacks: 199 at app.py:1 (ZeroDivisionError of library.py:1)"


def test_a_summary_names_a_callback_without_a_line_by_its_error() -> None:
    raising = RaisingCallbacks()
    for _ in range(2):
        try:
            raise TypeError
        except TypeError as error:
            error.__traceback__ = None  # as that of a function in C, below the producer's own frames
            raising.line(failed=False)

    assert raising.summary() == "1 more callback: 1 at ?:0 (TypeError)"


def test_a_callback_that_raises_during_a_summary_is_in_the_next_one() -> None:
    class Meanwhile(dict[Any, Any]):
        """Faults of which another one is noted each time that they are listed."""

        def items(self) -> Any:
            found = [*super().items()]
            raises()
            return found

    def raises() -> None:
        try:
            exec(compile("1 / 0", "a.py", "exec"))
        except ZeroDivisionError:
            raising.line(failed=False)

    raising = RaisingCallbacks()
    raising._silent = Meanwhile()
    for _ in range(3):
        raises()

    for count in ("2 more callbacks: 2 at", "1 more callback: 1 at"):
        summary = raising.summary(at_exit=True)
        assert summary is not None
        assert summary.startswith(count)


LEFT_OUT = """
import logging
from ottla_testkit.mock_producer import MockProducer

logging.basicConfig()
def faulty(delivery):
    raise KeyError("fault")
def send(producer):
    for _ in range(100):
        producer.send("t", b"v", on_delivery=faulty)
for _ in range(3):
    with MockProducer() as producer:
        send(producer)
    print("closed", flush=True)
"""


def test_the_callbacks_that_are_left_out_are_counted_at_the_end() -> None:
    log = subprocess.run(
        [sys.executable, "-c", LEFT_OUT], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60
    ).stdout

    counts = re.findall(r"^(closed)|ERROR.* that no line has counted yet; (\d+) more callbacks", log, re.MULTILINE)
    assert counts == [("", "99"), ("closed", ""), ("closed", ""), ("closed", ""), ("", "200")], log


def test_each_place_that_raises_has_its_own_line(caplog: pytest.LogCaptureFixture) -> None:
    def faulty(delivery: Delivery) -> None:
        if delivery._index % 2:
            raise KeyError("one fault")
        raise KeyError("another fault")

    batch_of(faulty).complete_and_call_back(Acknowledged(base_offset=0, log_append_time_ms=-1))

    assert len(lines(caplog)) == 2
    assert "one fault" in caplog.text
    assert "another fault" in caplog.text


def test_an_error_that_only_the_log_has_is_never_left_out(caplog: pytest.LogCaptureFixture) -> None:
    batch = batch_of(lambda delivery: delivery.metadata.offset)
    batch.counted = True
    batch.complete_and_call_back(Failed(error=REFUSED))

    assert len(lines(caplog)) == RECORDS
    assert batch.failed_reads.unread == 0  # no later report has them


class Observer(ObservingCallback):
    """A callback of Ottla's own; `retrieves_error` says whether it passes errors on."""

    def __init__(self, *, retrieves_error: bool = False) -> None:
        self._retrieves_error = retrieves_error

    @property
    def retrieves_error(self) -> bool:
        return self._retrieves_error

    def __call__(self, delivery: Delivery) -> None:
        """Do nothing."""


@pytest.mark.parametrize("counted", [False, True])
def test_a_callback_that_passes_no_error_on_reads_none(counted: bool) -> None:
    batch = batch_of(Observer())
    batch.counted = counted
    batch.complete_and_call_back(Failed(error=REFUSED))

    assert batch.failed_reads.unread == RECORDS


@pytest.mark.parametrize("retrieves", [False, True])
def test_only_a_callback_that_passes_errors_on_is_expected_to_read_them(retrieves: bool) -> None:
    batch = batch_of(Observer(retrieves_error=retrieves))
    batch.complete(Failed(error=REFUSED))  # the callbacks run later, on another thread

    expect_callbacks(batch)
    assert batch.failed_reads.unread == (0 if retrieves else RECORDS)
    give_up_callbacks(batch)
    assert batch.failed_reads.unread == RECORDS


def test_a_fault_that_was_forgotten_is_in_a_summary_at_once() -> None:
    raising = RaisingCallbacks(clock=ManualClock())
    for _ in range(2):
        for _ in range(2):
            try:
                raise KeyError("fault")
            except KeyError:
                raising.line(failed=False)

        assert raising.summary() is not None
        raising.forget()


def test_an_error_is_expected_by_the_callback_of_a_loop_that_runs() -> None:
    batch, unread = batch_of(None), list[int]()
    batch.complete_and_call_back(Failed(error=REFUSED))
    LoopCallback(lambda _delivery: unread.append(batch.failed_reads.unread)).run(Delivery(batch, 0))

    assert unread == [RECORDS - 1]  # as a flush on another thread would see it


def test_an_error_that_a_callback_of_a_loop_got_stays_read() -> None:
    batch = batch_of(None)
    batch.complete_and_call_back(Failed(error=REFUSED))
    for index in range(RECORDS):
        LoopCallback(lambda _delivery: None).run(Delivery(batch, index))

    batch.failed_reads.give_up_all()  # as a wait of the same records that is cancelled
    assert batch.failed_reads.unread == 0


def test_faults_of_any_number_of_places_do_not_fill_the_memory() -> None:
    raising = RaisingCallbacks()
    for number in range(3_000):
        try:
            exec(compile("1 / 0", f"made-{number}", "exec"))
        except ZeroDivisionError:
            assert raising.line(failed=False) == ""

    assert len(raising._silent) <= 1_000


def test_callbacks_of_faults_that_are_forgotten_are_counted_at_the_end() -> None:
    raising = RaisingCallbacks()
    for number in range(2_500):
        for _ in range(2):
            try:
                exec(compile("1 / 0", f"made-{number}", "exec"))
            except ZeroDivisionError:
                raising.line(failed=False)

    summary = raising.summary(at_exit=True)
    assert summary is not None
    assert re.match(r"2500 more callbacks: \d+ at places that are forgotten, 1 at", summary)


def test_callbacks_of_tables_that_raise_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    def faulty(delivery: Any) -> None:
        raise KeyError(delivery)

    with MockProducer() as producer:
        for _ in range(RECORDS):
            producer.send_table("t", pa.table({"value": [b"v"]})).add_done_callback(faulty)
        producer.fail_next(ValueError("refused by the test"))
        producer.send_table("t", pa.table({"value": [b"v"]})).add_done_callback(faulty)

        error = "a callback of a table's delivery (topic 't') raised when it got this error"
        assert ["raised an exception (topic 't')" in line for line in lines(caplog)] == [True, False]
        assert error in lines(caplog)[1]
        with pytest.raises(UndeliveredError):
            producer.flush()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_logs_the_fault_that_its_parent_has_logged() -> None:
    program = """
import logging, os
from ottla_testkit.mock_producer import MockProducer

logging.basicConfig()
def faulty(delivery):
    raise KeyError("fault")
def send():
    with MockProducer() as producer:
        producer.send("t", b"v", on_delivery=faulty)
send()
if child := os.fork():
    os.waitpid(child, 0)
else:
    send()
    os._exit(0)
"""
    log = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60).stderr

    assert log.count("a delivery callback for topic 't', partition 0 raised") == 2
