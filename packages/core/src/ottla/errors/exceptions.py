"""The exceptions, grouped by what the caller can do about them.

Raised by `Producer(...)`: `ConfigError`, `PluginError`.
Raised by `send`, if the record was not queued: `InvalidRecordError`, `RecordTooLargeError`, `SerializationError`,
`TopicUnavailableError`, `SecurityError`, `BufferExhaustedError`, `ProducerClosedError`, `ProducerFailedError`,
`IllegalStateError`, and `InvalidPluginError` for a fault of the partitioner; by `send_table` also `TableReadError`.
The error of a record that was queued: `DeliveryError`, or a subclass; of a table: `TableDeliveryError`.
Raised by `flush` and `close`: `UndeliveredError`; by `flush` also `FlushTimeoutError`.
Raised by the methods for transactions: `TransactionError`, or a subclass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ottla.errors.codes import ErrorCode
from ottla.errors.quoting import printable
from ottla.results import DeliveryReport, RecordMetadata, TableResult
from ottla.results.call_hints import ERROR_HINTS, with_call_hints
from ottla.results.stories import RecordStory


class RowOutcomes(Protocol):
    """The rows of a table that an error is about, by number. `ottla.TableDelivery` implements it."""

    @property
    def rows(self) -> int:
        """The number of rows taken from the table."""

    def done(self) -> bool:
        """Return whether every row's outcome is known; never blocks."""

    def result(self, timeout: float | None = None) -> TableResult:
        """The counts; waits at most *timeout* seconds for them."""

    def failed_rows(self) -> Mapping[int, DeliveryError]:
        """The rows that have failed so far, in order, with their errors; never blocks."""

    def metadata(self, row: int) -> RecordMetadata | None:
        """The metadata of an acknowledged row, None while it is pending; never blocks."""


@with_call_hints(ERROR_HINTS)
class OttlaError(Exception):
    """The base class of all errors that Ottla raises on purpose.

    `delivery` is set when `send_table` fails in the middle of a table: the outcome of the rows taken so far.

    An error can be copied and pickled, with its attributes, its notes, and a cause of Ottla, but without `delivery`.
    """

    delivery: RowOutcomes | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # Not by calling the class with `args`, as for other exceptions: those are not the arguments of every __init__.
        # If a worker's exception cannot be unpickled, multiprocessing.Pool waits for its result for ever.
        attributes: dict[str, Any] = {name: value for name, value in self.__dict__.items() if name != "delivery"}
        if isinstance(self.__cause__, OttlaError):
            attributes["__cause__"] = self.__cause__
        arguments = super().__reduce__()[1]  # `args`, and what a built-in class has besides, such as a file's name
        return _rebuilt, (type(self), arguments), attributes


def _rebuilt(kind: type[OttlaError], args: tuple[Any, ...]) -> OttlaError:
    """An error without its attributes, for `OttlaError.__reduce__`."""
    builtin: Any = next(each for each in kind.__mro__ if each.__module__ == "builtins")
    error: OttlaError = builtin.__new__(kind, *args)
    builtin.__init__(error, *args)
    return error


class ConfigError(OttlaError, ValueError):
    """The configuration cannot be used; `problems` lists everything that is wrong with it, not only the first."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        lines = self.problems if len(self.problems) == 1 else ("", *(f"- {problem}" for problem in self.problems))
        super().__init__("the configuration cannot be used: " + "\n".join(lines))


class PluginError(OttlaError):
    """A plugin that the configuration asks for is not available."""


class PluginNotFoundError(PluginError):
    """No installed package offers the plugin; the message says what to install."""


class InvalidPluginError(PluginError):
    """The plugin is installed but cannot be used; the message names it, or its class, and what is wrong."""


class IllegalStateError(OttlaError, RuntimeError):
    """A call that is not allowed here, such as `flush` inside a delivery callback."""


class ProducerClosedError(OttlaError):
    """The producer was closed, or belongs to the process that this one was forked from. Make a new one."""


class ProducerFailedError(OttlaError):
    """The I/O thread failed with an error that it cannot survive; the cause is attached. Make a new producer."""


class InvalidRecordError(OttlaError, ValueError):
    """The record can never be sent as it is; nothing was queued."""


class RecordTooLargeError(InvalidRecordError):
    """The record is larger than `max.request.size` or `buffer.memory`; nothing was queued."""


class SerializationError(InvalidRecordError):
    """The serializer refused a key or value, or its lookup failed; the cause is attached and nothing was queued."""


class RowSerializationError(OttlaError, ValueError):
    """Raised by the `serialize_column` of a serializer for rows that it cannot serialize. `send_table` never raises it.

    `rows` maps the index of each such row in the column to the reason.
    """

    def __init__(self, rows: Mapping[int, str]) -> None:
        first = min(rows)
        others = f", and {len(rows) - 1} more" if len(rows) > 1 else ""
        super().__init__(f"row {first}: {rows[first]}{others}")
        self.rows = rows


class NotPreparedError(OttlaError):
    """Raised by a serializer that has to wait for a lookup first: the core then calls its `prepare`.

    `send` never raises it.
    """


class TopicUnavailableError(OttlaError):
    """The topic or partition cannot be used, or was not known within `max.block.ms`; the message says why."""


class BufferExhaustedError(OttlaError):
    """No memory became free within `max.block.ms`; nothing was queued. Send slower or raise `buffer.memory`."""


class NetworkError(OttlaError):
    """A failure on the way to a broker; retried until a deadline ends the attempts."""


class ConnectionFailedError(NetworkError):
    """A connection could not be made or was lost."""


class ConnectionRetiredError(ConnectionFailedError):
    """We closed the connection: idle for `connections.max.idle.ms`, or its broker left the cluster."""


class NameResolutionError(ConnectionFailedError):
    """A broker's name has no address. `final`: the resolver reports that the name does not exist."""

    def __init__(self, message: str, *, final: bool = False) -> None:
        self.final = final
        super().__init__(message)


