"""The address of an identity server, read once: what is checked is what is connected to."""

from __future__ import annotations

import urllib.parse
from typing import Final

import attrs

from ottla.config.allow_lists import normal_url

DEFAULT_PORTS: Final = {"https": 443, "http": 80}


@attrs.frozen(kw_only=True)
class Address:
    """Where the token endpoint is; `target` is path and query."""

    secure: bool
    host: str
    port: int | None
    target: str

    @classmethod
    def read(cls, url: str) -> Address:
        """From an http or https URL. ValueError does not quote it: some write secrets into URLs."""
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
        """Host and port as a Host header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"

    @property
    def host_and_port(self) -> str:
        """The same, always with a port."""
        return self.authority if self.port is not None else f"{self.authority}:{self.port_or_default}"

    @property
    def url(self) -> str:
        """All of it, in its normal form."""
        return f"{self.scheme}://{self.authority}{self.target}"

    def __str__(self) -> str:
        return self.url.partition("?")[0]
