"""Plugins that hang or raise when they start or close: named in the log, and the producer goes on or ends in time."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import textwrap
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
from broker_on_a_socket import SECRET

from ottla import Producer
from ottla.concurrency.environment import SYSTEM, Thread
from ottla.interfaces import MetricsRegistry
from ottla.plugins import calls
from ottla.plugins.calls import LEAST_SECONDS, BoundedCall, PluginCloser
from ottla.producer import reporters
from ottla.producer.reporters import Reporting
from simulated_producer import HANG_GUARD, simulated
from third_party_mechanism import Plain


class Plugin:
    """An interceptor, a reporter and a mechanism's `close`, whose calls do what the test wants."""

    def __init__(self, *, start: Callable[[], object] = int, close: Callable[[], object] = int) -> None:
        self._start = start
        self._close = close
        self.events: list[str] = []

    def start(self, registry: MetricsRegistry) -> None:
        self.events.append("start")
        self._start()

    def close(self) -> None:
        self.events.append("close")
        self._close()

    def on_send(self, topic: str, key: Any, value: Any, headers: Any) -> Any:
        return key, value, headers

    def on_acknowledgement(self, metadata: Any, error: Exception | None) -> None:
        """Nothing."""


def raising(error: BaseException) -> Callable[[], object]:
    def fail() -> None:
        raise error

    return fail


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """An event that hanging calls wait for, so that no thread outlives the test."""
    event = threading.Event()
    yield event
    event.set()
    for thread in threading.enumerate():
        if thread.name in ("ottla-close", "ottla-reporter-start"):
            thread.join(HANG_GUARD)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What hangs is given up at once."""
    monkeypatch.setattr(calls, "LEAST_SECONDS", 0.05)
    monkeypatch.setattr(reporters, "LEAST_SECONDS", 0.05)
    monkeypatch.setattr(reporters, "START_SECONDS", 0.05)


# Closing


@pytest.mark.rule("producer.plugins.bounded")
@pytest.mark.parametrize("kind", ["interceptors", "reporters"])
def test_close_ends_in_time_whatever_the_close_of_a_plugin_does(
    kind: str, released: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    first, hanging, last = Plugin(), Plugin(close=released.wait), Plugin()
    with simulated(1, plugins={kind: {"first": first, "slow of acme": hanging, "last": last}}) as simulation:
        simulation.producer.send("t", b"value")

        assert simulation.producer.close(0.5).acknowledged == 1

    assert first.events[-1] == hanging.events[-1] == last.events[-1] == "close"
    [(level, line)] = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert level == "WARNING"
    assert re.match(
        r"the slow of acme has not closed within 0\.\d s and is at \S+threading\.py:\d+ in wait, "
        r"called from \S+test_plugin_calls\.py:\d+ in close; ",
        line,
    )


@pytest.mark.rule("producer.plugins.bounded")
@pytest.mark.parametrize("error", [ValueError("boom"), SystemExit(3), KeyboardInterrupt()])
def test_an_error_in_the_close_of_a_plugin_is_logged_with_its_name(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    last = Plugin()
    closing = {"rude of acme": Plugin(close=raising(error)), "last": last}
    with simulated(1, plugins={"interceptors": closing}) as simulation:
        simulation.producer.close()

    assert caplog.messages == ["the rude of acme failed to close"]
    assert last.events == ["close"]


def test_a_close_that_cannot_be_read_is_logged_and_the_others_are_closed(caplog: pytest.LogCaptureFixture) -> None:
    class Lost(Plugin):
        @property
        def close(self) -> Any:
            raise RuntimeError("it was there a moment ago")

    last, closer = Plugin(), PluginCloser()
    closer.add("lost of acme", Lost())
    closer.add("last", last)
    closer.close(1.0)

    assert caplog.messages == ["the lost of acme failed to close"]
    assert last.events == ["close"]


def test_an_error_of_a_mechanism_in_close_is_logged_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    with simulated(1, plugins={"mechanism": Closing(raising(ValueError(SECRET)))}, know=False) as simulation:
        simulation.producer.close()

    assert caplog.messages == [f"the mechanism {__name__}.Closing failed to close: ValueError"]
    assert SECRET not in caplog.text


class Closing(Plain):
    """A mechanism with a `close`."""

    def __init__(self, close: Callable[[], object]) -> None:
        super().__init__()
        self.close = close


def test_a_close_that_is_no_method_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    plugin = Plugin()
    plugin.close = "soon"  # type: ignore[method-assign, assignment]
    closer = PluginCloser()
    closer.add("odd", plugin)
    closer.close(1.0)

    assert f"the odd cannot be closed: close of {__name__}.Plugin is of type str" in caplog.messages[0]


def test_reporters_are_closed_first_then_interceptors_then_the_mechanism() -> None:
    order: list[str] = []
    plugins: Mapping[str, Any] = {
        "reporters": {name: Plugin(close=partial(order.append, name)) for name in ("r1", "r2")},
        "interceptors": {name: Plugin(close=partial(order.append, name)) for name in ("i1", "i2")},
        "mechanism": Closing(lambda: order.append("mechanism")),
    }
    with simulated(1, plugins=plugins, know=False) as simulation:
        simulation.producer.close()
        simulation.producer.close()

    assert order == ["r2", "r1", "i2", "i1", "mechanism"]


def test_ctrl_c_in_the_wait_for_a_close_leaves_the_rest_to_the_next_close(monkeypatch: pytest.MonkeyPatch) -> None:
    first, last = Plugin(), Plugin()
    closer = PluginCloser()
    closer.add("first", first)
    closer.add("last", last)
    with monkeypatch.context() as patch:
        patch.setattr(BoundedCall, "wait", lambda *_: raising(KeyboardInterrupt())())
        with pytest.raises(KeyboardInterrupt):
            closer.close(1.0)
    closer.close(1.0)

    assert (first.events, last.events) == (["close"], ["close"])


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("closed", ["before", "after"])
def test_a_plugin_that_is_added_while_others_close_is_closed(first: bool, closed: str) -> None:
    class Waiting(deque[Any]):
        """Another thread calls `close` just before a plugin is added, or just after."""

        def append(self, closable: Any) -> None:
            self.closed_meanwhile(lambda: deque.append(self, closable))

        def appendleft(self, closable: Any) -> None:
            self.closed_meanwhile(lambda: deque.appendleft(self, closable))

        def closed_meanwhile(self, add: Callable[[], None]) -> None:
            for call in (close, add) if closed == "before" else (add, close):
                call()

    def close() -> None:
        thread = threading.Thread(target=closer.close, args=(1.0,))
        thread.start()
        thread.join(HANG_GUARD)

    early, late, closer = Plugin(), Plugin(), PluginCloser()
    closer.add("early", early)
    closer._waiting = Waiting(closer._waiting)
    closer.add("late", late, first=first)

    assert (early.events, late.events) == (["close"], ["close"])


class NoThread:
    """A thread that the system cannot start."""

    ident = None

    def start(self) -> None:
        raise RuntimeError("can't start new thread")

    def join(self, timeout: float | None = None) -> None:
        """Return at once."""

    def is_alive(self) -> bool:
        return False


def no_thread(_run: Callable[[], object], _name: str) -> Thread:
    return NoThread()


def test_without_threads_a_daemon_thread_closes_plugins_itself(caplog: pytest.LogCaptureFixture) -> None:
    plugin, other = Plugin(), Plugin(close=raising(SystemExit(3)))
    closer = PluginCloser(attrs.evolve(SYSTEM, thread=no_thread))
    closer.add("reporter", plugin)
    closer.add("other", other)
    thread = threading.Thread(target=closer.close, args=(1.0,), daemon=True)
    thread.start()
    thread.join(HANG_GUARD)

    assert plugin.events == other.events == ["close"]
    assert caplog.messages == ["the other failed to close"]


def test_without_threads_the_program_is_not_held_up_by_a_close(caplog: pytest.LogCaptureFixture) -> None:
    plugin = Plugin()
    closer = PluginCloser(attrs.evolve(SYSTEM, thread=no_thread))
    closer.add("reporter", plugin)
    closer.close(1.0)

    assert plugin.events == []
    assert caplog.messages == ["the reporter cannot be closed: can't start new thread"]


# Starting


@pytest.mark.rule("producer.plugins.bounded")
def test_a_start_that_hangs_is_a_warning_and_the_producer_works(
    released: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    hanging, last = Plugin(start=released.wait), Plugin()
    with simulated(1, plugins={"reporters": {"slow of acme": hanging, "last": last}}) as simulation:
        assert last.events == ["start"]
        simulation.producer.send("t", b"value")

        assert simulation.producer.close().acknowledged == 1

    assert re.match(
        r"the slow of acme has not started within 0\.\d s; its `start` is at .* in wait, "
        r"called from \S+test_plugin_calls\.py:\d+ in start; ",
        caplog.messages[0],
    )
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert hanging.events == ["start"]


def test_a_reporter_that_starts_late_is_closed_with_the_others(released: threading.Event) -> None:
    late = Plugin(start=released.wait)
    with simulated(1, plugins={"reporters": {"late": late}}) as simulation:
        released.set()
        wait_until(lambda: not any(each.name == "ottla-reporter-start" for each in threading.enumerate()))
        simulation.producer.close()

    assert late.events == ["start", "close"]


def test_a_reporter_that_starts_after_the_end_is_closed_at_once(released: threading.Event) -> None:
    late = Plugin(start=released.wait)
    with simulated(1, plugins={"reporters": {"late": late}}) as simulation:
        simulation.producer.close()
        assert late.events == ["start"]
        released.set()
        wait_until(lambda: late.events == ["start", "close"])


@pytest.mark.rule("producer.plugins.bounded")
@pytest.mark.parametrize("error", [ValueError("boom"), SystemExit(3), KeyboardInterrupt()])
def test_a_start_that_raises_leaves_a_producer_that_works(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    rude, last = Plugin(start=raising(error)), Plugin()
    with simulated(1, plugins={"reporters": {"rude of acme": rude, "last": last}}) as simulation:
        simulation.producer.send("t", b"value")

        assert simulation.producer.close().acknowledged == 1
    assert caplog.messages == ["the rude of acme failed to start; the producer continues without it"]
    assert rude.events == ["start"]
    assert last.events == ["start", "close"]


def test_ctrl_c_in_the_wait_for_a_start_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reporting, "start", lambda _self: raising(KeyboardInterrupt())())
    with pytest.raises(KeyboardInterrupt):
        Producer(bootstrap_servers="127.0.0.1:9", client_id="interrupted")
    wait_until(lambda: not any(thread.name == "ottla-io-interrupted" for thread in threading.enumerate()))


def wait_until(happened: Callable[[], object]) -> None:
    deadline = time.monotonic() + HANG_GUARD
    while not happened():
        assert time.monotonic() < deadline, "it never happened"
        threading.Event().wait(0.005)


# The end of the program

HANGING = """
    import threading
    from ottla.hookspecs import hookimpl

    class Hanging:
        def start(self, registry):
            pass

        def close(self):
            threading.Event().wait()

    @hookimpl
    def ottla_reporter():
        return Hanging()
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with a reporter whose close hangs."""
    (tmp_path / "acme_hanging.py").write_text(textwrap.dedent(HANGING))
    info = tmp_path / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ottla.reporters]\nacme = acme_hanging\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield tmp_path
    sys.modules.pop("acme_hanging", None)


@pytest.mark.rule("producer.plugins.bounded")
@pytest.mark.parametrize("end", ["producer.close(0)", "pass"], ids=["closed", "not closed"])
def test_a_program_ends_although_the_close_of_a_plugin_hangs(end: str, installed: Path) -> None:
    program = f"""
        from ottla import Producer
        from ottla.plugins import calls
        calls.CLOSE_SECONDS = 0.2
        producer = Producer(bootstrap_servers="127.0.0.1:9", metric_reporters="acme")
        {end}
        """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0
    named = f"the reporter 'acme' of acme 1.0 (acme_hanging) has not closed within {LEAST_SECONDS} s" in done.stderr
    # CPython 3.12 starts no thread any more at this moment, so the I/O thread itself closes the plugin.
    assert named or (end == "pass" and "its I/O thread has not ended and is at" in done.stderr)
