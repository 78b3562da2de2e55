"""The current `ssl` context for new connections, created again when one of its files has changed.

Files are read when the producer is created, on its caller's thread. Afterwards a separate thread reads them whenever
a connection is opened. The I/O thread waits for that thread only briefly: a network file system that does not respond
must not block other connections. Invalid new files change nothing: connections use what was read before, and one
warning gives the reason.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextvars import Context
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from ottla.errors import ConfigError, PluginNotFoundError, counted
from ottla_transport_ssl.certificate import Certificate, day
from ottla_transport_ssl.contexts import Setup, make_setup
from ottla_transport_ssl.keys import TlsSettings
from ottla_transport_ssl.system_store import places

logger = logging.getLogger(__name__)

SOON: Final = timedelta(days=30)
"""Time before a certificate's end in which a warning is logged."""

FILES_TIMEOUT: float = 0.1
"""Seconds that a connection waits for its files. Local ones take a few milliseconds."""

SLOW: float = 1.0
"""Seconds after which a warning reports files that do not respond."""

_MAX_SHOWN: Final = 3

_FileStates: TypeAlias = Sequence[tuple[int, ...] | None]


class Setups:
    """Provide the current setup. Once created, only the I/O thread uses it. *clock* returns the time of day.

    Log lines begin with the *client_id*.
    """

    def __init__(
        self, settings: TlsSettings, *, client_id: str, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._settings = settings
        self._client_id = client_id
        self._clock = clock
        sources = (settings.trust, settings.revocation, settings.identity)
        self._files = [source.location for source in sources if source is not None and source.location is not None]
        if settings.trust is None:
            self._files += places()
        self._warned: set[str] = set()
        self._seen = self._file_states()
        self._setup = make_setup(settings)
        self._refused: tuple[_FileStates, str] | None = None
        self._checked = threading.Event()
        self._checked.set()
        self._check_began = 0.0
        self._slow = False
        self._warn_of_ends()

    def current(self) -> Setup:
        """Return the setup for a new connection, with the current files if they can be read in time."""
        if self._files:
            if self._checked.is_set():
                self._begin_check()
                self._checked.wait(FILES_TIMEOUT)
            else:
                self._warn_of_slow_files()
        self._warn_of_ends()
        return self._setup

    def _begin_check(self) -> None:
        self._checked.clear()
        self._check_began, self._slow = time.monotonic(), False
        try:
            threading.Thread(target=Context().run, args=(self._check,), name="ottla-tls-files", daemon=True).start()
        except BaseException as cause:
            self._checked.set()
            if not isinstance(cause, RuntimeError | MemoryError):  # Ctrl-C
                raise
            # The system has no more threads or no memory, or the interpreter ends.
            logger.debug("%s: the TLS files are not read again: %s", self._client_id, cause)

    def _warn_of_slow_files(self) -> None:
        seconds = time.monotonic() - self._check_began
        if seconds >= SLOW and not self._slow:
            self._slow = True
            logger.warning(
                "%s: reading the TLS files has not ended for %.0f s; new connections use what was read before: %s",
                self._client_id,
                seconds,
                ", ".join(self._files),
            )

    # The thread that reads files

    def _check(self) -> None:
        try:
            states = self._file_states()  # before reading, so that the next check finds a change meanwhile
            if states != self._seen:
                self._read_again(states)
        except Exception:
            logger.exception(
                "%s: reading the TLS files failed; new connections use what was read before", self._client_id
            )
        finally:
            self._checked.set()

    def _read_again(self, states: _FileStates) -> None:
        """Use the new files. Invalid files are read again at the next connection, even with unchanged stamps.

        They may have been incomplete, or the process had too many open files; neither changes a stamp.
        """
        try:
            self._setup = make_setup(self._settings)
        except (ConfigError, PluginNotFoundError) as error:
            if self._refused != (states, str(error)):
                self._refused = (states, str(error))
                logger.warning(
                    "%s: the TLS files have changed and cannot be used, so the old ones stay in use: %s",
                    self._client_id,
                    error,
                )
        else:
            self._seen, self._refused = states, None
            logger.info("%s: the TLS files have changed; new connections use them", self._client_id)

    def _file_states(self) -> _FileStates:
        return [_file_state(file) for file in self._files]

    # Expiry of certificates

    def _warn_of_ends(self) -> None:
        """Warn of certificates that have expired or soon will: once for each, with one line for each file."""
        now = self._clock()
        ending: dict[str, list[Certificate]] = {}
        for source, certificate in self._setup.given:
            if certificate.not_after - now < SOON and certificate.fingerprint not in self._warned:
                self._warned.add(certificate.fingerprint)
                ending.setdefault(str(source), []).append(certificate)
        for where, certificates in ending.items():
            _warn_of_end(self._client_id, where, sorted(certificates, key=lambda each: each.not_after), now)


def _warn_of_end(client_id: str, where: str, certificates: Sequence[Certificate], now: datetime) -> None:
    if len(certificates) == 1:
        [one] = certificates
        verb = "expired" if one.not_after < now else "expires"
        logger.warning("%s: %s: the certificate of %s %s on %s", client_id, where, one, verb, day(one.not_after))
        return
    shown = [f"{each.subject!r} on {day(each.not_after)}" for each in certificates[:_MAX_SHOWN]]
    if more := len(certificates) - len(shown):
        shown.append(f"and {more} more")
    expired = sum(each.not_after < now for each in certificates)
    soon = len(certificates) - expired
    logger.warning(
        "%s: %s: %s expired, and %s within %d days: %s",
        client_id,
        where,
        f"{counted(expired, 'certificate')} {'has' if expired == 1 else 'have'}",
        f"{soon} expires" if soon == 1 else f"{soon} expire",
        SOON.days,
        ", ".join(shown),
    )


def _file_state(path: str) -> tuple[int, ...] | None:
    """Return attributes that change with a file, or None if it cannot be read."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
