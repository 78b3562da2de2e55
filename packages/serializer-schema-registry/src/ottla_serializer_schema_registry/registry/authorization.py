"""The login at a registry: a header that no error, log line, repr or local variable shows."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from ottla.errors import Secrets
from ottla.interfaces import Secret


class Authorization:
    """The header of requests. As long as it exists, text of the registry shows it, and the secrets in it, as stars."""

    def __init__(
        self, scheme: str, credentials: Secret[str], *more: Secret[str], headers: Sequence[tuple[str, str]] = ()
    ) -> None:
        self._scheme = scheme
        self._credentials = credentials
        self._headers = headers
        self._echoes = Secrets(*(secret.reveal() for secret in (credentials, *more)))

    @classmethod
    def basic(cls, user_info: Secret[str]) -> Authorization:
        """Return that of a user and password, joined by a colon."""
        encoded = Secret(base64.b64encode(user_info.reveal().encode()).decode())
        return cls("Basic", encoded, user_info, Secret(user_info.reveal().partition(":")[2]))

    @classmethod
    def bearer(cls, token: Secret[str], headers: Sequence[tuple[str, str]] = ()) -> Authorization:
        """Return that of a token; *headers* are sent with it."""
        return cls("Bearer", token, headers=headers)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Authorization):
            return NotImplemented
        return self._scheme == other._scheme and self._credentials == other._credentials

    def __hash__(self) -> int:
        return hash((self._scheme, self._credentials))

    def headers(self) -> list[tuple[str, str]]:
        """Return the headers. Keep them in no variable."""
        return [("Authorization", f"{self._scheme} {self._credentials.reveal()}"), *self._headers]
