"""Brokers for the conformance suites of these mechanisms and for `ottla plugins check`; they verify each message.

They need ottla-testkit, so no other module may import this.
"""

from ottla_authenticator_sasl.conformance.gssapi import GssapiConformance
from ottla_authenticator_sasl.conformance.oauthbearer import OAuthBearerConformance
from ottla_authenticator_sasl.conformance.plain import PlainConformance
from ottla_authenticator_sasl.conformance.scram import ScramSha256Conformance, ScramSha512Conformance

__all__ = [
    "GssapiConformance",
    "OAuthBearerConformance",
    "PlainConformance",
    "ScramSha256Conformance",
    "ScramSha512Conformance",
]
