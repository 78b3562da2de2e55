"""Signals that end a command: which raise, and which are the same request as the one before."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from command_runner import CliRunner
from ottla.cli import results
from ottla.cli.commands import ottla
from ottla.cli.interruption import StoppedError, stopping_as_ctrl_c
from ottla.cli.send import command, run
from ottla.cli.send.counts import Counts
from ottla.cli.send.plain import Ending

if os.name == "nt":
    pytest.skip("these are the signals of POSIX", allow_module_level=True)

SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]


@pytest.fixture(autouse=True)
def usual_handlers() -> Iterator[None]:
    """The handlers of a program that was started in a terminal: `nohup` ignores SIGHUP, and `&` SIGINT."""
    usual: dict[signal.Signals, Any] = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
        signal.SIGHUP: signal.SIG_DFL,
    }
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(("number", "exit_code"), SIGNALS)
def test_signals_that_come_together_raise_once(
    number: signal.Signals, exit_code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`timeout` of GNU sends two: a second exception would break the end that the first one has begun."""
    now = 1_000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    before = signal.getsignal(number)
    with stopping_as_ctrl_c() as stopped:
        with pytest.raises(StoppedError):
            signal.raise_signal(number)
        signal.raise_signal(number)
        now += 0.2
        signal.raise_signal(number)
        now += 0.2
        with pytest.raises(StoppedError):
            signal.raise_signal(number)

    assert stopped.exit_code == exit_code
    assert signal.getsignal(number) is before


@pytest.mark.parametrize(("number", "_exit_code"), SIGNALS)
def test_a_signal_that_is_ignored_stays_so(number: signal.Signals, _exit_code: int) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with stopping_as_ctrl_c():
            signal.raise_signal(number)
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize(("number", "exit_code"), SIGNALS)
def test_the_counts_are_printed_when_two_signals_come_together(
    number: signal.Signals, exit_code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send(*_arguments: Any) -> tuple[Counts, Ending]:
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            signal.raise_signal(number)
        return Counts(), Ending(interrupted=True, error="interrupted")

    def print_result(text: str) -> None:
        signal.raise_signal(number)
        results.print_result(text)

    monkeypatch.setattr(run.Job, "send", send)
    monkeypatch.setattr(command, "print_result", print_result)
    ended = CliRunner().invoke(ottla, ["send", "orders", "--bootstrap-servers", "localhost:9"], input=b"")

    assert ended.exit_code == exit_code
    assert ended.output.startswith("records acknowledged: 0, failed: 0; ")


@pytest.mark.parametrize("option", ["--flush-timeout", "--progress"])
def test_a_time_that_is_not_a_number_is_wrong_usage(option: str) -> None:
    ended = CliRunner().invoke(
        ottla, ["send", "orders", "--bootstrap-servers", "localhost:9", option, "nan"], input=b""
    )

    assert ended.exit_code == 2
    assert "'nan' is not a number" in ended.output
