"""Signals and locks: a wakeup is never half done, handlers are put off and put back, no line is logged under a lock."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import importlib
import itertools
import logging
import os
import random
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from interrupted_anywhere import Interruption, free
from long_forms import LONG, share
from test_signals_anywhere import WAIT, broker_and_producers, is_whole, locks

from ottla import AbortableTransactionError, OttlaError, Producer, ProducerClosedError
from ottla.concurrency import signals
from ottla.concurrency.locks import FunctionGate, Latch, LoggingLock, SignalSafeLock
from ottla.errors import IllegalStateError
from real_selector import make_selector
from simulated_producer import simulated

pytestmark = pytest.mark.unmeasured  # a handler that runs inside coverage's own lock would wait for ever

MOMENTS = 2_000 if LONG else 30

IN_FINALIZER = "ignore:Exception ignored in. <function DropNotice:pytest.PytestUnraisableExceptionWarning"
"""Python only prints a Ctrl-C that comes in a finalizer."""


@pytest.fixture(autouse=True)
def usual_handlers() -> Iterator[None]:
    """Whatever the tests were started from, and whatever they leave."""
    gc.collect()  # a Ctrl-C would be lost in functions that the collector calls for threads of earlier tests
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def raise_ctrl_c(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.rule("producer.signals.raise")
def test_an_interrupted_wakeup_delays_no_later_one() -> None:
    selector = make_selector()
    number, reached = 0, True
    while reached:
        interruption = Interruption(number, raise_ctrl_c)
        with contextlib.suppress(KeyboardInterrupt):
            interruption.during(selector.wakeup)
        selector.wakeup()
        selector.poll(WAIT)  # ends at once, or this test takes that long for each step
        assert not selector._wakeup_pending
        reached = bool(interruption.where)
        number += 1
    selector.shutdown()


@pytest.mark.rule("producer.signals.call")
def test_a_handler_in_a_deferred_block_runs_at_its_end() -> None:
    ran: list[str] = []
    signal.signal(signal.SIGTERM, lambda *_: ran.append("handler"))

    with signals.Deferred(), signals.Deferred():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        ran.append("block")

    assert ran == ["block", "handler"]


def restarts(number: int) -> bool:
    """Whether system calls that this signal interrupts are continued, as the C library of Linux has it."""
    action = ctypes.create_string_buffer(152)
    assert ctypes.CDLL(None).sigaction(number, None, action) == 0
    return bool(int.from_bytes(action.raw[136:140], sys.byteorder) & 0x10000000)  # SA_RESTART


@pytest.mark.skipif(sys.platform != "linux", reason="reads the C library's own structure")
def test_a_block_leaves_the_signal_handlers_of_an_event_loop() -> None:
    ran: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGUSR1, signal.SIGTERM):
            loop.add_signal_handler(number, ran.append, str(number))
        with signals.Deferred():
            signal.raise_signal(signal.SIGUSR1)
        assert restarts(signal.SIGUSR1)
        assert restarts(signal.SIGTERM)
        while not ran:
            await asyncio.sleep(0.001)
        loop.remove_signal_handler(signal.SIGTERM)
        signal.signal(signal.SIGTERM, lambda *_: ran.append("handler"))
        with signals.Deferred():
            signal.raise_signal(signal.SIGTERM)
            ran.append("block")

    asyncio.run(main())

    assert ran == [str(signal.SIGUSR1), "block", "handler"]


@pytest.mark.rule("producer.signals.raise")
def test_two_handlers_that_raise_after_a_block_both_run() -> None:
    ran: list[int] = []

    def handle(number: int, _frame: object) -> None:
        ran.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)

    def interrupted() -> None:
        with signals.Deferred():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    assert sorted(ran) == [signal.SIGINT, signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) is signal.getsignal(signal.SIGINT) is handle


@pytest.mark.rule("producer.signals.call")
@pytest.mark.parametrize("replaced", [1, 2])
def test_a_block_inside_the_start_of_another_leaves_it_deferred(monkeypatch: pytest.MonkeyPatch, replaced: int) -> None:
    """Of a handler that is not deferred yet, or of a finalizer: while the first block replaces the handlers."""
    ran: list[str] = []
    signal.signal(signal.SIGTERM, lambda *_: ran.append("handler"))
    replace, calls = signals._handle_by, 0

    def handle_by(number: int, handler: Any) -> None:
        nonlocal calls
        replace(number, handler)
        calls += 1
        if calls == replaced:
            with signals.Deferred():
                ran.append("inner block")

    monkeypatch.setattr(signals, "_handle_by", handle_by)
    with signals.Deferred():
        signal.raise_signal(signal.SIGTERM)
        ran.append("block")

    assert ran == ["inner block", "block", "handler"]
    assert signals._depth == 0


def test_a_handler_installed_by_a_block_remains() -> None:
    def mine(_number: int, _frame: object) -> None:
        """Nothing."""

    with signals.Deferred():
        signal.signal(signal.SIGTERM, mine)

    assert signal.getsignal(signal.SIGTERM) is mine


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")  # since Python 3.12
def test_a_child_forked_in_a_block_has_the_handlers_of_the_program() -> None:
    with signals.Deferred():
        child = os.fork()
        if not child:
            usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
            os._exit(0 if usual else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.rule("producer.signals.call")
def test_a_lock_held_by_this_thread_is_refused_instead_of_waited_for() -> None:
    lock = SignalSafeLock()

    with lock, pytest.raises(OttlaError, match="in the middle of another call on the same thread"), lock:
        raise AssertionError("it was taken twice")

    with lock:
        pass


def test_a_latch_wakes_all_present_and_future_waiters() -> None:
    latch, woken = Latch(), []
    threads = [threading.Thread(target=lambda: woken.append(latch.wait(WAIT))) for _ in range(5)]
    for thread in threads:
        thread.start()

    latch.set()
    for thread in threads:
        thread.join(WAIT)

    assert woken == [True] * 5
    assert latch.wait(0)
    assert not Latch().wait(0)


def test_a_gate_that_is_added_while_a_latch_is_set_is_released() -> None:
    class SetAtTheLastMoment(list[Any]):
        def append(self, gate: Any) -> None:
            latch.set()  # on another thread, which finds no gate yet
            super().append(gate)

    latch, released = Latch(), list[str]()
    latch._gates = SetAtTheLastMoment()
    latch.add_gate(FunctionGate(lambda: released.append("released")))

    assert released == ["released"]


# Log lines


class Taking(logging.Handler):
    """Has another thread take every lock of a producer for each line; `held` are those lines for which it cannot."""

    def __init__(self, found: Callable[[], list[Any]]) -> None:
        super().__init__(logging.DEBUG)
        self._locks = found
        self.lines: list[str] = []
        self.held: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        taken: list[bool] = []

        def take() -> None:
            for lock in self._locks():
                taken.append(lock.acquire(blocking=False))
                if taken[-1]:
                    lock.release()

        other = threading.Thread(target=take)
        other.start()
        other.join()
        if not all(taken):
            self.held.append(record.getMessage())


@pytest.fixture
def taking() -> Iterator[Callable[[Producer], Taking]]:
    """Makes such a handler for a producer; in the end no line may have met a lock."""
    logger, made = logging.getLogger("ottla"), []
    level = logger.level

    def make(producer: Producer) -> Taking:
        logger.setLevel(logging.DEBUG)
        made.append(Taking(lambda: locks(producer)))
        logger.addHandler(made[-1])
        return made[-1]

    yield make
    logger.setLevel(level)
    for handler in made:
        logger.removeHandler(handler)
        assert handler.held == []


@pytest.mark.rule("producer.log.no-lock")
def test_no_line_is_logged_under_a_lock_in_transactions(taking: Callable[[Producer], Taking]) -> None:
    with simulated(1, transactional_id="x", linger_ms=0) as simulation:
        handler = taking(simulation.producer)
        simulation.producer.init_transactions()
        simulation.producer.begin_transaction()
        simulation.producer.send("t", b"v")
        simulation.clock.advance(3_600)  # the record expires, and with it the transaction
        with pytest.raises(AbortableTransactionError):
            simulation.producer.commit_transaction()
        simulation.producer.abort_transaction()
        simulation.producer.begin_transaction()

    assert any("cannot be committed" in line for line in handler.lines)


def run_without_memory(testcapi: Any, block: Any, first: int, end: int) -> None:
    """Run a block in which the allocations from *first* on fail, until the one with the number *end*."""
    testcapi.set_nomemory(first, end)
    try:
        with block:
            object()
    except MemoryError:
        pass
    finally:
        testcapi.remove_mem_hooks()


@pytest.mark.parametrize("times", [1, 4])
@pytest.mark.parametrize("block", [signals.Deferred, SignalSafeLock, LoggingLock])
def test_a_block_on_the_main_thread_ends_without_memory(block: Callable[[], Any], times: int) -> None:
    """Wherever memory ends: after a block that does not end, no signal would be deferred any more."""
    testcapi = pytest.importorskip("_testcapi")
    signal.signal(signal.SIGTERM, lambda *_: None)
    with block():
        pass  # the handlers are read: later blocks need memory in their ends, too, before it has failed everywhere
    for fails in range(60):
        made = block()
        run_without_memory(testcapi, made, fails, fails + times)
        depth, signals._depth = signals._depth, 0

        assert depth == 0, fails
        if times > 1:  # the handlers may not have been restored; they run, and the next block restores them
            with block():
                pass
        assert signal.getsignal(signal.SIGTERM) is not signals._note


def test_a_block_that_began_without_memory_ends_waits() -> None:
    testcapi = pytest.importorskip("_testcapi")
    signal.signal(signal.SIGTERM, lambda *_: None)
    begun = 0
    for fails in range(60):
        called: list[bool] = []
        made = signals.Deferred(lambda called=called: called.append(True))  # type: ignore[misc]  # of this turn
        testcapi.set_nomemory(fails, fails + 1)
        try:
            made.__enter__()
        except MemoryError:
            testcapi.remove_mem_hooks()
            continue
        testcapi.remove_mem_hooks()
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            made.__exit__(None, None, None)
        begun += 1

        assert called == [True], fails
    assert begun


def test_a_block_on_another_thread_without_memory_ends_no_other() -> None:
    """Wherever memory ends there, signals of the main thread stay deferred until its own block ends."""
    testcapi = pytest.importorskip("_testcapi")
    depths: list[int] = []

    def use_without_memory() -> None:
        for fails in range(30):
            made = signals.Deferred()
            run_without_memory(testcapi, made, fails, fails + 1)
            depths.append(signals._depth)

    with signals.Deferred():
        thread = threading.Thread(target=use_without_memory)
        thread.start()
        thread.join(WAIT)
        assert depths == [1] * 30


@pytest.mark.rule("producer.signals.call")
def test_a_wait_in_a_block_is_ended_by_signals_of_the_main_thread() -> None:
    """The wait of the innermost block, and no other one; blocks of other threads change nothing."""
    signal.signal(signal.SIGTERM, lambda *_: None)
    called: list[str] = []

    def block_of_another_thread() -> None:
        with signals.Deferred(lambda: called.append("another thread")):
            pass

    def raised() -> list[str]:
        called.clear()
        signal.raise_signal(signal.SIGTERM)
        return [*called]

    with signals.Deferred(lambda: called.append("outer")):
        assert raised() == ["outer"]
        with signals.Deferred(lambda: called.append("inner")):
            assert raised() == ["inner"]
        thread = threading.Thread(target=block_of_another_thread)
        thread.start()
        thread.join(WAIT)
        assert raised() == ["outer"]


@pytest.mark.parametrize("kind", [SignalSafeLock, LoggingLock])
def test_a_lock_is_given_back_without_memory(kind: type[SignalSafeLock]) -> None:
    """Wherever memory ends in the block of the I/O thread; other threads would wait for ever."""
    testcapi = pytest.importorskip("_testcapi")
    left: list[int] = []

    def use_without_memory() -> None:
        for fails in range(30):
            lock = kind()
            testcapi.set_nomemory(fails, fails + 1)
            try:
                with lock:
                    object()
            except MemoryError:
                pass
            finally:
                testcapi.remove_mem_hooks()
            if lock.raw._is_owned():
                left.append(fails)

    thread = threading.Thread(target=use_without_memory)
    thread.start()
    thread.join(WAIT)

    assert not thread.is_alive()
    assert left == []


@pytest.mark.rule("producer.log.no-lock")
def test_a_logging_handler_may_send(taking: Callable[[Producer], Taking]) -> None:
    """As one does that writes log lines to Kafka."""
    lock, written = LoggingLock(), []
    logger = logging.getLogger("ottla.test")

    class Sending(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            with lock:
                written.append(record.getMessage())

    sending = Sending()
    logger.addHandler(sending)
    try:
        with lock:
            lock.log(logger, logging.WARNING, "one %s", "line")
            assert not written
    finally:
        logger.removeHandler(sending)

    assert written == ["one line"]


# Random moments


def fifty_rows() -> Any:
    """A table, made before the moments: numpy and pyarrow warn when they are imported again after an interruption."""
    pyarrow = pytest.importorskip("pyarrow")
    importlib.import_module("ottla.producer.tables")
    return pyarrow.table({"value": [b"v"] * 50})


def work(producer: Producer, chance: random.Random, table: Any) -> None:
    for _ in range(chance.randrange(1, 200)):
        producer.send("t", b"v", b"k%d" % chance.randrange(9))
    match chance.randrange(4):
        case 0:
            producer.flush(WAIT)
        case 1:
            producer.send("t", b"v").result(WAIT)
        case 2:
            producer.send_table("t", table)
        case _:
            producer._engine.queueing.routes.forget()
            producer.partitions_for("u")


def interrupt_by_alarm() -> list[int]:
    """Let SIGALRM raise KeyboardInterrupt. Each is also in the list: Python ignores those in callbacks of weakrefs."""
    came: list[int] = []

    def handle(number: int, _frame: object) -> None:
        came.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, handle)
    return came


def counted_until(came: list[int]) -> Iterator[int]:
    """The numbers from 1 until a signal has come.

    For `for`: CPython 3.12 and 3.13 leave the jump back of a `while` out of the `with` block around it, so what a
    handler raises there is not suppressed.
    """
    return itertools.takewhile(lambda _: not came, itertools.count(1))


@pytest.mark.rule("producer.signals.raise")
@pytest.mark.parametrize(
    "encoder", share(["python", "native"], gate=1, why="the gate has each encoder with half of these tests")
)
@pytest.mark.filterwarnings(IN_FINALIZER)
def test_ctrl_c_at_any_moment_leaves_a_working_producer(encoder: str) -> None:
    chance, table = random.Random(24), fifty_rows()
    came = interrupt_by_alarm()
    with broker_and_producers(encoder) as made, made.producer(linger_ms=1) as producer:
        for _ in range(MOMENTS):
            with contextlib.suppress(KeyboardInterrupt):
                came.clear()
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.000_1, 0.005))
                for _ in counted_until(came):
                    work(producer, chance, table)
            assert signal.setitimer(signal.ITIMER_REAL, 0) == (0.0, 0.0)
            is_whole(producer)
            made.forget()


def end_open(producer: Producer) -> None:
    """As a program does that was interrupted: abort, or where a commit had begun, end that."""
    for end in (producer.abort_transaction, producer.commit_transaction):
        with contextlib.suppress(IllegalStateError):  # for the other one, or for none: there is none open
            end(WAIT)


@pytest.mark.rule("producer.signals.raise")
@pytest.mark.parametrize(
    "encoder", share(["native", "python"], gate=1, why="the gate has each encoder with half of these tests")
)
@pytest.mark.filterwarnings(IN_FINALIZER)
def test_ctrl_c_at_any_moment_leaves_whole_transactions_or_none(encoder: str) -> None:
    chance = random.Random(24)
    came = interrupt_by_alarm()
    with broker_and_producers(encoder) as made, made.producer(transactional_id="x", linger_ms=1) as producer:
        producer.init_transactions(WAIT)
        for moment in range(MOMENTS):
            number, ended = 0, []
            with contextlib.suppress(KeyboardInterrupt):
                came.clear()
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.000_1, 0.02))
                for number in counted_until(came):
                    with producer.transaction():
                        for _ in range(10):
                            producer.send("t", b"%d" % number)
                            producer.send("u", b"%d" % number)
                    ended.append(number)
            assert signal.setitimer(signal.ITIMER_REAL, 0) == (0.0, 0.0)
            end_open(producer)
            with producer.transaction():
                producer.send("t", b"after")
            assert all(map(free, locks(producer))), moment
            counts = Counter(made.committed())
            assert counts.pop(b"after") == 1, moment
            assert set(counts.values()) <= {20}, moment
            assert {b"%d" % each for each in ended} <= counts.keys() <= {b"%d" % (each + 1) for each in range(number)}
            made.forget()


@pytest.mark.rule("producer.signals.raise")
@pytest.mark.parametrize(
    "encoder", share(["python", "native"], gate=1, why="the gate has each encoder with half of these tests")
)
def test_ctrl_c_during_close_leaves_a_producer_that_can_be_closed(encoder: str) -> None:
    chance = random.Random(24)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    with broker_and_producers(encoder) as made:
        for moment in range(MOMENTS):
            producer = made.producer(linger_ms=chance.choice([0, 5_000]))
            deliveries = [producer.send("t", b"v", b"k%d" % (number % 9)) for number in range(100)]
            with contextlib.suppress(KeyboardInterrupt):  # also of a Ctrl-C between the end of close and of the timer
                with contextlib.suppress(KeyboardInterrupt):
                    signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.000_05, 0.004))
                    producer.close(WAIT)
                signal.setitimer(signal.ITIMER_REAL, 0)
            producer.close(WAIT)
            assert [delivery.exception(0) for delivery in deliveries] == [None] * 100, moment
            assert all(map(free, locks(producer))), moment
            made.forget()


@pytest.mark.rule("producer.signals.call")
@pytest.mark.parametrize(
    "encoder", share(["native", "python"], gate=1, why="the gate has each encoder with half of these tests")
)
def test_a_handler_that_closes_during_a_loop_completes_every_record(encoder: str) -> None:
    chance = random.Random(24)
    with broker_and_producers(encoder) as made:
        for _ in range(MOMENTS // 10):
            producer = made.producer()
            reports = []
            signal.signal(signal.SIGALRM, lambda *_: reports.append(producer.close(WAIT)))  # noqa: B023
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.001, 0.05))
            sent = 0
            with contextlib.suppress(ProducerClosedError):
                while True:
                    producer.send("t", b"v", b"k%d" % (sent % 9))
                    sent += 1

            [report] = reports
            assert report.failed == report.pending == 0
            assert report.acknowledged == sent
            made.forget()
