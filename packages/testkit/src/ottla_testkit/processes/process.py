"""One process of a cluster: start, freeze, end, and output. It does not outlive Python.

This module knows neither other processes nor the program that it runs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ottla_testkit.errors import ClusterError
from ottla_testkit.processes.interrupts import interrupts_deferred
from ottla_testkit.processes.orphan_guard import OrphanGuard

STOP_WITHIN = 60.0  # seconds
_TAKEN = b"Address already in use"


class Process:
    """Run `command` at each start; `name` is for messages, and `log_file` gets the output."""

    def __init__(self, name: str, *, command: Sequence[str], log_file: Path) -> None:
        self.name = name
        self.log_file = log_file
        self.paused = False
        self._command = list(command)
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: OrphanGuard | None = None
        self._log_start = 0

    @property
    def running(self) -> bool:
        """Whether the process is alive; a paused one is."""
        return self._process is not None and self._process.poll() is None

    @property
    def answering(self) -> bool:
        """Whether the process is alive and not paused."""
        return self.running and not self.paused

    @property
    def pid(self) -> int:
        """The id of the latest start's process, alive or not."""
        return self._latest().pid

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while the process runs."""
        return self._latest().poll()

    @property
    def log(self) -> str:
        """The output so far, over all starts."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    @property
    def log_since_start(self) -> bytes:
        """The output since the latest start."""
        with contextlib.suppress(FileNotFoundError), self.log_file.open("rb") as log:
            log.seek(self._log_start)
            return log.read()
        return b""

    @property
    def port_taken(self) -> bool:
        """Whether the process has logged, since its latest start, that its port is in use."""
        return _TAKEN in self.log_since_start

    def start(self) -> None:
        """Start the process, which serves some seconds later."""
        if self.running:
            raise ClusterError(f"{self.name} is already running")
        with self.log_file.open("ab") as log, interrupts_deferred():
            self._release_guard()  # the guard of a process that has ended by itself
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
            self._guard = OrphanGuard(self._process.pid)
        self.paused = False

    def kill(self) -> None:
        """End the process immediately, as a power cut would; does nothing after its end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self.paused = False
        self._release_guard()

    def stop(self) -> None:
        """Ask the process to end normally; after a minute, kill it and raise."""
        self.resume()
        process = self._latest()
        process.terminate()
        try:
            process.wait(STOP_WITHIN)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ClusterError(f"{self.name} did not stop within {STOP_WITHIN:.0f} s") from None
        self._release_guard()

    def pause(self) -> None:
        """Freeze the process: it keeps its connections and responds to nothing."""
        process = self._latest()
        if sys.platform == "win32":
            raise ClusterError("Windows cannot freeze a process")
        process.send_signal(signal.SIGSTOP)
        # The signal is asynchronous: some of the broker's many threads may respond once more until all have stopped.
        if sys.platform == "darwin":  # whose Python has no waitid before 3.13
            os.waitpid(process.pid, os.WUNTRACED)
        else:
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        self.paused = True

    def resume(self) -> None:
        """Resume a frozen process."""
        if sys.platform != "win32":
            self._latest().send_signal(signal.SIGCONT)
        self.paused = False

    def _release_guard(self) -> None:
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.release()

    def _latest(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ClusterError(f"{self.name} was never started")
        return self._process
