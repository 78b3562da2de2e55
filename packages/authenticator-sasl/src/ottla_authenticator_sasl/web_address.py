"""The address of an identity server, parsed once, so that the address that was checked is the one that is used."""

from __future__ import annotations

import urllib.parse
from typing import Final

import attrs

from ottla.config.allow_lists import normal_url

DEFAULT_PORTS: Final = {"https": 443, "http": 80}


@attrs.frozen(kw_only=True)
class Address:
    """The address of the token endpoint; `target` is path and query."""

    secure: bool
    host: str
    port: int | None
    target: str

    @classmethod
    def read(cls, url: str) -> Address:
        """Parse an http or https URL. The ValueError for an invalid one does not quote it: it may contain a secret."""
        parts = urllib.parse.urlsplit(normal_url(url))
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return cls(secure=parts.scheme == "https", host=parts.hostname or "", port=parts.port, target=target)

    @property
    def scheme(self) -> str:
        """`https` or `http`."""
        return "https" if self.secure else "http"

    @property
    def port_or_default(self) -> int:
        """The port to connect to."""
        return DEFAULT_PORTS[self.scheme] if self.port is None else self.port

    @property
    def authority(self) -> str:
        """Host and port as in a Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"

    @property
    def host_and_port(self) -> str:
        """Host and port, always with a port."""
        return self.authority if self.port is not None else f"{self.authority}:{self.port_or_default}"

    @property
    def url(self) -> str:
        """The whole URL, in its normal form."""
        return f"{self.scheme}://{self.authority}{self.target}"

    def __str__(self) -> str:
        return self.url.partition("?")[0]
