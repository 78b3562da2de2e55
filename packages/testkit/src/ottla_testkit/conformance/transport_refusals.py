"""The requirements for a transport whose peer refuses, and for its secrets."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import ClassVar, Final

import pytest

from ottla.errors import NetworkError
from ottla.interfaces import Transport
from ottla_testkit.conformance.harness.checked_layer import check
from ottla_testkit.conformance.harness.secret_leaks import Secrets
from ottla_testkit.conformance.harness.session import LayerSession
from ottla_testkit.conformance.harness.transport_connections import Begin, MakePeer, TransportConnections
from ottla_testkit.conformance.transport_handshake import GARBAGE, begin_with_garbage

_LONGEST: Final = 2000
"""Characters of an error: a peer's text in it must be shortened."""


class RefusalRequirements(TransportConnections):
    """The requirements of `TransportConformance` for refusals and for secrets."""

    secrets: ClassVar[Sequence[str]] = ()
    """Secret settings of the transport under test, such as the password of a proxy; none of them may be shown."""

    @pytest.fixture
    def refusing_peer(self) -> MakePeer | None:
        """A function that makes a peer which refuses the connection in its protocol, and keeps it open; or None."""
        return None

    def test_a_refusal_of_the_peer_is_a_network_error(self, begin: Begin, refusing_peer: MakePeer | None) -> None:
        if refusing_peer is None:
            pytest.skip("no fixture `refusing_peer` makes a peer that refuses the connection")
        session = begin(by=refusing_peer)
        session.until(
            lambda: session.over or session.ready, "the peer has refused, and handshake() does not report it", ends=True
        )
        failure = session.failure
        check(not session.ready, "the peer has refused, and the handshake is complete: its answer is not read")
        check(
            isinstance(failure, NetworkError),
            f"a peer that refused is a NetworkError of ottla.errors, which says what helps, and not {failure!r}",
        )
        length = len(str(failure))
        check(
            0 < length <= _LONGEST,
            f"the error for a refusal has {length} characters; it must say what was refused, and quote at most a part "
            "of the peer's text (ottla.errors.quoted)",
        )

    def test_secrets_are_never_shown(
        self,
        transport: Transport,
        begin: Begin,
        refusing_peer: MakePeer | None,
        caplog: pytest.LogCaptureFixture,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        if not self.secrets:
            pytest.skip("`secrets` is empty: there is nothing to look for")
        caplog.set_level(logging.DEBUG)
        secrets = Secrets(self.secrets)
        secrets.check_silent("targets()", transport.targets(self.host, self.port))
        honest = begin()
        honest.open()
        honest.exchange(b"ping", b"pong")
        secrets.check_text("details()", str(honest.layer.details()))
        secrets.check_text("a layer", honest.layer.shown())
        for garbage in GARBAGE:
            _check_failure(secrets, begin_with_garbage(begin, garbage))
        if refusing_peer is not None:
            session = begin(by=refusing_peer)
            session.until(
                lambda: session.over or session.ready, "the peer has refused, and nothing reports it", ends=True
            )
            _check_failure(secrets, session)
        secrets.check_silent("the transport", transport)
        secrets.check_text("the log", caplog.text)
        secrets.check_text("what is printed", "".join(capsys.readouterr()))


def _check_failure(secrets: Secrets, session: LayerSession) -> None:
    secrets.check_text("details()", str(session.layer.details()))
    secrets.check_text("a layer", session.layer.shown())
    if session.failure is not None:
        secrets.check_error(session.failure)
