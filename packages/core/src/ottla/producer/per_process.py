"""One producer in each process, made when it is first needed: for servers that fork after the program is loaded."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, TypeVar, Unpack

from ottla.errors import ConfigError, UndeliveredError
from ottla.errors.secret import hide_settings
from ottla.plugins.shared_objects import problems_of_shared_objects
from ottla.producer.producer import Producer
from ottla.results import DeliveryReport

if TYPE_CHECKING:
    from ottla.config.keywords import ProducerKeywords

P = TypeVar("P")


class OnePerProcess(Generic[P]):
    """The producer of the current process. Call it to get the producer; the first call in a process makes it.

    For any thread. A forked child gets its own producer, and the first call after `close` makes a new one. *kind* makes
    one from settings.
    """

    def __init__(self, kind: Callable[..., P], config: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        self._kind = kind
        self._config, self._options = hide_settings(config), hide_settings(options)
        if problems := tuple(problems_of_shared_objects(self._config, self._options)):
            raise ConfigError(problems)
        self._begin()
        _all.add(self)

    def _begin(self) -> None:
        self._made: P | None = None
        self._lock = threading.RLock()  # a signal handler may call this in the middle of another call

    def __call__(self) -> P:
        """The producer of this process. Raises what `Producer` raises."""
        made = self._made
        if made is None:
            with self._lock:
                made = self._made
                if made is None:
                    made = self._made = self._kind(self._config, **self._options)
        return made

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a function of per_process cannot be copied or pickled, because its settings may have secrets; make it in "
            "a module, which each process imports"
        )

    if not TYPE_CHECKING:  # a type checker finds such calls itself

        def __getattr__(self, name: str) -> NoReturn:
            hint = f"; call it first, as in producer().{name}" if name in dir(vars(self).get("_kind")) else ""
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}", name=name, obj=self)

    @contextmanager
    def _closing(self, made: P) -> Iterator[None]:
        """Forget the producer at the end of this block, which closes it. Calls during the block get a closed one.

        If the block is interrupted, cancelled or refused, the producer stays: another `close` waits for the same end.
        """
        try:
            yield
        except UndeliveredError:  # it is closed
            self._forget(made)
            raise
        self._forget(made)

    def _forget(self, made: P) -> None:
        with self._lock:
            if self._made is made:
                self._made = None


class PerProcess(OnePerProcess[Producer]):
    """A `Producer` in each process."""

    def close(self, timeout: float | None = None) -> DeliveryReport:
        """Close the producer of this process, if there is one; see `Producer.close`. The next call makes a new one."""
        made = self._made
        if made is None:
            return DeliveryReport({})
        with self._closing(made):
            return made.close(timeout)


_all: Final[weakref.WeakSet[OnePerProcess[Any]]] = weakref.WeakSet()


def per_process(config: Mapping[str, Any] | None = None, /, **options: Unpack[ProducerKeywords]) -> PerProcess:
    """A function that returns the producer of the current process, and makes it at the first call there.

    The arguments are those of `Producer`. Nothing is read, checked or connected before that call, so the function may
    be made when a server loads the program, before it forks its workers. A plugin is given by its name, its class or a
    function: an object would be in all processes, and raises ConfigError at once.
    """
    return PerProcess(Producer, config or {}, options)


def _forget_in_child() -> None:
    """Let a forked child make its own producers; locks that threads of the parent hold do not exist there."""
    for each in list(_all):
        each._begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
