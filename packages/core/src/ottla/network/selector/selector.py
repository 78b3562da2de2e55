"""Many connections at the same time: connect, handshake, write, read, close, and report events.

It knows nothing of requests: it writes chunks and returns frames.
"""

from __future__ import annotations

import contextlib
import errno
import selectors
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from ottla.concurrency import signals
from ottla.concurrency.environment import SYSTEM, Environment
from ottla.config.hosts import with_port
from ottla.errors import ConnectionFailedError, NameResolutionError, NetworkError, OttlaError, printable, quoted
from ottla.errors.log_throttle import ThrottledLog
from ottla.errors.plugin_origin import PluginOrigin, described, origin_of, text_of
from ottla.errors.robust_logger import robust_logger
from ottla.errors.too_many_open_files import files_remedy
from ottla.interfaces import Buffer, Interest, Target, Transport
from ottla.metrics import Counters
from ottla.network.selector.channel import Channel
from ottla.network.selector.event_pauses import EventPauses, EventUse
from ottla.network.selector.resolver import Resolver, refuse_illegal
from ottla.network.selector.socket_wait import Watch
from ottla.network.selector.targets import TargetResolver, Targets
from ottla.network.selector.transport_plugin_faults import (
    TransportPluginFaultError,
    WrongResultError,
    check_layer,
    check_targets,
)
from ottla.network.selector_interface import Address

logger = robust_logger(__name__)

_EVENTS = {
    Interest.NONE: 0,
    Interest.READ: selectors.EVENT_READ,
    Interest.WRITE: selectors.EVENT_WRITE,
    Interest.READ | Interest.WRITE: selectors.EVENT_READ | selectors.EVENT_WRITE,
}


# On Windows, EWOULDBLOCK means the same. Elsewhere it equals EAGAIN: the backlog of a Unix socket is full.
_UNDER_WAY = {errno.EINPROGRESS, errno.EWOULDBLOCK} if sys.platform == "win32" else {errno.EINPROGRESS}

_IP: Final = (socket.AF_INET, socket.AF_INET6)

_LONGEST_WAIT: Final = 3_600.0
"""Seconds. The system calls accept at most some weeks, and have another value for a wait without a limit."""


@attrs.define(eq=False, repr=False)
class _Connection:
    node: int
    sock: socket.socket
    host: str
    port: int
    peer: str
    broken: OttlaError | None = None  # the error of a failed write: ends the connection once what has arrived is read
    channel: Channel | None = None
    events: int = 0
    interest: Interest | None = None  # of the channel, when these events were set
    cipher: tuple[str, str] | None = None  # and protocol, which are counted
    stalled: bool = False  # the layer announced bytes, then returned none: wait for the socket
    use: EventUse = attrs.Factory(EventUse)

    @property
    def holds_bytes(self) -> bool:
        """Return whether bytes were received that the channel has not read."""
        return self.channel is not None and not self.stalled and self.channel.may_read


