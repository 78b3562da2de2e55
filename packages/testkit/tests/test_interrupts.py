import signal
import threading
from collections.abc import Iterator

import pytest

from ottla_testkit.processes.interrupts import interrupts_deferred


@pytest.fixture(autouse=True)
def usual_handler() -> Iterator[None]:
    """Whatever started the tests: a shell starts what it puts in the background with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_waits_for_the_end_of_the_block() -> None:
    steps = []

    def block() -> None:
        with interrupts_deferred():
            signal.raise_signal(signal.SIGINT)
            steps.append("after the interrupt")

    with pytest.raises(KeyboardInterrupt):
        block()

    assert steps == ["after the interrupt"]


def test_without_an_interrupt_the_previous_handler_is_restored() -> None:
    usual = signal.getsignal(signal.SIGINT)

    with interrupts_deferred():
        assert signal.getsignal(signal.SIGINT) is not usual

    assert signal.getsignal(signal.SIGINT) is usual


def test_another_thread_may_start_processes_too() -> None:
    entered = []

    def block() -> None:
        with interrupts_deferred():
            entered.append(True)

    thread = threading.Thread(target=block)
    thread.start()
    thread.join(10)

    assert entered == [True]
