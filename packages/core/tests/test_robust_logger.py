"""Loggers of ours: what handlers and filters of a program raise does not reach the producer."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import pytest
from another_thread import Meanwhile

from ottla import Producer
from ottla.errors import busy_handlers
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


CONFIGURED_LATE = """
import logging.config

import ottla.errors
from ottla.errors.robust_logger import robust_logger

logger = robust_logger("ottla.of.a.test")
handlers = {"all": {"class": "logging.StreamHandler", "stream": "ext://sys.stdout"}}
logging.config.dictConfig({"version": 1, "handlers": handlers, "root": {"handlers": ["all"], "level": "DEBUG"}})
logger.warning("a broker went away")
logger.error("records were lost")
logger.addFilter(lambda record: "secret" not in record.getMessage())
logger.error("a secret that a filter leaves out")
logging.getLogger("ottla").setLevel(logging.CRITICAL)
logger.error("below the level")
logging.getLogger("ottla").setLevel(logging.NOTSET)
logging.disable(logging.ERROR)
logger.error("below the level of all loggers")
"""


def test_errors_are_logged_although_dict_config_has_disabled_the_loggers() -> None:
    run = subprocess.run(
        [sys.executable, "-c", CONFIGURED_LATE], capture_output=True, text=True, check=True, timeout=WITHIN
    )

    assert run.stdout.splitlines() == ["records were lost"]


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


class Lines(logging.Handler):
    """Keeps the lines, with the names of the threads that passed them."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.raises: list[BaseException] = []
        self.before: Callable[[], object] = lambda: None
        self.written = threading.Semaphore(0)

    def emit(self, record: logging.LogRecord) -> None:
        self.before()
        if self.raises:
            raise self.raises.pop()
        self.lines.append(record.getMessage())
        self.written.release()


@contextmanager
def handled_by(handler: Any, name: str = "ottla.test") -> Iterator[logging.Logger]:
    """Our logger of this name, with the handler in the block."""
    logger = robust_logger(name)
    logger.addHandler(handler)
    try:
        yield logger
    finally:
        logger.removeHandler(handler)


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler = Lines()
    with handled_by(handler):
        yield handler


def await_end_of_log_threads() -> None:
    for thread in threading.enumerate():
        if thread.name == "ottla-log":
            thread.join(WITHIN)
            assert not thread.is_alive()


def on_another_thread(run: Callable[[], object]) -> None:
    thread = threading.Thread(target=run)
    thread.start()
    thread.join(WITHIN)
    assert not thread.is_alive()


def test_lines_for_a_busy_handler_are_written_later_in_their_order(lines: Lines) -> None:
    logger = robust_logger("ottla.test")
    changing = [1]

    def log() -> None:
        logger.warning("first: %s", changing)
        changing.append(2)
        for number in range(3):
            logger.warning("line %d", number)

    with lines.lock:  # type: ignore[union-attr]
        on_another_thread(log)
        assert lines.lines == []
    for _ in range(4):
        assert lines.written.acquire(timeout=WITHIN)

    assert lines.lines == ["first: [1]", "line 0", "line 1", "line 2"]


def test_a_thread_writes_its_lines_itself_if_the_handler_has_time(lines: Lines) -> None:
    on_another_thread(lambda: robust_logger("ottla.test").warning("a line"))

    assert lines.lines == ["a line"]


