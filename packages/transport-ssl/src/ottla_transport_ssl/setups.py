"""What the next connection is made with: an `ssl` context, made anew when a file that it came from has changed.

Files are looked at whenever a connection is opened, and only then. New ones that are no good change nothing: the
connections go on with what was read before, and one warning says why.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from ottla.errors import ConfigError, PluginMissing
from ottla_transport_ssl.certificate import day
from ottla_transport_ssl.contexts import Setup, make_setup
from ottla_transport_ssl.keys import TlsSettings

logger = logging.getLogger(__name__)

SOON: Final = timedelta(days=30)
"""A certificate that ends within this time is told of."""

_Look: TypeAlias = Sequence[tuple[int, ...] | None]


class Setups:
    """Gives out the current setup. For the I/O thread, once made. *clock* is the time of day."""

    def __init__(self, settings: TlsSettings, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._settings = settings
        self._clock = clock
        self._told: set[str] = set()
        self._seen = self._look()
        self._setup = make_setup(settings)
        self._tell_of_ends()

    def current(self) -> Setup:
        """The setup for a connection that begins now."""
        look = self._look()  # before reading: what changes meanwhile is seen the next time
        if look != self._seen:
            self._seen = look
            try:
                self._setup = make_setup(self._settings)
            except (ConfigError, PluginMissing) as error:
                logger.warning("the TLS files have changed and cannot be used, so the old ones stay in use: %s", error)
            else:
                logger.info("the TLS files have changed; new connections use them")
        self._tell_of_ends()
        return self._setup

    def _look(self) -> _Look:
        sources = (self._settings.trust, self._settings.revocation, self._settings.identity)
        return [_stamp(source.location) for source in sources if source is not None and source.location is not None]

    def _tell_of_ends(self) -> None:
        """Warn of certificates that have ended or soon will, of each once."""
        now = self._clock()
        for source, certificate in self._setup.given:
            if certificate.not_after - now < SOON and certificate.fingerprint not in self._told:
                self._told.add(certificate.fingerprint)
                verb = "expired" if certificate.not_after < now else "expires"
                logger.warning(
                    "%s: the certificate of %s %s on %s", source, certificate, verb, day(certificate.not_after)
                )


def _stamp(path: str) -> tuple[int, ...] | None:
    """What changes when a file does; None: it cannot be looked at."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
