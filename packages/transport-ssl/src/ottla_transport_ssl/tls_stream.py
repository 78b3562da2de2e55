"""The TLS of one connection: OpenSSL with two memory buffers. `tls_layer` moves their bytes.

Ciphertext waits here until it can be sent, so `write` never has to be repeated with the same bytes.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, cast

import attrs

from ottla.errors import NetworkError, OttlaError
from ottla.interfaces import Buffer, Interest
from ottla_transport_ssl.contexts import Setup
from ottla_transport_ssl.handshake_details import details
from ottla_transport_ssl.handshake_errors import HandshakeInfo, broken, flooded, hung_up, no_tls, refused, suite_refused

AHEAD: Final = 256 * 1024
"""Bytes that one write accepts, once the earlier ones have left."""

RECEIVE: Final = 64 * 1024
_MAX_RECEIVED: Final = 16 * RECEIVE
"""Maximum bytes of ciphertext in one call of the handshake: a peer that sends without end must not keep the I/O thread
busy."""

_MAX_IN_A_READ: Final = RECEIVE
"""The same after the handshake. A record has at most a quarter of that, but 64 kB can be 2,400 key updates."""

MAX_WITHOUT_DATA: Final = 16 * RECEIVE
"""Maximum bytes of ciphertext since the last plaintext. Tickets and key updates take a few kB."""

MAX_QUEUED: Final = 2 * AHEAD
"""Maximum bytes that wait to be sent: more than a write leaves there are answers that the peer does not read."""
_MAX_LAST_READS: Final = 16

_FIRST_BYTES: Final = 64


class TlsStream:
    """A transport layer without the methods that move ciphertext. After an error, only `close` may be called.

    *server_name* is the name that the peer's certificate must have.
    """

    def __init__(self, *, setup: Setup, peer: str, server_name: str) -> None:
        self._info = HandshakeInfo(peer=peer, setup=setup)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = setup.context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name)
        self._unsent = memoryview(b"")
        self._first_bytes = b""
        self._without_data = 0  # bytes of ciphertext since the last plaintext
        self._ready = False

    def handshake(self) -> bool:
        """Continue the handshake as far as possible without blocking, and return whether it is complete.

        If it fails, this sends the peer an alert and raises the error.
        """
        if not self._ready and not self._handshake():
            return False
        self._check_cipher_suite()
        self._ready = True
        self._send()
        return True

    def write(self, chunks: Sequence[Buffer]) -> int:
        """Encrypt as much as the layer may buffer, once everything before it has been sent; return the bytes taken."""
        if not self._send():
            return 0
        plain = gathered(chunks, AHEAD)
        if not plain:
            return 0
        try:
            self._tls.write(plain)
        except ssl.SSLError as error:
            raise broken(error, self._info) from error
        self._send()
        return len(plain)

    def flush(self) -> bool:
        """Send ciphertext; return whether all of it has been sent."""
        return self._send()

    def read_into(self, buffer: memoryview) -> int | None:
        """Read the rest of one TLS record into *buffer*; return its bytes, 0 after the end, None if nothing arrived."""
        received = 0
        if not self.may_read() and not (received := self._receive()):
            return None
        budget = _MAX_IN_A_READ - received
        while True:
            try:
                # The number of bytes, because there is a buffer.
                got = cast(int, self._tls.read(len(buffer), buffer))
                self._without_data = 0
                return got
            except ssl.SSLWantReadError:
                self._check_messages()
                # Only here: what was received is also read, because nothing would report it again.
                if budget <= 0 or not (received := self._receive()):
                    return None
                budget -= received
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                # Also an end without close_notify: by its length, the core knows whether a response is complete.
                return 0
            except ssl.SSLError as error:
                self._push_quietly()
                raise broken(error, self._info) from error

    def interest(self) -> Interest:
        """Send what the socket accepts; return WRITE while bytes remain to be sent, and READ during the handshake."""
        # OpenSSL's own messages, for example after a key update, belong to no `write`, so they are sent here.
        self._push_quietly()
        wanted = Interest.NONE if self._ready else Interest.READ
        return wanted | Interest.WRITE if self._unsent or self._outgoing.pending else wanted

    def may_read(self) -> bool:
        """Whether OpenSSL holds plaintext, or ciphertext that was already received."""
        return self._incoming.pending > 0 or self._tls.pending() > 0

    def details(self) -> Sequence[tuple[str, str]]:
        """Return the details of the handshake, for messages."""
        info = attrs.evolve(self._info, chain=shown_chain(self._tls))
        return tuple(details(self._tls, info, now=datetime.now(UTC)))

    def cipher(self) -> tuple[str, str] | None:
        """Return the cipher suite and the protocol, for metrics."""
        suite = self._tls.cipher()
        return None if suite is None else (suite[0], self._tls.version() or "unknown")

    # The handshake

    def _handshake(self) -> bool:
        budget = _MAX_RECEIVED
        while budget > 0:
            try:
                self._tls.do_handshake()
                return True
            except ssl.SSLWantReadError:
                self._push_quietly()
                received = self._receive_greeting()
                if not received:
                    return False
                budget -= received
            except ssl.SSLEOFError as error:
                raise hung_up(self._first_bytes, self._info) from error
            except ssl.SSLError as error:
                self._push_quietly()
                raise self._refusal(error) from error
        return False

    def _receive_greeting(self) -> int:
        """Receive like `_receive`, and keep the first bytes: they identify a peer without TLS."""
        try:
            return self._receive()
        except ConnectionError as cause:
            raise hung_up(self._first_bytes, self._info) from cause

    def _refusal(self, error: ssl.SSLError) -> OttlaError:
        mismatch = no_tls(self._first_bytes, self._info)
        return mismatch or refused(error, attrs.evolve(self._info, chain=shown_chain(self._tls)))

    def _check_cipher_suite(self) -> None:
        suite, version, _bits = self._tls.cipher() or ("", "", 0)
        allowed = self._info.setup.allowed13
        if allowed is not None and version == "TLSv1.3" and suite not in allowed:
            raise suite_refused(suite, self._info)

    # Ciphertext

    def _check_messages(self) -> None:
        """End a connection whose peer sends TLS's own messages without end, each of which may make OpenSSL answer."""
        if self._outgoing.pending + len(self._unsent) > MAX_QUEUED:
            self._push_quietly()
        queued = self._outgoing.pending + len(self._unsent)
        if queued > MAX_QUEUED or self._without_data > MAX_WITHOUT_DATA:
            raise flooded(self._info)

    def _pull(self) -> bytes | None:
        """Return ciphertext from the peer, empty at its end, or None if nothing has arrived."""
        raise NotImplementedError

    def _push(self) -> bool:
        """Send OpenSSL's bytes to the peer; return whether all have been sent."""
        raise NotImplementedError

    def _receive(self) -> int:
        """Pass received ciphertext to OpenSSL; return its bytes, 1 for the end, 0 if nothing has arrived."""
        received = self._pull()
        if received is None:
            return 0
        if not received:
            self._incoming.write_eof()
            return 1
        self._incoming.write(received)
        self._without_data += len(received)
        if not self._ready and len(self._first_bytes) < _FIRST_BYTES:
            self._first_bytes += received[: _FIRST_BYTES - len(self._first_bytes)]
        return len(received)

    def _send_close_notify(self) -> None:
        """Send close_notify as far as possible without waiting."""
        if self._ready:
            with contextlib.suppress(ssl.SSLError):  # usually: the peer's close_notify is missing, and is not awaited
                self._tls.unwrap()
            self._push_quietly()

    def _push_quietly(self) -> None:
        """Send as much as possible now. An error is ignored: the next read raises it."""
        with contextlib.suppress(OSError, NetworkError):
            self._push()

    def _send(self) -> bool:
        """Send like `_push`. After a system error, raise the peer's alert instead, if it sent one."""
        try:
            return self._push()
        except (OSError, NetworkError):
            self._read_what_is_left()
            raise

    def _read_what_is_left(self) -> None:
        """Raise the peer's alert, if it sent one: in TLS 1.3 it verifies our certificate after the handshake."""
        unwanted = memoryview(bytearray(RECEIVE))
        with contextlib.suppress(OSError):
            for _ in range(_MAX_LAST_READS):
                if not self._ready or not self.read_into(unwanted):
                    return


def gathered(chunks: Sequence[Buffer], limit: int) -> Buffer:
    """Return the first bytes of all chunks, up to the limit: one OpenSSL call instead of many."""
    if len(chunks) == 1 or (chunks and len(chunks[0]) >= limit):
        return memoryview(chunks[0])[:limit]
    parts: list[Buffer] = []
    for chunk in chunks:
        if len(chunk) >= limit:
            parts.append(memoryview(chunk)[:limit])
            break
        parts.append(chunk)
        limit -= len(chunk)
    return b"".join(parts)


def shown_chain(tls: ssl.SSLObject) -> Sequence[bytes]:
    """Return the peer's certificates, also if they were refused; empty if Python cannot return them.

    Public from Python 3.13 on, and there before under another name.
    """
    inner: Any = getattr(tls, "_sslobj", None)
    try:
        if hasattr(tls, "get_unverified_chain"):
            return list(tls.get_unverified_chain())
        return [ssl.PEM_cert_to_DER_cert(certificate.public_bytes()) for certificate in inner.get_unverified_chain()]
    except (AttributeError, TypeError, ValueError, ssl.SSLError):
        return ()
