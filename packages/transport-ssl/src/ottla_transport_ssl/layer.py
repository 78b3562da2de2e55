"""One encrypted connection: OpenSSL between two buffers in memory, and the socket that they are moved to and from.

Ciphertext waits here until the socket takes it, so `write` never has to be repeated with the same bytes.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, cast

import attrs

from ottla.errors import OttlaError
from ottla.interfaces import Buffer, Interest
from ottla_transport_ssl.contexts import Setup
from ottla_transport_ssl.details import details
from ottla_transport_ssl.refusals import Meeting, broken, hung_up, no_tls, refused, suite_refused

AHEAD: Final = 256 * 1024
"""Bytes that are taken over at a time, once the socket has taken those before."""

RECEIVE: Final = 64 * 1024
_MOST_RECEIVES: Final = 16
"""In one call: a peer that never stops talking must not keep the I/O thread."""

_FIRST_BYTES: Final = 64


class TlsLayer:
    """Made by `TlsTransport.open`; *server_name* is the peer's in its certificate. After an error, only close it."""

    def __init__(self, sock: socket.socket, *, setup: Setup, peer: str, server_name: str) -> None:
        self._sock = sock
        self._meeting = Meeting(peer=peer, setup=setup)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = setup.context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name)
        self._unsent = memoryview(b"")
        self._heard = b""
        self._ready = False

    def handshake(self) -> bool:
        """As far as the bytes that are there allow. A refusal is raised, and the peer is told of it by an alert."""
        if not self._ready and not self._shake():
            return False
        self._judge_suite()
        self._ready = True
        self._send()
        return True

    def write(self, chunks: Sequence[Buffer]) -> int:
        """Encrypt as much as may be taken ahead, once everything before it has left."""
        if not self._send():
            return 0
        plain = gathered(chunks, AHEAD)
        if not plain:
            return 0
        try:
            self._tls.write(plain)
        except ssl.SSLError as error:
            raise broken(error, self._meeting) from error
        self._send()
        return len(plain)

    def flush(self) -> bool:
        """Whether the socket has taken all ciphertext."""
        return self._send()

    def read_into(self, buffer: memoryview) -> int | None:
        """What one TLS record holds, or what is left of it."""
        if not self.may_read() and not self._receive():
            return None
        for _ in range(_MOST_RECEIVES):
            try:
                return cast(int, self._tls.read(len(buffer), buffer))  # how many, as there is a buffer
            except ssl.SSLWantReadError:
                if not self._receive():
                    return None
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                # Without a goodbye, too: an answer that was cut short is noticed by its length.
                return 0
            except ssl.SSLError as error:
                self._tell()
                raise broken(error, self._meeting) from error
        return None

    def interest(self) -> Interest:
        """To send what waits, and to hear during the handshake."""
        # Answers of TLS itself, to a change of keys for example, are in nobody's `write`: they leave here.
        self._tell()
        wanted = Interest.NONE if self._ready else Interest.READ
        return wanted | Interest.WRITE if self._unsent or self._outgoing.pending else wanted

    def may_read(self) -> bool:
        """Whether OpenSSL holds plaintext, or ciphertext that the socket has already given."""
        return self._incoming.pending > 0 or self._tls.pending() > 0

    def details(self) -> Sequence[tuple[str, str]]:
        """What the handshake came to, for people."""
        meeting = attrs.evolve(self._meeting, chain=shown_chain(self._tls))
        return tuple(details(self._tls, meeting, now=datetime.now(UTC)))

    def close(self) -> None:
        """Say goodbye (close_notify), as far as the socket takes it at once."""
        with contextlib.suppress(OSError):  # the peer may be gone already; an SSLError is one, too
            if self._ready:
                with contextlib.suppress(ssl.SSLError):  # mostly: its own goodbye has not come, and is not waited for
                    self._tls.unwrap()
                self._tell()
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    # The handshake

    def _shake(self) -> bool:
        for _ in range(_MOST_RECEIVES):
            try:
                self._tls.do_handshake()
                return True
            except ssl.SSLWantReadError:
                self._tell()
                if not self._receive_greeting():
                    return False
            except ssl.SSLEOFError as error:
                raise hung_up(self._heard, self._meeting) from error
            except ssl.SSLError as error:
                self._tell()
                raise self._refusal(error) from error
        return False

    def _receive_greeting(self) -> bool:
        """As `_receive`, with a look at the first bytes: they tell who is there when it is not TLS."""
        try:
            return self._receive()
        except ConnectionError as cause:
            raise hung_up(self._heard, self._meeting) from cause

    def _refusal(self, error: ssl.SSLError) -> OttlaError:
        stranger = no_tls(self._heard, self._meeting)
        return stranger or refused(error, attrs.evolve(self._meeting, chain=shown_chain(self._tls)))

    def _judge_suite(self) -> None:
        suite, version, _bits = self._tls.cipher() or ("", "", 0)
        allowed = self._meeting.setup.allowed13
        if allowed is not None and version == "TLSv1.3" and suite not in allowed:
            raise suite_refused(suite, self._meeting)

    # The socket

    def _receive(self) -> bool:
        """Move to OpenSSL what the socket has, the end included; False: nothing now."""
        try:
            received = self._sock.recv(RECEIVE)
        except (BlockingIOError, InterruptedError):
            return False
        if not received:
            self._incoming.write_eof()
            return True
        self._incoming.write(received)
        if not self._ready and len(self._heard) < _FIRST_BYTES:
            self._heard += received[: _FIRST_BYTES - len(self._heard)]
        return True

    def _push(self) -> bool:
        """Move to the socket what OpenSSL has; True: all of it."""
        while self._unsent or self._outgoing.pending:
            if not self._unsent:
                self._unsent = memoryview(self._outgoing.read())
            try:
                sent = self._sock.send(self._unsent)
            except (BlockingIOError, InterruptedError):
                return False
            self._unsent = self._unsent[sent:]
            if self._unsent:
                return False  # the socket is full
        return True

    def _tell(self) -> None:
        """Send what can be sent now; a socket that is broken is noticed when it is read."""
        with contextlib.suppress(OSError):
            self._push()

    def _send(self) -> bool:
        """As `_push`; what the peer said before it closed tells more than the system's error."""
        try:
            return self._push()
        except OSError:
            self._hear_last_words()
            raise

    def _hear_last_words(self) -> None:
        """Raise a refusal that has arrived: in TLS 1.3 our certificate is judged after the handshake."""
        unwanted = memoryview(bytearray(RECEIVE))
        with contextlib.suppress(OSError):
            for _ in range(_MOST_RECEIVES):
                if not self._ready or not self.read_into(unwanted):
                    return


def gathered(chunks: Sequence[Buffer], limit: int) -> Buffer:
    """The first bytes of all chunks in a row, as many as the limit allows: one call of OpenSSL in place of many."""
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
    """The certificates that the peer has shown, also where they were refused; nothing where Python cannot say.

    Public from Python 3.13 on, and there before under another name.
    """
    inner: Any = getattr(tls, "_sslobj", None)
    try:
        if hasattr(tls, "get_unverified_chain"):
            return list(tls.get_unverified_chain())
        return [ssl.PEM_cert_to_DER_cert(certificate.public_bytes()) for certificate in inner.get_unverified_chain()]
    except (AttributeError, TypeError, ValueError, ssl.SSLError):
        return ()
