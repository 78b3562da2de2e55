"""The doctor's findings about TLS and authentication: a handshake, our identity, and reasons of a refusal."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

import attrs
import pytest
from broker_on_a_socket import SECRET, SocketBroker, settings, third_party_installed
from test_doctor_transports import OneTransport, bounds, handshake_result

import third_party_mechanism
from ottla.config import SecurityProtocol
from ottla.doctor import Examination, Finding, Problem, Status, Step, examine
from ottla.doctor.advertised import advertised
from ottla.doctor.cluster_view import ClusterView
from ottla.doctor.handshake import KafkaBroker, NoHandshake, NotKafka
from ottla.doctor.security import tls
from ottla.errors import CertificateExpiredError, ClientCertificateRequiredError, ErrorCode
from ottla.hookspecs import hookimpl
from ottla.plugins.transports import SocketLayer
from ottla.protocol import MetadataResponseBroker
from ottla.protocol.messages.sasl_authenticate import SASL_AUTHENTICATE, SaslAuthenticateResponse
from ottla_testkit.simulation import Session, SimulatedLogin
from ottla_testkit.simulation.login import HangUpError
from third_party_mechanism import Scripted
from wrong_peers import ScriptedBroker, serving

__all__ = ["third_party_installed"]

pytestmark = pytest.mark.usefixtures("third_party_installed")

ANN = {"ann": SECRET}


def examined(
    login: SimulatedLogin, change: Callable[[SocketBroker], object] | None = None, **others: str
) -> Examination:
    broker = SocketBroker.secured(login)
    if change is not None:
        change(broker)
    with broker.serving() as servers:
        return examine(dict(settings(servers, **others)), topic="t", send=True, timeout=60.0)


def the(examination: Examination, step: Step) -> Finding:
    [finding] = [finding for finding in examination.findings if finding.step is step]
    return finding


def test_a_login_is_reported_with_mechanism_offers_and_session_end() -> None:
    examination = examined(SimulatedLogin(users=ANN, lifetime=90.0, mechanisms=["X-PLAIN", "SCRAM-SHA-256"]))

    finding = the(examination, Step.SASL)
    assert finding.status is Status.OK
    assert finding.message == (
        "logged in by X-PLAIN; the broker offers X-PLAIN, SCRAM-SHA-256; the session expires after 90 s"
    )
    assert finding.seconds > 0
    assert examination.healthy
    assert the(examination, Step.RECORD).message.startswith("acknowledged")


@pytest.mark.parametrize("server", [None, "127.0.0.1:9"])
def test_the_mechanism_is_closed_after_the_examination(server: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = Scripted(first=lambda: f"\0ann\0{SECRET}".encode())
    make = hookimpl(lambda config: mechanism)
    make.__name__ = "ottla_authenticator"
    monkeypatch.setattr(third_party_mechanism, "ottla_authenticator", make)
    broker = SocketBroker.secured(SimulatedLogin(users=ANN))
    with broker.serving() as servers:
        examine(dict(settings(server or servers)), timeout=60.0)

    assert mechanism.closed == 1


def test_the_plugin_of_the_login_is_reported_with_the_transport() -> None:
    examination = examined(SimulatedLogin(users=ANN))

    assert "authenticator X-PLAIN of" in the(examination, Step.CONFIGURATION).message


def test_a_refused_login_is_the_cause_and_ends_the_examination() -> None:
    examination = examined(SimulatedLogin(users=ANN), password="wrong as can be")

    assert examination.cause is not None
    assert "refused our X-PLAIN credentials: Authentication failed: Invalid username or password; check" in (
        examination.cause.sentence
    )
    assert the(examination, Step.METADATA).message == "no bootstrap server accepted the login"
    assert "wrong as can be" not in str(attrs.asdict(examination))


def test_an_unsupported_mechanism_is_reported_with_those_of_the_broker() -> None:
    examination = examined(SimulatedLogin(users=ANN, mechanisms=["PLAIN"]))

    assert examination.cause is not None
    assert "set sasl.mechanism to one that it offers: PLAIN" in examination.cause.sentence


def test_a_listener_without_sasl_is_reported_as_such() -> None:
    examination = examined(SimulatedLogin(users=ANN, handshake_code=ErrorCode.ILLEGAL_SASL_STATE))

    assert "does not use SASL on this listener" in the(examination, Step.SASL).message


def of_old(broker: SocketBroker) -> None:
    """Without SaslAuthenticate."""
    del broker.broker.versions[SASL_AUTHENTICATE.key]


def test_an_old_broker_gets_unframed_tokens() -> None:
    finding = the(examined(SimulatedLogin(users=ANN), of_old), Step.SASL)

    assert finding.message.endswith("the session does not expire")


def test_an_old_broker_that_closes_in_a_login_may_mean_bad_credentials() -> None:
    finding = the(examined(SimulatedLogin(users=ANN), of_old, password="wrong"), Step.SASL)

    assert "credentials may be wrong" in finding.message


def test_a_broker_that_is_silent_in_a_login_is_reported_as_such() -> None:
    broker = SocketBroker.secured(SimulatedLogin(users=ANN, silent=True))
    with broker.serving() as servers:
        examination = examine(dict(settings(servers)), timeout=2.1)

    assert (
        "during the login, the server accepted the connection, but sent nothing" in the(examination, Step.SASL).message
    )


def test_a_broker_that_closes_in_a_login_is_reported_as_such() -> None:
    def hang_up(_session: Session, _token: bytes) -> SaslAuthenticateResponse:
        raise HangUpError("without a word")

    finding = the(examined(SimulatedLogin(users=ANN, verify=hang_up)), Step.SASL)

    assert finding.status is Status.FAILED
    assert finding.message.startswith("during the login, the server closed the connection")


# TLS


class LayerWithDetails(SocketLayer):
    """Reports details of a handshake that it never made."""

    reported: Sequence[tuple[str, str]] = (("protocol", "TLSv1.3"), ("subject", "CN=kafka-1"))

    def details(self) -> Sequence[tuple[str, str]]:
        return self.reported


def shaken(make: Callable[[socket.socket], SocketLayer]) -> KafkaBroker:
    with serving(ScriptedBroker()) as address:
        found = handshake_result(address, OneTransport(make), bounds())
        assert isinstance(found, KafkaBroker)
        found.session.close()
        return found


def test_handshake_details_of_a_transport_are_shown_in_order() -> None:
    [finding] = tls(SecurityProtocol.SSL, [shaken(LayerWithDetails)])

    assert finding.status is Status.OK
    assert finding.message == "protocol: TLSv1.3; subject: CN=kafka-1"
    assert finding.seconds > 0


def test_a_warning_of_a_transport_is_a_warning() -> None:
    found = attrs.evolve(shaken(LayerWithDetails), details=(("warning", "expires in 3 days"),))

    [finding] = tls(SecurityProtocol.SASL_SSL, [found])

    assert finding.status is Status.WARNING
    assert finding.message == "warning: expires in 3 days"


def test_a_transport_without_details_is_accepted() -> None:
    [finding] = tls(SecurityProtocol.SSL, [shaken(SocketLayer)])

    assert finding.status is Status.SKIPPED


def test_without_a_handshake_there_are_no_details() -> None:
    found = shaken(LayerWithDetails)
    failed = NoHandshake(endpoint=found.endpoint, problem=Problem("refused", "look"), seconds=0.0)

    [finding] = tls(SecurityProtocol.SSL, [failed])

    assert finding.message == "no handshake was completed"


class RefusedLate(SocketLayer):
    """As TLS 1.3: what the server thinks of our certificate is heard after the handshake."""

    def read_into(self, buffer: memoryview) -> int | None:
        raise ClientCertificateRequiredError("kafka-1 requires a client certificate; set ssl.keystore.location")


def test_a_refusal_after_the_handshake_keeps_its_message() -> None:
    with serving(ScriptedBroker()) as address:
        found = handshake_result(address, OneTransport(RefusedLate), bounds())

    assert isinstance(found, NotKafka)
    assert found.problem == Problem("kafka-1 requires a client certificate", "set ssl.keystore.location")


def expired(_sock: socket.socket) -> SocketLayer:
    raise CertificateExpiredError("kafka-2 has a certificate that expired yesterday; have it renewed")


@pytest.mark.parametrize("make", [expired, RefusedLate])
def test_an_advertised_broker_that_fails_in_tls_gets_the_remedy_of_tls(
    make: Callable[[socket.socket], SocketLayer],
) -> None:
    """Another address would not help; the certificate is what has to be changed."""
    with serving(ScriptedBroker()) as (host, port):
        brokers = {2: MetadataResponseBroker(node_id=2, host=host, port=port)}
        view = ClusterView(cluster_id="c", controller=1, brokers=brokers, topic=None)
        found = advertised(view, transport=OneTransport(make), protocol=SecurityProtocol.SSL, bounds=bounds())[2]

    assert found.message.startswith("the broker advertises an address that does not work from here")
    assert found.remedy in {"have it renewed", "set ssl.keystore.location"}
