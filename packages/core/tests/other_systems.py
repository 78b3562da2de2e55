"""What Python lacks and does otherwise on Windows and on macOS, for programs and tests that run on Linux.

With `OTTLA_SYSTEM=win32` or `darwin` in its environment, a process becomes such a system when it imports this, which
must be before it imports the core: `OTTLA_SYSTEM=win32 pytest -p other_systems ...`, or the first line of a program.
"""

from __future__ import annotations

import asyncio
import errno
import importlib
import os
import select
import selectors
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

LACKING: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "win32": {
        "os": (
            "fork",
            "forkpty",
            "register_at_fork",
            "sched_getaffinity",
            "memfd_create",
            "waitid",
            "O_NOFOLLOW",
            "O_DIRECTORY",
            "O_CLOEXEC",
            "O_NONBLOCK",
            "O_PATH",
        ),
        "select": ("epoll", "poll"),
        "selectors": ("EpollSelector", "PollSelector"),
        "signal": (
            "SIGKILL",
            "SIGSTOP",
            "SIGHUP",
            "SIGALRM",
            "SIGUSR1",
            "SIGRTMIN",
            "SIGRTMAX",
            "pthread_sigmask",
            "setitimer",
        ),
        "socket": ("SO_REUSEPORT", "TCP_QUICKACK", "EAI_NODATA", "MSG_DONTWAIT"),
    },
    "darwin": {
        "os": ("sched_getaffinity", "memfd_create", "O_PATH"),
        "select": ("epoll",),
        "selectors": ("EpollSelector",),
        "signal": ("SIGRTMIN", "SIGRTMAX"),
        "socket": ("TCP_QUICKACK", "MSG_NOSIGNAL"),
    },
}
"""The names that a system's Python lacks, by module."""

WINDOWS_TIMEOUT_MAX: Final = 4294967.0
"""Seconds: the system's wait takes 32 bits of milliseconds. A longer one raises OverflowError."""

WINDOWS_SIGNALS: Final = (signal.SIGABRT, signal.SIGFPE, signal.SIGILL, signal.SIGINT, signal.SIGSEGV, signal.SIGTERM)
"""The signals for which `signal.signal` takes a handler; every other number raises ValueError."""


def become(system: str) -> None:
    """Make this process such a system."""
    # Modules of Python that decide by the system when they are imported: those of Linux stay.
    for name in ("asyncio", "ssl", "subprocess", "tempfile", "shutil", "multiprocessing", "urllib.request"):
        importlib.import_module(name)
    for module, names in LACKING[system].items():
        for name in names:
            vars(importlib.import_module(module)).pop(name, None)
    replace(selectors, "DefaultSelector", selectors.SelectSelector if system == "win32" else selectors.PollSelector)
    if system == "win32":
        _become_windows()
    replace(sys, "platform", system)


def replace(owner: object, name: str, value: object) -> None:
    """Set an attribute of a module or class of Python's."""
    setattr(owner, name, value)


def _become_windows() -> None:
    os.supports_dir_fd.clear()
    replace(errno, "WSAEMFILE", 10024)
    replace(threading, "TIMEOUT_MAX", WINDOWS_TIMEOUT_MAX)
    replace(socket, "socketpair", _connected_pair)
    replace(socket, "socket", _WindowsSocket)
    replace(select, "select", _select_of_windows)
    replace(selectors.SelectSelector, "_select", staticmethod(_select_of_windows))
    replace(asyncio.SelectorEventLoop, "add_reader", _refuse_reader)
    replace(signal, "valid_signals", lambda: set(WINDOWS_SIGNALS))
    for module in (signal, importlib.import_module("_signal")):
        replace(module, "signal", _checked(module.signal))


def _checked(handle: Callable[[int, Any], Any]) -> Callable[[int, Any], Any]:
    """`signal.signal`, which refuses the numbers that Windows does not have."""

    def handle_by(number: int, handler: Any) -> Any:
        if number not in WINDOWS_SIGNALS:
            raise ValueError("invalid signal value")
        return handle(number, handler)

    return handle_by


def _select_of_windows(reading: Any, writing: Any, failing: Any, timeout: float | None = None) -> Any:
    """`select` as on Windows: it refuses to wait for nothing, and for anything but sockets."""
    if not (reading or writing or failing):
        raise OSError(10022, "An invalid argument was supplied")
    return _select(reading, writing, failing, timeout)


_select: Final = select.select


def _refuse_reader(*_arguments: object) -> None:
    """`add_reader` of the default event loop of Windows, which watches no descriptors."""
    raise NotImplementedError


class _WindowsSocket(socket.socket):
    """A socket without `sendmsg`, whose connects are reported as under way with another number."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("sendmsg", "recvmsg", "recvmsg_into", "sendfile"):
            raise AttributeError(f"'socket' object has no attribute {name!r}")
        return super().__getattribute__(name)

    def connect_ex(self, address: Any, /) -> int:
        number = super().connect_ex(address)
        return errno.EWOULDBLOCK if number == errno.EINPROGRESS else number


def _connected_pair() -> tuple[socket.socket, socket.socket]:
    """A pair of sockets over TCP: Windows has no others."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        other, _address = server.accept()
    return one, other


if SYSTEM := os.environ.get("OTTLA_SYSTEM"):
    become(SYSTEM)
