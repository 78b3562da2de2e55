"""What the suites need to know of these mechanisms, also for `ottla plugins check`: brokers that check what is said.

They need ottla-testkit, so nothing else may import this.
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
