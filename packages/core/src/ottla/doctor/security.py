"""Findings about encryption and login: a transport's handshake details, and the identity at each broker."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

from ottla.config import SecurityProtocol
from ottla.doctor.bounds import Bounds
from ottla.doctor.findings import Finding, Status, Step, excused
from ottla.doctor.handshake import HandshakeResult, KafkaBroker, NoHandshake
from ottla.doctor.login import Admitted, Answer, log_in
from ottla.errors import printable
from ottla.interfaces import Mechanism, SupportsIdentity, supports
from ottla.network.authentication import login_errors
from ottla.plugins.transports.layer_details import THROUGH, WARNING, Details


def tls(protocol: SecurityProtocol, results: Sequence[HandshakeResult]) -> Iterator[Finding]:
    """Protocol, cipher and certificates of each connection, as far as the transport reports them."""
    handshakes = [result for result in results if not isinstance(result, NoHandshake)]
    with_details = [(result, shown) for result in handshakes if (shown := _shown(result.details))]
    if protocol.transport == "plaintext" and not with_details:
        yield Finding.skipped(Step.TLS, f"not used with security.protocol={protocol}")
    elif not handshakes:
        yield Finding.skipped(Step.TLS, "no handshake was completed")
    elif not with_details:
        yield Finding.skipped(Step.TLS, "the transport reports no details of its handshake")
    for result, shown in with_details:
        warned = any(label == WARNING for label, _text in shown)
        yield Finding(
            step=Step.TLS,
            subject=str(result.endpoint),
            status=Status.WARNING if warned else Status.OK,
            seconds=result.handshake_seconds,
            message="; ".join(f"{label}: {printable(text)}" for label, text in shown),
        )


def _shown(details: Details) -> Details:
    """The details that are not in the finding of the handshake."""
    return [(label, text) for label, text in details if label != THROUGH]


def sasl(
    protocol: SecurityProtocol, mechanism: Mechanism | None, brokers: Sequence[KafkaBroker], bounds: Bounds
) -> Generator[Finding, None, Sequence[KafkaBroker]]:
    """The login at each broker; returns those that accepted it."""
    if mechanism is None:
        yield Finding.skipped(Step.SASL, f"not used with security.protocol={protocol}")
        return brokers
    answers = [log_in(broker, mechanism, bounds) for broker in brokers]
    admitted = [answer.broker for answer in answers if isinstance(answer, Admitted)]
    served = {broker.endpoint.server for broker in admitted}
    for answer in answers:
        yield excused(_login(mechanism, answer), answer.broker.endpoint.server in served)
    return admitted


def _login(mechanism: Mechanism, answer: Answer) -> Finding:
    subject = str(answer.broker.endpoint)
    if not isinstance(answer, Admitted):
        return Finding.failed(Step.SASL, subject, answer.problem, seconds=answer.seconds)
    message = _description(mechanism, answer)
    return Finding(step=Step.SASL, subject=subject, status=Status.OK, seconds=answer.seconds, message=message)


def _description(mechanism: Mechanism, answer: Admitted) -> str:
    ends = f"expires after {answer.session:g} s" if answer.session else "does not expire"
    identity = mechanism.identity if supports(mechanism, SupportsIdentity) else None
    who = f"logged in as {identity!r}" if identity else "logged in"
    return f"{who} by {mechanism.name}; the broker offers {login_errors.names(answer.offers)}; the session {ends}"
