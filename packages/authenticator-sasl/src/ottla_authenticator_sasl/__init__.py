"""Ottla's SASL mechanisms: PLAIN, SCRAM, OAUTHBEARER and GSSAPI. A token provider may return a `Token`."""

from ottla_authenticator_sasl.bearer_token import Token

__all__ = ["Token"]
__version__ = "0.1.0"
