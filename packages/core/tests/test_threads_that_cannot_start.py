"""Parts that start threads, while the system has none left: no call is lost, and a later one starts a thread."""

from __future__ import annotations

import contextlib
import re
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import attrs
import pytest

from documents import ROOT
from ottla.concurrency.calls_apart import CallsApart
from ottla.concurrency.environment import Environment

TESTED: Final = {
    "core/src/ottla/accumulator/batch_completion.py": "core/tests/test_batch_completion.py",
    "core/src/ottla/aio/calls.py": "core/tests/test_async_flushes.py",
    "core/src/ottla/concurrency/calls_apart.py": "core/tests/test_threads_that_cannot_start.py",
    "core/src/ottla/errors/busy_handlers.py": "core/tests/test_robust_logger.py",
    "core/src/ottla/network/authentication/worker.py": "core/tests/test_authentication_worker.py",
    "core/src/ottla/network/selector/resolver.py": "core/tests/test_resolver.py",
    "core/src/ottla/plugins/calls.py": "core/tests/test_plugin_calls.py",
    "core/src/ottla/plugins/registry/slow_calls.py": "core/tests/test_broken_installations.py",
    "core/src/ottla/sender/io_thread.py": "core/tests/test_lifecycle.py",
    "core/src/ottla/sender/telemetry/payload.py": "core/tests/test_telemetry.py",
    "core/src/ottla/tables/compression_pool.py": "core/tests/test_compression_pool.py",
    "core/src/ottla/concurrency/single_flight.py": "authenticator-sasl/tests/test_token_cache.py",
    "authenticator-sasl/src/ottla_authenticator_sasl/token_cache.py": "authenticator-sasl/tests/test_token_cache.py",
    "serializer-schema-registry/src/ottla_serializer_schema_registry/registry/host_names.py": (
        "serializer-schema-registry/tests/test_registry_faults.py"
    ),
    "spark/src/ottla_spark/worker/producer_cache.py": "spark/tests/test_spark_producer_cache.py",
    "transport-ssl/src/ottla_transport_ssl/context_reload.py": "transport-ssl/tests/test_context_reload.py",
}
"""The modules that start threads while a producer works, and the tests that no thread can be started there."""

OF_COMMANDS: Final = ("cli/", "doctor/", "plugins/registry/single.py")
"""Modules that start threads for commands, which may fail."""

STARTS_A_THREAD: Final = re.compile(
    r"_make_thread\(|environment\.thread\(|threading\.Thread\(|threading\.Timer\(|ThreadPoolExecutor\("
)


@attrs.define
class Threads:
    """Threads that run where they are started; the first of them cannot start, because of the *error*."""

    error: BaseException
    started: int = 0

    def make(self, run: Callable[[], object], name: str) -> Any:
        def start() -> None:
            self.started += 1
            if self.started == 1:
                raise self.error
            run()

        return SimpleNamespace(start=start)


def test_calls_apart_wait_for_the_next_one_if_no_thread_starts(caplog: pytest.LogCaptureFixture) -> None:
    threads, made = Threads(RuntimeError("can't start new thread")), list[str]()
    calls = CallsApart(Environment(thread=threads.make), "ottla-calls")

    calls.add(lambda: made.append("first"))
    assert made == []
    calls.add(lambda: made.append("second"))

    assert made == ["first", "second"]
    assert caplog.messages == [
        "no thread 'ottla-calls' could be started for calls, which wait for one: can't start new thread"
    ]


def test_calls_apart_go_on_after_a_call_that_ends_its_thread() -> None:
    made: list[str] = []

    def make(run: Callable[[], object], name: str) -> Any:
        def start() -> None:
            with contextlib.suppress(SystemExit):  # as the hook for threads does
                run()

        return SimpleNamespace(start=start)

    calls = CallsApart(Environment(thread=make), "ottla-calls")
    calls.add(sys.exit)
    calls.add(lambda: made.append("second"))

    assert made == ["second"]


def test_calls_apart_go_on_after_an_interruption() -> None:
    threads, made = Threads(KeyboardInterrupt()), list[str]()
    calls = CallsApart(Environment(thread=threads.make), "ottla-calls")

    with pytest.raises(KeyboardInterrupt):
        calls.add(lambda: made.append("first"))
    calls.add(lambda: made.append("second"))

    assert made == ["first", "second"]


@pytest.mark.parametrize("runs", [True, False])
def test_calls_apart_stay_in_order_if_the_start_is_interrupted_late(runs: bool) -> None:
    begin, go_on, made = threading.Event(), threading.Event(), list[str]()
    threads: list[threading.Thread] = []

    def make(run: Callable[[], object], name: str) -> Any:
        def start() -> None:
            first = not threads
            threads.append(threading.Thread(target=lambda: (begin.wait(20) if first else None, run()), name=name))
            threads[-1].start()
            if not first:
                return
            if runs:
                begin.set()
                assert called.wait(20)
            raise KeyboardInterrupt  # in the wait for the thread, which has been started

        return SimpleNamespace(start=start)

    called = threading.Event()

    def slow() -> None:
        called.set()
        go_on.wait(20)
        made.append("first")

    calls = CallsApart(Environment(thread=make), "ottla-calls")
    with pytest.raises(KeyboardInterrupt):
        calls.add(slow)
    calls.add(lambda: made.append("second"))
    begin.set()
    go_on.set()
    for each in threads:
        each.join(20)

    assert made == ["first", "second"]
    assert len(threads) == (1 if runs else 2)


def test_a_thread_that_begins_after_the_interruption_makes_the_calls() -> None:
    """No call may follow: a producer that closes makes its last one."""
    begin, made = threading.Event(), list[str]()
    threads: list[threading.Thread] = []

    def make(run: Callable[[], object], name: str) -> Any:
        def start() -> None:
            threads.append(threading.Thread(target=lambda: (begin.wait(20), run()), name=name))
            threads[-1].start()
            raise KeyboardInterrupt

        return SimpleNamespace(start=start)

    calls = CallsApart(Environment(thread=make), "ottla-calls")
    with pytest.raises(KeyboardInterrupt):
        calls.add(lambda: made.append("last"))
    begin.set()
    threads[0].join(20)

    assert made == ["last"]


def test_each_module_that_starts_threads_has_a_test_without_one() -> None:
    packages = ROOT / "packages"
    found = {
        file.relative_to(packages).as_posix()
        for file in packages.glob("*/src/**/*.py")
        if "testkit" not in file.parts and STARTS_A_THREAD.search(file.read_text(encoding="utf-8"))
    }

    assert {name for name in found if not any(part in name for part in OF_COMMANDS)} == set(TESTED)
    assert all("new thread" in (packages / test).read_text(encoding="utf-8") for test in TESTED.values())