class BrokersUnreachableError(ConnectionFailedError):
    """A bootstrap server answers, but a broker was never reached at its advertised address; attempts continue."""


class ResponseTooLargeError(ConnectionFailedError):
    """A broker announced a response above `receive.message.max.bytes`; the connection was closed before it arrived."""


class ProtocolMismatchError(ConnectionFailedError):
    """The peer speaks another protocol: TLS where we do not, or not Kafka at all. The message says which."""


class SecurityError(ConnectionFailedError):
    """One side does not trust the other; a retry with the same settings will not help. Raised as a subclass."""


class TlsHandshakeError(SecurityError):
    """The TLS handshake was refused, by us or by the broker; the message states the reason and the remedy."""


class CertificateNotTrustedError(TlsHandshakeError):
    """No trusted authority signed the broker's certificate; the message has subject, issuer and trust source."""


class CertificateExpiredError(TlsHandshakeError):
    """A certificate of the broker is not valid now; the message states its dates."""


class CertificateRevokedError(TlsHandshakeError):
    """The issuer of the broker's certificate has revoked it, by a list in `ssl.crl.location`."""


class RevocationUnknownError(TlsHandshakeError):
    """`ssl.crl.location` contains no usable list of the issuer of the broker's certificate; the message says why."""


class HostnameMismatchError(TlsHandshakeError):
    """The broker's certificate is for other names than the one we connected to; the message lists them."""


class ClientCertificateRequiredError(TlsHandshakeError):
    """The broker requires a client certificate, or refused the one that it got (`ssl.keystore.*`)."""


class AuthenticationError(SecurityError):
    """The broker refused our credentials, or could not prove that it knows them; the message quotes the broker."""


class UnsupportedSaslMechanismError(AuthenticationError):
    """The broker does not offer `sasl.mechanism`; the message lists what it offers."""


class SessionExpiredError(AuthenticationError):
    """The broker ended a session whose credentials were not renewed in time (KIP-368)."""


class RequestTimeoutError(NetworkError):
    """A broker did not answer within `request.timeout.ms`."""


class ProtocolError(OttlaError):
    """The peer's bytes violate the protocol: a fault of the peer, or of something in between."""


class CorruptBatchError(ProtocolError):
    """A record batch whose length, checksum, codec or content is wrong."""


class UnsupportedVersionError(OttlaError):
    """The broker and we share no version of a request, or the version lacks a field that is needed."""


class BrokerError(OttlaError):
    """A broker refused a request. `code` is the reason; `detail` is the broker's message, if any, made printable."""

    def __init__(self, code: ErrorCode, detail: str | None = None) -> None:
        self.code = code
        self.detail = printable(detail) if detail is not None else None
        super().__init__(f"{code.name} ({code.value}): {self.detail or code.meaning}")


class DeliveryError(OttlaError):
    """A queued record failed after `attempts` requests; the cause is attached. Never raised by `send`.

    `possibly_persisted` is False only if the record was never sent, or if each attempt was certainly refused before the
    append. Otherwise the broker may hold it: NOT_LEADER_OR_FOLLOWER, for example, may come from a leader that wrote the
    record.

    `story` says what happened to the record and when, or is None if the record was never queued.
    """

    story: RecordStory | None = None

    def __init__(self, message: str, *, topic: str, partition: int, attempts: int, possibly_persisted: bool) -> None:
        self.topic = topic
        self.partition = partition
        self.attempts = attempts
        self.possibly_persisted = possibly_persisted
        super().__init__(message)


class DeliveryTimeoutError(DeliveryError):
    """`delivery.timeout.ms` passed before the record was acknowledged."""


class UndeliveredError(OttlaError):
    """Records failed and their errors were never retrieved. `report` holds the counts; the first cause is attached."""

    def __init__(self, report: DeliveryReport, message: str) -> None:
        self.report = report
        super().__init__(message)


class TableDeliveryError(OttlaError):
    """Rows of a table failed; `result` contains the counts, and the first cause is attached."""

    def __init__(self, result: TableResult, message: str) -> None:
        self.result = result
        super().__init__(message)


class TableReadError(OttlaError):
    """Reading the table's stream failed; the cause is attached, and `delivery` is that of the rows before."""


class FlushTimeoutError(OttlaError, TimeoutError):
    """`flush` ran out of time; nothing was dropped, and sending continues. `report` contains the counts.

    It retrieves no errors of failed records: the next `flush` or `close` raises them.
    """

    def __init__(self, report: DeliveryReport, message: str) -> None:
        self.report = report
        super().__init__(message)


class TransactionError(OttlaError):
    """A transaction failed or cannot do this now; the message names its state and the next step."""


class AbortableTransactionError(TransactionError):
    """The transaction cannot be committed; call `abort_transaction`, then begin another one."""


class FatalTransactionError(TransactionError):
    """The transactional producer can do nothing more; close it and make a new one."""


class ProducerFencedError(FatalTransactionError):
    """Another producer has taken the transactional id over, which aborted this producer's open transaction."""


class TransactionTimeoutError(TransactionError, TimeoutError):
    """The response did not come in time; call the same method again to wait for the same outcome."""


class TransactionAbortedError(DeliveryError):
    """The record was dropped because its transaction was aborted, or had failed and could only be aborted."""
