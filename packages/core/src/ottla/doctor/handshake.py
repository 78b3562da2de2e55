"""The first exchange on a connection: the transport's handshake, then ApiVersions.

Determines the problem if there is no response, or one in another protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from ottla.doctor.bounds import Bounds
from ottla.doctor.findings import Problem
from ottla.doctor.session import PEER, BrokerSession
from ottla.doctor.tcp import Connected, Endpoint
from ottla.doctor.workers import side_by_side
from ottla.errors import (
    ConnectionFailedError,
    OttlaError,
    ProtocolError,
    ProtocolMismatchError,
    RequestTimeoutError,
    SecurityError,
    printable,
)
from ottla.interfaces import Transport
from ottla.network.api_versions import NodeApiVersions, api_versions_request, read_api_versions
from ottla.protocol import API_VERSIONS

_SECURITY: Final = "check security.protocol, and the port"
_ALIVE: Final = "check whether the broker is running, and check security.protocol and the port"
_USUALLY: Final = (
    "set security.protocol=SSL or SASL_SSL if this listener requires TLS, else check the port and, if a proxy or load "
    "balancer listens there, the broker behind it"
)


@attrs.frozen(kw_only=True)
class KafkaBroker:
    """A broker that answered ApiVersions; the caller continues with the session and closes it."""

    endpoint: Endpoint
    session: BrokerSession
    versions: Mapping[int, tuple[int, int]]
    details: Sequence[tuple[str, str]] = ()
    handshake_seconds: float
    seconds: float


@attrs.frozen(kw_only=True)
class NoHandshake:
    """The transport's handshake did not complete. `error` is what the transport raised."""

    endpoint: Endpoint
    problem: Problem
    seconds: float
    error: Exception | None = None


@attrs.frozen(kw_only=True)
class NotKafka:
    """After the handshake there was no response, or none that could be parsed; `error` says so."""

    endpoint: Endpoint
    problem: Problem
    details: Sequence[tuple[str, str]] = ()
    handshake_seconds: float
    seconds: float
    error: Exception | None = None


HandshakeResult: TypeAlias = KafkaBroker | NoHandshake | NotKafka


def do_handshakes(opened: Sequence[Connected], *, transport: Transport, bounds: Bounds) -> Sequence[HandshakeResult]:
    """Complete the transport's handshake on each connection, then send ApiVersions; one result for each, in order."""
    answers = side_by_side(
        lambda one: _do_handshake(one, transport, bounds), opened, bounds=bounds, discard=_close_session
    )
    late = Problem("the transport did not return in time", "report this to the transport plugin's authors")
    return [
        answer or NoHandshake(endpoint=one.endpoint, problem=late, seconds=0.0)
        for one, answer in zip(opened, answers, strict=True)
    ]


def _do_handshake(opened: Connected, transport: Transport, bounds: Bounds) -> HandshakeResult:
    endpoint, started = opened.endpoint, bounds.clock()
    session: BrokerSession | None = None
    try:
        session = BrokerSession(
            opened.sock, transport=transport, host=endpoint.address.host, port=endpoint.server.port, bounds=bounds
        )
        session.begin()
        details = session.details()
    except Exception as error:  # including the plugin's: each one is a finding
        (session or opened.sock).close()
        seconds = bounds.clock() - started
        problem = _handshake_problem(error, seconds=seconds)
        return NoHandshake(endpoint=endpoint, problem=problem, seconds=seconds, error=error)
    handshake_done = bounds.clock()
    try:
        api_versions = _ask_versions(session)
    except Exception as error:
        session.close()
        seconds = bounds.clock() - handshake_done
        problem = unanswered(error, seconds=seconds, remedy=_USUALLY)
        return NotKafka(
            endpoint=endpoint,
            problem=problem,
            details=details,
            handshake_seconds=handshake_done - started,
            seconds=seconds,
            error=error,
        )
    return KafkaBroker(
        endpoint=endpoint,
        session=session,
        versions=api_versions.versions,
        details=details,
        handshake_seconds=handshake_done - started,
        seconds=bounds.clock() - handshake_done,
    )


def _close_session(result: HandshakeResult) -> None:
    if isinstance(result, KafkaBroker):
        result.session.close()


def _ask_versions(session: BrokerSession) -> NodeApiVersions:
    request, version = api_versions_request(), API_VERSIONS.max_version
    api_versions = read_api_versions(version, session.ask(request, version))
    if api_versions.ask_again_with is None:
        return api_versions
    return read_api_versions(api_versions.ask_again_with, session.ask(request, api_versions.ask_again_with))


def unanswered(error: Exception, *, seconds: float, remedy: str) -> Problem:
    """The problem if a request got no response; *remedy* is for a peer that closed the connection."""
    match error:
        case ProtocolMismatchError():
            return Problem.of_error(error, remedy=_SECURITY)
        case RequestTimeoutError():
            return Problem(f"{PEER} accepted the connection, but sent nothing for {seconds:.1f} s", _ALIVE)
        case SecurityError():  # in TLS 1.3 the server checks our certificate after the handshake
            return Problem.of_error(error, remedy=remedy)
        case ConnectionFailedError() | ConnectionError():
            return Problem(f"{PEER} closed the connection without a response", remedy)
        case ProtocolError():
            problem = Problem.of_error(error, remedy=_SECURITY)
            return Problem(f"{PEER} responded, but not in Kafka's protocol ({problem.message})", problem.remedy)
        case OttlaError() | OSError():
            return Problem.of_error(error, remedy=remedy)
        case _:
            return Problem(
                f"the transport failed: {printable(repr(error))}", "report this to the transport plugin's authors"
            )


def _handshake_problem(error: Exception, *, seconds: float) -> Problem:
    if isinstance(error, RequestTimeoutError):
        return Problem(f"the handshake did not end within {seconds:.1f} s", _SECURITY)
    if isinstance(error, OSError | OttlaError):
        problem = Problem.of_error(error, remedy=_SECURITY)
        return Problem(f"the handshake failed: {problem.message}", problem.remedy)
    return unanswered(error, seconds=seconds, remedy=_SECURITY)
