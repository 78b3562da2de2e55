"""Config providers: values for references in settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol, runtime_checkable


@runtime_checkable
class ConfigProvider(Protocol):
    """Values for references in settings, such as `${vault:kafka/producer:password}` for a provider `vault`.

    An exception of `get` becomes a problem of the configuration, or of the login that needed the value. An error of
    Ottla keeps its message; of others only the type and place are shown, because a message may hold a secret.

    Optional ability: `SupportsClose`.
    """

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        """Return the values of those *keys* that exist at *path*, which is empty in a reference without one.

        Called by the thread that makes the producer, and again for passwords: by helper threads, at each login. It may
        wait, with its own time-out.
        """
