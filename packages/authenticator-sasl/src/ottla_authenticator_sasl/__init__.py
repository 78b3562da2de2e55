"""Ottla's SASL mechanisms: PLAIN, SCRAM, OAUTHBEARER and GSSAPI. `Token` is what a token provider may return."""

from ottla_authenticator_sasl.bearer_token import Token

__all__ = ["Token"]
__version__ = "0.1.0"
