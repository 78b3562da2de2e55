"""Deferral of signal handlers while the main thread runs code that must not be interrupted.

Python runs a signal's handler on the main thread between any two bytecode instructions. Code that must not be
interrupted is therefore in a *deferred* block: there the program's handlers are replaced by one that only notes the
signal, and they run at the end of the block. This protects from handlers that raise, as that of Ctrl-C does, and from
handlers that call the producer: these would wait for a lock that the interrupted code holds. Handlers of event loops do
neither, and stay: to replace one, and to restore it, would undo the `signal.siginterrupt` that loops call for it.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # without the wrappers of `signal`: each looks up an enum, 4.5 µs
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Final, Self

_handler_of: Final[Callable[[int], Any]] = _signal.getsignal
_handle_by: Final[Callable[[int, Any], Any]] = _signal.signal
_OTHERS: Final = tuple(int(number) for number in signal.valid_signals() if number != signal.SIGINT)
_DEFERRED: Final = tuple(
    int(number)
    for number in signal.valid_signals()
    if number not in (getattr(signal, "SIGKILL", None), getattr(signal, "SIGSTOP", None))
    and number < getattr(signal, "SIGRTMIN", 64)  # each costs 20 ns
)

INTERRUPT_WAITS: Final = sys.platform != "win32"
"""Whether a signal ends a wait of the main thread, so that its handler runs. On Windows waits for locks and sockets go
on: Ctrl-C then has no effect before they end."""

_OF_EVENT_LOOPS: Final = {("asyncio.unix_events", "_sighandler_noop"), ("uvloop.loop", "Loop.__sighandler")}
"""Modules and names of the handlers by which `add_signal_handler` of a loop has a signal written to its wakeup file."""

HANG_SECONDS: Final = 1.0
"""Seconds. A block that still runs so long after a signal hangs: the next signal runs its handler immediately."""

_main: int | None = threading.main_thread().ident
_depth = 0  # of nested blocks on the main thread
_ended = 0  # blocks that restored the program's handlers, or began to
_on_signal: Callable[[], object] | None = None
_noted: dict[int, float] = {}  # the signals that came in the block, and when each came first
_seen: list[Any] = []  # the handlers of all signals when they were last read,
_functions: list[tuple[int, Any]] = []  # those of them that are functions of the program,
_usual: dict[int, Any] = {}  # and the last such function of each signal
_others: list[Any] = []  # the handlers of all signals but Ctrl-C when `only_ctrl_c` read them last,
_others_run = False  # and whether one of them is a function


def on_main_thread() -> bool:
    """Return whether this is the thread that handlers run on."""
    return threading.get_ident() == _main


def is_ctrl_c(error: BaseException) -> bool:
    """Return whether an exception may come from Ctrl-C; on other threads, KeyboardInterrupt is a fault of the code."""
    return isinstance(error, KeyboardInterrupt) and on_main_thread()


def only_ctrl_c() -> bool:
    """Return whether no handler can run except the one that raises KeyboardInterrupt."""
    usual = _handler_of(signal.SIGINT)
    if callable(usual) and usual is not signal.default_int_handler:
        return False
    global _others, _others_run
    others = list(map(_handler_of, _OTHERS))
    if others != _others:  # else nothing has changed since the last record that was awaited
        _others, _others_run = others, any(map(callable, others))
    return not _others_run


def begin() -> None:
    """Begin a deferred block, if this is the main thread. If this raises, no block has begun."""
    global _depth
    if threading.get_ident() != _main:
        return
    while True:
        ended = _ended
        if not _depth:
            _defer()
        _depth += 1  # from here on no handler interrupts
        if ended == _ended:  # Python runs handlers at calls and jumps back: never between these lines
            return
        # Before that, a handler that was not deferred yet, or a finalizer, had a block of its own, whose end restored
        # the handlers.
        _depth -= 1


def end() -> None:
    """End the block that was begun last on this thread. Deferred handlers run now, and may raise."""
    global _depth
    if not _depth:  # a forked child may end what its parent began
        return
    try:
        if threading.get_ident() != _main:
            return
    except MemoryError:
        if not _is_main_without_memory():
            return
    _depth -= 1
    if _depth:
        return
    try:
        _restore()
    except BaseException:  # of a handler: later signals run their handlers by themselves
        _restore()
        _handle()
        raise
    if _noted:
        _handle()


def _is_main_without_memory() -> bool:
    """Do what `on_main_thread` does where it must not fail: the number of a thread is an object.

    A block that did not end would leave all later ones without a deferral. Called only then: any call may fail, too.
    """
    while True:
        try:
            return threading.get_ident() == _main
        except MemoryError:
            continue


def _defer() -> None:
    try:
        handlers = list(map(_handler_of, _DEFERRED))
        if handlers != _seen:
            _read(handlers)
        for number, _handler in _functions:
            _handle_by(number, _note)
    except ValueError:  # a subinterpreter, where no handler ever runs
        pass
    except BaseException:
        _restore()
        raise


def _read(handlers: list[Any]) -> None:
    global _seen, _functions
    _functions = [
        (number, handler)
        for number, handler in zip(_DEFERRED, handlers, strict=True)
        if callable(handler) and handler is not _note and not _is_of_event_loop(handler)
    ]
    _usual.update(_functions)
    _seen = handlers


def _is_of_event_loop(handler: Any) -> bool:
    return (getattr(handler, "__module__", None), getattr(handler, "__qualname__", None)) in _OF_EVENT_LOOPS


def _restore() -> None:
    """Restore the program's handlers, except those that it has replaced itself. Harmless when repeated."""
    global _ended
    _ended += 1
    for number, handler in _usual.items():
        if _handler_of(number) is _note:
            _handle_by(number, handler)


def _handle() -> None:
    """Run the handlers of all noted signals, also after one that raises."""
    while _noted:
        number, _at = _noted.popitem()
        handler = _handler_of(number)
        try:
            if callable(handler):
                # Not by raise_signal: the reader of signal.set_wakeup_fd, asyncio for instance, has the signal already.
                handler(number, sys._getframe(1))
        finally:
            _handle()


def _note(number: int, frame: FrameType | None) -> None:
    """Note a signal: the handler of every signal in a block."""
    now = time.monotonic()
    if not _depth or now - _noted.get(number, now) >= HANG_SECONDS:
        _noted.pop(number, None)
        _usual[number](number, frame)
        return
    _noted.setdefault(number, now)
    if _on_signal is not None:
        _on_signal()


class Deferred:
    """A block that defers signals on the main thread to its end; *on_signal* is called for each. For any thread."""

    def __init__(self, on_signal: Callable[[], object] | None = None) -> None:
        self._on_signal = on_signal
        self._before: Callable[[], object] | None = None
        self._main = False

    @property
    def noted(self) -> bool:
        """Return whether a handler will run at the end of the block; False on all threads except the main thread."""
        return bool(_noted) and threading.get_ident() == _main

    def __enter__(self) -> Self:
        global _on_signal
        begin()
        try:
            self._main = threading.get_ident() == _main
        except MemoryError:
            self._main = _is_main_without_memory()
        if self._main:
            self._before, _on_signal = _on_signal, self._on_signal
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        global _on_signal
        if self._main:
            _on_signal = self._before
        end()


def _reset_in_child() -> None:
    """Reset the state in a forked child: its block has no end there, and the thread that forked is the main one."""
    global _main, _depth, _on_signal
    _main, _depth, _on_signal = threading.get_ident(), 0, None
    _noted.clear()
    _restore()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_in_child)