class Selector:
    """The `Selectable` with real sockets. For the I/O thread, except `wakeup`."""

    def __init__(
        self,
        *,
        transport: Transport,
        send_buffer_bytes: int,
        receive_buffer_bytes: int,
        max_response_size: int,
        environment: Environment = SYSTEM,
        counters: Counters | None = None,
    ) -> None:
        counters = counters or Counters()
        counted, self._ciphers = counters.producer, counters.ciphers
        self._waits, self._io, self._operations = counted.io_waits, counted.io, counted.operations
        self._clock = environment.clock
        self._transport = transport
        self._origin = origin_of("transport", transport)
        self._throttled_log = ThrottledLog(logger, clock=environment.clock)
        self._pauses: EventPauses[_Connection] = EventPauses(environment.clock, self._origin)
        self._send_buffer_bytes = send_buffer_bytes
        self._receive_buffer_bytes = receive_buffer_bytes
        self._max_response_size = max_response_size
        self._connections: dict[int, _Connection] = {}
        self._begun: list[_Connection] = []  # connected immediately
        self._to_close: dict[int, OttlaError] = {}
        self._wakeup_pending = False
        try:
            self._wake_reader, self._wake_writer = socket.socketpair()
        except OSError as cause:
            raise ConnectionFailedError(
                f"the producer has no socket to be woken by: {cause}{files_remedy(cause)}"
            ) from cause
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)
        if self._wake_writer.family in _IP:  # on Windows; without this a second byte would wait for an acknowledgement
            self._wake_writer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._watch = Watch(environment.clock)
        except OSError as cause:
            self._wake_reader.close()
            self._wake_writer.close()
            raise ConnectionFailedError(
                f"the producer cannot watch its sockets: {cause}{files_remedy(cause)}"
            ) from cause
        self.descriptor = self._watch.descriptor
        self.has_events = self._watch.has_events
        self._watch.register(self._wake_reader, selectors.EVENT_READ, None)
        self.connected: Sequence[int] = ()
        self.sent: Sequence[int] = ()
        self.received: Sequence[tuple[int, memoryview]] = ()
        self.disconnected: Mapping[int, OttlaError] = {}
        self._resolver = Resolver(self.wakeup, environment)
        self._targets = TargetResolver(self._resolver)
        self._clear()

    def resolve(self, host: str, port: int, *, canonical: bool = False) -> Sequence[Address] | None:
        """The addresses of the transport's own targets, else of the name; None while they are resolved."""
        refuse_illegal(host)  # before a proxy gets it
        targets = self._targets.pending(host, port)
        if targets is None:
            targets = self._transport_targets(host, port)
        if targets is None:
            return self._resolver.resolve(host, port, canonical=canonical)
        if not targets:
            raise NameResolutionError(
                f"the {self._origin.name} knows no address of {quoted(host)}; check its own settings"
            )
        found = self._targets.resolve(host, port, targets)
        return None if found is None else [Address(host=host, target=target) for target in found]

    def connect(self, node: int, target: Target, host: str, port: int) -> None:
        """Begin to connect to one address of a broker. Raises ConnectionFailedError if no socket can be made for it."""
        assert node not in self._connections, "a connection id exists once"
        peer = _peer(target, host, port)
        try:
            sock = socket.socket(target.family, socket.SOCK_STREAM)
        except OSError as cause:  # this machine lacks the address family, or this process has no more files
            raise ConnectionFailedError(
                f"could not connect to {peer}: no socket: {cause}{files_remedy(cause)}"
            ) from cause
        connection = _Connection(node=node, sock=sock, host=host, port=port, peer=peer)
        self._connections[node] = connection
        try:
            self._prepare(sock)
            result = sock.connect_ex(target.sockaddr)
            if result in _UNDER_WAY:
                self._watch_for(connection, selectors.EVENT_WRITE)
            elif result:
                self._to_close[node] = _refused(connection, result)
            else:
                self._begun.append(connection)
        except Exception as cause:  # a target that no socket accepts can raise many kinds of exceptions
            self._to_close[node] = _lost(f"could not connect to {peer}: {printable(str(cause))}", cause)

    def established(self, node: int) -> bool:
        """Return whether the peer has accepted a connection; its handshake may still go on."""
        connection = self._connections.get(node)
        return connection is not None and connection.channel is not None

    def send(self, node: int, chunks: Sequence[Buffer]) -> bool:
        """Pass a framed request to a connection, and write what the socket takes now.

        Returns True if the socket took everything, as it usually does. Then the round does not wait until the socket is
        writable, which saves 150 µs of a record's latency.
        """
        connection = self._connections[node]
        channel = connection.channel
        assert channel is not None, "nothing is sent before the connection is ready"
        channel.send(chunks)
        if node not in self._to_close and self._write(connection, channel):
            return True
        self._watch_for(connection, connection.events | selectors.EVENT_WRITE)
        return False

    def close(self, node: int, reason: NetworkError) -> None:
        """End a connection; the next `poll` reports it."""
        if node in self._connections:
            self._to_close[node] = reason

    def rename(self, node: int, new: int) -> None:
        """Use another node id for a connection, which no connection has, once the events of a poll are handled."""
        assert new not in self._connections, "a connection id exists once"
        connection = self._connections.pop(node)
        connection.node = new
        self._connections[new] = connection
        if node in self._to_close:
            self._to_close[new] = self._to_close.pop(node)

    def poll(self, timeout: float) -> None:
        """Wait for events, at most *timeout* seconds; then connect, read and write as far as possible without waiting.

        It also ends the connections that were closed since the last call. It does not wait if a connection has work.
        """
        self._clear()
        if self._to_close:
            to_close, self._to_close = self._to_close, {}
            for node, reason in to_close.items():
                self._end(node, reason)
        with_work = [c for c in list(self._connections.values()) if c.broken or self._has_work(c)]
        if self._begun or with_work or self._disconnected:
            timeout = 0.0
        before = self._clock()
        events = self._watch.select(self._pauses.shortened(min(max(timeout, 0.0), _LONGEST_WAIT)))
        woken_at = self._clock()
        self._waits.add(woken_at - before)
        masks = dict.fromkeys(with_work, 0)
        if self._begun:
            begun, self._begun = self._begun, []
            masks.update(dict.fromkeys(begun, selectors.EVENT_WRITE))
        for connection in self._pauses.over():
            masks[connection] = selectors.EVENT_READ
        for key, mask in events:
            if key.data is None:
                # Usually one byte is there, after a race of threads a few more. Bytes that are left would only end the
                # next wait.
                with contextlib.suppress(BlockingIOError):
                    self._wake_reader.recv(4096)
                # Only now: a wakeup during the read is dropped, and this round serves it anyway.
                self._wakeup_pending = False
            else:
                masks[key.data] = mask
        for connection, mask in masks.items():
            if connection.node in self._connections:
                self._advance(connection, mask)
        self._io.add(self._clock() - woken_at)

    @property
    def awaits_events(self) -> bool:
        """Return whether the next `poll` has nothing to do before the next event."""
        if self._begun or self._to_close:
            return False
        for connection in list(self._connections.values()):  # not `any`: each record that is awaited on a loop asks
            if connection.broken or self._has_work(connection):
                return False
        return True

    def wakeup(self) -> None:
        """End the current or next wait immediately; repeated calls before that cost little."""
        if self._wakeup_pending:
            return
        signals.begin()  # a signal handler between the flag and the byte would wait for a wakeup that was never sent
        try:
            self._wakeup_pending = True
            self._wake_writer.send(b"\0")
        except OSError:  # full: bytes are pending; or closed: no thread waits any more
            pass
        except BaseException:  # the byte may not be written; without it the set flag would suppress all later wakeups
            self._wakeup_pending = False
            raise
        finally:
            signals.end()

    def shutdown(self, *, forked: bool = False) -> None:
        """Close every connection and the selector itself; *forked*: only the descriptors of this process.

        A forked child shares sockets and epoll instance with its parent: it must neither notify a peer nor change what
        is watched.
        """
        if forked:
            self._watch.close()
            for connection in self._connections.values():
                connection.sock.close()
            self._connections.clear()  # a plugin may have taken over the descriptor of its socket
        for connection in list(self._connections.values()):
            self._release(connection)
        self._watch.close()
        self._wake_reader.close()
        self._wake_writer.close()

    def _transport_targets(self, host: str, port: int) -> Targets | None:
        try:
            targets = self._transport.targets(host, port)
            check_targets(targets)
            return targets
        except NetworkError:
            raise
        except WrongResultError as cause:
            raise _unresolved(host, str(cause), self._origin) from None
        except BaseException as cause:
            if signals.is_ctrl_c(cause):
                raise
            self._throttled_log.error(host, "the %s failed to resolve %s", self._origin.name, quoted(host), error=cause)
            raise _unresolved(host, described(cause), self._origin) from cause

    # One connection

    def _prepare(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if sock.family in _IP:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._send_buffer_bytes >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer_bytes)
        if self._receive_buffer_bytes >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)

    def _advance(self, connection: _Connection, mask: int) -> None:
        """Finish the connect, handshake, read, write: as far as possible without waiting."""
        try:
            self._step(connection, mask)
            channel = connection.channel
            if channel is not None and channel.ready and connection.use.count(channel.moved):
                self._watch_for(connection, 0)
                self._pauses.begin(connection, connection.use, connection.peer)
        except BaseException as cause:
            if signals.is_ctrl_c(cause):
                raise
            self._end(connection.node, connection.broken or self._failure(connection, cause))

    def _step(self, connection: _Connection, mask: int) -> None:
        channel = connection.channel
        if channel is None:
            channel = self._open(connection)
        if not channel.ready and channel.handshake():
            self._count_cipher(connection, channel.cipher())
            self._connected.append(connection.node)
        if channel.ready:
            self._read(connection, channel, mask)
            if self._write(connection, channel):
                self._sent.append(connection.node)
        if connection.broken:
            self._watch_for(connection, 0)
            return
        interest = channel.interest
        if interest is not connection.interest:  # looking up a flag is slow, and the interest rarely changes
            self._watch_for(connection, _EVENTS[interest])
            connection.interest = interest

    def _failure(self, connection: _Connection, cause: BaseException) -> OttlaError:
        """Convert an exception that ended a connection to an error of Ottla."""
        if isinstance(cause, OttlaError):
            return cause
        if isinstance(cause, OSError):
            return _lost(f"the connection to {connection.peer} was lost: {printable(text_of(cause))}", cause)
        if isinstance(cause, WrongResultError):
            return TransportPluginFaultError.on(connection.peer, self._origin, str(cause))
        self._throttled_log.error(
            connection.peer, "the %s failed on the connection to %s", self._origin.name, connection.peer, error=cause
        )
        error = TransportPluginFaultError.on(connection.peer, self._origin, described(cause))
        error.__cause__ = cause
        return error

    def _open(self, connection: _Connection) -> Channel:
        result = connection.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if result:
            raise _refused(connection, result)
        layer = self._transport.open(connection.sock, connection.host, connection.port)
        check_layer(layer)
        connection.channel = Channel(layer, peer=connection.peer, max_response_size=self._max_response_size)
        return connection.channel

    def _read(self, connection: _Connection, channel: Channel, mask: int) -> None:
        if not (mask & selectors.EVENT_READ or connection.broken or connection.holds_bytes):
            return
        self._operations.count += 1
        response = channel.read()
        connection.stalled = response is None
        if response is not None:
            self._received.append((connection.node, response))
        elif connection.broken:
            raise connection.broken

    def _write(self, connection: _Connection, channel: Channel) -> bool:
        """Continue an unfinished send, and return whether it is finished now."""
        if connection.broken or not channel.sending:
            return False
        self._operations.count += 1
        try:
            return channel.write()
        except BaseException as cause:
            if signals.is_ctrl_c(cause):
                raise
            connection.broken = self._failure(connection, cause)
            return False

    def _has_work(self, connection: _Connection) -> bool:
        """Return whether a connection holds bytes; one whose layer cannot say so ends."""
        try:
            return connection.holds_bytes
        except BaseException as cause:
            if signals.is_ctrl_c(cause):
                raise
            self._end(connection.node, self._failure(connection, cause))
            return False

    def _watch_for(self, connection: _Connection, events: int) -> None:
        if events == connection.events:
            return
        if not connection.events:
            self._watch.register(connection.sock, events, connection)
        elif not events:
            self._watch.unregister(connection.sock)
        else:
            self._watch.modify(connection.sock, events, connection)
        connection.events, connection.interest = events, None

    def _end(self, node: int, reason: OttlaError) -> None:
        connection = self._connections.get(node)
        if connection is not None:
            self._release(connection)
            self._disconnected[node] = reason

    def _release(self, connection: _Connection) -> None:
        self._watch_for(connection, 0)
        self._pauses.end(connection)
        del self._connections[connection.node]
        self._to_close.pop(connection.node, None)
        self._count_cipher(connection, None)
        if connection.channel is not None:
            try:
                connection.channel.close()
            except BaseException as cause:
                if signals.is_ctrl_c(cause):
                    raise
                self._throttled_log.error(
                    (connection.peer, "close"),
                    "the %s failed to close the connection to %s",
                    self._origin.name,
                    connection.peer,
                    error=cause,
                )
        connection.sock.close()

    def _count_cipher(self, connection: _Connection, cipher: tuple[str, str] | None) -> None:
        """Count an encrypted connection that is ready; *cipher* is None if it ends, or is not encrypted."""
        if connection.cipher is not None:
            self._ciphers[connection.cipher] -= 1
        if cipher is not None:
            self._ciphers[cipher] = self._ciphers.get(cipher, 0) + 1
        connection.cipher = cipher

    # One round

    def _clear(self) -> None:
        self._connected: list[int] = []
        self._sent: list[int] = []
        self._received: list[tuple[int, memoryview]] = []
        self._disconnected: dict[int, OttlaError] = {}
        self.connected, self.sent, self.received = self._connected, self._sent, self._received
        self.disconnected = self._disconnected


def _peer(target: Target, host: str, port: int) -> str:
    """The name of the broker in errors, with the actual address if that is another address, a port or a path."""
    where, host = target.sockaddr, printable(host)  # the name may come from metadata
    if not isinstance(where, tuple):
        return f"{with_port(host, port)} (at {printable(str(where))})"
    if where[1] != port:
        return f"{with_port(host, port)} (at {with_port(*where[:2])})"
    return with_port(host, port) + (f" ({where[0]})" if where[0] != host else "")


def _unresolved(host: str, reason: str, transport: PluginOrigin) -> NameResolutionError:
    return NameResolutionError(f"the {transport.name} failed to resolve {quoted(host)}: {reason}; {transport.remedy}")


def _refused(connection: _Connection, number: int) -> ConnectionFailedError:
    return ConnectionFailedError(f"could not connect to {connection.peer}: {errno.errorcode.get(number, number)}")


def _lost(what: str, cause: Exception) -> ConnectionFailedError:
    error = ConnectionFailedError(what)
    error.__cause__ = cause
    return error
