"""Calls of plugins with a time limit: `start` and `close`, which may hang or raise anything.

Each call has its own helper thread. If the call does not return, this thread is left running; it is a daemon
thread, so it does not keep the program alive. The thread and the time limit are real in a simulation, too, because a
plugin's code is not simulated.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import attrs

from ottla.concurrency.copies import copy_of
from ottla.concurrency.environment import SYSTEM, Environment
from ottla.concurrency.locks import Latch
from ottla.concurrency.thread_positions import position_of
from ottla.errors import InvalidPluginError
from ottla.errors.plugin_origin import faults
from ottla.errors.robust_logger import robust_logger
from ottla.interfaces import SupportsClose, supports

logger = robust_logger(__name__)

CLOSE_SECONDS: Final = 10.0
"""The longest that the plugins of a producer may take to close, also if its `close` has more time."""

LEAST_SECONDS: Final = 0.5
"""Time for the `close` of a plugin, also if its producer has no time left."""


class BoundedCall:
    """A call on a helper thread, which is begun at once. Raises RuntimeError when the system has no thread left."""

    def __init__(self, call: Callable[[], object], *, thread_name: str, environment: Environment) -> None:
        self._call = call
        self._over = Latch(environment)
        self._thread = environment.thread(self._run, thread_name)
        self.error: BaseException | None = None
        """The exception of the call, also SystemExit; None if it has returned, or still runs."""
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait until the call is over, at most so many seconds. Return False if it still runs."""
        return self._over.wait(seconds)

    def current_position(self) -> str:
        """The place in the code that the call is at."""
        return position_of(self._thread.ident or 0) or "its end"

    def _run(self) -> None:
        try:
            self._call()
        except BaseException as error:  # SystemExit, too: it must end no more than this call
            self.error = error
        finally:
            self._over.set()


class PluginCloser:
    """Closes the plugins of one producer, each once, in order. For any thread.

    A plugin whose `close` does not return in time is logged and left behind; the others are closed all the same.
    """

    def __init__(self, environment: Environment = SYSTEM) -> None:
        self._environment = environment
        self._waiting: deque[_Closable] = deque()
        self._closed = False

    def add(self, name: str, plugin: object, *, secret: bool = False, first: bool = False) -> None:
        """Close this plugin at the end, if it has a `close`; *first*: before those that were added so far.

        *secret*: an exception of it may hold a secret, so only its type is logged.
        """
        closable = _Closable(name, plugin, secret)
        if any(plugin is other.plugin for other in copy_of(self._waiting)):  # two hooks may return the same object
            return
        if first:
            self._waiting.appendleft(closable)
        else:
            self._waiting.append(closable)
        if self._closed:  # a `start` has returned after its producer was closed, or `send_table` has made a serializer
            try:
                self._waiting.remove(closable)
            except ValueError:  # `close`, on another thread, has taken it
                return
            self._close(closable, LEAST_SECONDS)

    def close(self, timeout: float) -> None:
        """Close all plugins, which takes about *timeout* seconds at most, and `CLOSE_SECONDS`.

        Ctrl-C in the wait leaves the rest to the next call.
        """
        clock = self._environment.clock
        deadline = clock() + min(timeout, CLOSE_SECONDS)
        self._closed = True
        while self._waiting:
            try:
                closable = self._waiting.popleft()
            except IndexError:  # another thread closes them
                return
            self._close(closable, max(deadline - clock(), LEAST_SECONDS))

    def _close(self, closable: _Closable, seconds: float) -> None:
        try:
            if not supports(closable.plugin, SupportsClose):
                return
            close = closable.plugin.close
        except InvalidPluginError as error:
            logger.error("the %s cannot be closed: %s", closable.name, error)
            return
        except faults() as error:  # of its __getattr__, or a property
            _log_failure(closable, error)
            return
        try:
            call = BoundedCall(close, thread_name="ottla-close", environment=self._environment)
        except RuntimeError as error:
            _close_here(closable, close, error)
            return
        if not call.wait(seconds):
            logger.warning(
                "the %s has not closed within %.1f s and is at %s; the producer ends without waiting for it",
                closable.name,
                seconds,
                call.current_position(),
            )
        elif call.error is not None:
            _log_failure(closable, call.error)


def _close_here(closable: _Closable, close: Callable[[], object], error: RuntimeError) -> None:
    """Close on this thread if it is a daemon, else only log: no helper thread could be started."""
    if not threading.current_thread().daemon:  # only a daemon thread may hang: the program ends without it
        logger.error("the %s cannot be closed: %s", closable.name, error)
        return
    try:
        close()
    except BaseException as failure:
        _log_failure(closable, failure)


def _log_failure(closable: _Closable, error: BaseException) -> None:
    if closable.secret:
        logger.error("the %s failed to close: %s", closable.name, type(error).__name__)
    else:
        logger.error("the %s failed to close", closable.name, exc_info=error)


@attrs.frozen(eq=False, repr=False)
class _Closable:
    name: str
    plugin: Any
    secret: bool
