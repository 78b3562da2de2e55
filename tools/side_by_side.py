"""Run groups of commands in parallel and print each group's complete output when the group has ended.

`python tools/side_by_side.py COMMAND [--then COMMAND]... [--beside COMMAND [--then COMMAND]...]...`. Within a group a
command starts when the one before it has ended, and after a failure, too: what it would find is found in the same run.
The exit code is 0 when every command succeeded. Ctrl-C and SIGTERM end all groups with every process that they started,
and print what each group has written so far before that: what runs this may end it soon after, as hosted runners do.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import IO, Final

import attrs
import psutil

THEN: Final = "--then"
BESIDE: Final = "--beside"
IN_ORDER_WITHIN: Final = 5.0  # seconds that a command has to clear up when it is interrupted


@attrs.define
class Group:
    """Commands one after another, in a thread; `code` is the first exit code that is not 0."""

    commands: Sequence[Sequence[str]]
    output: IO[bytes] = attrs.field(factory=tempfile.TemporaryFile)
    code: int = 0
    stopped: bool = False
    printed: int = 0  # bytes of the output
    process: subprocess.Popen[bytes] | None = None
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def run(self) -> None:
        """Run the commands, unless they are stopped."""
        for command in self.commands:
            started = time.monotonic()
            self._say(f"$ {shlex.join(command)}\n")
            code = self._run(command)
            self._say(f"exit code {code} after {time.monotonic() - started:.0f} s\n")
            self.code = self.code or code
            if self.stopped:
                return

    def stop(self) -> None:
        """Interrupt the running command, as Ctrl-C does; after a while, end its remaining processes."""
        with self._lock:
            self.stopped = True
            process = self.process
        if process is None or process.poll() is not None:
            return
        tree = _tree(process.pid)
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(IN_ORDER_WITHIN)
        tree |= _tree(process.pid)
        for each in tree:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        process.wait()

    def _run(self, command: Sequence[str]) -> int:
        with self._lock:
            if self.stopped:
                return 1
            try:
                self.process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=self.output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # a terminal's Ctrl-C comes to this program, which passes it on once
                )
            except OSError as error:
                self._say(f"{error}\n")
                return 127
        return self.process.wait()

    def _say(self, line: str) -> None:
        self.output.seek(0, 2)
        self.output.write(line.encode())
        self.output.flush()


def groups(arguments: Sequence[str]) -> Iterator[Group]:
    """Yield the groups that the arguments describe."""
    for group in _split(arguments, BESIDE):
        yield Group([command for command in _split(group, THEN) if command])


def main(arguments: Sequence[str]) -> int:
    """Run the groups; return the exit code of the first that failed, in the order of the arguments."""
    # A shell without job control starts background commands with SIGINT ignored; these here would inherit that.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    running = [group for group in groups(arguments) if group.commands]
    ended: queue.SimpleQueue[Group] = queue.SimpleQueue()

    def run(group: Group) -> None:
        try:
            group.run()
        except BaseException:
            group.code = 1
            raise
        finally:
            ended.put(group)

    threads = [threading.Thread(target=run, args=(group,), daemon=True) for group in running]
    for thread in threads:
        thread.start()
    try:
        for _ in running:
            _print(ended.get())
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # further interrupts are ignored: this one ends all groups
        for group in running:
            _print(group)
        stopping = [threading.Thread(target=group.stop) for group in running]
        for thread in stopping:
            thread.start()
        for thread in stopping:
            thread.join()
        for thread in threads:
            thread.join(IN_ORDER_WITHIN)  # it writes the exit code
        for group in running:
            _print(group)
        return 130
    return next((group.code for group in running if group.code), 0)


def _split(arguments: Sequence[str], word: str) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for argument in arguments:
        if argument == word:
            parts.append([])
        else:
            parts[-1].append(argument)
    return parts


def _print(group: Group) -> None:
    """Print what the group has written since the last call, without moving the commands' place in the file."""
    while data := os.pread(group.output.fileno(), 1 << 16, group.printed):
        sys.stdout.buffer.write(data)
        group.printed += len(data)
    sys.stdout.buffer.flush()


def _tree(pid: int) -> set[psutil.Process]:
    """Return a process and all its descendants, by id."""
    try:
        top = psutil.Process(pid)
        return {top, *top.children(recursive=True)}
    except psutil.NoSuchProcess:
        return set()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
