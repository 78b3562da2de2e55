"""The TLS context of requests, made again when one of its files has changed.

Files are read when the producer is made, and before each request again if they have changed, on a separate thread: a
network file system that does not respond costs one request a moment. Files that cannot be used change nothing:
requests use what was read before, and one warning gives the reason.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

from ottla.concurrency.single_flight import Flight, SingleFlight
from ottla.errors import OttlaError
from ottla.errors.robust_logger import robust_logger
from ottla_serializer_schema_registry.registry.exchange import Deadline

_log = robust_logger(__name__)

FILES_TIMEOUT: Final = 1.0
"""Maximum seconds that a request waits for its files. Local ones take a few milliseconds."""

FILES_PART: Final = 0.25
"""The largest part of a request's time that it waits for its files; it also has to be sent."""

LIMIT: Final = 10.0
"""Seconds after which files that do not respond are read by another thread."""

_States: TypeAlias = Sequence[tuple[int, ...] | None]


class Trust(Protocol):
    """The TLS context of each request. For any thread."""

    def context(self, deadline: Deadline) -> ssl.SSLContext:
        """Return the context for a new connection."""


class FixedTrust:
    """The same context for all requests."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context

    def context(self, deadline: Deadline) -> ssl.SSLContext:
        """Return it."""
        return self._context


class ReadTrust:
    """The context that *make* makes from *files*, and makes again when one of them has changed.

    *make* raises an OttlaError for files that cannot be used.
    """

    def __init__(self, make: Callable[[], ssl.SSLContext], files: Sequence[str]) -> None:
        self._make = make
        self._files = files
        self._seen = self._states()
        self._context = make()
        self._refused: tuple[_States, str] | None = None
        self._by_process: dict[int, SingleFlight[ssl.SSLContext]] = {}
        self._silent: Flight[ssl.SSLContext] | None = None  # a check whose end a request has not seen in its time

    def context(self, deadline: Deadline) -> ssl.SSLContext:
        """Return the context of the current files, if they can be read in time."""
        try:
            joined = self._flights().join(needless=lambda: False)
            assert joined is not None, "it is never needless"
            check, _new = joined
            if check.wait(0.0 if check is self._silent else min(FILES_TIMEOUT, FILES_PART * deadline.remaining())):
                return check.result()
            self._silent = check
        except OttlaError as error:  # the system has no thread, or too many wait for the files
            _log.debug("the TLS files of the schema registry are not read again: %s", error)
        return self._context

    def newest(self) -> ssl.SSLContext:
        """Return the context of the current files, however long that takes."""
        states = self._states()  # before reading, so that the next check finds a change meanwhile
        if states == self._seen:
            return self._context
        try:
            self._context = self._make()
        except OttlaError as error:
            if self._refused != (states, str(error)):
                self._refused = (states, str(error))
                _log.warning(
                    "the TLS files of the schema registry have changed and cannot be used, so the old ones stay in "
                    "use: %s",
                    error,
                )
        else:
            self._seen, self._refused = states, None
            _log.info("the TLS files of the schema registry have changed; new requests use them")
        return self._context

    def _flights(self) -> SingleFlight[ssl.SSLContext]:
        found = self._by_process.get(os.getpid())
        if found is None:  # also after a fork: the thread of a check is only in the other process
            made = SingleFlight(
                self.newest,
                name="ottla-registry-files",
                source="the TLS files of the schema registry",
                limit=LIMIT,
                wanted="their content",
                time_out=f"{LIMIT:g} s",
            )
            found = self._by_process.setdefault(os.getpid(), made)
        return found

    def _states(self) -> _States:
        return [_state(file) for file in self._files]


def _state(path: str) -> tuple[int, ...] | None:
    """Return attributes that change with a file, or None if it cannot be read."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
