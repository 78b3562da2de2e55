"""The messages to the proxy, and its answers, before the inner transport's bytes. Owns no socket.

The client says `CONNECT host port TOKEN` and a line break; the proxy answers `OK` or `NO reason`, and a line break.
"""

from __future__ import annotations

import re
from typing import Final

from ottla.errors import ConnectionFailedError, quoted
from ottla.interfaces import Secret
from ottla.plugins.transports import Negotiation, Exchange

ACCEPTED: Final = b"OK\n"
REFUSED: Final = b"NO"
LONGEST_REASON: Final = 1000

_ONE_WORD: Final = re.compile(r"[!-~]+")


def one_word(text: str) -> bool:
    """Whether *text* is one word of the protocol: printable ASCII without spaces."""
    return _ONE_WORD.fullmatch(text) is not None


def negotiation(host: str, port: int, *, token: Secret[str], proxy: str) -> Negotiation:
    """Yield exchanges and receive the answers; after the end the next byte is the inner transport's.

    *proxy* names the proxy in errors.
    """
    asked_for = _as_word(host)
    received = yield Exchange(
        send=f"CONNECT {asked_for} {port} {token.reveal()}\n".encode("ascii"),
        receive=len(ACCEPTED),  # no answer is shorter: "OK\n", "NO\n" or the beginning of "NO reason\n"
    )
    if received == ACCEPTED:
        return
    if received not in (REFUSED + b" ", REFUSED + b"\n"):
        raise ConnectionFailedError(
            f"{proxy} is no line proxy: it answered neither OK nor NO; check line.proxy.address, "
            "and whether the proxy is reached by TLS (connection.via=ssl,line-proxy)"
        )
    reason = bytearray()
    last = received[-1:]
    while last != b"\n":
        last = yield Exchange(send=b"", receive=1)
        reason += last
        if len(reason) > LONGEST_REASON:
            # Not quoted, since it may end within the token, which would not be recognised then.
            raise ConnectionFailedError(f"{proxy} refused {asked_for}:{port}, with a reason that is too long")
    said = quoted(bytes(reason).strip(), secrets=[token.reveal()]) if reason.strip() else "without a reason"
    raise ConnectionFailedError(f"{proxy} refused {asked_for}:{port}: {said}; check line.proxy.token")


def _as_word(host: str) -> str:
    """Return the broker's host as one word. Brokers advertise it, so it must not add words or lines to the request."""
    try:
        encoded = host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        encoded = ""
    if not one_word(encoded):
        raise ConnectionFailedError(f"the host {quoted(host)} cannot be requested from a line proxy")
    return encoded
