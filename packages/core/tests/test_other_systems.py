"""Windows and macOS, simulated: what their Python lacks, waits that Ctrl-C does not end, and other selectors."""

from __future__ import annotations

import importlib.util
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import attrs
import pytest

from ottla.concurrency import signals
from ottla.concurrency.environment import Environment
from ottla.concurrency.locks import Latch
from ottla.config import allow_lists
from ottla.network.selector import socket_wait
from ottla.plugins.transports.sequential_write import send_one_by_one
from ottla.sender.io_handoff import _can_run_rounds

pytestmark = pytest.mark.unmeasured

HERE = Path(__file__).parent
SYSTEMS = ("win32", "darwin")
ENCODERS = ("python", *(["native"] if importlib.util.find_spec("ottla_accel") else []))
TESTS_OF_THE_SELECTOR = (
    "test_selector.py",
    "test_selector_endings.py",
    "test_selector_rounds.py",
    "test_network_client_sockets.py",
)
OF_LINUX = ("own_targets", "immediate_connection", "thousand_open_files", "gathered")
"""Tests of Unix sockets, and of the greatest descriptor that `select` takes."""


def run(system: str, *command: str) -> str:
    """The output of `python ...` as on this system."""
    ended = subprocess.run(
        [sys.executable, *command],
        cwd=HERE,
        # Without the record of times, whose module needs what Windows lacks.
        env={**os.environ, "OTTLA_SYSTEM": system, "PYTHONPATH": str(HERE), "OTTLA_TEST_TIMES": ""},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_producer_works_with_what_another_system_has(system: str) -> None:
    printed = run(system, "on_another_system.py", *ENCODERS).splitlines()

    windows = system == "win32"
    sent = ["0", "11 acknowledged, 0 failed, 0 pending", "0 acknowledged, 0 failed, 0 pending", "0 0 0 0 0"]
    assert printed == [
        f"{system} {system} {not windows}",
        *(sent * len(ENCODERS)),
        "True",
        "[]",
        "True",
        f"{windows} {system}",
    ]


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_selector_passes_its_tests_on_another_system(system: str) -> None:
    without = " and ".join(f"not {name}" for name in OF_LINUX)
    plugins = ("other_systems", "no:cacheprovider", "no:randomly", "no:hypothesispytest")
    # With `fd`, the default, pytest would ask for a console that only Windows has.
    options = ("-q", "--capture=sys", *(part for plugin in plugins for part in ("-p", plugin)))

    assert " passed" in run(system, "-m", "pytest", *options, "-k", without, *TESTS_OF_THE_SELECTOR)


SELECTORS = [kind for name in ("SelectSelector", "PollSelector") if (kind := getattr(selectors, name, None))]


@pytest.mark.parametrize("kind", SELECTORS)
def test_a_watch_reports_events_with_any_selector(kind: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selectors, "DefaultSelector", kind)
    watch = socket_wait.Watch(time.monotonic)
    near, far = socket.socketpair()
    with near, far:
        watch.register(near, selectors.EVENT_READ | selectors.EVENT_WRITE, "near")
        [(key, events)] = watch.select(socket_wait.LONG / 2)
        watch.modify(near, selectors.EVENT_READ, "near")
        nothing = watch.select(0.003)
        far.close()
        [(_key, at_the_end)] = watch.select(socket_wait.LONG / 2)
        watch.unregister(near)
        watch.close()

    assert (key.data, events, nothing, at_the_end) == ("near", selectors.EVENT_WRITE, [], selectors.EVENT_READ)


# Writing without sendmsg


@attrs.define
class SmallSocket:
    """A socket that takes so many bytes, at most *most* at once."""

    capacity: int
    most: int = 1_000
    taken: bytearray = attrs.Factory(bytearray)

    def send(self, view: memoryview) -> int:
        if not self.capacity:
            raise BlockingIOError
        count = min(len(view), self.capacity, self.most)
        self.capacity -= count
        self.taken += view[:count]
        return count


CHUNKS = (b"size", b"", memoryview(b"a header"), bytearray(b"the records"))


@pytest.mark.parametrize("capacity", range(1, 25))
@pytest.mark.parametrize("most", [3, 1_000])
def test_chunks_are_written_in_order_until_the_socket_is_full(capacity: int, most: int) -> None:
    sock, wanted = SmallSocket(capacity, most), b"".join(CHUNKS)
    at_once = next((end for end in range(len(wanted) + 1) if end == capacity), len(wanted))

    written = send_one_by_one(sock, CHUNKS)  # type: ignore[arg-type]  # it only sends

    assert bytes(sock.taken) == wanted[:written]
    assert written == (at_once if most > capacity else min(3, capacity))


def test_a_full_socket_takes_no_chunk() -> None:
    with pytest.raises(BlockingIOError):
        send_one_by_one(SmallSocket(0), CHUNKS)  # type: ignore[arg-type]  # it only sends


# Waits that a signal does not end


class BrokenOffError(Exception):
    """Raised by the test's signal handler."""


class DeafLock:
    """A lock that no signal interrupts while it is waited for, as on Windows."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.locked, self.release = self._lock.locked, self._lock.release

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        try:
            return self._lock.acquire(blocking, timeout)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@pytest.fixture
def alarm() -> Any:
    """Have a handler raise BrokenOffError, soon."""

    def broken_off(_number: int, _frame: object) -> None:
        raise BrokenOffError

    before = signal.signal(signal.SIGALRM, broken_off)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("alarm")
@pytest.mark.parametrize("timeout", [None, 1e12])
def test_a_handler_ends_a_wait_that_no_signal_interrupts(
    timeout: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signals, "INTERRUPT_WAITS", False)
    latch = Latch(Environment(lock=DeafLock))

    with pytest.raises(BrokenOffError):
        latch.wait(timeout)


@pytest.mark.parametrize(("timeout", "in_time"), [(0.0, False), (0.25, False), (20.0, True), (None, True)])
def test_a_wait_in_pieces_ends_in_time(timeout: float | None, in_time: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "INTERRUPT_WAITS", False)
    latch = Latch()
    setter = threading.Timer(0.25, latch.set)
    if in_time:
        setter.start()

    assert latch.wait(timeout) == in_time


def test_the_main_thread_runs_no_rounds_that_ctrl_c_would_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    able: list[bool] = []
    other = threading.Thread(target=lambda: able.append(_can_run_rounds()))
    monkeypatch.setattr(signals, "only_ctrl_c", lambda: True)
    monkeypatch.setattr(signals, "INTERRUPT_WAITS", False)

    assert not _can_run_rounds()
    other.start()
    other.join()
    assert able == [True]


def test_a_deferred_signal_reaches_the_wakeup_descriptor_once() -> None:
    handled: list[int] = []
    near, far = socket.socketpair()
    far.setblocking(False)
    before = signal.signal(signal.SIGTERM, lambda number, _frame: handled.append(number))
    usual = signal.set_wakeup_fd(far.fileno(), warn_on_full_buffer=False)
    try:
        with signals.Deferred():
            signal.raise_signal(signal.SIGTERM)
            while_deferred = list(handled)
    finally:
        signal.set_wakeup_fd(usual)
        signal.signal(signal.SIGTERM, before)
        far.close()
        written = near.recv(16)
        near.close()

    assert (while_deferred, handled, written) == ([], [signal.SIGTERM], bytes([signal.SIGTERM]))


# Files and texts


def test_an_allowed_file_is_read_where_no_folder_can_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token, link = tmp_path / "token", tmp_path / "link"
    token.write_bytes(b"content")
    link.symlink_to("/etc/hostname")
    monkeypatch.setenv(allow_lists.FILES, f"{token},{link.with_name('other')}")
    monkeypatch.setattr(os, "supports_dir_fd", set())
    monkeypatch.delattr(os, "O_NONBLOCK")

    assert allow_lists.read_file(str(token), max_bytes=100) == b"content"
    with pytest.raises(allow_lists.NotAllowedError):
        allow_lists.read_file(str(link), max_bytes=100)


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
@pytest.mark.parametrize("command", [("plugins",), ("doctor", "--bootstrap-servers", "127.0.0.1:1", "--topic", "t")])
def test_the_command_prints_in_an_encoding_without_symbols(command: tuple[str, ...], encoding: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "ottla", *command],
        env={**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"},
        capture_output=True,
        timeout=60,
        check=False,
    )

    assert b"Traceback" not in ended.stderr
    assert ended.stdout.decode(encoding).strip()


# The page


PAGE = HERE.parents[2] / "docs" / "platforms.md"


def test_every_place_that_differs_has_a_test() -> None:
    _before, _heading, places = PAGE.read_text(encoding="utf-8").partition("## Places where systems differ")
    rows = [line for line in places.splitlines() if line.startswith("|")][2:]
    named = [re.search(r"`([a-z-]+)/(test_\w+\.py)::(test_\w+)`", row) for row in rows]

    assert len(rows) > 15
    assert [row for row, found in zip(rows, named, strict=True) if not found and "the types" not in row] == []
    for package, module, test in (found.groups() for found in named if found):
        source = HERE.parents[1] / package / "tests" / module
        assert f"def {test}(" in source.read_text(encoding="utf-8"), test


def test_types_are_checked_as_on_the_other_systems() -> None:
    tool = (HERE.parents[2] / "tools" / "check_types.py").read_text(encoding="utf-8")

    assert all(f'"{system}"' in tool for system in SYSTEMS)
