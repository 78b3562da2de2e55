"""One fetch for all callers: what is left when its start is interrupted."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest
from interrupted_anywhere import Interruption

from machine import wait_until
from ottla.concurrency.single_flight import SingleFlight


def raise_ctrl_c(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def fetched(flights: SingleFlight[str]) -> str:
    joined = flights.join(needless=lambda: False)
    assert joined is not None
    flight, _new = joined
    assert flight.wait(20)
    return flight.result()


@pytest.mark.unmeasured
def test_after_an_interrupted_join_the_next_caller_gets_a_result() -> None:
    flights = SingleFlight(lambda: "result", name="fetch", source="the source", limit=60.0)
    for number in range(1_000):
        interruption = Interruption(number, raise_ctrl_c)
        with suppress(KeyboardInterrupt):
            interruption.during(lambda: flights.join(needless=lambda: False))
        assert fetched(flights) == "result", interruption.where
        wait_until(lambda: not flights._running, timeout=20)
        if not interruption.where:
            break
    assert number > 8


@pytest.mark.parametrize("has_started", [False, True])
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_fetch_whose_start_is_interrupted_is_no_callers(
    error: type[BaseException], has_started: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[threading.Thread] = []
    started: list[threading.Thread] = []

    def fetch() -> str:
        calls.append(threading.current_thread())
        return "result"

    flights = SingleFlight(fetch, name="fetch", source="the source", limit=60.0)
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        if has_started:
            start(thread)
            started.append(thread)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(error):
            flights.join(needless=lambda: False)
    for thread in started:
        thread.join(20)
    assert calls == []

    assert fetched(flights) == "result"
    assert len(calls) == 1
    assert not flights._running