def test_lines_that_are_too_many_are_counted(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.errors.busy_handlers.MAX_LINES", 2)

    def log() -> None:
        for number in range(9):
            robust_logger("ottla.test").warning("line %d", number)

    with lines.lock:  # type: ignore[union-attr]
        on_another_thread(log)
    await_end_of_log_threads()

    *kept, last = lines.lines
    assert len(kept) in (2, 3)  # the thread has taken one line from the queue, before any of the others, or none
    assert kept == sorted(kept)
    assert kept[:2] == ["line 0", "line 1"]
    assert last == f"{9 - len(kept)} lines of the log were dropped, because a logging handler was busy for too long"


@pytest.mark.parametrize("raised", [SystemExit(), RecursionError(), GeneratorExit(), ValueError("no room")])
def test_a_handler_that_raises_later_gets_the_lines_after_it(
    lines: Lines, raised: BaseException, capfd: pytest.CaptureFixture[str]
) -> None:
    lines.raises = [raised]

    def log() -> None:
        for number in range(3):
            robust_logger("ottla.test").warning("line %d", number)

    with lines.lock:  # type: ignore[union-attr]
        on_another_thread(log)
    await_end_of_log_threads()
    on_another_thread(log)

    assert lines.lines == ["line 1", "line 2", "line 0", "line 1", "line 2"]
    assert f"{type(raised).__name__}" in capfd.readouterr().err


def test_a_handler_may_wait_for_a_thread_that_logs_to_another_one(lines: Lines) -> None:
    """As one that sends its lines by a library with threads and a log of its own."""
    other, outer = Lines(), logging.getLogger("ottla.test")
    other.before = lambda: on_another_thread(lambda: outer.warning("of the library"))
    with handled_by(other, "ottla.test.below") as logger:
        on_another_thread(lambda: logger.warning("a line"))

    assert other.lines == ["a line"]
    assert lines.lines == ["of the library", "a line"]


def test_lines_for_one_busy_handler_reach_the_others_at_once(lines: Lines) -> None:
    other = Lines()
    with handled_by(other, "ottla.test.below") as logger, lines.lock:  # type: ignore[union-attr]
        on_another_thread(lambda: logger.warning("a line"))
        assert other.lines == ["a line"]
    assert lines.written.acquire(timeout=WITHIN)


class WithoutBase:
    """All that `logging` uses of a handler."""

    level = logging.INFO

    def __init__(self) -> None:
        self.lines: list[str] = []

    def handle(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def test_a_handler_of_another_class_gets_its_lines() -> None:
    handler = WithoutBase()
    with handled_by(handler) as logger:
        on_another_thread(lambda: logger.warning("a line"))

    assert handler.lines == ["a line"]


def test_a_line_without_text_for_a_busy_handler_is_printed(lines: Lines, capfd: pytest.CaptureFixture[str]) -> None:
    with lines.lock:  # type: ignore[union-attr]
        on_another_thread(lambda: robust_logger("ottla.test").warning("%d", "no number"))

    assert "--- Logging error in a line of ottla.test ---" in capfd.readouterr().err
    assert lines.lines == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_process_does_not_wait_for_lines_of_its_parent(lines: Lines) -> None:
    with lines.lock:  # type: ignore[union-attr]
        on_another_thread(lambda: robust_logger("ottla.test").warning("of the parent"))
        assert busy_handlers._state.busy
        child = os.fork()
        if not child:
            os._exit(len(busy_handlers._state.busy))
        _pid, status = os.waitpid(child, 0)
    assert lines.written.acquire(timeout=WITHIN)

    assert os.waitstatus_to_exitcode(status) == 0


AT_EXIT = """
import logging, threading, time
from ottla.errors.robust_logger import robust_logger

class Slow(logging.Handler):
    def emit(self, record):
        print(record.getMessage(), flush=True)
        if HANGS and record.getMessage() == "first":
            time.sleep(4)
        time.sleep(0.3)

logger = robust_logger("ottla.test")
logger.addHandler(Slow())
threading.Thread(target=lambda: logger.warning("first"), daemon=True).start()
while not logger.handlers[0].lock._is_owned() and logger.handlers[0].lock.acquire(blocking=False):
    logger.handlers[0].lock.release()
second = threading.Thread(target=lambda: [logger.warning("%d", number) for number in range(3)])
second.start()
second.join()
"""


@pytest.mark.parametrize(
    ("hangs", "lines", "said"),
    [(False, 4, ""), (True, 1, "3 lines of the log are lost: their logging handler is busy")],
)
def test_the_end_of_a_program_waits_for_the_lines_but_not_for_ever(hangs: bool, lines: int, said: str) -> None:
    program = AT_EXIT.replace("HANGS", str(hangs))
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=WITHIN, check=True)

    assert ended.stdout.split()[:lines] == ["first", "0", "1", "2"][:lines]
    assert said in ended.stderr


@pytest.mark.parametrize("make", [threading.Lock, threading.Semaphore, lambda: None], ids=["Lock", "Semaphore", "none"])
def test_a_handler_may_have_a_lock_of_another_kind(make: Callable[[], Any]) -> None:
    if make() is None and not BY_ACQUIRE:
        pytest.skip("this Python's logging fails for a handler without a lock")

    class WithOwnLock(Lines):
        def createLock(self) -> None:
            self.lock = make()

    handler = WithOwnLock()
    with handled_by(handler) as logger:
        on_another_thread(lambda: logger.warning("a line"))

    assert handler.lines == ["a line"]


def test_a_filter_has_masked_a_line_that_is_written_later(lines: Lines) -> None:
    def mask(record: logging.LogRecord) -> bool:
        record.args = ("***",)
        return True

    lines.addFilter(mask)
    with lines.lock:  # type: ignore[union-attr]
        on_another_thread(lambda: robust_logger("ottla.test").warning("password %s", "hunter2"))
    await_end_of_log_threads()

    assert lines.lines == ["password ***"]


BY_ACQUIRE: Final = "acquire" in logging.Handler.handle.__code__.co_names
"""Whether `logging` calls a handler's `acquire`. Python 3.13.0 does not: it enters the handler's lock itself."""


@pytest.mark.skipif(not BY_ACQUIRE, reason="this Python's logging does not call a handler's acquire")
def test_a_handler_with_its_own_acquire_is_asked_for_each_line() -> None:
    """As those that lock a file, which several processes write to."""

    class LocksFile(Lines):
        locked = 0

        def acquire(self) -> None:
            super().acquire()
            self.locked += 1

    handler = LocksFile()
    with handled_by(handler) as logger:
        on_another_thread(lambda: logger.warning("a line"))

    assert (handler.lines, handler.locked) == (["a line"], 1)


def test_a_handler_that_logs_in_its_emit_can_guard_itself_after_a_wait(lines: Lines) -> None:
    inside = threading.local()
    logger = robust_logger("ottla.test")

    def log_again() -> None:
        if not getattr(inside, "flag", False):
            inside.flag = True
            logger.warning("of the handler")
            inside.flag = False

    lines.before = log_again
    with lines.lock:  # type: ignore[union-attr]
        on_another_thread(lambda: logger.warning("a line"))
    await_end_of_log_threads()

    assert lines.lines == ["of the handler", "a line"]


def test_a_library_that_replaces_call_handlers_gets_all_lines(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Sentry and New Relic do."""
    seen: list[str] = []
    original = logging.Logger.callHandlers

    def collect(self: logging.Logger, record: logging.LogRecord) -> None:
        seen.append(record.getMessage())
        original(self, record)

    monkeypatch.setattr(logging.Logger, "callHandlers", collect)
    on_another_thread(lambda: robust_logger("ottla.test").warning("a line"))

    assert (seen, lines.lines) == (["a line"], ["a line"])


def test_without_a_thread_for_a_busy_handler_the_line_waits(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def log() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            robust_logger("ottla.test").warning("a line")

    thread = threading.Thread(target=log)
    with lines.lock:  # type: ignore[union-attr]
        thread.start()
        thread.join(0.5)
        assert lines.lines == []
    thread.join(WITHIN)

    assert lines.lines == ["a line"]
    assert not busy_handlers._state.busy


@pytest.mark.unmeasured
@pytest.mark.parametrize("function", [busy_handlers._write_later, busy_handlers._BusyHandler.begin])
def test_a_finalizer_may_log_while_a_line_is_left_to_a_thread(
    function: Callable[..., object], lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The garbage collector may run it at any point, also while the thread that logs holds the lock."""
    monkeypatch.setattr(busy_handlers, "WAIT", 0.001)
    logger = robust_logger("ottla.test")
    for step in range(1, 1_000):
        lines.lines.clear()
        finalizer = Meanwhile(function, step, lambda: logger.warning("of a finalizer"))

        def log(finalizer: Meanwhile = finalizer) -> None:
            with finalizer.during():
                logger.warning("a line")

        with lines.lock:  # type: ignore[union-attr]
            on_another_thread(log)
        await_end_of_log_threads()
        if not finalizer.came:
            break
        assert sorted(lines.lines) == ["a line", "of a finalizer"], step
    assert step > 15


@pytest.mark.unmeasured
def test_a_finalizer_may_log_while_a_thread_takes_the_next_line(lines: Lines) -> None:
    logger = robust_logger("ottla.test")
    for step in range(1, 1_000):
        lines.lines.clear()
        busy = busy_handlers._BusyHandler(lines, lambda _name: None)
        busy._to_start.clear()  # this thread is the one that writes
        busy_handlers._state.busy[id(lines)] = busy
        logger.warning("a line")
        finalizer = Meanwhile(busy_handlers._BusyHandler._next, step, lambda: logger.warning("of a finalizer"))
        with finalizer.during():
            busy.run()
        await_end_of_log_threads()
        if not finalizer.came:
            break
        assert sorted(lines.lines) == ["a line", "of a finalizer"], step
        assert not busy_handlers._state.busy
    assert step > 30


@pytest.mark.unmeasured
@pytest.mark.parametrize("started", [False, True])
def test_ctrl_c_while_a_line_is_left_to_a_thread_stops_no_later_line(
    started: bool, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        if started:
            start(thread)
        raise KeyboardInterrupt

    def log() -> None:
        monkeypatch.setattr(threading.Thread, "start", interrupted)
        with suppress(KeyboardInterrupt):
            robust_logger("ottla.test").warning("interrupted")
        monkeypatch.setattr(threading.Thread, "start", start)
        robust_logger("ottla.test").warning("a line")

    thread = threading.Thread(target=log)
    with lines.lock:  # type: ignore[union-attr]
        thread.start()
        thread.join(WITHIN)
    await_end_of_log_threads()

    assert lines.lines[-1:] == ["a line"]
    assert not busy_handlers._state.busy
