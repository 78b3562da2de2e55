"""Every mechanism keeps the whole contract, at brokers that check what a real one does."""

from __future__ import annotations

import pytest

from ottla.interfaces import Mechanism
from ottla_authenticator_sasl.conformance import (
    GssapiConformance,
    OAuthBearerConformance,
    PlainConformance,
    ScramSha256Conformance,
    ScramSha512Conformance,
)
from sasl_plugins import mechanism

pytestmark = pytest.mark.unmeasured


class TestPlain(PlainConformance):
    @pytest.fixture
    def mechanism(self) -> Mechanism:
        return mechanism("PLAIN", self.settings)


class TestScramSha256(ScramSha256Conformance):
    @pytest.fixture
    def mechanism(self) -> Mechanism:
        return mechanism("SCRAM-SHA-256", self.settings)


class TestScramSha512(ScramSha512Conformance):
    @pytest.fixture
    def mechanism(self) -> Mechanism:
        return mechanism("SCRAM-SHA-512", self.settings)


class TestOAuthBearer(OAuthBearerConformance):
    @pytest.fixture
    def mechanism(self) -> Mechanism:
        return mechanism("OAUTHBEARER", self.settings)


class TestGssapi(GssapiConformance):
    """With a library of its own."""
